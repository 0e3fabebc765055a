"""kubelet's plugin reconciler: the desired and the actual state of the world, made one each tick.

How a plugin is registered is not here (`plugin_registration`).
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from csi_registration_simulator.kubelet_records import (
    RegistrationFailed,
    SocketCreated,
    SocketRemoved,
)
from csi_registration_simulator.kubelet_rules import Timings
from csi_registration_simulator.operations import Operations
from csi_registration_simulator.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One plugin in the actual state of the world."""

    socket_path: str
    generation: int
    """Which appearance of the socket the plugin was registered for."""
    driver_name: str


class PluginHandler(Protocol):
    """Whoever registers plugins and forgets them, and keeps `actual` true meanwhile."""

    async def register(self, socket_path: str, generation: int, actual: dict[str, Plugin]) -> None:
        """Register the plugin behind a socket; raise OperationError if that fails."""

    async def deregister(self, plugin: Plugin, actual: dict[str, Plugin]) -> None:
        """Forget a plugin."""


class Reconciler:
    """Compares what should be registered with what is, and starts what follows from it."""

    def __init__(
        self, handler: PluginHandler, operations: Operations, record: Callable[[Record], None]
    ) -> None:
        self.desired: dict[str, int] = {}
        """The sockets that were seen, each with a number that changes when it is seen anew."""
        self.actual: dict[str, Plugin] = {}
        self.is_paused = False
        """Whether ticks pass without effect."""
        self._handler = handler
        self._operations = operations
        self._record = record
        self._generations = itertools.count(1)

    def add_socket(self, socket_path: str) -> None:
        """Take note of a socket that appeared, perhaps once more."""
        is_update = socket_path in self.desired
        self.desired[socket_path] = next(self._generations)
        self._record(SocketCreated(socket_path=socket_path, is_update=is_update))

    def remove_socket(self, socket_path: str) -> None:
        """Take note of a deleted name, which may have been a socket or not."""
        if self.desired.pop(socket_path, None) is not None:
            self._record(SocketRemoved(socket_path=socket_path))

    async def tick_forever(self, timings: Timings) -> None:
        """Reconcile, again and again."""
        await asyncio.sleep(timings.first_tick_seconds)
        while True:
            if not self.is_paused:
                self.reconcile()
            await asyncio.sleep(timings.tick_seconds)

    def reconcile(self) -> None:
        """Start what is due; what is deregistered now is registered at a later tick."""
        for plugin in list(self.actual.values()):
            if self.desired.get(plugin.socket_path) != plugin.generation:
                self._start_deregistering(plugin)
        for socket_path, generation in self.desired.items():
            if socket_path not in self.actual:
                self._start_registering(socket_path, generation)

    def _start_deregistering(self, plugin: Plugin) -> None:
        async def deregister() -> None:
            await self._handler.deregister(plugin, self.actual)

        self._start(plugin.socket_path, deregister)

    def _start_registering(self, socket_path: str, generation: int) -> None:
        async def register() -> None:
            await self._handler.register(socket_path, generation, self.actual)

        self._start(socket_path, register)

    def _start(self, socket_path: str, operation: Callable[[], Awaitable[None]]) -> None:
        def fail(error: str, back_off_seconds: float) -> None:
            self._record(
                RegistrationFailed(
                    socket_path=socket_path, error=error, back_off_seconds=back_off_seconds
                )
            )

        self._operations.start(socket_path, operation, fail)
