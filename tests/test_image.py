"""What the image is made of, as far as it shows without building it (`.ci/image-test` does)."""

import re
import tomllib
from pathlib import Path

from csi_node_driver_registrar.version import __version__

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
LOCK = (ROOT / "deploy/requirements.txt").read_text(encoding="utf-8")

with (ROOT / "pyproject.toml").open("rb") as _file:
    PROJECT = tomllib.load(_file)

SIMULATOR = "cmd/csi_registration_simulator"


def locked() -> dict[str, str]:
    """Return the locked versions, each one with its hashes."""
    return dict(re.findall(r"(?m)^([\w-]+)==(.*(?:\n .*)*)", LOCK))


def test_every_dependency_of_the_project_is_locked_with_hashes() -> None:
    listed = PROJECT["project"]["dependencies"]
    assert {re.split(r"[<>=]", each)[0] for each in listed} <= locked().keys()
    assert all("--hash=sha256:" in text for text in locked().values())


def test_the_image_holds_the_packages_of_the_wheel_without_the_simulator() -> None:
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    copied = re.findall(r"(?m)^COPY (\S+) (\w+)$", DOCKERFILE)
    assert {source for source, _ in copied} == packages - {SIMULATOR}
    assert all(Path(source).name == name for source, name in copied)


def test_the_image_holds_every_command_of_the_wheel() -> None:
    scripts = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-scripts"]
    named = re.search(r"for command in ([\w -]+);", DOCKERFILE)
    assert named is not None
    assert set(named[1].split()) == set(scripts.values())


def test_the_build_context_holds_what_the_image_is_made_of_and_nothing_else() -> None:
    ignore = (ROOT / "deploy/Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    copied = re.findall(r"(?m)^COPY ([^-]\S+) ", DOCKERFILE)
    assert {line[1:] for line in ignore if line.startswith("!")} == set(copied)
    assert "*" in ignore


def test_the_image_is_labelled_with_the_version_of_the_code() -> None:
    assert f"ARG VERSION={__version__}\n" in DOCKERFILE
