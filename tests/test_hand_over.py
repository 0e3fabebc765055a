"""Rolling updates of the command, in either order, and two deployments of it with one driver."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from chaos_promises import ForeignFiles, is_answered
from commanding import RunningCommand, registrar_arguments, running

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Deregistered, SocketCreated
from registrar.settings import DriverSettings
from registrar.unix_sockets import identity_of, listener_pid

NAME = "x.csi.example.com"
UPDATES = 5
PARTS = int(os.environ.get("HAND_OVER_PARTS", "2"))
"""In both orders: HAND_OVER_PARTS=10 makes a hundred updates of it."""
"""Ten updates in each of five parts, in two orders: a hundred."""

MAX_SECONDS_WITHOUT_ANSWER = 2.0
TOGETHER_SECONDS = 4.0
PUBLISHED = "Registration socket published"


@dataclass
class Node:
    """A registration folder, with whoever registers there."""

    settings: DriverSettings
    kubelet: SimulatedKubelet
    stack: AsyncExitStack
    living: list[RunningCommand] = field(default_factory=list)
    longest_gap_seconds: float = 0.0
    owners: list[int] = field(default_factory=list)
    """Who listened on the path, one after the other."""
    foreign: ForeignFiles = field(default_factory=ForeignFiles)

    @property
    def path(self) -> str:
        """Where the registration socket belongs."""
        return f"{self.settings.registration_folder}/{NAME}-reg.sock"

    async def start(self) -> RunningCommand:
        """Start an instance and wait until it holds the registration."""
        command = await self.stack.enter_async_context(running(*registrar_arguments(self.settings)))
        await command.wait_for_log(PUBLISHED)
        self.living.append(command)
        return command

    async def stop(self, command: RunningCommand) -> None:
        """End an instance as kubelet does."""
        if len(self.living) == 1:
            self.living.remove(command)
        assert (await command.stop(signal.SIGTERM))[0] == 0, command.log
        if command in self.living:
            self.living.remove(command)

    async def watch(self) -> None:
        """Ask at the path again and again, and keep the longest gap while an instance lives."""
        answered_at = time.monotonic()
        while True:
            if await is_answered(self.path, NAME) or not self.living:
                answered_at = time.monotonic()
            gap = time.monotonic() - answered_at
            self.longest_gap_seconds = max(self.longest_gap_seconds, gap)
            self.foreign.check()
            pid = listener_pid(self.path)
            if pid is not None and self.owners[-1:] != [pid]:
                self.owners.append(pid)
            await asyncio.sleep(0.02)

    def lay_foreign_sockets(self) -> None:
        """Put sockets into the folder that belong to nobody here: a live and a dead one."""
        for name in ("other.csi.example.com-reg.sock", "dead.csi.example.com-reg.sock", ".hidden"):
            path = f"{self.settings.registration_folder}/{name}"
            listening = socket.socket(socket.AF_UNIX)
            self.stack.callback(listening.close)
            listening.bind(path)
            if not name.startswith("dead"):
                listening.listen()
            self.foreign.add(path)

    def own_names(self) -> set[str]:
        """Return what is in the folder and not foreign."""
        folder = self.settings.registration_folder
        return set(os.listdir(folder)) - self.foreign.names_in(folder)


@asynccontextmanager
async def watched_node(settings: DriverSettings, kubelet: SimulatedKubelet) -> AsyncIterator[Node]:
    """Watch the path while the block runs, and look at what is left after the last one's end."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        node = Node(settings, kubelet, stack)
        node.lay_foreign_sockets()
        watching = tasks.create_task(node.watch(), name="watch")
        yield node
        watching.cancel()
        assert node.longest_gap_seconds < MAX_SECONDS_WITHOUT_ANSWER
        assert node.own_names() == set()


@pytest.mark.parametrize("part", range(PARTS))
async def test_a_new_instance_takes_over_before_the_old_one_goes(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings, part: int
) -> None:
    """R01: the Go registrar's end removes its successor's socket."""
    await driver.start()
    async with watched_node(settings, kubelet) as node:
        old = await node.start()
        for _ in range(UPDATES):
            new = await node.start()
            published = identity_of(os.lstat(node.path))
            await node.stop(old)
            assert identity_of(os.lstat(node.path)) == published
            old = new
        await kubelet.wait_for(lambda: NAME in kubelet.csinode)
        await node.stop(old)
    # The last owner may go before it was seen.
    assert UPDATES <= len(node.owners) <= UPDATES + 1
    assert len(set(node.owners)) == len(node.owners)


@pytest.mark.parametrize("part", range(PARTS))
async def test_a_new_instance_starts_after_the_old_one_went(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings, part: int
) -> None:
    """What a DaemonSet does by default."""
    await driver.start()
    async with watched_node(settings, kubelet) as node:
        for _ in range(UPDATES):
            instance = await node.start()
            assert await is_answered(node.path, NAME)
            await node.stop(instance)
            assert node.own_names() == set()
    await kubelet.wait_for(lambda: NAME not in kubelet.csinode)
    ours = [each for each in kubelet.of(SocketCreated) if each.socket_path == node.path]
    assert len(ours) == UPDATES


async def test_two_deployments_with_one_driver_do_not_fight(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    """R37: at most one change of owner for each start and stop, and none in between."""
    await driver.start()
    async with watched_node(settings, kubelet) as node:
        first, second = await node.start(), await node.start()
        await _stay_together(node, kubelet, second)
        first.process.send_signal(signal.SIGHUP)
        await _stay_together(node, kubelet, second)
        await node.stop(second)
        third = await node.start()
        await _stay_together(node, kubelet, third)
        await node.stop(first)
        await _stay_together(node, kubelet, third)
        await node.stop(third)
    starts_and_stops = 6
    assert len(node.owners) <= starts_and_stops
    assert len(node.owners) == len(set(node.owners)) or node.owners.count(first.process.pid) == 2


async def _stay_together(node: Node, kubelet: SimulatedKubelet, owner: RunningCommand) -> None:
    """Let time pass, in which nothing may change once kubelet has the driver."""
    await owner.wait_for_log("kubelet registered the driver")
    before, owners = kubelet.mark(), list(node.owners)
    assert owners[-1] == owner.process.pid
    await asyncio.sleep(TOGETHER_SECONDS)
    assert node.owners == owners
    later = kubelet.records[before:]
    assert not [each for each in later if isinstance(each, Deregistered)]
