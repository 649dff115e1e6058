"""What each suite runs: build tree, environment, wrapper and names, with fakes in the place of what it starts.

A suite that passes because it was handed less than it is there for looks like one that passes.
"""

import re
import subprocess
from pathlib import Path

import pytest
from testrunner import builds, checked, coverage, emulated, guest, suites
from testrunner.__main__ import run_suite
from testrunner.builds import ROOT, SEED, Build
from testrunner.commands import Commands
from testrunner.results import FAILED, PASSED, Case

QEMU = ["qemu-x86_64"]


class Recorder:
    """What a suite started. `status` answers commands; `cases` are those of each run of C tests or guest."""

    def __init__(self):
        self.made, self.tests, self.ran, self.guests = [], [], [], []
        self.status = lambda words, env: 0
        self.cases = [Case("k: a [avx512]", PASSED)]

    def test_of(self, label):
        (found,) = (test for test in self.tests if test["label"] == label)
        return found


@pytest.fixture
def recorder(monkeypatch):
    it = Recorder()

    def test(self, commands, label="", env=None, slower=1, names=(), wrapper=()):
        it.tests.append(
            {"build": self, "label": label, "env": env or {}, "names": set(names), "wrapper": list(wrapper)}
        )
        return list(it.cases)

    def run(self, arguments, env=None, cwd=None):
        words = [str(word) for word in arguments]
        it.ran.append((words, env or {}))
        return it.status(words, env or {})

    def boot(sample, log, stop):
        it.guests.append(sample)
        log.write_text("")
        return list(it.cases)

    monkeypatch.setattr(Build, "make", lambda self, commands: it.made.append(self))
    monkeypatch.setattr(Build, "test", test)
    monkeypatch.setattr(Commands, "run", run)
    monkeypatch.setattr(guest, "run", boot)
    monkeypatch.setattr(suites, "run_pytest", lambda *rest: [])
    monkeypatch.setattr(emulated, "levels_here", lambda program: {"avx512": "the CPU lacks it"})
    monkeypatch.setattr(emulated, "FULL", False)
    return it


@pytest.fixture
def commands(tmp_path):
    return Commands(ROOT, tmp_path / "suite.log", 60)


# Guards the two builds that users make: released code, every warning an error, every C test.
@pytest.mark.parametrize(("name", "compilers"), [("gcc", ("gcc", "g++")), ("clang", ("clang", "clang++"))])
def test_native_suites(recorder, commands, name, compilers):
    suites.RUNNERS[name][0](commands)
    (build,), (test,) = recorder.made, recorder.tests
    assert test == {"build": build, "label": "", "env": {}, "names": set(), "wrapper": []}
    assert build.compilers == compilers
    assert {"--buildtype=release", "-Dwerror=true", "-Dtests=enabled", "-Dbench=enabled"} <= {*build.options}


# Guards the instrumentation of each sanitizer's build, and the faults that prove it.
@pytest.mark.parametrize(
    ("name", "option", "faults"),
    [
        ("asan", "-Db_sanitize=address,undefined", {"address", "leak", "undefined"}),
        ("tsan", "-Db_sanitize=thread", {"threads", "team"}),
        ("msan", "-Db_sanitize=memory", {"memory"}),
        ("valgrind", "--buildtype=release", {"address", "memory", "leak"}),
    ],
)
def test_checked_suites(recorder, commands, monkeypatch, name, option, faults):
    monkeypatch.setattr(checked, "archer", lambda: Path("/archer"))
    cases = suites.RUNNERS[name][0](commands)
    (build,), (test,) = recorder.made, recorder.tests
    assert option in build.options and "-Dtests=enabled" in build.options and test["build"] is build
    wrapper = checked.VALGRIND if name == "valgrind" else []
    program = str(build.directory / "tests" / "provoke")
    assert [words for words, _ in recorder.ran][0] == [*wrapper, program, "none"]
    assert {words[-1] for words, _ in recorder.ran} == {"none", *faults}
    # The fake reports no fault: each has to come out as failed.
    assert {case.name for case in cases if case.status == FAILED} == {f"provoke: {fault}" for fault in faults}
    assert test["wrapper"] == wrapper
    if name == "valgrind":
        assert {"valgrind", "--error-exitcode=99"} <= {*wrapper}
        kernels = {f"kernels_{kind}" for kind in ("flash", "matmul", "pack", "rows", "softmax")}
        assert {"convert", "dispatch", "fuzz_plan", *kernels} <= test["names"]
    else:
        assert test["names"] == ({*builds.THREADED} if name == "tsan" else set())


# Guards that statements of all three parts of the library are counted.
def test_coverage_is_of_the_whole_library():
    assert {source.split("/")[0] for source in coverage.library_sources()} == {
        "kernels",
        "dispatch",
        "attention",
    }
    assert "-Db_coverage=true" in coverage.COVERAGE.options


# Guards the two cores, both of which run every C test.
def test_arm(recorder, commands):
    suites.run_arm(commands)
    assert {test["env"].get("QEMU_CPU") for test in recorder.tests} == {"cortex-a72", "max"}
    for test in recorder.tests:
        assert test["label"] == test["env"]["QEMU_CPU"] and test["names"] == set()
        assert test["build"] is builds.ARM


# Guards against emulated tests that are counted as native.
def test_emulators_are_named():
    named = {name: suite.emulator for name, suite in suites.load_suites().items() if suite.emulator}
    assert named == {"valgrind": "valgrind", "arm": "qemu", "avx512": "Bochs", "oldcpu": "qemu"}


# Guards what the guests are told: the level that dispatch must choose, and the only one that they run.
def test_avx512(recorder, commands):
    cases = emulated.run_avx512(commands)
    assert not any(case.status == FAILED for case in cases)
    assert len(recorder.guests) == emulated.GUESTS
    for sample in recorder.guests:
        assert sample.env["ATTNSCOPE_TEST_EXPECT_ISA"] == sample.env["ATTNSCOPE_TEST_LEVELS"] == "avx512"
        assert sample.env["ATTNSCOPE_TEST_SEED"] == SEED
        assert {path.parent for path in sample.programs} == {builds.GCC.directory / "tests"}


# Guards against guests in which nothing of the level ran.
@pytest.mark.parametrize("case", [Case("k: a [avx2]", PASSED), Case("k: a [avx512]", "skipped", "why")])
def test_avx512_needs_its_level(recorder, commands, case):
    recorder.cases = [case]
    assert emulated.run_avx512(commands)[-1] == Case("avx512", FAILED, "no test of that level passed")


def refuse(words, env):
    """What a right `attnscope verify --isa LEVEL` exits with on an old processor."""
    return emulated.REFUSED if words[-1] == "avx512" else 0


# Guards the old processors: what each has to choose and runs, and what its command line refuses.
def test_oldcpu(recorder, commands):
    recorder.status = refuse
    cases = emulated.run_oldcpu(commands)
    assert not any(case.status == FAILED for case in cases)
    wanted = {"Nehalem": "scalar", "SandyBridge": "scalar", "Haswell": "avx2"}
    assert {test["label"] for test in recorder.tests} == {*wanted}
    for core, level in wanted.items():
        test = recorder.test_of(core)
        assert test["wrapper"] == QEMU and test["build"] is builds.GCC
        assert test["env"]["QEMU_CPU"] == core and test["env"]["ATTNSCOPE_TEST_EXPECT_ISA"] == level
        assert test["env"]["ATTNSCOPE_TEST_LEVELS"] == "scalar"
        assert {"cpu", "dispatch", "kernels_exp"} <= test["names"]
        asked = {words[-1] for words, env in recorder.ran if env["QEMU_CPU"] == core}
        assert asked == ({"avx512", "avx2"} if level == "avx2" else {"avx512"})
    assert all(words[:1] == QEMU and "verify" in words for words, _ in recorder.ran)
    assert Case("Haswell: verify [avx2]", PASSED) in cases


# Guards against a command line that does not refuse, dies, or fails at the level that it has.
@pytest.mark.parametrize(("level", "status"), [("avx512", 0), ("avx512", -4), ("avx2", 1), ("avx2", -4)])
def test_oldcpu_sees_a_wrong_status(recorder, commands, level, status):
    recorder.status = lambda words, env: status if words[-1] == level else refuse(words, env)
    failed = {case.name: case.reason for case in emulated.run_oldcpu(commands) if case.status == FAILED}
    assert len(failed) == (3 if level == "avx512" else 1)
    assert all(f"exit status {status}" in reason for reason in failed.values())


# Guards what a C test is started with: the seed of the run, the suite's variables, the wrapper, the names.
def test_meson_is_told(monkeypatch, commands, tmp_path):
    ran = []

    def run(self, arguments, env=None, cwd=None):
        ran.append(([str(word) for word in arguments], env))
        place = tmp_path / "meson-logs"
        place.mkdir()
        (place / "testlog-old-qemu.json").write_text("")
        return -1

    monkeypatch.setattr(Commands, "run", run)
    build = Build(tmp_path, ("gcc", "g++"), ())
    cases = build.test(commands, "old", {"A": "b"}, names=["x", "y"], wrapper=["/bin/qemu", "-z"])
    ((words, env),) = ran
    assert env == {"ATTNSCOPE_TEST_SEED": SEED, "A": "b"}
    assert "--wrapper=/bin/qemu -z" in words and words[-2:] == ["x", "y"]
    assert cases == [Case("old", FAILED, "the suite's time is up")]


# Guards how a guest runs a program: killed when its time is up, with its own status, and nothing left running.
def test_guest_runs_a_program(tmp_path):
    fake = tmp_path / "busybox"
    fake.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/said\n[ "$1" != timeout ] || exit 3\n')
    fake.chmod(0o755)
    script = guest.first_process(guest.Guest([Path("/x/test_x")], {}, seconds=7))
    function = re.search(r"^run\(\) \{\n.*?^\}\n", script, re.MULTILINE | re.DOTALL)[0]
    done = subprocess.run(
        ["sh", "-c", f"B={fake}\n{function}run test_x"], capture_output=True, text=True, cwd=tmp_path
    )
    assert re.search(r"^@guest ended test_x 3 ", done.stdout, re.MULTILINE)
    said = (tmp_path / "said").read_text().splitlines()
    assert said[:2] == ["timeout -s KILL 7 ./test_x", "kill -9 -1"]


# Guards the log of a guest that went wrong: what the emulator said, and what came over the serial port.
def test_guest_log_has_both_ends(monkeypatch, tmp_path):
    def emulate(command, serial, stop):
        serial.write_text("the guest's words\n")
        serial.with_name("console").write_text("the emulator's words\n")
        return "the emulator ended with status 1"

    monkeypatch.setattr(guest, "make_image", lambda place, sample: place / "guest.iso")
    monkeypatch.setattr(guest, "emulate", emulate)
    cases = guest.run(guest.Guest([Path("/x/test_x")], {}), tmp_path / "log", guest.Stop(0.0))
    assert {case.status for case in cases} == {FAILED}
    text = (tmp_path / "log").read_text()
    assert "the emulator's words" in text and "the guest's words" in text


# Guards the end of the log that a failed suite shows: that of the part which failed, wherever it stands.
@pytest.mark.parametrize("bad", [0, 1])
def test_end_of_the_log_is_of_what_failed(recorder, monkeypatch, capsys, tmp_path, bad):
    def boot(sample, log, stop):
        number = int(log.stem[-1])
        log.write_text(f"words of guest {number}\n" * 40)
        return [Case(f"k{number}: a [avx512]", FAILED if number == bad else PASSED)]

    monkeypatch.setattr(guest, "run", boot)
    monkeypatch.setattr("testrunner.__main__.ROOT", tmp_path)
    result = run_suite(suites.Suite("s", 1, "guests", emulated.run_avx512), tmp_path / "s.log")
    assert result.count(FAILED) == 1
    said = capsys.readouterr().err
    assert f"avx512-{bad}.log:" in said and f"words of guest {bad}" in said
    assert f"words of guest {1 - bad}" not in said


# Guards the same of the Python tests, of a suite without parts, and that one which passes shows nothing.
def test_end_of_the_log_of_directories_and_others(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("testrunner.__main__.ROOT", tmp_path)

    def pytest_of(own, name, paths, env):
        own.log.write_text(f"words of {paths[0]}\n")
        return [Case(paths[0], FAILED if paths[0] == "a" else PASSED)]

    monkeypatch.setattr(suites, "run_pytest", pytest_of)
    run = suites.Suite("s", 1, "two", lambda commands: suites.run_directories(commands, ["a", "b"], {}))
    run_suite(run, tmp_path / "s.log")
    said = capsys.readouterr().err
    assert "words of a" in said and "words of b" not in said

    def plain(status):
        def run(commands):
            commands.run(["echo", "plain words"])
            return [Case("x", status)]

        run_suite(suites.Suite("s", 1, "one", run), tmp_path / "s.log")
        return capsys.readouterr().err

    assert "plain words" in plain(FAILED)
    assert plain(PASSED) == ""
