"""The suite `coverage`: which statements of the library the C tests execute, and which they leave out.

gcc's gcov reports each object of the library, also one that no test links, which counts as not executed; a line
that several ISA levels share counts once for each level that this machine runs. A line that nothing executes
fails the suite unless its source says why: on the line, or in the comment that ends just above it,
`GCOV_EXCL_LINE: reason`; around several, `GCOV_EXCL_START: reason` and `GCOV_EXCL_STOP` (gcovr's words). Where
several levels share the line, the reason names those that it is about, as "level scalar", and excuses no other.
An explanation of a line that is executed after all fails too, and so does a mark without its counterpart. What is
not counted, a level or a file that this machine's build leaves out, is named.
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
from .levels import here as levels_here
from .results import FAILED, PASSED, SKIPPED, Case

DIRECTORIES = ("kernels", "dispatch", "attention")
_MARK = re.compile(r"GCOV_EXCL_(\w+)(?:: *(\S.*))?")
_LEVEL = re.compile(r"\blevel (\w+)")


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


def _without_comments(line: str, in_comment: bool) -> str:
    """What is code of a line, before, between and behind its comments."""
    text = ("/*" if in_comment else "") + line
    return re.sub(r"/\*.*?(?:\*/|$)", "", text).strip()


def explained_lines(text: str) -> tuple[dict[int, str], list[str]]:
    """Line number -> reason (empty if none is given), from the marks in a source file, and what is wrong with them."""
    found: dict[int, str] = {}
    faults: list[str] = []
    block = above = (
        None  # (line, reason) in force: between START and STOP, and of a comment for the line behind it
    )
    in_comment = False
    for number, line in enumerate(text.splitlines(), 1):
        mark = _MARK.search(line)
        why = (mark[2] or "").split("*/")[0].strip() if mark else ""
        code = bool(_without_comments(line, in_comment))
        in_comment = (in_comment or "/*" in line) and "*/" not in line
        if mark and above is not None:  # whichever mark comes next: the line behind it would be another's
            faults.append(f"line {above[0]}: no line behind it")
            above = None
        if mark and mark[1] not in ("LINE", "START", "STOP"):
            faults.append(f"line {number}: no such mark: {mark[0].split(':')[0]}")
        elif mark and (block is None) == (mark[1] == "STOP"):
            faults.append(
                f"line {number}: {mark[1]} {'without a START' if block is None else 'inside of a block'}"
            )
        elif mark and mark[1] == "START":
            block = (number, why)
        elif mark and mark[1] == "STOP":
            block = None
        elif mark and code:
            found[number] = why
        elif mark:
            above = (number, why)
        elif block is not None:
            found[number] = block[1]
        elif code and above is not None:
            found[number], above = above[1], None
    faults += [
        f"line {of[0]}: {what}"
        for of, what in ((block, "START without a STOP"), (above, "no line behind it"))
        if of
    ]
    return found, faults


def line_faults(at: dict[str, int], reason: str | None) -> list[str]:
    """What is wrong with one line, of which each part that has it says how often it was executed."""
    left = {name for name, count in at.items() if not count}
    named = {f"kernels [{level}]" for level in _LEVEL.findall(reason or "")}
    excused = named if named and any(name.startswith("kernels") for name in at) else set(at)
    faults = []
    if left and (not reason or left - excused):
        faults.append("is not executed and not explained")
    if reason is not None and len(at) > 1 and not named:
        faults.append("is shared by levels, and its explanation names none")
    elif reason is not None and any(at.get(name) for name in excused):
        faults.append("is explained, and executed")
    return faults


def judge(
    parts: dict[str, Part], levels: dict[str, str], sources: set[str], root: Path
) -> tuple[list[Case], list[str]]:
    """The cases, and the lines of the table. `levels`: level -> why it cannot run here, empty if it can; `sources`:
    all files of the library."""
    cases, table = [], []
    places: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)  # place -> part that has it -> count
    for name in sorted({*parts, *(f"kernels [{level}]" for level in levels)}):
        part = parts.get(name, Part())
        level = re.fullmatch(r"kernels \[(\w+)\]", name)
        why = levels.get(level[1], "no such level") if level else ""
        if why:
            cases.append(Case(f"coverage of {name}", SKIPPED, why))
            table.append(f"  {name:<18} not counted: {why}")
            continue
        total = len(part.counts)
        if not total:
            cases.append(Case(f"coverage of {name}", FAILED, "gcov reported nothing of it"))
            continue
        table.append(
            f"  {name:<18} {part.executed():5d} of {total:5d}  {100 * part.executed() / total:5.1f} %"
        )
        for place, count in part.counts.items():
            places[place][name] = count
    of_file: dict[str, list[int]] = defaultdict(list)
    for file, number in sorted(places):
        of_file[file].append(number)
    for file in sorted({*of_file} | sources):
        text = (root / file).read_text()
        lines = text.splitlines()
        explained, faults = explained_lines(text)
        for number in of_file[file]:
            at, reason = places[file, number], explained.get(number)
            if names := [name for name, count in at.items() if not count]:
                table.append(
                    f"  {file}:{number}: {lines[number - 1].strip()}  ({', '.join(names)}; {reason or 'NOT EXPLAINED'})"
                )
            faults += [f"line {number} {fault}" for fault in line_faults(at, reason)]
        # A header may be another machine's, and a level's file is nothing but its parameters.
        if not of_file[file] and file.endswith(".c") and not file.startswith("kernels/"):
            faults.append("gcov reported nothing of it: it is compiled nowhere")
        if faults:
            why = "; ".join(faults[:3]) + f" ({len(faults)} in all)"
            cases.append(Case(f"coverage of {file}", FAILED, why))
        elif of_file[file]:
            cases.append(Case(f"coverage of {file}", PASSED))
    return cases, table


def notes(directory: Path) -> list[Path]:
    """gcc's notes on each object of the library, executed or not: those that the build makes now, not what an older
    one left."""
    commands = json.loads((directory / "compile_commands.json").read_text())
    objects = [Path(entry["output"]) for entry in commands]
    return [directory / path.with_suffix(".gcno") for path in objects if path.parts[0] in DIRECTORIES]


def library_sources() -> set[str]:
    return {str(path.relative_to(ROOT)) for top in DIRECTORIES for path in (ROOT / top).glob("*.[ch]")}


def run_coverage(commands: Commands) -> list[Case]:
    COVERAGE.make(commands)
    for old in COVERAGE.directory.rglob("*.gcda"):
        old.unlink()
    levels = levels_here(COVERAGE.directory / "cli" / "attnscope")
    # Always the same random cases: what only some seeds execute must not come and go.
    env = {**QUICK, "ATTNSCOPE_TEST_SEED": "1"}
    cases = COVERAGE.test(commands, env=env, slower=4)
    parts: dict[str, Part] = defaultdict(Part)
    for path in notes(COVERAGE.directory):
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
    judged, table = judge(parts, levels, library_sources(), ROOT)
    with commands.log.open("a") as log:
        log.write("\nstatements executed by the C tests\n" + "\n".join(table) + "\n")
    print("\n" + "\n".join(line for line in table if ":" not in line.split()[0]), flush=True)
    return cases + judged
