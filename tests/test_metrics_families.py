"""Which event moves which series: one by one, and end to end with a real driver and kubelet."""

import asyncio
import functools
import os
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from unittest.mock import ANY

import aiohttp
import grpc
import pytest
from measuring import (
    CSI_ADDRESS,
    DRIVER_NAME,
    GET_PLUGIN_INFO,
    NOW,
    PROBE,
    MeasuringObserver,
    called,
    identified,
    labels_of,
    moved,
    notify_all,
    series,
    short_name,
)
from prometheus_client.registry import CollectorRegistry
from supervising import supervising

import registrar.observer
from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_rules import KUBELET_1_34
from health.addresses import parse_address
from health.http_server import Route, serving_http
from health.observer import Event as HealthEvent
from health.observer import Handler, RequestAnswered
from metrics.driver_values import CALL_BUCKETS
from metrics.exposition import metrics_handler
from metrics.families import CSI_FAMILIES, BuildInfo
from metrics.observer import HTTP_CODES, HTTP_HANDLERS, MetricsObserver
from metrics.registry import TolerantRegistry, register_process_metrics
from metrics.sidecar_histogram import BUCKETS, MAX_PAIRS
from registrar.errors import DriverError
from registrar.identity_client import go_code_name
from registrar.observer import (
    Announced,
    AnnouncementReason,
    CallFinished,
    CsiSocketSeen,
    DriverAnswered,
    DriverFailed,
    DriverForgotten,
    DriverIdentified,
    DriverRestarted,
    Event,
    GetInfoReceived,
    KubeletSilent,
    ProbeFinished,
    ProbeResult,
    RegistrationBlocked,
    RegistrationSocketSeen,
    State,
    StateChanged,
    VerdictReceived,
)
from registrar.settings import DriverSettings
from registrar.supervisor import Supervisor

SOCKET_PATH = f"/registration/{DRIVER_NAME}-reg.sock"
GO_CODES = [go_code_name(code) for code in grpc.StatusCode]

Move = tuple[str | None, str | None]
Moves = dict[str, Move]
"""By short name: what a series was and what it is now; None where it is not there."""


@pytest.fixture
def measured() -> MeasuringObserver:
    """Give metrics that no event has reached yet."""
    return MeasuringObserver()


def info(version: str, path: str = SOCKET_PATH) -> str:
    """Return the short name of the info series."""
    return f'driver_info{{driver_version="{version}",registration_socket_path="{path}"}}'


def calls(method: str, code: str = "OK") -> tuple[str, str]:
    """Return the short names of the counts that a call moves: compatible and fine-grained."""
    return (
        f'csi_sidecar_operations_seconds_count{{grpc_status_code="{code}",method_name="{method}"}}',
        f'csi_call_duration_seconds_count{{method_name="{method}"}}',
    )


def a(kind: Callable[..., Event], **attributes: object) -> Event:
    """Make an event of the driver that tests know."""
    return kind(**{"csi_address": CSI_ADDRESS, "driver_name": DRIVER_NAME, **attributes})


def changed_state(new: State, old: State = State.WAITING) -> Event:
    return a(StateChanged, old=old, new=new, registration_socket_path=SOCKET_PATH)


def from_waiting_to(state: State) -> Moves:
    return {
        'registration_state{state="waiting"}': ("1", "0"),
        **one_more(f'registration_state{{state="{state}"}}'),
    }


def one_more(name: str) -> Moves:
    return {name: ("0", "1")}


def announced(reason: AnnouncementReason) -> Event:
    return a(Announced, reason=reason, registration_socket_path=SOCKET_PATH)


def verdict(*, is_accepted: bool, seconds: float = 0.5) -> Event:
    return a(
        VerdictReceived,
        is_accepted=is_accepted,
        error="" if is_accepted else "no",
        seconds_since_announcement=seconds,
    )


def test_nothing_is_shown_of_a_driver_before_it_told_its_name(measured: MeasuringObserver) -> None:
    """Not even under the name `unknown-driver` of the Go sidecars."""
    anonymous = functools.partial(a, driver_name=None)
    notify_all(
        measured,
        [
            anonymous(CsiSocketSeen, is_present=False),
            anonymous(CallFinished, method=GET_PLUGIN_INFO, code="Unavailable", seconds=0.1),
            anonymous(DriverFailed, problem="there is no socket"),
        ],
    )
    assert measured.series() == {}


def test_all_series_of_a_driver_are_there_at_once_with_zeros(measured: MeasuringObserver) -> None:
    measured.notify(
        a(DriverIdentified, vendor_version="1.0.0", registration_socket_path=SOCKET_PATH)
    )
    values = {short_name(name): value for name, value in measured.series().items()}
    assert {name for name, value in values.items() if value != "0"} == {
        'registration_state{state="waiting"}',
        info("1.0.0"),
    }
    names = {name for name in values if not name.startswith("csi_call_duration")}
    assert names == {
        *(f'registration_state{{state="{state}"}}' for state in State),
        *(f'announcements_total{{reason="{reason}"}}' for reason in AnnouncementReason),
        *(f'probes_total{{result="{result}"}}' for result in ProbeResult),
        'registrations_total{outcome="success"}',
        'registrations_total{outcome="failure"}',
        'last_registration_timestamp_seconds{outcome="success"}',
        'last_registration_timestamp_seconds{outcome="failure"}',
        "registered",
        "get_info_requests_total",
        "last_get_info_timestamp_seconds",
        "registration_duration_seconds",
        "registration_socket_present",
        "csi_socket_present",
        "driver_up",
        "driver_restarts_total",
        "probe_success",
        info("1.0.0"),
    }


MOVES: list[tuple[Event, Moves]] = [
    (
        called(PROBE, "DeadlineExceeded", 1.5),
        {
            calls(PROBE, "DeadlineExceeded")[0]: (None, "1"),
            calls(PROBE, "DeadlineExceeded")[1]: ("1", "2"),
        },
    ),
    (a(ProbeFinished, result=ProbeResult.READY), {'probes_total{result="ready"}': ("1", "2")}),
    (
        a(ProbeFinished, result=ProbeResult.NOT_READY),
        {'probes_total{result="not_ready"}': ("0", "1"), "probe_success": ("1", "0")},
    ),
    (
        a(ProbeFinished, result=ProbeResult.ERROR),
        {'probes_total{result="error"}': ("0", "1"), "probe_success": ("1", "0")},
    ),
    (
        a(ProbeFinished, result=ProbeResult.TIMEOUT),
        {'probes_total{result="timeout"}': ("0", "1"), "probe_success": ("1", "0")},
    ),
    (a(CsiSocketSeen, is_present=False), {"csi_socket_present": ("1", "0")}),
    (a(DriverAnswered, vendor_version="1.0.0"), {}),
    (
        a(DriverAnswered, vendor_version="2.0.0"),
        {info("1.0.0"): ("1", None), info("2.0.0"): (None, "1")},
    ),
    (a(DriverFailed, problem="it hangs"), {"driver_up": ("1", "0")}),
    (a(DriverRestarted, has_changed_answer=False), {"driver_restarts_total": ("0", "1")}),
    *(
        (changed_state(state), from_waiting_to(state))
        for state in (State.ANNOUNCED, State.REJECTED, State.STANDBY)
    ),
    (
        changed_state(State.REGISTERED),
        {**from_waiting_to(State.REGISTERED), "registered": ("0", "1")},
    ),
    (a(RegistrationSocketSeen, is_present=True), {"registration_socket_present": ("0", "1")}),
    (a(RegistrationBlocked, problem="a file is in the way"), {}),
    *(
        (announced(reason), one_more(f'announcements_total{{reason="{reason}"}}'))
        for reason in AnnouncementReason
    ),
    (
        a(GetInfoReceived),
        {
            "get_info_requests_total": ("0", "1"),
            "last_get_info_timestamp_seconds": ("0", "1.7e+09"),
        },
    ),
    (
        verdict(is_accepted=False),
        {
            'registrations_total{outcome="failure"}': ("0", "1"),
            'last_registration_timestamp_seconds{outcome="failure"}': ("0", "1.7e+09"),
        },
    ),
    (
        verdict(is_accepted=True),
        {
            'registrations_total{outcome="success"}': ("0", "1"),
            'last_registration_timestamp_seconds{outcome="success"}': ("0", "1.7e+09"),
        },
    ),
    (a(KubeletSilent, silent_seconds=30.0, diagnosis="", retry_seconds=60.0), {}),
    (Event(csi_address=CSI_ADDRESS), {}),
]


@pytest.mark.parametrize(("event", "moves"), MOVES)
def test_an_event_moves_its_series_and_no_other(
    measured: MeasuringObserver,
    event: Event,
    moves: Moves,
) -> None:
    notify_all(measured, identified())
    before = measured.series()
    measured.notify(event)
    assert moved(before, measured.series()) == moves


def test_every_event_there_is_has_a_test_of_what_it_moves() -> None:
    tested = {type(event) for event, _ in MOVES} | {DriverIdentified, DriverForgotten}
    base = {registrar.observer.DriverEvent}
    kinds = (kind for kind in vars(registrar.observer).values() if isinstance(kind, type))
    assert {kind for kind in kinds if issubclass(kind, Event)} == tested | base


def test_the_duration_is_that_of_the_first_acceptance_after_an_announcement(
    measured: MeasuringObserver,
) -> None:
    """A kubelet that restarts accepts again, hours after the socket was published."""

    def duration() -> str:
        values = {short_name(name): value for name, value in measured.series().items()}
        return values["registration_duration_seconds"]

    notify_all(measured, identified())
    measured.notify(announced(AnnouncementReason.START))
    measured.notify(verdict(is_accepted=False, seconds=0.5))
    assert duration() == "0"
    measured.notify(verdict(is_accepted=True, seconds=1.5))
    assert duration() == "1.5"
    measured.notify(verdict(is_accepted=True, seconds=7200.0))
    assert duration() == "1.5"
    measured.notify(announced(AnnouncementReason.REQUESTED))
    measured.notify(verdict(is_accepted=True, seconds=0.75))
    assert duration() == "0.75"


def test_a_version_is_cut_to_what_the_specification_admits(measured: MeasuringObserver) -> None:
    notify_all(measured, identified())
    measured.notify(a(DriverAnswered, vendor_version="v" * 100_000))
    names = [short_name(name) for name in measured.series()]
    assert info("v" * 128) in names


def test_the_path_of_the_socket_is_the_hosts_where_the_caller_knows_it() -> None:
    registry = CollectorRegistry()
    metrics = MetricsObserver(
        registry, host_path=lambda path: path.replace("/registration/", "/host/")
    )
    for event in identified():
        metrics.notify(event)
    path = f"/host/{DRIVER_NAME}-reg.sock"
    assert info("1.0.0", path) in {short_name(name) for name in series(registry)}


def test_who_registers_no_driver_says_nothing_of_registrations() -> None:
    registry = CollectorRegistry()
    metrics = MetricsObserver(registry, families=CSI_FAMILIES)
    for event in identified():
        metrics.notify(event)
    names = {short_name(name).partition("{")[0] for name in series(registry)}
    assert {name for name in names if not name.endswith(("_bucket", "_sum", "_count"))} == {
        "csi_socket_present",
        "driver_up",
        "driver_restarts_total",
        "probe_success",
        "probes_total",
    }


def test_a_drivers_series_go_with_its_name_and_come_with_the_new_one(
    measured: MeasuringObserver,
) -> None:
    notify_all(measured, identified())
    of_the_old = measured.series()
    measured.notify(a(DriverForgotten))
    assert measured.series() == {}
    notify_all(measured, identified("y.csi.example.com")[2:])
    renamed = {
        name.replace("y.csi.example.com", DRIVER_NAME): value
        for name, value in measured.series().items()
    }
    assert moved(of_the_old, renamed) == {}
    assert 'csi_node_registrar_csi_socket_present{driver_name="y.csi.example.com"}' in (
        measured.series()
    )


def test_what_still_happens_under_an_old_name_leaves_no_trace(measured: MeasuringObserver) -> None:
    """The old registration may be under way while the driver already goes by another name."""
    notify_all(measured, identified())
    measured.notify(a(DriverForgotten))
    notify_all(measured, [event for event, _ in MOVES])
    assert measured.series() == {}
    notify_all(measured, identified("y.csi.example.com")[2:])
    before = measured.series()
    notify_all(measured, [event for event, _ in MOVES])
    assert measured.series() == before


def test_several_drivers_have_series_of_their_own(measured: MeasuringObserver) -> None:
    notify_all(measured, identified())
    notify_all(measured, identified("y.csi.example.com", "/other/csi.sock"))
    before = measured.series()
    notify_all(measured, [event for event, _ in MOVES])
    differing = {name for name, value in measured.series().items() if before.get(name) != value}
    assert {labels_of(name)["driver_name"] for name in differing} == {DRIVER_NAME}
    measured.notify(a(DriverForgotten))
    assert {labels_of(name)["driver_name"] for name in measured.series()} == {"y.csi.example.com"}


def test_two_drivers_of_one_name_share_series_until_both_are_gone(
    measured: MeasuringObserver,
) -> None:
    """A mistake of whoever set them up, and no reason for an exposition that nobody can read."""
    notify_all(measured, identified())
    notify_all(measured, identified(csi_address="/other/csi.sock"))
    assert measured.series()
    measured.notify(DriverForgotten(csi_address="/other/csi.sock", driver_name=DRIVER_NAME))
    assert measured.series()
    measured.notify(a(DriverForgotten))
    assert measured.series() == {}


def test_http_requests_are_counted_by_the_closed_sets_of_handlers_and_codes(
    measured: MeasuringObserver,
) -> None:
    for handler, code in (("healthz", 200), ("healthz", 200), ("/etc/passwd", 404), ("root", 418)):
        measured.metrics.count_http_request(handler, code)
    assert {short_name(name): value for name, value in measured.series().items()} == {
        'http_requests_total{code="200",handler="healthz"}': "2",
        'http_requests_total{code="404",handler="other"}': "1",
        'http_requests_total{code="other",handler="root"}': "1",
    }


def test_the_handlers_are_those_of_the_http_server() -> None:
    assert set(Handler) == HTTP_HANDLERS


def whole(metrics: MeasuringObserver) -> TolerantRegistry:
    """Return a registry with everything that the command shows."""
    metrics.registry.register(BuildInfo(version="1", revision="r", python_version="3"))
    register_process_metrics(metrics.registry)
    return metrics.registry


def test_a_healthy_driver_has_at_most_a_hundred_series(measured: MeasuringObserver) -> None:
    """With those that kubelet's probes leave behind while the driver comes up."""
    registry = whole(measured)
    notify_all(measured, identified())
    notify_all(measured, [called(GET_PLUGIN_INFO), called(PROBE)])
    for handler, code in (
        *((Handler.HEALTHZ, code) for code in (500, 200)),
        *((Handler.READYZ, code) for code in (500, 200)),
        (Handler.LIVEZ, 200),
        (Handler.METRICS, 200),
    ):
        measured.metrics.count_http_request(handler, code)
    assert len(series(registry)) <= 100


def test_no_state_has_more_than_two_hundred_series(measured: MeasuringObserver) -> None:
    """A driver that answers with every code there is, and a client that provokes every status."""
    registry = whole(measured)
    notify_all(measured, identified())
    notify_all(measured, [event for event, _ in MOVES])
    notify_all(
        measured, [called(method, code) for method in (GET_PLUGIN_INFO, PROBE) for code in GO_CODES]
    )
    for handler in (*HTTP_HANDLERS, "unknown"):
        for code in (*HTTP_CODES, 418):
            measured.metrics.count_http_request(handler, code)
    assert len(series(registry)) <= 200
    assert 'grpc_status_code="Unauthenticated"' in str(series(registry)), "the latest are shown"


def test_series_of_process_and_interpreter_are_the_standard_ones() -> None:
    registry = TolerantRegistry()
    register_process_metrics(registry)
    assert {name.partition("{")[0] for name in series(registry)} == {
        "process_cpu_seconds_total",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_virtual_memory_bytes",
        "python_info",
    }


def restart(number: int) -> list[Event]:
    return [
        a(CsiSocketSeen, is_present=False),
        called(GET_PLUGIN_INFO, GO_CODES[number % len(GO_CODES)]),
        a(DriverFailed, problem="gone"),
        a(CsiSocketSeen, is_present=True),
        called(GET_PLUGIN_INFO),
        a(DriverAnswered, vendor_version=f"1.0.{number}"),
        a(DriverRestarted, has_changed_answer=True),
        announced(AnnouncementReason.DRIVER_CHANGED),
        verdict(is_accepted=True),
    ]


def rename(number: int) -> list[Event]:
    old, new = f"x{number}.csi.example.com", f"x{number + 1}.csi.example.com"
    first = identified(old) if number == 0 else []
    return [*first, DriverForgotten(csi_address=CSI_ADDRESS, driver_name=old), *identified(new)]


@pytest.mark.parametrize("happens", [restart, rename])
def test_a_thousand_restarts_and_renames_grow_neither_series_nor_memory(
    happens: Callable[[int], list[Event]],
) -> None:
    registry = TolerantRegistry()
    metrics = MetricsObserver(registry)
    for event in identified():
        metrics.notify(event)

    def go_through(first: int, last: int) -> tuple[int, int]:
        for number in range(first, last):
            for event in happens(number):
                metrics.notify(event)
        return len(series(registry)), tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        go_through(0, 50)
        series_before, bytes_before = go_through(50, 100)
        series_after, bytes_after = go_through(100, 1100)
    finally:
        tracemalloc.stop()
    assert series_after == series_before
    assert bytes_after - bytes_before < 8192


@asynccontextmanager
async def registered(
    settings: DriverSettings, measured: MeasuringObserver
) -> AsyncIterator[Supervisor]:
    """Keep a driver registered that kubelet has accepted and whose first look is over."""
    async with supervising(settings, measured) as supervisor:
        await accepted(measured)
        await measured.wait_for(ProbeFinished)
        yield supervisor


async def accepted(measured: MeasuringObserver, after: int = 0) -> None:
    """Wait until kubelet has accepted the driver."""
    await measured.wait_for(VerdictReceived, lambda event: event.is_accepted, after=after)


NEW_REGISTRATION: Moves = {
    "get_info_requests_total": ("1", "2"),
    'registrations_total{outcome="success"}': ("1", "2"),
    "registration_duration_seconds": (ANY, ANY),
}
"""What a registration moves that begins and ends in the state `registered`, the clock of the test
standing still."""


async def test_a_registered_driver_shows_it(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    await driver.start()
    async with registered(settings, measured):
        values = {short_name(name): value for name, value in measured.series().items()}
        path = f"{settings.registration_folder}/{DRIVER_NAME}-reg.sock"
        durations = ("registration_duration_seconds", "csi_call_duration", "csi_sidecar")
        assert {
            name: value
            for name, value in values.items()
            if value != "0" and not name.startswith(durations)
        } == {
            "registered": "1",
            'registration_state{state="registered"}': "1",
            'registrations_total{outcome="success"}': "1",
            "get_info_requests_total": "1",
            "last_get_info_timestamp_seconds": "1.7e+09",
            'last_registration_timestamp_seconds{outcome="success"}': "1.7e+09",
            'announcements_total{reason="start"}': "1",
            "registration_socket_present": "1",
            "csi_socket_present": "1",
            "driver_up": "1",
            "probe_success": "1",
            'probes_total{result="ready"}': "1",
            info("1.0.0", path): "1",
        }
        assert 0 < float(values["registration_duration_seconds"]) < 5
        assert {calls(PROBE)[0]: values[calls(PROBE)[0]]} == {calls(PROBE)[0]: "1"}
        assert float(NOW) == float(values["last_get_info_timestamp_seconds"])


async def test_a_driver_that_is_dead_before_the_call(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    await driver.start()
    async with registered(settings, measured):
        before, seen = measured.series(), len(measured.events)
        await driver.stop()
        await measured.wait_for(DriverFailed, after=seen)
        compatible, fine = calls(GET_PLUGIN_INFO, "Unavailable")
        assert moved(before, measured.series()) == {
            compatible: (None, "1"),
            fine: ("0", "1"),
            "driver_up": ("1", "0"),
            "csi_socket_present": ("1", "0"),
        }


async def test_a_driver_that_hangs(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    await driver.start()
    async with registered(settings, measured) as supervisor:
        before = measured.series()
        driver.is_black_hole = True
        with pytest.raises(DriverError):
            await supervisor.probe_driver()
        await supervisor._watch.look()
        assert moved(before, measured.series()) == {
            calls(PROBE, "DeadlineExceeded")[0]: (None, "1"),
            calls(PROBE)[1]: ("1", "2"),
            calls(GET_PLUGIN_INFO, "DeadlineExceeded")[0]: (None, "1"),
            calls(GET_PLUGIN_INFO)[1]: ("0", "1"),
            "driver_up": ("1", "0"),
            "probe_success": ("1", "0"),
            'probes_total{result="timeout"}': ("0", "1"),
        }


async def test_a_driver_that_says_it_is_not_ready(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    """The Go livenessprobe counts this as OK, and so does the histogram that it shares."""
    await driver.start()
    async with registered(settings, measured) as supervisor:
        before = measured.series()
        driver.is_ready = False
        assert not await supervisor.probe_driver()
        assert moved(before, measured.series()) == {
            calls(PROBE)[0]: ("1", "2"),
            calls(PROBE)[1]: ("1", "2"),
            "probe_success": ("1", "0"),
            'probes_total{result="not_ready"}': ("0", "1"),
        }


async def test_a_kubelet_that_rejects_then_accepts(
    driver: SimulatedDriver,
    folder: str,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    """With a kubelet that does not try again by itself."""
    await driver.start()
    rules = KUBELET_1_34
    async with (
        SimulatedKubelet(f"{folder}/registration", rules=rules) as kubelet,
        registered(settings, measured) as supervisor,
    ):
        before, seen = measured.series(), len(measured.events)
        kubelet.refuse_next(1, "no such node")
        supervisor.request_announcement()
        await measured.wait_for(StateChanged, lambda event: event.new is State.REJECTED, after=seen)
        rejected = measured.series()
        assert moved(before, rejected) == {
            "registered": ("1", "0"),
            'registration_state{state="registered"}': ("1", "0"),
            'registration_state{state="rejected"}': ("0", "1"),
            'registrations_total{outcome="failure"}': ("0", "1"),
            'last_registration_timestamp_seconds{outcome="failure"}': ("0", "1.7e+09"),
            "get_info_requests_total": ("1", "2"),
            'announcements_total{reason="requested"}': ("0", "1"),
        }
        await accepted(measured, after=seen)
        assert moved(rejected, measured.series()) == {
            "registered": ("0", "1"),
            'registration_state{state="registered"}': ("0", "1"),
            'registration_state{state="rejected"}': ("1", "0"),
            'registrations_total{outcome="success"}': ("1", "2"),
            "get_info_requests_total": ("2", "3"),
            'announcements_total{reason="rejected"}': ("0", "1"),
            "registration_duration_seconds": (ANY, ANY),
        }


async def test_a_kubelet_that_restarts(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    await driver.start()
    async with registered(settings, measured):
        before, seen = measured.series(), len(measured.events)
        await kubelet.restart()
        await accepted(measured, after=seen)
        expected = dict(NEW_REGISTRATION)
        del expected["registration_duration_seconds"]
        assert moved(before, measured.series()) == expected


async def test_a_registration_socket_that_is_removed(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    await driver.start()
    async with registered(settings, measured):
        before, seen = measured.series(), len(measured.events)
        os.unlink(f"{settings.registration_folder}/{DRIVER_NAME}-reg.sock")
        await measured.wait_for(StateChanged, lambda event: event.new is State.WAITING, after=seen)
        assert moved(before, measured.series())["registered"] == ("1", "0")
        await accepted(measured, after=seen)
        assert moved(before, measured.series()) == {
            **NEW_REGISTRATION,
            'announcements_total{reason="missing"}': ("0", "1"),
        }


def without_calls(
    moves: Moves,
) -> Moves:
    """Leave out the calls: how many a restart costs depends on when it is looked at."""
    names = ("csi_sidecar_operations", "csi_call_duration", "probes_total")
    return {name: move for name, move in moves.items() if not name.startswith(names)}


async def restarted(driver: SimulatedDriver, measured: MeasuringObserver, seen: int) -> None:
    """Restart the driver and wait until it was noticed and found ready."""
    await driver.restart()
    await measured.wait_for(DriverRestarted, after=seen)
    noticed = len(measured.events)
    await measured.wait_for(ProbeFinished, after=noticed)


async def test_a_driver_that_restarts_with_the_same_answer(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    await driver.start()
    async with registered(settings, measured):
        before, seen = measured.series(), len(measured.events)
        await restarted(driver, measured, seen)
        moves = moved(before, measured.series())
        assert without_calls(moves) == {"driver_restarts_total": ("0", "1")}
        assert moves['probes_total{result="ready"}'] == ("1", "2")


async def test_a_driver_that_restarts_with_another_answer(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    await driver.start()
    async with registered(settings, measured):
        before, seen = measured.series(), len(measured.events)
        driver.vendor_version = "2.0.0"
        await restarted(driver, measured, seen)
        await accepted(measured, after=seen)
        path = f"{settings.registration_folder}/{DRIVER_NAME}-reg.sock"
        assert without_calls(moved(before, measured.series())) == {
            **NEW_REGISTRATION,
            'announcements_total{reason="driver_changed"}': ("0", "1"),
            "driver_restarts_total": ("0", "1"),
            info("1.0.0", path): ("1", None),
            info("2.0.0", path): (None, "1"),
        }


async def test_a_driver_that_is_renamed(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    await driver.start()
    async with registered(settings, measured):
        before, seen = measured.series(), len(measured.events)
        await driver.restart(name="y.csi.example.com")
        await accepted(measured, after=seen)
        after = {
            name.replace("y.csi.example.com", DRIVER_NAME): value
            for name, value in measured.series().items()
        }
        assert len(after) == len(measured.series()), "nothing is left of the old name"
        assert without_calls(moved(before, after)) == {
            "driver_restarts_total": ("0", "1"),
            "registration_duration_seconds": (ANY, ANY),
        }


class HttpCounter:
    """Feeds the events of the HTTP server to the metrics, as the command does."""

    def __init__(self, metrics: MetricsObserver) -> None:
        self._metrics = metrics

    def notify(self, event: HealthEvent) -> None:
        """Count a request that was answered."""
        if isinstance(event, RequestAnswered):
            self._metrics.count_http_request(event.handler, event.code)


async def test_requests_for_a_thousand_paths_that_do_not_exist(
    measured: MeasuringObserver,
) -> None:
    route = Route("/metrics", metrics_handler(measured.registry), Handler.METRICS)
    notify_all(measured, identified())
    before = measured.series()
    async with (
        asyncio.TaskGroup() as tasks,
        serving_http(
            parse_address("127.0.0.1:0"),
            [route],
            tasks=tasks,
            observer=HttpCounter(measured.metrics),
        ) as http,
        aiohttp.ClientSession() as session,
    ):
        await http.up()
        for number in range(1000):
            async with session.get(f"{http.url}/path-{number}/{number}") as answer:
                assert answer.status == 404
        async with session.head(f"{http.url}/metrics") as answer:
            assert answer.status == 200
    assert moved(before, measured.series()) == {
        'http_requests_total{code="404",handler="other"}': (None, "1000"),
        'http_requests_total{code="200",handler="metrics"}': (None, "1"),
    }


def test_the_buckets_of_both_histograms_go_upwards_and_overlap() -> None:
    """So that what the finer one lumps together is told apart by the other."""
    assert list(CALL_BUCKETS.bounds) == sorted(CALL_BUCKETS.bounds)
    assert list(BUCKETS.bounds) == sorted(BUCKETS.bounds)
    assert BUCKETS.bounds[0] <= CALL_BUCKETS.bounds[-1]
    assert MAX_PAIRS >= 6, "each of two methods: good, dead, and hung"
