"""Serves the metrics of very many simulated nodes from one process.

What a node shows is written by the product's own registry, as text; a few registries stand behind
all nodes, one for each condition that a node may be in. Of which node a series is, the scrape says.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import cycle
from typing import NoReturn

from aiohttp import web
from measuring import GET_PLUGIN_INFO, PROBE, called, exposition, identified
from prometheus_server import Config
from web_serving import answering

from metrics.families import BuildInfo
from metrics.observer import MetricsObserver
from metrics.registry import TolerantRegistry, register_process_metrics
from registrar.observer import (
    Announced,
    AnnouncementReason,
    Event,
    GetInfoReceived,
    ProbeFinished,
    ProbeResult,
    RegistrationSocketSeen,
    State,
    StateChanged,
    VerdictReceived,
)

DRIVERS = ("block", "file", "object", "scratch")
CONDITIONS = (State.REGISTERED, State.REJECTED, State.ANNOUNCED)
EVERY = 100
"""One node in so many has its first driver refused, and one not called for; the others are well."""

DURATIONS = (0.0008, 0.002, 0.002, 0.004, 0.004, 0.009, 0.03, 0.2)
"""What calls to the drivers take, in seconds, in turn."""


class Condition:
    """What nodes in one condition expose: four drivers, the first of them in a given state."""

    def __init__(self, state: State) -> None:
        self._registry = TolerantRegistry()
        build = BuildInfo(version="1.0.0", revision="0123abcd", python_version="3.11.7")
        self._registry.register(build)
        register_process_metrics(self._registry)
        self._metrics = MetricsObserver(self._registry)
        for number, name in enumerate(DRIVERS):
            for event in _beginning(name, State.REGISTERED if number else state):
                self._metrics.notify(event)
        self.text = ""
        self._durations = cycle(DURATIONS)

    def go_on(self) -> None:
        """Let each driver be looked at once more, and the probes of kubelet be answered."""
        for name in DRIVERS:
            address = _csi_address(name)
            for method in (GET_PLUGIN_INFO, PROBE):
                seconds = next(self._durations)
                call = called(method, seconds=seconds, name=_full(name), csi_address=address)
                self._metrics.notify(call)
            probe = ProbeFinished(
                csi_address=address, driver_name=_full(name), result=ProbeResult.READY
            )
            self._metrics.notify(probe)
        for handler in ("healthz", "readyz", "metrics"):
            self._metrics.count_http_request(handler, 200)
        self.text = exposition(self._registry)


class Exporter:
    """All nodes; `/NUMBER` is the path of each."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._conditions = {state: Condition(state) for state in CONDITIONS}

    async def live(self, seconds: float) -> NoReturn:
        """Let the nodes go on whenever some seconds have passed."""
        while True:
            for condition in self._conditions.values():
                condition.go_on()
            await asyncio.sleep(seconds)

    async def show(self, request: web.Request) -> web.Response:
        """Answer a scrape."""
        remainder = int(request.match_info["node"]) % EVERY
        state = CONDITIONS[remainder] if remainder in {1, 2} else State.REGISTERED
        return web.Response(text=self._conditions[state].text)

    def targets(self, address: str) -> list[Config]:
        """Return what Prometheus has to scrape."""
        return [
            {
                "targets": [address],
                "labels": {
                    "__metrics_path__": f"/{number}",
                    "cluster": "bench",
                    "namespace": "storage",
                    "node": f"node-{number:05}",
                    "instance": f"node-{number:05}:9809",
                },
            }
            for number in range(self._nodes)
        ]


@asynccontextmanager
async def exporting(nodes: int, *, every_seconds: float) -> AsyncIterator[list[Config]]:
    """Serve so many nodes on a free port of the loopback; give the targets to scrape."""
    exporter = Exporter(nodes)
    living = asyncio.create_task(exporter.live(every_seconds), name="living")
    try:
        async with answering("/{node}", exporter.show) as address:
            yield exporter.targets(address)
    finally:
        living.cancel()


def _beginning(name: str, state: State) -> Iterator[Event]:
    """Yield how a driver came to be in a state."""
    who = {"csi_address": _csi_address(name), "driver_name": _full(name)}
    path = f"/var/lib/kubelet/plugins_registry/{_full(name)}-reg.sock"
    yield from identified(_full(name), _csi_address(name))
    yield RegistrationSocketSeen(**who, is_present=True)
    yield Announced(**who, reason=AnnouncementReason.START, registration_socket_path=path)
    yield StateChanged(**who, old=State.WAITING, new=State.ANNOUNCED, registration_socket_path=path)
    if state is State.ANNOUNCED:
        return
    is_accepted = state is State.REGISTERED
    yield GetInfoReceived(**who)
    yield VerdictReceived(**who, is_accepted=is_accepted, error="", seconds_since_announcement=0.7)
    yield StateChanged(**who, old=State.ANNOUNCED, new=state, registration_socket_path=path)


def _full(name: str) -> str:
    return f"{name}.csi.example.com"


def _csi_address(name: str) -> str:
    return f"/csi/{name}.sock"
