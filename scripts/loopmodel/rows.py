"""All loops on all CPUs: one row each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from . import assembly, model, targets


@dataclass(frozen=True)
class Row:
    """A loop as one compiler made it, on one CPU. Without a prediction `problem` says why there is none."""

    level: str
    cpu: str
    compiler: str
    function: str
    loop: assembly.Loop | None = None
    prediction: model.Prediction | None = None
    faults: tuple[str, ...] = ()
    problem: str = ""
    version: str = ""  # of the compiler, its first number: "gcc 12"

    @property
    def name(self) -> str:
        return f"{self.level} {self.cpu} {self.compiler}: {self.function}"


def compiler_version(text: str, compiler: str) -> str:
    """The compiler that wrote this assembly, from the mark it leaves at the end."""
    mark = re.search(r'\.ident\s+".*?(\d+)\.\d+\.\d+', text)
    return f"{compiler} {mark[1]}" if mark else compiler


def _rows_of(mca: str, level: targets.Level, compiler: str) -> Iterator[Row]:
    def without(problem: str) -> Iterator[Row]:
        for cpu in level.cpus:
            for function in targets.FUNCTIONS:
                yield Row(level.name, cpu, compiler, function, problem=problem)

    try:
        text = targets.assembly(level, compiler)
    except targets.TargetError as error:
        yield from without(str(error))
        return
    # gcc may have made several copies of a function; each is looked at.
    loops = [(f, loop) for f in targets.FUNCTIONS for loop in assembly.hottest_loops(text, f)]
    for cpu in level.cpus:
        predictions = model.predict(mca, level.triple, cpu, [loop for _, loop in loops])
        for (function, loop), prediction in zip(loops, predictions, strict=True):
            found = tuple(model.faults(loop, prediction, targets.FUNCTIONS[function]))
            version = compiler_version(text, compiler)
            yield Row(level.name, cpu, compiler, loop.function, loop, prediction, found, version=version)


def with_one_rate(rows: list[Row]) -> list[Row]:
    """The rows, with a fault where a CPU's model takes longer for some FMAs than for those of another loop: then no
    share of "the" FMA limit says anything, and the model is not to be believed. Those known for it are let pass."""

    def rate(row: Row) -> float:
        return row.prediction.fma_cycles / row.loop.fmas

    best: dict[tuple[str, str], Row] = {}
    for row in rows:
        other = best.get((row.level, row.cpu))
        if row.prediction and (other is None or rate(row) < rate(other)):
            best[row.level, row.cpu] = row
    judged = []
    for row in rows:
        if (
            row.prediction
            and row.cpu not in targets.TWO_RATES
            and rate(row) > 1.01 * rate(best[row.level, row.cpu])
        ):
            other = best[row.level, row.cpu]
            fault = (
                f"{rate(row):.2f} cycles an FMA by the model, where {other.function} has {rate(other):.2f}"
            )
            row = replace(row, faults=(*row.faults, fault))
        judged.append(row)
    return judged


def all_rows() -> list[Row]:
    """Every level, CPU, compiler and loop."""
    mca = model.find_mca()
    found = [
        row
        for level in targets.LEVELS
        for compiler in targets.COMPILERS
        for row in _rows_of(mca, level, compiler)
    ]
    order = [level.name for level in targets.LEVELS]
    return sorted(with_one_rate(found), key=lambda row: (order.index(row.level), row.cpu))


def table(rows: list[Row]) -> list[str]:
    """The rows as text, and below them what is wrong and what was left out."""
    head = f"{'level':7}{'CPU':16}{'compiler':10}{'loop':24}{'cycles':>7}{'FMAs':>6}{'limit':>7}{'use':>7}{'stack':>7}"
    lines = [head]
    for row in rows:
        if row.prediction:
            stack = f"{len(row.loop.stack_stores)}w {len(row.loop.stack) - len(row.loop.stack_stores)}r"
            lines.append(
                f"{row.level:7}{row.cpu:16}{row.compiler:10}{row.function:24}{row.prediction.cycles:7.2f}"
                f"{row.loop.fmas:6}{row.prediction.fma_cycles:7.2f}{100 * row.prediction.share:6.1f}%{stack:>7}"
            )
    problems = dict.fromkeys((row.level, row.compiler, row.problem) for row in rows if row.problem)
    lines += [f"left out: {level} with {compiler}: {problem}" for level, compiler, problem in problems]
    lines += [f"fault: {row.name}: {fault}" for row in rows for fault in row.faults]
    return lines
