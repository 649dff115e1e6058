"""The table of docs/kernels.md: what the model says of a level on a CPU, as one line."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from . import targets
from .rows import Row

HEAD = (
    "| level | CPU model | compilers | step: cycles | FMA limit | share | exponentials: cycles | FMA limit |"
)
# Of neon's exponentials there is no figure: gcc and clang store with post-index, and LLVM's models let the next turn's
# address wait for what is stored, which makes a turn as long as all of its latencies.
EXPONENTIALS = ("avx2", "avx512")
PRODUCTS = tuple(function for function in targets.PRODUCTS if function != "fma_peak")


@dataclass(frozen=True)
class Line:
    """One level on one CPU. Without a text `problem` says why there is none."""

    level: str
    cpu: str
    text: str = ""
    problem: str = ""


def _is_of(row: Row, functions: tuple[str, ...]) -> bool:
    return row.function.split(".")[0] in functions  # gcc's copies have a suffix


def _spread(values: list[float], form: Callable[[float], str]) -> str:
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def _cells(rows: list[Row]) -> tuple[str, str, str]:
    """Cycles, limit and share. A turn of several steps counts as that many: a step is the loop of the fewest FMAs."""
    step = min(row.loop.fmas for row in rows)
    cycles = [row.prediction.cycles * step / row.loop.fmas for row in rows]
    limits = [row.prediction.fma_cycles * step / row.loop.fmas for row in rows]
    return (
        _spread(cycles, lambda x: f"{x:.2f}"),
        _spread(limits, lambda x: f"{x:g}"),
        _spread([100 * row.prediction.share for row in rows], lambda x: f"{x:.0f}") + " %",
    )


def lines(rows: list[Row]) -> list[Line]:
    found = []
    for level, cpu in dict.fromkeys((row.level, row.cpu) for row in rows):
        some = [row for row in rows if (row.level, row.cpu) == (level, cpu)]
        problem = next((row.problem for row in some if row.problem), "")
        if problem:
            found.append(Line(level, cpu, problem=problem))
            continue
        compilers = ", ".join(sorted({row.version for row in some}, reverse=True))
        step = _cells([row for row in some if _is_of(row, PRODUCTS)])
        cycles, limit = "", ""
        if level in EXPONENTIALS:
            cycles, limit, _ = _cells([row for row in some if _is_of(row, ("exponentials_",))])
        found.append(Line(level, cpu, f"| {' | '.join((level, cpu, compilers, *step, cycles, limit))} |"))
    return found


def difference(text: str, line: Line) -> tuple[str, str]:
    """What is wrong with the page whose text is given, and why it cannot be compared; both empty if it is right.

    Other compilers make other loops, of which the page says nothing."""
    if line.problem:
        return "", line.problem
    start = f"| {line.level} | {line.cpu} |"
    stated = next((row for row in text.splitlines() if row.startswith(start)), "")
    if stated == line.text:
        return "", ""
    compilers = re.compile(r"(?:\|[^|]*){2}\|([^|]*)\|")
    has, made = compilers.match(stated), compilers.match(line.text)
    if has and has[1] != made[1]:
        return "", f"the page's figures are those of{has[1]}and not of{made[1]}".rstrip()
    return f"the line must be: {line.text}", ""
