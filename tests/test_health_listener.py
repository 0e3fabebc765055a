"""Addresses, ports that are taken, and unix sockets: real sockets throughout."""

import asyncio
import errno
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from health import listener as listener_module
from health.addresses import TcpAddress, UnixAddress, parse_address
from health.errors import AddressError
from health.http_server import Route, serving_http
from health.listener import Listener
from health.observer import Event, Handler, ListeningFailed, ListeningStarted
from health.sockets import open_sockets
from health.unix_paths import claim
from health.web import Request, Response

pytestmark = pytest.mark.timeout(20)

ALL_OF_IPV4 = "0.0.0.0"  # noqa: S104  # what the operator asks for


class RecordingObserver:
    """Keeps every event, and lets a test wait for one."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()

    def notify(self, event: Event) -> None:
        """See `health.observer.Observer`."""
        self.events.append(event)
        self._news.set()

    async def seen(self, kind: type[Event], count: int = 1) -> list[Event]:
        """Wait until that many events of a kind have come."""
        while len(found := self.of(kind)) < count:
            self._news.clear()
            await self._news.wait()
        return found

    def of(self, kind: type[Event]) -> list[Event]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


async def answer(_request: Request) -> Response:
    """Be up."""
    return Response(text="ok")


@asynccontextmanager
async def serving(text: str, observer: RecordingObserver | None = None) -> AsyncIterator[Listener]:
    """Serve one page on an address."""
    async with (
        asyncio.TaskGroup() as tasks,
        serving_http(
            parse_address(text),
            [Route("/", answer, Handler.ROOT)],
            tasks=tasks,
            observer=observer or RecordingObserver(),
        ) as listener,
    ):
        yield listener


async def get(url: str, unix: Path | None = None) -> str:
    """Ask for a page on a connection of its own."""
    connector = aiohttp.UnixConnector(str(unix)) if unix else aiohttp.TCPConnector()
    async with aiohttp.ClientSession(connector=connector) as client, client.get(url) as response:
        return await response.text()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    path = Path(tempfile.mkdtemp(prefix="h-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not make the test wait for the first retry."""
    monkeypatch.setattr(listener_module, "_FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(listener_module, "_MAX_RETRY_SECONDS", 0.05)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":9809", "", 9809),
        ("9809", "", 9809),
        ("0.0.0.0:9809", "", 9809),
        ("[::]:9809", "", 9809),
        ("[0:0:0:0:0:0:0:0]:9809", "", 9809),
        ("127.0.0.1:9809", "127.0.0.1", 9809),
        ("localhost:9809", "localhost", 9809),
        ("[10.0.0.7]:9809", "10.0.0.7", 9809),
        ("[::1]:9809", "::1", 9809),
        ("[fe80::1%eth0]:9809", "fe80::1%eth0", 9809),
        ("node-1.example.org:80", "node-1.example.org", 80),
        (":0", "", 0),
        (":65535", "", 65535),
    ],
)
def test_the_addresses_that_go_takes_are_taken(text: str, host: str, port: int) -> None:
    """R47, R48: every form that a manifest of the Go sidecars may hold."""
    assert parse_address(text) == TcpAddress(text, host, port)


@pytest.mark.parametrize("text", ["unix:///run/h.sock", "unix:/run/h.sock"])
def test_a_unix_path_is_taken_in_both_spellings(text: str) -> None:
    """As gRPC's and Go's clients write it."""
    assert parse_address(text) == UnixAddress(text, "/run/h.sock")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no port"),
        (":", "has no port"),
        ("localhost", "has no port"),
        ("localhost:http", "has no port"),
        (":65536", "has no port"),
        (":-1", "has no port"),
        (":" + "9" * 5000, "has no port"),
        (":९", "has no port"),
        ("::1:9809", "goes into brackets"),
        ("[::1]", "goes into brackets"),
        ("[::1", "goes into brackets"),
        ("[::g]:9809", "is no IP address"),
        ("[localhost]:9809", "is no IP address"),
        ("10.0.0.300:9809", "is no IP address"),
        ("a b:9809", "is no host name"),
        ("-a:9809", "is no host name"),
        ("http://:9809", "goes into brackets|is no host name"),
        ("tcp/x:9809", "is no host name"),
        ("unix://", "does not name a socket"),
        ("unix://run/h.sock", "does not name a socket"),
        ("unix:///run/", "does not name a socket"),
        ("unix:///a\0b", "does not name a socket"),
        ("unix:///" + "x" * 107, "has 108 bytes; a unix socket's has at most 107"),
    ],
)
def test_what_is_no_address_is_refused_with_a_sentence(text: str, problem: str) -> None:
    """At the start, not as a server that never comes up."""
    with pytest.raises(AddressError, match=problem):
        parse_address(text)


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_a_sentence(text: str) -> None:
    """Nothing else is ever raised for what stands in a manifest."""
    with suppress(AddressError):
        assert parse_address(text).text == text


@pytest.mark.parametrize("text", [":0", "0", "0.0.0.0:0", "[::]:0"])
async def test_all_interfaces_are_both_families(text: str) -> None:
    """R47: `0.0.0.0` is dual stack in Go, so an IPv6-only cluster's probes have always worked."""
    async with serving(text) as listener:
        assert await get(f"http://127.0.0.1:{listener.port}/") == "ok"
        assert await get(f"http://[::1]:{listener.port}/") == "ok"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:0", "http://127.0.0.1:{}"),
        ("localhost:0", "http://127.0.0.1:{}"),
        ("[127.0.0.1]:0", "http://127.0.0.1:{}"),
        ("[::1]:0", "http://[::1]:{}"),
    ],
)
async def test_port_0_is_told_by_the_listener(text: str, url: str) -> None:
    """Whoever starts the server can reach it without a race for ports."""
    observer = RecordingObserver()
    async with serving(text, observer) as listener:
        assert listener.is_up
        assert listener.url == url.format(listener.port)
        assert await get(listener.url) == "ok"
        assert observer.of(ListeningStarted) == [ListeningStarted(address=text, url=listener.url)]


async def test_localhost_is_both_loopback_addresses_and_no_look_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients try `::1` first; and no resolver stands between a probe and its answer."""

    def look_up(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("looked up")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    opened = await open_sockets(TcpAddress("localhost:0", "localhost", 0))
    names = [one.getsockname() for one in opened]
    for one in opened:
        one.close()
    assert [name[0] for name in names] == ["127.0.0.1", "::1"]
    assert names[0][1] == names[1][1]


async def test_one_address_is_not_another(folder: Path) -> None:
    """R48: what is bound to 127.0.0.1 is not on the network."""
    async with serving("127.0.0.1:0") as listener:
        with pytest.raises(aiohttp.ClientConnectorError):
            await get(f"http://[::1]:{listener.port}/")


class SocketWithoutIpv6(socket.socket):
    """What `socket` gives on a node that was started with `ipv6.disable=1`."""

    def __init__(self, family: int = -1, *args: int) -> None:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        super().__init__(family, *args)


@pytest.mark.parametrize(("text", "bound"), [(":0", ALL_OF_IPV4), ("localhost:0", "127.0.0.1")])
async def test_where_ipv6_is_off_ipv4_is_enough(
    monkeypatch: pytest.MonkeyPatch, text: str, bound: str
) -> None:
    """A node without IPv6 still has health."""
    monkeypatch.setattr(socket, "socket", SocketWithoutIpv6)
    address = parse_address(text)
    assert isinstance(address, TcpAddress)
    (opened,) = await open_sockets(address)
    with opened:
        assert opened.family == socket.AF_INET
        assert opened.getsockname()[0] == bound


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize(
    ("taken", "wanted"),
    [
        ("127.0.0.1", "127.0.0.1:{}"),
        ("127.0.0.1", ":{}"),
        ("127.0.0.1", "localhost:{}"),
        ("::1", "localhost:{}"),
        ("::1", "[::1]:{}"),
        ("::1", ":{}"),
    ],
)
async def test_a_busy_port_is_reported_once_and_taken_when_it_is_free(
    taken: str, wanted: str
) -> None:
    """R09: another pod of the host network has the port; the driver is registered meanwhile."""
    observer = RecordingObserver()
    family = socket.AF_INET6 if ":" in taken else socket.AF_INET
    with socket.create_server((taken, 0), family=family) as other:
        address = wanted.format(other.getsockname()[1])
        async with serving(address, observer) as listener:
            assert (listener.is_up, listener.url, listener.port) == (False, "", None)
            await attempts(listener, 3)
            assert observer.events == [
                ListeningFailed(
                    address=address,
                    errno=errno.EADDRINUSE,
                    problem=f"cannot listen on {address}: Address already in use;"
                    " trying again until it works",
                )
            ]
            other.close()
            await listener.up()
            assert await get(listener.url) == "ok"
    assert len(observer.of(ListeningStarted)) == 1
    assert len(observer.of(ListeningFailed)) == 1


async def attempts(listener: Listener, count: int) -> None:
    """Wait until the listener has tried that many times more."""
    tried = asyncio.Semaphore(0)
    bind = listener._bind

    async def counted() -> listener_module.Bound:
        tried.release()
        return await bind()

    listener._bind = counted
    for _ in range(count):
        await tried.acquire()


def test_a_port_is_taken_at_most_five_seconds_after_it_is_free() -> None:
    """The longest pause, with room for the attempt itself."""
    assert listener_module._MAX_RETRY_SECONDS <= 4.5


async def test_leaving_while_the_port_is_busy_is_no_trouble() -> None:
    """The agent that goes on trying ends with the block."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        async with serving(f"127.0.0.1:{other.getsockname()[1]}") as listener:
            pass
        assert not listener.is_up


@pytest.mark.usefixtures("quick_retries")
async def test_an_unknown_host_is_reported_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS may come up later than we do."""
    loop, names = asyncio.get_running_loop(), [OSError, None]
    look_up = loop.getaddrinfo

    async def slow_dns(host: str, port: int, **options: int) -> object:
        if names.pop(0) is OSError:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            *await look_up("::1", port, **options),
            *await look_up("127.0.0.1", port, **options),
        ]

    monkeypatch.setattr(loop, "getaddrinfo", slow_dns)
    observer = RecordingObserver()
    async with serving("node.invalid:0", observer) as listener:
        await listener.up()
    problem = (
        "cannot listen on node.invalid:0: Name or service not known; trying again until it works"
    )
    assert observer.events == [
        ListeningFailed(address="node.invalid:0", errno=None, problem=problem),
        ListeningStarted(address="node.invalid:0", url=f"http://127.0.0.1:{listener.port}"),
    ]


async def test_an_answer_under_way_is_finished_when_the_server_stops() -> None:
    """Shutdown order: no client is cut off in the middle of its answer."""
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def slowly(_request: Request) -> Response:
        asked.set()
        await may_answer.wait()
        return Response(text="late")

    async with asyncio.TaskGroup() as tasks:
        async with serving_http(
            parse_address("127.0.0.1:0"),
            [Route("/", slowly, Handler.ROOT)],
            tasks=tasks,
            observer=RecordingObserver(),
        ) as listener:
            client = asyncio.create_task(get(listener.url), name="client")
            await asked.wait()
            asyncio.get_running_loop().call_later(0.05, may_answer.set)
        assert await client == "late"


async def test_after_the_block_nobody_listens() -> None:
    """The port is free for a successor at once, open keep-alive connections or not."""
    async with aiohttp.ClientSession() as client:
        async with serving("127.0.0.1:0") as listener:
            async with client.get(listener.url) as response:
                await response.read()
            port = listener.port
        async with serving(f"127.0.0.1:{port}") as successor:
            assert successor.is_up


async def test_a_unix_socket_is_served_and_only_its_owner_may_connect(folder: Path) -> None:
    """R09: the way without a port; the exec probe of our own container uses it."""
    path = folder / "h.sock"
    async with serving(f"unix://{path}") as listener:
        assert (listener.url, listener.port) == (f"unix://{path}", None)
        assert await get("http://sidecar/", unix=path) == "ok"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [one.name for one in folder.iterdir()] == ["h.sock"]
    assert not list(folder.iterdir())


def leave_stale_socket(path: Path) -> None:
    """Leave what a killed process leaves."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


async def test_a_dead_predecessors_socket_is_replaced(folder: Path) -> None:
    """R10: after a crash or a reboot the file is still there."""
    path = folder / "h.sock"
    leave_stale_socket(path)
    async with serving(f"unix://{path}") as listener:
        assert listener.is_up
        assert await get("http://sidecar/", unix=path) == "ok"
    assert not path.exists()


@pytest.mark.usefixtures("quick_retries")
async def test_a_live_socket_counts_as_busy_and_is_left_alone(folder: Path) -> None:
    """R01: nobody's socket is taken from under it."""
    path, observer = folder / "h.sock", RecordingObserver()
    async with serving(f"unix://{path}") as first:
        inode = path.stat().st_ino
        async with serving(f"unix://{path}", observer) as second:
            await attempts(second, 2)
            assert [event.errno for event in failures(observer)] == [errno.EADDRINUSE]
            assert path.stat().st_ino == inode
            assert [one.name for one in folder.iterdir()] == ["h.sock"]
        assert await get("http://sidecar/", unix=path) == "ok"
        assert first.is_up
    assert not path.exists()


def failures(observer: RecordingObserver) -> list[ListeningFailed]:
    """The failures to listen."""
    return [event for event in observer.events if isinstance(event, ListeningFailed)]


@pytest.mark.usefixtures("quick_retries")
async def test_a_live_socket_with_a_full_backlog_is_alive(folder: Path) -> None:
    """A peer that is too busy to accept is not a dead one."""
    path = folder / "h.sock"
    with ExitStack() as stack:
        peer = stack.enter_context(socket.socket(socket.AF_UNIX))
        peer.bind(str(path))
        peer.listen(0)
        with suppress(BlockingIOError):
            while True:
                client = stack.enter_context(socket.socket(socket.AF_UNIX))
                client.settimeout(0)
                client.connect(str(path))
        inode = path.stat().st_ino
        async with serving(f"unix://{path}") as listener:
            await attempts(listener, 2)
            assert not listener.is_up
        assert path.stat().st_ino == inode


def test_a_socket_that_only_got_our_inodes_number_is_not_ours(folder: Path) -> None:
    """R01: file systems give a number out again at once; the time of change tells them apart."""
    leave_stale_socket(folder / "hidden")
    claimed = claim(folder / "h.sock", folder / "hidden")
    assert claimed.has_path()
    os.utime(claimed.path)
    assert not claimed.has_path()
    claimed.release()
    assert claimed.path.exists()


async def test_a_socket_that_comes_alive_while_we_bind_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at once more right before the rename; what we have bound meanwhile is removed."""
    monkeypatch.setattr("health.http_server.ensure_free", lambda _path: None)
    path = folder / "h.sock"
    async with serving(f"unix://{path}") as first, serving(f"unix://{path}") as second:
        assert (first.is_up, second.is_up) == (True, False)
        assert [one.name for one in folder.iterdir()] == ["h.sock"]


@pytest.mark.usefixtures("quick_retries")
async def test_a_live_socket_is_succeeded_when_its_owner_goes(folder: Path) -> None:
    """A rolling update with both instances at once ends with the new one reachable."""
    path = folder / "h.sock"
    async with AsyncExitStack() as later, AsyncExitStack() as first:
        await first.enter_async_context(serving(f"unix://{path}"))
        successor = await later.enter_async_context(serving(f"unix://{path}"))
        assert not successor.is_up
        await first.aclose()
        await successor.up()
        assert await get("http://sidecar/", unix=path) == "ok"


def make_file(path: Path) -> None:
    """Put a file of the operator's there."""
    path.write_text("precious")


def make_link(path: Path) -> None:
    """Put a link to a socket there, which is not a socket either."""
    leave_stale_socket(path.with_name("other"))
    path.symlink_to("other")


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("make", [make_file, make_link, Path.mkdir])
async def test_what_is_no_socket_is_never_replaced_nor_deleted(
    folder: Path, make: Callable[[Path], None]
) -> None:
    """A mistyped path costs a report, not a file."""
    path, observer = folder / "h.sock", RecordingObserver()
    make(path)
    before = path.lstat()
    async with serving(f"unix://{path}", observer) as listener:
        await attempts(listener, 2)
        assert not listener.is_up
    assert path.lstat() == before
    assert [event.errno for event in failures(observer)] == [errno.EEXIST]
    assert "there is a file that is no socket" in failures(observer)[0].problem
    assert not list(folder.glob(".*"))


@pytest.mark.usefixtures("quick_retries")
async def test_a_folder_that_is_missing_is_waited_for(folder: Path) -> None:
    """It may be mounted later than we start."""
    path, observer = folder / "later" / "h.sock", RecordingObserver()
    async with serving(f"unix://{path}", observer) as listener:
        assert [event.errno for event in failures(observer)] == [errno.ENOENT]
        path.parent.mkdir()
        await listener.up()
        assert await get("http://sidecar/", unix=path) == "ok"


async def test_a_successors_socket_is_not_removed_on_exit(folder: Path) -> None:
    """R01: the old instance must not delete the new one's file, whatever its name is."""
    path = folder / "h.sock"
    async with AsyncExitStack() as later, AsyncExitStack() as first:
        await first.enter_async_context(serving(f"unix://{path}"))
        path.unlink()
        successor = await later.enter_async_context(serving(f"unix://{path}"))
        await first.aclose()
        assert successor.is_up
        assert await get("http://sidecar/", unix=path) == "ok"


@pytest.mark.usefixtures("quick_retries")
async def test_a_unix_socket_that_was_taken_away_is_listened_on_anew(folder: Path) -> None:
    """R02: whoever empties the folder does not silence the probe in it."""
    path, observer = folder / "in" / "h.sock", RecordingObserver()
    async with serving(f"unix://{path}", observer) as listener:
        await observer.seen(ListeningFailed, 1)
        path.parent.mkdir()
        await observer.seen(ListeningStarted, 1)
        shutil.rmtree(path.parent)
        listener.renew()
        await observer.seen(ListeningFailed, 2)
        assert (listener.is_up, listener.url) == (False, "")
        path.parent.mkdir()
        await observer.seen(ListeningStarted, 2)
        assert listener.is_up
        assert await get("http://sidecar/", unix=path) == "ok"
    assert not list(path.parent.iterdir())


async def test_renewing_what_is_still_there_changes_nothing(folder: Path) -> None:
    """So it may be called on any suspicion."""
    path, observer = folder / "h.sock", RecordingObserver()
    async with (
        serving(f"unix://{path}", observer) as unix,
        serving("127.0.0.1:0", observer) as tcp,
    ):
        inode = path.stat().st_ino
        for listener in (unix, tcp):
            listener.renew()
            assert listener.is_up
        assert path.stat().st_ino == inode
        assert await get(tcp.url) == "ok"
    assert len(observer.of(ListeningStarted)) == 2
