"""The report's tests write their own result files; they must be like those that bench writes."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))
import synthetic  # noqa: E402

# Of this machine or of options that the small run here does not take; of rows, what the report reads nothing of.
MAY_MISS = {
    "aslr_enabled",
    "not_measured",
    "huge_page_bytes",
    "quota_cpus",
    "tuning",
    "hypervisor",
    "governor",
}


def kinds(value, at=""):
    """The type at every place, of lists that of their first."""
    name = {bool: "flag", int: "number", float: "number"}.get(type(value), type(value).__name__)
    yield at, name
    inner = (
        value.items()
        if isinstance(value, dict)
        else [("0", value[0])]
        if isinstance(value, list) and value
        else []
    )
    for key, part in inner:
        yield from kinds(part, f"{at}.{key}")


@pytest.fixture(scope="module")
def real(bench, tmp_path_factory):
    path = tmp_path_factory.mktemp("real") / "r.json"
    outcome = bench(
        *("--pattern", "dense", "--algorithm", "flash", "--isa", "scalar", "--n", "64,128", "--out", path),
        # The conditions hold a time of warm-up where it is asked for, as those of synthetic files do.
        *("--benchmark_min_time=0.002s", "--benchmark_min_warmup_time=0.002"),
    )
    assert outcome.code == 0, outcome.err
    return json.loads(path.read_text())


def test_fields_are_those_of_a_file(real):
    """Guards against tests that pass on fields which no file has, or of another type there."""
    written = dict(kinds({"context": real["context"], "row": real["benchmarks"][0]}))
    made = dict(
        kinds(
            {"context": synthetic.context(), "row": synthetic.row("dense", "flash", "scalar", 128, [1.0] * 7)}
        )
    )
    # Levels, hardware and machine fields have names of their own on every machine.
    named = (".roofline.0.isa.", ".peak_gflops.", ".fields.", ".level.")
    for place, kind in made.items():
        if any(part in place + "." for part in named) or place.rsplit(".", 1)[-1] in MAY_MISS:
            continue
        assert written.get(place) == kind, place


def test_top_of_the_context(real):
    """Guards the other way: what stands in the context of a file stands in the tests' too."""
    assert set(real["context"]) - MAY_MISS <= set(synthetic.context())
