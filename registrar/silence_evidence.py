"""What is known of a silent kubelet: from the registration, and by looking around from inside.

What follows from it is not here (`kubelet_silence`), nor how it is said (`silence_words`).
"""

import itertools
import os
from typing import NamedTuple

from registrar.cpu_throttling import Throttling, read_throttling
from registrar.inotify_quota import InotifyProblem, inotify_problem, shares_quota_with_owner
from registrar.kubelet_root import FolderReport, examine_folder, shown

BACK_OFF_LIMIT_SECONDS = 122.0
"""kubelet's longest pause after failures on one socket path, which no new socket ends (R10)."""

_SLOW_SECONDS = 1.0
_SLOW_SHARE = 0.25
"""Of the time since the announcement: who stands still for so much of it misses kubelet's calls,
though it repeats them."""

_LATELY_SECONDS = 60.0
"""Within it a kubelet that lives has probed: the default period is 10 s."""

_MAX_READ_NAMES = 1000
_MAX_LISTED_NAMES = 8
_MAX_NAME_CHARACTERS = 80


class KubeletProbe(NamedTuple):
    """kubelet's last HTTP probe of this process: the proof that it lived then."""

    version: str
    """As kubelet gives it, such as `1.36`."""
    seconds_ago: float


class Silence(NamedTuple):
    """What the registration itself knows of a kubelet that owes a call."""

    socket_path: str
    kubelet_registration_path: str
    silent_seconds: float
    """Since the socket was announced, or since kubelet's last GetInfo if that came later."""
    unanswered_seconds: float
    """Since the first of the announcements that kubelet has not followed."""
    seconds_since_get_info: float | None = None
    """Since kubelet last asked, ever; None if it never did."""
    has_get_info: bool = False
    """Whether kubelet has asked since the last announcement."""
    is_get_info_missed: bool = False
    """Whether our answer to that came after kubelet's second was over."""
    standstill_seconds: float = 0.0
    """For how long, in all, this process did not run when it should, since the announcement."""
    dead_socket_seconds_ago: float | None = None
    """When this process found a dead socket at the path as it started; None if it did not."""
    kubelet_probe: KubeletProbe | None = None

    @property
    def is_kubelet_alive(self) -> bool:
        """Whether kubelet has shown itself of late, while it did not follow an announcement."""
        limit = min(self.unanswered_seconds, _LATELY_SECONDS)
        return self.kubelet_probe is not None and self.kubelet_probe.seconds_ago <= limit

    @property
    def has_stood_still(self) -> bool:
        """Whether a GetInfo may have been lost because this process did not run."""
        return self.standstill_seconds >= _SLOW_SECONDS

    @property
    def is_slow(self) -> bool:
        """Whether this process stood still so long that kubelet's calls are lost every time."""
        share = self.standstill_seconds / max(self.silent_seconds, _SLOW_SECONDS)
        return self.has_stood_still and share >= _SLOW_SHARE

    @property
    def is_path_avoided(self) -> bool:
        """Whether kubelet may still pause because of a dead socket at the path."""
        ago = self.dead_socket_seconds_ago
        return ago is not None and ago <= BACK_OFF_LIMIT_SECONDS


class Surroundings(NamedTuple):
    """What can be seen around the registration folder."""

    report: FolderReport
    neighbours: str
    """What else lies in the folder, in words."""
    inotify_problem: InotifyProblem | None = None
    is_kubelets_inotify: bool = False
    """Whether kubelet runs as the same user, so that its quota is ours."""
    throttling: Throttling | None = None


def look_around(socket_path: str) -> Surroundings:
    """Gather what can be seen from inside; never raises, and changes nothing."""
    folder, own_name = os.path.split(socket_path)
    report = examine_folder(folder)
    root = report.kubelet_root
    return Surroundings(
        report=report,
        neighbours=_neighbours(folder, own_name),
        inotify_problem=inotify_problem(folder),
        is_kubelets_inotify=root is not None and shares_quota_with_owner(root.evidence),
        throttling=read_throttling(),
    )


def _neighbours(folder: str, own_name: str) -> str:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, _MAX_READ_NAMES)]
    except OSError as error:
        return f"The folder cannot be listed: {error.strerror}."
    others = sorted(name for name in names if name != own_name and not name.startswith("."))
    if not others:
        return "Nothing else lies in the folder, though kubelet's often holds other drivers."
    listed = ", ".join(shown(name, _MAX_NAME_CHARACTERS) for name in others[:_MAX_LISTED_NAMES])
    more = len(others) - _MAX_LISTED_NAMES
    return f"Beside the socket: {listed}{f' and {more} more' if more > 0 else ''}."
