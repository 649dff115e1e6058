"""The suites that run x86 programs on a processor that this machine is not: `avx512` and `oldcpu`."""

import platform
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import guest
from .builds import FULL, GCC, ROOT, SEED
from .commands import Commands
from .levels import here as levels_here
from .results import FAILED, PASSED, SKIPPED, Case

# One core runs one guest, and the machine that the suites' limits are made for has two.
GUESTS = 2
COMBINATIONS = 200
# Seconds of a core that a program takes in the guest, about, where it is more than a few: the shares are made
# even by them. What is not here counts as OTHER_SECONDS.
SECONDS = {
    "convert": 13,
    "edges": 72,
    "edges_control": 12,
    "edges_environment": 34,
    "edges_heads": 16,
    "edges_nan": 71,
    "edges_range": 35,
    "edges_windows": 19,
    "kernels_flash": 30,
    "kernels_matmul": 9,
    "kernels_pack": 14,
    "kernels_rows": 8,
    "operations": 10,
    "options_random": 48,
}
OTHER_SECONDS = 5
# Programs of every level that the guest and the processor without AVX leave out: all of them would take half
# an hour. What they add to the others is of attention and its plans, which is the same code at every level;
# --full runs them in the guest.
_RANDOM = "options_random covers its options in the guest; scripts/test.sh --full runs it there"
_PLANS = "is about plans and long sequences more than kernels; scripts/test.sh --full runs it there"
LEFT_OUT = {
    "attention_patterns": _PLANS,
    "attention_shapes": _RANDOM,
    "edges_accuracy": _PLANS,
    "edges_shapes": _RANDOM,
    "edges_splits": _PLANS,
    "index64": _PLANS,
    "look": _PLANS,
    "options": _RANDOM,
    "plan": _PLANS,
    "plan_parts": _PLANS,
    "reuse": _PLANS,
}
# What a guest runs where this CPU has AVX-512 and the other suites run all of it natively: that detection and
# dispatch choose the level, and a kernel of each kind, in under a minute of one core.
PART = ("cpu", "dispatch", "convert", "kernels_matmul", "kernels_pack", "kernels_rows", "kernels_softmax")
_NATIVE = (
    "this CPU has AVX-512: the other suites run it natively; scripts/test.sh --full runs it in the guest too"
)
NATIVE_ONLY = "would take too long under the emulator; the other suites run its level scalar natively"

# qemu's x86 processors, and the level that dispatch has to choose on each.
OLD_CPUS = {"Nehalem": "scalar", "SandyBridge": "scalar", "Haswell": "avx2"}
REFUSED = 2  # exit status of a command that is asked for a level which cannot run
QEMU_LIMIT = "qemu (7.2 at least) faults on masked loads beside an unmapped page, which a processor does not"


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


def avx512_impossible() -> str:
    if platform.machine() != "x86_64":
        return f"this machine is {platform.machine()}: its build has no avx512"
    return guest.impossible()


def guest_programs(native: bool) -> tuple[list[str], dict[str, str]]:
    """What guests run, and what they leave out with the reasons; `native`: this CPU has AVX-512."""
    names = ["cpu", "dispatch", *level_programs()]
    left_out = {} if FULL else {name: _NATIVE for name in names if name not in PART} if native else LEFT_OUT
    return [name for name in names if name not in left_out], left_out


def run_avx512(commands: Commands) -> list[Case]:
    """The tests of level avx512, and those of detection and dispatch, in guests side by side.

    Where the CPU has AVX-512, one guest runs a part of them, so that the emulator is tried on every machine.
    """
    GCC.make(commands)
    env = {
        "ATTNSCOPE_TEST_EXPECT_ISA": "avx512",
        "ATTNSCOPE_TEST_LEVELS": "avx512",
        "ATTNSCOPE_TEST_QUICK": "1",
        "ATTNSCOPE_TEST_THIN": "1" if FULL else "4",
        "ATTNSCOPE_TEST_COMBINATIONS": str(COMBINATIONS),
        "ATTNSCOPE_TEST_SEED": SEED,
        "OMP_WAIT_POLICY": "passive",
        "OMP_NUM_THREADS": "2",
    }
    native = levels_here(GCC.directory / "cli" / "attnscope")["avx512"] == ""
    names, left_out = guest_programs(native)
    guests = 1 if native and not FULL else GUESTS
    lists = [[GCC.directory / "tests" / f"test_{name}" for name in share] for share in shares(names, guests)]
    logs = [commands.log.with_name(f"avx512-{number}.log") for number in range(len(lists))]
    stop = guest.Stop(commands.deadline)
    with ThreadPoolExecutor(len(lists)) as pool:
        try:
            tasks = [
                pool.submit(guest.run, guest.Guest(programs, env), log, stop)
                for programs, log in zip(lists, logs, strict=True)
            ]
            found = [task.result() for task in tasks]
        finally:
            stop.now()
    for path, ran in zip(logs, found, strict=True):
        commands.append(path, any(case.status == FAILED for case in ran))
    cases = sum(found, [])
    cases += [Case(name, SKIPPED, reason) for name, reason in left_out.items()]
    if not any(case.status == PASSED and case.name.endswith(" [avx512]") for case in cases):
        cases.append(Case("avx512", FAILED, "no test of that level passed"))
    return cases


# ---- oldcpu ------------------------------------------------------------------------------------------------


def oldcpu_impossible() -> str:
    if platform.machine() != "x86_64":
        return f"this machine is {platform.machine()}: its build has no x86 levels"
    return "" if shutil.which("qemu-x86_64") else "needs qemu-x86_64"


def run_oldcpu(commands: Commands) -> list[Case]:
    """The tests of the levels on a processor without AVX; detection, dispatch and `exp` on the others too."""
    GCC.make(commands)
    cases: list[Case] = []
    verify = ["qemu-x86_64", GCC.directory / "cli" / "attnscope", "verify", "--quick", "--isa"]
    for core, level in OLD_CPUS.items():
        env = {
            "QEMU_CPU": core,
            "ATTNSCOPE_TEST_EXPECT_ISA": level,
            "ATTNSCOPE_TEST_QUICK": "1",
            "ATTNSCOPE_TEST_THIN": "4",
            "ATTNSCOPE_TEST_FULL": "0",
            "ATTNSCOPE_TEST_LEVELS": "scalar",
        }
        names = {"cpu", "dispatch", "kernels_exp"}
        if core == "Nehalem":
            names |= set(level_programs()) - set(LEFT_OUT)
            cases += [Case(f"{core}: {name}", SKIPPED, NATIVE_ONLY) for name in LEFT_OUT]
        cases += GCC.test(
            commands, label=core, env=env, slower=10, names=sorted(names), wrapper=["qemu-x86_64"]
        )
        cases.append(_expect(commands, f"{core}: verify refuses avx512", [*verify, "avx512"], core, REFUSED))
        # Its buffers lie beside no unmapped pages, so it may run avx2 there.
        if level != "scalar":
            cases.append(_expect(commands, f"{core}: verify [{level}]", [*verify, level], core, 0))
    cases.append(Case("Haswell: tests between unmapped pages [avx2]", SKIPPED, QEMU_LIMIT))
    return cases


def _expect(commands: Commands, name: str, arguments: list, core: str, expected: int) -> Case:
    status = commands.run(arguments, {"QEMU_CPU": core})
    return Case(name, PASSED) if status == expected else Case(name, FAILED, f"exit status {status}")
