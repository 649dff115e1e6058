"""Stretches of n over which a series grows in one way, and why they begin and end where they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import formats
from . import statistics as st
from .crossover import NOT_DECIDED
from .series import Point, Series, pattern_class, window_reach, window_width
from .twoterm import TwoTerm

OVERHEAD_SHARE = 0.05  # below this the fixed part of a call no longer bends the curve
CACHE_NAMES = {1: "L1d", 2: "L2", 3: "L3"}
_ELEMENT_BYTES = {"f32": 4, "bf16": 2, "f16": 2}


@dataclass(frozen=True)
class Border:
    """Where a regime ends: lengths up to n, n too, belong to the one below."""

    n: float
    kind: str  # "overhead", "window" or "cache"
    reason: str


@dataclass(frozen=True)
class Regime:
    n_low: int  # the first and the last length that was measured in it
    n_high: int
    points: int  # different lengths
    exponent: st.Exponent | None
    lower: Border | None  # None: where the measurements begin or end
    upper: Border | None
    merged: tuple[Border, ...] = ()  # borders inside it, which would leave a part with too few lengths
    undecided: str = (
        ""  # no exponent, since more rows were disturbed than a slope can bear: how many of how many
    )

    @property
    def reason(self) -> str:
        """Why it has this range; "all points" where nothing divides the series."""
        found = [f"above: {self.lower.reason}"] if self.lower else []
        found += [f"up to: {self.upper.reason}"] if self.upper else []
        found += [f"not divided at {border.reason}: too few lengths" for border in self.merged]
        if self.undecided:
            found.append(f"no exponent: {NOT_DECIDED}, {self.undecided}")
        elif not self.exponent:
            found.append(f"no exponent: {self.points} of at least {st.MIN_POINTS} lengths")
        return "; ".join(found) or "all points"


def working_sets(series: Series) -> list[Border]:
    """The n at which what one head works on outgrows each cache: its keys and values, for naive also its scores.

    Of a pattern that is a window alone, only the keys of a window are live at a time.
    """
    row = series.points[0].row
    element = _ELEMENT_BYTES.get(row.dtype or "")
    if row.kind != "attention" or not (element and row.head_dim and row.value_dim):
        return []
    per_key = (row.head_dim + row.value_dim) * element
    pattern = series.variant.pattern
    width = window_width(pattern) if pattern_class(pattern) == "window" else 0
    found = []
    for level, name in CACHE_NAMES.items():
        cache = series.run.cache_bytes(level)
        if not cache:
            continue
        full = f"{name}, {formats.size(cache)}"
        if series.variant.algorithm == "naive":
            if series.group.queries is None:
                # 4 n^2 + per_key n = cache; the scores are float32 whatever the operands are.
                n = (np.sqrt(per_key**2 + 16.0 * cache) - per_key) / 8
                found.append(Border(float(n), "cache", f"4n² + {per_key}n = {full}"))
            else:
                each = per_key + 4 * series.group.queries
                found.append(Border(cache / each, "cache", f"{each}n = {full}"))
        elif not width or width * per_key > cache:
            found.append(Border(cache / per_key, "cache", f"{per_key}n = {full}"))
    return found


def overhead(lengths: Sequence[int], model: TwoTerm | None) -> Border | None:
    """Where the fixed part of a call falls below OVERHEAD_SHARE; only if there surely is such a part."""
    if model is None or not model.fixed.there:
        return None
    above = [n for n in lengths if model.overhead_share(n) >= OVERHEAD_SHARE]
    if not above:
        return None
    share = f"{100 * OVERHEAD_SHARE:.0f} %"
    return Border(
        float(max(above)),
        "overhead",
        f"the fixed part of a call, {formats.duration(model.fixed.value, 2)}, falls below {share} (n = {max(above)})",
    )


def borders(series: Series, model: TwoTerm | None) -> list[Border]:
    """All of a series, sorted, that have measured lengths on both sides."""
    lengths = series.lengths
    found = working_sets(series)
    reach = window_reach(series.variant.pattern)
    if reach:
        found.append(Border(reach, "window", f"the window restricts from n = {reach + 1} on"))
    start = overhead(lengths, model)
    found += [start] if start else []
    inside = [b for b in found if lengths[0] <= b.n < lengths[-1]]
    return sorted(inside, key=lambda b: b.n)


def _divide(lengths: Sequence[int], found: Sequence[Border]) -> list[Regime]:
    """A regime between each two borders; borders with no length between them are one, with both reasons."""
    edges: list[Border] = []
    for border in found:
        if edges and not any(edges[-1].n < n <= border.n for n in lengths):
            joined = f"{edges[-1].reason}, and {border.reason}"
            kind = edges[-1].kind if edges[-1].kind != "cache" else border.kind
            edges[-1] = Border(edges[-1].n, kind, joined)
        else:
            edges.append(border)
    result = []
    for lower, upper in zip([None, *edges], [*edges, None], strict=True):
        some = [n for n in lengths if (not lower or n > lower.n) and (not upper or n <= upper.n)]
        result.append(Regime(some[0], some[-1], len(some), None, lower, upper))
    return result


def _join(a: Regime, b: Regime) -> Regime:
    merged = (*a.merged, *((a.upper,) if a.upper else ()), *b.merged)
    return Regime(a.n_low, b.n_high, a.points + b.points, None, a.lower, b.upper, merged)


def _merge(found: list[Regime]) -> list[Regime]:
    """Joins what has fewer than MIN_POINTS lengths to a neighbour.

    What lies below the fixed overhead or inside the window is not joined to what lies above it, which it would
    bend: it stays apart without an exponent, as long as what is above it has enough by itself.
    """
    found = list(found)
    while len(found) > 1:
        short = [
            i
            for i, r in enumerate(found)
            if r.points < st.MIN_POINTS
            and not (_apart(r) and sum(o.points for o in found[i + 1 :]) >= st.MIN_POINTS)
        ]
        if not short:
            break
        i = min(short, key=lambda i: found[i].points)
        # To the smaller neighbour, so that the parts stay of one size; never across what has to stay apart.
        sides = [j for j in (i - 1, i) if 0 <= j < len(found) - 1]
        free = [j for j in sides if not _apart(found[j])] or sides
        j = min(free, key=lambda j: found[j].points + found[j + 1].points)
        found[j : j + 2] = [_join(found[j], found[j + 1])]
    return found


def _apart(regime: Regime) -> bool:
    return regime.upper is not None and regime.upper.kind != "cache"


def undecided(points: Sequence[Point]) -> bool:
    """Are more of them disturbed than a fit can bear? Its interval would then say nothing."""
    return sum(p.disturbed for p in points) > st.MOST_OUTLIERS * len(points)


def regimes(series: Series, model: TwoTerm | None) -> list[Regime]:
    """Those of a series, each with its exponent where it has MIN_POINTS lengths and is decided."""
    points = series.points
    divided = _merge(_divide(series.lengths, borders(series, model)))
    result = []
    for regime in divided:
        if regime.points >= st.MIN_POINTS:
            some = [p for p in points if regime.n_low <= p.n <= regime.n_high]
            if undecided(some):
                regime = replace(
                    regime, undecided=f"{sum(p.disturbed for p in some)} of {len(some)} of those here"
                )
            else:
                fit = st.exponent([p.n for p in some], [p.quiet for p in some], [p.replicates for p in some])
                regime = replace(regime, exponent=fit)
        result.append(regime)
    return result
