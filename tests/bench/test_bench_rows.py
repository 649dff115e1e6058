"""What a row says beside its median: quantiles, memory, the limit that binds, its share among stages, its
data."""

import re
import statistics
from pathlib import Path

import pytest
from conftest import QUICK
from strict import strict

SMALL = ("--pattern", "dense", "--isa", "scalar")


def test_quantiles_are_those_of_the_samples(measured):
    """Guards that everybody can recompute them: interpolated between samples, as NumPy does it."""
    rows = measured(*SMALL, "--n", "64,256", "--benchmark_min_time=0.01")["benchmarks"]
    for row in rows:
        cuts = statistics.quantiles(row["samples_ns"], n=20, method="inclusive")
        found = [row[name] for name in ("p05_ns", "p25_ns", "real_time", "p75_ns", "p95_ns")]
        # Samples are written to the picosecond.
        assert found == pytest.approx([cuts[at] for at in (0, 4, 9, 14, 18)], abs=2e-3)
        assert sorted(found) == found and row["min_ns"] <= found[0] and found[-1] <= row["max_ns"]


def test_visits_are_counted(measured, bench, tmp_path):
    """Guards rows that are measured once more: the median is that of a visit, none is slower by 1 % than the
    fastest, and a run with repetitions has one visit of each row."""
    rows = measured(*SMALL, "--n", "64,128,256", "--benchmark_min_time=0.01")["benchmarks"]
    for row in rows:
        medians = row.get("visit_medians_ns", [row["real_time"]])
        assert 1 <= row["visits"] == len(medians) <= 4
        assert row["real_time"] in medians
        assert row["real_time"] * 0.99 <= min(medians) * (1 + 1e-6)
    path = tmp_path / "r.json"
    options = ("--benchmark_min_time=0.002", "--benchmark_repetitions=2", "--no-roofline")
    assert bench(*SMALL, "--n", "64,128", *options, "--out", path).code == 0
    assert {row["visits"] for row in strict(path.read_text())["benchmarks"]} == {1}


def test_resident_memory_is_the_rows_own(measured):
    """Guards the peak of resident memory: each row has its own, whatever ran before it."""
    arguments = (*SMALL, "--algorithm", "naive", "--n", "64,65,66,2048", "--head-dim", "8")
    for seed in range(3):  # orders
        results = measured(*arguments, "--seed", seed)
        said = results["context"]["memory"]["resident_peak"]
        rows = {row["keys"]: row for row in results["benchmarks"]}
        if said != "measured":
            assert said.startswith("not available: ")
            assert not any("resident_peak_bytes" in row for row in rows.values())
            pytest.skip(said)
        large = rows.pop(2048)
        # The pages at both ends of the scores may lie in no row's count.
        assert large["resident_row_bytes"] >= 2048 * 2048 * 4 - 2 * 4096
        assert large["resident_peak_bytes"] >= large["resident_row_bytes"]
        for row in rows.values():
            assert row["resident_row_bytes"] < 2048 * 2048 * 4 / 2
            assert row["resident_peak_bytes"] < large["resident_peak_bytes"]


def test_pages_are_described(measured):
    """Guards the state of huge pages, which decides how memory is reached, and what came of it."""
    results = measured(*SMALL, "--n", "64,1024", "--algorithm", "naive")
    memory = results["context"]["memory"]
    state = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if state.exists():
        assert f"[{memory['transparent_huge_pages']}]" in state.read_text()
    else:
        assert memory["transparent_huge_pages"] == "not available"
    assert memory["page_bytes"] >= 4096 and memory["first_touch"] and memory["advice"]
    for row in results["benchmarks"]:
        held = row["workspace_bytes"] + row["bytes_compulsory"]
        assert 0 <= row["huge_page_bytes"] <= held
        if memory["transparent_huge_pages"] in ("never", "madvise"):  # nothing here asks for them
            assert row["huge_page_bytes"] == 0


def test_another_state_of_huge_pages_is_refused(measured, bench, tmp_path):
    """Guards a file against rows that were measured with other pages than its others."""
    measured(*SMALL, "--n", "64")
    path = tmp_path / "results.json"
    path.write_text(re.sub(r'("transparent_huge_pages": )"[^"]*"', r'\1"other"', path.read_text()))
    outcome = bench(
        "--no-roofline", "--benchmark_min_time=0.002s", *SMALL, "--n", "65", "--resume", "--out", path
    )
    assert outcome.code == 2 and 'memory.transparent_huge_pages "other", here "' in outcome.err


def test_the_limit_that_binds(bench, tmp_path):
    """Guards the three shares against their definition, and the verdict against the shares."""
    path = tmp_path / "r.json"
    arguments = (
        "--n",
        "2,256",
        "--isa",
        "scalar",
        "--algorithm",
        "naive",
        "--algorithm",
        "flash",
        "--stages",
    )
    outcome = bench("--benchmark_min_time=0.002", "--pattern", "dense", *arguments, "--out", path)
    assert outcome.code == 0, outcome
    results = strict(path.read_text())
    (limits,) = results["context"]["roofline"]
    assert len(results["benchmarks"]) == 2 * (2 + 5)
    for row in results["benchmarks"]:
        time = row["real_time"]
        close = 1e-3 / time + 1e-3 / row["overhead_ns"] + 1e-8  # times are written to the picosecond
        stage = row.get("stage")
        exps = row["pairs_executed"] if stage in (None, "softmax") else 0
        compute = row["flops_executed"] / row["peak_gflops"] + exps / limits["isa"]["scalar"]["exp_g"]
        assert row["limit_compute_pct"] == pytest.approx(100 * compute / time, rel=close)
        assert row["limit_overhead_pct"] == pytest.approx(100 * row["overhead_ns"] / time, rel=close)
        moved = row["bytes_read"]
        assert moved <= row["bytes_compulsory"] + 4 * row["pairs_executed"]
        shares = {"compute": row["limit_compute_pct"], "overhead": row["limit_overhead_pct"]}
        if moved:
            assert row["pct_bandwidth"] == row["limit_bandwidth_pct"] and row["bandwidth_doubted"] is False
            # One rate, or with the scores of naive two; of the readings, or what is beside a row in doubt.
            rates = [reading["gbs"] for reading in limits["readings"]]
            rate = moved / (row["limit_bandwidth_pct"] / 100 * time)
            assert min(rates) * (1 - close) <= rate <= max(rates) * (1 + close)
            shares[f"bandwidth({row['bandwidth_level']})"] = row["limit_bandwidth_pct"]
        else:
            assert stage == "mask" and row["limit_bandwidth_pct"] == 0
        assert shares[row["limited_by"]] == max(shares.values())
        assert row["overhead_ns"] > 0


def test_no_row_is_faster_than_what_it_reads_from(bench, tmp_path):
    """Guards bytes that are counted twice or not read at all, and levels that do not hold a row: no kernel and no
    stage is above 105 % of its limits, wherever it lies, unless that is said."""
    path = tmp_path / "r.json"
    sizes = ("--n", "64,512,2048", "--benchmark_min_time=0.005", "--out", path)
    kernels = [f"--kernel={name}" for name in ("read", "copy", "scale", "mask", "adjust", "softmax", "widen")]
    for arguments in (kernels, ["--stages", "--pattern=dense", "--pattern=window=64"]):
        outcome = bench(*sizes, *arguments)
        assert outcome.code == 0, outcome
        results = strict(path.read_text())
        for row in results["benchmarks"]:
            assert row["limit_bandwidth_pct"] <= 105 or row["bandwidth_doubted"], row["id"]
            if row.get("bandwidth_doubted"):
                assert row["bandwidth_level"] in ("l3", "memory")
                assert "rows read faster than memory" in outcome.err
        (limits,) = results["context"]["roofline"]
        sizes_read = [reading["bytes"] for reading in limits["readings"]]
        assert sizes_read == sorted(sizes_read)
        for level in limits["level"].values():
            above = [r["gbs"] for r in limits["readings"] if r["bytes"] >= level["bytes"]]
            assert level["read_gbs"] == max(above)


def test_cold_calls_find_their_tensors_in_memory(bench, measured, tmp_path):
    """Guards --cold: copies that are larger than the caches, the same output, bytes that come from memory; one copy
    where that is large enough; refused where nothing would come of it."""
    shape = ("--pattern", "dense", "--isa", "scalar", "--n", "64", "--threads", "1")
    warm = measured(*shape)["benchmarks"][0]
    path = tmp_path / "cold.json"
    outcome = bench("--benchmark_min_time=0.002s", *shape, "--cold", "--out", path)
    assert outcome.code == 0, outcome
    cold = strict(path.read_text())
    (row,) = cold["benchmarks"]
    last = max(cache["size"] for cache in cold["context"]["caches"])
    assert row["cold_copies"] * row["bytes_compulsory"] > max(2 * last, 64 << 20)
    assert row["checksum"] == warm["checksum"] and row["id"] == warm["id"]
    assert row["bandwidth_level"] == "memory" and "cold_copies" not in warm
    assert cold["context"]["settings"]["cold"] is True
    for other in (("--stages",), ("--kernel", "exp")):
        outcome = bench(*QUICK, "--n", "64", "--cold", *other)
        assert outcome.code == 2 and outcome.err.count("\n") == 1 and "--cold does not apply" in outcome.err


def test_without_limits_there_is_no_verdict(measured):
    """Guards against a limit that was never measured."""
    for row in measured(*SMALL, "--n", "64")["benchmarks"]:
        assert "limited_by" not in row and "limit_bandwidth_pct" not in row


def test_stages_have_their_share(measured):
    """Guards the share of a stage: of the sum of all five, over sessions too; of some of them there is
    none."""
    arguments = ("--stages", "--pattern", "causal", "--isa", "scalar", "--n", "64,128")
    some = measured(*arguments, "--benchmark_filter=nk64.*stage:(qk|pv)|nk128")["benchmarks"]
    assert [row["keys"] for row in some if "stage_share" in row] == [128] * 5
    rows = measured(*arguments, "--resume")["benchmarks"]
    assert {row["session"] for row in rows} == {1, 2}
    for keys in (64, 128):
        shares = {row["stage"]: row["stage_share"] for row in rows if row["keys"] == keys}
        times = {row["stage"]: row["real_time"] for row in rows if row["keys"] == keys}
        assert len(shares) == 5 and sum(shares.values()) == pytest.approx(1)
        for stage, time in times.items():
            assert shares[stage] == pytest.approx(time / sum(times.values()))


def test_every_kind_of_data_is_measured_and_named(measured, bench):
    """Guards the generators: each runs by both algorithms, which agree, and none is another under a new
    name."""
    page = bench("--help").out
    listed = page[page.index("--data KIND") : page.index("How to measure")]
    names = re.findall(r"^ {25}([\w-]+) ", listed, re.MULTILINE)
    assert {"normal", "peaked", "rising", "inf-blocks", "tails"} <= set(names)
    arguments = [word for name in names for word in ("--data", name)]
    results = measured(*SMALL, "--n", "160", "--algorithm", "naive", "--algorithm", "flash", *arguments)
    assert results["context"]["checksums_differ"] == [] and results["context"]["seed"] == 1
    sums = {}
    masked = 64 + 32 - 1  # of blocks of 64: the first, and the rest of the third, but for the last key
    for row in results["benchmarks"]:
        assert row["pairs_useful"] == 160 * (160 - (masked if row["data"] == "inf-blocks" else 0))
        assert row["pairs_useful"] <= row["pairs_executed"] <= row["pairs_dense"] == 160 * 160
        assert 0 < row["out_tolerance"] < 0.1 * row["checksum_abs"] / (160 * 64)  # it was compared
        suffix = row["id"].split("/t1")[1]
        assert suffix == ("" if row["data"] == "normal" else f"/data:{row['data']}")
        sums.setdefault(row["data"], []).append(row["checksum_abs"])
    assert sorted(sums) == sorted(names)
    for first, second in sums.values():
        assert first == pytest.approx(second, rel=1e-3)
    assert len({round(first, 3) for first, _ in sums.values()}) == len(names)


def test_time_is_accounted_for(measured):
    """Guards the overhead of measuring: its parts are within the whole, and samples are what the rows say."""
    results = measured(*SMALL, "--n", "64,128,256", "--benchmark_min_time=0.05")
    time = results["context"]["time"]
    parts = [time[name] for name in ("preparing_s", "peaks_s", "warm_up_s", "sampling_s", "checking_s")]
    assert all(part > 0 for part in parts) and sum(parts) + time["counting_s"] <= time["rows_s"]
    assert (time["counting_s"] > 0) == results["context"]["counters"]["available"]
    assert time["before_rows_s"] + time["rows_s"] <= results["context"]["elapsed_s"]
    own = sum(parts) + time["counting_s"]
    assert time["overhead"] == pytest.approx(own / time["sampling_s"] - 1, rel=1e-6)
    assert time["reference_s"] > 0 and time["between_rows_s"] > 0
    assert own + time["reference_s"] + time["between_rows_s"] == pytest.approx(time["rows_s"], rel=1e-6)
    in_rows = (
        sum(statistics.fmean(row["samples_ns"]) * row["iterations"] for row in results["benchmarks"]) / 1e9
    )
    assert time["sampling_s"] >= in_rows


def test_measuring_costs_a_tenth_of_a_long_row(measured):
    """Guards what surrounds the samples of a row whose calls take the time of many looks at the peak: beside
    them, peaks, warm-up and checking take a tenth at most. All parts are of one run, so the machine's speed
    cancels."""

    def share(*more):
        arguments = ("--n", "512", "--benchmark_min_time=1", "--algorithm", "naive", *more)
        time = measured(*SMALL, *arguments)["context"]["time"]
        return (time["peaks_s"] + time["warm_up_s"] + time["checking_s"]) / time["sampling_s"]

    assert 0 < share() <= 0.1
    assert share("--benchmark_min_warmup_time=1") > 0.1  # what is spent shows


def test_a_long_first_call_is_a_sample(measured):
    """Guards the count of samples and calls where the call that checks the row is its first sample too."""
    arguments = ("--n", "2048", "--isa", "scalar", "--algorithm", "naive", "--pattern", "dense")
    (row,) = measured(*arguments)["benchmarks"]
    assert row["sample_count"] == len(row["samples_ns"]) == row["iterations"] >= 5
    assert all(sample > 0 for sample in row["samples_ns"])
    assert 0 < row["cpu_share"] <= 1
    (row,) = measured(*arguments, "--benchmark_repetitions=2")["benchmarks"]
    assert row["sample_count"] == len(row["samples_ns"]) == row["iterations"] >= 10
    (row,) = measured(*arguments, "--benchmark_min_time=3x")["benchmarks"]
    assert row["sample_count"] == row["iterations"] == 3


def test_max_call_of_zero_is_no_limit(bench):
    """Guards that 0, which would leave out every row if it were a limit, is documented as what it is, and is it."""
    rows = ("--dry-run", "--n", "64,65536", "--algorithm", "naive", "--isa", "scalar", "--max-call")
    assert " 1 left out" in bench(*rows, "1").out
    unlimited = bench(*rows, "0")
    assert unlimited.code == 0 and " 0 left out" in unlimited.out
    assert re.search(
        r"--max-call SECONDS leave .*?; 0: no limit --seed", " ".join(bench("--help").out.split())
    )


def test_max_call_by_default(bench):
    """Guards the limit where none is given, as the help page tells it: two seconds, but where lengths and rows were
    both chosen none."""
    rows = ("--dry-run", "--isa", "scalar", "--n", "64,65536")
    assert " 0 left out" not in bench(*rows).out
    assert " 0 left out" in bench(*rows, "--algorithm", "naive").out
    said = " ".join(bench("--help").out.split())
    assert "leave out rows whose calls take longer (2; none with --n and a choice of rows, as by" in said
