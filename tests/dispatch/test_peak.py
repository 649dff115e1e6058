"""The peak that a roofline stands on: what the table says `fma_peak` computes in a round is what its machine code
computes. A test of its value cannot see work that a compiler took out because it found the result without it."""

import re
import shutil
import subprocess

import pytest
from loopmodel import assembly
from objects import COMPILERS
from testrunner.levels import ROOT, flags, required

LANES = {"zmm": 16, "ymm": 8, "xmm": 4}
CASES = [
    pytest.param(architecture, level, compiler, target, id=f"{level}-{compiler}")
    for architecture, levels in required().items()
    for level, needs in levels.items()
    if needs  # of the CPU; a round of the scalar level is plain C, whose loops have no vectors to count
    for compiler, target in COMPILERS[architecture]
]


def compiled(architecture, level, compiler, target):
    """Assembly of a level's kernels with the flags of a release build."""
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    known = [*flags()[architecture][level], "-std=c17", "-O3", "-ffp-contract=off", "-D_GNU_SOURCE", "-fPIC"]
    command = [compiler, *target, *known, f"-I{ROOT}", f"-I{ROOT}/include", "-S", "-o", "-"]
    done = subprocess.run([*command, ROOT / f"kernels/{level}.c"], capture_output=True, text=True)
    if done.returncode and "file not found" in done.stderr:
        pytest.skip(f"{compiler} has no C library for this target")
    assert done.returncode == 0, done.stderr
    return done.stdout


def stated_flops(text):
    """The number that follows fma_peak in the level's table."""
    return int(
        re.search(r"^\s+\.(?:quad|xword)\s+fma_peak\n\s+\.(?:quad|xword)\s+(\d+)", text, re.MULTILINE)[1]
    )


def flops(loop):
    """What the FMAs of one turn compute, and the registers that they add to."""
    lanes = [
        LANES[found[1]] if (found := re.search(r"%([xyz]mm)\d", line)) else 4
        for line in loop.fma_instructions
    ]
    sums = {
        line.split()[1].rstrip(",") if "%" not in line else line.split()[-1] for line in loop.fma_instructions
    }
    return 2 * sum(lanes), sums


def rounds(loop):
    """Rounds of one turn: by how much it moves its counter, which is the only number in it."""
    steps = [
        int(found[1])
        for line in loop.instructions
        if (found := re.match(r"^(?:add|sub)[sq]?\s+\$(-?\d+), %r\w+$", line))
        or (found := re.match(r"^(?:add|sub)s? x\d+, x\d+, #?(\d+)$", line))
    ]
    steps += [1 for line in loop.instructions if re.match(r"^(?:inc|dec)q? ", line)]
    assert len(steps) == 1, loop.instructions
    return abs(steps[0])


@pytest.mark.parametrize(("architecture", "level", "compiler", "target"), CASES)
def test_stated_flops_are_computed(architecture, level, compiler, target):
    text = compiled(architecture, level, compiler, target)
    stated = stated_flops(text)
    for loop in assembly.hottest_loops(text, "fma_peak"):
        computed, sums = flops(loop)
        assert computed == stated * rounds(loop), loop.instructions
        assert len(sums) == len(loop.fma_instructions) // rounds(loop)  # each chain in a register of its own


# Guards the reading: turns of several rounds, and what two compilers write.
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["vfmadd231ps %ymm0, %ymm1, %ymm2", "addq $1, %rax", "cmpq %rax, %rdi", "jne .L2"], (16, 1)),
        (["vfmadd231ps %zmm0, %zmm1, %zmm2", "vfmadd231ps %zmm0, %zmm1, %zmm2", "addq $-2, %rdi", "jne .LBB0_1"], (64, 2)),
        (["vfmadd231ps %ymm0, %ymm1, %ymm2", "decq %rdi", "jne .LBB0_1"], (16, 1)),
        (["fmla v2.4s, v0.4s, v1.4s", "add x1, x1, 1", "cmp x0, x1", "bne .L2"], (8, 1)),
        (["fmla v2.4s, v0.4s, v1.4s", "subs x0, x0, #1", "b.ne .LBB0_1"], (8, 1)),
    ],
)  # fmt: skip
def test_reading(lines, expected):
    loop = assembly.Loop("f", tuple(lines), ())
    assert (flops(loop)[0], rounds(loop)) == expected
    assert len(flops(loop)[1]) == 1
