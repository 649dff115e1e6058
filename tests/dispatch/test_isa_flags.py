"""The features that a level requires (dispatch/isa.def) are those that its compile flags allow.

Guards against a kernel that needs more than dispatch tested for (an illegal instruction on some CPU), and
against flags that leave a required feature unused. The compiler itself is asked: under a level's flags from
kernels/meson.build it defines a macro for each feature that it may use."""

import re
import shutil

import pytest
from build_trees import compilations, tree
from compiler_macros import MACROS, faults_of_flags, macros
from objects import COMPILERS
from testrunner.levels import ROOT, features, flags, required


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
    needs, arguments = required()[architecture][level], flags()[architecture][level]
    assert faults_of_flags(needs, compiler, target, arguments) == []


# Guards against a list of what is forbidden that somebody forgot to make longer: any flag that lets a compiler use
# more than the level requires is one too many, and a missing one is one too few.
EXTRA_FLAGS = (
    "-mgfni -mvaes -mvpclmulqdq -maes -mpclmul -msha -mavxvnni -mavx512vnni -mavx512vbmi -mavx512ifma -mavx512bf16"
    " -mavx512cd -mavx512vpopcntdq -mfma4 -mxop -mbmi -mbmi2 -mlzcnt -madx -mrdrnd -mrdseed -mmovbe -mcx16 -mclwb"
    " -mfsgsbase -mprfchw -msse4a -mtbm -mrtm"
).split()


@pytest.mark.parametrize("level", required()["x86"])
@pytest.mark.parametrize("compiler, target", COMPILERS["x86"], ids=["gcc", "clang"])
def test_one_flag_too_many_or_too_few(compiler, target, level):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    needs, arguments = required()["x86"][level], flags()["x86"][level]
    for extra in EXTRA_FLAGS:
        more = faults_of_flags(needs, compiler, target, [*arguments, extra])
        assert any("does not require" in text for text in more), extra
    names = {f"-m{name}": constant for constant, name in features().items()}
    for missing in arguments:
        others = [flag for flag in arguments if flag != missing]
        less = faults_of_flags(needs, compiler, target, others)
        # What the others imply, as avx512f does avx2, is not missing.
        implied = MACROS[names[missing]] in macros(compiler, *target, *others)
        assert bool(less) != implied, missing
    assert "takes away: __SSE2__" in faults_of_flags(needs, compiler, target, [*arguments, "-mno-sse2"])


def test_every_level_has_flags_and_the_other_way_round():
    for architecture, levels in required().items():
        assert set(levels) == set(flags()[architecture])


# Guards the reading of kernels/meson.build, on which these tests stand: what is read there is what a build does.
@pytest.mark.parametrize("compiler", ["gcc", "clang", "arm"])
def test_flags_are_those_of_a_build(compiler):
    found = {}
    for one in compilations(tree(compiler, "scalar")):
        if level := re.search(r"\blibkernels_(\w+)\.a\.p/", str(one.path)):
            found[level[1]] = [word for word in one.words if re.match(r"-m\w", word)]
    assert found in flags().values()


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
