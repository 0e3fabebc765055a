"""What happened to each driver last, kept for the page at `/`: so much and no more, and no work.

What the page says of it is not here (`page`).
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from health.status_page import MAX_BARS
from registrar.observer import (
    Announced,
    AnnouncementReason,
    CallFinished,
    DriverForgotten,
    Event,
    GetInfoReceived,
    VerdictReceived,
)


class Call(NamedTuple):
    """One call to a driver."""

    at: float
    code: str
    seconds: float


@dataclass(slots=True, kw_only=True)
class History:
    """What happened to one driver under its name; times are Unix seconds, None if never."""

    calls: dict[str, deque[Call]] = field(default_factory=dict)
    """The latest by method, oldest first."""
    announced_at: float | None = None
    announcement_reason: AnnouncementReason = AnnouncementReason.START
    get_info_at: float | None = None
    accepted_at: float | None = None
    refused_at: float | None = None
    refusal: str = ""
    """kubelet's own words, also when it has accepted since."""


class RecentEvents:
    """Keeps what happened last (implements `registrar.Observer`)."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._histories: dict[str, History] = {}

    def of(self, csi_address: str) -> History:
        """Return what happened to the driver behind an address."""
        return self._histories.setdefault(csi_address, History())

    def notify(self, event: Event) -> None:
        """Keep an event if the page says something of its kind."""
        history, now = self.of(event.csi_address), self._clock()
        match event:
            case CallFinished():
                calls = history.calls.setdefault(event.method, deque(maxlen=MAX_BARS))
                calls.append(Call(now, event.code, event.seconds))
            case Announced():
                history.announced_at, history.announcement_reason = now, event.reason
            case GetInfoReceived():
                history.get_info_at = now
            case VerdictReceived(is_accepted=True):
                history.accepted_at = now
            case VerdictReceived():
                history.refused_at, history.refusal = now, event.error or "no reason given"
            case DriverForgotten():
                del self._histories[event.csi_address]
