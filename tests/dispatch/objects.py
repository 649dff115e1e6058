"""Objects that are compiled for a test, and what one of a level may show to a linker."""

import shutil
import subprocess

import pytest
from testrunner.levels import ROOT

# Architecture: the compilers for it, and what names it to them.
COMPILERS = {
    "x86": [("gcc", []), ("clang", ["--target=x86_64-linux-gnu"])],
    "arm64": [("aarch64-linux-gnu-gcc", []), ("clang", ["--target=aarch64-linux-gnu"])],
}


def compile_object(compiler, optimisation, source, output, more=()):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    command = [compiler, "-std=c17", optimisation, *more, "-ffp-contract=off", "-D_GNU_SOURCE", "-fPIC"]
    command += ["-fvisibility=hidden", f"-I{ROOT}", f"-I{ROOT}/include"]
    done = subprocess.run([*command, "-c", source, "-o", output], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


def faults_of_symbols(listing, level):
    """What `nm --format=posix` shows of an ISA object that it must not."""
    symbols = [line.split()[:2] for line in listing.splitlines() if line.strip()]
    weak = [name for name, kind in symbols if kind in "vVwWu"]
    # What is not of the file alone, or is chosen while a program is loaded (i): before anybody looked at the CPU.
    outside = [name for name, kind in symbols if kind not in "UvVwWu" and kind not in "bdrtsgnN"]
    faults = [f"weak: {name}" for name in weak]
    if outside != [f"attn_kernels_{level}"]:
        faults.append(f"defines {outside}")
    return faults
