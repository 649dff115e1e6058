"""What a run as a whole is held to: its environment, that every level ran, and its budget of time."""

import os
import re
import subprocess
import sys

import pytest
from testrunner import budget, environment, suites
from testrunner.suites import ROOT


def keeps_logs(place):
    """A line of Python by which a run `m` keeps its logs there, beside no log of a real one."""
    return f"import pathlib; m.ROOT = pathlib.Path({str(place)!r})\n"


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
def test_run_cleans_its_environment(tmp_path):
    program = (
        "import os, sys; from testrunner import __main__ as m, suites\n"
        f"{keeps_logs(tmp_path)}"
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
def test_level_that_ran_nowhere_fails_a_whole_run(names, status, tmp_path):
    program = (
        "import sys; from testrunner import __main__ as m, suites\n"
        f"{keeps_logs(tmp_path)}"
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


# Guards the table of levels: not of suites that run no kernel test, beside whose pass "NOWHERE" would mislead; of
# those that do, or are there for a level and cannot run here, it is shown.
@pytest.mark.parametrize(
    ("case", "impossible", "levels", "shown"),
    [
        ("package: test_it", "", (), False),
        ("k: a [avx2]", "", (), True),
        ("k: a", "needs a thing", ("neon",), True),
        ("k: a", "needs a thing", (), False),
    ],
)
def test_table_of_levels_of_named_suites(tmp_path, case, impossible, levels, shown):
    program = (
        "import sys; from testrunner import __main__ as m, suites\n"
        "from testrunner.results import Case\n"
        f"{keeps_logs(tmp_path)}"
        f"s = suites.Suite('s', 1, 'runs', lambda c: [Case({case!r}, 'passed')], lambda: {impossible!r}, '', {levels})\n"
        "m.load_suites = lambda: {'s': s, 't': s}\n"
        "sys.exit(m.main(['s']))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.returncode == 0
    assert ("tests of each level that ran:" in done.stdout) == ("NOWHERE" in done.stdout) == shown


# Guards the one case in which a level may run nowhere: each has a suite that runs it wherever that suite can run.
def test_every_level_has_a_suite():
    levels = re.findall(r"^ISA\((\w+),", (ROOT / "dispatch" / "isa.def").read_text(), re.MULTILINE)
    found = {level for suite in suites.load_suites().values() for level in suite.levels}
    assert found == set(levels) and len(levels) >= 4


def reading(clock, own, busy, cores=2):
    return budget.Reading(clock, own, busy, cores)


# Guards what a run counts for: neither other programs nor more cores change it, and an idle core is paid for.
@pytest.mark.parametrize(
    ("end", "seconds"),
    [
        (reading(100, 200, 200), 100),  # both cores, nobody else
        (reading(100, 100, 100), 100),  # one of them idle
        (reading(100, 0, 0), 100),  # nothing but waiting
        (reading(400, 200, 800), 100),  # the same work on a machine that is used for other things too
        (reading(200, 100, 300), 100),  # one core, and others take the other and half of ours
        (reading(25, 200, 200, cores=8), 100),  # eight cores
        (reading(200, 200, 200, cores=1), 100),
        (reading(100, 200, 0), 100),  # a kernel that does not say how busy it is
        (reading(120, 200, 0, cores=0), 100),
    ],
)
def test_time_on_two_cores(end, seconds):
    assert budget.two_core_seconds(reading(0, 0, 0, end.cores), end) == pytest.approx(seconds)


# Guards the reading of /proc/stat: waiting for a disk is not work, what a hypervisor took is work of others.
def test_busy_seconds():
    text = "cpu  100 10 40 5000 600 3 7 50 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\nintr 5\n"
    assert budget.busy_seconds(text, 100) == (2.1, 2)
    assert budget.busy_seconds("", 100) == (0.0, 0)


# Guards the reading of this machine: a program that computes is seen as that, one that sleeps is not.
def test_readings_of_this_machine():
    at = [budget.read()]
    for program in ("import time\nwhile time.process_time() < 1: pass", "import time; time.sleep(1)"):
        subprocess.run([sys.executable, "-c", program], check=True)
        at.append(budget.read())
    work, sleep = ((b.own - a.own, b.clock - a.clock) for a, b in zip(at, at[1:], strict=False))
    assert work[0] >= 1 and work[1] >= 0.9
    assert sleep[0] < 0.9 and sleep[1] >= 1
    if at[0].busy:
        assert at[1].busy - at[0].busy >= 0.9


# Guards the budget: a whole usual run that takes longer fails, and says which suites it was; a part of the suites, or
# the long forms, may take what they take.
@pytest.mark.parametrize(
    ("names", "full", "seconds", "status"),
    [([], "0", 800, 1), ([], "0", 690, 0), (["s"], "0", 4000, 0), ([], "1", 4000, 0)],
)
def test_budget_of_a_whole_run(names, full, seconds, status, tmp_path):
    program = (
        "import sys; from testrunner import __main__ as m, suites, budget\n"
        f"{keeps_logs(tmp_path)}"
        "from testrunner.results import Case\n"
        "levels = ('scalar', 'avx2', 'avx512', 'neon')\n"
        "ran = lambda c: [Case(f'k: a [{name}]', 'passed') for name in levels]\n"
        "m.load_suites = lambda: {n: suites.Suite(f'runner-test-{n}', 1, 'runs', ran) for n in 'stu'}\n"
        f"budget.two_core_seconds = lambda begin, end: {seconds}\n"
        f"sys.exit(m.main({names}))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "ATTNSCOPE_TEST_FULL": full}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.returncode == status, done.stdout
    said = "budget: the whole run: 40.0 min of two cores, the budget is 35; the slowest: runner-test-s 13.3, "
    assert (said in done.stdout) == bool(status)
    assert ("budget 35 min" in done.stdout) == (not names and full == "0")


# Guards limits that mean something: together of the order of the budget, so that a suite that hangs does not cost
# hours; not less than that, as each has to build what the others would have built, on a machine that is slower.
def test_limits_are_of_the_order_of_the_budget():
    text = (ROOT / "scripts" / "testrunner" / "suites.def").read_text()
    usual = [
        int(re.search(r" (\d+) +\d+ ", line)[1])
        for line in text.splitlines()
        if line and not line.startswith("#")
    ]
    assert 2 * budget.BUDGET <= sum(usual) <= 3.5 * budget.BUDGET
    assert f"took more than {budget.BUDGET:.0f} minutes" in (ROOT / "scripts" / "test.sh").read_text()
