"""t = fixed + linear * n + quadratic * n^2: what a call costs whatever n is, and where its square takes over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from . import statistics as st

MIN_LENGTHS = 5  # three terms of four points are an interpolation, not a fit
_ROUNDS = 8  # of reweighting; the weights of times settle in three or four
_NEAR = 0.01  # relative errors below this count as squares, above it by their size
_DETERMINED = 1e6  # condition of the columns; those of lengths octaves apart have about 10
_EXACT = 1e-6  # relative; no clock is better, so that of times without noise rounding makes no term


@dataclass(frozen=True)
class Term:
    """A coefficient with its interval; `there` when it surely is above 0."""

    value: float
    low: float
    high: float

    @property
    def there(self) -> bool:
        return self.low > 0


@dataclass(frozen=True)
class TwoTerm:
    """No term is below 0, but for the constant where it was left free. Times are of the unit that was given."""

    fixed: Term
    linear: Term
    quadratic: Term
    n_low: int
    n_high: int
    takes_over: Term | None  # n at which the quadratic part passes the linear one, when both are there

    @property
    def text(self) -> str:
        """In words, where the square takes over or which of the two terms is missing."""
        if not self.quadratic.there:
            return "no quadratic term" if self.linear.there else "neither a linear nor a quadratic term"
        if not self.linear.there:
            return "no linear term"
        found = self.takes_over
        assert found
        where = "" if found.value >= self.n_low else "below all measured, at "
        where = "beyond all measured, at " if found.value > self.n_high else where
        return f"the quadratic term takes over {where or 'at '}n = {found.value:.0f} [{found.low:.0f}, {found.high:.0f}]"

    def overhead_share(self, n: float) -> float:
        """The part of a call of length n that does not depend on n, 0 to 1."""
        total = self.fixed.value + self.linear.value * n + self.quadratic.value * n * n
        return self.fixed.value / total if total > 0 else 0.0


def _coefficients(columns: np.ndarray, low: Sequence[float]) -> np.ndarray:
    """Of `columns` (m, 3) against ones, none below `low`.

    By the size of the errors rather than their square, so that a row which something slowed down does not bend the
    curve.
    """
    weights = np.ones(len(columns))
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        found = optimize.lsq_linear(columns * root[:, None], root, (low, np.inf), method="bvls").x
        weights = 1 / np.maximum(np.abs(1 - columns @ found), _NEAR)
    return found


def two_term(lengths: Sequence[int], times: Sequence[float], free_constant: bool = False) -> TwoTerm | None:
    """The model with its intervals; None for fewer than MIN_LENGTHS, or where one row has all the weight.

    Of relative errors, so that short and long calls count alike. The intervals are Student's, with m - 3 degrees of
    freedom, around the fit that lets every coefficient have any sign: a bootstrap of few points around three terms, and
    terms held at 0, give intervals that are too narrow by half.
    """
    if len(set(lengths)) < MIN_LENGTHS:
        return None
    n, t = np.asarray(lengths, dtype=float), np.asarray(times, dtype=float)
    largest = n.max()
    scaled = n / largest  # columns of one magnitude
    columns = np.stack([np.ones_like(n), scaled, scaled**2], axis=1) / t[:, None]
    size = np.sqrt((columns**2).sum(axis=0))
    columns /= size
    if not np.linalg.cond(columns) < _DETERMINED:
        return None
    unit = size * np.array([1, largest, largest**2])
    least = np.array([-np.inf if free_constant else 0.0, 0.0, 0.0])
    fit = _coefficients(columns, least) / unit
    free = _coefficients(columns, np.full(3, -np.inf))
    degrees = len(n) - 3
    scatter = max(float(np.sum((1 - columns @ free) ** 2)) / degrees, _EXACT**2)
    free, covariance = free / unit, scatter * np.linalg.inv(columns.T @ columns) / np.outer(unit, unit)
    reach = float(special.stdtrit(degrees, (1 + st.LEVEL) / 2))
    half = reach * np.sqrt(np.diag(covariance))
    low, high = np.maximum(np.minimum(free - half, fit), least), np.maximum(free + half, fit)
    terms = [Term(*map(float, found)) for found in zip(fit, low, high, strict=True)]
    _, linear, quadratic = terms
    both = linear.there and quadratic.there
    takes_over = _ratio(fit[1:], free[1:], reach**2 * covariance[1:, 1:]) if both else None
    return TwoTerm(*terms, int(min(lengths)), int(max(lengths)), takes_over)


def _ratio(fit: np.ndarray, free: np.ndarray, reach: np.ndarray) -> Term:
    """The first over the second, both there. Fieller's interval: the ratios r at which free[0] - r free[1] may be 0."""
    value = float(fit[0] / fit[1])
    outer = np.outer(free, free) - reach
    low, high = sorted(np.roots([outer[1, 1], -2 * outer[0, 1], outer[0, 0]]).real)
    return Term(value, min(float(low), value), max(float(high), value))
