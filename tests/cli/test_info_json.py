"""`info`, as text and as strict JSON."""

import json

import pytest


def strict(text: str) -> dict:
    """Parses JSON, refusing NaN, Infinity and repeated keys."""

    def constant(name):
        pytest.fail(f"{name} is no JSON")

    def unique(pairs):
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), keys
        return dict(pairs)

    return json.loads(text, parse_constant=constant, object_pairs_hook=unique)


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
