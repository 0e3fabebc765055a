"""Notices that kubelet owes a call or a verdict, and keeps what may explain it.

Which explanation fits is not here (`kubelet_silence`), nor what is done then (`registration`).
"""

from collections.abc import Callable
from typing import NamedTuple

from registrar.kubelet_silence import Diagnosis, diagnose
from registrar.observer import AnnouncementReason, State
from registrar.registration import NODE_GET_INFO_LIMIT_SECONDS, Registration
from registrar.settings import DriverSettings
from registrar.silence_evidence import KubeletProbe, Silence

_VERDICT_SECONDS = 5.0
"""A verdict follows GetInfo within a second, if neither the driver nor the API server hangs."""

_PACE_SECONDS = 1.0
_LONGEST_PACE_SECONDS = 2.0
"""`note_pace` is called every second; with more than this in between, the process stood still."""


class SilenceReport(NamedTuple):
    """That kubelet is silent, for the observer."""

    silent_seconds: float
    diagnosis: Diagnosis
    retry_seconds: float
    """Until the socket is announced once more, if kubelet still has not called."""


class SilenceWatch:
    """What is known of one registration's silent kubelet."""

    def __init__(
        self,
        registration: Registration,
        settings: DriverSettings,
        socket_path: str,
        *,
        clock: Callable[[], float],
        kubelet_probe: Callable[[], KubeletProbe | None],
    ) -> None:
        self._registration = registration
        self._settings = settings
        self._socket_path = socket_path
        self._clock = clock
        self._kubelet_probe = kubelet_probe
        self._text = ""
        self._is_get_info_missed = False
        self._has_reported_verdict_missing = False
        self._unanswered_since: float | None = None
        self._pace_at = clock()
        self._standstill_seconds = 0.0
        self._dead_socket_at: float | None = None

    @property
    def text(self) -> str:
        """Why kubelet does not call; empty if it owes no call, or not for long enough."""
        return self._text if self._registration.state is State.ANNOUNCED else ""

    def get_info_received(self) -> None:
        """Take note that kubelet asked who is here."""
        self._text = ""
        self._unanswered_since = None
        self._is_get_info_missed = self._has_reported_verdict_missing = False

    def get_info_missed(self) -> None:
        """Take note that the answer came too late for kubelet."""
        self._is_get_info_missed = True

    def verdict_received(self) -> None:
        """Take note that kubelet has decided."""
        self._text = ""

    def announced(self, reason: AnnouncementReason) -> None:
        """Take note that kubelet was told of the socket."""
        self._standstill_seconds = 0.0
        if self._unanswered_since is None:
            self._unanswered_since = self._clock()
        if reason is not AnnouncementReason.SILENCE:
            self._text = ""

    def dead_socket_found(self) -> None:
        """Take note that a predecessor's dead socket had the path before the first announcement."""
        self._dead_socket_at = self._clock()

    def note_pace(self) -> None:
        """Notice that this process did not run when it should have, for lack of CPU or frozen."""
        now = self._clock()
        if now - self._pace_at > _LONGEST_PACE_SECONDS:
            self._standstill_seconds += now - self._pace_at - _PACE_SECONDS
        self._pace_at = now

    def report(self, due: AnnouncementReason | None) -> SilenceReport | None:
        """Return what is to be told now, before the announcement that is due; None if nothing."""
        silent_seconds = self._registration.silent_seconds(self._clock())
        if due is AnnouncementReason.SILENCE and silent_seconds is not None:
            return self._report(silent_seconds, self._registration.next_silence_interval())
        if self._has_reported_verdict_missing or not self._is_verdict_overdue():
            return None
        self._has_reported_verdict_missing = True
        waited = self._since(self._registration.last_get_info_at) or 0.0
        limit = 0.0 if self._is_get_info_missed else NODE_GET_INFO_LIMIT_SECONDS
        retry_seconds = limit + self._settings.kubelet_silence_seconds - waited
        return self._report(waited, max(0.0, retry_seconds))

    def _is_verdict_overdue(self) -> bool:
        registration = self._registration
        is_owed = registration.state is State.ANNOUNCED and registration.has_get_info
        waited = self._since(registration.last_get_info_at) or 0.0
        return is_owed and waited > _VERDICT_SECONDS and self._settings.kubelet_silence_seconds > 0

    def _report(self, silent_seconds: float, retry_seconds: float) -> SilenceReport:
        diagnosis = diagnose(self._silence(silent_seconds))
        self._text = diagnosis.text
        return SilenceReport(
            silent_seconds=silent_seconds, diagnosis=diagnosis, retry_seconds=retry_seconds
        )

    def _silence(self, silent_seconds: float) -> Silence:
        return Silence(
            socket_path=self._socket_path,
            kubelet_registration_path=self._settings.kubelet_registration_path,
            silent_seconds=silent_seconds,
            unanswered_seconds=self._since(self._unanswered_since) or 0.0,
            seconds_since_get_info=self._since(self._registration.last_get_info_at),
            has_get_info=self._registration.has_get_info,
            is_get_info_missed=self._is_get_info_missed,
            standstill_seconds=self._standstill_seconds,
            dead_socket_seconds_ago=self._since(self._dead_socket_at),
            kubelet_probe=self._kubelet_probe(),
        )

    def _since(self, then: float | None) -> float | None:
        return None if then is None else self._clock() - then
