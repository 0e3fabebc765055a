"""What is said of a silent kubelet: the cause, in words, from what is known."""

import asyncio
import dataclasses
import os
import subprocess
import sys
import time

import grpc.aio
import pytest
from observing import RecordingObserver
from supervising import supervising
from test_kubelet_root import DEFAULT, K0S, etc_hosts, registration, report

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Notified
from pluginregistration.v1 import registration_pb2, registration_pb2_grpc
from registrar.cpu_throttling import Throttling, read_throttling
from registrar.inotify_quota import InotifyProblem
from registrar.kubelet_root import FolderReport
from registrar.kubelet_silence import MAX_DIAGNOSIS_CHARACTERS, diagnose, explain
from registrar.observer import Announced, KubeletSilent, SilenceCause, State
from registrar.settings import DriverSettings
from registrar.silence_evidence import KubeletProbe, Silence, Surroundings, look_around
from registrar.supervisor import Supervisor
from registrar.unix_sockets import grpc_target

NOTHING = report()
RIGHT = report(etc_hosts("8:1", DEFAULT), registration("8:1", f"{DEFAULT}/plugins_registry"))
WRONG = report(etc_hosts("8:1", K0S), registration("8:1", f"{DEFAULT}/plugins_registry"))
DELETED = report(registration("8:1", f"{DEFAULT}/plugins_registry//deleted"))
EXHAUSTED = InotifyProblem("inotify_init1", "EMFILE", "fs.inotify.max_user_instances", "128", 0)
PROBED = KubeletProbe(version="1.36", seconds_ago=4.0)


def silence(**known: object) -> Silence:
    plain = Silence(
        socket_path="/registration/x.io-reg.sock",
        kubelet_registration_path="/var/lib/kubelet/plugins/x/csi.sock",
        silent_seconds=30.0,
        unanswered_seconds=30.0,
    )
    return plain._replace(**known)  # type: ignore[arg-type]  # the tests name fields


def around(folder_report: FolderReport, **known: object) -> Surroundings:
    plain = Surroundings(report=folder_report, neighbours="Nothing else lies in the folder.")
    return plain._replace(**known)  # type: ignore[arg-type]  # the tests name fields


def cause(of: Silence, where: Surroundings) -> SilenceCause:
    return explain(of, where).cause


OURS = {"inotify_problem": EXHAUSTED, "is_kubelets_inotify": True}


@pytest.mark.parametrize(
    ("of", "where", "expected"),
    [
        # What is proved goes first: nothing that kubelet could do would help.
        (silence(kubelet_probe=PROBED), around(DELETED, **OURS), SilenceCause.FOLDER_DELETED),
        (silence(kubelet_probe=PROBED), around(WRONG, **OURS), SilenceCause.OTHER_FOLDER),
        (silence(standstill_seconds=20.0), around(WRONG), SilenceCause.OTHER_FOLDER),
        (silence(dead_socket_seconds_ago=30.0), around(WRONG), SilenceCause.OTHER_FOLDER),
        # A verdict on the folder counts only together with "never contacted".
        (silence(seconds_since_get_info=90.0), around(WRONG), SilenceCause.KUBELET_GONE),
        (
            silence(seconds_since_get_info=90.0, kubelet_probe=PROBED),
            around(WRONG),
            SilenceCause.BROKEN_WATCH,
        ),
        # kubelet has called: the folder is out of the question.
        (
            silence(seconds_since_get_info=6.0, has_get_info=True),
            around(WRONG, **OURS),
            SilenceCause.NO_VERDICT,
        ),
        (
            silence(seconds_since_get_info=6.0, has_get_info=True, is_get_info_missed=True),
            around(RIGHT),
            SilenceCause.OWN_SLOWNESS,
        ),
        # What stands between, in the right folder or an unknown one.
        (silence(kubelet_probe=PROBED), around(RIGHT, **OURS), SilenceCause.INOTIFY_USED_UP),
        (silence(), around(NOTHING, inotify_problem=EXHAUSTED), SilenceCause.UNKNOWN),
        (silence(standstill_seconds=8.0), around(RIGHT), SilenceCause.OWN_SLOWNESS),
        (silence(standstill_seconds=8.0), around(NOTHING), SilenceCause.OWN_SLOWNESS),
        (silence(standstill_seconds=2.0), around(RIGHT), SilenceCause.UNKNOWN),
        (silence(dead_socket_seconds_ago=100.0), around(RIGHT), SilenceCause.BACK_OFF),
        (silence(dead_socket_seconds_ago=130.0), around(RIGHT), SilenceCause.UNKNOWN),
        (silence(dead_socket_seconds_ago=100.0), around(NOTHING), SilenceCause.UNKNOWN),
        # What is left.
        (silence(kubelet_probe=PROBED), around(RIGHT), SilenceCause.BROKEN_WATCH),
        (silence(), around(RIGHT), SilenceCause.UNKNOWN),
        (silence(kubelet_probe=PROBED), around(NOTHING), SilenceCause.UNKNOWN),
    ],
)
def test_the_most_likely_cause_is_chosen(
    of: Silence, where: Surroundings, expected: SilenceCause
) -> None:
    assert cause(of, where) is expected


@pytest.mark.parametrize(
    ("ago", "unanswered", "is_alive"),
    [(4.0, 30.0, True), (31.0, 30.0, False), (61.0, 3600.0, False), (59.0, 3600.0, True)],
)
def test_a_probe_proves_life_only_while_an_announcement_waits_and_only_for_a_minute(
    ago: float, unanswered: float, is_alive: bool
) -> None:
    known = silence(unanswered_seconds=unanswered, kubelet_probe=KubeletProbe("1.36", ago))
    found = explain(known, around(RIGHT))
    assert (found.cause is SilenceCause.BROKEN_WATCH) == is_alive
    assert f"{ago:.0f} s ago (kube-probe/1.36)" in found.text
    assert ("kubelet is not down" in found.text) == is_alive
    assert ("is not known" in found.text) != is_alive


@pytest.mark.parametrize(
    ("root", "stated", "told"),
    [
        (K0S, "/var/lib/kubelet/plugins/x/csi.sock", f"{K0S}/plugins_registry"),
        ("/k0s/kubelet", "/var/lib/kubelet/plugins/x/csi.sock", f"{K0S}/plugins_registry"),
        ("/kubelet2", "/srv/kubelet2/plugins/x/csi.sock", "/srv/kubelet2/plugins_registry"),
        ("/kubelet2", "/var/lib/kubelet/plugins/x/csi.sock", "its mount point comes before"),
        ("", "/var/lib/kubelet/plugins/x/csi.sock", "ROOT is where the file system 8:9 is mounted"),
    ],
)
def test_the_host_folder_to_mount_is_named_as_the_host_most_likely_names_it(
    root: str, stated: str, told: str
) -> None:
    where = report(etc_hosts("8:9", root), registration("8:9", "/elsewhere"))
    text = explain(silence(kubelet_registration_path=stated), around(where)).text
    assert told in text
    has_right_root = stated.startswith("/srv")
    assert ("begin --kubelet-registration-path" in text) != has_right_root


def test_slowness_quotes_the_cpu_limit_where_it_can_be_read() -> None:
    known = silence(standstill_seconds=10.0)
    throttled = around(RIGHT, throttling=Throttling(12.34, 300, 280))
    assert "stood still for 10.0 s of the last 30 s" in explain(known, throttled).text
    assert "in 280 of 300 periods, 12.3 s in all" in explain(known, throttled).text
    assert "no throttling by a CPU limit can be seen" in explain(known, around(RIGHT)).text


def test_what_proves_nothing_is_told_after_the_rest() -> None:
    known = silence(standstill_seconds=2.0, dead_socket_seconds_ago=10.0)
    text = explain(known, around(NOTHING, inotify_problem=EXHAUSTED)).text
    assert "kubelet's quota may be another one" in text
    assert "stood still for 2.0 s in all" in text
    assert "kubelet may avoid the path for 2 minutes" in text
    assert text.endswith("Nothing else lies in the folder.")


@pytest.mark.parametrize("where", [NOTHING, RIGHT, WRONG, DELETED])
def test_every_text_is_printable_and_bounded_whatever_the_names_are(where: FolderReport) -> None:
    vile = where._replace(folder="/r\n\x1b[31m" + "x" * 5000)
    known = silence(kubelet_registration_path="/y\n" * 2000, kubelet_probe=PROBED)
    found = explain(known, around(vile, neighbours="z" * 5000))
    assert found.text.isprintable()
    assert len(found.text) <= MAX_DIAGNOSIS_CHARACTERS + 1


def test_the_neighbours_are_named_but_not_our_own_nor_hidden_ones(folder: str) -> None:
    for name in ("x.io-reg.sock", ".reg-00", *(f"{n}.io-reg.sock" for n in range(10)), "0\n"):
        with open(f"{folder}/{name}", "w", encoding="ascii"):
            pass
    found = look_around(f"{folder}/x.io-reg.sock").neighbours
    assert found.startswith(r"Beside the socket: '0\n', 0.io-reg.sock, ")
    assert found.endswith(" and 3 more.")
    assert "x.io-reg.sock" not in found.replace("-reg.sock", "")
    assert ".reg-00" not in found


def test_a_diagnosis_leaves_nothing_behind_and_holds_nobody_up(folder: str) -> None:
    known = silence(socket_path=f"{folder}/x.io-reg.sock")
    diagnose(known)  # the first one loads what it needs
    descriptors = len(os.listdir("/proc/self/fd"))
    began = time.perf_counter()
    for _ in range(10):
        diagnose(known)
    assert time.perf_counter() - began < 1.0
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert os.listdir(folder) == []


def test_ctypes_is_loaded_for_a_diagnosis_only() -> None:
    """It would cost each node memory that only a silent kubelet is worth."""
    code = "import sys, registrar.kubelet_silence; print('ctypes' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout == "False\n"


V1 = "nr_periods 300\nnr_throttled 280\nthrottled_time 12340000000\n"
V2 = "usage_usec 99\nnr_periods 300\nnr_throttled 280\nthrottled_usec 12340000\n"


@pytest.mark.parametrize(
    ("own", "place", "stat", "expected"),
    [
        ("0::/\n", "", V2, Throttling(12.34, 300, 280)),
        ("0::/kubepods/pod1/c1\n", "kubepods/pod1/c1", V2, Throttling(12.34, 300, 280)),
        ("0::/../../c1\n", "", V2, Throttling(12.34, 300, 280)),
        ("4:cpu,cpuacct:/k/c1\n", "cpu,cpuacct/k/c1", V1, Throttling(12.34, 300, 280)),
        ("4:cpu,cpuacct:/k/c1\n", "cpu", V1, Throttling(12.34, 300, 280)),
        ("7:memory:/k\n4:cpu:/k/c1\n", "cpu/k/c1", V1, Throttling(12.34, 300, 280)),
        ("7:memory:/k\n", "memory/k", V1, None),
        ("0::/\n", "", "nr_periods 9\nnr_throttled 0\nthrottled_usec 0\n", None),
        ("0::/\n", "", "usage_usec 99\nuser_usec 9\n", None),
        ("0::/\n", "", "nr_throttled many\n\x00\n", None),
        ("garbage\n", "elsewhere", V2, None),
        ("", "", V2, None),
    ],
)
def test_throttling_is_read_from_control_groups_of_both_versions(
    folder: str, own: str, place: str, stat: str, expected: Throttling | None
) -> None:
    os.makedirs(f"{folder}/fs/{place}")
    with open(f"{folder}/fs/{place}/cpu.stat", "w", encoding="ascii") as file:
        file.write(stat)
    with open(f"{folder}/own", "w", encoding="ascii") as file:
        file.write(own)
    assert read_throttling(f"{folder}/own", f"{folder}/fs") == expected


def test_no_control_groups_are_no_throttling(folder: str) -> None:
    assert read_throttling(f"{folder}/own", folder) is None


async def test_a_driver_that_hangs_in_node_get_info_is_suspected_after_five_seconds(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    driver.delay_seconds["NodeGetInfo"] = 7.5
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        silent = await observer.wait_for(KubeletSilent)
        assert silent.cause is SilenceCause.NO_VERDICT
        assert 5.0 < silent.silent_seconds < 7.5
        assert 140 < silent.retry_seconds < 145
        assert "the driver hangs in NodeGetInfo" in silent.diagnosis
        assert supervisor.status.kubelet_silence == silent.diagnosis
        await kubelet.wait_for_record(Notified)
        assert supervisor.status.state is State.REGISTERED
        assert supervisor.status.kubelet_silence == ""
        assert len(observer.of(KubeletSilent)) == 1
        assert len(observer.of(Announced)) == 1


async def late_get_info(path: str) -> grpc.StatusCode:
    """Ask as kubelet does, but grant so little time that no answer can be in time."""
    async with grpc.aio.insecure_channel(grpc_target(path)) as channel:
        stub = registration_pb2_grpc.RegistrationStub(channel)
        try:
            await stub.GetInfo(registration_pb2.InfoRequest(), timeout=1.0)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


async def test_an_answer_to_get_info_that_comes_too_late_is_called_our_own_slowness(
    driver: SimulatedDriver, settings: DriverSettings, observer: RecordingObserver
) -> None:
    os.mkdir(settings.registration_folder)
    settings = dataclasses.replace(settings, kubelet_silence_seconds=2.0)
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        published = await observer.wait_for(Announced)
        answer_late(supervisor)
        code = await late_get_info(published.registration_socket_path)
        assert code is grpc.StatusCode.DEADLINE_EXCEEDED
        silent = await observer.wait_for(KubeletSilent)
        assert silent.cause is SilenceCause.OWN_SLOWNESS
        assert "the answer came after the second that kubelet waits" in silent.diagnosis


def answer_late(supervisor: Supervisor) -> None:
    """Let the process stand still in the midst of the next GetInfo."""
    keeper = supervisor._current
    assert keeper is not None
    received = keeper.registration.get_info_received

    def stand_still(now: float) -> None:
        received(now)
        time.sleep(1.2)

    keeper.registration.get_info_received = stand_still  # type: ignore[method-assign]


async def test_a_kubelet_that_called_before_and_does_not_any_more_is_told_from_a_wrong_folder(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    settings = dataclasses.replace(settings, kubelet_silence_seconds=1.0)
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        await kubelet.wait_for_record(Notified)
        await kubelet.stop()
        supervisor.request_announcement()
        silent = await observer.wait_for(KubeletSilent)
        assert silent.cause is SilenceCause.KUBELET_GONE
        seen = len(observer.events)
        supervisor.kubelet_probed("1.36")
        again = await observer.wait_for(KubeletSilent, after=seen)
        assert again.cause is SilenceCause.BROKEN_WATCH
        assert "kube-probe/1.36" in again.diagnosis


async def test_a_silence_timeout_of_zero_asks_for_no_diagnosis_at_all(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
) -> None:
    settings = dataclasses.replace(settings, kubelet_silence_seconds=0.0)
    driver.delay_seconds["NodeGetInfo"] = 6.5
    await driver.start()
    async with supervising(settings, observer):
        await kubelet.wait_for_record(Notified)
        await asyncio.sleep(0)
        assert observer.of(KubeletSilent) == []
