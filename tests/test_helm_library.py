"""The Helm chart as a dependency: it renders nothing by itself, and lends its templates."""

import shutil
from pathlib import Path

import pytest
from charting import CHART, HELMS, OPERATOR_APIS, Refused, helm, render
from rendering import ROOT, containers, of_kind, pod_spec, validate

from csi_node_driver_registrar.config import parse_registrar

INCLUDING = ROOT / "tests" / "data" / "including-chart"
KEY = "csi-node-driver-registrar"


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """Lay the other chart beside ours, as its dependency says, and let Helm fetch that."""
    shutil.copytree(CHART, tmp_path / CHART.name)
    copy = shutil.copytree(INCLUDING, tmp_path / INCLUDING.name)
    helm(HELMS[0], "dependency", "update", str(copy))
    return copy


def test_another_chart_gets_a_sidecar_that_fits_its_driver(chart: Path) -> None:
    rendered = render({"kubeletDir": "/var/lib/k0s/kubelet"}, chart=chart)
    validate(rendered)
    (workload,) = of_kind("DaemonSet", rendered)
    config = parse_registrar(containers(workload)["node-driver-registrar"]["args"])
    (driver,) = config.drivers
    path = "/var/lib/k0s/kubelet/plugins/z.csi.example.com/csi.sock"
    assert (driver.csi_address, driver.kubelet_registration_path) == ("/csi/csi.sock", path)
    assert config.http_endpoint == ":29809"
    probe = containers(workload)["z"]["livenessProbe"]
    assert probe["httpGet"] == {"path": "/healthz/csi-probe", "port": 29809}
    assert {each["hostPath"]["path"] for each in pod_spec(workload)["volumes"]} == {
        "/var/lib/k0s/kubelet/plugins/z.csi.example.com",
        "/var/lib/k0s/kubelet/plugins_registry",
    }


def test_the_sidecar_is_the_same_that_this_chart_runs_itself(chart: Path) -> None:
    lent = render({"driverName": "x.csi.example.com"}, chart=chart)
    own = render({"hostNetwork": True, "registrar": {"port": 29809}})
    sidecars = [
        containers(of_kind("DaemonSet", each)[0])["node-driver-registrar"] for each in (lent, own)
    ]
    assert sidecars[0] == sidecars[1]


def test_as_a_dependency_it_renders_nothing_by_itself(chart: Path) -> None:
    rendered = render({}, chart=chart, apis=OPERATOR_APIS)
    assert [(one["kind"], one["metadata"]["name"]) for one in rendered] == [
        ("DaemonSet", "release-z")
    ]


def test_a_dependent_chart_may_take_the_monitoring_too(chart: Path) -> None:
    values = {
        "podSelector": {"app": "z"},
        "podMonitor": {"create": "always"},
        "prometheusRule": {"create": "always"},
        "grafanaDashboards": {"enabled": True},
        "networkPolicy": {"enabled": True},
    }
    rendered = render({KEY: values}, chart=chart)
    validate(rendered)
    assert {one["kind"] for one in rendered} >= {"PodMonitor", "PrometheusRule", "NetworkPolicy"}
    (monitor,) = of_kind("PodMonitor", rendered)
    assert monitor["spec"]["selector"]["matchLabels"] == {"app": "z"}


def test_a_monitor_without_pods_of_its_own_asks_for_their_labels(chart: Path) -> None:
    with pytest.raises(Refused, match="podSelector is empty"):
        render({KEY: {"podMonitor": {"create": "always"}}}, chart=chart)


def test_a_dependent_charts_wrong_value_is_refused(chart: Path) -> None:
    with pytest.raises(Refused, match="prot"):
        render({KEY: {"registrar": {"prot": 1}}}, chart=chart)
