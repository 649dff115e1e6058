"""Thread scaling: how many times as fast a call is with more threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from . import axes, formats, lines, theme
from . import statistics as st
from .analysis import Section
from .figures import INTERVALS, SIDE_BY_SIDE, Figure, Panel, Table, provenance
from .series import Point, Series


@dataclass(frozen=True)
class _Scaling:
    """One series at one length, over threads."""

    base: int  # the fewest threads
    ratios: dict[int, st.Ratio]  # by threads, against those
    points: dict[int, Point]
    n: int

    def disturbed(self, threads: int) -> bool:
        return self.points[threads].row.disturbed or self.points[self.base].row.disturbed


def family(section: Section, sections: Sequence[Section]) -> list[Section]:
    """The sections of the same problem with any number of threads, by that; none unless this is the first."""
    if section.group.threads is None:
        return []
    same = [
        other
        for other in sections
        if other.group.threads is not None
        and dataclasses.replace(other.group, threads=section.group.threads) == section.group
    ]
    same.sort(key=lambda other: other.group.threads or 0)
    return same if len(same) > 1 and same[0] is section else []


def _scaling(s: Series, others: Sequence[Section]) -> _Scaling | None:
    """At the largest n that was measured with every number of threads that this series was measured with."""
    by_threads = {
        other.group.threads: found[0]
        for other in others
        if (found := other.of(run=s.run, variant=s.variant, isa=s.isa))
    }
    common = set.intersection(*({p.n for p in found.points} for found in by_threads.values()))
    if len(by_threads) < 2 or not common:
        return None
    n, base = max(common), min(by_threads)
    points = {threads: found.at(n) for threads, found in sorted(by_threads.items())}
    ratios = {threads: st.ratio(points[base].samples, p.samples) for threads, p in points.items()}
    # With itself there is nothing to compare.
    ratios[base] = st.Ratio(1.0, 1.0, 1.0)
    return _Scaling(base, ratios, points, n)


def _ideal(found: Sequence[_Scaling], quantity: lines.Quantity, x: alt.X) -> alt.Chart:
    """As many times as fast as there are threads."""
    base, most = min(f.base for f in found), max(max(f.points) for f in found)
    values = [{"at": base, "y": 1.0}, {"at": most, "y": most / base}]
    chart = alt.Chart(theme.data(values)).mark_line(color=theme.MUTED, strokeDash=[3, 3], strokeWidth=1)
    return chart.encode(x=x, y=quantity.y)


def threads(section: Section, others: Sequence[Section], marks: theme.Marks, suffix: str) -> Figure | None:
    """A panel for each ISA level and machine, over the sections that differ in threads alone."""
    found = {id(s): of for s in section.series if others and (of := _scaling(s, others))}
    series = [s for s in section.series if id(s) in found]
    if not series:
        return None

    def values(s: Series) -> list[lines.Shown]:
        of = found[id(s)]
        return [
            lines.Shown(count, of.points[count].row, ratio.value, ratio.low, ratio.high, of.disturbed(count))
            for count, ratio in of.ratios.items()
        ]

    most = max(count / of.base for of in found.values() for count in of.points)
    title = "times as fast as with the fewest threads"
    axis = axes.log_axis([*lines.numbers(series, values), 1.0, most], lines.HEIGHT)
    factors = [2.0**e for e in range(-6, 12) if axis.low <= 2.0**e <= axis.high]
    y = alt.Y(
        "y:Q",
        title=title,
        scale=axis.scale(),
        axis=alt.Axis(values=factors, labelExpr="format(datum.value, '~r') + 'x'", grid=True),
    )
    quantity = lines.Quantity(title, values, axis, y, lambda value: f"{formats.significant(value)}x")

    def label(s: Series) -> tuple[str, ...]:
        last = values(s)[-1]
        return (*lines.wrap_pattern(s.variant.label), f"{quantity.text(last.value)} at n={found[id(s)].n}")

    panels: list[Panel] = []
    shown = {(id(s.run), s.isa): s for s in series}
    for one in sorted(shown.values(), key=lines.widest_first):
        some = [s for s in series if s.run is one.run and s.isa == one.isa]
        name = lines.name_of(section, one, one.isa)
        said = "; ".join(
            f"{s.variant.label} {quantity.text(values(s)[-1].value)} with {values(s)[-1].at} threads at n={found[id(s)].n}"
            for s in some
        )
        counts = sorted({count for s in some for count in found[id(s)].points})
        panels.append(
            lines.line_panel(
                section,
                name,
                some,
                quantity,
                label,
                marks,
                f"{name}, over threads: {said}.",
                x_title="threads",
                reference=[_ideal([found[id(s)] for s in some], quantity, axes.x_length(counts, "threads"))],
            )
        )
    return Figure(
        f"threads{suffix}",
        "Thread scaling",
        _caption(section, series, values),
        panels,
        _table(section, series, found),
        left_out=_left_out(section, series),
    )


def _caption(section: Section, series: Sequence[Series], values: lines.Values) -> tuple[str, ...]:
    problem = dataclasses.replace(section.group, threads=None)
    meaning = (
        "At the largest n that was measured with every number of threads, against the fewest. Dashed: twice the threads, half "
        "the time."
    )
    return (
        f"{problem.label}.",
        meaning,
        INTERVALS,
        SIDE_BY_SIDE,
        *lines.hollow_sentence(series, values),
        *provenance(lines.runs_of(series)),
    )


def _table(section: Section, series: Sequence[Series], found: dict[int, _Scaling]) -> Table:
    rows = tuple(
        (
            *lines.machine_cell(section, s.run),
            s.variant.label,
            s.isa,
            f"{of.n}",
            f"{count}",
            formats.duration(of.points[count].time.value, 4),
            f"{formats.significant(ratio.value)}x",
            f"{formats.significant(ratio.low)} to {formats.significant(ratio.high)}",
            f"{100 * ratio.value * of.base / count:.0f} %",
            formats.cpu_share(of.points[count].row)
            + (f", {of.base} disturbed" if of.points[of.base].row.disturbed and count != of.base else ""),
        )
        for s in series
        for of in (found[id(s)],)
        for count, ratio in of.ratios.items()
    )
    columns = ("pattern · algorithm", "ISA level", "n", "threads", "median", "times as fast", "interval")
    return Table((*lines.machine_column(section), *columns, "of ideal", "CPU"), rows)


def _left_out(section: Section, series: Sequence[Series]) -> list[str]:
    return [
        f"{lines.name_of(section, s, f'{s.variant.label}, {s.isa}')}: no length that was measured with other numbers of "
        "threads too"
        for s in section.series
        if s not in series
    ]
