"""The examples of every help page, typed in as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import program

PAGES = ("", "info", "verify", "eval", "show", "bench", "report")


def examples(page: str) -> list[str]:
    """The commands below "Examples:", without the explanations that stand two spaces or more behind some. A
    quoted line break does not end a command."""
    block = re.split(r"^examples:?$", page, flags=re.MULTILINE | re.IGNORECASE)[1]
    commands = []
    for line in block.splitlines()[1:]:
        if commands and commands[-1].count('"') % 2:
            commands[-1] += "\n" + line.removeprefix("  ")
        elif line.startswith("  "):
            commands.append(re.sub(r"\s{2,}\S.*$", "", line.strip()))
        else:
            break
    return commands


@pytest.fixture(scope="module")
def results(attnscope, tmp_path_factory) -> bytes:
    """A small results.json."""
    path = tmp_path_factory.mktemp("results") / "results.json"
    options = ["--n=64,128", "--pattern=causal", "--no-roofline", "--no-bind", "--benchmark_min_time=0.01s"]
    done = attnscope("bench", *options, f"--out={path}")
    assert done.code == 0, done.err
    return path.read_bytes()


@pytest.fixture
def shell(tmp_path, results):
    """Runs a line in a directory that has the files which examples name, with attnscope and python3 on PATH."""
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    (bin_directory / "attnscope").symlink_to(program())
    python = bin_directory / "python3"  # no link: by its own name the interpreter finds its packages
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    for name in "QKV":
        np.save(work / f"{name}.npy", np.ones((2, 8, 4), np.float32))
    for name in ("results", "zen5", "m1"):
        (work / f"{name}.json").write_bytes(results)
    environment = os.environ | {"PATH": f"{bin_directory}:{os.environ['PATH']}"}
    environment.pop("ATTNSCOPE_ISA", None)

    def run(line: str, directory: Path = work):
        return subprocess.run(
            line, shell=True, cwd=directory, env=environment, capture_output=True, text=True, timeout=300
        )

    return run


# Guards that a page has examples and that each works: a new user types them first. Measurements are only
# planned, not made.
@pytest.mark.parametrize("page", PAGES)
def test_examples(attnscope, shell, levels, page):
    commands = examples(attnscope(*page.split(), "--help").out)
    assert len(commands) >= 2
    assert all(
        command.startswith((f"attnscope {page}".strip(), "python3", "ATTNSCOPE_")) for command in commands
    )
    for command in commands:
        for level in ("avx2", "avx512", "neon"):
            if level not in levels:
                command = re.sub(rf"\b{level}\b", "scalar", command)
        if command.startswith("attnscope bench"):
            command += " --dry-run"
            if os.cpu_count() == 1:
                command = command.replace("--threads 2", "--threads 1")
        done = shell(command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
