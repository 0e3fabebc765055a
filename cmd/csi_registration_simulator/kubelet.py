"""A simulated kubelet, as far as it registers CSI drivers: the parts put together.

It follows kubelet 1.36 (or 1.34) in what a registrar and a driver can observe. It has no pods, no
API server and no volumes.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Self

from csi_registration_simulator.csi_volume_plugin import CSIVolumePlugin
from csi_registration_simulator.folder_watch import FolderWatch, watching
from csi_registration_simulator.kubelet_records import NodeInfo, Started, Stopped
from csi_registration_simulator.kubelet_rules import KUBELET_1_36, Rules, Timings
from csi_registration_simulator.operations import Operations
from csi_registration_simulator.plugin_registration import Disturbances, PluginRegistration
from csi_registration_simulator.reconciler import Reconciler
from csi_registration_simulator.records import Recorder
from csi_registration_simulator.task_groups import RunningTasks


def same_path(host_path: str) -> str:
    """Take a path of the host for a path here."""
    return host_path


def mapped(host_prefix: str, local_prefix: str) -> Callable[[str], str]:
    """Return a function that turns a path of the host into one here, by its beginning."""

    def local_path(host_path: str) -> str:
        path = Path(host_path)
        if not path.is_relative_to(host_prefix):
            return host_path
        return str(Path(local_prefix) / path.relative_to(host_prefix))

    return local_path


class SimulatedKubelet(Recorder):
    """A kubelet that watches one registration folder, as an async context manager."""

    def __init__(
        self,
        folder: str | Path,
        *,
        rules: Rules = KUBELET_1_36,
        timings: Timings | None = None,
        local_path: Callable[[str], str] = same_path,
    ) -> None:
        """Prepare a kubelet; it does nothing until it is started.

        Args:
            folder: The registration folder; created if it is missing, as kubelet does.
            rules: The release that it follows.
            timings: Its intervals and deadlines; those of a real kubelet if absent.
            local_path: Turns an endpoint, which is a path of the host, into one here: `mapped`.
        """
        super().__init__()
        self.folder = str(Path(folder).absolute())
        self.csinode: dict[str, NodeInfo] = {}
        """The drivers in the node's CSINode object, which outlives this kubelet's restarts."""
        self.disturbances = Disturbances()
        """What goes wrong or takes its time; to be set at any moment."""
        self._rules = rules
        self._timings = timings or Timings()
        self._local_path = local_path
        self._refusals: list[str] = []
        self._life: _Life | None = None

    async def __aenter__(self) -> Self:
        """Start it.

        Raises:
            OSError: The folder cannot be made or watched.
        """
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop it, if it runs."""
        await self.stop()

    async def run(self) -> NoReturn:
        """Start it and keep it running until this is cancelled."""
        async with self:
            while True:
                await asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """Watch the folder and call every socket that is there.

        Raises:
            OSError: The folder cannot be made or watched.
        """
        if self._life is not None:
            raise RuntimeError("this kubelet runs already")
        self._make_folder()
        async with contextlib.AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(RunningTasks())
            reconciler = self._new_reconciler(tasks)
            self.record(Started())
            watch = await stack.enter_async_context(watching(self.folder, reconciler))
            tasks.create_task(reconciler.tick_forever(self._timings), name="kubelet reconciler")
            self._life = _Life(reconciler, watch, stack.pop_all())

    async def stop(self) -> None:
        """Break off whatever is going on, as SIGKILL would; nothing is written or called."""
        if self._life is not None:
            life, self._life = self._life, None
            await life.stack.aclose()
            self.record(Stopped())

    async def restart(self) -> None:
        """Stop and start again: all that kubelet knew is gone, except for the CSINode object."""
        await self.stop()
        await self.start()

    def silence(self) -> None:
        """Look at the folder no more, as a kubelet that hangs. Calls that have begun go on."""
        if not self._living.reconciler.is_paused:
            self._living.reconciler.is_paused = True
            self._living.watch.pause()

    def resume(self) -> None:
        """Look at the folder again, at what happened meanwhile first."""
        if self._living.reconciler.is_paused:
            self._living.reconciler.is_paused = False
            self._living.watch.resume()

    def refuse_next(self, count: int, text: str) -> None:
        """Let the next registrations fail, as when the API server refuses the CSINode object.

        The text reaches the registrar behind kubelet's own words `RegisterPlugin error -- plugin
        registration failed with err: `.
        """
        self._refusals.extend([text] * count)

    @property
    def desired_socket_paths(self) -> list[str]:
        """The desired state of the world: the sockets that kubelet has seen."""
        return sorted(self._living.reconciler.desired)

    @property
    def registered_socket_paths(self) -> list[str]:
        """The actual state of the world: the sockets that kubelet takes for registered."""
        return sorted(self._living.reconciler.actual)

    def _make_folder(self) -> None:
        Path(self.folder).mkdir(parents=True, exist_ok=True)

    @property
    def _living(self) -> "_Life":
        if self._life is None:
            raise RuntimeError("this kubelet does not run")
        return self._life

    def _new_reconciler(self, tasks: RunningTasks) -> Reconciler:
        volume_plugin = CSIVolumePlugin(
            self.csinode, self._refusals, self._timings, self._local_path, self.record
        )
        registration = PluginRegistration(
            volume_plugin, self._rules, self._timings, self.disturbances, self.record
        )
        return Reconciler(registration, Operations(tasks, self._timings), self.record)


@dataclass(frozen=True, slots=True)
class _Life:
    """What one kubelet process knows and does between its start and its end."""

    reconciler: Reconciler
    watch: FolderWatch
    stack: contextlib.AsyncExitStack
