"""Panels, variables and the frame of a dashboard, so that the boards say only what they show."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from typing import Any

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models import heatmap as heatmap_models
from grafana_foundation_sdk.models import prometheus as prometheus_models

from lockscope_exporter.alerts.options import RUNBOOK_BASE_URL

PROMETHEUS = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
ALL = ".+"
TAG = "lockscope"
NO_DATA = "no data"

# Colours that stay apart for colour-blind eyes (after Okabe and Ito), the same for a state on every board.
STATE_COLOURS = {
    "held": "#0072B2",
    "overdue": "#E69F00",
    "stalled": "#CC79A7",
    "no_ttl": "#D55E00",
    "orphaned": "#882255",
}
OUTCOME_COLOURS = {
    "acquired": "#0072B2",
    "renewed": "#0072B2",
    "released": "#0072B2",
    "first": "#0072B2",
    "contended": "#E69F00",
    "in_progress": "#E69F00",
    "expired": "#E69F00",
    "timeout": "#D55E00",
    "lost": "#D55E00",
    "duplicate": "#CC79A7",
    "error": "#882255",
    "evicted": "#882255",
    "flushed": "#56B4E9",
}


@dataclass(frozen=True, slots=True)
class Query:
    """One expression of a panel: its PromQL and the legend of its series."""

    expr: str
    legend: str = "__auto"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title: short, what is seen.
        description: what it means and how to read it.
        queries: expressions, or a single one as text.
        unit: Grafana unit id.
        kind: how it is drawn.
        width: grid columns of 24; ``height`` grid rows.
        empty: text where there is no data.
        colours: fixed colour by series name.
        stacked: whether series add up.
        thresholds: ``(from value, colour)`` steps, the first for everything below.
        maximum: upper end of the axis.
        columns: for tables, the title of each query's value column in order, with unit.
        decimals: digits after the point.
    """

    title: str
    description: str
    queries: tuple[Query, ...] | str
    unit: str
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    empty: str = NO_DATA
    colours: dict[str, str] = field(default_factory=dict)
    stacked: bool = False
    thresholds: tuple[tuple[float | None, str], ...] = ()
    maximum: float | None = None
    columns: tuple[tuple[str, str], ...] = ()
    decimals: int | None = None

    @property
    def all_queries(self) -> tuple[Query, ...]:
        """The queries, a lone text included."""
        return (Query(self.queries),) if isinstance(self.queries, str) else self.queries


@dataclass(frozen=True, slots=True)
class Row:
    """A titled row of panels; ``extra`` are SDK builders for what ``Panel`` does not cover."""

    title: str
    panels: tuple[Panel, ...] = ()
    extra: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard: its stable uid, texts, rows and any variables of its own."""

    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]
    span: str = "now-3h"
    variables: tuple[Any, ...] = ()


def render(board: Board) -> str:
    """Return a board as classic dashboard JSON, keys sorted, with a final line break."""
    with warnings.catch_warnings():
        # The SDK urges dashboard v2, which Grafana's file provisioning does not read.
        warnings.simplefilter("ignore", DeprecationWarning)
        frame = builders.Dashboard(board.title)
    frame.uid(board.uid).description(board.description).tags([TAG, "redis", "locks"])
    frame.time(board.span, "now").refresh("30s").timezone("browser").version(1).readonly()
    frame.tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
    frame.variables([*_variables(), *board.variables])
    frame.annotation(_alerts_annotation())
    frame.link(
        builders.DashboardLink("Redis locks")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(False)
        .include_vars(True)
        .keep_time(True)
    )
    frame.link(
        builders.DashboardLink("Runbooks")
        .type(dashboard.DashboardLinkType.LINK)
        .url(RUNBOOK_BASE_URL)
        .tooltip("What each alert means and what to do")
        .icon("doc")
        .target_blank(True)
    )
    panel_id = 0
    for row in board.rows:
        panel_id += 1
        frame.with_row(builders.Row(row.title).id(panel_id))
        for builder in [*map(_panel, row.panels), *row.extra]:
            panel_id += 1
            frame.with_panel(builder.id(panel_id))
    document = json.loads(JSONEncoder().encode(frame.build()))
    for placed in [*document["links"], *document["annotations"]["list"]]:
        # The SDK's constant would hide links and annotations in a menu.
        del placed["placement"]
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _variables() -> list[Any]:
    either = '{__name__=~"redis_lock_acquire_total|redis_lock_keys|redis_lock_up"'
    return [
        builders.DatasourceVariable("datasource").label("Data source").type("prometheus"),
        query_variable("job", "Job", f"label_values({either}}}, job)"),
        query_variable("instance", "Instance", f'label_values({either}, job=~"$job"}}, instance)'),
        query_variable("prefix", "Prefix", f'label_values({either}, job=~"$job"}}, prefix)'),
        query_variable(
            "job_type",
            "Job type",
            'label_values(redis_lock_acquire_total{job=~"$job", prefix=~"$prefix"}, job_type)',
        ),
    ]


def query_variable(name: str, label: str, query: str) -> Any:
    """Return a variable that lists the values of a label: several may be chosen, at first all are."""
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(PROMETHEUS)
        .query({"query": query, "refId": f"variable-{name}"})
        .definition(query)
        .multi(True)
        .include_all(True)
        .all_value(ALL)
        .current(dashboard.VariableOption(selected=True, text="All", value="$__all"))
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_CASE_INSENSITIVE_ASC)
    )


def _alerts_annotation() -> Any:
    return (
        builders.AnnotationQuery()
        .name("Alerts")
        .datasource(PROMETHEUS)
        .enable(True)
        .hide(False)
        .icon_color("#D55E00")
        # Alerts on nodes and on lockscope itself have no prefix; "|" lets them through.
        .expr('ALERTS{alertname=~"RedisLock.+", alertstate="firing", prefix=~"$prefix|"}')
        .title_format("{{alertname}}")
        .text_format("{{prefix}} {{job_type}}")
        .tag_keys("severity")
        .step("30s")
    )


def _panel(panel: Panel) -> Any:
    return _KINDS[panel.kind](panel)


def _common(builder: Any, panel: Panel) -> Any:
    builder.title(panel.title).description(panel.description).datasource(PROMETHEUS)
    builder.span(panel.width).height(panel.height).no_value(panel.empty).unit(panel.unit)
    if panel.decimals is not None:
        builder.decimals(panel.decimals)
    steps = panel.thresholds or ((None, "#0072B2"),)
    builder.thresholds(
        builders.ThresholdsConfig()
        .mode(dashboard.ThresholdsMode.ABSOLUTE)
        .steps([dashboard.Threshold(value=value, color=colour) for value, colour in steps])
    )
    return builder


def _targets(builder: Any, panel: Panel, *, instant: bool = False) -> Any:
    for index, query in enumerate(panel.all_queries):
        target = prometheus.Dataquery().datasource(PROMETHEUS).ref_id(chr(ord("A") + index)).expr(query.expr)
        target.legend_format(query.legend)
        if instant:
            target.instant().format(prometheus_models.PromQueryFormat.TABLE)
        else:
            target.range().exemplar("_bucket" in query.expr)
        builder.with_target(target)
    return builder


def _timeseries(panel: Panel) -> Any:
    builder = _targets(_common(timeseries.Panel(), panel), panel)
    builder.line_width(1.5).fill_opacity(25 if panel.stacked else 8).show_points(common.VisibilityMode.AUTO)
    builder.span_nulls(False).min(0)
    if panel.maximum is not None:
        builder.max(panel.maximum)
    if panel.stacked:
        builder.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    builder.legend(
        common_builders.VizLegendOptions()
        .display_mode(common.LegendDisplayMode.TABLE)
        .placement(common.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["lastNotNull", "max"])
    )
    builder.tooltip(
        common_builders.VizTooltipOptions()
        .mode(common.TooltipDisplayMode.MULTI)
        .sort(common.SortOrder.DESCENDING)
    )
    for name, colour in panel.colours.items():
        builder.override_by_name(name, [_fixed(colour)])
    return builder


def _stat(panel: Panel) -> Any:
    builder = _targets(_common(stat.Panel(), panel), panel)
    builder.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    builder.color_mode(common.BigValueColorMode.VALUE).graph_mode(common.BigValueGraphMode.AREA)
    return builder


def _heatmap(panel: Panel) -> Any:
    builder = _common(heatmap.Panel(), panel)
    for query in panel.all_queries:
        builder.with_target(
            prometheus.Dataquery()
            .datasource(PROMETHEUS)
            .ref_id("A")
            .expr(query.expr)
            .legend_format("{{le}}")
            .format(prometheus_models.PromQueryFormat.HEATMAP)
            .range()
            .exemplar(True)
        )
    builder.calculate(False)
    builder.color(
        heatmap.HeatmapColorOptions()
        .mode(heatmap_models.HeatmapColorMode.SCHEME)
        .scheme("Cividis")
        .fill("#0072B2")
        .exponent(0.5)
        .steps(64)
        .reverse(False)
    )
    builder.y_axis(heatmap.YAxisConfig().unit(panel.unit).axis_placement(common.AxisPlacement.LEFT))
    builder.cell_values(heatmap.CellValues().unit("none"))
    builder.exemplars_color("#D55E00")
    builder.filter_values(heatmap.FilterValueRange().le(1e-9))
    builder.rows_frame(heatmap.RowsHeatmapOptions().layout(common.HeatmapCellLayout.AUTO))
    builder.show_value(common.VisibilityMode.NEVER)
    builder.tooltip(
        heatmap.HeatmapTooltip()
        .mode(common.TooltipDisplayMode.SINGLE)
        .y_histogram(True)
        .show_color_scale(True)
    )
    return builder.show_legend()


def _timeline(panel: Panel) -> Any:
    builder = _targets(_common(statetimeline.Panel(), panel), panel)
    return builder.show_value(common.VisibilityMode.NEVER).row_height(0.8).merge_values(True)


def _table(panel: Panel) -> Any:
    """Return a table with one row a prefix: the instant results of the queries, joined by label."""
    builder = _targets(_common(table.Panel(), panel), panel, instant=True)
    builder.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    names = {f"Value #{chr(ord('A') + index)}": title for index, (title, _) in enumerate(panel.columns)}
    order = {"prefix": 0, **{name: index + 1 for index, name in enumerate(names)}}
    builder.with_transformation(
        dashboard.DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": {"Time": True},
                "indexByName": order,
                "renameByName": {"prefix": "Prefix", **names},
            },
        )
    )
    for title, unit in panel.columns:
        builder.override_by_name(title, [dashboard.DynamicConfigValue(id_val="unit", value=unit)])
    builder.override_by_name("Prefix", [dashboard.DynamicConfigValue(id_val="links", value=[_PREFIX_LINK])])
    builder.filterable(True).sort_by(
        [common_builders.TableSortByFieldState().display_name(panel.columns[0][0]).desc(True)]
    )
    return builder


_KEEP = "${datasource:queryparam}&${job:queryparam}&${instance:queryparam}&${__url_time_range}"
_PREFIX_LINK = {
    "title": "Show this prefix",
    "url": f"/d/lockscope-prefix?var-prefix=${{__value.text:percentencode}}&{_KEEP}",
    "targetBlank": False,
}


def _fixed(colour: str) -> dashboard.DynamicConfigValue:
    return dashboard.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": colour})


_KINDS = {
    "timeseries": _timeseries,
    "stat": _stat,
    "heatmap": _heatmap,
    "timeline": _timeline,
    "table": _table,
}
