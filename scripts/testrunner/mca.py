"""The suite `mca`: a case for each loop, CPU and compiler that scripts/mca.sh models, and one for each line of the
table in docs/kernels.md, which has to say what was found."""

import json
import sys
from pathlib import Path

from loopmodel import page
from loopmodel.model import ModelError, find_mca

from .commands import CommandError, Commands
from .results import FAILED, PASSED, SKIPPED, Case

PAGE = "docs/kernels.md"


def impossible() -> str:
    """Why nothing can be modelled here; empty if it can."""
    try:
        find_mca()
    except ModelError as error:
        return str(error)
    return ""


def read_cases(text: str, page_text: str) -> list[Case]:
    """From what `python -m loopmodel --json` wrote, and the page that says the same."""
    found = json.loads(text)
    cases = []
    for row in found["loops"]:
        if row["problem"]:
            cases.append(Case(row["name"], SKIPPED, row["problem"]))
        elif row["faults"]:
            cases.append(Case(row["name"], FAILED, "; ".join(row["faults"])))
        else:
            cases.append(Case(row["name"], PASSED))
    for line in (page.Line(**values) for values in found["page"]):
        wrong, problem = page.difference(page_text, line)
        status = FAILED if wrong else SKIPPED if problem else PASSED
        cases.append(Case(f"{PAGE}: {line.level} {line.cpu}", status, wrong or problem))
    return cases


def run_mca(commands: Commands) -> list[Case]:
    output = Path(commands.log).with_suffix(".json")
    output.unlink(missing_ok=True)
    status = commands.run([sys.executable, "-m", "loopmodel", "--json", output])
    if not output.exists():
        raise CommandError("loopmodel: " + ("out of time" if status == -1 else f"exit status {status}"))
    return read_cases(output.read_text(), (commands.root / PAGE).read_text())
