"""Measures how long kubelet's list lacks the driver while one sidecar takes another's place.

`make swap`. A real update adds, where the old pod ends first, the time from then until the new
pod's containers run; `--pause` stands for it.
"""

import argparse
import asyncio
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from commanding import REGISTRAR, RunningCommand, running

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import CSINodeChanged

NAME = "swap.csi.example.com"
PATHS = {
    "csi-address": "csi.sock",
    "kubelet-registration-path": "csi.sock",
    "plugin-registration-path": "registration",
}
REGISTERED = "kubelet registered the driver"
SETTLE_SECONDS = 2.5
"""More than two ticks of kubelet's, so that nothing of a swap is still to come."""


@dataclass(frozen=True)
class Node:
    """A folder with a driver and a kubelet, and the sidecar that is there now."""

    folder: str
    kubelet: SimulatedKubelet
    stack: AsyncExitStack
    pause_seconds: float

    async def start(self) -> RunningCommand:
        """Start a sidecar."""
        flags = [f"--{flag}={self.folder}/{name}" for flag, name in PATHS.items()]
        return await self.stack.enter_async_context(running(REGISTRAR, *flags))


async def old_first(node: Node, old: RunningCommand) -> RunningCommand:
    """Swap as a DaemonSet does with maxUnavailable: the old pod ends, the new one starts."""
    await old.stop(signal.SIGTERM)
    await asyncio.sleep(node.pause_seconds)
    return await node.start()


async def new_first(node: Node, old: RunningCommand) -> RunningCommand:
    """Swap as a DaemonSet does with maxSurge: the new pod is ready before the old one ends."""
    new = await node.start()
    await new.wait_for_log(REGISTERED)
    await old.stop(signal.SIGTERM)
    return new


async def crash(node: Node, old: RunningCommand) -> RunningCommand:
    """Swap as after a crash: the old container is killed, and leaves its socket behind."""
    await old.stop(signal.SIGKILL)
    return await node.start()


ORDERS: dict[str, Callable[[Node, RunningCommand], Awaitable[RunningCommand]]] = {
    "old pod first (maxUnavailable)": old_first,
    "new pod first (maxSurge)": new_first,
    "killed and restarted": crash,
}


def seconds_without(changes: list[CSINodeChanged], until: float) -> float:
    """Return for how long CSINode lacked the driver, of the time that the changes cover."""
    total, gone_at = 0.0, None
    for change in changes:
        if NAME not in change.driver_names and gone_at is None:
            gone_at = change.at_seconds
        elif NAME in change.driver_names and gone_at is not None:
            total += change.at_seconds - gone_at
            gone_at = None
    return total if gone_at is None else total + until - gone_at


async def measure(order: str, swaps: int, pause_seconds: float = 0.0) -> list[float]:
    """Return for each of many swaps how many seconds kubelet's list lacked the driver."""
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as folder:
        async with (
            SimulatedDriver(f"{folder}/csi.sock", name=NAME),
            SimulatedKubelet(f"{folder}/registration") as kubelet,
            AsyncExitStack() as stack,
        ):
            node = Node(folder, kubelet, stack, pause_seconds)
            now = await node.start()
            await now.wait_for_log(REGISTERED)
            gaps = []
            for _ in range(swaps):
                # Not in step with kubelet's ticks.
                await asyncio.sleep(SETTLE_SECONDS + random.random())  # noqa: S311 - no secret
                before = kubelet.mark()
                now = await ORDERS[order](node, now)
                await now.wait_for_log(REGISTERED)
                await asyncio.sleep(SETTLE_SECONDS)
                seen = kubelet.records[before:]
                changes = [each for each in seen if isinstance(each, CSINodeChanged)]
                gaps.append(seconds_without(changes, time.monotonic()))
            return gaps


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--swaps", type=int, default=10, help="swaps in each order")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between the two pods")
    arguments = parser.parse_args()
    sys.stdout.write(
        f"{'seconds without the driver':<34}{'median':>8}{'shortest':>10}{'longest':>9}\n"
    )
    for order in ORDERS:
        gaps = asyncio.run(measure(order, arguments.swaps, arguments.pause))
        figures = f"{statistics.median(gaps):>8.2f}{min(gaps):>10.2f}{max(gaps):>9.2f}"
        sys.stdout.write(f"{order:<34}{figures}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
