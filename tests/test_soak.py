"""A few minutes' worth of probes, scrapes and restarts, after which nothing has grown."""

import pytest
from soak import measure_growth


@pytest.mark.timeout(120)
async def test_nothing_grows_with_probes_scrapes_and_restarts() -> None:
    """`make soak` does the same with an hour's worth."""
    said: list[str] = []
    growth = await measure_growth(rounds=6, probes=30, scrapes=10, say=said.append)
    assert growth.problems() == [], (growth, said)
