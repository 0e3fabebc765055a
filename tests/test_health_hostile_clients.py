"""What slow, broken and hostile HTTP clients can do to a probe: nothing. Raw sockets throughout."""

import asyncio
import gzip
import logging
import os
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from health.addresses import parse_address
from health.connections import DEFAULT_LIMITS, Limits
from health.http_server import Route, serving_http
from health.listener import Listener
from health.observer import Event, Handler, RequestAnswered
from health.web import Request, Response

pytestmark = pytest.mark.timeout(30)

PROBE = (
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nUser-Agent: kube-probe/1.34\r\nConnection: close\r\n\r\n"
)
KEPT = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HANGING = b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n"
PATIENT = Limits(request_seconds=60, idle_seconds=60, write_seconds=60)
HASTY = Limits(request_seconds=0.1, idle_seconds=0.2, write_seconds=0.2, linger_seconds=0.1)


@dataclass
class Server:
    """A server with a probe, a page that hangs, and a page of ten megabytes."""

    events: list[Event] = field(default_factory=list)
    hanging: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    answered: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    listener: Listener | None = None
    clients: list["Client"] = field(default_factory=list)

    def notify(self, event: Event) -> None:
        """See `health.observer.Observer`."""
        self.events.append(event)
        if isinstance(event, RequestAnswered):
            self.answered.release()

    async def probe(self, _request: Request) -> Response:
        """Be healthy."""
        return Response(text="ok")

    async def hang(self, _request: Request) -> Response:
        """Answer when it is allowed."""
        self.hanging.release()
        await self.may_answer.wait()
        return Response(text="late")

    async def flood(self, _request: Request) -> Response:
        """Answer more than any buffer holds."""
        return Response(body=b"x" * 10_000_000)

    @property
    def requests(self) -> list[tuple[str, int]]:
        """What was answered, by handler and code."""
        return [(e.handler, e.code) for e in self.events if isinstance(e, RequestAnswered)]

    async def connect(self, *, limit: int = 2**16) -> "Client":
        """Open a raw connection."""
        assert self.listener is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port, limit=limit)
        self.clients.append(Client(reader, writer))
        return self.clients[-1]

    async def ask(self, request: bytes = PROBE) -> bytes:
        """Send a request on a connection of its own and read what comes until the end."""
        client = await self.connect()
        client.send(request)
        return await client.rest()


@dataclass(eq=False)
class Client:
    """One raw connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        """Send, without waiting for it to be taken."""
        self.writer.write(data)

    async def response(self) -> bytes:
        """Read one response with a length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return head + await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """Read until the server closes, be it by reset."""
        data = b""
        try:
            async with asyncio.timeout(10):
                while chunk := await self.reader.read(2**16):
                    data += chunk
        except ConnectionError:
            pass
        return data

    async def is_open(self) -> bool:
        """Whether the server has kept the connection: it answers a probe on it."""
        try:
            self.send(KEPT)
            return b" 200 " in await self.response()
        except (ConnectionError, asyncio.IncompleteReadError):
            return False

    def close(self) -> None:
        """Go away."""
        self.writer.transport.abort()


@asynccontextmanager
async def serving(limits: Limits = PATIENT) -> AsyncIterator[Server]:
    """Serve the pages of `Server`."""
    server = Server()
    routes = [
        Route("/healthz", server.probe, Handler.HEALTHZ),
        Route("/hang", server.hang, Handler.OTHER),
        Route("/flood", server.flood, Handler.OTHER),
    ]
    async with (
        asyncio.TaskGroup() as tasks,
        serving_http(
            parse_address("127.0.0.1:0"), routes, tasks=tasks, observer=server, limits=limits
        ) as listener,
    ):
        server.listener = listener
        try:
            yield server
        finally:
            for client in server.clients:
                client.close()


async def drip(client: Client) -> None:
    """Send a request so slowly that it never ends."""
    for byte in KEPT[:-2] + b"X" * 5_000:
        client.send(bytes([byte]))
        await asyncio.sleep(0.02)


@asynccontextmanager
async def dripping(clients: list[Client]) -> AsyncIterator[None]:
    """Let all of them drip while the block runs."""
    agents = [asyncio.create_task(drip(one), name="drip") for one in clients]
    try:
        yield
    finally:
        for agent in agents:
            agent.cancel()
        await asyncio.wait(agents)


def open_files() -> int:
    """Count our file descriptors."""
    return len(os.listdir("/proc/self/fd"))


def deadlines() -> list[asyncio.TimerHandle]:
    """Collect the timers that connections have left."""
    scheduled: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]  # the only way to see them
    return [one for one in scheduled if not one.cancelled() and "abort" in repr(one)]


async def test_idle_and_dripping_clients_hold_up_no_probe_and_are_closed() -> None:
    """200 that say nothing and 50 that say a byte at a time: the table of the health issue."""
    files = open_files()
    async with serving(Limits(request_seconds=1.0)) as server:
        idle = [await server.connect() for _ in range(200)]
        slow = [await server.connect() for _ in range(50)]
        async with dripping(slow), asyncio.timeout(20):
            for _ in range(50):
                assert (await server.ask()).endswith(b"\r\n\r\nok")
            assert open_files() - files < 2 * (DEFAULT_LIMITS.max_connections + 200)
            for client in idle:
                assert await client.rest() == b""
        for client in slow:
            assert await client.rest() == b""
    assert server.requests == [("healthz", 200)] * 50
    await asyncio.sleep(0)
    assert open_files() <= files + 1


async def test_beyond_the_cap_the_oldest_that_waits_goes_for_the_newest() -> None:
    """The newest may be kubelet."""
    async with serving(Limits(max_connections=3, request_seconds=60)) as server:
        first, second, third = [await server.connect() for _ in range(3)]
        newest = await server.connect()
        assert await first.rest() == b""
        assert await newest.is_open()
        assert await second.is_open()
        assert await third.is_open()


async def test_having_been_answered_makes_a_connection_young_again() -> None:
    """Prometheus's connection outlives strangers that never asked for anything."""
    async with serving(Limits(max_connections=2, request_seconds=60)) as server:
        prometheus, stranger = await server.connect(), await server.connect()
        prometheus.send(KEPT)
        await prometheus.response()
        newest = await server.connect()
        assert await stranger.rest() == b""
        assert await prometheus.is_open()
        assert await newest.is_open()


async def test_an_answer_under_way_is_not_given_up_for_a_newcomer_while_others_wait() -> None:
    """Probes of a slow driver are not pushed out by idle strangers."""
    async with serving(Limits(max_connections=2, request_seconds=60)) as server:
        busy = await server.connect()
        busy.send(HANGING)
        await server.hanging.acquire()
        for _ in range(10):
            stranger = await server.connect()
        server.may_answer.set()
        assert (await busy.response()).endswith(b"late")
        assert await stranger.is_open()


async def test_whoever_has_been_answered_goes_before_whoever_waits_for_an_answer() -> None:
    """A connection that is kept for later is the cheapest to lose."""
    async with serving(Limits(max_connections=2, request_seconds=60)) as server:
        busy, kept = await server.connect(), await server.connect()
        busy.send(HANGING)
        await server.hanging.acquire()
        kept.send(KEPT)
        await kept.response()
        newest = await server.connect()
        assert await kept.rest() == b""
        server.may_answer.set()
        assert (await busy.response()).endswith(b"late")
        assert await newest.is_open()


async def test_whoever_has_gone_counts_no_more() -> None:
    """Or each probe of kubelet would cost somebody a connection."""
    async with serving(Limits(max_connections=3, request_seconds=60)) as server:
        kept = await server.connect()
        for _ in range(10):
            await server.ask()
        assert await kept.is_open()


async def test_an_answer_may_take_longer_than_the_request() -> None:
    """What a check takes is bounded by its own timeout, which the operator may set."""
    async with serving(HASTY) as server:
        client = await server.connect()
        client.send(HANGING)
        await server.hanging.acquire()
        asyncio.get_running_loop().call_later(3 * HASTY.idle_seconds, server.may_answer.set)
        assert (await client.response()).endswith(b"late")


async def test_if_all_are_busy_the_longest_busy_goes() -> None:
    """Even then the newest is let in: it may be kubelet, and each has had its time."""
    async with serving(Limits(max_connections=2, request_seconds=60)) as server:
        busy = [await server.connect() for _ in range(2)]
        for client in busy:
            client.send(HANGING)
            await server.hanging.acquire()
        assert (await server.ask()).endswith(b"ok")
        assert await busy[0].rest() == b""
        server.may_answer.set()
        assert (await busy[1].response()).endswith(b"late")


async def test_a_client_that_says_nothing_is_closed_in_time() -> None:
    """No answer is owed to it."""
    async with serving(HASTY) as server:
        client = await server.connect()
        assert await client.rest() == b""


async def test_a_request_that_comes_byte_by_byte_is_closed_in_time() -> None:
    """Each byte buys no time: aiohttp by itself would wait for ever."""
    async with serving(HASTY) as server:
        client = await server.connect()
        async with dripping([client]):
            assert await client.rest() == b""
    assert server.requests == []


async def test_a_connection_that_is_kept_alive_serves_many_requests_and_is_then_closed() -> None:
    """Idle time is counted from the last answer, dripping or not; bytes from there, too."""
    async with serving(HASTY._replace(max_request_bytes=2 * len(KEPT))) as server:
        silent, slow = await server.connect(), await server.connect()
        for client in (silent, slow):
            for _ in range(3):
                client.send(KEPT)
                assert (await client.response()).endswith(b"ok")
        async with dripping([slow]):
            assert await silent.rest() == b""
            assert await slow.rest() == b""
    assert server.requests == [("healthz", 200)] * 6


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 4_000, id="headers"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 40_000, id="one header"),
        pytest.param(b"GET /" + b"y" * 40_000, id="path"),
        pytest.param(
            b"GET /hang HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n" + b"y" * 40_000,
            id="body",
        ),
    ],
)
async def test_more_than_a_request_may_hold_is_cut_off(request_: bytes) -> None:
    """Nobody fills our memory; probes go on meanwhile."""
    async with serving() as server:
        client = await server.connect()
        for start in range(0, len(request_), 4_096):
            client.send(request_[start : start + 4_096])
            await asyncio.sleep(0)
        assert b" 200 " not in await client.rest()
        assert (await server.ask()).endswith(b"ok")
        server.may_answer.set()


async def test_a_few_requests_at_once_are_answered_in_turn() -> None:
    """Pipelining is HTTP, too."""
    async with serving() as server:
        answer = await server.ask(KEPT + KEPT + PROBE)
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert server.requests == [("healthz", 200)] * 3


async def test_a_client_that_does_not_take_its_answer_is_cut_off() -> None:
    """The answer does not stay in our memory."""
    async with serving(HASTY) as server:
        client = await server.connect(limit=1_024)
        client.send(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.reader.readexactly(1)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # also a reader
        await server.answered.acquire()
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # also a reader
        assert len(await client.rest()) < 10_000_000


async def test_a_body_that_nobody_asked_for_ends_the_connection() -> None:
    """The answer comes at once; the rest is not waited for longer than a moment."""
    async with serving(PATIENT._replace(linger_seconds=0.1)) as server:
        answer = await server.ask(
            b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\nabc"
        )
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert server.requests == [("healthz", 405)]


async def test_a_body_that_comes_after_its_answer_does_no_harm() -> None:
    """The answer reaches the client, and the connection is good for more."""
    async with serving() as server:
        client = await server.connect()
        client.send(b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert (await client.response()).startswith(b"HTTP/1.1 405 ")
        client.send(b"x" * 1_000)
        assert await client.is_open()


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), id="tls"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="http2"),
        pytest.param(b"hello\r\n\r\n", id="words"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost x\r\n\r\n", id="bad header"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n", id="bad length"),
    ],
)
async def test_what_is_no_request_is_refused_without_a_log_line(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """R64: whoever scans the port cannot fill the log."""
    async with serving() as server:
        caplog.clear()
        assert (await server.ask(garbage)).startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))
        assert (await server.ask()).endswith(b"ok")
        assert server.requests == [("other", 400), ("healthz", 200)]
    assert [one for one in caplog.records if one.levelno > logging.DEBUG] == []


@pytest.mark.parametrize(
    ("line", "handler"),
    [
        ("OPTIONS *", "other"),
        ("CONNECT example.org:443", "other"),
        ("GET http://example.org/healthz/x", "healthz"),
        ("GET //healthz", "other"),
        ("GET /%zz%00", "other"),
        ("GET /healthz?%zz=%00&&=", "healthz"),
        ("TRACE /healthz", "healthz"),
        ("FOO /healthz", "other"),
    ],
)
async def test_strange_requests_are_answered_without_a_log_line(
    line: str, handler: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What HTTP allows and nobody sends on purpose is no fault of ours either."""
    async with serving() as server:
        caplog.clear()
        await server.ask(f"{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        ((counted, code),) = server.requests
    assert (counted, code < 500) == (handler, True)
    assert [one for one in caplog.records if one.levelno > logging.DEBUG] == []


async def test_a_url_that_cannot_be_read_is_refused_without_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By an answer or, where aiohttp has none, by the end of the connection."""
    async with serving() as server:
        caplog.clear()
        answer = await server.ask(b"GET http://[/ HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer == b"" or b" 400 " in answer
        assert (await server.ask()).endswith(b"ok")
    assert [one for one in caplog.records if one.levelno > logging.DEBUG] == []


async def test_garbage_after_a_request_is_not_counted_for_the_request() -> None:
    """Each answer is counted under its own handler."""
    async with serving() as server:
        client = await server.connect()
        client.send(KEPT)
        await client.response()
        client.send(b"hello\r\n\r\n")
        await client.rest()
    assert server.requests == [("healthz", 200), ("other", 400)]


async def test_clients_that_vanish_leave_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    """In the middle of a request or of their answer: no file, no log line."""
    files = open_files()
    async with serving() as server:
        for data in (b"", KEPT[:10], HANGING, b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n"):
            for _ in range(10):
                client = await server.connect()
                client.send(data)
                if data == HANGING:
                    await server.hanging.acquire()
                client.close()
        server.may_answer.set()
        assert (await server.ask()).endswith(b"ok")
        for _ in range(11):  # those that hung, and the last
            await server.answered.acquire()
        assert deadlines() == []
    await asyncio.sleep(0)
    assert open_files() <= files + 1
    assert [one for one in caplog.records if one.levelno > logging.DEBUG] == []


async def test_stopping_waits_for_no_stranger() -> None:
    """SIGTERM to gone in under a second, whoever is connected and whatever hangs."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving())
        clients = [await server.connect() for _ in range(30)]
        for number, client in enumerate(clients):
            client.send((b"", KEPT[:10], HANGING)[number % 3])
        await server.hanging.acquire()
        async with asyncio.timeout(5):
            await stack.aclose()
        for client in clients:
            assert await client.rest() == b""


async def test_stopping_waits_for_no_one_who_does_not_take_the_answer() -> None:
    """Not even with what is on its way already."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving())
        client = await server.connect(limit=1_024)
        server.clients.clear()  # stays connected, whatever happens to the server
        client.send(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.reader.readexactly(1)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # also a reader
        async with asyncio.timeout(5):
            await stack.aclose()
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # also a reader
        assert len(await client.rest()) < 10_000_000
        client.close()


async def test_a_small_body_that_unfolds_to_a_large_one_is_not_unfolded() -> None:
    """Sixteen kilobytes of it could fill a container's memory."""
    body = gzip.compress(bytes(8_000_000))
    head = "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: "
    async with serving() as server:
        client = await server.connect()
        tracemalloc.start()
        client.send(f"{head}{len(body)}\r\n\r\n".encode() + body)
        await client.response()
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < 1_000_000
