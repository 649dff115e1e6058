"""All charts of some runs and the page around them, written into one directory."""

from __future__ import annotations

from collections.abc import Sequence

from . import (
    charts_machines,
    charts_memory,
    charts_peak,
    charts_roofline,
    charts_scaling,
    charts_sparse,
    charts_speedup,
    charts_stages,
    charts_threads,
    page,
    render,
    theme,
)
from .analysis import Section
from .command import Progress
from .figures import Figure
from .results import Run
from .summary import statements

# In the order of the page.
_CHARTS = (
    charts_scaling.scaling,
    charts_scaling.patterns,
    charts_sparse.efficiency,
    charts_speedup.speed_up,
    charts_stages.stages,
    charts_peak.peak,
    charts_roofline.roofline,
    charts_memory.memory,
    charts_machines.machines,
)


def figures(sections: Sequence[Section]) -> list[tuple[Section, list[Figure]]]:
    """What there is to draw for each group; groups without a chart have an empty list."""
    marks = theme.Marks([s.variant for section in sections for s in section.series])
    result = []
    number = 0
    for section in sections:
        number += 1
        suffix = f"-{number}" if number > 1 else ""
        made = [chart(section, marks, suffix) for chart in _CHARTS]
        made.append(charts_threads.threads(section, charts_threads.family(section, sections), marks, suffix))
        found = [figure for figure in made if figure]
        if not found:
            number -= 1
        result.append((section, found))
    return result


def report(runs: list[Run], sections: list[Section], warnings: list[str], directory: str) -> list[str]:
    """Draws everything, writes it into the directory, and returns the names of the files."""
    planned = figures(sections)
    total = sum(1 + len(figure.panels) for _, found in planned for figure in found)
    progress = Progress(total)
    names = []
    try:
        with render.Output(directory) as output:
            chapters = []
            for section, found in planned:
                drawn = []
                for figure in found:
                    progress.step(figure.title)
                    svg = render.figure_svg(figure)
                    for name, data in (
                        (f"{figure.name}.svg", render.svg_file(svg)),
                        (f"{figure.name}.png", render.png_file(svg)),
                    ):
                        output.write(name, data)
                        names.append(name)
                    plots = []
                    for index, panel in enumerate(figure.panels):
                        progress.step(f"{figure.title}, {panel.title}")
                        place = f"{figure.name}-{index}"
                        plots.append(page.Plot(panel, render.panel_svg(panel, place), f"plot-{place}"))
                    drawn.append(page.Drawn(figure, tuple(plots)))
                if drawn:
                    chapters.append(page.Chapter(section, tuple(drawn)))
            undrawn = [section for section, found in planned if not found]
            summaries = [(run, statements(sections, run)) for run in runs]
            output.write("report.html", page.render(runs, summaries, warnings, chapters, undrawn))
            names.append("report.html")
    finally:
        progress.close()
    return names
