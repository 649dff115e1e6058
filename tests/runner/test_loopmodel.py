"""The static model of inner loops: what it takes for a loop, for a spill and for slow, on recorded assembly
and recorded output of llvm-mca 19 (loops/: the 6 x 16 tile of level avx2, and a tile of 6 x 32, whose 24
accumulators are more than there are registers)."""

import dataclasses
import json
from pathlib import Path

import pytest
from loopmodel import assembly, model, page, rows, targets
from testrunner import mca
from testrunner.results import FAILED, PASSED, SKIPPED

LOOPS = Path(__file__).with_name("loops")
GOOD, BAD = ["tile_6x16_gcc"], ["tile_6x32_gcc", "tile_6x32_clang"]


def recorded(name: str) -> tuple[assembly.Loop, model.Prediction]:
    (loop,) = assembly.hottest_loops((LOOPS / f"{name}.s").read_text(), "tile_new")
    return loop, model.read_predictions((LOOPS / f"{name}.json").read_text(), 1)[0]


# Guards the verdict: a tile that does not fit the registers must fail, for its spills and for its rate.
@pytest.mark.parametrize("name", BAD)
def test_tile_that_does_not_fit_fails(name):
    loop, prediction = recorded(name)
    assert loop.fmas == 24
    found = model.faults(loop, prediction, product=True)
    assert len(found) == 2
    assert "% of the FMA pipes, less than 90 %" in found[0]
    assert "spills" in found[1] and "%rsp" in found[1]
    # Where constants may be read, what is written is a fault all the same.
    assert len(model.faults(loop, prediction, product=False)) == 1


# Guards against a checker that finds fault with everything.
@pytest.mark.parametrize("name", GOOD)
def test_tile_that_fits_passes(name):
    loop, prediction = recorded(name)
    assert loop.fmas == 12 and not loop.stack
    assert model.faults(loop, prediction, product=True) == []


# Guards each half of the verdict alone, and its edge.
def test_rate_and_spills_are_judged_apart():
    clean = assembly.Loop("f", ("vfmadd231ps %ymm0, %ymm1, %ymm2",), ())
    assert model.faults(clean, model.Prediction(10.0, 9.0), product=True) == []
    assert len(model.faults(clean, model.Prediction(10.0, 8.99), product=True)) == 1
    assert model.faults(clean, model.Prediction(10.0, 1.0), product=False) == []
    reads = assembly.Loop("f", clean.instructions, ("vmovaps 64(%rsp), %ymm4",))
    assert len(model.faults(reads, model.Prediction(10.0, 10.0), product=True)) == 1
    assert model.faults(reads, model.Prediction(10.0, 10.0), product=False) == []
    writes = assembly.Loop("f", clean.instructions, ("vmovaps %ymm4, 96(%rsp)",))
    assert len(model.faults(writes, model.Prediction(10.0, 10.0), product=False)) == 1


# Guards that the stack is known by every name it has, and that other pointers are not taken for it.
@pytest.mark.parametrize(
    ("before", "access", "reads", "writes"),
    [
        ("", "vmovaps %ymm4, 96(%rsp)", 0, 1),
        ("", "vaddps 96(%rsp), %ymm1, %ymm4", 1, 0),
        ("\tmovq\t%rsp, %rbp\n", "vmovaps %ymm4, -96(%rbp)", 0, 1),
        ("", "vmovups 8(%rbp), %ymm4", 0, 0),  # without a frame rbp is a register as others
        ("", "vmovups %ymm4, (%rdi)", 0, 0),
        ("", "str q3, [sp, #16]", 0, 1),
        ("", "ldp q3, q4, [sp, 32]", 1, 0),
        ("\tmov\tx29, sp\n", "str q3, [x29, 64]", 0, 1),
        ("", "ldr q3, [x29, 64]", 0, 0),
        ("", "ldr q3, [x1, 64]", 0, 0),
        ("", "pushq %rax", 0, 1),
        ("", "popq %rax", 1, 0),
        # Through a register that was given an address in the stack, until it is given something else.
        ("\tleaq\t-64(%rsp), %r10\n", "vmovaps %ymm4, (%r10)", 0, 1),
        ("\tleaq\t-64(%rsp), %r10\n", "vmovaps %ymm4, (%rdi,%r10)", 0, 1),
        (
            "\tmovq\t%rsp, %rax\n\taddq\t$32, %rax\n\tandq\t$-32, %rax\n",
            "vaddps 32(%rax), %ymm1, %ymm4",
            1,
            0,
        ),
        ("\tleaq\t64(%rsp), %r10\n\tleaq\t(%r10,%rcx,4), %r11\n", "vmovaps %ymm4, 32(%r11)", 0, 1),
        ("\tleaq\t-64(%rsp), %r10\n", "vmovaps %ymm4, 8(,%r10,1)", 0, 1),
        ("\tleaq\t-64(%rsp), %r10\n\tcmovneq\t%r10, %rdi\n", "vmovaps %ymm4, (%rdi)", 0, 1),
        ("\tleaq\t-64(%rsp), %r10\n\tcmovneq\t%rdi, %r10\n", "vmovaps %ymm4, (%r10)", 0, 1),
        ("\tleaq\t-64(%rsp), %r10\n\txchgq\t%r10, %rdi\n", "vmovaps %ymm4, (%rdi)", 0, 1),
        ("\tleaq\t-64(%rsp), %r10\n", "leaq 32(%r10), %r11", 0, 0),
        ("\tleaq\t-64(%rsp), %r10\n\tmovq\t%rdi, %r10\n", "vmovaps %ymm4, (%r10)", 0, 0),
        ("\tleaq\t-64(%rsp), %r10\n\txorl\t%r10d, %r10d\n", "vmovaps %ymm4, (%rdi,%r10)", 0, 0),
        ("\tleaq\t-64(%rsp), %r10\n\tcmpq\t%rdi, %r10\n", "vmovaps %ymm4, (%r10)", 0, 1),
        ("\tmovq\t8(%rsp), %r10\n", "vmovaps %ymm4, (%r10)", 0, 0),  # an address that was kept there
        ("", "leaq 64(%rsp), %r10\n\tvmovaps %ymm4, (%r10)", 0, 1),
        ("", "vmovaps %ymm4, (%r10)\n\tleaq 64(%rsp), %r10", 0, 1),  # in the next turn
        ("\tadd\tx10, sp, 16\n", "str q3, [x10]", 0, 1),
        ("\tmov\tx10, sp\n\tadd\tx11, x10, x3\n", "ldr q3, [x11, 16]", 1, 0),
        ("\tadd\tx10, sp, 16\n\tldr\tx10, [x0]\n", "str q3, [x10]", 0, 0),
        ("\tadd\tx10, sp, 16\n\tmov\tw10, 3\n", "str q3, [x0, x10]", 0, 0),
    ],
)
def test_stack_accesses(before, access, reads, writes):
    fma, back = (
        ("fmla v0.4s, v1.4s, v2.s[0]", "bne\t.L3")
        if "[" in access
        else ("vfmadd231ps %ymm0, %ymm1, %ymm2", "jne\t.L3")
    )
    text = f"f:\n{before}.L3:\n\t{fma}\n\t{access}\n\t{back}\n\tret\n\t.size\tf, .-f\n"
    (loop,) = assembly.hottest_loops(text, "f")
    assert (len(loop.stack) - len(loop.stack_stores), len(loop.stack_stores)) == (reads, writes)


FUNCTION = """
before:
.L1:
	vfmadd231ps	%ymm0, %ymm1, %ymm9
	jne	.L1
	.size	before, .-before
f:                                      # @f
	.cfi_startproc
	jmp	.L7
.L2:                                    # =>This Loop Header: Depth=1
.L3:                                    #   Parent Loop BB0_2 Depth=1
	vfmadd231ps	(%rax){1to16}, %zmm1, %zmm2 # comment
#APP
# 12 "file.h" 1
# 0 "" 2
#NO_APP
	vfmadd231ps	%zmm3, %zmm1, %zmm4
	jne	.L3
.L4:
	vfmadd231ps	%zmm3, %zmm1, %zmm5
	jne	.L4
	jne	.L2
.L7:
	ret
.L8:
	vfmadd231ps	%zmm3, %zmm1, %zmm5
	vfmadd231ps	%zmm3, %zmm1, %zmm5
	vfmadd231ps	%zmm3, %zmm1, %zmm5
	jmp	.L7
	.size	f, .-f
f.constprop.0:
.L9:
	vfmadd231ps	%zmm3, %zmm1, %zmm6
	jne	.L9
	.size	f.constprop.0, .-f.constprop.0
f_other:
	ret
	.size	f_other, .-f_other
"""


# Guards which loop is taken: of the function and of gcc's copies of it, innermost, the one with the most
# FMAs; not a block behind the end that jumps back.
def test_the_hottest_loop_is_found():
    loops = assembly.hottest_loops(FUNCTION, "f")
    assert [(loop.function, loop.fmas, len(loop.instructions)) for loop in loops] == [
        ("f", 2, 3),
        ("f.constprop.0", 1, 2),
    ]
    assert loops[0].instructions[-1] == "jne .L3"
    # The limit is that of the FMAs: what loads an operand is no part of it.
    assert model.fmas_alone(loops[0]) == [
        "vfmadd231ps %zmm0, %zmm1, %zmm2",
        "vfmadd231ps %zmm3, %zmm1, %zmm4",
    ]


# Guards against passing by finding nothing, and against modelling half of a loop that branches.
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g:\n\tret\n", "no function f"),
        ("f:\n\tret\n\t.size f, .-f\n", "f: no loop with FMAs"),
        ("f:\n.L1:\n\taddl %eax, %eax\n\tjne .L1\n\t.size f, .-f\n", "f: no loop with FMAs"),
        (
            "f:\n.L1:\n\tvfmadd231ps %ymm0, %ymm1, %ymm2\n\tje .L2\n\tjne .L1\n.L2:\n",
            "a jump inside the loop",
        ),
    ],
)
def test_what_cannot_be_modelled_is_an_error(text, message):
    with pytest.raises(assembly.AssemblyError, match=message):
        assembly.hottest_loops(text, "f")


# Guards that loops and predictions stay together.
def test_a_missing_region_is_an_error():
    output = json.dumps({"CodeRegions": [{"SummaryView": {}}]})
    with pytest.raises(model.ModelError, match="1 regions in 2"):
        model.read_predictions(output, 1)


# Guards that what is modelled is what is built: of the command only output and dependencies change.
def test_the_flags_are_those_of_the_build(tmp_path):
    words = "ccache cc -I. -O3 -fPIC -mavx2 -MD -MQ x.o -MF x.o.d -o x.o -c ../kernels/avx2.c".split()
    out = tmp_path / "x.s"
    level = next(level for level in targets.LEVELS if level.name == "avx2")
    made = targets.compile_command(words, level, "gcc", True, out)
    assert made == [
        "ccache",
        "cc",
        "-I.",
        "-O3",
        "-fPIC",
        "-mavx2",
        "../kernels/avx2.c",
        "-w",
        "-S",
        "-o",
        str(out),
    ]


# Guards that a level which is added is modelled: it has CPUs, and those are of no level that there is not.
def test_every_level_has_cpus():
    assert {level.name: level.cpus for level in targets.LEVELS} == targets.CPUS
    assert all(targets.CPUS.values())


# Guards that the suite counts every row, and that none is lost between failed, skipped and passed.
def test_suite_reads_what_the_model_writes():
    loops = [
        {"name": "a", "faults": [], "problem": ""},
        {"name": "b", "faults": ["slow", "spills"], "problem": ""},
        {"name": "c", "faults": [], "problem": "needs clang"},
    ]
    cases = mca.read_cases(json.dumps({"loops": loops, "page": []}), "")
    assert [(case.status, case.reason) for case in cases] == [
        (PASSED, ""),
        (FAILED, "slow; spills"),
        (SKIPPED, "needs clang"),
    ]


def modelled(function: str, fmas: int, cycles: float, limit: float, compiler: str = "gcc") -> rows.Row:
    loop = assembly.Loop(function, ("vfmadd231ps %ymm0, %ymm1, %ymm2",) * fmas, ())
    prediction = model.Prediction(cycles, limit)
    version = {"gcc": "gcc 12", "clang": "clang 14"}[compiler]
    return rows.Row("avx2", "znver3", compiler, function, loop, prediction, version=version)


# Guards how the table's figures come about: over compilers, loops and gcc's copies of them; two steps a turn count
# as two; the loop of the peak is no product.
def test_the_page_line():
    found = [
        modelled("tile_new.constprop.0", 24, 13.006, 12.0),
        modelled("tile_values", 48, 24.02, 24.0, "clang"),
        modelled("fma_peak", 12, 99.0, 6.0),
        modelled("exponentials_", 9, 8.47, 4.5),
        modelled("exponentials_", 9, 8.14, 4.5, "clang"),
    ]
    (line,) = page.lines(found)
    assert (
        line.text
        == "| avx2 | znver3 | gcc 12, clang 14 | 12.01 to 13.01 | 12 | 92 to 100 % | 8.14 to 8.47 | 4.5 |"
    )
    (line,) = page.lines([rows.Row("avx2", "znver3", "gcc", "tile_new", problem="needs gcc")])
    assert (line.text, line.problem) == ("", "needs gcc")


# Guards that the page cannot go stale: a figure that is not the one found, or a line that is not there, fails;
# figures of other compilers are not compared.
def test_suite_compares_the_page():
    text = "| avx2 | znver3 | gcc 12 | 6.01 | 6 | 100 % | 8.47 | 4.5 |"
    compared = {
        text: (PASSED, ""),
        text.replace("8.47", "8.48"): (FAILED, f"the line must be: {text}"),
        text.replace("znver3", "znver4"): (FAILED, f"the line must be: {text}"),
        text.replace("gcc 12", "gcc 13"): (
            SKIPPED,
            "the page's figures are those of gcc 13 and not of gcc 12",
        ),
    }
    line = {"level": "avx2", "cpu": "znver3", "text": text, "problem": ""}
    for stated, expected in compared.items():
        (case,) = mca.read_cases(json.dumps({"loops": [], "page": [line]}), f"before\n{stated}\nafter\n")
        assert (case.name, (case.status, case.reason)) == ("docs/kernels.md: avx2 znver3", expected)
    (case,) = mca.read_cases(
        json.dumps({"loops": [], "page": [{**line, "text": "", "problem": "none"}]}), text
    )
    assert (case.status, case.reason) == (SKIPPED, "none")


# Guards that a limit is one: where a model lets the FMAs of one loop pass faster than those of another, the
# slower ones are faults, on that CPU alone.
def test_one_rate_of_fmas():
    even = [modelled("tile_new", 12, 6.0, 6.0), modelled("fma_peak", 14, 7.0, 7.0)]
    assert rows.with_one_rate(even) == even
    elsewhere = dataclasses.replace(modelled("tile_new", 24, 8.0, 8.0), cpu="other")
    odd = modelled("tile_add", 24, 8.0, 8.0)
    judged = rows.with_one_rate([*even, odd, elsewhere])
    assert [bool(row.faults) for row in judged] == [True, True, False, False]
    assert "0.50 cycles an FMA by the model, where tile_add has 0.33" in judged[0].faults[0]


# Guards that the compiler is known by the mark it leaves, of which packagers' names are a part.
@pytest.mark.parametrize(
    ("mark", "name"),
    [
        ('\t.ident\t"GCC: (Debian 12.2.0-14) 12.2.0"', "gcc 12"),
        ('\t.ident\t"Debian clang version 14.0.6"', "gcc 14"),
        ("", "gcc"),
    ],
)
def test_compiler_version(mark, name):
    assert rows.compiler_version(f"f:\n\tret\n{mark}\n", "gcc") == name


# Guards that a machine without the right llvm-mca is told what to install: another version is no substitute.
def test_another_version_of_llvm_mca_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "llvm-mca 19" in mca.impossible()
    program = tmp_path / "llvm-mca"
    for version, refused in (("16.0.6", True), ("19.1.7", False)):
        program.write_text(f"#!/bin/sh\necho 'LLVM version {version}'\n")
        program.chmod(0o755)
        assert bool(mca.impossible()) == refused


# Guards that llvm-mca itself, where it is, says what the recordings say.
@pytest.mark.parametrize("name", GOOD + BAD)
def test_llvm_mca_says_what_was_recorded(name):
    if mca.impossible():
        pytest.skip(mca.impossible())
    loop, expected = recorded(name)
    (prediction,) = model.predict(model.find_mca(), "x86_64-linux-gnu", "znver4", [loop])
    assert prediction.cycles == pytest.approx(expected.cycles, rel=0.01)
    assert prediction.fma_cycles == expected.fma_cycles


# Guards the choice of CPUs for neon: an FMA by lane takes what one of whole vectors takes, also where it waits for
# the one before; apple-m1 has other figures, and is known for it (TWO_RATES).
@pytest.mark.parametrize("cpu", targets.CPUS["neon"])
def test_fma_by_lane_is_an_fma(cpu):
    if mca.impossible():
        pytest.skip(mca.impossible())
    forms = ("fmla v0.4s, v1.4s, v2.s[0]", "fmla v0.4s, v1.4s, v2.4s")
    chains = [assembly.Loop("f", (form,), (form,)) for form in forms]
    lane, whole = model.predict(model.find_mca(), targets.TRIPLES["arm64"], cpu, chains)
    assert (lane == whole) == (cpu != "apple-m1")
