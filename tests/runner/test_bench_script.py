"""scripts/bench.sh, as far as it goes without a build; the suites measure through the program itself."""

import os
import shutil
import signal
import subprocess
import time

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


# In place of the program: `bench` is interrupted by a signal, and at once by the same once more, as the program is;
# it measures until the file "go" is there. Each subcommand notes that it ran.
STAND_IN = """#!/bin/bash
root=$(cd "$(dirname "$0")/../.." && pwd)
echo "$1" >>"$root/ran"
case $1 in
    bench)
        number=0
        caught() { [ "$number" != "$1" ] || kill -9 $$; number=$1; }
        trap 'caught 1' HUP; trap 'caught 2' INT; trap 'caught 15' TERM
        : >"$root/started"
        until [ -e "$root/go" ] || [ "$number" != 0 ]; do sleep 0.02; done
        sleep 0.3
        [ -e "$root/nothing" ] || echo "interrupted by $number" >"$3"
        [ "$number" = 0 ] || exit $((128 + number))
        ;;
    report) : >"$4/report.html" ;;
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
    default = lambda: [signal.signal(n, signal.SIG_DFL) for n in (1, 2, 15)]  # noqa: E731
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
    assert err.count("ended early; what was measured is in ") == 1 and err.count("\n") == 3, err


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
