"""From rows to what a report says: series over n, exponents, speed-ups, patterns against dense, stages.

Words: a *group* is a problem without its length, pattern, algorithm and ISA level; a *variant* is a pattern run
by an algorithm; a *series* is one variant at one ISA level on one machine, over n. Ratios are only ever taken
within a run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from . import statistics as st
from .results import STAGES, Row, Run, parse_id

ISA_ORDER = ("scalar", "avx2", "avx512", "neon")
_ALGORITHM_ORDER = ("naive", "flash", "decode")
_WINDOW = re.compile(r"window=(\w+)(?::(\w+))?")
PEAK_LIMIT = 105.0  # percent; more is a fault of the measurement


def isa_rank(isa: str) -> tuple[int, str]:
    return (ISA_ORDER.index(isa) if isa in ISA_ORDER else len(ISA_ORDER), isa)


def pattern_class(pattern: str) -> str:
    """dense, causal, window (nothing but a window selects), or sparse."""
    names = {re.split(r"[=:]", term)[0] for term in pattern.split(",")}
    selections = names - {"dense", "causal", "causal-top-left", "prefix"}
    if not selections:
        return "causal" if names & {"causal", "causal-top-left"} else "dense"
    return "window" if selections == {"window"} else "sparse"


def window_extent(pattern: str) -> int:
    """How many keys the window of a pattern spans; 0 when it has none or is open on a side."""
    match = _WINDOW.search(pattern)
    if not match or "inf" in match.groups():
        return 0
    left, right = match.groups()
    try:
        return int(left) + int(right) + 1 if right is not None else int(left)
    except ValueError:
        return 0


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
    exponent: st.Exponent | None = None
    regime: str = ""  # why the exponent is fitted to these points, or why there is none
    pair_exponent: float | None = None  # how the useful pairs grow over the same points

    @property
    def last(self) -> Point:
        return self.points[-1]

    def at(self, n: int) -> Point | None:
        return next((p for p in self.points if p.n == n), None)


def _time(row: Row) -> st.Median:
    if row.samples_ns:
        return st.median_interval(row.samples_ns)
    return st.Median(row.median_ns, row.min_ns, row.max_ns, row.sample_count or 0, True)


def _requested_auto(row: Row) -> tuple[str, ...]:
    said = parse_id(row.id)
    chosen = [
        f"{what} auto"
        for what, key in (("algorithm", "algorithm"), ("ISA level", "isa"))
        if said.get(key) == "auto"
    ]
    return tuple(chosen)


def _group_of(row: Row) -> Group:
    square = row.queries is None or row.queries == row.keys
    return Group(
        row.kind,
        row.dtype,
        row.batch,
        row.heads,
        row.kv_heads,
        row.head_dim,
        row.value_dim,
        row.threads,
        None if square else row.queries,
    )


def _variant_of(row: Row) -> Variant:
    extras = row.extras + _requested_auto(row)
    # A kernel has no pattern: its name stands there.
    return (
        Variant(row.algorithm, "kernel", extras)
        if row.kind == "kernel"
        else Variant(row.pattern, row.algorithm, extras)
    )


def _fit(series: Series) -> None:
    points = series.points
    lengths = [p.n for p in points]
    times = [p.time.value for p in points]
    regime = st.regime(lengths, times, window_extent(series.variant.pattern))
    if regime is None:
        series.regime = f"no exponent: {len(points)} of at least {st.MIN_POINTS} lengths"
        return
    used = points[regime.first :]
    series.exponent = st.exponent(lengths[regime.first :], times[regime.first :], [p.samples for p in used])
    series.regime = regime.reason
    pairs = [p.row.pairs_useful for p in used]
    if all(pairs):
        series.pair_exponent = st.slope([p.n for p in used], pairs)


@dataclass(frozen=True)
class SpeedUp:
    """One ISA level against scalar: same run, group, variant and length."""

    run: Run
    variant: Variant
    isa: str
    n: int
    ratio: st.Ratio


@dataclass(frozen=True)
class AgainstDense:
    """A pattern against dense: same run, ISA level, algorithm and length."""

    run: Run
    variant: Variant
    isa: str
    n: int
    ratio: st.Ratio  # dense time / this time
    pair_ratio: float | None  # dense pairs / these pairs

    @property
    def efficiency(self) -> float | None:
        """How much of the saving in pairs is a saving in time: 1 is all of it."""
        return self.ratio.value / self.pair_ratio if self.pair_ratio else None


@dataclass(frozen=True)
class StageShare:
    """The stages of one call of naive."""

    run: Run
    variant: Variant
    isa: str
    n: int
    times_ns: dict[str, float]  # by stage, in order

    @property
    def total_ns(self) -> float:
        return sum(self.times_ns.values())

    def share(self, stage: str) -> float:
        return self.times_ns[stage] / self.total_ns


@dataclass
class Section:
    """All that is said about one group, over all runs."""

    group: Group
    series: list[Series]
    stages: list[StageShare]
    speed_ups: list[SpeedUp]
    against_dense: list[AgainstDense]

    @property
    def variants(self) -> list[Variant]:
        return sorted({s.variant for s in self.series}, key=lambda v: v.rank)

    @property
    def isas(self) -> list[str]:
        return sorted({s.isa for s in self.series}, key=isa_rank)

    @property
    def lengths(self) -> list[int]:
        return sorted({p.n for s in self.series for p in s.points})

    @property
    def rows(self) -> int:
        return sum(len(s.points) for s in self.series)

    @property
    def drawable(self) -> bool:
        """Is there anything over n to draw?"""
        return any(len(s.points) > 1 for s in self.series)

    def of(
        self, *, run: Run | None = None, variant: Variant | None = None, isa: str | None = None
    ) -> list[Series]:
        return [
            s
            for s in self.series
            if (run is None or s.run is run)
            and (variant is None or s.variant == variant)
            and (isa is None or s.isa == isa)
        ]


def _speed_ups(series: list[Series]) -> list[SpeedUp]:
    base = {(id(s.run), s.variant): s for s in series if s.isa == "scalar"}
    result = []
    for s in series:
        scalar = base.get((id(s.run), s.variant))
        if scalar is None or s.isa == "scalar":
            continue
        for point in s.points:
            other = scalar.at(point.n)
            if other:
                result.append(
                    SpeedUp(s.run, s.variant, s.isa, point.n, st.ratio(other.samples, point.samples))
                )
    return result


def largest_common(section: Section) -> list[SpeedUp]:
    """Of each run and variant, the speed-ups at the largest n that all its ISA levels were measured at."""
    result = []
    # In the order of the series: by run, then by variant.
    for run_id, variant in dict.fromkeys((id(s.run), s.variant) for s in section.speed_ups):
        some = [s for s in section.speed_ups if id(s.run) == run_id and s.variant == variant]
        levels = {s.isa for s in some}
        common = [n for n in {s.n for s in some} if {s.isa for s in some if s.n == n} == levels]
        n = max(common) if common else max(s.n for s in some)
        result += [s for s in some if s.n == n]
    return result


def _against_dense(series: list[Series]) -> list[AgainstDense]:
    def key(s: Series) -> tuple:
        return (id(s.run), s.isa, s.variant.algorithm, s.variant.extras)

    dense = {key(s): s for s in series if s.variant.pattern == "dense"}
    result = []
    for s in series:
        base = dense.get(key(s))
        if base is None or s is base:
            continue
        for point in s.points:
            other = base.at(point.n)
            if other:
                pairs, all_pairs = point.row.pairs_useful, other.row.pairs_useful
                saved = all_pairs / pairs if pairs and all_pairs else None
                ratio = st.ratio(other.samples, point.samples)
                result.append(AgainstDense(s.run, s.variant, s.isa, point.n, ratio, saved))
    return result


def _stage_shares(rows: dict[tuple, dict[str, float]], runs: dict[int, Run]) -> list[StageShare]:
    result = []
    for (run_id, variant, isa, n), times in rows.items():
        ordered = {
            stage: times[stage] for stage in (*STAGES, *sorted(times.keys() - set(STAGES))) if stage in times
        }
        result.append(StageShare(runs[run_id], variant, isa, n, ordered))
    order = {run_id: i for i, run_id in enumerate(runs)}
    return sorted(result, key=lambda s: (order[id(s.run)], s.variant.rank, isa_rank(s.isa), s.n))


def sections(runs: list[Run]) -> list[Section]:
    """All groups of the runs that have attention rows with a length, the largest first."""
    by_id = {id(run): run for run in runs}
    points: dict[Group, dict[tuple, list[Point]]] = defaultdict(lambda: defaultdict(list))
    stages: dict[Group, dict[tuple, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        for row in run.rows:
            if not chartable(row):
                continue
            group = _group_of(row)
            variant = _variant_of(row)
            if row.stage:
                stages[group][(id(run), variant, row.isa, row.keys)][row.stage] = row.median_ns
            else:
                points[group][(id(run), variant, row.isa)].append(Point(row.keys, row, _time(row)))

    result = []
    order = {run_id: i for i, run_id in enumerate(by_id)}
    for group in points.keys() | stages.keys():
        series = [
            Series(by_id[run_id], group, variant, isa, sorted(found, key=lambda p: p.n))
            for (run_id, variant, isa), found in points[group].items()
        ]
        series.sort(key=lambda s: (order[id(s.run)], s.variant.rank, isa_rank(s.isa)))
        for s in series:
            _fit(s)
        result.append(
            Section(
                group, series, _stage_shares(stages[group], by_id), _speed_ups(series), _against_dense(series)
            )
        )
    # Shapes with stages alone say less than any with a series.
    result.sort(key=lambda s: (not s.drawable, -s.rows, s.group.label))
    return result


def chartable(row: Row) -> bool:
    """Does the row say enough to stand on a chart over n?"""
    if row.kind == "kernel":
        return None not in (row.algorithm, row.isa) and bool(row.keys)
    return row.kind == "attention" and None not in (row.pattern, row.algorithm, row.isa) and bool(row.keys)


def impossible(runs: list[Run]) -> list[tuple[Run, Row]]:
    """Rows above PEAK_LIMIT percent of the peak: faults of the measurement, not results."""
    return [
        (run, row)
        for run in runs
        for row in run.rows
        if row.pct_peak is not None and row.pct_peak > PEAK_LIMIT
    ]
