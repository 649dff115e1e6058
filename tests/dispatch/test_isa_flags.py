"""The features that a level requires (dispatch/isa.def) are those that its compile flags allow.

Guards against a kernel that needs more than dispatch tested for (an illegal instruction on some CPU), and
against flags that leave a required feature unused. The compiler itself is asked: under a level's flags from
kernels/meson.build it defines a macro for each feature that it may use."""

import ast
import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Feature of isa.def: the macro that gcc and clang define when they may use it.
MACROS = {
    "CPU_AVX": "__AVX__",
    "CPU_AVX2": "__AVX2__",
    "CPU_FMA": "__FMA__",
    "CPU_F16C": "__F16C__",
    "CPU_AVX512F": "__AVX512F__",
    "CPU_AVX512BW": "__AVX512BW__",
    "CPU_AVX512DQ": "__AVX512DQ__",
    "CPU_AVX512VL": "__AVX512VL__",
    "CPU_NEON": "__ARM_NEON",
}
# What compilers define beside it: what the feature stands on (each CPU with AVX2 has it), and that the standard
# library's fma is one instruction. A macro in neither list is that of an extension which no level requires.
BESIDE = {
    "CPU_AVX2": "AVX SSE3 SSSE3 SSE4_1 SSE4_2 POPCNT CRC32 XSAVE",
    "CPU_FMA": "FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMAF32 FP_FAST_FMAF32x FP_FAST_FMAF64",
    "CPU_AVX512F": "EVEX256 EVEX512",  # of newer compilers: how long its vectors may be
}

COMPILERS = {
    "x86": [("gcc", []), ("clang", ["--target=x86_64-linux-gnu"])],
    "arm64": [("aarch64-linux-gnu-gcc", []), ("clang", ["--target=aarch64-linux-gnu"])],
}


def required() -> dict[str, dict[str, set[str]]]:
    """Architecture -> level -> features, from isa.def; the levels of no architecture under both."""
    levels = {"x86": {}, "arm64": {}}
    architectures = list(levels)
    for line in (ROOT / "dispatch/isa.def").read_text().splitlines():
        if architecture := re.match(r"#if.*\bATTN_ARCH_(\w+)", line):
            architectures = [architecture[1].lower()]
        elif line.startswith("#endif"):
            architectures = list(levels)
        elif match := re.fullmatch(r"ISA\((\w+), (.+)\)", line):
            features = set() if match[2] == "0" else set(match[2].split(" | "))
            assert features <= set(MACROS), f"unknown feature in: {line}"
            for architecture in architectures:
                levels[architecture][match[1]] = features
    return levels


def flags() -> dict[str, dict[str, list[str]]]:
    """Architecture -> level -> compile flags, from kernels/meson.build."""
    text = (ROOT / "kernels/meson.build").read_text()
    found = {}
    for architecture in ("x86", "arm64"):
        match = re.search(rf"^kernel_flags_{architecture} = (\{{.*?^\}})", text, re.MULTILINE | re.DOTALL)
        assert match, f"no kernel_flags_{architecture} in kernels/meson.build"
        # What only some compilers know is asked for by a call; the flags that choose instructions begin with -m.
        levels = ast.literal_eval(re.sub(r"cc\.get_supported_arguments\(([^)]*)\)", r"[\1]", match[1]))
        found[architecture] = {
            level: [flag for flag in flags if flag.startswith("-m")] for level, flags in levels.items()
        }
    scalar = re.search(r"^  'scalar': cc\.get_supported_arguments\((.*?)\)", text, re.MULTILINE | re.DOTALL)
    assert scalar, "no flags of level scalar in kernels/meson.build"
    for levels in found.values():
        levels["scalar"] = [f for f in re.findall(r"'([^']+)'", scalar[1]) if f.startswith("-m")]
    return found


@functools.cache
def macros(compiler: str, *arguments: str) -> frozenset[str]:
    """What the compiler predefines under these arguments."""
    command = [compiler, *arguments, "-dM", "-E", "-x", "c", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip(f"{compiler} does not compile for this target: {done.stderr.splitlines()[0]}")
    return frozenset(line.split()[1] for line in done.stdout.splitlines())


def cases():
    for architecture, levels in required().items():
        for level in levels:
            for compiler, target in COMPILERS[architecture]:
                yield pytest.param(
                    architecture, level, compiler, target, id=f"{architecture}-{level}-{compiler}"
                )


def bare_name(macro):
    """Without the underscores, of which compilers write one or two before and behind."""
    return macro.strip("_")


def faults_of_flags(features, compiler, target, arguments):
    """How the macros that these arguments add differ from what the features of a level may add."""
    bare, defined = macros(compiler, *target), macros(compiler, *target, *arguments)
    own = {MACROS[feature] for feature in features}
    beside = {name for feature in features for name in BESIDE.get(feature, "").split()}
    extra = {macro for macro in defined - bare - own if bare_name(macro) not in beside}
    faults = [f"allows what the level does not require: {macro}" for macro in sorted(extra)]
    faults += [f"does not allow what the level requires: {macro}" for macro in sorted(own - defined)]
    return faults + [f"takes away: {macro}" for macro in sorted(bare - defined)]


@pytest.mark.parametrize("architecture, level, compiler, target", list(cases()))
def test_required_features_equal_compile_flags(architecture, level, compiler, target):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    features, arguments = required()[architecture][level], flags()[architecture][level]
    assert faults_of_flags(features, compiler, target, arguments) == []


# Guards against a list of what is forbidden that somebody forgot to make longer: any flag that lets a compiler use
# more than the level requires is one too many, and a missing one is one too few.
EXTRA_FLAGS = (
    "-mgfni -mvaes -mvpclmulqdq -maes -mpclmul -msha -mavxvnni -mavx512vnni -mavx512vbmi -mavx512ifma -mavx512bf16"
    " -mavx512cd -mavx512vpopcntdq -mfma4 -mxop -mbmi -mbmi2 -mlzcnt -madx -mrdrnd -mrdseed -mmovbe -mcx16 -mclwb"
    " -mfsgsbase -mprfchw -msse4a -mtbm -mrtm"
).split()


@pytest.mark.parametrize("level", ["scalar", "avx2", "avx512"])
@pytest.mark.parametrize("compiler, target", COMPILERS["x86"], ids=["gcc", "clang"])
def test_one_flag_too_many_or_too_few(compiler, target, level):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    features, arguments = required()["x86"][level], flags()["x86"][level]
    for extra in EXTRA_FLAGS:
        more = faults_of_flags(features, compiler, target, [*arguments, extra])
        assert any("does not require" in text for text in more), extra
    # -mavx2 and -mfma are implied by what avx512 names beside them: without them nothing changes there.
    for missing in arguments:
        less = faults_of_flags(features, compiler, target, [flag for flag in arguments if flag != missing])
        assert less or level == "avx512", missing
    assert "takes away: __SSE2__" in faults_of_flags(features, compiler, target, [*arguments, "-mno-sse2"])


def test_every_level_has_flags_and_the_other_way_round():
    for architecture, levels in required().items():
        assert set(levels) == set(flags()[architecture])


def test_no_flag_takes_what_the_building_machine_has():
    checked = 0
    for build_file in ROOT.rglob("meson.build"):
        top = build_file.relative_to(ROOT).parts[0]
        if top == "subprojects" or top.startswith(("build", ".")):
            continue
        checked += 1
        lines = [line for line in build_file.read_text().splitlines() if not line.lstrip().startswith("#")]
        assert not re.search(r"-m(arch|cpu|tune)=native|-ffast-math|-Ofast", "\n".join(lines)), build_file
    assert checked >= 5
