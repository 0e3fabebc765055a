"""A task group that ends when its block does, for parts that run until they are stopped."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Self


class RunningTasks:
    """A task group as an async context manager: leaving it cancels its tasks and awaits them.

    An error of the block is passed on as it is, not in a group. As in any task group, a task
    that fails cancels the block.
    """

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()

    def create_task(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run a coroutine until it ends, or the block does."""
        task = self._group.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def __aenter__(self) -> Self:
        """Begin to take tasks."""
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the tasks.

        Raises:
            ExceptionGroup: A task had failed.
        """
        # Not by an error that is handed to the group: from Python 3.13 on, a group with errors
        # cancels its parent anew if that is being cancelled, and cuts the clean-up short.
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(None, None, None)
