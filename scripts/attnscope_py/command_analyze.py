"""`attnscope analyze`: the analysis of result files into the files themselves, or as text."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from typing import Any

from .launch import Program, one_line
from .output import write_file
from .reading import load_runs
from .results import ResultError, Run

_EXAMPLES = """\
examples:
  attnscope analyze results.json                  writes the object "analysis" into the file
  attnscope analyze --print results.json          shows it as text; the file stays as it is
  attnscope analyze zen5.json m1.json             each file gets its own

For every series over n: the exponent in each regime with its interval and the reason for its borders, and where a
quadratic term takes over. For every two series of a file that differ in algorithm, pattern, ISA level or threads: from
which n on which is faster. Speed-ups, sparse efficiency, thread scaling, and a tuning table: which algorithm from which
n. docs/analysis.md describes the object. An analysis that is there is replaced; `attnscope report` computes its own.

exit codes: 0 done; 2 wrong usage, or a file that cannot be used; 4 a file in which nothing was measured
"""


PROGRAM = Program("attnscope analyze")
fail = PROGRAM.fail


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = PROGRAM.parser(
        usage="attnscope analyze [--print] FILE...",
        description="Exponents, crossovers, speed-ups and a tuning table from the results of attnscope bench.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="a results.json of attnscope bench")
    parser.add_argument("--print", dest="shown", action="store_true", help="print as text, change no file")
    arguments = parser.parse_args(argv)
    if not arguments.files:
        parser.error("no result file given")
    return arguments


def _write(run: Run, analysis: dict[str, Any]) -> None:
    whole = run.raw | {"analysis": analysis}
    write_file(run.path, json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns or raises SystemExit with its exit code."""
    arguments = _arguments(argv)
    if not arguments.shown:
        for path in arguments.files:
            if os.path.exists(path) and not os.path.isfile(path):
                fail(f"{path} is not a regular file, into which an analysis could be written; see --print")
    with PROGRAM.packages():
        try:
            runs = load_runs(arguments.files)
        except ResultError as error:
            fail(error, error.exit_code)
        from . import analysis, analysis_text, record, summary
    found = [(run, analysis.sections([run])) for run in runs]
    if arguments.shown:
        parts = [analysis_text.text(run, sections, name=len(runs) > 1) for run, sections in found]
        PROGRAM.print_out("\n".join(parts))
        for text in summary.warnings(runs):
            PROGRAM.warn(text)
        return 0
    # All are computed before the first is written.
    for run, made in [(run, record.analysis_object(sections)) for run, sections in found]:
        try:
            _write(run, made)
        except OSError as error:
            fail(f"cannot write {run.path}: {error.strerror}")
        series, crossovers = _counted(len(made["series"]), "series", "series"), len(made["crossovers"])
        entries = _counted(len(made["tuning"]), "entry", "entries")
        PROGRAM.print_out(
            f"{one_line(run.path)}: {series}, {_counted(crossovers, 'comparison', 'comparisons')}, {entries} of tuning\n"
        )
    return 0
