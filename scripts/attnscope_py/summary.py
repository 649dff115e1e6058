"""What the measurements say, in sentences with numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from . import formats
from . import statistics as st
from .analysis import Section, largest_common
from .comparisons import Crossover
from .crossover import NOT_DECIDED
from .results import UNDISTURBED, Row, Run
from .roofline import limit_text
from .series import BASE_ISA, Series, isa_rank


@dataclass(frozen=True)
class Statement:
    subject: str  # one word or two
    text: str  # a sentence, or what leads in the parts
    parts: tuple[str, ...] = ()


def _range(low: float, high: float, digits: int = 3) -> str:
    return f"[{formats.significant(low, digits)}, {formats.significant(high, digits)}]"


def _times(ratio: st.Ratio) -> str:
    return f"{formats.significant(ratio.value)} times {_range(ratio.low, ratio.high)}"


def _doubt(*disturbed: bool) -> str:
    return " (disturbed)" if any(disturbed) else ""


def fit_doubt(s: Series) -> str:
    """What a fit rests on that it should not."""
    if not s.disturbed_fit:
        return ""
    return f"; rests on disturbed rows (n={', '.join(map(str, s.disturbed_fit))})"


def _fitted(fit: st.Exponent) -> str:
    return f"n^{fit.value:.2f} [{fit.low:.2f}, {fit.high:.2f}] from n={fit.n_low} to {fit.n_high}"


def _growth(series: list[Series], isa: str) -> Statement | None:
    parts = []
    for s in series:
        fit = s.exponent
        if fit is None:
            last = s.regimes[-1] if s.regimes else None
            if last and last.undecided:
                parts.append(
                    f"{s.variant.label}: {NOT_DECIDED}, {last.undecided}, n={last.n_low} to {last.n_high}."
                )
            continue
        text = f"{s.variant.label}: {_fitted(fit)}; twice the length takes {formats.significant(2**fit.value, 2)} times as long"
        if s.pair_exponent is not None:
            text += f", and has {formats.significant(2**s.pair_exponent, 2)} times the pairs"
        before = [r for r in reversed(s.regimes[:-1]) if r.exponent or r.undecided]
        if before:
            # Each with the border above it: of three regimes there are two.
            said = (
                f"{_fitted(r.exponent) if r.exponent else NOT_DECIDED}{f' (up to: {r.upper.reason})' if r.upper else ''}"
                for r in before
            )
            text += f". Below that: {', '.join(said)}"
        if s.two_term and s.two_term.takes_over:
            text += f"; {s.two_term.text}"
        parts.append(f"{text}{fit_doubt(s)}.")
    if not parts:
        return None
    return Statement("Growth", f"On {isa}, time grows with the length n as", tuple(parts))


def _crossovers(crossed: Sequence[Crossover], section: Section, run: Run, isa: str) -> Statement | None:
    """Those of the section at its best level, and between levels and threads; not that one is always the faster."""
    group = section.group
    found = [c for c in crossed if c.first.run is run and group in (c.first.group, c.second.group)]
    at_best = [c for c in found if c.kind == "isa" or c.first.isa == isa]
    crossed = [c for c in at_best if c.found.crossings]
    never = [c for c in at_best if c.kind == "algorithm" and not c.found.crossings]
    parts = [f"{c.where}: {c.names[0]} and {c.names[1]}: {c.text}." for c in crossed + never]
    undecided = sum(c.found.undecided for c in at_best) - sum(c.found.undecided for c in never)
    if undecided:
        parts.append(f"{undecided} more {'comparisons' if undecided > 1 else 'comparison'}: {NOT_DECIDED}.")
    others = sum(bool(c.found.crossings) for c in found) - len(crossed)
    if others:
        parts.append(f"At other ISA levels: {others} more, in the table of crossovers.")
    return Statement("Crossovers", "Where one of two becomes the faster:", tuple(parts)) if parts else None


def _levels(section: Section, run: Run) -> Statement | None:
    # At a length with rows that tell something, if there is one.
    own = section.of_run(run)
    disturbed = {(s.variant, s.n) for s in own.speed_ups if s.disturbed}
    quiet = [s for s in own.speed_ups if (s.variant, s.n) not in disturbed]
    shown = largest_common(replace(own, speed_ups=quiet)) or largest_common(own)
    if not shown:
        return None
    # One variant tells the levels apart; flash on all pairs is the one that is compute-bound.
    first = next(
        (s.variant for s in shown if (s.variant.pattern, s.variant.algorithm) == ("dense", "flash")), None
    )
    variant = first or shown[0].variant
    of = sorted((s for s in shown if s.variant == variant), key=lambda s: isa_rank(s.isa), reverse=True)
    parts = ", ".join(
        f"{s.isa}: {NOT_DECIDED}" if s.disturbed else f"{s.isa} is {_times(s.ratio)} as fast as {BASE_ISA}"
        for s in of
    )
    return Statement("ISA levels", f"{variant.label} at n={of[0].n}: {parts}.")


def _algorithms(series: list[Series], isa: str) -> Statement | None:
    dense = {s.variant.algorithm: s for s in series if s.variant.pattern == "dense" and not s.variant.extras}
    naive, flash = dense.get("naive"), dense.get("flash")
    if not naive or not flash:
        return None
    common = sorted({p.n for p in naive.points} & {p.n for p in flash.points})
    if not common:
        return None
    quiet = [n for n in common if not (naive.at(n).disturbed or flash.at(n).disturbed)]
    if not quiet:
        return Statement("Algorithms", f"Flash against naive on {isa}: {NOT_DECIDED}, at every n.")
    n = quiet[-1]
    slow, fast = naive.at(n), flash.at(n)
    ratio = st.ratio(slow.samples, fast.samples)
    text = (
        f"At n={n} on {isa}, flash takes {formats.duration(fast.time.value)} and naive "
        f"{formats.duration(slow.time.value)}: flash is {_times(ratio)} as fast"
    )
    if slow.row.workspace_bytes and fast.row.workspace_bytes:
        text += f", in {formats.size(fast.row.workspace_bytes)} of workspace instead of {formats.size(slow.row.workspace_bytes)}"
    return Statement("Algorithms", text + ".")


def _patterns(section: Section, run: Run, isa: str) -> Statement | None:
    parts = []
    some = [a for a in section.against_dense if a.run is run and a.isa == isa]
    for variant in dict.fromkeys(a.variant for a in some):
        quiet = [a for a in some if a.variant == variant and not a.disturbed]
        if not quiet:
            parts.append(f"{variant.label} against dense: {NOT_DECIDED}, at every n.")
            continue
        a = max(quiet, key=lambda a: a.n)
        text = f"{variant.label} at n={a.n} is {_times(a.ratio)} as fast as dense"
        if a.efficiency:
            saved = formats.significant(a.pair_ratio)
            text += f", which has {saved} times the pairs (sparse efficiency {100 * a.efficiency:.0f} %)"
        parts.append(f"{text}.")
    return Statement("Patterns", f"On {isa},", tuple(parts)) if parts else None


def _stages(section: Section, run: Run) -> Statement | None:
    some = [s for s in section.stages if s.run is run]
    if not some:
        return None
    s = max(some, key=lambda s: (isa_rank(s.isa), s.n))
    order = sorted(s.times_ns, key=lambda stage: -s.times_ns[stage])
    rest = ", ".join(f"{stage} {100 * s.share(stage):.0f} %" for stage in order[1:])
    text = f"The largest stage of {s.variant.label} at n={s.n} on {s.isa} is {order[0]} with {100 * s.share(order[0]):.0f} %"
    return Statement("Stages", text + (f", before {rest}" if rest else "") + f"{_doubt(s.disturbed)}.")


def _peak(series: list[Series], isa: str) -> Statement | None:
    points = [(p.row.pct_peak, s, p) for s in series for p in s.points if p.row.pct_peak is not None]
    if not points:
        return None
    best, s, p = max(points, key=lambda point: point[0])
    text = f"On {isa}, {s.variant.label} at n={p.n} does the most useful work: {best:.0f} % of the measured FMA peak{_doubt(p.row.disturbed)}"
    worst, s, p = min(points, key=lambda point: point[0])
    text += f". The least is {worst:.0f} %, {s.variant.label} at n={p.n}{_doubt(p.row.disturbed)}."
    parts = tuple(said for s in series if (said := _limits(s)))
    if parts:
        text += (
            " The limit that each row is nearest to, and how much of the row's time it alone would take; where that is "
            "little, something else takes the time:"
        )
    return Statement("Limits", text, parts)


def _limits(s: Series) -> str:
    """What limits a series over its lengths: neighbours with the same limit in one phrase."""
    rows = [p for p in s.points if p.row.limited_by and p.row.limit_pct is not None]
    phrases = []
    for name, found in itertools.groupby(rows, key=lambda p: limit_text(p.row)):
        some = list(found)
        shares = sorted({f"{p.row.limit_pct:.0f}" for p in some}, key=int)
        percent = shares[0] if len(shares) == 1 else f"{shares[0]} to {shares[-1]}"
        at = f"n={some[0].n}" if len(some) == 1 else f"n={some[0].n} to {some[-1].n}"
        phrases.append(
            f"{name} at {at} ({percent} %{', some disturbed' * any(p.row.disturbed for p in some)})"
        )
    return f"{s.variant.label}: {', '.join(phrases)}." if phrases else ""


def _models(run: Run) -> Statement | None:
    """Each preset at its largest n and best ISA level."""
    of: dict[str, list[Row]] = {}
    for row in run.rows:
        for name in row.presets if row.stage is None and row.isa else ():
            of.setdefault(name, []).append(row)
    parts = []
    for name, rows in of.items():
        isa = max((row.isa for row in rows), key=isa_rank)
        longest: dict[tuple, Row] = {}
        for row in sorted((row for row in rows if row.isa == isa), key=lambda row: row.keys or 0):
            longest[row.pattern, row.algorithm, row.dtype, row.threads, row.extras] = row
        parts += [f"{name}, {_model_row(row)}." for row in longest.values()]
    return (
        Statement("Models", "One layer's attention, at the largest n of each shape:", tuple(parts))
        if parts
        else None
    )


def _model_row(row: Row) -> str:
    queries = (
        f"{row.queries} quer{'ies' if row.queries != 1 else 'y'} against " if row.queries != row.keys else ""
    )
    text = f"{row.pattern} · {row.algorithm} on {row.isa}, {row.dtype}"
    text += f", {row.threads} threads" if row.threads and row.threads > 1 else ""
    text += f", {queries}n={row.keys}: {formats.duration(row.median_ns)}{_doubt(row.disturbed)}"
    if row.pct_peak is not None:
        text += f", {row.pct_peak:.0f} % of the measured FMA peak"
    if row.limited_by and row.limit_pct is not None:
        text += f", nearest to the limit of {limit_text(row)} ({row.limit_pct:.0f} %)"
    return text


def _about(crossed: Sequence[Crossover], section: Section, run: Run) -> list[Statement]:
    """What a run says of one group of rows, at its best ISA level."""
    own = section.of(run=run)
    isa = max((s.isa for s in own), key=isa_rank)
    series = section.of(run=run, isa=isa)
    found = [
        _growth(series, isa),
        _levels(section, run),
        _algorithms(series, isa),
        _crossovers(crossed, section, run, isa),
        _patterns(section, run, isa),
        _stages(section, run),
        _peak(series, isa),
    ]
    return [statement for statement in found if statement]


@dataclass(frozen=True)
class Part:
    """The statements about one group of rows."""

    label: str
    statements: list[Statement]


def parts(sections: Sequence[Section], crossed: Sequence[Crossover], run: Run) -> list[Part]:
    """All that a run says: of its largest group of rows, with what holds for the whole run, and of each other one."""
    own = [s for s in sections if s.of(run=run)]
    if not own:
        return []
    found = [Part(section.label, _about(crossed, section, run)) for section in own]
    first = found[0].statements
    if not any(s.subject == "Stages" for s in first):
        # Stages may be measured in a group of their own.
        first += [said for section in sections if (said := _stages(section, run))][:1]
    models = _models(run)
    first[:0] = [models] if models else []
    return [part for part in found if part.statements]


def disturbed(run: Run) -> str:
    """How many rows other work disturbed, and how much; a sentence for runs that have some."""
    shares = [row.cpu_share for row in run.rows if row.disturbed]
    least = f", one only {100 * min(shares):.0f} %" if shares else ""
    return (
        f"{run.disturbed} of {len(run.rows)} rows had less than {100 * UNDISTURBED:.0f} % of their CPU{least}: other work "
        "ran beside them."
    )


def _stolen(run: Run) -> str:
    """What a hypervisor took, where that is enough to mislead."""
    steal = run.context.get("steal", {})
    if not (steal.get("flagged") and "share" in steal):
        return ""
    share = f"{100 * steal['share']:.1f} %"
    return f"the hypervisor took {share} of the rows' time for others: times may be too long."


def _doubted(run: Run) -> str:
    """Rows that were faster than their bytes allow, so that the bandwidth they are compared with is in doubt."""
    names = [row.id for row in run.rows if row.bandwidth_doubted]
    if not names:
        return ""
    several = len(names) > 1
    return (
        f"{len(names)} row{'s' if several else ''} read {'their' if several else 'its'} working set faster than it could be "
        "read on its own, measured once more beside it; the percentage of bandwidth, and a limit of bandwidth, are in "
        f"doubt: {', '.join(names)}."
    )


def warnings(runs: list[Run]) -> list[str]:
    """What should keep a reader from trusting the numbers, a sentence each."""
    several = len(runs) > 1
    found = []
    for run in runs:
        where = f"{run.label}: " if several else ""
        for row in run.excluded:
            found.append(f"{where}{row.id} was not measured: {row.reason}.")
        if run.context.get("incomplete"):
            found.append(f"{where}the run was interrupted; rows are missing.")
        if run.disturbed:
            found.append(
                f"{where}{disturbed(run)} Times, exponents and ratios that rest on those rows can mislead; they are marked "
                "in charts and tables. Measure again when the machine is quiet."
            )
        found += [f"{where}{text}" for text in (_stolen(run), _doubted(run)) if text]
        differ = run.context.get("checksums_differ", [])
        if differ:
            pairs = "; ".join(
                f"{entry.get('id', 'a row')} and {entry.get('with', 'another')}" for entry in differ[:3]
            )
            more = f" and {len(differ) - 3} more pairs" if len(differ) > 3 else ""
            found.append(
                f"{where}outputs that should be the same differ by more than rounding: {pairs}{more}. At least one of each "
                "two is wrong: run attnscope verify."
            )
        drift = run.context.get("drift", {})
        if drift.get("flagged") and "change" in drift:
            found.append(
                f"{where}the machine drifted: the first row, measured again at the end, took "
                f"{abs(100 * drift['change']):.1f} % {'longer' if drift['change'] > 0 else 'less'}."
            )
        if run.text("build_type") == "debug":
            found.append(f"{where}this is a debug build.")
    return found
