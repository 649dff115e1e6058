"""The suite `format`: layout and common faults of every tracked file."""

import re
import sys
from pathlib import Path

from .builds import ROOT
from .commands import Commands, output_of
from .results import FAILED, PASSED, Case


def tracked_files() -> list[str]:
    """Paths under version control; all files but build trees when this is no repository."""
    listed = output_of(["git", "-C", str(ROOT), "ls-files", "-z"])
    if listed:
        return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    skipped = ("build", "results/", ".venv/", ".git/", "subprojects/")
    found = (str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.startswith(skipped) and "__pycache__" not in name)


def written_in(language: str, suffix: str, names: list[str]) -> list[str]:
    """Those of the files that end in `suffix`, or have no ending and name `language` in their first line."""

    def is_one(name: str) -> bool:
        if Path(name).suffix:
            return name.endswith(suffix)
        with (ROOT / name).open("rb") as file:
            first = file.readline(80)
        return first.startswith(b"#!") and language.encode() in first

    return [name for name in names if is_one(name)]


WIDTH = 110
# Not text that somebody wrote: pictures and data, and inputs of tests to the byte.
_DATA = re.compile(r"\.(svg|png|npy|npz|json)$|^tests/fuzz/corpus/")
# Where lines may be longer: what the formatters of C and Python leave so, pages of HTML, tables that are read
# by column, and lines that hold an address.
_WIDE = re.compile(r"\.(py|c|h|cc|jinja)$|^scripts/testrunner/suites\.def$")
_WIDE_LINE = re.compile(r"^\||https?://|^(?:#| ) {7}\w+ +(?:look for|\w+\??:\S+) ")


def text_faults(names: list[str], root: Path = ROOT) -> list[str]:
    """Faults of layout that the tools of no language look for, as "file:line: what"."""
    faults = []
    for name in names:
        if _DATA.search(name):
            continue
        text = (root / name).read_text()
        lines = text.split("\n")
        if text and (lines[-1] or not text.strip() or text.endswith("\n\n")):
            faults.append(f"{name}:{len(lines)}: must end with one newline")
        for number, line in enumerate(lines, 1):
            if line != line.rstrip():
                faults.append(f"{name}:{number}: space at the end")
            if len(line) > WIDTH and not _WIDE.search(name) and not _WIDE_LINE.search(line):
                faults.append(f"{name}:{number}: {len(line)} columns")
    return faults


def run_format(commands: Commands) -> list[Case]:
    files = tracked_files()
    clang_format = Path(sys.executable).with_name("clang-format")
    sources = [name for name in files if name.endswith((".c", ".h", ".cc", ".cpp"))]
    python = written_in("python", ".py", files)
    ruff = [sys.executable, "-m", "ruff"]
    checks = {
        "clang-format": ([clang_format, "--dry-run", "-Werror"], sources),
        "ruff check": ([*ruff, "check", "--no-cache"], python),
        "ruff format": ([*ruff, "format", "--no-cache", "--check"], python),
        "shellcheck": (["shellcheck", "-x"], written_in("bash", ".sh", files)),
    }
    cases = []
    for name, (arguments, names) in checks.items():
        status = commands.run([*arguments, *names]) if names else "none, there are no files"
        cases.append(Case(name, FAILED, f"exit status {status}") if status else Case(name, PASSED))
    faults = text_faults(files)
    with commands.log.open("a") as log:
        log.writelines(f"{fault}\n" for fault in faults)
    reason = "; ".join(faults[:3]) + f" ({len(faults)} in all)"
    return [*cases, Case("text", FAILED, reason) if faults else Case("text", PASSED)]
