"""What the driver's client does and says when a call fails: every kind has words of its own."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from observing import RecordingObserver

from csi_registration_simulator.driver import CallError, SimulatedDriver
from registrar.errors import DriverError, DriverTimeoutError
from registrar.identity_client import DriverAnswer, IdentityClient, go_code_name
from registrar.observer import CallFinished, ProbeFinished, ProbeResult

NOBODY = 65534


@pytest.fixture
async def client(folder: str, observer: RecordingObserver) -> AsyncIterator[IdentityClient]:
    """Make a client of the driver in the folder, with half a second for each call."""
    async with IdentityClient(f"{folder}/csi.sock", 0.5, observer) as client:
        client.driver_name = "x.csi.example.com"
        yield client


def codes(observer: RecordingObserver) -> list[tuple[str, str]]:
    return [(call.method.rpartition("/")[2], call.code) for call in observer.of(CallFinished)]


async def test_an_answer_is_whole(driver: SimulatedDriver, client: IdentityClient) -> None:
    driver.vendor_version = "v2"
    driver.manifest = {"b": "2", "a": "1"}
    await driver.start()
    assert await client.get_plugin_info() == DriverAnswer(
        name="x.csi.example.com", vendor_version="v2", manifest=(("a", "1"), ("b", "2"))
    )


async def test_one_connection_serves_many_calls(
    driver: SimulatedDriver, client: IdentityClient
) -> None:
    await driver.start()
    for _ in range(20):
        await client.get_plugin_info()
        await client.probe()
    assert client.connection_number == 1
    assert client.is_connected


async def test_a_missing_socket_is_said_to_be_missing(
    client: IdentityClient, observer: RecordingObserver
) -> None:
    """R40; and R05: the call is counted though it never reached a driver."""
    with pytest.raises(DriverError, match=r"there is no driver socket at .*/csi\.sock"):
        await client.get_plugin_info()
    assert codes(observer) == [("GetPluginInfo", "Unavailable")]


async def test_a_dead_socket_is_said_to_have_no_listener(
    client: IdentityClient, observer: RecordingObserver
) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(client.csi_address)
    with pytest.raises(DriverError, match="nobody listens on the driver's socket"):
        await client.get_plugin_info()
    assert codes(observer) == [("GetPluginInfo", "Unavailable")]


@pytest.mark.needs_root
async def test_permission_denied_names_the_user_and_selinux(
    driver: SimulatedDriver, client: IdentityClient
) -> None:
    """R40: the Go registrar says `Still connecting`, for ever."""
    await driver.start()
    os.chmod(os.path.dirname(driver.csi_address), 0o755)  # noqa: S103 - nobody must get in
    os.chmod(driver.csi_address, 0o600)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(DriverError, match=f"permission denied .* user {NOBODY}.*SELinux"):
            await client.get_plugin_info()
    finally:
        os.seteuid(0)


@pytest.mark.needs_root
async def test_a_folder_that_may_not_be_entered_is_permission_denied_too(
    driver: SimulatedDriver, client: IdentityClient
) -> None:
    await driver.start()
    os.seteuid(NOBODY)
    try:
        with pytest.raises(DriverError, match="permission denied"):
            await client.get_plugin_info()
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("make", "words"),
    [(os.mkdir, "is a directory and no socket"), (os.mkfifo, "is a named pipe and no socket")],
)
async def test_what_is_no_socket_is_said_to_be_none(  # type: ignore[no-untyped-def]
    client: IdentityClient,
    make,  # noqa: ANN001 - any of os.mk...
    words: str,
) -> None:
    make(client.csi_address)
    with pytest.raises(DriverError, match=words):
        await client.get_plugin_info()


async def test_a_black_hole_ends_at_the_timeout_and_the_next_call_starts_afresh(
    driver: SimulatedDriver, client: IdentityClient, observer: RecordingObserver
) -> None:
    """R62."""
    driver.is_black_hole = True
    await driver.start()
    begun = asyncio.get_running_loop().time()
    with pytest.raises(DriverError, match=r"did not answer GetPluginInfo within 0\.5 s"):
        await client.get_plugin_info()
    assert 0.4 < asyncio.get_running_loop().time() - begun < 1.0
    driver.is_black_hole = False
    await client.get_plugin_info()
    assert codes(observer) == [("GetPluginInfo", "DeadlineExceeded"), ("GetPluginInfo", "OK")]
    assert client.connection_number == 2


async def test_a_call_may_have_a_limit_of_its_own(
    driver: SimulatedDriver, client: IdentityClient
) -> None:
    driver.delay_seconds = {"GetPluginInfo": 0.7, "Probe": 0.7}
    await driver.start()
    await client.get_plugin_info(timeout_seconds=5.0)
    with pytest.raises(DriverError, match=r"within 0\.1 s"):
        await client.probe(timeout_seconds=0.1)


async def test_a_driver_is_told_that_its_time_is_over_and_its_deadline_is_later(
    folder: str, client: IdentityClient
) -> None:
    """GRPC's own deadline is for a driver that cannot be told: a short one costs wake-ups."""
    given_up = asyncio.Event()
    deadlines = []

    async def hang(_request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        deadlines.append(context.time_remaining())
        try:
            await asyncio.sleep(20)
        finally:
            given_up.set()
        return b""

    server = grpc.aio.server()
    probe = grpc.method_handlers_generic_handler(
        "csi.v1.Identity", {"Probe": grpc.unary_unary_rpc_method_handler(hang)}
    )
    server.add_generic_rpc_handlers((probe,))
    server.add_insecure_port(f"unix:{folder}/csi.sock")
    await server.start()
    try:
        with pytest.raises(DriverTimeoutError, match=r"did not answer Probe within 0\.5 s"):
            await client.probe()
        async with asyncio.timeout(1):
            await given_up.wait()
    finally:
        await server.stop(None)
    assert deadlines == [pytest.approx(30.5, abs=1.0)]


async def test_a_slow_driver_keeps_its_connection(
    driver: SimulatedDriver, client: IdentityClient
) -> None:
    await driver.start()
    await client.get_plugin_info()
    driver.delay_seconds["GetPluginInfo"] = 2.0
    with pytest.raises(DriverError, match="did not answer"):
        await client.get_plugin_info()
    driver.delay_seconds.clear()
    await client.get_plugin_info()
    assert client.connection_number == 1


async def test_who_does_not_implement_the_call_may_be_no_driver_at_all(
    driver: SimulatedDriver, client: IdentityClient
) -> None:
    driver.errors["GetPluginInfo"] = CallError(grpc.StatusCode.UNIMPLEMENTED, "unknown service")
    await driver.start()
    with pytest.raises(DriverError, match=r"does not implement csi\.v1\.Identity/GetPluginInfo"):
        await client.get_plugin_info()


async def test_a_deadline_of_the_drivers_own_is_not_taken_for_ours(
    driver: SimulatedDriver, client: IdentityClient, observer: RecordingObserver
) -> None:
    late = CallError(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer from the storage")
    driver.errors["Probe"] = late
    await driver.start()
    with pytest.raises(DriverError, match=r"failed Probe with DeadlineExceeded: no answer from"):
        await client.probe()
    assert [probe.result for probe in observer.of(ProbeFinished)] == [ProbeResult.ERROR]


async def test_a_drivers_own_error_is_quoted_and_cut(
    driver: SimulatedDriver, client: IdentityClient
) -> None:
    driver.errors["GetPluginInfo"] = CallError(grpc.StatusCode.INTERNAL, "disk on fire" * 1000)
    await driver.start()
    with pytest.raises(DriverError, match="failed GetPluginInfo with Internal: disk on fire") as e:
        await client.get_plugin_info()
    assert len(str(e.value)) < 1200


async def test_a_driver_that_says_unavailable_itself_is_quoted_too(
    driver: SimulatedDriver, client: IdentityClient
) -> None:
    driver.errors["GetPluginInfo"] = CallError(grpc.StatusCode.UNAVAILABLE, "backend down")
    await driver.start()
    with pytest.raises(DriverError, match="with Unavailable: backend down"):
        await client.get_plugin_info()


@pytest.mark.parametrize("answer", [b"\x0a\x02\xff\xfe", b"\xff\xff\xff"])
async def test_an_answer_that_is_no_message_is_the_drivers_error(
    client: IdentityClient, observer: RecordingObserver, answer: bytes
) -> None:
    """R38 in its crudest form: a name that is not even text."""

    async def give_answer(_request: bytes, _context: object) -> bytes:
        return answer

    handler: Any = grpc.unary_unary_rpc_method_handler(give_answer)
    methods = {"GetPluginInfo": handler, "Probe": handler}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("csi.v1.Identity", methods),)
    )
    server.add_insecure_port(f"unix:{client.csi_address}")
    await server.start()
    with pytest.raises(DriverError, match="answered GetPluginInfo with bytes that are no valid"):
        await client.get_plugin_info()
    assert codes(observer) == [("GetPluginInfo", "Internal")]
    await server.stop(None)


async def test_a_connection_that_breaks_at_once_is_said_to(client: IdentityClient) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_unix_server(hang_up, client.csi_address):
        with pytest.raises(DriverError, match="was reached, but the connection broke at once"):
            await client.get_plugin_info()


async def test_a_path_too_long_for_a_socket_is_said_to_be(observer: RecordingObserver) -> None:
    async with IdentityClient("/tmp/" + "d" * 120, 0.5, observer) as client:
        with pytest.raises(DriverError, match="there is no driver socket at"):
            await client.get_plugin_info()


@pytest.mark.parametrize(
    ("is_ready", "result"),
    [(True, ProbeResult.READY), (None, ProbeResult.READY), (False, ProbeResult.NOT_READY)],
)
async def test_an_absent_ready_means_ready(
    driver: SimulatedDriver,
    client: IdentityClient,
    observer: RecordingObserver,
    is_ready: bool | None,
    result: ProbeResult,
) -> None:
    """CSI specification, Probe."""
    driver.is_ready = is_ready
    await driver.start()
    assert await client.probe() is (result is ProbeResult.READY)
    assert [probe.result for probe in observer.of(ProbeFinished)] == [result]


async def test_a_probe_that_fails_is_an_error_and_one_that_hangs_a_timeout(
    driver: SimulatedDriver, client: IdentityClient, observer: RecordingObserver
) -> None:
    with pytest.raises(DriverError):
        await client.probe()
    await driver.start()
    driver.errors["Probe"] = CallError(grpc.StatusCode.FAILED_PRECONDITION, "no network")
    with pytest.raises(DriverError, match="FailedPrecondition: no network"):
        await client.probe()
    driver.delay_seconds["Probe"] = 5
    with pytest.raises(DriverError, match="did not answer Probe"):
        await client.probe()
    results = [probe.result for probe in observer.of(ProbeFinished)]
    assert results == [ProbeResult.ERROR, ProbeResult.ERROR, ProbeResult.TIMEOUT]


async def test_a_call_that_is_given_up_is_counted_as_canceled(
    driver: SimulatedDriver, client: IdentityClient, observer: RecordingObserver
) -> None:
    driver.delay_seconds["Probe"] = 5
    await driver.start()
    call = asyncio.create_task(client.probe(), name="probe")
    await driver.wait_for(lambda: bool(driver.calls("Probe")))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert codes(observer) == [("Probe", "Canceled")]


async def test_a_new_socket_at_the_path_is_connected_to_even_if_the_old_connection_lives(
    driver: SimulatedDriver, folder: str, client: IdentityClient
) -> None:
    """R11: an old driver that is slow to die must not hide the new one."""
    await driver.start()
    await client.get_plugin_info()
    os.rename(driver.csi_address, f"{folder}/old.sock")
    async with SimulatedDriver(client.csi_address, name="new.example.com"):
        assert (await client.get_plugin_info()).name == "new.example.com"


async def test_a_call_whose_connection_is_given_up_by_another_fails_and_cancels_nobody(
    driver: SimulatedDriver, folder: str, client: IdentityClient
) -> None:
    """Closing a channel cancels its calls; whoever waits for one must not be cancelled with it."""
    await driver.start()
    driver.delay_seconds["Probe"] = 30
    waiting = asyncio.create_task(client.probe(timeout_seconds=20), name="probe")
    await driver.wait_for(lambda: bool(driver.calls("Probe")))
    os.rename(driver.csi_address, f"{folder}/old.sock")
    async with SimulatedDriver(client.csi_address, name="new.example.com"):
        assert (await client.get_plugin_info()).name == "new.example.com"
        with pytest.raises(DriverError, match="was replaced while Probe was under way"):
            await waiting


async def test_a_changed_mode_of_the_socket_keeps_the_connection(
    driver: SimulatedDriver, client: IdentityClient
) -> None:
    await driver.start()
    await client.get_plugin_info()
    os.chmod(driver.csi_address, 0o600)
    await client.get_plugin_info()
    assert client.connection_number == 1


@pytest.mark.parametrize("strange", ["with space", "per%cent", "quest?ion", "ha#sh"])
async def test_a_folder_with_signs_of_a_uri_is_reached(
    folder: str, observer: RecordingObserver, strange: str
) -> None:
    os.mkdir(f"{folder}/{strange}")
    path = f"{folder}/{strange}/csi.sock"
    async with (
        SimulatedDriver(path, name="x.csi.example.com"),
        IdentityClient(path, 1.0, observer) as client,
    ):
        assert (await client.get_plugin_info()).name == "x.csi.example.com"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (grpc.StatusCode.OK, "OK"),
        (grpc.StatusCode.CANCELLED, "Canceled"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "DeadlineExceeded"),
        (grpc.StatusCode.UNIMPLEMENTED, "Unimplemented"),
        (grpc.StatusCode.DATA_LOSS, "DataLoss"),
    ],
)
def test_codes_are_spelled_as_go_does(code: grpc.StatusCode, name: str) -> None:
    assert go_code_name(code) == name
