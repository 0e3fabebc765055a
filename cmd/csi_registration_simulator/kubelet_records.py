"""What a simulated kubelet can see and do, as records."""

from dataclasses import dataclass, field

from csi_registration_simulator.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Record):
    """kubelet runs and watches the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Record):
    """kubelet is gone; what it had written into the CSINode object stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketRecord(Record):
    """A record about one registration socket."""

    socket_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketCreated(SocketRecord):
    """A socket was found, or seen to appear: it will be called at a later tick."""

    is_update: bool = False
    """Whether the path was known already, so that the driver is deregistered first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketRemoved(SocketRecord):
    """A known socket's file was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialling(SocketRecord):
    """A try begins; the connection may take its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialled(SocketRecord):
    """A connection to the socket was made, or given up."""

    seconds: float = field(compare=False)
    error: str = ""
    """Empty if there is a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginAnswer:
    """What a registrar answers to GetInfo."""

    plugin_type: str
    driver_name: str
    endpoint: str
    supported_versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GetInfoAnswered(SocketRecord):
    """The registrar said who is behind the socket."""

    answer: PluginAnswer
    seconds: float = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetInfoFailed(SocketRecord):
    """The registrar did not answer GetInfo. kubelet says nothing to it about that."""

    code: str
    """As Go spells it, such as `DeadlineExceeded`."""
    error: str
    seconds: float = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """What a driver answers to NodeGetInfo, and what a CSINode object keeps of it."""

    node_id: str
    max_volumes_per_node: int = 0
    topology: tuple[tuple[str, str], ...] = ()
    """Keys and values of the accessible topology's segments, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGetInfoAnswered(SocketRecord):
    """The driver itself answered on the endpoint that GetInfo had given."""

    driver_name: str
    endpoint: str
    answer: NodeInfo
    seconds: float = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGetInfoFailed(SocketRecord):
    """The driver itself did not answer on the endpoint that GetInfo had given."""

    driver_name: str
    endpoint: str
    error: str
    seconds: float = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CSINodeChanged(Record):
    """kubelet wrote the CSINode object; here is which drivers it lists now."""

    driver_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notified(SocketRecord):
    """kubelet told the registrar its verdict, or tried to."""

    is_accepted: bool
    error: str
    """kubelet's reason; empty if it accepted."""
    code: str
    """What the registrar made of the call, as Go spells it: `OK`, `Unavailable`."""
    seconds: float = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationFailed(SocketRecord):
    """A try came to nothing, and kubelet logged why."""

    error: str
    back_off_seconds: float
    """From the end of this try; the next one starts at the first tick after that, if at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deregistered(SocketRecord):
    """kubelet forgot the driver of that name. No call is made for it."""

    driver_name: str
