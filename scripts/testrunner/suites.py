"""The suites of scripts/test.sh. Each takes its commands and returns its cases."""

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import fuzz
from .commands import CommandError, Commands, output_of
from .results import FAILED, PASSED, Case, read_junit, read_meson_log

ROOT = Path(__file__).resolve().parents[2]
MESON = os.environ.get("MESON", "meson")
SYSROOT = ROOT / "build-sysroot-arm64"
PYTHON_TESTS = ["tests/cli", "tests/bench", "tests/report", "tests/runner", "tests/dispatch"]


@dataclass(frozen=True)
class Build:
    """A configured tree: its directory, compilers, Meson options and compiler-independent environment."""

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
        self, commands: Commands, label: str = "", env: dict | None = None, slower: int = 1
    ) -> list[Case]:
        """Cases of its tests. `label` sets runs of one tree apart; `slower` multiplies the time limits."""
        logbase = "testlog" + (f"-{label}" if label else "")
        log = self.directory / "meson-logs" / f"{logbase}.json"
        log.unlink(missing_ok=True)
        arguments = ["-C", self.directory, "--no-rebuild", "--print-errorlogs", "--logbase", logbase]
        status = commands.run([MESON, "test", *arguments, "-t", slower], env)
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


def run_gcc(commands: Commands) -> list[Case]:
    GCC.make(commands)
    return GCC.test(commands)


def run_clang(commands: Commands) -> list[Case]:
    CLANG.make(commands)
    return CLANG.test(commands)


def run_asan(commands: Commands) -> list[Case]:
    ASAN.make(commands)
    env = {
        "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    return ASAN.test(commands, env=env, slower=4)


def run_pytest(commands: Commands, name: str, paths: list[str], env: dict) -> list[Case]:
    junit = commands.log.with_name(f"{name}.xml")
    junit.unlink(missing_ok=True)
    arguments = ["-q", "-p", "no:cacheprovider", f"--junitxml={junit}"]
    env = {"PYTHONDONTWRITEBYTECODE": "1", **env}
    status = commands.run([sys.executable, "-m", "pytest", *arguments, *paths], env)
    if not junit.exists():
        raise CommandError(
            "pytest: " + ("out of time" if status == -1 else f"exit status {status}, no report")
        )
    cases = read_junit(junit)
    if status and not any(case.status == FAILED for case in cases):
        cases.append(Case("pytest", FAILED, f"exit status {status}"))
    return cases


def run_python(commands: Commands) -> list[Case]:
    GCC.make(commands)
    env = {"ATTNSCOPE": str(GCC.directory / "cli" / "attnscope"), "ATTNSCOPE_BUILD": str(GCC.directory)}
    cases = []
    # One process for each directory: each has a conftest of its own, and Python knows one module of a name.
    for path in PYTHON_TESTS:
        if any((ROOT / path).rglob("test_*.py")):
            cases += run_pytest(commands, f"python-{Path(path).name}", [path], env)
    return cases


def run_arm(commands: Commands) -> list[Case]:
    ARM.make(commands)
    cases = []
    for core in ("cortex-a72", "max"):
        cases += ARM.test(commands, label=core, env={"QEMU_CPU": core}, slower=10)
    return cases


def arm_impossible() -> str:
    if platform.machine() in ("aarch64", "arm64"):
        return "this machine is AArch64: the other suites run neon natively"
    if not (SYSROOT / "machine.ini").exists():
        return "needs the arm64 packages of Debian or Ubuntu"
    return ""


def run_install(commands: Commands) -> list[Case]:
    GCC.make(commands)
    place = ROOT / "build-test-install"
    shutil.rmtree(place, ignore_errors=True)
    commands.need("install", [MESON, "install", "-C", GCC.directory, "--no-rebuild", "--destdir", place])
    return run_pytest(commands, "install", ["tests/install"], {"ATTNSCOPE_DESTDIR": str(place)})


def run_fuzz(commands: Commands) -> list[Case]:
    FUZZ.make(commands)
    return fuzz.run_targets(commands, FUZZ.directory / "tests" / "fuzz", ROOT / "tests" / "fuzz")


@dataclass(frozen=True)
class Suite:
    """One line of suites.def, with what runs it."""

    name: str
    minutes: float
    description: str
    run: Callable[[Commands], list[Case]]
    impossible: Callable[[], str] = lambda: ""


RUNNERS = {
    "format": (run_format,),
    "gcc": (run_gcc,),
    "clang": (run_clang,),
    "asan": (run_asan,),
    "python": (run_python,),
    "arm": (run_arm, arm_impossible),
    "install": (run_install,),
    "fuzz": (run_fuzz, fuzz.impossible),
}


def load_suites() -> dict[str, Suite]:
    """All suites in the order of suites.def. A line without a runner, or the reverse, is an error."""
    suites = {}
    for line in Path(__file__).with_name("suites.def").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, rest = line.split(maxsplit=1)
        words = rest.split()
        at = next(i for i, word in enumerate(words) if word.isdigit())
        suites[name] = Suite(name, float(words[at]), " ".join(words[at + 1 :]), *RUNNERS[name])
    if set(suites) != set(RUNNERS):
        raise ValueError(f"suites.def and suites.py differ: {set(suites) ^ set(RUNNERS)}")
    return suites
