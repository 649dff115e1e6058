"""The suites' build trees as the audits read them: what their objects are compiled with, and the objects of now."""

import functools
import json
import os
import platform
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from testrunner.levels import ROOT

# What the library is outside of its levels, and the programs: objects that run before a level is chosen.
BASELINE = ("attention", "dispatch", "common", "cli", "reference", "bench")
AUDITED = ("kernels", *BASELINE)


@dataclass(frozen=True)
class Compilation:
    """One object: its path, and the command that makes it."""

    path: Path
    words: tuple[str, ...]

    @property
    def top(self) -> str:
        return self.path.parts[0]


def compilations(place: Path) -> list[Compilation]:
    """All objects that the tree makes, their paths within it."""
    entries = json.loads((place / "compile_commands.json").read_text())
    return [Compilation(Path(entry["output"]), tuple(shlex.split(entry["command"]))) for entry in entries]


@functools.cache
def up_to_date(place: Path) -> Path:
    """The tree, after what the audits read of it is what the sources say: a suite that did not run left an older
    one, about which an audit would say nothing."""
    ninja(place, "build.ninja")
    ninja(place, *(one.path for one in compilations(place) if one.top in AUDITED))
    return place


def ninja(place: Path, *targets) -> None:
    done = subprocess.run(["ninja", "-C", place, *targets], capture_output=True, text=True)
    assert done.returncode == 0, f"{place.name} cannot be made: {(done.stdout + done.stderr)[-2000:]}"


def baseline_objects(place: Path) -> list[Path]:
    return [place / one.path for one in compilations(place) if one.top in BASELINE]


def tree(compiler, level="avx2"):
    """The suites' release tree of this compiler; the gcc one may be named by ATTNSCOPE_BUILD."""
    place = ROOT / f"build-test-{compiler}"
    if compiler == "gcc" and "ATTNSCOPE_BUILD" in os.environ:
        place = Path(os.environ["ATTNSCOPE_BUILD"])
    if not (place / "kernels" / f"libkernels_{level}.a.p").exists():
        pytest.skip(f"suite {compiler} has not built its tree")
    return up_to_date(place)


def arm_tree():
    return tree("gcc" if platform.machine() in ("aarch64", "arm64") else "arm", level="neon")
