"""Whether the dashboards keep to their conventions, and name nothing that does not exist.

What Prometheus answers to them is in `test_fleet_queries`.
"""

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

import grafana
import pytest
import yaml
from fleet import RULES
from measuring import MeasuringObserver, called, identified, labels_of, notify_all

from dashboards import generate
from dashboards.left_out import LEFT_OUT
from dashboards.queries import ALERTS
from metrics.families import BuildInfo
from metrics.registry import register_process_metrics

SCRAPED = {"cluster", "job", "namespace", "node", "instance"}
"""Labels that a scrape adds to every series."""

FOREIGN: dict[str, set[str]] = {
    "up": set(),
    "ALERTS": {"alertname", "alertstate"},
    "plugin_manager_total_plugins": {"socket_path", "state"},
}
"""Metrics of Prometheus and of kubelet, with the labels of their own."""

UNITS = {"short", "s", "percentunit", "ops", "reqps", "cores", "bytes"}

SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
LABEL_LISTS = re.compile(r"\b(?:by|on|ignoring|group_left|without) \(([^)]*)\)")

by_dashboard = pytest.mark.parametrize("uid", grafana.UIDS)


@cache
def exposed() -> dict[str, set[str]]:
    """Return each metric that a sidecar exposes, with the labels of its own."""
    measured = MeasuringObserver()
    measured.registry.register(BuildInfo(version="1", revision="a", python_version="3"))
    register_process_metrics(measured.registry)
    measured.metrics.count_http_request("metrics", 200)
    notify_all(measured, [*identified(), called("/csi.v1.Identity/Probe")])
    labels: dict[str, set[str]] = {}
    for name in measured.series():
        labels.setdefault(name.partition("{")[0], set()).update(labels_of(name))
    return labels


@cache
def recorded() -> dict[str, set[str]]:
    """Return each metric of the recording rules, with the labels that its level names."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    names = [rule["record"] for group in groups for rule in group["rules"] if "record" in rule]
    labels = {"driver": "driver_name", "method": "method_name"}
    return {
        name: {labels.get(level, level) for level in name.partition(":")[0].split("_")}
        for name in names
    }


def expressions(uid: str) -> Iterator[str]:
    """Yield all that a dashboard asks Prometheus for, but for the choices of its variables."""
    return (query.expr for query in grafana.queries(uid))


def selectors(uid: str) -> set[tuple[str, tuple[tuple[str, str, str], ...]]]:
    """Return each metric that a dashboard asks for, with its matchers."""
    return {
        (name, tuple(MATCHER.findall(inner)))
        for expr in expressions(uid)
        for name, inner in SELECTOR.findall(expr)
    }


def without_strings(expr: str) -> str:
    """Return an expression with its strings left empty."""
    return re.sub(r'"[^"]*"', '""', expr)


def test_the_files_are_what_the_code_writes() -> None:
    assert generate.differing() == []


def test_a_file_that_differs_is_named_and_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "csi-node-registrar-fleet.json"
    path.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    with pytest.raises(SystemExit, match=re.escape(str(path))):
        generate.main()
    assert path.read_text(encoding="utf-8") == "{}"


@by_dashboard
def test_a_dashboard_is_known_by_its_uid_and_cannot_be_edited(uid: str) -> None:
    board = grafana.dashboard(uid)
    assert board["uid"] == uid
    assert "id" not in board
    assert board["editable"] is False
    assert 39 <= board["schemaVersion"] <= 42


@by_dashboard
def test_each_dashboard_links_to_the_other_and_takes_time_and_variables_along(uid: str) -> None:
    (link,) = grafana.dashboard(uid)["links"]
    assert (link["type"], link["keepTime"], link["includeVars"]) == ("dashboards", True, True)
    assert all(set(link["tags"]) <= set(grafana.dashboard(each)["tags"]) for each in grafana.UIDS)


@by_dashboard
def test_the_data_source_is_chosen_by_the_reader(uid: str) -> None:
    (variable,) = (
        each
        for each in grafana.dashboard(uid)["templating"]["list"]
        if each["type"] == "datasource"
    )
    assert (variable["name"], variable["label"]) == ("datasource", "Data source")
    assert variable["query"] == "prometheus"
    sources = re.findall(r'"uid": "([^"]+)"', json.dumps(grafana.dashboard(uid)))
    assert set(sources) == {"${datasource}", uid}


@by_dashboard
def test_the_variables_narrow_each_other_in_their_order(uid: str) -> None:
    variables = grafana.variables(uid)
    assert list(variables) == ["cluster", "job", "namespace", "driver", "node", "instance"]
    narrowing: set[str] = set()
    for name, variable in variables.items():
        assert set(re.findall(r"\$(\w+)", variable["query"]["query"])) == narrowing
        narrowing |= {name} - {"driver"}


@by_dashboard
def test_of_every_variable_many_values_or_all_can_be_chosen(uid: str) -> None:
    for variable in grafana.variables(uid).values():
        assert variable["multi"]
        assert variable["includeAll"]
        assert variable["refresh"] == 2
        assert variable["label"]


@by_dashboard
def test_all_means_also_what_lacks_a_label_that_a_plain_prometheus_does_not_add(uid: str) -> None:
    all_values = {name: each["allValue"] for name, each in grafana.variables(uid).items()}
    anything, something = ".*", ".+"
    assert all_values == {
        "cluster": anything,
        "namespace": anything,
        "node": anything,
        "job": something,
        "instance": something,
        "driver": something,
    }


@by_dashboard
def test_a_panel_says_what_it_shows_and_in_which_unit(uid: str) -> None:
    titles = [panel["title"] for panel in grafana.panels(uid)]
    assert len(titles) == len(set(titles))
    for panel in grafana.panels(uid):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]


@by_dashboard
def test_panels_lie_beside_each_other_within_the_grid(uid: str) -> None:
    def cells(position: dict[str, int]) -> set[tuple[int, int]]:
        x, y, w, h = (position[key] for key in "xywh")
        return {(column, line) for column in range(x, x + w) for line in range(y, y + h)}

    places = [cells(panel["gridPos"]) for panel in grafana.dashboard(uid)["panels"]]
    assert all(column < 24 for place in places for column, _ in place)
    assert all(one.isdisjoint(other) for one, other in combinations(places, 2))


@by_dashboard
def test_panels_have_numbers_of_their_own(uid: str) -> None:
    """Grafana would give them others at each import, and links to one panel would break."""
    numbers = [panel["id"] for panel in grafana.dashboard(uid)["panels"]]
    assert numbers == list(range(1, len(numbers) + 1))


@by_dashboard
def test_every_metric_and_label_exists(uid: str) -> None:
    known = {**exposed(), **recorded(), **FOREIGN}
    for name, matchers in selectors(uid):
        assert name in known, name
        for label, _, _ in matchers:
            assert label in known[name] | SCRAPED, f"{label} of {name}"
    labels = {"driver_name", *SCRAPED}.union(*known.values())
    for expr in expressions(uid):
        for listed in LABEL_LISTS.findall(expr):
            assert set(re.findall(r"\w+", listed)) <= labels, listed


@by_dashboard
def test_every_metric_is_asked_for_within_braces(uid: str) -> None:
    """So that what is said here of selectors is said of all metrics."""
    bare = rf"(?<![\w:])({'|'.join({*exposed(), *recorded(), *FOREIGN})})(?![\w:{{])"
    for expr in map(without_strings, expressions(uid)):
        assert not re.search(bare, expr), expr


@by_dashboard
def test_the_variables_narrow_every_query(uid: str) -> None:
    """Kubelet and alerts have other jobs, and what is recorded is summed over the nodes."""
    narrowed = {
        **dict.fromkeys(exposed(), SCRAPED),
        **{name: SCRAPED - {"node", "instance"} for name in recorded()},
        "up": SCRAPED,
        "ALERTS": {"cluster"},
        "plugin_manager_total_plugins": {"cluster", "node"},
    }
    for name, matchers in selectors(uid):
        for label in narrowed[name]:
            assert (label, "=~", f"${label}") in matchers, f"{name} by {label}"


@by_dashboard
def test_the_driver_narrows_what_has_one(uid: str) -> None:
    """All but the question which sidecars have no driver, whichever that is."""
    for name, matchers in selectors(uid):
        has_driver = "driver_name" in {**exposed(), **recorded(), **FOREIGN}[name]
        if has_driver and name != "csi_node_registrar_driver_up":
            assert ("driver_name", "=~", "$driver") in matchers, name


@by_dashboard
def test_rates_look_back_as_far_as_grafana_says(uid: str) -> None:
    for expr in map(without_strings, expressions(uid)):
        looks_back = re.findall(r"\[([^\]]+)\]", expr)
        assert set(looks_back) <= {"$__rate_interval", "$__range", "$__range:$__interval"}, expr
        rates = re.findall(r"\b(?:rate|increase|changes)\(", expr)
        assert looks_back.count("$__rate_interval") == len(rates), expr


@by_dashboard
def test_a_legend_names_labels_that_the_series_have(uid: str) -> None:
    for query in grafana.queries(uid):
        named = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
        summed = re.match(r"(?:histogram_quantile\(\S+ )?\w+ by \(([^)]*)\)", query.expr)
        if summed is not None:
            assert named <= set(summed[1].split(", ")), query


def test_every_metric_is_on_a_dashboard_or_left_out_for_a_reason() -> None:
    shown = {name for uid in grafana.UIDS for name, _ in selectors(uid)}
    assert exposed().keys() - shown == LEFT_OUT.keys()


def test_the_alerts_counted_are_those_of_the_rules() -> None:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    alerts = [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]
    assert sorted(alerts) == sorted(ALERTS)


def test_the_readme_names_every_row() -> None:
    readme = (grafana.FOLDER / "README.md").read_text(encoding="utf-8")
    for uid in grafana.UIDS:
        for panel in grafana.dashboard(uid)["panels"]:
            if panel["type"] == "row":
                assert panel["title"] in readme
