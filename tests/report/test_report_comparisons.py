"""Sparse efficiency, threads, and machines side by side: ratios, each within one run."""

import pytest
import synthetic
from attnscope_py import analysis, draw
from attnscope_py.reading import load_run, load_runs
from specs import all_figures, data, walk

LENGTHS = (128, 256, 512, 1024)


def by_name(runs):
    return {figure.name: figure for _, figure in all_figures(runs)}


def threaded(threads, lengths=LENGTHS, per_n=1000.0, **changes):
    """Rows of flash with this number of threads; changes are of fields."""
    rows = []
    for n in lengths:
        row = synthetic.row("dense", "flash", "avx2", n, [per_n * n] * 7, threads=threads)
        rows.append(row | changes)
    return rows


# Guards sparse efficiency on the chart: the saving in time over the saving in pairs, and a line at 100 %.
def test_sparse_efficiency(tmp_path):
    rows = []
    for n in LENGTHS:
        rows.append(synthetic.row("dense", "flash", "avx2", n, [8000.0] * 7, pairs_useful=1000))
        # A quarter of the pairs in half of the time.
        rows.append(synthetic.row("window=64", "flash", "avx2", n, [4000.0] * 7, pairs_useful=250))
    figure = by_name([load_run(synthetic.write(tmp_path / "r.json", rows))])["efficiency"]
    (panel,) = figure.panels
    assert [row["y"] for row in data(panel) if "series" in row] == [pytest.approx(50)] * len(LENGTHS)
    assert any(row.get("full") == 100 for row in data(panel))
    assert "50 % at n=1024" in panel.alt
    assert figure.table.rows[0][-3] == "50.0 %"


# Guards thread scaling: against the fewest threads, at the largest length that all have.
def test_thread_scaling(tmp_path):
    rows = [
        *threaded(1),
        *threaded(2, per_n=500.0),
        *threaded(4, LENGTHS[:3], per_n=400.0),
    ]
    runs = [load_run(synthetic.write(tmp_path / "r.json", rows))]
    figures = by_name(runs)
    figure = figures["threads"]
    (panel,) = figure.panels
    points = {row["n"]: row["y"] for row in data(panel) if "series" in row}
    assert points == {1: 1, 2: pytest.approx(2), 4: pytest.approx(2.5)}
    assert {row[2] for row in figure.table.rows} == {"512"}
    assert [row[-2] for row in figure.table.rows] == ["100 %", "100 %", "62 %"]
    ideal = [row for row in data(panel) if row.keys() == {"at", "y"}]
    assert {(row["at"], row["y"]) for row in ideal} == {(1, 1), (4, 4)}
    # Once for all numbers of threads, not again for each.
    assert sum(name.startswith("threads") for name in figures) == 1
    assert "1 thread" not in figure.caption[0]


# Guards what is no thread scaling: one number of threads, other problems, other machines.
@pytest.mark.parametrize(
    "rows",
    [
        threaded(2),
        threaded(1) + threaded(2, heads=8),
        threaded(1) + threaded(2, isa="avx512"),
        threaded(1, (128, 256)) + threaded(2, (512, 1024)),
    ],
)
def test_no_thread_scaling(tmp_path, rows):
    # Ids tell apart what the fields do.
    for index, row in enumerate(rows):
        row["id"] += f"/x{index}" if row["heads"] != 1 or row["isa"] != "avx2" else ""
    runs = [load_run(synthetic.write(tmp_path / "r.json", rows))]
    assert "threads" not in by_name(runs)


def test_threads_of_two_machines_are_not_compared(tmp_path):
    files = [
        synthetic.write(tmp_path / f"{host}.json", threaded(count), host=host)
        for host, count in (("ant", 1), ("bee", 2))
    ]
    assert "threads" not in by_name(load_runs(files))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    place = tmp_path_factory.mktemp("two")
    files = [
        synthetic.write(place / f"{host}.json", synthetic.sweep(speed, isas, index), host=host)
        for index, (host, speed, isas) in enumerate(
            (("zebra", 1.0, ("scalar", "avx2")), ("ant", 0.3, ("scalar", "neon")))
        )
    ]
    return load_runs(files)


# Guards the comparison of machines: each number is of one machine, none divides two, no line joins them.
def test_machines_side_by_side(two):
    figure = by_name(two)["machines"]
    assert [panel.title for panel in figure.panels] == [
        "Exponent of time over n",
        "Percent of peak",
        "Speed-up over scalar",
        "Sparse efficiency",
    ]
    (section,) = analysis.sections(two)
    dots = [row for row in data(figure.panels[2]) if "at" in row and "machine" in row]
    assert len(dots) == 2 * 5
    for dot in dots:
        assert dot["isa"] == {"zebra": "avx2", "ant": "neon"}[dot["machine"]]
        of = [
            s.ratio.value
            for s in section.speed_ups
            if (s.run.label, s.variant.label, s.isa) == (dot["machine"], dot["variant"], dot["isa"])
        ]
        assert dot["at"] in of
    marks = {
        part["mark"]["type"] for part in walk(figure.panels[0].spec) if isinstance(part.get("mark"), dict)
    }
    assert not marks & {"line", "area", "bar"}
    assert len(figure.table.rows) == sum(len([r for r in data(p) if "machine" in r]) for p in figure.panels)


def test_one_machine_has_nothing_beside_it(sweep_file):
    assert "machines" not in by_name([load_run(sweep_file)])


# Guards what a reader can hide: each mark of each chart says what it is of, and the figure offers it.
def test_what_can_be_hidden(two):
    for _, found in draw.figures(analysis.sections(two)):
        for figure in found:
            assert sorted(figure.toggles("machine")) == ["ant", "zebra"]
            kinds = {"speedup": ("avx2", "neon"), "scaling": ("scalar", "avx2", "neon")}
            if figure.name in kinds:
                assert figure.toggles("isa") == list(kinds[figure.name])
            for panel in figure.panels:
                # One without its machine would stay when that is hidden.
                assert panel.series and all("machine" in keys for keys in panel.series)
                for part in walk(panel.spec):
                    values = part.get("data", {}).get("values", [])
                    if any("machine" in row for row in values):
                        assert (
                            "indexof(hidden, 'machine=' + datum.machine) < 0"
                            in part["transform"][0]["filter"]
                        )


# Guards the names of patterns, which reach into the plot: the line at 1 and at 100 % passes none of them.
def test_reference_passes_no_name(two):
    for _, found in draw.figures(analysis.sections(two)):
        for panel in (p for f in found if f.name == "machines" for p in f.panels):
            names = [row["place"] for row in data(panel) if row.get("weight") == "bold"]
            spans = [(row["top"], row["bottom"]) for row in data(panel) if "bottom" in row]
            assert names and bool(spans) == (panel.title in ("Speed-up over scalar", "Sparse efficiency"))
            assert not [name for name in names for top, bottom in spans if top < name < bottom]
