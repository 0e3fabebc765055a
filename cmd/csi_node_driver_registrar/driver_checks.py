"""What healthy means for a driver that is kept registered: the registrar's answers as checks."""

from collections.abc import Awaitable, Callable
from functools import partial

from health.checks import Check, CheckName
from health.errors import Unhealthy
from registrar.errors import RegistrarError
from registrar.kubelet_refusals import with_explanation
from registrar.observer import State
from registrar.supervisor import Status, Supervisor

_NOT_REGISTERED = {
    State.WAITING: "nothing is published for kubelet yet",
    State.ANNOUNCED: "the socket is published, and kubelet has given no verdict on it yet",
    State.REJECTED: "kubelet refused the driver",
    State.STANDBY: "another live instance holds the registration, and this one stands by",
}


def driver_checks(supervisor: Supervisor, *, timeout_seconds: float) -> list[Check]:
    """Return the checks of one driver; each call to the driver gets `timeout_seconds`."""

    async def registration_socket() -> None:
        supervisor.check_socket()

    async def csi_driver() -> None:
        await supervisor.check_driver(timeout_seconds=timeout_seconds)

    async def csi_probe() -> None:
        await check_probe(partial(supervisor.probe_driver, timeout_seconds=timeout_seconds))

    async def kubelet_registration() -> None:
        check_registration(supervisor.status)

    asked = {
        CheckName.REGISTRATION_SOCKET: registration_socket,
        CheckName.CSI_DRIVER: csi_driver,
        CheckName.CSI_PROBE: csi_probe,
        CheckName.KUBELET_REGISTRATION: kubelet_registration,
    }
    return [
        Check(name=name, driver=lambda: supervisor.label, ask=in_words(ask))
        for name, ask in asked.items()
    ]


async def check_probe(probe: Callable[[], Awaitable[bool]]) -> None:
    """Return if the driver says that it is ready.

    Raises:
        Unhealthy: if it says that it is not.
    """
    if not await probe():
        raise Unhealthy("the driver says that it is not ready (Probe answered ready=false)")


def check_registration(status: Status) -> None:
    """Return if kubelet has accepted the driver.

    Raises:
        Unhealthy: if not, with the reason: kubelet's own words where it gave some.
    """
    if status.state is State.REGISTERED:
        return
    words = _NOT_REGISTERED[status.state]
    because = {
        State.WAITING: status.publication_problem or status.driver_problem,
        State.ANNOUNCED: status.kubelet_silence,
        State.REJECTED: with_explanation(status.kubelet_error),
    }.get(status.state)
    since = f"for {status.state_seconds:.0f} s"
    raise Unhealthy(f"{status.state} {since}: {words}{f': {because}' if because else ''}")


def in_words(ask: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Give a check's failure the sentence of the registrar's error, instead of its class."""

    async def asked() -> None:
        try:
            await ask()
        except RegistrarError as error:
            raise Unhealthy(str(error)) from error

    return asked
