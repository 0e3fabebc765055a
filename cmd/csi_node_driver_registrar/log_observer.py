"""What happens to registrations, as log lines: each transition once, healthy routine never.

All sentences that an operator reads about a registration stand here, with the same keys.
"""

from collections.abc import Callable

from csi_node_driver_registrar.klog import Logger
from registrar.kubelet_refusals import explain_refusal
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
    SilenceCause,
    State,
    StateChanged,
    VerdictReceived,
)

_log = Logger(__name__)

# An operator who asks for details gets them: the first level for kubelet's rounds, the second for
# every call to the driver.
_ROUNDS = 4
_CALLS = 5

# A refusal or a fault that comes back in other words each time (a time stamp, a port) must not fill
# the log, so no more than so many distinct texts are remembered, and logged, per driver.
_MAX_DISTINCT_TEXTS = 100


class LogObserver:
    """Writes the events that an operator wants to know (implements `registrar.Observer`)."""

    def __init__(self) -> None:
        self._driver_problems: dict[str, str] = {}
        self._unready: set[str] = set()
        self._refusals: dict[str, set[str]] = {}
        self._silences: dict[str, SilenceCause] = {}
        self._handlers: dict[type[Event], Callable[..., None]] = {
            Announced: self._announced,
            CallFinished: self._call_finished,
            CsiSocketSeen: self._csi_socket_seen,
            DriverAnswered: self._driver_answered,
            DriverFailed: self._driver_failed,
            DriverForgotten: self._driver_forgotten,
            DriverIdentified: self._driver_identified,
            DriverRestarted: self._driver_restarted,
            GetInfoReceived: self._get_info_received,
            KubeletSilent: self._kubelet_silent,
            ProbeFinished: self._probe_finished,
            RegistrationBlocked: self._registration_blocked,
            StateChanged: self._state_changed,
            VerdictReceived: self._verdict_received,
        }

    def notify(self, event: Event) -> None:
        """Write a line if the event deserves one."""
        handle = self._handlers.get(type(event))
        if handle is not None:
            handle(event)

    def _driver_identified(self, event: DriverIdentified) -> None:
        _log.info(
            "CSI driver found",
            driverName=event.driver_name,
            driverVersion=event.vendor_version,
            csiAddress=event.csi_address,
        )

    def _driver_forgotten(self, event: DriverForgotten) -> None:
        _log.warning("CSI driver goes by another name now", oldDriverName=event.driver_name)
        self._refusals.pop(event.driver_name, None)
        self._unready.discard(event.driver_name)
        self._silences.pop(event.driver_name, None)

    def _driver_failed(self, event: DriverFailed) -> None:
        if self._driver_problems.get(event.csi_address) == event.problem:
            return
        self._driver_problems[event.csi_address] = event.problem
        _log.warning(
            "CSI driver does not answer; asking again until it does",
            problem=event.problem,
            csiAddress=event.csi_address,
            driverName=event.driver_name or "",
        )

    def _driver_answered(self, event: DriverAnswered) -> None:
        if self._driver_problems.pop(event.csi_address, None) is not None:
            _log.info(
                "CSI driver answers again",
                driverName=event.driver_name,
                csiAddress=event.csi_address,
            )

    def _driver_restarted(self, event: DriverRestarted) -> None:
        _log.info(
            "CSI driver was restarted",
            driverName=event.driver_name,
            hasChangedAnswer=event.has_changed_answer,
        )

    def _csi_socket_seen(self, event: CsiSocketSeen) -> None:
        _log.info(
            "CSI driver's socket looked for",
            v=_ROUNDS,
            csiAddress=event.csi_address,
            isPresent=event.is_present,
        )

    def _probe_finished(self, event: ProbeFinished) -> None:
        is_ready = event.result is ProbeResult.READY
        if is_ready and event.driver_name in self._unready:
            self._unready.discard(event.driver_name)
            _log.info("CSI driver is ready", driverName=event.driver_name)
        elif not is_ready and event.driver_name not in self._unready:
            self._unready.add(event.driver_name)
            _log.warning(
                "CSI driver is not ready", driverName=event.driver_name, probe=event.result
            )

    def _call_finished(self, event: CallFinished) -> None:
        _log.info(
            "CSI call finished",
            v=_CALLS,
            method=event.method,
            code=event.code,
            seconds=round(event.seconds, 6),
            csiAddress=event.csi_address,
        )

    def _announced(self, event: Announced) -> None:
        is_first = event.reason is AnnouncementReason.START
        log = _log.info if is_first else _log.warning
        log(
            "Registration socket published" if is_first else "Registration socket published again",
            driverName=event.driver_name,
            socketPath=event.registration_socket_path,
            reason=event.reason,
        )

    def _get_info_received(self, event: GetInfoReceived) -> None:
        _log.info("kubelet called GetInfo", v=_ROUNDS, driverName=event.driver_name)

    def _verdict_received(self, event: VerdictReceived) -> None:
        self._silences.pop(event.driver_name, None)
        if event.is_accepted:
            self._refusals.pop(event.driver_name, None)
            return
        known = self._refusals.setdefault(event.driver_name, set())
        if event.error in known or len(known) >= _MAX_DISTINCT_TEXTS:
            return
        known.add(event.error)
        meaning = explain_refusal(event.error)
        _log.error(
            "kubelet refused the driver",
            err=event.error or "kubelet gave no reason",
            driverName=event.driver_name,
            **({"meaning": meaning} if meaning else {}),
        )

    def _state_changed(self, event: StateChanged) -> None:
        name, path = event.driver_name, event.registration_socket_path
        match event.new:
            case State.REGISTERED:
                _log.info("kubelet registered the driver", driverName=name)
            case State.STANDBY:
                _log.warning(
                    "Another live instance holds the registration; standing by",
                    driverName=name,
                    socketPath=path,
                )
            case State.WAITING:
                _log.warning(
                    "Registration socket was lost", driverName=name, socketPath=path, was=event.old
                )
            case _:
                _log.info("Registration changed", v=_ROUNDS, driverName=name, state=event.new)

    def _registration_blocked(self, event: RegistrationBlocked) -> None:
        _log.error(
            "Registration socket cannot be published; trying again every second",
            err=event.problem,
            driverName=event.driver_name,
        )

    def _kubelet_silent(self, event: KubeletSilent) -> None:
        """Give the diagnosis once for each cause; it stays to be read in `/readyz?verbose`."""
        is_known = self._silences.get(event.driver_name) is event.cause
        self._silences[event.driver_name] = event.cause
        _log.warning(
            "kubelet is still silent" if is_known else "kubelet is silent",
            driverName=event.driver_name,
            silentSeconds=round(event.silent_seconds),
            nextAnnouncementSeconds=round(event.retry_seconds),
            **({} if is_known else {"diagnosis": event.diagnosis}),
            cause=event.cause,
        )
