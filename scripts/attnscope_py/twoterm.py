"""t = fixed + linear * n + quadratic * n^2: what a call costs whatever n is, and where its square takes over."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import statistics as st

MIN_LENGTHS = 5  # three terms of four points are an interpolation, not a fit
_REPLICATES = 500  # of the bootstrap: each is eight fits
_ROUNDS = 8  # of reweighting; the weights of times settle in three or four
_NEAR = 0.01  # relative errors below this count as squares, above it by their size


@dataclass(frozen=True)
class Term:
    """A coefficient with its interval; `there` when the times cannot be explained without it."""

    value: float
    low: float
    high: float

    @property
    def there(self) -> bool:
        return self.low > 0


@dataclass(frozen=True)
class TwoTerm:
    """No term is below 0. Times are of the unit that was given."""

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


_SETS = [s for size in (1, 2, 3) for s in itertools.combinations(range(3), size)]


def _non_negative(columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted least squares of columns (r, m, 3) against ones, no coefficient below 0, for each r.

    Of three coefficients any set may be 0: seven small systems, of whose solutions the best that is allowed is the
    answer.
    """
    weighted = columns * weights[:, :, None]
    normal = np.einsum("rmi,rmj->rij", weighted, columns)
    target = weighted.sum(axis=1)
    best = np.zeros((len(columns), 3))
    least = np.full(len(columns), np.inf)
    for chosen in _SETS:
        index = np.array(chosen)
        part = normal[:, index[:, None], index]
        # Replicates with too few different lengths are singular: a trace of a ridge decides for them.
        ridge = 1e-13 * np.trace(part, axis1=1, axis2=2)[:, None, None] * np.eye(len(chosen))
        found = np.zeros((len(columns), 3))
        found[:, index] = np.linalg.solve(part + ridge, target[:, index, None])[:, :, 0]
        errors = (weights * (1 - np.einsum("rmi,ri->rm", columns, found)) ** 2).sum(axis=1)
        # Of solutions that are equally good the one with fewer terms stays.
        better = np.all(found >= 0, axis=1) & (errors < least * (1 - 1e-9))
        best[better], least[better] = found[better], errors[better]
    return best


def _solve(n: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Coefficients (r, 3) for lengths and times (r, m).

    Of relative errors, so that short and long calls count alike; and of their size rather than their square, so
    that a row which something slowed down does not bend the curve.
    """
    largest = n.max()
    scaled = n / largest  # columns of one magnitude
    columns = np.stack([np.ones_like(n), scaled, scaled**2], axis=2) / t[:, :, None]
    size = np.sqrt((columns**2).sum(axis=1, keepdims=True))
    columns = columns / size
    weights = np.ones_like(t)
    for _ in range(_ROUNDS):
        found = _non_negative(columns, weights)
        weights = 1 / np.maximum(np.abs(1 - np.einsum("rmi,ri->rm", columns, found)), _NEAR)
    return found / size[:, 0, :] / np.array([1, largest, largest**2])


def two_term(
    lengths: Sequence[int], times: Sequence[float], replicates: Sequence[np.ndarray] | None = None
) -> TwoTerm | None:
    """The model with bootstrap intervals, as `statistics.exponent` draws them; None for fewer than MIN_LENGTHS."""
    if len(set(lengths)) < MIN_LENGTHS:
        return None
    n, t = np.asarray(lengths, dtype=float), np.asarray(times, dtype=float)
    fit = _solve(n[None], t[None])[0]
    m = len(n)
    rng = np.random.default_rng(st.SEED)
    picks = rng.integers(0, m, size=(_REPLICATES, m))
    ordered = np.sort(picks, axis=1)
    different = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    picks = picks[different >= 3]
    drawn = np.tile(t, (_REPLICATES, 1)) if replicates is None else np.exp(np.stack(replicates, axis=1))
    drawn = np.take_along_axis(drawn[: len(picks)], picks, axis=1)
    found = _solve(n[picks], drawn)
    terms = [Term(float(v), *st.percentiles(found[:, i], float(v))) for i, v in enumerate(fit)]
    return TwoTerm(*terms, int(min(lengths)), int(max(lengths)), _takes_over(terms, found))


def _takes_over(terms: list[Term], found: np.ndarray) -> Term | None:
    _, linear, quadratic = terms
    if not (linear.there and quadratic.there):
        return None
    value = linear.value / quadratic.value
    both = found[(found[:, 1] > 0) & (found[:, 2] > 0)]
    return Term(value, *st.percentiles(both[:, 1] / both[:, 2], value))
