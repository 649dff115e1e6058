"""The counting of scripts/test.sh: what must count as failed is fed to it and has to come out as failed.

A runner that overlooks a failure makes every other test worthless, so most of these are failures.
"""

import json

import pytest
from testrunner.results import (
    FAILED,
    PASSED,
    SKIPPED,
    Case,
    SuiteResult,
    closing_lines,
    parse_tap,
    read_junit,
    read_meson_log,
    unrun_levels,
)


def statuses(cases):
    return [case.status for case in cases]


def meson_log(tmp_path, *entries):
    path = tmp_path / "testlog.json"
    defaults = {"name": "attnscope / dispatch", "stdout": "", "result": "OK", "returncode": 0}
    path.write_text("".join(json.dumps({**defaults, **entry}) + "\n" for entry in entries))
    return path


# Guards the plain case, including the comment lines that cmocka writes for groups.
def test_tap_counts_each_test():
    cases = parse_tap("t", "1..3\nok 1 - a\nok 2 - b\nok 3 - c\n# ok - group\n")
    assert statuses(cases) == [PASSED] * 3
    assert cases[0].name == "t: a"


# Guards against a failed test that is taken for a passed one.
def test_tap_failure_is_failed_and_says_why():
    cases = parse_tap("t", "1..2\nok 1 - a\n# b.c:7: 1 != 2\nnot ok 2 - b\n")
    assert statuses(cases) == [PASSED, FAILED]
    assert "1 != 2" in cases[1].reason


# Guards the forms of a skip: with a reason after it, before it, and as cmocka 1.1.5 writes it.
@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("1..1\nok 1 - a # SKIP no avx512 here\n", "t: a", "no avx512 here"),
        ("1..1\nok 1 - a # skip: no avx512\n", "t: a", "no avx512"),
        ("1..1\n# no avx512 here\nnot ok 1 # SKIP a\n", "t: a", "no avx512 here"),
        ("1..1\nok 1 # SKIP a\n", "t: a", "no reason given"),
        ("1..0 # no cmocka\n", "t", "no cmocka"),
    ],
)
def test_tap_skips(text, name, reason):
    assert parse_tap("t", text) == [Case(name, SKIPPED, reason)]


# Guards against a program that dies after its last report, before its first, or promises more.
@pytest.mark.parametrize(
    "text",
    ["1..3\nok 1 - a\n", "ok 1 - a\n", "1..1\nok 1 - a\nok 2 - b\n", "1..1\nok 1 - a\nBail out! gone\n"],
)
def test_tap_cut_short_is_failed(text):
    assert FAILED in statuses(parse_tap("t", text))


# Guards two groups in one program, each with its plan.
def test_tap_two_groups():
    assert statuses(parse_tap("t", "1..1\nok 1 - a\n1..2\nok 1 - b\nok 2 - c\n")) == [PASSED] * 3


# Guards the ways a program fails that its TAP lines do not show.
@pytest.mark.parametrize(
    "entry",
    [
        {"stdout": "1..1\nok 1 - a\n", "result": "ERROR", "returncode": -11},
        {"stdout": "1..1\nok 1 - a\n", "result": "FAIL", "returncode": 1},
        {"stdout": "1..1\nok 1 - a\n", "result": "TIMEOUT", "returncode": -9},
        {"stdout": "1..1\nok 1 - a\n", "stderr": "x.c:3:1: runtime error: null pointer passed\n"},
        {"result": "FAIL", "returncode": 1},
        {"result": "ERROR", "returncode": 127},
        {"result": "UNEXPECTEDPASS"},
        {"result": "TIMEOUT", "returncode": -9},
        {"result": "INTERRUPT", "returncode": -2},
    ],
)
def test_meson_failures(tmp_path, entry):
    assert statuses(read_meson_log(meson_log(tmp_path, entry))).count(FAILED) == 1


# Guards that a sanitizer's finding is named, not only the exit status it led to.
def test_sanitizer_finding_is_named(tmp_path):
    found = "==1==ERROR: LeakSanitizer: detected memory leaks"
    entry = {"stdout": "1..1\nok 1 - a\n", "stderr": f"\n{found}\nmore\n", "result": "ERROR", "returncode": 1}
    cases = read_meson_log(meson_log(tmp_path, entry))
    assert cases[-1].status == FAILED
    assert found in cases[-1].reason


# Guards the name, the prefix and the count of programs with and without TAP.
def test_meson_log(tmp_path):
    tap = {"name": "attnscope:unit / plan", "stdout": "1..2\nok 1 - a\nok 2 - b # SKIP why\n"}
    cases = read_meson_log(meson_log(tmp_path, tap, {"name": "header"}), prefix="max: ")
    assert cases == [
        Case("max: plan: a", PASSED),
        Case("max: plan: b", SKIPPED, "why"),
        Case("max: header", PASSED),
    ]


# Guards that a skipped program keeps the reason it printed.
def test_meson_skip_has_its_reason(tmp_path):
    entry = {"result": "SKIP", "returncode": 77, "stdout": "needs two CPUs\n"}
    assert read_meson_log(meson_log(tmp_path, entry)) == [Case("dispatch", SKIPPED, "needs two CPUs")]


# Guards the four outcomes of pytest; an error while collecting is a failure.
def test_junit(tmp_path):
    path = tmp_path / "junit.xml"
    path.write_text(
        "<testsuites><testsuite>"
        '<testcase classname="tests.cli.test_eval" name="good"/>'
        '<testcase classname="tests.cli.test_eval" name="bad"><failure message="assert 1&#10;more"/></testcase>'
        '<testcase classname="" name="tests.cli.broken"><error message="import"/></testcase>'
        '<testcase classname="tests.cli.test_eval" name="no"><skipped message="no avx512"/></testcase>'
        "</testsuite></testsuites>"
    )
    assert read_junit(path) == [
        Case("cli.test_eval: good", PASSED),
        Case("cli.test_eval: bad", FAILED, "assert 1"),
        Case("tests.cli.broken", FAILED, "import"),
        Case("cli.test_eval: no", SKIPPED, "no avx512"),
    ]


# Guards against suites that prove nothing: none of its tests ran, or all were skipped.
@pytest.mark.parametrize("cases", [[], [Case("a", SKIPPED, "why")]])
def test_suite_without_a_run_is_failed(cases):
    result = SuiteResult("s", cases=list(cases))
    result.finish()
    assert result.count(FAILED) == 1


# Guards that a suite which cannot run on a machine is a skip and not a failure.
def test_impossible_suite_is_skipped():
    result = SuiteResult("arm", cases=[Case("all of it", SKIPPED, "why")], possible=False)
    result.finish()
    assert (result.count(FAILED), result.count(SKIPPED)) == (0, 1)


# Guards the closing lines: reasons, logs and the counts, which stand last.
def test_closing_lines(tmp_path):
    results = [
        SuiteResult("gcc", cases=[Case("a", PASSED), Case("b", SKIPPED, "why"), Case("c", SKIPPED, "why")]),
        SuiteResult("asan", log=tmp_path / "asan.log", cases=[Case("d", FAILED, "leak")]),
    ]
    assert closing_lines(results) == [
        "skipped:",
        "  gcc: why: b, c",
        "failed:",
        "  asan: d: leak",
        f"    log: {tmp_path}/asan.log",
        "1 passed, 1 failed, 2 skipped",
    ]


# Guards the count of tests by level: what ran, by suite, native apart from emulated. Skips and the
# parameters of Python tests, which end alike, are not in it.
def test_level_lines():
    def ran(*names):
        return [Case(f"k: {name}", PASSED) for name in names]

    results = [
        SuiteResult(
            "gcc", cases=[*ran("a [avx2]", "b [avx2]", "c"), Case("k: a [avx512]", SKIPPED, "lacks it")]
        ),
        SuiteResult(
            "clang", cases=[Case("k: a [avx2]", FAILED, "x"), Case("dispatch: test_flags[avx512]", PASSED)]
        ),
        SuiteResult("avx512", emulator="Bochs", cases=ran("a [avx512]")),
        SuiteResult("oldcpu", emulator="qemu", cases=ran("a [avx2]")),
    ]
    lines = closing_lines(results, ["scalar", "avx2", "avx512"])
    at = lines.index("tests of each level that ran:")
    assert lines[at + 1 : -1] == [
        "  scalar  NOWHERE",
        "  avx2    native 3 (gcc 2, clang 1); emulated by qemu 1 (oldcpu 1)",
        "  avx512  emulated by Bochs 1 (avx512 1)",
    ]


# Guards a level that nothing ran: named, and a failure unless the suite that is there for it cannot run here, which
# is then the reason that is shown. Another suite that cannot run has nothing to do with it.
def test_levels_that_ran_nowhere():
    results = [
        SuiteResult("gcc", cases=[Case("k: a [avx2]", PASSED), Case("k: a [neon]", SKIPPED, "lacks it")])
    ]
    failed = [Case("neon", FAILED, "no suite ran a test of this level")]
    assert unrun_levels(results, ["avx2", "neon"]) == failed
    assert unrun_levels(results, ["avx2"]) == []
    results.append(SuiteResult("page", cases=[Case("all of it", SKIPPED, "no browser")], possible=False))
    assert unrun_levels(results, ["avx2", "neon"]) == failed
    assert "  neon    NOWHERE" in closing_lines(results, ["avx2", "neon"])
    needs = [Case("all of it", SKIPPED, "needs a thing")]
    results.append(SuiteResult("arm", cases=needs, possible=False, levels=("scalar", "neon")))
    assert unrun_levels(results, ["avx2", "neon"]) == []
    assert "  neon    NOWHERE (left out: arm: needs a thing)" in closing_lines(results, ["avx2", "neon"])
    assert unrun_levels(results, ["avx512"]) == [Case("avx512", FAILED, "no suite ran a test of this level")]


# Guards what the above rests on: a suite that is there for a level and did not run it has failed.
def test_suite_that_leaves_its_level_out_is_failed():
    for case, status in {
        Case("k: a [neon]", PASSED): [PASSED],
        Case("k: a [neon]", SKIPPED, "why"): [SKIPPED, FAILED],
        Case("k: a [scalar]", PASSED): [PASSED, FAILED],
        Case("build", FAILED): [FAILED],
    }.items():
        result = SuiteResult("arm", cases=[case], levels=("neon",))
        result.finish()
        assert statuses(result.cases) == status, case
    result = SuiteResult("arm", cases=[Case("all", SKIPPED, "why")], levels=("neon",), possible=False)
    result.finish()
    assert statuses(result.cases) == [SKIPPED]
