"""Random sequences of events in worlds of real processes, with invariants that always hold.

`python tests/chaos.py --events 10000` runs several worlds at once until so many events have
happened. Every sequence follows from its seed; one that breaks an invariant is printed, shortened
as far as it still does.
"""

import argparse
import asyncio
import contextlib
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from chaos_events import EVENTS, heal
from chaos_promises import Violation
from chaos_world import World, can_mount, chaos_world

from csi_registration_simulator.kubelet_rules import KUBELET_1_34, KUBELET_1_36

EVENTS_PER_WORLD = 50
PAUSES_SECONDS = (0.0, 0.0, 0.1, 0.3, 0.7, 1.5)
SWEEP_SECONDS = 2.1
"""After which what a killed instance left behind is known to be nobody's."""

NOTHING = "$^"
"""A pattern that no name has in it."""

MAX_OPEN_FILES = 60
SHRINKING_SECONDS = 900.0
SHRINKING_AT_ONCE = 6


@dataclass(frozen=True)
class Step:
    """A pause, and the event after it."""

    pause_seconds: float
    event: str


@dataclass(frozen=True)
class Case:
    """What happens to one world: drawn from the seed, or as given."""

    seed: int
    steps: tuple[Step, ...] | None = None
    """None to draw them."""
    is_mounted: bool = False
    without: str = NOTHING
    """Events whose name has this pattern in it are left out."""


@dataclass
class Outcome:
    """What came of a case."""

    case: Case
    steps: list[Step] = field(default_factory=list)
    """Those that happened, the last of them perhaps in part."""
    violation: str = ""
    longest_gap_seconds: float = 0.0
    longest_registration_seconds: float = 0.0

    def tell(self) -> str:
        """Put what happened into words."""
        lines = [f"{step.pause_seconds:5.1f} s later: {step.event}" for step in self.steps]
        return "\n".join([f"seed {self.case.seed}:", *lines, self.violation])


async def run_case(case: Case, events: int = EVENTS_PER_WORLD) -> Outcome:
    """Let a world happen and see whether every invariant holds."""
    choose = random.Random(case.seed)  # noqa: S311 - a reproducible choice
    rules, interval = choose.choice((KUBELET_1_34, KUBELET_1_36)), choose.choice((1, 10))
    outcome = Outcome(case)
    async with chaos_world(
        rules, monitor_interval_seconds=interval, is_mounted=case.is_mounted
    ) as world:
        steps = (
            _draw(choose, world, case.without, events)
            if case.steps is None
            else _replay(case.steps, world)
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                agents = [
                    tasks.create_task(world.watch(), name="watch"),
                    tasks.create_task(world.probe_path(), name="probe"),
                ]
                await _live(world, steps, outcome)
                for agent in agents:
                    agent.cancel()
        except* Violation as group:
            outcome.violation = f"{rules.version} rules: {_texts(group)}\n{_evidence(world)}"
        outcome.longest_gap_seconds = world.path_promise.longest_seconds
        outcome.longest_registration_seconds = world.kubelet_promise.longest_seconds
    return outcome


def _draw(choose: random.Random, world: World, without: str, events: int) -> Iterator[Step]:
    wanted = [
        event for event in EVENTS.values() if not (without and re.search(without, event.name))
    ]
    for _ in range(events):
        pause = choose.choice(PAUSES_SECONDS)
        possible = [event for event in wanted if event.is_possible(world)]
        (event,) = choose.choices(possible, [event.weight for event in possible])
        yield Step(pause, event.name)


def _replay(steps: Sequence[Step], world: World) -> Iterator[Step]:
    return (step for step in steps if EVENTS[step.event].is_possible(world))


async def _live(world: World, steps: Iterator[Step], outcome: Outcome) -> None:
    for step in steps:
        outcome.steps.append(step)
        await asyncio.sleep(step.pause_seconds)
        if EVENTS[step.event].is_possible(world):
            await EVENTS[step.event].happen(world)
            world.check()
    await _end(world)


async def _end(world: World) -> None:
    """Heal everything, see that all is well, end everything, and see that nothing is left."""
    await heal(world)
    await world.all_owed()
    await world.calm()
    for instance in world.alive:
        if instance.command.open_files > MAX_OPEN_FILES:
            raise Violation(f"instance {instance.number} has {instance.command.open_files} files")
    await asyncio.sleep(max(0.0, world.killed_at + SWEEP_SECONDS - time.monotonic()))
    for number in list(world.instances):
        await world.end_instance(number, is_killed=False)
    world.foreign.check()
    if left := world.leftovers():
        raise Violation(f"left in the folder after a clean end: {sorted(left)}")


def _texts(group: BaseExceptionGroup[BaseException]) -> str:
    return "; ".join(str(error) for error in group.exceptions)


def _evidence(world: World) -> str:
    logs = [f"instance {one.number}:\n{one.command.log}" for one in world.instances.values()]
    kubelet = [f"{record}" for record in world.kubelet.records[-25:]]
    return "\n".join([*logs, f"kubelet at {time.monotonic():.3f}:", *kubelet])


async def shrink(outcome: Outcome) -> Outcome:
    """Leave out steps of a broken case as long as it stays broken."""
    best, size = outcome, max(1, len(outcome.steps) // 2)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SHRINKING_SECONDS):
            while size >= 1:
                shorter = await _first_broken(_shorter(best, size))
                if shorter is not None:
                    best = shorter
                elif size == 1:
                    break
                size = max(1, min(size // 2, len(best.steps) // 2)) if shorter is None else size
    return best


def _shorter(outcome: Outcome, size: int) -> list[Case]:
    steps, case = outcome.steps, outcome.case
    return [
        Case(case.seed, tuple(steps[:start] + steps[start + size :]), case.is_mounted)
        for start in range(0, len(steps), size)
        if len(steps) > size
    ]


async def _first_broken(cases: Sequence[Case]) -> Outcome | None:
    for start in range(0, len(cases), SHRINKING_AT_ONCE):
        some = cases[start : start + SHRINKING_AT_ONCE]
        for outcome in await asyncio.gather(*map(run_case, some)):
            if outcome.violation:
                return outcome
    return None


@dataclass
class Tally:
    """How far a run has come."""

    wanted_events: int
    next_seed: int
    ends_at: float
    is_mounted: bool
    without: str = NOTHING
    begun: float = field(default_factory=time.monotonic)
    events: int = 0
    worlds: int = 0
    longest_gap_seconds: float = 0.0
    longest_registration_seconds: float = 0.0
    broken: Outcome | None = None

    @property
    def is_over(self) -> bool:
        """Whether no further world is to begin."""
        is_late = time.monotonic() >= self.ends_at
        return self.events >= self.wanted_events or is_late or self.broken is not None

    def next_case(self) -> Case:
        """Return the case of the next seed."""
        self.next_seed += 1
        return Case(self.next_seed - 1, is_mounted=self.is_mounted, without=self.without)

    def add(self, outcome: Outcome) -> None:
        """Count what happened in one world."""
        self.events += len(outcome.steps)
        self.worlds += 1
        self.longest_gap_seconds = max(self.longest_gap_seconds, outcome.longest_gap_seconds)
        self.longest_registration_seconds = max(
            self.longest_registration_seconds, outcome.longest_registration_seconds
        )
        if outcome.violation and self.broken is None:
            self.broken = outcome
            _say(f"broken:\n{outcome.tell()}")
        _say(str(self))

    def __str__(self) -> str:
        seconds = time.monotonic() - self.begun
        return (
            f"{self.events} events in {self.worlds} worlds after {seconds:.0f} s "
            f"({self.events / max(seconds, 0.1):.1f}/s), longest without an answer "
            f"{self.longest_gap_seconds:.2f} s, without kubelet "
            f"{self.longest_registration_seconds:.2f} s"
        )


async def _worlds_in_a_row(tally: Tally) -> None:
    while not tally.is_over:
        tally.add(await run_case(tally.next_case()))


async def run(tally: Tally, at_once: int) -> Outcome | None:
    """Run worlds until the tally is full; return the first broken one, if any, shortened."""
    async with asyncio.TaskGroup() as tasks:
        for number in range(at_once):
            tasks.create_task(_worlds_in_a_row(tally), name=f"worlds {number}")
    if tally.broken is None:
        return None
    _say("leaving out what is not needed for it …")
    return await shrink(tally.broken)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run chaos for as long as asked; the status is 1 if an invariant was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000, help="how many, all worlds together")
    parser.add_argument("--seed", type=int, default=0, help="of the first world; then upwards")
    parser.add_argument("--minutes", type=float, default=120.0, help="at most")
    parser.add_argument("--worlds", type=int, default=12, help="at the same time")
    parser.add_argument("--without", default=NOTHING, help="pattern of events to leave out")
    arguments = parser.parse_args()
    tally = Tally(
        wanted_events=arguments.events,
        next_seed=arguments.seed,
        ends_at=time.monotonic() + 60 * arguments.minutes,
        is_mounted=can_mount(),
        without=arguments.without,
    )
    broken = asyncio.run(run(tally, arguments.worlds))
    _say(f"seeds {arguments.seed} to {tally.next_seed - 1}: {tally}")
    if broken is not None:
        _say(f"broken, in as few steps as could be found:\n{broken.tell()}")
    return int(broken is not None)


if __name__ == "__main__":
    sys.exit(main())
