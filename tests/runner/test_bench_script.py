"""scripts/bench.sh, as far as it goes without a build; the suites measure through the program itself."""

import contextlib
import os
import pty
import select
import shutil
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest
from testrunner.suites import ROOT

BENCH_SH = ROOT / "scripts" / "bench.sh"


def run(*arguments, cwd):
    return subprocess.run([BENCH_SH, *arguments], capture_output=True, text=True, cwd=cwd, timeout=60)


# Guards that a wrong --out is refused before anything is installed, built or measured: one line and exit code 2.
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--out"], "--out needs a file"),
        (["--out", "no/such/r.json"], "there is no directory no/such"),
        (["--n", "64", "--out=no/such/r.json"], "there is no directory no/such"),
        (["--out=here.json", "--out", "there.json"], "more than one value given for --out"),
    ],
)
def test_wrong_out(tmp_path, arguments, named):
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bench.sh: ") and done.stderr.count("\n") == 1
    assert named in done.stderr
    assert not list(tmp_path.iterdir())


# Guards that the scripts' own heads, which --help prints, name the README's two commands.
@pytest.mark.parametrize("name", ["bench.sh", "test.sh", "setup.sh"])
def test_head_is_the_help(name):
    head = (ROOT / "scripts" / name).read_text().split("\nset -")[0]
    assert f"#   scripts/{name}" in head
    assert f"scripts/{name}" in (ROOT / "README.md").read_text()


# In place of the program: `bench` is interrupted by a signal, and at once by the same once more, half a second later,
# as the program is, and by SIGQUIT; it measures until the file "go" is there. Each subcommand notes that it ran.
STAND_IN = """#!/bin/bash
root=$(cd "$(dirname "$0")/../.." && pwd)
echo "$1" >>"$root/ran"
case $1 in
    bench)
        [ -e "$root/say" ] || exec 2>/dev/null # bash tells of its own children that a signal ended
        number=0 quit=""
        caught() {
            if [ "$number" = 0 ]; then number=$1 since=${EPOCHREALTIME/./}
            elif [ "$number" = "$1" ] && [ $((${EPOCHREALTIME/./} - since)) -gt 500000 ]; then kill -9 $$; fi
        }
        trap 'caught 1' HUP; trap 'caught 2' INT; trap 'quit=yes' QUIT; trap 'caught 15' TERM
        [ ! -e "$root/checkpoint" ] || { echo checkpoint >"$3"; : >"$(dirname "$3")/.attnscope-half"; }
        echo $$ >"$root/pid"
        : >"$root/started"
        until [ -e "$root/go" ] || [ "$number$quit" != 0 ]; do sleep 0.02; [ ! -e "$root/say" ] || echo progress >&2; done
        [ -z "$quit" ] || exit 131
        sleep 0.3
        [ -e "$root/nothing" ] || echo "interrupted by $number" >"$3"
        [ "$number" = 0 ] || exit $((128 + number))
        ;;
    report) echo "short table"; echo warning >&2; [ ! -e "$root/slow" ] || sleep 0.5; : >"$4/report.html" ;;
esac
"""
SETUP = """[ "${BASH_SOURCE[0]}" != "$0" ] || exit 0
find_meson() { echo "$root/meson"; }
"""
MESON = """#!/bin/bash
[ "$1" != setup ] || { mkdir -p "$2/cli" && cp "$3/stand-in" "$2/cli/attnscope"; }
"""


@pytest.fixture
def checkout(tmp_path):
    for name, text in {"stand-in": STAND_IN, "scripts/setup.sh": SETUP, "meson": MESON}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "build-logs").mkdir()
    shutil.copy(BENCH_SH, tmp_path / "scripts")
    return tmp_path


def measure(checkout, send):
    """Runs the script in a process group of its own, calls `send` with it while it measures."""
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    # Python's own tests may run with signals ignored, as behind nohup.
    default = lambda: [signal.signal(n, signal.SIG_DFL) for n in (1, 2, 3, 15)]  # noqa: E731
    process = subprocess.Popen([checkout / "scripts" / "bench.sh"], preexec_fn=default, **how)
    try:
        for _ in range(1500):
            if (checkout / "started").exists():
                break
            time.sleep(0.02)
        send(process)
        out, err = process.communicate(timeout=60)
    finally:
        (checkout / "go").touch()  # ends the stand-in that a failure left
    return process.returncode, out, err


# Guards that a signal to the script ends the program, once, whether the script alone gets it or its group, and that
# what was measured is drawn: without that the run went on to its end, and was then called ended early.
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("kill", [os.kill, os.killpg])
def test_signal_ends_the_measuring_and_draws(checkout, number, kill):
    code, _, err = measure(checkout, lambda process: kill(process.pid, number))
    assert code == 128 + number, err
    (place,) = (checkout / "results").iterdir()
    assert (place / "results.json").read_text() == f"interrupted by {number.value}\n"
    assert (place / "report.html").exists()
    assert (checkout / "ran").read_text().split() == ["bench", "analyze", "report"]
    assert err.count("ended early; what was measured is in ") == 1 and err.count("\n") == 4, err


# Guards what no handler catches: SIGQUIT, with which the program leaves its last checkpoint and half of a file.
@pytest.mark.parametrize("kill", [os.kill, os.killpg])
def test_quit_keeps_the_last_checkpoint(checkout, kill):
    (checkout / "checkpoint").touch()
    code, _, err = measure(checkout, lambda process: kill(process.pid, signal.SIGQUIT))
    assert code == 131, err
    (place,) = (checkout / "results").iterdir()
    assert (place / "results.json").read_text() == "checkpoint\n" and (place / "report.html").exists()
    assert sorted(path.name for path in place.iterdir()) == ["report.html", "results.json", "table.txt"]


# Guards against a second signal that finds the results between the program's end and their place: whenever it comes,
# they are there. The stand-in writes its results 0.3 s after the first.
@pytest.mark.parametrize("kill", [os.kill, os.killpg])
@pytest.mark.parametrize("delays", [[0.01], [0.02 * i for i in range(1, 3)] + [0.01] * 60])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_further_signals_lose_nothing(checkout, number, delays, kill):
    def send(process):
        kill(process.pid, number)
        for delay in delays:
            time.sleep(delay)
            if process.poll() is not None or list((checkout / "results").glob("[!.]*")):
                break  # they are in their place: what ends the script now ends it
            kill(process.pid, number)

    measure(checkout, send)
    (place,) = (checkout / "results").iterdir()
    assert (place / "results.json").read_text() == f"interrupted by {number.value}\n"


def on_terminal(checkout, output=None):
    """Runs the script as the leader of a session on a terminal of its own; the process, and the terminal's end that a
    window holds. `output`: a file in the place of standard output and error."""
    process, window = pty.fork()
    if process == 0:
        for number in (1, 2, 3, 15):
            signal.signal(number, signal.SIG_DFL)
        if output:
            for descriptor in (1, 2):
                os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), descriptor)
        os.execv(checkout / "scripts" / "bench.sh", ["bench.sh"])
    wait_for((checkout / "started").exists)
    return process, window


def wait_for(condition):
    for _ in range(1500):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("waited for 30 s")


def ended(process, window=None):
    """The exit code. A terminal is read meanwhile, so that nobody waits for it."""
    shown = b""
    for _ in range(3000):
        if window is not None and select.select([window], [], [], 0)[0]:
            with contextlib.suppress(OSError):
                shown += os.read(window, 4096)
        pid, status = os.waitpid(process, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), shown.decode()
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    raise AssertionError(f"did not end: {shown}")


# Guards a terminal that goes away while the program measures: what was measured is drawn, with nobody to read of it,
# and what is written into a file says so there. The report is slow, so that a hang-up could reach it.
@pytest.mark.parametrize("to_file", [False, True])
def test_hang_up_of_a_terminal(checkout, to_file):
    (checkout / "slow").touch()
    process, window = on_terminal(checkout, checkout / "said" if to_file else None)
    os.close(window)
    wait_for(lambda: "report" in (checkout / "ran").read_text())
    os.killpg(process, signal.SIGHUP)  # they come several times
    assert ended(process)[0] == 129
    (place,) = (checkout / "results").iterdir()
    assert (place / "results.json").read_text() == "interrupted by 1\n" and (place / "report.html").exists()
    assert not to_file or "ended early; what was measured is in " in (checkout / "said").read_text()


# Guards that the program is the terminal's as the script is: Ctrl-C ends it, also where only the foreground may write
# (stty tostop), and Ctrl-Z stops both.
@pytest.mark.parametrize(("key", "number"), [(b"\x03", 2), (b"\x1c", 3)])
def test_keys_of_a_terminal(checkout, key, number):
    (checkout / "say").touch()
    process, window = on_terminal(checkout)
    program = int((checkout / "pid").read_text())
    flags = termios.tcgetattr(window)
    flags[3] |= termios.TOSTOP
    termios.tcsetattr(window, termios.TCSANOW, flags)
    state = lambda: Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[0]  # noqa: E731
    time.sleep(0.2)
    assert state() != "T", "stopped for writing"
    assert os.getpgid(program) == os.getpgid(process) == os.tcgetpgrp(window)
    os.killpg(process, signal.SIGSTOP)  # Ctrl-Z does nothing to a session's leader, which no shell watches
    wait_for(lambda: state() == "T")
    os.killpg(process, signal.SIGCONT)
    os.write(window, key)
    code, shown = ended(process, window)
    assert code == 128 + number, shown
    assert "ended early" in shown or "ended before anything" in shown
    os.close(window)


# Guards against a program that goes on measuring when its whole group was killed.
def test_killed_group_leaves_nothing_behind(checkout):
    process, window = on_terminal(checkout)
    program = int((checkout / "pid").read_text())
    os.killpg(process, signal.SIGKILL)
    assert ended(process, window)[0] == -signal.SIGKILL
    wait_for(lambda: not Path(f"/proc/{program}").exists())
    os.close(window)


# Guards the two other ends: a whole run says nothing of an end, and an interrupted one without a file leaves nothing.
def test_whole_run_and_one_that_measured_nothing(checkout):
    code, _, err = measure(checkout, lambda _: (checkout / "go").touch())
    assert code == 0 and "ended" not in err
    (place,) = (checkout / "results").iterdir()
    assert (place / "results.json").read_text() == "interrupted by 0\n" and (place / "report.html").exists()
    for name in ("go", "started", "ran"):
        (checkout / name).unlink()
    (checkout / "nothing").touch()
    shutil.rmtree(checkout / "results")
    code, _, err = measure(checkout, lambda process: os.kill(process.pid, signal.SIGTERM))
    assert code == 143 and "ended before anything was measured" in err
    assert not (checkout / "results").exists()
    assert (checkout / "ran").read_text().split() == ["bench"]
