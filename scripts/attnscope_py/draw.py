"""All charts of some runs and the page around them, written into one directory."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from altair.utils import schemapi

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
    fonts,
    page,
    render,
    theme,
)
from .analysis import Section
from .comparisons import crossovers
from .figures import Figure
from .output import Directory
from .results import Run
from .summary import parts

_MOST_WORKERS = 8
_WORTH_A_WORKER = 12  # pictures

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


class Progress:
    """Says on a terminal what is being drawn, once that has taken two seconds."""

    def __init__(self, total: int):
        self._total = total
        self._done = 0
        self._start = time.monotonic()
        self._shown = False

    def step(self, name: str) -> None:
        self._done += 1
        if sys.stderr.isatty() and time.monotonic() - self._start > 2:
            print(f"\r\033[Kdrawing {self._done}/{self._total}: {name}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def close(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def figures(sections: Sequence[Section]) -> list[tuple[Section, list[Figure]]]:
    """What there is to draw for each group; groups without a chart have an empty list."""
    # What is made is checked against Vega-Lite's schema by tests, not once more, part by part, for every user.
    with schemapi.debug_mode(False):
        return _figures(sections)


def _figures(sections: Sequence[Section]) -> list[tuple[Section, list[Figure]]]:
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


@dataclass(frozen=True)
class _Task:
    """One picture: a figure for its files, or a panel for the page."""

    figure: Figure
    panel: int | None  # its number
    png: bool  # of a figure: as PNG too?


def _draw(task: _Task) -> dict[str, bytes] | str:
    """Files of a figure by their endings, or a panel's SVG."""
    if task.panel is not None:
        return render.panel_svg(task.figure.panels[task.panel], f"{task.figure.name}-{task.panel}")
    svg = render.figure_svg(task.figure)
    return {"svg": render.svg_file(svg)} | ({"png": render.png_file(svg)} if task.png else {})


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal's group; this one's parent says so, and ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _drawing(tasks: Sequence[_Task]) -> Iterator[Iterator[dict[str, bytes] | str]]:
    """Draws all of them, in order: on every CPU that this process may use, where that is worth starting a renderer on
    each, which takes a second."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    workers = min(cpus, _MOST_WORKERS, len(tasks) // _WORTH_A_WORKER)
    if workers < 2:
        yield map(_draw, tasks)
        return
    fonts.css()  # once for all
    # Copies of this process, which have all modules; no renderer and none of its threads has been started here yet.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), _ignore_interrupts) as pool:
        try:
            yield pool.map(_draw, tasks)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def report(
    runs: list[Run], sections: list[Section], warnings: list[str], directory: str, png: bool = True
) -> list[str]:
    """Draws everything, writes it into the directory, and returns the names of the files."""
    planned = figures(sections)
    tasks = [
        _Task(figure, index, png)
        for _, found in planned
        for figure in found
        for index in (None, *range(len(figure.panels)))
    ]
    progress = Progress(len(tasks))
    names = []
    try:
        with Directory(directory) as output, _drawing(tasks) as drawings:
            chapters = []
            for section, found in planned:
                of_section = []
                for figure in found:
                    progress.step(figure.title)
                    files = {f"{figure.name}.{ending}": data for ending, data in next(drawings).items()}
                    for name, data in files.items():
                        output.write(name, data)
                        names.append(name)
                    plots = []
                    for index, panel in enumerate(figure.panels):
                        progress.step(f"{figure.title}, {index + 1}")
                        still = next(drawings)
                        plots.append(page.Plot(panel, still, f"plot-{figure.name}-{index}"))
                    of_section.append(page.Drawn(figure, tuple(plots), tuple(files)))
                if of_section:
                    chapters.append(page.Chapter(section, tuple(of_section)))
            crossed = crossovers(sections)
            summaries = [(run, parts(sections, crossed, run)) for run in runs]
            output.write("report.html", page.render(runs, summaries, warnings, chapters, sections, crossed))
            names.append("report.html")
    finally:
        progress.close()
    return names
