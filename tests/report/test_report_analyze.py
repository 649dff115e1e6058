"""`attnscope analyze`: the object in the file, the text, and files that are whole or as they were."""

import html
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic
from attnscope_py import analysis, analysis_tables, analysis_text, comparisons, draw, lines, page
from attnscope_py.reading import load_run
from attnscope_py.table import aligned
from specs import data
from strict import strict

ROOT = Path(__file__).resolve().parents[2]


def analyze(*arguments, **options):
    program = os.environ.get("ATTNSCOPE")
    command = (
        [os.path.abspath(program), "analyze"]
        if program
        else [sys.executable, str(ROOT / "scripts" / "attnscope-analyze")]
    )
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False, **options
    )


@pytest.fixture
def file(tmp_path):
    rows = synthetic.sweep(isas=("scalar", "avx2"))
    return Path(synthetic.write(tmp_path / "results.json", rows))


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    rows = synthetic.sweep(isas=("scalar", "avx2"))
    path = Path(synthetic.write(tmp_path_factory.mktemp("analysed") / "results.json", rows))
    done = analyze(path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return path, done


def one_line_error(done, *parts, code=2):
    assert done.returncode == code, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("attnscope analyze: ") and done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr


# Guards the file: all that was in it stays, in its order, and the analysis stands behind it; a second time gives the
# same bytes.
def test_file_keeps_what_it_has(file):
    before = strict(file.read_text())
    assert analyze(file).returncode == 0
    text = file.read_text()
    after = strict(text)
    assert list(after) == [*before, "analysis"]
    assert {key: after[key] for key in before} == before
    assert analyze(file).returncode == 0
    assert file.read_text() == text


# Guards the object: a series for each that the report draws, with what the issue asks of it; numbers with intervals
# around them.
def test_object(analysed):
    path, done = analysed
    found = strict(path.read_text())["analysis"]
    assert list(found) == [
        "schema",
        "method",
        "series",
        "crossovers",
        "speed_ups",
        "sparse_efficiency",
        "thread_scaling",
        "tuning",
    ]
    assert len(found["series"]) == 10
    flash = next(
        s for s in found["series"] if (s["pattern"], s["algorithm"], s["isa"]) == ("dense", "flash", "avx2")
    )
    assert flash["exponent"]["value"] == pytest.approx(2, abs=0.05)
    assert flash["exponent"]["n_high"] == 8192 and flash["n"] == list(synthetic.LENGTHS)
    assert flash["two_term"]["quadratic_ns"]["value"] == pytest.approx(5.0, rel=0.05)
    assert flash["regimes"] and all(r["reason"] for r in flash["regimes"])
    assert {c["between"] for c in found["crossovers"]} == {"algorithm", "pattern", "isa"}
    assert all(c["text"] for c in found["crossovers"])
    assert found["tuning"] and found["thread_scaling"] == []
    assert {(e["isa"], e["from_n"], e["algorithm"]) for e in found["tuning"]} == {
        ("scalar", 0, "flash"),
        ("avx2", 0, "flash"),
    }

    def walk(value):
        if isinstance(value, dict):
            if {"value", "low", "high"} <= value.keys():
                assert value["low"] <= value["value"] <= value["high"], value
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(found)
    assert done.stdout.count("\n") == 1 and "10 series" in done.stdout


# Guards that a report does not trust an analysis that is there: a false one changes nothing in it.
def test_report_recomputes(run, analysed, tmp_path):
    path, _ = analysed
    root = strict(path.read_text())
    before = run("--table", path).stdout
    root["analysis"]["series"] = [{"exponent": {"value": 9}}]
    false = tmp_path / "false.json"
    false.write_text(json.dumps(root))
    assert run("--table", false).stdout == before


# Guards --print: text with each kind of finding, the file untouched, lines that name their series.
def test_print(file):
    before = file.read_bytes()
    done = analyze("--print", file)
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        "dense · flash",
        "n^2.0",
        "Crossovers: naive against flash",
        "Sparse efficiency",
        "Tuning",
    ):
        assert part in done.stdout
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


# Guards disturbed rows: what rests on them is marked and said to be.
def test_disturbed(tmp_path):
    done = analyze("--print", synthetic.write(tmp_path / "r.json", synthetic.disturbed_sweep()))
    assert "]*" in done.stdout and "* rests on rows that other work disturbed" in done.stdout


# Guards the mode and links: the file keeps its mode, a link stays one and leads to the new text.
def test_mode_and_link(file, tmp_path):
    file.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(file.name)
    assert analyze(link).returncode == 0
    assert link.is_symlink() and stat.S_IMODE(file.stat().st_mode) == 0o640
    assert "analysis" in strict(file.read_text())


# Guards help and usage.
def test_help_and_usage(tmp_path):
    done = analyze("--help")
    assert done.returncode == 0 and "examples:" in done.stdout and "exit codes:" in done.stdout
    one_line_error(analyze(), "no result file given")
    one_line_error(analyze("--prin", "x"), "--prin")
    one_line_error(analyze(tmp_path / "none.json"), "none.json")
    one_line_error(analyze(tmp_path), "not a regular file")


# Guards bad files: refused with the code that a report has for them, and no file of the same call is changed.
def test_bad_file(file, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"context": {}, "benchmarks": []}')
    before = file.read_bytes()
    one_line_error(analyze(file, bad), "bad.json", "no row was measured", code=4)
    bad.write_text("{")
    one_line_error(analyze(file, bad), "bad.json", code=2)
    assert file.read_bytes() == before


# Guards a disk that takes nothing: said, and what is there stays.
def test_nothing_can_be_written(file):
    before = file.read_bytes()
    script = ROOT / "scripts" / "attnscope-analyze"
    limited = f"ulimit -f 1; exec {sys.executable} {script} {file}"
    one_line_error(
        subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False),
        f"cannot write {file}: File too large",
    )
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


# Guards one source: every cell that --print shows stands on the page, and the chart of speed-ups has its numbers too.
def test_page_says_the_same(file):
    run = load_run(str(file))
    run.label = run.host
    sections = analysis.sections([run])
    crossed = comparisons.crossovers(sections)
    text = analysis_text.text(run, sections, name=False)
    assert analyze("--print", file).stdout == text
    chapters = []
    shown = html.unescape(page.render([run], [], [], chapters, sections, crossed).decode())
    tables = analysis_tables.of_run(sections, crossed, run)
    assert {title.partition(":")[0] for title, _ in tables} >= {
        "Growth",
        "t = a + b n + c n²",
        "Crossovers",
        "Tuning",
    }
    for title, table in tables:
        assert title in text and title in shown
        for row in table.rows:
            assert "".join(f"<td>{cell}</td>" for cell in row) in shown
            assert all(cell in text for cell in row)
    speed_ups = dict(tables)["Speed-up by ISA level, at the largest n of all levels"]
    (figure,) = [f for _, found in draw.figures(sections) for f in found if f.name == "speedup"]
    labels = [row["label"] for row in data(figure.panels[0]) if "place" in row]
    assert labels == [row[3].partition(" ")[0] + "x" for row in speed_ups.rows]
    for s in sections[0].series:
        growth = next(table for title, table in tables if title.startswith("Growth"))
        exponent = [row[3] for row in growth.rows if row[:2] == (s.variant.label, s.isa)][-1]
        assert exponent == (lines.exponent_label(s) if s.exponent else "-")


# Guards the sides that the columns of --print stand on: what is a number begins so or says that there is none, and
# stands right; all else is words, even where each cell of it happens to begin with a digit, and stands left.
def test_print_aligns_by_column(file):
    run = load_run(str(file))
    run.label = run.host
    sections = analysis.sections([run])
    crossed = comparisons.crossovers(sections)
    shown = analysis_text.text(run, sections, name=False).split("\n\n")
    tables = analysis_tables.of_run(sections, crossed, run)
    assert len(shown) == len(tables) > 6
    words = {
        "why this range",
        "what follows",
        "of",
        "which",
        "crossover",
        "algorithm",
        "ISA",
        "ISA level",
        "type",
    }
    for part, (title, table) in zip(shown, tables, strict=True):
        heading, *rest = part.splitlines()
        assert heading == title
        for i, name in enumerate(table.columns):
            cells = [row[i] for row in table.rows]
            numeric = all(re.fullmatch(r"(n\^|-)?[0-9.]+\b.*|-|", cell) for cell in cells)
            assert (i not in table.numbers) == (name in words or name.startswith("pattern")), (title, name)
            assert i not in table.numbers or numeric, (title, name)
        assert rest[0].startswith(table.columns[0])
        assert rest == aligned(table.columns, table.rows, table.numbers)


# Guards alignment itself: numbers stand right, words left, whatever they begin with, and no line ends in spaces.
def test_aligned():
    rows = [("1 thread", "7", "5 ns is all"), ("a", "1234", "n")]
    assert aligned(("what", "n", "why"), rows, {1}) == [
        "what         n  why",
        "1 thread     7  5 ns is all",
        "a         1234  n",
    ]
