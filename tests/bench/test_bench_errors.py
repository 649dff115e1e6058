"""Bad input: one line that names the value and what is accepted, exit 2, and no file."""

import json
import os
import random
import re
import resource
import signal
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("--n", "0"), ("'0'",)),
        (("--n", "8:4"), ("8:4",)),
        (("--n", "8:64/0"), ("8:64/0", "A:B/P")),
        (("--n", "8:64/9"), ("8:64/9", "up to 8")),
        (("--n", "8:64/"), ("8:64/",)),
        (("--n", "8/2:64"), ("8/2:64",)),
        (("--n", "100:120/2"), ("100:120/2",)),
        (("--n", ""), ("--n",)),
        (("--n", "1,,2"), ("1,,2",)),
        (("--n", "12x"), ("12x",)),
        (("--n", "99999999999999999999"), ("99999999999999999999",)),
        (("--threads", "1025"), ("1025", "1024")),
        (("--threads", "0"), ("'0'",)),
        (("--preset", "no-such-model"), ("no-such-model", "gpt2, bert-base, llama-3-8b")),
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
        (("--benchmark_min_time=fast", "--n", "64"), ("fast", "100x")),
        (("--benchmark_repetitions=none", "--n", "64"), ("none",)),
        (("--benchmark_filter=(", "--n", "64"), ("'('",)),
        (("--preset", "gpt2", "--heads", "4"), ("--heads", "--preset")),
        (("--preset", "gpt2", "--pattern", "dense"), ("--pattern", "--preset")),
        (("--preset", "bert-base:decode"), ("bert-base", "decode")),
        (("--preset", "gpt2:train"), ("gpt2:train", "prefill")),
        (("--kernel", "exp", "--softcap", "30"), ("--softcap", "--kernel")),
        (("--kernel", "exp", "--dtype", "f16"), ("exp", "f32")),
        (("--pattern", "blocks=no-such.npy:64", "--n", "64"), ("no-such.npy",)),
        (("--softcap", "-1"), ("'-1'",)),
        (("--budget", "soon"), ("soon",)),
        (("--budget", "0"), ("'0'", "above 0")),
        (("--benchmark_context=room=7,=y", "--n", "64"), ("room=7,=y", "name")),
        (("--benchmark_context==y", "--n", "64"), ("=y", "name")),
        (("--n", "64", "--n", "64"), ("more than one", "--n;")),
        (("--seed=1", "--n", "64", "--seed", "2"), ("more than one", "--seed;")),
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


@pytest.mark.parametrize("option", ["--out", "--benchmark_out"])
@pytest.mark.parametrize("where", ["missing/r.json", ".", "/dev/full"])
def test_unwritable_output_is_refused_before_the_sweep(bench, tmp_path, option, where):
    """Guards that minutes are not spent on results that cannot be kept."""
    outcome = bench("--n", "8192", f"{option}={where}", cwd=tmp_path)
    assert outcome.code == 2
    assert outcome.err.startswith(f"attnscope bench: cannot write {where}: ")
    assert outcome.err.count("\n") == 1
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    "options",
    [
        ("--pattern", "blocks={}:8"),
        ("--pattern", "causal,blocks={}:8,sink=1"),
        ("--tuning", "{}"),
        ("--resume", "--out", "{}"),
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_what_is_no_file_is_refused_before_it_is_opened(bench, tmp_path, options, kind, more):
    """Guards inputs that would be waited for: nobody writes into this pipe."""
    path = tmp_path / "input"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    outcome = bench("--n", "32", *(option.format(path) for option in options), *more)
    assert outcome.code == 2 and outcome.out == "" and outcome.err.count("\n") == 1, outcome
    assert str(path) in outcome.err and (
        "not a regular file" in outcome.err or "is a directory" in outcome.err
    )


def test_one_file_for_two_outputs(bench, tmp_path):
    """Guards that one file of results does not overwrite the other, by whatever path it is named."""
    (tmp_path / "r.json").write_text("kept")
    (tmp_path / "link.json").symlink_to("r.json")
    for other in ("r.json", "./r.json", "link.json"):
        outcome = bench("--n", "16", "--out", "r.json", f"--benchmark_out={other}", cwd=tmp_path)
        assert outcome.code == 2 and outcome.err.endswith("named for two outputs\n"), outcome
        assert outcome.err.count("\n") == 1
    assert (tmp_path / "r.json").read_text() == "kept"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.json", "r.json"]


def test_an_option_that_the_library_refuses_leaves_no_file(bench, tmp_path):
    """Guards the library's own way out: it ends the program once it has seen a value that it does not know."""
    outcome = bench("--n", "16", f"--benchmark_out={tmp_path / 'o'}", "--benchmark_out_format=xml")
    assert outcome.code == 2
    assert not list(tmp_path.iterdir())


def test_ids_tell_settings_apart(bench):
    """Guards that rows of two softcaps never share an id: its text reads back as the same float32, and is short."""
    rng = random.Random(5)
    floats = [struct.unpack("f", struct.pack("I", bits))[0] for bits in (1, 0x00800000, 0x7F7FFFFF)]
    floats += [struct.unpack("f", struct.pack("I", rng.randrange(1, 0x7F800000)))[0] for _ in range(20)]
    given = {"30": "30", "30.00001": "30.00001", "0.1": "0.1", "50.0": "50", "1e9": "1e+09", "16777217": None}
    for text, short in (given | {f"{value:.17g}": None for value in floats}).items():
        outcome = bench("--n", "16", "--isa", "scalar", "--softcap", text, "--benchmark_list_tests=true")
        (cap,) = {line.split("/cap")[1] for line in outcome.out.splitlines()}
        assert struct.pack("f", float(cap)) == struct.pack("f", float(text)), (text, cap)
        assert short is None or cap == short


@pytest.mark.parametrize("more", [(), ("--budget", "100"), ("--stages",)])
def test_a_dry_run_refuses_what_the_run_refuses(bench, tmp_path, more):
    """Guards that rows which need more memory than there is are refused at once, by dry run and run alike, and
    that those which fit are measured."""
    path = tmp_path / "r.json"
    arguments = ("--n", "32,10000000", "--algorithm", "naive", *more)  # its scores: 4e5 GB
    dry = bench(*arguments, "--dry-run")
    refused = {line.split()[-1] for line in dry.out.splitlines() if re.match(r" +- +- +", line)}
    assert refused and all("/nq10000000/" in row for row in refused)
    rows = "1 row" if len(refused) == 1 else f"{len(refused)} rows"
    assert dry.code == 4 and f"\n{rows}, 0 left out, {len(refused)} refused" in dry.out
    assert "GB of memory" in dry.out
    run = bench(*arguments, "--no-roofline", "--benchmark_min_time=0.002", "--out", path)
    rows = json.loads(path.read_text())["benchmarks"]
    assert run.code == 4
    assert {row["id"] for row in rows if "error_message" in row} == refused
    assert {row["id"] for row in rows if "samples_ns" in row} == {
        r.replace("10000000", "32") for r in refused
    }
    for measure in (("--dry-run",), ("--no-roofline", "--out", tmp_path / "none.json")):
        alone = bench("--n", "10000000", "--algorithm", "naive", *more, *measure)
        assert alone.code == 2 and alone.out == "" and alone.err.count("\n") == 1, alone
        assert "GB of memory" in alone.err and ("as all rows are" in alone.err) == (len(refused) > 1)
        assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize(
    ("sizes", "options", "code"),
    [
        ("64", (), 0),
        ("64", ("--max-call", "1e-9"), 4),  # left out
        ("64", ("--algorithm", "flash", "--pattern", "topk=4"), 2),  # refused by the library
        ("10000000", ("--algorithm", "naive"), 2),  # for its memory
        ("10000000", ("--algorithm", "naive", "--algorithm", "flash", "--pattern", "topk=4"), 2),  # for both
        ("64", ("--algorithm", "naive", "--algorithm", "flash", "--pattern", "topk=4"), 4),
        ("64,10000000", ("--algorithm", "naive"), 4),
        ("64,10000000", ("--algorithm", "naive", "--max-call", "1e-9"), 4),
    ],
)
def test_a_dry_run_exits_as_the_run(bench, sizes, options, code):
    """Guards one rule for rows without a time, whatever they lack and whoever asks: 2 where all are refused, 4
    beside others or where none is left. The reason is told either way."""
    for measure in (("--dry-run",), ("--no-roofline", "--benchmark_min_time=1x")):
        outcome = bench("--isa", "scalar", "--n", sizes, *options, *measure)
        assert outcome.code == code, outcome
        assert code == 0 or re.search("left out|refused|no result for", outcome.out + outcome.err)


@pytest.mark.parametrize(
    ("option", "form", "most"),
    [("--out", "json", 4096)]
    + [("--benchmark_out", f, m) for f in ("json", "csv", "console") for m in (0, 200)],
)
def test_full_disk(bench, tmp_path, option, form, most):
    """Guards that a disk that fills up while results are written, ours or the library's, in any of its forms, is an
    error and leaves no part of a file."""

    def small_files_only():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it; a shell's programs do not
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    path = tmp_path / "r.json"
    rows = ("--no-roofline", "--isa", "scalar", "--n", "16", "--benchmark_min_time=0.002")
    outcome = bench(*rows, f"--benchmark_out_format={form}", f"{option}={path}", preexec_fn=small_files_only)
    assert outcome.code == 2, outcome
    assert f"cannot write {path}: " in outcome.err and outcome.err.count("cannot write") == 1
    assert option != "--out" or f"{path}: File too large\n" in outcome.err
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_survives_a_failure(bench, tmp_path):
    """Guards that results are replaced by whole ones or not at all."""
    path = tmp_path / "r.json"
    path.write_text("old")
    assert bench("--n", "0", "--out", path).code == 2
    assert path.read_text() == "old"


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
    for more in ((), ("--isa", "auto"), ("--isa", "scalar", "--isa", "auto"), ("--kernel", "exp")):
        outcome = bench("--n", "16", *more, env={"ATTNSCOPE_ISA": "avx9"})
        assert outcome.code == 2 and outcome.err.count("\n") == 1, outcome
        assert "ATTNSCOPE_ISA" in outcome.err and "avx9" in outcome.err
    listed = bench("--list-presets", env={"ATTNSCOPE_ISA": "avx9"})
    assert listed.code == 0 and "gpt2" in listed.out


@pytest.mark.parametrize(
    "rows", [("--pattern", "dense"), ("--stages",), ("--kernel", "exp"), ("--preset", "gpt2"), ()]
)
def test_environment_override_that_decides_nothing(bench, rows):
    """Guards that rows whose level is given run whatever ATTNSCOPE_ISA says, as with the other subcommands."""
    for more in (("--dry-run",), ("--no-roofline", "--benchmark_min_time=1x")):
        outcome = bench("--n", "16", "--isa", "scalar", *rows, *more, env={"ATTNSCOPE_ISA": "avx9"})
        assert outcome.code == 0 and "ATTNSCOPE_ISA" not in outcome.err, outcome


def test_full_standard_output_is_an_error_but_keeps_the_results(tmp_path):
    """Guards that a table that cannot be written is told, and that the file is kept all the same."""
    from conftest import QUICK, environment, program

    path = tmp_path / "r.json"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [program(), "bench", *QUICK, "--n", "16", "--pattern", "causal", "--out", str(path)],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2
    assert "standard output" in done.stderr
    assert path.exists()


@pytest.mark.parametrize("more", [("--n", "64"), ("--n", "64", "--dry-run"), ("--n", "64,128")])
def test_all_rows_refused_is_a_usage_error(bench, tmp_path, more):
    """Guards that what `eval` refuses with 2 is no failed measurement here, and leaves no file. Refused beside
    rows that are measured it is one: test_what_is_refused_is_a_row_without_a_time."""
    options = ("--pattern", "topk=4", "--algorithm", "flash", *more)
    outcome = bench(*options, "--out", tmp_path / "r.json")
    assert outcome.code == 2 and "topk" in outcome.err and outcome.err.count("\n") == 1
    assert not outcome.out and not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--out", "--benchmark_out="])
def test_block_map_is_not_replaced(bench, tmp_path, option):
    """A file that a pattern reads is an input, which no output replaces."""
    path = tmp_path / "map.npy"
    np.save(path, np.ones((4, 4), bool))
    before = path.read_bytes()
    out = (f"{option}{path}",) if option.endswith("=") else (option, path)
    done = bench("--no-roofline", "--pattern", f"blocks={path}:16", "--n", "64", *out)
    assert done.code == 2 and "named as an input and as an output" in done.err
    assert path.read_bytes() == before
