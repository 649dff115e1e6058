"""Charts over n: time and time per pair, dense against window against sparse, percent of peak."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import altair as alt

from . import axes, theme
from .analysis import Section, Series, isa_rank
from .figures import INTERVALS, Figure, Panel, Table, panel, provenance
from .results import Run
from .statistics import Exponent

WIDTH, HEIGHT = 270, 250
_CACHE_NAMES = {1: "L1d", 2: "L2", 3: "L3"}

# n, value, low, high
Values = Callable[[Series], list[tuple[int, float, float, float]]]


def exponent_text(exponent: Exponent) -> str:
    return f"n^{exponent.value:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]"


def _label_exponent(s: Series) -> str:
    return exponent_text(s.exponent) if s.exponent else "no exponent"


def _runs(series: Sequence[Series]) -> list[Run]:
    return list({id(s.run): s.run for s in series}.values())


def _name(section: Section, s: Series, name: str) -> str:
    """With several machines, a label names its machine."""
    return f"{name}, {s.run.label}" if len(_runs(section.series)) > 1 else name


def _machine(section: Section, run: Run) -> tuple[str, ...]:
    """A table's machine cell, with several machines."""
    return (run.label,) if len(_runs(section.series)) > 1 else ()


def _machine_column(section: Section) -> tuple[str, ...]:
    return ("machine",) if len(_runs(section.series)) > 1 else ()


def _times(s: Series) -> list[tuple[int, float, float, float]]:
    return [(p.n, p.time.value, p.time.low, p.time.high) for p in s.points]


def _per_pair(s: Series) -> list[tuple[int, float, float, float]]:
    return [
        (p.n, p.time.value / pairs, p.time.low / pairs, p.time.high / pairs)
        for p in s.points
        if (pairs := p.row.pairs_useful)
    ]


def _percent(s: Series) -> list[tuple[int, float, float, float]]:
    """The peak is one number, so a row's interval is that of its time."""
    return [
        (p.n, pct, pct * p.time.value / p.time.high, pct * p.time.value / p.time.low)
        for p in s.points
        if (pct := p.row.pct_peak) is not None
    ]


def _numbers(series: Sequence[Series], values: Values) -> list[float]:
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


def lines(
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
    first_run = _runs(section.series)[0]
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


def _working_sets(s: Series) -> list[tuple[float, str]]:
    """The n at which what a head works on outgrows each cache, with the formula that says so."""
    row = s.points[0].row
    element = {"f32": 4, "bf16": 2, "f16": 2}.get(row.dtype or "")
    crossings = []
    for level, name in _CACHE_NAMES.items():
        cache = s.run.cache_bytes(level)
        if not cache:
            continue
        if s.variant.algorithm == "naive":
            if row.queries == row.keys:
                crossings.append(((cache / 4) ** 0.5, f"4n² = {name}, {theme.size(cache)}"))
        elif element and row.head_dim and row.value_dim:
            per_key = (row.head_dim + row.value_dim) * element
            crossings.append((cache / per_key, f"{per_key}n = {name}, {theme.size(cache)}"))
    return [(n, text) for n, text in crossings if s.points[0].n < n < s.points[-1].n]


def _scaling_table(section: Section) -> Table:
    rows = []
    for s in section.series:
        for p in s.points:
            in_fit = s.exponent is not None and p.n >= s.exponent.n_low
            rows.append(
                (
                    *_machine(section, s.run),
                    s.variant.label,
                    s.isa,
                    f"{p.n}",
                    theme.duration(p.time.value, 4),
                    f"{theme.duration(p.time.low, 4)} to {theme.duration(p.time.high, 4)}",
                    f"{p.row.sample_count or ''}",
                    f"{p.row.pairs_useful:.0f}" if p.row.pairs_useful is not None else "",
                    theme.duration(p.ns_per_pair, 4) if p.ns_per_pair else "",
                    exponent_text(s.exponent) if in_fit else "",
                )
            )
    columns = (
        "pattern · algorithm",
        "ISA level",
        "n",
        "median",
        "interval",
        "samples",
        "useful pairs",
        "per pair",
    )
    return Table((*_machine_column(section), *columns, "exponent fitted here"), tuple(rows))


def scaling(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """Time against n and, beside it, time per useful pair; a row of panels for each variant."""
    series = [s for s in section.series if len(s.points) > 1]
    if not series:
        return None
    several = len(_runs(section.series)) > 1
    time_axis = axes.log_axis(_numbers(series, _times), HEIGHT)
    time_title, pair_title = "time of one call", "time per useful pair"
    with_pairs = all(p.ns_per_pair for s in series for p in s.points)
    panels: list[Panel] = []
    crossed = False
    for variant in [v for v in section.variants if any(s.variant == v for s in series)]:
        some = [s for s in series if s.variant == variant]
        # Machines differ in their caches: lines for all of them would be a thicket.
        marked = [] if several else _working_sets(max(some, key=lambda s: len(s.points)))
        crossed = crossed or bool(marked)
        said = "; ".join(
            f"{_name(section, s, s.isa)}: {theme.duration(s.last.time.value)} at n={s.last.n}"
            + (f", growing as {exponent_text(s.exponent)}" if s.exponent else "")
            for s in some
        )
        panels.append(
            panel(
                f"{variant.label}: time",
                lines(
                    section,
                    some,
                    _times,
                    lambda s: (_name(section, s, s.isa), _label_exponent(s)),
                    time_axis,
                    axes.y_time(time_axis, time_title),
                    time_title,
                    marks,
                    marked,
                ),
                f"{variant.label}, time of one call on logarithmic axes: {said}.",
            )
        )
        if not with_pairs:
            continue
        pair_axis = axes.log_axis(_numbers(series, _per_pair), HEIGHT)
        said = "; ".join(
            f"{_name(section, s, s.isa)}: {theme.duration(s.last.ns_per_pair)} at n={s.last.n}" for s in some
        )
        panels.append(
            panel(
                f"{variant.label}: per useful pair",
                lines(
                    section,
                    some,
                    _per_pair,
                    lambda s: (
                        _name(section, s, s.isa),
                        f"{theme.duration(s.last.ns_per_pair)} at n={s.last.n}",
                    ),
                    pair_axis,
                    axes.y_time(pair_axis, pair_title),
                    pair_title,
                    marks,
                    marked,
                ),
                f"{variant.label}, time per useful pair: {said}.",
            )
        )
    beside = (
        "Left: median time of one call, with the fitted exponent and its 95 % range. Right: the same time per useful "
        "pair, where a cost proportional to the pairs is a flat line."
    )
    alone = "Median time of one call, with the fitted exponent and its 95 % range."
    caption = [f"{section.group.label}.", beside if with_pairs else alone, INTERVALS]
    if crossed:
        caption.append(
            "Vertical lines: n at which a head's keys and values (flash) or scores (naive) fill a cache."
        )
    caption += provenance(_runs(series))
    notes = [
        f"{_name(section, s, f'{s.variant.label}, {s.isa}')}: {s.regime}."
        for s in series
        if s.regime != "all points"
    ]
    columns = 2 if with_pairs else 1
    title = "Time against length"
    return Figure(f"scaling{suffix}", title, tuple(caption), panels, _scaling_table(section), columns, notes)


def _pattern_label(s: Series) -> tuple[str, ...]:
    return wrap_pattern(", ".join((s.variant.pattern, *s.variant.extras)))


def patterns(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """Dense, window and sparse in one plot for each algorithm and ISA level: time, and time per pair."""
    if section.group.kind != "attention":
        return None
    series = [s for s in section.series if len(s.points) > 1]
    by_algorithm: dict[str, set[str]] = {}
    for s in series:
        by_algorithm.setdefault(s.variant.algorithm, set()).add(s.variant.pattern)
    # Where an algorithm has one pattern alone there is nothing to compare.
    series = [s for s in series if len(by_algorithm[s.variant.algorithm]) > 1]
    if not series:
        return None
    time_axis = axes.log_axis(_numbers(series, _times), HEIGHT)
    time_title, pair_title = "time of one call", "time per useful pair"
    with_pairs = all(p.ns_per_pair for s in series for p in s.points)
    panels: list[Panel] = []
    shown = {(s.variant.algorithm, id(s.run), s.isa): s for s in series}
    for one in sorted(
        shown.values(), key=lambda s: (s.variant.algorithm, [-rank for rank in isa_rank(s.isa)[:1]])
    ):
        some = [
            s
            for s in series
            if s.run is one.run and s.isa == one.isa and s.variant.algorithm == one.variant.algorithm
        ]
        name = _name(section, one, f"{one.variant.algorithm}, {one.isa}")
        said = "; ".join(
            f"{s.variant.pattern} {theme.duration(s.last.time.value)} at n={s.last.n}" for s in some
        )
        panels.append(
            panel(
                f"{name}: time",
                lines(
                    section,
                    some,
                    _times,
                    lambda s: (*_pattern_label(s), _label_exponent(s)),
                    time_axis,
                    axes.y_time(time_axis, time_title),
                    time_title,
                    marks,
                ),
                f"{name}, time of one call: {said}.",
            )
        )
        if not with_pairs:
            continue
        pair_axis = axes.log_axis(_numbers(some, _per_pair), HEIGHT)
        said = "; ".join(
            f"{s.variant.pattern} {theme.duration(s.last.ns_per_pair)} at n={s.last.n}" for s in some
        )
        panels.append(
            panel(
                f"{name}: per useful pair",
                lines(
                    section,
                    some,
                    _per_pair,
                    lambda s: (*_pattern_label(s), f"{theme.duration(s.last.ns_per_pair)} at n={s.last.n}"),
                    pair_axis,
                    axes.y_time(pair_axis, pair_title),
                    pair_title,
                    marks,
                ),
                f"{name}, time per useful pair: {said}.",
            )
        )
    rows = tuple(
        (
            *_machine(section, a.run),
            a.variant.label,
            a.isa,
            f"{a.n}",
            f"{theme.significant(a.ratio.value)}x",
            f"{theme.significant(a.ratio.low)} to {theme.significant(a.ratio.high)}",
            f"{theme.significant(a.pair_ratio)}x" if a.pair_ratio else "",
            f"{100 * a.efficiency:.0f} %" if a.efficiency else "",
        )
        for a in section.against_dense
    )
    efficiency = (
        "Sparse efficiency, in the table, is the saving in time divided by the saving in pairs: at 100 % every pair "
        "that is not attended is time that is not spent."
    )
    told = "Line style and marker tell the pattern."
    caption = (f"{section.group.label}.", told, efficiency, INTERVALS, *provenance(_runs(series)))
    columns = ("pattern · algorithm", "ISA level", "n", "as fast as dense", "interval", "fewer pairs")
    table = Table((*_machine_column(section), *columns, "sparse efficiency"), rows)
    return Figure(
        f"patterns{suffix}", "Dense, window and sparse", caption, panels, table, 2 if with_pairs else 1
    )


def peak(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """Useful FLOPs as percent of the peak that was measured beside them."""
    series = [s for s in section.series if len(_percent(s)) > 1]
    if not series:
        return None
    top = max(100.0, 1.03 * max(_numbers(series, _percent)))
    axis = axes.LinearAxis(0.0, top, HEIGHT)
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
        name = _name(section, one, one.isa)
        said = "; ".join(
            f"{s.variant.label} {_percent(s)[-1][1]:.0f} % at n={_percent(s)[-1][0]}" for s in some
        )
        panels.append(
            panel(
                name,
                lines(
                    section,
                    some,
                    _percent,
                    lambda s: (*wrap_pattern(s.variant.label), f"{_percent(s)[-1][1]:.0f} %"),
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
            *_machine(section, s.run),
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
    caption = (f"{section.group.label}.", meaning, *provenance(_runs(series)))
    columns = (*_machine_column(section), "pattern · algorithm", "ISA level", "n", "% of peak", "GHz")
    return Figure(f"peak{suffix}", "Percent of measured peak", caption, panels, Table(columns, rows))
