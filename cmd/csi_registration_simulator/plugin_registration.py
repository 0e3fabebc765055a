"""One registration as kubelet carries it out: dial, GetInfo, the handler's work, the verdict.

When it is tried is not here (`reconciler`), nor what a driver is asked (`csi_volume_plugin`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from csi_registration_simulator.csi_volume_plugin import CSIVolumePlugin, PluginRefusedError
from csi_registration_simulator.kubelet_records import Deregistered, PluginAnswer
from csi_registration_simulator.kubelet_rules import Rules, Timings
from csi_registration_simulator.operations import OperationError
from csi_registration_simulator.reconciler import Plugin
from csi_registration_simulator.records import Record
from csi_registration_simulator.registrar_client import RegistrarClient, dialled

_CSI_PLUGIN = "CSIPlugin"


@dataclass(slots=True, kw_only=True)
class Disturbances:
    """What takes its time in this kubelet, or goes wrong. May be changed at any moment."""

    before_get_info_seconds: float = 0.0
    """Between the connection and GetInfo."""
    before_notify_seconds: float = 0.0
    """Between the CSINode object and the verdict."""
    lost_notifies: int = 0
    """So many verdicts do not reach the registrar, as if the connection had broken."""


class PluginRegistration:
    """Registers and deregisters plugins for a reconciler (kubelet's operation generator)."""

    def __init__(
        self,
        volume_plugin: CSIVolumePlugin,
        rules: Rules,
        timings: Timings,
        disturbances: Disturbances,
        record: Callable[[Record], None],
    ) -> None:
        self._volume_plugin = volume_plugin
        self._rules = rules
        self._timings = timings
        self._disturbances = disturbances
        self._record = record

    async def register(self, socket_path: str, generation: int, actual: dict[str, Plugin]) -> None:
        """Register the plugin behind a socket.

        Raises:
            OperationError: It could not be registered, or did not take the verdict.
        """
        async with dialled(socket_path, self._timings, self._record) as registrar:
            await asyncio.sleep(self._disturbances.before_get_info_seconds)
            answer = await registrar.get_info()
            await self._validate(registrar, answer)
            plugin = Plugin(
                socket_path=socket_path, generation=generation, driver_name=answer.driver_name
            )
            # Known before the driver is asked, so that a removal meanwhile is not missed.
            actual[socket_path] = plugin
            await self._register_driver(registrar, answer, plugin, actual)
            await self._tell_success(registrar, plugin, actual)

    async def deregister(self, plugin: Plugin, actual: dict[str, Plugin]) -> None:
        """Forget a plugin, and its driver by name."""
        actual.pop(plugin.socket_path, None)
        self._volume_plugin.deregister(plugin.driver_name)
        self._record(Deregistered(socket_path=plugin.socket_path, driver_name=plugin.driver_name))

    async def _validate(self, registrar: RegistrarClient, answer: PluginAnswer) -> None:
        if answer.plugin_type != _CSI_PLUGIN:
            await self._refuse(
                registrar,
                f"no handler registered for plugin type: {answer.plugin_type} "
                f"at socket {registrar.socket_path}",
            )
        try:
            self._volume_plugin.validate(answer)
        except PluginRefusedError as error:
            await self._refuse(registrar, f"plugin validation failed with err: {error}")

    async def _register_driver(
        self,
        registrar: RegistrarClient,
        answer: PluginAnswer,
        plugin: Plugin,
        actual: dict[str, Plugin],
    ) -> None:
        try:
            await self._volume_plugin.register(plugin.socket_path, answer)
        except PluginRefusedError as error:
            if self._rules.forgets_failed_registration:
                actual.pop(plugin.socket_path, None)
            await self._refuse(registrar, f"plugin registration failed with err: {error}")

    async def _tell_success(
        self, registrar: RegistrarClient, plugin: Plugin, actual: dict[str, Plugin]
    ) -> None:
        try:
            await self._notify(registrar, is_accepted=True)
        except OperationError as error:
            if self._rules.forgets_failed_registration:
                await self.deregister(plugin, actual)
            raise OperationError(
                "RegisterPlugin error -- failed to send registration status "
                f"at socket {plugin.socket_path}, err: {error}"
            ) from error

    async def _refuse(self, registrar: RegistrarClient, reason: str) -> NoReturn:
        text = f"RegisterPlugin error -- {reason}"
        await self._notify(registrar, is_accepted=False, error=text)
        raise OperationError(text)

    async def _notify(
        self, registrar: RegistrarClient, *, is_accepted: bool, error: str = ""
    ) -> None:
        await asyncio.sleep(self._disturbances.before_notify_seconds)
        is_lost = self._disturbances.lost_notifies > 0
        self._disturbances.lost_notifies -= is_lost
        await registrar.notify(is_accepted=is_accepted, error=error, is_lost=is_lost)
