"""What happens to a registration, as events, and the protocol of whoever wants to know.

The registrar neither logs nor measures: it notifies one observer, and the command decides what
becomes of it. What an event *does* to a registration is not here (`registration`).
"""

from enum import StrEnum
from typing import Protocol

from registrar.records import Record


class State(StrEnum):
    """Where one driver's registration stands; exactly one at a time."""

    WAITING = "waiting"
    """Nothing is published: no driver name yet, or the folder does not take the socket."""
    ANNOUNCED = "announced"
    """The socket is published and kubelet has given no verdict on it yet."""
    REGISTERED = "registered"
    """kubelet accepted the driver, and nothing has undone it since."""
    REJECTED = "rejected"
    """kubelet refused the driver and said why."""
    STANDBY = "standby"
    """Another live instance holds the socket's path and answers for the driver."""


class AnnouncementReason(StrEnum):
    """Why kubelet was told of the socket."""

    START = "start"
    MISSING = "missing"
    """The socket was gone from the folder."""
    REPLACED = "replaced"
    """A socket that nobody answers on had taken the path."""
    REJECTED = "rejected"
    """kubelet had refused the driver, and the back-off was over."""
    SILENCE = "silence"
    """kubelet had not called for too long."""
    DRIVER_CHANGED = "driver_changed"
    """The driver's answer to GetPluginInfo differs, so its NodeGetInfo may too."""
    REQUESTED = "requested"
    """The operator asked for it (SIGHUP)."""


class ProbeResult(StrEnum):
    """What the driver's Probe came to (CSI specification, Identity service)."""

    READY = "ready"
    NOT_READY = "not_ready"
    ERROR = "error"
    TIMEOUT = "timeout"


class SilenceCause(StrEnum):
    """Why kubelet has not registered the driver, as far as that can be told from inside."""

    OTHER_FOLDER = "other_folder"
    """The registration folder is not the one in kubelet's root."""
    PLUGINS_FOLDER = "plugins_folder"
    """The registration folder is `plugins`, and kubelet watches `plugins_registry`."""
    POD_VOLUME = "pod_volume"
    """The registration folder is a volume of the pod, such as an emptyDir."""
    NO_VOLUME = "no_volume"
    """The registration folder is the container's own."""
    FOLDER_DELETED = "folder_deleted"
    """The registration folder has been removed on the host."""
    MOUNTED_OVER = "mounted_over"
    """The registration folder is a file system of its own, which kubelet may not see."""
    INOTIFY_USED_UP = "inotify_used_up"
    """The kernel gives kubelet's user no watch any more."""
    BROKEN_WATCH = "broken_watch"
    """kubelet lives and should see the socket."""
    BACK_OFF = "back_off"
    """kubelet may still avoid the path because of a dead socket there."""
    OWN_SLOWNESS = "own_slowness"
    """This process does not answer within kubelet's second."""
    NO_VERDICT = "no_verdict"
    """kubelet asked and was answered, and is waiting for something else."""
    KUBELET_GONE = "kubelet_gone"
    """kubelet called before, and does not any more."""
    UNKNOWN = "unknown"


class Event(Record):
    """Something that happened to the driver behind one `--csi-address`."""

    csi_address: str
    """The path of the driver's socket as this process sees it: known from the start."""


class DriverEvent(Event):
    """An event of a driver whose name is known."""

    driver_name: str


class CallFinished(Event):
    """A call to the driver ended, also one that failed before it reached the driver."""

    driver_name: str | None
    """None until the driver's name is known."""
    method: str
    """The full gRPC path, such as `/csi.v1.Identity/Probe`."""
    code: str
    """The status as Go spells it, such as `OK` or `DeadlineExceeded`."""
    seconds: float


class ProbeFinished(DriverEvent):
    """The driver's readiness was asked for."""

    result: ProbeResult


class CsiSocketSeen(Event):
    """The driver's socket was looked for at its path. Sent on change and at first."""

    driver_name: str | None
    is_present: bool


class DriverIdentified(DriverEvent):
    """The driver told its name, for the first time or another one than before."""

    vendor_version: str
    registration_socket_path: str
    """Of the socket that will be published, as this process sees it."""


class DriverForgotten(DriverEvent):
    """The driver goes by another name now; nothing will be said of the old one any more."""


class DriverAnswered(DriverEvent):
    """The driver answered GetPluginInfo under its known name."""

    vendor_version: str


class DriverFailed(Event):
    """The driver could not be asked, or gave an answer that cannot be used."""

    driver_name: str | None
    problem: str
    """What happened, to which path or name, and what the operator can do."""


class DriverRestarted(DriverEvent):
    """The driver's socket is another one than before, and the driver answers on it."""

    has_changed_answer: bool
    """Whether GetPluginInfo's answer differs, so that kubelet is told once more."""


class StateChanged(DriverEvent):
    """The registration went from one state to another."""

    old: State
    new: State
    registration_socket_path: str


class RegistrationSocketSeen(DriverEvent):
    """The registration socket was looked for. Sent on change and at first."""

    is_present: bool
    """Whether a live socket for this driver is at the path: ours or a peer's."""


class RegistrationBlocked(DriverEvent):
    """The socket cannot be published; it is tried again every second."""

    problem: str


class Announced(DriverEvent):
    """The socket's name appeared in the folder, so kubelet will call."""

    reason: AnnouncementReason
    registration_socket_path: str


class GetInfoReceived(DriverEvent):
    """kubelet asked who is behind the socket, and was answered."""


class VerdictReceived(DriverEvent):
    """kubelet told what came of the registration."""

    is_accepted: bool
    error: str
    """kubelet's own words, cut to 1 KiB; empty if it accepted."""
    seconds_since_announcement: float


class KubeletSilent(DriverEvent):
    """kubelet owes a call, or its verdict, for longer than it should take."""

    silent_seconds: float
    diagnosis: str
    retry_seconds: float
    """Until the socket is announced once more, if kubelet still has not called."""
    cause: SilenceCause = SilenceCause.UNKNOWN
    """What the diagnosis names first."""


class Observer(Protocol):
    """Whoever wants to know what happens to a registration."""

    def notify(self, event: Event) -> None:
        """Take note of one event.

        Called on the event loop that answers kubelet: it must not block and must not raise.
        """
