"""Pauses that end early for an alarm, and at moments that the tasks of a process share."""

import asyncio
import math
import random

_PHASE_SECONDS = random.uniform(0.0, 3600.0)  # noqa: S311 - spreads load, hides nothing
"""By chance, so that the instances on a node, which share the clock, do not act in step."""


def seconds_to_next_tick(tick_seconds: float) -> float:
    """Return the time to the next of the ticks that all tasks of this process share.

    Tasks that pause like this wake up together, which is one waking of the process instead of one
    for each. The result is above 0 and at most `tick_seconds`.
    """
    now = asyncio.get_running_loop().time() + _PHASE_SECONDS
    return (math.floor(now / tick_seconds) + 1) * tick_seconds - now


class Alarm:
    """What one task pauses for: it ends the pause, now or in advance.

    To wait for an `asyncio.Event` with a limit costs a cancellation and two exceptions for each
    pause that nothing disturbs: a fifth of the CPU time that the event loop needs at rest.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._paused: asyncio.Future[None] | None = None

    def set(self) -> None:
        """End the pause, or the next one as soon as it begins."""
        self._is_set = True
        self._end_pause()

    def clear(self) -> None:
        """Forget what was set: the next pause lasts."""
        self._is_set = False

    async def pause(self, seconds: float) -> bool:
        """Wait until this is set, but no longer than so long; return whether it is set."""
        if not self._is_set:
            loop = asyncio.get_running_loop()
            self._paused = loop.create_future()
            limit = loop.call_later(seconds, self._end_pause)
            try:
                await self._paused
            finally:
                limit.cancel()
        return self._is_set

    def _end_pause(self) -> None:
        if self._paused is not None and not self._paused.done():
            self._paused.set_result(None)
