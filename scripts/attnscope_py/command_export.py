"""`attnscope export`: a result file in the formats of other tools."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .launch import Program, one_line
from .output import same_file, write_file
from .reading import load_run
from .results import ResultError

# Known without what makes them, so that --help needs no package.
FORMATS = {
    "google-benchmark": "Google Benchmark's JSON, without what only attnscope reads",
    "csv": "tidy CSV: a line for each row",
    "csv-samples": "tidy CSV: a line for each sample",
    "github-action": "github-action-benchmark, tool customSmallerIsBetter",
    "bencher": "Bencher Metric Format (BMF) JSON",
    "openmetrics": "OpenMetrics text, as for Prometheus",
}

PROGRAM = Program("attnscope export")
fail = PROGRAM.fail

_EXAMPLES = """\
examples:
  attnscope export results.json --format csv --out rows.csv
  attnscope export results.json --format github-action > benchmark.json
  attnscope export results.json --format openmetrics --out attnscope.prom

Rows that were not measured are left out, and named on standard error. Times are medians in nanoseconds with their 95 %
intervals (OpenMetrics: seconds). results.json itself is what Google Benchmark's tools read; the format of that name
is for readers that mind what they do not know.

exit codes: 0 done; 2 wrong usage, or a file that cannot be used; 4 a file in which nothing was measured
"""


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = PROGRAM.parser(
        usage="attnscope export FILE --format FORMAT [--out FILE]",
        description="The rows of attnscope bench in the formats of other tools.",
        epilog="formats:\n"
        + "".join(f"  {name:<18} {text}\n" for name, text in FORMATS.items())
        + "\n"
        + _EXAMPLES,
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="a results.json of attnscope bench")
    parser.add_argument("--format", metavar="FORMAT", help=", ".join(FORMATS))
    parser.add_argument("--out", metavar="FILE", help="where to write (standard output)")
    arguments = parser.parse_args(argv)
    if not arguments.file:
        parser.error("no result file given")
    if arguments.format is None:
        parser.error(f"--format is missing: {', '.join(FORMATS)}")
    if arguments.format not in FORMATS:
        parser.error(f"--format '{arguments.format}': expected one of {', '.join(FORMATS)}")
    return arguments


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns or raises SystemExit with its exit code."""
    arguments = _arguments(argv)
    if arguments.out is not None and same_file(arguments.out, arguments.file):
        fail(f"{arguments.out}: named as an input and as an output")
    with PROGRAM.packages():
        from .exports import MAKERS

        try:
            run = load_run(arguments.file)
        except ResultError as error:
            fail(error, error.exit_code)
    text = MAKERS[arguments.format](run)
    if arguments.out is None:
        PROGRAM.print_out(text)
    else:
        try:
            write_file(arguments.out, text)
        except OSError as error:
            fail(f"cannot write {arguments.out}: {error.strerror}")
    for row in run.excluded:
        print(f"attnscope export: left out: {one_line(row.id)}: {one_line(row.reason)}", file=sys.stderr)
    return 0
