"""What a result file says of libraries, and of time that a hypervisor took from a run."""

import re
from pathlib import Path

import pytest
from conftest import QUICK
from strict import strict

ROW = ("--pattern", "dense", "--isa", "scalar", "--n", "64")


def test_libraries_and_steal_are_named(measured):
    """Guards the versions of what the numbers rest on, and what a hypervisor took while rows were measured: it is
    known of every row or said not to be."""
    results = measured("--pattern", "dense", "--isa", "scalar", "--n", "64,96")
    context = results["context"]
    libraries = context["libraries"]
    assert {"google_benchmark", "jansson"} <= libraries.keys() <= {"google_benchmark", "jansson", "hwloc"}
    assert all(re.match(r"\d+\.\d+", version) for version in libraries.values())
    assert ("hwloc" in libraries) == context["machine"]["topology_source"].startswith("hwloc")
    steal = context["steal"]
    assert context["sessions"][0]["steal"] == steal
    stat = Path("/proc/stat")
    told = stat.exists() and len(stat.read_text().split("\n")[0].split()) > 8
    if told and all(thread["bound"] for thread in context["binding"]):
        assert steal["available"] is True and all(row["stolen_ns"] >= 0 for row in results["benchmarks"])
        assert 0 <= steal["share"] and steal["flagged"] is (steal["share"] > 0.05)
    else:
        assert steal == {"available": False}


@pytest.mark.parametrize("unknown", ["the system says nothing", "threads are not bound"])
def test_steal_that_is_not_known(bench, tmp_path, unknown):
    """Guards a run of whose CPUs nothing is known, by the system or because its threads may be on any of them: no
    row says that nothing was stolen, nor counts what others lost, and none is disturbed by that."""
    system = unknown == "the system says nothing"
    outcome = bench(
        *QUICK, *ROW, "--out", tmp_path / "r.json", *([] if system else ["--no-bind"]),
        env={"ATTNSCOPE_FSROOT": str(tmp_path / "none")} if system else {},
    )  # fmt: skip
    assert outcome.code == 0, outcome
    results = strict((tmp_path / "r.json").read_text())
    assert results["context"]["steal"] == {"available": False}
    assert "stolen_ns" not in results["benchmarks"][0]
    assert "hypervisor" not in outcome.err
