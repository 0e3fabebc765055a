"""Pauses: they end in step, early for an event, and at once for a cancellation."""

import asyncio
import random

import pytest

from registrar.pauses import pause, seconds_to_next_tick


@pytest.mark.parametrize("tick_seconds", [0.05, 1.0])
async def test_whoever_pauses_to_the_next_tick_wakes_up_with_the_others(
    tick_seconds: float,
) -> None:
    clock = asyncio.get_running_loop().time
    ticks = []
    for _ in range(5):
        remaining = seconds_to_next_tick(tick_seconds)
        assert 0 < remaining <= tick_seconds
        ticks.append(clock() + remaining)
        await asyncio.sleep(tick_seconds * random.uniform(0.0, 0.5))  # noqa: S311
    for tick in ticks[1:]:
        apart = (tick - ticks[0]) / tick_seconds
        assert apart == pytest.approx(round(apart), rel=0, abs=0.02)


async def test_an_event_ends_a_pause() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, event.set)
    assert await pause(event, 10.0)


async def test_without_an_event_a_pause_ends_in_time() -> None:
    assert not await pause(asyncio.Event(), 0.05)


@pytest.mark.parametrize("order", ["event first", "cancellation first"])
async def test_a_cancellation_at_the_moment_of_the_event_is_not_lost(order: str) -> None:
    event = asyncio.Event()
    task = asyncio.create_task(pause(event, 10.0), name="pause")
    await asyncio.sleep(0)
    if order == "event first":
        event.set()
    task.cancel()
    event.set()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("later_seconds", [-0.001, 0.001])
async def test_a_cancellation_at_the_moment_when_it_ends_is_not_lost(later_seconds: float) -> None:
    """The event loop runs both in one round, one before the other."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + 0.05
    task = asyncio.create_task(pause(asyncio.Event(), 0.05), name="pause")
    loop.call_at(ends_at + later_seconds, task.cancel)
    await asyncio.sleep(0)
    while loop.time() < ends_at + 0.01:  # so that both are due in the same round
        pass
    with pytest.raises(asyncio.CancelledError):
        await task
