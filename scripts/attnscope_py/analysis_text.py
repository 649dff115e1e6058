"""The analysis of a run as text for a terminal: what `attnscope analyze --print` shows."""

from __future__ import annotations

from collections.abc import Sequence

from . import analysis_tables
from .analysis import Section
from .results import Run
from .table import Table, aligned


def _words(table: Table) -> set[int]:
    """Columns of words: those with more than numbers and their units."""
    return {
        i
        for i in range(len(table.columns))
        if any(
            cell and not cell[0].isdigit() and cell[0] not in "n-" for cell in (row[i] for row in table.rows)
        )
    }


def text(run: Run, sections: Sequence[Section], name: bool) -> str:
    """All tables, under headings; `name`: headed by the run's label."""
    parts = [[run.label]] if name else []
    if run.conditions:
        parts.append([run.conditions])
    for title, table in analysis_tables.of_run(sections, run):
        parts.append([title, *aligned(table.columns, table.rows, _words(table))])
    if run.disturbed:
        parts.append(["* rests on rows that other work disturbed"])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"
