"""Measures what the registrar costs on a node: `make bench` (BENCH="--runs 3 --idle 10").

Medians of one run on one machine, beside the budgets and the last committed figures. No test judges
them. GO_REGISTRAR and GO_LIVENESSPROBE may name the Go programs, to be measured in the same run and
compared with.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

import bench_figures as measure
import bench_go
from bench_node import Figure, Node, a_node

COMMITTED = Path(__file__).parent / "data" / "bench.json"
MEMORY_LIMIT_MEBIBYTES = 32
CPU_SHARE = 0.05
LONG_RUNS = 3
"""How often what takes a minute is measured."""


async def all_figures(*, runs: int, probes: int, idle_seconds: float) -> list[Figure]:
    """Measure everything, one after the other."""
    async with a_node() as node:
        figures = [
            *await measure.start_figures(node, runs),
            *measure.baseline_figures(runs),
            *await measure.probe_figures(node, probes),
            *await measure.hang_figures(node),
            *await exec_probe(node),
            *await measure.idle_figures(node, LONG_RUNS, idle_seconds),
        ]
    figures += await measure.several_figures(10)
    async with a_node() as node:
        figures += await under_limits(node, probes, idle_seconds)
        figures += await go_programs(node, runs, probes, idle_seconds)
    return [*figures, *bench_go.ratios(figures)]


async def exec_probe(node: Node) -> list[Figure]:
    """Measure the exec probe beside a registered sidecar."""
    async with node.registrar():
        return await asyncio.to_thread(measure.exec_probe_figures, node, 20)


async def under_limits(node: Node, probes: int, seconds: float) -> list[Figure]:
    """Measure in control groups, if they can be made here."""
    try:
        return [
            *await measure.memory_limit_figures(node, probes, MEMORY_LIMIT_MEBIBYTES),
            *await measure.cpu_limit_figures(node, CPU_SHARE, LONG_RUNS, seconds),
        ]
    except PermissionError as error:
        sys.stdout.write(f"not measured under limits: {error}\n")
        return []


async def go_programs(node: Node, runs: int, probes: int, seconds: float) -> list[Figure]:
    """Measure the Go programs that the environment names."""
    figures = []
    if program := os.environ.get("GO_REGISTRAR"):
        figures += await bench_go.registrar_figures(node, program, runs=runs, seconds=seconds)
    if program := os.environ.get("GO_LIVENESSPROBE"):
        figures += await bench_go.livenessprobe_figures(
            node, program, probes=probes, seconds=seconds
        )
    return figures


def row(figure: Figure, before: Mapping[str, float]) -> str:
    """Return a figure's line: median, spread, budget and whether it is kept, and last time's."""
    last = f"{before[figure.what]:.2f}" if figure.what in before else ""
    budget = ""
    if figure.budget is not None:
        kept = "kept" if figure.median <= figure.budget else "NOT KEPT"
        budget = f"<= {figure.budget:g} {kept}"
    return (
        f"{figure.what:<50}{figure.median:>9.2f} {figure.unit:<6}"
        f"{figure.spread:>18}   {budget:<18}{last:>9}"
    )


def main() -> int:
    """Print the table, and write the medians as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="starts to measure")
    parser.add_argument("--probes", type=int, default=4000, help="probes before memory is read")
    parser.add_argument("--idle", type=float, default=60, help="seconds of idleness to measure")
    parser.add_argument("--json", type=Path, help=f"write the medians there ({COMMITTED.name})")
    arguments = parser.parse_args()
    before = json.loads(COMMITTED.read_text(encoding="utf-8")) if COMMITTED.exists() else {}
    heads = f"{'':<50}{'median':>9}       {'spread':>18}   {'budget':<18}{'last time':>9}"
    sys.stdout.write(f"{machine()}\n{heads}\n")
    figures = asyncio.run(
        all_figures(runs=arguments.runs, probes=arguments.probes, idle_seconds=arguments.idle)
    )
    for figure in figures:
        sys.stdout.write(f"{row(figure, before.get('figures', {}))}\n")
    if arguments.json:
        medians = {figure.what: round(figure.median, 3) for figure in figures}
        text = json.dumps({"machine": machine(), "figures": medians}, indent=2)
        arguments.json.write_text(f"{text}\n", encoding="utf-8")
    return 0


def machine() -> str:
    """Say what the figures were taken on."""
    return f"CPython {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())
