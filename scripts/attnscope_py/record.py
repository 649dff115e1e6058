"""The analysis of one result file as an object: what `attnscope analyze` writes into it. docs/analysis.md has the schema."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from . import statistics as st
from . import tuning
from .analysis import AgainstDense, Section, SpeedUp
from .comparisons import Crossover, ThreadScale, crossovers, thread_scaling
from .crossover import Crossing
from .regimes import OVERHEAD_SHARE, Border, Regime
from .series import Group, Series, Variant
from .twoterm import Term, TwoTerm

SCHEMA = 2
_DIGITS = 6  # significant; the intervals have two or three


def _number(value: float) -> float | int:
    """A finite number with _DIGITS significant digits."""
    if isinstance(value, int) or value == 0:
        return value
    if not math.isfinite(value):
        raise ValueError(f"{value} in an analysis")
    return float(f"{value:.{_DIGITS}g}")


def _interval(found: st.Ratio | st.Exponent | Term) -> dict[str, Any]:
    return {"value": _number(found.value), "low": _number(found.low), "high": _number(found.high)}


def _problem(group: Group, variant: Variant, isa: str | None = None) -> dict[str, Any]:
    found = {
        "kind": group.kind,
        **({"pattern": variant.pattern} if group.kind != "kernel" else {"kernel": variant.pattern}),
        **({"algorithm": variant.algorithm} if group.kind != "kernel" else {}),
        **({"isa": isa} if isa else {}),
    }
    for field in dataclasses.fields(group):
        if field.name != "kind" and getattr(group, field.name) is not None:
            found[field.name] = getattr(group, field.name)
    if variant.extras:
        found["extras"] = list(variant.extras)
    return found


def _border(border: Border | None) -> dict[str, Any] | None:
    return {"n": _number(border.n), "kind": border.kind, "reason": border.reason} if border else None


def _regime(regime: Regime) -> dict[str, Any]:
    return {
        "n_low": regime.n_low,
        "n_high": regime.n_high,
        "lengths": regime.points,
        "exponent": _interval(regime.exponent) if regime.exponent else None,
        "lower": _border(regime.lower),
        "upper": _border(regime.upper),
        "merged": [_border(border) for border in regime.merged],
        "reason": regime.reason,
    }


def _two_term(model: TwoTerm) -> dict[str, Any]:
    terms = {"fixed_ns": model.fixed, "linear_ns": model.linear, "quadratic_ns": model.quadratic}
    return {
        "n_low": model.n_low,
        "n_high": model.n_high,
        **{name: _interval(term) | {"there": term.there} for name, term in terms.items()},
        "takes_over": _interval(model.takes_over) if model.takes_over else None,
        "text": model.text,
    }


def _series(s: Series) -> dict[str, Any]:
    headline = s.exponent
    return {
        **_problem(s.group, s.variant, s.isa),
        "n": [p.n for p in s.points],
        "exponent": {**_interval(headline), "n_low": headline.n_low, "n_high": headline.n_high}
        if headline
        else None,
        "pair_exponent": _number(s.pair_exponent) if s.pair_exponent is not None else None,
        "regimes": [_regime(regime) for regime in s.regimes],
        "two_term": _two_term(s.two_term) if s.two_term else None,
        "disturbed": [p.n for p in s.points if p.row.disturbed],
    }


def _crossing(crossing: Crossing, names: tuple[str, str]) -> dict[str, Any]:
    return {
        "n": _number(crossing.n) if crossing.n is not None else None,
        "low": _number(crossing.low),
        "high": _number(crossing.high),
        "faster_below": names[1 - crossing.faster_above],
        "faster_above": names[crossing.faster_above],
    }


def _crossover(c: Crossover) -> dict[str, Any]:
    names = c.names
    word = {-1: names[0], 0: None, 1: names[1]}
    return {
        "between": c.kind,
        "first": {"name": names[0], **_problem(c.first.group, c.first.variant, c.first.isa)},
        "second": {"name": names[1], **_problem(c.second.group, c.second.variant, c.second.isa)},
        "text": c.text,
        "crossings": [_crossing(crossing, names) for crossing in c.found.crossings],
        "lengths": [
            {"n": n, "faster": word[sign], "ratio": _interval(ratio)}
            for n, sign, ratio in zip(c.found.lengths, c.found.signs, c.found.ratios, strict=True)
        ],
        "odd": list(c.found.odd),
        "left_out": list(c.found.disturbed),
        "disturbed": c.disturbed,
    }


def _speed_up(group: Group, s: SpeedUp) -> dict[str, Any]:
    return {
        **_problem(group, s.variant, s.isa),
        "n": s.n,
        "over_scalar": _interval(s.ratio),
        "disturbed": s.disturbed,
    }


def _against_dense(group: Group, a: AgainstDense) -> dict[str, Any]:
    return {
        **_problem(group, a.variant, a.isa),
        "n": a.n,
        "over_dense": _interval(a.ratio),
        "pair_ratio": _number(a.pair_ratio) if a.pair_ratio else None,
        "efficiency": _interval(a.efficiency_interval) if a.efficiency_interval else None,
        "disturbed": a.disturbed,
    }


def _thread_scale(t: ThreadScale) -> dict[str, Any]:
    return {
        **_problem(t.series.group, t.series.variant, t.series.isa),
        "n": t.n,
        "over_one_thread": _interval(t.ratio),
        "efficiency": _interval(t.efficiency),
        "disturbed": t.disturbed,
    }


def analysis_object(sections: list[Section]) -> dict[str, Any]:
    """Of the sections of one run. The same file always gives the same object."""
    crossed = crossovers(sections)
    return {
        "schema": SCHEMA,
        "method": {
            "level": st.LEVEL,
            "time": "fastest sample",
            "ratios": "medians",
            "row_noise": st.ROW_NOISE,
            "min_lengths": st.MIN_POINTS,
            "overhead_share": OVERHEAD_SHARE,
            "replicates": st.REPLICATES,
            "seed": st.SEED,
        },
        "series": [_series(s) for section in sections for s in section.series],
        "crossovers": [_crossover(c) for c in crossed],
        "speed_ups": [_speed_up(x.group, s) for x in sections for s in x.speed_ups],
        "sparse_efficiency": [_against_dense(x.group, a) for x in sections for a in x.against_dense],
        "thread_scaling": [_thread_scale(t) for t in thread_scaling(sections)],
        "tuning": [dataclasses.asdict(choice) for choice in tuning.choices(crossed)],
    }
