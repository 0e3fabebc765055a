"""What a node gets with the image. `.ci/image-test` builds one and runs these tests on it."""

import os
import re
import resource
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from containing import Container, Image, container, given_image

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Notified

REGISTRAR = "/csi-node-driver-registrar"
LIVENESSPROBE = "/livenessprobe"
NOBODY = 65534
REGISTERED = "kubelet registered the driver"

PROBE_CPU_SECONDS = 0.040
MAX_STOP_SECONDS = 1.0


@pytest.fixture
def image() -> Image:
    """Give the image that this run is about."""
    return given_image()


def registrar_arguments(folder: str) -> list[str]:
    return [
        "--csi-address=/csi/csi.sock",
        f"--kubelet-registration-path={folder}/csi.sock",
        "--http-endpoint=127.0.0.1:0",
    ]


def probe_arguments(folder: str) -> list[str]:
    mode = "--mode=kubelet-registration-probe"
    return [REGISTRAR, f"--kubelet-registration-path={folder}/csi.sock", mode]


@asynccontextmanager
async def registered(
    image: Image,
    folder: str,
    kubelet: SimulatedKubelet,
    driver: SimulatedDriver,
    *,
    user: int = 0,
    interpreter: Sequence[str] = (),
) -> AsyncIterator[Container]:
    """Run a registrar in a container, until kubelet has accepted it and while the block runs."""
    await driver.start()
    for path in (folder, f"{folder}/registration", f"{folder}/csi.sock"):
        os.chown(path, user, user)
    async with container(
        image,
        *interpreter,
        *image_entry_point(image),
        *registrar_arguments(folder),
        mounts={"/csi": folder, "/registration": f"{folder}/registration"},
        user=user,
    ) as started:
        verdict = await kubelet.wait_for_record(Notified)
        assert verdict.is_accepted
        await started.command.wait_for_log(REGISTERED)
        yield started


def image_entry_point(image: Image) -> list[str]:
    entry_point = image.settings["Entrypoint"]
    assert isinstance(entry_point, list)
    return entry_point


async def answer(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


@pytest.mark.parametrize("user", [0, NOBODY])
async def test_it_registers_a_driver_without_capabilities_and_ends_within_a_second(
    image: Image, folder: str, kubelet: SimulatedKubelet, driver: SimulatedDriver, user: int
) -> None:
    async with registered(image, folder, kubelet, driver, user=user) as registrar:
        status = Path(f"/proc/{await registrar.pid()}/status").read_text(encoding="ascii")
        assert re.findall(r"Cap\w+:\t(\w+)", status) == ["0" * 16] * 5
        assert f"Uid:\t{user}\t{user}\t{user}\t{user}\n" in status
        assert re.search(r"NSpid:\t\d+\t1\n", status)
        url = await registrar.command.url()
        assert (await answer(f"{url}/healthz"))[0] == 200
        assert (await answer(f"{url}/readyz"))[0] == 200
        assert 'revision="0123456789abcdef"' in (await answer(f"{url}/metrics"))[1]
        assert await registrar.execute(*probe_arguments(folder)) == (0, "")
        exit_status, seconds = await registrar.command.stop()
        assert exit_status == 0
        assert seconds < MAX_STOP_SECONDS
        assert os.listdir(f"{folder}/registration") == []


async def test_nothing_can_be_written_outside_the_two_mounted_folders(
    image: Image, folder: str, kubelet: SimulatedKubelet, driver: SimulatedDriver
) -> None:
    async with registered(image, folder, kubelet, driver) as registrar:
        for path in ("/new", "/usr/lib/csi-node-driver-registrar/new", "/tmp/new"):
            write = f"open({path!r}, 'w')"
            status, errors = await registrar.execute("/usr/bin/python3", "-ISc", write)
            assert status == 1
            assert "Read-only file system" in errors


async def test_the_livenessprobe_answers(
    image: Image, folder: str, driver: SimulatedDriver
) -> None:
    await driver.start()
    arguments = ("--csi-address=/csi/csi.sock", "--http-endpoint=127.0.0.1:0")
    async with container(image, LIVENESSPROBE, *arguments, mounts={"/csi": folder}) as probe:
        assert (await answer(f"{await probe.command.url()}/healthz"))[0] == 200
        status, seconds = await probe.command.stop()
        assert status == 0
        assert seconds < MAX_STOP_SECONDS


async def test_an_exec_probe_keeps_to_its_budget_of_cpu_time(
    image: Image, folder: str, kubelet: SimulatedKubelet, driver: SimulatedDriver
) -> None:
    async with registered(image, folder, kubelet, driver) as registrar:
        inside = ("nsenter", "--target", str(await registrar.pid()), "-m", "-p", "-r", "-w")
        spent = []
        for _ in range(10):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([*inside, *probe_arguments(folder)], check=True, env={})
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        assert min(spent) <= PROBE_CPU_SECONDS


async def test_what_lies_in_a_drivers_folder_is_never_imported(
    image: Image, folder: str, kubelet: SimulatedKubelet, driver: SimulatedDriver
) -> None:
    """The folder is mounted as `/csi`, and `csi` is the name of one of our packages."""
    Path(folder, "__init__.py").write_text("raise SystemExit(99)\n", encoding="ascii")
    async with registered(image, folder, kubelet, driver):
        pass


async def test_nothing_is_compiled_in_a_container(
    image: Image, folder: str, kubelet: SimulatedKubelet, driver: SimulatedDriver
) -> None:
    """On a read-only file system it would be done again at each start."""
    path, options = (image.root / REGISTRAR[1:]).read_text(encoding="utf-8").split()[:2]
    verbose = (path.removeprefix("#!"), f"{options}v")
    async with registered(image, folder, kubelet, driver, interpreter=verbose) as registrar:
        await answer(f"{await registrar.command.url()}/readyz")
        await answer(f"{await registrar.command.url()}/metrics")
        await registrar.command.stop()
        assert "import 'csi_node_driver_registrar.registrar_run'" in registrar.command.log
        assert re.findall(r"# code object from '?(/.*\.py)\b", registrar.command.log) == []


def test_the_image_adds_the_commands_and_their_libraries_and_bytecode_to_its_base(
    image: Image,
) -> None:
    added = _files(image.root) - _files(image.base)
    library = "usr/lib/csi-node-driver-registrar/"
    commands = {"csi-node-driver-registrar", "livenessprobe"}
    of_others = re.compile(
        r"usr/lib/python3\.\d+/.*__pycache__/[\w.-]+\.opt-2\.pyc"
        r"|etc/(hosts|hostname|resolv\.conf)"  # where the builder mounted those of its own
    )
    rest = {each for each in added if not each.startswith(library) and not of_others.match(each)}
    assert rest == commands | {f"usr/bin/{each}" for each in commands}
    endings = {Path(each).suffix for each in added if each.startswith(library)}
    assert not endings & {".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".proto", ".pem"}
    assert not any("simulator" in each or "/pip/" in each for each in added)


def test_there_is_no_shell(image: Image) -> None:
    programs = {path.name for path in (image.root / "usr/bin").iterdir()}
    assert "python3" in programs
    assert not programs & {"sh", "bash", "dash", "busybox"}


def test_the_image_says_what_it_is(image: Image) -> None:
    assert image_entry_point(image) == [REGISTRAR]
    assert image.settings["StopSignal"] == "SIGTERM"
    assert not image.settings.keys() & {"Cmd", "User", "ExposedPorts", "Volumes"}
    labels = image.settings["Labels"]
    assert isinstance(labels, dict)
    assert labels["org.opencontainers.image.revision"] == "0123456789abcdef"


def _files(root: Path) -> set[str]:
    found = (Path(at, name) for at, _, names in os.walk(root) for name in names)
    return {str(path.relative_to(root)) for path in found}
