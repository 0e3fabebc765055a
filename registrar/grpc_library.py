"""What gRPC's library needs from whoever uses it: to stay initialised, and no cancellation."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

import grpc.aio


@asynccontextmanager
async def keeping_grpc_initialised() -> AsyncIterator[None]:
    """Hold one channel that is never used while the block runs.

    gRPC shuts itself down when its last channel or server is closed, and initialises itself anew
    for the next one; if there are no file descriptors left at that moment, it aborts the process.
    """
    async with grpc.aio.insecure_channel("unix:/nonexistent"):
        yield


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
