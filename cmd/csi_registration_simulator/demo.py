"""The sub-command `demo`: a driver, the real registrar and a kubelet, from start to end.

Every step waits for what must be seen, so the demonstration is a check as well.
"""

import argparse
import asyncio
import contextlib
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from csi_registration_simulator.driver import DriverStopped, SimulatedDriver
from csi_registration_simulator.errors import SimulatorError, StepFailedError
from csi_registration_simulator.kubelet import SimulatedKubelet, mapped
from csi_registration_simulator.kubelet_records import (
    Deregistered,
    GetInfoAnswered,
    NodeGetInfoAnswered,
    Notified,
    SocketCreated,
)
from csi_registration_simulator.printing import Printer
from csi_registration_simulator.registrar_process import RegistrarProcess, registrar_running

DESCRIPTION = """\
Runs a simulated driver, a simulated kubelet and the real registrar in a temporary folder and
prints what passes between them, with the seconds since the start: the registration, a restart of
kubelet, a crash of the driver and its return in another version, and the end of the registrar on
SIGTERM. Ends with status 0 only if every step was seen."""

EPILOG = """\
example:
  csi-registration-simulator demo"""

_HOST_FOLDER = "/var/lib/kubelet/plugins"
_STEP_SECONDS = 15.0
_LONG_STEP_SECONDS = 30.0
"""For a step that may wait until the registrar looks at the driver again, 10 s by default."""


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


async def run(arguments: argparse.Namespace) -> int:
    """Show everything and return the exit status.

    Raises:
        SimulatorError: A step was not seen, and the message names it.
    """
    printer = Printer()
    with tempfile.TemporaryDirectory(prefix="csi-") as folder:
        await _Demonstration(Path(folder), arguments.name, printer).show(
            shlex.split(arguments.registrar)
        )
    printer.say("== every step was seen")
    return 0


class _Demonstration:
    """The parts that take part, and the steps in order."""

    def __init__(self, folder: Path, driver_name: str, printer: Printer) -> None:
        self._printer = printer
        self._registration_folder = folder / "registration"
        self._endpoint = f"{_HOST_FOLDER}/{driver_name}/csi.sock"
        self._driver = SimulatedDriver(folder / "csi.sock", name=driver_name)
        self._kubelet = SimulatedKubelet(
            self._registration_folder,
            local_path=mapped(f"{_HOST_FOLDER}/{driver_name}", str(folder)),
        )
        self._step_name = ""
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
            await self._kubelet.wait_for_record(SocketCreated)
        async with self._step("kubelet asks the registrar and the driver, and accepts"):
            await self._wait_until_accepted(after=0)

    async def _show_kubelet_restart(self) -> None:
        async with self._step("kubelet restarts, and registers the driver anew"):
            mark = self._kubelet.mark()
            await self._kubelet.restart()
            await self._wait_until_accepted(after=mark)

    async def _show_driver_crash(self) -> None:
        async with self._step("the driver crashes; nobody tells kubelet"):
            await self._driver.crash()
            await self._driver.wait_for_record(DriverStopped, lambda record: record.leaves_socket)
        name = "the driver returns in another version, and the registrar announces it anew"
        async with self._step(name, _LONG_STEP_SECONDS):
            mark = self._kubelet.mark()
            self._driver.vendor_version = "2.0.0"
            await self._driver.start()
            await self._wait_until_accepted(after=mark)

    async def _show_end(self, registrar: RegistrarProcess) -> None:
        mark = self._kubelet.mark()
        async with self._step("the registrar gets SIGTERM, and ends with status 0"):
            status = await registrar.terminate()
            if status != 0:
                raise StepFailedError(f"step failed, the status is {status}: {self._step_name}")
        async with self._step("the driver leaves the CSINode object"):
            await self._kubelet.wait_for_record(Deregistered, after=mark)
            await self._kubelet.wait_for(lambda: not self._kubelet.csinode)
        async with self._step("nothing is left in the registration folder"):
            if left := sorted(path.name for path in self._registration_folder.iterdir()):
                raise StepFailedError(f"step failed, there is {left}: {self._step_name}")

    async def _wait_until_accepted(self, *, after: int) -> None:
        name = self._driver.name
        wait_for_record = self._kubelet.wait_for_record
        await wait_for_record(
            GetInfoAnswered,
            lambda record: (
                (record.answer.driver_name, record.answer.endpoint) == (name, self._endpoint)
            ),
            after=after,
        )
        await wait_for_record(
            NodeGetInfoAnswered, lambda record: record.driver_name == name, after=after
        )
        await wait_for_record(Notified, lambda record: record.is_accepted, after=after)
        await self._kubelet.wait_for(lambda: name in self._kubelet.csinode)

    @contextlib.asynccontextmanager
    async def _step(self, name: str, seconds: float = _STEP_SECONDS) -> AsyncIterator[None]:
        self._step_name = name
        self._printer.say(f"== {name}")
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise StepFailedError(f"step not seen within {seconds:g} s: {name}") from error

    def _say_for_registrar(self, line: str) -> None:
        self._printer.say(f"registrar | {line}")
