"""The stages of naive: their shares of a call, and their times over n."""

from __future__ import annotations

import altair as alt

from . import axes, formats, theme
from .analysis import Section, StageShare, isa_rank
from .figures import Figure, Panel, Table, panel, provenance


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
            for stage in s.times_ns:
                part = s.share(stage)
                values.append(
                    {
                        "n": f"{s.n}",
                        "stage": stage,
                        "top": top,
                        "bottom": top - part,
                        "middle": top - part / 2,
                        "label": f"{100 * part:.0f}" if part >= 0.06 else "",
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
                "top:Q", title="share of the call", scale=y_scale, axis=alt.Axis(format="%", tickCount=5)
            ),
            y2="bottom:Q",
            color=alt.Color("stage:N", scale=colours, legend=None),
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
        drawn = alt.layer(bars, texts, leaders, ends).properties(width=width, height=height)
        said = ", ".join(f"{stage} {100 * some[-1].share(stage):.0f} %" for stage in some[-1].times_ns)
        return panel(f"{name}: share", drawn, f"{name}, shares of a call at n={some[-1].n}: {said}.")

    x = axes.x_length(lengths, length_name)
    numbers = [t for s in some for t in s.times_ns.values()]
    axis = axes.log_axis(numbers, height)
    title = "time of the stage in one call"
    y = axes.y_time(axis, title, "time")
    layers: list[alt.Chart] = []
    labels = []
    for index, stage in enumerate(stages):
        points = [{"n": s.n, "time": s.times_ns[stage]} for s in some if stage in s.times_ns]
        colour = theme.STAGE_COLOURS.get(stage, theme.FURTHER_STAGE_COLOUR)
        chart = alt.Chart(alt.Data(values=points))
        layers.append(chart.mark_line(color=colour, strokeWidth=2).encode(x=x, y=y))
        layers.append(
            chart.mark_point(
                shape=theme.MARKERS[index % len(theme.MARKERS)],
                size=40,
                fill=colour,
                stroke=theme.MUTED,
                strokeWidth=0.7,
                opacity=1,
            ).encode(x=x, y=y)
        )
        end = points[-1]
        labels.append(
            axes.EndLabel(end["n"], end["time"], (f"{stage}  {formats.duration(end['time'])}",), theme.MUTED)
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
            formats.duration(t, 4),
            f"{100 * s.share(stage):.1f} %",
        )
        for s in section.stages
        for stage, t in s.times_ns.items()
    )
    meaning = (
        "Each stage is timed on its own: qk (scores), scale, mask, softmax, pv (weights times values). Numbers on "
        "the bars are percent of the sum of the stages."
    )
    caption = (
        f"{section.group.label}; {', '.join(v.label for v in sorted(variants, key=lambda v: v.rank))}.",
        meaning,
        *provenance(list({id(s.run): s.run for s in section.stages}.values())),
    )
    columns = (*machine, "pattern · algorithm", "ISA level", "n", "stage", "median", "share")
    return Figure(f"stages{suffix}", "Time by stage of naive", caption, panels, Table(columns, rows))
