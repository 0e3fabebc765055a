"""Measures what the registrar costs on a node: `make bench`. Medians of one run on one machine.

No test judges these figures; the budgets beside them are what the project aims at.
"""

import argparse
import asyncio
import contextlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import grpc.aio
from commanding import REGISTRAR, RunningCommand, running

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Notified, SocketCreated
from pluginregistration.v1 import registration_pb2, registration_pb2_grpc
from registrar.unix_sockets import grpc_target

NAME = "bench.csi.example.com"
TICKS_PER_SECOND = 100


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    what: str
    values: list[float]
    unit: str
    budget: str

    def row(self) -> str:
        """Return the row: median, spread, budget."""
        median = statistics.median(self.values)
        spread = f"{min(self.values):.2f} … {max(self.values):.2f}"
        return f"{self.what:<46}{median:>9.2f} {self.unit:<4}{spread:>20}   {self.budget}"


@dataclass(frozen=True)
class Bench:
    """A folder with a driver and a kubelet, for one registrar after the other."""

    folder: str
    driver: SimulatedDriver
    kubelet: SimulatedKubelet

    def arguments(self, *more: str) -> tuple[str, ...]:
        """Return the registrar's command line."""
        return (
            REGISTRAR,
            f"--csi-address={self.folder}/csi.sock",
            f"--kubelet-registration-path={self.folder}/csi.sock",
            f"--plugin-registration-path={self.folder}/registration",
            "--http-endpoint=127.0.0.1:0",
            *more,
        )

    @contextlib.asynccontextmanager
    async def registrar(self, *more: str) -> AsyncIterator[RunningCommand]:
        """Run a registrar until kubelet has accepted it, and while the block runs."""
        before = self.kubelet.mark()
        async with running(*self.arguments(*more)) as command:
            await self.kubelet.wait_for_record(Notified, after=before)
            yield command
            await command.stop()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def switches(pid: int) -> int:
    """Return how often the threads of a process have gone to sleep by themselves."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text(encoding="ascii").splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


async def start_figures(bench: Bench, runs: int) -> list[Figure]:
    """Measure from exec to the socket, and the CPU until kubelet has accepted."""
    socket_seconds, cpu = [], []
    for _ in range(runs):
        before, begun = bench.kubelet.mark(), time.monotonic()
        async with bench.registrar() as command:
            seen = await bench.kubelet.wait_for_record(SocketCreated, after=before)
            socket_seconds.append(seen.at_seconds - begun)
            cpu.append(cpu_seconds(command.process.pid))
    return [
        Figure("start to registration socket", socket_seconds, "s", "<= 0.30"),
        Figure("CPU until registered", cpu, "s", "<= 0.25"),
    ]


async def probe_figures(bench: Bench, probes: int) -> list[Figure]:
    """Measure probes and scrapes, and the memory before and after them."""
    async with bench.registrar() as command, aiohttp.ClientSession() as session:
        url = await command.url()

        async def milliseconds(path: str) -> float:
            begun = time.perf_counter()
            async with session.get(url + path) as response:
                await response.read()
            return 1000 * (time.perf_counter() - begun)

        first = command.resident_bytes / 1e6
        healthz = [await milliseconds("/healthz") for _ in range(probes)]
        scrapes = [await milliseconds("/metrics") for _ in range(100)]
        after = command.resident_bytes / 1e6
        for _ in range(probes):
            await milliseconds("/healthz")
        later = command.resident_bytes / 1e6
        idle_begun, idle_cpu = switches(command.process.pid), cpu_seconds(command.process.pid)
        await asyncio.sleep(10)
        wakeups = (switches(command.process.pid) - idle_begun) / 10
        idle = 10 * (cpu_seconds(command.process.pid) - idle_cpu)
    return [
        Figure(
            "/healthz with the driver's call, p50", [statistics.median(healthz)], "ms", "<= 1.5"
        ),
        Figure("/metrics, p99", [sorted(scrapes)[98]], "ms", "<= 5"),
        Figure("resident memory once registered", [first], "MB", ""),
        Figure(f"… after {probes} probes and 100 scrapes", [after], "MB", "<= 48"),
        Figure(f"… after {probes} more", [later], "MB", "no growth"),
        Figure("wake-ups a second, idle", [wakeups], "", "<= 12"),
        Figure("CPU, idle", [idle], "%", "<= 0.1"),
    ]


async def hang_figures(bench: Bench) -> list[Figure]:
    """Measure GetInfo while the driver hangs and forty probes wait for it."""
    async with (
        bench.registrar("--probe-timeout=20s") as command,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        url = await command.url()
        bench.driver.is_black_hole = True
        probes = [asyncio.create_task(session.get(f"{url}/healthz")) for _ in range(40)]
        target = grpc_target(f"{bench.folder}/registration/{NAME}-reg.sock")
        milliseconds = []
        async with grpc.aio.insecure_channel(target) as channel:
            stub = registration_pb2_grpc.RegistrationStub(channel)
            for _ in range(500):
                begun = time.perf_counter()
                await stub.GetInfo(registration_pb2.InfoRequest(), timeout=1.0)
                milliseconds.append(1000 * (time.perf_counter() - begun))
        bench.driver.is_black_hole = False
        for probe in probes:
            (await probe).close()
    return [
        Figure("GetInfo beside 40 hanging probes, p99", [sorted(milliseconds)[494]], "ms", "<= 20")
    ]


def child_cpu_milliseconds(command: list[str], runs: int) -> list[float]:
    """Run a command again and again; return the CPU time of each run."""
    used = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        used.append(1000 * seconds)
    return used


async def exec_probe_figures(bench: Bench, runs: int) -> list[Figure]:
    """Measure the exec probe against a registered sidecar, beside a Python that does nothing."""
    async with bench.registrar():
        command = [
            *bench.arguments()[:1],
            *bench.arguments()[2:4],
            "--mode=kubelet-registration-probe",
        ]
        probe = await asyncio.to_thread(child_cpu_milliseconds, command, runs)
        bare = await asyncio.to_thread(child_cpu_milliseconds, [sys.executable, "-c", ""], runs)
    return [
        Figure("CPU of one exec probe", probe, "ms", "<= 40"),
        Figure("… of a Python that does nothing", bare, "ms", ""),
    ]


async def measure(runs: int, probes: int) -> list[Figure]:
    """Measure everything, one after the other."""
    with tempfile.TemporaryDirectory(prefix="b", dir="/tmp") as folder:
        async with (
            SimulatedDriver(f"{folder}/csi.sock", name=NAME) as driver,
            SimulatedKubelet(f"{folder}/registration") as kubelet,
        ):
            bench = Bench(folder, driver, kubelet)
            return [
                *await start_figures(bench, runs),
                *await probe_figures(bench, probes),
                *await hang_figures(bench),
                *await exec_probe_figures(bench, 20),
            ]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="starts to measure")
    parser.add_argument("--probes", type=int, default=4000, help="probes before memory is read")
    arguments = parser.parse_args()
    sys.stdout.write(f"{'':<46}{'median':>9}     {'spread':>20}   budget\n")
    for figure in asyncio.run(measure(arguments.runs, arguments.probes)):
        sys.stdout.write(f"{figure.row()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
