"""A real Prometheus scrapes the command on a small cluster through a day, and is asked about it."""

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from commanding import RunningCommand, registrar_arguments, running
from measuring import DRIVER_NAME
from prometheus_server import prometheus_scraping

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Notified
from csi_registration_simulator.kubelet_rules import KUBELET_1_34
from registrar.settings import DriverSettings

pytestmark = pytest.mark.needs_prometheus

NOT_REGISTERED = "up unless on (node) csi_node_registrar_registered == 1"
NOT_REGISTERED_DRIVERS = "csi_node_registrar_registered == 0"
REJECTIONS = (
    "round(sum by (node) "
    '(increase(csi_node_registrar_registrations_total{outcome="failure"}[15m])))'
)
P99_OF_PROBE = (
    "histogram_quantile(0.99, sum by (node, le) (rate("
    'csi_node_registrar_csi_call_duration_seconds_bucket{method_name="/csi.v1.Identity/Probe"}'
    "[5m])))"
)
REGISTRATIONS = 'sum by (node) (csi_node_registrar_registrations_total{outcome="success"})'


@dataclass(frozen=True)
class Node:
    """One node of the cluster: a driver, not started yet, and the command beside it."""

    name: str
    settings: DriverSettings
    driver: SimulatedDriver
    command: RunningCommand
    url: str


@asynccontextmanager
async def joined(name: str, settings: DriverSettings) -> AsyncIterator[Node]:
    """Run the command on one node."""
    driver = SimulatedDriver(settings.csi_address, name=DRIVER_NAME)
    arguments = registrar_arguments(settings, "--http-endpoint=127.0.0.1:0")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(driver.stop)
        command = await stack.enter_async_context(running(*arguments))
        yield Node(name, settings, driver, command, await command.url())


@asynccontextmanager
async def cluster(names: str, folder: str, settings: DriverSettings) -> AsyncIterator[list[Node]]:
    """Run the command on each node."""
    async with AsyncExitStack() as stack:
        nodes = []
        for name in names:
            os.makedirs(f"{folder}/{name}/registration")
            its = dataclasses.replace(
                settings,
                csi_address=f"{folder}/{name}/csi.sock",
                kubelet_registration_path=f"{folder}/{name}/csi.sock",
                registration_folder=f"{folder}/{name}/registration",
            )
            nodes.append(await stack.enter_async_context(joined(name, its)))
        yield nodes


async def accepts(kubelet: SimulatedKubelet, times: int) -> None:
    """Wait until kubelet has accepted a driver so many times."""

    def count() -> int:
        return sum(verdict.is_accepted for verdict in kubelet.of(Notified))

    await kubelet.wait_for(lambda: count() >= times)


async def the_day_on_a(node: Node) -> None:
    """Two restarts of kubelet, the socket lost once; Probe takes a third of a second."""
    async with SimulatedKubelet(node.settings.registration_folder) as kubelet:
        await accepts(kubelet, 1)
        for number in (2, 3):
            await kubelet.restart()
            await accepts(kubelet, number)
        os.unlink(f"{node.settings.registration_folder}/{DRIVER_NAME}-reg.sock")
        await accepts(kubelet, 4)
        async with aiohttp.ClientSession() as session:
            for _ in range(10):
                async with session.get(f"{node.url}/healthz/csi-probe") as answer:
                    assert answer.status == 200


async def the_day_on_b(node: Node) -> None:
    """Two refusals by kubelet before it accepts."""
    folder = node.settings.registration_folder
    async with SimulatedKubelet(folder, rules=KUBELET_1_34) as kubelet:
        kubelet.refuse_next(2, "no such node")
        await accepts(kubelet, 1)


async def the_day_on_e(node: Node) -> None:
    """The driver gets another name."""
    async with SimulatedKubelet(node.settings.registration_folder) as kubelet:
        await accepts(kubelet, 1)
        await node.driver.restart(name="y.csi.example.com")
        await accepts(kubelet, 2)
        assert set(kubelet.csinode) == {"y.csi.example.com"}


@pytest.mark.timeout(120)
async def test_prometheus_knows_after_the_day_what_an_operator_asks(
    folder: str, settings: DriverSettings
) -> None:
    """On c kubelet never calls, and d has no driver."""
    async with cluster("abcde", folder, settings) as nodes:
        a, b, c, _d, e = nodes
        a.driver.delay_seconds["Probe"] = 0.3
        for node in (a, b, c, e):
            await node.driver.start()
            await node.command.wait_for_log("Registration socket published")
        urls = {node.name: node.url for node in nodes}
        async with prometheus_scraping(urls, folder) as prometheus:
            await prometheus.wait_for("count(csi_node_registrar_registered == 0)", 4)
            await asyncio.gather(the_day_on_a(a), the_day_on_b(b), the_day_on_e(e))
            await prometheus.has_seen_everything_until_now(len(nodes))

            assert await prometheus.query("up") == dict.fromkeys("abcde", 1)
            assert set(await prometheus.query(NOT_REGISTERED)) == {"c", "d"}
            assert set(await prometheus.query(NOT_REGISTERED_DRIVERS)) == {"c"}
            assert await prometheus.query(REJECTIONS) == {"a": 0, "b": 2, "c": 0, "e": 0}
            # All probes of node a end in the bucket from 0.1 s to 0.5 s.
            p99 = (await prometheus.query(P99_OF_PROBE))["a"]
            assert p99 == pytest.approx(0.1 + 0.99 * 0.4)
            assert await prometheus.query(REGISTRATIONS) == {"a": 4, "b": 1, "c": 0, "e": 1}

            series = await prometheus.query("scrape_samples_scraped")
            assert max(series.values()) <= 100
            metadata = await prometheus.metadata("csi_node_registrar_registrations")
            assert metadata == "counter", "only OpenMetrics calls the family so"
