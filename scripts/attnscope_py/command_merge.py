"""`attnscope merge`: result files joined by machine."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence

from .launch import Program, one_line
from .merging import MergeError, by_machine, join
from .output import write_file
from .reading import load_run
from .results import ResultError

PROGRAM = Program("attnscope merge")
fail = PROGRAM.fail

_EXAMPLES = """\
examples:
  attnscope merge prefill.json decode.json --out fleet      fleet/<fingerprint>.json: all rows of this machine
  attnscope merge */results.json --out fleet                one file for each machine

`attnscope report fleet/*.json --out compared` then compares the machines.

Files are of one machine when their fingerprints are equal: processor, topology, compiler, flags, libraries. Of one
machine, files measured under other conditions (commit, seed, time a row, binding and the others that --resume compares)
are refused, with the fields that differ; so is a row that two files hold, unless --prefer says whose is kept. Rows of two machines never stand in one file.

exit codes: 0 done; 2 wrong usage, or a file that cannot be used; 3 files that do not fit together; 4 a file in which
nothing was measured
"""


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = PROGRAM.parser(
        usage="attnscope merge FILE... --out DIR [--prefer first|last]",
        description="Join results of attnscope bench: one file for each machine.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="a results.json of attnscope bench")
    parser.add_argument("--out", metavar="DIR", help="where to write; made when it is not there")
    parser.add_argument(
        "--prefer", metavar="WHICH", help="first or last: whose row is kept where several files have it"
    )
    arguments = parser.parse_args(argv)
    if not arguments.files:
        parser.error("no result file given")
    if not arguments.out:
        parser.error("--out DIR is needed")
    if arguments.prefer not in (None, "first", "last"):
        parser.error(f"--prefer '{arguments.prefer}': expected first or last")
    return arguments


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns or raises SystemExit with its exit code."""
    arguments = _arguments(argv)
    with PROGRAM.packages():
        try:
            groups = by_machine([load_run(path) for path in arguments.files])
            joined = {machine: join(group, arguments.prefer) for machine, group in groups.items()}
        except (ResultError, MergeError) as error:
            fail(error, error.exit_code)
    # All is joined before the first is written.
    try:
        os.makedirs(arguments.out, exist_ok=True)
        for machine, file in joined.items():
            path = os.path.join(arguments.out, f"{machine}.json")
            write_file(path, json.dumps(file, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
            several = len(groups[machine])
            PROGRAM.print_out(
                f"{one_line(path)}: {len(file['benchmarks'])} rows of {several} file{'s' if several > 1 else ''}\n"
            )
    except OSError as error:
        fail(f"cannot write {error.filename or arguments.out}: {error.strerror}")
    return 0
