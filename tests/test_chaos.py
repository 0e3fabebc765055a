"""A short part of chaos with seeds that stay the same, and proof that chaos would notice."""

import os
import time

import pytest
from chaos import Case, run_case
from chaos_promises import ForeignFiles, Promise, Violation
from chaos_world import can_mount

EVENTS = 20
SEEDS = range(6)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_invariant_breaks_whatever_happens(seed: int) -> None:
    """`make chaos` does this for as long as asked; the docstring of `chaos` says how to repeat."""
    outcome = await run_case(Case(seed, is_mounted=can_mount()), EVENTS)
    assert not outcome.violation, outcome.tell()
    assert len(outcome.steps) == EVENTS


def test_a_promise_may_be_broken_for_as_long_as_its_limit_and_the_time_that_was_stolen() -> None:
    promise = Promise("it answers", limit_seconds=1.0)
    assert promise.see(is_owed=True, is_kept=True, stolen_seconds=0.0)
    assert not promise.see(is_owed=True, is_kept=False, stolen_seconds=0.0)
    promise.since = time.monotonic() - 1.5
    assert not promise.see(is_owed=True, is_kept=False, stolen_seconds=1.0)
    with pytest.raises(Violation, match=r"it answers: not for 1\.5"):
        promise.see(is_owed=True, is_kept=False, stolen_seconds=0.0)


def test_a_promise_that_is_not_owed_cannot_be_broken() -> None:
    promise = Promise("it answers", limit_seconds=1.0)
    promise.since = time.monotonic() - 100
    assert promise.see(is_owed=False, is_kept=False, stolen_seconds=0.0)
    assert not promise.see(is_owed=True, is_kept=False, stolen_seconds=0.0)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_foreign_file_that_goes_is_noticed(folder: str, *, is_replaced: bool) -> None:
    files, path = ForeignFiles(), f"{folder}/notes"
    for each in (path, f"{folder}/other"):
        os.mkdir(each)
    files.add(path)
    files.check()
    os.rmdir(path)
    if is_replaced:
        os.rename(f"{folder}/other", path)
    with pytest.raises(Violation, match="was touched"):
        files.check()
    files.forget_below(folder)
    files.check()
