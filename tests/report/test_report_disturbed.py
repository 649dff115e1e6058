"""Rows that other work disturbed: said at the top, marked in charts, tables and fits; and nothing where none was."""

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import synthetic
from attnscope_py import (
    analysis,
    charts_stages,
    draw,
    page,
    render,
    results,
    summary,
    text_table,
    theme,
)
from attnscope_py.reading import load_run, load_runs
from test_report_charts import all_figures, data, walk
from words import leading

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    place = tmp_path_factory.mktemp("disturbed") / "r.json"
    run = load_run(synthetic.write(place, synthetic.disturbed_sweep()))
    return run, analysis.sections([run])


@pytest.fixture(scope="module")
def figures(disturbed):
    return {figure.name: figure for _, figure in all_figures([disturbed[0]])}


@pytest.fixture(scope="module")
def quiet(sweep_file):
    return load_run(sweep_file)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    rows = synthetic.sweep(isas=("scalar", "avx2"))
    run = load_run(synthetic.write(tmp_path_factory.mktemp("plain") / "r.json", rows))
    return {figure.name: figure for _, figure in all_figures([run])}


# Guards the harness's limits, which the report says again, as an installation does not bring the source.
@pytest.mark.parametrize(
    ("said", "header", "name"),
    [
        (results.UNDISTURBED, "roofline.h", "BENCH_UNDISTURBED"),
        (results.PEAK_LIMIT, "session.h", "BENCH_FAULT_PCT"),
    ],
)
def test_limits_of_the_source(said, header, name):
    limit = re.search(rf"#define {name} (\S+)", (ROOT / "bench" / header).read_text())
    assert said == float(limit.group(1))


# Guards the limit: below it a row is disturbed, at it and without a share it is not.
@pytest.mark.parametrize(("share", "expected"), [(0.949, True), (0.95, False), (1, False), (None, False)])
def test_limit(tmp_path, share, expected):
    run = load_run(synthetic.write(tmp_path / "r.json", synthetic.power_law(1.0, 2.0, cpu_share=share)))
    assert {row.disturbed for row in run.rows} == {expected}


# Guards the warning: how many of how many, how much they had, and what it means; the harness's count where rows
# carry no share; none where none was disturbed.
def test_warning(tmp_path, disturbed, quiet):
    run, _ = disturbed
    count = sum(row.keys == 512 for row in run.rows)
    (text,) = summary.warnings([run])
    assert text.startswith(f"{count} of {len(run.rows)} rows had less than 95 % of their CPU, one only 60 %")
    assert "exponents" in text and "quiet" in text
    rows = synthetic.power_law(1.0, 2.0, cpu_share=None, pct_peak=90.0)
    counted = load_run(synthetic.write(tmp_path / "r.json", rows, rows_disturbed=3))
    (text,) = summary.warnings([counted])
    assert text.startswith("3 of 7 rows had less than 95 % of their CPU: other")
    assert summary.warnings([quiet]) == []


# Guards the text table, which may be kept without the warnings: what it says above, and asterisks at the
# exponents and times that rest on disturbed rows, alone.
def test_text_table(tmp_path, disturbed, quiet):
    run, sections = disturbed
    lines = text_table.text_table(sections, [run]).splitlines()
    assert lines[0].startswith("Disturbed: ") and "60 %" in lines[0]
    marked = [line for line in lines if " · " in line and "pattern" not in line]
    assert marked and all(line.count("*") == 1 and "]*" in line for line in marked)
    assert "*" not in text_table.text_table(analysis.sections([quiet]), [quiet])
    # A fit that does not reach the row is not marked, a time that is of the row is.
    rows = synthetic.power_law(2.0, 1.7) + [
        synthetic.row("causal", "flash", "avx2", 128, [7.0], cpu_share=0.5)
    ]
    run = load_run(synthetic.write(tmp_path / "r.json", rows))
    table = text_table.text_table(analysis.sections([run]), [run]).splitlines()
    assert "*" not in next(line for line in table if "dense" in line)
    assert "7 ns*" in next(line for line in table if "causal" in line)


# Guards which fits are said to rest on disturbed rows: those whose points hold one, not those that start above it.
def test_fits(tmp_path):
    def with_share(*lengths):
        rows = synthetic.power_law(1.0, 2.0)
        for row in rows:
            row["cpu_share"] = 0.5 if row["keys"] in lengths else 1
        (section,) = analysis.sections([load_run(synthetic.write(tmp_path / "r.json", rows))])
        return section.series[0]

    assert with_share().disturbed_fit == []
    assert with_share(256, 2048).disturbed_fit == [256, 2048]
    # The window does not restrict yet at n=256: the fit starts above.
    rows = [
        synthetic.row(
            "window=256",
            "flash",
            "avx2",
            n,
            [5.0 * synthetic.pairs("window=256", n)] * 7,
            cpu_share=0.5 if n == 256 else 1,
        )
        for n in synthetic.LENGTHS
    ]
    (section,) = analysis.sections([load_run(synthetic.write(tmp_path / "w.json", rows))])
    assert section.series[0].exponent.n_low == 512
    assert section.series[0].disturbed_fit == []


# Guards the words of the summary: what rests on disturbed rows says so.
def test_summary(tmp_path, disturbed):
    run, sections = disturbed
    said = {s.subject: " ".join((s.text, *s.parts)) for s in leading(sections, run)}
    assert "rests on disturbed rows (n=512)" in said["Growth"]
    rows = [row | {"cpu_share": 0.5} for row in synthetic.sweep()]
    run = load_run(synthetic.write(tmp_path / "r.json", rows))
    for statement in leading(analysis.sections([run]), run):
        assert "disturbed" in " ".join((statement.text, *statement.parts)), statement.subject


def hollow(rows):
    return {row["n"] for row in rows if row.get("fill") == theme.PAPER}


# Guards hollow markers: at the disturbed rows, in every chart over n, and nowhere else.
@pytest.mark.parametrize("name", ["scaling", "patterns", "peak", "stages"])
def test_hollow_markers(figures, plain, name):
    for panel in figures[name].panels:
        rows = [row for row in data(panel) if "state" in row]
        assert {int(row["n"]) for row in rows if row["state"]} == {512}
        if "share" not in panel.title:
            assert hollow(rows) == {512}
    assert all(not row.get("state") for panel in plain[name].panels for row in data(panel))


# Guards ratios: hollow when one of their two rows was disturbed, either of them.
@pytest.mark.parametrize("level", ["scalar", "avx2"])
def test_ratios(tmp_path, level):
    rows = [
        synthetic.row("dense", "flash", isa, 128, [t] * 7, cpu_share=0.5 if isa == level else 1)
        for isa, t in (("scalar", 100.0), ("avx2", 12.0))
    ]
    (section,) = analysis.sections([load_run(synthetic.write(tmp_path / "r.json", rows))])
    assert [s.disturbed for s in section.speed_ups] == [True]
    ((_, found),) = draw.figures([section])
    (dot,) = [row for row in data(found[0].panels[0]) if "ratio" in row]
    assert dot["fill"] == theme.PAPER
    assert found[0].table.rows[0][-1] == "disturbed"


# Guards the legend: drawn below each panel that has a hollow marker, as a circle that can be seen; none elsewhere.
@pytest.mark.parametrize(
    ("name", "index"), [("scaling", 0), ("patterns", 0), ("peak", 0), ("stages", 0), ("stages", 1)]
)
def test_legend(figures, plain, name, index):
    svg = render.to_svg(figures[name].panels[index].spec, None)
    texts = [element.text for element in ET.fromstring(svg).iter(SVG + "text")]
    assert texts.count(theme.DISTURBED) == 1
    symbols = re.findall(r'<g class="mark-symbol role-legend-symbol".*?</g>', svg, re.DOTALL)
    assert (
        len(symbols) == 1
        and f'stroke="{theme.MUTED}"' in symbols[0]
        and f'fill="{theme.PAPER}"' in symbols[0]
    )
    assert theme.DISTURBED not in render.to_svg(plain[name].panels[index].spec, None)


# Guards captions and tables: what hollow and asterisks mean, and the share of the CPU of each row.
def test_captions_and_tables(figures):
    for name in ("scaling", "patterns", "peak", "stages"):
        assert "Hollow markers" in " ".join(figures[name].caption)
    for name in ("scaling", "peak", "stages"):
        table = figures[name].table
        n = table.columns.index("n")
        assert {row[-1] for row in table.rows if row[n] == "512"} == {"60 %, disturbed"}
        assert {row[-1] for row in table.rows if row[n] != "512"} == {"97 %"}
    assert "*" in {row[-2][-1:] for row in figures["scaling"].table.rows}
    assert any("rests on disturbed rows (n=512)" in note for note in figures["scaling"].notes)


# Guards the table of all rows, the first machine's hollow markers beside a second's lighter ones, and its name.
def test_two_machines(tmp_path):
    files = [
        synthetic.write(
            tmp_path / f"{host}.json",
            synthetic.power_law(1.0, 2.0, cpu_share=share, pct_peak=90.0),
            host=host,
        )
        for host, share in (("zebra", 1), ("ant", 0.5))
    ]
    runs = load_runs(files)
    (text,) = summary.warnings(runs)
    assert text.startswith("ant: 7 of 7 rows")
    assert text_table.text_table(analysis.sections(runs), runs).count("Disturbed") == 1
    shares = [row[-1] for row in page.all_rows(runs).rows]
    assert shares == ["100 %"] * 7 + ["50 %, disturbed"] * 7


# Guards intervals of the stages: bands around the times, and shares whose range holds them.
def test_stages_have_intervals(disturbed, figures):
    _, (section,) = disturbed
    for found in section.stages:
        for stage in found.points:
            low, high = found.share_range(stage)
            assert low < found.share(stage) < high
    for panel in figures["stages"].panels[1::2]:
        rows = [row for row in data(panel) if "time" in row]
        assert rows and all(row["low"] <= row["time"] <= row["high"] for row in rows)
        assert any(row["low"] < row["high"] for row in rows)
        assert "area" in {
            part["mark"]["type"] for part in walk(panel.spec) if isinstance(part.get("mark"), dict)
        }
    columns = figures["stages"].table.columns
    assert "interval" in columns and "share interval" in columns


# Guards series of one colour: whiskers beside each other, since bands that cover each other cannot be read.
@pytest.mark.parametrize("name", ["peak", "patterns"])
def test_whiskers_are_apart(figures, name):
    for panel in figures[name].panels:
        rows = [row for row in data(panel) if "series" in row]
        for n in {row["n"] for row in rows}:
            places = [row["at"] for row in rows if row["n"] == n]
            assert len(set(places)) == len(places) > 1
            # Lengths are an octave apart; half of that is left between those of one and of the next.
            assert all(abs(math.log2(place / n)) <= 0.25 + 1e-9 for place in places)
        assert "area" not in {
            part["mark"]["type"] for part in walk(panel.spec) if isinstance(part.get("mark"), dict)
        }
    for row in (row for panel in figures["scaling"].panels for row in data(panel) if "series" in row):
        assert row["at"] == row["n"]


# Guards what is not on a chart: named there, with the reason.
def test_left_out(tmp_path):
    rows = synthetic.power_law(1.0, 2.0)
    rows[3] = {key: value for key, value in rows[3].items() if key not in ("pct_peak", "pairs_useful")}
    rows.append(synthetic.row("causal", "flash", "avx2", 256, [5.0] * 7))
    rows += [
        synthetic.row("dense", "naive", "avx2", n, [1.0 * n * n] * 7, stage=stage)
        for n in (128, 256)
        for stage in ("qk", "scale", "mask", "softmax", "pv")
        if (n, stage) != (256, "softmax")
    ]
    rows += [synthetic.row("dense", "flash", "scalar", 64, [9.0] * 7), {"id": "BM_other", "real_time": 3.0}]
    rows.append(
        synthetic.row("dense", "flash", "avx2", 16384, [1.0])
        | {"error_occurred": True, "error_message": "no memory"}
    )
    run = load_run(synthetic.write(tmp_path / "r.json", rows))
    sections = analysis.sections([run])
    found = {figure.name: figure.left_out for _, made in draw.figures(sections) for figure in made}
    assert any("causal · flash, avx2: n=256 alone" in text for text in found["scaling"])
    assert any("dense · flash, avx2: n=1024, without a time per pair" in text for text in found["scaling"])
    assert any("n=1024, without a percentage" in text for text in found["peak"])
    (stage,) = found["stages"]
    assert "n=256" in stage and "without softmax" in stage
    missing = page.not_drawn([run], [])
    assert len(missing) == 2
    assert "no memory" in missing[0] and "nk16384" in missing[0]
    assert missing[1] == "BM_other: neither attention nor a kernel"


# Guards levels that cannot be compared: named at the speed-ups.
def test_left_out_of_speed_ups(tmp_path):
    rows = synthetic.power_law(1.0, 2.0)
    rows += [synthetic.row("causal", "flash", isa, 128, [5.0] * 7) for isa in ("scalar", "avx2")]
    sections = analysis.sections([load_run(synthetic.write(tmp_path / "r.json", rows))])
    found = {figure.name: figure.left_out for _, made in draw.figures(sections) for figure in made}
    assert found["speedup"] == ["dense · flash, avx2: no length that scalar was measured at too"]
    assert charts_stages.stages(sections[0], theme.Marks([]), "") is None
