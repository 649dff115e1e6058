"""Paths, a drawn report, and a way to run the command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[0:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "shared"), str(Path(__file__).parent)]

import synthetic  # noqa: E402


@pytest.fixture(scope="session")
def run():
    """Runs `attnscope report ARGUMENTS` as a user does: through the program where there is a build."""

    def call(*arguments, **options):
        program = os.environ.get("ATTNSCOPE")
        command = (
            [program, "report"] if program else [sys.executable, str(ROOT / "scripts" / "attnscope-report")]
        )
        return subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=900,  # against hanging; a loaded machine draws slowly
            check=False,
            **options,
        )

    return call


@pytest.fixture(scope="session")
def sweep_file(tmp_path_factory):
    return synthetic.write(tmp_path_factory.mktemp("results") / "results.json", synthetic.sweep())


@pytest.fixture(scope="session")
def small_file(tmp_path_factory):
    """One series, which is drawn in a moment."""
    return synthetic.write(
        tmp_path_factory.mktemp("small") / "results.json",
        synthetic.power_law(2.0, 1.7, pct_peak=None, workspace_bytes=None),
        roofline=None,
    )


@pytest.fixture(scope="session")
def small_drawn(run, small_file, tmp_path_factory):
    """A directory that holds nothing but the report `here`, and what drawing it printed."""
    place = tmp_path_factory.mktemp("drawn-small")
    done = run(small_file, "--out", "here", cwd=place)
    assert done.returncode == 0, done.stderr
    return place, done.stdout


@pytest.fixture(scope="session")
def drawn(run, sweep_file, tmp_path_factory):
    """The directory of a report over a standard sweep."""
    place = tmp_path_factory.mktemp("drawn") / "report"
    done = run(sweep_file, "--out", place)
    assert done.returncode == 0, done.stderr
    return place
