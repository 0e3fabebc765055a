"""What the rules come to in scenes of a cluster's life: which alerts fire, and that no other does.

Each scene is played by promtool with the real rules. Here a missing promtool is a failure;
`.ci/debian-packages` installs it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from alert_scenes import (
    RULES,
    STARTED,
    Scene,
    Values,
    alerts,
    exposed,
    in_state,
    play,
    probed,
    promtool,
    rules,
    sidecar,
    target,
    together,
    verdicts,
)
from measuring import DRIVER_NAME, labels_of

from registrar.observer import State

pytestmark = pytest.mark.needs_prometheus

TOLD_APART_BY = "alertname, cluster, job, node, driver_name, socket, socket_path"
EVER_FIRED = f'group by ({TOLD_APART_BY}) (count_over_time(ALERTS{{alertstate="firing"}}[3d]))'

HAS_FIRED = f"group({EVER_FIRED})"
FIRES = f'group by ({TOLD_APART_BY}) (ALERTS{{alertstate="firing"}})'

JOB = "storage/csi"
HALF_AN_HOUR = range(30)
HOUR = range(60)
DAY = 24 * 60


def long(end: int, begin: int = 0) -> range:
    """Return the minutes of a long scene, of which every fifth is scraped."""
    return range(begin, end, 5)


Fired = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A scene, and which alerts fire in it at all; it is named by the alert that it is about."""

    id: str
    scene: Scene
    minutes: int = 60
    fires: tuple[Fired, ...] = ()
    quiet_for: int | None = None
    """Minutes in which none of them fires yet; the first does right after."""
    still_at: int | None = None
    """A minute at which all of them fire at once."""
    step: int = 1
    """Minutes between scrapes: more in a long scene, for promtool takes its time."""


def alert(
    name: str, node: str = "", *, driver: str = DRIVER_NAME, job: str = JOB, **labels: str
) -> Fired:
    """Return an alert that fires, by what tells it from others."""
    given = {"alertname": name, "node": node, "driver_name": driver, "job": job, **labels}
    return {label: value for label, value in given.items() if value}


def nodes(count: int) -> list[str]:
    """Return the names of so many nodes."""
    return [f"n{number}" for number in range(1, count + 1)]


def healthy(names: Iterable[str], minutes: range = HOUR) -> Scene:
    """Return sidecars to which nothing happens."""
    return together(*(sidecar(node, minutes) for node in names))


def registered_from(minute: int, before: State = State.ANNOUNCED) -> Values:
    """Return the values of a driver that is registered from a minute on."""
    return in_state(lambda now: State.REGISTERED if now >= minute else before)


def away(begin: int, end: int) -> Values:
    """Return the values of a driver that is not registered for some minutes."""
    return in_state(lambda now: State.ANNOUNCED if begin <= now < end else State.REGISTERED)


def rolled_over(names: list[str], *, at_once: int, takes: int) -> Scene:
    """Return a rolling update: each new pod's driver is registered only some minutes later."""
    scenes = []
    for place, node in enumerate(names):
        begin = 10 + takes * (place // at_once)
        values = {**registered_from(begin + takes), STARTED: 60.0 * begin}
        old = sidecar(node, range(begin), pod=f"old-{node}", instance=f"{node}-old:9809")
        new = sidecar(node, range(begin + 1, 120), values, pod=f"new-{node}", version="1.0.1")
        scenes += [old, new]
    return together(*scenes)


def kubelets(driver: str) -> dict[str, str]:
    """Return the labels of kubelet's series that tell of one socket."""
    path = f"/var/lib/kubelet/plugins_registry/{driver}-reg.sock"
    return {"job": "kubelet", "socket_path": path}


def kubelet(driver: str, *, desired: int = 0, actual: int = 0, actual_from: int = 0) -> Scene:
    """Return what the kubelet of a node says of one socket."""
    labels = {"node": "n1", "instance": "n1:10250", **kubelets(driver)}
    name = "plugin_manager_total_plugins"
    scenes = []
    if desired:
        scenes.append(target(name, HOUR, desired, state="desired_state_of_world", **labels))
    if actual:
        minutes = range(actual_from, 60)
        scenes.append(target(name, minutes, actual, state="actual_state_of_world", **labels))
    return together(*scenes)


def expectation(query: str, minutes: int, *series: str) -> dict[str, object]:
    """Return that a query gives these series, each with the value 1, and no others."""
    samples = [{"labels": labels, "value": 1} for labels in series]
    return {"expr": query, "eval_time": f"{minutes}m", "exp_samples": samples}


def selector(labels: Fired) -> str:
    """Write labels as PromQL does."""
    return "{" + ", ".join(f'{label}="{value}"' for label, value in labels.items()) + "}"


CASES = [
    Case(id="nothing happens for three hours", scene=healthy(nodes(2), range(180)), minutes=180),
    # CSIDriverNotRegistered
    Case(
        id="NotRegistered: kubelet does not call",
        scene=together(sidecar("n1", HOUR, in_state(State.ANNOUNCED)), healthy(["n2", "n3", "n4"])),
        fires=(alert("CSIDriverNotRegistered", "n1"),),
        quiet_for=9,
    ),
    Case(
        id="NotRegistered: a registration is lost for good",
        scene=sidecar(
            "n1",
            HOUR,
            in_state(lambda now: State.REGISTERED if now < 20 else State.ANNOUNCED),
        ),
        fires=(alert("CSIDriverNotRegistered", "n1"),),
        quiet_for=29,
    ),
    Case(
        id="NotRegistered: the scrape adds no node, and there are two clusters",
        scene=together(
            sidecar("n1", HOUR, in_state(State.ANNOUNCED), node="", cluster="east"),
            sidecar("n1", HOUR, node="", cluster="west"),
        ),
        fires=(alert("CSIDriverNotRegistered", cluster="east"),),
    ),
    Case(
        id="NotRegistered: one of two drivers of a process",
        scene={
            **sidecar("n1", HOUR, in_state(State.ANNOUNCED), driver="a.csi.example.com"),
            **sidecar("n1", HOUR, driver="b.csi.example.com"),
        },
        fires=(alert("CSIDriverNotRegistered", "n1", driver="a.csi.example.com"),),
    ),
    Case(
        id="NotRegistered is silent: it took nine minutes",
        scene=sidecar("n1", HOUR, {**registered_from(9), STARTED: 0}),
    ),
    Case(
        id="NotRegistered is silent: a standby, beside a peer of the same node",
        scene=together(
            sidecar("n1", HOUR, in_state(State.STANDBY), instance="n1:9809", pod="a"),
            sidecar("n1", HOUR, instance="n1:9810", pod="b"),
        ),
    ),
    Case(
        id="NotRegistered is silent: a standby whose peer is not scraped",
        scene=sidecar("n1", HOUR, in_state(State.STANDBY)),
    ),
    Case(
        id="NotRegistered is silent: the registrar is down meanwhile",
        scene=together(
            sidecar("n1", HOUR, in_state(State.ANNOUNCED), up=lambda now: now < 8),
            healthy(["n2"]),
        ),
        fires=(alert("NodeRegistrarDown", "n1", driver=""),),
        quiet_for=17,
    ),
    # CSIDriverNotRegisteredOnManyNodes
    Case(
        id="OnManyNodes: three of ten",
        scene=together(
            *(sidecar(node, HOUR, in_state(State.ANNOUNCED)) for node in nodes(10)[:3]),
            healthy(nodes(10)[3:]),
        ),
        fires=(
            alert("CSIDriverNotRegisteredOnManyNodes"),
            *(alert("CSIDriverNotRegistered", node) for node in nodes(3)),
        ),
        quiet_for=9,
    ),
    Case(
        id="OnManyNodes: all of a small driver's, beside a large one",
        scene=together(
            *(
                sidecar(n, HALF_AN_HOUR, in_state(State.ANNOUNCED), driver="small")
                for n in nodes(3)
            ),
            healthy([f"m{number}" for number in range(28)], HALF_AN_HOUR),
        ),
        fires=(
            alert("CSIDriverNotRegisteredOnManyNodes", driver="small"),
            *(alert("CSIDriverNotRegistered", node, driver="small") for node in nodes(3)),
        ),
        minutes=30,
    ),
    Case(
        id="OnManyNodes: the drivers never come up",
        scene=together(
            *(sidecar(node, HOUR, {STARTED: 0}, driver=None) for node in nodes(10)[:3]),
            healthy(nodes(10)[3:]),
        ),
        fires=(
            alert("CSIDriverNotRegisteredOnManyNodes", driver=""),
            *(alert("CSIDriverUnhealthy", node, driver="") for node in nodes(3)),
        ),
        quiet_for=12,
    ),
    Case(
        id="OnManyNodes is silent: two of ten",
        scene=together(
            *(sidecar(node, HOUR, in_state(State.ANNOUNCED)) for node in nodes(10)[:2]),
            healthy(nodes(10)[2:]),
        ),
        fires=tuple(alert("CSIDriverNotRegistered", node) for node in nodes(2)),
    ),
    Case(
        id="OnManyNodes is silent: three of thirty-one",
        scene=together(
            *(sidecar(node, HALF_AN_HOUR, in_state(State.ANNOUNCED)) for node in nodes(31)[:3]),
            healthy(nodes(31)[3:], HALF_AN_HOUR),
        ),
        fires=tuple(alert("CSIDriverNotRegistered", node) for node in nodes(3)),
        minutes=30,
    ),
    Case(
        id="OnManyNodes is silent: a rolling update, a third at a time, eight minutes each",
        scene=rolled_over(nodes(9), at_once=3, takes=8),
        minutes=110,
    ),
    Case(
        id="OnManyNodes is silent: three of ten, but for six minutes",
        scene=together(
            *(sidecar(node, HOUR, away(20, 26)) for node in nodes(10)[:3]),
            healthy(nodes(10)[3:]),
        ),
    ),
    Case(
        id="OnManyNodes is silent: all nodes start at once, and take eight minutes",
        scene=together(
            *(sidecar(n, HOUR, {**registered_from(8), STARTED: 0}) for n in nodes(4)),
            *(sidecar(f"m{n}", range(8), {STARTED: 0}, driver=None) for n in nodes(4)),
        ),
    ),
    # RegistrationFailing
    Case(
        id="RegistrationFailing: refused every minute",
        scene=sidecar(
            "n1", HOUR, {**in_state(State.REJECTED), **verdicts("failure", lambda now: now)}
        ),
        fires=(alert("RegistrationFailing", "n1"), alert("CSIDriverNotRegistered", "n1")),
        quiet_for=5,
    ),
    Case(
        id="RegistrationFailing: NodeGetInfo hangs, so the state is mostly announced",
        scene=sidecar(
            "n1",
            HOUR,
            {**in_state(State.ANNOUNCED), **verdicts("failure", lambda now: now // 3)},
        ),
        minutes=9,
        fires=(alert("RegistrationFailing", "n1"),),
    ),
    Case(
        id="RegistrationFailing is silent: a node that joins is refused at first",
        scene=sidecar(
            "n1",
            HOUR,
            {
                **registered_from(4, State.REJECTED),
                **verdicts("failure", lambda now: min(2 * now, 6)),
                STARTED: 0,
            },
        ),
    ),
    Case(
        id="RegistrationFailing is silent: refused, and then a peer has taken over",
        scene=sidecar(
            "n1",
            HOUR,
            {
                **in_state(lambda now: State.REJECTED if now < 4 else State.STANDBY),
                **verdicts("failure", lambda now: min(now, 4)),
            },
        ),
    ),
    # RegistrationFlapping
    Case(
        id="RegistrationFlapping: registered anew every five minutes",
        scene=sidecar("n1", range(120), verdicts("success", lambda now: 1 + now // 5)),
        minutes=120,
        fires=(alert("RegistrationFlapping", "n1"),),
        quiet_for=24,
    ),
    Case(
        id="RegistrationFlapping: the registrar is restarted every five minutes",
        scene=sidecar("n1", range(120), {STARTED: lambda now: 300.0 * (now // 5)}),
        minutes=120,
        fires=(alert("RegistrationFlapping", "n1", driver=""),),
        quiet_for=29,
    ),
    Case(
        id="RegistrationFlapping is silent: kubelet is restarted four times in an hour",
        scene=sidecar("n1", range(120), verdicts("success", lambda now: 1 + min(now // 12, 4))),
        minutes=120,
    ),
    # CSIDriverUnhealthy
    Case(
        id="Unhealthy: the driver is down",
        scene=sidecar("n1", HOUR, {"driver_up": lambda now: now < 20}),
        fires=(alert("CSIDriverUnhealthy", "n1"),),
        quiet_for=29,
    ),
    Case(
        id="Unhealthy: the driver is not ready",
        scene=sidecar("n1", HOUR, {"probe_success": lambda now: now < 20}),
        fires=(alert("CSIDriverUnhealthy", "n1"),),
        quiet_for=29,
    ),
    Case(
        id="Unhealthy: the driver crashes again as soon as it is up",
        scene=sidecar("n1", HOUR, {"driver_up": lambda now: now % 5 == 0}),
        fires=(alert("CSIDriverUnhealthy", "n1"),),
    ),
    Case(
        id="Unhealthy: the driver has never told its name",
        scene=sidecar("n1", HOUR, {STARTED: 0}, driver=None),
        fires=(alert("CSIDriverUnhealthy", "n1", driver=""),),
        quiet_for=15,
    ),
    Case(
        id="Unhealthy is silent: a driver that has just started needs nine minutes to be ready",
        scene=sidecar("n1", HOUR, {STARTED: 0, "probe_success": lambda now: now >= 9}),
    ),
    Case(
        id="Unhealthy is silent: the driver's name comes after nine minutes",
        scene=together(
            sidecar("n1", range(9), {STARTED: 0}, driver=None, pod="csi-x"),
            sidecar("n1", range(10, 60), {STARTED: 0}),
        ),
    ),
    Case(
        id="Unhealthy is silent: the driver is restarted, four minutes of down time",
        scene=sidecar(
            "n1", HOUR, dict.fromkeys(("driver_up", "probe_success"), lambda m: not 20 <= m < 24)
        ),
    ),
    # CSIDriverProbeSlow
    Case(
        id="ProbeSlow: one in five",
        scene=sidecar("n1", HOUR, probed(slow_share=0.2)),
        fires=(alert("CSIDriverProbeSlow", "n1"),),
        quiet_for=10,
    ),
    Case(
        id="ProbeSlow is silent: one in twenty",
        scene=sidecar("n1", HOUR, probed(slow_share=0.05)),
    ),
    Case(
        id="ProbeSlow leaves it to Unhealthy: each one times out",
        scene=sidecar("n1", HOUR, {**probed(slow_share=1), "probe_success": 0}),
        fires=(alert("CSIDriverUnhealthy", "n1"),),
    ),
    # CSIDriverSocketMissing
    Case(
        id="SocketMissing: the driver's own",
        scene=sidecar("n1", HOUR, {"csi_socket_present": lambda now: now < 20}),
        fires=(alert("CSIDriverSocketMissing", "n1", socket="csi"),),
        quiet_for=24,
    ),
    Case(
        id="SocketMissing: the registration socket",
        scene=sidecar("n1", HOUR, {"registration_socket_present": lambda now: now < 20}),
        fires=(alert("CSIDriverSocketMissing", "n1", socket="registration"),),
        quiet_for=24,
    ),
    Case(
        id="SocketMissing is silent: both for four minutes",
        scene=sidecar(
            "n1",
            HOUR,
            dict.fromkeys(
                ("csi_socket_present", "registration_socket_present"), lambda m: not 20 <= m < 24
            ),
        ),
    ),
    # NodeRegistrarDown
    Case(
        id="RegistrarDown: it answered once, and has not for three hours",
        scene=together(
            sidecar("n1", range(240), up=lambda now: now < 20), healthy(["n2"], range(240))
        ),
        minutes=240,
        fires=(alert("NodeRegistrarDown", "n1", driver=""),),
        still_at=239,
        quiet_for=29,
    ),
    Case(
        id="RegistrarDown: it has never answered, and all others of its job are registrars",
        scene=together(sidecar("n1", HOUR, up=0), healthy(["n2", "n3"])),
        fires=(alert("NodeRegistrarDown", "n1", driver=""),),
        quiet_for=9,
    ),
    Case(
        id="RegistrarDown: a job of all kinds of pods, of which only the registrar counts",
        scene=together(
            sidecar("n1", range(240), up=lambda now: now < 20),
            healthy(["n2"], range(240)),
            target(
                "up", range(240), 1, job="storage/csi", namespace="storage", instance="web-1:80"
            ),
            target(
                "up", range(240), 0, job="storage/csi", namespace="storage", instance="web-2:80"
            ),
        ),
        minutes=240,
        fires=(alert("NodeRegistrarDown", "n1", driver=""),),
        still_at=239,
    ),
    Case(
        id="RegistrarDown is silent: others' jobs are down",
        scene=together(
            healthy(["n1"]),
            target("up", HOUR, 0, job="storage/web", namespace="storage", instance="web-2:80"),
            target("up", HOUR, 0, job="storage/csi", namespace="other", instance="n1:9809"),
        ),
    ),
    Case(
        id="RegistrarDown is silent: restarted within nine minutes, then removed",
        scene=together(
            sidecar("n1", range(40), up=lambda now: not 20 <= now < 29), healthy(["n2"])
        ),
    ),
    # NodeRegistrarAbsent
    Case(
        id="RegistrarAbsent: the DaemonSet is gone",
        scene=healthy(nodes(3), long(30)),
        minutes=DAY,
        step=5,
        fires=(alert("NodeRegistrarAbsent", driver=""),),
        quiet_for=40,
        still_at=DAY,
    ),
    Case(
        id="RegistrarAbsent: the DaemonSet has been gone for more than a day",
        scene=healthy(nodes(3), long(30)),
        minutes=DAY + 300,
        step=5,
        fires=(
            alert("NodeRegistrarAbsent", driver=""),
            alert("NodeRegistrarAbsent", driver="", job=""),
        ),
    ),
    Case(
        id="RegistrarAbsent: there has never been any",
        scene=target("up", HOUR, 1, job="web", instance="web-1:80"),
        fires=(alert("NodeRegistrarAbsent", driver="", job=""),),
        quiet_for=14,
    ),
    Case(
        id="RegistrarAbsent: of one job, while another's are well",
        scene=together(sidecar("n1", range(30), job="storage/old"), healthy(["n2"])),
        fires=(alert("NodeRegistrarAbsent", driver="", job="storage/old"),),
    ),
    Case(
        id="RegistrarAbsent is silent: all are replaced, and away for ten minutes",
        scene=together(
            healthy(nodes(2), range(30)),
            *(sidecar(node, range(40, 60), pod=f"new-{node}") for node in nodes(2)),
        ),
    ),
    # CSIDriverVersionSkew
    Case(
        id="VersionSkew: a roll-out that has stopped",
        scene=together(
            sidecar("n1", long(DAY + 60)), sidecar("n2", long(DAY + 60), version="1.0.1")
        ),
        minutes=DAY + 60,
        step=5,
        fires=(alert("CSIDriverVersionSkew", job=""),),
        quiet_for=DAY - 5,
    ),
    Case(
        id="VersionSkew is silent: a roll-out that takes twenty hours",
        scene=together(
            sidecar("n1", long(20 * 60), instance="n1-old:9809"),
            sidecar("n1", long(30 * 60, 20 * 60), version="1.0.1"),
            sidecar("n2", long(30 * 60), version="1.0.1"),
        ),
        minutes=30 * 60,
        step=5,
    ),
    Case(
        id="VersionSkew is silent: two clusters, two drivers",
        scene=together(
            sidecar("n1", long(DAY + 60), cluster="east"),
            sidecar("n1", long(DAY + 60), cluster="west", version="1.0.1"),
            sidecar("n2", long(DAY + 60), cluster="west", version="2", driver="other"),
        ),
        minutes=DAY + 60,
        step=5,
    ),
    # KubeletPluginNotRegistered
    Case(
        id="KubeletPlugin: a socket on which nobody answers",
        scene=together(healthy(["n1"]), kubelet("a", desired=1), kubelet("b", desired=1, actual=1)),
        fires=(alert("KubeletPluginNotRegistered", "n1", driver="", **kubelets("a")),),
        quiet_for=9,
    ),
    Case(
        id="KubeletPlugin is silent: it takes nine minutes, and it goes",
        scene=together(
            healthy(["n1"]),
            kubelet("a", desired=1, actual=1, actual_from=9),
            kubelet("b", actual=1),
        ),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_exactly_these_alerts_fire(case: Case, tmp_path: Path) -> None:
    expectations = [expectation(EVER_FIRED, case.minutes, *map(selector, case.fires))]
    if case.quiet_for is not None:
        expectations += [
            expectation(EVER_FIRED, case.quiet_for),
            expectation(HAS_FIRED, case.quiet_for + case.step, "{}"),
        ]
    if case.still_at is not None:
        expectations.append(expectation(FIRES, case.still_at, *map(selector, case.fires)))
    play(tmp_path, case.scene, expectations, step=case.step)


def test_each_alert_says_what_it_is_and_where_help_is() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["runbook_url"] == f"RUNBOOK_BASE/{rule['alert']}.md"


def test_each_alert_is_made_to_fire_above() -> None:
    fired = {alert["alertname"] for case in CASES for alert in case.fires}
    assert fired == {rule["alert"] for rule in alerts()}


ANNOTATIONS = Path(__file__).parent / "data/alert_rules/annotations.yaml"


def test_operators_read_these_sentences() -> None:
    assert promtool("test", "rules", str(ANNOTATIONS)).endswith("\n  SUCCESS\n\n")


def test_of_each_alert_there_is_something_to_read() -> None:
    tests = yaml.safe_load(ANNOTATIONS.read_text(encoding="utf-8"))["tests"]
    read = {check["alertname"] for test in tests for check in test["alert_rule_test"]}
    assert read == {rule["alert"] for rule in alerts()}


def test_promtool_has_nothing_to_say_about_the_rules() -> None:
    assert promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES)) == (
        f"Checking {RULES}\n  SUCCESS: {len(rules())} rules found\n\n"
    )


LANGUAGE = set(
    re.findall(
        r"\w+",
        "absent and avg_over_time by changes count group histogram_quantile ignoring increase "
        "label_replace max max_over_time offset on or quantile rate sum time unless without",
    )
)
OTHERS = {
    "up": {},
    "plugin_manager_total_plugins": {
        "state": {"desired_state_of_world", "actual_state_of_world"},
        "socket_path": set(),
    },
}
"""What others expose, with the values that labels of theirs are known to have."""
SCRAPE_LABELS = frozenset({"cluster", "namespace", "job", "instance"})


def exposed_labels() -> dict[str, dict[str, set[str]]]:
    """Return the labels of each metric that a sidecar exposes, with the values seen."""
    found: dict[str, dict[str, set[str]]] = {}
    for series in exposed(has_driver=True):
        labels = found.setdefault(series.partition("{")[0], {})
        for label, value in labels_of(series).items():
            labels.setdefault(label, set()).add(value)
    return found


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_each_metric_and_label_of_a_rule_is_exposed(rule: Mapping[str, str]) -> None:
    metrics = exposed_labels() | OTHERS
    records = {each["record"] for each in rules() if "record" in each}
    labels = SCRAPE_LABELS.union(*metrics.values())
    expr = re.sub(r"\b[0-9]+[smhd]\b", "", re.sub(r'"[^"]*"', "", rule["expr"]))
    words = set(re.findall(r"[a-zA-Z_][a-zA-Z0-9_:]*", expr)) - LANGUAGE
    assert words
    assert words - metrics.keys() - records <= labels
    for metric, matchers in re.findall(r"([\w:]+)\{([^}]*)\}", rule["expr"]):
        known = metrics.get(metric) or {label: set() for label in labels}
        for label, value in re.findall(r'(\w+)!?="([^"]*)"', matchers):
            assert metric in records or value in known[label]


def test_the_readmes_inhibitions_are_of_alerts_that_there_are() -> None:
    readme = (RULES.parent / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    matchers = re.findall(r'alertname =~? "?([\w|]+)', block)
    assert matchers
    assert {name for each in matchers for name in each.split("|")} <= {
        rule["alert"] for rule in alerts()
    }


def test_the_runbooks_queries_are_sound(tmp_path: Path) -> None:
    pages = (RULES.parent.parent / "runbooks").glob("*.md")
    block = re.compile(r"^```promql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    queries = [query for page in pages for query in block.findall(page.read_text(encoding="utf-8"))]
    group = {"name": "runbooks", "rules": [{"record": "query", "expr": each} for each in queries]}
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [group]}), encoding="utf-8")
    assert queries
    assert f"SUCCESS: {len(queries)} rules found" in promtool(
        "check", "rules", "--lint=none", str(path)
    )
