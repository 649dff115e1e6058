"""What `meson install` leaves, and what a user's program makes of it.

ATTNSCOPE_DESTDIR names the staged installation; scripts/test.sh makes it.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

# A user's program: plans, executes and checks rows of a causal problem whose values are all one, so that
# every output is one. It needs no part of this repository but what is installed.
USER_PROGRAM = """
#include <attnscope.h>
#include <stdio.h>

int main(void) {
    static float q[64 * 32], k[64 * 32], v[64 * 32], out[64 * 32];
    for (int i = 0; i < 64 * 32; i++) {
        q[i] = (float)(i % 7) - 3;
        k[i] = (float)(i % 5) - 2;
        v[i] = 1;
    }
    attn_problem problem;
    attn_problem_init(&problem, 1, 1, 1, 64, 64, 32, 32);
    attn_error error = {""};
    attn_plan *plan = NULL;
    attn_tensors tensors;
    attn_tensors_init(&tensors, &problem, q, k, v, out);
    if (attn_pattern_parse("causal", &problem.pattern, &error) != ATTN_OK ||
        attn_plan_create(&problem, NULL, &plan, &error) != ATTN_OK ||
        attn_execute(plan, &tensors, NULL, 2, &error) != ATTN_OK) {
        fprintf(stderr, "%s\\n", error.text);
        return 1;
    }
    attn_plan_destroy(plan);
    for (int i = 0; i < 64 * 32; i++) {
        if (!(out[i] > 0.9999f && out[i] < 1.0001f)) {
            fprintf(stderr, "out[%d] is %g\\n", i, (double)out[i]);
            return 1;
        }
    }
    puts(attn_version());
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
    assert not [name for name in names if name.startswith("test_") or "cmocka" in name]


# Guards that pkg-config reports the version of the library itself.
def test_versions_agree(environment, destdir):
    program = subprocess.run(
        [only(destdir, "bin/attnscope"), "--version"], capture_output=True, text=True, env=environment
    )
    assert program.returncode == 0
    assert pkg_config(environment, "--modversion")[0] in program.stdout


# Guards that a user's program builds with the flags of pkg-config alone, warnings as errors, and runs.
@pytest.mark.parametrize(
    ("compiler", "standard"),
    [("gcc", "c11"), ("gcc", "c17"), ("clang", "c17"), ("g++", "c++17"), ("clang++", "c++17")],
)
def test_user_program(environment, tmp_path, compiler, standard):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    suffix = "cc" if "+" in standard else "c"
    source, program = tmp_path / f"user.{suffix}", tmp_path / "user"
    source.write_text(USER_PROGRAM)
    flags = pkg_config(environment, "--cflags", "--libs")
    warnings = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
    arguments = [compiler, f"-std={standard}", *warnings, str(source), "-o", str(program), *flags]
    built = subprocess.run(arguments, capture_output=True, text=True, env=environment)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == pkg_config(environment, "--modversion")[0]


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


# Guards that the installed program runs where it stands and finds the subcommands that are programs.
@pytest.mark.parametrize("arguments", [["info"], ["report", "--help"], ["bench", "--help"]])
def test_installed_program(environment, destdir, tmp_path, arguments):
    program = only(destdir, "bin/attnscope")
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
