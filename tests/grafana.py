"""Reads the dashboards, and fills in their variables as Grafana does before it asks Prometheus.

Sources: Grafana's data source for Prometheus (`interpolateQueryExpr` in `datasource.ts`, and
`escaping.ts`), and Grafana's page "Global variables".
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from promql import PromQL, Series

FOLDER = Path(__file__).parents[1] / "dashboards"
FLEET = "csi-node-registrar-fleet"
NODE = "csi-node-registrar-node"
UIDS = (FLEET, NODE)

Json = dict[str, Any]

Chosen = Mapping[str, Sequence[str]]
"""The values that are chosen of a variable; all, of one that is not there."""


@dataclass(frozen=True)
class View:
    """The time on display."""

    seconds: int
    step_seconds: int
    rate_seconds: int
    """At least four times as long as the scrape interval."""
    end: float | None = None
    """In Unix seconds; now, if there is none."""

    @property
    def variables(self) -> dict[str, str]:
        """What Grafana says of it in queries."""
        return {
            "__range": f"{self.seconds}s",
            "__interval": f"{self.step_seconds}s",
            "__rate_interval": f"{self.rate_seconds}s",
        }


TWO_MINUTES = View(seconds=120, step_seconds=2, rate_seconds=20)


@dataclass(frozen=True)
class Query:
    """One question to Prometheus on a dashboard."""

    place: str
    """The title of the panel or the name of the annotation."""
    expr: str
    legend: str
    is_instant: bool
    points: int
    """Of a graph, at most."""


@cache
def dashboard(uid: str) -> Json:
    """Read a dashboard."""
    loaded: Json = json.loads((FOLDER / f"{uid}.json").read_text(encoding="utf-8"))
    return loaded


def panels(uid: str) -> list[Json]:
    """Return the panels of a dashboard that show something, in their order."""
    return [panel for panel in dashboard(uid)["panels"] if panel["type"] != "row"]


def variables(uid: str) -> dict[str, Json]:
    """Return the variables of a dashboard that Prometheus is asked for, by name."""
    listed = dashboard(uid)["templating"]["list"]
    return {variable["name"]: variable for variable in listed if variable["type"] == "query"}


def annotations(uid: str) -> list[Json]:
    """Return the annotations of a dashboard."""
    listed: list[Json] = dashboard(uid)["annotations"]["list"]
    return listed


def queries(uid: str) -> Iterator[Query]:
    """Yield all questions of a dashboard but those of its variables."""
    for panel in panels(uid):
        for target in panel["targets"]:
            yield Query(
                place=panel["title"],
                expr=target["expr"],
                legend=target.get("legendFormat", ""),
                is_instant=target.get("instant", False),
                points=panel["maxDataPoints"],
            )
    for annotation in annotations(uid):
        yield Query(
            place=annotation["name"],
            expr=annotation["expr"],
            legend=annotation["textFormat"],
            is_instant=False,
            points=60,
        )


def filled_in(text: str, uid: str, chosen: Chosen, view: View = TWO_MINUTES) -> str:
    """Put the values of the variables into a query.

    Raises:
        KeyError: if it names a variable that there is not.
    """
    values = {
        name: _pattern(chosen[name]) if name in chosen else variable["allValue"]
        for name, variable in variables(uid).items()
    }
    values |= view.variables
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], text)


async def answer(
    prometheus: PromQL, query: Query, uid: str, chosen: Chosen, view: View = TWO_MINUTES
) -> list[Series]:
    """Ask what a dashboard would ask now."""
    expr = filled_in(query.expr, uid, chosen, view)
    if query.is_instant:
        return await prometheus.now(expr, at=view.end)
    return await prometheus.over(
        expr, seconds=view.seconds, step_seconds=view.step_seconds, at=view.end
    )


async def choices(prometheus: PromQL, name: str, uid: str, chosen: Chosen) -> list[str]:
    """Return what a variable offers."""
    text = filled_in(variables(uid)[name]["query"]["query"], uid, chosen)
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", text)
    assert found is not None, text
    return await prometheus.label_values(found[1], found[2])


def _pattern(chosen: Sequence[str]) -> str:
    escaped = [re.sub(r"[$^*{}\[\]'+?.()|]", r"\\\\\g<0>", each) for each in chosen]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
