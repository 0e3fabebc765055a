"""A real Prometheus answers every query of dashboards and rules, and as the fleet's state demands.

The tables say what a reader of each panel must see; in which way each node is broken, `fleet` says.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

import grafana
import pytest
import yaml
from expecting import Expectation, Good, among, at_times, between, exactly, nothing, number, of
from fleet import (
    BLOCK,
    CLUSTER,
    FILE,
    GONE,
    JOB,
    NAMESPACE,
    STATES,
    WITHOUT_DRIVER,
    Fleet,
    hastened_rules,
    plain_prometheus,
    running_fleet,
)
from grafana import Chosen
from promql import PromQL, Series

from csi_node_driver_registrar.version import __version__

pytestmark = pytest.mark.needs_prometheus

Table = Mapping[str, Sequence[Expectation]]
"""By the title of a panel or the name of an annotation, one expectation for each of its queries."""

ROW = "instance driver_name"

CODES = {
    "registered": of(0),
    "standby": of(1),
    "announced": of(2),
    "waiting": of(3),
    # Each time that the driver is announced again, kubelet has not refused it yet.
    "rejected": of(4, 2),
}
GET_PLUGIN_INFO = "/csi.v1.Identity/GetPluginInfo"
PROBE = "/csi.v1.Identity/Probe"

POSITIVE = between(0, float("inf"))
YES = of(1)
NO = of(0)


def row(sidecar: str, driver: str = BLOCK) -> str:
    """Name the series of one driver beside one sidecar."""
    return f"{sidecar}:9809 {driver}"


STATE_ROWS = {row(*where): CODES[state] for where, state in STATES.items()}
OTHER_ROWS = {row(WITHOUT_DRIVER, ""): of(5), row(GONE, ""): of(6)}
NOT_REGISTERED = {name: STATE_ROWS[name] for name in (row("rejected"), row("silent"), row("lost"))}
SIDECARS = {f"{name}:9809" for name, _ in STATES} | {f"{WITHOUT_DRIVER}:9809"}


def rows(is_good: Good, *, but: Iterable[str] = ()) -> dict[str, Good]:
    """Expect the same of all drivers but those beside some sidecars."""
    return {row(*where): is_good for where in STATES if where[0] not in but}


FLEET: Table = {
    "Drivers not registered": [number(of(3))],
    "Registered": [number(of(0.7))],
    "Sidecars without a driver": [number(of(1))],
    "Sidecars reporting": [number(of(11)), number(of(1))],
    "Unhealthy drivers": [number(of(3))],
    "Firing alerts": [number(POSITIVE)],
    "Drivers that were not registered": [
        among(ROW, NOT_REGISTERED),
        exactly("instance", {f"{WITHOUT_DRIVER}:9809": of(5)}),
        exactly("instance", {f"{GONE}:9809": of(6)}),
    ],
    "Nodes and drivers": [
        exactly(ROW, STATE_ROWS | OTHER_ROWS),
        exactly(ROW, rows(POSITIVE) | dict.fromkeys(NOT_REGISTERED, NO)),
    ],
    "Refusals by kubelet": [at_times("driver_name", [BLOCK], POSITIVE)],
    "Announcements": [at_times("reason", ["silence", "driver_changed"], POSITIVE)],
    "Driver restarts": [at_times("driver_name", [BLOCK], POSITIVE)],
    "Probe results": [at_times("result", ["ready", "not_ready", "timeout"], POSITIVE)],
    "Duration of calls to the drivers": [
        exactly("method_name", {GET_PLUGIN_INFO: between(0, 0.5), PROBE: between(0, 0.5)}),
        exactly("method_name", {GET_PLUGIN_INFO: between(0, 1), PROBE: of(1)}),
    ],
    "Calls that failed": [
        at_times("grpc_status_code", ["DeadlineExceeded", "Unavailable"], between(0, 0.5))
    ],
    "Slowest registrations": [
        exactly(ROW, rows(between(0, 60), but={"rejected", "silent", "lost"}))
    ],
    "Versions of the drivers": [
        exactly(
            "driver_name driver_version",
            {f"{BLOCK} 1.0.0": of(9), f"{BLOCK} 2.0.0": of(1), f"{FILE} 1.0.0": of(1)},
        )
    ],
    "Versions of the sidecar": [exactly("version", {__version__: of(11)})],
    "Registration sockets as kubelet sees them": [number(of(8)), number(of(7))],
}

NODE: Table = {
    "State": [exactly(ROW, STATE_ROWS | OTHER_ROWS)],
    "Since kubelet last asked": [exactly(ROW, rows(between(0, 120), but={"silent", "lost"}))],
    "Since kubelet last accepted": [
        exactly(ROW, rows(between(0, 120), but={"rejected", "silent", "lost"}))
    ],
    "Since the last good probe": [
        exactly(
            ROW,
            rows(between(-1, 8), but={"hung", "unready"})
            | {row("crashed"): between(4, 60), row(GONE): between(4, 60)},
        )
    ],
    "States of the registration": [exactly(ROW, STATE_ROWS | {row(GONE): NO})],
    "What was there": [
        exactly(ROW, rows(YES) | {row("lost"): NO, row(GONE): YES}),
        exactly(ROW, rows(YES) | {row(GONE): YES}),
        exactly(ROW, rows(YES) | {row("crashed"): NO, row(GONE): YES}),
        among(ROW, rows(YES, but={"crashed"}) | {row("hung"): NO, row("unready"): NO}),
    ],
    "Verdicts by kubelet": [at_times("outcome", ["success", "failure"], POSITIVE)],
    "GetInfo calls by kubelet": [at_times("driver_name", [BLOCK], POSITIVE)],
    "Announcements": FLEET["Announcements"],
    "Duration of the last registration": [
        at_times(ROW, rows(YES, but={"rejected", "silent", "lost"}), between(0, 60))
    ],
    "Duration of Probe": [at_times("le", ["0.001", "0.01", "0.1", "1.0", "+Inf"], POSITIVE)],
    "Percentiles of Probe": [
        number(between(0, 0.5)),
        number(between(0, 1)),
        number(of(1)),
    ],
    "Calls to the driver": [
        at_times(
            "method_name grpc_status_code",
            [f"{PROBE} OK", f"{PROBE} DeadlineExceeded", f"{GET_PLUGIN_INFO} Unavailable"],
            POSITIVE,
        )
    ],
    "Probe results": FLEET["Probe results"],
    "HTTP requests": [
        at_times(
            "handler code",
            ["healthz 200", "healthz 500", "readyz 200", "readyz 500", "metrics 200"],
            POSITIVE,
        )
    ],
    "CPU": [at_times("instance", SIDECARS, between(0, 1))],
    "Memory": [at_times("instance", SIDECARS, between(1e7, 1e8))],
    "File descriptors": [at_times("instance", SIDECARS, between(3, 100))],
    "Restarts": [at_times("", [""], POSITIVE), at_times("driver_name", [BLOCK], POSITIVE)],
    "Sidecar": [exactly("instance version", {f"{each} {__version__}": YES for each in SIDECARS})],
    "Drivers": [exactly(ROW, rows(YES))],
    "The sockets as kubelet sees them": [
        lambda answer: len(answer) >= 8 and _are_sockets(answer),
        lambda answer: len(answer) >= 7 and _are_sockets(answer),
    ],
    "Registrations": [at_times("instance", ["updated:9809"], POSITIVE)],
    "Restarts of sidecars": [exactly("instance", {"updated:9809": POSITIVE})],
    "Restarts of drivers": [exactly("instance", {"updated:9809": POSITIVE})],
}

TABLES = {grafana.FLEET: FLEET, grafana.NODE: NODE}

ONE = {
    "cluster": [CLUSTER],
    "job": [JOB],
    "namespace": [NAMESPACE],
    "driver": [BLOCK],
    "node": ["rejected"],
    "instance": ["rejected:9809"],
}
FLEET_OF_ONE: Table = {
    "Drivers not registered": [number(of(1))],
    "Registered": [number(of(0))],
    "Sidecars without a driver": [number(of(0))],
    "Sidecars reporting": [number(of(1)), number(of(0))],
    "Unhealthy drivers": [number(of(0))],
    "Nodes and drivers": [
        exactly(ROW, {row("rejected"): CODES["rejected"]}),
        exactly(ROW, {row("rejected"): NO}),
    ],
    "Refusals by kubelet": [at_times("driver_name", [BLOCK], POSITIVE)],
    "Registration sockets as kubelet sees them": [number(of(1)), nothing],
}

TWO = {"node": ["rejected", "well"], "driver": [BLOCK, FILE]}
FLEET_OF_TWO: Table = {
    "Drivers not registered": [number(of(1))],
    "Registered": [number(of(2 / 3))],
    "Registration sockets as kubelet sees them": [number(of(3)), number(of(2))],
}

FLEET_WITHOUT_LABELS: Table = {
    "Firing alerts": [number(of(0))],
    "Drivers not registered": FLEET["Drivers not registered"],
    "Registered": FLEET["Registered"],
    "Sidecars without a driver": FLEET["Sidecars without a driver"],
    "Sidecars reporting": FLEET["Sidecars reporting"],
    "Unhealthy drivers": FLEET["Unhealthy drivers"],
    "Nodes and drivers": [lambda answer: len(answer) == 13, lambda answer: len(answer) == 11],
    "Duration of calls to the drivers": [nothing, nothing],
    "Versions of the drivers": FLEET["Versions of the drivers"],
    "Registration sockets as kubelet sees them": [nothing, nothing],
}

ALERTS: Mapping[str, set[str]] = {
    "CSIDriverNotRegistered": {"lost", "rejected", "silent"},
    "CSIDriverNotRegisteredOnManyNodes": {""},
    "RegistrationFailing": {"rejected"},
    "RegistrationFlapping": set(),
    "CSIDriverUnhealthy": {"crashed", "hung", "unready", WITHOUT_DRIVER},
    "CSIDriverProbeSlow": set(),
    "CSIDriverSocketMissing": {"lost"},
    "NodeRegistrarDown": {GONE},
    "NodeRegistrarAbsent": set(),
    "CSIDriverVersionSkew": {""},
    "KubeletPluginNotRegistered": {"rejected"},
}
"""On which nodes each alert finds something, whether for long enough or not."""

CHOICES: Mapping[str, set[str]] = {
    "cluster": {CLUSTER},
    "job": {JOB},
    "namespace": {NAMESPACE},
    "driver": {BLOCK, FILE},
    "node": {name for name, _ in STATES if name != "pair-2"} | {WITHOUT_DRIVER, GONE},
    "instance": SIDECARS | {f"{GONE}:9809"},
}


@pytest.mark.needs_prometheus
@pytest.mark.timeout(240)
async def test_every_query_says_in_which_state_the_fleet_is() -> None:
    async with running_fleet() as fleet:
        prometheus = fleet.prometheus
        for uid, table in TABLES.items():
            assert {query.place for query in grafana.queries(uid)} == table.keys()
            await come_true(partial(unmet, prometheus, uid, {}, table))
            assert await strangers(prometheus, uid, ONE) == []
        await come_true(partial(unmet, prometheus, grafana.FLEET, ONE, FLEET_OF_ONE))
        await come_true(partial(unmet, prometheus, grafana.FLEET, TWO, FLEET_OF_TWO))
        for uid in TABLES:
            assert await choices(prometheus, uid) == CHOICES
        await come_true(partial(unmet_rules, prometheus))
        await without_labels_and_rules(fleet)


async def without_labels_and_rules(fleet: Fleet) -> None:
    """Assert that the dashboards say what they can on a Prometheus that knows job and instance."""
    async with plain_prometheus(fleet) as plain:
        await come_true(partial(unmet, plain, grafana.FLEET, {}, FLEET_WITHOUT_LABELS))
        for query in grafana.queries(grafana.NODE):
            await grafana.answer(plain, query, grafana.NODE, {})


async def come_true(unmet_now: Callable[[], Awaitable[list[str]]]) -> None:
    """Look again and again until nothing is unmet; rates take a while to show.

    Raises:
        AssertionError: if something still is after half a minute.
    """
    left: list[str] = []
    try:
        async with asyncio.timeout(30):
            # A process of its own cannot set an event of ours.
            while left := await unmet_now():  # noqa: ASYNC110
                await asyncio.sleep(0.5)
    except TimeoutError:
        pytest.fail("\n".join(left))


async def unmet(prometheus: PromQL, uid: str, chosen: Chosen, table: Table) -> list[str]:
    """Return what a dashboard does not say as the table has it."""
    expectations = {place: iter(each) for place, each in table.items()}
    found = []
    for query in grafana.queries(uid):
        if query.place in expectations:
            answer = await grafana.answer(prometheus, query, uid, chosen)
            if not next(expectations[query.place])(answer):
                found.append(f"{query.place} says {_in_short(answer)}, from {query.expr}")
    return found


async def strangers(prometheus: PromQL, uid: str, chosen: Chosen) -> list[Series]:
    """Return series that a dashboard shows although the variables leave them out."""
    return [
        series
        for query in grafana.queries(uid)
        for series in await grafana.answer(prometheus, query, uid, chosen)
        if series.labels.get("node", "rejected") != "rejected"
        or series.labels.get("driver_name", BLOCK) != BLOCK
    ]


async def choices(prometheus: PromQL, uid: str) -> dict[str, set[str]]:
    """Return what the variables of a dashboard offer."""
    return {
        name: set(await grafana.choices(prometheus, name, uid, {}))
        for name in grafana.variables(uid)
    }


async def unmet_rules(prometheus: PromQL) -> list[str]:
    """Return the recording rules that give nothing, and the alerts that find other nodes."""
    found = []
    groups = yaml.safe_load(hastened_rules())["groups"]
    for rule in [rule for group in groups for rule in group["rules"]]:
        answer = await prometheus.now(rule["expr"])
        nodes = {series.labels.get("node", "") for series in answer}
        if "record" in rule and not answer:
            found.append(f"{rule['record']} records nothing")
        if "alert" in rule and nodes != ALERTS[rule["alert"]]:
            found.append(f"{rule['alert']} finds {nodes}")
    return found


def _in_short(answer: list[Series]) -> list[tuple[list[str], float]]:
    known = {CLUSTER, JOB, NAMESPACE}
    return [(sorted(set(each.labels.values()) - known), each.last) for each in answer]


def _are_sockets(answer: list[Series]) -> bool:
    return all(series.labels["socket_path"].endswith("-reg.sock") for series in answer)
