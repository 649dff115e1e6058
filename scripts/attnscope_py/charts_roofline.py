"""The roofline: FLOP/s against arithmetic intensity, below the ceilings that were measured."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from . import axes, formats, lines, theme
from .analysis import Section
from .figures import Figure, Panel, Table, panel, provenance
from .layers import Spec, layer
from .roofline import Ceilings, ceilings, gflops, intensity, limit_text
from .series import Point, Series

_WIDTH, _HEIGHT = 290, 270
_TITLE_X, _TITLE_Y = "useful FLOP per compulsory byte", "useful GFLOP/s"
_ROW = 12  # pixels between names above the plot


def _points(s: Series) -> list[tuple[float, float, Point]]:
    return [
        (at, rate, p)
        for p in s.points
        if (at := intensity(p.row)) is not None and (rate := gflops(p.row)) is not None
    ]


class _Plane:
    """Both axes of a panel, and what of a ceiling lies on them."""

    def __init__(self, limits: Ceilings, isa: str, series: Sequence[Series]):
        points = [(at, rate) for s in series for at, rate, _ in _points(s)]
        self.peak = limits.fma[isa]
        ridges = [self.peak / rate for rate in limits.read.values()]
        self.left = min([at for at, _ in points] + ridges) / 1.6
        self.right = max([at for at, _ in points] + ridges) * 1.5
        bottom = min([rate for _, rate in points] + [self.peak / 8]) / 1.6
        top = max([rate for _, rate in points] + [self.peak]) * 1.4
        self.axis = axes.LogAxis(bottom, top, axes.log_ticks(bottom, top), _HEIGHT)
        self.x_scale = alt.Scale(type="log", domain=[self.left, self.right], nice=False)
        self.x = alt.X(
            "at:Q",
            title=_TITLE_X,
            scale=self.x_scale,
            axis=alt.Axis(
                values=list(axes.log_ticks(self.left, self.right)), labelExpr="format(datum.value, '~r')"
            ),
        )
        self.y = alt.Y(
            "y:Q",
            title=_TITLE_Y,
            scale=self.axis.scale(),
            axis=alt.Axis(values=list(self.axis.ticks), labelExpr="format(datum.value, '~r')"),
        )

    def bandwidth(self, rate: float) -> tuple[float, float]:
        """Where the slope of a bandwidth begins and ends: it meets the peak."""
        return max(self.left, self.axis.low / rate), self.peak / rate


def _slopes(plane: _Plane, limits: Ceilings) -> list[alt.Chart]:
    """A line for each bandwidth up to the peak, and above the plot its name: in rows, so that however near they
    are no name meets another, or the stem of one."""
    values = []
    # The leftmost stands highest: stems of those to its right end below it.
    for row, (name, rate) in enumerate(sorted(limits.read.items(), key=lambda level: level[1])):
        start, end = plane.bandwidth(rate)
        values.append(
            {
                "at": axes.rounded(start),
                "end": axes.rounded(end),
                "y": rate * start,
                "top": rate * end,
                "above": -_ROW * row - 6,
                "label": f"{name} {formats.significant(rate)} GB/s",
            }
        )
    chart = alt.Chart(theme.data(values))
    end = alt.X("end:Q", scale=plane.x_scale, title=_TITLE_X)
    return [
        chart.mark_rule(color=theme.MUTED, strokeWidth=1.2).encode(
            x=plane.x, x2=alt.X2("end:Q"), y=plane.y, y2=alt.Y2("top:Q")
        ),
        *(
            alt.Chart(theme.data([value]))
            .mark_rule(color=theme.MUTED, strokeWidth=0.8, strokeDash=[1, 2])
            .encode(
                x=end,
                y=alt.Y("top:Q", scale=plane.axis.scale(), title=_TITLE_Y),
                y2=alt.Y2Value(value["above"]),
            )
            for value in values
        ),
        *(
            alt.Chart(theme.data([value]))
            .mark_text(align="left", baseline="middle", dx=3, fontSize=11, color=theme.MUTED)
            .encode(x=end, y=alt.YValue(value["above"]), text=alt.Text("label:N"))
            for value in values
        ),
    ]


def _roofs(plane: _Plane, limits: Ceilings, isa: str, series: Sequence[Series]) -> list[alt.Chart]:
    """The FMA peak, and the exponential where that is less."""
    ridge = plane.peak / max(limits.read.values())
    values = [(plane.peak, f"FMA peak, {isa}: {formats.significant(plane.peak)} GFLOP/s", [1, 0])]
    of_exp = limits.exp_flops(isa, series[0].points[0].row)
    if of_exp and plane.axis.low < of_exp < plane.peak:
        values.append((of_exp, f"one exp a pair: {formats.significant(of_exp)} GFLOP/s", [4, 3]))
    layers = []
    for rate, label, dash in values:
        chart = alt.Chart(
            theme.data([{"at": axes.rounded(ridge), "end": plane.right, "y": rate, "label": label}])
        )
        layers += [
            chart.mark_rule(color=theme.MUTED, strokeWidth=1.6, strokeDash=dash).encode(
                x=plane.x, x2=alt.X2("end:Q"), y=plane.y
            ),
            chart.mark_text(align="right", baseline="bottom", dy=-3, fontSize=11, color=theme.MUTED).encode(
                x=alt.XValue(_WIDTH), y=plane.y, text=alt.Text("label:N")
            ),
        ]
    return layers


def _dots(plane: _Plane, series: Sequence[Series], marks: theme.Marks) -> list[Spec]:
    """A marker for each length, joined in their order, with the variant's name at the longest."""
    values, labels = [], []
    for s in series:
        colour = theme.isa_colour(s.isa)
        keys = theme.keys(s.isa, s.variant.label, s.run.label)
        for at, rate, p in _points(s):
            values.append(
                {
                    **keys,
                    "n": p.n,
                    "at": axes.rounded(at),
                    "y": rate,
                    "colour": colour,
                    "fill": theme.marker_fill(colour, p.row.disturbed),
                    "state": theme.DISTURBED if p.row.disturbed else "",
                    "value": f"{formats.significant(rate)} GFLOP/s",
                    "interval": f"{formats.significant(rate * p.time.value / p.time.high)} to "
                    f"{formats.significant(rate * p.time.value / p.time.low)}",
                    "per_byte": formats.significant(at),
                }
            )
        last = values[-1]
        said = (*lines.wrap_pattern(s.variant.label), last["value"])
        labels.append(axes.EndLabel(last["at"], last["y"], said, colour, keys))
    stroke = alt.Stroke("colour:N", scale=None)
    chart = alt.Chart(theme.data(values)).encode(x=plane.x, y=plane.y, detail=alt.Detail("variant:N"))
    places = {"n": "n", "per_byte": _TITLE_X}
    return [
        layer(
            chart.mark_line(strokeWidth=1, opacity=0.6).encode(
                stroke=stroke, strokeDash=marks.dash(), order=alt.Order("n:Q")
            ),
            chart.mark_point(size=34, strokeWidth=1.5, opacity=1).encode(
                stroke=stroke,
                fill=alt.Fill("fill:N", scale=None),
                shape=marks.shape(),
                **theme.marker_legend(any(row["state"] for row in values)),
            ),
            theme.hover(chart, places, _TITLE_Y),
        ),
        axes.end_labels(labels, plane.axis, plane.x, _TITLE_Y, _WIDTH),
    ]


def _panel(name: str, limits: Ceilings, isa: str, series: Sequence[Series], marks: theme.Marks) -> Panel:
    plane = _Plane(limits, isa, series)
    drawn = layer(
        *_slopes(plane, limits),
        *_roofs(plane, limits, isa, series),
        *_dots(plane, series, marks),
        width=_WIDTH,
        height=_HEIGHT,
    )
    rates = ", ".join(f"{level} {formats.significant(rate)} GB/s" for level, rate in limits.read.items())
    said = "; ".join(
        f"{s.variant.label} {formats.significant(rate)} GFLOP/s at {formats.significant(at)} FLOP a byte, n={p.n}"
        for s in series
        for at, rate, p in _points(s)[-1:]
    )
    words = (
        f"{name}, below a peak of {formats.significant(plane.peak)} GFLOP/s and reading at {rates}: {said}."
    )
    return panel(name, drawn, words)


def _table(section: Section, series: Sequence[Series]) -> Table:
    rows = tuple(
        (
            *lines.machine_cell(section, s.run),
            s.variant.label,
            s.isa,
            f"{p.n}",
            formats.significant(at),
            formats.significant(rate),
            f"{p.row.pct_peak:.1f} %" if p.row.pct_peak is not None else "",
            f"{p.row.pct_bandwidth:.1f} %" if p.row.pct_bandwidth is not None else "",
            limit_text(p.row),
            f"{p.row.limit_pct:.1f} %" if p.row.limit_pct is not None else "",
            formats.cpu_share(p.row),
        )
        for s in series
        for at, rate, p in _points(s)
    )
    columns = ("pattern · algorithm", "ISA level", "n", "FLOP/byte", "GFLOP/s", "% of peak", "% of bandwidth")
    return Table((*lines.machine_column(section), *columns, "limited by", "% of limit", "CPU"), rows)


def roofline(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """Rows against the measured ceilings, a panel for each ISA level."""
    limits = {id(run): ceilings(run, section.group.threads) for run in lines.runs_of(section.series)}
    series = [
        s for s in section.series if _points(s) and (of := limits[id(s.run)]) is not None and s.isa in of.fma
    ]
    if not series:
        return None
    panels = []
    shown = {(id(s.run), s.isa): s for s in series}
    for one in sorted(shown.values(), key=lines.widest_first):
        some = [s for s in series if s.run is one.run and s.isa == one.isa]
        name = lines.name_of(section, one, one.isa)
        panels.append(_panel(name, limits[id(one.run)], one.isa, some, marks))
    meaning = (
        "Each marker is a row, joined in the order of n, with its name at the longest. Compulsory bytes are Q, K, V and "
        "the output, each moved once; what is moved more than that shows as distance from the roof. Ceilings are measured: FMA peak of "
        "the ISA level, and reading from each level of memory. On a slope the bandwidth limits, on the flat part the peak."
    )
    caption = (
        f"{section.group.label}.",
        meaning,
        *lines.hollow_sentence(series),
        *provenance(lines.runs_of(series)),
    )
    left_out = [
        f"{lines.name_of(section, s, f'{s.variant.label}, {s.isa}')}: the file has no "
        + ("FLOPs or bytes of it" if not _points(s) else "ceilings for its ISA level and threads")
        for s in section.series
        if s not in series
    ]
    return Figure(
        f"roofline{suffix}", "Roofline", caption, panels, _table(section, series), left_out=left_out
    )
