"""The list of ISA levels as the scripts read it."""

import os
from pathlib import Path

import pytest
from testrunner import levels
from testrunner.commands import CommandError


# Guards against a level that is read in one place and not in another: every reading of the lists has the same ones.
def test_readings_agree():
    required, flags = levels.required(), levels.flags()
    assert list(dict.fromkeys(name for of_one in required.values() for name in of_one)) == levels.names()
    assert {arch: set(of_one) for arch, of_one in required.items()} == {
        arch: set(of_one) for arch, of_one in flags.items()
    }
    used = set().union(*(needs for of_one in required.values() for needs in of_one.values()))
    assert used and used <= set(levels.features())


# Guards that a level is counted on every machine: what the build lacks has a reason, as what the CPU lacks has.
def test_every_level_is_here_or_says_why(tmp_path):
    program = tmp_path / "attnscope"
    said = '{"isa": {"levels": [{"name": "scalar", "reason": null}, {"name": "avx2", "reason": "no"}]}}'
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    here = levels.here(program)
    assert list(here) == levels.names()
    assert (here["scalar"], here["avx2"]) == ("", "no")
    assert all(
        "no part of a build" in here[name] for name in levels.names() if name not in ("scalar", "avx2")
    )
    program.write_text("#!/bin/sh\necho why >&2\nexit 2\n")
    with pytest.raises(CommandError, match="why"):
        levels.here(program)


# Guards the reading of what a real build says.
def test_a_build_says_which_levels_are_here():
    build = os.environ.get("ATTNSCOPE_BUILD")
    if not build:
        pytest.skip("ATTNSCOPE_BUILD is not set: no build to ask")
    assert levels.here(Path(build, "cli", "attnscope"))["scalar"] == ""
