"""That the measurements still measure; what the figures are is for people to judge."""

import asyncio

import bench
import bench_figures
import bench_go
import pytest
from bench_node import Figure, a_node, get, regular_gets
from commanding import LIVENESSPROBE, REGISTRAR


def figure(what: str, *values: float, budget: float | None = None) -> Figure:
    """Make a figure in seconds."""
    return Figure(what=what, values=values, unit="s", budget=budget)


def names_of(figures: list[Figure]) -> list[str]:
    """Return what was measured; every value must be above nothing."""
    assert all(min(figure.values) >= 0 and figure.median > 0 for figure in figures)
    return [figure.what for figure in figures]


@pytest.mark.parametrize(
    ("values", "said"),
    [([0.1, 0.2, 9.0], "<= 0.3 kept"), ([0.1, 0.4, 0.5], "<= 0.3 NOT KEPT")],
)
def test_the_median_decides_whether_a_budget_is_kept(values: list[float], said: str) -> None:
    row = bench.row(figure("start", *values, budget=0.3), {"start": 0.25})
    assert f" {said} " in row
    assert f"{values[0]:.2f} … {values[-1]:.2f}" in row
    assert row.endswith(" 0.25")


def test_ours_are_told_as_ratios_of_the_go_programs_that_were_measured() -> None:
    measured = [
        figure("start to registration socket", 0.2, 0.3, 0.4),
        figure("Go registrar: start to socket", 0.01),
        figure("CPU until registered", 0.2),
        figure("Go registrar: CPU until registered", 0.0),
        figure("wake-ups, idle", 12.0),
        figure("Go registrar: wake-ups, idle", 3.0),
    ]
    (ratio,) = bench_go.ratios(measured)
    assert ratio.what == "ratio to Go: start to registration socket"
    assert ratio.median == pytest.approx(30)
    (_, both) = bench_go.ratios([*measured, figure("Go livenessprobe: wake-ups, idle", 5.0)])
    assert both.median == pytest.approx(1.5)


async def test_the_figures_of_the_registrar_come_from_a_running_one() -> None:
    async with a_node() as node:
        figures = [
            *await bench_figures.start_figures(node, 1),
            *await bench_figures.probe_figures(node, 20),
            *await bench_figures.idle_figures(node, 1, 1),
            *bench_figures.baseline_figures(1),
        ]
    assert {
        "start to registration socket",
        "/healthz with the driver's call, p50",
        "resident after 20 probes, 100 scrapes",
        "baseline: the libraries, resident",
    } < {figure.what for figure in figures}
    assert all(figure.median > 0 for figure in figures if figure.unit != "%")


async def test_go_programs_are_measured_beside_it_in_turns() -> None:
    # What takes Go's flags can stand in their place: here the program itself.
    async with a_node() as node:
        registrar = await bench_go.registrar_figures(node, REGISTRAR, runs=1, seconds=1)
        livenessprobe = await bench_go.livenessprobe_figures(
            node, LIVENESSPROBE, probes=40, seconds=1
        )
    assert "Go registrar: start to socket" in names_of(registrar)
    assert "ratio to Go: /healthz, p50" in names_of(livenessprobe)
    (turns,) = (figure for figure in livenessprobe if figure.what.startswith("ratio"))
    assert len(turns.values) == 10


async def test_a_regular_probe_that_fails_ends_the_measurement() -> None:
    async with a_node() as node, node.registrar() as command:
        url = await command.url()
        get(url, "/healthz")
        with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="/nowhere was answered with")):
            async with regular_gets(url, "/nowhere", 0.01):
                await asyncio.sleep(60)
