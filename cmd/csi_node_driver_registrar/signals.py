"""Signals in two stages: the first asks the process to stop, a second one ends it."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def leave_at_once_when_asked() -> None:
    """Make stop signals end the process with status 0, as long as there is nothing to clean up.

    To be called first of all: PID 1 does not even get a signal that it has no handler for (R63),
    and loading libraries takes longer than an impatient operator waits. SIGHUP, which would kill,
    is ignored until there is something to announce.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, _leave)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


@contextmanager
def handling_signals(
    *, on_stop: Callable[[str], None], on_hangup: Callable[[], None]
) -> Iterator[None]:
    """Call `on_stop` with the signal's name at the first stop signal; a second ends the process.

    The status of that end is 128 and the signal's number, as shells have it.
    """
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def stop(number: signal.Signals) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        on_stop(number.name)

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    try:
        yield
    finally:
        for number in (*STOP_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)
