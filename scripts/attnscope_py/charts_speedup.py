"""Speed-up by ISA level."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt

from . import axes, formats, lines, theme
from .analysis import Section, SpeedUp, largest_common
from .figures import HOLLOW, INTERVALS, Figure, Panel, Table, panel, provenance
from .layers import layer
from .series import BASE_ISA, isa_rank

_WIDTH, _ROW_HEIGHT = 380, 52
_FACTORS = tuple(2.0**e for e in range(-6, 11))
_CHARACTER = 6.5  # pixels, at most


def _apart(values: Sequence[float], texts: Sequence[str], low: float, high: float) -> list[float]:
    """Places on the logarithmic axis low..high where texts centred on these values do not cover each other."""
    span = math.log(high / low)
    wanted = [_WIDTH * math.log(value / low) / span for value in values]
    widths = [_CHARACTER * len(text) + 6 for text in texts]
    return [low * math.exp(span * x / _WIDTH) for x in axes.spread(wanted, widths, -30, _WIDTH + 30)]


def _beside_one(low: float, high: float) -> float:
    """Where names begin: right of the line at 1, where that leaves them room."""
    one = _WIDTH * math.log(1 / low) / math.log(high / low)
    return one + 6 if one < 0.3 * _WIDTH else 0


def _keys(s: SpeedUp) -> dict[str, str]:
    return theme.keys(s.isa, s.variant.label, s.run.label)


def _texts(some: Sequence[SpeedUp], rows: dict[str, str], low: float, high: float) -> list[dict[str, object]]:
    """What stands above the dots of each row: the factors, in the first row with the levels above them."""
    found: list[dict[str, object]] = []
    for index, (label, name) in enumerate(rows.items()):
        of = [s for s in some if s.variant.label == label]
        factors = [f"{formats.significant(s.ratio.value)}x" for s in of]
        isas = [s.isa for s in of]
        wider = [max(pair, key=len) for pair in zip(factors, isas, strict=True)] if index == 0 else factors
        for s, factor, place in zip(
            of, factors, _apart([s.ratio.value for s in of], wider, low, high), strict=True
        ):
            heading = s.isa if index == 0 else ""
            found.append({**_keys(s), "row": name, "place": place, "label": factor, "heading": heading})
    return found


def _panel(section: Section, some: Sequence[SpeedUp], low: float, high: float, title: str) -> Panel:
    order = [v for v in section.variants if any(s.variant == v for s in some)]
    rows = {v.label: f"{v.label}, n={next(s.n for s in some if s.variant == v)}" for v in order}
    levels = sorted({s.isa for s in some}, key=isa_rank)
    scale = alt.Scale(type="log", base=2, domain=[low, high], nice=False)
    title_x = "times as fast as scalar"
    x = alt.X(
        "ratio:Q",
        title=title_x,
        scale=scale,
        axis=alt.Axis(
            values=[factor for factor in _FACTORS if low <= factor <= high],
            labelExpr="format(datum.value, '~r') + 'x'",
            grid=True,
            labelOverlap=False,
        ),
    )
    y = alt.Y(
        "row:N",
        title=None,
        sort=list(rows.values()),
        axis=alt.Axis(labels=False, ticks=False, domain=False, grid=True),
    )
    colour = alt.Color("isa:N", scale=theme.isa_scale(levels), legend=None)
    values = [
        {
            "row": rows[s.variant.label],
            **_keys(s),
            "ratio": s.ratio.value,
            "low": s.ratio.low,
            "high": s.ratio.high,
            "fill": theme.marker_fill(theme.isa_colour(s.isa), s.disturbed),
            "state": theme.DISTURBED if s.disturbed else "",
            "n": s.n,
            "value": f"{formats.significant(s.ratio.value)}x",
            "interval": f"{formats.significant(s.ratio.low)} to {formats.significant(s.ratio.high)}",
        }
        for s in some
    ]
    chart = alt.Chart(theme.data(values))
    one = alt.Chart(theme.data([{"one": 1}])).mark_rule(color=theme.INK, strokeWidth=1)
    texts = alt.Chart(theme.data(_texts(some, rows, low, high)))
    # Above the dots: beside the plot they would take more room than it.
    names = alt.Chart(theme.data([{"row": name, "variant": label} for label, name in rows.items()]))
    place = alt.X("place:Q", scale=scale, title=title_x)
    dots = [
        chart.mark_rule(strokeWidth=2).encode(
            x=alt.X("low:Q", scale=scale, title=title_x), x2=alt.X2("high:Q"), y=y, color=colour
        ),
        chart.mark_tick(thickness=2, size=9).encode(
            x=alt.X("low:Q", scale=scale, title=title_x), y=y, color=colour
        ),
        chart.mark_tick(thickness=2, size=9).encode(
            x=alt.X("high:Q", scale=scale, title=title_x), y=y, color=colour
        ),
        chart.mark_point(shape="circle", size=45, strokeWidth=1.5, opacity=1).encode(
            x=x,
            y=y,
            stroke=alt.Stroke("isa:N", scale=theme.isa_scale(levels), legend=None),
            fill=alt.Fill("fill:N", scale=None),
            **theme.marker_legend(any(s.disturbed for s in some)),
        ),
        theme.hover(chart.encode(x=x, y=y), {"n": section.group.length_name}, title_x),
    ]
    layers = [
        one.encode(x=alt.X("one:Q", scale=scale, title=title_x)),
        layer(*dots),
        names.mark_text(align="left", dy=15, fontSize=theme.SMALL, color=theme.INK).encode(
            x=alt.XValue(_beside_one(low, high)), y=y, text=alt.Text("row:N")
        ),
        texts.mark_text(dy=-12, fontSize=theme.SMALL, color=theme.INK).encode(
            x=place, y=y, text=alt.Text("label:N")
        ),
        texts.mark_text(fontSize=theme.SMALL, fontWeight="bold", color=theme.INK).encode(
            x=place, y=alt.YValue(-8), text=alt.Text("heading:N")
        ),
    ]
    said = "; ".join(
        f"{s.isa} is {formats.significant(s.ratio.value)} times as fast as scalar at {rows[s.variant.label]}"
        for s in some
    )
    drawn = layer(*layers, width=_WIDTH, height=_ROW_HEIGHT * len(rows))
    return panel(title, drawn, f"{title}: {said}." if title else f"{said}.")


def speed_up(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """Each ISA level against scalar at the largest common n: dots with whiskers around 1x."""
    shown = largest_common(section)
    if not shown:
        return None
    low = min(0.9, min(s.ratio.low for s in shown) / 1.15)
    high = max(2.2, max(s.ratio.high for s in shown) * 1.25)
    runs = lines.runs_of(shown)
    panels = [
        _panel(
            section, [s for s in shown if s.run is run], low, high, "".join(lines.machine_cell(section, run))
        )
        for run in runs
    ]
    rows = tuple(
        (
            *lines.machine_cell(section, s.run),
            s.variant.label,
            s.isa,
            f"{s.n}",
            f"{formats.significant(s.ratio.value)}x",
            f"{formats.significant(s.ratio.low)} to {formats.significant(s.ratio.high)}",
            "disturbed" if s.disturbed else "",
        )
        for s in section.speed_ups
    )
    meaning = (
        "How many times as fast as the scalar level the same work is done, at the largest n that every level was "
        "measured at; all other n are in the table. The scalar level is compiled without vectorisation."
    )
    hollow = (HOLLOW,) if any(s.disturbed for s in shown) else ()
    drawn = {(id(s.run), s.variant, s.isa) for s in shown}
    left_out = [
        f"{lines.name_of(section, s, f'{s.variant.label}, {s.isa}')}: no length that {BASE_ISA} was measured at too"
        for s in section.series
        if s.isa != BASE_ISA and (id(s.run), s.variant, s.isa) not in drawn
    ]
    caption = (f"{section.group.label}.", meaning, INTERVALS, *hollow, *provenance(runs))
    columns = (
        *lines.machine_column(section),
        "pattern · algorithm",
        "ISA level",
        "n",
        "speed-up",
        "interval",
        "CPU",
    )
    return Figure(
        f"speedup{suffix}",
        "Speed-up by ISA level",
        caption,
        panels,
        Table(columns, rows),
        columns=1,
        left_out=left_out,
    )
