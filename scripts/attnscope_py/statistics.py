"""Robust statistics of times against length: medians, exponents, fixed overhead, ratios.

All intervals are at 95 % and none assumes a distribution. What is random is seeded, so that the same
file always gives the same report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

LEVEL = 0.95
SEED = 20170612
REPLICATES = 2000
MIN_POINTS = 4  # an exponent from fewer points is a guess
OVERHEAD_SHARE = 0.05  # a regime starts where the fixed part of a call is below this


@dataclass(frozen=True)
class Median:
    """A median with an interval; `is_range` when the samples are too few and it is their range."""

    value: float
    low: float
    high: float
    count: int
    is_range: bool


def median_interval(samples: Sequence[float]) -> Median:
    """Median of at least one sample, with the interval from order statistics.

    The k-th smallest and k-th largest sample, k the largest number with P(Bin(m, 1/2) < k) <= 2.5 %. Below
    six samples there is none, and the range is returned.
    """
    ordered = np.sort(np.asarray(samples, dtype=float))
    m = len(ordered)
    if m == 0:
        raise ValueError("a median needs at least one sample")
    k = int(stats.binom.ppf((1 - LEVEL) / 2, m, 0.5))  # P(X <= k-1) <= 2.5 % < P(X <= k)
    if k < 1:
        return Median(float(np.median(ordered)), float(ordered[0]), float(ordered[-1]), m, True)
    return Median(float(np.median(ordered)), float(ordered[k - 1]), float(ordered[m - k]), m, False)


@dataclass(frozen=True)
class Exponent:
    """Slope of log t over log n: t grows as n^value. The line is t = exp(intercept) * n^value."""

    value: float
    low: float
    high: float
    intercept: float
    n_low: int
    n_high: int
    points: int

    def at(self, n: float) -> float:
        """The fitted line at n, in the unit of the times."""
        return float(np.exp(self.intercept) * n**self.value)


def _pairwise_median_slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Theil-Sen slope of each row of x and y (replicates, points); NaN where all x of a row are equal."""
    i, j = np.triu_indices(x.shape[1], k=1)
    dx = x[:, j] - x[:, i]
    slopes = np.full(dx.shape, np.nan)
    np.divide(y[:, j] - y[:, i], dx, out=slopes, where=dx != 0)
    usable = ~np.all(np.isnan(slopes), axis=1)
    result = np.full(len(x), np.nan)
    result[usable] = np.nanmedian(slopes[usable], axis=1)
    return result


def slope(lengths: Sequence[int], values: Sequence[float]) -> float:
    """Theil-Sen slope of log value over log length, alone."""
    return float(
        stats.theilslopes(np.log(np.asarray(values, float)), np.log(np.asarray(lengths, float))).slope
    )


def exponent(
    lengths: Sequence[int], times: Sequence[float], samples: Sequence[Sequence[float]] | None = None
) -> Exponent:
    """Theil-Sen slope of log time over log length with a bootstrap percentile interval.

    Each replicate draws the points with replacement, and for each drawn point the median of its samples drawn
    with replacement: the first shows how far the points are from a line, the second how noisy they are.
    `samples[i]` are the raw times behind times[i]; without them only the points are drawn. Needs MIN_POINTS
    points at different lengths and times above 0; ValueError otherwise.
    """
    if len(set(lengths)) < MIN_POINTS:
        raise ValueError(f"an exponent needs {MIN_POINTS} different lengths, not {len(set(lengths))}")
    if min(times) <= 0 or min(lengths) <= 0:
        raise ValueError("lengths and times must be above 0")
    x, y = np.log(np.asarray(lengths, dtype=float)), np.log(np.asarray(times, dtype=float))
    fit = stats.theilslopes(y, x)

    rng = np.random.default_rng(SEED)
    m = len(x)
    picks = rng.integers(0, m, size=(REPLICATES, m))
    medians = np.tile(y, (REPLICATES, 1))
    if samples is not None:
        for i, raw in enumerate(samples):
            logs = np.log(np.asarray(raw, dtype=float))
            if len(logs) > 1:
                drawn = rng.integers(0, len(logs), size=(REPLICATES, len(logs)))
                medians[:, i] = np.median(logs[drawn], axis=1)
    slopes = _pairwise_median_slopes(x[picks], np.take_along_axis(medians, picks, axis=1))
    slopes = slopes[~np.isnan(slopes)]
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(slopes, [tail, 100 - tail])
    value = float(fit.slope)
    # The estimate itself belongs to its interval, even when the replicates lean to one side.
    return Exponent(
        value,
        min(float(low), value),
        max(float(high), value),
        float(fit.intercept),
        int(min(lengths)),
        int(max(lengths)),
        m,
    )


@dataclass(frozen=True)
class TwoTerm:
    """t = fixed + linear * n + quadratic * n^2, none below 0."""

    fixed: float
    linear: float
    quadratic: float

    def overhead_share(self, n: float) -> float:
        """The part of a call of length n that does not depend on n, 0 to 1."""
        total = self.fixed + self.linear * n + self.quadratic * n * n
        return self.fixed / total if total > 0 else 0.0


def two_term(lengths: Sequence[int], times: Sequence[float]) -> TwoTerm:
    """Non-negative least squares of the relative errors, so that short and long calls count alike."""
    n = np.asarray(lengths, dtype=float)
    t = np.asarray(times, dtype=float)
    largest = n.max()
    scaled = n / largest  # columns of one magnitude
    columns = np.stack([np.ones_like(n), scaled, scaled**2], axis=1) / t[:, None]
    (fixed, linear, quadratic), _ = optimize.nnls(columns, np.ones_like(n))
    return TwoTerm(float(fixed), float(linear / largest), float(quadratic / largest**2))


@dataclass(frozen=True)
class Regime:
    """Which of a series' points an exponent is fitted to, and why those."""

    first: int  # index of the first point
    reason: str


def regime(lengths: Sequence[int], times: Sequence[float], saturated_above: int = 0) -> Regime | None:
    """The points of a sorted series that one exponent can describe; None when there are too few.

    A regime starts above the length where the fixed part of a call falls below OVERHEAD_SHARE, and above
    `saturated_above`: a window as long as the sequence does not restrict yet. What leaves fewer than
    MIN_POINTS points is merged with what is below it, and the reason says so.
    """
    if len(lengths) < MIN_POINTS:
        return None
    model = two_term(lengths, times)
    overhead = sum(model.overhead_share(n) >= OVERHEAD_SHARE for n in lengths)
    saturated = sum(n <= saturated_above for n in lengths)
    enough = len(lengths) - MIN_POINTS
    share = f"{OVERHEAD_SHARE:.0%}".replace("%", " %")
    if max(overhead, saturated) <= enough:
        if overhead == 0 and saturated == 0:
            return Regime(0, "all points")
        if overhead > saturated:
            return Regime(overhead, f"from where the fixed part is below {share}")
        return Regime(saturated, f"from where the window restricts (n above {saturated_above})")
    if saturated <= enough and saturated > 0:
        return Regime(
            saturated, f"n above {saturated_above}; fixed part of {share} or more not cut off: too few points"
        )
    left = "the fixed part" if overhead > enough else "the part that the window does not restrict"
    return Regime(0, f"all points; {left} is included, as cutting it off leaves too few")


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians with its interval."""

    value: float
    low: float
    high: float


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Ratio:
    """Ratio of the medians of two independent sets of samples above 0, with a bootstrap interval.

    With fewer than three samples on a side the bootstrap says nothing, and the interval is the widest ratio
    that the ranges allow.
    """
    a, b = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
    value = float(np.median(a) / np.median(b))
    if min(len(a), len(b)) < 3:
        return Ratio(value, float(a.min() / b.max()), float(a.max() / b.min()))
    rng = np.random.default_rng(SEED)
    above = np.median(a[rng.integers(0, len(a), size=(REPLICATES, len(a)))], axis=1)
    below = np.median(b[rng.integers(0, len(b), size=(REPLICATES, len(b)))], axis=1)
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(above / below, [tail, 100 - tail])
    return Ratio(value, min(float(low), value), max(float(high), value))
