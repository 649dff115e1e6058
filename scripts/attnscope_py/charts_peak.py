"""Percent of the measured peak over n."""

from __future__ import annotations

import altair as alt

from . import axes, lines, theme
from .analysis import Section, isa_rank
from .figures import Figure, Panel, Table, panel, provenance


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
            f"{s.variant.label} {lines.percent(s)[-1][1]:.0f} % at n={lines.percent(s)[-1][0]}" for s in some
        )
        panels.append(
            panel(
                name,
                lines.panel_lines(
                    section,
                    some,
                    lines.percent,
                    lambda s: (*lines.wrap_pattern(s.variant.label), f"{lines.percent(s)[-1][1]:.0f} %"),
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
            f"{p.row.effective_ghz:.2f}" if p.row.effective_ghz else "",
        )
        for s in series
        for p in s.points
        if p.row.pct_peak is not None
    )
    meaning = (
        "Useful FLOPs (2 for each multiply-add of an attended pair, the exponential not counted) against the FMA peak "
        "of the same ISA level, measured in the same process."
    )
    caption = (f"{section.group.label}.", meaning, *provenance(lines.runs_of(series)))
    columns = (*lines.machine_column(section), "pattern · algorithm", "ISA level", "n", "% of peak", "GHz")
    return Figure(f"peak{suffix}", "Percent of measured peak", caption, panels, Table(columns, rows))
