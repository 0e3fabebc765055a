"""Pauses that end early for an event, and at moments that the tasks of a process share."""

import asyncio
import contextlib
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


async def pause(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event, but no longer than this; return whether it is set."""
    # Not asyncio.wait_for: before Python 3.12 it loses a cancellation that comes at the moment of
    # the event.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
