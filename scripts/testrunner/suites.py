"""The suites of scripts/test.sh. Each takes its commands and returns its cases."""

import platform
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import checked, coverage, emulated, fuzz, lint, mca
from .builds import ARM, CLANG, FULL, FUZZ, GCC, MESON, ROOT, SEED, SYSROOT
from .commands import CommandError, Commands
from .results import FAILED, PASSED, Case, read_junit

ARM_CORES = ("cortex-a72", "max")  # an old one, and the newest that the emulator knows
# The longest first, so that two side by side end together.
PYTHON_TESTS = ["tests/report", "tests/cli", "tests/runner", "tests/dispatch", "tests/bench", "tests/map"]
PYTHON_JOBS = 2


def run_gcc(commands: Commands) -> list[Case]:
    GCC.make(commands)
    return GCC.test(commands)


def run_clang(commands: Commands) -> list[Case]:
    CLANG.make(commands)
    return CLANG.test(commands)


def run_pytest(commands: Commands, name: str, paths: list[str], env: dict) -> list[Case]:
    junit = commands.log.with_name(f"{name}.xml")
    junit.unlink(missing_ok=True)
    # -v writes the name of a test before it runs: the last one is named when the time is up.
    arguments = ["-v", "-p", "no:cacheprovider", f"--hypothesis-seed={SEED}", f"--junitxml={junit}"]
    env = {"PYTHONDONTWRITEBYTECODE": "1", "ATTNSCOPE_TEST_SEED": SEED, **env}
    status = commands.run([sys.executable, "-m", "pytest", *arguments, *paths], env)
    if not junit.exists():
        last = [line.split(" ")[0] for line in commands.tail(1000).splitlines() if "::" in line]
        where = f", in {last[-1]}" if last else ""
        raise CommandError(
            "pytest: " + (f"out of time{where}" if status == -1 else f"exit status {status}, no report")
        )
    cases = read_junit(junit)
    if status and not any(case.status == FAILED for case in cases):
        cases.append(Case("pytest", FAILED, f"exit status {status}"))
    return cases


def run_directories(commands: Commands, paths: list[str], env: dict) -> list[Case]:
    """The Python tests of directories, two of them side by side: a test waits more than it computes.

    One process for each: each has a conftest of its own, and Python knows one module of a name. What they
    write goes to logs beside that of the suite, which gets them in the end.
    """

    stem = commands.log.stem
    names = [f"{stem}-{Path(path).name}" for path in paths]
    owns = [commands.beside(commands.log.with_name(f"{name}.log")) for name in names]

    failed: list[Path] = []  # their logs

    def run_one(own: Commands, name: str, path: str) -> list[Case]:
        try:
            cases = run_pytest(own, name, [path], env)
        except CommandError as error:  # the others count all the same
            cases = [Case(path, FAILED, str(error))]
        if any(case.status == FAILED for case in cases):
            failed.append(own.log)
        return cases

    with ThreadPoolExecutor(PYTHON_JOBS) as pool:
        tasks = [pool.submit(run_one, *of_one) for of_one in zip(owns, names, paths, strict=True)]
        try:
            return [case for task in tasks for case in task.result()]
        finally:  # also at an interrupt, which comes to this thread only
            pool.shutdown(wait=False, cancel_futures=True)
            for own in owns:
                own.end()
                commands.append(own.log, own.log in failed)


def run_python(commands: Commands) -> list[Case]:
    GCC.make(commands)
    env = {"ATTNSCOPE": str(GCC.directory / "cli" / "attnscope"), "ATTNSCOPE_BUILD": str(GCC.directory)}
    paths = [path for path in PYTHON_TESTS if any((ROOT / path).rglob("test_*.py"))]
    return run_directories(commands, paths, env)


def run_page(commands: Commands) -> list[Case]:
    return run_pytest(commands, "page", ["tests/page"], {})


def chromium() -> str:
    """The browser; nothing where there is none. Ubuntu has no package of it, and its runners have Chrome."""
    return next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), "")


def page_impossible() -> str:
    return "" if chromium() else "needs Chromium, which could not be installed"


def c_programs(tests: Path = ROOT / "tests") -> set[str]:
    """Names of all programs of the C suite, from their sources: tests, fuzz corpora, the command's self-test."""
    names = {path.stem.removeprefix("test_") for path in tests.glob("test_*.c")}
    return names | {path.stem for path in (tests / "fuzz").glob("fuzz_*.c")} | {"verify"}


def missing_programs(cases: list[Case], label: str) -> Case:
    """A case that fails when a program of the C suite is not among the cases of a run."""
    ran = {case.name.removeprefix(f"{label}: ").split(":")[0] for case in cases}
    missing = sorted(c_programs() - ran)
    name = f"{label} runs every C test"
    return Case(name, FAILED, "did not run: " + ", ".join(missing)) if missing else Case(name, PASSED)


def run_arm(commands: Commands) -> list[Case]:
    ARM.make(commands)
    cases = []
    for core in ARM_CORES:
        ran = ARM.test(commands, label=core, env={"QEMU_CPU": core}, slower=10)
        cases += [*ran, missing_programs(ran, core)]
    return cases + run_pytest(commands, "arm-objects", ["tests/dispatch/test_objects_arm.py"], {})


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
    """One line of suites.def, with what runs it. `minutes` is the limit of this run, usual or full."""

    name: str
    minutes: float
    description: str
    run: Callable[[Commands], list[Case]]
    impossible: Callable[[], str] = lambda: ""
    emulator: str = ""  # what its programs run under, if not on this machine's own processor
    levels: tuple[
        str, ...
    ] = ()  # those that run in it wherever it can run: where it cannot, they may run nowhere


RUNNERS = {
    "format": (lint.run_format,),
    "gcc": (run_gcc,),
    "clang": (run_clang,),
    "asan": (checked.run_asan,),
    "tsan": (checked.run_tsan, checked.tsan_impossible),
    "msan": (checked.run_msan, lambda: checked.lacks_sanitizer("memory")),
    "valgrind": (checked.run_valgrind, checked.valgrind_impossible, "valgrind"),
    "coverage": (coverage.run_coverage,),
    "python": (run_python,),
    "page": (run_page, page_impossible),
    "arm": (run_arm, arm_impossible, "qemu", ("scalar", "neon")),
    "avx512": (emulated.run_avx512, emulated.avx512_impossible, "Bochs", ("avx512",)),
    "oldcpu": (emulated.run_oldcpu, emulated.oldcpu_impossible, "qemu", ("scalar", "avx2")),
    "install": (run_install,),
    "fuzz": (run_fuzz, fuzz.impossible),
    "mca": (mca.run_mca, mca.impossible),
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
        usual, full = map(float, words[at : at + 2])
        suites[name] = Suite(name, full if FULL else usual, " ".join(words[at + 2 :]), *RUNNERS[name])
    if set(suites) != set(RUNNERS):
        raise ValueError(f"suites.def and suites.py differ: {set(suites) ^ set(RUNNERS)}")
    return suites
