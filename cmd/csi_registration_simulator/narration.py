"""Records in words, for the person at the terminal."""

from functools import singledispatch

from csi_registration_simulator import driver, kubelet_records
from csi_registration_simulator.records import Record


@singledispatch
def tell(record: Record) -> str:
    """Say in one line what happened."""
    raise TypeError(f"there are no words for a {type(record).__name__}")


@tell.register
def _(_: kubelet_records.Started) -> str:
    return "kubelet   starts, and calls every socket in the registration folder"


@tell.register
def _(_: kubelet_records.Stopped) -> str:
    return "kubelet   ends; the CSINode object stays as it is"


@tell.register
def _(record: kubelet_records.SocketCreated) -> str:
    then = "deregisters its driver at the next tick" if record.is_update else "calls it"
    return f"kubelet   sees the socket {record.socket_path} appear, and {then}"


@tell.register
def _(record: kubelet_records.SocketRemoved) -> str:
    return f"kubelet   sees the socket {record.socket_path} disappear"


@tell.register
def _(record: kubelet_records.Dialling) -> str:
    return f"kubelet   connects to {record.socket_path}"


@tell.register
def _(record: kubelet_records.Dialled) -> str:
    if record.error:
        return f"kubelet   has given up: {record.error} ({_took(record.seconds)})"
    return f"kubelet   is connected ({_took(record.seconds)})"


@tell.register
def _(record: kubelet_records.GetInfoAnswered) -> str:
    answer = record.answer
    return (
        f"kubelet   -> registrar GetInfo: {answer.plugin_type} {answer.driver_name} "
        f"at {answer.endpoint}, versions {', '.join(answer.supported_versions)} "
        f"({_took(record.seconds)})"
    )


@tell.register
def _(record: kubelet_records.GetInfoFailed) -> str:
    return f"kubelet   -> registrar GetInfo failed: {record.error} ({_took(record.seconds)})"


@tell.register
def _(record: kubelet_records.NodeGetInfoAnswered) -> str:
    return (
        f"kubelet   -> driver NodeGetInfo: node_id {record.answer.node_id} "
        f"({_took(record.seconds)})"
    )


@tell.register
def _(record: kubelet_records.NodeGetInfoFailed) -> str:
    return (
        f"kubelet   -> driver NodeGetInfo at {record.endpoint} failed: {record.error} "
        f"({_took(record.seconds)})"
    )


@tell.register
def _(record: kubelet_records.CSINodeChanged) -> str:
    names = ", ".join(record.driver_names) or "no driver"
    return f"kubelet   writes the CSINode object: {names}"


@tell.register
def _(record: kubelet_records.Notified) -> str:
    verdict = "registered" if record.is_accepted else f"refused: {record.error}"
    answer = "" if record.code == "OK" else f"; the call failed with {record.code}"
    return (
        f"kubelet   -> registrar NotifyRegistrationStatus: {verdict} "
        f"({_took(record.seconds)}){answer}"
    )


@tell.register
def _(record: kubelet_records.RegistrationFailed) -> str:
    return (
        f"kubelet   will not call {record.socket_path} for {record.back_off_seconds:g} s "
        f"after: {record.error}"
    )


@tell.register
def _(record: kubelet_records.Deregistered) -> str:
    return f"kubelet   deregisters the driver {record.driver_name} of {record.socket_path}"


@tell.register
def _(record: driver.DriverStarted) -> str:
    return f"driver    {record.name} listens"


@tell.register
def _(record: driver.DriverStopped) -> str:
    left = "has crashed; its socket is still there" if record.leaves_socket else "has ended"
    return f"driver    {left}"


@tell.register
def _(record: driver.CallReceived) -> str:
    sender = f", authority {record.authority}" if record.authority else ""
    return f"driver    <- {record.method}{sender}"


def _took(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
