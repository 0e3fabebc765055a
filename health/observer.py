"""What happens while health is asked for, as events, and the protocol of whoever wants to know.

This package neither logs nor measures: it notifies one observer, and the command decides what
becomes of it.
"""

from enum import StrEnum
from typing import NamedTuple, Protocol


class Handler(StrEnum):
    """Which part of the HTTP server answered: a closed set, fit for a metric's label."""

    HEALTHZ = "healthz"
    LIVEZ = "livez"
    READYZ = "readyz"
    METRICS = "metrics"
    ROOT = "root"
    OTHER = "other"
    """Unknown paths, and requests that are no HTTP."""


class RequestAnswered(NamedTuple):
    """An HTTP request was answered, be it with an error."""

    handler: Handler
    code: int
    """The HTTP status."""
    user_agent: str
    """As the client calls itself: kubelet's probes are `kube-probe/X.Y`. Empty if it does not."""


class CheckChanged(NamedTuple):
    """A check fails that passed before, or the other way round; to pass at first is no news."""

    check: str
    driver: str
    """The driver's name, or its `--csi-address` as long as the name is unknown."""
    reason: str | None
    """Why it fails; None if it passes again."""


class ListeningFailed(NamedTuple):
    """An address cannot be listened on; it is tried again until it can. Sent once per cause."""

    address: str
    """As the flag has it."""
    errno: int | None
    """None where the cause has no number."""
    problem: str


class ListeningStarted(NamedTuple):
    """An address is listened on, at once or after failures."""

    address: str
    """As the flag has it."""
    url: str
    """With the port that was really taken."""


Event = RequestAnswered | CheckChanged | ListeningFailed | ListeningStarted
"""Something that happened while health was served."""


class Observer(Protocol):
    """Whoever wants to know what happens while health is served."""

    def notify(self, event: Event) -> None:
        """Take note of one event.

        Called on the event loop that answers probes: it must not block and must not raise.
        """
