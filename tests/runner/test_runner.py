"""scripts/test.sh from outside, and the parts of the runner that start programs."""

import contextlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from testrunner import fuzz
from testrunner.__main__ import run_suite
from testrunner.builds import SEED, Build
from testrunner.commands import CommandError, Commands
from testrunner.results import FAILED, PASSED, SKIPPED, Case
from testrunner.suites import (
    PYTHON_TESTS,
    ROOT,
    Suite,
    c_programs,
    load_suites,
    missing_programs,
    run_directories,
    run_pytest,
)

TEST_SH = ROOT / "scripts" / "test.sh"


def make_suite(run, minutes=1.0, **more):
    return Suite("sample", minutes, "a suite made up for a test", run, **more)


@pytest.fixture
def log():
    path = ROOT / "build-logs" / f"runner-test-{os.getpid()}.log"
    path.parent.mkdir(exist_ok=True)
    yield path
    path.unlink(missing_ok=True)


# Guards that a suite whose build fails is failed, with the command named.
def test_failing_command_fails_the_suite(log):
    result = run_suite(make_suite(lambda commands: commands.need("build", ["false"])), log)
    assert [case.status for case in result.cases] == [FAILED]
    assert "build: exit status 1" in result.cases[0].reason


# Guards that a fault of the runner itself is a failure and does not end the run.
def test_exception_fails_the_suite(log):
    def broken(commands):
        raise KeyError("x")

    assert run_suite(make_suite(broken), log).count(FAILED) == 1


# Guards against a log that cannot be written, and a check of the machine that fails: failed suites, with the reason,
# not the end of the run.
def test_what_fails_before_a_suite_fails_the_suite(log):
    log.mkdir()
    try:
        result = run_suite(make_suite(lambda commands: [Case("a", PASSED)]), log)
    finally:
        log.rmdir()
    assert [case.status for case in result.cases] == [FAILED]
    assert "IsADirectoryError" in result.cases[0].reason and str(log) in result.cases[0].reason

    def full():
        raise OSError(28, "No space left on device", "/tmp")

    result = run_suite(make_suite(lambda commands: [Case("a", PASSED)], impossible=full), log)
    assert (result.count(FAILED), result.count(SKIPPED)) == (1, 0)
    assert "No space left" in result.cases[0].reason


# Guards against a log that is lost on the way: the counts stand all the same.
def test_log_that_is_lost(log):
    def run(commands):
        log.unlink()
        log.mkdir()
        return [Case("a", FAILED, "why")]

    try:
        result = run_suite(make_suite(run), log)
    finally:
        log.rmdir()
    assert [case.reason for case in result.cases] == ["why"]


# Guards against a suite that returns nothing.
def test_empty_suite_fails(log):
    assert run_suite(make_suite(lambda commands: []), log).count(FAILED) == 1


# Guards the two other outcomes.
def test_good_and_impossible_suites(log):
    good = run_suite(make_suite(lambda commands: [Case("a", PASSED)]), log)
    assert (good.count(PASSED), good.count(FAILED)) == (1, 0)
    elsewhere = run_suite(make_suite(lambda commands: [], impossible=lambda: "wrong machine"), log)
    assert (elsewhere.count(SKIPPED), elsewhere.count(FAILED)) == (1, 0)


# Guards that a program which is not there is a failure with its name in the log.
def test_missing_program(log):
    commands = Commands(ROOT, log, seconds=10)
    with pytest.raises(CommandError, match="exit status 127"):
        commands.need("step", ["no-such-program-here"])
    assert "no-such-program-here" in commands.tail()


# Guards pytest's own ways to run nothing: no test in the file (exit status 5), no such file (4).
def test_pytest_without_tests_fails(log, tmp_path):
    (tmp_path / "test_nothing.py").write_text("")
    commands = Commands(ROOT, log, seconds=60)
    cases = run_pytest(commands, f"runner-test-{os.getpid()}", [str(tmp_path)], {})
    assert [case.status for case in cases] == [FAILED]
    log.with_name(f"runner-test-{os.getpid()}.xml").unlink()


# Guards that the seed which the end of a run prints is that of the random Python tests too.
def test_pytest_is_given_the_seed(log, tmp_path):
    (tmp_path / "test_seed.py").write_text(
        f"import os\ndef test_it(): assert os.environ['ATTNSCOPE_TEST_SEED'] == {SEED!r}\n"
    )
    name = f"runner-test-{os.getpid()}"
    cases = run_pytest(Commands(ROOT, log, seconds=60), name, [str(tmp_path)], {})
    assert [case.status for case in cases] == [PASSED]
    log.with_name(f"{name}.xml").unlink()


# Guards that directories which are tested side by side count like one after another: the cases of each, a failed
# one for the directory in which nothing ran, all that they printed in the suite's log, nothing left behind.
def test_directories_side_by_side(log, tmp_path):
    for name, text in {"one": "def test_a(): pass", "two": "def test_b(): assert 0", "none": ""}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(text)
    commands = Commands(ROOT, log, seconds=120)
    paths = [str(tmp_path / name) for name in ("one", "two", "none")]
    try:
        cases = run_directories(commands, paths, {})
    finally:
        for path in log.parent.glob(f"{log.stem}-*"):
            path.unlink()
    assert [case.status for case in cases] == [PASSED, FAILED, FAILED]
    assert "exit status 5" in cases[2].reason
    assert "test_two.py::test_b" in log.read_text() and "no tests ran" in log.read_text()


# Guards an interrupt while directories are tested, which reaches the main thread alone: what runs is ended, what
# waits is not begun.
def test_interrupt_ends_the_directories(log, tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(
            f"import pathlib, time\ndef test_it():\n    pathlib.Path({str(tmp_path)!r}, '{name}-ran').touch()\n"
            "    time.sleep(600)\n"
        )
    program = (
        "import sys; from pathlib import Path; from testrunner import suites\n"
        f"c = suites.Commands(suites.ROOT, Path({str(log)!r}), 500)\n"
        f"suites.run_directories(c, [{str(tmp_path)!r} + '/' + n for n in 'abc'], {{}})\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    try:
        with subprocess.Popen([sys.executable, "-c", program], env=env, stderr=subprocess.PIPE) as running:
            begin = time.monotonic()
            while len(list(tmp_path.glob("?-ran"))) < 2 and time.monotonic() < begin + 120:
                time.sleep(0.05)
            running.send_signal(signal.SIGINT)
            assert b"KeyboardInterrupt" in running.communicate(timeout=120)[1]
    finally:
        for path in log.parent.glob(f"{log.stem}-*"):
            path.unlink()
    assert sorted(path.name for path in tmp_path.glob("?-ran")) == ["a-ran", "b-ran"]


# Guards the two times of a suite: CPU time is that of its programs and of what they start, not what passed.
def test_cpu_time_of_a_suite(log):
    burn = "import os, time; os.fork()\nwhile time.process_time() < 0.5: pass\n"
    burn += "try: os.wait()\nexcept ChildProcessError: pass"

    def run(commands):
        commands.need("sleep", ["sleep", "0.5"])
        commands.need("burn", [sys.executable, "-c", burn])
        return [Case("a", PASSED)]

    result = run_suite(make_suite(run), log)
    assert result.seconds >= 1.0
    assert 1.0 <= result.cpu_seconds
    idle = run_suite(make_suite(lambda c: c.need("sleep", ["sleep", "1"]) or [Case("a", PASSED)]), log)
    assert idle.cpu_seconds < idle.seconds


# Guards that no directory of Python tests is forgotten by the suites.
def test_every_directory_of_tests_is_run():
    found = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert found == {*PYTHON_TESTS, "tests/install", "tests/page"}


# Guards that suites.def and suites.py speak of the same suites (load_suites raises otherwise), and that
# test.sh lists them.
def test_list_names_every_suite():
    listed = subprocess.run([TEST_SH, "--list"], capture_output=True, text=True, check=True).stdout
    for name, suite in load_suites().items():
        assert any(line.startswith(name + " ") and suite.description in line for line in listed.splitlines())
    # Numbers without that word were taken for the time that suites need.
    assert " limit " in listed.splitlines()[0] and "minutes after which a suite is ended" in listed


def made_by(suite, monkeypatch, log):
    """The build trees that a suite makes before it does anything else."""
    made = []

    def make(self, commands):
        made.append(self)
        raise CommandError("made")

    monkeypatch.setattr(Build, "make", make)
    with contextlib.suppress(CommandError):
        suite.run(Commands(ROOT, log, seconds=0.0))
    return made


def groups_needed(build):
    """The groups of setup.sh by which a build tree can be configured. Group fuzz is clang with its run time."""
    text = " ".join(build.options)
    clang = build.compilers[0] == "clang"
    runtime = clang and ("-Db_sanitize" in text or "-Dfuzz=true" in text)
    return (
        {"build"}
        | ({"test"} if "-Dtests=enabled" in text else set())
        | ({"fuzz"} if runtime else set())
        | ({"clang"} if clang and not runtime or clang and "-Dopenmp=disabled" not in text else set())
        | ({"arm"} if "--cross-file" in text else set())
    )


# Guards each suite run alone on a new machine: what its build tree asks for, the set-up installs.
@pytest.mark.parametrize("name", sorted(set(load_suites()) - {"format", "mca", "page"}))
def test_groups_of_a_suite_suffice_for_its_build(name, monkeypatch, log):
    line = next(
        line
        for line in (ROOT / "scripts/testrunner/suites.def").read_text().splitlines()
        if line.startswith(name)
    )
    groups = set(re.match(r"\w+ +([a-z\d -]+?) +\d+ ", line)[1].split())
    (build,) = made_by(load_suites()[name], monkeypatch, log)
    assert groups_needed(build) <= groups


# Guards the exceptions above: these make no build tree.
def test_suite_page_needs_no_build(monkeypatch, log):
    assert made_by(load_suites()["page"], monkeypatch, log) == []


@pytest.mark.parametrize("name", ["format", "mca"])
def test_suites_without_a_build(name):
    assert "Build" not in inspect.getsource(sys.modules[load_suites()[name].run.__module__])


# Guards the usage errors: one line, naming what would be accepted.
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nosuch"], "nosuch"),
        (["--nosuch"], "--nosuch"),
        (["--without"], "--without"),
        (["--without", "nosuch"], "nosuch"),
        (["gcc", "--without=gcc"], "no suite is left"),
    ],
)
def test_usage_errors(arguments, named):
    done = subprocess.run([TEST_SH, *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert named in done.stderr


# Guards that --help does not install, build or run anything: it answers at once, from any directory.
def test_help(tmp_path):
    done = subprocess.run([TEST_SH, "--help"], capture_output=True, text=True, cwd=tmp_path, timeout=10)
    assert done.returncode == 0
    assert "--without" in done.stdout


# Guards the exit code and the closing line of a run in which something failed, with a suite made for it.
def test_main_exits_1_on_failure(tmp_path):
    program = (
        "import sys; from testrunner import __main__ as m, suites\n"
        "from testrunner.results import Case\n"
        "s = suites.Suite('runner-test', 1, 'fails', lambda c: [Case('x', 'failed', 'y'), Case('z', 'passed')])\n"
        "m.load_suites = lambda: {'s': s}\n"
        "sys.exit(m.main([]))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.returncode == 1
    # Each level of dispatch/isa.def fails too: it was a run of all suites, and none ran a test of one.
    assert done.stdout.splitlines()[-1] == "1 passed, 5 failed, 0 skipped"


# Guards that --full reaches what it is for: the tests' variable, the fuzzers' seconds and the larger limits;
# and that without it nothing is longer.
@pytest.mark.parametrize("value", ["", "0", "1"])
def test_full_runs_take_the_long_forms(value):
    program = (
        "from testrunner import builds, fuzz, suites\n"
        "print(builds.FULL, fuzz.seconds_of_environment(), suites.load_suites()['gcc'].minutes)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "ATTNSCOPE_TEST_FULL": value}
    env.pop("ATTNSCOPE_FUZZ_SECONDS", None)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    full, seconds, minutes = done.stdout.split()
    usual = (ROOT / "scripts" / "testrunner" / "suites.def").read_text()
    limits = next(line.split() for line in usual.splitlines() if line.startswith("gcc "))
    numbers = [float(word) for word in limits if word.isdigit()][:2]
    if value == "1":
        assert (full, seconds, float(minutes)) == ("True", str(fuzz.FULL_SECONDS), numbers[1])
    else:
        assert (full, seconds, float(minutes)) == ("False", str(fuzz.SECONDS), numbers[0])


# Guards that no suite has a shorter limit in a full run than in the usual one.
def test_full_limits_are_not_shorter():
    lines = (ROOT / "scripts" / "testrunner" / "suites.def").read_text().splitlines()
    for line in lines:
        numbers = [int(word) for word in line.split() if word.isdigit()][:2]
        assert line.startswith("#") or not line or (len(numbers) == 2 and numbers[0] <= numbers[1]), line


# Guards that test.sh hands --full on: the option sets the variable for the program that it starts.
def test_full_option_sets_the_variable():
    text = TEST_SH.read_text()
    assert "--full) export ATTNSCOPE_TEST_FULL=1" in text
    assert "--full" in subprocess.run([TEST_SH, "--help"], capture_output=True, text=True).stdout


# Guards that continuous integration runs README's command and lets every suite come to its own limit, after
# which its log says what happened; a job that is ended from outside leaves nothing.
def test_workflow():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert "- run: scripts/test.sh\n" in workflow
    limit = int(re.search(r"timeout-minutes: (\d+)", workflow)[1])
    assert limit >= sum(suite.minutes for suite in load_suites().values()) + 20


# Guards that the emulated cores run the whole C suite: a program that is not among the results fails the suite, by
# its name; one that was skipped, or failed, did run.
def test_missing_programs_are_named():
    every = [Case(f"max: {name}: a test", PASSED) for name in c_programs()]
    assert missing_programs(every, "max").status == PASSED
    every[0] = Case(every[0].name.removesuffix(": a test"), SKIPPED, "why")
    assert missing_programs(every, "max").status == PASSED
    left = [
        case for case in every if not case.name.startswith(("max: exp", "max: kernels_exp", "max: verify"))
    ]
    missing = missing_programs(left, "max")
    assert (missing.status, missing.reason) == (
        FAILED,
        "did not run: kernels_exp, kernels_exp_shared, verify",
    )


# Guards that list against what a build really runs.
def test_c_programs_are_those_of_the_build():
    build = os.environ.get("ATTNSCOPE_BUILD")
    if not build:
        pytest.skip("ATTNSCOPE_BUILD is not set: no build to compare with")
    listed = json.loads((Path(build) / "meson-info" / "intro-tests.json").read_text())
    assert {test["name"] for test in listed} == c_programs()
