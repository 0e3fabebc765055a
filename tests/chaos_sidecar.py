"""One registered instance of the command for a fuzz test that runs without an event loop.

Hypothesis calls a plain function again and again; the loop on which the peers live turns only while
one of the methods here is being called.
"""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from chaos_promises import is_answered
from commanding import RunningCommand, registrar_arguments, running

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_rules import Timings
from registrar.settings import DriverSettings

NAME = "x.csi.example.com"
MAX_LINES_FOR_A_FAULT = 20
SPARE_FILES = 2
"""For a health check that may be under way."""

FLAGS = ("--http-endpoint=127.0.0.1:0", "--monitor-interval=1s", "--timeout=10s")
"""Patient with a driver that stands still between two calls of ours."""

_HEADER = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \w+\.py:\d+\] ")
_ResultT = TypeVar("_ResultT")


class Sidecar:
    """The instance, its peers, and what must be true of it after each fault."""

    def __init__(self, settings: DriverSettings, run: Callable[..., Any]) -> None:
        self.settings = settings
        self.driver = SimulatedDriver(settings.csi_address, name=NAME)
        self.kubelet = SimulatedKubelet(
            settings.registration_folder, timings=Timings(tick_seconds=0.1)
        )
        self.url = ""
        self._run = run
        self._command: RunningCommand | None = None
        self._lines_seen = 0
        self._files = 0

    @property
    def command(self) -> RunningCommand:
        """The process."""
        assert self._command is not None
        return self._command

    @property
    def path(self) -> str:
        """Where kubelet calls."""
        return f"{self.settings.registration_folder}/{NAME}-reg.sock"

    def call(self, coroutine: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        """Let the loop turn until the coroutine is done."""
        result: _ResultT = self._run(coroutine)
        return result

    def check(self, *, max_lines: int = MAX_LINES_FOR_A_FAULT) -> None:
        """See that it is registered, answers, has logged little, and holds no more files."""
        self.call(self._check(max_lines))

    @contextlib.asynccontextmanager
    async def living(self) -> Any:  # noqa: ANN401 - an async iterator of nothing
        """Run it and its peers while the block runs."""
        arguments = registrar_arguments(self.settings, *FLAGS)
        async with self.kubelet, self.driver, running(*arguments) as self._command:
            self.url = await self.command.url()
            await self.kubelet.wait_for(lambda: NAME in self.kubelet.csinode)
            await self._is_answering()
            self._lines_seen = len(self.command.lines)
            self._files = self.command.open_files
            yield
            assert self.command.process.returncode is None, self.command.log
            status, _ = await self.command.stop()
            assert status == 0, self.command.log

    async def _check(self, max_lines: int) -> None:
        await _eventually(self._is_answering)
        await _eventually(self._is_registered)
        await _eventually(self._holds_no_more_files)
        assert self.command.process.returncode is None, self.command.log
        new = self.command.lines[self._lines_seen :]
        self._lines_seen += len(new)
        assert len(new) < max_lines, "".join(new)
        for line in new:
            assert _HEADER.match(line), f"no line of the log: {line!r} in\n{''.join(new)}"

    async def _is_answering(self) -> bool:
        return await is_answered(self.path, NAME)

    async def _is_registered(self) -> bool:
        return NAME in self.kubelet.csinode

    async def _holds_no_more_files(self) -> bool:
        return self.command.open_files <= self._files + SPARE_FILES


async def _eventually(is_true: Callable[[], Awaitable[bool]], timeout_seconds: float = 8) -> None:
    """Wait until something holds that no event tells of."""
    begun = time.monotonic()
    while not await is_true():
        assert time.monotonic() - begun < timeout_seconds, f"never {is_true.__name__}"
        await asyncio.sleep(0.02)


@contextlib.contextmanager
def registered_sidecar(settings: DriverSettings) -> Iterator[Sidecar]:
    """Run an instance that kubelet has accepted, and see that it ends cleanly."""
    with asyncio.Runner() as runner:
        sidecar = Sidecar(settings, runner.run)
        life = sidecar.living()
        runner.run(life.__aenter__())
        try:
            yield sidecar
        finally:
            runner.run(life.__aexit__(None, None, None))
    left = os.listdir(settings.registration_folder)
    assert left == [], left
