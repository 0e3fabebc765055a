"""What the page at `/` says of each driver: the registrar's answers and what happened last."""

import time
from collections.abc import Iterable

from csi_node_driver_registrar.recent_events import Call, History, RecentEvents
from health.checks import Latest
from health.overall import Health
from health.sparkline import Bar
from health.status_page import Calls, DriverStatus, Tone
from health.times import ago, duration, utc
from registrar.kubelet_refusals import with_explanation
from registrar.observer import State
from registrar.supervisor import Status, Supervisor

_PATIENCE_SECONDS = 0.05
"""For the checks, before the page goes out with what they came to earlier: a driver that is well
answers within it, and whoever looks at the page does so because one is not."""

_TONES = {State.REGISTERED: Tone.GOOD, State.REJECTED: Tone.BAD}


async def driver_statuses(
    supervisors: Iterable[Supervisor], health: Health, recent: RecentEvents
) -> list[DriverStatus]:
    """Return what is known of each driver now, for a person."""
    checks = await health.latest(patience_seconds=_PATIENCE_SECONDS)
    return [
        _driver_status(
            supervisor,
            [check for check in checks if check.driver == supervisor.label],
            recent.of(supervisor.settings.csi_address),
        )
        for supervisor in supervisors
    ]


def _driver_status(supervisor: Supervisor, checks: list[Latest], history: History) -> DriverStatus:
    status, now = supervisor.status, time.time()
    since = f"since {utc(now - status.state_seconds)}, for {duration(status.state_seconds)}"
    details = {
        "driver's version": status.vendor_version or "",
        "driver's socket": status.csi_address,
        "its path for kubelet": supervisor.settings.kubelet_registration_path,
        "registration socket": status.registration_socket_path or "",
    }
    return DriverStatus(
        name=supervisor.label,
        state=status.state,
        tone=_TONES.get(status.state, Tone.OPEN),
        since=since,
        problems=_problems(status),
        checks=checks,
        calls=[_calls(method, [*calls], now) for method, calls in history.calls.items()],
        details={**_kubelet(status, history, now), **_known(details)},
    )


def _problems(status: Status) -> dict[str, str]:
    return _known(
        {
            "driver's problem": status.driver_problem or "",
            "publication's problem": status.publication_problem or "",
            "kubelet's refusal": with_explanation(status.kubelet_error),
            "kubelet's silence": status.kubelet_silence,
        }
    )


def _kubelet(status: Status, history: History, now: float) -> dict[str, str]:
    """Say what passed between this process and kubelet, in the order of a registration.

    A refusal that still stands is a problem, and its text stands there.
    """
    refusal = "" if status.kubelet_error else f": {history.refusal}"
    return _known(
        {
            "announced": _moment(history.announced_at, now, f": {history.announcement_reason}"),
            "kubelet asked": _moment(history.get_info_at, now),
            "kubelet accepted": _moment(history.accepted_at, now),
            "kubelet refused": _moment(history.refused_at, now, refusal),
        }
    )


def _known(lines: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in lines.items() if text}


def _moment(at: float | None, now: float, more: str = "") -> str:
    return "" if at is None else f"{utc(at)}, {ago(now - at)}{more}"


def _calls(method: str, calls: list[Call], now: float) -> Calls:
    last, failed = calls[-1], [call.code for call in calls if call.code != "OK"]
    slowest = max(call.seconds for call in calls)
    words = (
        f"last {_milliseconds(last.seconds)} {last.code}, {ago(now - last.at)}; "
        f"of {len(calls)} the slowest {_milliseconds(slowest)}, {len(failed)} failed"
    )
    return Calls(
        method=method.rpartition("/")[2],
        words=f"{words}: {', '.join(dict.fromkeys(failed))}" if failed else words,
        bars=[Bar(call.seconds, has_failed=call.code != "OK") for call in calls],
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
