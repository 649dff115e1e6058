"""The build trees of the suites: how each is configured, made and tested."""

import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .commands import CommandError, Commands, output_of
from .results import FAILED, Case, read_meson_log

ROOT = Path(__file__).resolve().parents[2]
MESON = os.environ.get("MESON", "meson")
SYSROOT = ROOT / "build-sysroot-arm64"
# Set by test.sh --full. The tests read the same variable (test_full() in tests/support.h).
FULL = os.environ.get("ATTNSCOPE_TEST_FULL", "0") not in ("", "0")
# One seed for the tests and fuzzers of all suites, which the end of the run prints: the random cases that a level runs
# under an emulator are the first of those that it runs natively from the same seed (tests/test_options_random.c; a
# test compares them).
SEED = os.environ.get("ATTNSCOPE_TEST_SEED") or str(time.time_ns() % 10**9)
# The long forms of the tests may take this many times as long as the usual ones.
FULL_SLOWER = 6


@dataclass(frozen=True)
class Build:
    """A configured tree: its directory, compilers, Meson options and what is compiled."""

    directory: Path
    compilers: tuple[str, str]
    options: tuple[str, ...]
    target: str = ""  # what is compiled of it; everything if empty

    def make(self, commands: Commands) -> None:
        """Configures if anything that Meson does not follow by itself has changed, and compiles."""
        env = {"CC": self.compilers[0], "CXX": self.compilers[1]}
        stamp = self.directory / "suite-stamp"
        arguments = [*self.options, str(self.directory)]
        versions = [output_of([program, "--version"]) for program in (*self.compilers, MESON)]
        machines = [(ROOT / name).read_text() for name in self.options if name.endswith(".ini")]
        key = hashlib.sha256(repr((arguments, env, versions, machines, str(ROOT))).encode()).hexdigest()
        if not stamp.exists() or stamp.read_text() != key:
            shutil.rmtree(self.directory, ignore_errors=True)
            commands.need("configure", [MESON, "setup", *arguments], env)
            stamp.write_text(key)
        commands.need("build", [MESON, "compile", "-C", self.directory, *self.target.split()])

    def test(
        self,
        commands: Commands,
        label: str = "",
        env: dict | None = None,
        slower: int = 1,
        names: Sequence[str] = (),
        wrapper: Sequence[str] = (),
    ) -> list[Case]:
        """Cases of its tests, or of those named.

        `label` sets runs of one tree apart; `slower` multiplies the time limits; `wrapper` runs each program.
        """
        logbase = "testlog" + (f"-{label}" if label else "")
        written = logbase + (f"-{Path(wrapper[0]).name}" if wrapper else "")  # Meson adds the wrapper's name
        log = self.directory / "meson-logs" / f"{written}.json"
        log.unlink(missing_ok=True)
        arguments = ["-C", self.directory, "--no-rebuild", "--print-errorlogs", "--logbase", logbase]
        if wrapper:
            arguments.append(f"--wrapper={' '.join(wrapper)}")
        env = {"ATTNSCOPE_TEST_SEED": SEED, **(env or {})}
        status = commands.run(
            [MESON, "test", *arguments, "-t", slower * (FULL_SLOWER if FULL else 1), *names], env
        )
        if not log.exists():
            raise CommandError(f"meson test: exit status {status} and no log")
        cases = read_meson_log(log, prefix=f"{label}: " if label else "")
        if status == -1:
            cases.append(Case(label or "meson test", FAILED, "the suite's time is up"))
        return cases


WARNINGS_ARE_ERRORS = ("-Dwerror=true", "-Dtests=enabled", "-Dbench=enabled")
GCC = Build(ROOT / "build-test-gcc", ("gcc", "g++"), ("--buildtype=release", *WARNINGS_ARE_ERRORS))
CLANG = Build(ROOT / "build-test-clang", ("clang", "clang++"), ("--buildtype=release", *WARNINGS_ARE_ERRORS))
# -O1: at -O0 the kernels' tests take minutes. Assertions stay on, unlike in the release builds.
ASAN = Build(
    ROOT / "build-test-asan",
    ("gcc", "g++"),
    ("--buildtype=debugoptimized", "-Doptimization=1", "-Db_sanitize=address,undefined", "-Db_lundef=false")
    + ("-Dtests=enabled",),
)
# Both instrument what this project has; see checked.py for what is left out and why.
SANITIZED = ("--buildtype=debugoptimized", "-Db_lundef=false", "-Dtests=enabled", "-Dbench=disabled")
# What starts threads, itself or through what it calls. A test holds this against the sources.
THREADED = (
    "attention_patterns attention_shapes counting edges edges_control edges_environment edges_shapes edges_splits "
    "first_call harness index64 kernels_exp options options_random plan reuse roofline rows"
).split()
TSAN = Build(
    ROOT / "build-test-tsan",
    ("clang", "clang++"),
    (*SANITIZED, "-Db_sanitize=thread", "-Dopenmp=enabled", "-Dhwloc=disabled"),
    target=" ".join(["provoke", *(f"test_{name}" for name in THREADED)]),
)
MSAN = Build(
    ROOT / "build-test-msan",
    ("clang", "clang++"),
    (*SANITIZED, "-Db_sanitize=memory", "-Dopenmp=disabled", "-Dhwloc=disabled")
    + (f"-Dc_args=-fsanitize-ignorelist={ROOT}/scripts/testrunner/msan.ignore",),
)
# -O1 as with the address sanitizer; counts of several threads are added atomically.
COVERAGE = Build(
    ROOT / "build-test-coverage",
    ("gcc", "g++"),
    ("--buildtype=debug", "-Doptimization=1", "-Db_coverage=true", "-Dtests=enabled", "-Dbench=disabled")
    + ("-Dhwloc=disabled", "-Dc_args=-fprofile-update=atomic"),
)
ARM = Build(
    ROOT / "build-test-arm",
    ("gcc", "g++"),  # of the build machine; the cross file names the others
    ("--buildtype=release", *WARNINGS_ARE_ERRORS, "--cross-file", "scripts/cross/aarch64.ini")
    + ("--cross-file", str(SYSROOT / "machine.ini")),
)

# Only what the fuzzers are made of is compiled, all of it with the marks by which libFuzzer sees what ran.
FUZZ = Build(
    ROOT / "build-test-fuzz",
    ("clang", "clang++"),
    ("--buildtype=debugoptimized", "-Doptimization=1", "-Db_sanitize=address,undefined", "-Db_lundef=false")
    + ("-Dfuzz=true", "-Dc_args=-fsanitize=fuzzer-no-link", "-Dtests=enabled", "-Dwerror=true")
    + ("-Dbench=disabled", "-Dhwloc=disabled", "-Dopenmp=disabled"),
    target="fuzz",
)
