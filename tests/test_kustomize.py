"""The kustomize base and its components, alone, together, and under another root of kubelet."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from rendering import (
    KUSTOMIZE,
    VERSIONS,
    Object,
    checkov,
    containers,
    kustomize,
    objects,
    of_kind,
    overlay,
    pod_spec,
    validate,
)

from csi_node_driver_registrar.config import parse_registrar
from csi_node_driver_registrar.version import __version__

BASE = KUSTOMIZE / "base"
COMPONENTS = sorted(path.parent.name for path in KUSTOMIZE.glob("components/*/kustomization.yaml"))
TOGETHER = [name for name in COMPONENTS if name != "replace-registrar"]
"""That one is a part of replace-upstream."""


def with_components(folder: Path, names: Iterable[str]) -> list[Object]:
    return overlay(folder, resources=[BASE], components=names)


def the(kind: str, rendered: Iterable[Object]) -> Object:
    (found,) = of_kind(kind, rendered)
    return found


def sidecar(rendered: Iterable[Object]) -> Object:
    container: Object = containers(the("DaemonSet", rendered))["node-driver-registrar"]
    return container


def with_kubelet_root(root: str, folder: Path) -> list[Object]:
    """Render a copy of the base in which the one value is another."""
    mine = shutil.copytree(BASE, folder / "base")
    value = (mine / "kubelet.yaml").read_text("utf-8")
    assert value.count("\n  root: /var/lib/kubelet\n") == 1
    (mine / "kubelet.yaml").write_text(
        value.replace("root: /var/lib/kubelet", f"root: {root}"), "utf-8"
    )
    return kustomize(mine)


def test_every_release_from_1_30_to_1_37_is_asked() -> None:
    assert (VERSIONS[0], VERSIONS[-1], len(VERSIONS)) == ("1.30.0", "1.37.0", 8)


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec.update(tolerationss=[]),
        lambda spec: spec["containers"][0]["livenessProbe"]["httpGet"].update(port="health"),
        lambda spec: spec["containers"][1]["volumeMounts"][0].update(name="socket-dir"),
        lambda spec: spec["containers"][1].update(name="hostpath"),
        lambda spec: spec["containers"][0]["resources"]["limits"].update(memory=[1]),
    ],
    ids=["unknown field", "unknown port", "unknown volume", "same name", "wrong type"],
)
def test_a_mistake_in_a_pod_is_found(change: object) -> None:
    """The judge is judged: each of these is a manifest that a cluster would refuse."""
    rendered = json.loads(json.dumps(kustomize(BASE)))
    assert callable(change)
    change(pod_spec(the("DaemonSet", rendered)))
    with pytest.raises(AssertionError, match="DaemonSet csi-hostpath/csi-hostpath-node"):
        validate(rendered)


def test_a_mistake_for_the_prometheus_operator_is_found(tmp_path: Path) -> None:
    rendered = with_components(tmp_path, ["prometheus-operator"])
    the("PodMonitor", rendered)["spec"]["podMetricsEndpoint"] = []
    with pytest.raises(AssertionError, match="PodMonitor storage/csi-node-driver-registrar"):
        validate(rendered)


def test_the_base_is_valid_and_complete() -> None:
    rendered = kustomize(BASE)
    validate(rendered)
    kinds = sorted(one["kind"] for one in rendered)
    assert kinds == ["CSIDriver", "DaemonSet", "Namespace", "ServiceAccount"]
    assert the("ServiceAccount", rendered)["automountServiceAccountToken"] is False
    spec = pod_spec(the("DaemonSet", rendered))
    assert spec["serviceAccountName"] == the("ServiceAccount", rendered)["metadata"]["name"]
    assert spec["priorityClassName"] == "system-node-critical"
    assert "KUBELET_ROOT" not in json.dumps(rendered).replace('"KUBELET_ROOT"', "").replace(
        "$(KUBELET_ROOT)", ""
    )


def test_the_sidecars_probes_are_ours_and_the_drivers_asks_the_sidecar() -> None:
    rendered = kustomize(BASE)
    asked = {
        kind: sidecar(rendered)[kind]["httpGet"] for kind in sidecar(rendered) if "Probe" in kind
    }
    assert asked == {
        "startupProbe": {"path": "/livez", "port": "registrar"},
        "livenessProbe": {"path": "/healthz", "port": "registrar"},
        "readinessProbe": {"path": "/readyz", "port": "registrar"},
    }
    driver = containers(the("DaemonSet", rendered))["hostpath"]
    assert driver["livenessProbe"]["httpGet"] == {"path": "/healthz/csi-probe", "port": 9809}
    assert sidecar(rendered)["ports"][0]["containerPort"] == 9809


def test_the_sidecar_has_no_rights_that_it_does_not_need() -> None:
    """Beside what checkov says of the pod, whose driver needs more."""
    container = sidecar(kustomize(BASE))
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "cpu" not in container["resources"]["limits"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.parametrize(
    "root", ["/var/lib/k0s/kubelet", "/var/snap/microk8s/common/var/lib/kubelet"]
)
def test_one_value_moves_every_path_to_another_root_of_kubelet(root: str, tmp_path: Path) -> None:
    rendered = with_kubelet_root(root, tmp_path)
    validate(rendered)
    text = json.dumps(rendered)
    assert text.replace(root, "/var/lib/kubelet") == json.dumps(kustomize(BASE))
    volumes = {
        one["name"]: one["hostPath"] for one in pod_spec(the("DaemonSet", rendered))["volumes"]
    }
    assert volumes["registration-dir"] == {"path": f"{root}/plugins_registry", "type": "Directory"}
    environment = {one["name"]: one.get("value") for one in sidecar(rendered)["env"]}
    words = [
        word.replace("$(KUBELET_ROOT)", str(environment["KUBELET_ROOT"]))
        for word in sidecar(rendered)["args"]
    ]
    (driver,) = parse_registrar(words).drivers
    assert driver.kubelet_registration_path == f"{root}/plugins/csi-hostpath/csi.sock"


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_alone_is_valid(name: str, tmp_path: Path) -> None:
    validate(with_components(tmp_path, [name]))


def test_all_components_together_are_valid(tmp_path: Path) -> None:
    validate(with_components(tmp_path, TOGETHER))


def test_no_setting_of_a_component_reaches_the_cluster(tmp_path: Path) -> None:
    rendered = with_components(tmp_path, TOGETHER)
    assert "local-config" not in json.dumps(rendered)
    assert {one["kind"] for one in rendered} == {
        *("CSIDriver", "ConfigMap", "DaemonSet", "Namespace", "NetworkPolicy"),
        *("PodMonitor", "PrometheusRule", "ServiceAccount"),
    }


@pytest.mark.timeout(300)  # checkov takes ten seconds of CPU
def test_checkov_finds_what_is_wrong_and_nothing_in_the_base_nor_with_all_components(
    tmp_path: Path,
) -> None:
    wrong = kustomize(BASE)
    del sidecar(wrong)["resources"]
    the("DaemonSet", wrong)["metadata"]["name"] = "wrong"
    (tmp_path / "rendered").mkdir()
    for name, rendered in {
        "base.yaml": kustomize(BASE),
        "all.yaml": with_components(tmp_path, TOGETHER),
        "wrong.yaml": wrong,
    }.items():
        (tmp_path / "rendered" / name).write_text(yaml.safe_dump_all(rendered), "utf-8")
    found = {tuple(line.split(":")[0].split()) for line in checkov(tmp_path / "rendered")}
    wrong_label = "DaemonSet.csi-hostpath.wrong"
    assert found == {(f"CKV_K8S_{number}", wrong_label) for number in (10, 12, 13)}


def test_the_images_version_is_the_programs_wherever_it_is_set() -> None:
    found = [
        image["newTag"]
        for path in KUSTOMIZE.rglob("kustomization.yaml")
        for kustomization in objects(path.read_text("utf-8"))
        for image in kustomization.get("images", [])
        if image["name"] == "csi-node-driver-registrar"
    ]
    assert found == [__version__] * 2


def test_the_pod_monitor_finds_the_sidecars_port_and_adds_the_node(tmp_path: Path) -> None:
    rendered = with_components(tmp_path, ["prometheus-operator"])
    monitor = the("PodMonitor", rendered)["spec"]
    labels = the("DaemonSet", rendered)["spec"]["template"]["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["port"] == sidecar(rendered)["ports"][0]["name"]
    assert endpoint["path"] == "/metrics"
    assert endpoint["relabelings"] == [
        {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}
    ]


def test_one_setting_is_the_start_of_every_runbooks_address(tmp_path: Path) -> None:
    folder = KUSTOMIZE / "components" / "prometheus-operator"
    (settings,) = objects((folder / "settings.yaml").read_text("utf-8"))
    rule = the("PrometheusRule", with_components(tmp_path, ["prometheus-operator"]))
    alerts = [one for group in rule["spec"]["groups"] for one in group["rules"] if "alert" in one]
    assert alerts
    for alert in alerts:
        start, _, name = alert["annotations"]["runbook_url"].rpartition("/")
        assert start == settings["data"]["runbooks"]
        assert name.startswith(alert["alert"])
    assert "RUNBOOK_BASE" not in json.dumps(rule)


def test_every_dashboard_is_in_a_config_map_that_grafanas_sidecar_finds(tmp_path: Path) -> None:
    maps = of_kind("ConfigMap", with_components(tmp_path, ["grafana"]))
    there = {
        path.name: path.read_text("utf-8") for path in KUSTOMIZE.glob("components/grafana/*.json")
    }
    assert there
    found = {key: text for one in maps for key, text in one["data"].items()}
    assert {key: json.loads(text) for key, text in found.items()} == {
        key: json.loads(text) for key, text in there.items()
    }
    for one in maps:
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert len(json.dumps(one)) < 2**20, "an API server takes no ConfigMap over 1 MiB"


def test_the_network_policy_covers_the_pod_and_opens_the_sidecars_port_alone(
    tmp_path: Path,
) -> None:
    rendered = with_components(tmp_path, ["network-policy"])
    policy = the("NetworkPolicy", rendered)["spec"]
    labels = the("DaemonSet", rendered)["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    (rule,) = policy["ingress"]
    assert rule["ports"] == [
        {"protocol": "TCP", "port": sidecar(rendered)["ports"][0]["containerPort"]}
    ]
    assert policy["egress"] == []
    assert policy["policyTypes"] == ["Ingress", "Egress"]


def test_on_the_hosts_network_only_localhost_is_listened_on_and_probed(tmp_path: Path) -> None:
    rendered = with_components(tmp_path, ["host-network"])
    spec = pod_spec(the("DaemonSet", rendered))
    assert spec["hostNetwork"] is True
    assert "--http-endpoint=127.0.0.1:9809" in sidecar(rendered)["args"]
    assert sidecar(rendered)["ports"][0]["hostIP"] == "127.0.0.1"
    asked = [
        container[kind]["httpGet"]["host"]
        for container in spec["containers"]
        for kind in container
        if kind.endswith("Probe")
    ]
    assert asked == ["127.0.0.1"] * 4


def test_under_selinux_the_sidecar_is_privileged_and_the_driver_as_before(tmp_path: Path) -> None:
    rendered = with_components(tmp_path, ["selinux-privileged"])
    assert sidecar(rendered)["securityContext"] == {
        "privileged": True,
        "readOnlyRootFilesystem": True,
    }
    before = containers(the("DaemonSet", kustomize(BASE)))["hostpath"]
    assert containers(the("DaemonSet", rendered))["hostpath"] == before


@pytest.mark.parametrize("name", ["host-network", "selinux-privileged"])
def test_a_daemonset_without_the_sidecar_is_an_error_and_gets_no_container(
    name: str, tmp_path: Path
) -> None:
    """Because kustomize may make what it does not find."""
    rendered = kustomize(BASE)
    spec = pod_spec(the("DaemonSet", rendered))
    spec["containers"] = [one for one in spec["containers"] if one["name"] == "hostpath"]
    source = tmp_path / "daemonset.yaml"
    source.write_text(yaml.safe_dump(the("DaemonSet", rendered)), "utf-8")
    (tmp_path / "build").mkdir()
    with pytest.raises(AssertionError, match="unable to find field"):
        overlay(tmp_path / "build", resources=[source], components=[name])
