"""The stages of naive: their shares of a call, and their times over n."""

from __future__ import annotations

import altair as alt

from . import axes, formats, lines, theme
from .analysis import Section, StageShare
from .figures import HOLLOW, INTERVALS, Figure, Panel, Table, panel, provenance
from .layers import Spec, layer
from .series import isa_rank

_WIDTH, _HEIGHT = 270, 250
_TIME = "time of the stage in one call"
_LABELLED = 0.06  # the least share that has room for its number


def _keys(s: StageShare, stage: str) -> dict[str, str]:
    return theme.keys(s.isa, machine=s.run.label, stage=stage)


def _bar(s: StageShare) -> list[dict[str, object]]:
    """The parts of one bar, from the top."""
    parts: list[dict[str, object]] = []
    top = 1.0
    for index, stage in enumerate(s.points):
        part = s.share(stage)
        low, high = s.share_range(stage)
        parts.append(
            {
                "n": f"{s.n}",
                **_keys(s, stage),
                "top": top,
                "bottom": top - part,
                "middle": top - part / 2,
                "label": f"{100 * part:.0f}" if part >= _LABELLED else "",
                # The lower edge, as far as the stage may reach with its upper one where it is.
                "from": max(top - high, 0.0),
                "to": top - low,
                "side": index % 2,
                "value": f"{100 * part:.1f} %",
                "interval": f"{100 * low:.1f} to {100 * high:.1f} %",
            }
        )
        top -= part
    return parts


def _hollow(some: list[StageShare], x: alt.X) -> list[alt.Chart]:
    """Markers above the bars of disturbed rows."""
    values = [
        theme.keys(s.isa, machine=s.run.label)
        | {"n": f"{s.n}", "state": theme.DISTURBED, "edge": theme.MUTED, "fill": theme.PAPER}
        for s in some
        if s.disturbed
    ]
    if not values:
        return []
    chart = alt.Chart(theme.data(values)).mark_point(shape="circle", size=34, strokeWidth=1.5, opacity=1)
    # Fields and not properties of the mark, which would take the legend's own away.
    edge, fill = alt.Stroke("edge:N", scale=None), alt.Fill("fill:N", scale=None)
    return [chart.encode(x=x, y=alt.YValue(-7), stroke=edge, fill=fill, **theme.marker_legend(True))]


def _names(last: list[dict[str, object]], scale: alt.Scale) -> list[alt.Chart]:
    """The stages' names, right of the last bar."""
    axis = axes.LinearAxis(0.0, 1.0, _HEIGHT)
    wanted = [axis.pixel(part["middle"]) for part in last]
    centres = axes.spread(wanted, [axes.LABEL_LINE + 1] * len(last), 0, _HEIGHT)
    values = [
        {"y": axis.value(centre), "at": part["middle"]}
        | {key: part[key] for key in theme.TOGGLES if key in part}
        for part, centre in zip(last, centres, strict=True)
    ]
    chart = alt.Chart(theme.data(values))
    text = chart.mark_text(align="left", fontSize=theme.SMALL, color=theme.INK, baseline="middle")
    rule = chart.mark_rule(color=theme.MUTED, strokeWidth=1)
    return [
        rule.encode(
            x=alt.XValue(_WIDTH), x2=alt.X2Value(_WIDTH + 12), y=alt.Y("at:Q", scale=scale), y2=alt.Y2("y:Q")
        ),
        text.encode(x=alt.XValue(_WIDTH + 16), y=alt.Y("y:Q", scale=scale), text=alt.Text("stage:N")),
    ]


def _share_panel(some: list[StageShare], stages: list[str], length_name: str, name: str) -> Panel:
    """A bar for each length, whose parts are the stages' shares."""
    bars = {s.n: _bar(s) for s in some}
    chart = alt.Chart(theme.data([part for parts in bars.values() for part in parts]))
    scale = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X(
        "n:N",
        title=length_name,
        sort=[f"{n}" for n in bars],
        axis=alt.Axis(labelAngle=-45 if len(bars) > 7 else 0, grid=False, labelOverlap=False, ticks=True),
        scale=alt.Scale(paddingInner=0.12, paddingOuter=0.06),
    )
    title = "share of the sum of the stages"
    y = alt.Y(
        "top:Q",
        title=title,
        scale=scale,
        axis=alt.Axis(labelExpr="format(100 * datum.value, 'd') + ' %'", tickCount=5),
    )
    colours = alt.Scale(domain=stages, range=[theme.stage_colour(stage) for stage in stages])
    parts = chart.mark_bar(stroke=theme.PAPER, strokeWidth=1).encode(
        x=x,
        y=y,
        y2=alt.Y2("bottom:Q"),
        color=alt.Color("stage:N", scale=colours, legend=None),
        tooltip=theme.told(chart, {"n": length_name}, "share"),
    )
    # In turns on the left and on the right of the number, so that those of neighbours stay apart.
    whiskers = [
        chart.transform_filter(f"datum.side == {side}")
        .mark_rule(color=theme.ON_BAR, strokeWidth=1.2, xOffset=offset)
        .encode(x=x, y=alt.Y("from:Q", scale=scale), y2=alt.Y2("to:Q"))
        for side, offset in ((0, -12), (1, 12))
    ]
    numbers = chart.mark_text(fontSize=theme.SMALL, color=theme.ON_BAR).encode(
        x=x, y=alt.Y("middle:Q", scale=scale), text=alt.Text("label:N")
    )
    names = _names(bars[some[-1].n], scale)
    drawn = layer(parts, *whiskers, numbers, *_hollow(some, x), *names, width=_WIDTH, height=_HEIGHT)
    said = ", ".join(f"{stage} {100 * some[-1].share(stage):.0f} %" for stage in some[-1].times_ns)
    words = f"{name}, shares of a call at n={some[-1].n}: {said}."
    return panel(f"{name}: share", drawn, words)


def _stage_marks(
    some: list[StageShare], stage: str, index: int, x: alt.X, axis: axes.LogAxis, length_name: str
) -> Spec:
    """Band, line and markers of one stage."""
    colour = theme.stage_colour(stage)
    marker, dash = (marks[index % len(marks)] for marks in (theme.MARKERS, theme.DASHES))
    y = axes.y_time(axis, _TIME, "time")
    values = [
        {
            "n": s.n,
            "at": s.n,
            **_keys(s, stage),
            "time": p.time.value,
            "low": p.time.low,
            "high": p.time.high,
            "edge": theme.MUTED,
            "fill": theme.marker_fill(colour, p.row.disturbed),
            "state": theme.DISTURBED if p.row.disturbed else "",
            "value": formats.duration(p.time.value),
            "interval": f"{formats.duration(p.time.low)} to {formats.duration(p.time.high)}",
        }
        for s in some
        if (p := s.points.get(stage))
    ]
    chart = alt.Chart(theme.data(values)).encode(x=x)
    return layer(
        chart.mark_area(color=colour, opacity=0.35).encode(
            y=alt.Y("low:Q", scale=axis.scale(), title=_TIME), y2=alt.Y2("high:Q")
        ),
        # The stages' colours are for areas: as lines they would be too pale on white.
        chart.mark_line(color=theme.MUTED, strokeWidth=1.2, strokeDash=dash).encode(y=y),
        chart.mark_point(shape=marker, size=40, strokeWidth=0.9, opacity=1).encode(
            y=y,
            stroke=alt.Stroke("edge:N", scale=None),
            fill=alt.Fill("fill:N", scale=None),
            **theme.marker_legend(any(s.disturbed for s in some)),
        ),
        theme.hover(chart.encode(y=y), {"n": length_name}, _TIME),
    )


def _time_panel(some: list[StageShare], stages: list[str], length_name: str, name: str) -> Panel:
    """The time of each stage over n."""
    x = axes.x_length([s.n for s in some], length_name)
    limits = [t for s in some for p in s.points.values() for t in (p.time.low, p.time.high)]
    axis = axes.log_axis(limits, _HEIGHT)
    layers: list[Spec] = []
    labels = []
    for index, stage in enumerate(stages):
        layers.append(_stage_marks(some, stage, index, x, axis, length_name))
        end = [s for s in some if stage in s.points][-1]
        time = end.points[stage].time.value
        said = (f"{stage}  {formats.duration(time)}",)
        labels.append(axes.EndLabel(end.n, time, said, theme.MUTED, _keys(end, stage)))
    labelled = axes.end_labels(labels, axis, x, _TIME, _WIDTH)
    drawn = layer(*layers, labelled, width=_WIDTH, height=_HEIGHT)
    said = ", ".join(f"{stage} {formats.duration(t)}" for stage, t in some[-1].times_ns.items())
    words = f"{name}, times at n={some[-1].n}: {said}."
    return panel(f"{name}: time", drawn, words)


def stages(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """What the stages of naive take, as shares and as times; a row of panels for each ISA level."""
    if not section.stages:
        return None
    variants = {s.variant for s in section.stages}
    panels = []
    keys = list({(id(s.run), s.variant, s.isa): s for s in section.stages}.values())
    for key in sorted(
        keys, key=lambda s: (s.variant.rank, [-r if isinstance(r, int) else 0 for r in isa_rank(s.isa)])
    ):
        some = [
            s for s in section.stages if s.run is key.run and s.variant == key.variant and s.isa == key.isa
        ]
        names = list(dict.fromkeys(stage for s in some for stage in s.times_ns))
        name = ", ".join(
            part
            for part in (
                key.variant.label if len(variants) > 1 else "",
                key.isa,
                *lines.machine_cell(section, key.run),
            )
            if part
        )
        for draw in (_share_panel, _time_panel):
            panels.append(draw(some, names, section.group.length_name, name))
    rows = tuple(
        (
            *lines.machine_cell(section, s.run),
            s.variant.label,
            s.isa,
            f"{s.n}",
            stage,
            formats.duration(p.time.value, 4),
            f"{formats.duration(p.time.low, 4)} to {formats.duration(p.time.high, 4)}",
            f"{100 * s.share(stage):.1f} %",
            " to ".join(f"{100 * limit:.1f}" for limit in s.share_range(stage)) + " %",
            formats.cpu_share(p.row),
        )
        for s in section.stages
        for stage, p in s.points.items()
    )
    meaning = (
        "Each stage is timed on its own: qk (scores), scale, mask, softmax, pv (weights times values). Numbers on "
        "the bars are percent of the sum of the stages, lines on them how far the intervals of the times let a stage's "
        "lower edge move."
    )
    caption = (
        f"{section.group.label}; {', '.join(v.label for v in sorted(variants, key=lambda v: v.rank))}.",
        meaning,
        INTERVALS,
        *((HOLLOW,) if any(s.disturbed for s in section.stages) else ()),
        *provenance(lines.runs_of(section.stages)),
    )
    left_out = [
        f"{lines.name_of(section, s, f'{s.variant.label}, {s.isa}, n={s.n}')}: without {', '.join(s.missing)}, not "
        "measured; shares are of the sum of the others"
        for s in section.stages
        if s.missing
    ]
    columns = (
        *lines.machine_column(section),
        "pattern · algorithm",
        "ISA level",
        "n",
        "stage",
        "median",
        "interval",
        "share",
        "share interval",
        "CPU",
    )
    return Figure(
        f"stages{suffix}", "Time by stage of naive", caption, panels, Table(columns, rows), left_out=left_out
    )
