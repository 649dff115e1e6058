"""Tables of text: behind every chart of a page, and on a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def aligned(head: Sequence[str], lines: Sequence[Sequence[str]], left: Collection[int] = (0, 1)) -> list[str]:
    """Lines of a terminal; `left`: columns of words, numbers stand right."""
    widths = [max(len(row[i]) for row in (head, *lines)) for i in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *lines)
    ]
