"""What a file says of how its rows came about: cold calls, what a hypervisor took, bandwidths in doubt, libraries."""

import html
import os
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic
import words
from attnscope_py import analysis, analysis_text, draw, page, summary, text_table
from attnscope_py.reading import load_run, load_runs
from attnscope_py.results import ResultError

ROOT = Path(__file__).resolve().parents[2]
STEAL = {"available": True, "stolen_s": 3.7, "share": 0.079, "flagged": True}


def written(place, change=lambda row: {}, **changes):
    rows = [row | change(row) for row in synthetic.power_law(2.0, 1.7, pct_peak=90.0)]
    return synthetic.write(place / "r.json", rows, **changes)


def shown(run):
    """The page of a run, without its pictures."""
    return html.unescape(words.page_of([run], analysis.sections([run])))


def cell(run, index, name):
    table = page.all_rows([run])
    return table.rows[index][table.columns.index(name)]


# Guards rows whose bandwidth is in doubt: counted and named at the top, marked in their table; false is no doubt.
@pytest.mark.parametrize("lengths", [(), (512,), (128, 8192)])
def test_bandwidth_in_doubt(tmp_path, lengths):
    run = load_run(written(tmp_path, lambda row: {"bandwidth_doubted": row["keys"] in lengths}))
    names = [row.id for row in run.rows if row.keys in lengths]
    found = summary.warnings([run])
    assert len(found) == bool(lengths)
    for text in found:
        assert text.startswith(f"{len(lengths)} row") and "in doubt" in text
        assert all(name in text for name in names) and text.count("attention/") == len(names)
        assert text in shown(run)
    for index, row in enumerate(run.rows):
        assert cell(run, index, "% of bandwidth").endswith(", doubted") == (row.keys in lengths)


# Guards steal: warned of where the harness flags it, in percent; in the tables of rows and machine always.
@pytest.mark.parametrize("flagged", [True, False])
def test_steal(tmp_path, flagged):
    run = load_run(written(tmp_path, lambda row: {"stolen_ns": 20e6}, steal=STEAL | {"flagged": flagged}))
    found = summary.warnings([run])
    assert len(found) == flagged
    for text in found:
        assert "hypervisor took 7.9 %" in text and text in shown(run)
    assert {cell(run, i, "stolen") for i in range(len(run.rows))} == {"20 ms"}
    rows = dict(page.context_table(run).rows)
    assert (rows["steal.share"], rows["steal.stolen_s"]) == ("0.079", "3.7")


# Guards files without these fields, and a system that does not say what was stolen: no warning, and empty cells.
@pytest.mark.parametrize("steal", [None, {"available": False}])
def test_nothing_said(tmp_path, steal):
    run = load_run(written(tmp_path, steal=steal))
    assert summary.warnings([run]) == [] and run.conditions == ""
    assert {cell(run, i, "stolen") for i in range(len(run.rows))} == {""}
    assert "cold: each call" not in shown(run)


# Guards the machine's table: versions of the libraries by name.
def test_libraries(tmp_path):
    run = load_run(written(tmp_path, libraries={"hwloc": "2.9.0", "jansson": "2.14"}))
    rows = dict(page.context_table(run).rows)
    assert (rows["libraries.hwloc"], rows["libraries.jansson"]) == ("2.9.0", "2.14")
    assert "libraries.hwloc" in shown(run)


# Guards cold files: said wherever times are shown, since a warm file's look the same: at the head of the page, in
# the caption of every chart, above the text table and the analysis; of several files, of the cold one alone.
def test_cold(tmp_path):
    cold = written(tmp_path, settings=synthetic.conditions()["settings"] | {"cold": True})
    run = load_run(cold)
    said = "cold: each call"
    page_text = shown(run)
    assert said in page_text[: page_text.index("</header>")]
    sections = analysis.sections([run])
    for _, found in draw.figures(sections):
        assert found and all(said in " ".join(figure.caption) for figure in found)
    assert text_table.text_table(sections, [run]).startswith(said)
    assert analysis_text.text(run, sections, name=False).startswith(said)
    (tmp_path / "warm").mkdir()
    runs = load_runs([cold, written(tmp_path / "warm", host="other")])
    table = text_table.text_table(analysis.sections(runs), runs)
    assert table.count(said) == 1 and f"bench-host: {said}" in table


# Guards analyze --print: warned as report warns.
def test_analyze_warns(tmp_path):
    file = written(tmp_path, lambda row: {"bandwidth_doubted": True}, steal=STEAL)
    program = os.environ.get("ATTNSCOPE")
    command = [program, "analyze"] if program else [sys.executable, str(ROOT / "scripts/attnscope-analyze")]
    done = subprocess.run(
        [*command, "--print", file], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0 and "n^1.70" in done.stdout
    expected = summary.warnings([load_run(file)])
    assert len(expected) == 2
    assert done.stderr.splitlines() == [f"attnscope analyze: warning: {text}" for text in expected]


# Guards the fields against other types, which end with one line.
@pytest.mark.parametrize(
    ("row", "context"),
    [
        ({"bandwidth_doubted": "yes"}, {}),
        ({"stolen_ns": -1}, {}),
        ({"stolen_ns": []}, {}),
        ({}, {"steal": {"flagged": True, "share": "much"}}),
        ({}, {"steal": 1}),
        ({}, {"settings": {"cold": 1}}),
    ],
)
def test_other_types(tmp_path, row, context):
    with pytest.raises(ResultError, match=r"bandwidth_doubted|stolen_ns|steal|cold"):
        load_run(written(tmp_path, lambda _: row, **context))
