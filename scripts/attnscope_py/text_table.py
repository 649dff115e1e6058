"""The short table at the end of a run: a line for each series, with its headline exponent and where that holds."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from . import formats
from .analysis import Section
from .results import Run
from .series import Series
from .summary import disturbed
from .table import aligned

_HEAD = ("pattern · algorithm", "ISA", "n", "exponent [95 %]", "at largest n", "% peak")
_NUMBERS = frozenset(range(2, 6))
_WIDTH = 100


def _line(s: Series, marked: bool) -> tuple[str, ...]:
    """`marked`: the table has asterisks, and what has none keeps their place."""

    def mark(text: str, disturbed: bool) -> str:
        return text + (("*" if disturbed else " ") if marked else "")

    fit = s.exponent
    first, last = fit.n_low if fit else s.points[0].n, s.last.n
    pct = s.last.row.pct_peak
    return (
        s.variant.label,
        s.isa,
        f"{first}" if first == last else f"{first}..{last}",
        mark(f"{fit.value:.2f} [{fit.low:.2f}, {fit.high:.2f}]" if fit else "-", bool(s.disturbed_fit)),
        mark(formats.duration(s.last.time.value), s.last.row.disturbed),
        mark(f"{pct:.0f}" if pct is not None else "-", s.last.row.disturbed),
    )


def _disturbed(run: Run, name: str) -> str:
    """Above the table, so that it stands there when the table is kept and the warnings are not."""
    text = f"{name}Disturbed: {disturbed(run)} * marks what rests on such rows."
    return textwrap.fill(text, _WIDTH)


def text_table(sections: Sequence[Section], runs: Sequence[Run]) -> str:
    """All series, under a heading for each machine and group; ends with a newline."""
    parts = []
    for run in runs:
        if run.disturbed:
            parts.append(_disturbed(run, f"{run.label}: " if len(runs) > 1 else ""))
        if run.conditions:
            parts.append(f"{run.label + ': ' if len(runs) > 1 else ''}{run.conditions}")
        for section in sections:
            some = section.of(run=run)
            marked = any(s.disturbed_fit or s.last.row.disturbed for s in some)
            lines = [_line(s, marked) for s in some]
            if lines:
                name = f"{run.label}: " if len(runs) > 1 else ""
                parts.append("\n".join([f"{name}{section.group.label}", *aligned(_HEAD, lines, _NUMBERS)]))
    return "\n\n".join(parts) + "\n" if parts else ""
