"""A task group that ends when its block does, for parts that run until they are stopped."""

import asyncio


class _LeavingError(Exception):
    """The block is left, so the tasks must end."""


class RunningTasks:
    """A task group as an async context manager: leaving it cancels its tasks and awaits them.

    An error of the block is passed on as it is, not in a group.
    """

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> asyncio.TaskGroup:
        """Return the group to put tasks into."""
        return await self._group.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        """End the tasks.

        Raises:
            ExceptionGroup: A task had failed.
        """
        leaving = _LeavingError()
        try:
            await self._group.__aexit__(type(leaving), leaving, None)
        except* _LeavingError:
            pass
