"""The suite `mca`: a case for each loop, CPU and compiler that scripts/mca.sh models."""

import json
import sys
from pathlib import Path

from loopmodel.model import ModelError, find_mca

from .commands import CommandError, Commands
from .results import FAILED, PASSED, SKIPPED, Case


def impossible() -> str:
    """Why nothing can be modelled here; empty if it can."""
    try:
        find_mca()
    except ModelError as error:
        return str(error)
    return ""


def read_cases(text: str) -> list[Case]:
    """From what `python -m loopmodel --json` wrote."""
    cases = []
    for row in json.loads(text):
        if row["problem"]:
            cases.append(Case(row["name"], SKIPPED, row["problem"]))
        elif row["faults"]:
            cases.append(Case(row["name"], FAILED, "; ".join(row["faults"])))
        else:
            cases.append(Case(row["name"], PASSED))
    return cases


def run_mca(commands: Commands) -> list[Case]:
    output = Path(commands.log).with_suffix(".json")
    output.unlink(missing_ok=True)
    status = commands.run([sys.executable, "-m", "loopmodel", "--json", output])
    if not output.exists():
        raise CommandError("loopmodel: " + ("out of time" if status == -1 else f"exit status {status}"))
    return read_cases(output.read_text())
