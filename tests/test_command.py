"""The installed command as a process: usage, exit statuses, signals, and what it leaves behind."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commanding import REGISTRAR, registrar_arguments, running

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import (
    Deregistered,
    GetInfoAnswered,
    Notified,
    SocketCreated,
)
from registrar.settings import DriverSettings

SOCKET = "x.csi.example.com-reg.sock"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [REGISTRAR, *arguments], capture_output=True, text=True, timeout=20, check=False
    )


@pytest.mark.parametrize("flag", ["-h", "--help", "-help"])
def test_help_goes_to_stdout_and_is_no_failure(flag: str) -> None:
    done = run(flag)
    assert done.returncode == 0
    assert done.stderr == ""
    for words in ("--csi-address", "--kubelet-registration-path", "--on-registration-failure"):
        assert words in done.stdout


def test_the_version_is_told() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("csi-node-driver-registrar v")
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "first_line"),
    [
        (["--no-such-flag"], "flag provided but not defined: -no-such-flag"),
        (["--timeout=60"], 'invalid value "60" for flag -timeout'),
        (["---v"], "bad flag syntax: ---v"),
    ],
)
def test_wrong_usage_is_status_2_with_the_usage_on_stderr(
    arguments: list[str], first_line: str
) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(first_line)
    assert "Usage of csi-node-driver-registrar" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--kubelet-registration-path is required"),
        (
            ["--kubelet-registration-path=/p", "--health-port=1", "--http-endpoint=:2"],
            "only one of --health-port and --http-endpoint",
        ),
        (["--kubelet-registration-path=/p", "--csi-address=unix://csi.sock"], "--csi-address"),
    ],
)
def test_a_missing_or_contradictory_flag_is_status_1_and_one_line(
    arguments: list[str], words: str
) -> None:
    done = run(*arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


async def test_it_registers_a_driver_and_logs_each_step_once(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    await driver.start()
    async with running(*registrar_arguments(settings)) as registrar:
        assert (await kubelet.wait_for_record(Notified)).is_accepted
        await registrar.wait_for_log("kubelet registered the driver")
        assert (await registrar.stop())[0] == 0
    for line in ("Starting", "CSI driver found", "socket published", "registered", "Stopping"):
        assert registrar.log.count(line) == 1, registrar.log
    assert os.listdir(settings.registration_folder) == []
    await kubelet.wait_for_record(Deregistered)


async def test_json_lines_are_one_object_each(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    """R65."""
    import json  # noqa: PLC0415 - this test's alone

    await driver.start()
    async with running(*registrar_arguments(settings, "--logging-format=json")) as registrar:
        await registrar.wait_for_log("kubelet registered the driver")
        await registrar.stop()
    records = [json.loads(line) for line in registrar.lines]
    assert records[0]["msg"] == "Starting"
    assert all({"ts", "caller", "msg"} <= record.keys() for record in records)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(
    "moment",
    ["CSI driver does not answer", "Registration socket published", "kubelet registered"],
)
async def test_a_signal_at_any_moment_ends_it_with_0_within_a_second_and_no_file(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    moment: str,
    number: signal.Signals,
) -> None:
    """R63."""
    if "does not answer" not in moment:
        await driver.start()
    async with running(*registrar_arguments(settings)) as registrar:
        await registrar.wait_for_log(moment)
        status, seconds = await registrar.stop(number)
        assert status == 0, registrar.log
        assert seconds < 1.0
    assert os.listdir(settings.registration_folder) == []


async def test_a_signal_while_kubelet_is_in_the_middle_of_a_registration_ends_it_as_well(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    driver.delay_seconds["NodeGetInfo"] = 30
    await driver.start()
    async with running(*registrar_arguments(settings)) as registrar:
        await driver.wait_for(lambda: bool(driver.calls("NodeGetInfo")))
        status, seconds = await registrar.stop()
        assert status == 0
        assert seconds < 1.0
    assert os.listdir(settings.registration_folder) == []


async def test_a_signal_while_it_is_still_loading_ends_it_with_0(settings: DriverSettings) -> None:
    async with running(
        sys.executable,
        "-c",
        "import os, signal, sys\n"
        "import csi_node_driver_registrar.__main__ as command\n"
        "sys.argv[1:] = sys.argv[2:]\n"
        "def parse(_arguments): os.kill(os.getpid(), signal.SIGTERM)\n"
        "command._registrar = parse\n"
        "sys.exit(command.main())",
    ) as registrar:
        assert await asyncio.wait_for(registrar.process.wait(), 10) == 0


@pytest.mark.needs_root
@pytest.mark.parametrize("moment", ["CSI driver does not answer", "kubelet registered"])
async def test_it_stops_as_pid_1_too(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings, moment: str
) -> None:
    """R63: the kernel drops signals of PID 1 that it has no handler for."""
    if "does not answer" not in moment:
        await driver.start()
    command = ("unshare", "--pid", "--fork", "--kill-child", *registrar_arguments(settings))
    async with running(*command) as unshare:
        await unshare.wait_for_log(moment)
        children = Path(f"/proc/{unshare.process.pid}/task/{unshare.process.pid}/children")
        os.kill(int(children.read_text(encoding="ascii")), signal.SIGTERM)
        async with asyncio.timeout(1.0):
            assert await unshare.process.wait() == 0
    assert "       1 " in unshare.lines[0]
    assert os.listdir(settings.registration_folder) == []


async def test_a_second_signal_ends_it_at_once(settings: DriverSettings) -> None:
    program = (
        "import asyncio, sys\n"
        "from csi_node_driver_registrar.signals import handling_signals\n"
        "async def main():\n"
        "    said = lambda name: print(name, file=sys.stderr, flush=True)\n"
        "    with handling_signals(on_stop=said, on_hangup=lambda: said('HUP')):\n"
        "        said('ready')\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    async with running(sys.executable, "-c", program) as process:
        await process.wait_for_log("ready")
        process.process.send_signal(signal.SIGHUP)
        await process.wait_for_log("HUP")
        process.process.send_signal(signal.SIGTERM)
        await process.wait_for_log("SIGTERM")
        assert (await process.stop(signal.SIGINT))[0] == 128 + signal.SIGINT


async def test_sighup_announces_again(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    """R14."""
    await driver.start()
    async with running(*registrar_arguments(settings)) as registrar:
        await registrar.wait_for_log("kubelet registered")
        before = kubelet.mark()
        registrar.process.send_signal(signal.SIGHUP)
        created = await kubelet.wait_for_record(SocketCreated, after=before)
        assert created.is_update
        await kubelet.wait_for_record(Notified, after=before)


async def test_a_refusal_ends_it_with_status_1_and_the_reason_if_that_was_asked_for(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    kubelet.refuse_next(1, "no such node")
    await driver.start()
    arguments = registrar_arguments(settings, "--on-registration-failure=exit")
    async with running(*arguments) as registrar:
        async with asyncio.timeout(10):
            assert await registrar.process.wait() == 1
    assert "kubelet refused the registration of x.csi.example.com" in registrar.log
    assert "no such node" in registrar.log
    assert "Traceback" not in registrar.log
    assert os.listdir(settings.registration_folder) == []


@pytest.mark.timeout(100)
async def test_a_driver_that_comes_up_after_40_seconds_is_registered_by_the_same_process(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    """R05: the Go registrar exits after 30 seconds."""
    async with running(*registrar_arguments(settings)) as registrar:
        await registrar.wait_for_log("CSI driver does not answer")
        await asyncio.sleep(40)  # the case itself: no event can stand for it
        await driver.start()
        assert (await kubelet.wait_for_record(Notified)).is_accepted
        assert registrar.process.returncode is None
    assert registrar.log.count("CSI driver does not answer") == 1


async def test_a_slow_driver_never_makes_it_exit(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    """R04: with --timeout=1s the Go registrar exits after 1.02 s."""
    driver.delay_seconds["GetPluginInfo"] = 1.5
    await driver.start()
    async with running(*registrar_arguments(settings, "--timeout=1s")) as registrar:
        await driver.wait_for(lambda: len(driver.calls("GetPluginInfo")) >= 3)
        driver.delay_seconds.clear()
        assert (await kubelet.wait_for_record(Notified)).is_accepted
        assert registrar.process.returncode is None


async def test_a_driver_that_hangs_never_delays_kubelet(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    """R23, R62."""
    await driver.start()
    async with running(*registrar_arguments(settings, "--timeout=30s")) as registrar:
        await registrar.wait_for_log("kubelet registered")
        driver.is_black_hole = True
        before = kubelet.mark()
        await kubelet.restart()
        asked = await kubelet.wait_for_record(GetInfoAnswered, after=before)
        assert asked.seconds < 0.5
        status, seconds = await registrar.stop()
        assert (status, seconds < 1.0) == (0, True)


async def test_it_survives_that_no_file_descriptors_are_left_when_the_driver_comes(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    """R24: gRPC aborts the process if it has to initialise itself without descriptors."""
    async with running(*registrar_arguments(settings)) as registrar:
        await registrar.wait_for_log("CSI driver does not answer")
        pid = registrar.process.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (registrar.open_files, hard))
        await driver.start()
        await asyncio.sleep(2.5)  # two attempts, that is
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (1024, hard))
        assert (await kubelet.wait_for_record(Notified, timeout_seconds=15)).is_accepted
        assert registrar.process.returncode is None


async def test_it_writes_nothing_but_its_socket(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings, folder: str
) -> None:
    """R17."""
    await driver.start()
    before = sorted(os.listdir(folder))
    async with running(*registrar_arguments(settings)) as registrar:
        await registrar.wait_for_log("kubelet registered")
        published, hidden = sorted(os.listdir(settings.registration_folder), reverse=True)
        assert published == SOCKET
        assert hidden.startswith(".reg-")  # of the exec probe; kubelet ignores it
        assert sorted(os.listdir(folder)) == before
