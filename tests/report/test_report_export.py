"""`attnscope export`: each format as its consumer reads it, by the consumer's own code where there is some."""

import csv
import io
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic
from attnscope_py import exports
from attnscope_py.reading import load_run
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from strict import strict

ROOT = Path(__file__).resolve().parents[2]
COMPARE = Path("/usr/share/benchmark/compare.py")  # of Debian's libbenchmark-tools
FORMATS = ("google-benchmark", "csv", "csv-samples", "github-action", "bencher", "openmetrics")


def export(*arguments, **options):
    program = os.environ.get("ATTNSCOPE")
    command = (
        [os.path.abspath(program), "export"]
        if program
        else [sys.executable, ROOT / "scripts/attnscope-export"]
    )
    command = [*map(str, command), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, **options)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A sweep with what consumers trip over: a failed row, an aggregate, one sample alone, a cap and a data kind in
    ids. Its path and its rows that were measured, by id."""
    rows = synthetic.sweep(isas=("scalar", "avx2"))
    rows.append(synthetic.row("dense", "flash", "avx2", 96, [1234.5], extras="/cap30/data:peaked"))
    rows.append(
        synthetic.row(
            "causal", "flash", "avx2", 96, [1.0], real_time=0, samples_ns=None, min_ns=None, max_ns=None
        )
        | {"error_occurred": True, "error_message": "no memory"}
    )
    rows.append(
        rows[0] | {"run_type": "aggregate", "aggregate_name": "mean", "name": rows[0]["name"] + "_mean"}
    )
    path = synthetic.write(
        tmp_path_factory.mktemp("export") / "results.json", rows, cpu_brand='A "quoted" \\ CPU'
    )
    return path, {row["id"]: row for row in rows[:-2]}


@pytest.fixture(scope="module")
def exported(source):
    """By format: what is printed."""
    found = {}
    for name in FORMATS:
        done = export(source[0], "--format", name)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("\n") == 1 and "nq96" in done.stderr and "no memory" in done.stderr
        found[name] = done.stdout
    return found


def test_google_benchmark(source, exported):
    """Only numbers and the library's own fields; the rows and times of the file."""
    rows = source[1]
    made = strict(exported["google-benchmark"])
    assert isinstance(made["context"]["caches"], list) and made["context"]["library_build_type"] == "release"
    assert [row["name"] for row in made["benchmarks"]] == list(rows)
    for row in made["benchmarks"]:
        assert row["real_time"] == rows[row["name"]]["real_time"] and row["time_unit"] == "ns"
        assert not any(isinstance(value, (list, dict, bool)) for value in row.values())
        assert {"run_name", "run_type", "iterations", "cpu_time", "threads"} <= set(row)


def test_google_benchmark_by_its_own_tool(source, exported, tmp_path):
    """compare.py of Google Benchmark reads both our file and the export, and finds every row unchanged."""
    if not COMPARE.exists():
        pytest.skip("needs compare.py of Google Benchmark: Debian's libbenchmark-tools")
    path = tmp_path / "export.json"
    path.write_text(exported["google-benchmark"])
    done = subprocess.run(
        [sys.executable, COMPARE, "--no-color", "benchmarks", source[0], path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("attention/") and "+0.0000" in line]
    assert len(lines) == len(source[1]), done.stdout


def test_csv(source, exported):
    """A line for each row, equal columns, numbers that come back as they were."""
    lines = list(csv.DictReader(io.StringIO(exported["csv"], newline=""), strict=True))
    assert [line["id"] for line in lines] == list(source[1])
    for line in lines:
        row = source[1][line["id"]]
        assert None not in line and None not in line.values()
        assert line["cpu"] == 'A "quoted" \\ CPU'
        assert (
            float(line["median_ns"]) == row["real_time"] and int(line["pairs_useful"]) == row["pairs_useful"]
        )
        assert float(line["median_low_ns"]) <= float(line["median_ns"]) <= float(line["median_high_ns"])
        assert line["stage"] == (row["id"].split("/stage:")[1] if "stage:" in row["id"] else "")


def test_csv_of_samples(source, exported):
    """Every sample of every row, once and in its order."""
    found = {}
    for line in csv.DictReader(io.StringIO(exported["csv-samples"], newline=""), strict=True):
        samples = found.setdefault(line["id"], [])
        assert int(line["sample"]) == len(samples)
        samples.append(float(line["time_ns"]))
    assert found == {key: row["samples_ns"] for key, row in source[1].items()}


def test_github_action(source, exported):
    """A list of name, unit, value and range, where the first of each name wins and NaN would end the action."""
    entries = strict(exported["github-action"])
    assert [entry["name"] for entry in entries] == list(source[1])
    for entry in entries:
        assert set(entry) == {"name", "unit", "value", "range", "extra"}
        assert entry["unit"] == "ns" and entry["value"] == source[1][entry["name"]]["real_time"]
        assert isinstance(entry["extra"], str) and float(entry["range"].removeprefix("± ")) >= 0


def test_bencher(source, exported):
    """Bencher Metric Format: benchmark, measure, and a value between its bounds."""
    made = strict(exported["bencher"])
    assert list(made) == list(source[1])
    for name, measures in made.items():
        assert set(measures) == {"latency"} and set(measures["latency"]) == {
            "value",
            "lower_value",
            "upper_value",
        }
        metric = measures["latency"]
        assert 0 < metric["lower_value"] <= metric["value"] <= metric["upper_value"]
        assert metric["value"] == source[1][name]["real_time"] and len(name) <= 1024


def test_openmetrics(source, exported):
    """Prometheus's own parser takes it; times are seconds, ratios lie where ratios lie, labels survive quoting."""
    families = {family.name: family for family in text_string_to_metric_families(exported["openmetrics"])}
    (machine,) = families["attnscope_machine"].samples
    assert machine.labels["cpu"] == 'A "quoted" \\ CPU' and machine.value == 1
    times = {sample.labels["id"]: sample.value for sample in families["attnscope_time_seconds"].samples}
    assert set(times) == set(source[1])
    for name, value in times.items():
        assert math.isclose(value, source[1][name]["real_time"] / 1e9, rel_tol=1e-8)
    for family in families.values():
        assert family.name == "attnscope_machine" or (family.unit and family.name.endswith(f"_{family.unit}"))
        keys = [tuple(sorted(sample.labels.items())) for sample in family.samples]
        assert len(keys) == len(set(keys))
    assert all(0 <= s.value <= 1.05 for s in families["attnscope_cpu_share_ratio"].samples)


def test_file_is_whole_or_as_it_was(source, exported, tmp_path):
    """--out writes what would be printed; a file that cannot be written is an error, and nothing is left behind."""
    out = tmp_path / "rows.csv"
    assert export(source[0], "--format", "csv", "--out", out).returncode == 0
    assert out.read_text() == exported["csv"]
    done = export(source[0], "--format", "csv", "--out", tmp_path)
    assert done.returncode == 2 and "not a regular file" in done.stderr
    done = export(source[0], "--format", "csv", "--out", tmp_path / "none" / "rows.csv")
    assert done.returncode == 2 and "No such file" in done.stderr
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    "arguments,code,part",
    [
        ((), 2, "no result file"),
        (("FILE",), 2, "--format is missing"),
        (("FILE", "--format", "xml"), 2, "'xml'"),
        (("missing.json", "--format", "csv"), 2, "missing.json"),
        (("FAILED", "--format", "csv"), 4, "no row was measured"),
    ],
)
def test_refused(source, tmp_path, arguments, code, part):
    """One line that names what is wrong, and the exit code of its kind."""
    failed = synthetic.row("dense", "flash", "avx2", 96, [1.0], error_occurred=True, error_message="x")
    names = {"FILE": source[0], "FAILED": synthetic.write(tmp_path / "failed.json", [failed])}
    done = export(*(names.get(a, a) for a in arguments))
    assert (done.returncode, done.stdout) == (code, "")
    assert (
        done.stderr.startswith("attnscope export: ") and done.stderr.count("\n") == 1 and part in done.stderr
    )


def test_input_is_not_replaced(source, tmp_path):
    """An output that is the input, by name or through a link, is refused, and the results are as they were."""
    file = tmp_path / "results.json"
    file.write_bytes(Path(source[0]).read_bytes())
    (tmp_path / "link").symlink_to(file)
    before = file.read_bytes()
    for out in (file, tmp_path / "link"):
        done = export(file, "--format", "csv", "--out", out)
        assert (done.returncode, done.stdout) == (
            2,
            "",
        ) and "named as an input and as an output" in done.stderr
    assert file.read_bytes() == before


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_arrives_or_fails(source, exported, tmp_path, unbuffered):
    """Standard output that takes a part is an error, whether Python buffers or not; what arrives is whole."""
    script = ROOT / "scripts" / "attnscope-export"
    line = f'ulimit -f 1; exec "{sys.executable}" "{script}" "{source[0]}" --format csv > part.csv'
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 2 and "cannot write standard output" in done.stderr, done.stderr
    whole = subprocess.run(
        [sys.executable, script, source[0], "--format", "csv"],
        env=environment,
        capture_output=True,
        timeout=600,
    )
    assert whole.stdout.decode() == exported["csv"]


def test_loop_of_links_is_no_file(source, tmp_path):
    """A loop is refused and stays."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    done = export(source[0], "--format", "csv", "--out", tmp_path / "a")
    assert done.returncode == 2 and "cannot write" in done.stderr and (tmp_path / "a").is_symlink()


# Guards the date of each row: its own, else its session's; the run's is that of the last session alone.
def test_dates_of_rows(tmp_path):
    rows = synthetic.power_law(1.0, 2.0)[:3]
    del rows[0]["date"], rows[1]["date"], rows[1]["session"]
    rows[2] |= {"date": "2026-11-29T12:00:00+00:00", "session": 2}
    sessions = [{"number": 1, "date": "2026-11-28T08:00:00+00:00"}, {"number": 2}]
    run = load_run(synthetic.write(tmp_path / "r.json", rows, sessions=sessions))
    for name in ("csv", "csv-samples"):
        lines = list(csv.DictReader(io.StringIO(exports.MAKERS[name](run))))
        dates = {line["id"]: line["date"] for line in lines}
        assert list(dates.values()) == [
            "2026-11-28T08:00:00+00:00",
            "2026-11-30T08:00:00+00:00",
            "2026-11-29T12:00:00+00:00",
        ]


# Guards what stands in a file that standard output or error is open on, when the command is to write that file: it
# would be replaced under the descriptor. An input that is read from there is no danger.
@pytest.mark.parametrize("stream", [1, 2])
@pytest.mark.parametrize("command", ["export", "analyze"])
def test_file_of_a_standard_descriptor_is_refused(small_file, tmp_path, command, stream):
    place = tmp_path / "r.json"
    before = b"kept\n" if command == "export" else Path(small_file).read_bytes()
    place.write_bytes(before)
    arguments = [small_file, "--format", "csv", "--out", place] if command == "export" else [place]
    program = [sys.executable, ROOT / f"scripts/attnscope-{command}", *arguments]
    for opened, code in (("ab", 2), ("rb", 0)):
        with open(place, opened) as file, open(tmp_path / "said", "wb") as said:
            streams = {"stdout": said, "stderr": said} | {("stdout", "stderr")[stream - 1]: file}
            if opened == "rb":
                streams = {"stdin": file, "stdout": said, "stderr": said}
            done = subprocess.run(program, **streams, timeout=120)
        text = (tmp_path / "said").read_text() + place.read_text()
        assert done.returncode == code, text
        assert opened == "rb" or (place.read_bytes().startswith(before) and "name another file" in text)
        place.write_bytes(before)


# Guards the same of a report, whose files are in a directory: the page is refused and the old one stays, with what is
# printed into it.
def test_page_of_a_standard_descriptor_is_refused(small_file, tmp_path):
    place = tmp_path / "rep" / "report.html"
    place.parent.mkdir()
    with open(place, "wb") as file:
        program = [
            sys.executable,
            ROOT / "scripts/attnscope-report",
            small_file,
            "--no-png",
            "--out",
            place.parent,
        ]
        done = subprocess.run(program, stdout=file, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert f"{place}" in done.stderr and "standard output is open on it; name another file" in done.stderr
    assert list(place.parent.iterdir()) == [place] and not place.read_bytes().startswith(b"<!")


# Numbers that differ in every field, so that no column can be taken for another.
DISTINCT = {
    "samples_ns": [100.0 + 7 * i * i for i in range(11)],
    "sample_count": 11,
    "real_time": 275.0,
    "min_ns": 100.0,
    "max_ns": 800.0,
    "pairs_useful": 311,
    "pairs_executed": 313,
    "pairs_dense": 317,
    "flops_useful": 331,
    "pct_peak": 33.7,
    "effective_ghz": 3.47,
    "workspace_bytes": 349,
    "cpu_share": 0.953,
    "batch": 2,
    "heads": 12,
    "kv_heads": 6,
    "queries": 353,
    "keys": 359,
    "head_dim": 367,
    "value_dim": 373,
    "threads": 5,
}
# Of eleven samples the second and the last but one: P(Bin(11, 1/2) < 2) = 0.6 %, below 3 it is 3.3 %.
LOW, HIGH = DISTINCT["samples_ns"][1], DISTINCT["samples_ns"][9]


@pytest.fixture(scope="module")
def distinct(tmp_path_factory):
    row = synthetic.row("dense", "flash", "avx2", 128, [1.0], extras="/cap30", threads=5) | DISTINCT
    file = synthetic.write(tmp_path_factory.mktemp("distinct") / "r.json", [row])
    return row, load_run(file)


# Guards every column of the CSV against another's number.
def test_csv_has_each_number_in_its_column(distinct):
    row, run = distinct
    (line,) = csv.DictReader(io.StringIO(exports.tidy_csv(run)))
    context = synthetic.context()
    texts = {
        "host": "bench-host",
        "cpu": context["cpu_brand"],
        "fingerprint": context["fingerprint"],
        "commit": context["commit"],
        "compiler": context["compiler"],
        "date": row["date"],
        "id": row["id"],
        "kind": "attention",
        "pattern": "dense",
        "algorithm": "flash",
        "isa": "avx2",
        "dtype": "f32",
        "stage": "",
        "options": "cap30",
    }
    same = (
        "batch",
        "heads",
        "kv_heads",
        "queries",
        "keys",
        "head_dim",
        "value_dim",
        "threads",
        "min_ns",
        "max_ns",
    )
    same += ("pairs_useful", "pairs_executed", "pairs_dense", "flops_useful", "pct_peak", "effective_ghz")
    same += ("workspace_bytes", "cpu_share")
    numbers = {name: row[name] for name in same}
    numbers |= {"median_ns": 275.0, "median_low_ns": LOW, "median_high_ns": HIGH, "samples": 11}
    assert len(set(numbers.values())) == len(numbers)
    assert {name: line[name] for name in texts} == texts
    assert {name: float(line[name]) for name in numbers} == numbers
    assert set(line) == set(texts) | set(numbers)
    (first, *_) = csv.DictReader(io.StringIO(exports.samples_csv(run)))
    told = texts | {name: str(row[name]) for name in same[:8]} | {"sample": "0", "time_ns": "100.0"}
    assert first == told


# Guards every gauge of OpenMetrics: its own number in base units, with the row's labels.
def test_openmetrics_has_each_number_in_its_gauge(distinct):
    row, run = distinct
    families = text_string_to_metric_families(exports.openmetrics(run))
    values = {f.name: f.samples[0].value for f in families if f.name != "attnscope_machine"}
    assert values == {
        "attnscope_time_seconds": pytest.approx(275e-9),
        "attnscope_time_low_seconds": pytest.approx(LOW / 1e9),
        "attnscope_time_high_seconds": pytest.approx(HIGH / 1e9),
        "attnscope_peak_ratio": pytest.approx(0.337),
        "attnscope_cpu_share_ratio": row["cpu_share"],
        "attnscope_workspace_bytes": row["workspace_bytes"],
    }


# Guards the intervals: of the median, not the range of the samples; the larger half width where one is given.
def test_intervals_of_the_other_formats(distinct):
    _, run = distinct
    (entry,) = strict(exports.github_action_benchmark(run))
    assert (entry["value"], float(entry["range"].removeprefix("± "))) == (275.0, max(HIGH - 275, 275 - LOW))
    assert entry["extra"].splitlines() == ["11 samples", "33.7 % of peak"]
    (metric,) = (measures["latency"] for measures in strict(exports.bencher(run)).values())
    assert metric == {"value": 275.0, "lower_value": LOW, "upper_value": HIGH}
