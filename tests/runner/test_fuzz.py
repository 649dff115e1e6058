"""The suite `fuzz`: what is made of a fuzzer's exit status and output. Fuzzers are shell scripts here."""

import os

import pytest
from testrunner import builds, fuzz
from testrunner.commands import CommandError, Commands
from testrunner.results import FAILED, PASSED
from testrunner.suites import ROOT

GOOD = "echo 'stat::number_of_executed_units: 500'"
CRASH = """for word; do case $word in -artifact_prefix=*) prefix=${word#*=};; esac; done
echo 'tests/fuzz/fuzz_bad.c:7: failed: sum == 3' >&2
echo '==1== ERROR: libFuzzer: deadly signal'
echo x > "${prefix}crash-1"
echo "artifact_prefix='$prefix'; Test unit written to ${prefix}crash-1"
exit 77"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Runs targets, given as name -> script (None: not built), with two files each in their corpora."""
    monkeypatch.setenv("ATTNSCOPE_FUZZ_SECONDS", "1")
    monkeypatch.setattr(fuzz, "SEED", "77")

    def run(scripts):
        programs = tmp_path / "programs"
        programs.mkdir()
        for name, script in scripts.items():
            corpus = tmp_path / "corpus" / name
            corpus.mkdir(parents=True)
            (corpus / "one").write_text("1")
            (corpus / "two").write_text("2")
            if script is not None:
                program = programs / f"fuzz_{name}"
                program.write_text(f"#!/bin/sh\n{script}\n")
                program.chmod(0o755)
        commands = Commands(ROOT, tmp_path / "fuzz.log", 60)
        cases = fuzz.run_targets(commands, programs, tmp_path)
        assert "seed 77" in commands.log.read_text()
        return {case.name: case for case in cases}

    return run


# Guards that each target counts once, and that a crash names what failed, the seed and the kept input.
def test_crash_is_a_failure_with_its_input(suite, tmp_path):
    cases = suite({"good": GOOD, "bad": CRASH})
    assert cases["good"].status == PASSED
    assert cases["bad"].status == FAILED
    assert "failed: sum == 3" in cases["bad"].reason and "seed 77" in cases["bad"].reason
    kept = tmp_path / "fuzz-bad-crash-1"
    assert str(kept) in cases["bad"].reason and kept.read_text() == "x\n"


# Guards against a fuzzer that ends well without having run, and one that was never built.
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("true", "ran none of the 2 inputs"),
        ("echo 'stat::number_of_executed_units: 1'", "ran 1 of the 2 inputs"),
        (None, "was not built"),
    ],
)
def test_target_that_does_nothing_fails(suite, script, reason):
    case = suite({"idle": script})["idle"]
    assert case.status == FAILED and reason in case.reason


# Guards that other ends than a failed check are named: a sanitizer's report, a limit of libFuzzer, a signal.
@pytest.mark.parametrize(
    ("status", "log", "reason"),
    [
        (77, "a.c:3:4: runtime error: signed integer overflow\nSUMMARY: x", "signed integer overflow"),
        (1, "==9==ERROR: AddressSanitizer: heap-buffer-overflow\nSUMMARY: y", "heap-buffer-overflow"),
        (70, "==9== ERROR: libFuzzer: timeout after 20 seconds", "timeout after 20 seconds"),
        (-9, "", "exit status -9"),
        (-1, "", "did not end in time"),
    ],
)
def test_reasons(status, log, reason):
    case = fuzz.judge("a", status, log, 1, 5)
    assert case.status == FAILED and reason in case.reason


# Guards that a wrong setting is refused instead of fuzzing for some other time or from another seed.
@pytest.mark.parametrize("seconds", ["0", "ten"])
def test_wrong_seconds(monkeypatch, suite, seconds):
    monkeypatch.setenv("ATTNSCOPE_FUZZ_SECONDS", seconds)
    with pytest.raises(CommandError, match="ATTNSCOPE_FUZZ_SECONDS"):
        suite({"good": GOOD})


def test_wrong_seed(monkeypatch, suite):
    monkeypatch.setattr(fuzz, "SEED", "x")
    with pytest.raises(CommandError, match="ATTNSCOPE_TEST_SEED"):
        suite({"good": GOOD})


# Guards that the seed which the run prints is the fuzzers', as far as libFuzzer takes it.
def test_seed():
    assert fuzz.SEED == builds.SEED
    assert fuzz.fuzzer_seed(builds.SEED) == (int(builds.SEED) % 2**32 or 1)
    assert fuzz.fuzzer_seed("4294967295") == 4294967295
    assert fuzz.fuzzer_seed("4294967298") == 2
    assert fuzz.fuzzer_seed("0") == 1  # 0 would let libFuzzer choose
    assert fuzz.fuzzer_seed("007") == 7  # as in the C tests


# Guards the suite's limit: no target is let run beyond it, and it is longer by what was asked for beside it.
@pytest.mark.parametrize(("seconds", "more"), [("1", 0), ("10", 0), ("600", 2 * 590)])
def test_targets_end_with_the_suite(monkeypatch, tmp_path, seconds, more):
    ends = []

    def run(self, arguments, env=None, cwd=None):
        ends.append(self.deadline)
        return -1

    monkeypatch.setenv("ATTNSCOPE_FUZZ_SECONDS", seconds)
    monkeypatch.setattr(fuzz, "FULL", False)
    monkeypatch.setattr(Commands, "run", run)
    for name in "abc":
        (tmp_path / "corpus" / name).mkdir(parents=True)
        (tmp_path / f"fuzz_{name}").write_text("")
        (tmp_path / f"fuzz-{name}.log").write_text("")
    commands = Commands(ROOT, tmp_path / "fuzz.log", 60)
    before = commands.deadline
    cases = fuzz.run_targets(commands, tmp_path, tmp_path)
    assert commands.deadline == before + more  # three targets, two at a time
    assert len(ends) == 3 and all(end <= commands.deadline for end in ends)
    assert [case.reason.split(" (")[0] for case in cases] == ["did not end in time"] * 3


# Guards that the corpora in the tree are those of the targets, and that each holds something.
def test_corpora_match_targets():
    source = ROOT / "tests" / "fuzz"
    targets = {path.stem.removeprefix("fuzz_") for path in source.glob("fuzz_*.c")}
    corpora = {path.name for path in (source / "corpus").iterdir()}
    assert targets == corpora and len(targets) >= 6
    for name in targets:
        assert any(os.scandir(source / "corpus" / name))
