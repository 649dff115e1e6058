"""The examples of every help page and of README, typed in as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import program

PAGES = ("", "info", "verify", "eval", "show", "bench", "analyze", "export", "merge", "report")


def examples(page: str) -> list[str]:
    """The commands below "Examples:", without the explanations that stand two spaces or more behind some. A
    quoted line break does not end a command, and its next line is pasted with its indentation."""
    block = re.split(r"^examples:?$", page, flags=re.MULTILINE | re.IGNORECASE)[1]
    commands = []
    for line in block.splitlines()[1:]:
        if commands and commands[-1].count('"') % 2:
            commands[-1] += "\n" + line
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
    """Runs a line in a directory that has the files which examples name, the .venv too, with attnscope on PATH."""
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    (bin_directory / "attnscope").symlink_to(program())
    work = tmp_path / "work"
    python = work / ".venv" / "bin" / "python"  # no link: by its own name the interpreter finds its packages
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    for name in "QKV":
        np.save(work / f"{name}.npy", np.ones((2, 8, 4), np.float32))
    for name in ("results", "zen5", "m1", "prefill"):
        (work / f"{name}.json").write_bytes(results)
    # Of the same machine, but other rows.
    (work / "decode.json").write_bytes(results.replace(b'/t1"', b'/t1/data:peaked"'))
    (work / "host").mkdir()
    (work / "host" / "results.json").write_bytes(results)
    environment = os.environ | {"PATH": f"{bin_directory}:{os.environ['PATH']}"}
    environment.pop("ATTNSCOPE_ISA", None)

    def run(line: str, directory: Path = work):
        return subprocess.run(
            line, shell=True, cwd=directory, env=environment, capture_output=True, text=True, timeout=300
        )

    return run


def adapted(command: str, levels: list[str]) -> str:
    """The command as this machine can run it in a short time: measurements are only planned, not made."""
    for level in {"avx2", "avx512", "neon"} - set(levels):
        command = re.sub(rf"\b{level}\b", "scalar", command)
    if command.startswith("attnscope bench"):
        command += " --dry-run"
        if os.cpu_count() == 1:
            command = command.replace("--threads 2", "--threads 1")
    return command


# Guards that a page has examples and that each works: a new user types them first.
@pytest.mark.parametrize("page", PAGES)
def test_examples(attnscope, shell, levels, page):
    commands = examples(attnscope(*page.split(), "--help").out)
    assert len(commands) >= 2
    assert all(
        command.startswith((f"attnscope {page}".strip(), ".venv/bin/python ", "ATTNSCOPE_"))
        for command in commands
    )
    for command in commands:
        done = shell(adapted(command, levels))
        assert done.returncode == 0, f"{command}\n{done.stderr}"


README = (Path(__file__).parents[2] / "README.md").read_text()


def readme_commands() -> list[tuple[str, list[str]]]:
    """The lines of README that start attnscope, each with the output that README shows below it."""
    blocks = re.findall(r"^    (\$ )?(attnscope (?:.*\\\n)*.*)\n((?:    .*\n)*)", README, re.MULTILINE)
    found = []
    for prompt, command, below in blocks:
        lines = [line[4:] for line in below.splitlines()]
        if prompt:
            found.append((command, [line.rstrip() for line in lines if line != "..."]))
        else:  # a list of commands
            commands = (re.sub(r"\s+#.*$", "", line) for line in [command, *lines])
            found += [(line, []) for line in commands]
    return found


# Guards that README's commands work in the order in which they stand, on the arrays that its Python lines make,
# and that what it shows below them is what they print. Tiles differ by ISA level: it shows those of avx2.
def test_readme(shell, levels):
    (python,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    made = shell(f".venv/bin/python - <<'end'\n{python}end")
    assert made.returncode == 0, made.stderr
    commands = readme_commands()
    assert {command.split()[1] for command, _ in commands} >= {"bench", "eval", "report", "show"}
    for command, shown in commands:
        done = shell(f"ATTNSCOPE_ISA={'avx2' if 'avx2' in levels else 'auto'} {adapted(command, levels)}")
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        if "avx2" in levels or "eval" not in command:
            printed = iter([line.rstrip() for line in done.stdout.splitlines()])
            for line in shown:
                assert line in printed, f"{command}: {line!r} is not printed, or not there"
