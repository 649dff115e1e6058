"""Lines over n: the one kind of panel that most charts are made of, and what its parts are called."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import altair as alt

from . import axes, formats, theme
from .analysis import Section, SpeedUp, StageShare
from .figures import ASTERISK, HOLLOW, Panel, panel
from .layers import Spec, layer
from .results import Row, Run
from .series import Series, isa_rank
from .statistics import Exponent

WIDTH, HEIGHT = 270, 250

DODGE = 5  # pixels at most between series that are drawn side by side


class Shown(NamedTuple):
    """What a panel shows of a row: where on the x axis, its value and the interval of that."""

    at: int
    row: Row
    value: float
    low: float
    high: float
    disturbed: bool  # a row that the value rests on was; of a ratio either


Values = Callable[[Series], list[Shown]]


@dataclass(frozen=True)
class Quantity:
    """What a panel's vertical axis is: of which values, and how those are written."""

    title: str
    values: Values
    axis: axes.LogAxis | axes.LinearAxis
    y: alt.Y
    text: Callable[[float], str]
    exact: bool = False  # counted, not measured: without intervals


def durations(title: str, values: Values, series: Sequence[Series]) -> Quantity:
    """Times on a logarithmic axis that holds all of these series."""
    axis = axes.log_axis(numbers(series, values), HEIGHT)
    return Quantity(title, values, axis, axes.y_time(axis, title), formats.duration)


def exponent_text(exponent: Exponent) -> str:
    return f"n^{exponent.value:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]"


def exponent_label(s: Series) -> str:
    """With an asterisk where the fit rests on disturbed rows."""
    if not s.exponent:
        return "no exponent"
    return exponent_text(s.exponent) + ("*" if s.disturbed_fit else "")


def runs_of(series: Sequence[Series | SpeedUp | StageShare]) -> list[Run]:
    return list({id(s.run): s.run for s in series}.values())


def name_of(section: Section, s: Series | SpeedUp | StageShare, name: str) -> str:
    """With several machines, a label names its machine."""
    return f"{name}, {s.run.label}" if len(section.runs) > 1 else name


def machine_cell(section: Section, run: Run) -> tuple[str, ...]:
    """A table's machine cell, with several machines."""
    return (run.label,) if len(section.runs) > 1 else ()


def machine_column(section: Section) -> tuple[str, ...]:
    return ("machine",) if len(section.runs) > 1 else ()


def times(s: Series) -> list[Shown]:
    return [Shown(p.n, p.row, p.time.value, p.time.low, p.time.high, p.row.disturbed) for p in s.points]


def per_pair(s: Series) -> list[Shown]:
    return [
        Shown(p.n, p.row, p.time.value / pairs, p.time.low / pairs, p.time.high / pairs, p.row.disturbed)
        for p in s.points
        if (pairs := p.row.pairs_useful)
    ]


def percent(s: Series) -> list[Shown]:
    """The peak is one number, so a row's interval is that of its time."""
    return [
        Shown(
            p.n,
            p.row,
            pct,
            pct * p.time.value / p.time.high,
            pct * p.time.value / p.time.low,
            p.row.disturbed,
        )
        for p in s.points
        if (pct := p.row.pct_peak) is not None
    ]


def numbers(series: Sequence[Series], values: Values) -> list[float]:
    return [v for s in series for shown in values(s) for v in shown[2:5]]


def widest_first(s: Series) -> tuple:
    """Sorts panels of ISA levels, the widest first."""
    return (-isa_rank(s.isa)[0], s.isa)


def side_by_side(series: Sequence[Series]) -> bool:
    """Do series of one panel share a colour? Their bands could not be told apart."""
    return len({s.isa for s in series}) < len(series)


def hollow_sentence(series: Sequence[Series], values: Values | None = None) -> tuple[str, ...]:
    """What a caption says of hollow markers, where there are any."""
    return (HOLLOW,) if any(shown.disturbed for s in series for shown in (values or times)(s)) else ()


def marker_sentences(series: Sequence[Series]) -> tuple[str, ...]:
    """The same, and what it says of the exponents' asterisks."""
    return hollow_sentence(series) + ((ASTERISK,) if any(s.disturbed_fit for s in series) else ())


def single_lengths(section: Section) -> list[str]:
    """Series that no line can be drawn of."""
    return [
        f"{name_of(section, s, f'{s.variant.label}, {s.isa}')}: n={s.last.n} alone, and a line needs two lengths"
        for s in section.series
        if len(s.lengths) < 2
    ]


def without_pairs(section: Section, series: Sequence[Series]) -> list[str]:
    """Points of which there is a time, but none per pair."""
    return [
        f"{name_of(section, s, f'{s.variant.label}, {s.isa}')}: n={', '.join(lengths)}, without a time per pair, as the "
        "file has no useful pairs of it"
        for s in series
        if (lengths := [f"{p.n}" for p in s.points if not p.row.pairs_useful])
    ]


def last_per_pair(s: Series) -> str:
    shown = per_pair(s)[-1]
    return f"{formats.duration(shown.value)} at n={shown.at}"


def wrap_pattern(pattern: str, width: int = 24) -> tuple[str, ...]:
    """A pattern over several lines, broken at its commas."""
    lines = [""]
    for term in pattern.split(","):
        joined = f"{lines[-1]},{term}" if lines[-1] else term
        if len(joined) > width and lines[-1]:
            lines[-1] += ","
            lines.append(term)
        else:
            lines[-1] = joined
    return tuple(lines)


def line_panel(
    section: Section,
    title: str,
    series: Sequence[Series],
    quantity: Quantity,
    label: Callable[[Series], tuple[str, ...]],
    marks: theme.Marks,
    words: str,
    *,
    x_title: str = "",
    marked: Sequence[tuple[float, str]] = (),
    reference: Sequence[alt.Chart] = (),
) -> Panel:
    """One panel: for each series line, markers, and a label at its end; intervals as bands, or as whiskers side by
    side where series share a colour.

    Colour tells the ISA level, marker and line style the variant; the first run's markers are full, the others'
    are lighter. Markers of disturbed rows are hollow. `reference` lies below it all.
    """
    drawn = [(s, points) for s in series if (points := quantity.values(s))]
    places = sorted({shown.at for _, points in drawn for shown in points})
    crowded = not quantity.exact and side_by_side([s for s, _ in drawn])
    first_run = runs_of(section.series)[0]
    data, labels = [], []
    for index, (s, points) in enumerate(drawn):
        beside = _beside(index, len(drawn), places) if crowded else 1.0
        data += _marks_of(s, index, points, quantity, beside, s.run is first_run)
        keys = theme.keys(s.isa, s.variant.label, s.run.label)
        labels.append(axes.EndLabel(data[-1]["at"], data[-1]["y"], label(s), theme.isa_colour(s.isa), keys))
    x_title = x_title or section.group.length_name
    x = axes.x_length(places, x_title)
    chart = layer(
        *reference,
        *axes.marked_lengths(marked, x, places[0], places[-1], WIDTH),
        _marks_layer(data, x, x_title, quantity, crowded, marks),
        axes.end_labels(labels, quantity.axis, x, quantity.title, WIDTH),
        width=WIDTH,
        height=HEIGHT,
    )
    return panel(title, chart, words)


def _beside(index: int, count: int, places: Sequence[int]) -> float:
    """The factor that moves one of several series aside, by a few pixels."""
    octaves = max(1.0, math.log2(places[-1] / places[0]))
    nearest = min((b / a for a, b in itertools.pairwise(places)), default=2.0)
    step = min(DODGE, 0.5 * WIDTH * math.log2(nearest) / octaves / (count - 1))
    return 2 ** (octaves * step * (index - (count - 1) / 2) / WIDTH)


def _marks_of(
    s: Series, index: int, points: Sequence[Shown], quantity: Quantity, beside: float, first: bool
) -> list[dict[str, object]]:
    colour = theme.isa_colour(s.isa)
    inside = colour if first else theme.tint(colour)
    return [
        {
            "n": shown.at,
            "at": axes.rounded(shown.at * beside),
            "y": shown.value,
            "low": shown.low,
            "high": shown.high,
            "series": index,
            **theme.keys(s.isa, s.variant.label, s.run.label),
            "colour": colour,
            "fill": theme.marker_fill(inside, shown.disturbed),
            "state": theme.DISTURBED if shown.disturbed else "",
            "value": quantity.text(shown.value),
            **(
                {}
                if quantity.exact
                else {"interval": f"{quantity.text(shown.low)} to {quantity.text(shown.high)}"}
            ),
        }
        for shown in points
    ]


def _marks_layer(
    data: list[dict[str, object]],
    x: alt.X,
    x_title: str,
    quantity: Quantity,
    crowded: bool,
    marks: theme.Marks,
) -> Spec:
    y = quantity.y
    stroke = alt.Stroke("colour:N", scale=None)
    chart = alt.Chart(theme.data(data)).encode(x=x, detail=alt.Detail("series:N"))
    ends = {"y": alt.Y("low:Q", scale=quantity.axis.scale(), title=quantity.title), "y2": alt.Y2("high:Q")}
    intervals = (
        chart.mark_rule(strokeWidth=1.5).encode(**ends, stroke=stroke)
        if crowded
        else chart.mark_area(opacity=0.22).encode(**ends, fill=alt.Fill("colour:N", scale=None))
    )
    return layer(
        intervals,
        chart.mark_line(strokeWidth=1.8).encode(y=y, stroke=stroke, strokeDash=marks.dash()),
        chart.mark_point(size=34, strokeWidth=1.5, opacity=1).encode(
            y=y,
            stroke=stroke,
            fill=alt.Fill("fill:N", scale=None),
            shape=marks.shape(),
            **theme.marker_legend(any(row["state"] for row in data)),
        ),
        theme.hover(chart.encode(y=y), {"n": x_title}, quantity.title),
    )
