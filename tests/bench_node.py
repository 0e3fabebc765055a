"""A node to measure on: a driver in a process of its own, a simulated kubelet, and readings."""

import asyncio
import contextlib
import dataclasses
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from commanding import REGISTRAR, RunningCommand, running

from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Notified

NAME = "bench{}.csi.example.com"
TICKS_PER_SECOND = 100


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One row of the table."""

    what: str
    values: Sequence[float]
    unit: str
    budget: float | None = None
    """What it may be at most."""
    ours: bool = True
    """Whether it is of this program, or one to compare it with."""

    @property
    def median(self) -> float:
        """The middle of the values."""
        return statistics.median(self.values)

    @property
    def spread(self) -> str:
        """The least and the greatest of them, if there are several."""
        if len(self.values) == 1:
            return ""
        return f"{min(self.values):.2f} … {max(self.values):.2f}"


@dataclass(frozen=True)
class Node:
    """A folder with drivers and a kubelet, for one registrar after the other."""

    folder: str
    kubelet: SimulatedKubelet
    prefix: tuple[str, ...] = ()
    """What the registrar's command line begins with, such as `taskset`."""
    program: str = REGISTRAR
    drivers: int = 1
    flags: tuple[str, ...] = ()
    driver_pids: tuple[int, ...] = ()

    def driver_socket(self, number: int = 0) -> str:
        """Return the path of a driver's socket."""
        return f"{self.folder}/csi{number}.sock"

    def registration_socket(self, number: int = 0) -> str:
        """Return where the registrar is to answer for a driver."""
        return f"{self.folder}/registration/{NAME.format(number)}-reg.sock"

    def arguments(self) -> tuple[str, ...]:
        """Return the registrar's command line."""
        pairs = [
            f"--{flag}={self.driver_socket(number)}"
            for number in range(self.drivers)
            for flag in ("csi-address", "kubelet-registration-path")
        ]
        folder = f"--plugin-registration-path={self.folder}/registration"
        return (*self.prefix, self.program, *pairs, folder, *self.flags)

    def freeze_driver(self) -> None:
        """Stop the first driver in its tracks."""
        os.kill(self.driver_pids[0], signal.SIGSTOP)

    def thaw_driver(self) -> None:
        """Let it go on."""
        os.kill(self.driver_pids[0], signal.SIGCONT)

    async def _registered(self, path: str, mark: int) -> None:
        await self.kubelet.wait_for_record(
            Notified, lambda notified: notified.socket_path == path, after=mark, timeout_seconds=120
        )

    @asynccontextmanager
    async def registrar(self) -> AsyncIterator[RunningCommand]:
        """Run a registrar until kubelet has accepted every driver, and while the block runs."""
        before = self.kubelet.mark()
        async with running(*self.arguments()) as command:
            for number in range(self.drivers):
                await self._registered(self.registration_socket(number), before)
            yield command
            await command.stop()
        await asyncio.sleep(1.2)  # until kubelet has seen it go


@asynccontextmanager
async def a_node(drivers: int = 1) -> AsyncIterator[Node]:
    """Run drivers and a kubelet while the block runs."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="b", dir="/tmp"))
        kubelet = await stack.enter_async_context(SimulatedKubelet(f"{folder}/registration"))
        node = Node(folder, kubelet, drivers=drivers, flags=("--http-endpoint=127.0.0.1:0",))
        pids = []
        for number in range(drivers):
            path, name = node.driver_socket(number), NAME.format(number)
            script = str(Path(__file__).with_name("bench_driver.py"))
            driver = await stack.enter_async_context(running(sys.executable, script, path, name))
            await driver.wait_for_log("listening")
            pids.append(driver.process.pid)
        yield dataclasses.replace(node, driver_pids=tuple(pids))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def megabytes(pid: int) -> dict[str, float]:
    """Return what a process holds: Rss, Pss, Anonymous and others (proc(5), smaps_rollup)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) * 1024 / 1e6 for line in lines}


def wake_ups(pid: int) -> int:
    """Return how often the threads of a process have gone to sleep by themselves."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            for line in (task / "status").read_text(encoding="ascii").splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    total += int(line.split()[1])
    return total


def get(url: str, path: str) -> float:
    """GET as kubelet's prober does, a connection each; return how many milliseconds it took.

    Raises:
        RuntimeError: if the answer is not 200.
    """
    where = urlsplit(url)
    begun = time.perf_counter()
    with socket.create_connection((where.hostname, where.port), timeout=30) as connection:
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n".encode()
        )
        answer = b""
        while received := connection.recv(65536):
            answer += received
    took = 1000 * (time.perf_counter() - begun)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"{path} was answered with {answer[:200]!r}")
    return took


def get_often(url: str, path: str, times: int) -> list[float]:
    """GET one time after the other; return how many milliseconds each took, the shortest first."""
    return sorted(get(url, path) for _ in range(times))


def part_of(ordered: Sequence[float], part: float) -> float:
    """Return the value that this part of them does not exceed, such as 0.99."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


@asynccontextmanager
async def regular_gets(url: str, path: str, every_seconds: float) -> AsyncIterator[None]:
    """GET regularly while the block runs.

    Raises:
        RuntimeError: in a group and at once, if an answer is not 200.
    """

    async def go_on() -> None:
        while True:
            await asyncio.sleep(every_seconds)
            await asyncio.to_thread(get, url, path)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(go_on())
        yield
        task.cancel()


def free_port() -> int:
    """Return a port of the loopback that is free now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


async def until_it_listens(port: int) -> None:
    """Wait until somebody listens on a port of the loopback.

    Raises:
        TimeoutError: if nobody does within 15 s.
    """
    async with asyncio.timeout(15):
        while True:
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    return
            await asyncio.sleep(0.01)
