"""Health over gRPC: the standard `grpc.health.v1` service, asked live and watched.

`""` stands for /healthz, `liveness` for /livez, `readiness` for /readyz, and each check's name for
itself. Any server can take the service in; the one of `serving_grpc_health` has nothing else.
"""

# Annotations stay text: releases of grpcio-health-checking without List lack its messages.
from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from health.addresses import Address, TcpAddress, UnixAddress
from health.checks import CheckName
from health.listener import Bound, Listener, listening
from health.observer import Observer
from health.overall import Health
from health.sockets import open_sockets, written_as_target
from health.unix_paths import claim, ensure_free, hidden_path

_ENDPOINTS = {"": "healthz", "liveness": "livez", "readiness": "readyz"}
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
_STOP_GRACE_SECONDS = 0.5
_MAX_CALLS = 128
_OPTIONS = (
    ("grpc.so_reuseport", 0),  # or a second process would share the port unnoticed
    ("grpc.max_receive_message_length", 16 * 1024),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.max_allowed_incoming_connections", 128),
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_connection_idle_ms", 60_000),
)

Context = grpc.aio.ServicerContext[Any, Any]


class HealthServicer:
    """Answers `grpc.health.v1.Health` from the live checks."""

    def __init__(
        self, health: Health, *, watch_interval_seconds: float = 10.0, max_watchers: int = 32
    ) -> None:
        """Take what to ask.

        Args:
            health: What is asked for each call.
            watch_interval_seconds: How often the checks are asked for whoever watches, besides
                at each `Health.changed`. Nothing is asked when nobody watches.
            max_watchers: How many streams are kept at a time.
        """
        self._health = health
        self._services = _services(health)
        self._watch_interval_seconds = watch_interval_seconds
        self._max_watchers = max_watchers
        self._watchers = 0
        self._timer: asyncio.TimerHandle | None = None

    def add_to(self, server: grpc.aio.Server) -> None:
        """Make a server, before it starts, answer health calls too."""
        health_pb2_grpc.add_HealthServicer_to_server(self, server)

    async def Check(  # noqa: N802  # the service's spelling
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        """Ask the service's checks now."""
        if request.service not in self._services:
            known = ", ".join(name for name in self._services if name)
            text = f"no service {request.service!r}; there are: {known}"
            await context.abort(grpc.StatusCode.NOT_FOUND, text)
        return _response(await self._status(request.service))

    async def List(  # noqa: N802  # the service's spelling
        self, _request: health_pb2.HealthListRequest, _context: Context
    ) -> health_pb2.HealthListResponse:
        """Ask every check once, and tell what each service comes to."""
        outcomes = await self._health.outcomes(self._health.check_names)
        failing = {outcome.check for outcome in outcomes if not outcome.is_healthy}
        statuses = {
            service: _response(self._judged(failing.isdisjoint(checks)))
            for service, checks in self._services.items()
        }
        return health_pb2.HealthListResponse(statuses=statuses)

    async def Watch(  # noqa: N802  # the service's spelling
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> None:
        """Tell the service's status now and whenever it changes, until the process stops."""
        if self._watchers >= self._max_watchers:
            text = f"{self._max_watchers} clients are watching already"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._watchers += 1
        self._wind_up()
        try:
            async with aclosing(self._changes(request.service)) as statuses:
                async for status in statuses:
                    await context.write(_response(status))
        finally:
            self._watchers -= 1
            self._run_down()

    async def _changes(self, service: str) -> AsyncGenerator[int, None]:
        last = None
        while True:
            change = self._health.next_change()
            # Taken before asking: a stop that comes in between has not been told yet.
            is_stopping = self._health.is_stopping
            status = await self._status(service)
            if status != last:
                yield status
            if is_stopping:
                return
            last = status
            await change.wait()

    async def _status(self, service: str) -> int:
        checks = self._services.get(service)
        if checks is None:
            return int(_SERVICE_UNKNOWN)
        outcomes = await self._health.outcomes(checks)
        return self._judged(all(outcome.is_healthy for outcome in outcomes))

    def _judged(self, is_healthy: bool) -> int:  # noqa: FBT001  # private
        return int(_SERVING if is_healthy and not self._health.is_stopping else _NOT_SERVING)

    def _wind_up(self) -> None:
        """Have all who watch look again after the interval, together: one call a check."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._watch_interval_seconds, self._strike)

    def _strike(self) -> None:
        self._timer = None
        self._wind_up()
        self._health.changed()

    def _run_down(self) -> None:
        """Let the event loop sleep when nobody watches any more."""
        if not self._watchers and self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _services(health: Health) -> dict[str, tuple[CheckName, ...]]:
    endpoints = {endpoint.name: endpoint.checks for endpoint in health.endpoints}
    services = {service: endpoints[name] for service, name in _ENDPOINTS.items()}
    return services | {name: (name,) for name in health.check_names}


def _response(status: int) -> health_pb2.HealthCheckResponse:
    return health_pb2.HealthCheckResponse(status=status)


@asynccontextmanager
async def serving_grpc_health(
    address: Address, servicer: HealthServicer, *, tasks: asyncio.TaskGroup, observer: Observer
) -> AsyncIterator[Listener]:
    """Answer gRPC health calls while the block runs; then let calls under way finish.

    An address that is taken does not stop the block: see `listening`, which `tasks` is for.
    """

    async def bind() -> Bound:
        if isinstance(address, UnixAddress):
            return await _bind_unix(address, servicer)
        return await _bind_tcp(address, servicer)

    async with listening(address, bind, tasks=tasks, observer=observer) as listener:
        yield listener


async def _bind_tcp(address: TcpAddress, servicer: HealthServicer) -> Bound:
    """Bind ourselves before gRPC does, which would not say what is wrong but on stderr."""
    opened = await open_sockets(address)
    names = [one.getsockname() for one in opened]
    for one in opened:
        one.close()
    async with _starting(servicer) as (server, held):
        for name in names:
            _add_port(server, written_as_target(name))
        await _to_its_end(server.start())
        url = written_as_target(names[0])
        return Bound(url=url, close=held.pop_all().aclose, port=names[0][1])


async def _bind_unix(address: UnixAddress, servicer: HealthServicer) -> Bound:
    path = Path(address.path)
    ensure_free(path)
    hidden = hidden_path(path)
    async with _starting(servicer) as (server, held):
        _add_port(server, f"unix:{hidden}")
        await _to_its_end(server.start())
        claimed = claim(path, hidden)
        held.callback(claimed.release)
        close = held.pop_all().aclose
        return Bound(url=f"unix:{path}", close=close, is_held=claimed.has_path)


@asynccontextmanager
async def _starting(
    servicer: HealthServicer,
) -> AsyncIterator[tuple[grpc.aio.Server, AsyncExitStack]]:
    """Make a server that is stopped after the block, unless the block takes over its stack."""
    async with AsyncExitStack() as held:
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_MAX_CALLS)
        held.push_async_callback(lambda: _to_its_end(server.stop(_STOP_GRACE_SECONDS)))
        servicer.add_to(server)
        yield server, held


async def _to_its_end(step: Coroutine[object, object, None]) -> None:
    """Let a server start or stop; a cancellation waits until then.

    Otherwise `stop` raises InvalidStateError after a start that was cancelled, and before Python
    3.12 it loses a cancellation itself.
    """
    task = asyncio.create_task(step, name="start or stop of the gRPC health server")
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
    task.result()


def _add_port(server: grpc.aio.Server, target: str) -> None:
    try:
        server.add_insecure_port(target)
    except RuntimeError as error:
        raise OSError(errno.EADDRINUSE, str(error), target) from error
