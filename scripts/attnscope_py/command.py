"""`attnscope report`: result files to tables, charts and a page."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from .launch import Program
from .output import same_file
from .reading import load_runs
from .results import ResultError

_EXAMPLES = """\
examples:
  attnscope report results.json --out report           report/report.html, and each chart as SVG and PNG
  attnscope report results.json --out d --no-png       the same without PNG, which is sooner done
  attnscope report --table results.json                a short table on standard output, nothing drawn
  attnscope report zen5.json m1.json --out compared    several machines side by side

Lines never connect two machines, and ratios are only taken within one. Files of DIR that the report names are
replaced when all of it is drawn; on an error nothing is left behind.

An installed attnscope takes the Python that ATTNSCOPE_PYTHON names, else python3; one built in a source tree takes
the tree's .venv. Where a Python package is missing, the message says how to install it.

exit codes: 0 done; 2 wrong usage, or a file that cannot be used; 4 a file in which nothing was measured
"""


PROGRAM = Program("attnscope report")
fail = PROGRAM.fail


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = PROGRAM.parser(
        usage="attnscope report FILE... (--out DIR [--no-png] | --table)",
        description="Draw the results of attnscope bench: one self-contained page, and each chart as SVG and PNG.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="a results.json of attnscope bench")
    parser.add_argument("--out", metavar="DIR", help="where to write; made when it is not there")
    parser.add_argument(
        "--no-png",
        dest="png",
        action="store_false",
        help="charts as SVG alone, which takes less time",
    )
    parser.add_argument("--table", action="store_true", help="print the short table alone")
    arguments = parser.parse_args(argv)
    if not arguments.files:
        parser.error("no result file given")
    if arguments.table == (arguments.out is not None):
        parser.error("--out DIR or --table is needed, one of the two")
    if arguments.table and not arguments.png:
        parser.error("--no-png does not apply to --table, which draws nothing")
    if arguments.out == "":
        parser.error("--out '': the name of a directory is needed")
    return arguments


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns or raises SystemExit with its exit code."""
    arguments = _arguments(argv)
    # Whatever the report's files will be called, none of them can be an input.
    for path in arguments.files if arguments.out is not None else ():
        name = os.path.basename(os.path.realpath(path))
        if same_file(os.path.join(arguments.out, name), path) and name.endswith((".html", ".svg", ".png")):
            fail(f"{path}: named as an input, and in {arguments.out} the report may replace it")
    # What is wrong with a file is said before anything large is loaded.
    with PROGRAM.packages():
        try:
            runs = load_runs(arguments.files)
        except ResultError as error:
            fail(error, error.exit_code)
        from . import analysis, summary, text_table

        if not arguments.table:
            from . import draw
    sections = analysis.sections(runs)
    warnings = summary.warnings(runs)
    try:
        if arguments.table:
            table = text_table.text_table(sections, runs)
            written = ""
        else:
            names = draw.report(runs, sections, warnings, arguments.out, arguments.png)
            table = text_table.text_table(sections, runs)
            charts = sum(name.endswith(".svg") for name in names)
            some = (
                f"{charts} chart{'s' if charts != 1 else ''}, {'each as SVG and PNG' if arguments.png else 'as SVG'}"
                if charts
                else "no chart"
            )
            written = f"{os.path.join(arguments.out, 'report.html')} and {some}\n"
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        fail(f"cannot write {name}{error.strerror}")
    PROGRAM.print_out("\n".join(part for part in (table, written) if part))
    for text in warnings:
        PROGRAM.warn(text)
    return 0
