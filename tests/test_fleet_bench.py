"""That the measurement of the fleet's dashboard still runs; its figures are for people."""

from collections.abc import Mapping
from typing import Any

import aiohttp
import fleet_bench
import grafana
import pytest
from fleet_exporter import EVERY, exporting
from grafana import View
from measuring import parsed

Target = Mapping[str, Any]
"""One node, as Prometheus is told of it."""


def address(target: Target) -> str:
    """Return what Prometheus makes of it."""
    (host_and_port,), labels = target["targets"], target["labels"]
    return f"http://{host_and_port}{labels['__metrics_path__']}"


async def states_of(target: Target) -> list[str]:
    """Return the states that a node's exposition shows."""
    async with aiohttp.ClientSession() as session, session.get(address(target)) as answer:
        series = parsed(await answer.text())
    prefix = "csi_node_registrar_registration_state{"
    return [name for name, value in series.items() if name.startswith(prefix) and value == "1"]


async def test_an_exporter_shows_four_drivers_for_each_node_and_some_are_not_registered() -> None:
    async with exporting(EVERY, every_seconds=1) as targets:
        states = [" ".join(await states_of(target)) for target in targets[:3]]
    assert len(targets) == EVERY
    assert [each.count("registered") for each in states] == [4, 3, 3]
    assert 'state="rejected"' in states[1]
    assert 'state="announced"' in states[2]


@pytest.mark.needs_prometheus
async def test_the_measurement_asks_all_that_the_dashboard_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brief = View(seconds=6, step_seconds=1, rate_seconds=4)
    monkeypatch.setattr(fleet_bench, "VIEW", brief)
    monkeypatch.setattr(fleet_bench, "SCRAPE_SECONDS", 1)
    load, timed = await fleet_bench.measure(3)
    assert [each.query for each in timed] == list(grafana.queries(grafana.FLEET))
    shown = {each.query.place for each in timed if each.series}
    assert {"Drivers not registered", "Drivers that were not registered", "Probe results"} <= shown
    said = fleet_bench.report(load, timed)
    assert f"{load.series:,.0f}" in said
    assert "5000 nodes, computed" in said
