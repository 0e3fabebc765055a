"""What differs between releases of kubelet, and its time limits."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How one release of kubelet treats failures."""

    version: str
    forgets_failed_registration: bool
    """Whether a driver that could not be registered, or a registrar that did not take the good
    news, is taken out of the actual state of the world. Only then there is another try; without
    it kubelet takes the job for done until the socket is created again."""


KUBELET_1_34: Final = Rules(version="1.34", forgets_failed_registration=False)
KUBELET_1_36: Final = Rules(version="1.36", forgets_failed_registration=True)
RULES: Final = {rules.version: rules for rules in (KUBELET_1_34, KUBELET_1_36)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """kubelet's intervals and deadlines, in seconds. The defaults are those of a real kubelet."""

    first_tick_seconds: float = 0.0
    """From the start to the first look of the reconciler; later ones follow from it. A real
    kubelet looks at once, so a socket that appears later finds an arbitrary phase."""
    tick_seconds: float = 1.0
    """Between two looks of the reconciler (`loopSleepDuration` of kubelet's plugin manager)."""
    dial_seconds: float = 10.0
    """For the connection to the registrar (`dialTimeoutDuration`)."""
    get_info_seconds: float = 1.0
    """For GetInfo."""
    node_get_info_seconds: float = 120.0
    """For the driver's NodeGetInfo (`csiTimeout` of kubelet's CSI volume plugin)."""
    notify_seconds: float = 5.0
    """For NotifyRegistrationStatus (`notifyTimeoutDuration`)."""
    first_back_off_seconds: float = 0.5
    """After the first failure on a path; doubled by each further one."""
    longest_back_off_seconds: float = 122.0
    """Where doubling ends."""
