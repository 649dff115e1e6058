"""Google Benchmark's own options, and what is shown while a sweep runs."""

import json
import os
import pty
import subprocess

import pytest
from conftest import environment, program
from strict import strict

SMALL = ("--no-roofline", "--n", "16,32", "--pattern", "causal", "--benchmark_min_time=0.002")


def test_list_and_filter(bench):
    """Guards that what is listed are ids, and that a filter takes them."""
    listed = bench(*SMALL, "--benchmark_list_tests=true")
    ids = listed.out.splitlines()
    assert listed.code == 0 and len(ids) == 2
    assert all(line.startswith("attention/causal/") and line.endswith("/t1") for line in ids)
    anchored = f"--benchmark_filter=^{ids[1]}$"
    assert bench(*SMALL, "--benchmark_list_tests", anchored).out.splitlines() == ids[1:]
    negative = bench(*SMALL, "--benchmark_list_tests", "--benchmark_filter=-nk32").out.splitlines()
    assert negative == ids[:1]


def test_own_output_agrees(bench, tmp_path):
    """Guards that the library's file and ours tell the same time: the median."""
    own, ours = tmp_path / "own.json", tmp_path / "ours.json"
    outcome = bench(*SMALL, f"--benchmark_out={own}", "--benchmark_out_format=json", "--out", ours)
    assert outcome.code == 0, outcome
    library = {row["name"]: row for row in json.loads(own.read_text())["benchmarks"]}
    for row in strict(ours.read_text())["benchmarks"]:
        other = library[row["id"] + "/iterations:1/manual_time"]
        assert other["real_time"] == pytest.approx(row["real_time"], rel=1e-3)
        assert other["iterations"] == row["iterations"]


@pytest.mark.parametrize(
    "option",
    [
        "--benchmark_color=false",
        "--benchmark_counters_tabular=true",
        "--benchmark_display_aggregates_only=true",
        "--benchmark_report_aggregates_only=true",
        "--benchmark_enable_random_interleaving=true",
        "--benchmark_min_warmup_time=0.001",
        "--benchmark_repetitions=2",
        "--benchmark_time_unit=us",
        "--benchmark_dry_run",
        "--benchmark_format=console",
        "--benchmark_format=csv",
        "--v=0",
    ],
)
def test_every_option_is_accepted(bench, tmp_path, option):
    """Guards that options of the library work, whatever its version, and that the file stays whole."""
    path = tmp_path / "r.json"
    outcome = bench(*SMALL, option, "--out", path)
    assert outcome.code == 0, outcome
    rows = strict(path.read_text())["benchmarks"]
    assert len(rows) == 2 and all(row["run_type"] == "iteration" for row in rows)


def test_counters_that_the_library_lacks_are_refused(bench, tmp_path):
    """Guards counters that a library built without libpfm passes over: refused by name, from the variable that it
    reads too, unless a later empty value takes them back. Where it has them, it takes the option."""
    path, option = tmp_path / "r.json", "--benchmark_perf_counters"
    for given, env in (((f"{option}=CYCLES",), {}), ((), {"BENCHMARK_PERF_COUNTERS": "CYCLES"})):
        outcome = bench(*SMALL, *given, "--out", path, env=env)
        if outcome.code == 0:
            assert "not supported" not in outcome.err
            pytest.skip("this Google Benchmark has counters")
        assert outcome.code == 2 and outcome.out == "" and outcome.err.count("\n") == 1, outcome
        assert "CYCLES" in outcome.err and "perf_event_open" in outcome.err and not path.exists()
        assert (option if given else "BENCHMARK_PERF_COUNTERS") in outcome.err
        assert bench(*SMALL, *given, f"{option}=", "--dry-run", env=env).code == 0


@pytest.mark.parametrize(("text", "calls"), [("0.001", None), ("0.001s", None), ("12x", 12)])
def test_min_time_in_every_form(measured, text, calls):
    """Guards both forms of the option: 1.7 takes numbers only, 1.8 wants a suffix."""
    (row,) = measured("--n", "128", "--isa", "scalar", "--pattern", "dense", f"--benchmark_min_time={text}")[
        "benchmarks"
    ]
    assert row["iterations"] == row["sample_count"] * row["calls_per_sample"]
    if calls:
        assert row["iterations"] == calls


def test_repetitions_become_samples_of_one_row(measured):
    """Guards that there is one row for each id, without aggregates, however often it is repeated."""
    arguments = ("--n", "128", "--isa", "scalar", "--pattern", "dense", "--benchmark_min_time=8x")
    (row,) = measured(*arguments, "--benchmark_repetitions=3")["benchmarks"]
    assert len(row["samples_ns"]) == row["sample_count"] == 24


def test_context_options_reach_the_file(measured):
    """Guards that --benchmark_context is kept."""
    results = measured("--n", "16", "--pattern", "dense", "--benchmark_context=runner=lab-3,room=7")
    assert results["context"]["runner"] == "lab-3" and results["context"]["room"] == "7"


def test_context_options_cannot_forge_facts(bench, measured):
    """Guards what the file says itself against the user's words: every name in a file is refused, and those that
    only some files have, by the variable that the library reads too."""
    names = measured("--n", "16", "--pattern", "dense")["context"].keys() | {"drift", "not_measured"}
    for name in sorted(names):
        outcome = bench("--n", "16", "--dry-run", f"--benchmark_context=room=7,{name}=x")
        assert outcome.code == 2 and f"{name}=x" in outcome.err and outcome.err.count("\n") == 1, outcome
    outcome = bench("--n", "16", "--dry-run", env={"BENCHMARK_CONTEXT": "date=never"})
    assert outcome.code == 2 and "date=never" in outcome.err


def test_json_on_standard_output(bench):
    """Guards that --benchmark_format=json leaves nothing but JSON on standard output."""
    outcome = bench(*SMALL, "--benchmark_format=json")
    assert outcome.code == 0
    assert len([row for row in json.loads(outcome.out)["benchmarks"] if "/again" not in row["name"]]) == 2


def test_silent_in_a_pipe_and_progress_on_a_terminal(bench):
    """Guards that progress is for eyes only: no carriage returns in logs."""
    piped = bench(*SMALL)
    assert "\r" not in piped.out + piped.err
    assert piped.out.count("attention/") == 2
    main, other = pty.openpty()
    done = subprocess.Popen(
        [program(), "bench", *SMALL], env=environment(), stdin=subprocess.DEVNULL, stdout=other, stderr=other
    )
    os.close(other)
    shown = b""
    while True:
        try:
            part = os.read(main, 4096)
        except OSError:  # the terminal's other side is closed
            break
        if not part:
            break
        shown += part
    os.close(main)
    assert done.wait(timeout=60) == 0
    assert b"\r\x1b[K" in shown and b"s left" in shown


def test_the_last_of_two_counts(bench):
    """Guards the library's own rule for its options, which the help page states, for one that we take out too."""
    for first, last in (("naive", "flash"), ("flash", "naive")):
        shown = bench(
            "--n", "64", "--algorithm", "naive", "--algorithm", "flash", "--dry-run",
            f"--benchmark_filter={first}", f"--benchmark_filter={last}",
        )  # fmt: skip
        assert shown.code == 0 and last in shown.out and first not in shown.out, shown
