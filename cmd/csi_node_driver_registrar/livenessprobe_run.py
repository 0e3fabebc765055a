"""One run in the role of kubernetes-csi livenessprobe: `/healthz` is the driver's Probe."""

import functools
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from csi_node_driver_registrar.config import LivenessConfig
from csi_node_driver_registrar.driver_checks import check_probe, in_words
from csi_node_driver_registrar.fan_out import FanOut
from csi_node_driver_registrar.health_log import HealthLog
from csi_node_driver_registrar.lifetime import Lifetime, run_until_stopped
from csi_node_driver_registrar.log_observer import LogObserver
from csi_node_driver_registrar.measuring import Measuring
from csi_node_driver_registrar.registrar_run import CHECK_MARGIN_SECONDS
from health import observer as health_events
from health.addresses import parse_address
from health.checks import Check, CheckName
from health.endpoints import health_routes
from health.http_server import serving_http
from health.overall import LIVENESSPROBE_ENDPOINTS, Health, examining
from metrics.families import CSI_FAMILIES
from registrar.driver_watch import DriverWatch
from registrar.grpc_library import keeping_grpc_initialised
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
    measuring = Measuring(CSI_FAMILIES)
    events = FanOut[Event](LogObserver().notify, measuring.notify)
    observer = FanOut[health_events.Event](HealthLog().notify, measuring.notify_health)
    async with keeping_grpc_initialised(), AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            IdentityClient(config.csi_address, config.probe_timeout_seconds, events)
        )
        health = await stack.enter_async_context(_examining(client, config, observer))
        lifetime.on_stop(health.stopping)
        metrics = measuring.route(config.metrics_path)
        for endpoint, routes in (
            (config.http_endpoint, [*health_routes(health), metrics]),
            (config.metrics_address, [metrics]),
        ):
            if endpoint:
                await stack.enter_async_context(
                    serving_http(
                        parse_address(endpoint), routes, tasks=lifetime.tasks, observer=observer
                    )
                )
        await _watch(client, events).run()


def _examining(
    client: IdentityClient, config: LivenessConfig, observer: health_events.Observer
) -> AbstractAsyncContextManager[Health]:
    check = Check(
        name=CheckName.CSI_PROBE,
        driver=lambda: client.driver_name or config.csi_address,
        ask=in_words(functools.partial(check_probe, client.probe)),
    )
    limit = config.probe_timeout_seconds + CHECK_MARGIN_SECONDS
    return examining([check], LIVENESSPROBE_ENDPOINTS, timeout_seconds=limit, observer=observer)


def _watch(client: IdentityClient, events: FanOut[Event]) -> DriverWatch:
    return DriverWatch(
        client,
        registration_folder="/",
        monitor_interval_seconds=_MONITOR_INTERVAL_SECONDS,
        observer=events,
        on_change=lambda: None,
    )
