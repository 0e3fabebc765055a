"""What the registrar has to be told about one driver."""

from dataclasses import dataclass
from enum import StrEnum


class OnRegistrationFailure(StrEnum):
    """What becomes of the process when kubelet refuses the driver."""

    RETRY = "retry"
    """Announce again after a back-off."""
    EXIT = "exit"
    """Remove the socket and stop, as the Go registrar does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """One driver to keep registered."""

    csi_address: str
    """The driver's socket as this process sees it."""
    kubelet_registration_path: str
    """The driver's socket as kubelet sees it on the host: the endpoint that kubelet is told."""
    registration_folder: str
    """kubelet's plugin registration folder as this process sees it."""
    timeout_seconds: float
    """For one call to the driver."""
    monitor_interval_seconds: float
    """Between two looks at a driver that is up."""
    kubelet_silence_seconds: float
    """After which a kubelet that has not called is called silent; 0 means never."""
    on_registration_failure: OnRegistrationFailure
