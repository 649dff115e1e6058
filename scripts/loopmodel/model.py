"""Runs llvm-mca on loops and judges what it says of them."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass

from .assembly import Loop

# The share of the FMA pipes' rate that a loop has to reach by the model.
LEAST_SHARE = 0.90
ITERATIONS = 1000  # the first ones fill the pipeline; of so many that is less than 0.2 %
VERSION = 19  # models differ between versions; that of znver4 was wrong in 16


class ModelError(Exception):
    """llvm-mca is missing or did not do what was asked; the text says what."""


@dataclass(frozen=True)
class Prediction:
    """One loop on one CPU, in cycles of one turn."""

    cycles: float
    fma_cycles: float  # what the FMA pipes need for the loop's FMAs alone

    @property
    def share(self) -> float:
        return self.fma_cycles / self.cycles


def find_mca() -> str:
    """The program of the right version; a ModelError says what to install."""
    for name in (f"llvm-mca-{VERSION}", "llvm-mca"):
        program = shutil.which(name)
        if program:
            said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            # What is installed under the version's name is taken for it: a program that does not start fails when
            # it is used, with its words, and is not a reason to leave the suite out.
            if name != "llvm-mca" or re.search(rf"version {VERSION}\.", said):
                return program
    raise ModelError(f"needs llvm-mca {VERSION} (package llvm-{VERSION} of Debian and Ubuntu)")


def fmas_alone(loop: Loop) -> list[str]:
    """The loop's FMAs without their loads: an operand in memory becomes a register of that width."""
    alone = []
    for line in loop.fma_instructions:
        register = re.search(r"%([xyz]mm)\d", line)
        if register:
            line = re.sub(r"[^\s,]*\([^)]*\)(\{1to\d+\})?", f"%{register[1]}0", line)
        alone.append(line)
    return alone


def regions(blocks: list[list[str]]) -> str:
    """Input of llvm-mca: each block a region of its own. "#" starts a comment on AArch64 too; with "//"
    llvm-mca does not see the marks and takes everything for one block."""
    text = []
    for block in blocks:
        text += ["# LLVM-MCA-BEGIN", *block, "# LLVM-MCA-END"]
    return "\n".join(text) + "\n"


def read_predictions(output: str, loops: int) -> list[Prediction]:
    """From llvm-mca's JSON for two regions a loop: the loop, and its FMAs alone.

    Of the latter the throughput of the busiest pipe counts, not the cycles: these FMAs depend on each
    other as they happen to, and what is asked is the limit that no loop can pass."""
    views = [region["SummaryView"] for region in json.loads(output)["CodeRegions"]]
    if len(views) != 2 * loops:
        raise ModelError(f"llvm-mca found {len(views)} regions in {2 * loops}")
    pairs = zip(views[::2], views[1::2], strict=True)
    return [
        Prediction(whole["TotalCycles"] / whole["Iterations"], fmas["BlockRThroughput"])
        for whole, fmas in pairs
    ]


def predict(mca: str, triple: str, cpu: str, loops: list[Loop]) -> list[Prediction]:
    blocks = [block for loop in loops for block in (list(loop.instructions), fmas_alone(loop))]
    command = [mca, f"-mtriple={triple}", f"-mcpu={cpu}", f"-iterations={ITERATIONS}", "-json"]
    done = subprocess.run(command, input=regions(blocks), capture_output=True, text=True, timeout=120)
    if done.returncode or done.stderr.strip():
        first = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
        raise ModelError(f"llvm-mca -mcpu={cpu}: {first}")
    return read_predictions(done.stdout, len(loops))


def faults(loop: Loop, prediction: Prediction, product: bool) -> list[str]:
    """What is wrong with a loop; nothing if it is as it should be.

    A product loop is nothing but FMAs and what feeds them: it has to keep the pipes busy, and to leave
    the stack alone. The exponentials do other things on the same pipes, and may read constants from the
    stack, which costs what reading them from elsewhere does; what they must not do is write there: that
    is a value that every turn waits for."""
    found = []
    if product and prediction.share < LEAST_SHARE:
        found.append(
            f"{prediction.cycles:.2f} cycles a turn, where its {loop.fmas} FMAs take {prediction.fma_cycles:.2f}: "
            f"{100 * prediction.share:.0f} % of the FMA pipes, less than {100 * LEAST_SHARE:.0f} %"
        )
    spills = loop.stack if product else loop.stack_stores
    if spills:
        found.append(f"spills: {len(spills)} accesses to the stack, the first: {spills[0]}")
    return found
