"""python -m testrunner [SUITE]... : runs the named suites (all without a name) and prints the counts."""

import resource
import sys
import time
from pathlib import Path

from .builds import FULL, SEED
from .commands import CommandError, Commands
from .results import FAILED, PASSED, SKIPPED, Case, SuiteResult, closing_lines
from .suites import ROOT, Suite, load_suites


def cpu_seconds() -> float:
    """User and system time of all programs that have ended, with what they started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_suite(suite: Suite, log: Path) -> SuiteResult:
    """Runs one suite. Nothing that happens in it ends the others, except an interrupt."""
    result = SuiteResult(suite.name, log.relative_to(ROOT), emulator=suite.emulator)
    start, cpu_start = time.monotonic(), cpu_seconds()
    reason = suite.impossible()
    if reason:
        result.possible = False
        result.cases.append(Case("all of it", SKIPPED, reason))
        return result
    commands = Commands(ROOT, log, suite.minutes * 60)
    try:
        result.cases = suite.run(commands)
    except CommandError as error:
        result.cases.append(Case(suite.name, FAILED, str(error)))
    except Exception as error:  # a fault in this program is a failed suite too, not the end of the run
        result.cases.append(Case(suite.name, FAILED, f"{type(error).__name__}: {error}"))
    result.finish()
    result.seconds = time.monotonic() - start
    result.cpu_seconds = cpu_seconds() - cpu_start
    if result.count(FAILED):
        print(f"\n{commands.tail()}\n", file=sys.stderr)
    return result


def main(names: list[str]) -> int:
    """1 if anything failed, 2 for a name that is no suite, else 0."""
    suites = load_suites()
    unknown = [name for name in names if name not in suites]
    if unknown:
        print(f"unknown suite: {unknown[0]} ({', '.join(suites)})", file=sys.stderr)
        return 2
    logs = ROOT / "build-logs"
    logs.mkdir(exist_ok=True)
    results = []
    begin = time.monotonic()
    for name in names or suites:
        suite = suites[name]
        print(f"{name:<8} ", end="", flush=True)
        result = run_suite(suite, logs / f"{name}.log")
        results.append(result)
        counts = ", ".join(f"{result.count(s):4d} {s}" for s in (PASSED, FAILED, SKIPPED))
        print(
            f"{counts}   {result.seconds:4.0f} s, CPU {result.cpu_seconds:4.0f} s, "
            f"limit {suite.minutes * 60:4.0f} s   {suite.description}",
            flush=True,
        )
    minutes = (time.monotonic() - begin) / 60
    cpu = sum(result.cpu_seconds for result in results) / 60
    print(
        f"{'all':<8} {minutes:.1f} min, CPU {cpu:.1f} min{', long forms' if FULL else ''}, "
        f"ATTNSCOPE_TEST_SEED={SEED}\n",
        flush=True,
    )
    print("\n".join(closing_lines(results)), flush=True)
    return 1 if any(result.count(FAILED) for result in results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
