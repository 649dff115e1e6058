"""`eval --tuning`: auto chooses by what was measured."""

import json

import numpy as np
import pytest


def entry(from_n: int, algorithm: str) -> dict:
    return {
        "isa": "scalar",
        "dtype": "f32",
        "head_dim": 16,
        "value_dim": 16,
        "pattern": "dense",
        "threads": 1,
        "from_n": from_n,
        "to_n": 1000,
        "algorithm": algorithm,
    }


@pytest.fixture
def run(attnscope, tmp_path):
    """Runs eval at level scalar on n queries and keys with a table; returns the Outcome."""

    def evaluate(n, entries, *more, fingerprint=None):
        q = tmp_path / "q.npy"
        np.save(q, np.random.default_rng(n).standard_normal((n, 16), dtype="f"))
        table = tmp_path / "results.json"
        context = {"context": {"fingerprint": fingerprint}} if fingerprint else {}
        table.write_text(json.dumps(context | {"analysis": {"tuning": entries}}))
        tensors = ["--q", q, "--k", q, "--v", q, "--out", tmp_path / "o.npy"]
        return attnscope("eval", *tensors, "--isa", "scalar", "--tuning", table, "--explain", *more)

    return evaluate


@pytest.mark.parametrize("n,algorithm", [(1, "naive"), (39, "naive"), (40, "flash"), (100, "flash")])
def test_auto_is_what_was_faster(run, n, algorithm):
    """Below and from the measured length on; --explain says who chose."""
    values = run(n, [entry(0, "naive"), entry(40, "flash")]).values()
    assert (values["algorithm"], values["algorithm_by"]) == (algorithm, "--tuning")


def test_nothing_is_said_beyond_what_was_measured(run):
    """A short sweep in which naive won must not choose it for a length whose scores fill the memory."""
    values = run(1001, [entry(0, "naive")]).values()
    assert (values["algorithm"], values["algorithm_by"]) == ("flash", "default")


def test_table_is_no_output(refused, tmp_path):
    """The file of the table is an input: no output replaces it."""
    np.save(tmp_path / "q.npy", np.zeros((4, 8), "f"))
    table = tmp_path / "t.json"
    table.write_text(json.dumps({"analysis": {"tuning": [entry(0, "naive")]}}))
    before = table.read_bytes()
    tensors = [*("--q", tmp_path / "q.npy", "--k", tmp_path / "q.npy", "--v", tmp_path / "q.npy")]
    refused(["eval", *tensors, "--out", table, "--tuning", table], "t.json", "input")
    refused(["eval", *tensors, "--out", tmp_path / "o.npy", "--lse", table, "--tuning", table], "t.json")
    assert table.read_bytes() == before


def test_who_chooses(run):
    """An algorithm that is asked for runs; where the table says nothing auto means what it means without one."""
    table = [entry(0, "naive")]
    values = run(8, table, "--algorithm", "flash").values()
    assert (values["algorithm"], values["algorithm_by"]) == ("flash", "--algorithm")
    for more in (["--pattern", "causal"], ["--softcap", "3"], ["--dtype", "f16"]):
        values = run(8, table, *more).values()
        assert (values["algorithm"], values["algorithm_by"]) == ("flash", "default"), more


def test_another_machine_is_said(attnscope, run):
    """A table of another machine is used, with a warning; one of this machine without."""
    outcome = run(8, [entry(0, "naive")], fingerprint="0123456789abcdef")
    assert outcome.code == 0 and "warning" in outcome.err and "0123456789abcdef" in outcome.err
    here = json.loads(attnscope("info", "--json").out)["fingerprint"]
    assert run(8, [entry(0, "naive")], fingerprint=here).err == ""


def test_refused(refused, tmp_path):
    """A table that is none is refused by the name of the file, and nothing is written."""
    np.save(tmp_path / "q.npy", np.zeros((4, 8), "f"))
    (tmp_path / "t.json").write_text('{"benchmarks": []}')
    q, out = tmp_path / "q.npy", tmp_path / "o.npy"
    tensors = ["--q", q, "--k", q, "--v", q, "--out", out]
    refused(["eval", *tensors, "--tuning", tmp_path / "t.json"], "--tuning", "t.json", "attnscope analyze")
    refused(["eval", *tensors, "--tuning", tmp_path / "missing.json"], "missing.json")
    assert not out.exists()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_are_looked_up(run, threads):
    """What was measured with so many threads decides for so many, and for no other number."""
    table = [entry(0, "flash"), entry(0, "naive") | {"threads": 2}]
    values = run(8, table, "--threads", threads).values()
    expected = {1: ("flash", "--tuning"), 2: ("naive", "--tuning"), 3: ("flash", "default")}
    assert (values["algorithm"], values["algorithm_by"]) == expected[threads]


def test_windows_are_told_apart(run):
    """A narrow window's choice is none for a wide one."""
    table = [entry(0, "naive") | {"pattern": "window=8"}]
    for width, chosen_by in ((8, "--tuning"), (16, "--tuning"), (17, "default"), (3, "default")):
        assert run(40, table, "--pattern", f"window={width}").values()["algorithm_by"] == chosen_by
