"""Reads what test programs report, so that every single test is counted once.

Meson's own JUnit file is not used: it leaves out a program that crashes after its last reported test,
and the reason of a skip. Its JSON log holds each program's whole output, from which both follow.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Case:
    """One test: where it ran, what became of it, and why when it was skipped or failed."""

    name: str
    status: str
    reason: str = ""


@dataclass
class SuiteResult:
    """What one suite did. `log` is the file to read when something failed."""

    name: str
    log: Path | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of its programs: short of `seconds` times the cores, a core was idle
    two_core_seconds: float = 0.0  # what it counts for in the budget of a whole run (budget.py)
    cases: list[Case] = field(default_factory=list)
    emulator: str = ""  # what its programs ran under, if not on this machine's own processor
    levels: tuple[str, ...] = ()  # those that it is there for, on whatever machine
    possible: bool = True  # False: this machine cannot run the suite, and its one case says why

    def count(self, status: str) -> int:
        return sum(case.status == status for case in self.cases)

    def finish(self) -> None:
        """A suite that ran nothing, or skipped all it has, proves nothing: that is a failure. So is one that ran
        nothing of a level that it is there for: it would not count when the level runs nowhere."""
        if not self.possible or self.count(FAILED):
            return
        if not self.count(PASSED):
            self.cases.append(Case(self.name, FAILED, "ran no test"))
            return
        ran = level_counts([self])
        for level in self.levels:
            if level not in ran:
                self.cases.append(Case(self.name, FAILED, f"ran no test of level {level}"))


_TAP_LINE = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:- )?(.*)$")
_TAP_PLAN = re.compile(r"^1\.\.(\d+)\s*(?:#\s*(.*))?$")
_TAP_DIRECTIVE = re.compile(r"(?:^|\s)#\s*(skip|todo)\S*\s*(.*)$", re.IGNORECASE)


def parse_tap(program: str, text: str) -> list[Case]:
    """Cases of one TAP stream; `program` starts each name.

    A skip counts as one whether its line says "ok" or "not ok": cmocka 1.1.5 writes
    "not ok 2 # SKIP name". Comment lines before a skip are taken as its reason when it gives none.
    A plan that does not match what was reported is one more failed case.
    """
    cases: list[Case] = []
    promised = None
    comments: list[str] = []
    for line in text.splitlines():
        line = line.strip()
        if plan := _TAP_PLAN.match(line):
            promised = (promised or 0) + int(plan[1])
            if plan[1] == "0":
                cases.append(Case(program, SKIPPED, plan[2] or "no reason given"))
            continue
        if line.startswith("Bail out!"):
            cases.append(Case(program, FAILED, line))
            continue
        found = _TAP_LINE.match(line)
        if not found:
            if line.startswith("#"):
                comments.append(line.lstrip("# "))
            continue
        bad, number, title = found.groups()
        directive = _TAP_DIRECTIVE.search(title)
        reason = " ".join(comments)
        comments = []
        if not directive:
            name = f"{program}: {title or number}"
            cases.append(Case(name, FAILED, reason) if bad else Case(name, PASSED))
            continue
        before, after = title[: directive.start()].strip(), directive[2].strip()
        if directive[1].lower() == "todo":
            cases.append(
                Case(f"{program}: {before or number}", SKIPPED, f"to do: {after or 'no reason given'}")
            )
        elif before:
            cases.append(Case(f"{program}: {before}", SKIPPED, after or reason or "no reason given"))
        else:
            cases.append(Case(f"{program}: {after or number}", SKIPPED, reason or "no reason given"))
    ran = sum(case.name != program for case in cases)
    if promised is None:
        cases.append(Case(program, FAILED, "no plan: the program ended before it said how many tests it has"))
    elif ran != promised:
        cases.append(Case(program, FAILED, f"planned {promised} tests, reported {ran}"))
    return cases


# Words of Meson's log.
_ENDED_WELL = {"OK", "EXPECTEDFAIL"}
_CUT_OFF = {"TIMEOUT": "timeout", "INTERRUPT": "was running when its suite was ended"}
# What sanitizers and valgrind write on standard error: a failure, also where the program goes on.
_SANITIZER_LINE = re.compile(
    r"^.*(?:runtime error:|(?:ERROR|WARNING): \w*Sanitizer:"
    r"|^==\d+== (?:Invalid |Use of |Conditional jump|Syscall param|.* definitely lost)).*$",
    re.MULTILINE,
)


def read_meson_log(path: Path, prefix: str = "") -> list[Case]:
    """Cases of a `meson test` run, from its testlog.json (one JSON object per line and program).

    A program that reports TAP counts once per reported test, any other once. A program that timed out,
    was killed or exits with a failure that no test of it explains is one more failed case.
    """
    cases: list[Case] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        entry = json.loads(line)
        name = prefix + entry["name"].split(" / ")[-1]
        output, errors = entry.get("stdout", ""), entry.get("stderr", "")
        said = _SANITIZER_LINE.search(errors)
        why = f": {said[0].strip()}" if said else ""
        result, code = entry["result"], entry.get("returncode")
        own = parse_tap(name, output) if re.search(r"^(not )?ok\b|^1\.\.\d", output, re.MULTILINE) else []
        if result in _CUT_OFF:
            own.append(Case(name, FAILED, _CUT_OFF[result]))
        elif own:
            explained = any(case.status == FAILED and case.name != name for case in own)
            if said or (code and not explained):
                own.append(Case(name, FAILED, f"exit status {code} after its tests{why}"))
        elif result == "SKIP":
            text = (output + errors).strip().splitlines()
            own.append(Case(name, SKIPPED, text[-1] if text else "no reason given"))
        elif result in _ENDED_WELL:
            own.append(Case(name, PASSED))
        else:
            own.append(Case(name, FAILED, f"{result.lower()}, exit status {code}{why}"))
        cases += merged(name, own)
    return cases


def merged(program: str, cases: list[Case]) -> list[Case]:
    """The cases with what failed of the program itself as one: it died once, whatever that led to."""
    faults = [case.reason for case in cases if case.name == program and case.status == FAILED]
    rest = [case for case in cases if case.name != program or case.status != FAILED]
    return rest + ([Case(program, FAILED, "; ".join(faults))] if faults else [])


def read_junit(path: Path) -> list[Case]:
    """Cases of a JUnit file as pytest writes it."""
    cases: list[Case] = []
    for element in ElementTree.parse(path).getroot().iter("testcase"):
        where = element.get("classname", "").removeprefix("tests.")
        name = f"{where}: {element.get('name', '')}" if where else element.get("name", "")
        bad = element.find("failure")
        if bad is None:
            bad = element.find("error")
        skip = element.find("skipped")
        if bad is not None:
            cases.append(Case(name, FAILED, _first_line(bad.get("message", ""))))
        elif skip is not None:
            cases.append(Case(name, SKIPPED, _first_line(skip.get("message", "")) or "no reason given"))
        else:
            cases.append(Case(name, PASSED))
    return cases


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""


_LEVEL = re.compile(r" \[(\w+)\]$")


def level_counts(results: list[SuiteResult]) -> dict[str, dict[int, int]]:
    """Level -> index of a suite -> its tests of that level that ran, passed or failed.

    A C test that is entered once per level has the level at the end of its name.
    """
    ran: dict[str, dict[int, int]] = {}
    for at, result in enumerate(results):
        for case in result.cases:
            if (level := _LEVEL.search(case.name)) and case.status != SKIPPED:
                counts = ran.setdefault(level[1], {})
                counts[at] = counts.get(at, 0) + 1
    return ran


def level_lines(results: list[SuiteResult], levels: Sequence[str]) -> list[str]:
    """Each level with the number of its tests that ran, natively and under which emulator, and of which suites.

    One that ran nowhere says so, with what kept the suites from running that are there for it.
    """
    ran = level_counts(results)
    lines = []
    for level in [*levels, *(name for name in ran if name not in levels)]:
        places = []
        for where in sorted({results[at].emulator for at in ran.get(level, {})}):
            counts = {at: n for at, n in ran[level].items() if results[at].emulator == where}
            shown = ", ".join(f"{results[at].name} {n}" for at, n in counts.items())
            places.append(f"{f'emulated by {where}' if where else 'native'} {sum(counts.values())} ({shown})")
        if not places:
            kept = [f"{result.name}: {result.cases[0].reason}" for result in missing_suites(results, level)]
            places = ["NOWHERE" + (f" (left out: {'; '.join(kept)})" if kept else "")]
        lines.append(f"  {level:<7} {'; '.join(places)}")
    return ["tests of each level that ran:", *lines] if lines else []


def missing_suites(results: list[SuiteResult], level: str) -> list[SuiteResult]:
    """The suites that are there for a level and cannot run on this machine."""
    return [result for result in results if not result.possible and level in result.levels]


def unrun_levels(results: list[SuiteResult], levels: Sequence[str]) -> list[Case]:
    """A failed case for each level that no suite ran, of a run of all of them.

    None for a level whose own suite cannot run here. That another suite cannot, excuses nothing.
    """
    ran = level_counts(results)
    unrun = [level for level in levels if level not in ran and not missing_suites(results, level)]
    return [Case(level, FAILED, "no suite ran a test of this level") for level in unrun]


def closing_lines(results: list[SuiteResult], levels: Sequence[str] = ()) -> list[str]:
    """The end of a run: skipped tests by reason, failed ones with their logs, levels, the line of counts."""
    lines: list[str] = []
    reasons: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for case in result.cases:
            if case.status == SKIPPED:
                reasons.setdefault((result.name, case.reason), []).append(case.name)
    if reasons:
        lines.append("skipped:")
        for (suite, reason), names in reasons.items():
            lines.append(f"  {suite}: {reason}: {', '.join(names)}")
    failed = [result for result in results if result.count(FAILED)]
    if failed:
        lines.append("failed:")
        for result in failed:
            for case in result.cases:
                if case.status == FAILED:
                    lines.append(
                        f"  {result.name}: {case.name}" + (f": {case.reason}" if case.reason else "")
                    )
            if result.log:
                lines.append(f"    log: {result.log}")
    lines += level_lines(results, levels)
    total = {s: sum(result.count(s) for result in results) for s in (PASSED, FAILED, SKIPPED)}
    lines.append(f"{total[PASSED]} passed, {total[FAILED]} failed, {total[SKIPPED]} skipped")
    return lines
