"""The result file: strict JSON, Google Benchmark's schema, our fields, exact counts, stable ids."""

import hashlib
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import threading

import pytest
from conftest import program

ROW_FIELDS = {
    "name": str,
    "id": str,
    "run_name": str,
    "run_type": str,
    "iterations": int,
    "real_time": float,
    "cpu_time": float,
    "time_unit": str,
    "isa": str,
    "algorithm": str,
    "pattern": str,
    "dtype": str,
    "pairs_useful": int,
    "pairs_executed": int,
    "pairs_dense": int,
    "flops_useful": int,
    "flops_executed": int,
    "flops_dense": int,
    "bytes_compulsory": int,
    "workspace_bytes": int,
    "pct_peak": float,
    "effective_ghz": float,
    "samples_ns": list,
    "min_ns": float,
    "max_ns": float,
}

CONTEXT_FIELDS = (
    "date host_name executable num_cpus mhz_per_cpu cpu_scaling_enabled caches load_avg library_build_type "
    "schema_version attnscope_version compiler flags build_type fingerprint machine peak_gflops seed binding"
).split()


def test_schema(measured):
    """Guards every field that the design names, its type, and that the median is that of the samples."""
    results = measured("--n", "64,128", "--algorithm", "naive", "--algorithm", "flash", "--pattern", "causal")
    for field in CONTEXT_FIELDS:
        assert field in results["context"], field
    assert isinstance(results["context"]["caches"], list)
    assert len(results["benchmarks"]) == 4
    for row in results["benchmarks"]:
        for field, kind in ROW_FIELDS.items():
            value = row[field]
            assert isinstance(value, (int, float) if kind is float else kind), (field, value)
        assert row["run_type"] == "iteration"
        assert row["time_unit"] == "ns"
        assert row["name"] == row["id"]
        samples = row["samples_ns"]
        assert len(samples) >= 5
        assert all(math.isfinite(x) and x > 0 for x in samples)
        assert row["real_time"] == pytest.approx(statistics.median(samples), rel=1e-6)
        assert row["min_ns"] == pytest.approx(min(samples), rel=1e-6)
        assert row["max_ns"] == pytest.approx(max(samples), rel=1e-6)
        assert 0 < row["pct_peak"] <= 105


def test_ids_are_unique_and_as_documented(measured):
    """Guards the stable id: as requested, terms in the table's order, no settings of the measurement."""
    results = measured(
        *("--n", "32", "--heads", "4", "--kv-heads", "2", "--head-dim", "16", "--value-dim", "8"),
        *(
            "--pattern",
            "sink=2,causal,window=5",
            "--algorithm",
            "flash",
            "--isa",
            "scalar",
            "--data",
            "peaked",
        ),
        *("--softcap", "30", "--alibi"),
    )
    ids = [row["id"] for row in results["benchmarks"]]
    assert len(ids) == 1
    start = "attention/causal,window=5,sink=2/flash/scalar/f32/b1/h4/kv2/d16/nq32/nk32/t1"
    assert ids[0].startswith(start)
    assert set(ids[0][len(start) + 1 :].split("/")) == {"dv8", "cap30", "alibi", "data:peaked"}
    assert len(ids[0].encode()) <= 200 and " " not in ids[0]


def test_auto_is_reported_as_what_ran(measured):
    """Guards that the fields name what ran, while the id names what was asked for (vLLM's harness printed
    one level and timed another)."""
    (row,) = measured("--n", "32", "--algorithm", "auto", env={"ATTNSCOPE_ISA": "scalar"})["benchmarks"]
    assert "/dense/auto/auto/" in row["id"]
    assert row["isa"] == "scalar"
    assert row["algorithm"] in ("naive", "flash")


@pytest.mark.parametrize(
    ("queries", "keys", "pattern", "pairs"),
    [
        (7, 7, "causal", 28),
        (7, 7, "causal,window=3", 18),
        (7, 7, "window=2:2", 29),
        (3, 7, "causal", 18),
        (3, 7, "causal-top-left", 6),
        (7, 3, "causal", 6),
        (4096, 4096, "causal,window=512", 1966336),
    ],
)
def test_exact_pair_counts(measured, queries, keys, pattern, pairs):
    """Guards the counts that other tools get wrong, and the FLOPs that follow: 2 (D + Dv) a pair."""
    (row,) = measured(
        *("--n", keys, "--queries", queries, "--pattern", pattern, "--head-dim", 8, "--value-dim", 4),
        *("--algorithm", "flash"),
    )["benchmarks"]
    assert row["pairs_useful"] == pairs
    assert row["pairs_dense"] == queries * keys
    assert pairs <= row["pairs_executed"] <= queries * keys
    for kind in ("useful", "executed", "dense"):
        assert row[f"flops_{kind}"] == row[f"pairs_{kind}"] * 2 * (8 + 4)


def test_stages(measured):
    """Guards that the five stages of naive are timed under their names."""
    results = measured("--n", "64", "--stages", "--pattern", "causal", "--isa", "scalar")
    stages = [row["id"].split("/stage:")[1] for row in results["benchmarks"] if "/stage:" in row["id"]]
    assert sorted(stages) == sorted(["qk", "scale", "mask", "softmax", "pv"])


def test_kernels(measured, bench):
    """Guards that every kernel that the help lists can be measured by itself."""
    text = bench("--help").out
    listed = text[text.index("--kernel NAME") : text.index("--data KIND")]
    names = re.findall(r"^ {25}(\w+) ", listed, re.MULTILINE)
    assert {"matmul", "scale", "mask", "softmax", "exp", "flash_tile"} <= set(names)
    results = measured("--n", "64", *itertools.chain.from_iterable(("--kernel", name) for name in names))
    assert sorted(row["id"].split("/")[1] for row in results["benchmarks"]) == sorted(names)


def test_threads_are_bound_and_said(measured):
    """Guards that threads are bound, that it was checked, and that the file says so."""
    results = measured("--n", "64", "--pattern", "causal")
    for thread in results["context"]["binding"]:
        assert thread["bound"] is True
        assert thread["ran_on"] == thread["cpu"]


def test_flash_workspace_is_linear(measured):
    """Guards that memory of flash grows with n, not with n x n; naive's does grow with n x n."""
    rows = measured("--n", "512,1024,2048", "--algorithm", "flash", "--algorithm", "naive", "--head-dim", 8)
    space = {(row["algorithm"], row["keys"]): row["workspace_bytes"] for row in rows["benchmarks"]}
    first = space["flash", 1024] - space["flash", 512]
    second = space["flash", 2048] - space["flash", 1024]
    assert second == 2 * first
    assert space["naive", 2048] > 3.5 * space["naive", 1024]


def test_other_tools_read_the_file(measured):
    """Guards the rules of github-action-benchmark (unique names, finite times) and of Bencher
    (a caches array, real_time in every row)."""
    results = measured("--n", "16,32", "--algorithm", "flash", "--isa", "scalar")
    names = [row["name"] for row in results["benchmarks"]]
    assert len(names) == len(set(names)) == 2
    assert isinstance(results["context"]["caches"], list)
    for row in results["benchmarks"]:
        assert math.isfinite(row["real_time"]) and row["real_time"] > 0
        assert "aggregate_name" not in row


def test_what_is_refused_is_a_row_without_a_time(measured):
    """Guards that a row that was not measured is marked as such, and that the exit code says so."""
    results = measured(
        "--n", "64", "--algorithm", "flash", "--pattern", "topk=4", "--pattern", "causal", code=4
    )
    failed, fine = results["benchmarks"]
    assert failed["error_occurred"] is True and "topk" in failed["error_message"]
    assert failed["real_time"] == 0 and "samples_ns" not in failed
    assert "error_occurred" not in fine and fine["real_time"] > 0


def test_block_maps_are_known_by_their_digest(measured, tmp_path):
    """Guards that an id names the block map's content, not where it happens to lie."""
    path = tmp_path / "map.npy"
    data = b"\x01\x00\x00\x01"  # 2 x 2, the diagonal
    header = b"{'descr': '|b1', 'fortran_order': False, 'shape': (2, 2), }".ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data)
    (row,) = measured("--n", "32", "--pattern", f"blocks={path}:16")["benchmarks"]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    assert row["id"].startswith(f"attention/blocks={digest}:16/")
    assert row["pairs_useful"] == 2 * 16 * 16


def test_a_block_map_from_a_pipe_is_refused(bench, tmp_path):
    """Guards that a map which is gone after the first reading is neither waited for again nor gets the digest of
    an empty file."""
    pipe = tmp_path / "map.npy"
    os.mkfifo(pipe)
    header = b"{'descr': '|b1', 'fortran_order': False, 'shape': (1, 1), }".ljust(117) + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\x01"
    threading.Thread(target=pipe.write_bytes, args=[data], daemon=True).start()
    outcome = bench("--n", "32", "--pattern", f"blocks={pipe}:32", "--dry-run")
    assert outcome.code == 2 and "not a regular file" in outcome.err and outcome.out == ""


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_storage_types(measured, dtype):
    """Guards that the type asked for is the one of the id, the fields and the bytes."""
    (row,) = measured("--n", "64", "--dtype", dtype, "--head-dim", "16", "--pattern", "dense")["benchmarks"]
    assert f"/{dtype}/" in row["id"] and row["dtype"] == dtype
    assert row["bytes_compulsory"] == 64 * 16 * (3 * 2 + 4)


def test_several_threads(measured):
    """Guards our own threads: all are bound to CPUs of their own, and time is wall time, not divided."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("the process may use one CPU only")
    results = measured(
        *("--n", "512", "--heads", "2", "--threads", "1", "--threads", "2", "--isa", "scalar"),
        "--pattern=dense",
    )
    assert [row["threads_used"] for row in results["benchmarks"]] == [1, 2]
    cpus = [thread["cpu"] for thread in results["context"]["binding"]]
    assert len(set(cpus)) == 2
    for row in results["benchmarks"]:  # what is reported of the samples is not divided by the threads
        assert row["min_ns"] == min(row["samples_ns"]) <= row["real_time"] <= max(row["samples_ns"])
    # The same work by one thread or two.
    assert results["benchmarks"][0]["checksum"] == results["benchmarks"][1]["checksum"]


def test_levels_and_algorithms_compute_the_same(measured):
    """Guards that what was timed is attention: all rows of one problem have the same sum, to rounding."""
    rows = measured("--n", "100", "--pattern", "causal", "--algorithm", "naive", "--algorithm", "flash")
    rows = rows["benchmarks"] + measured("--n", "100", "--pattern", "causal", "--isa", "scalar")["benchmarks"]
    sums = [row["checksum"] for row in rows]
    # An output is a mean of at most 100 values below 3.47 (bench/inputs.c), its float32 error below 100 * 2^-23
    # of that; errors that lean to no side (test_edges_accuracy.c) add up as the root of the outputs' number.
    tolerance = math.sqrt(100 * 64) * 100 * 2**-23 * 3.47
    assert sums == pytest.approx([sums[0]] * len(sums), rel=0, abs=tolerance)


def test_the_order_is_shuffled_by_the_seed(measured):
    """Guards that rows run in an order that the seed decides, and are reported in theirs."""
    order = {}
    for seed in (1, 2, 1):
        rows = measured("--n", "1,2,3,4,5,6,7,8", "--pattern", "dense", "--seed", seed)["benchmarks"]
        assert [row["keys"] for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8]
        found = [row["order"] for row in rows]
        assert sorted(found) == list(range(8))
        assert order.setdefault(seed, found) == found
    assert order[1] != order[2]


def test_the_first_row_is_repeated_at_the_end(measured):
    """Guards that drift is looked for."""
    results = measured("--n", "16,32,64", "--pattern", "dense")
    drift = results["context"]["drift"]
    first = next(row for row in results["benchmarks"] if row["order"] == 0)
    assert drift["id"] == first["id"] and drift["first_ns"] == pytest.approx(first["real_time"])
    assert drift["flagged"] is (abs(drift["last_ns"] / drift["first_ns"] - 1) > 0.03)


def test_long_calls_are_left_out_and_named(bench, measured):
    """Guards that what is left out is said, on standard error and in the file."""
    arguments = ("--n", "64,4096", "--algorithm", "naive", "--isa", "scalar", "--max-call", "0.01")
    results = measured(*arguments)
    assert [row["keys"] for row in results["benchmarks"]] == [64]
    (left,) = results["context"]["left_out"]
    assert "/nk4096/" in left["id"] and "0.01" in left["reason"]
    assert left["id"] in bench("--no-roofline", *arguments, "--benchmark_min_time=0.002").err


def test_a_budget_is_kept_by_leaving_out_the_longest(bench):
    """Guards that a budget bounds what is planned."""
    outcome = bench(
        "--dry-run", "--n", "128:8192", "--algorithm", "naive", "--isa", "scalar", "--budget", "4"
    )
    predicted = float(re.search(r"predicted (\d+) s of a budget of 4 s", outcome.out).group(1))
    assert outcome.code == 0 and predicted <= 4
    assert re.search(r"nk8192/t1\n *\(left out: ", outcome.out)
    assert not re.search(r"nk128/t1\n *\(left out: ", outcome.out)


def test_load_does_not_decide_which_rows_there_are(bench):
    """Guards predictions from wall time: beside other work on its CPU a call would take three times as long, and
    be left out by --max-call. Every kind of row, all on one CPU with two processes that only count."""
    cpu = min(os.sched_getaffinity(0))

    def predicted():
        kinds = ("--algorithm", "naive", "--algorithm", "flash", "--stages", "--kernel", "softmax")
        out = bench(
            *("--dry-run", "--no-roofline", "--isa", "scalar", "--n", "1024", *kinds),
            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
        ).out
        return {name: float(ms) for ms, name in re.findall(r"^ +([\d.e+-]+) +[\d.]+  (\S+)$", out, re.M)}

    alone = predicted()
    busy = [
        subprocess.Popen(
            ["sh", "-c", "while :; do :; done"], preexec_fn=lambda: os.sched_setaffinity(0, {cpu})
        )
        for _ in range(2)
    ]
    try:
        beside = predicted()
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert len(alone) >= 7 and alone.keys() == beside.keys()
    ratios = sorted(beside[name] / alone[name] for name in alone)
    assert ratios[len(ratios) // 2] < 1.6, ratios


def test_presets_hold_prefill_decode_and_refusals(measured, bench):
    """Guards that presets measure prefill and decode (llama.cpp's benchmarks saw only decode)."""
    listed = bench("--list-presets")
    assert listed.code == 0
    for name in ("gpt2", "bert-base", "llama-3-8b", "mistral-7b", "gemma-2-9b"):
        assert name in listed.out
    rows = bench("--preset", "mistral-7b", "--n", "64", "--dry-run").out
    assert "/nq1/" in rows and "/nq64/" in rows and "window=4096" in rows


def test_dry_run_measures_nothing(bench, tmp_path):
    """Guards that a dry run lists rows with predicted times and writes no file."""
    outcome = bench("--dry-run", "--n", "64,128", "--pattern", "causal", "--out", tmp_path / "r.json")
    assert outcome.code == 0
    assert outcome.out.count("attention/") == 2
    assert not list(tmp_path.iterdir())


def test_nothing_to_measure_is_no_success(bench, tmp_path):
    """Guards an exit code of 0 after a run, or a list, of nothing: rows may be left out for their time or be
    refused."""
    for options in (["--budget", "0.001"], ["--max-call", "0.000000001"]):
        for more in (["--dry-run"], ["--no-roofline"]):
            outcome = bench("--pattern", "dense", "--n", "64,65", *options, *more)
            assert outcome.code == 4, outcome
            assert "left out" in outcome.out + outcome.err


def test_budget_counts_what_goes_before_the_rows(bench):
    """Guards a budget that forgets the rooflines, one for each number of threads, and repetitions."""

    def predicted(*arguments):
        out = bench("--dry-run", "--pattern", "dense", "--n", "64", *arguments).out
        return float(re.search(r"predicted (\d+) s", out).group(1))

    rows = predicted("--no-roofline", "--benchmark_repetitions=40")
    assert rows >= 10  # 40 times the quarter of a second that one takes
    assert predicted("--benchmark_repetitions=40") > rows
    if len(os.sched_getaffinity(0)) > 1:
        one, both = predicted(), predicted("--threads=1", "--threads=2")
        assert both >= 2 * one - 1  # of rounding


def test_half_octaves(bench, measured):
    """Guards the form A:B/2, and that only the standard sweep without --n adds lengths by itself."""
    rows = measured("--n", "128:512/2", "--pattern", "causal", "--isa", "scalar")["benchmarks"]
    assert [row["keys"] for row in rows] == [128, 184, 256, 360, 512]
    plain = bench("--n", "128:8192", "--dry-run", "--max-call", "0.0001").out
    assert set(re.findall(r"/nq(\d+)/", plain)) == {str(2**k) for k in range(7, 14)}


def test_standard_sweep_has_four_lengths_in_each_regime(bench):
    """Guards that exponents can be fitted above and below each border of a cache, where K and V, for naive with
    the scores, outgrow it: four lengths of each regime are planned or named as left out, unless even half
    octaves are fewer."""
    caches = json.loads(subprocess.run([program(), "info", "--json"], capture_output=True, check=True).stdout)
    sizes = {cache["level"]: cache["bytes"] for cache in caches["topology"]["caches"]}
    assert sizes
    half = [int(8 * round(2 ** (k / 2) / 8)) for k in range(14, 27)]
    out = bench("--dry-run").out
    for algorithm, pattern in (("naive", "dense"), ("flash", "causal")):
        lengths = sorted({int(n) for n in re.findall(rf"/{pattern}/{algorithm}/scalar/.*/nk(\d+)/", out)})
        # 512 n, for naive with 4 n n
        borders = [
            (math.sqrt(512**2 + 16 * size) - 512) / 8 if algorithm == "naive" else size / 512
            for size in sizes.values()
        ]
        for low, high in itertools.pairwise([0, *sorted(borders), math.inf]):
            possible = [n for n in half if low < n <= high]
            assert len([n for n in lengths if low < n <= high]) >= min(4, len(possible)), (low, high)


def test_standard_sweep_fits_three_minutes(bench):
    """Guards the standard sweep: its variants, every level, and that what is left out is named."""
    outcome = bench("--dry-run")
    assert outcome.code == 0
    for variant in ("/dense/naive/", "/dense/flash/", "/causal/flash/", "/window=256/flash/"):
        assert variant in outcome.out
    predicted, budget = map(
        float, re.search(r"predicted (\d+) s of a budget of (\d+) s", outcome.out).groups()
    )
    assert predicted <= budget <= 180
