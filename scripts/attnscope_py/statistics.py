"""Robust statistics of times: medians, undisturbed times, exponents, ratios.

What a point of a chart shows is a median. What is fitted to many rows rests on the fastest sample of each: other
work, on the CPU or on the core that a virtual machine shares unseen, only ever adds time. Of 104 rows measured
twice on such a machine the medians differed by 3.8 % in the middle and by more than 3 % in 57, the fastest
samples by 0.3 %, and by more than 3 % in 26.

All intervals are at 95 % and none assumes a distribution. What is random is seeded, so that the same
file always gives the same report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special  # not stats, which takes longer to load than a file to read

LEVEL = 0.95
SEED = 20170612
REPLICATES = 2000
# Of the points, that a Theil-Sen slope bears however wrong they are: half of the slopes are then still of good points.
MOST_OUTLIERS = 1 - 0.5**0.5
MIN_POINTS = 4  # an exponent from fewer points is a guess
ROW_NOISE = (
    0.01  # what two undisturbed measurements of one row may differ by: a standard deviation of its log
)


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
    below = special.bdtr(np.arange(m + 1), m, 0.5)  # P(X <= k)
    k = int(np.count_nonzero(below < (1 - LEVEL) / 2))
    if k < 1:
        return Median(float(np.median(ordered)), float(ordered[0]), float(ordered[-1]), m, True)
    return Median(float(np.median(ordered)), float(ordered[k - 1]), float(ordered[m - k]), m, False)


@dataclass(frozen=True)
class Exponent:
    """Slope of log t over log n: t grows as n^value."""

    value: float
    low: float
    high: float
    n_low: int
    n_high: int
    points: int


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


def _theil_sen(x: np.ndarray, y: np.ndarray) -> float:
    return float(_pairwise_median_slopes(x[None], y[None])[0])


def slope(lengths: Sequence[int], values: Sequence[float]) -> float:
    """Theil-Sen slope of log value over log length, alone."""
    return _theil_sen(np.log(np.asarray(lengths, float)), np.log(np.asarray(values, float)))


def undisturbed_logs(samples: Sequence[float], key: int, count: int = REPLICATES) -> np.ndarray:
    """Logs of the fastest of the samples drawn with replacement, `count` times; `key` seeds the draws.

    The k-th smallest of m samples is the fastest of a draw with the probability that none below it is drawn.
    """
    ordered = np.log(np.sort(np.asarray(samples, dtype=float)))
    m = len(ordered)
    spread = np.random.default_rng([SEED, key]).random(count)
    index = np.floor(m * (1 - spread ** (1 / m))).astype(int)
    return ordered[np.minimum(index, m - 1)]


def percentiles(replicates: np.ndarray, value: float, level: float = LEVEL) -> tuple[float, float]:
    """The interval of a bootstrap. The estimate itself belongs to it, even when all replicates lean to one side."""
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(replicates, [tail, 100 - tail])
    return min(float(low), value), max(float(high), value)


def exponent(
    lengths: Sequence[int], times: Sequence[float], replicates: Sequence[np.ndarray] | None = None
) -> Exponent:
    """Theil-Sen slope of log time over log length with a bootstrap interval.

    Each replicate draws the points with replacement, and takes of each drawn point one replicate of its log time:
    the first shows how far the points are from a line, the second how noisy they are. Without `replicates` only
    the points are drawn. Bootstrapped residuals of m points around a line of two parameters are too small by
    sqrt((m - 2) / m), and the interval is widened by that: it holds the truth in at least 95 of 100 cases down to
    four points. Needs MIN_POINTS points at different lengths and times above 0; ValueError otherwise.
    """
    if len(set(lengths)) < MIN_POINTS:
        raise ValueError(f"an exponent needs {MIN_POINTS} different lengths, not {len(set(lengths))}")
    if min(times) <= 0 or min(lengths) <= 0:
        raise ValueError("lengths and times must be above 0")
    x, y = np.log(np.asarray(lengths, dtype=float)), np.log(np.asarray(times, dtype=float))

    rng = np.random.default_rng(SEED)
    m = len(x)
    picks = rng.integers(0, m, size=(REPLICATES, m))
    drawn = np.tile(y, (REPLICATES, 1)) if replicates is None else np.stack(replicates, axis=1)
    slopes = _pairwise_median_slopes(x[picks], np.take_along_axis(drawn, picks, axis=1))
    value = _theil_sen(x, y)
    low, high = percentiles(slopes[~np.isnan(slopes)], value)
    wider = float(np.sqrt(m / (m - 2)))
    return Exponent(
        value,
        value - (value - low) * wider,
        value + (high - value) * wider,
        int(min(lengths)),
        int(max(lengths)),
        m,
    )


def _drawn_medians(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """REPLICATES medians of the samples drawn with replacement.

    The k-th smallest of m draws is the sample at the k-th smallest of m uniform numbers, which has a beta
    distribution; the next one is the smallest of the m - k that are left above it.
    """
    ordered = np.sort(samples)
    m = len(ordered)
    k = (m + 1) // 2
    at = rng.beta(k, m - k + 1, REPLICATES)
    lower = ordered[np.minimum((m * at).astype(int), m - 1)]
    if m % 2:
        return lower
    at = 1 - (1 - at) * rng.random(REPLICATES) ** (1 / (m - k))
    return (lower + ordered[np.minimum((m * at).astype(int), m - 1)]) / 2


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
    above, below = _drawn_medians(a, rng), _drawn_medians(b, rng)
    return Ratio(value, *percentiles(above / below, value))
