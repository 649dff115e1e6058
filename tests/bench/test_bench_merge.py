"""`attnscope merge` of files as `bench` writes them: they join as `--resume` would have joined them."""

import json
import subprocess

import pytest
from conftest import execute, program
from strict import strict

SMALL = ("--pattern", "dense", "--n", "64,96", "--isa", "scalar", "--benchmark_min_time=0.002s")

# What a joined file says, by what its files said, in the order given.
LAST, ALL_OF_THEM, LARGEST = "the last", "all", "the largest"
RULES = {
    LAST: "aslr_enabled attnscope_version binding build_type caches commit compiler conditions counters cpu_brand libraries steal "
    "cpu_scaling_enabled date executable fingerprint flags host_name json_schema_version library_build_type "
    "library_version load_avg machine memory mhz_per_cpu num_cpus schema_version seed settings time",
    ALL_OF_THEM: "checksums_differ elapsed_s incomplete left_out not_measured roofline rows_disturbed sessions",
    LARGEST: "drift peak_gflops",
}
RULE = {name: rule for rule, names in RULES.items() for name in names.split()}


def merge(*files, out) -> subprocess.CompletedProcess:
    return subprocess.run(
        [program(), "merge", *map(str, files), "--out", str(out)], capture_output=True, text=True, timeout=120
    )


def measure(path, *options) -> dict:
    outcome = execute(*SMALL, *options, "--out", path)
    assert outcome.code == 0, outcome
    return strict(path.read_text())


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A file of one thread and one of two, with their limits; and both in one, by `--resume`."""
    where = tmp_path_factory.mktemp("merge")
    a, b, both = where / "a.json", where / "b.json", where / "both.json"
    measure(a, "--threads", "1")
    both.write_text(a.read_text())
    measure(b, "--threads", "2")
    measure(both, "--threads", "2", "--resume")
    return a, b, both


def test_every_field_of_the_context_has_its_rule(two, tmp_path):
    """Guards each key that `bench` writes: a new one fails here until it is decided what a joined file says."""
    a, b, resumed = two
    files = []
    for path, other in ((a, 0), (b, 1)):
        made = strict(path.read_text())
        context, names = made["context"], [row["id"] for row in made["benchmarks"]]
        context["drift"] |= {"change": (-0.5, 0.25)[other], "flagged": True}
        context["peak_gflops"]["scalar"] = (9e6, 8e6)[other]
        context["left_out"] = [{"id": f"attention/long{other}", "reason": "long"}]
        context |= {"not_measured": [f"attention/never{other}"], "incomplete": True, "elapsed_s": 2 + other}
        context["checksums_differ"] = [{"id": names[0], "with": names[1]}]
        made["benchmarks"][other]["cpu_share"] = 0.5
        files.append(made)
        (tmp_path / path.name).write_text(json.dumps(made))
    done = merge(tmp_path / "a.json", tmp_path / "b.json", out=tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "out").iterdir()
    joined = strict(path.read_text())
    context, first, last = joined["context"], files[0]["context"], files[1]["context"]
    assert set(context) == set(first) | set(last) | {"merged_from"}
    assert set(context) - {"merged_from"} <= set(RULE), "decide how these are joined"
    for name in context.keys() - {"merged_from"}:
        if RULE[name] == LAST:
            assert context[name] == last[name], name
    assert context["drift"] == first["drift"] and context["peak_gflops"]["scalar"] == 9e6
    for name in ("left_out", "not_measured", "checksums_differ", "sessions"):
        assert context[name] == first[name] + last[name], name
    assert context["incomplete"] is True and context["elapsed_s"] == 5
    assert {entry["threads"] for entry in context["roofline"]} == {1, 2}
    for entry in context["roofline"]:
        assert entry in first["roofline"] + last["roofline"]
    shares = [row["cpu_share"] for row in joined["benchmarks"]]
    assert context["rows_disturbed"] == sum(share < 0.95 for share in shares) >= 2
    # What `--resume` made of the same has the same keys and the same numbers of threads.
    other = strict(resumed.read_text())
    assert set(context) - {"merged_from", "not_measured"} == set(other["context"]) - {"not_measured"}
    assert {e["threads"] for e in other["context"]["roofline"]} == {1, 2}
    assert {row["id"] for row in other["benchmarks"]} == {row["id"] for row in joined["benchmarks"]}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--seed", "2"), "seed"),
        (("--benchmark_min_time=0.004",), "settings.min_time_s"),
        (("--benchmark_min_time=7x",), "settings.fixed_calls"),
        (("--benchmark_min_warmup_time=0.5",), "settings.warm_up_s"),
        (("--benchmark_repetitions=2",), "settings.repetitions"),
        (("--benchmark_dry_run",), "settings.one_call"),
        (("--no-bind",), "settings.bind"),
        (("--budget", "100", "--max-call", "9"), None),
    ],
)
def test_what_resume_refuses_merge_refuses(two, tmp_path, options, named):
    """Guards that both ways of putting rows into one file take the same conditions: each names the field."""
    a, _, _ = two
    b = tmp_path / "b.json"
    measure(b, "--threads", "2", "--no-roofline", *options)
    done = merge(a, b, out=tmp_path / "out")
    copy = tmp_path / "copy.json"
    copy.write_text(a.read_text())
    resumed = execute(*SMALL, "--threads", "2", "--no-roofline", *options, "--resume", "--out", copy)
    if named is None:
        assert (done.returncode, resumed.code) == (0, 0), (done, resumed)
        return
    assert (done.returncode, resumed.code) == (3, 2), (done, resumed)
    assert f"{named} (" in done.stderr and f"{named} " in resumed.err
