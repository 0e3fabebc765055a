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
from dataclasses import dataclass, replace

import grafana
from fleet import RULES, prometheus_running
from fleet_exporter import exporting
from grafana import Query, View
from prometheus_server import Config
from promql import PromQL

LARGE_FLEET = 5000
TIMES = 5
"""Each query is asked, once it has been asked before: a dashboard asks it every minute."""
SCRAPE_SECONDS = 5

USUAL_SCRAPE_SECONDS = 30

VIEW = View(seconds=120, step_seconds=1, rate_seconds=4 * SCRAPE_SECONDS)

EVALUATION_SECONDS = 30


@dataclass(frozen=True)
class Timed:
    """What a query took."""

    query: Query
    seconds: float
    """The median, by the clock."""
    cpu_seconds: float
    """The mean. On a busy machine this says more than the clock does."""
    series: int
    """In the answer."""


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

    Another server answers, one that scrapes nobody: at such a rate of scrapes, it is these that
    would be measured.
    """
    with tempfile.TemporaryDirectory(prefix="f", dir="/tmp") as folder:
        async with (
            exporting(nodes, every_seconds=SCRAPE_SECONDS) as targets,
            prometheus_running(_config(targets), folder) as prometheus,
        ):
            await prometheus.wait_until(
                "count(csi_node_registrar_build_info)",
                lambda answer: bool(answer) and answer[0].last == nodes,
                timeout_seconds=60,
            )
            await asyncio.sleep(VIEW.seconds)
            load = await _load(prometheus, nodes)
            view = replace(VIEW, end=time.time())
        async with prometheus_running({}, folder) as idle:
            queries = grafana.queries(grafana.FLEET)
            return load, [await _time(idle, query, view) for query in queries]


def report(load: Load, timed: Sequence[Timed]) -> str:
    """Return the figures as tables, and what follows from them for a large fleet."""
    factor = LARGE_FLEET / load.nodes
    figures = {
        "series": load.series,
        f"samples a second, one scrape in {USUAL_SCRAPE_SECONDS} s": load.samples_a_second,
        "resident memory of Prometheus, MiB": load.resident_bytes / 2**20,
        "seconds for one round of the rules": load.rules_seconds,
    }
    lines = [
        f"{'':<45}{load.nodes:>9} nodes {LARGE_FLEET:>9} nodes, computed (x {factor:g})",
        *(f"{what:<45}{value:>15,.0f}{value * factor:>16,.0f}" for what, value in figures.items()),
        "",
        f"{'query':<45}{'ms':>7}{'CPU ms':>8}{'CPU ms, computed':>23}{'series':>8}",
    ]
    for each in sorted(timed, key=lambda each: each.cpu_seconds, reverse=True):
        kind = "now" if each.query.is_instant else "graph"
        cpu = each.cpu_seconds * 1000
        lines.append(
            f"{f'{each.query.place}, {kind}':<45}{each.seconds * 1000:>7.0f}{cpu:>8.0f}"
            f"{cpu * factor:>16.0f}{each.series:>15}"
        )
    return "\n".join(lines)


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
    view = replace(view, step_seconds=max(1, view.seconds // query.points))
    answer = await grafana.answer(prometheus, query, grafana.FLEET, {}, view)
    times = []
    cpu_before = (await prometheus.own_metrics())["process_cpu_seconds_total"]
    for _ in range(TIMES):
        begun = time.perf_counter()
        await grafana.answer(prometheus, query, grafana.FLEET, {}, view)
        times.append(time.perf_counter() - begun)
    cpu = (await prometheus.own_metrics())["process_cpu_seconds_total"] - cpu_before
    return Timed(query, statistics.median(times), cpu / TIMES, len(answer))


async def _load(prometheus: PromQL, nodes: int) -> Load:
    figures = await prometheus.own_metrics()
    (samples,) = await prometheus.now("sum(scrape_samples_scraped)")
    return Load(
        nodes=nodes,
        series=figures["prometheus_tsdb_head_series"],
        samples_a_second=samples.last / USUAL_SCRAPE_SECONDS,
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
