"""What gRPC's library needs: calm threads, to stay initialised, and no cancellation."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager

import grpc.aio


@asynccontextmanager
async def keeping_grpc_initialised() -> AsyncIterator[None]:
    """Hold one channel that is never used while the block runs.

    gRPC shuts itself down when its last channel or server is closed, and initialises itself anew
    for the next one; if there are no file descriptors left at that moment, it aborts the process.
    """
    with threads_that_never_preempt():
        channel = grpc.aio.insecure_channel("unix:/nonexistent")
    async with channel:
        yield


@contextmanager
def threads_that_never_preempt() -> Iterator[None]:
    """Have the threads started in the block, and theirs, wait for their turn when they wake up.

    That is SCHED_BATCH (sched(7)): the share of the CPU stays the same. Once a second a thread of
    gRPC's wakes up another to look at the timers, and does it itself unless that one preempts it
    and is faster; in this case it naps a dozen times before it is calm again. So the process wakes
    up 10 times a second instead of 13 to 16.

    Where another policy was chosen it stays, and where the kernel or the container's rules do not
    allow a change nothing happens.
    """
    is_changed = _exchange_policy(os.SCHED_OTHER, os.SCHED_BATCH)
    try:
        yield
    finally:
        if is_changed:
            _exchange_policy(os.SCHED_BATCH, os.SCHED_OTHER)


def _exchange_policy(old: int, new: int) -> bool:
    """Give this thread the new policy if it has the old one; return whether it has got it."""
    try:
        if os.sched_getscheduler(0) != old:
            return False
        os.sched_setscheduler(0, new, os.sched_param(0))
    except OSError:
        return False  # musl has no such calls, and a seccomp profile may forbid them
    return True


async def to_its_end(
    step: Coroutine[object, object, None], *, patience_seconds: float | None = None
) -> None:
    """Let a server start or stop; a cancellation is obeyed when that is over.

    gRPC does not take one well: a server whose start was cancelled cannot be stopped any more
    (InvalidStateError), and before Python 3.12 `Server.stop` with a grace period loses one that
    comes when it is done, so that the task that was cancelled goes on for ever.

    A step that takes longer than `patience_seconds` is given up.
    """
    task = asyncio.create_task(step, name="start or stop of a gRPC server")
    try:
        await asyncio.wait({task}, timeout=patience_seconds)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=patience_seconds)
        raise
    if task.done():
        task.result()
    else:
        task.cancel()
