"""The examples of deploy/README.md: what stands before a change, and what after it."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from rendering import ROOT, Object, containers, kustomize, of_kind, validate

from csi_node_driver_registrar.config import (
    Config,
    LivenessConfig,
    Mode,
    parse_livenessprobe,
    parse_registrar,
)
from health.addresses import TcpAddress, parse_address

GUIDE = ROOT / "deploy" / "README.md"
_SECTION = re.compile(r"^#{2,3} (.+)$", re.MULTILINE)
_EXAMPLE = re.compile(r"^(Before|After)[^\n]*:\n\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SIDECAR = "node-driver-registrar"


@dataclass(frozen=True)
class Example:
    """One block of YAML: the part of a pod's spec that a section is about."""

    section: str
    is_after: bool
    pod: Object

    def __str__(self) -> str:
        return f"{self.section}, {'after' if self.is_after else 'before'}"

    def workload(self) -> Object:
        """Return a DaemonSet with this pod, and with the volumes that the example leaves out."""
        mounts = [each for one in self.pod["containers"] for each in one.get("volumeMounts", [])]
        known = {each["name"] for each in self.pod.get("volumes", [])}
        missing = sorted({each["name"] for each in mounts} - known)
        volumes = [*self.pod.get("volumes", []), *({"name": name} for name in missing)]
        labels = {"app": "example"}
        spec = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {**self.pod, "volumes": volumes}},
        }
        metadata = {"name": "example", "namespace": "example"}
        return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}

    def container(self, name: str) -> Object | None:
        """Return the container of that name, if there is one."""
        return containers(self.workload()).get(name)


def examples() -> list[Example]:
    found = []
    parts = _SECTION.split(GUIDE.read_text(encoding="utf-8"))
    for section, text in zip(parts[1::2], parts[2::2], strict=True):
        for label, block in _EXAMPLE.findall(text):
            found.append(Example(section, label == "After", yaml.safe_load(block)))
    return found


ALL = examples()
AFTER = [example for example in ALL if example.is_after]
SIDECARS = [example for example in ALL if example.container(SIDECAR)]
CHANGED = sorted({each.section for each in ALL if not each.is_after})


def arguments(container: Object) -> list[str]:
    """Return a container's arguments as kubelet fills them in."""
    values = {each["name"]: each["value"] for each in container.get("env", [])}
    return [
        re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], word) for word in container["args"]
    ]


def config_of(example: Example) -> Config:
    container = example.container(SIDECAR)
    assert container is not None
    return parse_registrar(arguments(container))


def liveness_config_of(container: Object) -> LivenessConfig:
    return parse_livenessprobe(arguments(container))


def probes(container: Object) -> list[Any]:
    names = ("startupProbe", "livenessProbe", "readinessProbe")
    return [container[name] for name in names if name in container]


def test_every_shape_is_there() -> None:
    assert len(CHANGED) >= 4
    assert len(AFTER) >= 8


@pytest.mark.parametrize("example", AFTER, ids=str)
def test_what_is_advised_is_valid_in_every_release(example: Example) -> None:
    validate([example.workload()])


@pytest.mark.parametrize("example", SIDECARS, ids=str)
def test_the_sidecars_flags_are_accepted(example: Example) -> None:
    """Those of before too: they are a Go registrar's, and may stay."""
    assert config_of(example).drivers
    assert not example.is_after or config_of(example).warnings == ()


@pytest.mark.parametrize("section", CHANGED)
def test_a_change_keeps_the_driver_where_it_is(section: str) -> None:
    before, after = (
        config_of(example)
        for is_after in (False, True)
        for example in SIDECARS
        if example.section == section and example.is_after == is_after
    )
    assert before.drivers == after.drivers


def test_a_livenessprobes_flags_are_accepted() -> None:
    found = [each.container("liveness-probe") for each in ALL]
    configs = [liveness_config_of(each) for each in found if each is not None]
    assert len(configs) == 2
    assert not [warning for config in configs for warning in config.warnings]


@pytest.mark.parametrize("example", [each for each in SIDECARS if each.is_after], ids=str)
def test_every_probe_asks_where_the_sidecar_listens(example: Example) -> None:
    endpoint = config_of(example).http_endpoint
    for container in containers(example.workload()).values():
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        for probe in probes(container):
            if "httpGet" not in probe:
                continue
            asked = probe["httpGet"]
            address = parse_address(endpoint)
            assert isinstance(address, TcpAddress)
            assert ports.get(asked["port"], asked["port"]) == address.port
            assert asked.get("host", "") == address.host
            if asked["path"] != "/livez":  # which waits for nobody
                assert probe["timeoutSeconds"] > config_of(example).probe_timeout_seconds


@pytest.mark.parametrize("example", SIDECARS, ids=str)
def test_an_exec_probe_asks_for_the_sidecars_own_driver(example: Example) -> None:
    container = example.container(SIDECAR)
    assert container is not None
    for probe in probes(container):
        if "exec" in probe:
            asked = parse_registrar([*probe["exec"]["command"][1:]])
            paths = [each.kubelet_registration_path for each in asked.drivers]
            assert asked.mode == Mode.EXEC_PROBE
            assert paths == [each.kubelet_registration_path for each in config_of(example).drivers]


def test_no_advised_pod_makes_kubelets_folder() -> None:
    volumes = [each for example in AFTER for each in example.pod.get("volumes", [])]
    kinds = [each["hostPath"]["type"] for each in volumes if each["name"] == "registration-dir"]
    assert len(kinds) >= 3
    assert set(kinds) == {"Directory"}


def test_the_plain_sidecar_is_that_of_the_kustomize_base() -> None:
    (base,) = of_kind("DaemonSet", kustomize(ROOT / "deploy" / "kustomize" / "base"))
    theirs = containers(base)[SIDECAR]
    ours = AFTER[0].container(SIDECAR)
    assert ours is not None
    own = {"args", "env", "image", "imagePullPolicy", "securityContext"}
    assert {key: ours[key] for key in ours if key not in own} == {
        key: theirs[key] for key in theirs if key not in own
    }
    assert theirs["securityContext"].items() <= ours["securityContext"].items()


def test_every_link_leads_somewhere() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w -]", "", each).replace(" ", "-").lower() for each in _SECTION.findall(text)
    }
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        assert (GUIDE.parent / path).exists(), target
        assert path or anchor in headings, target
