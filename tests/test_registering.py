"""One driver, one kubelet, one supervisor in this process, over real sockets."""

import asyncio
import dataclasses
import os
import resource
import stat
from contextlib import suppress

import grpc
import pytest
from observing import RecordingObserver
from supervising import supervising

from csi_registration_simulator.driver import CallError, DriverStarted, SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import (
    Deregistered,
    GetInfoAnswered,
    NodeGetInfoAnswered,
    Notified,
    PluginAnswer,
    SocketCreated,
    SocketRemoved,
)
from csi_registration_simulator.kubelet_rules import KUBELET_1_34
from registrar.errors import DriverError, PublicationError, RegistrationRefused
from registrar.observer import (
    Announced,
    AnnouncementReason,
    CallFinished,
    DriverAnswered,
    DriverFailed,
    DriverForgotten,
    DriverIdentified,
    DriverRestarted,
    KubeletSilent,
    ProbeFinished,
    RegistrationBlocked,
    State,
    StateChanged,
    VerdictReceived,
)
from registrar.settings import DriverSettings, OnRegistrationFailure
from registrar.supervisor import Supervisor


def socket_path(settings: DriverSettings, name: str = "x.csi.example.com") -> str:
    return f"{settings.registration_folder}/{name}-reg.sock"


def is_registered(event: StateChanged) -> bool:
    return event.new is State.REGISTERED


def reasons(observer: RecordingObserver) -> list[AnnouncementReason]:
    return [announced.reason for announced in observer.of(Announced)]


async def test_a_driver_is_registered_and_kubelet_is_told_all_that_it_needs(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        verdict = await kubelet.wait_for_record(Notified)
        assert verdict.is_accepted
        assert verdict.code == "OK"
        assert kubelet.of(GetInfoAnswered)[0].answer == PluginAnswer(
            plugin_type="CSIPlugin",
            driver_name="x.csi.example.com",
            endpoint=settings.kubelet_registration_path,
            supported_versions=("1.0.0",),
        )
        assert kubelet.of(NodeGetInfoAnswered)[0].answer.node_id == "simulated-node"
        assert list(kubelet.csinode) == ["x.csi.example.com"]
        assert supervisor.status.state is State.REGISTERED
        assert supervisor.status.vendor_version == "1.0.0"
        assert stat.S_IMODE(os.stat(socket_path(settings)).st_mode) == 0o600
    assert os.listdir(settings.registration_folder) == []
    await kubelet.wait_for_record(Deregistered)
    assert kubelet.csinode == {}


async def test_the_driver_is_called_with_localhost_as_authority(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    """R53: drivers in Rust, Node and .NET refuse a path as authority."""
    await driver.start()
    async with supervising(settings, observer):
        await driver.wait_for(lambda: bool(driver.calls("GetPluginInfo")))
    assert driver.calls("GetPluginInfo")[0].authority == "localhost"


async def test_a_start_over_a_stale_socket_is_one_create_and_no_remove(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    """R10: kubelet's back-off for the path would last up to two minutes."""
    path = socket_path(settings)
    process = await asyncio.create_subprocess_exec(
        "python3",
        "-c",
        f"import socket; socket.socket(socket.AF_UNIX).bind({path!r})",
    )
    assert await process.wait() == 0
    await kubelet.wait_for_record(SocketCreated)
    before = kubelet.mark()
    await driver.start()
    async with supervising(settings, observer):
        await kubelet.wait_for_record(Notified, lambda verdict: verdict.is_accepted)
        later = kubelet.records[before:]
        assert [r for r in later if isinstance(r, SocketCreated)] == [
            SocketCreated(socket_path=path, is_update=True)
        ]
        assert not [r for r in later if isinstance(r, SocketRemoved)]


async def test_a_kubelet_that_restarts_is_answered_again_without_an_announcement(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    await driver.start()
    async with supervising(settings, observer):
        await kubelet.wait_for_record(Notified)
        for _ in range(2):
            before = kubelet.mark()
            await kubelet.restart()
            again = await kubelet.wait_for_record(Notified, after=before)
            assert again.is_accepted
        assert reasons(observer) == [AnnouncementReason.START]
        assert len([e for e in observer.of(StateChanged) if is_registered(e)]) == 1


@pytest.mark.parametrize("kind", ["missing", "dead"])
async def test_a_socket_that_is_lost_comes_back_within_two_seconds_and_is_registered(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
    kind: str,
) -> None:
    """R02."""
    path = socket_path(settings)
    await driver.start()
    async with supervising(settings, observer):
        await kubelet.wait_for_record(Notified)
        before, seen = kubelet.mark(), len(observer.events)
        os.unlink(path)
        if kind == "dead":
            server = await asyncio.start_unix_server(lambda _r, _w: None, path)
            server.close()
            if not os.path.exists(path):  # Python 3.13 removes it
                os.mkfifo(path + "~")
                os.unlink(path + "~")
        again = await observer.wait_for(Announced, after=seen, timeout_seconds=2.5)
        assert again.reason in (AnnouncementReason.MISSING, AnnouncementReason.REPLACED)
        verdict = await kubelet.wait_for_record(Notified, after=before)
        assert verdict.is_accepted
        states = [event.new for event in observer.of(StateChanged)[-3:]]
        assert states == [State.WAITING, State.ANNOUNCED, State.REGISTERED]


async def test_a_socket_lost_right_after_it_was_announced_is_back_within_two_seconds(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    """R02, R26: as soon as the two seconds between announcements are over, not a tick later."""
    os.mkdir(settings.registration_folder)
    await driver.start()
    async with supervising(settings, observer):
        await observer.wait_for(Announced)
        announced_at = asyncio.get_running_loop().time()
        os.unlink(socket_path(settings))
        await observer.wait_for(Announced, lambda event: event.reason != "start")
        assert 1.95 < asyncio.get_running_loop().time() - announced_at < 2.3


async def test_a_folder_that_is_removed_and_made_again_gets_its_socket_back(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    os.mkdir(settings.registration_folder)
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        await observer.wait_for(Announced)
        os.unlink(socket_path(settings))
        os.rmdir(settings.registration_folder)
        blocked = await observer.wait_for(RegistrationBlocked)
        assert "does not exist" in blocked.problem
        status = supervisor.status
        assert status.state is State.WAITING
        assert status.publication_problem == blocked.problem
        with pytest.raises(PublicationError, match="does not exist"):
            supervisor.check_socket()
        seen = len(observer.events)
        os.mkdir(settings.registration_folder)
        again = await observer.wait_for(Announced, after=seen)
        assert again.reason is AnnouncementReason.MISSING
        assert supervisor.status.publication_problem is None
        assert len(observer.of(RegistrationBlocked)) == 1


async def test_a_folder_that_is_out_of_sight_for_a_while_is_announced_again_when_it_is_back(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    os.mkdir(settings.registration_folder)
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        await observer.wait_for(Announced)
        inode = os.stat(socket_path(settings)).st_ino
        os.rename(settings.registration_folder, settings.registration_folder + "~")
        await observer.wait_for(RegistrationBlocked)
        os.rename(settings.registration_folder + "~", settings.registration_folder)
        again = await observer.wait_for(Announced, lambda event: event.reason != "start")
        assert again.reason is AnnouncementReason.MISSING
        assert os.stat(socket_path(settings)).st_ino == inode
        assert supervisor.status.state is State.ANNOUNCED
        assert supervisor.status.publication_problem is None


async def test_a_folder_that_is_missing_at_first_is_waited_for(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    """R35."""
    await driver.start()
    async with supervising(settings, observer):
        await observer.wait_for(RegistrationBlocked)
        os.mkdir(settings.registration_folder)
        announced = await observer.wait_for(Announced)
        assert announced.reason is AnnouncementReason.START


async def test_a_file_in_the_way_is_named_never_deleted_and_the_socket_follows_when_it_goes(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    os.mkdir(settings.registration_folder)
    path = socket_path(settings)
    with open(path, "w", encoding="ascii") as file:
        file.write("precious")
    await driver.start()
    async with supervising(settings, observer):
        blocked = await observer.wait_for(RegistrationBlocked)
        assert f"{path} is a regular file and no socket" in blocked.problem
        with open(path, encoding="ascii") as file:
            assert file.read() == "precious"
        os.unlink(path)
        await observer.wait_for(Announced)
    assert os.listdir(settings.registration_folder) == []


async def test_three_refusals_are_answered_within_50_ms_each_and_then_it_is_registered(
    driver: SimulatedDriver,
    folder: str,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    """R03: this kubelet does not try again by itself; the process lives on."""
    await driver.start()
    rules = KUBELET_1_34
    async with SimulatedKubelet(f"{folder}/registration", rules=rules) as kubelet:
        kubelet.refuse_next(3, "no such node")
        async with supervising(settings, observer) as supervisor:
            await kubelet.wait_for_record(Notified)
            assert supervisor.status.state is State.REJECTED
            assert "no such node" in supervisor.status.kubelet_error
            await kubelet.wait_for_record(
                Notified, lambda verdict: verdict.is_accepted, timeout_seconds=40
            )
            verdicts = kubelet.of(Notified)
            assert [verdict.is_accepted for verdict in verdicts] == [False, False, False, True]
            assert max(verdict.seconds for verdict in verdicts) < 0.05
            assert supervisor.status.kubelet_error == ""
    first, *retries = reasons(observer)
    assert first is AnnouncementReason.START
    assert retries == [AnnouncementReason.REJECTED] * 3


async def test_a_refusal_ends_it_if_that_was_asked_for_after_kubelet_has_its_answer(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    settings = dataclasses.replace(settings, on_registration_failure=OnRegistrationFailure.EXIT)
    kubelet.refuse_next(1, "topology collision")
    await driver.start()
    with pytest.raises(ExceptionGroup) as group:
        await Supervisor(settings, observer).run()
    refusal = group.value.exceptions[0]
    assert isinstance(refusal, RegistrationRefused)
    assert "x.csi.example.com" in str(refusal)
    assert "topology collision" in str(refusal)
    assert kubelet.of(Notified)[0].code == "OK"
    assert os.listdir(settings.registration_folder) == []


async def test_a_driver_that_comes_up_late_is_registered(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    """R05."""
    async with supervising(settings, observer) as supervisor:
        failed = await observer.wait_for(DriverFailed)
        assert "there is no driver socket at" in failed.problem
        assert supervisor.status.driver_problem == failed.problem
        with pytest.raises(PublicationError, match="name is not known"):
            supervisor.check_socket()
        started = asyncio.get_running_loop().time()
        await driver.start()
        await observer.wait_for(Announced)
        assert asyncio.get_running_loop().time() - started < 1.5
        assert (await kubelet.wait_for_record(Notified)).is_accepted


async def test_a_driver_that_is_slow_at_first_is_registered_when_it_speeds_up(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    """R04: the timeout bounds one call, not the waiting."""
    driver.delay_seconds["GetPluginInfo"] = 1.5
    await driver.start()
    async with supervising(settings, observer):
        await driver.wait_for(lambda: len(driver.calls("GetPluginInfo")) >= 3)
        failed = observer.of(DriverFailed)[0]
        assert "did not answer GetPluginInfo within 1 s" in failed.problem
        assert "--timeout" in failed.problem
        driver.delay_seconds.clear()
        assert (await kubelet.wait_for_record(Notified)).is_accepted


async def test_a_name_that_kubernetes_does_not_take_is_refused_until_the_driver_has_another(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    """R38."""
    os.mkdir(settings.registration_folder)
    driver.name = "../evil"
    await driver.start()
    async with supervising(settings, observer):
        failed = await observer.wait_for(DriverFailed)
        assert "'../evil' is none that Kubernetes takes" in failed.problem
        assert os.listdir(settings.registration_folder) == []
        assert sorted(os.listdir(os.path.dirname(settings.csi_address))) == [
            "csi.sock",
            "registration",
        ]
        driver.name = "good.example.com"
        announced = await observer.wait_for(Announced)
        assert announced.driver_name == "good.example.com"


async def test_a_driver_restarted_under_another_name_moves_to_the_new_socket(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    """R11."""
    await driver.start()
    async with supervising(settings, observer):
        await kubelet.wait_for_record(Notified)
        before = kubelet.mark()
        await driver.restart(name="y.csi.example.com")
        await kubelet.wait_for_record(Notified, after=before)
        assert os.listdir(settings.registration_folder) == ["y.csi.example.com-reg.sock"]
        assert list(kubelet.csinode) == ["y.csi.example.com"]
        forgotten = observer.of(DriverForgotten)
        assert [event.driver_name for event in forgotten] == ["x.csi.example.com"]
        names = [event.driver_name for event in observer.of(DriverIdentified)]
        assert names == ["x.csi.example.com", "y.csi.example.com"]


async def test_a_driver_that_goes_back_to_its_old_name_at_once_is_not_announced_too_soon(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    """R26."""
    os.mkdir(settings.registration_folder)
    await driver.start()
    loop = asyncio.get_running_loop()
    async with supervising(settings, observer):
        await observer.wait_for(Announced)
        announced_at = loop.time()
        await driver.restart(name="y.csi.example.com")
        await observer.wait_for(Announced, lambda event: event.driver_name.startswith("y"))
        seen = len(observer.events)
        await driver.restart(name="x.csi.example.com")
        await observer.wait_for(Announced, after=seen)
        assert loop.time() - announced_at >= 2.0


async def test_a_peer_that_moved_to_the_new_name_first_keeps_it(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    """R37: all instances hear of the new name, and one of them is enough."""
    os.mkdir(settings.registration_folder)
    await driver.start()
    newer = RecordingObserver()
    async with supervising(settings, observer):
        await observer.wait_for(Announced)
        async with supervising(settings, newer):
            await observer.wait_for(StateChanged, lambda event: event.new is State.STANDBY)
            await driver.restart(name="y.csi.example.com")
            await newer.wait_for(DriverIdentified, lambda event: event.driver_name[0] == "y")
            await observer.wait_for(DriverIdentified, lambda event: event.driver_name[0] == "y")
            await asyncio.sleep(2.5)  # long enough for whoever would grab the path
            announced = [
                event
                for event in (*observer.of(Announced), *newer.of(Announced))
                if event.driver_name[0] == "y"
            ]
            assert len(announced) <= 2
            assert len({*os.listdir(settings.registration_folder)}) == 1


async def test_a_driver_restarted_with_the_same_answer_is_left_alone(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    """R11: each announcement leaves the node without the driver for a second."""
    await driver.start()
    async with supervising(settings, observer):
        await kubelet.wait_for_record(Notified)
        await driver.restart()
        restarted = await observer.wait_for(DriverRestarted)
        assert not restarted.has_changed_answer
        seen = len(observer.events)
        await observer.wait_for(CallFinished, after=seen)
        assert reasons(observer) == [AnnouncementReason.START]


async def test_a_driver_that_crashed_and_came_back_on_the_same_path_counts_as_restarted_once(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    os.mkdir(settings.registration_folder)
    await driver.start()
    async with supervising(settings, observer):
        await observer.wait_for(Announced)
        await driver.crash()
        failed = await observer.wait_for(DriverFailed)
        assert "nobody listens on the driver's socket" in failed.problem
        await driver.start()
        await observer.wait_for(DriverRestarted)
        assert len(observer.of(DriverRestarted)) == 1


async def test_a_driver_restarted_with_another_version_is_announced_once_more(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    await driver.start()
    async with supervising(settings, observer):
        await kubelet.wait_for_record(Notified)
        before = kubelet.mark()
        driver.vendor_version = "2.0.0"
        await driver.restart()
        await kubelet.wait_for_record(Notified, after=before)
        assert reasons(observer) == [AnnouncementReason.START, AnnouncementReason.DRIVER_CHANGED]
        assert (await observer.wait_for(DriverRestarted)).has_changed_answer


async def test_a_driver_that_was_away_when_kubelet_refused_it_is_announced_when_it_is_back(
    driver: SimulatedDriver,
    folder: str,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    await driver.start()
    async with (
        SimulatedKubelet(f"{folder}/registration", rules=KUBELET_1_34) as kubelet,
        supervising(settings, observer),
    ):
        await observer.wait_for(Announced)
        await driver.stop()
        await kubelet.wait_for_record(Notified, lambda verdict: not verdict.is_accepted)
        await observer.wait_for(DriverFailed)
        seen = len(observer.events)
        await driver.start()
        await observer.wait_for(Announced, after=seen)
        await observer.wait_for(StateChanged, is_registered)


async def test_a_connection_that_breaks_is_noticed_long_before_the_next_look(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    os.mkdir(settings.registration_folder)
    settings = dataclasses.replace(settings, monitor_interval_seconds=600.0)
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        await observer.wait_for(Announced)
        await driver.crash()
        await observer.wait_for(DriverFailed, timeout_seconds=3)
        assert supervisor.status.driver_problem is not None


async def test_a_health_check_brings_the_next_look_forward_if_most_of_the_interval_is_over(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    os.mkdir(settings.registration_folder)
    settings = dataclasses.replace(settings, monitor_interval_seconds=8.0)
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        await observer.wait_for(Announced)
        for _ in range(3):  # a prober in a hurry has the driver looked at no more often
            await supervisor.check_driver()
            await asyncio.sleep(0.2)
        assert len(observer.of(ProbeFinished)) == 1
        await asyncio.sleep(4.0)
        before = len(observer.events)
        await supervisor.check_driver()
        await observer.wait_for(ProbeFinished, after=before, timeout_seconds=1)


async def test_a_health_check_has_the_driver_looked_at_if_the_one_before_is_long_ago(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    """Otherwise checks and looks of one interval that began out of step stay so for ever."""
    os.mkdir(settings.registration_folder)
    settings = dataclasses.replace(settings, monitor_interval_seconds=3.0)
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        looked = await observer.wait_for(ProbeFinished)
        await supervisor.check_driver()
        await observer.wait_for(ProbeFinished, after=observer.events.index(looked) + 1)
        before = len(observer.events)
        await asyncio.sleep(0.2)
        await supervisor.check_driver()
        await observer.wait_for(ProbeFinished, after=before, timeout_seconds=1)


async def test_a_health_check_that_a_driver_answers_again_has_it_looked_at_at_once(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    """A driver that failed often is looked at every five seconds only."""
    os.mkdir(settings.registration_folder)
    await driver.start()
    driver.errors["GetPluginInfo"] = CallError(grpc.StatusCode.INTERNAL, "not yet")
    async with supervising(settings, observer) as supervisor:
        for _ in range(6):  # the next pause takes over 2.5 s
            await observer.wait_for(DriverFailed, after=len(observer.events))
        driver.errors.clear()
        with pytest.raises(DriverError):  # the name is not known yet
            await supervisor.check_driver()
        await observer.wait_for(DriverIdentified, timeout_seconds=1)


async def test_a_request_announces_on_the_same_listener(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    """R14."""
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        supervisor.request_announcement()  # too early: nothing to announce, nothing kept
        await kubelet.wait_for_record(Notified)
        inode = os.stat(socket_path(settings)).st_ino
        before = kubelet.mark()
        supervisor.request_announcement()
        await kubelet.wait_for_record(Notified, after=before)
        assert os.stat(socket_path(settings)).st_ino == inode
        assert reasons(observer) == [AnnouncementReason.START, AnnouncementReason.REQUESTED]


async def test_a_silent_kubelet_is_reported_with_the_folder_and_announced_to_again(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    """R06, R07."""
    os.mkdir(settings.registration_folder)
    settings = dataclasses.replace(settings, kubelet_silence_seconds=2.5)
    await driver.start()
    async with supervising(settings, observer):
        silent = await observer.wait_for(KubeletSilent)
        assert silent.silent_seconds >= 2.5
        assert silent.retry_seconds == 5.0
        assert settings.registration_folder in silent.diagnosis
        assert "/var/lib/k0s/kubelet" in silent.diagnosis
        again = await observer.wait_for(Announced, lambda event: event.reason != "start")
        assert again.reason is AnnouncementReason.SILENCE


async def test_a_newer_instance_takes_over_and_the_older_one_stands_by_until_it_goes(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    """R01, R37: here both are in one process; as processes, see test_two_instances."""
    await driver.start()
    newer = RecordingObserver()
    async with supervising(settings, observer) as older_supervisor:
        await kubelet.wait_for_record(Notified)
        async with supervising(settings, newer) as newer_supervisor:
            await observer.wait_for(StateChanged, lambda event: event.new is State.STANDBY)
            await newer.wait_for(StateChanged, is_registered)
            older_supervisor.check_socket()
            newer_supervisor.check_socket()
            assert older_supervisor.status.state is State.STANDBY
            older_supervisor.request_announcement()
        seen = len(observer.events)
        await observer.wait_for(Announced, after=0, where=lambda e: e.reason == "missing")
        await observer.wait_for(StateChanged, is_registered, after=seen)
    assert reasons(newer) == [AnnouncementReason.START]
    assert os.listdir(settings.registration_folder) == []


async def test_a_newer_instance_lets_two_seconds_pass_after_a_live_peers_announcement(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    """R26, R01: or the peer could not take over at once if the newer one ended at once."""
    os.mkdir(settings.registration_folder)
    await driver.start()
    newer, loop = RecordingObserver(), asyncio.get_running_loop()
    async with supervising(settings, observer):
        await observer.wait_for(Announced)
        announced_at = loop.time()
        async with supervising(settings, newer):
            await newer.wait_for(Announced)
            assert 1.9 < loop.time() - announced_at < 4.0
        ended_at = loop.time()
        await observer.wait_for(Announced, lambda event: event.reason != "start")
        assert loop.time() - ended_at < 1.5


async def test_two_drivers_are_served_independently(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
    folder: str,
) -> None:
    other_settings = dataclasses.replace(
        settings,
        csi_address=f"{folder}/other.sock",
        kubelet_registration_path=f"{folder}/other.sock",
    )
    await driver.start()
    async with (
        supervising(settings, observer),
        supervising(other_settings, observer),
        SimulatedDriver(f"{folder}/other.sock", name="other.example.com") as other,
    ):
        await kubelet.wait_for(lambda: len(kubelet.csinode) == 2)
        before = kubelet.mark()
        await other.crash()
        os.unlink(socket_path(settings))
        again = await kubelet.wait_for_record(
            GetInfoAnswered, lambda asked: asked.socket_path == socket_path(settings), after=before
        )
        assert again.answer.driver_name == "x.csi.example.com"


async def test_it_survives_a_time_without_file_descriptors(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    """R24."""
    os.mkdir(settings.registration_folder)
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        await observer.wait_for(Announced)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(number) for number in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        taken = []
        try:
            with suppress(OSError):
                while True:
                    taken.append(os.open("/dev/null", os.O_RDONLY))
            os.unlink(socket_path(settings))
            blocked = await observer.wait_for(RegistrationBlocked)
            assert "Too many open files" in blocked.problem
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in taken:
                os.close(descriptor)
        await observer.wait_for(Announced, lambda event: event.reason != "start")
        assert supervisor.status.publication_problem is None


async def test_the_live_questions_say_what_is_wrong(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    os.mkdir(settings.registration_folder)
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        await observer.wait_for(Announced)
        await supervisor.check_driver()
        assert await supervisor.probe_driver()
        driver.is_ready = False
        assert not await supervisor.probe_driver()
        driver.is_ready = None
        assert await supervisor.probe_driver()
        driver.name = "other.example.com"
        with pytest.raises(DriverError, match=r"answers as 'other\.example\.com' now"):
            await supervisor.check_driver()
        os.unlink(socket_path(settings))
        with pytest.raises(PublicationError, match="is not there"):
            supervisor.check_socket()


async def test_verdicts_are_timed_from_the_announcement(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    await driver.start()
    async with supervising(settings, observer):
        verdict = await observer.wait_for(VerdictReceived)
    (announced,) = kubelet.of(SocketCreated)
    took = kubelet.of(Notified)[0].at_seconds - announced.at_seconds
    assert verdict.seconds_since_announcement == pytest.approx(took, abs=0.2)
    assert driver.of(DriverStarted)
    assert observer.of(DriverAnswered)
