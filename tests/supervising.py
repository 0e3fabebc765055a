"""Runs a supervisor in this process, as the command would."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from observing import RecordingObserver

from registrar.settings import DriverSettings
from registrar.supervisor import Supervisor


@asynccontextmanager
async def supervising(
    settings: DriverSettings, observer: RecordingObserver
) -> AsyncIterator[Supervisor]:
    """Keep a driver registered while the block runs."""
    supervisor = Supervisor(settings, observer)
    task = asyncio.create_task(supervisor.run(), name="supervisor")
    try:
        yield supervisor
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
