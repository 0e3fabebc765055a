"""One run in the role of kubernetes-csi livenessprobe: `/healthz` is the driver's Probe."""

import functools
from contextlib import AsyncExitStack

from csi_node_driver_registrar.config import LivenessConfig
from csi_node_driver_registrar.driver_checks import check_probe, in_words
from csi_node_driver_registrar.fan_out import FanOut
from csi_node_driver_registrar.health_log import HealthLog
from csi_node_driver_registrar.lifetime import Lifetime, run_until_stopped
from csi_node_driver_registrar.log_observer import LogObserver
from csi_node_driver_registrar.registrar_run import CHECK_MARGIN_SECONDS
from health.addresses import parse_address
from health.checks import Check, CheckName
from health.endpoints import health_routes
from health.http_server import serving_http
from health.overall import LIVENESSPROBE_ENDPOINTS, examining
from registrar.driver_watch import DriverWatch
from registrar.identity_client import IdentityClient
from registrar.observer import Event

_MONITOR_INTERVAL_SECONDS = 60.0
"""kubelet's probes are what this program is for; in between it only keeps the name up to date."""


async def run_livenessprobe(config: LivenessConfig) -> None:
    """Answer for one driver's Probe until a signal asks to stop.

    Raises:
        AddressError: if an address to listen on has no form that can be listened on.
        ExceptionGroup: with the reason why the process cannot go on.
    """
    await run_until_stopped(functools.partial(_run, config))


async def _run(config: LivenessConfig, lifetime: Lifetime) -> None:
    events, limit = FanOut[Event](LogObserver().notify), config.probe_timeout_seconds
    health_log = HealthLog()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(IdentityClient(config.csi_address, limit, events))
        check = Check(
            name=CheckName.CSI_PROBE,
            driver=lambda: client.driver_name or config.csi_address,
            ask=in_words(functools.partial(check_probe, client.probe)),
        )
        health = await stack.enter_async_context(
            examining(
                [check],
                LIVENESSPROBE_ENDPOINTS,
                timeout_seconds=limit + CHECK_MARGIN_SECONDS,
                observer=health_log,
            )
        )
        lifetime.on_stop(health.stopping)
        await stack.enter_async_context(
            serving_http(
                parse_address(config.http_endpoint),
                health_routes(health),
                tasks=lifetime.tasks,
                observer=health_log,
            )
        )
        await _watch(client, events).run()


def _watch(client: IdentityClient, events: FanOut[Event]) -> DriverWatch:
    return DriverWatch(
        client,
        registration_folder="/",
        monitor_interval_seconds=_MONITOR_INTERVAL_SECONDS,
        observer=events,
        on_change=lambda: None,
    )
