"""Hardware counters of a row: figures that belong together, or the reason why there are none."""

import pytest
from conftest import QUICK

ATTENTION = ("--pattern", "dense", "--isa", "scalar", "--n", "128")
FIGURES = {"instructions", "cycles", "ipc", "l1d_misses", "llc_misses", "branch_misses", "share_counted"}


def check_row(row):
    """Guards that a row has all its figures, or a reason and none."""
    counters = row["counters"]
    if "reason" in counters:
        assert set(counters) == {"reason"} and counters["reason"]
        return
    assert set(counters) <= FIGURES | {"calls_counted"} and {"instructions", "cycles"} <= set(counters)
    assert counters["ipc"] == pytest.approx(counters["instructions"] / counters["cycles"])
    assert 0.25 <= counters["share_counted"] <= 1
    assert 0 < counters["calls_counted"] <= row["iterations"]
    assert counters["instructions"] * 2 >= row["flops_useful"]  # scalar: a multiply-add at most


def test_counters_or_the_reason(measured):
    """Guards that the file says either way, of the run and of each session, and that rows agree with it."""
    results = measured(*ATTENTION)
    context = results["context"]
    said = context["counters"]
    assert said == context["sessions"][0]["counters"]
    (row,) = results["benchmarks"]
    if said["available"]:
        assert "reason" not in said
        assert set(said["missing"]) <= {"l1d_misses", "llc_misses", "branch_misses"}
        check_row(row)
        assert context["time"]["counting_s"] > 0
    else:
        assert said["reason"].startswith("not available: ") and len(said["reason"]) > 30
        assert "counters" not in row
        assert context["time"]["counting_s"] == 0
        pytest.skip(said["reason"])


def test_counters_can_be_left_out(measured):
    """Guards --no-counters."""
    results = measured(*ATTENTION, "--no-counters")
    assert results["context"]["counters"] == {"available": False, "reason": "left out (--no-counters)"}
    assert "counters" not in results["benchmarks"][0]
    assert results["context"]["time"]["counting_s"] == 0


def test_sessions_may_differ_in_counters(bench, measured, tmp_path):
    """Guards that reading them is no other way of measuring: a file can be resumed without."""
    measured(*ATTENTION)
    outcome = bench(
        *QUICK, *ATTENTION[:-1], "128,129", "--no-counters", "--resume", "--out", tmp_path / "results.json",
    )  # fmt: skip
    assert outcome.code == 0, outcome
