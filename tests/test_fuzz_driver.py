"""Anything at all for an answer of the driver: an error in words, and the next answer counts."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest
from chaos_sidecar import NAME, registered_sidecar
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st
from observing import RecordingObserver

from csi.v1 import csi_pb2
from csi_registration_simulator.driver import CallError
from registrar.driver_names import registration_socket_path
from registrar.errors import DriverError
from registrar.identity_client import IdentityClient
from registrar.settings import DriverSettings
from registrar.unix_sockets import grpc_target

MANY = how(max_examples=150, derandomize=True, deadline=None)
ANY_TEXT = st.text(max_size=80)

NASTY_TEXTS = (
    'line\nI0101 00:00:00.000000       1 forged.py:1] "forged"',
    "\x1b[2J\x1b]0;title\x07",
    "\x00\x01\u2028\u202e\ufeff",
    "x" * 100_000,
    "../../etc/passwd",
)

Raw = grpc.aio.ServicerContext[bytes, bytes]


class RawDriver:
    """A driver whose answers are bytes, whatever they mean."""

    def __init__(self) -> None:
        self.answers = {"GetPluginInfo": b"", "Probe": b""}

    async def get_plugin_info(self, _: bytes, __: Raw) -> bytes:
        """Answer GetPluginInfo."""
        return self.answers["GetPluginInfo"]

    async def probe(self, _: bytes, __: Raw) -> bytes:
        """Answer Probe."""
        return self.answers["Probe"]

    @contextlib.asynccontextmanager
    async def listening(self, csi_address: str) -> AsyncIterator[None]:
        """Serve while the block runs, on a new socket, which is removed in the end."""
        server = grpc.aio.server()
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "GetPluginInfo": grpc.unary_unary_rpc_method_handler(self.get_plugin_info),
            "Probe": grpc.unary_unary_rpc_method_handler(self.probe),
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("csi.v1.Identity", handlers),)
        )
        server.add_insecure_port(grpc_target(csi_address))
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)


def plugin_info(name: str, version: str, manifest: dict[str, str]) -> bytes:
    """Return an answer to GetPluginInfo as it is on the wire."""
    return csi_pb2.GetPluginInfoResponse(
        name=name, vendor_version=version, manifest=manifest
    ).SerializeToString()


ANSWERS = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=40).map(lambda name: bytes((0x0A, len(name))) + name),
    st.builds(plugin_info, ANY_TEXT, ANY_TEXT, st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=5)),
)


def test_an_answer_is_usable_or_a_driver_error(folder: str) -> None:
    """No other exception reaches whoever asks, and no name leaves the folder (R38)."""
    driver = RawDriver()

    async def ask(client: IdentityClient) -> None:
        with contextlib.suppress(DriverError):
            answer = await client.get_plugin_info()
            path = registration_socket_path("/registration", answer.name)
            assert os.path.dirname(path) == "/registration"
            assert path.isprintable()
        with contextlib.suppress(DriverError):
            await client.probe()

    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()

        async def connect() -> IdentityClient:
            address = f"{folder}/csi.sock"
            await stack.enter_async_context(driver.listening(address))
            client = IdentityClient(address, 5.0, RecordingObserver())
            return await stack.enter_async_context(client)

        client = runner.run(connect())

        @MANY
        @given(ANSWERS, ANSWERS)
        def fuzz(plugin_info_answer: bytes, probe_answer: bytes) -> None:
            driver.answers = {"GetPluginInfo": plugin_info_answer, "Probe": probe_answer}
            runner.run(ask(client))

        fuzz()
        runner.run(stack.aclose())


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"\x0a\x02\xff\xfe", id="invalid UTF-8"),
        pytest.param(b"\xff\xff\xff", id="no message"),
        pytest.param(b"\x0a\x7f", id="cut short"),
        pytest.param(b"\x0a\xff\xff\xff\x7f" + b"x" * 100, id="a length beyond its end"),
        pytest.param(b"x" * 5 * 2**20, id="too long"),
    ],
)
def test_a_driver_that_answers_with_garbage_is_asked_until_it_makes_sense(
    settings: DriverSettings, answer: bytes
) -> None:
    """The real command keeps its registration meanwhile."""
    raw = RawDriver()
    raw.answers = {"GetPluginInfo": answer, "Probe": answer}

    async def be_garbled() -> None:
        await sidecar.driver.crash()
        async with raw.listening(settings.csi_address):
            await sidecar.command.wait_for_log("CSI driver does not answer")
        await sidecar.driver.start()
        await sidecar.command.wait_for_log("CSI driver answers again")

    with registered_sidecar(settings) as sidecar:
        sidecar.call(be_garbled())
        sidecar.check()


@pytest.mark.parametrize("text", NASTY_TEXTS, ids=range(len(NASTY_TEXTS)))
def test_texts_of_the_driver_stay_within_their_log_lines(
    settings: DriverSettings, text: str
) -> None:
    """Version, manifest, name and error may hold anything, and never a line of their own."""

    async def be_nasty() -> None:
        driver = sidecar.driver
        driver.vendor_version, driver.manifest = text, {text: text}
        await driver.restart()
        await sidecar.command.wait_for_log("published again")
        driver.errors["GetPluginInfo"] = CallError(grpc.StatusCode.INTERNAL, text[:2_000])
        await sidecar.command.wait_for_log("CSI driver does not answer")
        del driver.errors["GetPluginInfo"]
        await driver.restart(name=text[:200])
        await sidecar.command.wait_for_log("the driver must be renamed")
        await driver.restart(name=NAME)
        await sidecar.command.wait_for_log("CSI driver answers again")

    with registered_sidecar(settings) as sidecar:
        sidecar.call(be_nasty())
        sidecar.check()
        assert max(map(len, sidecar.command.lines)) < 20_000
