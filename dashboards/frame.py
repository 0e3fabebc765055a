"""What both dashboards have around their panels: variables, links to each other, settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from grafana_foundation_sdk.builders.dashboard import Dashboard as DashboardBuilder
from grafana_foundation_sdk.builders.dashboard import (
    DashboardLink,
    DatasourceVariable,
    QueryVariable,
)
from grafana_foundation_sdk.builders.dashboard import Row as RowPanel
from grafana_foundation_sdk.models.dashboard import (
    AnnotationContainer,
    AnnotationQuery,
    Dashboard,
    DashboardCursorSync,
    DashboardLinkType,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.panels import DATA_SOURCE, Panel
from dashboards.queries import selector
from metrics.families import PREFIX

TAG = "csi-node-registrar"
"""By this tag each dashboard finds the other."""

FLEET_UID = "csi-node-registrar-fleet"
NODE_UID = "csi-node-registrar-node"

_VARIABLES = (
    ("cluster", "Cluster", "cluster", "build_info", ".*"),
    ("job", "Job", "job", "build_info", ".+"),
    ("namespace", "Namespace", "namespace", "build_info", ".*"),
    ("driver", "Driver", "driver_name", "driver_up", ".+"),
    ("node", "Node", "node", "build_info", ".*"),
    ("instance", "Instance", "instance", "build_info", ".+"),
)
"""Name, label for the reader, label of the series, family, and the regular expression of All.

The last one matches nothing at all where a plain Prometheus may not have the label. Each variable
is narrowed by those before it; the driver narrows none, as not every family has its label."""


@dataclass(frozen=True)
class Row:
    """Panels that answer one question."""

    title: str
    panels: Sequence[Panel]


def board(
    uid: str,
    title: str,
    description: str,
    rows: Sequence[Row],
    annotations: Sequence[AnnotationQuery] = (),
) -> Dashboard:
    """Put a dashboard together."""
    builder = (
        DashboardBuilder(title)
        .uid(uid)
        .description(description)
        .tags(["csi", "kubernetes", TAG])
        .readonly()
        .timezone("browser")
        .time("now-1h", "now")
        .refresh("1m")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(_link_to_the_other())
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for variable in _query_variables():
        builder.with_variable(variable)
    numbers = count(1)
    for row in rows:
        builder.with_row(RowPanel(row.title).id(next(numbers)))
        for panel in row.panels:
            builder.with_panel(panel.id(next(numbers)))
    dashboard = builder.build()
    dashboard.annotations = AnnotationContainer(list_val=list(annotations))
    return dashboard


def _query_variables() -> list[QueryVariable]:
    variables = []
    narrowing: list[str] = []
    for name, label, series_label, family, all_value in _VARIABLES:
        values = f"label_values({selector(PREFIX + family, *narrowing)}, {series_label})"
        if name != "driver":
            narrowing.append(f'{name}=~"${name}"')
        variables.append(_variable(name, label, values, all_value))
    return variables


def _variable(name: str, label: str, values: str, all_value: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .label(label)
        .datasource(DATA_SOURCE)
        .query({"query": values, "refId": f"{name}-values"})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(all_value)
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def _link_to_the_other() -> DashboardLink:
    return (
        DashboardLink("CSI node registrar")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .keep_time(keep_time=True)
        .include_vars(include_vars=True)
    )
