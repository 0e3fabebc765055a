"""Measures what the fleet's dashboard costs a real Prometheus: `make fleet-bench`, three minutes.

Prometheus scrapes hundreds of nodes of four drivers each, and more often than usual, so that two
minutes fill a graph with as many points as an hour does on the dashboard. No test judges these
figures; what is said of more nodes is computed from them, and so marked.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import grafana
from fleet import RULES, prometheus_running
from fleet_exporter import exporting
from grafana import Query, View
from prometheus_server import Config
from promql import PromQL

LARGE_FLEET = 5000
TIMES = 5
SCRAPE_SECONDS = 5

VIEW = View(seconds=120, step_seconds=1, rate_seconds=4 * SCRAPE_SECONDS)
"""As many points as a graph of the dashboard has at most."""

EVALUATION_SECONDS = 15


@dataclass(frozen=True)
class Timed:
    """How long a query took, and how many series it gave."""

    query: Query
    seconds: list[float]
    series: int

    @property
    def median(self) -> float:
        """The middle of the times, in seconds."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Load:
    """What a fleet is to Prometheus, by its own figures."""

    nodes: int
    series: float
    samples_a_second: float
    resident_bytes: float
    rules_seconds: float


async def measure(nodes: int) -> tuple[Load, list[Timed]]:
    """Scrape a fleet until graphs are full, and ask all that its dashboard asks.

    The nodes are gone by then, for at such a rate of scrapes it is them that would be measured.
    """
    async with AsyncExitStack() as fleet, AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="f", dir="/tmp"))
        targets = await fleet.enter_async_context(exporting(nodes, every_seconds=SCRAPE_SECONDS))
        prometheus = await stack.enter_async_context(prometheus_running(_config(targets), folder))
        await prometheus.wait_until(
            "count(csi_node_registrar_build_info)",
            lambda answer: bool(answer) and answer[0].last == nodes,
            timeout_seconds=60,
        )
        await asyncio.sleep(VIEW.seconds)
        load = await _load(prometheus, nodes)
        view = replace(VIEW, end=time.time())
        await fleet.aclose()
        queries = grafana.queries(grafana.FLEET)
        return load, [await _time(prometheus, query, view) for query in queries]


def report(load: Load, timed: Sequence[Timed]) -> str:
    """Return the figures as tables, and what follows from them for a large fleet."""
    factor = LARGE_FLEET / load.nodes
    lines = [
        f"{'':<38}{load.nodes:>9} nodes{LARGE_FLEET:>9} nodes, computed (x {factor:g})",
        _both("series", load.series, factor, "8,.0f"),
        _both("samples a second", load.samples_a_second, factor, "8,.0f"),
        _both("resident memory of Prometheus, MiB", load.resident_bytes / 2**20, factor, "8,.0f"),
        _both("one round of the rules, s", load.rules_seconds, factor, "8.2f"),
        "",
        f"{'query':<38}{'ms':>9}      {'ms':>9}        series",
    ]
    for each in sorted(timed, key=lambda each: each.median, reverse=True):
        kind = "now" if each.query.is_instant else "graph"
        figures = _both(f"{each.query.place}, {kind}", each.median * 1000, factor, "8.0f")
        lines.append(f"{figures}{each.series:>14}")
    return "\n".join(lines)


def _both(what: str, value: float, factor: float, form: str) -> str:
    return f"{what:<39}{value:{form}}      {value * factor:>{form}}"


def _config(targets: Sequence[Config]) -> dict[str, object]:
    return {
        "global": {
            "scrape_interval": f"{SCRAPE_SECONDS}s",
            "scrape_timeout": f"{SCRAPE_SECONDS}s",
            "evaluation_interval": f"{EVALUATION_SECONDS}s",
        },
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "csi", "static_configs": targets}],
    }


async def _time(prometheus: PromQL, query: Query, view: View) -> Timed:
    seconds = []
    series = 0
    for _ in range(TIMES):
        begun = time.perf_counter()
        series = len(await grafana.answer(prometheus, query, grafana.FLEET, {}, view))
        seconds.append(time.perf_counter() - begun)
    return Timed(query, seconds, series)


async def _load(prometheus: PromQL, nodes: int) -> Load:
    figures = await prometheus.own_metrics()
    (samples,) = await prometheus.now("sum(scrape_samples_scraped)")
    return Load(
        nodes=nodes,
        series=figures["prometheus_tsdb_head_series"],
        samples_a_second=samples.last / SCRAPE_SECONDS,
        resident_bytes=figures["process_resident_memory_bytes"],
        rules_seconds=figures["prometheus_rule_group_last_duration_seconds"],
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500, help="each of four drivers")
    options = parser.parse_args()
    load, timed = asyncio.run(measure(options.nodes))
    sys.stdout.write(report(load, timed) + "\n")


if __name__ == "__main__":
    main()
