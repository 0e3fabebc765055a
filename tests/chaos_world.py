"""One chaos world: a folder, a driver, a kubelet and up to three instances of the command.

It knows what is the case there, and from it what is owed. What happens is in `chaos_events`.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from chaos_instances import Instance, instance_running
from chaos_promises import ForeignFiles, Promise, Violation, is_answered

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Notified, SocketCreated
from csi_registration_simulator.kubelet_rules import KUBELET_1_34, Rules, Timings
from csi_registration_simulator.records import Record
from registrar.settings import DriverSettings, OnRegistrationFailure

NAMES = ("a.csi.example.com", "b.csi.example.com")
INSTANCES = 3

TIMINGS = Timings(
    tick_seconds=0.2,
    dial_seconds=1.0,
    get_info_seconds=1.0,
    node_get_info_seconds=1.0,
    notify_seconds=1.0,
    first_back_off_seconds=0.1,
    longest_back_off_seconds=0.4,
)
"""kubelet in fast motion. What it may owe is the sum of these, see KUBELET_SECONDS."""

SLACK_SECONDS = 0.5
"""For two processes that share cores with everything else on the machine."""

ANSWER_SECONDS = 2.0 + SLACK_SECONDS
"""The promise: published again within two seconds."""

KUBELET_SECONDS = (
    ANSWER_SECONDS
    # A try that is under way ends, and fails,
    + TIMINGS.dial_seconds
    + TIMINGS.get_info_seconds
    + TIMINGS.node_get_info_seconds
    + TIMINGS.notify_seconds
    # its pause is over, the driver is deregistered at a tick and registered at another,
    + TIMINGS.longest_back_off_seconds
    + 2 * TIMINGS.tick_seconds
    # and each step of that takes as long as the slowest disturbance lets it.
    + 2.0
)

UNNOTICED_SECONDS = 6.5
"""A driver that hung is asked again within its back-off of 5 s; the call before takes another."""

STOP_SECONDS = 2.0
"""One second is promised, and the interpreter ends, too."""

SLOW_SECONDS = 0.4
SAMPLE_SECONDS = 0.1
INJECTED = "the API server is down for maintenance"


@dataclass(frozen=True)
class Blocker:
    """What is no socket and lies where the registration socket belongs."""

    kind: str
    path: str


class World:
    """What is the case in one world, and what is owed to it."""

    def __init__(self, root: str, rules: Rules, monitor_interval_seconds: int) -> None:
        self.disk = f"{root}/disk"
        """Perhaps a small one, which can be filled."""
        self.folder = f"{self.disk}/registration"
        self.driver = SimulatedDriver(f"{root}/csi.sock", name=NAMES[0])
        self.kubelet = SimulatedKubelet(self.folder, rules=rules, timings=TIMINGS)
        self.kubelet.listeners.append(self._note_kubelet)
        self.instances: dict[int, Instance] = {}
        self.foreign = ForeignFiles()
        self.blocker: Blocker | None = None
        self.is_driver_running = False
        self.is_kubelet_running = False
        self.is_kubelet_watching = False
        self.is_kubelet_hung = False
        self.is_full = False
        self.killed_at = 0.0
        self.orphans: set[str] = set()
        """Sockets that whoever left them there cannot remove, and nobody else may for sure."""
        self.instances_ever = 0
        self.path_promise = Promise("the registration path answers", ANSWER_SECONDS)
        self.kubelet_promise = Promise("kubelet has the driver in CSINode", KUBELET_SECONDS)
        self._monitor_interval_seconds = monitor_interval_seconds
        self._rules = rules
        self._refusals = 0
        self._is_verdict_lost = False
        self._noticed_at = 0.0
        self._is_answered = False
        self._lag_seconds = 0.0
        self._waited_before = 0.0
        self._is_settled = False
        self._sampled = asyncio.Event()
        self._decoys: list[socket.socket] = []
        self._stacks: dict[int, contextlib.AsyncExitStack] = {}

    @property
    def path(self) -> str:
        """Where the registration socket of the driver belongs."""
        return f"{self.folder}/{self.driver.name}-reg.sock"

    @property
    def has_folder(self) -> bool:
        """Whether the registration folder is there."""
        return os.path.isdir(self.folder)

    @property
    def is_driver_answering(self) -> bool:
        """Whether the driver answers within the sidecar's limit."""
        is_quick = self.driver.delay_seconds.get("GetPluginInfo", 0.0) <= SLOW_SECONDS
        return self.is_driver_running and not self.driver.is_black_hole and is_quick

    @property
    def alive(self) -> list[Instance]:
        """The instances that live and owe something."""
        return [one for one in self.instances.values() if one.is_alive]

    @property
    def is_path_owed(self) -> bool:
        """Whether the registration path has to answer."""
        if not self.has_folder or self.is_full or any(one.is_starved for one in self._running()):
            return False
        if self.blocker is not None and self.blocker.path == self.path:
            return False
        return any(one.driver_name == self.driver.name for one in self.alive) or (
            bool(self.alive) and self.is_driver_answering and time.monotonic() >= self._noticed_at
        )

    @property
    def is_registration_owed(self) -> bool:
        """Whether kubelet has to have the driver."""
        is_kubelet_fit = (
            self.is_kubelet_running and self.is_kubelet_watching and not self.is_kubelet_hung
        )
        is_disturbed = self.kubelet._refusals or self.kubelet.disturbances.lost_notifies
        return (
            self.is_path_owed
            and is_kubelet_fit
            and self.is_driver_answering
            and not is_disturbed
            and not self.is_kubelet_stuck
        )

    @property
    def is_kubelet_stuck(self) -> bool:
        """Whether kubelet takes a driver that it refused for done, and could not tell us so."""
        return self._is_verdict_lost and self._rules is KUBELET_1_34

    def disturbed(self) -> None:
        """Take note that the path was meddled with just now."""
        self.path_promise.disturbed(self.stolen_seconds)
        self.kubelet_promise.disturbed(self.stolen_seconds)

    def unnoticed(self) -> None:
        """Take note that the driver answers again on a socket that stayed the same."""
        self._noticed_at = time.monotonic() + UNNOTICED_SECONDS

    @property
    def stolen_seconds(self) -> float:
        """How long the machine has kept us and the instances from running, all in all."""
        return (
            self._lag_seconds
            + self._waited_before
            + sum(one.waited_seconds for one in self.instances.values())
        )

    async def start_instance(self, number: int) -> None:
        """Start an instance and wait until it has done what it can."""
        settings = DriverSettings(
            csi_address=self.driver.csi_address,
            kubelet_registration_path=self.driver.csi_address,
            registration_folder=self.folder,
            timeout_seconds=1.0,
            monitor_interval_seconds=self._monitor_interval_seconds,
            kubelet_silence_seconds=30.0,
            on_registration_failure=OnRegistrationFailure.RETRY,
        )
        stack = self._stacks[number] = contextlib.AsyncExitStack()
        interval = f"--monitor-interval={self._monitor_interval_seconds}s"
        self.instances_ever += 1
        instance = await stack.enter_async_context(
            instance_running(settings, self.instances_ever, interval)
        )
        self.instances[number] = instance
        await instance.settle()

    async def end_instance(self, number: int, *, is_killed: bool) -> None:
        """End an instance, by SIGTERM or SIGKILL."""
        instance = self.instances[number]
        self.disturbed()
        if is_killed:
            await instance.kill()
            self.killed_at = time.monotonic()
            self.orphans.add(f"{instance.driver_name}-reg.sock")
        else:
            await self._stop(instance)
        self.disturbed()
        instance.check()
        self._waited_before += instance.waited_seconds
        del self.instances[number]
        await self._stacks.pop(number).aclose()

    async def _stop(self, instance: Instance) -> None:
        stolen, asked_at = self.stolen_seconds, time.strftime("%H:%M:%S")
        status, seconds = await instance.stop()
        if status != 0 or seconds > STOP_SECONDS + self.stolen_seconds - stolen:
            raise Violation(
                f"instance {instance.number} was asked to end at {asked_at} and ended with "
                f"{status} after {seconds:.2f} s:\n{instance.command.log}"
            )

    async def close(self) -> None:
        """End whatever runs, as hard as need be."""
        for stack in self._stacks.values():
            await stack.aclose()
        await self.driver.stop()
        await self.kubelet.stop()
        for decoy in self._decoys:
            decoy.close()

    def leftovers(self) -> set[str]:
        """Return what is in the folder and is neither foreign nor given up.

        A dead socket of the driver's present name is not given up: the next instance takes it over.
        """
        orphans = self.orphans - {os.path.basename(self.path)}
        return set(os.listdir(self.folder)) - self.foreign.names_in(self.folder) - orphans

    def make_folder(self) -> None:
        """Make the registration folder, with files in it that are not the registrar's."""
        os.mkdir(self.folder)
        os.mkdir(f"{self.folder}/subfolder")
        with open(f"{self.folder}/notes.txt", "w", encoding="ascii") as notes:
            notes.write("not a socket")
        os.symlink(f"{self.disk}/target", f"{self.folder}/link-reg.sock")
        self._listen(f"{self.folder}/other.csi.example.com-reg.sock")
        self._listen(f"{self.folder}/.hidden")
        for name in os.listdir(self.folder):
            if not name.startswith(".reg-"):
                self.foreign.add(f"{self.folder}/{name}")

    def _listen(self, path: str) -> None:
        decoy = socket.socket(socket.AF_UNIX)
        decoy.bind(path)
        decoy.listen()
        self._decoys.append(decoy)

    async def remove_folder(self) -> None:
        """Remove the registration folder at once, whatever lies in it."""
        self.foreign.forget_below(f"{self.folder}/")
        self.blocker = None
        self.is_kubelet_watching = False
        gone = tempfile.mkdtemp(prefix="gone", dir=self.disk)
        os.rename(self.folder, gone)
        shutil.rmtree(gone)

    def fill(self) -> None:
        """Take every inode of the file system on which the folder is."""
        self.is_full = True
        with contextlib.suppress(OSError):
            for number in range(10_000):
                path = f"{self.folder}/.fill-{number}"
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
                self.foreign.add(path)

    def empty(self) -> None:
        """Give the inodes back."""
        self.foreign.forget_below(f"{self.folder}/.fill-")
        for name in os.listdir(self.folder):
            if name.startswith(".fill-"):
                os.unlink(f"{self.folder}/{name}")
        self.is_full = False

    async def probe_path(self) -> None:
        """Ask GetInfo at the path again and again."""
        while True:
            self._is_answered = await is_answered(self.path, self.driver.name)
            await asyncio.sleep(SAMPLE_SECONDS)

    async def watch(self) -> None:
        """Look again and again whether all that is owed is kept.

        Raises:
            Violation: if it is not.
        """
        while True:
            begun = time.monotonic()
            await asyncio.sleep(SAMPLE_SECONDS)
            self._lag_seconds += max(0.0, time.monotonic() - begun - SAMPLE_SECONDS - 0.02)
            self.check()

    def check(self) -> None:
        """Take one sample of everything.

        Raises:
            Violation: if something is broken.
        """
        self.foreign.check()
        for instance in self.instances.values():
            instance.sample()
            if not instance.is_leaving:
                instance.check()
        stolen = self.stolen_seconds
        is_kept = [
            self.path_promise.see(
                is_owed=self.is_path_owed, is_kept=self._is_answered, stolen_seconds=stolen
            ),
            self.kubelet_promise.see(
                is_owed=self.is_registration_owed,
                is_kept=self.driver.name in self.kubelet.csinode,
                stolen_seconds=stolen,
            ),
        ]
        self._is_settled = all(is_kept)
        self._sampled.set()
        self._sampled = asyncio.Event()

    async def all_owed(self) -> None:
        """Wait until everything is owed, as it is some time after every fault is healed."""
        async with asyncio.timeout(2 * UNNOTICED_SECONDS):
            while not self.is_registration_owed:
                await self._sampled.wait()

    async def calm(self) -> None:
        """Wait until all that is owed is kept; `watch` breaks it off if that takes too long."""
        await self._sampled.wait()
        while not self._is_settled:
            await self._sampled.wait()

    def _running(self) -> Iterator[Instance]:
        return (one for one in self.instances.values() if not one.is_leaving)

    def _note_kubelet(self, record: Record) -> None:
        """Follow what kubelet did, as far as it changes what is owed."""
        if isinstance(record, SocketCreated) and record.socket_path == self.path:
            self._is_verdict_lost = False
        if not isinstance(record, Notified) or record.socket_path != self.path:
            return
        self._refusals = 0 if record.is_accepted else self._refusals + 1
        is_lost = record.code != "OK"
        self._is_verdict_lost = is_lost and not record.is_accepted
        if is_lost or INJECTED in record.error:
            self.kubelet_promise.disturbed(self.stolen_seconds, self._retry_seconds())

    def _retry_seconds(self) -> float:
        """Return after how long the registrar announces again that kubelet refused (R03)."""
        longest = min(60.0, 1.2 * 2.0 ** max(0, self._refusals - 1))
        return 2.0 + longest if self._rules is KUBELET_1_34 else 0.0


@contextlib.contextmanager
def small_disk(*, is_mounted: bool) -> Iterator[str]:
    """Make a folder with `disk` in it, if possible a file system of its own with few inodes."""
    root = tempfile.mkdtemp(prefix="c", dir="/tmp")
    disk = f"{root}/disk"
    os.mkdir(disk)
    try:
        if is_mounted:
            options = "size=1m,nr_inodes=200,mode=0755"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "chaos", disk], check=True)
        yield root
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", disk], check=True)
        shutil.rmtree(root, ignore_errors=True)


def can_mount() -> bool:
    """Return whether this user may mount a file system, without which no disk gets full."""
    with tempfile.TemporaryDirectory(prefix="c", dir="/tmp") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "chaos", folder]
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        if is_mounted:
            subprocess.run(["umount", "--lazy", folder], check=True)
    return is_mounted


@contextlib.asynccontextmanager
async def chaos_world(
    rules: Rules, *, monitor_interval_seconds: int, is_mounted: bool
) -> AsyncIterator[World]:
    """Make a world with a folder and nothing that runs; end everything in it at last."""
    with small_disk(is_mounted=is_mounted) as root:
        world = World(root, rules, monitor_interval_seconds)
        with open(f"{world.disk}/target", "w", encoding="ascii") as target:
            target.write("the end of a link")
        world.foreign.add(f"{world.disk}/target")
        world.make_folder()
        try:
            yield world
        finally:
            await world.close()
