"""One run of the registrar: the parts put together, and taken apart in reverse order."""

import asyncio
import functools
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack

from csi_node_driver_registrar.config import Config
from csi_node_driver_registrar.driver_checks import driver_checks
from csi_node_driver_registrar.exec_probe import probe_socket_path
from csi_node_driver_registrar.fan_out import FanOut
from csi_node_driver_registrar.health_log import HealthLog
from csi_node_driver_registrar.lifetime import Lifetime, run_until_stopped
from csi_node_driver_registrar.log_observer import LogObserver
from csi_node_driver_registrar.measuring import Measuring
from csi_node_driver_registrar.page import driver_statuses
from csi_node_driver_registrar.recent_events import RecentEvents
from csi_node_driver_registrar.version import PROGRAM, __version__
from health import observer as health_events
from health.addresses import Address, parse_address
from health.endpoints import health_routes
from health.grpc_health import HealthServicer, serving_grpc_health
from health.http_server import Route, serving_http
from health.listener import Listener
from health.overall import REGISTRAR_ENDPOINTS, Health, examining
from health.status_page import status_route
from registrar.grpc_library import keeping_grpc_initialised
from registrar.observer import (
    Announced,
    CsiSocketSeen,
    DriverIdentified,
    Event,
    KubeletSilent,
    RegistrationBlocked,
    RegistrationSocketSeen,
    StateChanged,
)
from registrar.settings import DriverSettings
from registrar.supervisor import Supervisor

# A call to the driver ends by its own limit first, because that error says what was called.
CHECK_MARGIN_SECONDS = 0.05

# What may change a check's outcome or reason. Calls to the driver are left out: the checks make
# them.
_NEWS = (
    CsiSocketSeen,
    DriverIdentified,
    KubeletSilent,
    RegistrationBlocked,
    RegistrationSocketSeen,
    StateChanged,
)

# How kubelet calls itself when it probes over HTTP: the proof that it lives, with its version.
_KUBE_PROBE = re.compile(r"kube-probe/(\d{1,3}\.\d{1,3}\+?)", re.ASCII)

_LINKS = ("/healthz?verbose", "/livez?verbose", "/readyz?verbose")


async def run_registrar(config: Config) -> None:
    """Keep all drivers registered until a signal asks to stop.

    Raises:
        AddressError: if an address to listen on has no form that can be listened on.
        ExceptionGroup: with the reason why the process cannot go on.
    """
    await run_until_stopped(functools.partial(_run, config))


async def _run(config: Config, lifetime: Lifetime) -> None:
    async with keeping_grpc_initialised(), AsyncExitStack() as stack:
        await _Run(config, lifetime, stack).keep_registered()


class _Run:
    """What belongs together in one run; the stack takes apart what the methods put on it."""

    def __init__(self, config: Config, lifetime: Lifetime, stack: AsyncExitStack) -> None:
        self._config = config
        self._lifetime = lifetime
        self._stack = stack
        self._measuring = Measuring()
        self._recent = RecentEvents()
        self._events = FanOut[Event](
            LogObserver().notify, self._measuring.notify, self._recent.notify
        )
        self._health_events = FanOut[health_events.Event](
            HealthLog().notify, self._measuring.notify_health
        )
        self._supervisors = [Supervisor(each, self._events) for each in _settings(config)]

    async def keep_registered(self) -> None:
        """Answer health first (R05), then look for the drivers and keep them registered."""
        self._health_events.add(self._note_kubelet_probe)
        health = await self._examine(self._supervisors)
        servicer = await self._answer_health(health)
        for supervisor in self._supervisors:
            self._lifetime.on_hangup(supervisor.request_announcement)
            await self._answer_exec_probe(supervisor, health)
        async with asyncio.TaskGroup() as keepers:
            for supervisor in self._supervisors:
                keepers.create_task(
                    supervisor.run((servicer.add_to,)), name=f"supervisor {supervisor.label}"
                )

    async def _examine(self, supervisors: Sequence[Supervisor]) -> Health:
        limit = self._config.probe_timeout_seconds
        checks = [
            check
            for supervisor in supervisors
            for check in driver_checks(supervisor, timeout_seconds=limit)
        ]
        health = await self._stack.enter_async_context(
            examining(
                checks,
                REGISTRAR_ENDPOINTS,
                timeout_seconds=limit + CHECK_MARGIN_SECONDS,
                observer=self._health_events,
            )
        )
        self._lifetime.on_stop(health.stopping)

        def tell_watchers(event: Event) -> None:
            if isinstance(event, _NEWS):
                health.changed()

        self._events.add(tell_watchers)
        return health

    def _note_kubelet_probe(self, event: health_events.Event) -> None:
        if not isinstance(event, health_events.RequestAnswered):
            return
        if probe := _KUBE_PROBE.match(event.user_agent):
            for supervisor in self._supervisors:
                supervisor.kubelet_probed(probe[1])

    async def _answer_health(self, health: Health) -> HealthServicer:
        if self._config.http_endpoint:
            page = status_route(
                f"{PROGRAM} {__version__}",
                links=(*_LINKS, self._config.metrics_path),
                drivers=lambda: driver_statuses(self._supervisors, health, self._recent),
            )
            metrics = self._measuring.route(self._config.metrics_path)
            address = parse_address(self._config.http_endpoint)
            await self._serve_http(address, [*health_routes(health), metrics, page])
        servicer = HealthServicer(health)
        if self._config.grpc_health_endpoint:
            address = parse_address(self._config.grpc_health_endpoint)
            await self._stack.enter_async_context(
                serving_grpc_health(
                    address, servicer, tasks=self._lifetime.tasks, observer=self._health_events
                )
            )
        return servicer

    async def _answer_exec_probe(self, supervisor: Supervisor, health: Health) -> None:
        """Answer for one driver on a hidden socket, and keep it there when the folder changes."""
        if len(self._supervisors) > 1:
            health = await self._examine([supervisor])
        path = probe_socket_path(
            self._config.plugin_registration_path, supervisor.settings.kubelet_registration_path
        )
        listener = await self._serve_http(parse_address(f"unix://{path}"), health_routes(health))

        def renew(event: Event) -> None:
            if isinstance(event, Announced):
                listener.renew()

        self._events.add(renew)

    async def _serve_http(self, address: Address, routes: Sequence[Route]) -> Listener:
        return await self._stack.enter_async_context(
            serving_http(address, routes, tasks=self._lifetime.tasks, observer=self._health_events)
        )


def _settings(config: Config) -> list[DriverSettings]:
    return [
        DriverSettings(
            csi_address=driver.csi_address,
            kubelet_registration_path=driver.kubelet_registration_path,
            registration_folder=config.plugin_registration_path,
            timeout_seconds=config.timeout_seconds,
            monitor_interval_seconds=config.monitor_interval_seconds,
            kubelet_silence_seconds=config.kubelet_silence_timeout_seconds,
            on_registration_failure=config.on_registration_failure,
        )
        for driver in config.drivers
    ]
