"""What rows are put together into: groups of problems, variants, points, and series over n."""

from __future__ import annotations

import functools
import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from . import statistics as st
from .results import Row, Run

if TYPE_CHECKING:
    from .regimes import Regime
    from .twoterm import TwoTerm

BASE_ISA = "scalar"  # what the other levels are compared with
# As dispatch/isa.def has them, which an installation does not bring; a test compares the two.
ISA_ORDER = (BASE_ISA, "avx2", "avx512", "neon")
_ALGORITHM_ORDER = ("naive", "flash")
_WINDOW = re.compile(r"window=(\w+)(?::(\w+))?")


def isa_rank(isa: str) -> tuple[int, str]:
    return (ISA_ORDER.index(isa) if isa in ISA_ORDER else len(ISA_ORDER), isa)


def pattern_class(pattern: str) -> str:
    """dense, causal, window (nothing but a window selects), or sparse."""
    names = {re.split(r"[=:]", term)[0] for term in pattern.split(",")}
    selections = names - {"dense", "causal", "causal-top-left", "prefix"}
    if not selections:
        return "causal" if names & {"causal", "causal-top-left"} else "dense"
    return "window" if selections == {"window"} else "sparse"


def _window_sides(pattern: str) -> tuple[int | None, int | None]:
    """How many keys before and behind a query its window has; None where it is open, or there is none."""
    match = _WINDOW.search(pattern)
    if not match:
        return None, None
    try:
        if match.group(2) is None:
            return int(match.group(1)) - 1, 0
        left, right = (None if side == "inf" else int(side) for side in match.groups())
    except ValueError:
        return None, None
    return left, right


def _clipped(pattern: str, unless: str | None = None) -> tuple[int, int] | None:
    """What a causal term leaves of them; None where the window is then still open, or there is none.

    Beside a term `unless` it leaves all.
    """
    left, right = _window_sides(pattern)
    names = {term.partition("=")[0] for term in pattern.split(",")}
    if {"causal", "causal-top-left"} & names and unless not in names:
        right = 0
    return (left, right) if left is not None and right is not None else None


def window_width(pattern: str) -> int:
    """The most keys that a query has of a window; 0 when it has none or they are unlimited."""
    # The queries of a prefix see keys behind them, causal or not.
    sides = _clipped(pattern, unless="prefix")
    return sum(sides) + 1 if sides else 0


def window_reach(pattern: str) -> int:
    """The largest n at which a window still leaves one of its sides whole; 0 when it has none or is open there."""
    sides = _clipped(pattern)
    return max(sides) + 1 if sides else 0


@dataclass(frozen=True)
class Group:
    """A problem without what the charts vary."""

    kind: str
    dtype: str | None
    batch: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    value_dim: int | None
    threads: int | None
    queries: int | None  # None where there are as many queries as keys

    @property
    def label(self) -> str:
        parts = ["kernels"] if self.kind == "kernel" else []
        parts.append(self.dtype or "unknown type")
        if self.batch not in (None, 1):
            parts.append(f"batch {self.batch}")
        if self.heads is not None:
            parts.append(f"{self.heads} head{'s' if self.heads != 1 else ''}")
        if self.kv_heads not in (None, self.heads):
            parts.append(f"{self.kv_heads} key/value head{'s' if self.kv_heads != 1 else ''}")
        if self.head_dim is not None:
            parts.append(f"head dimension {self.head_dim}")
        if self.value_dim not in (None, self.head_dim):
            parts.append(f"value dimension {self.value_dim}")
        if self.queries is not None:
            parts.append(f"{self.queries} quer{'ies' if self.queries != 1 else 'y'}")
        if self.threads is not None:
            parts.append(f"{self.threads} thread{'s' if self.threads != 1 else ''}")
        return ", ".join(parts)

    @property
    def length_name(self) -> str:
        return "sequence length n" if self.queries is None else "keys n"


@dataclass(frozen=True)
class Variant:
    """What is run: a pattern by an algorithm, with the suffixes of the id that are not default."""

    pattern: str
    algorithm: str
    extras: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return ", ".join((f"{self.pattern} · {self.algorithm}", *self.extras))

    @property
    def rank(self) -> tuple:
        kind = ("dense", "causal", "window", "sparse").index(pattern_class(self.pattern))
        known = self.algorithm in _ALGORITHM_ORDER
        order = _ALGORITHM_ORDER.index(self.algorithm) if known else len(_ALGORITHM_ORDER)
        return (len(self.extras), kind, self.pattern, order, self.algorithm, self.extras)


@dataclass(frozen=True)
class Point:
    """One row of a series, with its length and the interval of its median (ns)."""

    n: int
    row: Row
    time: st.Median

    @property
    def samples(self) -> tuple[float, ...]:
        return self.row.samples_ns or (self.row.min_ns, self.row.median_ns, self.row.max_ns)

    @property
    def quiet(self) -> float:
        """The time with the least disturbance: of the fastest sample (ns)."""
        return self.row.min_ns

    @property
    def disturbed(self) -> bool:
        return self.row.disturbed

    @functools.cached_property
    def replicates(self) -> np.ndarray:
        """Logs of `quiet`, bootstrapped."""
        return st.undisturbed_logs(self.row.samples_ns or (self.quiet,), zlib.crc32(self.row.id.encode()))

    @property
    def ns_per_pair(self) -> float | None:
        pairs = self.row.pairs_useful
        return self.time.value / pairs if pairs else None


@dataclass
class Series:
    run: Run
    group: Group
    variant: Variant
    isa: str
    points: list[Point]
    regimes: list[Regime] = field(default_factory=list)  # from small n to large
    exponent: st.Exponent | None = None  # the headline: of the regime with the largest n
    regime: str = ""  # why the headline is fitted to these points, or why there is none
    two_term: TwoTerm | None = None
    pair_exponent: float | None = None  # how the useful pairs grow over the same points

    @property
    def lengths(self) -> list[int]:
        """Each once: two rows may differ in no more than what was asked for and not run."""
        return sorted({p.n for p in self.points})

    @property
    def last(self) -> Point:
        return self.points[-1]

    @property
    def disturbed_fit(self) -> list[int]:
        """Lengths at which the exponent rests on a row that other work disturbed."""
        return self.disturbed_in(self.exponent) if self.exponent else []

    def disturbed_in(self, fit: st.Exponent | TwoTerm) -> list[int]:
        """The same of another fit."""
        return [p.n for p in self.points if p.disturbed and fit.n_low <= p.n <= fit.n_high]

    def at(self, n: int) -> Point | None:
        return next((p for p in self.points if p.n == n), None)
