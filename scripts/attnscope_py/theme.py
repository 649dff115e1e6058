"""Colours, marks, fonts and number formats that every chart shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from .results import STAGES
from .series import ISA_ORDER, Variant, isa_rank

# Fixed per ISA level, told apart with every common colour deficiency; levels to come share black (FURTHER_ISA_COLOUR).
ISA_COLOURS = dict(zip(ISA_ORDER, ("#0072B2", "#D55E00", "#009E73", "#CC79A7"), strict=False))
FURTHER_ISA_COLOUR = "#000000"
# Stages are no ISA levels, and share none of their colours.
STAGE_COLOURS = dict(zip(STAGES, ("#56B4E9", "#999999", "#C9B8E8", "#E69F00", "#F0E442"), strict=True))
FURTHER_STAGE_COLOUR = "#DDDDDD"

MARKERS = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 3], [9, 3, 2, 3, 2, 3], [3, 1])

# The page's style sheet names these to turn them over in dark mode.
INK = "#1b1f24"
MUTED = "#59636e"
GRID = "#dfe3e8"
ON_BAR = "#101418"  # text on bars, which keep their colours
PAPER = "#fdfdfd"  # the inside of hollow markers

HOVER = "hover"  # the style of marks that tell values to a pointer
DISTURBED = "hollow: disturbed by other work"

FONT = "Source Sans Pro, Liberation Sans, Arial, sans-serif"  # fonts.py brings the first
FONT_SIZE = 13
SMALL = 12


def isa_colour(isa: str) -> str:
    return ISA_COLOURS.get(isa, FURTHER_ISA_COLOUR)


def stage_colour(stage: str) -> str:
    return STAGE_COLOURS.get(stage, FURTHER_STAGE_COLOUR)


def tint(colour: str) -> str:
    """The colour half-way to white: markers of the second machine and those after it."""
    return "#" + "".join(f"{(int(colour[i : i + 2], 16) + 255) // 2:02X}" for i in (1, 3, 5))


def marker_fill(colour: str, disturbed: bool) -> str:
    return PAPER if disturbed else colour


def marker_legend(disturbed: bool) -> dict[str, alt.Opacity]:
    """The encoding that puts hollow markers into a legend, where a panel has one."""
    if not disturbed:
        return {}
    legend = alt.Legend(
        title=None,
        orient="bottom",
        values=[DISTURBED],
        symbolType="circle",
        symbolFillColor=PAPER,
        symbolStrokeColor=MUTED,
        symbolOpacity=1,
        labelLimit=0,
        labelColor=MUTED,
        labelFontSize=SMALL,
    )
    return {
        "opacity": alt.Opacity(
            "state:O", scale=alt.Scale(domain=["", DISTURBED], range=[1, 1]), legend=legend
        )
    }


# What a reader can show and hide on the page, by the field of the data that tells it.
TOGGLES = {"machine": "Machine", "isa": "ISA level", "variant": "Series", "stage": "Stage"}
HIDDEN = "hidden"  # the parameter: what is hidden now, as texts of the form field=value


def keys(isa: str = "", variant: str = "", machine: str = "", stage: str = "") -> dict[str, str]:
    """The fields by which a row of a chart's data is shown and hidden."""
    named = {"machine": machine, "isa": isa, "variant": variant, "stage": stage}
    return {field: value for field, value in named.items() if value}


def shown_filter(fields: Iterable[str]) -> str:
    """The expression that keeps what is not hidden."""
    tests = (f"indexof({HIDDEN}, '{field}=' + datum.{field}) < 0" for field in TOGGLES if field in fields)
    return " && ".join(tests)


def data(rows: Sequence[dict[str, Any]]) -> alt.Data:
    """The rows of a chart. As a tuple: lists Altair copies to their last number, at each step of each chart."""
    return alt.Data(values=tuple(rows))


def told(chart: alt.Chart, places: dict[str, str], value: str) -> list[alt.Tooltip]:
    """What a pointer is told of a row of the data: what it is, where, its value and its interval.

    `places` names fields that say where; `value` is what the field `value` is called."""
    rows = chart.data.values
    fields = {"variant": "series", "stage": "stage", "isa": "ISA level", "machine": "machine"}
    said = {**fields, **places, "value": value, "interval": "interval", "state": "markers"}
    # What is empty in all rows needs no line.
    return [
        alt.Tooltip(f"{field}:N", title=title)
        for field, title in said.items()
        if any(row.get(field) for row in rows)
    ]


def hover(chart: alt.Chart, places: dict[str, str], value: str) -> alt.Chart:
    """Marks that nobody sees, large enough to be met with a pointer, which tell the values of what is there. A still
    picture is drawn without them (figures.still)."""
    marks = chart.mark_point(filled=True, size=260, opacity=0, style=HOVER)
    return marks.encode(tooltip=told(chart, places, value))


def isa_scale(isas: list[str]) -> alt.Scale:
    known = sorted(isas, key=isa_rank)
    return alt.Scale(domain=known, range=[isa_colour(isa) for isa in known])


class Marks:
    """Marker and line style of each variant, the same in all charts of a report."""

    def __init__(self, variants: list[Variant]):
        self._labels = [v.label for v in sorted(set(variants), key=lambda v: v.rank)]

    def shape(self) -> alt.Shape:
        """Encoding of the field `variant`, a variant's label, as a marker."""
        return alt.Shape("variant:N", scale=self._scale(MARKERS), legend=None)

    def dash(self) -> alt.StrokeDash:
        """The same as a line style."""
        return alt.StrokeDash("variant:N", scale=self._scale(DASHES), legend=None)

    def _scale(self, values: Sequence) -> alt.Scale:
        count = len(self._labels)
        return alt.Scale(domain=self._labels, range=[values[i % len(values)] for i in range(count)])


def config(background: str | None) -> dict[str, Any]:
    """The look of a finished chart, as Vega-Lite's config. `background` None leaves it to the page."""
    return {
        "background": background,
        "font": FONT,
        # Vega would label every mark for screen readers, in the order of drawing; one text for the whole says more.
        "aria": False,
        "padding": 6,
        "view": {"stroke": None},
        "axis": {
            "labelFontSize": SMALL,
            "titleFontSize": FONT_SIZE,
            "titleFontWeight": "normal",
            "labelColor": MUTED,
            "titleColor": MUTED,
            "gridColor": GRID,
            "domainColor": MUTED,
            "tickColor": MUTED,
            "labelFlush": False,
        },
        "title": {
            "color": INK,
            "subtitleColor": MUTED,
            "fontSize": 15,
            "subtitleFontSize": SMALL,
            "anchor": "start",
            "fontWeight": "bold",
            "subtitlePadding": 5,
            "offset": 10,
        },
        "concat": {"spacing": 28},
    }


# The same as formats.duration(), for axis labels: Vega formats those itself.
DURATION_EXPR = (
    "datum.value >= 1e9 ? format(datum.value / 1e9, '~g') + ' s'"
    " : datum.value >= 1e6 ? format(datum.value / 1e6, '~g') + ' ms'"
    " : datum.value >= 1e3 ? format(datum.value / 1e3, '~g') + ' µs'"
    " : datum.value >= 0.999 ? format(datum.value, '~r') + ' ns'"
    " : format(datum.value * 1e3, '~r') + ' ps'"
)
