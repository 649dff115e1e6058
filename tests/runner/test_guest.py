"""The guests of suite avx512: whatever can go wrong in one has to come out as failed, with the log's end.

A real boot takes longer than all of these together. Fakes stand in for it: text as a guest writes it, and
shell scripts in the place of the emulator.
"""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from testrunner import emulated, guest
from testrunner.builds import ROOT, Build
from testrunner.commands import CommandError, Commands
from testrunner.results import FAILED, PASSED, SKIPPED, Case

GOOD = "1..2\nok 1 - a [avx512]\nok 2 - b [avx512] # SKIP why\n"


def serial(*blocks, ends=True):
    """What a guest writes: (program, output, status) for each program; without a status it did not end."""
    text = "noise of the kernel\n@guest begins\n"
    for program, output, status in blocks:
        text += f"@guest starts {program}\n{output}"
        text += "" if status is None else f"\n@guest ended {program} {status} 6.01\n"
    return text + ("@guest ends\n" if ends else "")


def read(text, *names, fault=""):
    return guest.read_serial(text, list(names), 300, fault)


# Guards the plain case: one case per test of each program, with carriage returns as a serial line has them.
def test_good_guest():
    text = serial(("test_x", GOOD, 0), ("test_y", "1..1\nok 1 - c\n", 0)).replace("\n", "\r\n")
    assert read(text, "test_x", "test_y") == [
        Case("x: a [avx512]", PASSED),
        Case("x: b [avx512]", SKIPPED, "why"),
        Case("y: c", PASSED),
    ]


# Guards: what is wrong with a program is one failed case of it, and the program after it still counts.
@pytest.mark.parametrize(
    ("output", "status", "named"),
    [
        ("1..2\nok 1 - a\nnot ok 2 - b\n", 1, ""),  # a test failed
        ("1..1\nok 1 - a\n", 1, "exit status 1"),  # failed without saying so
        ("1..2\nok 1 - a\nBail out! died of signal 4\n", 1, "signal 4"),  # crashed
        ("", 132, "exit status 132"),  # crashed at once: illegal instruction
        ("1..2\nok 1 - a\n", 137, "killed, after 300 s"),  # hung, and was ended in the guest
        ("sh: ./test_x: not found\n", 127, "exit status 127"),  # is not in the image
        ("", 0, "no plan"),  # said nothing
        ("1..2\nok 1 - a\n", 0, "planned 2"),  # said less than it promised
    ],
)
def test_bad_program(output, status, named):
    cases = read(serial(("test_x", output, status), ("test_y", GOOD, 0)), "test_x", "test_y")
    failed = [case for case in cases if case.status == FAILED]
    assert len(failed) == 1
    assert failed[0].name.startswith("x")
    assert named in failed[0].reason
    assert cases[-2].name == "y: a [avx512]"


# Guards: a guest that does not get to its end is failed, so is each program it did not run, with the last line.
@pytest.mark.parametrize(
    "fault", ["its time is up", "its kernel panicked", "the emulator ended with status 1"]
)
def test_unfinished_guest(fault):
    text = serial(("test_x", GOOD, 0), ("test_y", "1..2\nok 1 - c\n", None), ends=False) + "Oops: 7\n"
    cases = read(text, "test_x", "test_y", "test_z", fault=fault)
    failed = {case.name: case.reason for case in cases if case.status == FAILED}
    assert set(failed) == {"y", "z", "guest"}
    assert "did not end" in failed["y"]
    assert "was not started" in failed["z"]
    for reason in failed.values():
        assert fault in reason and "Oops: 7" in reason


# Guards: the end counts only if it was written, and only on a line of its own; nothing at all is failed.
@pytest.mark.parametrize("text", ["", serial(ends=False), "@guest begins\n# @guest ends\n"])
def test_silent_guest(text):
    assert [case.name for case in read(text, "test_x") if case.status == FAILED] == ["x", "guest"]


# Guards against an image of nothing, and one of programs that were not built.
@pytest.mark.parametrize("programs", [[], ["nosuch"]])
def test_image_needs_programs(tmp_path, programs):
    with pytest.raises(CommandError, match="nosuch" if programs else "no program to run"):
        guest.make_image(tmp_path / "place", guest.Guest([tmp_path / name for name in programs], {}))


# Guards the command by hand: what it lacks is one line, with what installs it, and no exception.
@pytest.mark.parametrize("lacks", ["kernel", "program"])
def test_command_says_what_is_missing(tmp_path, monkeypatch, capsys, lacks):
    if lacks == "kernel":
        monkeypatch.setattr(guest, "KERNEL", tmp_path / "vmlinuz")
    else:
        monkeypatch.setattr(guest, "impossible", lambda: "")
    assert guest.main([str(tmp_path / "test_x"), "A=b"]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert ("scripts/setup.sh avx512" in said and "vmlinuz" in said) == (lacks == "kernel")
    assert ("no program" in said) == (lacks == "program")


# Guards that an image holds a program with all it is linked to, and the first process with its environment.
@pytest.mark.skipif(bool(guest.impossible()), reason=guest.impossible() or "-")
def test_image_is_complete(tmp_path):
    program = tmp_path / "test_x"
    program.symlink_to("/bin/sh")
    place = tmp_path / "place"
    image = guest.make_image(place, guest.Guest([program], {"A": "b c'd"}))
    assert image.stat().st_size > guest.KERNEL.stat().st_size
    listed = subprocess.run(
        ["cpio", "-t", "--quiet"], stdin=(place / "iso" / "initrd").open(), capture_output=True
    )
    names = listed.stdout.decode().split()
    copied = (str(path)[1:] for path in (*guest.FILES, *guest.libraries(program)))
    for name in ("init", "bin/busybox", "tests/test_x", *copied):
        assert name in names
    assert guest.libraries(program)
    init = place / "root" / "init"
    assert subprocess.run(["sh", "-n", init]).returncode == 0
    found = subprocess.run(
        ["sh", "-c", f'eval "$(grep ^export.A {init})"; echo "$A"'], capture_output=True, text=True
    )
    assert found.stdout == "b c'd\n"


def fake(tmp_path, script, seconds=20.0, grace=0.1):
    """emulate() of a shell script, which finds the file of the serial port in $1."""
    port = tmp_path / "serial"
    pid = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ >{pid}; {script}", "sh", str(port)]
    begin = time.monotonic()
    fault = guest.emulate(command, port, guest.Stop(begin + seconds), grace)
    assert time.monotonic() - begin < 15  # none of them has to wait for the end of its sleep
    if pid.exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)
    return fault


SAY_END = r"printf '@guest begins\n@guest ends\n' >$1"


# Guards the emulator's ends, good and bad; in each, no process of it is left.
@pytest.mark.parametrize(
    ("script", "seconds", "fault"),
    [
        (SAY_END, 20, ""),
        (f"{SAY_END}; exit 1", 20, ""),  # Bochs ends so when the machine is switched off
        (f"{SAY_END}; sleep 60", 20, ""),  # the guest is through, and the machine stays on
        (f"{SAY_END}; trap '' TERM HUP; sleep 60", 20, ""),
        ("sleep 60", 0, "its time is up"),
        ("printf 'x\\nKernel panic - not syncing' >$1; sleep 60", 20, "its kernel panicked"),
        ("exit 3", 20, "the emulator ended with status 3"),
        ("kill -SEGV $$", 20, "the emulator ended with status -11"),
    ],
)
def test_emulator(tmp_path, script, seconds, fault):
    assert fake(tmp_path, script, seconds) == fault


# Guards a missing emulator, and that one gets no MALLOC_PERTURB_, of which Bochs dies.
def test_emulator_starts(tmp_path, monkeypatch):
    missing = guest.emulate(["no-such-emulator"], tmp_path / "serial", guest.Stop(time.monotonic() + 20))
    assert missing.startswith("cannot start no-such-emulator")
    monkeypatch.setenv("MALLOC_PERTURB_", "1")
    script = f'[ -z "$MALLOC_PERTURB_" ] && {SAY_END}; exit 4'
    assert fake(tmp_path, script) == ""


# Guards that every program of every level is run by one guest, or left out by name and with a reason.
def test_every_level_program_is_shared_out():
    names = emulated.level_programs()
    assert {"kernels_exp", "kernels_flash", "kernels_matmul", "options_random", "edges"} <= set(names)
    for count in (1, 2, 3):
        lists = emulated.shares(names, count)
        assert sorted(sum(lists, [])) == names and len(lists) == count
    assert emulated.shares(["one"], 2) == [["one"]]
    assert set(emulated.LEFT_OUT) <= set(names) and all(emulated.LEFT_OUT.values())
    assert set(emulated.SECONDS) <= set(names)


# Guards against tests that a suite leaves out without a word: each program of every level runs on the oldest
# processor and in the guest, or is a skipped case there with its reason.
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_nothing_is_left_out_silently(monkeypatch, tmp_path, full, native):
    ran = []

    def test(self, commands, label="", env=None, slower=1, names=(), wrapper=()):
        ran.extend(f"{label}: {name}" for name in names)
        return []

    def boot(sample, log, stop):
        ran.extend(program.stem.removeprefix("test_") for program in sample.programs)
        log.write_text("")
        return [Case("x [avx512]", PASSED)]

    monkeypatch.setattr(Build, "make", lambda self, commands: None)
    monkeypatch.setattr(Build, "test", test)
    monkeypatch.setattr(guest, "run", boot)
    monkeypatch.setattr(emulated, "FULL", full)
    here = {"scalar": "", "avx2": "", "avx512": "" if native else "the CPU lacks it"}
    monkeypatch.setattr(emulated, "levels_here", lambda program: here)
    monkeypatch.setattr(emulated, "_expect", lambda commands, name, *rest: Case(name, PASSED))
    commands = Commands(ROOT, tmp_path / "log", 60)
    for run, label in (emulated.run_oldcpu, "Nehalem: "), (emulated.run_avx512, ""):
        ran.clear()
        skipped = {case.name: case.reason for case in run(commands) if case.status == SKIPPED}
        wanted = {label + name for name in ["cpu", "dispatch", *emulated.level_programs()]}
        assert wanted <= set(ran) | set(skipped)
        assert all(skipped.values()) and not set(ran) & set(skipped)
        if run is emulated.run_avx512:  # whatever the CPU, the emulator is tried
            assert set(emulated.PART) <= set(ran) and (set(ran) == set(emulated.PART)) == (
                native and not full
            )


# Guards that an emulated level repeats what it computes natively: of two runs from one seed, one for a level
# alone as in a guest, the shorter one's combinations are the first of the longer one's.
def test_random_cases_of_a_level_are_its_own():
    build = os.environ.get("ATTNSCOPE_BUILD")
    if not build:
        pytest.skip("ATTNSCOPE_BUILD is not set: no build to compare with")

    def numbered(**env):
        program = Path(build, "tests", "test_options_random")
        env = {**os.environ, "ATTNSCOPE_TEST_SEED": "5", **env}
        text = subprocess.run([program], env=env, capture_output=True, text=True, check=True).stdout
        found = {}
        for level, case in re.findall(r"^# (\w+): (number \d+ is .*)$", text, re.MULTILINE):
            found.setdefault(level, []).append(case)
        return found

    native = numbered(ATTNSCOPE_TEST_COMBINATIONS="12")
    assert native
    for level, cases in native.items():
        alone = numbered(
            ATTNSCOPE_TEST_LEVELS=level, ATTNSCOPE_TEST_COMBINATIONS="3", ATTNSCOPE_TEST_QUICK="1"
        )
        assert list(alone) == [level]
        assert len(cases) >= 3 and alone[level] == cases[:3]
