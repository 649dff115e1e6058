"""Which algorithm from which n, as measured: the table that the library can choose by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .comparisons import Crossover
from .series import pattern_class

LEAN = "flash"  # where neither is faster: it needs far less memory


@dataclass(frozen=True)
class Choice:
    """From from_n keys on, until the next entry of the same problem or beyond to_n, this algorithm."""

    isa: str
    dtype: str
    head_dim: int
    value_dim: int
    pattern: str  # its class: dense, causal, window or sparse
    threads: int
    from_n: int
    to_n: int  # the largest that was measured: beyond it the table says nothing
    algorithm: str
    from_low: int  # the interval of from_n
    from_high: int
    reason: str

    @property
    def problem(self) -> tuple:
        return (self.isa, self.dtype, self.head_dim, self.value_dim, self.pattern, self.threads)


def _choices(crossover: Crossover) -> list[Choice]:
    s, found, names = crossover.first, crossover.found, crossover.names
    group = s.group

    def choice(from_n: float, low: float, high: float, algorithm: str, reason: str) -> Choice:
        return Choice(
            s.isa,
            group.dtype or "",
            group.head_dim or 0,
            group.value_dim or 0,
            pattern_class(s.variant.pattern),
            group.threads or 1,
            math.ceil(from_n),
            found.lengths[-1],
            algorithm,
            math.floor(low),
            math.ceil(high),
            reason,
        )

    measured = f"measured from n = {found.lengths[0]} to {found.lengths[-1]}"
    if not found.crossings:
        first = names[found.faster] if found.faster is not None else LEAN
        why = crossover.text if found.faster is not None else f"{crossover.text}; {LEAN} needs less memory"
        return [choice(0, 0, 0, first, f"{why}; {measured}")]
    below = names[1 - found.crossings[0].faster_above]
    result = [choice(0, 0, 0, below, f"{below} is faster at the smallest n; {measured}")]
    for c in found.crossings:
        middle = c.n if c.n is not None else math.sqrt(c.low * c.high)
        result.append(choice(middle, c.low, c.high, names[c.faster_above], found._crossing_text(c, names)))
    return result


def choices(crossovers: Sequence[Crossover]) -> list[Choice]:
    """A flat list: problems in the order of the crossovers, the entries of each sorted by from_n.

    Of one class of patterns at one ISA level, type, head dimension and number of threads, the problem that was
    measured at most lengths decides, then the one with fewest heads. Decoding and options like a softcap are left out.
    """
    chosen: dict[tuple, Crossover] = {}
    for c in crossovers:
        s = c.first
        known = {s.variant.algorithm, c.second.variant.algorithm} == {"naive", LEAN}
        complete = s.group.dtype and s.group.head_dim and s.group.value_dim and s.group.threads
        if (
            c.kind != "algorithm"
            or not known
            or not complete
            or s.variant.extras
            or s.group.queries is not None
        ):
            continue
        key = _choices(c)[0].problem
        if key not in chosen or _weight(c) > _weight(chosen[key]):
            chosen[key] = c
    return [entry for c in chosen.values() for entry in _choices(c)]


def _weight(c: Crossover) -> tuple[int, int]:
    group = c.first.group
    return len(c.found.lengths), -(group.heads or 1) * (group.batch or 1)
