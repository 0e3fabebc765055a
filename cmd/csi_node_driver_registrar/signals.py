"""Signals in two stages: the first asks the process to stop, a second one ends it.

What happens to them before the event loop runs is in `early_exit`.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def handling_signals(
    *, on_stop: Callable[[str], None], on_hangup: Callable[[], None]
) -> Iterator[None]:
    """Call `on_stop` with the signal's name at the first stop signal; a second ends the process.

    The status of that end is 128 and the signal's number, as shells have it. To be used on a
    running event loop.
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
