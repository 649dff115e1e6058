"""Signals: what was measured is kept, what was kept before is not lost, and the run ends soon."""

import json
import signal
import subprocess
import time

import pytest
from conftest import signalled, start
from strict import strict


@pytest.mark.parametrize(
    ("number", "repetitions"),
    [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGINT, 2)],
)
def test_interrupted_run_leaves_valid_files(tmp_path, number, repetitions):
    """Guards that an interruption keeps what was measured, marked incomplete, in both files, and says so."""
    path = tmp_path / "r.json"
    own = tmp_path / "own.json"
    # A terminal that goes away sends its signal several times; timeout(1) sends to the program and to its group.
    code, shown = signalled(
        *("--no-roofline", "--benchmark_min_time=0.2", "--pattern", "dense"),
        *("--n", "64,65,66,67,68,69,70,71", f"--benchmark_repetitions={repetitions}"),
        *(f"--benchmark_out={own}", "--out", path),
        at=b"  2/",
        numbers=[number] * 2,
    )
    assert code == 128 + number, shown
    results = strict(path.read_text())
    assert results["context"]["incomplete"] is True
    measured = {row["id"] for row in results["benchmarks"]}
    assert len(measured) + len(results["context"]["not_measured"]) == 8
    assert 1 <= len(measured) < 8
    assert all(len(row["samples_ns"]) == row["sample_count"] > 0 for row in results["benchmarks"])
    # The library runs the repetitions of a row one after the other: only the last row can lack some.
    done = [row["repetitions_done"] for row in results["benchmarks"] if "repetitions_done" in row]
    assert done in ([], [1]) if repetitions == 2 else done == []
    assert f"interrupted: {len(measured)} of 8 rows measured, written to {path}" in shown
    assert json.loads(own.read_text())["benchmarks"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["own.json", "r.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_before_the_first_row_keeps_the_files_of_the_last_run(tmp_path, number):
    """Guards that nothing never replaces something."""
    path, own = tmp_path / "r.json", tmp_path / "own.json"
    path.write_text("precious")
    own.write_text("precious too")
    process = start(
        *("--no-roofline", "--benchmark_min_time=100000x", "--pattern", "dense", "--n", "2048,2049"),
        *(f"--benchmark_out={own}", "--out", path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "bound" in process.stderr.readline()  # the first of rows of many minutes begins
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert (path.read_text(), own.read_text()) == ("precious", "precious too")
    assert (out, errors) == ("", "attnscope bench: interrupted: 0 of 2 rows measured, nothing written\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["own.json", "r.json"]


def test_second_signal_leaves_no_temporary_file(tmp_path):
    """Guards that who ends a run twice gets an end at once, and no half of a file."""
    process = start(
        *("--no-roofline", "--pattern", "dense", "--n", "32768", "--algorithm", "naive", "--isa", "scalar"),
        *(f"--benchmark_out={tmp_path / 'own.json'}", "--out", tmp_path / "r.json"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "bound" in process.stderr.readline()
    assert [p.name.startswith(".attnscope-") for p in tmp_path.iterdir()] == [True]
    time.sleep(0.3)  # its calls take many times that: the first signal waits for the end of one
    for _ in range(100):  # signals that find the first one still waiting are lost in it
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        if process.poll() is not None:
            break
    process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
    assert not list(tmp_path.iterdir())


def test_interrupted_while_the_machine_is_measured(tmp_path):
    """Guards that a signal is honoured before the rows begin too: of bandwidths and peaks, which the terminal
    names one by one, those that are left are not measured, and no row is begun."""
    path = tmp_path / "r.json"
    path.write_text("precious")
    code, shown = signalled(
        *("--pattern", "dense", "--n", "64,65", "--out", path),
        at=b"measuring this machine: ",
        numbers=[signal.SIGINT],
    )
    assert code == 128 + signal.SIGINT
    assert "measuring this machine: scalar fma" in shown
    assert "copy" not in shown and "bound" not in shown and "s left" not in shown, shown
    assert "interrupted: 0 of 2 rows measured, nothing written" in shown
    assert path.read_text() == "precious"


def test_killed_run_leaves_its_last_checkpoint(tmp_path, bench):
    """Guards what no handler can: a run that is killed leaves a whole file of the rows before, marked incomplete, that
    --resume completes."""
    path = tmp_path / "r.json"
    options = (
        "--no-roofline",
        "--benchmark_min_time=0.05",
        "--pattern",
        "dense",
        "--n",
        "64,65,66,67,68,69,70,71",
    )
    process = start(
        *options, "--checkpoint", "0", "--out", path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    left = strict(path.read_text())
    there = {row["id"]: row for row in left["benchmarks"]}
    assert left["context"]["incomplete"] is True and 1 <= len(there) < 8
    assert len(there) + len(left["context"]["not_measured"]) == 8
    assert bench(*options, "--resume", "--out", path).code == 0
    whole = strict(path.read_text())
    assert whole["context"]["incomplete"] is False and len(whole["benchmarks"]) == 8
    kept = {row["id"]: row["samples_ns"] for row in whole["benchmarks"] if row["id"] in there}
    assert kept == {name: row["samples_ns"] for name, row in there.items()}
