"""What compiled objects hold: each ISA level its own instructions and no other's, one name to the outside, and
nothing that a linker could take for another object's.

Guards against AVX code that runs before anybody asked for AVX: by a flag on the wrong file, or by an inline
function of a header whose copy in an ISA object the linker keeps for everybody (a weak symbol).

The release objects are those of the suites' build trees, which gcc and clang made; the ISA levels are also
compiled here without optimisation, where nothing is inlined.
"""

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from test_isa_flags import ROOT, flags

# Registers and prefixes of VEX and EVEX code: what AVX adds is written with names that begin with v.
X86_AVX = re.compile(r"^v[a-z0-9]+$")
X86_EVEX = re.compile(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])\b|%k[0-7]\b|\{1to\d+\}")
# Parts of the x86-64 baseline and of what levels do not ask for, which compilers never choose by themselves.
# Without tzcnt: its bytes are those of "rep bsf", which gcc writes for every x86-64 where the operand is not zero.
X86_OTHERS = re.compile(
    r"^(?:[bl]zcnt|popcnt|andn|bextr|bls\w+|pdep|pext|mulx|[rs][ao][rlx]x|movbe|crc32\w*)$"
)
# Instructions of SSE3 and later in their form without AVX, as far as compilers make them from plain C.
X86_AFTER_SSE2 = re.compile(
    r"^(?:haddp[sd]|movshdup|movsldup|lddqu|pshufb|p(?:abs|sign)[bwd]|palignr|round[sp][sd]|blendv?p[sd]|pblend\w+"
    r"|p(?:min|max)(?:s[bd]|u[wd])|pmovs?z?x\w+|pmulld|dpp[sd]|ptest|extractps|insertps|pextr[bdq]|pinsr[bdq])$"
)
COMPILERS = ("gcc", "clang")
BASELINE = ("attention", "dispatch", "common", "cli", "reference", "bench")


def is_x86():
    return subprocess.run(["uname", "-m"], capture_output=True, text=True).stdout.strip() == "x86_64"


pytestmark = pytest.mark.skipif(not is_x86(), reason="reads x86 machine code")


def instructions(path, objdump="objdump"):
    """(mnemonic, operands) of everything in the object's text sections."""
    done = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        found = re.match(
            r"\s+[0-9a-f]+:\s+(?:(?:rep|repz|repnz|lock|bnd|notrack|data16|cs) )*(\S+)\s*(.*)", line
        )
        if found:
            yield found[1], found[2]


def classes(path):
    """How many instructions of each kind the object has."""
    kinds = Counter()
    for mnemonic, operands in instructions(path):
        kinds["all"] += 1
        if X86_EVEX.search(operands):
            kinds["evex"] += 1
        if X86_AVX.match(mnemonic) and mnemonic not in ("verr", "verw"):
            kinds["avx"] += 1
        if X86_OTHERS.match(mnemonic) or X86_AFTER_SSE2.match(mnemonic):
            kinds[f"other: {mnemonic}"] += 1
    return kinds


def allowed(kinds, level):
    """Why an object of this level (None: baseline) may not have these instructions; empty if it may."""
    if not kinds["all"]:
        return "no instruction was found"
    # Compilers let AVX imply SSE4.2 and popcnt; each CPU with AVX2 has both.
    implied = {"other: popcnt"} if level in ("avx2", "avx512") else set()
    others = [kind for kind in kinds if kind.startswith("other: ") and kind not in implied]
    if others:
        return f"instructions of no level: {', '.join(others)}"
    if kinds["avx"] and level not in ("avx2", "avx512"):
        return f"{kinds['avx']} AVX instructions"
    if kinds["evex"] and level != "avx512":
        return f"{kinds['evex']} AVX-512 instructions"
    if level in ("avx2", "avx512") and not kinds["avx"]:
        return "none of the level's own instructions"
    if level == "avx512" and not kinds["evex"]:
        return "none of the level's own instructions"
    return ""


def tree(compiler, level="avx2"):
    """The suites' release tree of this compiler; the gcc one may be named by ATTNSCOPE_BUILD."""
    place = ROOT / f"build-test-{compiler}"
    if compiler == "gcc" and "ATTNSCOPE_BUILD" in os.environ:
        place = Path(os.environ["ATTNSCOPE_BUILD"])
    if not (place / "kernels" / f"libkernels_{level}.a.p").exists():
        pytest.skip(f"suite {compiler} has not built its tree")
    return place


def compile_object(compiler, optimisation, source, output, more=()):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    command = [compiler, "-std=c17", optimisation, *more, "-ffp-contract=off", "-D_GNU_SOURCE", "-fPIC"]
    command += ["-fvisibility=hidden", f"-I{ROOT}", f"-I{ROOT}/include"]
    done = subprocess.run([*command, "-c", source, "-o", output], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


LEVELS = sorted(flags()["x86"])


def level_object(compiler, release, level, place):
    if release:
        return tree(compiler) / "kernels" / f"libkernels_{level}.a.p" / f"{level}.c.o"
    return compile_object(compiler, "-O0", ROOT / f"kernels/{level}.c", place / "o.o", flags()["x86"][level])


def faults_of_symbols(listing, level):
    """What `nm --format=posix` shows of an ISA object that it must not."""
    symbols = [line.split()[:2] for line in listing.splitlines() if line.strip()]
    outside = [name for name, kind in symbols if kind.isupper() and kind not in "UVW"]
    weak = [name for name, kind in symbols if kind in "vVwWu"]
    faults = [f"weak: {name}" for name in weak]
    if outside != [f"attn_kernels_{level}"]:
        faults.append(f"defines {outside}")
    return faults


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("release", [True, False], ids=["release", "debug"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_level_object(tmp_path, compiler, release, level):
    path = level_object(compiler, release, level, tmp_path)
    assert allowed(classes(path), level) == ""
    listing = subprocess.run(["nm", "--format=posix", path], capture_output=True, text=True, check=True)
    assert faults_of_symbols(listing.stdout, level) == []


# What the library is outside of its levels, and the programs: objects that run before a level is chosen.
@pytest.mark.parametrize("compiler", COMPILERS)
def test_baseline_objects(compiler):
    objects = [path for top in BASELINE for path in sorted((tree(compiler) / top).rglob("*.o"))]
    assert len(objects) > 40
    faults = {str(path): allowed(classes(path), None) for path in objects}
    assert {name: fault for name, fault in faults.items() if fault} == {}


# Guards the audit itself: objects that it must refuse, compiled from the levels with other flags than theirs.
@pytest.mark.parametrize(
    ("source", "more", "level", "fault"),
    [
        ("attention/flash.c", ["-mavx", "-mno-popcnt"], None, "AVX instructions"),
        ("kernels/avx512.c", ["-mavx2", "-mfma", "-mf16c", "-mavx512f"] + ["-mavx512bw", "-mavx512dq", "-mavx512vl"], "avx2", "AVX-512"),
        ("kernels/avx2.c", ["-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512vl"], "avx2", "AVX-512"),
        ("attention/flash.c", ["-mpopcnt"], None, "of no level"),
        ("reference/tolerance.c", ["-msse4.1"], None, "of no level"),
        ("kernels/scalar.c", ["-mbmi"], "scalar", "of no level"),
        ("kernels/scalar.c", [], "avx2", "none of the level's own"),
    ],
)  # fmt: skip
def test_audit_refuses(tmp_path, source, more, level, fault):
    path = compile_object("gcc", "-O1", ROOT / source, tmp_path / "o.o", more)
    assert fault in allowed(classes(path), level)


# Guards the audit of symbols: an inline function that C leaves to the linker, and a second name.
@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("int attn_kernels_x = 1; __attribute__((weak)) int shared(void) { return 1; }", "weak: shared"),
        ("int attn_kernels_x = 1; int helper(void) { return 1; }", "defines"),
        ("static int attn_kernels_x = 1; int *f(void); static int *g(void) { return &attn_kernels_x; }", "defines"),
        ("int attn_kernels_x = 1; static int fine(int a) { return a; } int outside(int); int h = 0;", "defines"),
    ],
)  # fmt: skip
def test_audit_of_symbols_refuses(tmp_path, code, fault):
    source = tmp_path / "a.c"
    source.write_text(code)
    path = compile_object("gcc", "-O0", source, tmp_path / "o.o", ["-Wno-unused-function"])
    listing = subprocess.run(["nm", "--format=posix", path], capture_output=True, text=True, check=True)
    assert any(fault in text for text in faults_of_symbols(listing.stdout, "x"))
