"""The suite `coverage`: what counts as executed, and which lines need a reason. Reports are gcov's, cut down."""

import json
import re
import shutil
import subprocess
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
NO_LEVELS = {}


@pytest.fixture
def judged(tmp_path):
    """Cases and table for sources (name -> text) and reports (object -> {file: {line: count}})."""

    def run(sources, reports, levels=HERE, whole=False):
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
        cases, table = coverage.judge(parts, levels, set(sources) if whole else set(), tmp_path)
        return {case.name.removeprefix("coverage of "): case for case in cases}, table

    return run


def one_file(judged, text, lines):
    reports = [(ATTENTION, {"attention/look.c": lines})]
    return judged({"attention/look.c": text}, reports, NO_LEVELS)[0]["attention/look.c"]


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
        ("/* GCOV_EXCL_LINE: why */ a();\nb();", {1: "why"}),
        ("/* Long before.\n * GCOV_EXCL_LINE: why */ a();\nb();", {2: "why"}),
        ("/* GCOV_EXCL_LINE: no such CPU\n * today */\na();\nb();", {3: "no such CPU"}),
        ("/* Long before.\n * GCOV_EXCL_LINE: why */\n\na();\nb();", {4: "why"}),
        ("x(); /* GCOV_EXCL_START: why */\na();\nb();\n/* GCOV_EXCL_STOP */\nc();", {2: "why", 3: "why"}),
        ("a(); /* GCOV_EXCL_LINE */\nb();", {1: ""}),
        ("a(); /* GCOV_EXCL_LINE: */\nb();", {1: ""}),
        ("a(); /* no mark */", {}),
    ],
)
def test_explanations(text, explained):
    assert coverage.explained_lines(text) == (explained, [])


# Guards against a mark that excuses the rest of a file because its end was forgotten, or nothing because it was
# misspelt: in every file of the library, also in one of which no line is counted here.
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a(); /* GCOV_EXCL_START: why */\nb();\n", "line 1: START without a STOP"),
        ("/* GCOV_EXCL_START: why */\na();\n/* GCOV_EXCL_START: why */\nb();\n/* GCOV_EXCL_STOP */\n", "line 3: START inside"),
        ("a();\n/* GCOV_EXCL_STOP */\n", "line 2: STOP without a START"),
        ("/* GCOV_EXCL_START: why */\na(); /* GCOV_EXCL_LINE: why */\n/* GCOV_EXCL_STOP */\n", "line 2: LINE inside"),
        ("/* GCOV_EXCL_LINE: why */\n", "line 1: no line behind it"),
        ("/* GCOV_EXCL_LINE: a */\n/* GCOV_EXCL_LINE: b */\na();\n", "line 1: no line behind it"),
        ("/* GCOV_EXCL_LINE: a */\na(); /* GCOV_EXCL_LINE: b */\nb();\n", "line 1: no line behind it"),
        ("/* GCOV_EXCL_LINE: a */\n/* GCOV_EXCL_START: b */\na();\n/* GCOV_EXCL_STOP */\nb();\n", "line 1: no line behind"),
        ("a(); /* GCOV_EXCL_END: why */\n", "line 1: no such mark: GCOV_EXCL_END"),
        ("a(); /* GCOV_EXCL_BR_LINE: why */\n", "line 1: no such mark: GCOV_EXCL_BR_LINE"),
    ],
)  # fmt: skip
def test_marks_without_counterpart(judged, text, fault):
    (found,) = coverage.explained_lines(text)[1]
    assert found.startswith(fault)
    case = judged({"kernels/vec_neon.h": text}, [], NO_LEVELS, whole=True)[0]["kernels/vec_neon.h"]
    assert case.status == FAILED and fault in case.reason


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


# Guards an explanation of a line that levels share: it excuses the level that it names and no other, has to name one,
# and must not outlive its fault. Where that level cannot run, nobody can tell.
@pytest.mark.parametrize(
    ("reason", "scalar", "avx2", "status"),
    [
        ("at level scalar never", 0, 5, PASSED),
        ("at level scalar never", None, 5, PASSED),  # folded there: a compiler counts it as no line
        ("at level scalar never", 0, 0, FAILED),
        ("at level scalar never", 1, 0, FAILED),
        ("at level scalar never", 1, 5, FAILED),
        ("at level scalar never, at level avx2 neither", 0, 0, PASSED),
        ("never", 0, 5, FAILED),
        ("at level neon never", 0, 5, FAILED),
        ("at level neon never", 1, 5, PASSED),
        ("at level avx512 never", 1, 5, PASSED),
    ],
)
def test_explanations_name_levels(judged, reason, scalar, avx2, status):
    text = {"kernels/x_tmpl.h": f"a(); /* GCOV_EXCL_LINE: {reason} */\nb();\n"}
    reports = [
        (SCALAR, {"kernels/x_tmpl.h": {1: scalar, 2: 1} if scalar is not None else {2: 1}}),
        (AVX2, {"kernels/x_tmpl.h": {1: avx2, 2: 1}}),
    ]
    levels = {"scalar": "", "avx2": "", "neon": "no part of this build"}
    assert judged(text, reports, levels)[0]["kernels/x_tmpl.h"].status == status


# Guards that objects of one part add up: a header's line is executed if any of them executes it.
def test_objects_of_a_part_add_up(judged):
    header = {"attention/internal.h": "a();\n"}
    other = ATTENTION.replace("look", "flash")
    for counts, status in [((0, 1), PASSED), ((1, 0), PASSED), ((0, 0), FAILED)]:
        reports = zip((ATTENTION, other), ({"attention/internal.h": {1: n}} for n in counts), strict=True)
        assert judged(header, reports, NO_LEVELS)[0]["attention/internal.h"].status == status


# Guards against a file that no test links, or that nothing compiles: the first counts as not executed, the second is
# named. Headers may be those of another machine.
def test_files_that_no_test_links(judged):
    sources = {"attention/look.c": "a();\n", "attention/lost.c": "a();\n", "dispatch/cpu.h": "int a;\n"}
    sources |= {"kernels/neon.c": "int a;\n", "attention/unlinked.c": "a();\n"}
    reports = [(ATTENTION, {"attention/look.c": {1: 1}}), (ATTENTION, {"attention/unlinked.c": {1: 0}})]
    cases, _ = judged(sources, reports, NO_LEVELS, whole=True)
    assert {name: case.status for name, case in cases.items()} == {
        "attention/look.c": PASSED,
        "attention/lost.c": FAILED,
        "attention/unlinked.c": FAILED,
    }
    assert "compiled nowhere" in cases["attention/lost.c"].reason


# Guards a level of which there is no word in any report: said to be left out, or missing where it should be there.
def test_levels_without_a_report(judged):
    reports = [(SCALAR, {"kernels/x_tmpl.h": {1: 1}})]
    levels = {"scalar": "", "avx2": "", "neon": "no part of a build for x86_64"}
    cases, table = judged({"kernels/x_tmpl.h": "a();\n"}, reports, levels)
    assert (cases["kernels [avx2]"].status, cases["kernels [neon]"].status) == (FAILED, SKIPPED)
    assert "  kernels [neon]     not counted: no part of a build for x86_64" in table


# Guards that a level which cannot run is skipped with its reason, and what is not the library's is left out.
def test_other_levels_and_directories(judged):
    sources = {"kernels/x_tmpl.h": "a();\n", "tests/t.c": "a();\n"}
    place = AVX2.replace("avx2", "avx512")
    reports = [(place, {"kernels/x_tmpl.h": {1: 0}}), ("t.gcda", {"tests/t.c": {1: 0}})]
    cases, _ = judged(sources, reports, {"avx512": "the CPU lacks it"})
    assert [(case.status, case.reason) for case in cases.values()] == [(SKIPPED, "the CPU lacks it")]


# Guards the whole way with gcc and gcov themselves: an object of which a program never runs a line, and one that is
# linked into none. What an older build left is not asked; tests that are skipped are among the cases.
def test_run_counts_what_is_compiled(monkeypatch, tmp_path):
    for tool in ("gcc", "gcov"):
        if not shutil.which(tool):
            pytest.skip(f"needs {tool}")
    build = tmp_path / "build"
    for directory in (
        build / "attention",
        tmp_path / "attention",
        tmp_path / "dispatch",
        tmp_path / "kernels",
    ):
        directory.mkdir(parents=True)
    sources = {"ran": "int main(void) {\n    return 0;\n}\n", "unlinked": "int f(void) {\n    return 1;\n}\n"}
    sources["removed"] = sources["unlinked"]
    (build / "attention" / "ran.c.gcda").write_text("older than the run")

    def make(self, commands):
        entries = []
        for name, text in sources.items():
            (tmp_path / "attention" / f"{name}.c").write_text(text)
            output = f"attention/{name}.c.o"
            command = ["gcc", "--coverage", "-c", f"../attention/{name}.c", "-o", output]
            subprocess.run(command, cwd=build, check=True)
            entries.append({"file": f"../attention/{name}.c", "output": output})
        (tmp_path / "attention" / "removed.c").unlink()
        (tmp_path / "attention" / "nowhere.c").write_text(sources["unlinked"])
        entries = [entry for entry in entries if "removed" not in entry["output"]]
        (build / "compile_commands.json").write_text(json.dumps(entries))

    tests = [Case("a [avx512]", SKIPPED, "the CPU lacks it"), Case("a [scalar]", PASSED)]

    def ran(self, commands, **more):
        assert not (build / "attention" / "ran.c.gcda").exists()
        subprocess.run(["gcc", "--coverage", "attention/ran.c.o", "-o", "a"], cwd=build, check=True)
        subprocess.run(["./a"], cwd=build, check=True)
        return list(tests)

    monkeypatch.setattr(Build, "make", make)
    monkeypatch.setattr(Build, "test", ran)
    monkeypatch.setattr(coverage, "COVERAGE", Build(build, ("gcc", "g++"), ()))
    monkeypatch.setattr(coverage, "ROOT", tmp_path)
    monkeypatch.setattr(coverage, "levels_here", lambda program: NO_LEVELS)
    cases = coverage.run_coverage(Commands(tmp_path, tmp_path / "log", 60))
    why = "line 1 is not executed and not explained; line 2 is not executed and not explained (2 in all)"
    nowhere = "gcov reported nothing of it: it is compiled nowhere (1 in all)"
    assert cases == [
        *tests,
        Case("coverage of attention/nowhere.c", FAILED, nowhere),
        Case("coverage of attention/ran.c", PASSED),
        Case("coverage of attention/unlinked.c", FAILED, why),
    ]


# Guards the sources themselves where the suite is not run: each mark is whole, and in kernels/ names its level.
def test_marks_of_the_library():
    marks = {
        name: coverage.explained_lines((coverage.ROOT / name).read_text())
        for name in coverage.library_sources()
    }
    assert {name: faults for name, (_, faults) in marks.items() if faults} == {}
    reasons = [(name, reason) for name, (lines, _) in marks.items() for reason in lines.values()]
    assert all(reason for _, reason in reasons) and any(name.startswith("kernels/") for name, _ in reasons)
    for name, reason in reasons:
        assert not name.startswith("kernels/") or re.search(r"\blevel (scalar|avx2|avx512|neon)\b", reason), (
            name
        )
