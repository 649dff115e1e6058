"""The suites under sanitizers and valgrind: what counts as a fault that was seen, and what they run."""

import re

import pytest
from testrunner import checked, fuzz
from testrunner.commands import CommandError, Commands
from testrunner.results import FAILED, PASSED
from testrunner.suites import ROOT


@pytest.fixture
def outcome(tmp_path):
    """Status of the one fault "x", and of "none", for a program that is this shell script."""

    def run(script):
        program = tmp_path / "provoke"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        commands = Commands(ROOT, tmp_path / "log", 60)
        commands.log.write_text("said before: BAD THING\n")  # of another run: must not count
        cases = checked.provoke(commands, program, {"x": "BAD THING"}, {})
        assert [case.name for case in cases] == ["provoke: none", "provoke: x"]
        return {case.name.removeprefix("provoke: "): case for case in cases}

    return run


SEEN = 'test "$1" = none || { echo "==1== BAD THING" >&2; exit 99; }'


# Guards the one good outcome, so that the bad ones below differ from it by what they say.
def test_reported_fault_passes(outcome):
    assert {case.status for case in outcome(SEEN).values()} == {PASSED}


# Guards against a tool that is not there, one that reports but lets go, a crash for another reason, and a
# program that refuses its argument.
@pytest.mark.parametrize(
    "script",
    [
        "exit 0",
        'test "$1" = none || echo "BAD THING"',
        'test "$1" = none || exit 99',
        'test "$1" = none || { echo "BAD THING"; exit 2; }',
        'test "$1" = none || kill -SEGV $$',
    ],
)
def test_unreported_fault_fails(outcome, script):
    cases = outcome(script)
    assert (cases["none"].status, cases["x"].status) == (PASSED, FAILED)


# Guards against a tool that reports always: then the fault's report proves nothing.
def test_report_without_a_fault_fails(outcome):
    assert outcome("echo BAD THING; exit 99")["none"].status == FAILED


# Guards that every fault of tests/provoke.c is one that some suite requires, and no suite asks for another.
def test_faults_are_those_of_the_program():
    usage = re.search(r"provoke none \| ([\w |]+) \*/", (ROOT / "tests" / "provoke.c").read_text())
    offered = set(usage[1].split(" | "))
    suites = checked.ASAN_FAULTS, checked.TSAN_FAULTS, checked.MSAN_FAULTS, checked.VALGRIND_FAULTS
    asked = {fault for faults in suites for fault in faults}
    assert offered == asked


# Guards against a skip for a reason that is none: only clang's own words for what it lacks, and a run time's for the
# address layout, leave a suite out; a full disk and whatever else happens fail it, with their words.
@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("clang: error: unsupported option '-fsanitize=memory' for target 'riscv64'", "clang has no"),
        ("ld: cannot find /lib/clang/14/lib/linux/libclang_rt.msan-x86_64.a: No such file or directory", "clang has no"),
        ("ld.lld: error: cannot open /x/libclang_rt.msan.a: No such file or directory", "clang has no"),
        ("fatal error: error in backend: IO failure on output stream: No space left on device", CommandError),
        ("clang: error: unable to make temporary file: No space left on device", CommandError),
        ("clang: error: no such file or directory: '/tmp/a'", CommandError),
        ("clang: error: unable to execute command: Killed", CommandError),
        ("", CommandError),
    ],
)  # fmt: skip
def test_only_a_missing_sanitizer_is_a_skip(tmp_path, monkeypatch, said, outcome):
    (tmp_path / "clang").write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    (tmp_path / "clang").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    functions = {"memory": lambda: checked.lacks_sanitizer("memory"), "fuzzer": fuzz.impossible}
    for option, function in functions.items():
        if outcome is CommandError:
            with pytest.raises(CommandError, match=re.escape(f"fsanitize={option}: {said}")):
                function()
        else:
            assert outcome in function()


# Guards the same of the program that clang made.
@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("exit 0", ""),
        (
            "echo 'FATAL: ThreadSanitizer: unexpected memory mapping 0x5566-0x5577' >&2; exit 66",
            "does not start",
        ),
        ("echo 'No space left on device' >&2; exit 1", CommandError),
        ("kill -KILL $$", CommandError),
    ],
)
def test_program_that_does_not_start(tmp_path, monkeypatch, script, outcome):
    (tmp_path / "clang").write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n'
        f'cat > "$2" <<\'END\'\n#!/bin/sh\n{script}\nEND\nchmod +x "$2"\n'
    )
    (tmp_path / "clang").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if outcome is CommandError:
        with pytest.raises(CommandError, match="exit status"):
            checked.lacks_sanitizer("thread")
    else:
        assert outcome in checked.lacks_sanitizer("thread")
        assert bool(outcome) == bool(checked.lacks_sanitizer("thread"))


def names_of_tests():
    return {path.stem.removeprefix("test_") for path in (ROOT / "tests").glob("test_*.c")}


# Guards the lists of tests: what is named exists, and what starts threads of its own is under the thread sanitizer.
def test_listed_tests_exist():
    corpora = {f"fuzz_{path.name}" for path in (ROOT / "tests" / "fuzz" / "corpus").iterdir()}
    assert set(checked.THREADED) <= names_of_tests()
    assert set(checked.VALGRIND_TESTS) <= names_of_tests() | corpora


# What starts threads when this argument, counted from 0, is not 1; None: always.
STARTERS = {
    "attn_execute": 3,
    "bench_pool_new": 1,
    "case_execute": 3,
    "edge_execute": 3,
    "pthread_create": None,
    "roofline_measure": 1,
}
# Hand over numbers of threads, and start none; or cannot run under the thread sanitizer.
NOT_THREADED = {
    "problem": "its numbers of threads are refused before any starts",
    "fork": "the sanitizer ends a child that is forked from several threads",
    "memory": "its allocators stand before the sanitizer's own",
}


def calls(text, function):
    """The arguments of each call (or declaration) of a function in C source, as they are written."""
    for match in re.finditer(rf"\b{function}\(", text):
        arguments, depth = [""], 1
        for character in text[match.end() :]:
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
            if depth == 0:
                break
            if character == "," and depth == 1:
                arguments.append("")
            else:
                arguments[-1] += character
        yield [argument.strip() for argument in arguments]


def thread_arguments(text):
    """What each call in C source that may start threads says of their number; "more" where it always does."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return {
        "more" if at is None else arguments[at]
        for function, at in STARTERS.items()
        for arguments in calls(text, function)
    }


# Guards the search: arguments that are calls themselves, or go over several lines, are one argument.
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("case_execute(c, name(k, 2), a[1, 2],\n    1);", {"1"}),
        ("assert(attn_execute(plan, &t, NULL, 1 + (int)(n % 3), NULL) == 0);", {"1 + (int)(n % 3)"}),
        ("pthread_create(&t, NULL, call, NULL);", {"more"}),
        (
            "/* attn_execute(p, t, w, 2, e) */ my_case_execute(c, 0, 0, 2); attn_execute_part(p, t, w, 0, 2);",
            set(),
        ),
    ],
)
def test_thread_arguments_are_found(source, expected):
    assert thread_arguments(source) == expected


def test_threaded_tests_are_listed():
    found = {
        name: thread_arguments((ROOT / "tests" / f"test_{name}.c").read_text()) for name in names_of_tests()
    }
    starts = {name for name, arguments in found.items() if arguments - {"1"}}
    assert set(NOT_THREADED) <= starts
    assert starts - set(NOT_THREADED) == set(checked.THREADED)


# Guards the search against what it cannot see: a helper that several tests share starts threads only when
# its caller says so, through an argument that the search looks at.
def test_shared_helpers_start_no_threads_of_their_own():
    shared = [
        path for path in (ROOT / "tests").glob("*.[ch]") if not path.name.startswith(("test_", "provoke"))
    ]
    assert shared
    for path in shared:
        assert thread_arguments(path.read_text()) <= {"1", "threads", "int threads"}, path.name


# Guards that each line of the ignore list has its reason above it.
def test_ignored_functions_have_reasons():
    lines = (ROOT / "scripts" / "testrunner" / "msan.ignore").read_text().splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        assert not line or line.startswith("#") or before.startswith("#"), line
