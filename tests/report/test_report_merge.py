"""`attnscope merge`: rows of one machine come together, what does not fit is refused with its reason."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic

ROOT = Path(__file__).resolve().parents[2]
HERE, THERE = "0123456789abcdef", "fedcba9876543210"


def merge(*arguments):
    program = os.environ.get("ATTNSCOPE")
    command = (
        [os.path.abspath(program), "merge"] if program else [sys.executable, ROOT / "scripts/attnscope-merge"]
    )
    command = [*map(str, command), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def rows(pattern, lengths=(128, 256), **changes):
    return [synthetic.row(pattern, "flash", "avx2", n, [100.0 * n] * 7, **changes) for n in lengths]


@pytest.fixture
def write(tmp_path):
    """Writes a result file of machine HERE, with changes to its context."""

    def make(name, some, **changes):
        return synthetic.write(tmp_path / name, some, **{"fingerprint": HERE, **changes})

    return make


def test_joined_by_machine(write, tmp_path):
    """Two files of one machine and one of another give two files, with every row as it was and its session named; what
    comes out goes into a report and into another merge."""
    a = write("a.json", rows("dense"), peak_gflops={"avx2": 70.0})
    b = write("b.json", rows("causal"), date="2026-11-30T09:00:00+00:00", peak_gflops={"avx2": 72.5})
    c = write("c.json", rows("dense"), host="other", fingerprint=THERE)
    out = tmp_path / "fleet"
    done = merge(a, c, b, "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in out.iterdir()} == {f"{HERE}.json", f"{THERE}.json"}
    joined = json.loads((out / f"{HERE}.json").read_text())
    assert len(joined["context"]["sessions"]) == 2 and joined["context"]["peak_gflops"] == {"avx2": 72.5}
    wanted = [row | {"session": 1} for row in rows("dense")] + [
        row | {"session": 2} for row in rows("causal")
    ]
    assert [{k: v for k, v in row.items() if k != "family_index"} for row in joined["benchmarks"]] == wanted
    assert [entry["date"] for entry in joined["context"]["merged_from"]] == [
        "2026-11-30T08:00:00+00:00",
        "2026-11-30T09:00:00+00:00",
    ]
    d = write("d.json", rows("window=256"))
    again = merge(out / f"{HERE}.json", d, "--out", tmp_path / "more")
    assert again.returncode == 0, again.stderr
    more = json.loads((tmp_path / "more" / f"{HERE}.json").read_text())
    assert [row["session"] for row in more["benchmarks"]] == [1, 1, 2, 2, 3, 3]
    assert len(more["context"]["sessions"]) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"commit": "f" * 40},
        {"compiler": "clang 14.0.6"},
        {"build_type": "debug"},
        {"settings": {"seed": 7}},
        {"machine": {"fields": {"microcode": "0x2"}}},
    ],
)
def test_other_builds_are_refused(write, tmp_path, changes):
    """Equal fingerprints do not make files comparable whose build, seed or machine differ: exit 3, with the field."""
    a, b = write("a.json", rows("dense")), write("b.json", rows("causal"), **changes)
    done = merge(a, b, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (3, "") and done.stderr.count("\n") == 1
    field = next(iter(changes))
    assert (field if field not in ("settings", "machine") else f"{field}.") in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("prefer", [None, "first", "last"])
def test_a_row_of_two_files(write, tmp_path, prefer):
    """The same row twice is refused by its id, unless it is said whose is kept."""
    a = write("a.json", rows("dense", (128,)))
    b = write("b.json", [synthetic.row("dense", "flash", "avx2", 128, [7.0] * 7)])
    done = merge(a, b, "--out", tmp_path / "out", *(["--prefer", prefer] if prefer else []))
    if prefer is None:
        assert done.returncode == 3 and "nq128" in done.stderr and "--prefer" in done.stderr
        return
    assert done.returncode == 0
    (row,) = json.loads((tmp_path / "out" / f"{HERE}.json").read_text())["benchmarks"]
    assert row["real_time"] == (12800.0 if prefer == "first" else 7.0)


def test_what_failed_gives_way(write, tmp_path):
    """A row that one file could not measure is taken from the one that could, whichever comes first; lists of rows
    that are missing lose those that are there."""
    good = rows("dense", (128,))
    bad = [
        synthetic.row(
            "dense", "flash", "avx2", 128, [1.0], error_occurred=True, error_message="no memory", real_time=0
        )
    ]
    name = good[0]["id"]
    missing = {
        "incomplete": True,
        "not_measured": [name, "attention/never"],
        "left_out": [{"id": name, "reason": "long"}],
    }
    files = [write("bad.json", bad + rows("causal", (128,)), **missing), write("good.json", good)]
    for order in (files, files[::-1]):
        assert merge(*order, "--out", tmp_path / "out").returncode == 0
        made = json.loads((tmp_path / "out" / f"{HERE}.json").read_text())
        found = {row["id"]: row for row in made["benchmarks"]}
        assert not found[name].get("error_occurred") and len(found) == 2
        assert made["context"]["not_measured"] == ["attention/never"] and made["context"]["left_out"] == []
        assert made["context"]["incomplete"] is True


def test_refused(write, tmp_path):
    """Usage, and a file that does not say what machine it is of."""
    a = write("a.json", rows("dense"))
    nameless = synthetic.write(
        tmp_path / "n.json", rows("dense"), change=lambda made: made["context"].pop("fingerprint")
    )
    for arguments, part in (
        ((), "no result file"),
        ((a,), "--out"),
        ((a, "--out", tmp_path / "x", "--prefer", "best"), "'best'"),
        ((nameless, "--out", tmp_path / "x"), "fingerprint"),
        ((tmp_path / "none.json", "--out", tmp_path / "x"), "none.json"),
    ):
        done = merge(*arguments)
        assert done.returncode == 2 and done.stderr.startswith("attnscope merge: "), done
        assert done.stderr.count("\n") == 1 and part in done.stderr
    done = merge(a, "--out", Path(a))
    assert done.returncode == 2 and "cannot write" in done.stderr
