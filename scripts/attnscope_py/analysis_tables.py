"""What an analysis says, as tables: one source for `attnscope analyze --print` and for the page of a report."""

from __future__ import annotations

from collections.abc import Sequence

from . import formats, tuning
from .analysis import Section, largest_common
from .comparisons import KINDS, Crossover, thread_scaling
from .regimes import Regime
from .results import Run
from .series import Series
from .statistics import Ratio
from .table import Table

CROSSOVERS = {
    "algorithm": "naive against flash",
    "pattern": "patterns",
    "isa": "ISA levels",
    "threads": "threads",
}


def interval(ratio: Ratio, disturbed: bool) -> str:
    """Of disturbed rows the value alone: what the samples say of its uncertainty does not hold."""
    value, low, high = (formats.significant(v) for v in (ratio.value, ratio.low, ratio.high))
    return f"{value}{_mark(disturbed)}" if disturbed else f"{value} [{low}, {high}]"


def _mark(disturbed: bool) -> str:
    return "*" if disturbed else ""


def exponent(s: Series, regime: Regime) -> str:
    fit = regime.exponent
    if not fit:
        return "-"
    return f"n^{fit.value:.2f} [{fit.low:.2f}, {fit.high:.2f}]{_mark(bool(s.disturbed_in(fit)))}"


def regimes(section: Section) -> Table:
    """Every series: its exponents, and why they hold for the range that they do."""
    rows = []
    for s in section.series:
        if not s.regimes:
            rows.append((s.variant.label, s.isa, "", "-", s.regime))
        for regime in s.regimes:
            rows.append(
                (
                    s.variant.label,
                    s.isa,
                    f"{regime.n_low}..{regime.n_high}",
                    exponent(s, regime),
                    regime.reason,
                )
            )
    return Table(
        ("pattern · algorithm", "ISA level", "n", "time grows as", "why this range"),
        tuple(rows),
        frozenset({2, 3}),
    )


def two_term(section: Section) -> Table:
    """The model t = a + b n + c n² of every series that has one."""
    rows = tuple(
        (
            s.variant.label,
            s.isa,
            f"{model.n_low}..{model.n_high}",
            *(
                f"{formats.duration(term.value)} [{formats.duration(term.low)}, {formats.duration(term.high)}]"
                f"{_mark(bool(s.disturbed_in(model)))}"
                for term in (model.fixed, model.linear, model.quadratic)
            ),
            model.text,
        )
        for s in section.series
        if (model := s.two_term)
    )
    return Table(
        ("pattern · algorithm", "ISA level", "n", "a", "b", "c", "what follows"), rows, frozenset(range(2, 6))
    )


def crossovers(found: Sequence[Crossover], kind: str) -> Table:
    """At every level."""
    rows = tuple((c.where, f"{c.names[0]} / {c.names[1]}", c.text) for c in found if c.kind == kind)
    return Table(("of", "which", "crossover"), rows)


def sparse(sections: Sequence[Section]) -> Table:
    """Each pattern against dense, at the largest n of each."""
    rows = []
    for section in sections:
        for a in section.against_dense:
            efficiency = a.efficiency_interval
            of = [
                o.n for o in section.against_dense if (o.run, o.variant, o.isa) == (a.run, a.variant, a.isa)
            ]
            if efficiency and a.n == max(of):
                share = f"{100 * efficiency.value:.0f} %{_mark(a.disturbed)}"
                if not a.disturbed:
                    share += f" [{100 * efficiency.low:.0f}, {100 * efficiency.high:.0f}]"
                cells = (a.variant.label, a.isa, f"{a.n}", interval(a.ratio, a.disturbed), share)
                rows.append(cells)
    return Table(("pattern", "ISA", "n", "as fast as dense", "efficiency"), tuple(rows), frozenset({2, 3, 4}))


def speed_ups(sections: Sequence[Section]) -> Table:
    """Each level against scalar, at the largest n that all levels were measured at."""
    rows = tuple(
        (s.variant.label, s.isa, f"{s.n}", interval(s.ratio, s.disturbed))
        for section in sections
        for s in largest_common(section)
    )
    return Table(("pattern", "ISA", "n", "as fast as scalar"), rows, frozenset({2, 3}))


def threads(sections: Sequence[Section]) -> Table:
    rows = tuple(
        (
            t.series.variant.label,
            t.series.isa,
            f"{t.n}",
            f"{t.threads}",
            interval(t.ratio, t.disturbed),
            f"{100 * t.efficiency.value:.0f} %{_mark(t.disturbed)}",
        )
        for t in thread_scaling(sections)
    )
    return Table(
        ("pattern", "ISA", "n", "threads", "over one thread", "efficiency"), rows, frozenset(range(2, 6))
    )


def choices(found: Sequence[Crossover]) -> Table:
    """The tuning table."""
    rows = tuple(
        (
            e.pattern,
            e.isa,
            e.dtype,
            f"{e.head_dim}",
            f"{e.value_dim}",
            f"{e.threads}",
            f"{e.from_n}",
            f"{e.to_n}",
            e.algorithm,
        )
        for e in tuning.choices(found)
    )
    head = ("pattern", "ISA", "type", "head dim", "value dim", "threads", "from n", "to n", "algorithm")
    return Table(head, rows, frozenset(range(3, 8)))


def of_run(sections: Sequence[Section], crossed: Sequence[Crossover], run: Run) -> list[tuple[str, Table]]:
    """All tables of one run that have rows, each with its title; `crossed`: the crossovers of the sections."""
    own = [section.of_run(run) for section in sections]
    found = [c for c in crossed if c.first.run is run]
    titled = [
        *((f"Growth: {section.label}", regimes(section)) for section in own),
        *((f"t = a + b n + c n²: {section.label}", two_term(section)) for section in own),
        *((f"Crossovers: {CROSSOVERS[kind]}", crossovers(found, kind)) for kind in KINDS),
        ("Speed-up by ISA level, at the largest n of all levels", speed_ups(own)),
        ("Sparse efficiency, at the largest n", sparse(own)),
        ("Thread scaling", threads(own)),
        ("Tuning: which algorithm from which n", choices(found)),
    ]
    return [(title, table) for title, table in titled if table.rows]
