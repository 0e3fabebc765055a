"""A small fleet whose nodes are broken in different ways, scraped by a real Prometheus.

The sidecars are the installed command; drivers and kubelets are the simulator's. To look at it with
a Grafana of one's own: `PYTHONPATH=tests python tests/fleet.py` prints where Prometheus listens,
and runs until it is interrupted.
"""

import asyncio
import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from commanding import REGISTRAR, RunningCommand, running
from prometheus_server import Config, serving, url_of
from promql import PromQL, Series
from web_serving import answering

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet

BLOCK = "block.csi.example.com"
FILE = "file.csi.example.com"

CLUSTER = "test"
NAMESPACE = "storage"
JOB = "csi-node-driver-registrar"

RULES = Path(__file__).parents[1] / "deploy/prometheus/csi-node-driver-registrar.rules.yaml"

STATES = {
    ("well", BLOCK): "registered",
    ("well", FILE): "registered",
    ("updated", BLOCK): "registered",
    ("rejected", BLOCK): "rejected",
    ("silent", BLOCK): "announced",
    ("lost", BLOCK): "waiting",
    ("crashed", BLOCK): "registered",
    ("hung", BLOCK): "registered",
    ("unready", BLOCK): "registered",
    ("pair", BLOCK): "standby",
    ("pair-2", BLOCK): "registered",
}
"""Where each sidecar's drivers end up. The two of the pair share a node, as in a rolling update;
the later one has taken over."""

WITHOUT_DRIVER = "empty"
GONE = "gone"
"""Its sidecar was scraped once and is no more."""

ALWAYS = 1_000_000

SCRAPES = 5
"""Of the good start, so that graphs show it."""


@dataclass
class Sidecar:
    """The command beside the drivers of one node."""

    name: str
    command: RunningCommand
    url: str

    @property
    def host_and_port(self) -> str:
        """Where it serves HTTP."""
        return urlsplit(self.url).netloc


class Node:
    """A node with its drivers, which do not run yet, and its kubelet."""

    def __init__(self, folder: str, name: str, driver_names: Sequence[str] = (BLOCK,)) -> None:
        self.name = name
        self.folder = f"{folder}/{name}"
        self.registration_folder = f"{self.folder}/registration"
        os.makedirs(self.registration_folder)
        self.drivers = [
            SimulatedDriver(f"{self.folder}/{number}.sock", name=driver_name)
            for number, driver_name in enumerate(driver_names)
        ]
        self.kubelet = SimulatedKubelet(self.registration_folder)

    @property
    def driver(self) -> SimulatedDriver:
        """Its first driver."""
        return self.drivers[0]

    def command_line(self, http_endpoint: str = "127.0.0.1:0") -> list[str]:
        """Return the command that keeps its drivers registered, in more of a hurry than usual."""
        pairs = [
            flag
            for driver in self.drivers
            for flag in (
                f"--csi-address={driver.csi_address}",
                f"--kubelet-registration-path={driver.csi_address}",
            )
        ]
        return [
            REGISTRAR,
            *pairs,
            f"--plugin-registration-path={self.registration_folder}",
            f"--http-endpoint={http_endpoint}",
            "--monitor-interval=1s",
            "--kubelet-silence-timeout=2s",
        ]


class Fleet:
    """All nodes and their sidecars, in the condition that `running_fleet` has brought about."""

    def __init__(self, folder: str, stack: AsyncExitStack) -> None:
        self.nodes = {
            name: Node(folder, name)
            for name in (
                *("updated", "rejected", "silent", "lost", "crashed", "hung", "unready"),
                *("pair", WITHOUT_DRIVER, GONE),
            )
        }
        self.nodes["well"] = Node(folder, "well", (BLOCK, FILE))
        self.sidecars: dict[str, Sidecar] = {}
        self.prometheus: PromQL
        self._stack = stack
        self._folder = folder

    async def start(self) -> None:
        """Let everything begin as it would on a good day, but for what is broken from the start."""
        nodes = self.nodes
        nodes["rejected"].kubelet.refuse_next(ALWAYS, "the API server refuses the CSINode object")
        nodes["silent"].kubelet = SimulatedKubelet(f"{self._folder}/elsewhere")
        nodes["hung"].driver.delay_seconds["Probe"] = 3600
        nodes["unready"].driver.is_ready = False
        for node in nodes.values():
            if node.name != "lost":
                await self._stack.enter_async_context(node.kubelet)
            if node.name != WITHOUT_DRIVER:
                for driver in node.drivers:
                    await self._stack.enter_async_context(driver)
            await self._start_sidecar(node.name, node.command_line())
        await self.sidecars["pair"].command.wait_for_log("Registration socket published")
        await self._start_sidecar("pair-2", nodes["pair"].command_line())

    async def _start_sidecar(self, name: str, command_line: Sequence[str]) -> None:
        command = await self._stack.enter_async_context(running(*command_line))
        self.sidecars[name] = Sidecar(name, command, await command.url())

    async def go_wrong(self) -> None:
        """Let happen what happens to a fleet, each time in sight of Prometheus, until all is done.

        Raises:
            TimeoutError: if something does not come to the end that it should.
        """
        await self._reach({**STATES, ("lost", BLOCK): "announced", (GONE, BLOCK): "registered"})
        often = f"count_over_time(csi_node_registrar_build_info[1m]) >= {SCRAPES}"
        await self.prometheus.wait_until(often, lambda answer: len(answer) == len(self.sidecars))
        updated = self.nodes["updated"]
        updated.driver.vendor_version = "2.0.0"
        await updated.driver.restart()
        await self.nodes["crashed"].driver.crash()
        os.rename(self.nodes["lost"].registration_folder, f"{self._folder}/moved")
        await self.sidecars[GONE].command.stop()
        await self._see('csi_node_registrar_registrations_total{outcome="success"} > 1', "updated")
        sidecar = self.sidecars["updated"]
        await sidecar.command.stop()
        await self._start_sidecar("updated", updated.command_line(sidecar.host_and_port))
        await self._see("changes(process_start_time_seconds[1m]) > 0", "updated")
        await self._see("csi_node_registrar_driver_up == 0", "crashed")
        await self._see(f'up{{job="{JOB}"}} == 0', GONE)
        await self._reach(STATES)

    async def _reach(self, states: Mapping[tuple[str, str], str]) -> None:
        query = "csi_node_registrar_registration_state == 1"
        await self.prometheus.wait_until(query, lambda answer: _states(answer) == states)

    async def _see(self, query: str, node: str) -> None:
        def is_seen(answer: list[Series]) -> bool:
            return [each.labels["node"] for each in answer] == [node]

        await self.prometheus.wait_until(query, is_seen)

    async def show_plugins(self, request: web.Request) -> web.Response:
        """Show what the kubelet of a node knows, as kubelet's own metrics do."""
        kubelet = self.nodes[request.match_info["node"]].kubelet
        worlds = {
            "desired_state_of_world": kubelet.desired_socket_paths,
            "actual_state_of_world": kubelet.registered_socket_paths,
        }
        lines = [
            f'plugin_manager_total_plugins{{socket_path="{path}",state="{world}"}} 1\n'
            for world, paths in worlds.items()
            for path in paths
        ]
        return web.Response(text="".join(lines))

    async def probe_for_ever(self) -> None:
        """Ask each sidecar for its health every second, as kubelets do."""
        async with aiohttp.ClientSession() as session:
            while True:
                for sidecar in list(self.sidecars.values()):
                    for path in ("healthz", "readyz"):
                        with contextlib.suppress(aiohttp.ClientError):
                            async with session.get(f"{sidecar.url}/{path}"):
                                pass
                await asyncio.sleep(1)


@asynccontextmanager
async def running_fleet(alertmanagers: Iterable[str] = ()) -> AsyncIterator[Fleet]:
    """Run the fleet and a Prometheus that has seen where each sidecar has ended up.

    Args:
        alertmanagers: Where alerts are sent, as host and port.
    """
    folder = tempfile.mkdtemp(prefix="f", dir="/tmp")
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        fleet = Fleet(folder, stack)
        await fleet.start()
        probing = asyncio.create_task(fleet.probe_for_ever(), name="probing")
        stack.callback(probing.cancel)
        kubelets = await stack.enter_async_context(answering("/{node}", fleet.show_plugins))
        rules = Path(f"{folder}/rules.yaml")
        rules.write_text(hastened_rules(), encoding="utf-8")
        config = {
            **_scraping(_sidecars_of(fleet), _kubelets_of(fleet, kubelets)),
            "rule_files": [str(rules)],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [*alertmanagers]}]}]},
        }
        fleet.prometheus = await stack.enter_async_context(prometheus_running(config, folder))
        await fleet.go_wrong()
        yield fleet


@asynccontextmanager
async def plain_prometheus(fleet: Fleet) -> AsyncIterator[PromQL]:
    """Run another Prometheus, without rules, kubelets, or any label but job and instance."""
    targets = [{"targets": [one.host_and_port]} for one in fleet.sidecars.values()]
    with tempfile.TemporaryDirectory(prefix="f", dir="/tmp") as folder:
        async with prometheus_running(_scraping(targets, []), folder) as prometheus:
            await prometheus.wait_until("up", lambda answer: len(answer) == len(targets))
            yield prometheus


@asynccontextmanager
async def prometheus_running(config: Config, folder: str) -> AsyncIterator[PromQL]:
    """Run a Prometheus on a free port of the loopback."""
    arguments = (f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0")
    async with (
        serving("prometheus", config, folder, *arguments) as server,
        aiohttp.ClientSession() as session,
    ):
        url = await url_of(server)
        await server.wait_for_log(
            '"msg":"Server is ready to receive web requests."', timeout_seconds=60
        )
        yield PromQL(url, session)


def hastened_rules() -> str:
    """Return the project's rules with minutes made seconds."""
    text = RULES.read_text(encoding="utf-8")
    return re.sub(r"\b(\d+)m\b", r"\1s", text).replace("> 600", "> 10")


def _scraping(sidecars: Sequence[Config], kubelets: Sequence[Config]) -> dict[str, object]:
    """Return a configuration that scrapes these targets every second."""
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [
            {"job_name": JOB, "static_configs": sidecars},
            {"job_name": "kubelet", "static_configs": kubelets},
        ],
    }


def _sidecars_of(fleet: Fleet) -> list[Config]:
    return [
        {
            "targets": [one.host_and_port],
            "labels": {
                "cluster": CLUSTER,
                "namespace": NAMESPACE,
                "node": one.name.removesuffix("-2"),
                "instance": f"{one.name}:9809",
            },
        }
        for one in fleet.sidecars.values()
    ]


def _kubelets_of(fleet: Fleet, address: str) -> list[Config]:
    return [
        {
            "targets": [address],
            "labels": {
                "__metrics_path__": f"/{name}",
                "cluster": CLUSTER,
                "node": name,
                "instance": f"{name}:10250",
            },
        }
        for name in fleet.nodes
        if name != "lost"
    ]


def _states(answer: Iterable[Series]) -> dict[tuple[str, str], str]:
    """Return the states by sidecar and driver."""
    states = {}
    for each in answer:
        sidecar = each.labels["instance"].removesuffix(":9809")
        states[sidecar, each.labels["driver_name"]] = each.labels["state"]
    return states


async def _main() -> None:
    async with running_fleet() as fleet:
        sys.stdout.write(f"Prometheus listens on {fleet.prometheus.url}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main())
