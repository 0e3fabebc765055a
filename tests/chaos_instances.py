"""An instance of the installed command in a chaos world: a process, and what its log tells."""

import asyncio
import contextlib
import re
import resource
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from chaos_promises import Violation, threads_of, waited_for_cpu_seconds
from commanding import RunningCommand, registrar_arguments, running

from registrar.settings import DriverSettings

MIN_SECONDS_BETWEEN_ANNOUNCEMENTS = 2.0
LOG_SECONDS = 0.1
"""A line may be written so much later than what it tells of."""

START_SECONDS = 20.0
MAX_LINES_AT_ONCE = 40
"""In a tenth of a second, or while an event happens; far more than there is to say of one."""

_HEADER = re.compile(r"[IWEF]\d{4} (\d\d):(\d\d):(\d\d\.\d{6}) ")
_FOUND = re.compile(r'"CSI driver found" driverName="([^"]*)"')
_PUBLISHED = re.compile(r'"Registration socket published(?: again)?".* socketPath="([^"]*)"')
# What a new instance says once it has done what it can: registered, or why it could not.
_SETTLED = (
    "Registration socket published",
    "Registration socket cannot be published",
    "CSI driver does not answer",
)


@dataclass
class Instance:
    """One process, alive or not."""

    command: RunningCommand
    number: int
    driver_name: str = ""
    """The driver that it has found last."""
    is_settled: bool = False
    is_leaving: bool = False
    is_starved: bool = False
    """Whether it has no file descriptor left."""
    waited_seconds: float = 0.0
    """How long it has been kept from running."""
    _lines_read: int = 0
    _announced: dict[str, float] = field(default_factory=dict)

    @property
    def is_alive(self) -> bool:
        """Whether it owes something: it has started, and nobody has ended it."""
        return self.is_settled and not self.is_leaving

    def check(self) -> None:
        """Read what is new in its log, and see that it runs.

        Raises:
            Violation: if it ended by itself, announced too soon, or writes too much.
        """
        status = self.command.process.returncode
        if status is not None and not self.is_leaving:
            raise Violation(f"instance {self.number} ended with {status}:\n{self.command.log}")
        new = self.command.lines[self._lines_read :]
        self._lines_read += len(new)
        if len(new) > MAX_LINES_AT_ONCE:
            raise Violation(f"instance {self.number} wrote {len(new)} lines:\n{''.join(new[:50])}")
        for line in new:
            self._take(line)

    def sample(self) -> None:
        """Take note of how long it has been kept from running so far."""
        waited = waited_for_cpu_seconds(self.command.process.pid)
        self.waited_seconds = max(self.waited_seconds, waited)

    def _take(self, line: str) -> None:
        if line.startswith("Traceback"):
            raise Violation(f"instance {self.number} wrote a traceback:\n{self.command.log}")
        self.is_settled = self.is_settled or any(text in line for text in _SETTLED)
        if found := _FOUND.search(line):
            self.driver_name = found[1]
        if (published := _PUBLISHED.search(line)) and (header := _HEADER.match(line)):
            hours, minutes, seconds = header.groups()
            at = 3600 * int(hours) + 60 * int(minutes) + float(seconds)
            self._check_pace(published[1], at)

    def _check_pace(self, path: str, at: float) -> None:
        before, self._announced[path] = self._announced.get(path), at
        # At midnight the clock of the log falls back by a day.
        if before is None or at < before:
            return
        if at - before < MIN_SECONDS_BETWEEN_ANNOUNCEMENTS - LOG_SECONDS:
            raise Violation(
                f"instance {self.number} announced {path} again after {at - before:.3f} s:\n"
                f"{self.command.log}"
            )

    async def settle(self) -> None:
        """Wait until it has done what it can at its start.

        Raises:
            Violation: if it says nothing.
        """
        try:
            async with asyncio.timeout(START_SECONDS):
                self.check()
                while not self.is_settled:
                    await self.command._grown.wait()
                    self.check()
        except TimeoutError:
            text = f"instance {self.number} did not start:\n{self.command.log}"
            raise Violation(text) from None

    def hang_up(self) -> None:
        """Ask for an announcement."""
        self.command.process.send_signal(signal.SIGHUP)

    def starve(self) -> None:
        """Leave it no further file descriptor."""
        limit = self.command.open_files
        _, hard = resource.prlimit(self.command.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.command.process.pid, resource.RLIMIT_NOFILE, (limit, hard))
        self.is_starved = True

    def feed(self) -> None:
        """Give it file descriptors again."""
        _, hard = resource.prlimit(self.command.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.command.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        self.is_starved = False

    async def stop(self) -> tuple[int, float]:
        """Ask it to end; return the status and how many seconds it took.

        Raises:
            Violation: if it does not end at all.
        """
        self.is_leaving = True
        try:
            return await self.command.stop(signal.SIGTERM)
        except TimeoutError:
            raise Violation(
                f"instance {self.number} does not end; its threads are in "
                f"{threads_of(self.command.process.pid)}:\n{self.command.log}"
            ) from None

    async def kill(self) -> None:
        """End it without a chance to clean up."""
        self.is_leaving = True
        await self.command.stop(signal.SIGKILL)


@contextlib.asynccontextmanager
async def instance_running(
    settings: DriverSettings, number: int, *flags: str
) -> AsyncIterator[Instance]:
    """Run an instance while the block runs, unless it is ended before."""
    async with running(*registrar_arguments(settings, *flags)) as command:
        yield Instance(command, number)
