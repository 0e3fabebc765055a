"""Serves what a simulated cluster shows of itself, over HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def answering(
    path: str, answer: Callable[[web.Request], Awaitable[web.Response]]
) -> AsyncIterator[str]:
    """Answer GET at what a pattern of paths allows, on the loopback; give host and port."""
    application = web.Application()
    application.router.add_get(path, answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()
