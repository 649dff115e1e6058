"""Which series of a run are compared: algorithms, patterns, ISA levels and numbers of threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from . import statistics as st
from .analysis import Section
from .crossover import Comparison, compare
from .series import Group, Series, Variant, isa_rank, pattern_class

KINDS = ("algorithm", "pattern", "isa", "threads")


@dataclass(frozen=True)
class Crossover:
    """Two series that differ in one thing, `kind`, and from which n on which of them is faster."""

    kind: str
    first: Series
    second: Series
    found: Comparison

    @property
    def names(self) -> tuple[str, str]:
        """What tells the two apart."""
        one, other = (_name(self.kind, s) for s in (self.first, self.second))
        return one, other

    @property
    def where(self) -> str:
        """What they have in common."""
        s = self.first
        parts = {
            "algorithm": (s.variant.pattern, *s.variant.extras, s.isa),
            "pattern": (s.variant.algorithm, *s.variant.extras, s.isa),
            "isa": (s.variant.label,),
            "threads": (s.variant.label, s.isa),
        }
        return ", ".join(parts[self.kind])

    @property
    def text(self) -> str:
        return self.found.text(self.names)

    @property
    def disturbed(self) -> bool:
        """Were lengths left out for it?"""
        return bool(self.found.disturbed)


@dataclass(frozen=True)
class ThreadScale:
    """Several threads against one: same run, problem, variant, ISA level and length."""

    series: Series  # the one with several threads
    n: int
    threads: int
    ratio: st.Ratio  # time of one thread / this time
    disturbed: bool

    @property
    def efficiency(self) -> st.Ratio:
        """The speed-up for each thread: 1 is all that they could give."""
        return st.Ratio(*(v / self.threads for v in (self.ratio.value, self.ratio.low, self.ratio.high)))


def _name(kind: str, s: Series) -> str:
    if kind == "threads":
        return f"{s.group.threads} thread{'s' if s.group.threads != 1 else ''}"
    return {"algorithm": s.variant.algorithm, "pattern": s.variant.pattern, "isa": s.isa}[kind]


def _without_pattern(s: Series) -> Variant:
    return replace(s.variant, pattern="")


def _without_algorithm(s: Series) -> Variant:
    return replace(s.variant, algorithm="")


def _without_threads(s: Series) -> Group:
    return replace(s.group, threads=None)


def _pairs(
    series: Sequence[Series], key: Callable[[Series], tuple], apart: Callable[[Series], object]
) -> list[tuple[Series, Series]]:
    """Every two that have the key in common and not what is apart."""
    together: dict[tuple, list[Series]] = {}
    for s in series:
        together.setdefault((id(s.run), *key(s)), []).append(s)
    return [
        (a, b)
        for some in together.values()
        for a, b in itertools.combinations(some, 2)
        if apart(a) != apart(b)
    ]


def crossovers(sections: Sequence[Section]) -> list[Crossover]:
    """Of every run: naive against flash, patterns of different kinds, ISA levels, and one thread against several.

    It takes long; whoever needs them twice hands them on.
    """
    within = [c for section in sections for c in _within(section)]
    return within + _compared("threads", _against_one(sections))


def _within(section: Section) -> list[Crossover]:
    """Those of one section."""
    series = [s for s in section.series if len(s.lengths) > 1]
    attention = [s for s in series if s.group.kind == "attention"]
    levels = sorted(series, key=lambda s: isa_rank(s.isa))
    pairs = {
        "algorithm": _pairs(
            attention, lambda s: (_without_algorithm(s), s.isa), lambda s: s.variant.algorithm
        ),
        "pattern": _pairs(
            attention, lambda s: (_without_pattern(s), s.isa), lambda s: pattern_class(s.variant.pattern)
        ),
        "isa": _pairs(levels, lambda s: (s.variant,), lambda s: s.isa),
    }
    return [c for kind, some in pairs.items() for c in _compared(kind, some)]


def _compared(kind: str, pairs: Sequence[tuple[Series, Series]]) -> list[Crossover]:
    compared = [(a, b, compare(a.points, b.points)) for a, b in pairs]
    return [Crossover(kind, a, b, found) for a, b, found in compared if found]


def _against_one(sections: Sequence[Section]) -> list[tuple[Series, Series]]:
    series = [s for section in sections for s in section.series]

    def key(s: Series) -> tuple:
        return (id(s.run), _without_threads(s), s.variant, s.isa)

    one = {key(s): s for s in series if s.group.threads == 1}
    several = [s for s in series if s.group.threads and s.group.threads > 1 and key(s) in one]
    return [(one[key(s)], s) for s in sorted(several, key=lambda s: s.group.threads or 0)]


def thread_scaling(sections: Sequence[Section]) -> list[ThreadScale]:
    """Of every series with several threads that has one with one thread, at each common length."""
    found = []
    for one, several in _against_one(sections):
        for point in several.points:
            other = one.at(point.n)
            if other:
                ratio = st.ratio(other.samples, point.samples)
                disturbed = point.row.disturbed or other.row.disturbed
                found.append(ThreadScale(several, point.n, several.group.threads or 1, ratio, disturbed))
    return found
