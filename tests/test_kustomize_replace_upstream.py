"""The component that puts the sidecar into DaemonSets made for the two Go ones.

`data/daemonsets/` has them as public charts and operators of CSI drivers ship them, each the
containers that matter here; of the driver's own container, what its probes need.
"""

import dataclasses
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from rendering import KUSTOMIZE, Object, containers, objects, of_kind, overlay, pod_spec, validate

from csi_node_driver_registrar.config import Config, parse_livenessprobe, parse_registrar
from csi_node_driver_registrar.version import __version__

DAEMONSETS = Path(__file__).parent / "data" / "daemonsets"
TWO_DRIVERS = DAEMONSETS / "two-drivers"
OWN_HEALTH = DAEMONSETS / "local-csi-driver.yaml"
ONE_DRIVER = sorted(set(DAEMONSETS.glob("*.yaml")) - {OWN_HEALTH})

IMAGE = f"csi-node-driver-registrar:{__version__}"
PORT = 9809
PROBES = {
    "startupProbe": "/livez",
    "livenessProbe": "/healthz",
    "readinessProbe": "/readyz",
}
KEPT = ("name", "command", "env", "volumeMounts", "resources", "securityContext")

each_daemonset = pytest.mark.parametrize("path", ONE_DRIVER, ids=lambda path: str(path.stem))


def original(path: Path) -> Object:
    (daemonset,) = objects(path.read_text(encoding="utf-8"))
    return daemonset


def built(path: Path, *components: str) -> Object:
    with TemporaryDirectory() as folder:
        rendered = overlay(Path(folder), resources=[path], components=components)
    validate(rendered)
    (daemonset,) = of_kind("DaemonSet", rendered)
    return daemonset


@cache
def replaced(path: Path) -> Object:
    return built(path, "replace-upstream")


def is_registrar(container: Object) -> bool:
    return any("kubelet-registration-path" in word for word in container.get("args", []))


def is_livenessprobe(container: Object) -> bool:
    words = [container["name"], container["image"], *container.get("args", [])]
    return not is_registrar(container) and any("livenessprobe" in word for word in words)


def argv(container: Object) -> list[str]:
    """Return the arguments as the process gets them, without the program's name."""
    environment = {
        one["name"]: one.get("value", "/csi/csi-vpc-file.sock") for one in container.get("env", [])
    }
    words = [word for word in container["args"] if word != "csi-node-driver-registrar"]
    return [re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], word) for word in words]


def port_of(livenessprobe: Object) -> int:
    words = [word for word in argv(livenessprobe) if word != "livenessprobe"]
    return int(parse_livenessprobe(words).http_endpoint.rpartition(":")[2])


def probes(daemonset: Object) -> Iterator[tuple[str, str, Object, int | None]]:
    """Yield container, kind, probe and the number of the port that an HTTP probe asks."""
    for name, container in containers(daemonset).items():
        numbers = {one.get("name"): one["containerPort"] for one in container.get("ports", [])}
        for kind in PROBES:
            if kind in container:
                port = container[kind].get("httpGet", {}).get("port")
                yield name, kind, container[kind], numbers.get(port, port)


@each_daemonset
def test_one_sidecar_stays_of_the_two_and_all_else_of_the_pod(path: Path) -> None:
    before, after = original(path), replaced(path)
    stay = [name for name, one in containers(before).items() if not is_livenessprobe(one)]
    assert list(containers(after)) == stay
    assert [one["image"] for one in containers(after).values() if is_registrar(one)] == [IMAGE]
    others = {key: value for key, value in pod_spec(after).items() if key != "containers"}
    assert others == {key: value for key, value in pod_spec(before).items() if key != "containers"}


@each_daemonset
def test_the_sidecar_keeps_what_the_registrar_had_and_gets_its_probes(path: Path) -> None:
    (before,) = filter(is_registrar, containers(original(path)).values())
    (after,) = filter(is_registrar, containers(replaced(path)).values())
    assert {key: after.get(key) for key in KEPT} == {key: before.get(key) for key in KEPT}
    assert after["lifecycle"] == {"preStop": None}
    unrelated = [one for one in before.get("ports", []) if "healthz" not in one["name"]]
    ours = {"name": "registrar", "containerPort": PORT, "protocol": "TCP", "hostIP": "127.0.0.1"}
    assert sorted(after["ports"], key=str) == sorted([*unrelated, ours], key=str)
    for kind, where in PROBES.items():
        assert after[kind]["httpGet"] == {"path": where, "port": "registrar"}


@each_daemonset
def test_our_own_parser_reads_the_sidecars_arguments_as_the_registrars_with_our_endpoint(
    path: Path,
) -> None:
    (before,) = filter(is_registrar, containers(original(path)).values())
    (after,) = filter(is_registrar, containers(replaced(path)).values())
    config = parse_registrar(argv(after))
    assert config.http_endpoint == f":{PORT}"
    assert not config.warnings
    assert config == _with_endpoint(parse_registrar(argv(before)))
    assert "csi-node-driver-registrar" not in after["args"]


def _with_endpoint(config: Config) -> Config:
    return dataclasses.replace(config, http_endpoint=f":{PORT}", warnings=())


@each_daemonset
def test_probes_that_asked_livenessprobe_ask_the_sidecar_and_no_other_changes(path: Path) -> None:
    before = original(path)
    asked = {port_of(one) for one in containers(before).values() if is_livenessprobe(one)}
    after = {(name, kind): probe for name, kind, probe, _ in probes(replaced(path))}
    moved = 0
    for name, kind, probe, port in probes(before):
        if is_registrar(containers(before)[name]):
            continue
        expected = dict(probe)
        if port in asked:
            expected["httpGet"] = {"path": "/healthz/csi-probe", "port": PORT}
            moved += 1
        assert after[name, kind] == expected
    assert moved or not asked


@each_daemonset
def test_nothing_refers_to_what_was_removed(path: Path) -> None:
    before = original(path)
    gone = [one for one in containers(before).values() if is_livenessprobe(one)]
    after = replaced(path)
    text = json.dumps(after)
    assert "rm -rf" not in text
    assert "removed-" not in text
    assert "scratch" not in text
    for livenessprobe in gone:
        assert livenessprobe["name"] not in text
        assert livenessprobe["image"] not in text
    old = {port_of(one) for one in gone} - {PORT}
    declared = [
        one for name in containers(after) for one in containers(after)[name].get("ports", [])
    ]
    assert not old & {one["containerPort"] for one in declared}


def test_the_shapes_of_the_field_are_all_there() -> None:
    """So that none of the tests above is true of nothing."""
    assert len(ONE_DRIVER) >= 10
    every = [(one, pod_spec(original(one))) for one in ONE_DRIVER]
    texts = {path.stem: json.dumps(spec) for path, spec in every}
    for sign, at_least in {
        "--http-endpoint=": 4,
        "-health-port": 4,
        '"hostNetwork": true': 6,
        "kubelet-registration-probe": 2,
        '"preStop"': 3,
        '"readinessProbe"': 1,
        "/var/snap/microk8s": 1,
        '"32Mi"': 1,
        '"port": 9808': 1,
        '"mayastor-node"': 1,
    }.items():
        assert sum(sign in text for text in texts.values()) >= at_least, sign
    names = {name for path in ONE_DRIVER for name in containers(original(path))}
    assert len([name for name in names if "registrar" in name]) >= 5
    assert len([name for name in names if "liveness" in name]) >= 2


@pytest.mark.parametrize("style", ['"', "'", None])
@pytest.mark.parametrize("name", ["beegfs", "dynatrace", "spiffe", "smb"])
def test_it_does_not_matter_in_which_style_of_yaml_a_manifest_is_written(
    name: str, style: str | None, tmp_path: Path
) -> None:
    """Because kustomize compares text where the component asks for more than a name."""
    path = DAEMONSETS / f"{name}.yaml"
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    flow = yaml.safe_dump(original(path), default_style=style, default_flow_style=True)
    source = tmp_path / "in" / "daemonset.yaml"
    source.write_text(json.dumps(original(path)) if style is None else flow, encoding="utf-8")
    assert built(source, "replace-upstream") == replaced(path)


def test_the_component_may_be_applied_to_its_own_result(tmp_path: Path) -> None:
    path = DAEMONSETS / "azuredisk.yaml"
    source = tmp_path / "daemonset.yaml"
    source.write_text(yaml.safe_dump(replaced(path)), encoding="utf-8")
    assert built(source, "replace-upstream") == replaced(path)


def test_a_driver_that_answers_probes_itself_keeps_them_with_the_registrar_alone_replaced() -> None:
    before, after = original(OWN_HEALTH), built(OWN_HEALTH, "replace-registrar")
    assert containers(after)["driver"] == containers(before)["driver"]
    assert containers(after)["csi-registrar"]["image"] == IMAGE
    assert containers(after)["csi-registrar"]["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert json.dumps(after).count("scratch") == 0


def test_daemonsets_for_windows_and_those_without_a_csi_driver_stay_as_they_are(
    tmp_path: Path,
) -> None:
    windows = original(DAEMONSETS / "azuredisk.yaml")
    windows["metadata"]["name"] += "-win"
    other = original(DAEMONSETS / "azuredisk.yaml")
    other["metadata"]["name"] = "log-collector"
    pod_spec(other)["containers"] = [{"name": "collector", "image": "registry.example.com/logs:v1"}]
    source = tmp_path / "others.yaml"
    source.write_text(yaml.safe_dump_all([windows, other]), encoding="utf-8")
    (tmp_path / "build").mkdir()
    rendered = overlay(
        tmp_path / "build",
        resources=[source, DAEMONSETS / "smb.yaml"],
        components=["replace-upstream"],
    )
    after = {one["metadata"]["name"]: pod_spec(one) for one in rendered}
    assert after["csi-azuredisk-node-win"] == pod_spec(windows)
    assert after["log-collector"] == pod_spec(other)
    assert IMAGE in json.dumps(after["csi-smb-node"])


def test_another_port_is_one_setting(tmp_path: Path) -> None:
    """29643 is the one that livenessprobe had, which is free on each of that driver's nodes."""
    path = DAEMONSETS / "smb.yaml"
    settings = (KUSTOMIZE / "components/replace-upstream/settings/settings.yaml").read_text("utf-8")
    mine = tmp_path / "settings"
    mine.mkdir()
    (mine / "settings.yaml").write_text(settings.replace("port: 9809", "port: 29643"), "utf-8")
    component = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
    (mine / "kustomization.yaml").write_text(component + "resources: [settings.yaml]\n", "utf-8")
    steps = [
        f"replace-upstream/steps/{one}" for one in ("begin", "livenessprobe", "registrar", "end")
    ]
    build = tmp_path / "build"
    build.mkdir()
    rendered = overlay(build, resources=[path], components=[str(mine), *steps])
    validate(rendered)
    text = json.dumps(rendered)
    assert "9809" not in text
    assert "--http-endpoint=:29643" in text
    driver = containers(rendered[0])["smb"]
    assert driver["livenessProbe"]["httpGet"] == {"path": "/healthz/csi-probe", "port": 29643}


def test_on_the_hosts_network_the_sidecar_can_answer_on_localhost_alone() -> None:
    after = built(DAEMONSETS / "smb.yaml", "replace-upstream", "host-network")
    sidecar = containers(after)["node-driver-registrar"]
    assert parse_registrar(argv(sidecar)).http_endpoint == "127.0.0.1:9809"
    asked = {(name, kind): probe["httpGet"]["host"] for name, kind, probe, _ in probes(after)}
    assert asked == {
        ("smb", "livenessProbe"): "127.0.0.1",
        **{("node-driver-registrar", kind): "127.0.0.1" for kind in PROBES},
    }


def test_two_drivers_in_one_pod_have_a_sidecar_each_with_a_port_of_its_own(tmp_path: Path) -> None:
    """The one shape for which the component needs a patch beside it."""
    daemonset, patch = TWO_DRIVERS / "daemonset.yaml", TWO_DRIVERS / "second-driver.yaml"
    rendered = overlay(
        tmp_path, resources=[daemonset], components=["replace-upstream"], patches=[patch]
    )
    validate(rendered)
    after = rendered[0]
    assert not [name for name in containers(after) if "liveness" in name]
    sidecars = [one for one in containers(after).values() if is_registrar(one)]
    assert [one["image"] for one in sidecars] == [IMAGE] * 2
    endpoints = [parse_registrar(argv(one)).http_endpoint for one in sidecars]
    assert sorted(endpoints) == [":24913", ":9809"]
    assert [f":{one['ports'][0]['containerPort']}" for one in sidecars] == endpoints
    folders = {one["name"]: one["volumeMounts"][0]["name"] for one in containers(after).values()}
    ports = {folders[one["name"]]: one["ports"][0]["containerPort"] for one in sidecars}
    for name, _, probe, _ in probes(after):
        if "registrar" not in name:
            asked = {"path": "/healthz/csi-probe", "port": ports[folders[name]]}
            assert probe["httpGet"] == asked
