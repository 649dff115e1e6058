"""The same audit as in test_objects.py for AArch64: what the objects of the cross build hold, or on AArch64
those of the native one, and what the cross compiler makes of the levels.

NEON is part of every AArch64, so no level's code is forbidden elsewhere; what no level asks for is all that
ARMv8.0-A does not have: SVE, arithmetic on half precision and bfloat16, dot products, atomics, cryptography, CRC.
"""

import platform
import re
import subprocess

import pytest
from build_trees import arm_tree, baseline_objects
from machine_code import instructions, lacking
from objects import compile_object, faults_of_symbols
from testrunner.levels import ROOT, flags

NATIVE = platform.machine() in ("aarch64", "arm64")
PREFIX = "" if NATIVE else "aarch64-linux-gnu-"
LEVEL_FLAGS = {
    "neon": flags()["arm64"]["neon"],
    "scalar": flags()["arm64"]["scalar"] + ["-fno-tree-vectorize", "-fno-tree-slp-vectorize"],
}
LEVELS = sorted(LEVEL_FLAGS)

VECTOR_FMA = re.compile(r"^v\d+\.4s")


def fault(path, level):
    """Why an object of this level (None: outside of the levels) may not have its instructions; empty if it may."""
    code = instructions(path, PREFIX)
    if not code:
        return "no instruction was found"
    beyond = lacking(code, "arm64", {"CPU_NEON"}, PREFIX)
    if beyond:
        return f"instructions that no level asks for: {'; '.join(beyond[:20])}"
    own = any(line.mnemonic == "fmla" and VECTOR_FMA.match(line.operands) for line in code)
    if (level == "neon") != own and level is not None:
        return "none of the level's own instructions" if level == "neon" else "vector arithmetic"
    return ""


def compiled(optimisation, source, output, more):
    return compile_object(PREFIX + "gcc", optimisation, ROOT / source, output, more)


def check_level(path, level):
    assert fault(path, level) == ""
    listing = subprocess.run(
        [PREFIX + "nm", "--format=posix", path], capture_output=True, text=True, check=True
    )
    assert faults_of_symbols(listing.stdout, level) == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("optimisation", ["-O0", "-O1", "-O3"])
def test_compiled_level(tmp_path, optimisation, level):
    check_level(compiled(optimisation, f"kernels/{level}.c", tmp_path / "o.o", LEVEL_FLAGS[level]), level)


@pytest.mark.parametrize("level", LEVELS)
def test_built_level(level):
    check_level(arm_tree() / "kernels" / f"libkernels_{level}.a.p" / f"{level}.c.o", level)


def test_built_baseline():
    objects = baseline_objects(arm_tree())
    assert len(objects) > 40
    faults = {str(path): fault(path, None) for path in objects}
    assert {name: why for name, why in faults.items() if why} == {}


# Guards the audit itself: objects that it must refuse, compiled with other flags than theirs, or as another
# level.
@pytest.mark.parametrize(
    ("code", "more", "level", "expected"),
    [
        ("void f(float *a, int n) { for (int i = 0; i < n; i++) a[i] *= 2; }", ["-O3", "-march=armv8.2-a+sve"], None, "that no level asks for"),
        ("_Float16 f(_Float16 a, _Float16 b) { return a * b; }", ["-march=armv8.2-a+fp16"], None, "fmul"),
        ("int f(int *a) { return __atomic_fetch_add(a, 1, 5); }", ["-march=armv8.1-a"], None, "ldadd"),
        ("#include <arm_neon.h>\nint32x4_t f(int32x4_t a, int8x16_t b) { return vdotq_s32(a, b, b); }", ["-march=armv8.2-a+dotprod"], "neon", "sdot"),
        ("#include <arm_neon.h>\nfloat32x4_t f(float32x4_t a, bfloat16x8_t b) { return vbfdotq_f32(a, b, b); }", ["-march=armv8.2-a+bf16"], "neon", "bfdot"),
        ("#include <arm_neon.h>\nfloat32x4_t f(float32x4_t a) { return vfmaq_f32(a, a, a); }", [], "scalar", "vector arithmetic"),
        ("int f(int a) { return a; }", [], "neon", "none of the level's own"),
        ("float f(__fp16 a) { return a; }", [], None, ""),
        # What distributions' compilers do unasked: hints, nops where they are not known; and what is none.
        ("int g(int); int f(int a) { return g(a) + 1; }", ["-mbranch-protection=standard"], None, ""),
        ("int g(int); int f(int a) { return g(a) + 1; }", ["-mbranch-protection=standard", "-march=armv8.3-a"], None, "retaa"),
        ("unsigned f(unsigned a, unsigned b) { return (a & ~0xF0u) | (b << 4 & 0xF0u); }", [], None, ""),
    ],
)  # fmt: skip
def test_audit_refuses(tmp_path, code, more, level, expected):
    (tmp_path / "a.c").write_text(code + "\n")
    found = fault(compiled("-O1", tmp_path / "a.c", tmp_path / "o.o", more), level)
    assert expected in found and bool(expected) == bool(found)
