"""The features that a level requires (dispatch/isa.def) are those that its compile flags allow.

Guards against a kernel that needs more than dispatch tested for (an illegal instruction on some CPU), and
against flags that leave a required feature unused. The compiler itself is asked: under a level's flags from
kernels/meson.build it defines a macro for each feature that it may use."""

import ast
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
# Required without being named: AVX2 stands on AVX, and dispatch refuses without it.
IMPLIED = {"CPU_AVX2": {"CPU_AVX"}}
# Extensions that no level requires and whose macros must therefore not appear.
FORBIDDEN = re.compile(
    r"__(AVX512(?!(F|BW|DQ|VL)__)\w+|AVXVNNI\w*|BMI2?|LZCNT|FMA4|XOP|ARM_FEATURE_(SVE|BF16|FP16|DOTPROD|MATMUL)\w*)"
)

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


def macros(compiler: str, arguments: list[str]) -> set[str]:
    """What the compiler predefines under these arguments."""
    command = [compiler, *arguments, "-dM", "-E", "-x", "c", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip(f"{compiler} does not compile for this target: {done.stderr.splitlines()[0]}")
    return {line.split()[1] for line in done.stdout.splitlines()}


def cases():
    for architecture, levels in required().items():
        for level in levels:
            for compiler, target in COMPILERS[architecture]:
                yield pytest.param(
                    architecture, level, compiler, target, id=f"{architecture}-{level}-{compiler}"
                )


@pytest.mark.parametrize("architecture, level, compiler, target", list(cases()))
def test_required_features_equal_compile_flags(architecture, level, compiler, target):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    features = required()[architecture][level]
    expected = features.union(*(IMPLIED.get(feature, set()) for feature in features))
    # Every AArch64 compiler may use NEON, at level scalar too; what it does there is not vectorised.
    baseline = {"CPU_NEON"} if architecture == "arm64" else set()
    defined = macros(compiler, [*target, *flags()[architecture][level]])
    allowed = {feature for feature, macro in MACROS.items() if macro in defined}
    assert allowed == expected | baseline
    assert not [macro for macro in defined if FORBIDDEN.match(macro)]


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
