"""Anything at all at the registration socket: kubelet is answered as before."""

import asyncio
import contextlib
import struct

import grpc.aio
from chaos_promises import is_answered
from chaos_sidecar import NAME, registered_sidecar
from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st

from registrar.settings import DriverSettings
from registrar.unix_sockets import grpc_target

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS_FRAME = bytes(3) + b"\x04\x00" + bytes(4)
MEBIBYTE = 2**20
PATIENCE_SECONDS = 0.05

FEW = how(
    max_examples=25,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def frame(kind: int, flags: int, stream: int, length: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2 that need not have the length that it says (RFC 9113, 4.1)."""
    return (
        struct.pack(">I", length)[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload
    )


def frames() -> st.SearchStrategy[bytes]:
    """Draw frames: whole, cut short, or said to be gigantic."""
    payloads = st.binary(max_size=200)
    lengths = st.one_of(st.none(), st.integers(0, 2**24 - 1))

    def build(kind: int, flags: int, stream: int, length: int | None, payload: bytes) -> bytes:
        return frame(kind, flags, stream, len(payload) if length is None else length, payload)

    return st.builds(
        build, st.integers(0, 12), st.integers(0, 255), st.integers(0, 2**31 - 1), lengths, payloads
    )


BYTES = st.one_of(
    st.binary(max_size=500),
    st.binary(max_size=500).map(PREFACE.__add__),
    st.lists(frames(), max_size=8).map(lambda few: PREFACE + SETTINGS_FRAME + b"".join(few)),
)

METHODS = st.sampled_from(
    (
        "/pluginregistration.Registration/GetInfo",
        "/pluginregistration.Registration/NotifyRegistrationStatus",
        "/pluginregistration.Registration/Unknown",
        "/grpc.health.v1.Health/Check",
        "/csi.v1.Identity/Probe",
    )
)


async def send(path: str, data: bytes) -> None:
    """Send bytes, look at what comes back for a moment, and go away."""
    reader, writer = await asyncio.open_unix_connection(path)
    with contextlib.suppress(ConnectionError, TimeoutError):
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await reader.read(2**16):
                pass
    writer.transport.abort()


def multi_callable(
    channel: grpc.aio.Channel, method: str
) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
    """Return a way to call a method with bytes as they are."""
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        method, request_serializer=bytes, response_deserializer=bytes
    )
    return call


async def call(path: str, method: str, message: bytes) -> grpc.StatusCode:
    """Call a method with bytes that need not be a message; return what came of it."""
    async with grpc.aio.insecure_channel(
        grpc_target(path),
        options=[("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)],
    ) as channel:
        try:
            await multi_callable(channel, method)(message, timeout=5.0)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def test_whatever_bytes_come_it_goes_on_answering(settings: DriverSettings) -> None:
    with registered_sidecar(settings) as sidecar:

        @FEW
        @given(BYTES)
        def fuzz(data: bytes) -> None:
            sidecar.call(send(sidecar.path, data))
            sidecar.check()

        fuzz()


def test_whatever_messages_come_it_goes_on_answering(settings: DriverSettings) -> None:
    with registered_sidecar(settings) as sidecar:

        @FEW
        @given(METHODS, st.binary(max_size=300))
        def fuzz(method: str, message: bytes) -> None:
            sidecar.call(call(sidecar.path, method, message))
            sidecar.check()

        fuzz()


def field(number: int, value: bytes) -> bytes:
    """Return a field of bytes as protobuf writes it; the value may be of any length."""
    length, encoded = len(value), b""
    while length > 127:
        encoded += bytes((length & 127 | 128,))
        length >>= 7
    return bytes((number << 3 | 2,)) + encoded + bytes((length,)) + value


def test_verdicts_of_any_length_and_without_valid_text_are_survived(
    settings: DriverSettings,
) -> None:
    """R03: kubelet quotes what a driver wrote, and that may be anything."""
    method = "/pluginregistration.Registration/NotifyRegistrationStatus"
    with registered_sidecar(settings) as sidecar:
        for error in (b"\xff\xfe\x00", b"\x00\x1b[2J\r\nE0101 forged", b"x" * 5 * MEBIBYTE):
            sidecar.call(call(sidecar.path, method, field(2, error)))
            sidecar.check()
        code = sidecar.call(call(sidecar.path, method, field(2, b"x" * 9 * MEBIBYTE)))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        sidecar.check()


def test_many_half_open_connections_do_not_keep_kubelet_out(settings: DriverSettings) -> None:
    async def crowd(path: str) -> None:
        connections = [await asyncio.open_unix_connection(path) for _ in range(200)]
        for number, (_reader, writer) in enumerate(connections):
            writer.write((PREFACE + SETTINGS_FRAME)[: number % 30])
        assert await is_answered(path, NAME)
        for _reader, writer in connections:
            writer.transport.abort()

    with registered_sidecar(settings) as sidecar:
        sidecar.call(crowd(sidecar.path))
        sidecar.check()
