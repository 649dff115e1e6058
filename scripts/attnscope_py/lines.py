"""Lines over n: the one kind of panel that most charts are made of, and what its parts are called."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import altair as alt

from . import axes, formats, theme
from .analysis import Section
from .figures import ASTERISK, HOLLOW
from .results import Run
from .series import Point, Series
from .statistics import Exponent

WIDTH, HEIGHT = 270, 250

DODGE = 5  # pixels at most between series that are drawn side by side

# What a panel shows of a point: its value, low and high.
Shown = tuple[float, float, float]
Values = Callable[[Series], list[tuple[Point, Shown]]]


def exponent_text(exponent: Exponent) -> str:
    return f"n^{exponent.value:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]"


def exponent_label(s: Series) -> str:
    """With an asterisk where the fit rests on disturbed rows."""
    if not s.exponent:
        return "no exponent"
    return exponent_text(s.exponent) + ("*" if s.disturbed_fit else "")


def runs_of(series: Sequence[Series]) -> list[Run]:
    return list({id(s.run): s.run for s in series}.values())


def name_of(section: Section, s: Series, name: str) -> str:
    """With several machines, a label names its machine."""
    return f"{name}, {s.run.label}" if len(runs_of(section.series)) > 1 else name


def machine_cell(section: Section, run: Run) -> tuple[str, ...]:
    """A table's machine cell, with several machines."""
    return (run.label,) if len(runs_of(section.series)) > 1 else ()


def machine_column(section: Section) -> tuple[str, ...]:
    return ("machine",) if len(runs_of(section.series)) > 1 else ()


def times(s: Series) -> list[tuple[Point, Shown]]:
    return [(p, (p.time.value, p.time.low, p.time.high)) for p in s.points]


def per_pair(s: Series) -> list[tuple[Point, Shown]]:
    return [
        (p, (p.time.value / pairs, p.time.low / pairs, p.time.high / pairs))
        for p in s.points
        if (pairs := p.row.pairs_useful)
    ]


def percent(s: Series) -> list[tuple[Point, Shown]]:
    """The peak is one number, so a row's interval is that of its time."""
    return [
        (p, (pct, pct * p.time.value / p.time.high, pct * p.time.value / p.time.low))
        for p in s.points
        if (pct := p.row.pct_peak) is not None
    ]


def numbers(series: Sequence[Series], values: Values) -> list[float]:
    return [v for s in series for _, shown in values(s) for v in shown]


def side_by_side(series: Sequence[Series]) -> bool:
    """Do series of one panel share a colour? Their bands could not be told apart."""
    return len({s.isa for s in series}) < len(series)


def hollow_sentence(series: Sequence[Series]) -> tuple[str, ...]:
    """What a caption says of hollow markers, where there are any."""
    return (HOLLOW,) if any(p.row.disturbed for s in series for p in s.points) else ()


def marker_sentences(series: Sequence[Series]) -> tuple[str, ...]:
    """The same, and what it says of the exponents' asterisks."""
    return hollow_sentence(series) + ((ASTERISK,) if any(s.disturbed_fit for s in series) else ())


def single_lengths(section: Section) -> list[str]:
    """Series that no line can be drawn of."""
    return [
        f"{name_of(section, s, f'{s.variant.label}, {s.isa}')}: n={s.last.n} alone, and a line needs two lengths"
        for s in section.series
        if len(s.points) < 2
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
    point, (value, _, _) = per_pair(s)[-1]
    return f"{formats.duration(value)} at n={point.n}"


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


def panel_lines(
    section: Section,
    series: Sequence[Series],
    values: Values,
    label: Callable[[Series], tuple[str, ...]],
    axis: axes.LogAxis | axes.LinearAxis,
    y: alt.Y,
    y_title: str,
    marks: theme.Marks,
    marked: Sequence[tuple[float, str]] = (),
) -> alt.LayerChart:
    """One panel: for each series line, markers, and a label at its end; intervals as bands, or as whiskers side by
    side where series share a colour.

    Colour tells the ISA level, marker and line style the variant; the first run's markers are full, the others'
    are lighter. Markers of disturbed rows are hollow.
    """
    first_run = runs_of(section.series)[0]
    drawn = [(s, points) for s in series if (points := values(s))]
    lengths = sorted({p.n for _, points in drawn for p, _ in points})
    octaves = max(1.0, math.log2(lengths[-1] / lengths[0]))
    crowded = side_by_side([s for s, _ in drawn])
    step = 0.0
    if crowded:
        nearest = min((b / a for a, b in itertools.pairwise(lengths)), default=2.0)
        step = min(DODGE, 0.5 * WIDTH * math.log2(nearest) / octaves / (len(drawn) - 1))
    data, labels = [], []
    for index, (s, points) in enumerate(drawn):
        colour = theme.isa_colour(s.isa)
        beside = 2 ** (octaves * step * (index - (len(drawn) - 1) / 2) / WIDTH)
        for p, (value, low, high) in points:
            inside = colour if s.run is first_run else theme.tint(colour)
            data.append(
                {
                    "n": p.n,
                    "at": p.n * beside,
                    "y": value,
                    "low": low,
                    "high": high,
                    "series": index,
                    "variant": s.variant.label,
                    "colour": colour,
                    "fill": theme.marker_fill(inside, p.row.disturbed),
                    "state": theme.DISTURBED if p.row.disturbed else "",
                }
            )
        labels.append(axes.EndLabel(data[-1]["at"], data[-1]["y"], label(s), colour))
    x = axes.x_length(lengths, section.group.length_name)
    stroke = alt.Stroke("colour:N", scale=None)
    chart = alt.Chart(alt.Data(values=data)).encode(x=x, detail="series:N")
    ends = {"y": alt.Y("low:Q", scale=axis.scale(), title=y_title), "y2": "high:Q"}
    intervals = (
        chart.mark_rule(strokeWidth=1.5).encode(**ends, stroke=stroke)
        if crowded
        else chart.mark_area(opacity=0.22).encode(**ends, fill=alt.Fill("colour:N", scale=None))
    )
    return alt.layer(
        *axes.marked_lengths(marked, x, lengths[0], lengths[-1], WIDTH),
        intervals,
        chart.mark_line(strokeWidth=1.8).encode(y=y, stroke=stroke, strokeDash=marks.dash()),
        chart.mark_point(size=34, strokeWidth=1.5, opacity=1).encode(
            y=y,
            stroke=stroke,
            fill=alt.Fill("fill:N", scale=None),
            shape=marks.shape(),
            **theme.marker_legend(any(row["state"] for row in data)),
        ),
        axes.end_labels(labels, axis, x, y_title, WIDTH),
    ).properties(width=WIDTH, height=HEIGHT)
