"""What a compiler says by its macros that it may use, under the flags that it is given."""

import functools
import subprocess

import pytest
from testrunner.levels import features

# The macro that gcc and clang define when they may use a feature of dispatch/cpu.h: its name, but for these.
MACROS = {
    **{constant: f"__{name.upper()}__" for constant, name in features().items()},
    "CPU_NEON": "__ARM_NEON",
}
# What compilers define beside it: what the feature stands on (each CPU with AVX2 has it), and that the standard
# library's fma is one instruction. A macro in neither list is that of an extension which no level requires.
BESIDE = {
    "CPU_AVX2": "AVX SSE3 SSSE3 SSE4_1 SSE4_2 POPCNT CRC32 XSAVE",
    "CPU_FMA": "FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMAF32 FP_FAST_FMAF32x FP_FAST_FMAF64",
    "CPU_AVX512F": "EVEX256 EVEX512",  # of newer compilers: how long its vectors may be
}


@functools.cache
def macros(compiler: str, *arguments: str) -> frozenset[str]:
    """What the compiler predefines under these arguments."""
    command = [compiler, *arguments, "-dM", "-E", "-x", "c", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip(f"{compiler} does not compile for this target: {done.stderr.splitlines()[0]}")
    return frozenset(line.split()[1] for line in done.stdout.splitlines())


def bare_name(macro):
    """Without the underscores, of which compilers write one or two before and behind."""
    return macro.strip("_")


def faults_of_flags(needs, compiler, target, arguments):
    """How the macros that these arguments add differ from what the features of a level may add."""
    bare, defined = macros(compiler, *target), macros(compiler, *target, *arguments)
    own = {MACROS[feature] for feature in needs}
    beside = {name for feature in needs for name in BESIDE.get(feature, "").split()}
    extra = {macro for macro in defined - bare - own if bare_name(macro) not in beside}
    faults = [f"allows what the level does not require: {macro}" for macro in sorted(extra)]
    faults += [f"does not allow what the level requires: {macro}" for macro in sorted(own - defined)]
    return faults + [f"takes away: {macro}" for macro in sorted(bare - defined)]
