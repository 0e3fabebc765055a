"""An HTTP server for a handful of routes, on one address, with bounded connections.

It knows nothing of health: the routes are handed in.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from health.addresses import Address, TcpAddress, UnixAddress
from health.connections import DEFAULT_LIMITS, Connection, Connections, Limits
from health.listener import Bound, Listener, listening
from health.observer import Handler, Observer
from health.sockets import BACKLOG, open_sockets, written_as_target
from health.unix_paths import claim, ensure_free, hidden_path
from health.web import HTTPMethodNotAllowed, HTTPNotFound, Request, Server, StreamResponse

Answer = Callable[[Request], Awaitable[StreamResponse]]

_STOP_GRACE_SECONDS = 0.5
_METHODS = ("GET", "HEAD")


class Route(NamedTuple):
    """A path that is answered to GET and HEAD."""

    path: str
    answer: Answer
    handler: Handler
    """What its requests are counted under, failed ones included."""
    takes_name: bool = False
    """Whether the path ends with `/` and the request adds a name to it: see `last_part`."""


def last_part(request: Request) -> str:
    """Return the name that a request adds to the path of its route."""
    return request.path.rpartition("/")[2]


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
    server = Server(_answering(routes))
    connections = Connections(server, limits, observer)
    try:
        yield connections
    finally:
        await asyncio.sleep(0)  # what has arrived complete is answered
        server.pre_shutdown()
        await server.shutdown(_STOP_GRACE_SECONDS)
        connections.close()


def _answering(routes: Sequence[Route]) -> Answer:
    """Make what answers every request: by its route, or in words why there is none."""
    whole = {route.path: route for route in routes if not route.takes_name}
    with_name = {route.path: route for route in routes if route.takes_name}
    handlers = {_first_part(route.path): route.handler for route in routes}

    async def answer(request: Request) -> StreamResponse:
        path = request.path
        if isinstance(request.protocol, Connection):
            request.protocol.began(handlers.get(_first_part(path), Handler.OTHER))
        route = whole.get(path) or with_name.get(path[: path.rfind("/") + 1])
        if route is None:
            raise HTTPNotFound
        if request.method not in _METHODS:
            raise HTTPMethodNotAllowed(request.method, _METHODS)
        return await route.answer(request)

    return answer


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
