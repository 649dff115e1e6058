"""The roofline and the workspace: ceilings from the file, rows where their numbers say."""

import itertools
import re
import xml.etree.ElementTree as ET

import pytest
import synthetic
from attnscope_py import analysis, charts_memory, charts_roofline, render, roofline, theme
from attnscope_py.reading import load_run
from specs import all_figures, data, walk
from words import leading

SVG = "{http://www.w3.org/2000/svg}"


def one_section(tmp_path, rows, change=None, **changes):
    (section,) = analysis.sections([load_run(synthetic.write(tmp_path / "r.json", rows, change, **changes))])
    return section, theme.Marks(section.variants)


def flash(n, **changes):
    return synthetic.row("dense", "flash", "avx2", n, [1e5 * n] * 7, **changes)


@pytest.fixture(scope="module")
def figures(sweep_file):
    return {figure.name: figure for _, figure in all_figures([load_run(sweep_file)])}


# Guards each point: useful FLOPs over compulsory bytes, against useful FLOPs over the time.
def test_points_are_where_the_numbers_say(tmp_path):
    rows = [
        flash(128, flops_useful=6400, bytes_compulsory=400),
        flash(256, flops_useful=51200, bytes_compulsory=800),
    ]
    section, marks = one_section(tmp_path, rows)
    figure = charts_roofline.roofline(section, marks, "")
    points = {row["n"]: (row["at"], row["y"]) for row in data(figure.panels[0]) if "n" in row}
    assert points[128] == (16, pytest.approx(6400 / 128e5))
    assert points[256] == (64, pytest.approx(51200 / 256e5))


# Guards the ceilings: every slope is the bandwidth that was measured, ends at the peak, and lies on the plot.
def test_ceilings_are_those_of_the_file(figures):
    for panel in figures["roofline"].panels:
        peak = synthetic.PEAK_GFLOPS[panel.title]
        slopes = {row["label"]: row for row in data(panel) if "top" in row and "end" in row}
        assert list(slopes) == ["memory 22 GB/s", "L3 80 GB/s", "L2 110 GB/s", "L1d 220 GB/s"]
        (low, high) = {
            tuple(y["scale"]["domain"])
            for part in walk(panel.spec)
            if "axis" in (y := part.get("encoding", {}).get("y", {}))
        }.pop()
        for label, row in slopes.items():
            rate = float(re.search(r"([\d.]+) GB/s", label)[1])
            assert row["y"] / row["at"] == pytest.approx(rate, rel=1e-5)
            assert row["top"] / row["end"] == pytest.approx(rate, rel=1e-5)
            assert row["top"] == pytest.approx(peak, rel=1e-5)
            assert low * 0.9999 <= row["y"] <= row["top"] <= high
        assert any(f"FMA peak, {panel.title}: {peak:g} GFLOP/s" == row.get("label") for row in data(panel))


# Guards the names of slopes however near bandwidths are: in the picture none covers another.
@pytest.mark.parametrize("factor", [1.0, 1.001, 1.3, 10.0])
def test_names_of_ceilings_are_apart(tmp_path, factor):
    def near(document):
        for index, level in enumerate(document["context"]["roofline"][0]["level"].values()):
            level["read_gbs"] = 200.0 / factor**index

    section, marks = one_section(tmp_path, [flash(n) for n in (128, 256)], near)
    (panel,) = charts_roofline.roofline(section, marks, "").panels
    svg = ET.fromstring(render.to_svg(panel.spec, None))
    places = []

    def visit(element, x, y):
        for dx, dy in re.findall(r"translate\(([-\d.]+),([-\d.]+)\)", element.get("transform") or ""):
            x, y = x + float(dx), y + float(dy)
        if element.tag == SVG + "text" and "GB/s" in (element.text or ""):
            places.append((x, y))
        for child in element:
            visit(child, x, y)

    visit(svg, 0.0, 0.0)
    assert len(places) == 4
    heights = sorted(y for _, y in places)
    assert all(b - a >= 11 for a, b in itertools.pairwise(heights))
    # The stem of a name ends below all names that are left of it.
    assert [x for x, _ in sorted(places, key=lambda place: place[1])] == sorted(x for x, _ in places)


# Guards the ceiling of the exponential: drawn where it is below the peak, at one for each pair.
@pytest.mark.parametrize(("rate", "drawn"), [(0.1, True), (100.0, False)])
def test_exponential_limits_where_it_is_slow(tmp_path, rate, drawn):
    def slow(document):
        document["context"]["roofline"][0]["isa"]["avx2"]["exp_g"] = rate

    section, marks = one_section(tmp_path, [flash(n) for n in (128, 256)], slow)
    (panel,) = charts_roofline.roofline(section, marks, "").panels
    found = [row for row in data(panel) if "one exp" in str(row.get("label"))]
    assert [row["y"] for row in found] == ([pytest.approx(256 * rate)] if drawn else [])


# Guards against ceilings of another number of threads, and files that have none or incomplete ones.
@pytest.mark.parametrize(
    "broken",
    [None, [], [{}], [{"threads": 1, "isa": {}, "level": {}}], [{"threads": 1}]]
    + [[synthetic.roofline(2)]]
    + [
        [{"threads": 1, "isa": {"avx2": {"fma_gflops": value}}, "level": {"l2": {"read_gbs": 9.0}}}]
        for value in (0, -1.0)
    ],
)
def test_without_ceilings_there_is_no_roofline(tmp_path, broken):
    section, marks = one_section(tmp_path, [flash(n) for n in (128, 256)], roofline=broken)
    assert charts_roofline.roofline(section, marks, "") is None


# Guards the verdict: it is the harness's, of all three limits, and no other is made of shares that the row has too.
@pytest.mark.parametrize(
    ("by", "said", "percent"),
    [
        ("compute", "compute", "61.0 %"),
        ("overhead", "overhead", "7.0 %"),
        *(
            (f"bandwidth({key})", f"bandwidth of {name}", "23.0 %")
            for key, name in roofline._LEVEL_NAMES.items()
        ),
        (None, "", ""),
    ],
)
def test_limit_is_that_of_the_file(tmp_path, by, said, percent):
    shares = {"limit_compute_pct": 61.0, "limit_bandwidth_pct": 23.0, "limit_overhead_pct": 7.0}
    section, marks = one_section(
        tmp_path, [flash(n, limited_by=by, pct_peak=6.0, pct_bandwidth=20.0, **shares) for n in (128, 256)]
    )
    table = charts_roofline.roofline(section, marks, "").table
    at = table.columns.index("limited by")
    assert [row[at : at + 2] for row in table.rows] == [(said, percent)] * 2


# Guards the summary: what limits each pattern, over its lengths, with how much that says.
def test_limits_are_said_of_each_pattern(tmp_path):
    def limited(pattern, n, by, percent, **more):
        share = {f"limit_{by.partition('(')[0]}_pct": percent}
        return synthetic.row(pattern, "flash", "avx2", n, [1e5 * n] * 7, limited_by=by, **share, **more)

    rows = [
        limited("dense", 32, "overhead", 55.0),
        limited("dense", 64, "compute", 60.0),
        limited("dense", 128, "compute", 81.2),
        limited("dense", 256, "compute", 70.0, cpu_share=0.5),
        limited("causal", 128, "bandwidth(l2)", 9.0),
        synthetic.row("causal", "flash", "avx2", 256, [1e5] * 7),
        synthetic.row("window=256", "flash", "avx2", 256, [1e5] * 7),
    ]
    run = load_run(synthetic.write(tmp_path / "r.json", rows))
    said = {s.subject: s for s in leading(analysis.sections([run]), run)}["Limits"]
    assert said.parts == (
        "dense · flash: overhead at n=32 (55 %), compute at n=64 to 256 (60 to 81 %, some disturbed).",
        "causal · flash: bandwidth of L2 at n=128 (9 %).",
    )


# Guards workspace: to the byte in the table; what needs the same shares a line that says so.
def test_workspace(figures, tmp_path):
    figure = figures["memory"]
    labels = [row["label"] for row in data(figure.panels[0]) if isinstance(row.get("label"), list)]
    assert ["dense · naive", "256 MiB"] in labels
    assert ["dense · flash", "and 3 more", "4.062 MiB"] in labels
    assert any(row[:4] == ("dense · naive", "avx512", "8192", str(4 * 8192**2)) for row in figure.table.rows)
    assert "causal · flash" in figure.panels[0].alt
    # None at all has no place on a logarithmic axis, and is no error.
    section, marks = one_section(tmp_path, [flash(n, workspace_bytes=0) for n in (128, 256)])
    assert charts_memory.memory(section, marks, "") is None
