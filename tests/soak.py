"""An hour's worth of a sidecar's life in fast motion, and what it holds before and after.

`python tests/soak.py` takes some minutes. An hour brings a probe every ten seconds on each of three
endpoints, a scrape every fifteen, and here far more restarts of driver and kubelet than a node has.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import aiohttp
from commanding import REGISTRAR, RunningCommand, running

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Notified
from csi_registration_simulator.kubelet_rules import Timings

NAME = "soak.csi.example.com"
PROBES_AN_HOUR = 360
SCRAPES_AN_HOUR = 240
ROUNDS_AN_HOUR = 60
WARM_UP_ROUNDS = 3
"""Until every path of the code has been taken once."""

PROBED = ("/healthz", "/readyz?verbose", "/livez")
SETTLING_SECONDS = 15.0
TIMINGS = Timings(tick_seconds=0.1)

MAX_SERIES = 200
"""In any state: a call that fails in a way that is new brings the 16 series of its histogram."""

FURTHER_SERIES = "csi_sidecar_operations_seconds"

MAX_FURTHER_FILES = 2
MAX_FURTHER_THREADS = 2
MAX_FURTHER_BYTES = 3 * 2**20
"""Over an hour: the allocator needs some time until it has all that it will ever want."""


@dataclass(frozen=True)
class Held:
    """What a sidecar holds at one moment."""

    files: int
    threads: int
    resident_bytes: int
    series: frozenset[str]

    def __str__(self) -> str:
        return (
            f"{self.files} files, {self.threads} threads, {self.resident_bytes / 1e6:.1f} MB, "
            f"{len(self.series)} series"
        )


@dataclass
class Growth:
    """What a sidecar held before and after, with the bounds on what may lie between."""

    before: Held
    after: Held

    def problems(self) -> list[str]:
        """Return what grew beyond its bound."""
        before, after = self.before, self.after
        bounds = (
            ("files", after.files - before.files, MAX_FURTHER_FILES),
            ("threads", after.threads - before.threads, MAX_FURTHER_THREADS),
            ("bytes", after.resident_bytes - before.resident_bytes, MAX_FURTHER_BYTES),
            ("series", len(_lasting(after.series) - _lasting(before.series)), 0),
            ("series in all", len(after.series), MAX_SERIES),
        )
        return [f"{more} more {what}, over {most}" for what, more, most in bounds if more > most]


@dataclass
class Soak:
    """A sidecar with its peers."""

    driver: SimulatedDriver
    kubelet: SimulatedKubelet
    command: RunningCommand
    session: aiohttp.ClientSession
    url: str

    async def get(self, path: str) -> str:
        """Return the body of an answer that must be good."""
        async with self.session.get(self.url + path) as response:
            body = await response.text()
            assert response.status == 200, f"{path}: {response.status} {body}"
            return body

    async def settle(self) -> None:
        """Wait until it is ready again."""
        begun = time.monotonic()
        while True:
            async with self.session.get(f"{self.url}/readyz") as response:
                if response.status == 200:
                    return
            assert time.monotonic() - begun < SETTLING_SECONDS, self.command.log
            await asyncio.sleep(0.05)

    async def round(self, number: int, *, probes: int, scrapes: int) -> None:
        """Let a driver and a kubelet restart, and ask as often as they are asked meanwhile."""
        before = self.kubelet.mark()
        if number % 2:
            self.driver.vendor_version = f"1.0.{number % 4}"
        await (self.driver.crash() if number % 3 else self.driver.stop())
        await self._ask(probes // 10, self._ask_while_down)
        await self.driver.start()
        if number % 2:
            await self.kubelet.wait_for_record(Notified, after=before)
        else:
            await self.kubelet.restart()
        await self.settle()
        await self._ask(probes, self._probe)
        await self._ask(scrapes, self._scrape)

    async def held(self) -> Held:
        """Return what it holds now."""
        pid = self.command.process.pid
        return Held(
            files=self.command.open_files,
            threads=len(os.listdir(f"/proc/{pid}/task")),
            resident_bytes=self.command.resident_bytes,
            series=frozenset(_series(await self.get("/metrics"))),
        )

    async def _ask(self, times: int, ask: Callable[[], Awaitable[None]]) -> None:
        for _ in range(times):
            await ask()

    async def _probe(self) -> None:
        await asyncio.gather(*(self.get(path) for path in PROBED))

    async def _scrape(self) -> None:
        await self.get("/metrics")

    async def _ask_while_down(self) -> None:
        async with self.session.get(f"{self.url}/healthz") as response:
            await response.read()


def _lasting(series: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in series if not name.startswith(FURTHER_SERIES))


def _series(exposition: str) -> list[str]:
    """Return the names and labels of all series, but for the version that tells itself."""
    lines = (line for line in exposition.splitlines() if not line.startswith("#"))
    return [line.rpartition(" ")[0] for line in lines if "_driver_info{" not in line]


@contextlib.asynccontextmanager
async def soaking() -> AsyncIterator[Soak]:
    """Run a sidecar that kubelet has accepted."""
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as folder:
        arguments = (
            f"--csi-address={folder}/csi.sock",
            f"--kubelet-registration-path={folder}/csi.sock",
            f"--plugin-registration-path={folder}/registration",
            "--http-endpoint=127.0.0.1:0",
            "--monitor-interval=1s",
        )
        async with (
            SimulatedDriver(f"{folder}/csi.sock", name=NAME) as driver,
            SimulatedKubelet(
                f"{folder}/registration", timings=Timings(tick_seconds=0.1)
            ) as kubelet,
            running(REGISTRAR, *arguments) as command,
            aiohttp.ClientSession() as session,
        ):
            soak = Soak(driver, kubelet, command, session, await command.url())
            await soak.settle()
            yield soak
            status, _ = await command.stop()
            assert status == 0, command.log
            assert os.listdir(f"{folder}/registration") == []


async def measure_growth(
    *, rounds: int, probes: int, scrapes: int, say: Callable[[str], object]
) -> Growth:
    """Warm a sidecar up, let that many rounds happen, and return what it held before and after."""
    async with soaking() as soak:
        for number in range(WARM_UP_ROUNDS):
            await soak.round(number, probes=max(probes, 10), scrapes=max(scrapes, 5))
        before = await soak.held()
        say(f"after {WARM_UP_ROUNDS} rounds: {before}")
        for number in range(WARM_UP_ROUNDS, WARM_UP_ROUNDS + rounds):
            await soak.round(number, probes=probes, scrapes=scrapes)
            if (number + 1) % 10 == 0:
                say(f"after {number + 1} rounds: {await soak.held()}")
        return Growth(before, await soak.held())


def main() -> int:
    """Soak for an hour's worth, or for as many as asked; the status is 1 if something grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=1, help="worth of life, not of time")
    arguments = parser.parse_args()

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    growth = asyncio.run(
        measure_growth(
            rounds=ROUNDS_AN_HOUR * arguments.hours,
            probes=PROBES_AN_HOUR // ROUNDS_AN_HOUR,
            scrapes=SCRAPES_AN_HOUR // ROUNDS_AN_HOUR,
            say=say,
        )
    )
    problems = growth.problems()
    say("\n".join(problems) or "nothing grew beyond its bound")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
