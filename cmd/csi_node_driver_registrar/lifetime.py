"""How a run ends: a root task group, and a signal that is obeyed at every moment."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from csi_node_driver_registrar.klog import Logger
from csi_node_driver_registrar.signals import handling_signals

_log = Logger(__name__)

_FAULT_PAUSE_SECONDS = 300.0
"""Without file descriptors, say, the same fault comes every second."""

_MAX_FAULTS_REMEMBERED = 100


class _StopRequested(Exception):  # noqa: N818 - a wish, no error
    """Ends the root task group, and with it everything that runs."""


class Lifetime:
    """The time between the start and the end of a run, for the parts that live in it."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.tasks = tasks
        """For agents that live as long as the run."""
        self._on_stop: list[Callable[[], None]] = []
        self._on_hangup: list[Callable[[], None]] = []
        self._stop = asyncio.Event()

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Have something called as soon as a stop is asked for, before anything is taken apart."""
        self._on_stop.append(callback)

    def on_hangup(self, callback: Callable[[], None]) -> None:
        """Have something called at each SIGHUP."""
        self._on_hangup.append(callback)

    def stop(self, signal_name: str) -> None:
        """Ask the run to end."""
        _log.info("Stopping", signal=signal_name)
        for callback in self._on_stop:
            callback()
        self._stop.set()

    def hang_up(self) -> None:
        """Do what SIGHUP asks for."""
        _log.info("Announcing again on request", signal="SIGHUP")
        for callback in self._on_hangup:
            callback()

    async def stopper(self) -> None:
        """Wait until a stop is asked for, and end the run then."""
        await self._stop.wait()
        raise _StopRequested


class _LoopFaults:
    """Tells of what goes wrong in the event loop itself, each kind once in a while."""

    def __init__(self) -> None:
        self._told_at: dict[str, float] = {}

    def tell(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log a fault (see `loop.set_exception_handler`), unless it was told a moment ago."""
        message, now = str(context.get("message", "unknown")), loop.time()
        if now - self._told_at.get(message, -_FAULT_PAUSE_SECONDS) >= _FAULT_PAUSE_SECONDS:
            if len(self._told_at) >= _MAX_FAULTS_REMEMBERED:
                self._told_at.clear()
            self._told_at[message] = now
            _log.error("Fault in the event loop", err=context.get("exception"), fault=message)


async def run_until_stopped(main: Callable[[Lifetime], Awaitable[None]]) -> None:
    """Run `main`, which goes on for ever, until a signal asks to stop.

    Raises:
        ExceptionGroup: with the reason why the process cannot go on.
    """
    asyncio.get_running_loop().set_exception_handler(_LoopFaults().tell)
    try:
        async with asyncio.TaskGroup() as tasks:
            lifetime = Lifetime(tasks)
            with handling_signals(on_stop=lifetime.stop, on_hangup=lifetime.hang_up):
                tasks.create_task(lifetime.stopper(), name="stopper")
                await main(lifetime)
    except* _StopRequested:
        _log.info("Stopped")
