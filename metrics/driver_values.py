"""The numbers behind the series of one driver; which event moves which is in `observer`."""

from dataclasses import dataclass, field
from enum import StrEnum

from metrics.go_numbers import openmetrics_float
from metrics.histogram import Buckets, Histogram
from registrar.observer import AnnouncementReason, ProbeResult, State

CALL_BUCKETS = Buckets(
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, write=openmetrics_float
)
"""Fine where a healthy driver answers, a millisecond or so; what takes longer is told apart by
the compatible histogram, whose first bucket ends at 0.1 s. No more bounds than these: with them a
healthy driver stays within 100 series."""

_METHODS = ("/csi.v1.Identity/GetPluginInfo", "/csi.v1.Identity/Probe")


class Outcome(StrEnum):
    """kubelet's verdict, as a label."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(slots=True, kw_only=True)
class DriverValues:
    """What is known of one driver under one name, from the moment that it told its name.

    Times are Unix seconds; 0 means never.
    """

    version: str
    """As the driver gives it in GetPluginInfo."""
    registration_socket_path: str
    """As the host sees it, where known."""
    has_csi_socket: bool
    has_registration_socket: bool = False
    is_up: bool = False
    """Whether the last look at the driver found it answering."""
    is_ready: bool = False
    """Whether the last Probe said so."""
    state: State = State.WAITING
    restarts: int = 0
    get_info_requests: int = 0
    last_get_info_at: float = 0.0
    registrations: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    last_registration_at: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(Outcome, 0.0)
    )
    registration_seconds: float = 0.0
    """From the last announcement that was accepted to its acceptance."""
    is_acceptance_owed: bool = False
    """Whether an announcement has not been accepted yet. A kubelet that restarts accepts once more
    without one, and how long ago that was published says nothing."""
    announcements: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(AnnouncementReason, 0)
    )
    probes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ProbeResult, 0))
    calls: dict[str, Histogram] = field(
        default_factory=lambda: {method: Histogram(CALL_BUCKETS) for method in _METHODS}
    )
    """By full gRPC method."""
