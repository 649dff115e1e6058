"""What a command started is ended with it: by its end, its deadline, an interrupt and the death of the runner.

The program that hangs is a sleep of a length that no other has. What makes it is what suites really run: a Meson
test, which has a session of its own; the same under a wrapper; a grandchild in a session of its own; one that lost
its parent; one that ignores what it is asked."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from testrunner import commands as module
from testrunner.builds import MESON
from testrunner.commands import CommandError, Commands
from testrunner.results import FAILED, Case, read_meson_log
from testrunner.suites import ROOT, run_pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descendants are looked up in /proc")


@pytest.fixture
def sleeper(tmp_path):
    """A program, and how many of it run; the runs of a failed test are ended."""
    program = tmp_path / "sleeper"
    program.symlink_to(shutil.which("sleep"))

    class Sleeper:
        command = f"{program} 600"

        def running(self):
            found = []
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = entry.read_bytes().split(b"\0")
                except OSError:
                    continue
                if os.fsencode(program) in words:
                    found.append(int(entry.parent.name))
            return found

        def wait_for(self, count):
            limit = time.monotonic() + 60
            while len(self.running()) < count and time.monotonic() < limit:
                time.sleep(0.02)
            assert len(self.running()) >= count

        def wait_until_gone(self):
            limit = time.monotonic() + 60
            while self.running() and time.monotonic() < limit:
                time.sleep(0.02)
            assert self.running() == []

    yield Sleeper()
    for pid in Sleeper().running():
        os.kill(pid, signal.SIGKILL)


FORMS = {
    "a child": "{}",
    "in the background": "{} & wait",
    "in a session of its own": "setsid -f {}",
    "an orphan": "( {} & )",
    "an orphan of an orphan": "setsid sh -c '( setsid {} & ) & sleep 600'",
    "ignores the request": "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; {}; sleep 600'",
}


@pytest.fixture
def ending(tmp_path, sleeper):
    """Commands whose time is up once the sleeper runs."""
    commands = Commands(ROOT, tmp_path / "log", 300.0)

    def watch():
        sleeper.wait_for(1)
        commands.deadline = 0.0

    thread = threading.Thread(target=watch)
    thread.start()
    yield commands
    thread.join()


# Guards every form of a descendant at the deadline: none is left when run() returns.
@pytest.mark.parametrize("form", FORMS)
def test_nothing_outlives_the_deadline(ending, sleeper, form):
    assert ending.run(["sh", "-c", FORMS[form].format(sleeper.command) + "; sleep 600"]) == -1
    assert sleeper.running() == []


# Guards the same at the command's own end.
@pytest.mark.parametrize("form", ["{} &", "setsid -f {}", "( setsid {} & )"])
def test_nothing_outlives_the_command(tmp_path, sleeper, form):
    assert Commands(ROOT, tmp_path / "log", 300).run(["sh", "-c", form.format(sleeper.command)]) == 0
    assert sleeper.running() == []


MESON_PROJECT = """project('p')
test('quick', find_program('true'))
test('hanging', find_program('{program}'), args: ['600'])
"""


# Guards the case that was missed, a C test that hangs: ended with its suite, with a wrapper too, and named.
@pytest.mark.parametrize("wrapper", [[], ["env"]])
def test_hanging_meson_test(tmp_path, sleeper, ending, wrapper):
    (tmp_path / "meson.build").write_text(MESON_PROJECT.format(program=sleeper.command.split()[0]))
    build = tmp_path / "b"
    subprocess.run([MESON, "setup", build, tmp_path], check=True, stdout=subprocess.DEVNULL)
    more = [f"--wrapper={word}" for word in wrapper]
    assert ending.run([MESON, "test", "-C", build, "--no-rebuild", *more]) == -1
    assert sleeper.running() == []
    (log,) = (build / "meson-logs").glob("testlog*.json")
    (failed,) = [case for case in read_meson_log(log) if case.status == FAILED]
    assert failed == Case("hanging", FAILED, "was running when its suite was ended")


# Guards the name of a Python test that hangs.
def test_hanging_python_test_is_named(tmp_path, sleeper, ending):
    (tmp_path / "test_it.py").write_text(
        "import subprocess\ndef test_good(): pass\n"
        f"def test_bad(): subprocess.run({sleeper.command.split()!r}, start_new_session=True)\n"
    )
    with pytest.raises(CommandError, match="out of time, in .*test_it.py::test_bad$"):
        run_pytest(ending, "x", [str(tmp_path)], {})
    assert sleeper.running() == []


# Guards the exit status: a keeper in between changes nothing of it.
@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -SEGV $$", -11), ("kill -KILL $$", -9)]
)
def test_status_is_the_command_s(tmp_path, script, status):
    assert Commands(ROOT, tmp_path / "log", 60).run(["bash", "-c", script]) == status


RUNNER = """
import sys, threading
from pathlib import Path
from testrunner import __main__ as m, suites
from testrunner.results import Case

def hang(commands):
    other = threading.Thread(target=lambda: commands.beside(Path({log!r} + '-2')).run({words}))
    other.start()
    commands.run({words})
    other.join()
    commands.run({words})
    return [Case('a', 'passed')]

m.load_suites = lambda: {{'s': suites.Suite('runner-test', 5, 'hangs', hang)}}
for number in (2, 15, 1):
    m.signal.signal(number, m.interrupted)
try:
    sys.exit(m.main(['s']))
except KeyboardInterrupt as error:
    sys.exit(128 + error.args[0])
"""


# Guards the end of the runner by each way that it can be asked, and without being asked: all that it started, in
# the thread of the signal and in another, is gone; and it says by its status what ended it.
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_end_of_the_runner(tmp_path, sleeper, number):
    words = ["sh", "-c", f"setsid -f {sleeper.command}; sleep 600"]
    program = RUNNER.format(words=words, log=str(tmp_path / "log"))
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    with subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.DEVNULL) as running:
        sleeper.wait_for(2)
        running.send_signal(number)
        status = running.wait(120)
    sleeper.wait_until_gone()
    assert status == (-9 if number == signal.SIGKILL else 128 + number)


# Guards that nothing is started once the run is over.
def test_no_start_after_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_stopping", [True])
    with pytest.raises(CommandError, match="interrupted"):
        Commands(ROOT, tmp_path / "log", 60).run(["true"])
