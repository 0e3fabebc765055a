"""The dashboard for all nodes: is every driver registered, and where not."""

from grafana_foundation_sdk.builders.common import TableSortByFieldState
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.statetimeline import Panel as StateTimeline
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.models.dashboard import Dashboard, ValueMap, ValueMappingResult

from dashboards import queries
from dashboards.frame import FLEET_UID, NODE_UID, Row, board
from dashboards.panels import (
    STATE_NAMES,
    Colours,
    Panel,
    bars,
    coloured_cell,
    events,
    graph,
    lines,
    linked,
    listing,
    mapped,
    now,
    number,
    of_unit,
    rows,
    timeline,
)
from dashboards.queries import AT_END, DRIVER, TARGET, increase, of_driver, of_sidecar, rate
from dashboards.states import (
    no_driver_codes,
    registration_codes,
    registration_codes_of,
    silent_codes,
)

TIMELINE_LIMIT = 40
"""Rows of each kind; more, one screen cannot hold."""

TABLE_LIMIT = 200
"""Rows that a browser shows without delay; the worst come first."""

_NONE_IS_GOOD = Colours("green", {1: "red"})

_NEVER = ValueMap(options={"0": ValueMappingResult(text="never", color="red", index=0)})

_STANDBY = 'state="standby"'
_NOT_STANDBY = 'state!="standby"'
_NOT_OK = 'grpc_status_code!="OK"'
_NOT_REGISTERED = 'state=~"waiting|announced|rejected"'

_SIDECAR_LEGEND = "{{node}} {{instance}}"
_DRIVER_LEGEND = "{{node}} {{driver_name}} {{instance}}"


def build() -> Dashboard:
    """Put the dashboard together."""
    return board(
        FLEET_UID,
        "CSI node registrar / Fleet",
        "Whether kubelet has accepted every CSI driver on every node, and where it has not.",
        rows=[
            Row("Is every driver registered?", _numbers()),
            Row("Where is one not?", [_timeline(), _table()]),
            Row("What happened?", _events()),
            Row("How do the drivers answer?", _calls()),
            Row("What runs?", _versions()),
        ],
    )


def _numbers() -> list[Panel]:
    return [panel.span(4) for panel in (*_registration_numbers(), *_health_numbers())]


def _registration_numbers() -> list[Stat]:
    return [
        number(
            "Drivers not registered",
            "Drivers that kubelet has not accepted, one for each node and driver: waiting, "
            "announced or rejected. An instance in standby is not counted, but its live peer is. "
            "The rows below name them.",
            now(f"sum({of_driver('registration_state', _NOT_REGISTERED)})"),
            colours=_NONE_IS_GOOD,
        ),
        number(
            "Registered",
            "The share of drivers, by node, that kubelet has accepted; those in standby left out.",
            now(
                f"sum({of_driver('registered')}) / "
                f"sum({of_driver('registration_state', _NOT_STANDBY)})"
            ),
            unit="percentunit",
            colours=Colours("red", {0.95: "orange", 1: "green"}),
        ),
        number(
            "Sidecars without a driver",
            "Sidecars that wait for a driver which has never told its name. They have no series of "
            "a driver: the two figures on the left leave them out, and the variable Driver does "
            "not narrow them. Look at the driver's container.",
            now(f"count({queries.sidecars_without_driver()}) or vector(0)"),
            colours=_NONE_IS_GOOD,
        ),
    ]


def _health_numbers() -> list[Stat]:
    return [
        number(
            "Sidecars reporting",
            "Sidecars that Prometheus can scrape, and those that it cannot: whether their drivers "
            "are registered is unknown. A scrape job is known by the sidecars that it had at any "
            "time on display.",
            now(f"count({of_sidecar('build_info')}) or vector(0)", "reporting"),
            now(f"count({queries.silent_sidecars()}) or vector(0)", "not reporting"),
            colours=Colours("text"),
        ),
        number(
            "Unhealthy drivers",
            "Drivers that did not answer when last looked at, or whose last Probe did not say "
            "ready; one for each sidecar, registered or not.",
            now(f"sum({of_driver('driver_up')} * {of_driver('probe_success')} == bool 0)"),
            colours=_NONE_IS_GOOD,
        ),
        number(
            "Firing alerts",
            "Alerts of the rules in deploy/prometheus that fire; 0 as well where these are not "
            "loaded. Of the variables only Cluster narrows them.",
            now(f"count({queries.of_alerts()}) or vector(0)"),
            colours=_NONE_IS_GOOD,
        ),
    ]


def _timeline() -> StateTimeline:
    lost = f"{queries.unregistered_share()} > 0"
    standby = f"{of_driver('registration_state', _STANDBY)}{AT_END} == 1"
    shown = f"topk({TIMELINE_LIMIT}, {lost} unless on ({DRIVER}) {standby})"
    without_driver = f"topk({TIMELINE_LIMIT}, {queries.sidecars_without_driver(AT_END)})"
    silent = f"topk({TIMELINE_LIMIT}, {queries.silent_sidecars(AT_END)})"
    return timeline(
        "Drivers that were not registered",
        "A row for each node and driver that was not registered at some time on display, the "
        f"{TIMELINE_LIMIT} worst; then the sidecars that have no driver or do not report at the "
        f"end of it, {TIMELINE_LIMIT} of each. What has no row was registered all the time. "
        "Narrow the variables to see more.",
        graph(registration_codes_of(shown), _DRIVER_LEGEND),
        graph(f"{no_driver_codes()} and on ({TARGET}) {without_driver}", _SIDECAR_LEGEND),
        graph(f"{silent_codes()} and on ({TARGET}) {silent}", _SIDECAR_LEGEND),
        names=STATE_NAMES,
    ).span(24)


def _table() -> Table:
    version = f"on ({DRIVER}) group_left (driver_version) {of_driver('driver_info')}"
    accepted_at = of_driver("last_registration_timestamp_seconds", 'outcome="success"')
    worst = f"topk({TABLE_LIMIT}, {registration_codes()})"
    others = f"topk({TABLE_LIMIT}, {no_driver_codes()} or {silent_codes()})"
    return (
        listing(
            "Nodes and drivers",
            f"Where each driver on each node stands now, the worst {TABLE_LIMIT} of them, and at "
            f"most {TABLE_LIMIT} sidecars that have no driver or do not report. The links of a row "
            "lead to all that is known about it. Narrow the variables to see others.",
            rows(f"{others} or {worst} * {version}"),
            rows(f"1000 * max by ({DRIVER}) ({accepted_at}) and on ({DRIVER}) {worst}"),
            columns={
                "Value #A": "State",
                "cluster": "Cluster",
                "node": "Node",
                "driver_name": "Driver",
                "driver_version": "Version",
                "Value #B": "Last accepted",
                "namespace": "Namespace",
                "job": "Job",
                "instance": "Instance",
            },
        )
        .sort_by([TableSortByFieldState().display_name("State").desc(desc=True)])
        .override_by_name("State", [mapped(STATE_NAMES), coloured_cell()])
        .override_by_name("Last accepted", [of_unit("dateTimeAsIso"), mapped(_NEVER)])
        .override_by_name("Node", [linked("Node and its drivers", _node_url("node"))])
        .override_by_name("Instance", [linked("This sidecar", _node_url("instance"))])
        .span(24)
        .height(12)
    )


def _node_url(variable: str) -> str:
    """Return the address of the other dashboard, narrowed to the value of a cell."""
    kept = "&".join(
        f"${{{name}:queryparam}}" for name in ("datasource", "cluster", "job", "namespace")
    )
    return f"/d/{NODE_UID}?${{__url_time_range}}&{kept}&var-{variable}=${{__value.raw}}"


def _events() -> list[Panel]:
    panels = [
        events(
            "Refusals by kubelet",
            "How often kubelet refused a driver. Its own words are in the sidecar's log and under "
            "/readyz.",
            graph(
                increase("registrations_total", "driver_name", 'outcome="failure"'),
                "{{driver_name}}",
            ),
        ),
        events(
            "Announcements",
            "How often sidecars showed their socket to kubelet, by reason. All but start and "
            "requested are repairs; many starts are a rolling update.",
            graph(increase("announcements_total", "reason"), "{{reason}}"),
        ),
        events(
            "Driver restarts",
            "How often drivers answered on another socket than before.",
            graph(increase("driver_restarts_total", "driver_name"), "{{driver_name}}"),
        ),
        lines(
            "Probe results",
            "Probe calls to the drivers, by result.",
            graph(rate("probes_total", "result"), "{{result}}"),
            unit="ops",
        ),
    ]
    return [panel.span(6) for panel in panels]


def _calls() -> list[Panel]:
    bucket_rates = queries.recorded_bucket_rates()
    total = queries.of_our_jobs(f"sum by (cluster, job) ({queries.rate_of_calls()})")
    failed = queries.of_our_jobs(
        f"sum by (cluster, job, grpc_status_code) ({queries.rate_of_calls(_NOT_OK)})"
    )
    panels: list[Panel] = [
        lines(
            "Duration of calls to the drivers",
            "Median and 99th percentile over all drivers, by method. Needs the recording rules of "
            "deploy/prometheus, for a fleet has too many buckets to be summed at each look; Node "
            "and Instance do not narrow it. Never more than the last bound, 1 s.",
            graph(
                f"histogram_quantile(0.5, sum by (method_name, le) ({bucket_rates}))",
                "{{method_name}} median",
            ),
            graph(
                f"histogram_quantile(0.99, sum by (method_name, le) ({bucket_rates}))",
                "{{method_name}} p99",
            ),
            unit="s",
        ).no_value("no data, or no recording rules"),
        lines(
            "Calls that failed",
            "The share of calls to the drivers that ended with each code but OK. Unavailable and "
            "DeadlineExceeded include drivers that were not there to be called.",
            graph(
                f"sum by (grpc_status_code) ({failed}) / ignoring (grpc_status_code) "
                f"group_left sum({total})",
                "{{grpc_status_code}}",
            ),
            unit="percentunit",
        ),
        bars(
            "Slowest registrations",
            "Drivers whose last acceptance by kubelet took longest, from the announcement on, "
            "refusals in between included.",
            now(f"topk(10, {of_driver('registration_duration_seconds')} > 0)", _DRIVER_LEGEND),
            unit="s",
        ),
    ]
    return [panel.span(8) for panel in panels]


def _versions() -> list[Panel]:
    panels: list[Panel] = [
        bars(
            "Versions of the drivers",
            "Nodes by driver and version; more than one for long is an update that is stuck.",
            now(
                f"count by (driver_name, driver_version) ({of_driver('driver_info')})",
                "{{driver_name}} {{driver_version}}",
            ),
            unit="short",
        ),
        bars(
            "Versions of the sidecar",
            "Sidecars by version of this program.",
            now(f"count by (version) ({of_sidecar('build_info')})", "{{version}}"),
            unit="short",
        ),
        lines(
            "Registration sockets as kubelet sees them",
            "Sockets that kubelet has found, and those that it takes for registered, over all "
            "nodes. A gap that lasts is kubelet's to explain. Needs kubelet's own metrics, with "
            "the label node.",
            graph(_kubelet_sees("desired"), "found"),
            graph(_kubelet_sees("actual"), "registered"),
            unit="short",
        ).no_value("no metrics of kubelet"),
    ]
    return [panel.span(8) for panel in panels]


def _kubelet_sees(world: str) -> str:
    return f"sum({queries.of_kubelet(world)})"
