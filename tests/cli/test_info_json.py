"""`info`, as text and as strict JSON."""

import pytest
from strict import strict


def test_json(attnscope):
    """info --json is one strict JSON object with the machine's levels, and a reason for each that
    cannot run."""
    outcome = attnscope("info", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    levels = strict(outcome.out)["isa"]["levels"]
    assert levels[0]["name"] == "scalar" and levels[0]["available"] is True
    assert all(level["available"] or level["reason"] for level in levels)


def test_text_names_every_level(attnscope):
    """The text names each level of the build and whether it is available."""
    outcome = attnscope("info")
    assert (outcome.code, outcome.err) == (0, "")
    for level in strict(attnscope("info", "--json").out)["isa"]["levels"]:
        assert level["name"] in outcome.out


def test_default_level_follows_the_environment(attnscope):
    """ATTNSCOPE_ISA chooses what auto means."""
    outcome = attnscope("info", "--json", env={"ATTNSCOPE_ISA": "scalar"})
    assert strict(outcome.out)["isa"]["default"] == "scalar"


@pytest.mark.parametrize("variable", ["avx9", "unavailable"])
def test_a_default_that_cannot_be(attnscope, variable):
    """Where ATTNSCOPE_ISA names what cannot run the machine is described all the same, the fault is named in
    every form, and the exit code says that there is one."""
    plain = strict(attnscope("info", "--json").out)
    if variable == "unavailable":
        absent = [level["name"] for level in plain["isa"]["levels"] if not level["available"]]
        if not absent:
            pytest.skip("this machine can run every level of the build")
        variable = absent[0]
    env = {"ATTNSCOPE_ISA": variable}
    outcome = attnscope("info", "--json", env=env)
    described = strict(outcome.out)
    assert outcome.code == 2 and f"ATTNSCOPE_ISA={variable}: " in outcome.err and outcome.err.count("\n") == 1
    assert plain["isa"]["no_default"] is None and described["isa"]["default"] is None
    assert f"ATTNSCOPE_ISA={variable}: " in described["isa"]["no_default"]
    assert described["isa"]["levels"] == plain["isa"]["levels"]
    assert described["fingerprint"] == plain["fingerprint"]
    outcome = attnscope("info", env=env)
    assert outcome.code == 2 and f"none: ATTNSCOPE_ISA={variable}: " in outcome.out
    assert "default\n" not in outcome.out and plain["fingerprint"] in outcome.out


def test_counters_are_there_or_named(attnscope):
    """Guards that info says whether there are hardware counters, or why not, in text and JSON alike."""
    told = strict(attnscope("info", "--json").out)["counters"]
    (line,) = [line for line in attnscope("info").out.splitlines() if line.startswith("counters ")]
    if told["available"]:
        assert told["reason"] is None and " available" in line
    else:
        assert told["reason"] and told["missing"] == {}
        assert line.endswith(f"not available: {told['reason']}")
