"""What a run as a whole is held to: its environment, and that every level ran."""

import os
import re
import subprocess
import sys

import pytest
from testrunner import environment
from testrunner.suites import ROOT


# Guards that what the tests do is not decided by whoever starts them: everything that C tests, library, emulators
# and tools read is taken out, said aloud, and the documented variables stay.
def test_environment_is_cleaned(tmp_path):
    read = set()
    for path in [
        *ROOT.glob("tests/**/*.[ch]"),
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("scripts/testrunner/*.py"),
    ]:
        read |= set(re.findall(r"\bATTNSCOPE_[A-Z_]*[A-Z]\b", path.read_text()))
    assert {"ATTNSCOPE_TEST_LEVELS", "ATTNSCOPE_TEST_QUICK", "ATTNSCOPE_ISA", *environment.KEPT} <= read
    others = "OMP_NUM_THREADS QEMU_CPU ASAN_OPTIONS UBSAN_OPTIONS CFLAGS CC PYTEST_ADDOPTS".split()
    values = dict.fromkeys({*read, *others}, "1") | {"PATH": "/bin", "HOME": "/", "MESON": "meson"}
    taken = environment.clean(values)
    assert set(values) == environment.KEPT | {"PATH", "HOME", "MESON"}
    assert taken == sorted({*read, *others} - environment.KEPT)


# Guards the way there: a run begins with that, and says what it took.
def test_run_cleans_its_environment():
    program = (
        "import os, sys; from testrunner import __main__ as m, suites\n"
        "from testrunner.results import Case\n"
        "seen = lambda c: [Case(os.environ.get('ATTNSCOPE_TEST_LEVELS', 'none'), 'failed')]\n"
        "m.load_suites = lambda: {'s': suites.Suite('runner-test', 1, 'looks', seen)}\n"
        "m.main(['s'])"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "ATTNSCOPE_TEST_LEVELS": "scalar"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert "runner-test: none" in done.stdout
    assert re.search("^taken out of the environment: .*ATTNSCOPE_TEST_LEVELS", done.stderr, re.MULTILINE)


# Guards the exit status where a level ran nowhere although each suite could run: only of a run of all of them.
@pytest.mark.parametrize(("names", "status"), [([], 1), (["s", "t"], 1), (["s"], 0)])
def test_level_that_ran_nowhere_fails_a_whole_run(names, status):
    program = (
        "import sys; from testrunner import __main__ as m, suites\n"
        "from testrunner.results import Case\n"
        "ran = lambda c: [Case(f'k: a [{name}]', 'passed') for name in ('scalar', 'avx2', 'neon')]\n"
        "m.load_suites = lambda: {n: suites.Suite('runner-test', 1, 'runs', ran) for n in 'st'}\n"
        f"sys.exit(m.main({names}))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.returncode == status
    assert "\n  avx512  NOWHERE\n" in done.stdout
    assert ("levels: avx512" in done.stdout) == (status == 1)
