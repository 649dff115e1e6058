"""The suite `format`: layout and common faults of every tracked file."""

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
    return cases
