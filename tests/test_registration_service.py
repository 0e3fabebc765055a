"""The service that kubelet calls: always the same answer, and every verdict is answered OK."""

import asyncio
from collections.abc import AsyncIterator

import grpc.aio
import pytest

from pluginregistration.v1 import registration_pb2, registration_pb2_grpc
from registrar.publication import Publication
from registrar.registration_service import RegistrationService
from registrar.unix_sockets import grpc_target


class Calls:
    """Keeps what kubelet told."""

    def __init__(self) -> None:
        self.get_infos = self.missed = 0
        self.verdicts: list[tuple[bool, str]] = []

    def get_info_received(self) -> None:
        """Count a call."""
        self.get_infos += 1

    def get_info_missed(self) -> None:
        """Count an answer that came too late."""
        self.missed += 1

    def verdict_received(self, *, is_accepted: bool, error: str) -> None:
        """Keep a verdict."""
        self.verdicts.append((is_accepted, error))


@pytest.fixture
def calls() -> Calls:
    """Keep what kubelet told."""
    return Calls()


@pytest.fixture
async def path(folder: str, calls: Calls) -> AsyncIterator[str]:
    """Publish a service."""
    service = RegistrationService("x.io", "/var/lib/kubelet/plugins/x/csi.sock", calls)

    def add_service(server: grpc.aio.Server) -> None:
        registration_pb2_grpc.add_RegistrationServicer_to_server(service, server)

    publication = Publication(f"{folder}/x.io-reg.sock", add_service)
    await publication.publish(lambda: None)
    yield publication.socket.path
    await publication.withdraw()


def channel(path: str, *options: tuple[str, object]) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(
        grpc_target(path), options=[("grpc.use_local_subchannel_pool", 1), *options]
    )


async def get_info(path: str, *options: tuple[str, object]) -> registration_pb2.PluginInfo:
    async with channel(path, *options) as connection:
        stub = registration_pb2_grpc.RegistrationStub(connection)
        return await stub.GetInfo(registration_pb2.InfoRequest(), timeout=1.0)


async def notify(path: str, *, is_accepted: bool, error: str = "") -> None:
    async with channel(path) as connection:
        await registration_pb2_grpc.RegistrationStub(connection).NotifyRegistrationStatus(
            registration_pb2.RegistrationStatus(plugin_registered=is_accepted, error=error),
            timeout=5.0,
        )


async def test_the_answer_is_what_kubelet_expects_of_a_csi_driver(path: str) -> None:
    assert await get_info(path) == registration_pb2.PluginInfo(
        type="CSIPlugin",
        name="x.io",
        endpoint="/var/lib/kubelet/plugins/x/csi.sock",
        supported_versions=["1.0.0"],
    )


@pytest.mark.parametrize(
    "authority",
    ["localhost", "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fx.io-reg.sock", "x", "unix:/a", "*"],
)
async def test_any_authority_is_accepted(path: str, authority: str) -> None:
    """R53: kubelet sends the percent-encoded path."""
    assert (await get_info(path, ("grpc.default_authority", authority))).name == "x.io"


async def test_rounds_may_come_in_any_number_on_new_connections(path: str, calls: Calls) -> None:
    for _ in range(30):
        await get_info(path)
        await notify(path, is_accepted=True)
    await notify(path, is_accepted=True)
    assert (calls.get_infos, calls.missed) == (30, 0)
    assert calls.verdicts == [(True, "")] * 31


async def test_a_verdict_may_come_long_after_get_info_on_the_same_connection(
    path: str, calls: Calls
) -> None:
    """R22; here five seconds, which is what fits into a test."""
    async with channel(path) as connection:
        stub = registration_pb2_grpc.RegistrationStub(connection)
        await stub.GetInfo(registration_pb2.InfoRequest(), timeout=1.0)
        await asyncio.sleep(5)  # the case itself
        assert connection.get_state() is grpc.ChannelConnectivity.READY
        await stub.NotifyRegistrationStatus(
            registration_pb2.RegistrationStatus(plugin_registered=True), timeout=1.0
        )
    assert calls.verdicts == [(True, "")]


async def test_a_client_that_pings_often_is_not_sent_away(path: str) -> None:
    """R55."""
    options = (
        ("grpc.keepalive_time_ms", 50),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    )
    async with channel(path, *options) as connection:
        stub = registration_pb2_grpc.RegistrationStub(connection)
        await stub.GetInfo(registration_pb2.InfoRequest(), timeout=1.0)
        await asyncio.sleep(2)  # forty pings
        assert connection.get_state() is grpc.ChannelConnectivity.READY
        await stub.GetInfo(registration_pb2.InfoRequest(), timeout=1.0)


async def test_a_giant_error_text_is_answered_ok_and_kept_cut(path: str, calls: Calls) -> None:
    await notify(path, is_accepted=False, error="ü" * 2_500_000)
    ((is_accepted, error),) = calls.verdicts
    assert not is_accepted
    assert error == "ü" * 512 + "…"


async def test_an_error_text_that_fits_is_kept_whole(path: str, calls: Calls) -> None:
    await notify(path, is_accepted=False, error="e" * 1024)
    assert calls.verdicts == [(False, "e" * 1024)]


async def test_garbage_at_the_socket_disturbs_nobody(path: str) -> None:
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 5000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        _reader, writer = await asyncio.open_unix_connection(path)
        writer.write(garbage)
        await writer.drain()
        assert (await get_info(path)).name == "x.io"
        writer.close()
