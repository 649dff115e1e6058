"""`--resume`: rows that are there stay as they are, the rest is measured, and nothing is ever lost."""

import json
import signal
import subprocess

import pytest
from conftest import QUICK, program, signalled
from strict import strict

SMALL = ("--pattern", "dense", "--isa", "scalar")


def by_keys(results) -> dict[int, dict]:
    return {row["keys"]: row for row in results["benchmarks"]}


@pytest.fixture
def begun(measured, tmp_path):
    """A file of two rows, and its path."""
    return measured(*SMALL, "--n", "64,128"), tmp_path / "results.json"


def without_place(row: dict) -> dict:
    return {key: value for key, value in row.items() if key != "family_index"}


def test_rows_that_are_there_stay_and_the_rest_is_measured(begun, measured):
    """Guards the rows' numbers, each row's session and date, and what the file says of its sessions."""
    first, _ = begun
    assert [s["number"] for s in first["context"]["sessions"]] == [1]
    second = measured(*SMALL, "--n", "64,96,128,256", "--resume")
    rows, before = by_keys(second), by_keys(first)
    assert list(rows) == [64, 96, 128, 256]
    for keys, row in before.items():
        assert without_place(rows[keys]) == without_place(row)
    assert {keys: row["session"] for keys, row in rows.items()} == {64: 1, 128: 1, 96: 2, 256: 2}
    assert all(row["date"] for row in rows.values())
    assert [row["family_index"] for row in second["benchmarks"]] == [0, 1, 2, 3]
    sessions = second["context"]["sessions"]
    assert [(s["number"], s["rows"], s["interrupted"]) for s in sessions] == [(1, 2, False), (2, 2, False)]
    assert sessions[0] == first["context"]["sessions"][0]
    for session in sessions:
        assert session["peak_gflops"]["scalar"] > 0 and session["binding"] and "drift" in session
    assert second["context"]["incomplete"] is False
    assert second["context"]["elapsed_s"] == pytest.approx(sum(s["elapsed_s"] for s in sessions), rel=1e-6)
    peaks = [s["peak_gflops"]["scalar"] for s in sessions]
    assert second["context"]["peak_gflops"]["scalar"] == max(peaks)


def test_rows_that_are_not_asked_for_stay_too(begun, measured):
    """Guards that a narrower question does not throw measurements away."""
    first, _ = begun
    second = measured(*SMALL, "--n", "32", "--resume")
    rows = by_keys(second)
    assert sorted(rows) == [32, 64, 128]
    assert without_place(rows[128]) == without_place(by_keys(first)[128])


def test_nothing_left_to_measure_is_a_success_that_writes_nothing(begun, bench):
    """Guards a complete file against being written once more, and its table against being empty."""
    _, path = begun
    before = path.read_bytes()
    outcome = bench(*QUICK, *SMALL, "--n", "64,128", "--resume", "--out", path)
    assert outcome.code == 0 and "2 of 2 rows are there" in outcome.err
    assert "nothing was left to measure" in outcome.err
    assert outcome.out.count("attention/dense") == 2
    assert path.read_bytes() == before


def test_a_file_that_is_not_there_is_begun(measured):
    """Guards that one command line serves for the first session and the next."""
    for _ in range(2):
        results = measured(*SMALL, "--n", "64", "--resume")
        assert len(results["context"]["sessions"]) == 1 and len(results["benchmarks"]) == 1


def test_a_dry_run_says_what_is_there(begun, bench):
    """Guards the plan of a resumed run, which is that of the rest."""
    _, path = begun
    before = path.read_bytes()
    outcome = bench(*QUICK, *SMALL, "--n", "64,256", "--resume", "--dry-run", "--out", path)
    assert outcome.code == 0 and "1 in the file" in outcome.out
    assert outcome.out.count("(in the file already)") == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--seed", "2"), "seed 1, here 2"),
        (("--benchmark_min_time=0.004",), "settings.min_time_s 0.002, here 0.004"),
        (("--benchmark_min_time=7x",), "settings.fixed_calls 0, here 7"),
        (("--benchmark_min_warmup_time=0.5",), "settings.warm_up_s null, here 0.5"),
        (("--benchmark_repetitions=2",), "settings.repetitions 1, here 2"),
        (("--benchmark_dry_run",), "settings.one_call false, here true"),
        (("--no-bind",), "settings.bind true, here false"),
        (("--cold",), "settings.cold false, here true"),
    ],
)
def test_other_settings_are_refused_by_name(begun, bench, options, named):
    """Guards a file against rows that were measured in another way than its others."""
    _, path = begun
    before = path.read_bytes()
    outcome = bench(*QUICK, *SMALL, "--n", "32", *options, "--resume", "--out", path)
    assert outcome.code == 2 and outcome.out == ""
    assert named in outcome.err and outcome.err.count("\n") == 1
    assert path.read_bytes() == before


def test_options_that_choose_rows_may_differ(begun, measured):
    """Guards that budgets, filters and limits of calls, which say what is measured and not how, are free."""
    results = measured(*SMALL, "--n", "32", "--budget", "100", "--max-call", "9", "--resume")
    assert len(results["benchmarks"]) == 3


def test_every_fact_of_machine_and_build_is_compared(begun, bench):
    """Guards that each field of the fingerprint and the commit is looked at, and all that differ are
    named."""
    results, path = begun
    fields = results["context"]["conditions"]["machine"]["fields"]
    assert fields == results["context"]["machine"]["fields"]
    for name in fields:
        doctored = json.loads(json.dumps(results))
        doctored["context"]["conditions"]["machine"]["fields"][name] = "another"
        doctored["context"]["conditions"]["schema_version"] = 99
        path.write_text(json.dumps(doctored))
        outcome = bench(*QUICK, *SMALL, "--n", "32", "--resume", "--out", path)
        assert outcome.code == 2 and outcome.err.count("\n") == 1, outcome
        assert f'machine.fields.{name} "another", here {json.dumps(fields[name])}' in outcome.err
        assert "schema_version 99, here 1" in outcome.err
        assert json.loads(path.read_text()) == doctored
    knows = (
        "commit" in results["context"]["conditions"]
    )  # a build outside a repository does not, and cannot tell
    results["context"]["conditions"]["commit"] = "0123456789ab"
    path.write_text(json.dumps(results))
    outcome = bench(*QUICK, *SMALL, "--n", "32", "--resume", "--out", path)
    assert outcome.code == (2 if knows else 0)
    assert ('commit "0123456789ab", here' in outcome.err) is knows


def test_what_is_no_result_file_is_refused(begun, bench):
    """Guards against replacing what is not ours, and against ids that are there twice."""
    results, path = begun
    twice = dict(results, benchmarks=results["benchmarks"] * 2)
    nameless = dict(results, benchmarks=[{"real_time": 1}])
    old = [
        dict(results, context={k: v for k, v in results["context"].items() if k != missing})
        for missing in ("sessions", "conditions")
    ]
    texts = ["", "{", "[]", '{"a": 1, "a": 2}', "{}"] + [json.dumps(x) for x in (twice, nameless, *old)]
    for text in texts:
        path.write_text(text)
        outcome = bench(*QUICK, *SMALL, "--n", "64,128", "--resume", "--out", path)
        assert outcome.code == 2 and f"cannot resume {path}: " in outcome.err, (text, outcome)
        assert outcome.err.count("\n") == 1 and path.read_text() == text


DAMAGED = [
    ("real_time", -1, "real_time is -1, expected"),
    ("real_time", "1", 'real_time is "1", expected'),
    ("real_time", True, "real_time is true, expected"),
    ("real_time", 1e19, "real_time is 1e19, expected"),
    ("min_ns", -0.5, "min_ns is -0.5, expected"),
    ("samples_ns", 7, "samples_ns is 7, expected"),
    ("samples_ns", [5, 0], "samples_ns is 0, expected"),
    ("samples_ns", [5, None], "samples_ns is null, expected"),
    ("samples_ns", [[]], "samples_ns is [], expected"),
    ("keys", 64.5, "keys is 64.5, expected"),
    ("threads", -1, "threads is -1, expected"),
    ("cpu_share", "all", 'cpu_share is "all", expected'),
    ("pairs_useful", -3, "pairs_useful is -3, expected"),
    ("flops_useful", 1e31, "flops_useful is 1e31, expected"),
    ("limited_by", 3, "limited_by is 3, expected"),
    ("isa", ["avx2"], 'isa is ["avx2"], expected'),
    ("time_unit", "h", 'time_unit is "h", expected'),
]


@pytest.mark.parametrize(("name", "value", "said"), DAMAGED)
@pytest.mark.parametrize("asked", [True, False])
def test_what_analyze_refuses_is_refused(begun, bench, asked, name, value, said):
    """Guards a file against growing around a row that nothing can read any more, asked for now or not: one line
    names the value, and the file stays; `analyze` refuses the same."""
    results, path = begun
    results["benchmarks"][0][name] = value
    path.write_text(text := json.dumps(results))
    analyzed = subprocess.run(
        [program(), "analyze", str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert analyzed.returncode == 2 and analyzed.stderr.count("\n") == 1, analyzed
    outcome = bench(*QUICK, *SMALL, "--n", "64,96" if asked else "96", "--resume", "--out", path)
    assert outcome.code == 2 and said in outcome.err and outcome.err.count("\n") == 1, outcome
    assert results["benchmarks"][0]["id"] in outcome.err and path.read_text() == text


def test_one_id_twice_is_refused(begun, bench):
    """Guards rows that are not asked for now against standing there twice, too."""
    results, path = begun
    results["benchmarks"].append(results["benchmarks"][0])
    path.write_text(text := json.dumps(results))
    for n in ("64", "96"):
        outcome = bench(*QUICK, *SMALL, "--n", n, "--resume", "--out", path)
        assert outcome.code == 2 and outcome.err.count("\n") == 1, outcome
        assert f"it has the row {results['benchmarks'][0]['id']} twice" in outcome.err
        assert path.read_text() == text


def test_rows_without_a_result_are_measured_again(begun, measured):
    """Guards that a row that failed, or lacks repetitions, is not taken for one that is there."""
    results, path = begun
    failed, short = results["benchmarks"]
    failed |= {"error_occurred": True, "error_message": "fault of measurement", "real_time": 0}
    short["repetitions_done"] = 1
    path.write_text(json.dumps(results))
    again = measured(*SMALL, "--n", "64,128", "--resume")
    assert [row["session"] for row in again["benchmarks"]] == [2, 2]
    assert not any("error_occurred" in row or "repetitions_done" in row for row in again["benchmarks"])


def test_limits_drift_and_words_of_earlier_sessions_stay(begun, measured):
    """Guards what the whole file says: the worst drift, the best peak, limits that only one session looked
    at."""
    results, path = begun
    context = results["context"]
    context["drift"] |= {"change": 0.5, "flagged": True}
    context["peak_gflops"] |= {"scalar": 1e6, "other": 7}
    context["roofline"] = [{"threads": 7}]
    context["left_out"] = [{"id": "attention/x", "reason": "long"}, {"id": results["benchmarks"][0]["id"]}]
    context["checksums_differ"] = [
        {"id": "attention/x", "with": "attention/y"},
        {"id": results["benchmarks"][0]["id"], "with": "attention/x"},
    ]
    context |= {"runner": "lab-3", "not_measured": ["attention/y"], "incomplete": True, "rows_disturbed": 99}
    path.write_text(json.dumps(results))
    after = measured(*SMALL, "--n", "32,64", "--resume")["context"]
    assert after["drift"]["change"] == 0.5 and after["drift"]["flagged"] is True
    assert after["peak_gflops"] == {"scalar": 1e6, "other": 7}
    assert after["roofline"] == [{"threads": 7}]
    assert [entry["id"] for entry in after["left_out"]] == ["attention/x"]
    assert [entry["id"] for entry in after["checksums_differ"]] == ["attention/x"]
    assert after["runner"] == "lab-3"
    assert after["not_measured"] == ["attention/y"] and after["incomplete"] is True
    disturbed = [r for r in strict(path.read_text())["benchmarks"] if r["cpu_share"] < 0.95]
    assert after["rows_disturbed"] == len(disturbed)


def test_interrupted_twice_and_finished(tmp_path, bench):
    """Guards the whole way: a session that is interrupted, one that is interrupted as it resumes, and one
    that comes to the end. What is there never gets less."""
    path = tmp_path / "r.json"
    options = ("--no-roofline", "--benchmark_min_time=0.1", *SMALL, "--out", path, "--resume")
    lengths = ("--n", "64,65,66,67,68,69,70,71")
    there: dict[str, dict] = {}
    for session in (1, 2):
        code, shown = signalled(*options, *lengths, at=b"  2/", numbers=[signal.SIGTERM])
        assert code == 128 + signal.SIGTERM, shown
        results = strict(path.read_text())
        rows = {row["id"]: without_place(row) for row in results["benchmarks"]}
        assert len(rows) > len(there) and there.items() <= rows.items()
        assert len(rows) + len(results["context"]["not_measured"]) == 8
        assert results["context"]["incomplete"] is True
        assert [s["interrupted"] for s in results["context"]["sessions"]] == [True] * session
        assert f"{len(rows)} of 8 rows measured" in shown
        there = rows
    outcome = bench(*options, *lengths)
    assert outcome.code == 0, outcome
    results = strict(path.read_text())
    rows = {row["id"]: without_place(row) for row in results["benchmarks"]}
    assert len(rows) == 8 and there.items() <= rows.items()
    assert results["context"]["incomplete"] is False and "not_measured" not in results["context"]
    assert sum(s["rows"] for s in results["context"]["sessions"]) == 8


@pytest.mark.parametrize(
    ("options", "text"), [((), "--out"), (("--out", "a.json", "--benchmark_out=b.json"), "--benchmark_out")]
)
def test_combinations_that_would_lose_rows_are_refused(bench, tmp_path, options, text):
    """Guards against a file that cannot be gone on with."""
    outcome = bench(*SMALL, "--n", "32", "--resume", *options, cwd=tmp_path)
    assert outcome.code == 2 and text in outcome.err and outcome.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [("--max-call", "0.000000001"), ("--budget", "0.001")])
def test_a_run_that_measures_nothing_replaces_no_file(bench, tmp_path, options):
    """Guards the file of an earlier run against one in which everything is left out."""
    path = tmp_path / "r.json"
    path.write_text("precious")
    outcome = bench(*QUICK, *SMALL, "--n", "64", *options, "--out", path)
    assert outcome.code == 4 and "nothing was measured" in outcome.err
    assert path.read_text() == "precious"
