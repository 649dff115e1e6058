"""Machines side by side: what can be compared between them, which is ratios within each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import altair as alt

from . import axes, formats, lines, theme
from .analysis import Section, largest_common
from .figures import INTERVALS, Figure, Panel, Table, panel, provenance
from .layers import layer
from .results import Run
from .series import BASE_ISA, Series, Variant, isa_rank

_WIDTH, _ROW_HEIGHT = 250, 20
_CHARACTER = 6.2  # pixels, at most


@dataclass(frozen=True)
class _Dot:
    """One number of one machine."""

    run: Run
    variant: Variant
    isa: str
    n: str  # which lengths it is of
    value: float
    low: float
    high: float
    disturbed: bool


@dataclass(frozen=True)
class _Kind:
    """A number without a unit, that every machine has."""

    title: str
    axis: str
    text: Callable[[float], str]
    log: bool
    around: float | None  # what the axis has to hold


_KINDS = {
    "exponent": _Kind("Exponent of time over n", "time grows as n to the", lambda v: f"{v:.2f}", False, None),
    "peak": _Kind("Percent of peak", "% of measured peak", lambda v: f"{v:.0f} %", False, 0.0),
    "speed-up": _Kind(
        f"Speed-up over {BASE_ISA}",
        f"times as fast as {BASE_ISA}",
        lambda v: f"{formats.significant(v)}x",
        True,
        1.0,
    ),
    "efficiency": _Kind("Sparse efficiency", "sparse efficiency, %", lambda v: f"{v:.0f} %", True, 100.0),
}


def _exponents(section: Section, best: Sequence[Series]) -> list[_Dot]:
    return [
        _Dot(
            s.run, s.variant, s.isa, f"{e.n_low} to {e.n_high}", e.value, e.low, e.high, bool(s.disturbed_fit)
        )
        for s in best
        if (e := s.exponent)
    ]


def _peaks(section: Section, best: Sequence[Series]) -> list[_Dot]:
    return [
        _Dot(s.run, s.variant, s.isa, f"{p.at}", p.value, p.low, p.high, p.row.disturbed)
        for s in best
        for p in lines.percent(s)[-1:]
    ]


def _speed_ups(section: Section, best: Sequence[Series]) -> list[_Dot]:
    shown = {(id(s.run), s.variant, s.isa) for s in best}
    return [
        _Dot(s.run, s.variant, s.isa, f"{s.n}", s.ratio.value, s.ratio.low, s.ratio.high, s.disturbed)
        for s in largest_common(section)
        if (id(s.run), s.variant, s.isa) in shown
    ]


def _efficiencies(section: Section, best: Sequence[Series]) -> list[_Dot]:
    dots = []
    for s in best:
        of = [
            a
            for a in section.against_dense
            if a.run is s.run and a.variant == s.variant and a.isa == s.isa and a.efficiency
        ]
        for a in sorted(of, key=lambda a: a.n)[-1:]:
            value, low, high = a.efficiency_percent
            dots.append(_Dot(s.run, s.variant, s.isa, f"{a.n}", value, low, high, a.disturbed))
    return dots


_FOUND = {"exponent": _exponents, "peak": _peaks, "speed-up": _speed_ups, "efficiency": _efficiencies}


def _axis(kind: _Kind, dots: Sequence[_Dot]) -> tuple[alt.Scale, alt.Axis]:
    numbers = [v for d in dots for v in (d.value, d.low, d.high)]
    if kind.around is not None:
        numbers.append(kind.around)
    if kind.log:
        log = axes.log_axis(numbers, 100, 3.0)
        return log.scale(), alt.Axis(values=list(log.ticks), labelExpr="format(datum.value, '~r')", grid=True)
    low, high = min(numbers), max(numbers)
    room = 0.06 * (high - low) or 0.1
    scale = alt.Scale(domain=[low if kind.around == low else low - room, high + room], nice=False, zero=False)
    return scale, alt.Axis(tickCount=5, grid=True)


def _panel(section: Section, kind: _Kind, dots: Sequence[_Dot]) -> Panel:
    runs = lines.runs_of(section.series)
    variants = [v for v in section.variants if any(d.variant == v for d in dots)]
    # A row for each machine below the variant's name.
    rows: list[dict[str, object]] = []
    place = 0
    for variant in variants:
        rows.append({"place": place, "label": variant.label, "weight": "bold", "variant": variant.label})
        place += 1
        for d in sorted((d for d in dots if d.variant == variant), key=lambda d: runs.index(d.run)):
            colour = theme.isa_colour(d.isa)
            inside = colour if d.run is runs[0] else theme.tint(colour)
            rows.append(
                {
                    **theme.keys(d.isa, variant.label, d.run.label),
                    "place": place,
                    "label": f"{d.run.label}, {d.isa}",
                    "at": d.value,
                    "low": d.low,
                    "high": d.high,
                    "n": d.n,
                    "colour": colour,
                    "fill": theme.marker_fill(inside, d.disturbed),
                    "state": theme.DISTURBED if d.disturbed else "",
                    "value": kind.text(d.value),
                    "interval": f"{kind.text(d.low)} to {kind.text(d.high)}",
                }
            )
            place += 1
    scale, axis = _axis(kind, dots)
    height = _ROW_HEIGHT * place
    y = alt.Y("place:Q", scale=alt.Scale(domain=[place - 0.5, -0.5], nice=False), axis=None)
    x = alt.X("at:Q", title=kind.axis, scale=scale, axis=axis)
    names = alt.Chart(theme.data(rows)).encode(y=y)
    chart = alt.Chart(theme.data([row for row in rows if "at" in row])).encode(y=y)
    # Beside the dots alone: a line through all rows would strike out the variants' names.
    beside = [
        {"at": kind.around, "top": at - 0.5, "bottom": at + 0.5}
        for row in rows
        if kind.log and "at" in row and isinstance(at := row["place"], int)
    ]
    span = y.copy()
    span.shorthand = "top:Q"
    reference = [
        alt.Chart(theme.data(some))
        .mark_rule(color=theme.INK, strokeWidth=1)
        .encode(x=x, y=span, y2=alt.Y2("bottom:Q"))
        for some in ([beside] if beside else [])
    ]
    stroke = alt.Stroke("colour:N", scale=None)
    # A variant's name has its row to itself, and reaches into the plot.
    left = -_CHARACTER * max(len(str(row["label"])) for row in rows if "at" in row)
    layers = [
        *reference,
        *(
            names.transform_filter(f"{'' if bold else '!'}(datum.weight == 'bold')")
            .mark_text(
                align="left", fontSize=theme.SMALL, color=theme.INK, fontWeight="bold" if bold else "normal"
            )
            .encode(x=alt.XValue(left), text=alt.Text("label:N"))
            for bold in (True, False)
        ),
        layer(
            chart.mark_rule(strokeWidth=2).encode(
                x=alt.X("low:Q", scale=scale, title=kind.axis), x2=alt.X2("high:Q"), stroke=stroke
            ),
            chart.mark_point(shape="circle", size=45, strokeWidth=1.5, opacity=1).encode(
                x=x,
                stroke=stroke,
                fill=alt.Fill("fill:N", scale=None),
                **theme.marker_legend(any(d.disturbed for d in dots)),
            ),
            chart.mark_text(align="left", fontSize=theme.SMALL, color=theme.INK).encode(
                x=alt.XValue(_WIDTH + 8), text=alt.Text("value:N")
            ),
            theme.hover(chart.encode(x=x), {"n": "n"}, kind.axis),
        ),
    ]
    said = "; ".join(f"{d.variant.label}, {d.run.label}, {d.isa}: {kind.text(d.value)}" for d in dots)
    drawn = layer(*layers, width=_WIDTH, height=height)
    return panel(kind.title, drawn, f"{kind.title}: {said}.")


def _best(section: Section) -> list[Series]:
    """Each machine's series at its widest ISA level, of variants that more than one machine has."""
    widest = {
        id(run): max((s.isa for s in section.of(run=run)), key=isa_rank)
        for run in lines.runs_of(section.series)
    }
    series = [s for s in section.series if s.isa == widest[id(s.run)]]
    return [s for s in series if len(lines.runs_of([o for o in series if o.variant == s.variant])) > 1]


def machines(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """Several machines: exponents, percent of peak, speed-ups and sparse efficiency, as dots with whiskers."""
    if len(lines.runs_of(section.series)) < 2:
        return None
    best = _best(section)
    found = {name: dots for name in _KINDS if (dots := _FOUND[name](section, best))}
    if not found:
        return None
    rows = tuple(
        (_KINDS[name].title, d.variant.label, d.run.label, d.isa, d.n, _KINDS[name].text(d.value))
        + (f"{_KINDS[name].text(d.low)} to {_KINDS[name].text(d.high)}", "disturbed" if d.disturbed else "")
        for name, dots in found.items()
        for d in dots
    )
    columns = ("what", "pattern · algorithm", "machine", "ISA level", "n", "value", "interval", "CPU")
    meaning = (
        "Each machine at its widest ISA level and its largest n. All numbers are ratios within one machine: times of two are "
        "never divided by each other."
    )
    hollow = lines.hollow_sentence(best)
    caption = (f"{section.group.label}.", meaning, INTERVALS, *hollow, *provenance(lines.runs_of(best)))
    panels = [_panel(section, _KINDS[name], dots) for name, dots in found.items()]
    left_out = [
        f"{s.variant.label}, {s.run.label}: no other machine has it"
        for s in section.series
        if len(lines.runs_of(section.of(variant=s.variant))) < 2
    ]
    return Figure(
        f"machines{suffix}",
        "Machines side by side",
        caption,
        panels,
        Table(columns, rows),
        left_out=list(dict.fromkeys(left_out)),
    )
