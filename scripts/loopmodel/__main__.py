"""Prints the model of all loops, and with --json FILE writes it there too, for the suite `mca`.

Exit: 0 all are as they should be; 1 one is not; 2 nothing could be modelled."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from . import assembly, model, page, rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="mca.sh")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    try:
        found = rows.all_rows()
    except (model.ModelError, assembly.AssemblyError) as error:
        print(f"mca.sh: {error}", file=sys.stderr)
        return 2
    print("\n".join(rows.table(found)))
    lines = page.lines(found)
    print("\n".join(["", "docs/kernels.md:", page.HEAD, *(line.text for line in lines if line.text)]))
    if arguments.json:
        cases = [{"name": row.name, "faults": row.faults, "problem": row.problem} for row in found]
        arguments.json.write_text(
            json.dumps({"loops": cases, "page": [dataclasses.asdict(line) for line in lines]})
        )
    if not any(row.prediction for row in found):
        return 2
    return 1 if any(row.faults for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
