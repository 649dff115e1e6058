"""What compiled objects hold: each ISA level its own instructions and no other's, one name to the outside, and
nothing that a linker could take for another object's.

Guards against AVX code that runs before anybody asked for AVX: by a flag on the wrong file, or by an inline
function of a header whose copy in an ISA object the linker keeps for everybody (a weak symbol).

The release objects are those of the suites' build trees, which gcc and clang made; the ISA levels are also
compiled here without optimisation, where nothing is inlined.
"""

import subprocess

import pytest
from build_trees import baseline_objects, tree
from machine_code import instructions, lacking
from objects import compile_object, faults_of_symbols
from testrunner.levels import ROOT, flags, required

# What one file of the library may hold beyond the baseline: it asks the CPU first whether there is such a thing.
DETECTION = {"dispatch_cpu_x86.c.o": {"xgetbv"}}
COMPILERS = ("gcc", "clang")
LEVELS = list(required()["x86"])  # worst to best


def is_x86():
    return subprocess.run(["uname", "-m"], capture_output=True, text=True).stdout.strip() == "x86_64"


pytestmark = pytest.mark.skipif(not is_x86(), reason="reads x86 machine code")


def fault(path, level):
    """Why an object of this level (None: baseline) may not have its instructions; empty if it may."""
    code = instructions(path)
    if not code:
        return "no instruction was found"
    features = required()["x86"][level] if level else set()
    special = next((more for name, more in DETECTION.items() if str(path).endswith(name)), set())
    beyond = [line for line in lacking(code, "x86", features) if line not in special]
    if beyond:
        return f"instructions that the level does not ask for: {'; '.join(beyond[:20])}"
    if level in LEVELS[1:]:
        below = required()["x86"][LEVELS[LEVELS.index(level) - 1]]
        return "" if lacking(code, "x86", below) else "none of the level's own instructions"
    return ""


def level_object(compiler, release, level, place):
    if release:
        return tree(compiler) / "kernels" / f"libkernels_{level}.a.p" / f"{level}.c.o"
    return compile_object(compiler, "-O0", ROOT / f"kernels/{level}.c", place / "o.o", flags()["x86"][level])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("release", [True, False], ids=["release", "debug"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_level_object(tmp_path, compiler, release, level):
    path = level_object(compiler, release, level, tmp_path)
    assert fault(path, level) == ""
    listing = subprocess.run(["nm", "--format=posix", path], capture_output=True, text=True, check=True)
    assert faults_of_symbols(listing.stdout, level) == []


@pytest.mark.parametrize("compiler", COMPILERS)
def test_baseline_objects(compiler):
    objects = baseline_objects(tree(compiler))
    assert len(objects) > 40
    faults = {str(path): fault(path, None) for path in objects}
    assert {name: why for name, why in faults.items() if why} == {}


# Beside -fcf-protection, by which the build finds them: Ubuntu, Fedora and Arch compile packages so, or everything.
HARDENED = (
    "-fstack-protector-strong -fstack-clash-protection -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -fPIE"
    " -fexceptions -fno-plt -ftrivial-auto-var-init=zero -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3"
).split()


# Guards the audit itself: objects that it must refuse, compiled from the levels with other flags than theirs.
@pytest.mark.parametrize(
    ("source", "more", "level", "expected"),
    [
        ("attention/flash.c", ["-mavx", "-mno-popcnt"], None, "%xmm"),
        ("kernels/avx512.c", ["-mavx2", "-mfma", "-mf16c", "-mavx512f"] + ["-mavx512bw", "-mavx512dq", "-mavx512vl"], "avx2", "%k"),
        ("kernels/avx2.c", ["-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512vl"], "avx2", "{1to8}"),
        ("attention/flash.c", ["-mpopcnt"], None, "popcnt"),
        ("reference/tolerance.c", ["-msse4.1"], None, "blendv"),
        ("kernels/scalar.c", ["-mbmi"], "scalar", "andn"),
        ("kernels/scalar.c", [], "avx2", "none of the level's own"),
        ("kernels/avx2.c", ["-mavx2", "-mfma", "-mf16c"], "avx512", "none of the level's own"),
        ("attention/flash.c", [], None, ""),
        # What distributions' compilers do unasked: endbr64 is a nop where it is not known.
        ("attention/flash.c", ["-fcf-protection=full"] + HARDENED, None, ""),
        ("kernels/scalar.c", ["-fcf-protection=full"] + HARDENED, "scalar", ""),
        ("kernels/avx2.c", ["-mavx2", "-mfma", "-mf16c", "-fcf-protection=full"] + HARDENED, "avx2", ""),
    ],
)  # fmt: skip
def test_audit_refuses(tmp_path, source, more, level, expected):
    found = fault(compile_object("gcc", "-O1", ROOT / source, tmp_path / "o.o", more), level)
    assert expected in found and bool(expected) == bool(found)


# Instructions of extensions that no level asks for, under the lowest level that has registers for them. Every level
# has some.
BEYOND = {
    "avx512": "vpdpbusd %zmm1,%zmm2,%zmm3; vpopcntd %zmm1,%zmm2; vdpbf16ps %zmm1,%zmm2,%zmm3"
    "; vaddph %zmm1,%zmm2,%zmm3; vpmadd52luq %zmm1,%zmm2,%zmm3; vexp2ps %zmm1,%zmm2; vpermb %zmm1,%zmm2,%zmm3"
    "; vpconflictd %zmm1,%zmm2; vp2intersectd %zmm1,%zmm2,%k2; vpcompressb %zmm1,%zmm2{%k1}; vrcp28ps %zmm1,%zmm2"
    "; vpshufbitqmb %zmm1,%zmm2,%k1; vpclmulqdq $2,%zmm1,%zmm2,%zmm3; vaesenc %zmm1,%zmm2,%zmm3"
    "; vgf2p8mulb %zmm1,%zmm2,%zmm3",
    "avx2": "{vex} vpdpbusd %ymm1,%ymm2,%ymm3; vfmaddps %ymm1,%ymm2,%ymm3,%ymm4; vphaddbd %xmm1,%xmm2"
    "; vgf2p8mulb %ymm1,%ymm2,%ymm3; vaesenc %xmm1,%xmm2,%xmm3; vaesenc %ymm1,%ymm2,%ymm3"
    "; vpclmulqdq $2,%xmm1,%xmm2,%xmm3; vsha512rnds2 %xmm1,%ymm2,%ymm3; {vex} vpmadd52luq %ymm1,%ymm2,%ymm3",
    "scalar": "phaddd %xmm1,%xmm2; pmaddubsw %xmm1,%xmm2; addsubps %xmm1,%xmm2; movddup %xmm1,%xmm2"
    "; lddqu (%rax),%xmm1; roundss $1,%xmm1,%xmm2; pcmpgtq %xmm1,%xmm2; aesenc %xmm1,%xmm2; pclmulqdq $2,%xmm1,%xmm2"
    "; sha256rnds2 %xmm0,%xmm1,%xmm2; gf2p8mulb %xmm1,%xmm2; shlx %eax,%ebx,%ecx; adcx %eax,%ebx; lzcnt %eax,%ebx"
    "; popcnt %eax,%ebx; crc32b %al,%ebx; movbe (%rax),%ebx; cmpxchg16b (%rax); fisttpll (%rax); rdrand %eax"
    "; xgetbv; extrq %xmm1,%xmm2; movntss %xmm1,(%rax); vaddps %xmm1,%xmm2,%xmm3",
}


# Guards against a list that somebody forgot to make longer: each of these is refused at its level and below, by
# name, in an object in which all else is allowed.
@pytest.mark.parametrize("level", BEYOND)
def test_audit_knows_every_extension(tmp_path, level):
    assert set(BEYOND) == set(LEVELS)
    listed = [text.strip() for text in BEYOND[level].split(";")]
    known = []
    for text in listed:
        source = tmp_path / "a.s"
        source.write_text(f"{text}\nret\n")
        done = subprocess.run(["as", source, "-o", tmp_path / "a.o"], capture_output=True, text=True)
        if (
            "no such instruction" in done.stderr
        ):  # an assembler older than the extension: no object has it either
            continue
        assert done.returncode == 0, done.stderr
        known.append(text)
        # The disassembler writes the number in pclmulqdq as part of its name, and crc32 without a size.
        mnemonic = text.removeprefix("{vex} ").split()[0].removesuffix("qdq").replace("crc32b", "crc32")
        for lower in LEVELS[: LEVELS.index(level) + 1]:
            found = fault(tmp_path / "a.o", lower)
            assert "does not ask for" in found and mnemonic in found, (text, lower)
    assert len(known) >= len(listed) - 2


# Guards what is let through beside endbr64: nothing else of control-flow enforcement, and no prefix that other
# processors ignore, of which the assembler says nothing.
@pytest.mark.parametrize("level", [None, "avx512"])
@pytest.mark.parametrize(
    "text",
    "rdsspq %rax; incsspq %rax; saveprevssp; wrssq %rax,(%rbx); setssbsy; clrssbsy (%rax)"
    "; xacquire lock xchg %eax,(%rbx); lock xacquire incl (%rax); xrelease movl $1,(%rax); bnd jmp .; bnd ret"
    "; bnd call *%rax; bndmk (%rax),%bnd0".split("; "),
)
def test_audit_refuses_what_is_ignored(tmp_path, text, level):
    def found(code):
        (tmp_path / "a.s").write_text(f"{code}\nvaddps %zmm1,%zmm2,%zmm3\n" if level else f"{code}\n")
        subprocess.run(["as", tmp_path / "a.s", "-o", tmp_path / "a.o"], check=True)
        return fault(tmp_path / "a.o", level)

    assert found("endbr64\nnotrack jmp *%rax\nrep bsf %eax,%ebx\nrepz ret") == ""
    assert "does not ask for" in found(text)


# Guards what only looks like code: bytes that mean nothing to the disassembler.
def test_audit_refuses_unknown_bytes(tmp_path):
    (tmp_path / "a.s").write_text(".byte 0x06\nret\n")
    subprocess.run(["as", tmp_path / "a.s", "-o", tmp_path / "a.o"], check=True)
    assert "(bad)" in fault(tmp_path / "a.o", "avx512")


# Guards the audit of symbols: an inline function that C leaves to the linker, and a second name.
@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("int attn_kernels_x = 1; __attribute__((weak)) int shared(void) { return 1; }", "weak: shared"),
        ("int attn_kernels_x = 1; int helper(void) { return 1; }", "defines"),
        ("static int attn_kernels_x = 1; int *f(void); static int *g(void) { return &attn_kernels_x; }", "defines"),
        ("int attn_kernels_x = 1; static int fine(int a) { return a; } int outside(int); int h = 0;", "defines"),
        ("int attn_kernels_x = 1; static int g(void) { return 1; } static int (*r(void))(void) { return g; } int f(void) __attribute__((ifunc(\"r\")));", "defines"),
        ("int attn_kernels_x = 1; __attribute__((common)) int shared;", "defines"),
        ("int attn_kernels_x = 1; static _Thread_local int own; int *f(void); static int *g(void) { return &own; } int *(*h)(void) = g;", "defines"),
    ],
)  # fmt: skip
def test_audit_of_symbols_refuses(tmp_path, code, fault):
    source = tmp_path / "a.c"
    source.write_text(code)
    path = compile_object("gcc", "-O0", source, tmp_path / "o.o", ["-Wno-unused-function"])
    listing = subprocess.run(["nm", "--format=posix", path], capture_output=True, text=True, check=True)
    assert any(fault in text for text in faults_of_symbols(listing.stdout, "x"))
