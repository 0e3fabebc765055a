"""The simulated driver answers, misbehaves and goes away as it is told, on a real socket."""

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.protobuf.wrappers_pb2 import BoolValue

from csi.v1 import csi_pb2, csi_pb2_grpc
from csi_registration_simulator.driver import (
    CallError,
    CallReceived,
    DriverStarted,
    DriverStopped,
    SimulatedDriver,
)
from csi_registration_simulator.http2_authority import AuthorityReader
from csi_registration_simulator.unix_channels import connecting

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture
def root() -> Iterator[Path]:
    """Return a short folder: a socket's path has 107 bytes at most."""
    path = Path(tempfile.mkdtemp(prefix="sd-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def driver(root: Path) -> AsyncIterator[SimulatedDriver]:
    """Return a running driver."""
    async with SimulatedDriver(root / "csi.sock", name="a.example.com") as driver:
        yield driver


@pytest.fixture
async def channel(driver: SimulatedDriver) -> AsyncIterator[grpc.aio.Channel]:
    """Return a channel to the driver."""
    async with connecting(driver.csi_address, authority="localhost") as channel:
        yield channel


async def plugin_info(
    channel: grpc.aio.Channel, timeout_seconds: float = 5
) -> csi_pb2.GetPluginInfoResponse:
    """Call GetPluginInfo."""
    stub = csi_pb2_grpc.IdentityStub(channel)
    return await stub.GetPluginInfo(csi_pb2.GetPluginInfoRequest(), timeout=timeout_seconds)


async def probe(channel: grpc.aio.Channel) -> csi_pb2.ProbeResponse:
    """Call Probe."""
    return await csi_pb2_grpc.IdentityStub(channel).Probe(csi_pb2.ProbeRequest())


async def name_at(csi_address: str) -> str:
    """Return the name that a driver gives on a new connection."""
    async with connecting(csi_address, authority="localhost") as channel:
        return (await plugin_info(channel)).name


async def error_code_at(csi_address: str) -> grpc.StatusCode:
    """Return how a call on a new connection fails."""
    async with connecting(csi_address, authority="localhost") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await plugin_info(channel)
    return failure.value.code()


async def test_identity_and_node_answer_what_the_attributes_say(
    driver: SimulatedDriver, channel: grpc.aio.Channel
) -> None:
    driver.vendor_version, driver.manifest = "2.1", {"commit": "abc"}
    driver.node_id, driver.max_volumes_per_node = "node-7", 12
    driver.topology = {"zone": "z"}
    identity, node = csi_pb2_grpc.IdentityStub(channel), csi_pb2_grpc.NodeStub(channel)
    assert await plugin_info(channel) == csi_pb2.GetPluginInfoResponse(
        name="a.example.com", vendor_version="2.1", manifest={"commit": "abc"}
    )
    assert (
        await identity.GetPluginCapabilities(csi_pb2.GetPluginCapabilitiesRequest())
        == csi_pb2.GetPluginCapabilitiesResponse()
    )
    assert await node.NodeGetInfo(csi_pb2.NodeGetInfoRequest()) == csi_pb2.NodeGetInfoResponse(
        node_id="node-7",
        max_volumes_per_node=12,
        accessible_topology=csi_pb2.Topology(segments={"zone": "z"}),
    )


@pytest.mark.parametrize(
    ("is_ready", "response"),
    [
        (True, csi_pb2.ProbeResponse(ready=BoolValue(value=True))),
        (False, csi_pb2.ProbeResponse(ready=BoolValue(value=False))),
        (None, csi_pb2.ProbeResponse()),
    ],
)
async def test_readiness_is_true_false_or_absent(
    driver: SimulatedDriver,
    channel: grpc.aio.Channel,
    response: csi_pb2.ProbeResponse,
    is_ready: bool | None,
) -> None:
    driver.is_ready = is_ready
    assert await probe(channel) == response


async def test_every_call_is_recorded_with_its_method_and_authority(
    driver: SimulatedDriver, channel: grpc.aio.Channel
) -> None:
    await plugin_info(channel)
    await probe(channel)
    await probe(channel)
    async with connecting(driver.csi_address, authority="other%2Fone") as other:
        await probe(other)
    assert driver.records == [
        DriverStarted(name="a.example.com"),
        CallReceived(method="GetPluginInfo", authority="localhost"),
        CallReceived(method="Probe", authority="localhost"),
        CallReceived(method="Probe", authority="localhost"),
        CallReceived(method="Probe", authority="other%2Fone"),
    ]
    assert len(driver.calls("Probe")) == 3


async def test_a_method_can_be_made_to_fail_and_be_healed(
    driver: SimulatedDriver, channel: grpc.aio.Channel
) -> None:
    driver.errors["Probe"] = CallError(grpc.StatusCode.FAILED_PRECONDITION, "no backend")
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await probe(channel)
    assert failure.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert failure.value.details() == "no backend"
    assert (await plugin_info(channel)).name == "a.example.com"
    del driver.errors["Probe"]
    await probe(channel)


async def test_a_method_can_be_made_slow(
    driver: SimulatedDriver, channel: grpc.aio.Channel
) -> None:
    driver.delay_seconds["GetPluginInfo"] = 60
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await plugin_info(channel, timeout_seconds=0.1)
    assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert len(driver.calls("GetPluginInfo")) == 1
    await probe(channel)


async def test_a_black_hole_accepts_connections_and_never_speaks(
    driver: SimulatedDriver, channel: grpc.aio.Channel
) -> None:
    await probe(channel)
    driver.is_black_hole = True
    assert driver.is_black_hole
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(0)
        await loop.sock_connect(client, driver.csi_address)
        await loop.sock_sendall(client, PREFACE)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await loop.sock_recv(client, 1)
    with pytest.raises(grpc.aio.AioRpcError):
        await plugin_info(channel, timeout_seconds=0.1)
    assert driver.calls("GetPluginInfo") == []


async def test_a_black_hole_that_is_filled_goes_on_where_it_was(
    driver: SimulatedDriver, channel: grpc.aio.Channel
) -> None:
    await probe(channel)
    driver.is_black_hole = True
    async with asyncio.TaskGroup() as tasks:
        old = tasks.create_task(plugin_info(channel), name="on the old connection")
        new = tasks.create_task(name_at(driver.csi_address), name="on a new connection")
        with pytest.raises(TimeoutError):
            await driver.wait_for(lambda: bool(driver.calls("GetPluginInfo")), 0.1)
        driver.is_black_hole = False
    assert old.result().name == new.result() == "a.example.com"


async def test_a_driver_can_be_a_black_hole_from_the_start(root: Path) -> None:
    driver = SimulatedDriver(root / "csi.sock")
    driver.is_black_hole = True
    async with driver, connecting(driver.csi_address, authority="localhost") as channel:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await channel.channel_ready()


async def test_a_crash_leaves_the_socket_and_nobody_listens(
    driver: SimulatedDriver, channel: grpc.aio.Channel
) -> None:
    await probe(channel)
    await driver.crash()
    assert Path(driver.csi_address).is_socket()
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(driver.csi_address)
    assert driver.records[-1] == DriverStopped(leaves_socket=True)
    await driver.crash()
    await driver.stop()
    assert driver.of(DriverStopped) == [DriverStopped(leaves_socket=True)]


async def test_a_crash_ends_calls_that_are_going_on(
    driver: SimulatedDriver, channel: grpc.aio.Channel
) -> None:
    driver.delay_seconds["GetPluginInfo"] = 60
    async with asyncio.TaskGroup() as tasks:
        code = tasks.create_task(error_code_at(driver.csi_address), name="a slow call")
        await driver.wait_for_record(CallReceived)
        await driver.crash()
    assert code.result() is grpc.StatusCode.UNAVAILABLE


async def test_a_driver_that_returns_after_a_crash_has_another_inode(
    driver: SimulatedDriver,
) -> None:
    await driver.crash()
    kept = Path(driver.csi_address).with_name("kept")
    os.link(driver.csi_address, kept)
    await driver.start()
    assert not os.path.samefile(driver.csi_address, kept)
    assert await name_at(driver.csi_address) == "a.example.com"


async def test_a_stop_removes_the_socket(driver: SimulatedDriver) -> None:
    await driver.stop()
    assert not os.path.lexists(driver.csi_address)
    assert driver.records[-1] == DriverStopped(leaves_socket=False)


async def test_a_restart_may_change_the_name(driver: SimulatedDriver) -> None:
    await driver.restart(name="b.example.com")
    assert await name_at(driver.csi_address) == "b.example.com"
    await driver.restart()
    assert [each.name for each in driver.of(DriverStarted)] == [
        "a.example.com",
        "b.example.com",
        "b.example.com",
    ]


async def test_a_running_driver_cannot_be_started(driver: SimulatedDriver) -> None:
    with pytest.raises(RuntimeError, match="runs already"):
        await driver.start()


async def test_a_file_that_is_no_socket_is_never_replaced(root: Path) -> None:
    precious = root / "csi.sock"
    precious.write_text("precious")
    with pytest.raises(OSError, match="in use"):
        await SimulatedDriver(precious).start()
    assert precious.read_text() == "precious"


async def test_a_client_that_does_not_speak_http2_harms_nobody(driver: SimulatedDriver) -> None:
    reader, writer = await asyncio.open_unix_connection(driver.csi_address)
    writer.write(PREFACE + headers_frame(b"\x41\x7f\xff\xff"))
    assert await reader.read() != b""
    writer.close()
    await writer.wait_closed()
    assert await name_at(driver.csi_address) == "a.example.com"


async def test_a_connection_that_was_just_accepted_is_closed_by_a_crash(
    driver: SimulatedDriver,
) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(0)
        client.connect(driver.csi_address)
        # Accepted in the next turn of the loop; its task begins in the one after that.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await driver.crash()
        async with asyncio.timeout(5):
            assert await loop.sock_recv(client, 1) == b""


async def test_two_channels_are_two_connections(
    driver: SimulatedDriver, channel: grpc.aio.Channel
) -> None:
    async with connecting(driver.csi_address, authority="localhost") as other:
        await probe(channel)
        await probe(other)
        assert driver._listener is not None
        assert len(driver._listener._clients) == 2


async def test_many_clients_are_served_at_a_time(driver: SimulatedDriver) -> None:
    names = await asyncio.gather(*[name_at(driver.csi_address) for _ in range(200)])
    assert set(names) == {"a.example.com"}


def headers_frame(block: bytes, flags: int = 4) -> bytes:
    """Make an HTTP/2 HEADERS frame."""
    return len(block).to_bytes(3) + bytes([1, flags, 0, 0, 0, 1]) + block


@pytest.mark.parametrize(
    ("frame", "authority"),
    [
        pytest.param(headers_frame(b"\x41\x04host"), "host", id="name from the static table"),
        pytest.param(headers_frame(b"\x01\x04host"), "host", id="value not kept"),
        pytest.param(headers_frame(b"\x40\x0a:authority\x04host"), "host", id="name spelled out"),
        pytest.param(headers_frame(b"\x83\x86\x41\x04host"), "host", id="after indexed fields"),
        pytest.param(headers_frame(b"\x3f\xe1\x1f\x41\x04host"), "host", id="after a table size"),
        pytest.param(headers_frame(b"\x44\x02/p\x41\x04host"), "host", id="after another field"),
        pytest.param(headers_frame(b"\x41\x7f\x49" + b"x" * 200), "x" * 200, id="long value"),
        pytest.param(headers_frame(b"\x02\x41\x04host\0\0", 12), "host", id="padded"),
        pytest.param(headers_frame(bytes(5) + b"\x41\x04host", 36), "host", id="with priority"),
        pytest.param(headers_frame(b"\x41\x83\xff\xff\xff"), "", id="compressed"),
        pytest.param(headers_frame(b"\x83\x86"), "", id="absent"),
        pytest.param(headers_frame(b"\x41\x7f\xff"), "", id="cut short"),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [1, 1000])
def test_the_authority_is_read_from_the_first_request(
    frame: bytes, authority: str, chunk_bytes: int
) -> None:
    settings = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    later = headers_frame(b"\x41\x05other")
    sent = PREFACE + settings + frame + later
    reader = AuthorityReader()
    for start in range(0, len(sent), chunk_bytes):
        reader.feed(sent[start : start + chunk_bytes])
    assert reader.authority == authority


def test_a_stream_without_requests_is_not_kept_for_ever() -> None:
    reader = AuthorityReader()
    reader.feed(PREFACE + b"\xff" * 70_000)
    reader.feed(headers_frame(b"\x41\x04host"))
    assert reader.authority == ""
