"""Pauses: they end in step, early for an alarm, and at once for a cancellation."""

import asyncio
import random

import pytest

from registrar.pauses import Alarm, seconds_to_next_tick


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


async def test_an_alarm_ends_a_pause() -> None:
    alarm = Alarm()
    asyncio.get_running_loop().call_later(0.05, alarm.set)
    assert await alarm.pause(10.0)


async def test_an_alarm_in_advance_leaves_no_pause_until_it_is_cleared() -> None:
    alarm = Alarm()
    alarm.set()
    assert await alarm.pause(10.0)
    assert await alarm.pause(10.0)
    alarm.clear()
    assert not await alarm.pause(0.05)


async def test_without_an_alarm_a_pause_ends_in_time_and_so_does_the_next() -> None:
    alarm, clock = Alarm(), asyncio.get_running_loop().time
    begun = clock()
    assert not await alarm.pause(0.05)
    assert not await alarm.pause(0.05)
    assert 0.099 < clock() - begun < 1.0


@pytest.mark.parametrize("order", ["alarm first", "cancellation first"])
async def test_a_cancellation_at_the_moment_of_the_alarm_is_not_lost(order: str) -> None:
    alarm = Alarm()
    task = asyncio.create_task(alarm.pause(10.0), name="pause")
    await asyncio.sleep(0)
    if order == "alarm first":
        alarm.set()
    task.cancel()
    alarm.set()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("later_seconds", [-0.001, 0.001])
async def test_a_cancellation_at_the_moment_when_it_ends_is_not_lost(later_seconds: float) -> None:
    """The event loop runs both in one round, one before the other."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + 0.05
    task = asyncio.create_task(Alarm().pause(0.05), name="pause")
    loop.call_at(ends_at + later_seconds, task.cancel)
    await asyncio.sleep(0)
    while loop.time() < ends_at + 0.01:  # so that both are due in the same round
        pass
    with pytest.raises(asyncio.CancelledError):
        await task
