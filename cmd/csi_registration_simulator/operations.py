"""At most one operation at a time on a socket path, and a growing pause after failures.

This is kubelet's goroutinemap with its exponential back-off. What an operation does is not here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from csi_registration_simulator.kubelet_rules import Timings
from csi_registration_simulator.task_groups import RunningTasks


class OperationError(Exception):
    """An operation came to nothing, for a reason that kubelet logs."""


@dataclass(slots=True)
class _Entry:
    is_running: bool = True
    back_off_seconds: float = 0.0
    not_before: float = 0.0


class Operations:
    """The operations on all paths.

    A path's back-off outlives the file at that path: only a success ends it.
    """

    def __init__(self, tasks: RunningTasks, timings: Timings) -> None:
        self._tasks = tasks
        self._timings = timings
        self._entries: dict[str, _Entry] = {}

    def start(
        self,
        socket_path: str,
        operation: Callable[[], Awaitable[None]],
        on_failure: Callable[[str, float], None],
    ) -> None:
        """Start an operation, unless one is running or the path's pause is not over.

        Args:
            socket_path: What the operation is about.
            operation: It fails by raising OperationError.
            on_failure: Called with the error's text and the pause in seconds.
        """
        entry = self._entries.get(socket_path)
        if entry is None:
            entry = self._entries[socket_path] = _Entry()
        elif entry.is_running or asyncio.get_running_loop().time() < entry.not_before:
            return
        entry.is_running = True
        name = f"kubelet operation on {socket_path}"
        self._tasks.create_task(self._run(socket_path, entry, operation, on_failure), name=name)

    async def _run(
        self,
        socket_path: str,
        entry: _Entry,
        operation: Callable[[], Awaitable[None]],
        on_failure: Callable[[str, float], None],
    ) -> None:
        try:
            await operation()
        except OperationError as error:
            self._back_off(entry)
            on_failure(str(error), entry.back_off_seconds)
        else:
            del self._entries[socket_path]

    def _back_off(self, entry: _Entry) -> None:
        doubled = entry.back_off_seconds * 2 or self._timings.first_back_off_seconds
        entry.back_off_seconds = min(doubled, self._timings.longest_back_off_seconds)
        entry.not_before = asyncio.get_running_loop().time() + entry.back_off_seconds
        entry.is_running = False
