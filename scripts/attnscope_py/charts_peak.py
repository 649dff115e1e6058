"""Percent of the measured peak over n."""

from __future__ import annotations

import altair as alt

from . import axes, formats, lines, theme
from .analysis import Section
from .figures import INTERVALS, SIDE_BY_SIDE, Figure, Panel, Table, provenance
from .series import Series


def peak(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """Useful FLOPs as percent of the peak that was measured beside them."""
    series = [s for s in section.series if len(lines.percent(s)) > 1]
    if not series:
        return None
    top = max(100.0, 1.03 * max(lines.numbers(series, lines.percent)))
    axis = axes.LinearAxis(0.0, top, lines.HEIGHT)
    title = "% of measured peak"
    y = alt.Y(
        "y:Q",
        title=title,
        scale=axis.scale(),
        axis=alt.Axis(values=list(range(0, int(top) + 1, 20)), grid=True),
    )
    quantity = lines.Quantity(title, lines.percent, axis, y, lambda value: f"{value:.1f} %")
    panels: list[Panel] = []
    shown = {(id(s.run), s.isa): s for s in series}
    for one in sorted(shown.values(), key=lines.widest_first):
        some = [s for s in series if s.run is one.run and s.isa == one.isa]
        name = lines.name_of(section, one, one.isa)
        last = {id(s): lines.percent(s)[-1] for s in some}
        said = "; ".join(f"{s.variant.label} {last[id(s)].value:.0f} % at n={last[id(s)].at}" for s in some)

        def label(s: Series, last: dict[int, lines.Shown] = last) -> tuple[str, ...]:
            return (*lines.wrap_pattern(s.variant.label), f"{last[id(s)].value:.0f} %")

        words = f"{name}, percent of peak at the largest n: {said}."
        panels.append(lines.line_panel(section, name, some, quantity, label, marks, words))
    rows = tuple(
        (
            *lines.machine_cell(section, s.run),
            s.variant.label,
            s.isa,
            f"{p.at}",
            f"{p.value:.1f} %",
            f"{p.low:.1f} to {p.high:.1f} %",
            f"{p.row.effective_ghz:.2f}" if p.row.effective_ghz else "",
            formats.cpu_share(p.row),
        )
        for s in series
        for p in lines.percent(s)
    )
    meaning = (
        "Useful FLOPs (2 for each multiply-add of an attended pair, the exponential not counted) against the FMA peak "
        "of the same ISA level, measured in the same process."
    )
    caption = (
        f"{section.group.label}.",
        meaning,
        INTERVALS,
        SIDE_BY_SIDE,
        *lines.hollow_sentence(series),
        *provenance(lines.runs_of(series)),
    )
    left_out = lines.single_lengths(section) + [
        f"{lines.name_of(section, s, f'{s.variant.label}, {s.isa}')}: n={', '.join(lengths)}, without a percentage of a peak "
        "in the file"
        for s in section.series
        if len(s.lengths) > 1 and (lengths := [f"{p.n}" for p in s.points if p.row.pct_peak is None])
    ]
    columns = (
        *lines.machine_column(section),
        "pattern · algorithm",
        "ISA level",
        "n",
        "% of peak",
        "interval",
        "GHz",
        "CPU",
    )
    return Figure(
        f"peak{suffix}", "Percent of measured peak", caption, panels, Table(columns, rows), left_out=left_out
    )
