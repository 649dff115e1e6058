"""Strict reading: what must be there, what may be missing, and what is said when a file cannot be used."""

import json
import os
import subprocess
import sys

import pytest
import synthetic
from attnscope_py import analysis, results, strict_json, text_table
from attnscope_py.reading import load_run, load_runs, parse_id
from attnscope_py.results import ResultError, Run
from hypothesis import given
from hypothesis import strategies as hs

ROW = synthetic.row("dense", "flash", "avx2", 128, [1.0])


def fails(path, *parts, code=2):
    with pytest.raises(ResultError) as caught:
        load_run(str(path))
    text = str(caught.value)
    assert caught.value.exit_code == code
    assert "\n" not in text
    for part in parts:
        assert part in text
    return text


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# Guards strictness: each of these Python's own reader takes, or reports without a place.
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": NaN}', "line 1 column 7: NaN is not JSON"),
        ('{"a": "NaN, Infinity",\n "b": [1, -Infinity]}', "line 2 column 11: -Infinity is not JSON"),
        ('{"a": "\\"NaN", "b": Infinity}', "line 1 column 21: Infinity is not JSON"),
        ('{"a": 1e999}', "beyond the range"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ('{"a": 1,}', "line 1 column"),
        ("{'a': 1}", "line 1 column 2"),
        ('{"a": [1, 2', "breaks off at line 1 column 12"),
        ('{"a": "bcd', "breaks off in the string at line 1 column 7"),
        ('{"a": 1}\n{"b": 2}', "line 2 column 1: extra data"),
        ("", "empty"),
        (" \n", "empty"),
        ("[" * 100000, "nested too deeply"),
        ("\ufeff{}", "line 1 column 1"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        ('{"a": ' + "9" * 500 + "}", "beyond the range"),
    ],
)
def test_not_strict_json(text, said):
    with pytest.raises(strict_json.JsonError) as caught:
        strict_json.loads(text if isinstance(text, bytes) else text.encode())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


_VALUES = hs.recursive(
    hs.none()
    | hs.booleans()
    | hs.integers(-(2**70), 2**70)
    | hs.floats(allow_nan=False, allow_infinity=False)
    | hs.text(),
    lambda inner: hs.lists(inner) | hs.dictionaries(hs.text(), inner),
    max_leaves=20,
)


# Guards against being too strict: whatever is JSON is read as it is, the words NaN and Infinity in texts too.
@given(_VALUES)
def test_strict_json_is_read(value):
    assert strict_json.loads(json.dumps(value).encode()) == value


# Guards truncation at every place: one line, exit 2, never a traceback or half a file taken for a whole one.
def test_truncated_anywhere(tmp_path):
    whole = json.dumps(synthetic.document(synthetic.power_law(1.0, 2.0)[:2])).encode()
    for length in range(0, len(whole), 97):
        fails(write(tmp_path / "cut.json", whole[:length]), "cut.json")


# Guards files that are JSON and not ours.
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "no list 'benchmarks'"),
        ("3", "no list 'benchmarks'"),
        ('{"benchmarks": {}}', "no list 'benchmarks'"),
        ('{"benchmarks": []}', "no object 'context'"),
        ('{"context": {}, "benchmarks": [1]}', "row 1 is 1, not an object"),
        ('{"context": {}, "benchmarks": [{"real_time": 1}]}', "row 1: neither id nor name"),
        ('{"context": {}, "benchmarks": [{"id": 7}]}', "id is 7, not a text"),
        ('{"context": {}, "benchmarks": [{"id": "a"}]}', "a: neither real_time nor samples_ns"),
        ('{"context": {}, "benchmarks": [{"id": "a", "real_time": "1"}]}', "real_time is '1', not a number"),
        ('{"context": {}, "benchmarks": [{"id": "a", "real_time": true}]}', "real_time is True"),
        ('{"context": {}, "benchmarks": [{"id": "a", "real_time": -1}]}', "below 0"),
        (
            '{"context": {}, "benchmarks": [{"id": "a", "real_time": 1, "time_unit": "h"}]}',
            "time_unit is 'h'",
        ),
        (
            '{"context": {}, "benchmarks": [{"id": "a", "real_time": 1, "samples_ns": [1, 0]}]}',
            "a time of samples_ns is 0 ns, expected 0.001 to 1e+18 ns",
        ),
        ('{"context": {}, "benchmarks": [{"id": "a", "real_time": 1, "samples_ns": 5}]}', "not a list"),
        ('{"context": {}, "benchmarks": [{"id": "a", "real_time": 1, "keys": 1.5}]}', "keys is 1.5"),
        (
            '{"context": {}, "benchmarks": [{"id": "a", "real_time": 1}, {"id": "a", "real_time": 2}]}',
            "row 2: the id a stands twice",
        ),
    ],
)
def test_not_a_result_file(tmp_path, text, said):
    fails(write(tmp_path / "r.json", text), said)


def extremes():
    """Numbers of every kind that JSON can hold, and some that only Python's reader makes of it."""
    yield from (0, -0.0, 5e-324, 1e-320, 1e-9, 1e-3, 1, 1e18, 1e19, 1e30, 1e31, 1.7e308, 10**18, 10**399)
    yield from (-5e-324, -1, -1.5, -1e308, -(10**398))


# Guards numbers at both ends of what JSON holds, in every field that is a number: it is refused by row and field,
# or a table is made; a traceback, which this would show, is neither.
@pytest.mark.parametrize("rows", ["one", "all"])
@pytest.mark.parametrize(
    "field", sorted(k for k, v in ROW.items() if isinstance(v, (int, float))) + ["samples_ns"]
)
def test_extreme_numbers(tmp_path, field, rows):
    refused = 0
    for value in extremes():
        made = synthetic.power_law(1.0, 2.0) + synthetic.power_law(3.0, 2.0, extras="/alibi")
        for row in made[:1] if rows == "one" else made:
            row[field] = [value] * 5 if field == "samples_ns" else value
        try:
            run = load_run(synthetic.write(tmp_path / "r.json", made))
            text_table.text_table(analysis.sections([run]), [run])
        except ResultError as error:
            refused += error.exit_code == 2
            assert "\n" not in str(error)
            # Beyond a double it is refused before anything else is looked at.
            if "range of a double" not in str(error):
                assert field in str(error)
                assert made[0]["id"] in str(error) or error.exit_code == 4
    if field.endswith("_ns") or field == "real_time":
        assert refused >= 12  # what is not 1e-3 to 1e18 ns


# Guards the range of times by the unit of each, to the last one that is taken.
@pytest.mark.parametrize(("unit", "scale"), [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)])
def test_range_of_times(tmp_path, unit, scale):
    for time_ns, fine in ((1e-3, True), (9e-4, False), (1e18, True), (1.1e18, False)):
        row = synthetic.row("dense", "flash", "avx2", 128, [1.0], samples_ns=None, min_ns=None, max_ns=None)
        row |= {"real_time": time_ns / scale, "time_unit": unit}
        path = synthetic.write(tmp_path / "r.json", [row])
        if fine:
            assert load_run(path).rows[0].median_ns == pytest.approx(time_ns)
        else:
            fails(path, row["id"], "real_time is", f"{unit}, expected 0.001 to 1e+18 ns")


# Guards numbers of any length in an id: they are words; and texts that say nothing.
def test_long_numbers_elsewhere(tmp_path):
    long = "9" * 5000
    assert parse_id(f"attention/dense/flash/avx2/f32/b1/h1/kv1/d64/nq{long}/nk64/t1")["extras"] == [
        f"nq{long}"
    ]
    run = Run("r.json", {"context": {"host_name": "", "date": " "}, "benchmarks": []}, [])
    assert run.host == "r" and run.date is None


# Guards "nothing was measured" (exit 4) against "cannot be read" (exit 2).
def test_nothing_measured(tmp_path):
    fails(synthetic.write(tmp_path / "r.json", []), "no row was measured", code=4)
    failed = synthetic.row(
        "dense", "flash", "avx2", 128, [1.0], error_occurred=True, error_message="no memory"
    )
    fails(synthetic.write(tmp_path / "r.json", [failed]), "1 failed", "no memory", code=4)
    fails(tmp_path / "none.json", "No such file", code=2)
    fails(tmp_path, "directory", code=2)


# Guards rows that were not measured: kept apart with their reason, never drawn as a time of 0.
def test_failed_rows_are_kept_apart(tmp_path):
    rows = synthetic.power_law(1.0, 2.0)
    rows[0] |= {"error_occurred": True, "error_message": "no memory", "real_time": 0}
    rows[1] |= {"real_time": 0, "samples_ns": []}
    rows[2] |= {"skipped": True, "skip_message": "not here"}
    run = load_run(synthetic.write(tmp_path / "r.json", rows))
    assert [row.reason for row in run.excluded] == ["no memory", "a time of 0", "not here"]
    assert len(run.rows) == len(rows) - 3
    (section,) = analysis.sections([run])
    assert section.lengths == [1024, 2048, 4096, 8192]


# Guards ids: the standard parts, the suffixes, kernels, and what is not one of ours.
def test_parse_id():
    said = parse_id(
        "attention/causal,window=256/flash/avx2/f32/b1/h8/kv2/d64/nq1/nk4096/t2/dv32/cap30/alibi/stage:qk"
    )
    assert (said["pattern"], said["algorithm"], said["isa"], said["dtype"]) == (
        "causal,window=256",
        "flash",
        "avx2",
        "f32",
    )
    assert [said[k] for k in ("batch", "heads", "kv_heads", "head_dim", "queries", "keys", "threads")] == [
        1, 8, 2, 64, 1, 4096, 2,
    ]  # fmt: skip
    assert (said["value_dim"], said["stage"], said["extras"]) == (32, "qk", ["cap30", "alibi"])
    kernel = parse_id("kernel/softmax/avx512/f32/n1024")
    assert (kernel["kind"], kernel["algorithm"], kernel["isa"], kernel["keys"]) == (
        "kernel",
        "softmax",
        "avx512",
        1024,
    )
    assert parse_id("BM_something/1024")["kind"] == "other"
    assert parse_id("attention/dense")["kind"] == "attention"


# Guards tolerance: with everything optional gone the id still says where a row belongs.
def test_fields_missing_are_taken_from_the_id(tmp_path):
    keep = {"name", "real_time", "time_unit"}
    rows = [{k: v for k, v in row.items() if k in keep} for row in synthetic.power_law(2.0, 1.7)]
    run = load_run(synthetic.write(tmp_path / "r.json", rows, lambda made: made.update(context={})))
    (section,) = analysis.sections([run])
    (series,) = section.series
    assert series.exponent.value == pytest.approx(1.7)
    assert (series.isa, series.variant.label) == ("avx2", "dense · flash")
    assert section.group.label == "f32, 1 head, head dimension 64, 1 thread"
    assert series.last.ns_per_pair is None and series.last.row.pct_peak is None
    assert (run.cpu, run.compiler, run.commit, run.host) == (None, None, None, "r")


# Guards what ran against what was asked for: the field wins, and "auto" is said.
def test_what_ran_is_what_is_reported(tmp_path):
    rows = synthetic.power_law(2.0, 2.0)
    for row in rows:
        row["id"] = row["id"].replace("/flash/avx2/", "/auto/auto/")
    (section,) = analysis.sections([load_run(synthetic.write(tmp_path / "r.json", rows))])
    (series,) = section.series
    assert series.isa == "avx2"
    assert series.variant.label == "dense · flash, algorithm auto, ISA level auto"


# Guards units: Google Benchmark may write any, samples are always nanoseconds; the samples' median is the time.
def test_units(tmp_path):
    rows = [
        synthetic.row("dense", "flash", "avx2", 128, [1.0], real_time=2.5, time_unit="us", samples_ns=None),
        synthetic.row("dense", "flash", "avx2", 256, [3.0, 1.0, 2.0, 10.0], real_time=7, time_unit="ms"),
    ]
    run = load_run(synthetic.write(tmp_path / "r.json", rows))
    assert [row.median_ns for row in run.rows] == [2500.0, 2.5]
    assert (run.rows[1].min_ns, run.rows[1].max_ns, run.rows[1].sample_count) == (1.0, 10.0, 4)


# Guards the names of several files: one host twice is told apart by date, then by number.
def test_labels(tmp_path):
    rows = synthetic.power_law(1.0, 2.0)

    def labels(*contexts):
        paths = [synthetic.write(tmp_path / f"{i}.json", rows, **c) for i, c in enumerate(contexts)]
        return [run.label for run in load_runs(paths)]

    assert labels({"host": "a"}, {"host": "b"}) == ["a", "b"]
    assert labels({"host": "a", "date": "2026-01-01T10:00"}, {"host": "a", "date": "2026-01-02T10:00"}) == [
        "a 2026-01-01 10:00",
        "a 2026-01-02 10:00",
    ]
    twice = labels({"host": "a"}, {"host": "a"}, {"host": "b"})
    assert len(set(twice)) == 3 and twice[2] == "b"


# Guards caches: data and unified ones count, instruction caches do not.
def test_cache_sizes(tmp_path):
    run = load_run(synthetic.write(tmp_path / "r.json", synthetic.power_law(1.0, 2.0)))
    assert [run.cache_bytes(level) for level in (1, 2, 3, 4)] == [49152, 1 << 20, 32 << 20, None]


# Guards that Google Benchmark's aggregates are no rows of their own.
def test_aggregates_are_ignored(tmp_path):
    rows = synthetic.power_law(1.0, 2.0)
    rows.append(rows[0] | {"run_type": "aggregate", "aggregate_name": "mean"})
    assert len(load_run(synthetic.write(tmp_path / "r.json", rows)).rows) == len(rows) - 1


def test_stages_of_design():
    # Guards the order in which stages are stacked and listed.
    assert results.STAGES == ("qk", "scale", "mask", "softmax", "pv")


# Guards that a failure can be replayed: two processes write the same file, whatever hashes they have.
def test_synthetic_files_are_the_same_in_every_process(tmp_path):
    written = []
    for seed in ("1", "2"):
        out = tmp_path / f"{seed}.json"
        command = [sys.executable, synthetic.__file__, str(out)]
        subprocess.run(command, check=True, timeout=600, env=os.environ | {"PYTHONHASHSEED": seed})
        written.append(out.read_bytes())
    assert written[0] == written[1]
