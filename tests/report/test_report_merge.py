"""`attnscope merge`: rows of one machine come together, what does not fit is refused with its reason."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic
from attnscope_py import reading, summary

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
    assert joined["benchmarks"] == [row | {"family_index": i} for i, row in enumerate(wanted)]
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


def leaves(value, place=()):
    """The paths of all values that are no objects."""
    for key, inner in value.items():
        yield from leaves(inner, (*place, key)) if isinstance(inner, dict) else [(*place, key)]


@pytest.mark.parametrize("path", list(leaves(synthetic.conditions())), ids=".".join)
@pytest.mark.parametrize("there", [True, False])
def test_other_conditions_are_refused(write, tmp_path, path, there):
    """Equal fingerprints do not make files comparable when anything else differs that `--resume` would refuse, or
    one file does not say it: exit 3, with the field's name, whichever file comes first."""
    changed = synthetic.conditions()
    *places, name = path
    inner = changed
    for place in places:
        inner = inner[place]
    if there:
        inner[name] = "another"
    else:
        del inner[name]
    files = [write("a.json", rows("dense")), write("b.json", rows("causal"), conditions=changed)]
    for order in (files, files[::-1]):
        done = merge(*order, "--out", tmp_path / "out")
        assert (done.returncode, done.stdout) == (3, "") and done.stderr.count("\n") == 1
        assert (
            f"differ in {'.'.join(path)} (" in done.stderr and ("another" if there else "none") in done.stderr
        )
    assert not (tmp_path / "out").exists()


def test_what_the_whole_file_says(write, tmp_path):
    """No file's word is lost behind another's, whichever comes first: limits of every number of threads, the largest
    drift, the time of all, sums that differ, and how many of the rows that stay were disturbed."""
    one, two = rows("dense", cpu_share=0.5), rows("causal", cpu_share=0.6)
    name = one[0]["id"]
    a = write(
        "a.json",
        one,
        roofline=[synthetic.roofline(1)],
        drift={"change": 0.01, "flagged": False},
        elapsed_s=3,
        rows_disturbed=2,
        checksums_differ=[{"id": one[1]["id"], "with": name}],
        runner="lab-3",
    )
    b = write(
        "b.json",
        [*two, synthetic.row("dense", "flash", "avx2", 128, [7.0] * 7)],
        roofline=[synthetic.roofline(1, 2.0), synthetic.roofline(2)],
        drift={"change": -0.4, "flagged": True},
        elapsed_s=4,
        rows_disturbed=2,
        checksums_differ=[{"id": two[1]["id"], "with": two[0]["id"]}],
    )
    for order in ((a, b), (b, a)):
        keeps_a = order[0] == a
        for prefer, of_a in (("first", keeps_a), ("last", not keeps_a)):
            done = merge(*order, "--out", tmp_path / "out", "--prefer", prefer)
            assert done.returncode == 0, done.stderr
            context = json.loads((tmp_path / "out" / f"{HERE}.json").read_text())["context"]
            limits = {entry["threads"]: entry for entry in context["roofline"]}
            assert len(context["roofline"]) == 2
            assert limits == {1: synthetic.roofline(1, 2.0 if keeps_a else 1.0), 2: synthetic.roofline(2)}
            assert context["drift"] == {"change": -0.4, "flagged": True}
            assert context["elapsed_s"] == 7 and context["runner"] == "lab-3"
            assert context["rows_disturbed"] == (4 if of_a else 3)
            # Sums of a row that gave way are no longer of this file.
            assert len(context["checksums_differ"]) == (2 if of_a else 1)
    report = summary.warnings([reading.load_run(str(tmp_path / "out" / f"{HERE}.json"))])
    assert any("drifted" in line and "40.0 % less" in line for line in report)


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
    whole = [
        write("bad.json", bad + rows("causal", (128,)), incomplete=True, not_measured=[name]),
        write("good.json", good),
    ]
    for order in (whole, whole[::-1]):
        assert merge(*order, "--out", tmp_path / "out").returncode == 0
        made = json.loads((tmp_path / "out" / f"{HERE}.json").read_text())["context"]
        assert made["incomplete"] is False and "not_measured" not in made
        # A file that was ended before it could say what is missing stays incomplete.
        write("good.json", good, incomplete=True)
        assert merge(*order, "--out", tmp_path / "out").returncode == 0
        made = json.loads((tmp_path / "out" / f"{HERE}.json").read_text())["context"]
        assert made["incomplete"] is True
        write("good.json", good)


def test_refused(write, tmp_path):
    """Usage, and a file that does not say what machine it is of."""
    a = write("a.json", rows("dense"))
    nameless = synthetic.write(
        tmp_path / "n.json", rows("dense"), change=lambda made: made["context"].pop("fingerprint")
    )
    old = synthetic.write(
        tmp_path / "o.json",
        rows("causal"),
        change=lambda made: made["context"].pop("conditions"),
        fingerprint=HERE,
    )
    for arguments, part in (
        ((a, old, "--out", tmp_path / "x"), "conditions"),
        ((old, a, "--out", tmp_path / "x"), "conditions"),
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


@pytest.mark.parametrize("fingerprint", ["../evil", "/tmp/evil", "ffff", "A\nB", "0123456789abcdeF", 5])
def test_fingerprint_is_no_path(write, tmp_path, fingerprint):
    """What names the file that is written is 16 hexadecimal digits: a file from elsewhere leads nowhere else."""
    evil = write("evil.json", rows("dense"), fingerprint=fingerprint)
    before = sorted(path.name for path in tmp_path.iterdir())
    done = merge(evil, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "") and "fingerprint" in done.stderr
    assert done.stderr.count("\n") == 1 and sorted(path.name for path in tmp_path.iterdir()) == before


# Guards against files that `bench --resume` would refuse too: without sessions nobody knows when rows were measured.
@pytest.mark.parametrize("sessions", [None, []])
@pytest.mark.parametrize("others", [0, 1])
def test_no_sessions(write, tmp_path, sessions, others):
    files = [write(f"{i}.json", rows(pattern)) for i, pattern in enumerate(("dense",)[:others])]
    bad = write("bad.json", rows("causal"), sessions=sessions)
    done = merge(*files, bad, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == f"attnscope merge: {bad}: no sessions: it is not known when its rows were measured\n"
    )
    assert not (tmp_path / "out").exists()
