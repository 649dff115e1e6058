"""Ctrl-C at any moment: one line and exit code 130, and of what was to be written all or nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic

ROOT = Path(__file__).resolve().parents[2]
# Python runs this before the program: at the first event of Python's auditing that begins with the words, the whole
# group of processes gets SIGINT, as from a terminal, `TIMES` times.
HOOK = """\
import os, signal, sys
wanted, left, main = os.environ["MOMENT"], int(os.environ["TIMES"]), os.getpid()
def hook(event, arguments):
    global left
    if left and os.getpid() == main and f"{event} {arguments}".startswith(wanted):
        left -= 1
        os.killpg(0, signal.SIGINT)
sys.addaudithook(hook)
"""


@pytest.fixture
def interrupted(tmp_path):
    """Runs one of the programs until the moment, and returns how it ended."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK)

    def call(program, *arguments, moment, times=1):
        environment = os.environ | {
            "PYTHONPATH": str(tmp_path / "hook"),
            "MOMENT": moment,
            "TIMES": f"{times}",
        }
        return subprocess.run(
            [sys.executable, ROOT / f"scripts/attnscope-{program}", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env=environment,
            start_new_session=True,
        )

    return call


@pytest.fixture
def file(tmp_path):
    """One ISA level: enough pictures for several processes."""
    rows = synthetic.sweep(isas=("avx2",), lengths=(128, 256, 512, 1024))
    return synthetic.write(tmp_path / "r.json", rows)


# Guards who ends a report early: while modules load, while it reads, draws and writes, and once more while it cleans up.
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    "moment",
    [
        "import ('attnscope_py.reading'",
        "import ('scipy",
        "import ('vl_convert",
        "open ('{file}'",
        "os.fork",
        "os.mkdir ('{out}",
        "tempfile.mkstemp ('{out}",
        "os.rename ('{out}",
    ],
)
def test_report(interrupted, file, tmp_path, moment, times):
    out = tmp_path / "out"
    done = interrupted(
        "report", file, "--no-png", "--out", out, moment=moment.format(file=file, out=out), times=times
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "attnscope report: interrupted\n")
    if out.exists():  # it came when all was there
        assert moment.startswith("os.rename")
        assert (out / "report.html").exists() and not list(out.glob(".*"))


# Guards the file that is analyzed: as it was, or as it is to be.
@pytest.mark.parametrize("moment", ["import ('scipy", "tempfile.mkstemp", "os.rename"])
def test_analyze(interrupted, file, tmp_path, moment):
    before = Path(file).read_bytes()
    done = interrupted("analyze", file, moment=moment, times=2)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "attnscope analyze: interrupted\n")
    after = Path(file).read_bytes()
    assert after == before or "analysis" in json.loads(after)
    assert not list(tmp_path.glob(".*"))
