"""Which event moves which numbers, and the collector that shows them.

The series of a driver exist from the event that tells its name to the one that takes it back, and
nothing else makes one: no event before or after leaves a trace.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry

from metrics.driver_values import CALL_BUCKETS, DriverValues, Outcome
from metrics.families import DRIVER_FAMILIES, DriverFamily, call_durations, http_requests
from metrics.histogram import Histogram
from metrics.sidecar_histogram import SidecarHistogram
from registrar.observer import (
    Announced,
    CallFinished,
    CsiSocketSeen,
    DriverAnswered,
    DriverFailed,
    DriverForgotten,
    DriverIdentified,
    DriverRestarted,
    Event,
    GetInfoReceived,
    ProbeFinished,
    ProbeResult,
    RegistrationSocketSeen,
    StateChanged,
    VerdictReceived,
)

HTTP_HANDLERS = frozenset({"healthz", "livez", "readyz", "metrics", "root", "other"})

HTTP_CODES = frozenset({200, 400, 404, 405, 500})
"""Those that the server gives; whatever else a library may think of counts as `other`."""

MAX_VERSION_CHARACTERS = 128
"""CSI specification, "Size Limits": what a driver may put into a string field."""


class MetricsObserver:
    """Turns events into numbers (implements `registrar.Observer`), and shows them to a registry."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        families: Sequence[DriverFamily] = DRIVER_FAMILIES,
        clock: Callable[[], float] = time.time,
        host_path: Callable[[str], str] = str,
    ) -> None:
        """Register with a registry.

        Args:
            registry: the caller's.
            families: what to show of each driver, beside its calls. Who registers no driver leaves
                out what would only say that none is registered.
            clock: gives Unix seconds.
            host_path: turns the path of a registration socket as this process sees it into the
                host's, where that is known, and must not raise.
        """
        self._families = families
        self._clock = clock
        self._host_path = host_path
        self._names: dict[str, str] = {}
        """By csi_address: the name that its driver goes by now."""
        self._drivers: dict[str, DriverValues] = {}
        self._has_csi_socket: dict[str, bool] = {}
        """By csi_address: seen before the name is known, and not told again when that changes."""
        self._sidecar_histogram = SidecarHistogram()
        self._http_requests: dict[tuple[str, str], int] = {}
        self._handlers: dict[type[Event], Callable[..., None]] = {
            Announced: self._announced,
            CallFinished: self._call_finished,
            CsiSocketSeen: self._csi_socket_seen,
            DriverAnswered: self._driver_answered,
            DriverFailed: self._driver_failed,
            DriverRestarted: self._driver_restarted,
            GetInfoReceived: self._get_info_received,
            ProbeFinished: self._probe_finished,
            RegistrationSocketSeen: self._registration_socket_seen,
            StateChanged: self._state_changed,
            VerdictReceived: self._verdict_received,
        }
        registry.register(self)

    def notify(self, event: Event) -> None:
        """Move the numbers that the event concerns; others stay as they are."""
        match event:
            case DriverIdentified():
                self._driver_identified(event)
            case DriverForgotten():
                self._forget_driver_at(event.csi_address)
            case CsiSocketSeen():
                self._has_csi_socket[event.csi_address] = event.is_present
        handle = self._handlers.get(type(event))
        name = self._names.get(event.csi_address)
        # A registration that is just being given up may still speak under its driver's old name.
        if handle is not None and name is not None and getattr(event, "driver_name", None) == name:
            handle(self._drivers[name], event)

    def count_http_request(self, handler: str, code: int) -> None:
        """Count one answer over HTTP; what is outside of the closed sets counts as `other`."""
        key = (
            handler if handler in HTTP_HANDLERS else "other",
            str(code) if code in HTTP_CODES else "other",
        )
        self._http_requests[key] = self._http_requests.get(key, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """Yield all families (`prometheus_client.registry.Collector`)."""
        drivers = dict(sorted(self._drivers.items()))
        for family in self._families:
            yield family.collect(drivers)
        yield call_durations(drivers)
        yield self._sidecar_histogram.family()
        yield http_requests(self._http_requests)

    def _driver_identified(self, event: DriverIdentified) -> None:
        self._names[event.csi_address] = event.driver_name
        values = DriverValues(
            version=event.vendor_version[:MAX_VERSION_CHARACTERS],
            registration_socket_path=self._host_path(event.registration_socket_path),
            has_csi_socket=self._has_csi_socket.get(event.csi_address, False),
        )
        self._drivers.setdefault(event.driver_name, values)

    def _forget_driver_at(self, csi_address: str) -> None:
        """Drop the series of a name, unless a driver at another address goes by it too."""
        name = self._names.pop(csi_address, None)
        if name is not None and name not in self._names.values():
            del self._drivers[name]
            self._sidecar_histogram.forget(name)

    def _call_finished(self, driver: DriverValues, event: CallFinished) -> None:
        histogram = driver.calls.setdefault(event.method, Histogram(CALL_BUCKETS))
        histogram.observe(event.seconds)
        self._sidecar_histogram.observe(
            self._names[event.csi_address],
            method=event.method,
            code=event.code,
            seconds=event.seconds,
        )

    def _probe_finished(self, driver: DriverValues, event: ProbeFinished) -> None:
        driver.probes[event.result] += 1
        driver.is_ready = event.result is ProbeResult.READY

    def _csi_socket_seen(self, driver: DriverValues, event: CsiSocketSeen) -> None:
        driver.has_csi_socket = event.is_present

    def _driver_answered(self, driver: DriverValues, event: DriverAnswered) -> None:
        driver.is_up = True
        driver.version = event.vendor_version[:MAX_VERSION_CHARACTERS]

    def _driver_failed(self, driver: DriverValues, _event: DriverFailed) -> None:
        driver.is_up = False

    def _driver_restarted(self, driver: DriverValues, _event: DriverRestarted) -> None:
        driver.restarts += 1

    def _state_changed(self, driver: DriverValues, event: StateChanged) -> None:
        driver.state = event.new

    def _registration_socket_seen(
        self, driver: DriverValues, event: RegistrationSocketSeen
    ) -> None:
        driver.has_registration_socket = event.is_present

    def _announced(self, driver: DriverValues, event: Announced) -> None:
        driver.announcements[event.reason] += 1
        driver.is_acceptance_owed = True

    def _get_info_received(self, driver: DriverValues, _event: GetInfoReceived) -> None:
        driver.get_info_requests += 1
        driver.last_get_info_at = self._clock()

    def _verdict_received(self, driver: DriverValues, event: VerdictReceived) -> None:
        outcome = Outcome.SUCCESS if event.is_accepted else Outcome.FAILURE
        driver.registrations[outcome] += 1
        driver.last_registration_at[outcome] = self._clock()
        if event.is_accepted and driver.is_acceptance_owed:
            driver.is_acceptance_owed = False
            driver.registration_seconds = event.seconds_since_announcement
