"""Time over n, and beside it time per useful pair: by variant, and dense against window against sparse."""

from __future__ import annotations

from collections.abc import Callable

from . import formats, lines, regimes, theme
from .analysis import Section
from .figures import FASTEST, INTERVALS, SIDE_BY_SIDE, Figure, Panel, Table, provenance
from .series import Series
from .summary import fit_doubt


def _working_sets(s: Series) -> list[tuple[float, str]]:
    """The borders at caches that lie within the lengths, with the formula that says where they are."""
    return [(b.n, b.reason) for b in regimes.working_sets(s) if s.points[0].n < b.n < s.points[-1].n]


def _scaling_table(section: Section) -> Table:
    rows = []
    for s in section.series:
        for p in s.points:
            in_fit = s.exponent is not None and p.n >= s.exponent.n_low
            rows.append(
                (
                    *lines.machine_cell(section, s.run),
                    s.variant.label,
                    s.isa,
                    f"{p.n}",
                    formats.duration(p.time.value, 4),
                    f"{formats.duration(p.time.low, 4)} to {formats.duration(p.time.high, 4)}",
                    f"{p.row.sample_count or ''}",
                    f"{p.row.pairs_useful:.0f}" if p.row.pairs_useful is not None else "",
                    formats.duration(p.ns_per_pair, 4) if p.ns_per_pair else "",
                    lines.exponent_label(s) if in_fit else "",
                    formats.cpu_share(p.row),
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
    return Table((*lines.machine_column(section), *columns, "exponent fitted here", "CPU"), tuple(rows))


def _time_and_pairs(
    section: Section,
    name: str,
    series: list[Series],
    quantities: tuple[lines.Quantity, ...],
    first: Callable[[Series], tuple[str, ...]],
    marks: theme.Marks,
    marked: list[tuple[float, str]],
) -> list[Panel]:
    """Time and, beside it, time per useful pair, where `quantities` has both; `first` is how labels begin."""

    def words(s: Series) -> str:
        return ", ".join(part.rstrip(",") for part in first(s))

    grown = {id(s): f", growing as {lines.exponent_label(s)}" if s.exponent else "" for s in series}
    said = "; ".join(
        f"{words(s)}: {formats.duration(s.last.time.value)} at n={s.last.n}{grown[id(s)]}" for s in series
    )
    panels = [
        lines.line_panel(
            section,
            f"{name}: time",
            series,
            quantities[0],
            lambda s: (*first(s), lines.exponent_label(s)),
            marks,
            f"{name}, time of one call on logarithmic axes: {said}.",
            marked=marked,
        )
    ]
    for quantity in quantities[1:]:
        said = "; ".join(f"{words(s)}: {lines.last_per_pair(s)}" for s in series)
        panels.append(
            lines.line_panel(
                section,
                f"{name}: per useful pair",
                series,
                quantity,
                lambda s: (*first(s), lines.last_per_pair(s)),
                marks,
                f"{name}, time per useful pair: {said}.",
                marked=marked,
            )
        )
    return panels


def _quantities(series: list[Series], scale_of_pairs: list[Series]) -> tuple[lines.Quantity, ...]:
    """The time, and per pair where each series has that."""
    found = [lines.durations("time of one call", lines.times, series)]
    if all(lines.per_pair(s) for s in series):
        found.append(lines.durations("time per useful pair", lines.per_pair, scale_of_pairs))
    return tuple(found)


def scaling(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """Time against n and, beside it, time per useful pair; a row of panels for each variant."""
    series = [s for s in section.series if len(s.lengths) > 1]
    if not series:
        return None
    several = len(lines.runs_of(section.series)) > 1
    quantities = _quantities(series, series)
    with_pairs = len(quantities) > 1
    panels: list[Panel] = []
    crossed = False
    for variant in [v for v in section.variants if any(s.variant == v for s in series)]:
        some = [s for s in series if s.variant == variant]
        # Machines differ in their caches: lines for all of them would be a thicket.
        marked = [] if several else _working_sets(max(some, key=lambda s: len(s.points)))
        crossed = crossed or bool(marked)
        panels += _time_and_pairs(
            section,
            variant.label,
            some,
            quantities,
            lambda s: (lines.name_of(section, s, s.isa),),
            marks,
            marked,
        )
    beside = (
        "Left: median time of one call, with the fitted exponent and its 95 % range. Right: the same time per useful "
        "pair, where a cost proportional to the pairs is a flat line."
    )
    alone = "Median time of one call, with the fitted exponent and its 95 % range."
    caption = [f"{section.group.label}.", beside if with_pairs else alone, FASTEST, INTERVALS]
    if crossed:
        caption.append(
            "Vertical lines: n at which a head's keys and values, for naive with its scores, fill a cache."
        )
    if any(lines.side_by_side([s for s in series if s.variant == v]) for v in section.variants):
        caption.append(SIDE_BY_SIDE)
    caption += [*lines.marker_sentences(series), *provenance(lines.runs_of(series))]
    notes = [
        f"{lines.name_of(section, s, f'{s.variant.label}, {s.isa}')}: {s.regime}{fit_doubt(s)}."
        for s in series
        if s.regime != "all points" or s.disturbed_fit
    ]
    left_out = lines.single_lengths(section) + lines.without_pairs(section, series)
    columns = 2 if with_pairs else 1
    title = "Time against length"
    return Figure(
        f"scaling{suffix}", title, tuple(caption), panels, _scaling_table(section), columns, notes, left_out
    )


def _pattern_label(s: Series) -> tuple[str, ...]:
    return lines.wrap_pattern(", ".join((s.variant.pattern, *s.variant.extras)))


def patterns(section: Section, marks: theme.Marks, suffix: str) -> Figure | None:
    """Dense, window and sparse in one plot for each algorithm and ISA level: time, and time per pair."""
    if section.group.kind != "attention":
        return None
    series = [s for s in section.series if len(s.lengths) > 1]
    by_algorithm: dict[str, set[str]] = {}
    for s in series:
        by_algorithm.setdefault(s.variant.algorithm, set()).add(s.variant.pattern)
    # Where an algorithm has one pattern alone there is nothing to compare.
    alone = [s for s in series if len(by_algorithm[s.variant.algorithm]) < 2]
    series = [s for s in series if len(by_algorithm[s.variant.algorithm]) > 1]
    if not series:
        return None
    with_pairs = all(lines.per_pair(s) for s in series)
    panels: list[Panel] = []
    shown = {(s.variant.algorithm, id(s.run), s.isa): s for s in series}
    for one in sorted(shown.values(), key=lambda s: (s.variant.algorithm, lines.widest_first(s))):
        some = [
            s
            for s in series
            if s.run is one.run and s.isa == one.isa and s.variant.algorithm == one.variant.algorithm
        ]
        name = lines.name_of(section, one, f"{one.variant.algorithm}, {one.isa}")
        quantities = _quantities(series, some)
        panels += _time_and_pairs(section, name, some, quantities, _pattern_label, marks, [])
    rows = tuple(
        (
            *lines.machine_cell(section, a.run),
            a.variant.label,
            a.isa,
            f"{a.n}",
            f"{formats.significant(a.ratio.value)}x",
            f"{formats.significant(a.ratio.low)} to {formats.significant(a.ratio.high)}",
            f"{formats.significant(a.pair_ratio)}x" if a.pair_ratio else "",
            f"{100 * a.efficiency:.0f} %" if a.efficiency else "",
            "disturbed" if a.disturbed else "",
        )
        for a in section.against_dense
    )
    efficiency = (
        "Sparse efficiency, in the table, is the saving in time divided by the saving in pairs: at 100 % every pair "
        "that is not attended is time that is not spent."
    )
    told = "Line style and marker tell the pattern."
    caption = (
        f"{section.group.label}.",
        told,
        efficiency,
        INTERVALS,
        SIDE_BY_SIDE,
        *lines.marker_sentences(series),
        *provenance(lines.runs_of(series)),
    )
    left_out = [
        *lines.single_lengths(section),
        *(
            f"{lines.name_of(section, s, f'{s.variant.label}, {s.isa}')}: no other pattern was run by {s.variant.algorithm}"
            for s in alone
        ),
        *lines.without_pairs(section, series),
    ]
    columns = ("pattern · algorithm", "ISA level", "n", "as fast as dense", "interval", "fewer pairs")
    table = Table((*lines.machine_column(section), *columns, "sparse efficiency", "CPU"), rows)
    return Figure(
        f"patterns{suffix}",
        "Dense, window and sparse",
        caption,
        panels,
        table,
        2 if with_pairs else 1,
        left_out=left_out,
    )
