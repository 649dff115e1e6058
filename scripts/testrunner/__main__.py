"""python -m testrunner [SUITE]... : runs the named suites (all without a name) and prints the counts."""

import signal
import sys
from pathlib import Path

from . import budget
from .builds import FULL, SEED
from .commands import CommandError, Commands, end_all
from .environment import clean
from .levels import names as level_names
from .results import FAILED, PASSED, SKIPPED, Case, SuiteResult, closing_lines, level_counts, unrun_levels
from .suites import ROOT, Suite, load_suites


def run_suite(suite: Suite, log: Path) -> SuiteResult:
    """Runs one suite. Nothing that happens in it ends the others, except an interrupt."""
    result = SuiteResult(suite.name, log.relative_to(ROOT), emulator=suite.emulator, levels=suite.levels)
    begin = budget.read()
    commands = None
    try:
        reason = suite.impossible()
        if reason:
            result.possible = False
            result.cases.append(Case("all of it", SKIPPED, reason))
            return result
        commands = Commands(ROOT, log, suite.minutes * 60)
        result.cases = suite.run(commands)
    except CommandError as error:
        result.cases.append(Case(suite.name, FAILED, str(error)))
    except Exception as error:  # a fault in this program is a failed suite too, not the end of the run
        result.cases.append(Case(suite.name, FAILED, f"{type(error).__name__}: {error}"))
    result.finish()
    end = budget.read()
    result.seconds = end.clock - begin.clock
    result.cpu_seconds = end.own - begin.own
    result.two_core_seconds = budget.two_core_seconds(begin, end)
    if result.count(FAILED) and commands:
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
    taken = clean()
    if taken:
        print(f"taken out of the environment: {', '.join(taken)}", file=sys.stderr)
    results: list[SuiteResult] = []
    levels = level_names()
    begin = budget.read()
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
    minutes = (budget.read().clock - begin.clock) / 60
    cpu = sum(result.cpu_seconds for result in results) / 60
    two_cores = sum(result.two_core_seconds for result in results) / 60
    whole = {*names} >= {*suites} or not names
    print(
        f"{'all':<8} {minutes:.1f} min, CPU {cpu:.1f} min; alone on two cores {two_cores:.1f} min"
        f"{', long forms' if FULL else f', budget {budget.BUDGET:.0f} min' if whole else ''}, "
        f"ATTNSCOPE_TEST_SEED={SEED}\n",
        flush=True,
    )
    if whole:
        over = [] if FULL else budget.over_budget(results)
        unrun = unrun_levels(results, levels)
        results += [SuiteResult("budget", cases=over)] if over else []
        results += [SuiteResult("levels", cases=unrun)] if unrun else []
    # Of suites that run no kernel test, a table of levels would say that they ran nowhere.
    shown = levels if whole or level_counts(results) or any(result.levels for result in results) else []
    print("\n".join(closing_lines(results, shown)), flush=True)
    return 1 if any(result.count(FAILED) for result in results) else 0


def interrupted(signum: int, frame: object) -> None:
    """Ends what runs, also what threads wait for, and then this program by the way of an interrupt."""
    end_all()
    raise KeyboardInterrupt(signum)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt as error:
        sys.exit(128 + (error.args[0] if error.args else signal.SIGINT))
