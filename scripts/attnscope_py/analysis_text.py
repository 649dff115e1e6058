"""The analysis of a run as text for a terminal: what `attnscope analyze --print` shows."""

from __future__ import annotations

from collections.abc import Sequence

from . import analysis_tables
from .analysis import Section
from .comparisons import crossovers
from .results import Run
from .table import aligned


def text(run: Run, sections: Sequence[Section], name: bool) -> str:
    """All tables, under headings; `name`: headed by the run's label."""
    parts = [[run.label]] if name else []
    if run.conditions:
        parts.append([run.conditions])
    for title, table in analysis_tables.of_run(sections, crossovers(sections), run):
        parts.append([title, *aligned(table.columns, table.rows, table.numbers)])
    if run.disturbed:
        parts.append(["* rests on rows that other work disturbed"])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"
