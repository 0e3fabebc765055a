"""Anything at all at the HTTP port of the real command: probes are answered as before."""

import asyncio
import contextlib
import resource

from chaos_sidecar import registered_sidecar
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st

from registrar.settings import DriverSettings

FEW = how(max_examples=60, derandomize=True, deadline=None)
PATIENCE_SECONDS = 0.05

WORDS = st.sampled_from(
    (b"GET", b"POST", b"HEAD", b"PRI", b"/healthz", b"/metrics", b"/readyz?verbose", b"/", b"*")
)
PARTS = st.one_of(
    WORDS,
    st.sampled_from((b" ", b"\r\n", b"\n", b":", b"HTTP/1.1", b"HTTP/9.9", b"\x00", b"\xff", b"%")),
    st.sampled_from(
        (
            b"Content-Length: 99999999999999999999\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Accept-Encoding: gzip\r\n",
            b"Upgrade: h2c\r\n",
            b"Expect: 100-continue\r\n",
            b"Host: x\r\n",
            b"ffffffffffffffff\r\n",
        )
    ),
    st.binary(max_size=30),
)
TARGETS = st.text(st.characters(codec="latin-1", exclude_characters=" \r\n"), max_size=60)


def request(target: str) -> bytes:
    """Return a request for anything."""
    return b"GET /" + target.encode("latin-1") + b" HTTP/1.1\r\nHost: x\r\n\r\n"


BYTES = st.one_of(
    st.binary(max_size=400), st.lists(PARTS, max_size=25).map(b"".join), TARGETS.map(request)
)


async def send(port: int, data: bytes) -> None:
    """Send bytes, look at what comes back for a moment, and go away."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError, TimeoutError):
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await reader.read(2**16):
                pass
    writer.transport.abort()


async def healthz(port: int) -> bytes:
    """Return the whole answer to a probe."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    return answer


async def knock(port: int, seconds: float) -> None:
    """Connect and wait for whatever comes of it."""
    _reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(seconds)
    writer.transport.abort()


def test_without_file_descriptors_the_log_stays_short(settings: DriverSettings) -> None:
    """R24: asyncio by itself writes a line for each connection that it might have accepted."""
    with registered_sidecar(settings) as sidecar:
        port, pid = int(sidecar.url.rpartition(":")[2]), sidecar.command.process.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (sidecar.command.open_files, limits[1]))
        sidecar.call(knock(port, 2.5))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        assert sidecar.call(healthz(port)).endswith(b"ok")
        sidecar.check()


def test_whatever_bytes_come_probes_are_answered(settings: DriverSettings) -> None:
    """R64: and whoever scans the port writes nothing into the log."""
    with registered_sidecar(settings) as sidecar:
        port = int(sidecar.url.rpartition(":")[2])

        @FEW
        @given(BYTES)
        def fuzz(data: bytes) -> None:
            sidecar.call(send(port, data))
            assert sidecar.call(healthz(port)).endswith(b"ok")
            sidecar.check(max_lines=2)

        fuzz()
