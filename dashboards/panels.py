"""Panels in the manner of these dashboards: what all of one kind have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders.dashboard import ThresholdsConfig
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BarGaugeNamePlacement,
    BarGaugeSizing,
    BigValueColorMode,
    GraphDrawStyle,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    TableColoredBackgroundCellOptions,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.states import STATES

DATA_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

STATE_NAMES = ValueMap(
    options={
        str(state.code): ValueMappingResult(text=state.text, color=state.colour, index=state.code)
        for state in STATES
    }
)

YES_OR_NO = ValueMap(
    options={
        "0": ValueMappingResult(text="no", color="red", index=0),
        "1": ValueMappingResult(text="yes", color="green", index=1),
    }
)


POINTS = 120
"""Of a graph at most: an hour in steps of half a minute, whatever the width of the screen."""

Panel: TypeAlias = (
    bargauge.Panel
    | heatmap.Panel
    | stat.Panel
    | statetimeline.Panel
    | table.Panel
    | timeseries.Panel
)

_P = TypeVar(
    "_P",
    bargauge.Panel,
    heatmap.Panel,
    stat.Panel,
    statetimeline.Panel,
    table.Panel,
    timeseries.Panel,
)


@dataclass(frozen=True, slots=True)
class Colours:
    """How values are coloured."""

    lowest: str
    """The colour below all steps."""
    steps: Mapping[float, str] = field(default_factory=dict)
    """The others, by the least value that has them, in rising order."""

    def thresholds(self) -> ThresholdsConfig:
        """Return them as Grafana has them."""
        steps = [Threshold(value=value, color=colour) for value, colour in self.steps.items()]
        lowest = Threshold(color=self.lowest)
        return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps([lowest, *steps])


def graph(query: str, legend: str = "") -> prometheus.Dataquery:
    """Ask for the time on display."""
    return prometheus.Dataquery().expr(query).range().legend_format(legend)


def now(query: str, legend: str = "") -> prometheus.Dataquery:
    """Ask for the end of the time on display."""
    return prometheus.Dataquery().expr(query).instant().legend_format(legend)


def rows(query: str) -> prometheus.Dataquery:
    """Ask for the end of the time on display, for a table."""
    return now(query).format(PromQueryFormat.TABLE)


def buckets(query: str) -> prometheus.Dataquery:
    """Ask for the buckets of a histogram over the time on display."""
    return graph(query, "{{le}}").format(PromQueryFormat.HEATMAP)


def number(
    title: str,
    description: str,
    *queries: prometheus.Dataquery,
    unit: str = "short",
    colours: Colours,
    mapping: ValueMapping | None = None,
    if_none: str = "no data",
) -> stat.Panel:
    """Show what is now, large and coloured.

    Args:
        title: Its title.
        description: What it says, and what to do about it.
        queries: What it asks; each series is one number.
        unit: Its unit.
        colours: Its ground.
        mapping: Words in place of numbers.
        if_none: What it says if there is nothing.
    """
    panel = _described(stat.Panel(), title, description, queries, unit).no_value(if_none)
    if mapping is not None:
        panel = panel.mappings([mapping])
    return (
        panel.thresholds(colours.thresholds())
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_mode(BigValueColorMode.BACKGROUND)
        .height(4)
    )


def lines(
    title: str,
    description: str,
    *queries: prometheus.Dataquery,
    unit: str,
) -> timeseries.Panel:
    """Draw lines over time."""
    return (
        _described(timeseries.Panel(), title, description, queries, unit)
        .legend(_legend())
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .fill_opacity(10)
        .show_points(VisibilityMode.NEVER)
        .min(0)
        .height(8)
    )


def events(title: str, description: str, *queries: prometheus.Dataquery) -> timeseries.Panel:
    """Draw how often something happened as stacked bars over time."""
    return (
        lines(title, description, *queries, unit="short")
        .draw_style(GraphDrawStyle.BARS)
        .stacking(common.StackingConfig().mode(StackingMode.NORMAL))
        .fill_opacity(80)
        .max_data_points(POINTS / 2)
    )


def bars(title: str, description: str, *queries: prometheus.Dataquery, unit: str) -> bargauge.Panel:
    """Compare what is now as horizontal bars."""
    return (
        _described(bargauge.Panel(), title, description, queries, unit)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .orientation(VizOrientation.HORIZONTAL)
        .display_mode(BarGaugeDisplayMode.BASIC)
        .sizing(BarGaugeSizing.MANUAL)
        .name_placement(BarGaugeNamePlacement.LEFT)
        .min_viz_height(16)
        .max_viz_height(32)
        .thresholds(Colours("blue").thresholds())
        .min(0)
        .height(8)
    )


def timeline(
    title: str, description: str, *queries: prometheus.Dataquery, names: ValueMapping
) -> statetimeline.Panel:
    """Draw a band for each series, coloured by its state."""
    return (
        _described(statetimeline.Panel(), title, description, queries, "short")
        .mappings([names])
        .legend(_legend())
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.SINGLE))
        .show_value(VisibilityMode.AUTO)
        .merge_values(merge_values=True)
        .row_height(0.8)
        .fill_opacity(80)
        .height(10)
    )


def heat(title: str, description: str, query: str) -> heatmap.Panel:
    """Draw how a duration is distributed, over time."""
    return (
        _described(heatmap.Panel(), title, description, [buckets(query)], "s")
        .calculate(calculate=False)
        .y_axis(heatmap.YAxisConfig().unit("s"))
        .cell_values(heatmap.CellValues().unit("cps"))
        .height(8)
    )


def listing(
    title: str, description: str, *queries: prometheus.Dataquery, columns: Mapping[str, str]
) -> table.Panel:
    """Show a table of what is now: one row for each set of labels, whichever query has it.

    Args:
        title: Its title.
        description: What it says, and what to do about it.
        queries: What it asks.
        columns: The titles of the columns in their order, by label or `Value #A`; no others show.
    """
    order = {name: index for index, name in enumerate(columns)}
    return (
        _described(table.Panel(), title, description, queries, "short")
        .with_transformation(DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            DataTransformerConfig(
                id_val="filterFieldsByName", options={"include": {"names": list(columns)}}
            )
        )
        .with_transformation(
            DataTransformerConfig(
                id_val="organize",
                options={"indexByName": order, "renameByName": dict(columns)},
            )
        )
        .height(8)
    )


def mapped(names: ValueMapping) -> DynamicConfigValue:
    """Let a column show words in place of numbers."""
    return DynamicConfigValue(id_val="mappings", value=[names])


def of_unit(unit: str) -> DynamicConfigValue:
    """Give a column a unit of its own."""
    return DynamicConfigValue(id_val="unit", value=unit)


def coloured_cell() -> DynamicConfigValue:
    """Colour the ground of a column's cells by their value."""
    return DynamicConfigValue(
        id_val="custom.cellOptions", value=TableColoredBackgroundCellOptions()
    )


def linked(title: str, url: str) -> DynamicConfigValue:
    """Make the cells of a column lead somewhere."""
    return DynamicConfigValue(id_val="links", value=[{"title": title, "url": url}])


def _described(
    panel: _P, title: str, description: str, queries: Sequence[prometheus.Dataquery], unit: str
) -> _P:
    targets: list[Builder[Dataquery]] = [
        query.ref_id(chr(ord("A") + index)).datasource(DATA_SOURCE)
        for index, query in enumerate(queries)
    ]
    described = panel.title(title).description(description).datasource(DATA_SOURCE)
    return described.unit(unit).targets(targets).max_data_points(POINTS)


def _legend() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(show_legend=True)
    )
