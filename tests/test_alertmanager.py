"""The alerts on their whole way: kubelet, the real command, Prometheus, Alertmanager, a webhook."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from commanding import running
from fleet import ALWAYS, BLOCK, RULES, Node
from prometheus_server import prometheus_scraping, serving, url_of

from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Notified

pytestmark = [pytest.mark.needs_prometheus, pytest.mark.needs_prometheus_alertmanager]

NOT_REGISTERED = "CSIDriverNotRegistered"

Alert = dict[str, Any]


class Webhook:
    """Whoever is on call: keeps the alerts that Alertmanager delivers."""

    def __init__(self) -> None:
        self._alerts: list[Alert] = []
        self._grown = asyncio.Event()

    async def deliver(self, request: web.Request) -> web.Response:
        """Take one notification."""
        self._alerts += (await request.json())["alerts"]
        self._grown.set()
        self._grown = asyncio.Event()
        return web.Response()

    def delivered(self, status: str) -> dict[str, Alert]:
        """Return the alerts about drivers that are not registered, the latest of each node."""
        return {
            alert["labels"]["node"]: alert
            for alert in self._alerts
            if alert["status"] == status and alert["labels"]["alertname"] == NOT_REGISTERED
        }

    async def wait_for(self, status: str, nodes: set[str]) -> dict[str, Alert]:
        """Wait until the alert of each of these nodes has come with a status.

        Raises:
            TimeoutError: if it does not, with all that came.
        """
        try:
            async with asyncio.timeout(60):
                while not nodes <= self.delivered(status).keys():
                    await self._grown.wait()
        except TimeoutError as error:
            raise TimeoutError(f"no {status} alert of {nodes} in {self._alerts}") from error
        return self.delivered(status)


@asynccontextmanager
async def on_call() -> AsyncIterator[tuple[Webhook, str]]:
    """Listen for notifications on a free port of the loopback."""
    webhook = Webhook()
    application = web.Application()
    application.router.add_post("/", webhook.deliver)
    async with TestServer(application, host="127.0.0.1") as server:
        yield webhook, str(server.make_url("/"))


@asynccontextmanager
async def alertmanager_notifying(url: str, folder: str) -> AsyncIterator[str]:
    """Run Alertmanager, alone and on a free port of the loopback, and give its URL."""
    config = {
        "route": {
            "receiver": "on-call",
            "group_by": ["..."],
            "group_wait": "0s",
            "group_interval": "1s",
        },
        "receivers": [{"name": "on-call", "webhook_configs": [{"url": url}]}],
    }
    arguments = (
        f"--storage.path={folder}/alertmanager",
        "--web.listen-address=127.0.0.1:0",
        "--cluster.listen-address=",
    )
    async with serving("prometheus-alertmanager", config, folder, *arguments) as server:
        yield await url_of(server)


def impatient_rules(folder: str) -> str:
    """Copy the rules, evaluated every second and waiting for a second; return the path."""
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in document["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = "1s"
    path = Path(folder) / "rules.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


@pytest.mark.timeout(120)
async def test_who_is_on_call_hears_of_each_node_where_a_driver_is_not_registered(
    folder: str,
) -> None:
    """One kubelet never calls, one refuses until another takes its place, one is in order."""
    nodes = {name: Node(folder, name) for name in ("silent", "refusing", "good")}
    urls = {}
    async with AsyncExitStack() as stack:
        for name, node in nodes.items():
            await stack.enter_async_context(node.driver)
            command = await stack.enter_async_context(running(*node.command_line()))
            urls[name] = await command.url()
        nodes["refusing"].kubelet.refuse_next(ALWAYS, "no topology key found")
        for name in ("refusing", "good"):
            await stack.enter_async_context(nodes[name].kubelet)
            await nodes[name].kubelet.wait_for_record(Notified)
        webhook, url = await stack.enter_async_context(on_call())
        alertmanager = await stack.enter_async_context(alertmanager_notifying(url, folder))
        target = {"static_configs": [{"targets": [urlsplit(alertmanager).netloc]}]}
        await stack.enter_async_context(
            prometheus_scraping(
                urls,
                folder,
                rule_files=[impatient_rules(folder)],
                alerting={"alertmanagers": [target]},
            )
        )

        firing = await webhook.wait_for("firing", {"silent", "refusing"})
        assert firing.keys() == {"silent", "refusing"}
        for name, alert in firing.items():
            assert alert["labels"] == {
                "alertname": NOT_REGISTERED,
                "driver_name": BLOCK,
                "instance": urlsplit(urls[name]).netloc,
                "job": "csi",
                "node": name,
                "severity": "warning",
            }
            its = alert["annotations"]
            assert its["summary"] == f"CSI driver {BLOCK} is not registered on {name}."
            assert f"kubelet on {name} has not accepted the CSI driver" in its["description"]
            assert its["runbook_url"].endswith("/CSIDriverNotRegistered.md")

        await nodes["refusing"].kubelet.stop()
        mended = SimulatedKubelet(nodes["refusing"].registration_folder)
        await stack.enter_async_context(mended)
        resolved = await webhook.wait_for("resolved", {"refusing"})
        assert resolved.keys() == {"refusing"}
