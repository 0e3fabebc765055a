"""`--mode=kubelet-registration-probe`: a real check again, and a cheap one (R15, R52)."""

import asyncio
import dataclasses
import os
import resource
import subprocess
import sys
from contextlib import AsyncExitStack

import pytest
from commanding import REGISTRAR, registrar_arguments, running

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Notified
from registrar.settings import DriverSettings


def probe_arguments(settings: DriverSettings) -> list[str]:
    return [
        REGISTRAR,
        f"--kubelet-registration-path={settings.kubelet_registration_path}",
        "--mode=kubelet-registration-probe",
        f"--plugin-registration-path={settings.registration_folder}",
    ]


async def probe(settings: DriverSettings) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *probe_arguments(settings), stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await process.communicate()
    assert process.returncode is not None
    return process.returncode, stderr.decode()


async def test_it_fails_with_the_reason_until_kubelet_has_accepted(
    driver: SimulatedDriver, settings: DriverSettings
) -> None:
    status, reason = await probe(settings)
    assert status == 1
    assert "no sidecar runs in this container" in reason
    os.mkdir(settings.registration_folder)
    async with running(*registrar_arguments(settings)) as command:
        await command.wait_for_log("does not answer")
        status, reason = await probe(settings)
        assert (status, reason.count("\n")) == (1, 1)
        assert "waiting" in reason
        assert "there is no driver socket at" in reason
        await driver.start()
        await command.wait_for_log("socket published")
        assert "announced for" in (await probe(settings))[1]
        async with SimulatedKubelet(settings.registration_folder) as kubelet:
            kubelet.refuse_next(1, "no such node")
            await kubelet.wait_for_record(Notified)
            status, reason = await probe(settings)
            assert status == 1
            assert "no such node" in reason
            await command.wait_for_log("kubelet registered the driver")
            assert await probe(settings) == (0, "")
        await command.stop()
    assert (await probe(settings))[0] == 1
    assert os.listdir(settings.registration_folder) == []


async def test_it_finds_the_right_one_of_three_sidecars_in_one_folder(
    kubelet: SimulatedKubelet, settings: DriverSettings, folder: str
) -> None:
    each = [
        dataclasses.replace(
            settings,
            csi_address=f"{folder}/{name}.sock",
            kubelet_registration_path=f"{folder}/{name}.sock",
        )
        for name in "abc"
    ]
    async with AsyncExitStack() as stack:
        for one in each[:2]:
            await stack.enter_async_context(
                SimulatedDriver(one.csi_address, name=f"{one.csi_address[-6]}.example.com")
            )
        commands = [
            await stack.enter_async_context(running(*registrar_arguments(one))) for one in each
        ]
        for command in commands[:2]:
            await command.wait_for_log("kubelet registered the driver")
        await commands[2].wait_for_log("does not answer")
        assert [(await probe(one))[0] for one in each] == [0, 0, 1]


async def test_it_answers_for_each_driver_of_one_sidecar(
    kubelet: SimulatedKubelet, driver: SimulatedDriver, settings: DriverSettings, folder: str
) -> None:
    other = dataclasses.replace(settings, kubelet_registration_path=f"{folder}/other.sock")
    await driver.start()
    arguments = registrar_arguments(
        settings,
        f"--csi-address={folder}/other.sock",
        f"--kubelet-registration-path={folder}/other.sock",
    )
    async with running(*arguments) as command:
        await command.wait_for_log("kubelet registered the driver")
        assert await probe(settings) == (0, "")
        status, reason = await probe(other)
        assert status == 1
        assert f"{folder}/other.sock" in reason


async def test_it_works_again_after_the_folder_was_made_anew(
    driver: SimulatedDriver, settings: DriverSettings
) -> None:
    os.mkdir(settings.registration_folder)
    await driver.start()
    async with running(*registrar_arguments(settings)) as command:
        await command.wait_for_log("socket published")
        for name in os.listdir(settings.registration_folder):
            os.unlink(f"{settings.registration_folder}/{name}")
        os.rmdir(settings.registration_folder)
        await command.wait_for_log("cannot be published")
        async with SimulatedKubelet(settings.registration_folder):
            async with asyncio.timeout(10):
                while (await probe(settings))[0] != 0:
                    pass


def test_it_wants_the_path_and_says_so(settings: DriverSettings) -> None:
    done = subprocess.run(
        [REGISTRAR, "--mode=kubelet-registration-probe"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "--kubelet-registration-path is required\n"


def test_it_loads_nothing_heavy(settings: DriverSettings) -> None:
    """The budget is 40 ms of CPU; what it costs is measured by `make bench`."""
    program = (
        "import sys\n"
        "from csi_node_driver_registrar.__main__ import main\n"
        f"sys.argv[1:] = {probe_arguments(settings)[1:]!r}\n"
        "main()\n"
        "heavy = {'asyncio', 'grpc', 'aiohttp', 'prometheus_client', 'google', 'enum', 'typing',\n"
        "         'dataclasses', 'socket', 'logging'} & sys.modules.keys()\n"
        "sys.exit(f'loaded: {sorted(heavy)}' if heavy else 0)\n"
    )
    # Without the environment: measuring coverage in the child would load much itself.
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False, env={}
    )
    assert done.returncode == 0, done.stderr


def test_the_installed_command_is_a_file_of_ours_that_imports_nothing_else() -> None:
    """The wrapper that pip writes for an entry point loads `re`: 12 of the 40 ms."""
    with open(REGISTRAR, encoding="utf-8") as script:
        imports = [line for line in script if line.startswith(("import ", "from "))]
    assert imports == [
        "import sys\n",
        "from csi_node_driver_registrar.__main__ import main\n",
    ]


def test_a_sidecar_that_hangs_is_given_up_within_kubelets_second(settings: DriverSettings) -> None:
    import socket  # noqa: PLC0415 - this test's alone
    import time  # noqa: PLC0415

    from csi_node_driver_registrar.exec_probe import probe_socket_path  # noqa: PLC0415

    os.mkdir(settings.registration_folder)
    path = probe_socket_path(settings.registration_folder, settings.kubelet_registration_path)
    with socket.socket(socket.AF_UNIX) as hole:
        hole.bind(path)
        hole.listen()
        begun = time.monotonic()
        done = subprocess.run(
            probe_arguments(settings), capture_output=True, text=True, check=False
        )
        assert time.monotonic() - begun < 2.0
    assert done.returncode == 1
    assert "did not answer within 0.8 s" in done.stderr


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"", "the sidecar answered b''"), (b"HTTP/1.1 500 X\r\n\r\n", "the sidecar answered b'HTTP")],
)
async def test_an_answer_that_makes_no_sense_is_a_failure_with_words(
    settings: DriverSettings, answer: bytes, words: str
) -> None:
    from csi_node_driver_registrar.exec_probe import probe_socket_path  # noqa: PLC0415

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    os.mkdir(settings.registration_folder)
    path = probe_socket_path(settings.registration_folder, settings.kubelet_registration_path)
    async with await asyncio.start_unix_server(reply, path):
        status, reason = await probe(settings)
    assert status == 1
    assert words in reason


def test_its_cpu_is_counted_by_the_bench_in_the_same_way() -> None:
    """A child's CPU is what getrusage says of it; if that were 0, the bench would lie."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([REGISTRAR, "--version"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime > before.ru_utime + before.ru_stime
