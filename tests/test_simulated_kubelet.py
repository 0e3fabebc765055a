"""The simulated kubelet does what a real one was seen to do, on real sockets."""

import asyncio
import contextlib
import os
import resource
import shutil
import socket
import struct
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Self

import grpc
import grpc.aio
import pytest

from csi_registration_simulator import go_errors, inotify
from csi_registration_simulator.csi_listener import CSIListener
from csi_registration_simulator.driver import CallError, SimulatedDriver
from csi_registration_simulator.folder_watch import watching
from csi_registration_simulator.kubelet import SimulatedKubelet, mapped
from csi_registration_simulator.kubelet_records import (
    CSINodeChanged,
    Deregistered,
    Dialled,
    Dialling,
    GetInfoAnswered,
    GetInfoFailed,
    NodeGetInfoAnswered,
    NodeGetInfoFailed,
    NodeInfo,
    Notified,
    PluginAnswer,
    RegistrationFailed,
    SocketCreated,
    SocketRecord,
    SocketRemoved,
    Started,
    Stopped,
)
from csi_registration_simulator.kubelet_rules import KUBELET_1_34, KUBELET_1_36, Rules, Timings
from pluginregistration.v1 import registration_pb2, registration_pb2_grpc

NAME = "a.example.com"
FAST = Timings(tick_seconds=0.05, first_back_off_seconds=0.05)
FAILED = "RegisterPlugin error -- plugin registration failed with err: "
INVALID = "RegisterPlugin error -- plugin validation failed with err: "


class Registrar(registration_pb2_grpc.RegistrationServicer):
    """A registrar that does nothing but answer, on one socket."""

    def __init__(self, socket_path: Path, endpoint: str, *, name: str = NAME) -> None:
        self.socket_path = socket_path
        self.answer = registration_pb2.PluginInfo(
            type="CSIPlugin", name=name, endpoint=endpoint, supported_versions=["1.0.0"]
        )
        self.get_info_seconds = 0.0
        self.notify_seconds = 0.0
        self.notify_error: grpc.StatusCode | None = None
        self.verdicts: list[registration_pb2.RegistrationStatus] = []
        self.on_get_info: Callable[[str], None] = lambda _: None
        self._server: grpc.aio.Server | None = None

    async def GetInfo(  # noqa: N802 - named by the .proto
        self, _: registration_pb2.InfoRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> registration_pb2.PluginInfo:
        """Answer as told."""
        self.on_get_info(context.peer())
        await asyncio.sleep(self.get_info_seconds)
        return self.answer

    async def NotifyRegistrationStatus(  # noqa: N802 - named by the .proto
        self,
        request: registration_pb2.RegistrationStatus,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> registration_pb2.RegistrationStatusResponse:
        """Keep the verdict."""
        self.verdicts.append(request)
        await asyncio.sleep(self.notify_seconds)
        if self.notify_error:
            await context.abort(self.notify_error, "no")
        return registration_pb2.RegistrationStatusResponse()

    async def __aenter__(self) -> Self:
        """Listen under a hidden name, so that ending never removes the visible one."""
        self._hidden_path.unlink(missing_ok=True)
        await self.listen(f"unix:{self._hidden_path}")
        self._hidden_path.rename(self.socket_path)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End, and leave the file there."""
        if self._server:
            await self._server.stop(None)

    async def listen(self, address: str) -> None:
        """Serve at a gRPC address."""
        self._server = grpc.aio.server()
        registration_pb2_grpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(address)
        await self._server.start()

    @property
    def _hidden_path(self) -> Path:
        return self.socket_path.with_name(f".{self.socket_path.name}")

    def announce_again(self) -> None:
        """Rename the socket to a hidden name and back."""
        self.socket_path.rename(self._hidden_path)
        self._hidden_path.rename(self.socket_path)


@pytest.fixture
def root() -> Iterator[Path]:
    """Return a short folder: a socket's path has 107 bytes at most."""
    path = Path(tempfile.mkdtemp(prefix="sk-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def folder(root: Path) -> Path:
    """Return the registration folder."""
    path = root / "r"
    path.mkdir()
    return path


@pytest.fixture
async def driver(root: Path) -> AsyncIterator[SimulatedDriver]:
    """Return a running driver."""
    async with SimulatedDriver(root / "csi.sock", name=NAME) as driver:
        yield driver


@pytest.fixture
async def kubelet(folder: Path) -> AsyncIterator[SimulatedKubelet]:
    """Return a running kubelet with short intervals."""
    async with SimulatedKubelet(folder, timings=FAST) as kubelet:
        yield kubelet


@pytest.fixture
def registrar(folder: Path, root: Path) -> Registrar:
    """Return a registrar that is not running yet."""
    return Registrar(folder / f"{NAME}-reg.sock", str(root / "csi.sock"))


async def accepted(kubelet: SimulatedKubelet, *, after: int = 0) -> Notified:
    """Wait until kubelet accepts."""
    return await kubelet.wait_for_record(Notified, lambda one: one.is_accepted, after=after)


async def refused(kubelet: SimulatedKubelet, *, after: int = 0) -> Notified:
    """Wait until kubelet refuses."""
    return await kubelet.wait_for_record(Notified, lambda one: not one.is_accepted, after=after)


def kinds(kubelet: SimulatedKubelet, *, after: int = 0) -> list[str]:
    """Return what happened, without the details."""
    return [type(record).__name__ for record in kubelet.records[after:]]


REGISTRATION = [
    "Dialling",
    "Dialled",
    "GetInfoAnswered",
    "NodeGetInfoAnswered",
    "CSINodeChanged",
    "Notified",
]
DEREGISTRATION = ["CSINodeChanged", "Deregistered"]


async def test_a_registration_is_dial_get_info_node_get_info_csinode_and_verdict(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    driver.node_id, driver.max_volumes_per_node = "node-7", 3
    driver.topology = {"zone": "z", "region": "r"}
    path, endpoint = str(registrar.socket_path), driver.csi_address
    node_info = NodeInfo(
        node_id="node-7", max_volumes_per_node=3, topology=(("region", "r"), ("zone", "z"))
    )
    answer = PluginAnswer(
        plugin_type="CSIPlugin",
        driver_name=NAME,
        endpoint=endpoint,
        supported_versions=("1.0.0",),
    )
    async with registrar:
        await accepted(kubelet)
    assert kubelet.records == [
        Started(),
        SocketCreated(socket_path=path, is_update=False),
        Dialling(socket_path=path),
        Dialled(socket_path=path, seconds=0),
        GetInfoAnswered(socket_path=path, answer=answer, seconds=0),
        NodeGetInfoAnswered(
            socket_path=path, driver_name=NAME, endpoint=endpoint, answer=node_info, seconds=0
        ),
        CSINodeChanged(driver_names=(NAME,)),
        Notified(socket_path=path, is_accepted=True, error="", code="OK", seconds=0),
    ]
    assert registrar.verdicts == [registration_pb2.RegistrationStatus(plugin_registered=True)]
    assert kubelet.csinode == {NAME: node_info}
    assert kubelet.registered_socket_paths == kubelet.desired_socket_paths == [path]


async def test_the_authority_is_the_percent_encoded_socket_path_and_localhost_for_the_driver(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    await registrar.listen(f"unix-abstract:{registrar.socket_path}")
    authorities = []
    async with CSIListener(str(registrar.socket_path), str(registrar.socket_path)) as listener:
        registrar.on_get_info = lambda peer: authorities.append(listener.authority_of(peer))
        await accepted(kubelet)
    await registrar.__aexit__()
    assert authorities == [str(registrar.socket_path).replace("/", "%2F")]
    assert [call.authority for call in driver.calls("NodeGetInfo")] == ["localhost"]


async def test_each_registration_is_a_connection_of_its_own(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    async with registrar:
        await accepted(kubelet)
        registrar.announce_again()
        await accepted(kubelet, after=kubelet.mark())
    assert len(kubelet.of(Dialled)) == 2


async def test_a_registrar_that_comes_back_after_sigkill_is_deregistered_first(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    async with registrar:
        await accepted(kubelet)
    mark = kubelet.mark()
    registrar.socket_path.unlink()
    async with registrar:
        await accepted(kubelet, after=mark)
    assert kinds(kubelet, after=mark) == [
        "SocketRemoved",
        "SocketCreated",
        *DEREGISTRATION,
        *REGISTRATION,
    ]


async def test_a_removed_socket_deregisters_the_driver_without_a_call(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    async with registrar:
        await accepted(kubelet)
        mark = kubelet.mark()
        registrar.socket_path.unlink()
        await kubelet.wait_for_record(Deregistered)
    path = str(registrar.socket_path)
    assert kubelet.records[mark:] == [
        SocketRemoved(socket_path=path),
        CSINodeChanged(driver_names=()),
        Deregistered(socket_path=path, driver_name=NAME),
    ]
    assert len(registrar.verdicts) == 1
    assert kubelet.csinode == {}


async def test_a_kubelet_that_restarts_calls_every_socket_at_once(
    folder: Path, driver: SimulatedDriver, registrar: Registrar
) -> None:
    async with SimulatedKubelet(folder, timings=Timings(tick_seconds=30)) as kubelet:
        await kubelet.stop()
        async with registrar:
            mark = kubelet.mark()
            await kubelet.start()
            await accepted(kubelet)
            middle = kubelet.mark()
            await kubelet.restart()
            await accepted(kubelet, after=middle)
            await kubelet.stop()
    assert kinds(kubelet, after=mark) == [
        *["Started", "SocketCreated", *REGISTRATION, "Stopped"] * 2
    ]


async def test_the_csinode_object_outlives_kubelet(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    async with registrar:
        await accepted(kubelet)
        await kubelet.stop()
        registrar.socket_path.unlink()
        await kubelet.start()
    assert list(kubelet.csinode) == [NAME]


async def test_a_missing_driver_is_refused_in_go_words_and_tried_again_until_it_comes(
    kubelet: SimulatedKubelet, root: Path, registrar: Registrar
) -> None:
    endpoint = root / "csi.sock"
    reason = (
        'rpc error: code = Unavailable desc = connection error: desc = "transport: '
        f'Error while dialing: dial unix {endpoint}: connect: no such file or directory"'
    )
    async with registrar:
        verdict = await refused(kubelet)
        assert verdict.error == FAILED + reason
        assert registrar.verdicts[0] == registration_pb2.RegistrationStatus(
            plugin_registered=False, error=FAILED + reason
        )
        async with SimulatedDriver(endpoint, name=NAME):
            await accepted(kubelet)
    assert {failure.error for failure in kubelet.of(NodeGetInfoFailed)} == {reason}


async def test_a_crashed_driver_refuses_connections(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    await driver.crash()
    async with registrar:
        verdict = await refused(kubelet)
    assert verdict.error.endswith(f'dial unix {driver.csi_address}: connect: connection refused"')


async def test_the_driver_own_error_reaches_the_registrar(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    driver.errors["NodeGetInfo"] = CallError(grpc.StatusCode.FAILED_PRECONDITION, "no metadata")
    async with registrar:
        verdict = await refused(kubelet)
    assert verdict.error == (f"{FAILED}rpc error: code = FailedPrecondition desc = no metadata")


async def test_a_mute_driver_is_given_up_after_the_deadline(
    folder: Path, driver: SimulatedDriver, registrar: Registrar
) -> None:
    driver.is_black_hole = True
    timings = Timings(tick_seconds=0.05, node_get_info_seconds=0.2)
    async with SimulatedKubelet(folder, timings=timings) as kubelet, registrar:
        verdict = await refused(kubelet)
    assert verdict.error == (
        f"{FAILED}rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    )


async def test_the_back_off_doubles_up_to_a_limit_and_survives_a_new_file(
    folder: Path, registrar: Registrar
) -> None:
    timings = Timings(tick_seconds=0.01, first_back_off_seconds=0.02, longest_back_off_seconds=0.06)
    async with SimulatedKubelet(folder, timings=timings) as kubelet, registrar:
        await kubelet.wait_for(lambda: len(kubelet.of(RegistrationFailed)) == 2)
        registrar.announce_again()
        await kubelet.wait_for(lambda: len(kubelet.of(RegistrationFailed)) == 4)
    failures = kubelet.of(RegistrationFailed)
    assert [each.back_off_seconds for each in failures] == [0.02, 0.04, 0.06, 0.06]
    dials = kubelet.of(Dialled)
    for failure, dial in zip(failures, dials[1:], strict=False):
        assert dial.at_seconds - failure.at_seconds >= failure.back_off_seconds


async def test_a_success_ends_the_back_off(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    async with registrar:
        for _ in range(2):
            mark = kubelet.mark()
            kubelet.refuse_next(1, "no")
            registrar.announce_again()
            await accepted(kubelet, after=mark)
    assert [each.back_off_seconds for each in kubelet.of(RegistrationFailed)] == [0.05, 0.05]


async def test_kubelet_1_34_waits_for_a_new_socket_after_a_failed_registration(
    folder: Path, driver: SimulatedDriver, registrar: Registrar
) -> None:
    async with SimulatedKubelet(folder, rules=KUBELET_1_34, timings=FAST) as kubelet, registrar:
        kubelet.refuse_next(1, "no")
        await refused(kubelet)
        await driver.stop()
        # A second plugin's registration takes two ticks more, in which the first stays refused.
        second = Registrar(folder / "b-reg.sock", driver.csi_address, name="b.example.com")
        await driver.start()
        async with second:
            await accepted(kubelet)
        assert [each.is_accepted for each in kubelet.of(Notified)] == [False, True]
        assert len(kubelet.registered_socket_paths) == 2
        mark = kubelet.mark()
        registrar.announce_again()
        await accepted(kubelet, after=mark)
    assert kubelet.of(Deregistered)[0].driver_name == NAME


async def test_a_pending_dial_that_reaches_the_new_socket_leads_to_two_registrations(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(registrar.socket_path))
    await kubelet.wait_for_record(Dialling)
    async with registrar:
        await kubelet.wait_for(lambda: len(kubelet.of(Notified)) == 2)
    assert kinds(kubelet) == [
        "Started",
        "SocketCreated",
        "Dialling",
        "SocketCreated",
        *REGISTRATION[1:],
        *DEREGISTRATION,
        *REGISTRATION,
    ]


async def test_a_dial_to_a_dead_socket_is_given_up_after_its_deadline(
    folder: Path, registrar: Registrar
) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(registrar.socket_path))
    timings = Timings(tick_seconds=0.05, dial_seconds=0.1)
    async with SimulatedKubelet(folder, timings=timings) as kubelet:
        failure = await kubelet.wait_for_record(RegistrationFailed)
    path = str(registrar.socket_path)
    assert kubelet.of(Dialled) == [
        Dialled(socket_path=path, seconds=0, error="context deadline exceeded")
    ]
    assert failure.error == (
        f"RegisterPlugin error -- dial failed at socket {path}, err: failed to dial socket "
        f"{path}, err: context deadline exceeded"
    )


async def test_a_second_registrar_on_the_same_path_takes_over(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    async with registrar:
        await accepted(kubelet)
        mark = kubelet.mark()
        second = Registrar(registrar.socket_path, driver.csi_address)
        async with second:
            await accepted(kubelet, after=mark)
    assert kinds(kubelet, after=mark) == ["SocketCreated", *DEREGISTRATION, *REGISTRATION]
    assert (len(registrar.verdicts), len(second.verdicts)) == (1, 1)


async def test_the_same_name_from_a_sub_folder_is_refused_and_the_first_is_untouched(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar, folder: Path
) -> None:
    (folder / "sub").mkdir()
    second = Registrar(folder / "sub" / "b-reg.sock", "/elsewhere.sock")
    async with registrar:
        await accepted(kubelet)
        async with second:
            verdict = await refused(kubelet)
    assert verdict == Notified(
        socket_path=str(second.socket_path),
        is_accepted=False,
        error=f"{INVALID}validation failed for CSI Driver {NAME} at endpoint /elsewhere.sock: "
        f'kubernetes.io/csi: ValidatePlugin for CSI driver "{NAME}" failed. Another driver with '
        'the same name is already registered with a higher supported version: "1.0.0"',
        code="OK",
        seconds=0,
    )
    assert len(driver.calls("NodeGetInfo")) == 1
    assert list(kubelet.csinode) == [NAME]
    assert kubelet.registered_socket_paths == [str(registrar.socket_path)]


async def test_a_higher_version_is_let_in_and_removing_either_socket_removes_the_driver(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar, folder: Path
) -> None:
    second = Registrar(folder / "b-reg.sock", driver.csi_address)
    second.answer.supported_versions.append("1.1.0")
    async with registrar:
        await accepted(kubelet)
        mark = kubelet.mark()
        async with second:
            await accepted(kubelet, after=mark)
            registrar.socket_path.unlink()
            gone = await kubelet.wait_for_record(Deregistered)
    assert gone == Deregistered(socket_path=str(registrar.socket_path), driver_name=NAME)
    assert kubelet.csinode == {}
    assert kubelet.registered_socket_paths == [str(second.socket_path)]


async def test_a_socket_that_is_re_created_several_times_costs_one_cycle(
    folder: Path, driver: SimulatedDriver, registrar: Registrar
) -> None:
    timings = Timings(tick_seconds=0.3)
    async with (
        SimulatedKubelet(folder, timings=timings) as kubelet,
        contextlib.AsyncExitStack() as on,
    ):
        await on.enter_async_context(registrar)
        await accepted(kubelet)
        mark = kubelet.mark()
        for _ in range(3):
            registrar.socket_path.unlink()
            newest = Registrar(registrar.socket_path, driver.csi_address)
            await on.enter_async_context(newest)
        await accepted(kubelet, after=mark)
        seen = kinds(kubelet, after=mark)
    assert [each for each in seen if not each.startswith("Socket")] == [
        *DEREGISTRATION,
        *REGISTRATION,
    ]
    assert len(newest.verdicts) == 1


async def test_a_visible_temporary_name_is_taken_for_a_second_plugin(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar, folder: Path
) -> None:
    async with registrar:
        await accepted(kubelet)
        async with Registrar(folder / "tmp", driver.csi_address) as second:
            verdict = await refused(kubelet)
    assert "Another driver with the same name" in verdict.error
    assert verdict.socket_path == str(second.socket_path)


async def test_a_rename_to_a_hidden_name_and_back_is_a_new_announcement(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    async with registrar:
        await accepted(kubelet)
        mark = kubelet.mark()
        registrar.announce_again()
        await accepted(kubelet, after=mark)
    path = str(registrar.socket_path)
    assert kubelet.records[mark] == SocketCreated(socket_path=path, is_update=True)
    assert kinds(kubelet, after=mark + 1) == [*DEREGISTRATION, *REGISTRATION]


async def test_deregistration_and_registration_are_a_tick_apart(
    folder: Path, driver: SimulatedDriver, registrar: Registrar
) -> None:
    timings = Timings(tick_seconds=0.2)
    async with SimulatedKubelet(folder, timings=timings) as kubelet, registrar:
        await accepted(kubelet)
        mark = kubelet.mark()
        registrar.announce_again()
        await accepted(kubelet, after=mark)
        gone = await kubelet.wait_for_record(Deregistered, after=mark)
        dialled = await kubelet.wait_for_record(Dialled, after=mark)
    assert dialled.at_seconds - gone.at_seconds > 0.15


async def test_a_socket_that_is_only_renamed_away_stays_registered(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar, root: Path
) -> None:
    async with registrar:
        await accepted(kubelet)
        registrar.socket_path.rename(root / "elsewhere.sock")
        second = Registrar(registrar.socket_path.with_name("b"), driver.csi_address, name="b.c")
        async with second:
            await kubelet.wait_for(lambda: len(kubelet.of(Notified)) == 2)
    assert kubelet.of(SocketRemoved) == []
    assert sorted(kubelet.csinode) == [NAME, "b.c"]


async def test_hidden_names_other_files_and_hidden_folders_are_ignored(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar, folder: Path
) -> None:
    (folder / "file").write_text("")
    (folder / ".hidden").mkdir()
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(folder / ".a.sock"))
        other.bind(str(folder / ".hidden" / "b.sock"))
        async with registrar:
            await accepted(kubelet)
    assert [each.socket_path for each in kubelet.of(SocketCreated)] == [str(registrar.socket_path)]


async def test_hidden_names_and_other_files_that_were_there_before_are_ignored(
    folder: Path, driver: SimulatedDriver, registrar: Registrar
) -> None:
    (folder / "file").write_text("")
    with socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind(str(folder / ".a.sock"))
        async with registrar, SimulatedKubelet(folder, timings=FAST) as kubelet:
            await accepted(kubelet)
    assert [each.socket_path for each in kubelet.of(SocketCreated)] == [str(registrar.socket_path)]


async def test_sockets_in_new_and_old_sub_folders_are_found(
    folder: Path, driver: SimulatedDriver
) -> None:
    (folder / "old").mkdir()
    old = Registrar(folder / "old" / "x", driver.csi_address, name="old.example.com")
    new = Registrar(folder / "new" / "deep" / "x", driver.csi_address, name="new.example.com")
    async with old, SimulatedKubelet(folder, timings=FAST) as kubelet:
        (folder / "new" / "deep").mkdir(parents=True)
        async with new:
            await kubelet.wait_for(lambda: len(kubelet.of(Notified)) == 2)
    assert sorted(kubelet.csinode) == ["new.example.com", "old.example.com"]


async def test_a_symbolic_link_to_a_folder_is_not_entered(
    root: Path, folder: Path, driver: SimulatedDriver, registrar: Registrar
) -> None:
    os.mkdir(root / "elsewhere")
    os.symlink(root / "elsewhere", folder / "a")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(root / "elsewhere" / "b.sock"))
        async with registrar, SimulatedKubelet(folder, timings=FAST) as kubelet:
            await accepted(kubelet)
    assert [each.socket_path for each in kubelet.of(SocketCreated)] == [str(registrar.socket_path)]


async def test_a_folder_that_is_moved_in_brings_its_sockets(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, root: Path, folder: Path
) -> None:
    (root / "s").mkdir()
    async with Registrar(root / "s" / "x", driver.csi_address):
        (root / "s").rename(folder / "s")
        verdict = await accepted(kubelet)
    assert verdict.socket_path == str(folder / "s" / "x")


async def test_a_slow_get_info_fails_without_a_verdict(
    folder: Path, driver: SimulatedDriver, registrar: Registrar
) -> None:
    registrar.get_info_seconds = 5
    timings = Timings(tick_seconds=0.05, get_info_seconds=0.1)
    async with SimulatedKubelet(folder, timings=timings) as kubelet, registrar:
        failure = await kubelet.wait_for_record(RegistrationFailed)
    path = str(registrar.socket_path)
    reason = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    assert kubelet.of(GetInfoFailed) == [
        GetInfoFailed(socket_path=path, code="DeadlineExceeded", error=reason, seconds=0)
    ]
    assert failure.error == (
        "RegisterPlugin error -- failed to get plugin info using RPC GetInfo "
        f"at socket {path}, err: {reason}"
    )
    assert registrar.verdicts == []


async def test_an_absent_endpoint_means_the_registration_socket_itself(
    kubelet: SimulatedKubelet, registrar: Registrar
) -> None:
    registrar.answer.endpoint = ""
    async with registrar:
        verdict = await refused(kubelet)
    assert kubelet.of(GetInfoAnswered)[0].answer.endpoint == str(registrar.socket_path)
    assert verdict.error.startswith(f"{FAILED}rpc error: code = Unimplemented")


async def test_another_type_of_plugin_is_refused(
    kubelet: SimulatedKubelet, registrar: Registrar
) -> None:
    registrar.answer.type = "DevicePlugin"
    async with registrar:
        verdict = await refused(kubelet)
    assert verdict.error == (
        "RegisterPlugin error -- no handler registered for plugin type: DevicePlugin "
        f"at socket {registrar.socket_path}"
    )


@pytest.mark.parametrize(
    ("versions", "reason"),
    [
        ([], "Plugin returned an empty list for supported versions"),
        (
            ["2.0.0"],
            (
                'None of the versions specified ["2.0.0"] are supported. err='
                "could not find a highest supported version from versions ([2.0.0]) "
                "reported by this driver: <nil>"
            ),
        ),
        (
            ["0.3.0", "0.2"],
            (
                'None of the versions specified ["0.3.0" "0.2"] are supported. err='
                "highest supported version reported by driver is 0.3.0, must be v1.x"
            ),
        ),
    ],
)
async def test_unknown_versions_are_refused(
    kubelet: SimulatedKubelet, registrar: Registrar, versions: list[str], reason: str
) -> None:
    registrar.answer.supported_versions[:] = versions
    async with registrar:
        verdict = await refused(kubelet)
    assert verdict.error == (
        f"{INVALID}validation failed for CSI Driver {NAME} "
        f"at endpoint {registrar.answer.endpoint}: "
        f'kubernetes.io/csi: ValidatePlugin for CSI driver "{NAME}" failed. {reason}'
    )


@pytest.mark.parametrize("versions", [["1.0.0"], ["v1.8"], ["2.0.0", "1.0.0"], ["x", "1.0"]])
async def test_any_version_one_is_taken(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar, versions: list[str]
) -> None:
    registrar.answer.supported_versions[:] = versions
    async with registrar:
        await accepted(kubelet)


@pytest.mark.parametrize("name", ["a_b", "a..b", "-a", "x" * 64])
async def test_a_name_that_the_api_server_refuses_is_refused(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar, name: str
) -> None:
    registrar.answer.name = name
    async with registrar:
        verdict = await refused(kubelet)
    assert f'spec.drivers[0].name: Invalid value: "{name}"' in verdict.error
    assert kubelet.csinode == {}


async def test_a_driver_without_a_node_id_is_refused(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    driver.node_id = ""
    async with registrar:
        verdict = await refused(kubelet)
    assert verdict.error == (
        f"{FAILED}error adding CSI driver node info: driverNodeID must not be empty"
    )


async def test_a_failed_registration_takes_the_driver_out_of_the_csinode_object(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    async with registrar:
        await accepted(kubelet)
        kubelet.refuse_next(1000, "the API server is away")
        await kubelet.restart()
        assert list(kubelet.csinode) == [NAME]
        await refused(kubelet)
    assert kubelet.csinode == {}


async def test_so_many_registrations_are_refused_as_asked_for(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    kubelet.refuse_next(2, "the API server is away")
    async with registrar:
        await accepted(kubelet)
    assert [(each.plugin_registered, each.error) for each in registrar.verdicts] == [
        (False, f"{FAILED}the API server is away"),
        (False, f"{FAILED}the API server is away"),
        (True, ""),
    ]


@pytest.mark.parametrize(("rules", "names"), [(KUBELET_1_36, []), (KUBELET_1_34, [NAME])])
async def test_only_kubelet_1_36_deregisters_a_driver_whose_registrar_fails_the_good_news(
    folder: Path, driver: SimulatedDriver, registrar: Registrar, rules: Rules, names: list[str]
) -> None:
    registrar.notify_error = grpc.StatusCode.INTERNAL
    async with SimulatedKubelet(folder, rules=rules, timings=FAST) as kubelet, registrar:
        failure = await kubelet.wait_for_record(RegistrationFailed)
        assert list(kubelet.csinode) == names
        assert len(kubelet.of(Deregistered)) == 1 - len(names)
    assert kubelet.of(Notified)[0].code == "Internal"
    assert failure.error == (
        f"RegisterPlugin error -- failed to send registration status at socket "
        f"{registrar.socket_path}, err: : rpc error: code = Internal desc = no"
    )


async def test_a_slow_answer_to_the_verdict_counts_as_a_failure(
    folder: Path, driver: SimulatedDriver, registrar: Registrar
) -> None:
    registrar.notify_seconds = 5
    timings = Timings(tick_seconds=0.05, notify_seconds=0.1)
    async with SimulatedKubelet(folder, timings=timings) as kubelet, registrar:
        verdict = await accepted(kubelet)
        await kubelet.wait_for_record(Deregistered)
    assert verdict.code == "DeadlineExceeded"


async def test_a_lost_verdict_never_reaches_the_registrar(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    kubelet.disturbances.lost_notifies = 1
    async with registrar:
        await kubelet.wait_for(lambda: len(kubelet.of(Notified)) == 2)
    assert [each.code for each in kubelet.of(Notified)] == ["Unavailable", "OK"]
    assert len(registrar.verdicts) == 1


async def test_calls_can_be_put_off(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    kubelet.disturbances.before_get_info_seconds = 0.1
    kubelet.disturbances.before_notify_seconds = 0.2
    async with registrar:
        verdict = await accepted(kubelet)
    dialled, answered = kubelet.of(Dialled)[0], kubelet.of(GetInfoAnswered)[0]
    assert answered.at_seconds - dialled.at_seconds > 0.09
    assert verdict.at_seconds - answered.at_seconds > 0.19


async def test_a_kubelet_that_hangs_sees_what_happened_when_it_goes_on(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar, folder: Path
) -> None:
    async with registrar:
        await accepted(kubelet)
        kubelet.silence()
        kubelet.silence()
        mark = kubelet.mark()
        registrar.announce_again()
        # A second kubelet on the same folder shows that a hanging one had the time to call.
        async with SimulatedKubelet(folder, timings=FAST) as other:
            await accepted(other)
            registrar.announce_again()
            await accepted(other, after=other.mark())
        assert kubelet.records[mark:] == []
        kubelet.resume()
        kubelet.resume()
        await accepted(kubelet, after=mark)


async def test_a_stopped_kubelet_breaks_off_what_it_does(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    driver.delay_seconds["NodeGetInfo"] = 60
    async with registrar:
        await kubelet.wait_for_record(GetInfoAnswered)
        await kubelet.stop()
    assert kubelet.records[-1] == Stopped()
    with pytest.raises(RuntimeError, match="does not run"):
        kubelet.silence()


async def test_a_running_kubelet_cannot_be_started(kubelet: SimulatedKubelet) -> None:
    with pytest.raises(RuntimeError, match="runs already"):
        await kubelet.start()


async def test_a_socket_that_is_removed_while_it_is_registered_is_deregistered_after_that(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar
) -> None:
    kubelet.disturbances.before_notify_seconds = 0.2
    async with registrar:
        await kubelet.wait_for_record(CSINodeChanged)
        registrar.socket_path.unlink()
        await kubelet.wait_for_record(Deregistered)
    assert kinds(kubelet)[-4:] == ["SocketRemoved", "Notified", *DEREGISTRATION]


async def test_a_path_of_the_host_is_found_where_it_is_mapped_to(
    root: Path, folder: Path, driver: SimulatedDriver
) -> None:
    local_path = mapped("/var/lib/kubelet/plugins/x", str(root))
    endpoint = "/var/lib/kubelet/plugins/x/csi.sock"
    async with (
        SimulatedKubelet(folder, timings=FAST, local_path=local_path) as kubelet,
        Registrar(folder / "a", endpoint),
    ):
        await accepted(kubelet)
        await driver.stop()
        await kubelet.restart()
        verdict = await refused(kubelet)
    assert f"dial unix {endpoint}: connect: no such file" in verdict.error
    assert local_path("/var/lib/kubelet/plugins/xyz/csi.sock").startswith("/var/lib/")


async def test_an_endpoint_that_is_too_long_for_a_socket_is_an_invalid_argument(
    kubelet: SimulatedKubelet, registrar: Registrar
) -> None:
    registrar.answer.endpoint = "/" + "x" * 120
    async with registrar:
        verdict = await refused(kubelet)
    assert verdict.error.endswith('connect: invalid argument"')


async def test_a_missing_folder_is_made_and_a_file_in_its_place_is_an_error(root: Path) -> None:
    async with SimulatedKubelet(root / "new" / "folder"):
        assert (root / "new" / "folder").is_dir()
    (root / "file").write_text("")
    with pytest.raises(FileExistsError):
        await SimulatedKubelet(root / "file").start()


async def test_a_removed_folder_is_lost_until_kubelet_restarts(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, registrar: Registrar, folder: Path
) -> None:
    async with registrar:
        await accepted(kubelet)
        shutil.rmtree(folder)
        await kubelet.wait_for_record(Deregistered)
    os.mkdir(folder)
    async with registrar:
        mark = kubelet.mark()
        await kubelet.restart()
        await accepted(kubelet, after=mark)
    assert kinds(kubelet, after=mark)[:3] == ["Stopped", "Started", "SocketCreated"]


async def test_a_wait_in_vain_lists_what_did_happen(kubelet: SimulatedKubelet) -> None:
    with pytest.raises(TimeoutError, match=r"within 0\.01 s; the records are:\n.*Started\(\)"):
        await kubelet.wait_for_record(SocketRecord, timeout_seconds=0.01)


async def test_an_error_in_the_block_is_passed_on_as_it_is(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with SimulatedKubelet(folder):
            raise ZeroDivisionError


class Sockets:
    """Keeps what a folder watch tells."""

    def add_socket(self, socket_path: str) -> None:
        """Take note of nothing: the tests that use this expect none."""
        raise AssertionError(socket_path)

    def remove_socket(self, socket_path: str) -> None:
        """Take note of nothing, as above."""
        raise AssertionError(socket_path)


async def test_a_folder_that_cannot_be_watched_is_an_error_and_leaks_nothing(root: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError, match="none"):
        await watching(f"{root}/none", Sockets()).__aenter__()
    assert os.listdir("/proc/self/fd") == before


async def test_without_file_descriptors_there_is_no_watch(root: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            inotify.Inotify()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_wake_up_without_an_event_and_an_overflow_tell_nothing(root: Path) -> None:
    with contextlib.closing(inotify.Inotify()) as watcher:
        watcher.watch(str(root))
        assert watcher.read() == []
        overflow = struct.pack("iIII", -1, 0x4000, 0, 0)
        assert watcher._parsed(overflow) == []


def test_a_listener_with_a_full_backlog_is_there(root: Path) -> None:
    path = f"{root}/full.sock"
    with contextlib.ExitStack() as sockets:
        listening = sockets.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(path)
        listening.listen(0)
        for _ in range(2):
            assert go_errors.connect_error(path, shown_as="/x") is None
            client = sockets.enter_context(socket.socket(socket.AF_UNIX))
            client.settimeout(0)
            with contextlib.suppress(BlockingIOError):
                client.connect(path)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (grpc.StatusCode.OK, "OK"),
        (grpc.StatusCode.CANCELLED, "Canceled"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "DeadlineExceeded"),
        (grpc.StatusCode.UNAVAILABLE, "Unavailable"),
    ],
)
def test_codes_are_spelled_as_in_go(code: grpc.StatusCode, name: str) -> None:
    assert go_errors.code_name(code) == name
