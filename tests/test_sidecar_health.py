"""Health of the whole: the real command with its real peers, asked as kubelet would ask."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import grpc.aio
import pytest
from commanding import RunningCommand, registrar_arguments, running
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Notified
from pluginregistration.v1 import registration_pb2, registration_pb2_grpc
from registrar.settings import DriverSettings
from registrar.unix_sockets import grpc_target

SOCKET = "x.csi.example.com-reg.sock"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Client:
    """Asks one sidecar over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and body."""
        async with self._session.get(self._url + path) as response:
            return response.status, await response.text()

    async def wait_for(self, path: str, status: int, *, timeout_seconds: float = 5) -> str:
        """Ask until the status is as expected; return the body."""
        async with asyncio.timeout(timeout_seconds):
            while True:
                its_status, body = await self.get(path)
                if its_status == status:
                    return body
                await asyncio.sleep(0.05)

    async def seconds(self, path: str) -> float:
        """Return how long an answer takes."""
        begun = time.monotonic()
        await self.get(path)
        return time.monotonic() - begun


@asynccontextmanager
async def sidecar(
    settings: DriverSettings, *flags: str
) -> AsyncIterator[tuple[RunningCommand, Client]]:
    """Run the registrar with an HTTP server on a free port of the loopback."""
    arguments = registrar_arguments(settings, "--http-endpoint=127.0.0.1:0", *flags)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        running(*arguments) as command,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        yield command, Client(session, await command.url())


@pytest.fixture
def registration_folder(settings: DriverSettings) -> str:
    """Make the registration folder, with no kubelet that looks at it."""
    os.mkdir(settings.registration_folder)
    return settings.registration_folder


async def test_each_endpoint_tells_the_truth_through_a_whole_life(
    driver: SimulatedDriver, settings: DriverSettings, registration_folder: str
) -> None:
    """R05, R06, R02, R11: where both Go sidecars stay green."""
    async with sidecar(settings) as (_command, client):
        status, body = await client.get("/healthz")
        assert status == 500
        assert "there is no driver socket at" in body
        assert (await client.get("/livez"))[0] == 200
        await driver.start()
        await client.wait_for("/healthz", 200)
        status, body = await client.get("/readyz")
        assert status == 500
        assert "kubelet has given no verdict on it yet" in body
        assert (await client.get("/livez"))[0] == 200
        async with SimulatedKubelet(registration_folder) as kubelet:
            await kubelet.wait_for_record(Notified)
            for path in ("/healthz", "/livez", "/readyz", "/healthz/kubelet-registration"):
                assert await client.get(path) == (200, "ok")
            await driver.crash()
            status, body = await client.get("/healthz")
            assert status == 500
            assert "nobody listens on the driver's socket" in body
            await driver.start()
            await client.wait_for("/healthz", 200)
            driver.is_ready = False
            assert (await client.get("/healthz"))[0] == 200
            assert "ready=false" in (await client.get("/readyz"))[1]
            assert (await client.get("/healthz/csi-probe"))[0] == 500
            driver.is_ready = True
            os.unlink(f"{registration_folder}/{SOCKET}")
            status, body = await client.get("/healthz")
            assert status == 500
            assert "is not there" in body
            await client.wait_for("/readyz", 200)


async def test_kubelets_refusal_is_told_in_its_own_words(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    kubelet.refuse_next(100, "no topology key found on hw nodes")
    await driver.start()
    async with sidecar(settings) as (_command, client):
        await kubelet.wait_for_record(Notified)
        status, body = await client.get("/readyz")
        assert status == 500
        assert "no topology key found on hw nodes" in body
        assert (await client.get("/healthz"))[0] == 200


async def test_fifty_probes_at_once_are_one_call_to_a_slow_driver(
    driver: SimulatedDriver, settings: DriverSettings, registration_folder: str
) -> None:
    """R08: livenessprobe makes twenty calls on twenty new connections of twenty probes."""
    await driver.start()
    async with sidecar(settings, "--probe-timeout=5s", "--monitor-interval=10m") as (
        command,
        client,
    ):
        await client.wait_for("/healthz", 200)
        await asyncio.gather(*(client.get("/livez") for _ in range(50)))
        before, files = len(driver.calls("GetPluginInfo")), command.open_files
        driver.delay_seconds["GetPluginInfo"] = 1.0
        seconds = await asyncio.gather(*(client.seconds("/healthz") for _ in range(50)))
        assert len(driver.calls("GetPluginInfo")) == before + 1
        assert max(seconds) < 1.5
        assert command.open_files <= files + 1


@pytest.mark.parametrize("trouble", ["driver hangs", "csi.sock is dead", "black hole in our place"])
async def test_every_endpoint_answers_within_the_probe_timeout_whatever_hangs(
    driver: SimulatedDriver, settings: DriverSettings, registration_folder: str, trouble: str
) -> None:
    """R20, R62."""
    await driver.start()
    hole = socket.socket(socket.AF_UNIX)
    async with sidecar(settings, "--probe-timeout=1s") as (_command, client):
        await client.wait_for("/healthz", 200)
        await asyncio.gather(*(client.get("/livez") for _ in range(6)))
        if trouble == "driver hangs":
            driver.is_black_hole = True
        elif trouble == "csi.sock is dead":
            await driver.crash()
        else:
            path = f"{registration_folder}/{SOCKET}"
            os.unlink(path)
            hole.bind(path)
            hole.listen()
        paths = ("/healthz", "/livez", "/readyz", "/healthz/csi-probe", "/", "/healthz?verbose")
        seconds = await asyncio.gather(*(client.seconds(path) for path in paths))
        hole.close()
        assert max(seconds) < 1.25, dict(zip(paths, seconds, strict=True))


async def test_kubelet_is_answered_at_once_while_fifty_probes_hang(
    driver: SimulatedDriver, settings: DriverSettings, registration_folder: str
) -> None:
    """R23."""
    await driver.start()
    async with sidecar(settings, "--probe-timeout=10s") as (_command, client):
        await client.wait_for("/healthz", 200)
        driver.is_black_hole = True
        probes = [asyncio.create_task(client.get("/healthz"), name="probe") for _ in range(50)]
        target = grpc_target(f"{registration_folder}/{SOCKET}")
        seconds = []
        async with grpc.aio.insecure_channel(target) as channel:
            stub = registration_pb2_grpc.RegistrationStub(channel)
            for _ in range(200):
                begun = time.monotonic()
                await stub.GetInfo(registration_pb2.InfoRequest(), timeout=1.0)
                seconds.append(time.monotonic() - begun)
        assert not any(probe.done() for probe in probes)
        assert sorted(seconds)[197] < 0.05
        driver.is_black_hole = False
        await asyncio.gather(*probes)


@pytest.mark.timeout(300)
async def test_ten_thousand_probes_leave_no_trace_in_files_memory_or_log(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    """R12, R64."""
    await driver.start()
    async with sidecar(settings) as (command, client):
        await client.wait_for("/readyz", 200)
        for _ in range(2000):
            await client.get("/readyz")
        files, memory, lines = command.open_files, command.resident_bytes, len(command.lines)
        for _ in range(8000):
            assert (await client.get("/readyz"))[0] == 200
        assert command.open_files <= files
        assert command.resident_bytes < memory + 1024 * 1024
        assert len(command.lines) == lines


async def test_a_failing_check_is_logged_once_and_so_is_its_recovery(
    driver: SimulatedDriver, settings: DriverSettings, registration_folder: str
) -> None:
    await driver.start()
    async with sidecar(settings) as (command, client):
        await client.wait_for("/healthz", 200)
        driver.is_ready = False
        for _ in range(50):
            assert (await client.get("/healthz/csi-probe"))[0] == 500
        driver.is_ready = True
        for _ in range(50):
            assert (await client.get("/healthz/csi-probe"))[0] == 200
        await command.wait_for_log("Health check passes again")
        about_probe = [line for line in command.lines if 'check="csi-probe"' in line]
        assert ["fails" in line for line in about_probe] == [True, False]


async def test_a_busy_port_never_stands_in_the_way_of_the_registration(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    """R09: the Go registrar exits before it registers."""
    await driver.start()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        arguments = registrar_arguments(settings, f"--http-endpoint=127.0.0.1:{port}")
        async with running(*arguments) as command:
            assert (await kubelet.wait_for_record(Notified)).is_accepted
            assert command.log.count("Cannot listen") == 1
            assert f'address="127.0.0.1:{port}" errno=98' in command.log
            other.close()
            await command.wait_for_log(f'url="http://127.0.0.1:{port}"', timeout_seconds=6)
            async with aiohttp.ClientSession() as session:
                client = Client(session, f"http://127.0.0.1:{port}")
                assert (await client.get("/readyz"))[0] == 200


async def test_an_address_that_is_none_is_status_1_and_one_line(settings: DriverSettings) -> None:
    async with running(*registrar_arguments(settings, "--http-endpoint=:no-port")) as command:
        async with asyncio.timeout(10):
            assert await command.process.wait() == 1
    assert len(command.lines) == 1
    assert "no-port" in command.log


async def test_it_is_asked_over_a_unix_socket_and_both_families(
    driver: SimulatedDriver, settings: DriverSettings, registration_folder: str, folder: str
) -> None:
    """R47, R48."""
    await driver.start()
    for endpoint, family in (("[::1]:0", "[::1]"), ("127.0.0.1:0", "127.0.0.1")):
        async with running(
            *registrar_arguments(settings, f"--http-endpoint={endpoint}")
        ) as command:
            url = await command.url()
            assert family in url
            async with aiohttp.ClientSession() as session:
                await Client(session, url).wait_for("/healthz", 200)
    path = f"{folder}/health.sock"
    async with running(*registrar_arguments(settings, f"--http-endpoint=unix://{path}")) as command:
        await command.wait_for_log(f'url="unix://{path}"')
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(path)) as session:
            await Client(session, "http://localhost").wait_for("/healthz", 200)
        await command.stop()
    assert not os.path.exists(path)


async def test_grpc_health_is_on_the_registration_socket_and_on_tcp_if_asked_for(
    driver: SimulatedDriver, settings: DriverSettings, registration_folder: str
) -> None:
    await driver.start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flag = f"--grpc-health-endpoint=127.0.0.1:{port}"
    async with sidecar(settings, flag) as (_command, client):
        await client.wait_for("/healthz", 200)
        for target in (grpc_target(f"{registration_folder}/{SOCKET}"), f"127.0.0.1:{port}"):
            async with grpc.aio.insecure_channel(target) as channel:
                stub = health_pb2_grpc.HealthStub(channel)
                for service, status in (("", SERVING), ("readiness", NOT_SERVING)):
                    answer = await stub.Check(
                        health_pb2.HealthCheckRequest(service=service), timeout=2
                    )
                    assert answer.status == status


async def test_whoever_watches_sees_the_registration_come_and_the_shutdown_before_the_end(
    driver: SimulatedDriver, settings: DriverSettings, registration_folder: str
) -> None:
    await driver.start()
    async with sidecar(settings) as (command, client):
        await client.wait_for("/healthz", 200)
        target = grpc_target(f"{registration_folder}/{SOCKET}")
        async with grpc.aio.insecure_channel(target) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(
                health_pb2.HealthCheckRequest(service="readiness"), timeout=20
            )
            assert (await watch.read()).status == NOT_SERVING
            async with SimulatedKubelet(registration_folder):
                assert (await watch.read()).status == SERVING
                stopping = asyncio.create_task(command.stop(), name="stop")
                assert (await watch.read()).status == NOT_SERVING
                assert (await stopping)[0] == 0
