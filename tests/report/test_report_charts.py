"""Charts: their axes, colours, lines and labels, in the specification and in the picture."""

import itertools
import math
import re
import struct
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import pytest
import synthetic
from attnscope_py import analysis, axes, charts_speedup, formats, render, series, theme
from attnscope_py.lines import wrap_pattern
from attnscope_py.reading import load_run, load_runs
from hypothesis import given
from hypothesis import strategies as hs
from specs import all_figures, data, walk

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def figures(sweep_file):
    return {figure.name: figure for _, figure in all_figures([load_run(sweep_file)])}


@pytest.fixture(scope="module")
def two_machines(tmp_path_factory):
    place = tmp_path_factory.mktemp("two")
    files = [
        synthetic.write(place / f"{host}.json", synthetic.sweep(speed, seed=index), host=host)
        for index, (host, speed) in enumerate((("zebra", 1.0), ("ant", 0.4)))
    ]
    runs = load_runs(files)
    return runs, {figure.name: figure for _, figure in all_figures(runs)}


# Guards the list of levels, which an installation does not bring, and that each has a colour. A level to come fails
# here, and nowhere else: reports show it in black.
def test_levels_of_the_source():
    levels = re.findall(r"^ISA\((\w+)", (ROOT / "dispatch" / "isa.def").read_text(), re.MULTILINE)
    assert list(series.ISA_ORDER) == levels
    assert list(theme.ISA_COLOURS) == levels


# Guards what a report over a sweep draws.
def test_all_charts_are_there(figures):
    assert list(figures) == [
        "scaling",
        "patterns",
        "efficiency",
        "speedup",
        "stages",
        "peak",
        "roofline",
        "memory",
    ]
    variants, levels = 5, 3
    assert len(figures["scaling"].panels) == 2 * variants
    assert len(figures["patterns"].panels) == 2 * levels
    assert len(figures["stages"].panels) == 2 * levels
    assert len(figures["peak"].panels) == len(figures["roofline"].panels) == levels
    assert len(figures["efficiency"].panels) == 3
    assert len(figures["memory"].panels) == 2  # workspace, resident


# Guards the x axis: log2, with a tick at each measured n and nowhere else.
def test_ticks_are_at_the_measured_lengths(figures):
    checked = 0
    for name in ("scaling", "patterns", "efficiency", "stages", "peak", "memory"):
        for panel in figures[name].panels:
            points = {row["n"] for row in data(panel) if isinstance(row.get("n"), int)}
            for part in walk(panel.spec):
                x = part.get("encoding", {}).get("x", {})
                if "axis" in x and x.get("type") == "quantitative":
                    assert (x["scale"]["type"], x["scale"]["base"]) == ("log", 2)
                    assert x["axis"]["values"] == sorted(points)
                    checked += 1
    assert checked > 50


# Guards the tick labels in the drawn picture: each measured n once under each panel, none dropped.
def test_every_tick_has_its_label(figures):
    for panel in figures["scaling"].panels:
        texts = [
            element.text for element in ET.fromstring(render.to_svg(panel.spec, None)).iter(SVG + "text")
        ]
        for n in synthetic.LENGTHS:
            assert texts.count(str(n)) == 1


# Guards the y axis of times: log10 with ticks at powers of ten, and the same for all panels of a kind.
def test_time_axes_can_be_compared(figures):
    domains = set()
    for panel in figures["scaling"].panels[::2]:
        for part in walk(panel.spec):
            y = part.get("encoding", {}).get("y", {})
            if "axis" in y:
                assert y["scale"]["type"] == "log"
                for value in y["axis"]["values"]:
                    assert math.log10(value) == pytest.approx(round(math.log10(value)))
                domains.add(tuple(y["scale"]["domain"]))
    assert len(domains) == 1


# Guards the fixed colours of the ISA levels, in all charts.
def test_colours_belong_to_levels(figures):
    assert theme.ISA_COLOURS == {
        "scalar": "#0072B2",
        "avx2": "#D55E00",
        "avx512": "#009E73",
        "neon": "#CC79A7",
    }
    for panel in figures["scaling"].panels:
        drawn = {row["colour"] for row in data(panel) if "colour" in row}
        assert drawn == {"#0072B2", "#D55E00", "#009E73"}
    for panel in figures["patterns"].panels:
        isa = panel.title.split(":")[0].split(", ")[1]
        assert {row["colour"] for row in data(panel) if "colour" in row} == {theme.ISA_COLOURS[isa]}
    assert not set(theme.STAGE_COLOURS.values()) & set(theme.ISA_COLOURS.values())


# Guards marker and line style: one of each per variant, the same in every chart of the report.
def test_marks_belong_to_variants(figures):
    scales = {"shape": set(), "strokeDash": set()}
    for figure in (
        figures[name] for name in ("scaling", "patterns", "efficiency", "peak", "roofline", "memory")
    ):
        for part in walk([panel.spec for panel in figure.panels]):
            for channel, found in scales.items():
                encoding = part.get("encoding", {}).get(channel)
                if encoding:
                    scale = encoding["scale"]
                    found.add((tuple(scale["domain"]), str(scale["range"])))
                    assert len({str(value) for value in scale["range"]}) == len(scale["domain"]) == 5
    assert len(scales["shape"]) == len(scales["strokeDash"]) == 1


# Guards the exponent on the chart, with its range.
def test_exponents_stand_on_the_chart(figures):
    texts = [
        "\n".join(row["label"])
        for row in data(figures["scaling"].panels[2])
        if isinstance(row.get("label"), list)
    ]
    assert len(texts) == 3
    for text in texts:
        assert re.fullmatch(r"\w+\nn\^2\.0\d \[\d\.\d\d, \d\.\d\d\]", text) or "n^1.99" in text


# Guards bands: low and high of each point around its value.
def test_bands_hold_their_points(figures):
    rows = [row for row in data(figures["scaling"].panels[0]) if "low" in row]
    assert len(rows) == 5 + 7 + 7
    assert all(row["low"] <= row["y"] <= row["high"] for row in rows)
    assert any(row["low"] < row["high"] for row in rows)


# Guards the rule that no line connects two machines: every line's points are of one run, and none is doubled.
def test_no_line_connects_two_machines(two_machines):
    runs, figures = two_machines
    times = {
        (round(p.time.value, 6), p.n): s.run.label
        for s in analysis.sections(runs)[0].series
        for p in s.points
    }
    for panel in figures["scaling"].panels[::2]:
        lines = {}
        for row in data(panel):
            if "series" in row:
                lines.setdefault(row["series"], []).append(row)
        assert len(lines) == 6
        for points in lines.values():
            assert len({times[round(p["y"], 6), p["n"]] for p in points}) == 1
            assert len({p["n"] for p in points}) == len(points)
        for part in walk(panel.spec):
            if isinstance(part.get("mark"), dict) and part["mark"]["type"] in ("line", "area"):
                found = [outer for outer in walk(panel.spec) if part in outer.get("layer", [])]
                assert any(
                    "detail" in (*part["encoding"], *outer.get("encoding", {})) for outer in (part, *found)
                )


# Guards several machines: labels name them, the order is that of the files, ratios have a panel each.
def test_machines_are_named(two_machines):
    runs, figures = two_machines
    assert [panel.title for panel in figures["speedup"].panels] == ["zebra", "ant"]
    labels = {
        row["label"][0] for row in data(figures["scaling"].panels[0]) if isinstance(row.get("label"), list)
    }
    assert labels == {f"{isa}, {run.label}" for isa in ("scalar", "avx2", "avx512") for run in runs}
    assert figures["scaling"].table.columns[0] == "machine"
    fills = {row["fill"] for row in data(figures["scaling"].panels[0]) if "fill" in row}
    # Hollow markers are those of disturbed rows; another machine's are lighter.
    assert theme.PAPER not in fills
    assert fills == {
        shade
        for isa in ("scalar", "avx2", "avx512")
        for shade in (theme.isa_colour(isa), theme.tint(theme.isa_colour(isa)))
    }


# Guards the speed-up chart: a logarithmic axis that holds 1x, dots with whiskers, never bars.
def test_speed_up_is_on_a_log_axis_around_one(figures):
    (panel,) = figures["speedup"].panels
    marks = {part["mark"]["type"] for part in walk(panel.spec) if isinstance(part.get("mark"), dict)}
    assert "bar" not in marks and {"point", "rule"} <= marks
    for part in walk(panel.spec):
        x = part.get("encoding", {}).get("x", {})
        if "scale" in x:
            assert x["scale"]["type"] == "log"
            low, high = x["scale"]["domain"]
            assert low < 1 < high
    assert any(row.get("one") == 1 for row in data(panel))
    dots = [row for row in data(panel) if "ratio" in row]
    assert len(dots) == 10
    assert all(row["low"] <= row["ratio"] <= row["high"] for row in dots)


# Guards labels of levels that are nearly equally fast: they are moved apart.
def test_speed_up_labels_do_not_cover_each_other(tmp_path):
    rows = [
        synthetic.row("dense", "flash", isa, 128, [t] * 7)
        for isa, t in (("scalar", 100.0), ("avx2", 12.0), ("avx512", 11.9), ("neon", 11.8))
    ]
    (section,) = analysis.sections([load_run(synthetic.write(tmp_path / "r.json", rows))])
    figure = charts_speedup.speed_up(section, theme.Marks(section.variants), "")
    places = sorted(row["place"] for row in data(figure.panels[0]) if "place" in row)
    x = next(
        p["encoding"]["x"]
        for p in walk(figure.panels[0].spec)
        if "scale" in p.get("encoding", {}).get("x", {})
    )
    low, high = x["scale"]["domain"]
    pixels = [380 * math.log(place / low) / math.log(high / low) for place in places]
    assert all(b - a >= 25 for a, b in itertools.pairwise(pixels))


# Guards stacked shares: each bar is full.
def test_shares_fill_the_bar(figures):
    panel = figures["stages"].panels[0]
    bars = {}
    for row in data(panel):
        if "bottom" in row:
            bars.setdefault(row["n"], []).append((row["bottom"], row["top"]))
    assert len(bars) == 7
    for parts in bars.values():
        edges = sorted(parts)
        assert edges[0][0] == pytest.approx(0) and edges[-1][1] == pytest.approx(1)
        assert all(a[1] == pytest.approx(b[0]) for a, b in itertools.pairwise(edges))


# Guards captions: machine, compiler, date, commit and sample counts; and words and a table for every chart.
def test_captions_tables_and_words(figures):
    for figure in figures.values():
        caption = " ".join(figure.caption)
        for part in ("Example Processor", "gcc 12.2.0", "2026-11-30", "0123456789ab", "11 samples"):
            assert part in caption
        assert figure.table.rows
        assert all(len(row) == len(figure.table.columns) for row in figure.table.rows)
        for panel in figure.panels:
            assert len(panel.alt) > 40
            assert re.search(r"\d", panel.alt)


# Guards labels at line ends in the picture itself: no two texts cover each other, and none leaves the picture.
@pytest.mark.parametrize(
    "name", ["scaling", "patterns", "efficiency", "peak", "stages", "roofline", "memory"]
)
def test_end_labels_are_apart_and_inside(figures, two_machines, name):
    for panel in (*figures[name].panels[:4], *two_machines[1][name].panels[:4]):
        svg = ET.fromstring(render.to_svg(panel.spec, None))
        _, _, width, height = map(float, svg.get("viewBox").split())
        boxes = []

        def visit(element, x, y, boxes=boxes):
            for dx, dy in re.findall(r"translate\(([-\d.]+),([-\d.]+)\)", element.get("transform") or ""):
                x, y = x + float(dx), y + float(dy)
            spans = [child.text for child in element if child.tag == SVG + "tspan"]
            if element.tag == SVG + "text" and "rotate" not in (element.get("transform") or ""):
                lines = spans or [element.text or ""]
                if any(lines) and element.get("text-anchor") in (None, "start"):
                    boxes.append((x, y, 5.2 * max(map(len, lines)), len(lines), lines[0]))
            for child in element:
                visit(child, x, y)

        visit(svg, 0.0, 0.0)
        labels = sorted((box for box in boxes if box[0] > 200), key=lambda box: box[1])
        assert labels
        for (_, y, _, lines, _), (_, below, _, _, _) in itertools.pairwise(labels):
            assert below - y >= lines * 11
        for x, y, wide, _, _ in boxes:
            assert x + wide <= width + 2 and 0 < y <= height


# Guards the layout of labels: apart, inside, in order, and where they want to be when there is room.
@given(hs.lists(hs.tuples(hs.floats(-50, 300), hs.floats(5, 40)), max_size=12))
def test_spread(boxes):
    wanted, heights = [w for w, _ in boxes], [h for _, h in boxes]
    centres = axes.spread(wanted, heights, 0, 250)
    fits = sum(heights) <= 250
    placed = sorted(zip(centres, heights, strict=True))
    for (a, height), (b, below) in itertools.pairwise(placed):
        if fits:
            assert b - a >= (height + below) / 2 - 1e-6
    for centre, height in placed:
        if fits:
            assert height / 2 - 1e-6 <= centre <= 250 - height / 2 + 1e-6
    assert axes.spread([50, 150], [20, 20], 0, 250) == [50, 150]
    assert axes.spread([100, 100], [20, 20], 0, 250) == [90, 110]


# Guards ticks of every range: at least two, at round numbers, inside.
@given(hs.floats(-3, 11), hs.floats(0.2, 9))
def test_log_ticks(exponent, decades):
    low, high = 10**exponent, 10 ** (exponent + decades)
    ticks = axes.log_ticks(low, high)
    assert ticks == tuple(sorted(ticks))
    assert all(low * 0.999 <= tick <= high * 1.001 for tick in ticks)
    assert len(ticks) >= 2 or decades < 0.4


# Guards text that a reader has to understand: units, digits, no exponents.
@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0.0421, "42.1 ps"),
        (1.0, "1 ns"),
        (999.4, "999 ns"),
        (1500, "1.5 µs"),
        (2.345e7, "23.4 ms"),
        (9.87e10, "98.7 s"),
    ],
)
def test_duration(ns, text):
    assert formats.duration(ns) == text


def test_numbers_and_sizes():
    # Guards against exponent forms, which Python's format falls into.
    assert formats.significant(123456) == "123000"
    assert formats.significant(0.000012345) == "0.0000123"
    assert formats.significant(0) == "0"
    assert formats.size(1048576) == "1 MiB"
    assert formats.size(0) == "0 B"


# Guards long patterns: broken at commas, nothing lost.
def test_wrap_pattern():
    pattern = "causal,window=64:64,sink=64,global=16,random=3:64:1"
    lines = wrap_pattern(pattern)
    assert "".join(lines) == pattern
    assert max(map(len, lines)) <= 25


# Guards PNGs made smaller: same pixels, valid checksums.
def test_png_is_valid(figures):
    svg = render.figure_svg(figures["speedup"])
    png = render.png_file(svg)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, kinds, pixels = 8, [], b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        kinds.append(kind)
        pixels += body if kind == b"IDAT" else b""
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        at += 12 + length
    assert kinds[0] == b"IHDR" and kinds[-1] == b"IEND"
    assert len(zlib.decompress(pixels)) == height * (1 + width * {2: 3, 6: 4}[colour] * depth // 8)
    assert width > 900
