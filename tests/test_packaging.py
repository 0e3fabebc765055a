"""What the layout must never lose, and the bounds that the generated code sets."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def dependencies() -> dict[str, str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        listed: list[str] = tomllib.load(file)["project"]["dependencies"]
    return {re.split(r"[<>=]", each)[0]: each for each in listed}


def test_the_source_roots_are_no_packages() -> None:
    """`cmd` would hide the standard library's module, `proto` overwrite another project's."""
    for root in ("cmd", "proto", "tests", "deploy"):
        assert not (ROOT / root / "__init__.py").exists()


def test_no_folder_of_tests_hides_a_package() -> None:
    packages = {"registrar", "health", "metrics", "csi", "pluginregistration"}
    assert packages.isdisjoint(path.name for path in (ROOT / "tests").iterdir())


def test_every_package_says_that_it_is_typed() -> None:
    packages = ("registrar", "health", "metrics", "proto/csi", "proto/pluginregistration")
    for package in (*packages, *(str(p.parent) for p in ROOT.glob("cmd/*/__init__.py"))):
        assert (ROOT / package / "py.typed").exists()


def test_the_lower_bounds_are_those_that_the_generated_code_checks_at_import() -> None:
    services = (ROOT / "proto/csi/v1/csi_pb2_grpc.py").read_text(encoding="utf-8")
    messages = (ROOT / "proto/csi/v1/csi_pb2.py").read_text(encoding="utf-8")
    generator = re.search(r"GRPC_GENERATED_VERSION = '([\d.]+)'", services)
    runtime = re.search(r"Protobuf Python Version: ([\d.]+)", messages)
    assert generator is not None
    assert runtime is not None
    assert dependencies()["grpcio"] == f"grpcio>={generator[1]}"
    assert dependencies()["protobuf"].startswith(f"protobuf>={runtime[1]},")
