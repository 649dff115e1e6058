"""From rows to what a report says: series over n, exponents, speed-ups, patterns against dense, stages.

Words: a *group* is a problem without its length, pattern, algorithm and ISA level; a *variant* is a pattern run
by an algorithm; a *series* is one variant at one ISA level on one machine, over n. Ratios are only ever taken
within a run.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from . import regimes, twoterm
from . import statistics as st
from .reading import parse_id
from .results import STAGES, Row, Run
from .series import BASE_ISA, Group, Point, Series, Variant, isa_rank, pattern_class, window_reach


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
    if len(series.lengths) < st.MIN_POINTS:
        series.regime = f"no exponent: {len(series.lengths)} of at least {st.MIN_POINTS} lengths"
        return
    # Below its window a pattern is dense: one sum of terms does not describe both.
    pattern = series.variant.pattern
    restricted = [p for p in points if p.n > window_reach(pattern)]
    # Above it the pairs of a selection are a line that does not pass through 0: those of a window of W keys are
    # W n - W (W - 1) / 2.
    selected = series.group.kind == "attention" and pattern_class(pattern) in ("window", "sparse")
    if not regimes.undecided(restricted):
        series.two_term = twoterm.two_term(
            [p.n for p in restricted], [p.quiet for p in restricted], free_constant=selected
        )
    series.regimes = regimes.regimes(series, series.two_term)
    headline = series.regimes[-1]
    series.exponent, series.regime = headline.exponent, headline.reason
    used = [p for p in points if p.n >= headline.n_low]
    pairs = [p.row.pairs_useful for p in used]
    if headline.exponent and all(pairs):
        series.pair_exponent = st.slope([p.n for p in used], pairs)


@dataclass(frozen=True)
class SpeedUp:
    """One ISA level against scalar: same run, group, variant and length."""

    run: Run
    variant: Variant
    isa: str
    n: int
    ratio: st.Ratio
    disturbed: bool  # one of the two rows was


@dataclass(frozen=True)
class AgainstDense:
    """A pattern against dense: same run, ISA level, algorithm and length."""

    run: Run
    variant: Variant
    isa: str
    n: int
    ratio: st.Ratio  # dense time / this time
    pair_ratio: float | None  # dense pairs / these pairs
    disturbed: bool  # one of the two rows was

    @property
    def efficiency(self) -> float | None:
        """How much of the saving in pairs is a saving in time: 1 is all of it."""
        found = self.efficiency_interval
        return found.value if found else None

    @property
    def efficiency_interval(self) -> st.Ratio | None:
        if not self.pair_ratio:
            return None
        return st.Ratio(*(v / self.pair_ratio for v in (self.ratio.value, self.ratio.low, self.ratio.high)))

    @property
    def efficiency_percent(self) -> tuple[float, float, float]:
        """Value and interval as charts show them; only where there is an efficiency."""
        found = self.efficiency_interval
        if not found:
            raise ValueError(f"{self.variant.label} has no efficiency")
        return 100 * found.value, 100 * found.low, 100 * found.high


@dataclass(frozen=True)
class StageShare:
    """The stages of one call of naive."""

    run: Run
    variant: Variant
    isa: str
    n: int
    points: dict[str, Point]  # by stage, in order

    @property
    def times_ns(self) -> dict[str, float]:
        return {stage: point.time.value for stage, point in self.points.items()}

    def share(self, stage: str) -> float:
        times = self.times_ns
        return times[stage] / sum(times.values())

    def share_range(self, stage: str) -> tuple[float, float]:
        """How far the intervals of the times let the share go: this one at one end, the others at the other."""
        own = self.points[stage].time
        others = [point.time for name, point in self.points.items() if name != stage]
        low = own.low / (own.low + sum(t.high for t in others))
        return low, own.high / (own.high + sum(t.low for t in others))

    @property
    def missing(self) -> list[str]:
        return [stage for stage in STAGES if stage not in self.points]

    @property
    def disturbed(self) -> bool:
        return any(point.row.disturbed for point in self.points.values())


@dataclass
class Section:
    """All that is said about one group, over all runs."""

    group: Group
    series: list[Series]
    stages: list[StageShare]
    speed_ups: list[SpeedUp]
    against_dense: list[AgainstDense]

    @property
    def presets(self) -> list[str]:
        """The model shapes that its rows stand for."""
        rows = [p.row for s in self.series for p in s.points]
        rows += [p.row for s in self.stages for p in s.points.values()]
        return sorted({name for row in rows for name in row.presets})

    @property
    def label(self) -> str:
        names = self.presets
        return f"{', '.join(names)}: {self.group.label}" if names else self.group.label

    @property
    def runs(self) -> list[Run]:
        """Each that it says something of."""
        return list({id(s.run): s.run for s in (*self.series, *self.stages)}.values())

    def of_run(self, run: Run) -> Section:
        """What it says of one run."""
        if all(one is run for one in self.runs):
            return self
        kept = [
            [found for found in some if found.run is run]
            for some in (self.series, self.stages, self.speed_ups, self.against_dense)
        ]
        return Section(self.group, *kept)

    @property
    def variants(self) -> list[Variant]:
        return sorted({s.variant for s in self.series}, key=lambda v: v.rank)

    @property
    def lengths(self) -> list[int]:
        return sorted({p.n for s in self.series for p in s.points})

    @property
    def rows(self) -> int:
        return sum(len(s.points) for s in self.series)

    @property
    def drawable(self) -> bool:
        """Is there anything over n to draw?"""
        return any(len(s.lengths) > 1 for s in self.series)

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
    base = {(id(s.run), s.variant): s for s in series if s.isa == BASE_ISA}
    result = []
    for s in series:
        scalar = base.get((id(s.run), s.variant))
        if scalar is None or s.isa == BASE_ISA:
            continue
        for point in s.points:
            other = scalar.at(point.n)
            if other:
                ratio = st.ratio(other.samples, point.samples)
                disturbed = point.row.disturbed or other.row.disturbed
                result.append(SpeedUp(s.run, s.variant, s.isa, point.n, ratio, disturbed))
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
                disturbed = point.row.disturbed or other.row.disturbed
                result.append(AgainstDense(s.run, s.variant, s.isa, point.n, ratio, saved, disturbed))
    return result


def _stage_shares(rows: dict[tuple, dict[str, Point]], runs: dict[int, Run]) -> list[StageShare]:
    result = []
    for (run_id, variant, isa, n), found in rows.items():
        names = (*STAGES, *sorted(found.keys() - set(STAGES)))
        ordered = {stage: found[stage] for stage in names if stage in found}
        result.append(StageShare(runs[run_id], variant, isa, n, ordered))
    order = {run_id: i for i, run_id in enumerate(runs)}
    return sorted(result, key=lambda s: (order[id(s.run)], s.variant.rank, isa_rank(s.isa), s.n))


def sections(runs: list[Run]) -> list[Section]:
    """All groups of the runs that have attention rows with a length, the largest first."""
    by_id = {id(run): run for run in runs}
    points: dict[Group, dict[tuple, list[Point]]] = defaultdict(lambda: defaultdict(list))
    stages: dict[Group, dict[tuple, dict[str, Point]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        for row in run.rows:
            if not_chartable(row):
                continue
            group = _group_of(row)
            variant = _variant_of(row)
            point = Point(row.keys, row, _time(row))
            if row.stage:
                stages[group][(id(run), variant, row.isa, row.keys)][row.stage] = point
            else:
                points[group][(id(run), variant, row.isa)].append(point)

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


def not_chartable(row: Row) -> str:
    """What a row does not say that a chart over n needs; nothing when it can stand on one."""
    if row.kind not in ("attention", "kernel"):
        return "neither attention nor a kernel"
    said = {"algorithm": row.algorithm, "ISA level": row.isa, "length": row.keys}
    if row.kind == "attention":
        said["pattern"] = row.pattern
    missing = [name for name, value in said.items() if not value]
    return f"no {', '.join(missing)} in the file" if missing else ""
