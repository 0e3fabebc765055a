"""The dashboard for one node or driver: all that is known about it, now and over time."""

from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.statetimeline import Panel as StateTimeline
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.annotations import REGISTRATIONS, RESTARTS_OF_DRIVERS, RESTARTS_OF_SIDECARS
from dashboards.frame import NODE_UID, Row, board
from dashboards.panels import (
    STATE_NAMES,
    YES_OR_NO,
    Colours,
    Panel,
    events,
    graph,
    heat,
    lines,
    listing,
    now,
    number,
    rows,
    timeline,
)
from dashboards.queries import (
    DRIVER,
    SIDECAR,
    increase,
    of_driver,
    of_process,
    of_sidecar,
    rate,
    seconds_since,
)
from dashboards.states import (
    no_driver_codes,
    registration_codes,
    registration_codes_of,
    silent_codes,
)

LIMIT = 20
"""Series that a panel shows where there is one for each driver: a node has fewer."""

_DRIVER_LEGEND = "{{node}} {{driver_name}} {{instance}}"
_SIDECAR_LEGEND = "{{node}} {{instance}}"

_PROBE = 'method_name="/csi.v1.Identity/Probe"'

_AGE_COLOURS = Colours("blue")


def build() -> Dashboard:
    """Put the dashboard together."""
    return board(
        NODE_UID,
        "CSI node registrar / Node and driver",
        "All that is known about the registration of the drivers on one node. Choose a node, or an "
        f"instance; with All, panels that have a line for each driver show {LIMIT} of them.",
        rows=[
            Row("How is it now?", _numbers()),
            Row("How was it?", _timelines()),
            Row("What did kubelet do?", _registrations()),
            Row("How does the driver answer?", _calls()),
            Row("Who asks the sidecar, and what does it need?", _process()),
            Row("What runs?", _versions()),
        ],
        annotations=[REGISTRATIONS, RESTARTS_OF_SIDECARS, RESTARTS_OF_DRIVERS],
    )


def _numbers() -> list[Panel]:
    codes = f"{registration_codes()} or {no_driver_codes()} or {silent_codes()}"
    state = number(
        "State",
        "Where the registration of each driver stands; no driver: it has never told its name; not "
        "reporting: Prometheus cannot scrape the sidecar.",
        now(f"topk({LIMIT}, {codes})", _DRIVER_LEGEND),
        colours=Colours("green"),
        mapping=STATE_NAMES,
    )
    return [state.span(6), *(panel.span(6) for panel in _ages())]


def _ages() -> list[Stat]:
    accepted_at = ("last_registration_timestamp_seconds", 'outcome="success"')
    good = f"{of_driver('probe_success')} == 1 and {of_driver('driver_up')} == 1"
    last_good = f"max_over_time(timestamp({good})[$__range:$__interval])"
    return [
        number(
            "Since kubelet last asked",
            "The time since kubelet last called GetInfo, the first step of each registration.",
            now(_newest(seconds_since("last_get_info_timestamp_seconds")), _DRIVER_LEGEND),
            unit="s",
            colours=_AGE_COLOURS,
            if_none="never",
        ),
        number(
            "Since kubelet last accepted",
            "The time since kubelet last accepted the driver.",
            now(_newest(seconds_since(*accepted_at)), _DRIVER_LEGEND),
            unit="s",
            colours=_AGE_COLOURS,
            if_none="never",
        ),
        number(
            "Since the last good probe",
            "The time since the driver was last seen to answer and to say ready. Looks back over "
            "the time on display.",
            now(_newest(f"time() - max by ({DRIVER}) ({last_good})"), _DRIVER_LEGEND),
            unit="s",
            colours=Colours("green", {60: "orange", 300: "red"}),
            if_none="not in this time",
        ),
    ]


def _newest(ages: str) -> str:
    return f"bottomk({LIMIT}, {ages})"


def _timelines() -> list[StateTimeline]:
    shown = f"topk({LIMIT}, {queries.unregistered_share()})"
    gauges = {
        "registration_socket_present": "registration socket there",
        "csi_socket_present": "driver's socket there",
        "driver_up": "driver answers",
        "probe_success": "driver ready",
    }
    return [
        timeline(
            "States of the registration",
            f"Where the registration stood; the {LIMIT} drivers registered least, if there are "
            "more.",
            graph(registration_codes_of(shown), _DRIVER_LEGEND),
            names=STATE_NAMES,
        )
        .span(24)
        .height(6),
        timeline(
            "What was there",
            "The two sockets, and whether the driver answered and said ready when last looked at. "
            "A driver that does not answer is not asked whether it is ready.",
            *(
                graph(
                    f"{of_driver(family)} and on ({DRIVER}) {shown}", f"{words}, {_DRIVER_LEGEND}"
                )
                for family, words in gauges.items()
            ),
            names=YES_OR_NO,
        )
        .span(24)
        .height(8),
    ]


def _registrations() -> list[Panel]:
    panels = [
        events(
            "Verdicts by kubelet",
            "How often kubelet accepted (success) or refused (failure) the driver. A kubelet that "
            "restarts accepts once more.",
            graph(increase("registrations_total", "outcome"), "{{outcome}}"),
        ),
        lines(
            "GetInfo calls by kubelet",
            "Calls without a verdict that follows mean that kubelet asks and fails later.",
            graph(rate("get_info_requests_total", "driver_name"), "{{driver_name}}"),
            unit="ops",
        ),
        events(
            "Announcements",
            "How often the socket was shown to kubelet, by reason. All but start and requested are "
            "repairs.",
            graph(increase("announcements_total", "reason"), "{{reason}}"),
        ),
        lines(
            "Duration of the last registration",
            "From the last announcement that kubelet accepted to its acceptance, refusals in "
            "between included.",
            graph(
                f"topk({LIMIT}, {of_driver('registration_duration_seconds')} > 0)", _DRIVER_LEGEND
            ),
            unit="s",
        ),
    ]
    return [panel.span(6) for panel in panels]


def _calls() -> list[Panel]:
    buckets = rate("csi_call_duration_seconds_bucket", "le", _PROBE)
    panels: list[Panel] = [
        heat(
            "Duration of Probe",
            "How long Probe took, as the number of calls a second in each bucket.",
            buckets,
        ),
        lines(
            "Percentiles of Probe",
            "What half, nine in ten and 99 of a hundred calls stayed below. Never more than the "
            "last bound, 1 s: what takes longer is among the calls by code.",
            graph(f"histogram_quantile(0.5, {buckets})", "median"),
            graph(f"histogram_quantile(0.9, {buckets})", "p90"),
            graph(f"histogram_quantile(0.99, {buckets})", "p99"),
            unit="s",
        ),
        lines(
            "Calls to the driver",
            "By method and by the code that they ended with.",
            graph(
                "sum by (method_name, grpc_status_code) "
                f"({queries.rate_of_calls()} {queries.only_ours()})",
                "{{method_name}} {{grpc_status_code}}",
            ),
            unit="ops",
        ),
        lines(
            "Probe results",
            "Probe calls by what came of them; not_ready is an answer, error and timeout are none.",
            graph(rate("probes_total", "result"), "{{result}}"),
            unit="ops",
        ),
    ]
    return [panel.span(6) for panel in panels]


def _process() -> list[Panel]:
    requests = f"rate({of_sidecar('http_requests_total')}[$__rate_interval])"
    panels = [
        lines(
            "HTTP requests",
            "Answers of the sidecar, by handler and code: kubelet's probes and the scrapes.",
            graph(f"sum by (handler, code) ({requests})", "{{handler}} {{code}}"),
            unit="reqps",
        ),
        lines(
            "CPU",
            "Cores that the sidecar uses.",
            graph(
                f"topk({LIMIT}, {queries.rate_of_process('process_cpu_seconds_total')})",
                _SIDECAR_LEGEND,
            ),
            unit="cores",
        ),
        lines(
            "Memory",
            "Resident memory of the sidecar.",
            graph(f"topk({LIMIT}, {of_process('process_resident_memory_bytes')})", _SIDECAR_LEGEND),
            unit="bytes",
        ),
        lines(
            "File descriptors",
            "Those that the sidecar has open; a number that grows for days is a leak.",
            graph(f"topk({LIMIT}, {of_process('process_open_fds')})", _SIDECAR_LEGEND),
            unit="short",
        ),
        events(
            "Restarts",
            "How often the sidecar began anew under the same address, and how often the driver "
            "answered on another socket than before.",
            graph(f"sum({queries.restarts_of_sidecars()})", "sidecar"),
            graph(increase("driver_restarts_total", "driver_name"), "{{driver_name}}"),
        ),
    ]
    widths = (8, 8, 8, 12, 12)
    return [panel.span(width) for panel, width in zip(panels, widths, strict=True)]


def _versions() -> list[Panel]:
    build = "version, revision, python_version"
    info = "driver_version, registration_socket_path"
    return [
        listing(
            "Sidecar",
            "Which build of this program runs.",
            rows(f"topk({LIMIT}, group by ({SIDECAR}, {build}) ({of_sidecar('build_info')}))"),
            columns={
                "node": "Node",
                "instance": "Instance",
                "version": "Version",
                "revision": "Revision",
                "python_version": "Python",
            },
        ).span(9),
        listing(
            "Drivers",
            "The version that each driver gives, and its registration socket as the host sees it, "
            "where that is known.",
            rows(f"topk({LIMIT}, group by ({DRIVER}, {info}) ({of_driver('driver_info')}))"),
            columns={
                "node": "Node",
                "driver_name": "Driver",
                "driver_version": "Version",
                "registration_socket_path": "Registration socket",
            },
        ).span(15),
        lines(
            "The sockets as kubelet sees them",
            "Whether kubelet has found the registration socket, and whether it takes it for "
            "registered. Needs kubelet's own metrics, with the label node.",
            graph(_kubelet_sees("desired"), "found {{socket_path}}"),
            graph(_kubelet_sees("actual"), "registered {{socket_path}}"),
            unit="short",
        )
        .no_value("no metrics of kubelet")
        .span(24),
    ]


def _kubelet_sees(world: str) -> str:
    return f"sum by (socket_path) ({queries.of_kubelet(world)})"
