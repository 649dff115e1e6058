"""The analysis of a run as text for a terminal: what `attnscope analyze --print` shows."""

from __future__ import annotations

from collections.abc import Sequence

from . import formats, tuning
from .analysis import Section
from .comparisons import KINDS, crossovers, thread_scaling
from .regimes import Regime
from .results import Run
from .series import Series
from .statistics import Ratio
from .text_table import aligned

_TITLES = {
    "algorithm": "naive against flash",
    "pattern": "patterns",
    "isa": "ISA levels",
    "threads": "threads",
}


def _interval(ratio: Ratio) -> str:
    value, low, high = (formats.significant(v) for v in (ratio.value, ratio.low, ratio.high))
    return f"{value} [{low}, {high}]"


def _regime(s: Series, regime: Regime) -> str:
    fit = regime.exponent
    grows = f"n^{fit.value:.2f} [{fit.low:.2f}, {fit.high:.2f}]" if fit else "-"
    disturbed = "*" if any(p.row.disturbed and regime.n_low <= p.n <= regime.n_high for p in s.points) else ""
    return f"    {regime.n_low}..{regime.n_high}: {grows}{disturbed}  {regime.reason}"


def _series(section: Section) -> list[str]:
    lines = [section.group.label]
    for s in section.series:
        lines.append(f"  {s.variant.label}, {s.isa}" + (f": {s.two_term.text}" if s.two_term else ""))
        lines += [_regime(s, regime) for regime in s.regimes] or [f"    {s.regime}"]
    return lines


def _ratios(sections: Sequence[Section]) -> list[str]:
    lines: list[tuple[str, ...]] = []
    for section in sections:
        for a in section.against_dense:
            efficiency = a.efficiency_interval
            if efficiency and a.n == max(
                o.n for o in section.against_dense if (o.variant, o.isa) == (a.variant, a.isa)
            ):
                mark = "*" if a.disturbed else ""
                share = f"{100 * efficiency.value:.0f} % [{100 * efficiency.low:.0f}, {100 * efficiency.high:.0f}]{mark}"
                lines.append((a.variant.label, a.isa, f"{a.n}", _interval(a.ratio), share))
    if not lines:
        return []
    return [
        "Sparse efficiency, at the largest n",
        *aligned(("pattern", "ISA", "n", "over dense", "efficiency"), lines),
    ]


def _threads(sections: Sequence[Section]) -> list[str]:
    lines = [
        (
            t.series.variant.label,
            t.series.isa,
            f"{t.n}",
            f"{t.threads}",
            _interval(t.ratio),
            f"{100 * t.efficiency.value:.0f} %{'*' if t.disturbed else ''}",
        )
        for t in thread_scaling(sections)
    ]
    if not lines:
        return []
    head = ("pattern", "ISA", "n", "threads", "over one thread", "efficiency")
    return ["Thread scaling", *aligned(head, lines)]


def text(run: Run, sections: Sequence[Section], name: bool) -> str:
    """All of it, under headings; `name`: headed by the run's label."""
    parts = [[run.label]] if name else []
    parts += [_series(section) for section in sections if section.series]
    found = crossovers(sections)
    for kind in KINDS:
        some = [c for c in found if c.kind == kind]
        if some:
            parts.append(
                [f"Crossovers: {_TITLES[kind]}"]
                + [
                    f"  {c.where}: {c.names[0]} / {c.names[1]}: {c.text}{'*' if c.disturbed else ''}"
                    for c in some
                ]
            )
    parts += [_ratios(sections), _threads(sections)]
    chosen = [
        (
            e.isa,
            e.dtype,
            f"{e.head_dim}",
            f"{e.value_dim}",
            e.pattern,
            f"{e.threads}",
            f"{e.from_n}",
            e.algorithm,
        )
        for e in tuning.choices(found)
    ]
    if chosen:
        head = ("ISA", "type", "head dim", "value dim", "pattern", "threads", "from n", "algorithm")
        parts.append(["Tuning", *aligned(head, chosen)])
    if run.disturbed:
        parts.append(["* rests on rows that other work disturbed"])
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
