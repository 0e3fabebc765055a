"""The standard gRPC health service, asked by the standard client over unix sockets and TCP."""

import asyncio
import errno
import shutil
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from health import listener as listener_module
from health.addresses import parse_address
from health.checks import Check, CheckName
from health.errors import Unhealthy
from health.grpc_health import Context, HealthServicer, serving_grpc_health
from health.listener import Listener
from health.observer import Event, ListeningFailed, ListeningStarted
from health.overall import Health, examining

pytestmark = pytest.mark.timeout(30)

HOSTPATH, EBS = "hostpath.csi.k8s.io", "ebs.csi.aws.com"
NEVER_SECONDS = 3_600.0
SERVICES = ["", "liveness", "readiness", *CheckName]
Status = health_pb2.HealthCheckResponse


class Driver:
    """Checks that fail for the reasons set here, and the events of whoever serves them."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.hangs: set[str] = set()
        self.calls: dict[str, int] = dict.fromkeys(CheckName, 0)
        self.events: list[Event] = []
        self._asked = asyncio.Event()
        self._started = asyncio.Semaphore(0)

    def notify(self, event: Event) -> None:
        """See `health.observer.Observer`."""
        self.events.append(event)
        if isinstance(event, ListeningStarted):
            self._started.release()

    def check(self, name: CheckName, driver: str) -> Check:
        """Make a check that looks its reason up."""

        async def ask() -> None:
            self.calls[name] += 1
            self._asked.set()
            if name in self.hangs:
                await asyncio.Event().wait()
            if reason := self.reasons.get(name):
                raise Unhealthy(reason)

        return Check(name=name, driver=lambda: driver, ask=ask)

    async def listened_to(self, count: int) -> None:
        """Wait until an address has been listened on that many times."""
        for _ in range(count):
            await self._started.acquire()

    async def asked(self) -> None:
        """Wait until a check is asked for the next time."""
        self._asked.clear()
        await self._asked.wait()


class Client:
    """The standard client."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = health_pb2_grpc.HealthStub(channel)

    async def check(self, service: str) -> str:
        """Ask for one service's status, by name."""
        request = health_pb2.HealthCheckRequest(service=service)
        response = await self._stub.Check(request, timeout=5, wait_for_ready=True)
        return str(Status.ServingStatus.Name(response.status))

    async def checks(self) -> dict[str, str]:
        """Ask for each service that there is."""
        return {service: await self.check(service) for service in SERVICES}

    async def list(self) -> dict[str, str]:
        """Ask for all services at once."""
        response = await self._stub.List(health_pb2.HealthListRequest(), timeout=5)
        return {
            service: str(Status.ServingStatus.Name(one.status))
            for service, one in response.statuses.items()
        }

    def watch(self, service: str) -> "Watch":
        """Begin to watch a service."""
        return Watch(self._stub.Watch(health_pb2.HealthCheckRequest(service=service)))


class Watch:
    """A stream of statuses."""

    def __init__(self, call: Any) -> None:  # noqa: ANN401  # the stubs have no name for it
        self.call = call

    async def next(self) -> str | None:
        """Wait for the next status; None at the end of the stream."""
        async with asyncio.timeout(10):
            response = await self.call.read()
        if response == grpc.aio.EOF:
            return None
        return str(Status.ServingStatus.Name(response.status))


@asynccontextmanager
async def connected(target: str) -> AsyncIterator[Client]:
    """Connect a client."""
    async with grpc.aio.insecure_channel(target) as channel:
        yield Client(channel)


@asynccontextmanager
async def servicer_of(
    driver: Driver,
    *names: str,
    timeout_seconds: float = 5.0,
    watch_interval_seconds: float = NEVER_SECONDS,
    max_watchers: int = 32,
) -> AsyncIterator[tuple[Health, HealthServicer]]:
    """Make the service of all checks of the named drivers."""
    checks = [driver.check(name, one) for one in names or (HOSTPATH,) for name in CheckName]
    async with examining(checks, timeout_seconds=timeout_seconds, observer=driver) as health:
        servicer = HealthServicer(
            health, watch_interval_seconds=watch_interval_seconds, max_watchers=max_watchers
        )
        yield health, servicer


@asynccontextmanager
async def serving(
    driver: Driver,
    servicer: HealthServicer,
    address: str = "127.0.0.1:0",
) -> AsyncIterator[Listener]:
    """Serve on an address."""
    async with (
        asyncio.TaskGroup() as tasks,
        serving_grpc_health(
            parse_address(address), servicer, tasks=tasks, observer=driver
        ) as listener,
    ):
        yield listener


@asynccontextmanager
async def asked(
    driver: Driver,
    *names: str,
    **options: Any,  # noqa: ANN401  # handed on
) -> AsyncIterator[tuple[Health, Client]]:
    """Serve the driver's health on TCP and connect a client."""
    async with (
        servicer_of(driver, *names, **options) as (health, servicer),
        serving(driver, servicer) as listener,
        connected(listener.url) as client,
    ):
        yield health, client


class TracedServicer(HealthServicer):
    """Tells when a stream has ended on the server's side."""

    def __init__(
        self, health: Health, *, watch_interval_seconds: float, max_watchers: int = 32
    ) -> None:
        super().__init__(
            health, watch_interval_seconds=watch_interval_seconds, max_watchers=max_watchers
        )
        self.is_unwatched = asyncio.Event()

    async def Watch(  # noqa: N802  # as in the service
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> None:
        """See `HealthServicer`."""
        try:
            await super().Watch(request, context)
        finally:
            self.is_unwatched.set()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    path = Path(tempfile.mkdtemp(prefix="g-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not make the test wait for the first retry."""
    monkeypatch.setattr(listener_module, "_FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(listener_module, "_MAX_RETRY_SECONDS", 0.05)


def statuses(*red: str) -> dict[str, str]:
    """All services, those named here red."""
    return {name: "NOT_SERVING" if name in red else "SERVING" for name in SERVICES}


def ticking() -> int:
    """Count the timers that make watchers look again."""
    scheduled: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]  # the only way to see them
    return sum(not one.cancelled() and "_strike" in repr(one) for one in scheduled)


SITUATIONS = [
    ((), ()),
    (("registration-socket",), ("", "readiness", "registration-socket")),
    (("csi-driver",), ("", "readiness", "csi-driver")),
    (("csi-probe",), ("readiness", "csi-probe")),
    (("kubelet-registration",), ("readiness", "kubelet-registration")),
]


@pytest.mark.parametrize(("failing", "red"), SITUATIONS)
async def test_each_service_is_red_for_its_own_checks_only(
    failing: tuple[str, ...], red: tuple[str, ...]
) -> None:
    """`""` is /healthz, `liveness` /livez, `readiness` /readyz, and each check is itself."""
    driver = Driver()
    driver.reasons = dict.fromkeys(failing, "gone")
    async with asked(driver) as (_, client):
        assert await client.checks() == statuses(*red)
        assert await client.list() == statuses(*red)


async def test_a_list_asks_each_check_of_each_driver_once() -> None:
    """Seven services are seven views of four checks."""
    driver = Driver()
    async with asked(driver, HOSTPATH, EBS) as (_, client):
        await client.list()
    assert driver.calls == dict.fromkeys(CheckName, 2)


async def test_every_check_asks_anew() -> None:
    """The `grpc:` probe of kubelet sees what is, not what was."""
    driver = Driver()
    async with asked(driver) as (_, client):
        assert await client.check("") == "SERVING"
        driver.reasons["csi-driver"] = "gone"
        assert await client.check("") == "NOT_SERVING"
        driver.reasons.clear()
        assert await client.check("") == "SERVING"


async def test_a_hanging_driver_is_answered_for_within_the_probe_timeout() -> None:
    """R20: the client need not have a deadline of its own."""
    driver = Driver()
    driver.hangs.add("csi-probe")
    async with asked(driver, timeout_seconds=0.1) as (_, client):
        assert await client.check("readiness") == "NOT_SERVING"
        assert (await client.list())["csi-probe"] == "NOT_SERVING"


async def test_an_unknown_service_is_not_found_and_the_known_ones_are_named() -> None:
    """As the protocol wants it."""
    async with asked(Driver()) as (_, client):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await client.check("etcd")
    assert failure.value.code() == grpc.StatusCode.NOT_FOUND
    assert failure.value.details() == (
        "no service 'etcd'; there are: liveness, readiness, registration-socket, csi-driver,"
        " csi-probe, kubelet-registration"
    )


async def test_a_watch_tells_the_status_at_once_and_each_change_when_told() -> None:
    """Pushed by `Health.changed`, long before the next look."""
    driver = Driver()
    async with asked(driver) as (health, client):
        watch = client.watch("readiness")
        assert await watch.next() == "SERVING"
        driver.reasons["kubelet-registration"] = "rejected"
        health.changed()
        assert await watch.next() == "NOT_SERVING"
        driver.reasons.clear()
        health.changed()
        assert await watch.next() == "SERVING"


async def test_a_watch_sees_changes_that_nobody_told_of() -> None:
    """A driver's Probe changes without an event: it is asked for at each interval."""
    driver = Driver()
    async with asked(driver, watch_interval_seconds=0.02) as (_, client):
        watch = client.watch("csi-probe")
        assert await watch.next() == "SERVING"
        driver.reasons["csi-probe"] = "not ready"
        assert await watch.next() == "NOT_SERVING"
        driver.reasons.clear()
        assert await watch.next() == "SERVING"


async def test_a_watch_does_not_repeat_a_status() -> None:
    """Only changes are news, however often the checks are asked."""
    driver = Driver()
    async with asked(driver) as (health, client):
        watch = client.watch("csi-driver")
        assert await watch.next() == "SERVING"
        for _ in range(3):
            health.changed()
            await driver.asked()
        driver.reasons["csi-driver"] = "gone"
        health.changed()
        assert await watch.next() == "NOT_SERVING"


async def test_an_unknown_service_can_be_watched_for_and_asks_nothing() -> None:
    """The protocol keeps such a stream open, in case the service comes to be."""
    driver = Driver()
    async with asked(driver, watch_interval_seconds=0.01) as (health, client):
        watch = client.watch("etcd")
        assert await watch.next() == "SERVICE_UNKNOWN"
        health.changed()
        assert await client.check("liveness") == "SERVING"
        assert not watch.call.done()
        assert set(driver.calls.values()) == {0}
        health.stopping()
        assert await watch.next() is None


async def test_all_watchers_of_a_check_share_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """R08: twenty observers are one call to the driver at each look."""
    driver = Driver()
    async with asked(driver, watch_interval_seconds=0.2) as (health, client):
        watches = [client.watch("csi-probe") for _ in range(20)]
        for watch in watches:
            assert await watch.next() == "SERVING"
        driver.reasons["csi-probe"] = "not ready"
        before, looks, changed = driver.calls["csi-probe"], iter(range(100)), health.changed
        monkeypatch.setattr(health, "changed", lambda: (next(looks), changed()))
        for watch in watches:
            assert await watch.next() == "NOT_SERVING"
        assert ticking() == 1
    assert 1 <= driver.calls["csi-probe"] - before <= next(looks)


async def test_when_nobody_watches_any_more_nothing_is_asked() -> None:
    """The event loop sleeps."""
    driver = Driver()
    async with servicer_of(driver) as (health, _):
        servicer = TracedServicer(health, watch_interval_seconds=0.01)
        async with serving(driver, servicer) as listener, connected(listener.url) as client:
            watch = client.watch("csi-probe")
            assert await watch.next() == "SERVING"
            watch.call.cancel()
            await servicer.is_unwatched.wait()
            assert ticking() == 0
            health.changed()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await driver.asked()


async def test_only_so_many_may_watch() -> None:
    """So that streams never use up what kubelet's probe needs."""
    async with asked(Driver(), max_watchers=1) as (_, client):
        first = client.watch("")
        assert await first.next() == "SERVING"
        second = client.watch("")
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await second.next()
        assert failure.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await client.check("") == "SERVING"


async def test_who_has_stopped_watching_makes_room() -> None:
    """The limit is of those who watch now."""
    driver = Driver()
    async with servicer_of(driver) as (health, _):
        servicer = TracedServicer(health, watch_interval_seconds=NEVER_SECONDS, max_watchers=1)
        async with serving(driver, servicer) as listener, connected(listener.url) as client:
            first = client.watch("")
            assert await first.next() == "SERVING"
            first.call.cancel()
            await servicer.is_unwatched.wait()
            assert await client.watch("").next() == "SERVING"


async def test_every_service_is_red_once_the_process_stops() -> None:
    """Streams end, so that clients go elsewhere and the server stops at once."""
    async with asked(Driver()) as (health, client):
        watch = client.watch("liveness")
        assert await watch.next() == "SERVING"
        health.stopping()
        assert await watch.next() == "NOT_SERVING"
        assert await watch.next() is None
        assert await client.checks() == statuses(*SERVICES)
        assert await client.list() == statuses(*SERVICES)
        late = client.watch("")
        assert await late.next() == "NOT_SERVING"
        assert await late.next() is None


async def test_any_server_takes_the_service_in(folder: Path) -> None:
    """The registration socket answers for health, too."""
    driver = Driver()
    async with servicer_of(driver) as (_, servicer):
        server = grpc.aio.server()
        servicer.add_to(server)
        server.add_insecure_port(f"unix:{folder}/x-reg.sock")
        await server.start()
        async with connected(f"unix:{folder}/x-reg.sock") as client:
            assert await client.check("readiness") == "SERVING"
        await server.stop(None)


@pytest.mark.parametrize("address", [":0", "localhost:0"])
async def test_both_families_are_served(address: str) -> None:
    """R47: kubelet's `grpc:` probe goes to the pod's IP, whichever family it is of."""
    driver = Driver()
    async with (
        servicer_of(driver) as (_, servicer),
        serving(driver, servicer, address) as listener,
        connected(f"127.0.0.1:{listener.port}") as over_ipv4,
        connected(f"[::1]:{listener.port}") as over_ipv6,
    ):
        assert await over_ipv4.check("") == "SERVING"
        assert await over_ipv6.check("") == "SERVING"


@pytest.mark.usefixtures("quick_retries")
async def test_a_busy_port_is_reported_once_and_taken_when_it_is_free(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """R09: with the kernel's word for it, and without gRPC's own lines on stderr."""
    driver = Driver()
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        async with (
            servicer_of(driver) as (_, servicer),
            serving(driver, servicer, address) as listener,
        ):
            await tried(listener, 3)
            assert driver.events == [
                ListeningFailed(
                    address=address,
                    errno=errno.EADDRINUSE,
                    problem=f"cannot listen on {address}: Address already in use;"
                    " trying again until it works",
                )
            ]
            other.close()
            await listener.up()
            async with connected(listener.url) as client:
                assert await client.check("") == "SERVING"
    assert driver.events[1:] == [ListeningStarted(address=address, url=address)]
    assert capfd.readouterr().err == ""


async def tried(listener: Listener, count: int) -> None:
    """Wait until the listener has tried that many times more."""
    tries = asyncio.Semaphore(0)
    bind = listener._bind

    async def counted() -> listener_module.Bound:
        tries.release()
        return await bind()

    listener._bind = counted
    for _ in range(count):
        await tries.acquire()


async def test_a_port_is_not_shared_with_another_grpc_server() -> None:
    """It would be shared unasked, and half of the probes would reach the other one."""
    other = grpc.aio.server()
    port = other.add_insecure_port("127.0.0.1:0")
    await other.start()
    driver = Driver()
    async with (
        servicer_of(driver) as (_, servicer),
        serving(driver, servicer, f"127.0.0.1:{port}") as listener,
    ):
        assert not listener.is_up
    await other.stop(None)


class SnatchedSocket(socket.socket):
    """A socket whose port somebody takes the moment that it is closed."""

    rival: socket.socket

    def close(self) -> None:
        """Lose the port."""
        name = self.getsockname()
        super().close()
        self.rival = socket.create_server(name)


async def test_a_port_that_is_snatched_from_under_us_counts_as_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between our own bind and the one of gRPC, which does not say what is wrong."""
    snatched = SnatchedSocket(socket.AF_INET, socket.SOCK_STREAM)
    snatched.bind(("127.0.0.1", 0))
    driver = Driver()

    async def open_sockets(_address: object) -> list[socket.socket]:
        return [snatched]

    monkeypatch.setattr("health.grpc_health.open_sockets", open_sockets)
    async with (
        servicer_of(driver) as (_, servicer),
        serving(driver, servicer) as listener,
    ):
        assert not listener.is_up
    snatched.rival.close()
    (failure,) = driver.events
    assert isinstance(failure, ListeningFailed)
    assert failure.errno == errno.EADDRINUSE


async def test_no_other_grpc_server_can_share_our_port(capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever comes later is told that the port is taken."""
    driver, other = Driver(), grpc.aio.server()
    async with servicer_of(driver) as (_, servicer), serving(driver, servicer) as listener:
        with pytest.raises(RuntimeError, match="Failed to bind"):
            other.add_insecure_port(listener.url)
    assert "already in use" in capfd.readouterr().err


@pytest.mark.usefixtures("quick_retries")
async def test_a_unix_socket_that_was_taken_away_is_served_anew(folder: Path) -> None:
    """R02: whoever empties the folder does not silence health in it."""
    path, driver = folder / "h.sock", Driver()
    async with (
        servicer_of(driver) as (_, servicer),
        serving(driver, servicer, f"unix://{path}") as listener,
    ):
        path.unlink()
        listener.renew()
        await driver.listened_to(2)
        async with connected(listener.url) as client:
            assert await client.check("") == "SERVING"


async def test_a_unix_socket_is_served_and_gone_afterwards(folder: Path) -> None:
    """Only its owner may connect."""
    path, driver = folder / "h.sock", Driver()
    async with (
        servicer_of(driver) as (_, servicer),
        serving(driver, servicer, f"unix://{path}") as listener,
        connected(listener.url) as client,
    ):
        assert await client.check("") == "SERVING"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [one.name for one in folder.iterdir()] == ["h.sock"]
    assert not list(folder.iterdir())


@pytest.mark.usefixtures("quick_retries")
async def test_a_live_unix_socket_is_busy_and_succeeded_when_its_owner_goes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R54: gRPC by itself steals the path, and its stop would delete the successor's file."""
    path, driver = folder / "h.sock", Driver()
    async with (
        servicer_of(driver) as (_, servicer),
        AsyncExitStack() as later,
        AsyncExitStack() as first,
    ):
        await first.enter_async_context(serving(driver, servicer, f"unix://{path}"))
        inode = path.stat().st_ino
        with monkeypatch.context() as patch:
            patch.delattr("health.grpc_health.claim")  # nothing is bound while it is busy
            successor = await later.enter_async_context(serving(driver, servicer, f"unix://{path}"))
            await tried(successor, 2)
            assert not successor.is_up
        assert path.stat().st_ino == inode
        await first.aclose()
        await successor.up()
        async with connected(successor.url) as client:
            assert await client.check("") == "SERVING"


async def test_a_dead_predecessors_unix_socket_is_replaced(folder: Path) -> None:
    """R10: after a crash the file is still there."""
    path, driver = folder / "h.sock", Driver()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with (
        servicer_of(driver) as (_, servicer),
        serving(driver, servicer, f"unix://{path}") as listener,
        connected(listener.url) as client,
    ):
        assert await client.check("") == "SERVING"


async def test_what_is_no_socket_is_left_alone(folder: Path) -> None:
    """A mistyped path costs a report, not a file."""
    path, driver = folder / "h.sock", Driver()
    path.write_text("precious")
    async with (
        servicer_of(driver) as (_, servicer),
        serving(driver, servicer, f"unix://{path}") as listener,
    ):
        assert not listener.is_up
    assert path.read_text() == "precious"
    assert [one.name for one in folder.iterdir()] == ["h.sock"]


@pytest.mark.parametrize("rounds", [*range(1, 12), 50, 200])
@pytest.mark.parametrize("kind", ["tcp", "unix"])
async def test_a_cancellation_while_it_starts_leaves_nothing_and_says_nothing_else(
    folder: Path, rounds: int, kind: str
) -> None:
    address = f"unix://{folder}/grpc.sock" if kind == "unix" else "127.0.0.1:0"
    driver = Driver()

    async def live() -> None:
        async with servicer_of(driver) as (_, servicer), serving(driver, servicer, address):
            await asyncio.sleep(10)

    life = asyncio.create_task(live(), name="life")
    for _ in range(rounds):  # of the event loop
        await asyncio.sleep(0)
    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life
    assert [*folder.iterdir()] == []
