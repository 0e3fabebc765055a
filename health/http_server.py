"""An HTTP server for a handful of routes, on one address, with bounded connections.

It knows nothing of health: the routes are handed in.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from health.addresses import Address, TcpAddress, UnixAddress
from health.connections import DEFAULT_LIMITS, Connection, Connections, Limits
from health.listener import Bound, Listener, listening
from health.observer import Handler, Observer
from health.sockets import BACKLOG, open_sockets, written_as_target
from health.unix_paths import claim, ensure_free, hidden_path
from health.web import Application, AppRunner, Request, Server, StreamResponse, middleware

Answer = Callable[[Request], Awaitable[StreamResponse]]

_STOP_GRACE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Route:
    """A path that is answered to GET and HEAD."""

    path: str
    """May hold variable parts in aiohttp's syntax, such as `/healthz/{check}`."""
    answer: Answer
    handler: Handler
    """What its requests are counted under, failed ones included."""


class _Middleware(Protocol):
    def __call__(self, request: Request, handler: Answer) -> Awaitable[StreamResponse]: ...


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
    server = cast("Server", runner.server)  # there is one after `setup`
    connections = Connections(server, limits, observer)
    try:
        yield connections
    finally:
        await runner.cleanup()
        connections.close()


def _application(routes: Sequence[Route]) -> Application:
    application = Application(middlewares=[_tracking(routes)])
    for route in routes:
        application.router.add_get(route.path, route.answer)
    return application


def _tracking(routes: Sequence[Route]) -> _Middleware:
    """Make the middleware that tells a connection of its request and who answers it."""
    handlers = {_first_part(route.path): route.handler for route in routes}

    @middleware
    async def track(request: Request, handler: Answer) -> StreamResponse:
        if isinstance(request.protocol, Connection):
            request.protocol.began(handlers.get(_first_part(request.path), Handler.OTHER))
        return await handler(request)

    return track


def _first_part(path: str) -> str:
    """Take the label's part of a path; `OPTIONS *` and `CONNECT` have one without a slash."""
    return path.removeprefix("/").partition("/")[0]


async def _bind_tcp(address: TcpAddress, connections: Connections) -> Bound:
    async with AsyncExitStack() as held:
        opened = await open_sockets(address)
        for one in opened:
            held.callback(one.close)
        for one in opened:
            await _listen(one, connections, held)
        where = opened[0].getsockname()
        url = f"http://{written_as_target(where)}"
        return Bound(url=url, close=held.pop_all().aclose, port=where[1])


async def _bind_unix(address: UnixAddress, connections: Connections) -> Bound:
    path = Path(address.path)
    ensure_free(path)
    hidden = hidden_path(path)
    async with AsyncExitStack() as held:
        opened = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        opened.bind(str(hidden))
        held.callback(hidden.unlink, missing_ok=True)
        await _listen(opened, connections, held)
        claimed = claim(path, hidden)
        held.callback(claimed.release)
        close = held.pop_all().aclose
        return Bound(url=f"unix://{path}", close=close, is_held=claimed.has_path)


async def _listen(opened: socket.socket, connections: Connections, held: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()
    # asyncio takes its backlog also for how often it tries to accept at a time, and without file
    # descriptors logs each try: 128 lines a second. The kernel's queue is set afterwards.
    server = await loop.create_server(connections, sock=opened, backlog=1)
    opened.listen(BACKLOG)
    held.callback(server.close)
