"""The suite `coverage`: what counts as executed, and which lines need a reason. Reports are gcov's, cut down."""

import json
import os
from collections import defaultdict

import pytest
from testrunner import coverage
from testrunner.builds import Build
from testrunner.commands import Commands
from testrunner.results import FAILED, PASSED, SKIPPED, Case

SCALAR = "build/kernels/libkernels_scalar.a.p/scalar.c.gcda"
AVX2 = "build/kernels/libkernels_avx2.a.p/avx2.c.gcda"
ATTENTION = "build/attention/libattnscope_static.a.p/look.c.gcda"
HERE = {"scalar": "", "avx2": "", "avx512": "the CPU lacks it"}


@pytest.fixture
def judged(tmp_path):
    """Cases and table for sources (name -> text) and reports (object -> {file: {line: count}})."""

    def run(sources, reports, levels=HERE):
        for name, text in sources.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        parts = defaultdict(coverage.Part)
        for place, files in reports:
            report = {
                "format_version": "1",
                "current_working_directory": str(tmp_path / "build"),
                "files": [
                    {
                        "file": f"../{file}",
                        "lines": [
                            {"line_number": n, "count": count, "branches": [], "unexecuted_block": not count}
                            for n, count in lines.items()
                        ],
                    }
                    for file, lines in files.items()
                ],
            }
            coverage.add_report(parts, report, place, tmp_path)
        cases, table = coverage.judge(parts, levels, tmp_path)
        return {case.name.removeprefix("coverage of "): case for case in cases}, table

    return run


def one_file(judged, text, lines):
    return judged({"attention/look.c": text}, [(ATTENTION, {"attention/look.c": lines})])[0][
        "attention/look.c"
    ]


# Guards the two plain outcomes.
def test_executed_and_not(judged):
    assert one_file(judged, "a();\nb();\n", {1: 3, 2: 1}).status == PASSED
    case = one_file(judged, "a();\nb();\n", {1: 3, 2: 0})
    assert (case.status, "line 2 is not executed" in case.reason) == (FAILED, True)


# Guards each form of an explanation: for exactly the lines that it is about, and not without a reason.
@pytest.mark.parametrize(
    ("text", "explained"),
    [
        ("a(); /* GCOV_EXCL_LINE: no such CPU */\nb();", {1: "no such CPU"}),
        ("/* GCOV_EXCL_LINE: no such CPU */\na();\nb();", {2: "no such CPU"}),
        ("/* GCOV_EXCL_LINE: no such CPU\n * today */\na();\nb();", {3: "no such CPU"}),
        ("/* Long before.\n * GCOV_EXCL_LINE: why */\n\na();\nb();", {4: "why"}),
        ("x(); /* GCOV_EXCL_START: why */\na();\nb();\n/* GCOV_EXCL_STOP */\nc();", {2: "why", 3: "why"}),
        ("a(); /* GCOV_EXCL_LINE */\nb();", {1: ""}),
        ("a(); /* GCOV_EXCL_LINE: */\nb();", {1: ""}),
        ("a(); /* no mark */", {}),
    ],
)
def test_explanations(text, explained):
    assert coverage.explained_lines(text) == explained


# Guards that a reason is enough, that a mark without one is not, and that it must not outlive its fault.
@pytest.mark.parametrize(
    ("mark", "count", "status"),
    [("", 0, FAILED), (": why", 0, PASSED), ("", 1, FAILED), (": why", 1, FAILED)],
)
def test_explained_line(judged, mark, count, status):
    text = f"a(); /* GCOV_EXCL_LINE{mark} */\n"
    assert one_file(judged, text, {1: count}).status == status


# Guards that a level's line is not covered by another level that executes it.
def test_each_level_counts(judged):
    text = {"kernels/x_tmpl.h": "a();\nb();\n"}
    cases, table = judged(
        text, [(SCALAR, {"kernels/x_tmpl.h": {1: 1, 2: 0}}), (AVX2, {"kernels/x_tmpl.h": {1: 5, 2: 5}})]
    )
    assert cases["kernels/x_tmpl.h"].status == FAILED
    assert any("1 of     2" in line and "scalar" in line for line in table)
    text = {"kernels/x_tmpl.h": "a(); /* GCOV_EXCL_LINE: scalar never does */\n"}
    for scalar in 0, 1:  # at which level a compiler counts a line that is folded is its own affair
        reports = [(SCALAR, {"kernels/x_tmpl.h": {1: scalar}}), (AVX2, {"kernels/x_tmpl.h": {1: 5}})]
        assert judged(text, reports)[0]["kernels/x_tmpl.h"].status == PASSED


# Guards that objects of one part add up: a header's line is executed if any of them executes it.
def test_objects_of_a_part_add_up(judged):
    header = {"attention/internal.h": "a();\n"}
    other = ATTENTION.replace("look", "flash")
    for counts, status in [((0, 1), PASSED), ((1, 0), PASSED), ((0, 0), FAILED)]:
        reports = zip((ATTENTION, other), ({"attention/internal.h": {1: n}} for n in counts), strict=True)
        assert judged(header, reports)[0]["attention/internal.h"].status == status


# Guards that a level which cannot run is skipped with its reason, and what is not the library's is left out.
def test_other_levels_and_directories(judged):
    sources = {"kernels/x_tmpl.h": "a();\n", "tests/t.c": "a();\n"}
    place = AVX2.replace("avx2", "avx512")
    cases, _ = judged(sources, [(place, {"kernels/x_tmpl.h": {1: 0}}), ("t.gcda", {"tests/t.c": {1: 0}})])
    assert [(case.status, case.reason) for case in cases.values()] == [(SKIPPED, "the CPU lacks it")]


# Guards against tests that the suite skips without a word: what the C tests skip here is among its cases.
def test_skipped_tests_are_named(monkeypatch, tmp_path):
    object_file = tmp_path / "attention" / "x.gcda"
    object_file.parent.mkdir()
    object_file.write_text("")
    (tmp_path / "attention" / "x.c").write_text("a();\n")
    line = {"line_number": 1, "count": 1}
    report = {
        "current_working_directory": str(tmp_path),
        "files": [{"file": "attention/x.c", "lines": [line]}],
    }
    (tmp_path / "gcov").write_text(f"#!/bin/sh\necho '{json.dumps(report)}'\n")
    (tmp_path / "gcov").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    tests = [Case("a [avx512]", SKIPPED, "the CPU lacks it"), Case("a [scalar]", PASSED)]

    def made(self, commands):
        object_file.write_text("")

    def ran(self, commands, **more):
        object_file.write_text("")  # removed before the run, written by it
        return list(tests)

    monkeypatch.setattr(Build, "make", made)
    monkeypatch.setattr(Build, "test", ran)
    monkeypatch.setattr(coverage, "COVERAGE", Build(tmp_path, ("gcc", "g++"), ()))
    monkeypatch.setattr(coverage, "ROOT", tmp_path)
    monkeypatch.setattr(coverage, "levels_here", lambda commands: HERE)
    cases = coverage.run_coverage(Commands(tmp_path, tmp_path / "log", 60))
    assert cases == [*tests, Case("coverage of attention/x.c", PASSED)]
