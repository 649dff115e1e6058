"""Runs the fuzz targets of a build for a short time, two side by side, each over its corpus in the tree."""

import os
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .builds import FULL, SEED
from .checked import lacks_sanitizer
from .commands import CommandError, Commands
from .results import FAILED, PASSED, Case

SECONDS, FULL_SECONDS = 10, 120  # for each target, unless ATTNSCOPE_FUZZ_SECONDS says otherwise
JOBS = 2
# Longest input. What is parsed here is short; longer ones only cost time.
MAX_BYTES = 1024

_FAULT = re.compile(r"^.*(?:: failed: |runtime error: |ERROR: (?:Address|Leak|Undefined)).*$", re.MULTILINE)
_SUMMARY = re.compile(r"^(?:SUMMARY|==\d+== ERROR): (.*)$", re.MULTILINE)
_REPRODUCER = re.compile(r"Test unit written to (\S+)")
_EXECUTED = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)


def impossible() -> str:
    """Why this machine has no fuzzers; empty if it has."""
    target = (
        "int LLVMFuzzerTestOneInput(const char *data, unsigned long size) { return data && size ? 0 : 0; }"
    )
    return lacks_sanitizer("fuzzer", target, run=False)


def usual_seconds() -> int:
    return FULL_SECONDS if FULL else SECONDS


def seconds_of_environment() -> int:
    text = os.environ.get("ATTNSCOPE_FUZZ_SECONDS") or str(usual_seconds())
    if not text.isdigit() or not 1 <= int(text) <= 1_000_000:
        raise CommandError(f"ATTNSCOPE_FUZZ_SECONDS is '{text}', must be 1 to 1000000")
    return int(text)


def fuzzer_seed(text: str) -> int:
    """The run's seed as libFuzzer takes it: 32 bits, and 0 would let it choose one of its own."""
    try:
        return int(text) % 2**32 or 1
    except ValueError:
        raise CommandError(f"ATTNSCOPE_TEST_SEED is '{text}', must be a decimal number") from None


def judge(name: str, status: int, log: str, inputs: int, seed: int) -> Case:
    """The case of one target from its exit status and output; it had `inputs` files to begin with."""
    if status:
        fault = _FAULT.search(log)
        summary = _SUMMARY.search(log)
        what = fault[0].strip() if fault else summary[1] if summary else f"exit status {status}"
        if status == -1:
            what = "did not end in time"
        kept = _REPRODUCER.search(log)
        return Case(name, FAILED, f"{what} (seed {seed}{f', input kept in {kept[1]}' if kept else ''})")
    executed = _EXECUTED.search(log)
    if not executed or int(executed[1]) < inputs:
        return Case(
            name, FAILED, f"ran {executed[1] if executed else 'none'} of the {inputs} inputs in its corpus"
        )
    return Case(name, PASSED)


def run_target(commands: Commands, programs: Path, source: Path, name: str, seconds: int, seed: int) -> Case:
    """Fuzzes one target. New inputs that it finds go to a directory beside the program, emptied before."""
    program, corpus = programs / f"fuzz_{name}", source / "corpus" / name
    if not program.is_file():
        return Case(name, FAILED, "was not built")
    found = programs / f"found_{name}"
    shutil.rmtree(found, ignore_errors=True)
    found.mkdir()
    log = commands.log.with_name(f"{commands.log.stem}-{name}.log")
    options = [f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={MAX_BYTES}", "-timeout=20"]
    # Weighing inputs by how rare what they reach is takes four fifths of the time where that is much (plan).
    options += ["-entropic=0", "-print_final_stats=1", f"-artifact_prefix={log.with_suffix('')}-"]
    words = source / f"{name}.dict"
    if words.exists():
        options.append(f"-dict={words}")
    own = commands.beside(log)
    # Starting and going through the corpus are not within `seconds`.
    own.deadline = min(own.deadline, time.monotonic() + seconds + 120)
    env = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    status = own.run([program, *options, found, corpus], env)
    return judge(name, status, log.read_text(errors="replace"), len(list(corpus.iterdir())), seed)


def run_targets(commands: Commands, programs: Path, source: Path) -> list[Case]:
    """A case for each corpus in `source`; the programs are fuzz_NAME in `programs`.

    The suite's limit is that of the usual seconds; who asks for more gets them on top of it.
    """
    seconds, seed = seconds_of_environment(), fuzzer_seed(SEED)
    names = sorted(path.name for path in (source / "corpus").iterdir() if path.is_dir())
    commands.deadline += -(-len(names) // JOBS) * max(0, seconds - usual_seconds())
    with commands.log.open("a") as log:
        log.write(f"\n{', '.join(names)}: {seconds} s each, seed {seed}, logs beside this one\n")
    with ThreadPoolExecutor(JOBS) as pool:
        tasks = [pool.submit(run_target, commands, programs, source, name, seconds, seed) for name in names]
        return [task.result() for task in tasks]
