"""Bad input: one line that names the value and what is accepted, exit 2, and no file."""

import os
import subprocess
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("--n", "0"), ("'0'",)),
        (("--n", "8:4"), ("8:4",)),
        (("--n", ""), ("--n",)),
        (("--n", "1,,2"), ("1,,2",)),
        (("--n", "12x"), ("12x",)),
        (("--n", "99999999999999999999"), ("99999999999999999999",)),
        (("--threads", "1025"), ("1025", "1024")),
        (("--threads", "0"), ("'0'",)),
        (("--preset", "no-such-model"), ("no-such-model", "--list-presets")),
        (("--isa", "avx9"), ("avx9", "scalar")),
        (("--algorithm", "fast"), ("fast", "naive")),
        (("--dtype", "f64"), ("f64", "bf16")),
        (("--kernel", "nope"), ("nope", "matmul")),
        (("--data", "nope"), ("nope", "peaked")),
        (("--pattern", "window=0"), ("window=0",)),
        (("--pattern", "triangular"), ("triangular", "causal")),
        (("--n", "64", "--heads", "5", "--kv-heads", "2"), ("5", "2")),
        (("--head-dim", "0"), ("'0'",)),
        (("--benchmark_filter=zzz", "--n", "64"), ("zzz",)),
        (("--benchmark_no_such_option=1", "--n", "64"), ("benchmark_no_such_option",)),
        (("--bogus",), ("--bogus",)),
        (("extra",), ("extra",)),
    ],
)
def test_one_line_and_exit_2(bench, tmp_path, arguments, texts):
    """Guards the contract of errors for every option."""
    outcome = bench(*arguments, "--out", tmp_path / "r.json")
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("attnscope bench: ") and outcome.err.count("\n") == 1, outcome.err
    for text in texts:
        assert text in outcome.err
    assert not list(tmp_path.iterdir())


def test_more_threads_than_allowed(tmp_path):
    """Guards that threads beyond the process's cpuset are refused, not oversubscribed."""
    from conftest import environment, program

    one = min(os.sched_getaffinity(0))
    done = subprocess.run(
        ["taskset", "-c", str(one), program(), "bench", "--threads", "2", "--n", "64"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "'2'" in done.stderr and "1" in done.stderr


@pytest.mark.parametrize("where", ["missing/r.json", "."])
def test_unwritable_output_is_refused_before_the_sweep(bench, tmp_path, where):
    """Guards that minutes are not spent on results that cannot be kept."""
    outcome = bench("--n", "8192", "--out", tmp_path / where, cwd=tmp_path)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1


def test_full_disk(bench, tmp_path):
    """Guards that a full disk is an error and leaves no part of a file."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", small], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted: {mounted.stderr.decode().strip()}")
    try:
        outcome = bench("--no-roofline", "--n", "16", "--benchmark_min_time=0.002", "--out", small / "r.json")
        assert outcome.code == 2, outcome
        assert "No space left" in outcome.err
        assert not list(Path(small).iterdir())
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_level_this_cpu_lacks_is_refused_with_the_reason(bench):
    """Guards that a forced level that cannot run is an error, never another level."""
    for isa in ("avx2", "avx512", "neon"):
        outcome = bench("--n", "16", "--isa", isa, "--dry-run")
        if outcome.code == 0:
            continue
        assert outcome.code == 2
        assert isa in outcome.err and outcome.err.count("\n") == 1


def test_environment_override_that_cannot_be_honoured(bench):
    """Guards that ATTNSCOPE_ISA is never quietly ignored."""
    outcome = bench("--n", "16", env={"ATTNSCOPE_ISA": "avx9"})
    assert outcome.code == 2
    assert "ATTNSCOPE_ISA" in outcome.err and "avx9" in outcome.err
