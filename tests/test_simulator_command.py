"""The simulator's command, run as people run it."""

import argparse
import asyncio
import contextlib
import errno
import os
import shlex
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from csi.v1 import csi_pb2, csi_pb2_grpc
from csi_registration_simulator import (
    __main__,
    arguments,
    driver,
    inotify,
    kubelet_records,
    registrar_process,
)
from csi_registration_simulator.driver import CallError
from csi_registration_simulator.narration import tell
from csi_registration_simulator.records import Record
from csi_registration_simulator.unix_channels import connecting

SIMULATOR = (sys.executable, "-m", "csi_registration_simulator")
REGISTRAR = (sys.executable, "-m", "csi_node_driver_registrar")

WRAPPER = """\
import pathlib, signal, subprocess, sys
child = subprocess.Popen([{python!r}, "-m", "csi_node_driver_registrar", *sys.argv[1:]])
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
child.wait()
{last_deed}
"""


class Command:
    """A running process and the lines that it has printed."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def line_with(self, text: str) -> str:
        """Read on until a line contains the text, and return it."""
        if self.process.stdout is None:
            raise RuntimeError("the output was not redirected")
        async with asyncio.timeout(20):
            async for line in self.process.stdout:
                self.lines.append(line.decode())
                if text in self.lines[-1]:
                    return self.lines[-1]
        raise AssertionError(f"{text!r} was not printed, but:\n{''.join(self.lines)}")

    async def end(self, number: signal.Signals | None = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal and return the status, all of the output, and the errors."""
        if number is not None:
            self.process.send_signal(number)
        output, errors = await self.process.communicate()
        return (
            self.process.returncode or 0,
            "".join(self.lines) + output.decode(),
            errors.decode(),
        )


@contextlib.asynccontextmanager
async def running(*argv: str) -> AsyncIterator[Command]:
    """Run a command, and kill it in the end if it still runs."""
    process = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=PIPE)
    try:
        yield Command(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def finished(*argv: str) -> tuple[int, str, str]:
    """Run the simulator's command to its end: status, output, errors."""
    async with running(*SIMULATOR, *argv) as command:
        return await command.end(None)


@pytest.fixture
def root() -> Iterator[Path]:
    """Return a short folder: a socket's path has 107 bytes at most."""
    path = Path(tempfile.mkdtemp(prefix="sc-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def folder(root: Path) -> Path:
    """Return a registration folder."""
    path = root / "r"
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("argv", "texts"),
    [
        ([], ["kubelet", "driver", "demo"]),
        (["kubelet"], ["--kubelet-version {1.34,1.36}", "--map-path", "--for", "example:"]),
        (["driver"], ["--csi-address", "--delay METHOD=DURATION", "--black-hole", "Probe"]),
        (["demo"], ["--registrar COMMAND", "SIGTERM", "examples:"]),
    ],
)
async def test_help_says_what_there_is(argv: list[str], texts: list[str]) -> None:
    status, output, errors = await finished(*argv, "--help")
    assert (status, errors) == (0, "")
    assert [text for text in texts if text not in output] == []


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["kubelet"], "the following arguments are required: FOLDER"),
        (["kubelet", "/", "--for=soon"], "'soon' is no duration such as 500ms, 3s or 1m30s"),
        (["kubelet", "/", "--map-path=x"], "'x' is not of the form KEY=VALUE"),
        (["kubelet", "/", "--kubelet-version=1.2"], "invalid choice: '1.2'"),
        (["driver", "--name=a"], "--csi-address"),
        (
            ["driver", "--name=a", "--csi-address=/x", "--delay=Prob=1s"],
            "'Prob' is none of GetPluginInfo, GetPluginCapabilities, Probe, NodeGetInfo",
        ),
        (
            ["driver", "--name=a", "--csi-address=/x", "--error=Probe=SAD"],
            "'SAD' is no gRPC status such as UNAVAILABLE",
        ),
    ],
)
def test_bad_usage_ends_with_status_2(
    argv: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        __main__.main(argv)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_a_missing_folder_is_one_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["kubelet", f"{root}/none"]) == 1
    assert capsys.readouterr().err == (
        f"csi-registration-simulator kubelet: there is no folder {root}/none; create it, "
        "or give the registrar's --plugin-registration-path\n"
    )


def test_a_file_for_a_folder_is_one_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "file").write_text("")
    assert __main__.main(["kubelet", f"{root}/file"]) == 1
    assert capsys.readouterr().err == (
        f"csi-registration-simulator kubelet: {root}/file is no folder\n"
    )


def test_a_folder_that_cannot_be_watched_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(inotify.Inotify, "watch", refuse)
    assert __main__.main(["kubelet", str(folder)]) == 1
    assert capsys.readouterr().err == (
        f"csi-registration-simulator kubelet: cannot watch {folder}: Permission denied\n"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none/csi.sock", "No such file or directory"), ("x" * 120, "AF_UNIX path too long")],
)
def test_a_socket_that_cannot_be_bound_is_one_line(
    root: Path, name: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["driver", "--name=a", f"--csi-address={root}/{name}"]) == 1
    assert capsys.readouterr().err == (
        f"csi-registration-simulator driver: cannot listen at {root}/{name}: {reason}\n"
    )


def test_a_registrar_that_cannot_be_started_is_one_line(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["demo", f"--registrar={root}/none"]) == 1
    assert capsys.readouterr().err == (
        f"csi-registration-simulator demo: cannot start {root}/none: "
        "No such file or directory; step: start\n"
    )


def test_time_is_up_after_for(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["kubelet", str(root), "--for=50ms", "--kubelet-version=1.34"]) == 0
    address = f"--csi-address=unix://{root}/csi.sock"
    assert __main__.main(["driver", "--name=a.example.com", address, "--for=50ms"]) == 0
    output = capsys.readouterr().out
    assert f"kubelet   1.34 watches {root}\n" in output
    assert "driver    a.example.com listens\n" in output
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_kubelet_and_driver_with_status_0(
    folder: Path, root: Path, number: signal.Signals
) -> None:
    async with (
        running(*SIMULATOR, "kubelet", str(folder)) as kubelet,
        running(*SIMULATOR, "driver", f"--csi-address={root}/csi.sock", "--name=a") as a_driver,
    ):
        await kubelet.line_with("starts")
        await a_driver.line_with("listens")
        status, output, errors = await kubelet.end(number)
        assert (status, errors) == (0, "")
        assert "kubelet   ends" in output
        status, output, errors = await a_driver.end(number)
        assert (status, errors) == (0, "")
        assert "driver    has ended" in output
    assert not (root / "csi.sock").exists()


async def test_a_second_signal_ends_the_process_at_once() -> None:
    signalled = __main__._listen_for_signals()
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    os.kill(os.getpid(), signal.SIGTERM)
    await signalled.wait()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


async def test_kubelet_and_driver_register_a_real_registrar(folder: Path, root: Path) -> None:
    host_path = "/var/lib/kubelet/plugins/a.example.com"
    csi_address = f"--csi-address={root}/csi.sock"
    mapping = f"--map-path={host_path}={root}"
    async with (
        running(
            *SIMULATOR, "driver", csi_address, "--name=a.example.com", "--node-id=n7"
        ) as a_driver,
        running(*SIMULATOR, "kubelet", str(folder), mapping) as kubelet,
    ):
        await a_driver.line_with("listens")
        await kubelet.line_with("starts")
        async with running(
            *REGISTRAR,
            csi_address,
            f"--kubelet-registration-path={host_path}/csi.sock",
            f"--plugin-registration-path={folder}",
        ) as registrar:
            socket_path = f"{folder}/a.example.com-reg.sock"
            await kubelet.line_with(f"sees the socket {socket_path} appear")
            await kubelet.line_with(
                f"GetInfo: CSIPlugin a.example.com at {host_path}/csi.sock, versions 1.0.0"
            )
            await kubelet.line_with("NodeGetInfo: node_id n7")
            await kubelet.line_with("writes the CSINode object: a.example.com")
            await kubelet.line_with("NotifyRegistrationStatus: registered")
            await a_driver.line_with("NodeGetInfo, authority localhost")
            assert (await registrar.end())[0] == 0
            await kubelet.line_with("writes the CSINode object: no driver")
            await kubelet.line_with(f"deregisters the driver a.example.com of {socket_path}")


async def test_a_driver_has_the_faults_of_its_flags(root: Path) -> None:
    flags = [
        "--vendor-version=3",
        "--manifest=a=b=c",
        "--topology=zone=z",
        "--not-ready",
        "--delay=Probe=10ms",
        "--error=GetPluginCapabilities=NotFound:nothing: here",
    ]
    path = f"{root}/csi.sock"
    async with (
        running(*SIMULATOR, "driver", f"--csi-address={path}", "--name=a", *flags) as a_driver,
        connecting(path, authority="localhost") as channel,
    ):
        await a_driver.line_with("listens")
        identity, node = csi_pb2_grpc.IdentityStub(channel), csi_pb2_grpc.NodeStub(channel)
        info = await identity.GetPluginInfo(csi_pb2.GetPluginInfoRequest())
        assert info == csi_pb2.GetPluginInfoResponse(
            name="a", vendor_version="3", manifest={"a": "b=c"}
        )
        assert not (await identity.Probe(csi_pb2.ProbeRequest())).ready.value
        node_info = await node.NodeGetInfo(csi_pb2.NodeGetInfoRequest())
        assert dict(node_info.accessible_topology.segments) == {"zone": "z"}
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await identity.GetPluginCapabilities(csi_pb2.GetPluginCapabilitiesRequest())
        assert failure.value.code() is grpc.StatusCode.NOT_FOUND
        assert failure.value.details() == "nothing: here"


async def test_a_driver_can_be_a_black_hole(root: Path) -> None:
    path = f"{root}/csi.sock"
    async with (
        running(
            *SIMULATOR, "driver", f"--csi-address={path}", "--name=a", "--black-hole"
        ) as a_driver,
        connecting(path, authority="localhost") as channel,
    ):
        await a_driver.line_with("listens")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await channel.channel_ready()
        assert (await a_driver.end())[0] == 0


async def test_the_demonstration_shows_every_step_in_order() -> None:
    status, output, errors = await finished("demo")
    assert (status, errors) == (0, ""), output
    parts = [
        "== the registrar publishes its socket",
        "/registration/demo.csi.example.com-reg.sock appear",
        "== kubelet asks the registrar and the driver, and accepts",
        "GetInfo: CSIPlugin demo.csi.example.com",
        "NodeGetInfo: node_id",
        "NotifyRegistrationStatus: registered",
        "== kubelet restarts",
        "NotifyRegistrationStatus: registered",
        "== the driver crashes",
        "== the driver returns",
        "deregisters the driver",
        "NotifyRegistrationStatus: registered",
        "== the registrar gets SIGTERM",
        "== the driver leaves the CSINode object",
        "writes the CSINode object: no driver",
        "== nothing is left in the registration folder",
        "== every step was seen",
    ]
    position = 0
    for part in parts:
        position = output.find(part, position)
        assert position >= 0, f"{part!r} is missing, or out of order, in:\n{output}"
    assert "registrar | I" in output


@pytest.mark.parametrize(
    ("registrar", "reason"),
    [
        (
            "false",
            (
                "the registrar ended by itself, with status 1; "
                "step: the registrar publishes its socket"
            ),
        ),
        ("sleep 60", "step not seen within 0.5 s: the registrar publishes its socket"),
    ],
)
async def test_the_demonstration_names_the_step_that_was_not_seen(
    registrar: str, reason: str
) -> None:
    # `sleep` takes no further arguments, so a shell swallows them.
    command = shlex.join(["sh", "-c", f"exec {registrar}"])
    status, _, errors = await finished("demo", f"--registrar={command}", "--step-timeout=500ms")
    assert (status, errors) == (1, f"csi-registration-simulator demo: {reason}\n")


@pytest.mark.parametrize(
    ("last_deed", "reason"),
    [
        (
            "sys.exit(3)",
            "the status is 3; step: the registrar gets SIGTERM, and ends with status 0",
        ),
        (
            'pathlib.Path(sys.argv[3].partition("=")[2], ".left").touch()',
            "there is .left; step: nothing is left in the registration folder",
        ),
    ],
)
async def test_the_demonstration_checks_the_end_of_the_registrar(
    root: Path, last_deed: str, reason: str
) -> None:
    wrapper = root / "wrapper.py"
    wrapper.write_text(WRAPPER.format(python=sys.executable, last_deed=last_deed))
    status, _, errors = await finished("demo", f"--registrar={sys.executable} {wrapper}")
    assert (status, errors) == (1, f"csi-registration-simulator demo: {reason}\n")


def test_a_registrar_that_does_not_end_is_killed_with_its_children(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registrar_process, "_GRACE_SECONDS", 0.2)
    command = shlex.join(["sh", "-c", "trap '' TERM; echo started; sleep 600; exit"])
    assert __main__.main(["demo", f"--registrar={command}", "--step-timeout=300ms"]) == 1
    assert "registrar | started" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_demonstration_and_leaves_nothing(
    root: Path, number: signal.Signals
) -> None:
    environment = {**os.environ, "TMPDIR": str(root)}
    process = await asyncio.create_subprocess_exec(
        *SIMULATOR, "demo", stdout=PIPE, stderr=PIPE, env=environment
    )
    command = Command(process)
    await command.line_with("registrar | ")
    status, output, errors = await command.end(number)
    assert (status, errors) == (0, "")
    assert "every step" not in output
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("3s", 3), ("1m30s", 90), ("1.5h", 5400), ("0s", 0)]
)
def test_durations_are_written_as_in_go(text: str, seconds: float) -> None:
    assert arguments.duration_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "3", "s", "3x", "1s ", "-1s", "1s2"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no duration"):
        arguments.duration_seconds(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Probe=UNAVAILABLE:no: way", CallError(grpc.StatusCode.UNAVAILABLE, "no: way")),
        (
            "Probe=DeadlineExceeded",
            CallError(grpc.StatusCode.DEADLINE_EXCEEDED, "asked for on the command line"),
        ),
    ],
)
def test_a_method_error_is_a_status_in_either_spelling_and_a_text(
    text: str, error: CallError
) -> None:
    assert arguments.method_error(text) == ("Probe", error)


@pytest.mark.parametrize("text", ["Probe=OK", "=UNAVAILABLE", "Probe"])
def test_a_method_error_needs_a_method_and_a_failure(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        arguments.method_error(text)


@pytest.mark.parametrize("text", ["/a/b", "unix:/a/b", "unix:///a/b"])
def test_a_socket_may_be_given_as_a_path_or_a_url(text: str) -> None:
    assert arguments.socket_path(text) == "/a/b"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (
            kubelet_records.SocketCreated(socket_path="/s", is_update=True),
            "kubelet   sees the socket /s appear, and deregisters its driver at the next tick",
        ),
        (
            kubelet_records.Dialled(socket_path="/s", seconds=10.004, error="too late"),
            "kubelet   has given up: too late (10.00 s)",
        ),
        (
            kubelet_records.GetInfoFailed(socket_path="/s", code="X", error="no", seconds=0.01),
            "kubelet   -> registrar GetInfo failed: no (10.0 ms)",
        ),
        (
            kubelet_records.NodeGetInfoFailed(
                socket_path="/s", driver_name="d", endpoint="/e", error="no", seconds=0.001
            ),
            "kubelet   -> driver NodeGetInfo at /e failed: no (1.0 ms)",
        ),
        (
            kubelet_records.Notified(
                socket_path="/s", is_accepted=False, error="why", code="Unavailable", seconds=0.1
            ),
            (
                "kubelet   -> registrar NotifyRegistrationStatus: refused: why (100.0 ms); "
                "the call failed with Unavailable"
            ),
        ),
        (
            kubelet_records.RegistrationFailed(socket_path="/s", error="why", back_off_seconds=0.5),
            "kubelet   will not call /s for 0.5 s after: why",
        ),
        (
            driver.DriverStopped(leaves_socket=True),
            "driver    has crashed; its socket is still there",
        ),
        (driver.CallReceived(method="Probe", authority=""), "driver    <- Probe"),
    ],
)
def test_what_goes_wrong_is_told_in_words(record: Record, words: str) -> None:
    assert tell(record) == words


def test_there_are_words_for_every_kind_of_record() -> None:
    names = {**vars(kubelet_records), **vars(driver)}
    kinds = {each for each in names.values() if isinstance(each, type) and issubclass(each, Record)}
    kinds -= {Record, kubelet_records.SocketRecord}
    assert len(kinds) > 15
    fallback = tell.dispatch(Record)
    assert {kind for kind in kinds if tell.dispatch(kind) is fallback} == set()
    with pytest.raises(TypeError, match="there are no words for a Record"):
        tell(Record())
