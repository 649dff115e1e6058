"""What `meson install` leaves, and what a user's program makes of it.

ATTNSCOPE_DESTDIR names the staged installation; scripts/test.sh makes it.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "example.c"
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-pedantic", "-Werror"]
C_COMPILERS = [("gcc", "c11"), ("gcc", "c17"), ("clang", "c11"), ("clang", "c17")]
CPP_COMPILERS = [("g++", "c++17"), ("clang++", "c++17")]

# A user's program in C++, which the example is not: it links by the names that the header declares.
CPP_PROGRAM = """
#include <attnscope.h>
#include <cstdio>
#include <vector>

int main() {
    std::vector<float> q(64 * 32, 0.5f), k(64 * 32, -2.0f), v(64 * 32, 1.0f), out(64 * 32);
    attn_problem problem;
    attn_problem_init(&problem, 1, 1, 1, 64, 64, 32, 32);
    attn_error error = {};
    attn_plan *plan = nullptr;
    attn_tensors tensors;
    attn_tensors_init(&tensors, &problem, q.data(), k.data(), v.data(), out.data());
    if (attn_pattern_parse("causal", &problem.pattern, &error) != ATTN_OK ||
        attn_plan_create(&problem, nullptr, &plan, &error) != ATTN_OK ||
        attn_execute(plan, &tensors, nullptr, 2, &error) != ATTN_OK) {
        std::fprintf(stderr, "%s\\n", error.text);
        return 1;
    }
    attn_plan_destroy(plan);
    for (float x : out)
        if (!(x > 0.9999f && x < 1.0001f))
            return 1;
    std::puts(attn_version());
    return 0;
}
"""


@pytest.fixture(scope="module")
def destdir():
    if "ATTNSCOPE_DESTDIR" not in os.environ:
        pytest.skip("ATTNSCOPE_DESTDIR is not set: run scripts/test.sh install")
    return Path(os.environ["ATTNSCOPE_DESTDIR"])


def only(destdir, pattern):
    found = sorted(destdir.rglob(pattern))
    assert len(found) == 1, f"{pattern}: {found}"
    return found[0]


@pytest.fixture(scope="module")
def shared_library(destdir):
    # The name that the linker finds; versioned names are links or the file itself.
    return next(path for path in destdir.rglob("libattnscope.*") if path.suffix in (".so", ".dylib"))


@pytest.fixture(scope="module")
def environment(destdir, shared_library):
    return {
        **os.environ,
        "PKG_CONFIG_PATH": str(only(destdir, "attnscope.pc").parent),
        "PKG_CONFIG_SYSROOT_DIR": str(destdir),
        "LD_LIBRARY_PATH": str(shared_library.parent),
    }


def pkg_config(environment, *options):
    done = subprocess.run(
        ["pkg-config", *options, "attnscope"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# Guards that one header is installed, and nothing that only the tests or the build need.
def test_installed_files(destdir):
    assert [path.name for path in destdir.rglob("*.h")] == ["attnscope.h"]
    only(destdir, "attnscope.pc")
    only(destdir, "bin/attnscope")
    names = [path.name for path in destdir.rglob("*")]
    assert not [name for name in names if name.endswith((".a", ".o"))]
    assert not [name for name in names if name.startswith("test_") or "cmocka" in name]


# Guards that pkg-config reports the version of the library itself.
def test_versions_agree(environment, destdir):
    program = subprocess.run(
        [only(destdir, "bin/attnscope"), "--version"], capture_output=True, text=True, env=environment
    )
    assert program.returncode == 0
    assert pkg_config(environment, "--modversion")[0] in program.stdout


def compile_with(environment, compiler, standard, *arguments):
    """Compiles with warnings as errors; skips where there is no such compiler."""
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    command = [compiler, f"-std={standard}", *WARNINGS, *map(str, arguments)]
    built = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert built.returncode == 0, built.stderr


# Guards the example that users copy: it builds with the flags of pkg-config alone, runs, attends and visits what
# a causal window of 128 over 300 positions and 8 heads has, and its query heads read the heads they should.
@pytest.mark.parametrize(("compiler", "standard"), C_COMPILERS)
def test_example(environment, tmp_path, compiler, standard):
    program = tmp_path / "example"
    flags = pkg_config(environment, "--cflags", "--libs")
    compile_with(environment, compiler, standard, EXAMPLE, "-o", program, *flags)
    done = subprocess.run([program], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    first, *heads = done.stdout.splitlines()
    counts = re.fullmatch(r"(\w+), (naive|flash): (\d+) of (\d+) pairs attended, (\d+) visited", first)
    assert counts, first
    useful, dense, visited = map(int, counts.groups()[2:])
    assert useful == 8 * sum(min(i + 1, 128) for i in range(300))
    assert dense == 8 * 300 * 300
    assert useful <= visited < dense
    assert heads == [f"head {h} reads key/value head {h // 4}" for h in range(8)]


# Guards that a program which knows nothing of OpenMP links and runs: the library brings what it needs.
def test_flags_name_nothing_else(environment):
    flags = pkg_config(environment, "--cflags", "--libs")
    assert [flag for flag in flags if not flag.startswith(("-I", "-L"))] == ["-lattnscope"]


# Guards the header's extern "C" and that C++ takes its declarations.
@pytest.mark.parametrize(("compiler", "standard"), CPP_COMPILERS)
def test_cpp_program(environment, tmp_path, compiler, standard):
    source, program = tmp_path / "user.cc", tmp_path / "user"
    source.write_text(CPP_PROGRAM)
    flags = pkg_config(environment, "--cflags", "--libs")
    compile_with(environment, compiler, standard, source, "-o", program, *flags)
    done = subprocess.run([program], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == pkg_config(environment, "--modversion")[0]


# Guards that the header needs no other before it, and may be included twice.
@pytest.mark.parametrize(("compiler", "standard"), C_COMPILERS + CPP_COMPILERS)
def test_header_alone(environment, tmp_path, compiler, standard):
    source = tmp_path / ("alone.cc" if "+" in standard else "alone.c")
    source.write_text("#include <attnscope.h>\n#include <attnscope.h>\nextern int nothing;\n")
    flags = pkg_config(environment, "--cflags")
    compile_with(environment, compiler, standard, "-fsyntax-only", source, *flags)


# Guards that what README shows of the library compiles, looks at every status, calls what the example calls, in
# that order, and runs.
def test_readme_agrees_with_example(environment, destdir, tmp_path):
    readme = (ROOT / "README.md").read_text()
    snippets = re.findall(r"^```c\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert len(snippets) == 1 and "docs/example.c" in readme
    calls = re.findall(r"\battn_\w+(?=\()", snippets[0])
    example = iter(re.findall(r"\battn_\w+(?=\()", EXAMPLE.read_text()))
    assert calls and all(call in example for call in calls), (
        f"not in the example, or in another order: {calls}"
    )
    # The header's declarations again: what returns a status has to be looked at.
    header = only(destdir, "attnscope.h").read_text()
    statuses = re.findall(r"^ATTN_API (attn_status attn_\w+\([^;]*\));", header, re.MULTILINE)
    checked = "".join(f"{status} __attribute__((warn_unused_result));\n" for status in statuses)
    assert "attn_status attn_execute(" in checked
    sizes = "batch heads kv_heads queries keys head_dim value_dim".split()
    declared = ", ".join([*(f"int64_t {size}" for size in sizes), "const float *q, const float *k"])
    declared += ", const float *v, float *out, int threads"
    source, program = tmp_path / "readme.c", tmp_path / "readme"
    source.write_text(
        f"#include <attnscope.h>\n#include <stdio.h>\n{checked}"
        f"static int user({declared}) {{\n{snippets[0]}\nreturn 0;\n}}\n"
        "int main(void) {\n"
        "static float x[2 * 70 * 16], out[2 * 70 * 16];\n"
        "for (int i = 0; i < 2 * 70 * 16; i++)\nx[i] = 1;\n"
        "return user(1, 2, 1, 70, 70, 16, 16, x, x, x, out, 2) || !(out[2 * 70 * 16 - 1] > 0.99f);\n}\n"
    )
    flags = pkg_config(environment, "--cflags", "--libs")
    compile_with(environment, "gcc", "c17", "-O1", source, "-o", program, *flags)
    done = subprocess.run([program], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr


# Guards the ABI: the shared library exports what the header declares with ATTN_API, and nothing else.
def test_exports_are_the_header(destdir, shared_library):
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", str(shared_library)],
        capture_output=True,
        text=True,
        check=True,
    )
    exported = {line.split()[0] for line in listed.stdout.splitlines() if line}
    header = only(destdir, "attnscope.h").read_text()
    declared = set(re.findall(r"ATTN_API[^;(]*?\b(attn_\w+)\(", header))
    assert declared, "no declaration was found"
    assert exported == declared
    assert all(name.startswith("attn_") for name in exported)


# Guards that the installed program runs where it stands and finds the subcommands that are programs.
@pytest.mark.parametrize(
    "arguments",
    [
        ["info"],
        ["report", "--help"],
        ["analyze", "--help"],
        ["export", "--help"],
        ["merge", "--help"],
        ["bench", "--help"],
    ],
)
def test_installed_program(environment, destdir, tmp_path, arguments):
    program = only(destdir, "bin/attnscope")
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
