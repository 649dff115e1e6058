"""`bench --tuning`: auto rows run what a table says, and a table that would be ignored is refused."""

import json

import pytest
from conftest import QUICK

SMALL = ("--isa", "scalar", "--pattern", "dense")


@pytest.fixture
def table(tmp_path):
    """A table that says naive below 64 keys, and flash from there on."""

    def entry(from_n, algorithm):
        problem = {"isa": "scalar", "dtype": "f32", "head_dim": 64, "value_dim": 64, "pattern": "dense"}
        return problem | {"threads": 1, "from_n": from_n, "to_n": 1000, "algorithm": algorithm}

    path = tmp_path / "tuned.json"
    path.write_text(json.dumps({"tuning": [entry(0, "naive"), entry(64, "flash")]}))
    return path


def test_auto_rows_follow(measured, table):
    """Guards that what auto ran is what the table says, as the rows say; without one it is flash."""
    for more, ran in (("--tuning", table), ["naive", "flash"]), ((), ["flash", "flash"]):
        found = measured(*SMALL, "--n", "32,64", *more)
        rows = sorted(found["benchmarks"], key=lambda row: row["keys"])
        assert [row["algorithm"] for row in rows] == ran
        assert all("/auto/" in row["id"] for row in rows)
        assert found["context"]["settings"].get("tuning") == (str(table) if more else None)


@pytest.mark.parametrize("ignored", [("--algorithm", "flash"), ("--stages",), ("--kernel", "exp")])
def test_ignored_is_refused(bench, table, ignored):
    """Guards options that would do nothing."""
    outcome = bench("--isa", "scalar", "--n", "64", *ignored, "--tuning", table, *QUICK)
    assert outcome.code == 2 and "--tuning" in outcome.err and outcome.err.count("\n") == 1


def test_table_is_an_input(bench, table, tmp_path):
    """Guards the table: no output replaces it, and one that is none is refused by name."""
    before = table.read_bytes()
    outcome = bench(*SMALL, "--n", "64", "--tuning", table, "--out", table, *QUICK)
    assert outcome.code == 2 and "tuned.json" in outcome.err and table.read_bytes() == before
    outcome = bench(*SMALL, "--n", "64", "--tuning", tmp_path / "none.json", *QUICK)
    assert outcome.code == 2 and "none.json" in outcome.err
