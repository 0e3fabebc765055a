"""From a coroutine to an exit status, with the logs and the termination log around it."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import NoReturn

from csi_node_driver_registrar.klog import LogConfig, Logger, logging_to
from csi_node_driver_registrar.version import __version__
from health.errors import HealthError
from registrar.errors import RegistrarError

TERMINATION_LOG = "/dev/termination-log"
"""Where Kubernetes reads a container's last words (`terminationMessagePath`'s default)."""

_MAX_TERMINATION_BYTES = 4096
"""As much as Kubernetes keeps of them."""

_log = Logger(__name__)


def run_to_exit_status(
    run: Callable[[], Coroutine[object, object, None]],
    *,
    logging: LogConfig,
    warnings: Iterable[str],
    termination_log: str = TERMINATION_LOG,
) -> int:
    """Run until it is over; return 0 if it was asked to stop, 1 if it cannot go on."""
    with logging_to(logging):
        _log.info("Starting", version=__version__)
        for warning in warnings:
            _log.warning("Flag to look at", problem=warning)
        try:
            asyncio.run(run())
        except BaseExceptionGroup as group:
            return _cannot_go_on(list(_leaves(group)), termination_log)
        except Exception as error:  # noqa: BLE001 - the root: what nobody foresaw ends here
            return _cannot_go_on([error], termination_log)
        return 0


def leave(status: int) -> NoReturn:
    """End the process without taking the interpreter apart.

    Everything of ours has been closed in order; what is left are gRPC's threads, and to wait for
    them takes longer than all the rest, 80 of 100 ms, and now and then much longer.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _cannot_go_on(errors: list[BaseException], termination_log: str) -> int:
    for error in errors:
        _log.error("Cannot go on", err=error)
    reason = "; ".join(dict.fromkeys(map(_in_one_line, errors)))
    with contextlib.suppress(OSError):
        _write_last_words(reason, termination_log)
    return 1


def _in_one_line(error: BaseException) -> str:
    is_ours = isinstance(error, RegistrarError | HealthError)
    text = str(error) if is_ours else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def _write_last_words(reason: str, path: str) -> None:
    """Tell Kubernetes why the container ends, if it provides for that: the file is never made."""
    words = reason.encode(errors="replace")[:_MAX_TERMINATION_BYTES]
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, words)
    finally:
        os.close(descriptor)
