"""An HTTP server for a handful of routes, on one address, with bounded connections.

It knows nothing of health: the routes are handed in.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from health.addresses import Address, TcpAddress, UnixAddress
from health.connections import HANDLER_KEY, Connection, Connections, DEFAULT_LIMITS, Limits
from health.listener import Bound, Listener, listening
from health.observer import Handler, Observer
from health.sockets import BACKLOG, open_sockets, url_host
from health.unix_paths import claim, hidden_path
from health.web import Application, AppRunner, Middleware, Request, StreamResponse, middleware

_STOP_GRACE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Route:
    """A path that is answered to GET and HEAD."""

    path: str
    """May hold variable parts in aiohttp's syntax, such as `/healthz/{check}`."""
    answer: Callable[[Request], Awaitable[StreamResponse]]
    handler: Handler
    """What its requests are counted under, failed ones included."""


@asynccontextmanager
async def serving_http(
    address: Address,
    routes: Sequence[Route],
    *,
    tasks: asyncio.TaskGroup,
    observer: Observer,
    limits: Limits = DEFAULT_LIMITS,
) -> AsyncIterator[Listener]:
    """Answer HTTP requests while the block runs; then let answers under way finish.

    An address that is taken does not stop the block: see `listening`, which `tasks` is for.
    """
    async with _connections(routes, limits, observer) as connections:

        async def bind() -> Bound:
            if isinstance(address, UnixAddress):
                return await _bind_unix(address, connections)
            return await _bind_tcp(address, connections)

        async with listening(address, bind, tasks=tasks, observer=observer) as listener:
            yield listener


@asynccontextmanager
async def _connections(
    routes: Sequence[Route], limits: Limits, observer: Observer
) -> AsyncIterator[Connections]:
    runner = AppRunner(_application(routes), shutdown_timeout=_STOP_GRACE_SECONDS)
    await runner.setup()
    try:
        if runner.server is not None:
            yield Connections(runner.server, limits, observer)
    finally:
        await runner.cleanup()


def _application(routes: Sequence[Route]) -> Application:
    application = Application(middlewares=[_tracking(routes)])
    for route in routes:
        application.router.add_get(route.path, route.answer)
    return application


def _tracking(routes: Sequence[Route]) -> Middleware:
    """Make the middleware that tells a connection of its request, and a request of its label."""
    handlers = {_first_part(route.path): route.handler for route in routes}

    @middleware
    async def track(
        request: Request, answer: Callable[[Request], Awaitable[StreamResponse]]
    ) -> StreamResponse:
        request[HANDLER_KEY] = handlers.get(_first_part(request.path), Handler.OTHER)
        if isinstance(request.protocol, Connection):
            request.protocol.began()
        return await answer(request)

    return track


def _first_part(path: str) -> str:
    return path.split("/", 2)[1]


async def _bind_tcp(address: TcpAddress, connections: Connections) -> Bound:
    opened = await open_sockets(address)
    with ExitStack() as undo:
        for one in opened:
            undo.enter_context(one)
        servers = [await _serve(one, connections) for one in opened]
        undo.pop_all()
    host, port = opened[0].getsockname()[:2]
    return Bound(f"http://{url_host(host)}:{port}", lambda: _close(servers), port)
