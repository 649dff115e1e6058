"""The stages of naive: their shares of a call, and their times over n."""

from __future__ import annotations

import altair as alt

from . import axes, formats, theme
from .analysis import Section, StageShare
from .figures import HOLLOW, INTERVALS, Figure, Panel, Table, panel, provenance
from .series import isa_rank


def _stage_panel(
    some: list[StageShare], stages: list[str], share: bool, length_name: str, name: str
) -> Panel:
    lengths = [s.n for s in some]
    colours = alt.Scale(
        domain=stages, range=[theme.STAGE_COLOURS.get(s, theme.FURTHER_STAGE_COLOUR) for s in stages]
    )
    width, height = 270, 250
    if share:
        values = []
        for s in some:
            top = 1.0
            for index, stage in enumerate(s.points):
                part = s.share(stage)
                low, high = s.share_range(stage)
                values.append(
                    {
                        "n": f"{s.n}",
                        "stage": stage,
                        "top": top,
                        "bottom": top - part,
                        "middle": top - part / 2,
                        "label": f"{100 * part:.0f}" if part >= 0.06 else "",
                        # The lower edge, as far as the stage may reach with its upper one where it is.
                        "from": max(top - high, 0.0),
                        "to": top - low,
                        "side": index % 2,
                    }
                )
                top -= part
        chart = alt.Chart(alt.Data(values=values))
        y_scale = alt.Scale(domain=[0, 1], nice=False)
        nominal = alt.X(
            "n:N",
            title=length_name,
            sort=[f"{n}" for n in lengths],
            axis=alt.Axis(
                labelAngle=-45 if len(lengths) > 7 else 0, grid=False, labelOverlap=False, ticks=True
            ),
            scale=alt.Scale(paddingInner=0.12, paddingOuter=0.06),
        )
        bars = chart.mark_bar(stroke=theme.PAPER, strokeWidth=1).encode(
            x=nominal,
            y=alt.Y(
                "top:Q",
                title="share of the sum of the stages",
                scale=y_scale,
                axis=alt.Axis(format="%", tickCount=5),
            ),
            y2="bottom:Q",
            color=alt.Color("stage:N", scale=colours, legend=None),
        )
        # In turns on the left and on the right of the number, so that those of neighbours stay apart.
        whiskers = [
            chart.transform_filter(f"datum.side == {side}")
            .mark_rule(color=theme.ON_BAR, strokeWidth=1.2, xOffset=offset)
            .encode(x=nominal, y=alt.Y("from:Q", scale=y_scale), y2="to:Q")
            for side, offset in ((0, -12), (1, 12))
        ]
        hollow = (
            alt.Chart(
                alt.Data(
                    values=[
                        {
                            "n": f"{s.n}",
                            "state": theme.DISTURBED,
                            "edge": theme.MUTED,
                            "fill": theme.PAPER,
                        }
                        for s in some
                        if s.disturbed
                    ]
                )
            )
            .mark_point(shape="circle", size=34, strokeWidth=1.5, opacity=1)
            .encode(
                x=nominal,
                y=alt.value(-7),
                # Fields and not properties of the mark, which would take the legend's own away.
                stroke=alt.Stroke("edge:N", scale=None),
                fill=alt.Fill("fill:N", scale=None),
                **theme.marker_legend(True),
            )
        )
        texts = chart.mark_text(fontSize=theme.SMALL, color=theme.ON_BAR).encode(
            x=nominal, y=alt.Y("middle:Q", scale=y_scale), text="label:N"
        )
        axis = axes.LinearAxis(0.0, 1.0, height)
        last = [v for v in values if v["n"] == f"{lengths[-1]}"]
        centres = axes.spread(
            [axis.pixel(v["middle"]) for v in last], [axes.LABEL_LINE + 1] * len(last), 0, height
        )
        names = alt.Chart(
            alt.Data(
                values=[
                    {"y": axis.value(c), "label": f"{v['stage']}", "at": v["middle"]}
                    for v, c in zip(last, centres, strict=True)
                ]
            )
        )
        ends = names.mark_text(align="left", fontSize=theme.SMALL, color=theme.INK, baseline="middle").encode(
            x=alt.value(width + 16), y=alt.Y("y:Q", scale=y_scale), text="label:N"
        )
        leaders = names.mark_rule(color=theme.MUTED, strokeWidth=1).encode(
            x=alt.value(width), x2=alt.value(width + 12), y=alt.Y("at:Q", scale=y_scale), y2="y:Q"
        )
        disturbed = [hollow] if any(s.disturbed for s in some) else []
        drawn = alt.layer(bars, *whiskers, texts, *disturbed, leaders, ends).properties(
            width=width, height=height
        )
        said = ", ".join(f"{stage} {100 * some[-1].share(stage):.0f} %" for stage in some[-1].times_ns)
        return panel(f"{name}: share", drawn, f"{name}, shares of a call at n={some[-1].n}: {said}.")

    x = axes.x_length(lengths, length_name)
    numbers = [t for s in some for p in s.points.values() for t in (p.time.low, p.time.high)]
    axis = axes.log_axis(numbers, height)
    title = "time of the stage in one call"
    y = axes.y_time(axis, title, "time")
    layers: list[alt.Chart] = []
    labels = []
    any_disturbed = any(s.disturbed for s in some)
    for index, stage in enumerate(stages):
        colour = theme.STAGE_COLOURS.get(stage, theme.FURTHER_STAGE_COLOUR)
        points = [
            {
                "n": s.n,
                "at": s.n,
                "time": p.time.value,
                "low": p.time.low,
                "high": p.time.high,
                "edge": theme.MUTED,
                "fill": theme.marker_fill(colour, p.row.disturbed),
                "state": theme.DISTURBED if p.row.disturbed else "",
            }
            for s in some
            if (p := s.points.get(stage))
        ]
        chart = alt.Chart(alt.Data(values=points))
        layers.append(
            chart.mark_area(color=colour, opacity=0.35).encode(
                x=x, y=alt.Y("low:Q", scale=axis.scale(), title=title), y2="high:Q"
            )
        )
        layers.append(chart.mark_line(color=colour, strokeWidth=2).encode(x=x, y=y))
        layers.append(
            chart.mark_point(
                shape=theme.MARKERS[index % len(theme.MARKERS)],
                size=40,
                strokeWidth=0.9,
                opacity=1,
            ).encode(
                x=x,
                y=y,
                stroke=alt.Stroke("edge:N", scale=None),
                fill=alt.Fill("fill:N", scale=None),
                **theme.marker_legend(any_disturbed),
            )
        )
        end = points[-1]
        labels.append(
            axes.EndLabel(end["at"], end["time"], (f"{stage}  {formats.duration(end['time'])}",), theme.MUTED)
        )
    layers.append(axes.end_labels(labels, axis, x, title, width))
    drawn = alt.layer(*layers).properties(width=width, height=height)
    said = ", ".join(f"{stage} {formats.duration(t)}" for stage, t in some[-1].times_ns.items())
    return panel(f"{name}: time", drawn, f"{name}, times at n={some[-1].n}: {said}.")


def stages(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """What the stages of naive take, as shares and as times; a row of panels for each ISA level."""
    if not section.stages:
        return None
    several = len({id(s.run) for s in section.stages}) > 1
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
                key.run.label if several else "",
            )
            if part
        )
        for share in (True, False):
            panels.append(_stage_panel(some, names, share, section.group.length_name, name))
    machine = ("machine",) if several else ()
    rows = tuple(
        (
            *((s.run.label,) if several else ()),
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
        *provenance(list({id(s.run): s.run for s in section.stages}.values())),
    )
    left_out = [
        f"{s.variant.label}, {s.isa}, n={s.n}{f', {s.run.label}' if several else ''}: without {', '.join(s.missing)}, not "
        "measured; shares are of the sum of the others"
        for s in section.stages
        if s.missing
    ]
    columns = (
        *machine,
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
