"""Sparse efficiency over n: how much of what a pattern saves in pairs it saves in time."""

from __future__ import annotations

import altair as alt

from . import axes, formats, lines, theme
from .analysis import AgainstDense, Section
from .figures import INTERVALS, Figure, Panel, Table, provenance
from .series import Series


def _ticks(axis: axes.LogAxis) -> list[float]:
    """Round percentages, 100 among them."""
    steps = (1, 2, 5, 10, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000)
    return [tick for tick in steps if axis.low <= tick <= axis.high]


def _quantity(found: dict[tuple, AgainstDense], series: list[Series]) -> lines.Quantity:
    def values(s: Series) -> list[lines.Shown]:
        return [
            lines.Shown(p.n, p.row, *of.efficiency_percent, of.disturbed)
            for p in s.points
            if (of := found.get((id(s.run), s.variant, s.isa, p.n)))
        ]

    title = "sparse efficiency, %"
    axis = axes.log_axis([*lines.numbers(series, values), 100.0], lines.HEIGHT)
    y = alt.Y("y:Q", title=title, scale=axis.scale(), axis=alt.Axis(values=_ticks(axis), grid=True))
    return lines.Quantity(title, values, axis, y, lambda value: f"{formats.significant(value)} %")


def _full(quantity: lines.Quantity) -> alt.Chart:
    """The line at 100 %."""
    chart = alt.Chart(theme.data([{"full": 100}])).mark_rule(color=theme.INK, strokeWidth=1)
    return chart.encode(y=alt.Y("full:Q", scale=quantity.axis.scale(), title=quantity.title))


def efficiency(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """A panel for each pattern that was also run dense by the same algorithm."""
    found = {(id(a.run), a.variant, a.isa, a.n): a for a in section.against_dense if a.efficiency}
    count: dict[tuple, int] = {}
    for run, variant, isa, _ in found:
        count[run, variant, isa] = count.get((run, variant, isa), 0) + 1
    series = [s for s in section.series if count.get((id(s.run), s.variant, s.isa), 0) > 1]
    if not series:
        return None
    quantity = _quantity(found, series)

    def label(s: Series) -> tuple[str, ...]:
        return (lines.name_of(section, s, s.isa), f"{quantity.values(s)[-1].value:.0f} %")

    panels: list[Panel] = []
    for variant in [v for v in section.variants if any(s.variant == v for s in series)]:
        some = [s for s in series if s.variant == variant]
        last = {id(s): quantity.values(s)[-1] for s in some}
        said = "; ".join(
            f"{lines.name_of(section, s, s.isa)}: {last[id(s)].value:.0f} % at n={last[id(s)].at}"
            for s in some
        )
        panels.append(
            lines.line_panel(
                section,
                variant.label,
                some,
                quantity,
                label,
                marks,
                f"{variant.label}, sparse efficiency: {said}.",
                reference=[_full(quantity)],
            )
        )
    rows = tuple(
        (
            *lines.machine_cell(section, a.run),
            a.variant.label,
            a.isa,
            f"{a.n}",
            f"{formats.significant(a.ratio.value)}x",
            f"{formats.significant(a.pair_ratio)}x",
            f"{a.efficiency_percent[0]:.1f} %",
            f"{a.efficiency_percent[1]:.1f} to {a.efficiency_percent[2]:.1f} %",
            "disturbed" if a.disturbed else "",
        )
        for a in found.values()
    )
    columns = (
        "pattern · algorithm",
        "ISA level",
        "n",
        "as fast as dense",
        "fewer pairs",
        "sparse efficiency",
    )
    meaning = (
        "How many times as fast as dense, divided by how many times fewer pairs: at 100 % every pair that is not "
        "attended is time that is not spent; below, the pattern costs more for each pair than dense does."
    )
    caption = (
        f"{section.group.label}.",
        meaning,
        INTERVALS,
        *lines.hollow_sentence(series, quantity.values),
        *provenance(lines.runs_of(series)),
    )
    left_out = [
        f"{lines.name_of(section, s, f'{s.variant.label}, {s.isa}')}: fewer than two lengths with a dense row and "
        "counts of pairs"
        for s in section.series
        if s not in series and s.variant.pattern != "dense"
    ]
    table = Table((*lines.machine_column(section), *columns, "interval", "CPU"), rows)
    return Figure(f"efficiency{suffix}", "Sparse efficiency", caption, panels, table, left_out=left_out)
