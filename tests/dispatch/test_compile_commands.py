"""What every object of the build trees is compiled with: the flags of its level and no other that chooses
instructions, by the build's own record.

Guards against what the machine code cannot show: tzcnt has the bytes of "rep bsf", which any processor executes, but
on one without BMI it gives another value for zero. A compiler that may not use BMI writes these bytes only where the
operand is not zero."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from build_trees import AUDITED, Compilation, arm_tree, compilations, tree, up_to_date
from compiler_macros import faults_of_flags, macros
from testrunner.levels import required

# Extensions whose instructions have the bytes of others: tzcnt; prefixes that other processors ignore.
SILENT = {"__BMI__", "__HLE__", "__MPX__"}
_SILENT = re.compile(r"\b(?:tzcnt[wlq]?|xacquire|xrelease|bnd)\b", re.IGNORECASE)
_LEVEL = re.compile(r"libkernels_(\w+)\.a\.p$")


def machine_words(words):
    """The compiler, and of its arguments those that can choose instructions."""
    words = list(words[1:] if Path(words[0]).name == "ccache" else words)
    kept, following = [], False
    for word in words[1:]:
        if following or word.startswith(("-m", "--target", "-Wa,")):
            kept.append(word)
            following = False
        elif word in ("-Xclang", "-Xassembler", "-target", "-arch"):
            kept.append(word)
            following = True
    return words[0], kept


def fault(one, architecture):
    """Why an object may not be compiled so; empty if it may."""
    compiler, arguments = machine_words(one.words)
    handed = [word for word in arguments if word.startswith(("-Wa,", "-Xassembler"))]
    if handed:
        return f"hands the assembler what only it knows: {handed[0]}"
    level = _LEVEL.search(str(one.path.parent))
    features = required()[architecture][level[1]] if level else set()
    faults = faults_of_flags(features, compiler, [], arguments)
    faults += [f"may use {name}" for name in sorted(SILENT & macros(compiler, *arguments))]
    return "; ".join(faults)


def audited(place):
    found = [one for one in compilations(place) if one.top in AUDITED]
    assert len(found) > 40
    assert len({_LEVEL.search(str(one.path.parent)) for one in found}) > 2
    return found


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_objects_of_x86(compiler):
    faults = {str(one.path): fault(one, "x86") for one in audited(tree(compiler))}
    assert {name: why for name, why in faults.items() if why} == {}


def test_objects_of_arm():
    faults = {str(one.path): fault(one, "arm64") for one in audited(arm_tree())}
    assert {name: why for name, why in faults.items() if why} == {}


# Guards that test itself: commands that it must refuse, whatever object of the library they are for.
@pytest.mark.parametrize("compiler", ["gcc", "clang", "ccache gcc"])
@pytest.mark.parametrize(
    ("where", "flags", "expected"),
    [
        ("attention/libattnscope_static.a.p", "", ""),
        ("attention/libattnscope_static.a.p", "-mbmi", "__BMI__"),
        ("attention/libattnscope_static.a.p", "-march=x86-64-v3", "__BMI__"),
        ("attention/libattnscope_static.a.p", "-march=haswell -mno-avx2", "__BMI__"),
        ("attention/libattnscope_static.a.p", "-Wa,-mno-bmi", "hands the assembler"),
        ("attention/libattnscope_static.a.p", "-mavx2", "__AVX2__"),
        ("kernels/libkernels_avx2.a.p", "-mavx2 -mfma -mf16c", ""),
        ("kernels/libkernels_avx2.a.p", "-mavx2 -mfma -mf16c -mbmi", "__BMI__"),
        ("kernels/libkernels_avx2.a.p", "-mavx2 -mfma", "does not allow what the level requires: __F16C__"),
        ("kernels/libkernels_scalar.a.p", "-mlzcnt", "__LZCNT__"),
    ],
)
def test_command_is_refused(compiler, where, flags, expected):
    if not shutil.which(compiler.split()[-1]):
        pytest.skip(f"{compiler} is not installed")
    command = f"{compiler} -I. -O3 -DX=1 {flags} -MD -MQ x.o -MF x.o.d -o x.o -c ../x.c"
    found = fault(Compilation(Path(where) / "x.c.o", tuple(command.split())), "x86")
    assert expected in found and bool(expected) == bool(found)


# Guards the same where clang is told behind its driver's back, and a compiler that has more by default.
def test_what_the_flags_do_not_show(tmp_path):
    where = Path("cli/attnscope.p/x.c.o")
    if shutil.which("clang"):
        words = "clang -Xclang -target-feature -Xclang +bmi -O3 -c x.c".split()
        assert "__BMI__" in fault(Compilation(where, tuple(words)), "x86")
    wrapper = tmp_path / "gcc"
    wrapper.write_text('#!/bin/sh\nexec gcc -mbmi "$@"\n')
    wrapper.chmod(0o755)
    assert fault(Compilation(where, (str(wrapper), "-c", "x.c")), "x86") == "may use __BMI__"


def assembly(one, place):
    """What the compiler writes for the assembler by an object's command: there tzcnt has its name."""
    words, kept = iter(one.words), []
    for word in words:
        if word in ("-o", "-MQ", "-MF", "-MT"):
            next(words)
        elif word not in ("-c", "-MD", "-MMD"):
            kept.append(word)
    done = subprocess.run([*kept, "-S", "-o", "-"], cwd=place, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{one.path}: {done.stderr[-2000:]}"
    return done.stdout


def silent(text):
    """Instructions of a compiler's assembly that have the bytes of others, or are prefixes that others ignore."""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    lines = [line.split("#")[0] for line in text.splitlines()]
    statements = [part.strip() for line in lines for part in line.split(";")]
    assert any(re.match(r"(?:ret|jmp|call)", part) for part in statements), "no code: link-time optimisation?"
    return [part for part in statements if not part.startswith(".") and _SILENT.search(part)]


# Guards the other way to instructions, that no flag names: a function or a part of a file with a target of its own,
# however that is written, and assembly.
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_assembly_of_x86(compiler):
    place = tree(compiler)
    found = audited(place)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = dict(zip(found, pool.map(lambda one: silent(assembly(one, place)), found), strict=True))
    assert {str(one.path): lines[:3] for one, lines in faults.items() if lines} == {}


_ZEROS = "{ return x ? (unsigned)__builtin_ctz(x) : 32u; }"


# Guards that test itself: what it must find, in any of its spellings, and what every x86-64 knows.
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"unsigned f(unsigned x) {_ZEROS}", ""),
        ("unsigned f(unsigned x) { return (unsigned)__builtin_ctz(x); }", ""),
        ('const char *f(void) { return "a; tzcnt"; }', ""),
        (f'__attribute__((target("bmi"))) unsigned f(unsigned x) {_ZEROS}', "tzcnt"),
        (f'__attribute__((__target__("bmi"))) unsigned f(unsigned x) {_ZEROS}', "tzcnt"),
        (f'__attribute__((noinline,\n  target(\n"bmi"))) unsigned f(unsigned x) {_ZEROS}', "tzcnt"),
        (f'#define OWN(x) __attribute__((tar##x("arch=haswell")))\nOWN(get) unsigned f(unsigned x) {_ZEROS}', "tzcnt"),
        ('unsigned f(unsigned x) { __asm__("tzcntl %1, %0" : "=r"(x) : "r"(x)); return x; }', "tzcntl"),
        ('unsigned f(unsigned x) { __asm__("nop; TZCNT %1, %0" : "=r"(x) : "r"(x)); return x; }', "tzcnt"),
        ('unsigned long f(unsigned long x) { __asm__("tz" "cntq %1, %0" : "=r"(x) : "r"(x)); return x; }', "tzcntq"),
        ('void f(int *x) { __asm__ volatile("xacquire lock incl %0" : "+m"(*x)); }', "xacquire"),
    ],
)  # fmt: skip
def test_assembly_is_refused(tmp_path, compiler, code, expected):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "a.c").write_text(code + "\nint main(void) { return 0; }\n")
    words = f"{compiler} -std=c2x -O2 -MD -MQ a.o -MF a.o.d -o a.o -c a.c".split()
    if "x86_64" not in subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True).stdout:
        pytest.skip(f"{compiler} compiles for another machine")
    found = silent(assembly(Compilation(Path("a.o"), tuple(words)), tmp_path))
    assert [line.lower() for line in found if expected in line.lower()] if expected else found == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.c"]


# Guards the spellings that one compiler alone knows.
@pytest.mark.parametrize(
    ("compiler", "code", "expected"),
    [
        ("gcc", f'[[gnu::target("bmi")]] unsigned f(unsigned x) {_ZEROS}', "tzcnt"),
        ("gcc", f'_Pragma( "GCC target (\\"bmi\\")" ) unsigned f(unsigned x) {_ZEROS}', "tzcnt"),
        ("clang", f'[[gnu::target("bmi")]] unsigned f(unsigned x) {_ZEROS}', "tzcnt"),
        ("clang", '#pragma clang attribute push(__attribute__((target("bmi"))), apply_to=function)\n'
         f"unsigned f(unsigned x) {_ZEROS}\n#pragma clang attribute pop", "tzcnt"),
        ("gcc", 'void f(void) { __asm__ volatile("bnd jmp 1f\\n1:"); }', "bnd"),
    ],
)  # fmt: skip
def test_spellings_of_one_compiler(tmp_path, compiler, code, expected):
    test_assembly_is_refused(tmp_path, compiler, code, expected)


# Guards against a tree that an earlier run left: what is read of it is made anew where a source has changed since.
def test_stale_objects_are_made_anew(tmp_path):
    (tmp_path / "kernels").mkdir()
    source, made = tmp_path / "avx2.c", tmp_path / "kernels" / "avx2.c.o"
    source.write_text("older")
    command = f"cp {source} kernels/avx2.c.o"
    (tmp_path / "build.ninja").write_text(
        f"rule copy\n  command = {command}\nbuild kernels/avx2.c.o: copy {source}\n"
        "build tests/x.o: copy missing\ndefault tests/x.o\nbuild build.ninja: phony\n"
    )
    entry = '{{"output": "{}", "command": "cc -c a.c", "file": "a.c", "directory": "."}}'
    entries = ", ".join(entry.format(name) for name in ("kernels/avx2.c.o", "tests/x.o"))
    (tmp_path / "compile_commands.json").write_text(f"[{entries}]")
    assert up_to_date(tmp_path) == tmp_path and made.read_text() == "older"
    source.write_text("newer")
    up_to_date.cache_clear()
    assert up_to_date(tmp_path) == tmp_path and made.read_text() == "newer"
    source.unlink()
    up_to_date.cache_clear()
    with pytest.raises(AssertionError, match="cannot be made"):
        up_to_date(tmp_path)
    up_to_date.cache_clear()


# Guards the tests above against a tree of which they see nothing.
def test_compilations_are_read(tmp_path):
    (tmp_path / "compile_commands.json").write_text(
        '[{"output": "cli/a.p/a.c.o", "command": "gcc \\"-DX=a b\\" -c a.c", "file": "a.c", "directory": "."}]'
    )
    (one,) = compilations(tmp_path)
    assert (one.top, one.words) == ("cli", ("gcc", "-DX=a b", "-c", "a.c"))
