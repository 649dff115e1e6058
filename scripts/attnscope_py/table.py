"""Tables of text: behind every chart of a page, and on a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = (
        frozenset()
    )  # columns of numbers, which stand right where a letter is as wide as any


def aligned(head: Sequence[str], lines: Sequence[Sequence[str]], numbers: Collection[int]) -> list[str]:
    """Lines of a terminal; `numbers`: columns that stand right."""
    widths = [max(len(row[i]) for row in (head, *lines)) for i in range(len(head))]
    return [
        "  ".join(
            cell.rjust(width) if i in numbers else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *lines)
    ]
