"""From which n on one of two is faster: crossovers with their intervals, or that there is none.

Compared are the times without disturbance at the lengths that both were measured at. At a length two *part* when
the interval of their ratio does not hold 1; its level is raised so that among all lengths of a pair the intervals
of level times miss 1 in no more than one of twenty cases. A crossover lies between two lengths at which they part
in opposite directions, where the line through the logs of the ratio over log n is 0.

A row that other work disturbed may be too slow by any factor, of which its samples know nothing: lengths with one
decide nothing, and no position is told across one.

Costs of two algorithms do not cross, cross back at the next length, and cross again; a row that something slowed
down looks so. A single length that parts against what lies below and above it is therefore no crossover; it is named.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from . import statistics as st
from .series import Point

NOT_DECIDED = "not decided: rows disturbed"
_MIN_SCATTER = 4  # lengths; the scatter of fewer says nothing of their noise
_MOST_NOISE = 4  # times ROW_NOISE
MOST_STEPS = 2  # of the grid; an interval over more of them is no position


@dataclass(frozen=True)
class Crossing:
    """From `n` on the other one is faster. Without n the interval says nothing: it is somewhere from low to high."""

    n: float | None
    low: float
    high: float
    faster_above: int  # 0 or 1: of the two

    def text(self, names: tuple[str, str]) -> str:
        below, above = names[1 - self.faster_above], names[self.faster_above]
        where = (
            f"between {self.low:.0f} and {self.high:.0f}"
            if self.n is None
            else f"n = {self.n:.0f} [{self.low:.0f}, {self.high:.0f}]"
        )
        return f"{where}: {below} is faster below, {above} above"


@dataclass(frozen=True)
class Comparison:
    """Two over their common lengths at which neither was disturbed. `signs`: which of them is faster at each, -1 the first, 1 the second, 0 level."""

    lengths: tuple[int, ...]
    signs: tuple[int, ...]
    ratios: tuple[st.Ratio, ...]  # time of the first over time of the second
    crossings: tuple[Crossing, ...]
    odd: tuple[int, ...] = ()  # single lengths at which the other one was faster than on both sides
    disturbed: tuple[int, ...] = ()  # lengths that are left out, since other work disturbed a row there

    @property
    def undecided(self) -> bool:
        """Are too few lengths left to say anything?"""
        return len(self.lengths) < 2

    @property
    def faster(self) -> int | None:
        """The one that is faster wherever they part; None when both are, or neither."""
        found = {sign for n, sign in zip(self.lengths, self.signs, strict=True) if sign and n not in self.odd}
        return {(-1,): 0, (1,): 1}.get(tuple(found))

    @property
    def always(self) -> bool:
        """Do they part at every length, always in one direction?"""
        return 0 not in self.signs and len(set(self.signs)) == 1

    def text(self, names: tuple[str, str]) -> str:
        """In words, for instance "n = 512 [480, 560]: naive is faster below, flash above"."""
        odd = f"; other than the rest at n = {', '.join(map(str, self.odd))}" if self.odd else ""
        disturbed = (
            f" (n = {', '.join(map(str, self.disturbed))} left out: rows disturbed)" if self.disturbed else ""
        )
        return (
            f"{NOT_DECIDED} at n = {', '.join(map(str, self.disturbed))}"
            if self.undecided
            else self._text(names) + odd + disturbed
        )

    def _text(self, names: tuple[str, str]) -> str:
        if self.crossings:
            return "; ".join(c.text(names) for c in self.crossings)
        if self.faster is None:
            return f"none: {self._within()} of each other at every n measured"
        name = names[self.faster]
        if self.always:
            return f"none: {name} is faster at every n measured"
        level = [n for n, sign in zip(self.lengths, self.signs, strict=True) if sign == 0]
        parted = [n for n, sign in zip(self.lengths, self.signs, strict=True) if sign and n not in self.odd]
        if not level:
            return f"none: {name} is faster"
        if max(level) < min(parted):
            return (
                f"none: {self._within()} up to n = {max(level)}, {name} is faster from n = {min(parted)} on"
            )
        if min(level) > max(parted):
            return (
                f"none: {name} is faster up to n = {max(parted)}, {self._within()} from n = {min(level)} on"
            )
        return f"none: {name} is faster, or {self._within()} (at n = {', '.join(map(str, level))})"

    def _within(self) -> str:
        """How far the two may differ where they do not part, as far as their noise lets that be said."""
        level = [ratio for ratio, sign in zip(self.ratios, self.signs, strict=True) if sign == 0]
        return f"within {math.ceil(max(100 * (max(r.high, 1 / r.low) - 1) for r in level))} %"


def _zeros(x: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """Where each row of `difference` (r, m) over x changes to the sign of its end; the middle of all changes."""
    turned = difference * np.where(difference[:, -1:] < 0, -1.0, 1.0)
    left, right = turned[:, :-1], turned[:, 1:]
    crosses = (left <= 0) != (right <= 0)
    step = np.where(crosses, left / np.where(crosses, left - right, 1.0), np.nan)
    at = x[:-1] + step * np.diff(x)
    none = ~crosses.any(axis=1)
    at[none] = np.where(turned[none, :1] > 0, x[0], x[-1])
    return np.nanmean(at, axis=1)


def _crossing(
    lengths: Sequence[int], first: int, last: int, difference: np.ndarray, replicates: np.ndarray
) -> Crossing:
    """The change of sign between the lengths of these two indices, at which it is sure."""
    part = slice(first, last + 1)
    x = np.log(np.asarray(lengths[part], dtype=float))
    value = float(_zeros(x, difference[None, part])[0])
    low, high = st.percentiles(_zeros(x, replicates[:, part]), value)
    above = 1 if difference[last] > 0 else 0
    steps = np.interp([low, high], x, np.arange(len(x)))
    if steps[1] - steps[0] > MOST_STEPS:
        return Crossing(None, float(lengths[first]), float(lengths[last]), above)
    return Crossing(float(np.exp(value)), float(np.exp(low)), float(np.exp(high)), above)


def _scatter(x: np.ndarray, difference: np.ndarray) -> float:
    """What the log ratio of two rows differs by from one measurement to the next: a standard deviation.

    As the lengths show it: how far they are from a line, or, which forgives a course that bends, each from the line
    through its two neighbours. It is at least what rows are known for, and no more than _MOST_NOISE times that: a ratio
    that leaps further has done so for a reason.
    """
    least = np.sqrt(2) * st.ROW_NOISE
    if len(x) < _MIN_SCATTER:
        return float(least)
    line = difference - np.polyval(np.polyfit(x, difference, 1), x)
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    bend = difference[1:-1] - (1 - share) * difference[:-2] - share * difference[2:]
    bend /= np.sqrt(1 + share**2 + (1 - share) ** 2)
    # So few lengths show it roughly: wider as Student's distribution is.
    wider = special.stdtrit(len(x) - 2, (1 + st.LEVEL) / 2) / special.ndtri((1 + st.LEVEL) / 2)
    found = wider * min(np.sqrt((line**2).sum() / (len(x) - 2)), np.sqrt((bend**2).mean()))
    return float(np.clip(found, least, _MOST_NOISE * least))


def compare(first: Sequence[Point], second: Sequence[Point]) -> Comparison | None:
    """Two series' points; None when they have no two lengths in common."""
    common = [(a, b) for a in first for b in second if a.n == b.n]
    if len(common) < 2:
        return None
    disturbed = tuple(a.n for a, b in common if a.disturbed or b.disturbed)
    pairs = [(a, b) for a, b in common if not (a.disturbed or b.disturbed)]
    if not pairs:
        return Comparison((), (), (), (), (), disturbed)
    lengths = [a.n for a, _ in pairs]
    difference = np.log([a.quiet / b.quiet for a, b in pairs])
    # What two undisturbed measurements differ by is in no sample of either.
    rng = np.random.default_rng([st.SEED, *lengths])
    noise = rng.normal(0, _scatter(np.log(lengths), difference), (st.REPLICATES, len(pairs)))
    replicates = np.stack([a.replicates - b.replicates for a, b in pairs], axis=1) + noise
    level = 1 - (1 - st.LEVEL) / len(pairs)
    signs, ratios = [], []
    for i, value in enumerate(difference):
        low, high = st.percentiles(replicates[:, i], float(value), level)
        signs.append(1 if low > 0 else -1 if high < 0 else 0)
        low, high = st.percentiles(replicates[:, i], float(value))
        ratios.append(st.Ratio(*(float(np.exp(v)) for v in (value, low, high))))
    solid, odd = _runs(signs)
    crossings = []
    for below, above in itertools.pairwise(solid):
        unknown = any(lengths[below[-1]] < n < lengths[above[0]] for n in disturbed)
        if unknown or any(below[-1] < i < above[0] for i in odd):
            # Which of the odd lengths is wrong cannot be known, nor what a disturbed row would have taken.
            faster = 1 if signs[above[0]] > 0 else 0
            crossings.append(Crossing(None, float(lengths[below[-1]]), float(lengths[above[0]]), faster))
        else:
            crossings.append(_crossing(lengths, below[-1], above[0], difference, replicates))
    inside = [i for i in odd if not any(b[-1] < i < a[0] for b, a in itertools.pairwise(solid))]
    return Comparison(
        tuple(lengths),
        tuple(signs),
        tuple(ratios),
        tuple(crossings),
        tuple(lengths[i] for i in inside),
        disturbed,
    )


def _runs(signs: Sequence[int]) -> tuple[list[list[int]], list[int]]:
    """Indices of successive lengths that part in one direction, and of the single ones that part against both sides.

    Runs of one direction with nothing but such single ones between them are one.
    """
    parted = [i for i, sign in enumerate(signs) if sign]
    runs = [list(some) for _, some in itertools.groupby(parted, key=lambda i: signs[i])]
    odd = [run[0] for run in runs[1:-1] if len(run) == 1]
    solid: list[list[int]] = []
    for run in runs:
        if run[0] in odd:
            continue
        if solid and signs[solid[-1][0]] == signs[run[0]]:
            solid[-1] += run
        else:
            solid.append(run)
    return solid, odd
