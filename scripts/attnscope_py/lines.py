"""Lines over n: the one kind of panel that most charts are made of, and what its parts are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import altair as alt

from . import axes, theme
from .analysis import Section, Series
from .results import Run
from .statistics import Exponent

WIDTH, HEIGHT = 270, 250

# n, value, low, high
Values = Callable[[Series], list[tuple[int, float, float, float]]]


def exponent_text(exponent: Exponent) -> str:
    return f"n^{exponent.value:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]"


def exponent_label(s: Series) -> str:
    return exponent_text(s.exponent) if s.exponent else "no exponent"


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


def times(s: Series) -> list[tuple[int, float, float, float]]:
    return [(p.n, p.time.value, p.time.low, p.time.high) for p in s.points]


def per_pair(s: Series) -> list[tuple[int, float, float, float]]:
    return [
        (p.n, p.time.value / pairs, p.time.low / pairs, p.time.high / pairs)
        for p in s.points
        if (pairs := p.row.pairs_useful)
    ]


def percent(s: Series) -> list[tuple[int, float, float, float]]:
    """The peak is one number, so a row's interval is that of its time."""
    return [
        (p.n, pct, pct * p.time.value / p.time.high, pct * p.time.value / p.time.low)
        for p in s.points
        if (pct := p.row.pct_peak) is not None
    ]


def numbers(series: Sequence[Series], values: Values) -> list[float]:
    return [v for s in series for point in values(s) for v in point[1:]]


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
    """One panel: for each series band, line, markers, and a label at its end.

    Colour tells the ISA level, marker and line style the variant; the first run's markers are full, the others'
    are hollow.
    """
    first_run = runs_of(section.series)[0]
    data, labels = [], []
    for index, s in enumerate(series):
        points = values(s)
        if not points:
            continue
        colour = theme.isa_colour(s.isa)
        same = {
            "series": index,
            "variant": s.variant.label,
            "colour": colour,
            "fill": colour if s.run is first_run else theme.PAPER,
        }
        data += [{"n": n, "y": v, "low": low, "high": high} | same for n, v, low, high in points]
        labels.append(axes.EndLabel(points[-1][0], points[-1][1], label(s), colour))
    lengths = sorted({point["n"] for point in data})
    x = axes.x_length(lengths, section.group.length_name)
    stroke = alt.Stroke("colour:N", scale=None)
    fill = alt.Fill("fill:N", scale=None)
    chart = alt.Chart(alt.Data(values=data)).encode(x=x, detail="series:N")
    return alt.layer(
        *axes.marked_lengths(marked, x, lengths[0], lengths[-1], WIDTH),
        chart.mark_area(opacity=0.22).encode(
            y=alt.Y("low:Q", scale=axis.scale(), title=y_title),
            y2="high:Q",
            fill=alt.Fill("colour:N", scale=None),
        ),
        chart.mark_line(strokeWidth=1.8).encode(y=y, stroke=stroke, strokeDash=marks.dash()),
        chart.mark_point(size=34, strokeWidth=1.5, opacity=1).encode(
            y=y, stroke=stroke, fill=fill, shape=marks.shape()
        ),
        axes.end_labels(labels, axis, x, y_title, WIDTH),
    ).properties(width=WIDTH, height=HEIGHT)
