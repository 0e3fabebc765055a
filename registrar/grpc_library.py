"""gRPC's library as a whole: kept initialised, whatever channels and servers come and go."""

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
