"""What a chart is before it is drawn: panels, a caption, words for those who do not see it, and its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from .results import UNDISTURBED, Run
from .statistics import LEVEL


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Panel:
    """One plot of a figure; the page lays panels out by itself, a file puts them into columns."""

    title: str
    spec: dict[str, Any]  # Vega-Lite, without the parts that only a top level has
    alt: str  # what it shows, in words


def panel(title: str, chart: alt.TopLevelMixin, words: str) -> Panel:
    """Finishes a chart. Specifications are put together as dicts: Altair copies its own many times over."""
    spec = chart.to_dict()
    spec.pop("$schema", None)
    spec.pop("config", None)
    # What a top level keeps apart by name, a part has to carry with it.
    datasets = spec.pop("datasets", {})
    return Panel(title, _inline(spec, datasets), words)


def _inline(spec: Any, datasets: dict[str, Any]) -> Any:
    if isinstance(spec, list):
        return [_inline(part, datasets) for part in spec]
    if not isinstance(spec, dict):
        return spec
    if spec.keys() == {"name"} and spec["name"] in datasets:
        return {"values": datasets[spec["name"]]}
    return {key: _inline(part, datasets) for key, part in spec.items()}


@dataclass
class Figure:
    name: str  # of its files, without the ending
    title: str
    caption: tuple[str, ...]  # sentences
    panels: list[Panel]
    table: Table
    columns: int = 2
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # what is not on it, and why

    @property
    def alt(self) -> str:
        return " ".join([f"{self.title}.", *(panel.alt for panel in self.panels)])


def provenance(runs: Sequence[Run]) -> tuple[str, ...]:
    """Machine, compiler, date, commit and sample counts of each run, a sentence for each."""
    sentences = []
    for run in runs:
        counts = [row.sample_count for row in run.rows if row.sample_count]
        samples = ""
        if counts:
            some = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
            samples = f"{some} sample{'s' if max(counts) != 1 else ''} a row"
        commit = run.commit
        parts = [
            run.cpu,
            run.compiler,
            (run.date or "")[:16].replace("T", " "),
            f"commit {commit[:12]}" if commit else "",
            samples,
        ]
        sentences.append(f"{run.label}: " + ", ".join(part for part in parts if part) + ".")
    return tuple(sentences)


INTERVALS = f"Bands and whiskers: {100 * LEVEL:.0f} % intervals of the median, or the range of fewer than six samples."

SIDE_BY_SIDE = (
    "Series of one colour are drawn a little beside each other, so that their whiskers can be told apart."
)
HOLLOW = f"Hollow markers: other work ran beside the row, which had less than {100 * UNDISTURBED:.0f} % of its CPU; such times are too long."
ASTERISK = "An asterisk marks what rests on such rows."


def unbroken(text: str) -> str:
    """The text with its percent signs tied to their numbers."""
    return text.replace(" %", "\u00a0%")


def wrap(sentences: Sequence[str], width: int) -> list[str]:
    """Lines of at most `width` characters, for captions inside a picture."""
    lines: list[str] = []
    for word in unbroken(" ".join(sentences)).split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
