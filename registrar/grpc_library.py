"""What gRPC's library needs from whoever uses it: to be kept initialised, and to start in peace."""

import asyncio
from collections.abc import AsyncIterator
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


async def start_undisturbed(server: grpc.aio.Server) -> None:
    """Start a server; a cancellation is obeyed when it has started, and it can be stopped then.

    A server whose start was cancelled cannot be stopped in order: `stop` raises InvalidStateError,
    and the socket's file stays.
    """
    starting = asyncio.create_task(server.start(), name="start of a gRPC server")
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await starting
        raise
