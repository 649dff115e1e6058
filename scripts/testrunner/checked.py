"""The suites that run the C tests under sanitizers and valgrind, and prove that these see faults at all.

tests/provoke.c makes one fault a run. Each suite requires the report of those that its tool is there for,
and silence where there is none: a tool that was not compiled in, or is told to ignore too much, fails here.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .builds import ASAN, GCC, MSAN, THREADED, TSAN
from .commands import CommandError, Commands, output_of
from .results import FAILED, PASSED, Case

QUICK = {"ATTNSCOPE_TEST_QUICK": "1"}
# What each tool is there for: fault of tests/provoke.c -> what the report must match.
ASAN_FAULTS = {
    # What a vector store that lies partly beyond the end is called depends on where the padding begins.
    "address": "AddressSanitizer: (heap-buffer-overflow|unknown-crash)",
    "leak": "LeakSanitizer",
    "undefined": "signed integer overflow",
}
TSAN_FAULTS = {"threads": "ThreadSanitizer: data race", "team": "ThreadSanitizer: data race"}
MSAN_FAULTS = {"memory": "use-of-uninitialized-value"}
VALGRIND_FAULTS = {"address": "Invalid write", "memory": "uninitialised value", "leak": "definitely lost"}


def provoke(commands: Commands, program: Path, faults: dict[str, str], env: dict, wrapper=()) -> list[Case]:
    """A case for each fault (name -> what its report must match), and one for a run without a fault."""
    cases = []
    for fault, report in {"none": "", **faults}.items():
        before = commands.log.stat().st_size
        status = commands.run([*wrapper, program, fault], env)
        said = commands.log.read_bytes()[before:].decode(errors="replace")
        name = f"provoke: {fault}"
        if fault == "none":
            bad = f"exit status {status} without a fault" if status else ""
        elif status in (0, 2, 127, -1):  # 2: usage; 127 and -1: did not start or end
            bad = f"nothing was reported (exit status {status})"
        else:
            bad = "" if re.search(report, said) else f"exit status {status} without '{report}'"
        cases.append(Case(name, FAILED, bad) if bad else Case(name, PASSED))
    return cases


# clang's own words for a target that it has no such instrumentation for, and a linker's where the run time is not
# installed. Nothing else is a reason to leave a suite out: a full disk is not.
CLANG_LACKS = re.compile(
    r"unsupported option '-fsanitize=|unsupported argument '\S+' to option '-?-?fsanitize"
    r"|(?:cannot find|cannot open|no such file or directory).*\blibclang_rt\.",
    re.IGNORECASE,
)
# What a sanitizer's run time says on a kernel whose address layout it does not know.
LAYOUT = re.compile(
    r"(?:Memory|Thread)Sanitizer.*(?:unexpected memory mapping|can not mmap|personality|ASLR)"
)


def lacks_sanitizer(option: str, program: str = "int main(void) { return 0; }", run: bool = True) -> str:
    """Why clang's -fsanitize=option cannot be used here; empty if it can. Some kernels' address layouts end it.

    What fails for any other reason is an error with the words of what failed.
    """
    if not shutil.which("clang"):
        return "needs clang"
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "a"
        arguments = ["clang", f"-fsanitize={option}", "-x", "c", "-", "-o", str(path)]
        built = subprocess.run(arguments, input=program, text=True, capture_output=True)
        if CLANG_LACKS.search(built.stderr) and built.returncode:
            return f"clang has no -fsanitize={option} here"
        if built.returncode:
            raise CommandError(f"clang -fsanitize={option}: {built.stderr.strip()[-300:]}")
        if not run:
            return ""
        ran = subprocess.run([path], capture_output=True, text=True)
        if ran.returncode and not LAYOUT.search(ran.stderr):
            raise CommandError(
                f"a program with -fsanitize={option}: exit status {ran.returncode}: {ran.stderr.strip()[-300:]}"
            )
        return f"a program with -fsanitize={option} does not start here" if ran.returncode else ""


# ---- address and undefined behaviour --------------------------------------------------------------


def run_asan(commands: Commands) -> list[Case]:
    ASAN.make(commands)
    env = {
        "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    cases = provoke(commands, ASAN.directory / "tests" / "provoke", ASAN_FAULTS, env)
    return cases + ASAN.test(commands, env=env, slower=4)


# ---- threads --------------------------------------------------------------------------------------


def archer() -> Path:
    """The library by which ThreadSanitizer learns what clang's OpenMP orders: without it, barriers are unknown."""
    place = output_of(["clang", "-print-resource-dir"]).strip()
    if not place:
        raise CommandError("clang -print-resource-dir says nothing")
    return Path(place).parents[1] / "libarcher.so"


def tsan_impossible() -> str:
    return lacks_sanitizer("thread") or ("" if archer().exists() else "needs libarcher.so of clang's OpenMP")


def run_tsan(commands: Commands) -> list[Case]:
    """clang and its OpenMP; gcc's is not known to the sanitizer, which then takes every barrier for a race.

    Only the scalar level: accesses of more than 16 bytes are not looked at, so a race between AVX stores is not
    seen. What the threads share out is the same at every level.
    """
    TSAN.make(commands)
    env = {
        **QUICK,
        "OMP_TOOL_LIBRARIES": str(archer()),
        "TSAN_OPTIONS": "ignore_noninstrumented_modules=1",  # inside of OpenMP's library; archer tells of it
        "ATTNSCOPE_ISA": "scalar",
        "ATTNSCOPE_TEST_LEVELS": "scalar",
    }
    program = TSAN.directory / "tests" / "provoke"
    cases = provoke(commands, program, TSAN_FAULTS, env)
    return cases + TSAN.test(commands, env=env, slower=4, names=THREADED)


# ---- memory that nobody wrote ---------------------------------------------------------------------


def run_msan(commands: Commands) -> list[Case]:
    """Without OpenMP and hwloc, which are not instrumented; cmocka and jansson are not either: tests
    that read what jansson wrote are skipped."""
    MSAN.make(commands)
    program = MSAN.directory / "tests" / "provoke"
    cases = provoke(commands, program, MSAN_FAULTS, QUICK)
    return cases + MSAN.test(commands, env=QUICK, slower=4)


# ---- valgrind -------------------------------------------------------------------------------------

# The release build as users get it. Each kernel, and plan and parsers on their corpora: code 30 times slower
# leaves no time for more. Not: guard and support, whose children are meant to crash.
VALGRIND_TESTS = (
    "convert dispatch kernels_flash kernels_matmul kernels_pack kernels_rows kernels_softmax operations problem "
    "fuzz_blocks fuzz_npy fuzz_number fuzz_pattern fuzz_plan fuzz_sizes"
).split()
VALGRIND = [
    "valgrind",
    "--quiet",
    "--error-exitcode=99",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite",
]


def valgrind_impossible() -> str:
    return "" if shutil.which("valgrind") else "needs valgrind"


def run_valgrind(commands: Commands) -> list[Case]:
    """Its CPU has no AVX-512, whatever the machine has: the tests of that level are skipped by dispatch."""
    GCC.make(commands)
    cases = provoke(commands, GCC.directory / "tests" / "provoke", VALGRIND_FAULTS, {}, VALGRIND)
    return cases + GCC.test(
        commands, label="valgrind", env=QUICK, slower=4, names=VALGRIND_TESTS, wrapper=VALGRIND
    )
