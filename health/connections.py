"""HTTP connections with bounds, so that no client, slow or hostile, can starve kubelet's probes.

aiohttp speaks the protocol; what is answered is not here. Each connection is either waiting (for a
request, or for the rest of one) or busy. The newest is always let in: beyond the cap the one that
has waited longest goes, and only if none waits the one that has been busy longest.
"""

import asyncio
from typing import NamedTuple

from health.observer import Handler, Observer, RequestAnswered
from health.web import Request, RequestHandler, Response, Server, StreamResponse

_NEVER_SECONDS = 86_400.0


class Limits(NamedTuple):
    """What one HTTP server grants its clients.

    kubelet needs one connection a probe, and sends its few hundred bytes at once.
    """

    max_connections: int = 128
    """Of all clients together; each costs some 10 KB."""
    max_request_bytes: int = 16 * 1024
    """Of a request with its headers and body, and of whatever else arrives before its answer."""
    request_seconds: float = 5.0
    """From the connection to the end of the first request's headers."""
    idle_seconds: float = 60.0
    """From an answer to the end of the next request's headers: longer than most scrape
    intervals, so that Prometheus keeps its connection."""
    write_seconds: float = 5.0
    """Until a client has taken its answer."""
    linger_seconds: float = 1.0
    """For the rest of a body that nobody asked for; without it the client might miss the answer."""


DEFAULT_LIMITS = Limits()


class Connections:
    """All connections of one HTTP server, and the factory of new ones."""

    def __init__(self, server: Server, limits: Limits, observer: Observer) -> None:
        self.limits = limits
        self.observer = observer
        self._server = server
        self._waiting: dict[Connection, None] = {}
        self._busy: dict[Connection, None] = {}

    def __len__(self) -> int:
        """Count the open connections."""
        return len(self._waiting) + len(self._busy)

    def __call__(self) -> "Connection":
        """Make the protocol of a new connection, as `loop.create_server` wants it."""
        return Connection(self._server, self)

    def add(self, connection: "Connection") -> None:
        """Let a new connection in, at another one's cost if there are too many."""
        if len(self) >= self.limits.max_connections:
            next(iter(self._waiting or self._busy)).abort()
        self._waiting[connection] = None

    def close(self) -> None:
        """Cut off whoever is still connected."""
        for connection in (*self._waiting, *self._busy):
            connection.abort()

    def discard(self, connection: "Connection") -> None:
        """Forget a connection that is closed."""
        self._waiting.pop(connection, None)
        self._busy.pop(connection, None)

    def mark_busy(self, connection: "Connection") -> None:
        """Take note that a complete request has arrived."""
        if connection in self._waiting:
            del self._waiting[connection]
            self._busy[connection] = None

    def mark_waiting(self, connection: "Connection") -> None:
        """Take note that the next request is waited for."""
        if connection in self._busy:
            del self._busy[connection]
            self._waiting[connection] = None


class Connection(RequestHandler):
    """One client's connection, closed when it exceeds its limits."""

    __slots__ = ("_all", "_deadline", "_handler", "_received_bytes", "_wire")

    def __init__(self, server: Server, connections: Connections) -> None:
        limits = connections.limits
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=_NEVER_SECONDS,  # its closing would wait for the client to read
            tcp_keepalive=False,  # they never live for the two hours after which it would begin
            access_log=None,  # type: ignore[arg-type]  # as aiohttp's own runner passes it on
            lingering_time=limits.linger_seconds,
            auto_decompress=False,  # no body is read, so none need be blown up
        )
        self._all = connections
        self._deadline: asyncio.TimerHandle | None = None
        self._wire: asyncio.Transport | None = None
        self._handler = Handler.OTHER
        self._received_bytes = 0

    def abort(self) -> None:
        """Close at once, whatever the client has still to take."""
        self._all.discard(self)
        self._expire_in(None)
        self.force_close()
        if self._wire is not None:
            self._wire.abort()

    def began(self, handler: Handler) -> None:
        """Take note that a request is complete, and who answers it."""
        self._handler = handler
        self._expire_in(None)
        self._all.mark_busy(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._wire = self.transport
        self._all.add(self)
        self._expire_in(self._all.limits.request_seconds)

    def connection_lost(self, exc: BaseException | None) -> None:
        """See `asyncio.Protocol`."""
        self._all.discard(self)
        self._expire_in(None)
        self._wire = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._received_bytes += len(data)
        if self._received_bytes > self._all.limits.max_request_bytes:
            self.abort()
            return
        try:
            super().data_received(data)
        except ValueError:  # a bad URL escapes older aiohttp, and asyncio would log it
            self.abort()

    async def finish_response(
        self, request: Request, resp: StreamResponse, start_time: float | None
    ) -> tuple[StreamResponse, bool]:
        """Send an answer; a client that does not take it in time is cut off."""
        self._expire_in(self._all.limits.write_seconds)
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._finished(request, resp)

    def handle_error(
        self,
        request: Request,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> StreamResponse:
        """Answer what is no proper request, without the log lines that a stranger could fill."""
        if status >= 500:  # noqa: PLR2004  # from here on it is our own fault
            return super().handle_error(request, status, exc, message)
        return Response(status=status, text="not a request that can be answered\n")

    def _finished(self, request: Request, response: StreamResponse) -> None:
        self._received_bytes = 0
        self._expire_in(self._all.limits.idle_seconds)
        self._all.mark_waiting(self)
        event = RequestAnswered(
            handler=self._handler,
            code=response.status,
            user_agent=request.headers.get("User-Agent", ""),
        )
        self._handler = Handler.OTHER
        self._all.observer.notify(event)

    def _expire_in(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds is not None and self._wire is not None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(seconds, self.abort)
