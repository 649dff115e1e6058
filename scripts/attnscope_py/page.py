"""The report: one page with everything in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from . import analysis_tables, figures, fonts, formats, interactive, theme
from .analysis import Section, not_chartable
from .comparisons import Crossover
from .figures import Figure, Panel
from .render import titled
from .results import Run
from .summary import Part
from .table import Table

_TEMPLATE = "page.html.jinja"


@dataclass(frozen=True)
class Plot:
    """One panel on the page: its still picture, and its place."""

    panel: Panel
    svg: str
    id: str

    @property
    def width(self) -> str:
        return self.svg.partition(' width="')[2].partition('"')[0]

    @property
    def series(self) -> str:
        """What it shows, for the script."""
        return json.dumps(self.panel.series, ensure_ascii=False)


@dataclass(frozen=True)
class Drawn:
    """A figure with its panels as they stand on the page."""

    figure: Figure
    plots: tuple[Plot, ...]
    files: tuple[str, ...]  # the names of its own

    @property
    def toggles(self) -> dict[str, list[str]]:
        """What can be hidden in this figure alone; machines are chosen for the whole page."""
        found = {name: self.figure.toggles(name) for name in theme.TOGGLES if name != "machine"}
        return {name: values for name, values in found.items() if values}


@dataclass(frozen=True)
class Chapter:
    """The figures of one group."""

    section: Section
    figures: tuple[Drawn, ...]


def all_rows(runs: Sequence[Run]) -> Table:
    """Every row that was measured, those that stand on no chart too."""
    machine = ("machine",) if len(runs) > 1 else ()
    rows = tuple(
        (
            *((run.label,) if machine else ()),
            row.id,
            row.isa or "",
            formats.duration(row.median_ns, 4),
            f"{formats.duration(row.min_ns, 4)} to {formats.duration(row.max_ns, 4)}",
            f"{row.sample_count or ''}",
            f"{row.pct_peak:.1f}" if row.pct_peak is not None else "",
            formats.bandwidth(row),
            formats.size(row.workspace_bytes) if row.workspace_bytes is not None else "",
            formats.size(row.resident_bytes) if row.resident_bytes is not None else "",
            formats.duration(row.stolen_ns) if row.stolen_ns is not None else "",
            formats.cpu_share(row),
        )
        for run in runs
        for row in run.rows
    )
    return Table(
        (
            *machine,
            "id",
            "ran at",
            "median",
            "range",
            "samples",
            "% of peak",
            "% of bandwidth",
            "workspace",
            "resident",
            "stolen",
            "CPU",
        ),
        rows,
    )


_COUNTERS = ("instructions", "cycles", "ipc", "l1d_misses", "llc_misses", "branch_misses", "share_counted")


def counters(run: Run) -> Table:
    """Hardware counters of each row, a call; the reason where a row has none."""
    named = {name for row in run.rows for name in row.counters} - {"reason"}
    columns = [*(name for name in _COUNTERS if name in named), *sorted(named - set(_COUNTERS))]
    rows = tuple(
        (
            row.id,
            *(formats.significant(row.counters[name], 4) if name in row.counters else "" for name in columns),
            row.counters.get("reason", ""),
        )
        for row in run.rows
        if row.counters
    )
    return Table(("id", *(name.replace("_", " ") for name in columns), "why not"), rows)


def counters_reason(run: Run) -> str:
    """Why the whole run has none, or less than all."""
    said = run.context.get("counters", {})
    missing = said.get("missing", {})
    if said.get("available"):
        return (
            "; ".join(f"{name}: {why}" for name, why in missing.items()) if isinstance(missing, dict) else ""
        )
    return said.get("reason", "" if any(row.counters for row in run.rows) else "the file has none")


def context_table(run: Run) -> Table:
    """All that the file says of machine and build, one line each."""
    rows: list[tuple[str, str]] = []

    def walk(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{name}.{key}" if name else key, inner)
        elif isinstance(value, list):
            if any(isinstance(inner, (dict, list)) for inner in value):
                for index, inner in enumerate(value):
                    walk(f"{name}[{index}]", inner)
            elif value:
                rows.append((name, ", ".join(_cell(inner) for inner in value)))
        elif value is not None and value != "":
            rows.append((name, _cell(value)))

    walk("", run.context)
    return Table(("field", "value"), tuple(rows))


def not_drawn(runs: Sequence[Run], undrawn: Sequence[Section]) -> list[str]:
    """Rows that stand on no chart at all, and why."""
    found = []
    for run in runs:
        where = f"{run.label}: " if len(runs) > 1 else ""
        found += [f"{where}{row.id}: not measured, {row.reason}" for row in run.excluded]
        found += [f"{where}{row.id}: {reason}" for row in run.rows if (reason := not_chartable(row))]
    for section in undrawn:
        for s in section.series:
            where = f"{s.run.label}: " if len(runs) > 1 else ""
            found += [f"{where}{p.row.id}: measured at one length alone" for p in s.points]
    return found


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def render(
    runs: Sequence[Run],
    summaries: Sequence[tuple[Run, Sequence[Part]]],
    warnings: Sequence[str],
    chapters: Sequence[Chapter],
    sections: Sequence[Section],
    crossed: Sequence[Crossover],
) -> bytes:
    """The page in UTF-8. It loads nothing, and needs no script to be read."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = figures.unbroken
    plots = [plot for chapter in chapters for drawn in chapter.figures for plot in drawn.plots]
    specs = {plot.id: titled(plot.panel) for plot in plots}
    scripts = interactive.scripts() if specs else ()
    page = environment.get_template(_TEMPLATE).render(
        runs=runs,
        summaries=summaries,
        warnings=warnings,
        chapters=chapters,
        not_drawn=not_drawn(runs, [s for s in sections if all(c.section is not s for c in chapters)]),
        analyses=[(run, analysis_tables.of_run(sections, crossed, run)) for run in runs],
        counters=[(run, counters(run), counters_reason(run)) for run in runs],
        all_rows=all_rows(runs),
        contexts=[(run, context_table(run)) for run in runs],
        theme=theme,
        font_css=Markup(fonts.css()),
        charts=Markup(interactive.charts(specs)),
        scripts=[Markup(script) for script in scripts],
        policy=interactive.policy(scripts),
        fastest=figures.FASTEST,
    )
    return page.encode("utf-8")
