"""Runs the installed commands as processes, as a container would."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from registrar.settings import DriverSettings

REGISTRAR = str(Path(sys.executable).with_name("csi-node-driver-registrar"))
LIVENESSPROBE = str(Path(sys.executable).with_name("livenessprobe"))

_URL = re.compile(r'url="(http://[^"]+)"')


class RunningCommand:
    """One process of ours, with what it has written to stderr so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._grown = asyncio.Event()

    @property
    def log(self) -> str:
        """All that was written to stderr, as one text."""
        return "".join(self.lines)

    async def read(self) -> None:
        """Collect stderr until the process closes it."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.lines.append(line.decode())
            self._grown.set()
            self._grown = asyncio.Event()

    async def wait_for_log(self, text: str, *, timeout_seconds: float = 15) -> None:
        """Wait until a line with the text has been written.

        Raises:
            TimeoutError: if none comes in time; the message has the whole log.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while text not in self.log:
                    await self._grown.wait()
        except TimeoutError as error:
            raise TimeoutError(f"no {text!r} within {timeout_seconds} s in:\n{self.log}") from error

    async def url(self) -> str:
        """Return where its HTTP server listens, once it does."""
        await self.wait_for_log('url="http')
        found = _URL.search(self.log)
        assert found is not None
        return found[1]

    @property
    def open_files(self) -> int:
        """How many file descriptors it has."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    @property
    def resident_bytes(self) -> int:
        """How much memory it holds (VmRSS)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    async def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Send a signal; return the exit status and how many seconds it took.

        Raises:
            TimeoutError: if it goes on for ten seconds; with its log, and where each thread was.
        """
        begun = time.monotonic()
        self.process.send_signal(number)
        try:
            status = await asyncio.wait_for(self.process.wait(), 10)
        except TimeoutError as error:
            self.process.send_signal(signal.SIGABRT)
            await self.process.wait()
            await asyncio.sleep(0.5)
            raise TimeoutError(f"it did not end within 10 s:\n{self.log}") from error
        return status, time.monotonic() - begun


# The second has a command say where each of its threads was, if it has to be aborted.
_ENVIRONMENT = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}


@asynccontextmanager
async def running(*command: str) -> AsyncIterator[RunningCommand]:
    """Run a command while the block runs; kill it if it is still there at the end."""
    process = await asyncio.create_subprocess_exec(
        *command, stderr=asyncio.subprocess.PIPE, env={**os.environ, **_ENVIRONMENT}
    )
    command_run = RunningCommand(process)
    reader = asyncio.create_task(command_run.read(), name="stderr reader")
    try:
        yield command_run
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await reader


def registrar_arguments(settings: DriverSettings, *more: str) -> Sequence[str]:
    """Return the command line that keeps the driver of these settings registered."""
    return (
        REGISTRAR,
        f"--csi-address={settings.csi_address}",
        f"--kubelet-registration-path={settings.kubelet_registration_path}",
        f"--plugin-registration-path={settings.registration_folder}",
        *more,
    )
