"""What happens while health is asked for, as events, and the protocol of whoever wants to know.

This package neither logs nor measures: it notifies one observer, and the command decides what
becomes of it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Handler(StrEnum):
    """Which part of the HTTP server answered: a closed set, fit for a metric's label."""

    HEALTHZ = "healthz"
    LIVEZ = "livez"
    READYZ = "readyz"
    METRICS = "metrics"
    ROOT = "root"
    OTHER = "other"
    """Unknown paths, and requests that are no HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened while health was served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAnswered(Event):
    """An HTTP request was answered, be it with an error."""

    handler: Handler
    code: int
    """The HTTP status."""
    user_agent: str
    """As the client calls itself: kubelet's probes are `kube-probe/X.Y`. Empty if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckChanged(Event):
    """A check fails that passed before, or the other way round; to pass at first is no news."""

    check: str
    driver: str
    """The driver's name, or its `--csi-address` as long as the name is unknown."""
    reason: str | None
    """Why it fails; None if it passes again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningFailed(Event):
    """An address cannot be listened on; it is tried again until it can. Sent once per cause."""

    address: str
    """As the flag has it."""
    errno: int | None
    """None where the cause has no number."""
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningStarted(Event):
    """An address is listened on, at once or after failures."""

    address: str
    """As the flag has it."""
    url: str
    """With the port that was really taken."""


class Observer(Protocol):
    """Whoever wants to know what happens while health is served."""

    def notify(self, event: Event) -> None:
        """Take note of one event.

        Called on the event loop that answers probes: it must not block and must not raise.
        """
