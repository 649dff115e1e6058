"""The short table at the end of a run: a line for each series."""

from __future__ import annotations

from collections.abc import Sequence

from . import formats
from .analysis import Section, Series
from .results import Run

_HEAD = ("pattern · algorithm", "ISA", "n", "exponent [95 %]", "at largest n", "% peak")
_LEFT = {0, 1}  # columns of words; numbers stand right


def _line(s: Series) -> tuple[str, ...]:
    first, last = s.points[0].n, s.last.n
    fit = s.exponent
    pct = s.last.row.pct_peak
    return (
        s.variant.label,
        s.isa,
        f"{first}" if first == last else f"{first}..{last}",
        f"{fit.value:.2f} [{fit.low:.2f}, {fit.high:.2f}]" if fit else "-",
        formats.duration(s.last.time.value),
        f"{pct:.0f}" if pct is not None else "-",
    )


def aligned(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in (head, *lines)) for i in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if i in _LEFT else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *lines)
    ]


def text_table(sections: Sequence[Section], runs: Sequence[Run]) -> str:
    """All series, under a heading for each machine and group; ends with a newline."""
    parts = []
    for run in runs:
        for section in sections:
            lines = [_line(s) for s in section.of(run=run)]
            if lines:
                name = f"{run.label}: " if len(runs) > 1 else ""
                parts.append("\n".join([f"{name}{section.group.label}", *aligned(_HEAD, lines)]))
    return "\n\n".join(parts) + "\n" if parts else ""
