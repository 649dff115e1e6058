"""What a chart is before it is drawn: panels, a caption, words for those who do not see it, and its numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import theme
from .layers import Spec
from .results import UNDISTURBED, Run
from .series import isa_rank
from .statistics import LEVEL
from .table import Table


@dataclass(frozen=True)
class Panel:
    """One plot of a figure; the page lays panels out by itself, a file puts them into columns."""

    title: str
    spec: dict[str, Any]  # Vega-Lite, without the parts that only a top level has
    alt: str  # what it shows, in words
    series: tuple[dict[str, str], ...] = ()  # what it shows, as far as it can be hidden: theme.keys()


def panel(title: str, spec: Spec, words: str) -> Panel:
    """Finishes a chart."""
    series: dict[tuple, dict[str, str]] = {}
    finished = _finish(spec, series)
    # A heading above several series is none itself.
    own = [keys for keys in series.values() if not any(keys.items() < o.items() for o in series.values())]
    return Panel(title, finished, words, tuple(own))


def _finish(spec: Any, series: dict[tuple, dict[str, str]]) -> Any:
    """Data without what is hidden; notes in `series` what can be."""
    if isinstance(spec, list):
        return [_finish(part, series) for part in spec]
    if not isinstance(spec, dict):
        return spec
    values = spec["data"]["values"] if "data" in spec else ()
    made = {
        key: {"values": list(values)} if key == "data" else _finish(part, series)
        for key, part in spec.items()
    }
    fields = set()
    for row in values:
        keys = {name: row[name] for name in theme.TOGGLES if row.get(name)}
        fields |= keys.keys()
        if keys:
            series.setdefault(tuple(keys.items()), keys)
    if fields:
        made["transform"] = [{"filter": theme.shown_filter(fields)}, *made.get("transform", [])]
    return made


def _hovers(part: Any) -> bool:
    mark = part.get("mark") if isinstance(part, dict) else None
    return isinstance(mark, dict) and mark.get("style") == theme.HOVER


def still(spec: Any) -> Any:
    """The specification without what only a pointer finds."""
    if isinstance(spec, list):
        return [still(part) for part in spec if not _hovers(part)]
    return {key: still(part) for key, part in spec.items()} if isinstance(spec, dict) else spec


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

    def toggles(self, field: str) -> list[str]:
        """What of one kind its panels show; nothing where there is nothing to choose between."""
        found = dict.fromkeys(s[field] for panel in self.panels for s in panel.series if field in s)
        if len(found) < 2:
            return []
        return sorted(found, key=isa_rank) if field == "isa" else list(found)


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
            run.conditions,
        ]
        sentences.append(f"{run.label}: " + ", ".join(part for part in parts if part) + ".")
    return tuple(sentences)


INTERVALS = f"Bands and whiskers: {100 * LEVEL:.0f} % intervals of the median, or the range of fewer than six samples."

FASTEST = "Exponents and crossovers rest on the fastest sample of each row, which other work slows down least, not on its median."

SIDE_BY_SIDE = (
    "Series of one colour are drawn a little beside each other, so that their whiskers can be told apart."
)
HOLLOW = f"Hollow markers: other work ran beside the row, which had less than {100 * UNDISTURBED:.0f} % of its CPU; such times may be too long."
ASTERISK = "An asterisk marks what rests on such rows."


TITLE_CHARACTERS = 46  # that fit above a panel


def title_lines(title: str) -> list[str]:
    """A panel's title over several lines, broken at spaces and at the commas of patterns."""
    found = [""]
    for part in re.findall(r"[^, ]*,? ?", title):
        if found[-1] and len((found[-1] + part).rstrip()) > TITLE_CHARACTERS:
            found.append(part)
        else:
            found[-1] += part
    return [line.rstrip() for line in found]


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
