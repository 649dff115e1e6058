"""`attnscope report`: result files to tables, charts and a page."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from .results import ResultError, load_runs

_EXAMPLES = """\
examples:
  attnscope report results.json --out report           report/report.html, and each chart as SVG and PNG
  attnscope report --table results.json                a short table on standard output, nothing drawn
  attnscope report zen5.json m1.json --out compared    several machines side by side

Lines never connect two machines, and ratios are only taken within one. Files of DIR that the report names are
replaced when all of it is drawn; on an error nothing is left behind.

exit codes: 0 done; 2 wrong usage, or a file that cannot be used; 4 a file in which nothing was measured
"""


def one_line(text: object) -> str:
    """Text for a message: control characters, which could be anything in a file, made visible."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def fail(text: object, code: int = 2) -> NoReturn:
    sys.stdout.flush()
    print(f"attnscope report: {one_line(text)}", file=sys.stderr)
    raise SystemExit(code)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(f"{message}; see attnscope report --help")


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="attnscope report",
        usage="attnscope report FILE... (--out DIR | --table)",
        description="Draw the results of attnscope bench: one self-contained page, and each chart as SVG and PNG.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="a results.json of attnscope bench")
    parser.add_argument("--out", metavar="DIR", help="where to write; made when it is not there")
    parser.add_argument("--table", action="store_true", help="print the short table alone")
    arguments = parser.parse_args(argv)
    if not arguments.files:
        parser.error("no result file given")
    if arguments.table == (arguments.out is not None):
        parser.error("--out DIR or --table is needed, one of the two")
    if arguments.out == "":
        parser.error("--out '': the name of a directory is needed")
    return arguments


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


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns or raises SystemExit with its exit code."""
    arguments = _arguments(argv)
    # What is wrong with a file is said before anything large is loaded.
    try:
        runs = load_runs(arguments.files)
    except ResultError as error:
        fail(error, error.exit_code)
    try:
        from . import analysis, summary, text_table

        if not arguments.table:
            from . import draw
    except ImportError as error:
        here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
        requirements = os.path.relpath(os.path.join(here, "requirements.txt"))
        fail(
            f"the Python package {error.name} is not installed for {sys.executable}; run: "
            f"{sys.executable} -m pip install -r {requirements}, or let scripts/setup.sh python make .venv"
        )
    sections = analysis.sections(runs)
    warnings = summary.warnings(runs)
    try:
        if arguments.table:
            table = text_table.text_table(sections, runs)
            written = ""
        else:
            names = draw.report(runs, sections, warnings, arguments.out)
            table = text_table.text_table(sections, runs)
            charts = sum(name.endswith(".svg") for name in names)
            some = (
                f"{charts} chart{'s' if charts != 1 else ''}, each as SVG and PNG" if charts else "no chart"
            )
            written = f"{os.path.join(arguments.out, 'report.html')} and {some}\n"
        sys.stdout.write("\n".join(part for part in (table, written) if part))
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # the reader of a pipe has gone: no error of ours
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        fail(f"cannot write {name}{error.strerror}")
    for text in warnings:
        print(f"attnscope report: warning: {one_line(text)}", file=sys.stderr)
    return 0
