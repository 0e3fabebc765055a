"""The Go programs that `bench` is told of, measured in the same run, and ours as ratios of them."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from bench_node import (
    Figure,
    Node,
    cpu_seconds,
    free_port,
    get_often,
    megabytes,
    part_of,
    regular_gets,
    until_it_listens,
    wake_ups,
)
from commanding import RunningCommand, running

from csi_registration_simulator.kubelet_records import SocketCreated

_TURNS = 10
"""How often the two answer probes one after the other: what disturbs one disturbs both."""

_COMPARISONS = (
    ("start to registration socket", ["Go registrar: start to socket"]),
    ("CPU until registered", ["Go registrar: CPU until registered"]),
    ("resident once registered", ["Go registrar: resident", "Go livenessprobe: resident"]),
    ("wake-ups, idle", ["Go registrar: wake-ups, idle", "Go livenessprobe: wake-ups, idle"]),
)
"""A figure of ours, and those of the Go programs that it takes the place of, added up."""


async def registrar_figures(node: Node, program: str, *, runs: int, seconds: float) -> list[Figure]:
    """Measure the Go registrar's start and memory, and its wake-ups for so long."""
    visible, cpu, held = [], [], []
    go = dataclasses.replace(node, program=program, flags=())
    for _ in range(runs):
        before, begun = node.kubelet.mark(), time.monotonic()
        async with go.registrar() as command:
            seen = await node.kubelet.wait_for_record(SocketCreated, after=before)
            visible.append(seen.at_seconds - begun)
            cpu.append(cpu_seconds(command.process.pid))
            held.append(megabytes(command.process.pid)["Rss"])
    async with go.registrar() as command:
        rate = await _wake_ups_a_second(command, seconds)
    name = "Go registrar"
    return [
        Figure(what=f"{name}: start to socket", values=visible, unit="s", ours=False),
        Figure(what=f"{name}: CPU until registered", values=cpu, unit="s", ours=False),
        Figure(what=f"{name}: resident", values=held, unit="MB", ours=False),
        Figure(what=f"{name}: wake-ups, idle", values=[rate], unit="/s", ours=False),
    ]


async def livenessprobe_figures(
    node: Node, program: str, *, probes: int, seconds: float
) -> list[Figure]:
    """Measure the Go livenessprobe, and its probes and ours in turns."""
    async with _go_livenessprobe(node, program) as (go, go_url):
        held = megabytes(go.process.pid)["Rss"]
        # Before the many probes: each leaves timers behind that run for seconds afterwards.
        async with regular_gets(go_url, "/healthz", 10):
            rate = await _wake_ups_a_second(go, seconds)
        async with node.registrar() as ours:
            turns = await asyncio.to_thread(
                _medians_in_turns, [await ours.url(), go_url], probes // _TURNS
            )
        held_then = megabytes(go.process.pid)["Rss"]
    name = "Go livenessprobe"
    return [
        Figure(what=f"{name}: resident", values=[held], unit="MB", ours=False),
        Figure(what=f"{name}: after {probes} probes", values=[held_then], unit="MB", ours=False),
        Figure(what=f"{name}: wake-ups, idle", values=[rate], unit="/s", ours=False),
        Figure(what=f"{name}: /healthz, p50", values=turns[1], unit="ms", ours=False),
        Figure(what="/healthz, p50, in turns with Go's", values=turns[0], unit="ms"),
        Figure(
            what="ratio to Go: /healthz, p50",
            values=[ours / go for ours, go in zip(*turns, strict=True)],
            unit="x",
        ),
    ]


def ratios(figures: Iterable[Figure]) -> list[Figure]:
    """Return our figures as ratios of Go's, as far as Go's were measured and are not 0."""
    medians = {figure.what: figure.median for figure in figures}
    return [
        Figure(what=f"ratio to Go: {ours}", values=[medians[ours] / go], unit="x")
        for ours, theirs in _COMPARISONS
        if all(one in medians for one in theirs) and (go := sum(medians[one] for one in theirs))
    ]


@asynccontextmanager
async def _go_livenessprobe(node: Node, program: str) -> AsyncIterator[tuple[RunningCommand, str]]:
    port = free_port()
    flags = (f"--csi-address={node.driver_socket()}", f"--http-endpoint=127.0.0.1:{port}")
    async with running(program, *flags) as command:
        await until_it_listens(port)
        yield command, f"http://127.0.0.1:{port}"


async def _wake_ups_a_second(command: RunningCommand, seconds: float) -> float:
    pid = command.process.pid
    await asyncio.sleep(5)
    before = wake_ups(pid)
    await asyncio.sleep(seconds)
    return (wake_ups(pid) - before) / seconds


def _medians_in_turns(urls: Sequence[str], times: int) -> list[list[float]]:
    """Return each URL's median of milliseconds in every turn."""
    medians: list[list[float]] = [[] for _ in urls]
    for _ in range(_TURNS):
        for url, of_it in zip(urls, medians, strict=True):
            of_it.append(part_of(get_often(url, "/healthz", times), 0.5))
    return medians
