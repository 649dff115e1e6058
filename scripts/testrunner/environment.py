"""The environment of a run: what would make the tests other ones than those that are counted is taken out of it."""

import fnmatch
import os
from collections.abc import MutableMapping

# What test.sh documents: the long forms, the seed, the fuzzers' seconds.
KEPT = {"ATTNSCOPE_TEST_FULL", "ATTNSCOPE_TEST_SEED", "ATTNSCOPE_FUZZ_SECONDS"}
# Which levels and cases run, what the library does and with how many threads; what an emulator is; what tools are
# told to overlook; what compilers and the build are told beside the suites' own options; what pytest leaves out.
TAKEN = (
    "ATTNSCOPE*",
    "OMP_*",
    "GOMP_*",
    "KMP_*",
    "QEMU_*",
    "?SAN_OPTIONS",
    "??SAN_OPTIONS",
    "VALGRIND_OPTS",
    "MESON_TESTTHREADS",
    "CMOCKA_*",
    "BENCHMARK_*",
    "MALLOC_*",
    "GLIBC_TUNABLES",
    "CC",
    "CXX",
    "*_LD",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "PYTEST_*",
)


def clean(environment: MutableMapping[str, str] = os.environ) -> list[str]:
    """Takes out what is in TAKEN; returns the names, in order."""
    names = [
        name
        for name in sorted(environment)
        if name not in KEPT and any(fnmatch.fnmatchcase(name, pattern) for pattern in TAKEN)
    ]
    for name in names:
        del environment[name]
    return names
