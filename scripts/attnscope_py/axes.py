"""Axes with ticks where they belong, and labels at line ends that do not cover each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import altair as alt

from . import theme
from .layers import Spec, layer


@dataclass(frozen=True)
class LogAxis:
    """A vertical logarithmic axis: its domain, its ticks and its height in pixels."""

    low: float
    high: float
    ticks: tuple[float, ...]
    height: int

    def pixel(self, value: float) -> float:
        """Distance from the top."""
        span = math.log(self.high / self.low)
        return self.height * math.log(self.high / value) / span

    def value(self, pixel: float) -> float:
        return self.high * math.exp(-pixel / self.height * math.log(self.high / self.low))

    def scale(self) -> alt.Scale:
        return alt.Scale(type="log", domain=[self.low, self.high], nice=False)


@dataclass(frozen=True)
class LinearAxis:
    """The same for a linear one."""

    low: float
    high: float
    height: int

    def pixel(self, value: float) -> float:
        return self.height * (self.high - value) / (self.high - self.low)

    def value(self, pixel: float) -> float:
        return self.high - pixel / self.height * (self.high - self.low)

    def scale(self) -> alt.Scale:
        return alt.Scale(domain=[self.low, self.high], nice=False)


def rounded(value: float) -> float:
    """A place on an axis with as many digits as can be seen."""
    return float(f"{value:.6g}")


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten inside low..high, with 2 and 5 between them, or finer, where those are too few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        ticks = tuple(
            float(f"{step * 10.0**e:.3g}")
            for e in range(first, last + 1)
            for step in steps
            if low * 0.9999 <= step * 10.0**e <= high * 1.0001
        )
        if len(ticks) >= 3:
            return ticks
    return ticks


def log_axis(values: Sequence[float], height: int, least_factor: float = 4.0) -> LogAxis:
    """A logarithmic axis around values above 0. It spans at least `least_factor`, so that what is nearly
    constant looks nearly flat."""
    low, high = min(values), max(values)
    widen = max(1.15, math.sqrt(least_factor / (high / low)))
    low, high = low / widen, high * widen
    return LogAxis(low, high, log_ticks(low, high), height)


def y_time(axis: LogAxis, title: str, field: str = "y") -> alt.Y:
    return alt.Y(
        f"{field}:Q",
        title=title,
        scale=axis.scale(),
        axis=alt.Axis(values=list(axis.ticks), labelExpr=theme.DURATION_EXPR, grid=True, titlePadding=8),
    )


def x_length(lengths: Sequence[int], title: str) -> alt.X:
    """The field `at` on log2, with a tick exactly at each measured length; slanted where they would touch."""
    crowded = len(lengths) > 8
    # A little air on both sides, so that markers at the ends are whole.
    air = 2 ** (0.045 * max(1.0, math.log2(lengths[-1] / lengths[0])))
    return alt.X(
        "at:Q",
        title=title,
        scale=alt.Scale(type="log", base=2, domain=[lengths[0] / air, lengths[-1] * air], nice=False),
        axis=alt.Axis(
            values=list(lengths),
            format="d",
            grid=True,
            labelAngle=-45 if crowded else 0,
            labelAlign="right" if crowded else "center",
            labelOverlap=False,
        ),
    )


def spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Centres of boxes of these heights, as near as possible to the wanted ones, without overlap, in low..high.

    Neighbours that touch are joined into blocks that sit at the mean of what their members want. Where the boxes
    do not fit into low..high at all they are squeezed evenly, and overlap.
    """
    squeeze = min(1.0, (high - low) / sum(heights)) if heights else 1.0
    sizes = [height * squeeze for height in heights]
    blocks: list[tuple[float, float, list[int]]] = []  # top, height, members in order
    for i in sorted(range(len(wanted)), key=lambda i: wanted[i]):
        block = ([i], sizes[i])
        while True:
            members, height = block
            tops, below = [], 0.0
            for j in members:
                tops.append(wanted[j] - sizes[j] / 2 - below)
                below += sizes[j]
            top = min(max(sum(tops) / len(tops), low), high - height)
            if not blocks or blocks[-1][0] + blocks[-1][1] <= top + 1e-9:
                break
            _, earlier_height, earlier = blocks.pop()
            block = (earlier + members, earlier_height + height)
        blocks.append((top, height, members))
    result = [0.0] * len(wanted)
    for top, _, members in blocks:
        for j in members:
            result[j] = top + sizes[j] / 2
            top += sizes[j]
    return result


@dataclass(frozen=True)
class EndLabel:
    """What stands at the end of a line: at this length and value, in one line of text or more."""

    at: float
    y: float
    lines: tuple[str, ...]
    colour: str
    keys: dict[str, str] = field(default_factory=dict)  # what hides it, see theme.keys()


LABEL_LINE = 13  # pixels
LABEL_GAP = 16  # from the plot's edge


def end_labels(
    labels: Sequence[EndLabel], axis: LogAxis | LinearAxis, x: alt.X, y_title: str, width: int
) -> Spec:
    """Labels right of the plot, each joined to the end of its line by a thin dotted line of its colour."""
    heights = [LABEL_LINE * len(label.lines) + 3 for label in labels]
    centres = spread([axis.pixel(label.y) for label in labels], heights, 0, axis.height)
    values = [
        {
            **label.keys,
            "at": label.at,
            "y": label.y,
            "centre": axis.value(centre),
            # A text of several lines hangs from its first one.
            "first": axis.value(centre - LABEL_LINE * (len(label.lines) - 1) / 2),
            "label": list(label.lines),
            "colour": label.colour,
        }
        for label, centre in zip(labels, centres, strict=True)
    ]
    chart = alt.Chart(theme.data(values))
    leaders = chart.mark_rule(strokeWidth=1.2, strokeDash=[1, 2]).encode(
        x=x,
        x2=alt.X2Value(width + LABEL_GAP - 4),
        y=alt.Y("y:Q", scale=axis.scale(), title=y_title),
        y2=alt.Y2("centre:Q"),
        color=alt.Color("colour:N", scale=None),
    )
    texts = chart.mark_text(
        align="left", baseline="middle", lineHeight=LABEL_LINE, fontSize=theme.SMALL, color=theme.INK
    ).encode(
        x=alt.XValue(width + LABEL_GAP),
        y=alt.Y("first:Q", scale=axis.scale(), title=y_title),
        text=alt.Text("label:N"),
    )
    return layer(leaders, texts)


def marked_lengths(
    marked: Sequence[tuple[float, str]], x: alt.X, first: int, last: int, width: int
) -> list[alt.Chart]:
    """Vertical lines at lengths that mean something, their texts above the plot, in two rows where they touch."""
    if not marked:
        return []
    values: list[dict[str, object]] = []
    free = [-math.inf, -math.inf]  # right end of what stands in each row
    for n, text in sorted(marked):
        centre = width * math.log(n / first) / math.log(last / first)
        half = 2.8 * len(text)
        row = 0 if centre - half > free[0] + 6 else 1
        free[row] = centre + half
        values.append({"at": n, "label": text, "row": row})
    chart = alt.Chart(theme.data(values))
    layers = [chart.mark_rule(color=theme.MUTED, strokeDash=[3, 3], strokeWidth=1).encode(x=x)]
    for row in (0, 1):
        layers.append(
            chart.transform_filter(f"datum.row == {row}")
            .mark_text(fontSize=11, color=theme.MUTED, baseline="bottom")
            .encode(x=x, y=alt.YValue(-4 - 12 * row), text=alt.Text("label:N"))
        )
    return layers
