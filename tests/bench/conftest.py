"""Runs `attnscope bench` on tiny problems and reads what it wrote."""

import dataclasses
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))

from strict import strict  # noqa: E402

# Short enough for tests: every row takes a few milliseconds, and no bandwidth is measured.
QUICK = ("--no-roofline", "--benchmark_min_time=0.002s")


@dataclasses.dataclass
class Outcome:
    code: int
    out: str
    err: str


def program() -> str:
    path = os.environ.get("ATTNSCOPE")
    if not path:
        pytest.fail("the environment variable ATTNSCOPE names no program to test")
    return str(Path(path).resolve())


def environment(**more) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "ATTNSCOPE_ISA"} | more


def execute(*arguments, env=None, **how) -> Outcome:
    done = subprocess.run(
        [program(), "bench", *map(str, arguments)],
        env=environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        **how,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def start(*arguments, **how) -> subprocess.Popen:
    """Starts `attnscope bench` so that it minds signals: a shell's background jobs would inherit ignoring them."""

    def default_signals():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    return subprocess.Popen(
        [program(), "bench", *map(str, arguments)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        preexec_fn=default_signals,
        **how,
    )


def signalled(*arguments, at: bytes, numbers: list[int]) -> tuple[int, str]:
    """Runs it on a terminal and signals it once `at` is shown; returns the exit code and what was shown."""
    main, other = pty.openpty()
    process = start(*arguments, stdout=other, stderr=other)
    os.close(other)
    shown, sent = b"", False
    while True:
        try:
            part = os.read(main, 4096)
        except OSError:  # the terminal's other side is closed
            break
        shown += part
        if not sent and at in shown:
            for number in numbers:
                process.send_signal(number)
                time.sleep(0.01)  # two that wait to be delivered would be one
            sent = True
    os.close(main)
    assert sent, shown
    return process.wait(timeout=60), shown.decode()


@pytest.fixture(scope="session")
def bench():
    """Runs `attnscope bench` with the arguments given and returns an Outcome."""
    return execute


@pytest.fixture
def measured(tmp_path):
    """Runs `attnscope bench` quickly, checks that it succeeds, and returns the parsed file."""

    def run(*arguments, code=0, **how):
        path = tmp_path / "results.json"
        outcome = execute(*QUICK, *arguments, "--out", path, **how)
        assert outcome.code == code, outcome
        return strict(path.read_text())

    return run
