"""The suites that run x86 programs on a processor that this machine is not: `avx512` and `oldcpu`."""

import os
import platform
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import guest
from .builds import FULL, GCC, ROOT
from .commands import Commands
from .results import FAILED, PASSED, SKIPPED, Case

# One core runs one guest, and the machine that the suites' limits are made for has two.
GUESTS = 2
COMBINATIONS = 200
# Seconds that a program takes in the guest, where it is more than a few: the shares are made even by them.
# Measured on a quiet core at 3 GHz. What is not here counts as OTHER_SECONDS.
SECONDS: dict[str, int] = {}
OTHER_SECONDS = 5
# Programs of every level that the guest leaves out, and why.
LEFT_OUT: dict[str, str] = {}

# qemu's x86 processors, and the level that dispatch has to choose on each.
OLD_CPUS = {"Nehalem": "scalar", "SandyBridge": "scalar", "Haswell": "avx2"}
QEMU_LIMIT = "qemu 7.2 faults on masked loads beside an unmapped page, which a processor does not"


# ---- avx512 ------------------------------------------------------------------------------------------------


def level_programs(tests: Path = ROOT / "tests") -> list[str]:
    """Names of the test programs that run once per level."""
    return sorted(
        path.stem.removeprefix("test_")
        for path in tests.glob("test_*.c")
        if "test_add_levels(" in path.read_text()
    )


def shares(names: list[str], count: int) -> list[list[str]]:
    """The programs in `count` lists that take about as long as each other; in each, the quick ones first."""

    def cost(name: str) -> int:
        return SECONDS.get(name, OTHER_SECONDS)

    lists: list[list[str]] = [[] for _ in range(count)]
    for name in sorted(names, key=cost, reverse=True):
        min(lists, key=lambda share: sum(map(cost, share))).insert(0, name)
    return [share for share in lists if share]


def has_avx512(cpuinfo: str) -> bool:
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    return {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= set(flags[1].split() if flags else [])


def avx512_impossible() -> str:
    if platform.machine() != "x86_64":
        return f"this machine is {platform.machine()}: its build has no avx512"
    if has_avx512(Path("/proc/cpuinfo").read_text()) and not FULL:
        return "this CPU has AVX-512: the other suites run avx512 natively"
    return guest.impossible()


def run_avx512(commands: Commands) -> list[Case]:
    """The tests of level avx512, and those of detection and dispatch, in guests side by side."""
    GCC.make(commands)
    env = {
        "ATTNSCOPE_TEST_EXPECT_ISA": "avx512",
        "ATTNSCOPE_TEST_LEVELS": "avx512",
        "ATTNSCOPE_TEST_QUICK": "1",
        "ATTNSCOPE_TEST_COMBINATIONS": str(COMBINATIONS),
        "ATTNSCOPE_TEST_SEED": os.environ.get("ATTNSCOPE_TEST_SEED") or str(time.time_ns() % 10**9),
        "OMP_WAIT_POLICY": "passive",
        "OMP_NUM_THREADS": "2",
    }
    names = [name for name in ["cpu", "dispatch", *level_programs()] if name not in LEFT_OUT]
    lists = [[GCC.directory / "tests" / f"test_{name}" for name in share] for share in shares(names, GUESTS)]
    logs = [commands.log.with_name(f"avx512-{number}.log") for number in range(len(lists))]
    stop = guest.Stop(commands.deadline)
    with ThreadPoolExecutor(len(lists)) as pool:
        try:
            tasks = [
                pool.submit(guest.run, guest.Guest(programs, env), log, stop)
                for programs, log in zip(lists, logs, strict=True)
            ]
            cases = [case for task in tasks for case in task.result()]
        finally:
            stop.now()
    with commands.log.open("a") as log:
        for path in logs:
            log.write(f"\n{path.name}:\n{path.read_text(errors='replace')}")
    cases += [Case(name, SKIPPED, reason) for name, reason in LEFT_OUT.items()]
    if not any(case.status == PASSED and case.name.endswith(" [avx512]") for case in cases):
        cases.append(Case("avx512", FAILED, "no test of that level passed"))
    return cases


# ---- oldcpu ------------------------------------------------------------------------------------------------


def oldcpu_impossible() -> str:
    if platform.machine() != "x86_64":
        return f"this machine is {platform.machine()}: its build has no x86 levels"
    return "" if shutil.which("qemu-x86_64") else "needs qemu-x86_64"


def run_oldcpu(commands: Commands) -> list[Case]:
    """Every C test on a processor without AVX; detection, dispatch and `verify` on one with AVX, and AVX2."""
    GCC.make(commands)
    cases: list[Case] = []
    for core, level in OLD_CPUS.items():
        env = {
            "QEMU_CPU": core,
            "ATTNSCOPE_TEST_EXPECT_ISA": level,
            "ATTNSCOPE_TEST_QUICK": "1",
            "ATTNSCOPE_TEST_FULL": "0",
        }
        names = () if core == "Nehalem" else ("cpu", "dispatch")
        cases += GCC.test(commands, label=core, env=env, slower=10, names=names, wrapper="qemu-x86_64")
    return cases
