"""Percent of the measured peak over n."""

from __future__ import annotations

import altair as alt

from . import axes, formats, lines, theme
from .analysis import Section
from .figures import INTERVALS, SIDE_BY_SIDE, Figure, Panel, Table, panel, provenance
from .series import isa_rank


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
    panels: list[Panel] = []
    shown = {(id(s.run), s.isa): s for s in series}
    for one in sorted(shown.values(), key=lambda s: [-rank for rank in isa_rank(s.isa)[:1]]):
        some = [s for s in series if s.run is one.run and s.isa == one.isa]
        name = lines.name_of(section, one, one.isa)
        said = "; ".join(
            f"{s.variant.label} {lines.percent(s)[-1][1][0]:.0f} % at n={lines.percent(s)[-1][0].n}"
            for s in some
        )
        panels.append(
            panel(
                name,
                lines.panel_lines(
                    section,
                    some,
                    lines.percent,
                    lambda s: (*lines.wrap_pattern(s.variant.label), f"{lines.percent(s)[-1][1][0]:.0f} %"),
                    axis,
                    y,
                    title,
                    marks,
                ),
                f"{name}, percent of peak at the largest n: {said}.",
            )
        )
    rows = tuple(
        (
            *lines.machine_cell(section, s.run),
            s.variant.label,
            s.isa,
            f"{p.n}",
            f"{p.row.pct_peak:.1f} %",
            " to ".join(f"{limit:.1f}" for limit in (low, high)) + " %",
            f"{p.row.effective_ghz:.2f}" if p.row.effective_ghz else "",
            formats.cpu_share(p.row),
        )
        for s in series
        for p, (_, low, high) in lines.percent(s)
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
        if len(s.points) > 1 and (lengths := [f"{p.n}" for p in s.points if p.row.pct_peak is None])
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
