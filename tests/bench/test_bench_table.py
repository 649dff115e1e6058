"""The table of `attnscope bench`, and what its help page says about it."""

import json
import os

import pytest


def test_the_foot_explains_the_columns_and_counts_disturbed_rows(bench, tmp_path):
    """Guards a table whose columns nobody explains, or whose marks are not those of the file."""
    out = tmp_path / "results.json"
    table = bench("--pattern=dense", "--n=128,256", "--isa=scalar", "--out", out).out.splitlines()
    results = json.loads(out.read_text())
    assert any("median of n samples" in line and "+-" in line for line in table)
    disturbed = {row["id"] for row in results["benchmarks"] if row["cpu_share"] < 0.95}
    assert len(disturbed) == results["context"]["rows_disturbed"]
    marked = {line.split()[-1] for line in table if line[10:11] == "*"}  # behind the median
    assert marked == disturbed
    foot = [line for line in table if "were disturbed" in line]
    assert [line.split(" rows")[0] for line in foot] == ([f"{len(disturbed)} of 2"] if disturbed else [])


def test_a_decoding_row_is_split_over_its_threads(measured):
    """Guards threads_used and key_splits: one query against many keys is work for two threads, a tile is not."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("the process may use one CPU only")
    options = ("--pattern=dense", "--threads=2", "--isa=scalar", "--algorithm=flash")
    decoding = measured(*options, "--queries=1", "--n=8192")["benchmarks"][0]
    assert decoding["key_splits"] > 1 and decoding["threads_used"] == 2
    tile = measured(*options, "--queries=9", "--n=64")["benchmarks"][0]
    assert tile["key_splits"] == 1 and tile["threads_used"] == 1


def test_softmax_is_measured_on_its_own_input(measured):
    """Guards the row of softmax: it works in place, and a call that finds what the one before left finds equal
    numbers in the end. The checksum is the row's sum, 1, and that of its exponentials before the division: n for
    equal numbers, about n / 4 for those between -2 and 2."""
    row = measured("--kernel=softmax", "--n=100", "--isa=scalar")["benchmarks"][0]
    assert 1 < row["checksum"] < 1 + 100 / 2


def test_help_says_when_the_sweep_applies_and_what_is_saved(bench):
    page = bench("--help").out
    assert "takes its place" in page and "nothing is saved" in page
