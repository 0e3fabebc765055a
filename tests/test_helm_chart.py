"""What the Helm chart renders: valid objects, each value moves something, drivers of all kinds."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from charting import (
    CHART,
    DRIVER,
    DRIVER_NAME,
    OPERATOR_APIS,
    OTHER_DRIVER,
    Values,
    leaves,
    nested,
    render,
)
from rendering import ROOT, Object, checkov, containers, kustomize, of_kind, pod_spec, validate

from csi_node_driver_registrar.config import parse_registrar

SIDECAR = "node-driver-registrar"
ELSEWHERE = "/var/lib/k0s/kubelet"

ALTERNATIVES: dict[str, Any] = {
    "kubeletRoot": ELSEWHERE,
    "drivers": [DRIVER, OTHER_DRIVER],
    "hostNetwork": True,
    "registrar.name": "registrar",
    "registrar.image.repository": "registry.example.com/csi-node-driver-registrar",
    "registrar.image.tag": "1.2.3",
    "registrar.image.digest": "sha256:" + 64 * "a",
    "registrar.image.pullPolicy": "Always",
    "registrar.port": 19809,
    "registrar.localhostOnly": True,
    "registrar.timeout": "1m30s",
    "registrar.probeTimeout": "2s",
    "registrar.onRegistrationFailure": "exit",
    "registrar.loggingFormat": "json",
    "registrar.verbosity": 5,
    "registrar.extraArgs": ["--monitor-interval=30s"],
    "registrar.extraEnv": [{"name": "PYTHONUNBUFFERED", "value": "1"}],
    "registrar.extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    "registrar.resources.requests": {"cpu": "20m"},
    "registrar.resources.limits": {"memory": "128Mi"},
    "registrar.securityContext": {"runAsGroup": 1000},
    "registrar.privileged": True,
    "registrar.startupProbe.failureThreshold": 99,
    "registrar.startupProbe.initialDelaySeconds": 1,
    "registrar.startupProbe.periodSeconds": 7,
    "registrar.startupProbe.terminationGracePeriodSeconds": 7,
    "registrar.startupProbe.timeoutSeconds": 7,
    "registrar.livenessProbe.failureThreshold": 99,
    "registrar.livenessProbe.initialDelaySeconds": 1,
    "registrar.livenessProbe.periodSeconds": 7,
    "registrar.livenessProbe.terminationGracePeriodSeconds": 7,
    "registrar.livenessProbe.timeoutSeconds": 7,
    "registrar.readinessProbe.failureThreshold": 99,
    "registrar.readinessProbe.initialDelaySeconds": 1,
    "registrar.readinessProbe.periodSeconds": 7,
    "registrar.readinessProbe.successThreshold": 2,
    "registrar.readinessProbe.timeoutSeconds": 7,
    "registrar.driverLivenessProbe.failureThreshold": 99,
    "registrar.driverLivenessProbe.initialDelaySeconds": 1,
    "registrar.driverLivenessProbe.periodSeconds": 7,
    "registrar.driverLivenessProbe.terminationGracePeriodSeconds": 7,
    "registrar.driverLivenessProbe.timeoutSeconds": 7,
    "daemonSet.create": "never",
    "daemonSet.annotations": {"example.com/a": "b"},
    "daemonSet.updateStrategy.type": "OnDelete",
    "daemonSet.updateStrategy.rollingUpdate.maxUnavailable": "10%",
    "daemonSet.updateStrategy.rollingUpdate.maxSurge": 1,
    "serviceAccount.create": False,
    "serviceAccount.name": "storage",
    "serviceAccount.annotations": {"example.com/a": "b"},
    "serviceAccount.automountToken": True,
    "imagePullSecrets": [{"name": "pull"}],
    "commonLabels": {"example.com/team": "storage"},
    "podLabels": {"example.com/a": "b"},
    "podAnnotations": {"example.com/a": "b"},
    "podSecurityContext": {"fsGroup": 1000},
    "priorityClassName": "storage-critical",
    "terminationGracePeriodSeconds": 60,
    "nodeSelector": {"example.com/storage": "true"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "example.com/no-storage", "operator": "DoesNotExist"}
                        ]
                    }
                ]
            }
        }
    },
    "tolerations": [{"key": "example.com/storage", "operator": "Exists"}],
    "initContainers": [{"name": "first", "image": "registry.example.com/first:1"}],
    "extraContainers": [{"name": "third", "image": "registry.example.com/third:1"}],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "podSelector": {"app": "my-driver"},
    "fullnameOverride": "my-driver-node",
    "podMonitor.create": "never",
    "podMonitor.labels": {"release": "prometheus"},
    "podMonitor.interval": "15s",
    "podMonitor.relabelings": [{"targetLabel": "cluster", "replacement": "c"}],
    "prometheusRule.create": "never",
    "prometheusRule.labels": {"release": "prometheus"},
    "prometheusRule.runbookBaseUrl": "https://runbooks.example.com/csi/",
    "grafanaDashboards.enabled": False,
    "grafanaDashboards.namespace": "monitoring",
    "grafanaDashboards.labels": {"dashboards": "yes"},
    "grafanaDashboards.annotations": {"grafana_folder": "Storage"},
    "networkPolicy.enabled": False,
    "networkPolicy.from": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
    "networkPolicy.extraIngress": [{"ports": [{"port": 9000}]}],
    "networkPolicy.egress": [],
}
"""For every value another one than the default."""

ALL_ON: Values = {
    "grafanaDashboards": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "extraVolumes": [{"name": "more", "hostPath": {"path": "/opt/more"}}],
}
"""So that every value has something that it can move."""

NEEDED: dict[str, Values] = {
    "daemonSet.create": {"podSelector": {"app": "my-driver"}},
    "daemonSet.updateStrategy.rollingUpdate.maxSurge": nested(
        "daemonSet.updateStrategy.rollingUpdate.maxUnavailable", 0
    ),
    "daemonSet.updateStrategy.type": {"daemonSet": {"updateStrategy": {"rollingUpdate": None}}},
    "registrar.localhostOnly": {"hostNetwork": True},
    "serviceAccount.annotations": {"serviceAccount": {"create": True}},
}
"""What has to be set beside it for some."""


def merged(*many: Values) -> dict[str, Any]:
    """Return values as Helm merges several files of them, the last one first."""
    result: dict[str, Any] = {}
    for values in many:
        for key, value in values.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else value
    return result


def sidecar(rendered: Iterable[Object], name: str = SIDECAR) -> Object:
    (workload,) = of_kind("DaemonSet", rendered)
    return containers(workload)[name]


def paths_of(rendered: Iterable[Object]) -> set[str]:
    """Return all paths of the host that a DaemonSet mounts or tells."""
    (workload,) = of_kind("DaemonSet", rendered)
    mounted = {each["hostPath"]["path"] for each in pod_spec(workload)["volumes"]}
    config = parse_registrar(sidecar([workload])["args"])
    return mounted | {driver.kubelet_registration_path for driver in config.drivers}


def test_every_value_of_the_schema_has_an_alternative_here() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    known = set(leaves(schema, schema["definitions"])) - {"global", "enabled"}
    assert set(ALTERNATIVES) == known


@pytest.mark.parametrize("name", ALTERNATIVES)
def test_every_value_moves_something_and_what_comes_out_is_valid(name: str) -> None:
    needed = merged(ALL_ON, NEEDED.get(name, {}))
    before = render(needed, apis=OPERATOR_APIS)
    after = render(merged(needed, nested(name, ALTERNATIVES[name])), apis=OPERATOR_APIS)
    assert before != after
    validate(after)
    if of_kind("DaemonSet", after):
        parse_registrar(
            sidecar(after, "registrar" if name == "registrar.name" else SIDECAR)["args"]
        )


def test_the_defaults_and_all_that_can_be_turned_on_are_valid() -> None:
    kinds = {"DaemonSet", "ServiceAccount"}
    monitoring = {"PodMonitor", "PrometheusRule"}
    bare = render({})
    full = render(ALL_ON, apis=OPERATOR_APIS)
    validate(bare)
    validate(full)
    assert {one["kind"] for one in bare} == kinds
    assert {one["kind"] for one in full} >= kinds | monitoring | {"NetworkPolicy"}


def test_checkov_finds_nothing_that_is_not_reasoned_away(tmp_path: Path) -> None:
    text = yaml.safe_dump_all(render(ALL_ON, apis=OPERATOR_APIS))
    (tmp_path / "rendered.yaml").write_text(text, encoding="utf-8")
    assert checkov(tmp_path) == []


def test_the_sidecar_is_that_of_the_kustomize_base() -> None:
    """All but the image's origin, and the variable in which kustomize keeps kubelet's root."""
    (base,) = of_kind("DaemonSet", kustomize(ROOT / "deploy" / "kustomize" / "base"))
    theirs = containers(base)[SIDECAR]
    driver = {
        "name": "hostpath.csi.k8s.io",
        "socketPath": "plugins/csi-hostpath/csi.sock",
        "container": {"image": "registry.example.com/hostpath:v1.0.0"},
    }
    rendered = render({"drivers": [driver]})
    (workload,) = of_kind("DaemonSet", rendered)
    ours = containers(workload)[SIDECAR]
    seccomp = {"seccompProfile": pod_spec(base)["securityContext"]["seccompProfile"]}
    assert ours["securityContext"] == {**seccomp, **theirs["securityContext"]}
    variables = {each["name"]: each["value"] for each in theirs["env"]}
    assert ours["args"] == [filled_in(word, variables) for word in theirs["args"]]
    set_apart = {"args", "env", "image", "imagePullPolicy", "securityContext"}
    assert {key: value for key, value in ours.items() if key not in set_apart} == {
        key: value for key, value in theirs.items() if key not in set_apart
    }


@pytest.mark.parametrize(
    "field",
    [
        "priorityClassName",
        "securityContext",
        "tolerations",
        "nodeSelector",
        "terminationGracePeriodSeconds",
        "automountServiceAccountToken",
    ],
)
def test_the_pod_is_that_of_the_kustomize_base(field: str) -> None:
    (base,) = of_kind("DaemonSet", kustomize(ROOT / "deploy" / "kustomize" / "base"))
    (workload,) = of_kind("DaemonSet", render({}))
    assert pod_spec(workload)[field] == pod_spec(base)[field]
    assert workload["spec"]["updateStrategy"] == base["spec"]["updateStrategy"]


def test_the_drivers_own_liveness_is_asked_of_the_sidecar_as_in_the_kustomize_base() -> None:
    (base,) = of_kind("DaemonSet", kustomize(ROOT / "deploy" / "kustomize" / "base"))
    assert (
        sidecar(render({}), "driver")["livenessProbe"]
        == (containers(base)["hostpath"]["livenessProbe"])
    )


def test_one_value_moves_every_path_below_kubelets_root() -> None:
    here, there = paths_of(render({})), paths_of(render({"kubeletRoot": f"{ELSEWHERE}/"}))
    assert there == {path.replace("/var/lib/kubelet", ELSEWHERE) for path in here}
    assert all(path.startswith(ELSEWHERE) for path in there)


@pytest.mark.parametrize("root", ["/var/lib/kubelet", ELSEWHERE])
def test_the_registration_folder_must_be_there_already(root: str) -> None:
    """R07: where it is made on the way, a wrong root is found by no one."""
    (workload,) = of_kind("DaemonSet", render({"kubeletRoot": root}))
    volumes = {each["name"]: each["hostPath"] for each in pod_spec(workload)["volumes"]}
    expected = {"path": f"{root}/plugins_registry", "type": "Directory"}
    assert volumes["registration-dir"] == expected


def test_several_drivers_share_one_sidecar() -> None:
    rendered = render({"drivers": [DRIVER, OTHER_DRIVER]})
    validate(rendered)
    config = parse_registrar(sidecar(rendered)["args"])
    assert [(each.csi_address, each.kubelet_registration_path) for each in config.drivers] == [
        ("/csi-1/csi.sock", f"/var/lib/kubelet/plugins/{DRIVER_NAME}/csi.sock"),
        ("/csi-2/csi.sock", "/var/lib/kubelet/plugins/y.csi.example.com/csi.sock"),
    ]
    (workload,) = of_kind("DaemonSet", rendered)
    volumes = {each["name"]: each["hostPath"]["path"] for each in pod_spec(workload)["volumes"]}
    for number, name in enumerate((DRIVER_NAME, "y.csi.example.com"), start=1):
        own = containers(workload)[f"driver-{number}"]
        assert own["livenessProbe"]["httpGet"]["path"] == f"/healthz/csi-probe?driver={name}"
        mounted = [each["name"] for each in own["volumeMounts"] if each["mountPath"] != "/csi"]
        assert mounted == [f"plugin-dir-{number}", "kubelet-dir"]
        assert volumes[f"plugin-dir-{number}"] == f"/var/lib/kubelet/plugins/{name}"


def test_a_drivers_socket_may_lie_elsewhere() -> None:
    """In many charts the folder has another name than the driver."""
    rendered = render({"drivers": [{**DRIVER, "socketPath": "plugins/csi-x/csi_sock"}]})
    (driver,) = parse_registrar(sidecar(rendered)["args"]).drivers
    assert driver.csi_address == "/csi/csi_sock"
    assert driver.kubelet_registration_path == "/var/lib/kubelet/plugins/csi-x/csi_sock"


def test_what_is_given_of_a_drivers_container_stands() -> None:
    given: dict[str, Any] = {
        "name": "mine",
        "image": "registry.example.com/mine:1",
        "livenessProbe": {"exec": {"command": ["true"]}},
        "securityContext": {"privileged": True, "runAsUser": 0},
        "volumeMounts": [{"name": "kubelet-dir", "mountPath": "/kubelet"}],
    }
    rendered = render({"drivers": [{"name": DRIVER_NAME, "container": given}]})
    validate(rendered)
    own = sidecar(rendered, "mine")
    mounts = own.pop("volumeMounts")
    assert given["volumeMounts"][0] in mounts
    assert {each["mountPath"] for each in mounts} == {"/csi", "/var/lib/kubelet", "/kubelet"}
    assert {key: own[key] for key in given if key != "volumeMounts"} == {
        key: value for key, value in given.items() if key != "volumeMounts"
    }


def test_a_drivers_object_is_made_if_its_spec_is_given() -> None:
    spec = {"attachRequired": False, "podInfoOnMount": True}
    rendered = render({"drivers": [{**DRIVER, "csiDriver": spec}]})
    validate(rendered)
    (made,) = of_kind("CSIDriver", rendered)
    assert (made["metadata"]["name"], made["spec"]) == (DRIVER_NAME, spec)


def test_on_localhost_kubelet_asks_there_and_nobody_is_told_to_scrape() -> None:
    values = {"hostNetwork": True, "registrar": {"localhostOnly": True, "port": 19809}}
    rendered = render(values, apis=OPERATOR_APIS)
    validate(rendered)
    own = sidecar(rendered)
    assert parse_registrar(own["args"]).http_endpoint == "127.0.0.1:19809"
    probed = [own[each] for each in ("startupProbe", "livenessProbe", "readinessProbe")]
    probed.append(sidecar(rendered, "driver")["livenessProbe"])
    assert {each["httpGet"]["host"] for each in probed} == {"127.0.0.1"}
    assert [port["hostIP"] for port in own["ports"]] == ["127.0.0.1"]
    assert not of_kind("PodMonitor", rendered)


def test_a_privileged_sidecar_does_not_forbid_what_privileged_implies() -> None:
    """An API server refuses allowPrivilegeEscalation=false beside privileged=true."""
    context = sidecar(render({"registrar": {"privileged": True}}))["securityContext"]
    assert context["privileged"] is True
    assert "allowPrivilegeEscalation" not in context
    assert context["readOnlyRootFilesystem"] is True


def test_the_monitor_names_the_node_and_finds_the_pods() -> None:
    rendered = render({}, apis=OPERATOR_APIS)
    (monitor,), (workload,) = of_kind("PodMonitor", rendered), of_kind("DaemonSet", rendered)
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    node = {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}
    assert node in endpoint["relabelings"]
    selected = monitor["spec"]["selector"]["matchLabels"]
    assert selected.items() <= workload["spec"]["template"]["metadata"]["labels"].items()
    assert endpoint["port"] in [port["name"] for port in sidecar(rendered)["ports"]]


@pytest.mark.parametrize("kind", ["PodMonitor", "PrometheusRule"])
def test_an_operators_object_needs_the_operator_unless_it_is_forced(kind: str) -> None:
    value = kind[0].lower() + kind[1:]
    assert not of_kind(kind, render({}))
    assert of_kind(kind, render(nested(f"{value}.create", "always")))
    assert not of_kind(kind, render(nested(f"{value}.create", "never"), apis=OPERATOR_APIS))


@pytest.mark.parametrize("base", ["https://runbooks.example.com/csi", "https://r.example.com/"])
def test_every_alert_links_to_its_runbook_below_the_base(base: str) -> None:
    rendered = render(nested("prometheusRule.runbookBaseUrl", base), apis=OPERATOR_APIS)
    links = {alert["alert"]: alert["annotations"]["runbook_url"] for alert in alerts(rendered)}
    assert links == {name: f"{base.rstrip('/')}/{name}.md" for name in links}


def test_without_a_base_no_alert_has_a_link() -> None:
    found = alerts(render({}, apis=OPERATOR_APIS))
    assert found
    assert not [alert["alert"] for alert in found if "runbook_url" in alert["annotations"]]


def test_every_dashboard_is_in_a_config_map_that_grafanas_sidecar_finds() -> None:
    rendered = render({"grafanaDashboards": {"enabled": True}})
    validate(rendered)
    contents: dict[str, str] = {}
    for each in of_kind("ConfigMap", rendered):
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        contents |= each["data"]
    files = (CHART / "files" / "dashboards").glob("*.json")
    originals = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in files}
    assert originals
    assert {name: json.loads(content) for name, content in contents.items()} == originals


def alerts(rendered: Iterable[Object]) -> list[Object]:
    (rule,) = of_kind("PrometheusRule", rendered)
    every = [each for group in rule["spec"]["groups"] for each in group["rules"]]
    return [each for each in every if "alert" in each]


def filled_in(word: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        word = word.replace(f"$({name})", value)
    return word
