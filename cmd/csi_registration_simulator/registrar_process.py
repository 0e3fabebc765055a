"""The registrar's command as a child process, for the demonstration."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Callable, Sequence

from csi_registration_simulator.errors import SimulatorError
from csi_registration_simulator.task_groups import RunningTasks

_GRACE_SECONDS = 5


class RegistrarProcess:
    """A running registrar."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._is_asked_to_end = False

    async def terminate(self) -> int:
        """Send SIGTERM and return the exit status, once there is one."""
        self._is_asked_to_end = True
        self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    async def watch(self, say: Callable[[str], None]) -> None:
        """Pass its lines on until it ends.

        Raises:
            SimulatorError: It ended without having been asked.
        """
        if self._process.stdout is None:
            raise RuntimeError("the output was not redirected")
        async for line in self._process.stdout:
            say(line.decode(errors="replace").rstrip())
        status = await self._process.wait()
        if not self._is_asked_to_end:
            raise SimulatorError(f"the registrar ended by itself, with status {status}")


@contextlib.asynccontextmanager
async def registrar_running(
    command: Sequence[str], say: Callable[[str], None]
) -> AsyncIterator[RegistrarProcess]:
    """Run a command; its lines are passed on, and it has ended when the block has.

    Raises:
        SimulatorError: It cannot be started, or ended by itself.
    """
    try:
        # In a session of its own, so that Ctrl-C at the terminal is this process's alone to handle.
        process = await asyncio.create_subprocess_exec(
            *command, stdout=PIPE, stderr=STDOUT, start_new_session=True
        )
    except OSError as error:
        raise SimulatorError(f"cannot start {command[0]}: {error.strerror}") from error
    registrar = RegistrarProcess(process)
    try:
        async with RunningTasks() as tasks:
            tasks.create_task(registrar.watch(say), name="registrar watcher")
            yield registrar
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    finally:
        await _end(process)


async def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.communicate()
    except TimeoutError:
        # Its children too: they may hold the other end of the pipe.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
