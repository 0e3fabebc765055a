"""Obeys stop signals from the first millisecond, before anything heavy is loaded.

What they mean later, when there is something to clean up, is in `signals`.
"""

import os

# Without the enumerations of the module around it: the exec probe passes here, too.
from _signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, signal  # type: ignore[import-not-found]


def leave_at_once_when_asked() -> None:
    """Make stop signals end the process with status 0, as long as nothing has been published.

    PID 1 does not even get a signal that it has no handler for (R63). SIGHUP, which would kill, is
    ignored until there is something to announce.
    """
    for number in (SIGTERM, SIGINT):
        signal(number, _leave)
    signal(SIGHUP, SIG_IGN)


def _leave(_number: int, _frame: object) -> None:
    os._exit(0)
