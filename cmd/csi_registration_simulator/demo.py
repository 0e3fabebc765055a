"""The sub-command `demo`: a driver, the real registrar and a kubelet, from start to end.

Every step waits for what must be seen, so the demonstration is a check as well.
"""

import argparse
import asyncio
import contextlib
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from csi_registration_simulator.arguments import duration_seconds
from csi_registration_simulator.driver import DriverStopped, SimulatedDriver
from csi_registration_simulator.errors import SimulatorError, StepFailedError
from csi_registration_simulator.kubelet import SimulatedKubelet, mapped
from csi_registration_simulator.kubelet_records import (
    CSINodeChanged,
    Deregistered,
    GetInfoAnswered,
    NodeGetInfoAnswered,
    Notified,
    SocketCreated,
)
from csi_registration_simulator.printing import Printer
from csi_registration_simulator.records import RecordT
from csi_registration_simulator.registrar_process import RegistrarProcess, registrar_running

DESCRIPTION = """\
Runs a simulated driver, a simulated kubelet and the real registrar in a temporary folder and
prints what passes between them, with the seconds since the start: the registration, a restart of
kubelet, a crash of the driver and its return in another version, and the end of the registrar on
SIGTERM. Ends with status 0 only if every step was seen."""

EPILOG = """\
examples:
  csi-registration-simulator demo
  csi-registration-simulator demo --registrar='my-registrar --v=5' --step-timeout=1m"""

_HOST_FOLDER = "/var/lib/kubelet/plugins"
_STEP_SECONDS = 30.0
"""The registrar looks at the driver every 10 s, and kubelet's ticks come on top."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this sub-command takes."""
    parser.add_argument(
        "--registrar",
        metavar="COMMAND",
        default=shlex.join([sys.executable, "-m", "csi_node_driver_registrar"]),
        help="the registrar's command, to which --csi-address, --kubelet-registration-path and "
        "--plugin-registration-path are added (default: this installation's)",
    )
    parser.add_argument(
        "--name",
        default="demo.csi.example.com",
        help="the driver's name (default: %(default)s)",
    )
    parser.add_argument(
        "--step-timeout",
        dest="step_seconds",
        metavar="DURATION",
        type=duration_seconds,
        default=_STEP_SECONDS,
        help="how long to wait for each step, such as 30s or 1m (default: %(default)g s)",
    )


async def run(arguments: argparse.Namespace) -> int:
    """Show everything and return the exit status.

    Raises:
        SimulatorError: A step was not seen, and the message names it.
    """
    printer = Printer()
    with tempfile.TemporaryDirectory(prefix="csi-") as folder:
        demonstration = _Demonstration(
            Path(folder), arguments.name, arguments.step_seconds, printer
        )
        await demonstration.show(shlex.split(arguments.registrar))
    printer.say("== every step was seen")
    return 0


class _Demonstration:
    """The parts that take part, and the steps in order."""

    def __init__(
        self, folder: Path, driver_name: str, step_seconds: float, printer: Printer
    ) -> None:
        self._printer = printer
        self._step_seconds = step_seconds
        self._registration_folder = folder / "registration"
        self._endpoint = f"{_HOST_FOLDER}/{driver_name}/csi.sock"
        self._driver = SimulatedDriver(folder / "csi.sock", name=driver_name)
        self._kubelet = SimulatedKubelet(
            self._registration_folder,
            local_path=mapped(f"{_HOST_FOLDER}/{driver_name}", str(folder)),
        )
        self._step_name = ""
        self._seen_until = 0
        for part in (self._driver, self._kubelet):
            part.listeners.append(printer.tell)

    async def show(self, registrar_command: Sequence[str]) -> None:
        """Show all steps."""
        command = [
            *registrar_command,
            f"--csi-address={self._driver.csi_address}",
            f"--kubelet-registration-path={self._endpoint}",
            f"--plugin-registration-path={self._registration_folder}",
        ]
        try:
            async with self._driver, self._kubelet:
                self._printer.say(f"== starting {shlex.join(command)}")
                async with registrar_running(command, self._say_for_registrar) as registrar:
                    await self._show_all(registrar)
        except StepFailedError:
            raise
        except SimulatorError as error:
            raise SimulatorError(f"{error}; step: {self._step_name or 'start'}") from error

    async def _show_all(self, registrar: RegistrarProcess) -> None:
        await self._show_registration()
        await self._show_kubelet_restart()
        await self._show_driver_crash()
        await self._show_end(registrar)

    async def _show_registration(self) -> None:
        async with self._step("the registrar publishes its socket"):
            await self._seen(SocketCreated)
        async with self._step("kubelet asks the registrar and the driver, and accepts"):
            await self._accepted()

    async def _show_kubelet_restart(self) -> None:
        async with self._step("kubelet restarts, and registers the driver anew"):
            await self._kubelet.restart()
            await self._accepted()

    async def _show_driver_crash(self) -> None:
        async with self._step("the driver crashes; nobody tells kubelet"):
            await self._driver.crash()
            await self._driver.wait_for_record(DriverStopped, lambda record: record.leaves_socket)
        async with self._step("the driver returns in another version, and is announced anew"):
            self._driver.vendor_version = "2.0.0"
            await self._driver.start()
            await self._accepted()

    async def _show_end(self, registrar: RegistrarProcess) -> None:
        async with self._step("the registrar gets SIGTERM, and ends with status 0"):
            status = await registrar.terminate()
            if status != 0:
                raise StepFailedError(f"the status is {status}; step: {self._step_name}")
        async with self._step("the driver leaves the CSINode object"):
            name = self._driver.name
            await self._seen(CSINodeChanged, lambda record: name not in record.driver_names)
            await self._seen(Deregistered, lambda record: record.driver_name == name)
        async with self._step("nothing is left in the registration folder"):
            if left := sorted(path.name for path in self._registration_folder.iterdir()):
                raise StepFailedError(f"there is {', '.join(left)}; step: {self._step_name}")

    async def _accepted(self) -> None:
        """Wait for a whole registration, and keep the order of its parts."""
        name, endpoint = self._driver.name, self._endpoint
        await self._seen(
            GetInfoAnswered,
            lambda record: (record.answer.driver_name, record.answer.endpoint) == (name, endpoint),
        )
        await self._seen(NodeGetInfoAnswered, lambda record: record.driver_name == name)
        await self._seen(CSINodeChanged, lambda record: name in record.driver_names)
        await self._seen(Notified, lambda record: record.is_accepted and record.code == "OK")

    async def _seen(
        self, kind: type[RecordT], where: Callable[[RecordT], bool] = lambda _: True
    ) -> None:
        """Wait for a record of kubelet that comes after the last one that was waited for."""
        record = await self._kubelet.wait_for_record(
            kind, where, after=self._seen_until, timeout_seconds=None
        )
        self._seen_until = self._kubelet.records.index(record, self._seen_until) + 1

    @contextlib.asynccontextmanager
    async def _step(self, name: str) -> AsyncIterator[None]:
        self._step_name = name
        self._printer.say(f"== {name}")
        try:
            async with asyncio.timeout(self._step_seconds):
                yield
        except TimeoutError as error:
            raise StepFailedError(
                f"step not seen within {self._step_seconds:g} s: {name}"
            ) from error

    def _say_for_registrar(self, line: str) -> None:
        self._printer.say(f"registrar | {line}")
