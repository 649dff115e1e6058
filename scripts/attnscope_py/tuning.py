"""Which algorithm from which n, as measured: the table that the library can choose by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .comparisons import Crossover
from .series import pattern_class, window_width

LEAN = "flash"  # where neither is faster: it needs far less memory


@dataclass(frozen=True)
class Choice:
    """From from_n keys on, until the next entry of the same problem or beyond to_n, this algorithm."""

    isa: str
    dtype: str
    head_dim: int
    value_dim: int
    pattern: str  # as it was measured: the library says which others it speaks for
    threads: int
    from_n: int
    to_n: int  # the largest that was measured: beyond it the table says nothing
    algorithm: str
    from_low: int  # the interval of from_n
    from_high: int
    reason: str


def _choices(crossover: Crossover) -> list[Choice]:
    s, found, names = crossover.first, crossover.found, crossover.names
    group = s.group

    def choice(from_n: float, low: float, high: float, algorithm: str, reason: str) -> Choice:
        return Choice(
            s.isa,
            group.dtype or "",
            group.head_dim or 0,
            group.value_dim or 0,
            s.variant.pattern,
            group.threads or 1,
            math.ceil(from_n),
            found.lengths[-1],
            algorithm,
            math.floor(low),
            math.ceil(high),
            reason,
        )

    # The first length speaks for all that are shorter, unless rows there were disturbed: then nothing is known of them.
    start = found.lengths[0] if any(n < found.lengths[0] for n in found.disturbed) else 0
    measured = f"measured from n = {found.lengths[0]} to {found.lengths[-1]}"
    if not found.crossings:
        first = names[found.faster] if found.faster is not None else LEAN
        why = crossover.text if found.faster is not None else f"{crossover.text}; {LEAN} needs less memory"
        return [choice(start, start, start, first, f"{why}; {measured}")]
    below = names[1 - found.crossings[0].faster_above]
    result = [choice(start, start, start, below, f"{below} is faster at the smallest n; {measured}")]
    for c in found.crossings:
        middle = c.n if c.n is not None else math.sqrt(c.low * c.high)
        result.append(choice(middle, c.low, c.high, names[c.faster_above], c.text(names)))
    return result


def known_by(pattern: str) -> tuple[str, int | str]:
    """What the library knows a pattern by, as attention/tuning.c has it: its kind, and what tells it from others of it.

    Of windows the width alone counts, of dense and causal nothing more; of others each term does.
    """
    kind = pattern_class(pattern)
    terms = sorted(pattern.split(","))
    if kind == "window":
        # A prefix widens what a causal term leaves of a window, which is then no longer known by its width.
        prefix = any(term.startswith("prefix=") for term in terms)
        width = 0 if prefix else window_width(pattern)
        return ("window", width) if width else ("sparse", ",".join(terms))
    return kind, ",".join(terms) if kind == "sparse" else ""


def _key(c: Crossover) -> tuple:
    """What the library looks for: one entry has to speak for all that share it."""
    group = c.first.group
    known = known_by(c.first.variant.pattern)
    return (c.first.isa, group.dtype, group.head_dim, group.value_dim, group.threads, known)


def _speaks(c: Crossover) -> bool:
    """Is it about what the library may ask for? Decoding and options like a softcap are not."""
    s, group = c.first, c.first.group
    return bool(
        c.kind == "algorithm"
        and not c.found.undecided
        and {s.variant.algorithm, c.second.variant.algorithm} == {"naive", LEAN}
        and not s.variant.extras
        and group.queries is None
        and group.dtype
        and group.head_dim
        and group.value_dim
        and group.threads
        # A block map is a file, which no table can name.
        and "blocks=" not in s.variant.pattern
    )


def _faster(c: Crossover) -> dict[int, str]:
    """Which of the two is surely the faster at each length."""
    found = c.found
    return {
        n: c.names[sign > 0]
        for n, sign in zip(found.lengths, found.signs, strict=True)
        if sign and n not in found.odd
    }


def _disagree(some: Sequence[Crossover]) -> bool:
    """Is at some length another one the faster for one problem than for another?"""
    said: dict[int, str] = {}
    return any(said.setdefault(n, name) != name for c in some for n, name in _faster(c).items())


def _weight(c: Crossover) -> tuple[int, int]:
    group = c.first.group
    return len(c.found.lengths), -(group.heads or 1) * (group.batch or 1)


def choices(crossovers: Sequence[Crossover]) -> list[Choice]:
    """A flat list: problems in the order of the crossovers, the entries of each sorted by from_n.

    Of problems that the library does not tell apart (heads and batch, say) the one that was measured at most lengths
    decides, then the one with fewest heads; where they contradict each other there is no entry.
    """
    alike: dict[tuple, list[Crossover]] = {}
    for c in crossovers:
        if _speaks(c):
            alike.setdefault(_key(c), []).append(c)
    return [
        entry for some in alike.values() if not _disagree(some) for entry in _choices(max(some, key=_weight))
    ]
