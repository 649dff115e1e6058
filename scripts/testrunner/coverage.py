"""The suite `coverage`: which statements of the library the C tests execute, and which they leave out.

gcc's gcov reports each object; a line that several ISA levels share counts once for each level that this
machine runs. A line that nothing executes fails the suite unless its source says why: on the line, or in the
comment that ends just above it, `GCOV_EXCL_LINE: reason`; around several, `GCOV_EXCL_START: reason` and
`GCOV_EXCL_STOP` (gcovr's words). An explanation of a line that is executed after all fails too, but for lines
that several levels share: which of them it is about is for its reader.
"""

import json
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from .builds import COVERAGE, ROOT
from .checked import QUICK
from .commands import CommandError, Commands
from .results import FAILED, PASSED, SKIPPED, Case

DIRECTORIES = ("kernels", "dispatch", "attention")
_MARK = re.compile(r"GCOV_EXCL_(LINE|START|STOP)(?:: *(\S.*))?")


@dataclass
class Part:
    """Lines of one directory, of one level in kernels/: how often each (file, line) was executed."""

    counts: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))

    def executed(self) -> int:
        return sum(count > 0 for count in self.counts.values())


def part_of(source: str, object_name: str) -> str:
    """The part that a line of `source` in this object belongs to; empty for what is not the library's."""
    top = source.split("/")[0]
    if top not in DIRECTORIES:
        return ""
    level = re.search(r"libkernels_(\w+)\.a\.p/", object_name)
    return f"kernels [{level[1]}]" if level and top == "kernels" else top


def add_report(parts: dict[str, Part], report: dict, object_name: str, root: Path) -> None:
    """Adds one object's report (gcov --json-format) to the parts."""
    for file in report["files"]:
        path = Path(report["current_working_directory"], file["file"]).resolve()
        if not path.is_relative_to(root):
            continue
        source = str(path.relative_to(root))
        name = part_of(source, object_name)
        if name:
            for line in file["lines"]:
                parts[name].counts[source, line["line_number"]] += line["count"]


def explained_lines(text: str) -> dict[int, str]:
    """Line number -> reason (empty if none is given), from the marks in a source file."""
    found: dict[int, str] = {}
    block = above = None  # reasons in force: between START and STOP, and of a comment for the line behind it
    in_comment = False
    for number, line in enumerate(text.splitlines(), 1):
        mark = _MARK.search(line)
        why = (mark[2] or "").removesuffix("*/").strip() if mark else ""
        code = not in_comment and bool(line.split("/*")[0].strip())
        in_comment = (in_comment or "/*" in line) and "*/" not in line
        if mark and mark[1] == "START":
            block = why
        elif mark and mark[1] == "STOP":
            block = None
        elif mark and code:
            found[number] = why
        elif mark:
            above = why
        elif block is not None:
            found[number] = block
        elif code and above is not None:
            found[number], above = above, None
    return found


def judge(parts: dict[str, Part], levels: dict[str, str], root: Path) -> tuple[list[Case], list[str]]:
    """The cases, and the lines of the table. `levels`: level -> why it cannot run here, empty if it can."""
    cases, table = [], []
    seen: dict[tuple[str, int], int] = defaultdict(int)  # place -> parts that have it
    uncovered: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name in sorted(parts):
        part = parts[name]
        level = re.fullmatch(r"kernels \[(\w+)\]", name)
        why = levels.get(level[1], "no such level") if level else ""
        if why:
            cases.append(Case(f"coverage of {name}", SKIPPED, why))
            table.append(f"  {name:<18} not counted: {why}")
            continue
        total = len(part.counts)
        table.append(
            f"  {name:<18} {part.executed():5d} of {total:5d}  {100 * part.executed() / total:5.1f} %"
        )
        for place, count in part.counts.items():
            seen[place] += 1
            if not count:
                uncovered[place].append(name)
    faults: dict[str, list[str]] = defaultdict(list)
    for file in sorted({file for file, _ in seen}):
        text = (root / file).read_text()
        lines, explained = text.splitlines(), explained_lines(text)
        for number in sorted(number for name, number in seen if name == file):
            names = uncovered.get((file, number))
            reason = explained.get(number)
            if names:
                table.append(
                    f"  {file}:{number}: {lines[number - 1].strip()}  ({', '.join(names)}; {reason or 'NOT EXPLAINED'})"
                )
            if names and not reason:
                faults[file].append(f"line {number} is not executed and not explained")
            if reason is not None and not names and seen[file, number] == 1:
                faults[file].append(f"line {number} is explained, and executed")
        cases.append(
            Case(
                f"coverage of {file}", FAILED, "; ".join(faults[file][:3]) + f" ({len(faults[file])} in all)"
            )
            if faults[file]
            else Case(f"coverage of {file}", PASSED)
        )
    return cases, table


def levels_here(commands: Commands) -> dict[str, str]:
    """Level -> why it cannot run here, as the program itself says."""
    program = COVERAGE.directory / "cli" / "attnscope"
    done = subprocess.run([program, "info", "--json"], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise CommandError(f"attnscope info: {done.stderr.strip()}")
    levels = json.loads(done.stdout)["isa"]["levels"]
    return {level["name"]: level.get("reason") or "" for level in levels}


def run_coverage(commands: Commands) -> list[Case]:
    COVERAGE.make(commands)
    for old in COVERAGE.directory.rglob("*.gcda"):
        old.unlink()
    levels = levels_here(commands)
    # Always the same random cases: what only some seeds execute must not come and go.
    env = {**QUICK, "ATTNSCOPE_TEST_SEED": "1"}
    cases = COVERAGE.test(commands, env=env, slower=4)
    parts: dict[str, Part] = defaultdict(Part)
    objects = sorted(path for top in DIRECTORIES for path in (COVERAGE.directory / top).rglob("*.gcda"))
    for path in objects:
        done = subprocess.run(
            ["gcov", "--json-format", "--stdout", path],
            capture_output=True,
            text=True,
            cwd=COVERAGE.directory,
        )
        if done.returncode:
            raise CommandError(f"gcov: {done.stderr.strip()}")
        for line in done.stdout.splitlines():
            add_report(parts, json.loads(line), str(path), ROOT)
    if not parts:
        raise CommandError("gcov reported nothing of the library")
    judged, table = judge(parts, levels, ROOT)
    with commands.log.open("a") as log:
        log.write("\nstatements executed by the C tests\n" + "\n".join(table) + "\n")
    print("\n" + "\n".join(line for line in table if ":" not in line.split()[0]), flush=True)
    return cases + judged
