"""The measurements of `bench`, one function for each kind of figure."""

import asyncio
import dataclasses
import datetime as dt
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc.aio
from bench_node import (
    Figure,
    Node,
    a_node,
    cpu_seconds,
    get,
    get_often,
    megabytes,
    part_of,
    regular_gets,
    wake_ups,
)
from control_groups import limited_cpu, limited_memory

from csi_registration_simulator.kubelet_records import (
    GetInfoAnswered,
    GetInfoFailed,
    Notified,
    SocketCreated,
)
from pluginregistration.v1 import registration_pb2, registration_pb2_grpc
from registrar.unix_sockets import grpc_target

_LIBRARIES = (
    "import time, grpc.aio, aiohttp.web, prometheus_client, grpc_health.v1.health_pb2_grpc\n"
    "print(time.process_time(), flush=True)\ninput()"
)


async def start_figures(node: Node, runs: int) -> list[Figure]:
    """Measure from exec to HTTP, the socket and kubelet's GetInfo, and the CPU until accepted."""
    served, visible, answered, cpu = [], [], [], []
    for _ in range(runs):
        before, begun, begun_today = node.kubelet.mark(), time.monotonic(), _time_of_day()
        async with node.registrar() as command:
            seen = await node.kubelet.wait_for_record(SocketCreated, after=before)
            told = await node.kubelet.wait_for_record(GetInfoAnswered, after=before)
            await command.url()
            served.append(_logged_at(next(filter(_has_url, command.lines))) - begun_today)
            visible.append(seen.at_seconds - begun)
            answered.append(told.at_seconds - begun)
            cpu.append(cpu_seconds(command.process.pid))
    return [
        Figure(what="start to HTTP", values=served, unit="s"),
        Figure(what="start to registration socket", values=visible, unit="s", budget=0.30),
        Figure(what="start to GetInfo answered (kubelet's tick: 1 s)", values=answered, unit="s"),
        Figure(what="CPU until registered", values=cpu, unit="s", budget=0.25),
    ]


def _has_url(line: str) -> bool:
    return 'url="http' in line


def _time_of_day() -> float:
    """Return the seconds since midnight, as klog's lines give them."""
    now = dt.datetime.now(tz=dt.UTC).astimezone()
    return (now - now.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()


def _logged_at(line: str) -> float:
    hours, minutes, seconds = line.split()[1].split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def baseline_figures(runs: int) -> list[Figure]:
    """Measure a bare Python that imports the same libraries and does nothing."""
    cpu, held = [], []
    for _ in range(runs):
        command = [sys.executable, "-c", _LIBRARIES]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            cpu.append(float(process.stdout.readline()))
            held.append(megabytes(process.pid)["Rss"])
            process.communicate("\n")
    return [
        Figure(what="baseline: the libraries, imported", values=cpu, unit="s CPU", ours=False),
        Figure(what="baseline: the libraries, resident", values=held, unit="MB", ours=False),
    ]


async def probe_figures(node: Node, probes: int) -> list[Figure]:
    """Measure probes and scrapes, and the memory before and after them."""
    async with node.registrar() as command:
        url, pid = await command.url(), command.process.pid
        first = megabytes(pid)
        tenths = [
            await asyncio.to_thread(get_often, url, "/healthz", probes // 10) for _ in range(10)
        ]
        await asyncio.to_thread(get_often, url, "/metrics", 100)
        after = megabytes(pid)
        await asyncio.to_thread(get_often, url, "/healthz", probes)
        later = megabytes(pid)
        # A 99th percentile of a hundred would be the one that was disturbed most.
        scrapes = await asyncio.to_thread(get_often, url, "/metrics", 1000)
    return [
        Figure(
            what="/healthz with the driver's call, p50",
            values=[part_of(tenth, 0.5) for tenth in tenths],
            unit="ms",
            budget=1.5,
        ),
        Figure(what="/healthz, p99", values=[part_of(tenth, 0.99) for tenth in tenths], unit="ms"),
        Figure(what="/metrics, p99", values=[part_of(scrapes, 0.99)], unit="ms", budget=5),
        Figure(what="resident once registered", values=[first["Rss"]], unit="MB"),
        Figure(
            what=f"resident after {probes} probes, 100 scrapes",
            values=[after["Rss"]],
            unit="MB",
            budget=48,
        ),
        Figure(
            what=f"resident after {probes} probes more",
            values=[later["Rss"]],
            unit="MB",
            budget=48,
        ),
        Figure(what="anonymous then", values=[later["Anonymous"]], unit="MB"),
        Figure(what="proportional (PSS) then", values=[later["Pss"]], unit="MB"),
    ]


async def idle_figures(node: Node, runs: int, seconds: float) -> list[Figure]:
    """Measure with a probe every ten seconds and a scrape every fifteen, each run by itself."""
    rates, shares = [], []
    for _ in range(runs):
        async with node.registrar() as command:
            url, pid = await command.url(), command.process.pid
            await asyncio.sleep(5)
            sleeps, used, begun = wake_ups(pid), cpu_seconds(pid), time.monotonic()
            async with regular_gets(url, "/healthz", 10), regular_gets(url, "/metrics", 15):
                await asyncio.sleep(seconds)
            took = time.monotonic() - begun
            rates.append((wake_ups(pid) - sleeps) / took)
            shares.append(100 * (cpu_seconds(pid) - used) / took)
    return [
        Figure(what="wake-ups, idle", values=rates, unit="/s", budget=12),
        Figure(what="CPU, idle", values=shares, unit="%", budget=0.1),
    ]


async def hang_figures(node: Node) -> list[Figure]:
    """Measure GetInfo while the driver hangs and forty probes wait for it."""
    patient = dataclasses.replace(node, flags=(*node.flags, "--probe-timeout=20s"))
    async with patient.registrar() as command:
        url = await command.url()
        target = grpc_target(node.registration_socket())
        milliseconds = []
        node.freeze_driver()
        with ThreadPoolExecutor(40) as pool:
            probes = [pool.submit(get, url, "/healthz") for _ in range(40)]
            async with grpc.aio.insecure_channel(target) as channel:
                stub = registration_pb2_grpc.RegistrationStub(channel)
                for _ in range(500):
                    begun = time.perf_counter()
                    await stub.GetInfo(registration_pb2.InfoRequest(), timeout=1.0)
                    milliseconds.append(1000 * (time.perf_counter() - begun))
            if any(probe.done() for probe in probes):
                raise RuntimeError("the probes did not hang for as long as GetInfo was measured")
            node.thaw_driver()
    milliseconds.sort()
    return [
        Figure(
            what="GetInfo beside 40 hanging probes, p99",
            values=[part_of(milliseconds, 0.99)],
            unit="ms",
            budget=20,
        )
    ]


def exec_probe_figures(node: Node, runs: int) -> list[Figure]:
    """Measure the exec probe against a registered sidecar, beside a Python that does nothing."""
    program, *pair, folder = node.arguments()[:4]
    probe = [program, pair[1], folder, "--mode=kubelet-registration-probe"]
    return [
        Figure(
            what="CPU of one exec probe",
            values=_cpu_milliseconds(probe, runs),
            unit="ms",
            budget=40,
        ),
        Figure(
            what="baseline: a Python that does nothing",
            values=_cpu_milliseconds([sys.executable, "-c", ""], runs),
            unit="ms",
            ours=False,
        ),
    ]


def _cpu_milliseconds(command: list[str], runs: int) -> list[float]:
    used = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        used.append(1000 * seconds)
    return used


async def several_figures(drivers: int) -> list[Figure]:
    """Measure what each driver after the first costs in one process."""
    held = {}
    for number in (1, 2, drivers):
        async with a_node(number) as node, node.registrar() as command:
            held[number] = megabytes(command.process.pid)["Rss"]
    further = (held[drivers] - held[1]) / (drivers - 1)
    return [
        Figure(what="resident with the second driver, more", values=[held[2] - held[1]], unit="MB"),
        Figure(
            what=f"resident for each driver, second to {drivers}th",
            values=[further],
            unit="MB",
            budget=1.5,
        ),
    ]


async def memory_limit_figures(node: Node, probes: int, mebibytes: int) -> list[Figure]:
    """Measure in a control group with a memory limit; a kill ends the measurement."""
    with limited_memory(mebibytes * 2**20) as group:
        limited = dataclasses.replace(node, prefix=group.command())
        async with limited.registrar() as command:
            url = await command.url()
            await asyncio.to_thread(get_often, url, "/healthz", probes)
            await asyncio.to_thread(get_often, url, "/metrics", 100)
            for _ in range(20):
                before = node.kubelet.mark()
                await node.kubelet.restart()
                await node.kubelet.wait_for_record(Notified, after=before)
            held, kills = group.anonymous_bytes / 1e6, group.kills
    return [
        Figure(
            what=f"rss in a memory limit of {mebibytes} MiB", values=[held], unit="MB", budget=28
        ),
        Figure(what="killed there", values=[float(kills)], unit="times", budget=0),
    ]


async def cpu_limit_figures(node: Node, share: float, runs: int, seconds: float) -> list[Figure]:
    """Measure starts at a small share of a core, then probes, scrapes and kubelet's rounds."""
    visible: list[float] = []
    with limited_cpu(share) as group:
        limited = dataclasses.replace(node, prefix=group.command())
        first = node.kubelet.mark()
        for _ in range(runs):
            before, begun = node.kubelet.mark(), time.monotonic()
            async with limited.registrar() as command:
                seen = await node.kubelet.wait_for_record(SocketCreated, after=before)
                visible.append(seen.at_seconds - begun)
                if len(visible) == runs:
                    await _rounds_of_kubelet(node, await command.url(), seconds)
        records = node.kubelet.records[first:]
    asked = [one for one in records if isinstance(one, GetInfoAnswered)]
    failed = [one for one in records if isinstance(one, GetInfoFailed)]
    percent = f"{100 * share:g} % of a core"
    return [
        Figure(
            what=f"start to socket at {percent}",
            values=visible,
            unit="s",
            budget=5,
        ),
        Figure(
            what=f"GetInfo at {percent}, {len(asked)} calls",
            values=[1000 * one.seconds for one in asked],
            unit="ms",
            budget=1000,
        ),
        Figure(what="GetInfo failed there", values=[float(len(failed))], unit="times", budget=0),
    ]


async def _rounds_of_kubelet(node: Node, url: str, seconds: float) -> None:
    async with regular_gets(url, "/healthz", 2), regular_gets(url, "/metrics", 5):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            await node.kubelet.restart()
            await asyncio.sleep(2)  # afterwards: the last GetInfo is not cut off by the end
