"""From rows to series, ratios and sentences."""

import importlib

import pytest
import synthetic
from attnscope_py import (
    analysis,
    charts_scaling,
    comparisons,
    exports,
    figures,
    page,
    series,
    summary,
    text_table,
    theme,
)
from attnscope_py.reading import load_run, load_runs
from attnscope_py.series import pattern_class, window_reach, window_width
from words import leading


def load(tmp_path, rows, **changes):
    return load_run(synthetic.write(tmp_path / "r.json", rows, **changes))


@pytest.fixture(scope="module")
def sweep(sweep_file):
    run = load_run(sweep_file)
    return run, analysis.sections([run])


# Guards the words of the charts: what is dense, causal, a window alone, or sparse.
@pytest.mark.parametrize(
    ("pattern", "kind", "width", "reach"),
    [
        ("dense", "dense", 0, 0),
        ("causal", "causal", 0, 0),
        ("causal-top-left,prefix=8", "causal", 0, 0),
        ("window=256", "window", 256, 256),
        ("causal,window=256", "window", 256, 256),
        ("window=64:32", "window", 97, 65),
        ("causal,window=64:32", "window", 65, 65),
        ("window=64:64", "window", 129, 65),
        ("window=64:inf", "window", 0, 0),
        ("causal,window=64:inf", "window", 65, 65),
        ("causal-top-left,window=64:32", "window", 65, 65),
        ("causal,prefix=8,window=64", "window", 64, 64),
        ("causal,prefix=8,window=64:32", "window", 97, 65),
        ("causal,prefix=8,window=64:inf", "window", 0, 65),
        ("window=inf:64", "window", 0, 0),
        ("window=64:64,sink=64,random=3:64:1", "sparse", 129, 65),
        ("stride=4", "sparse", 0, 0),
        ("causal,chunk=128", "sparse", 0, 0),
    ],
)
def test_pattern_class(pattern, kind, width, reach):
    assert pattern_class(pattern) == kind
    assert window_width(pattern) == width
    assert window_reach(pattern) == reach


# Guards the length from which a window is said to restrict: up to its reach, as the definition has it, one side of it
# leaves out no key of any query; above it both do.
@pytest.mark.parametrize(("left", "right"), [(255, 0), (64, 64), (64, 32), (3, 9), (0, 0)])
def test_window_reach(left, right):
    def whole(n):
        return all(i - left <= 0 for i in range(n)) or all(i + right >= n - 1 for i in range(n))

    reach = window_reach(f"window={left}:{right}")
    assert whole(reach) and not whole(reach + 1)


# Guards the main result of a sweep: dense is quadratic, a window is linear, at every level.
def test_exponents_of_a_sweep(sweep):
    _, (section,) = sweep
    for line in section.series:
        fit = line.exponent
        if line.variant.pattern in ("dense", "causal") and line.variant.algorithm == "flash":
            assert abs(fit.value - 2) < 0.05
        if line.variant.pattern == "window=256" and line.isa != "scalar":
            assert fit.n_low == 512
            assert abs(fit.value - line.pair_exponent) < 0.05
            assert fit.value < 1.2


# Guards series: each is one variant at one level in one run, sorted by n, and nothing is lost.
def test_every_row_is_in_one_series(sweep):
    run, (section,) = sweep
    ids = [p.row.id for s in section.series for p in s.points]
    assert sorted(ids) == sorted(row.id for row in run.rows if not row.stage)
    for line in section.series:
        lengths = [p.n for p in line.points]
        assert lengths == sorted(set(lengths))


# Guards what must not be drawn as one line: another type, head dimension, thread count or query length.
def test_groups(tmp_path):
    rows = []
    for index, changes in enumerate(
        (
            {},
            {"dtype": "bf16"},
            {"head_dim": 128},
            {"queries": 1},
            {"kv_heads": 2, "heads": 8},
        )
    ):
        rows += [row | changes | {"id": f"{row['id']}/x{index}"} for row in synthetic.power_law(1.0, 2.0)]
    rows += synthetic.power_law(1.0, 2.0, threads=2)
    sections = analysis.sections([load(tmp_path, rows)])
    assert len(sections) == 6
    assert {s.group.label for s in sections} >= {
        "bf16, 1 head, head dimension 64, 1 thread",
        "f32, 1 head, head dimension 64, 1 query, 1 thread",
        "f32, 1 head, head dimension 64, 2 threads",
        "f32, 8 heads, 2 key/value heads, head dimension 64, 1 thread",
    }


# Guards speed-ups: scalar time over this time, at the same n, within a run only.
def test_speed_ups(tmp_path):
    def rows(scalar, avx2):
        return [
            synthetic.row("dense", "flash", isa, n, [t * n * n] * 7)
            for n in synthetic.LENGTHS
            for isa, t in (("scalar", scalar), ("avx2", avx2))
            if (isa, n) != ("scalar", 8192)
        ]

    first = synthetic.write(tmp_path / "a.json", rows(8.0, 1.0), host="a")
    second = synthetic.write(tmp_path / "b.json", rows(9.0, 3.0), host="b")
    (section,) = analysis.sections(load_runs([first, second]))
    by_host = {}
    for s in section.speed_ups:
        by_host.setdefault(s.run.label, set()).add(round(s.ratio.value, 9))
    assert by_host == {"a": {8.0}, "b": {3.0}}
    # The largest n that both levels have, not the largest there is.
    assert {s.n for s in analysis.largest_common(section)} == {4096}


# Guards sparse efficiency: saving in time over saving in pairs, 100 % when time follows the pairs.
def test_sparse_efficiency(tmp_path):
    rows = []
    for n in synthetic.LENGTHS:
        rows.append(synthetic.row("dense", "flash", "avx2", n, [2.0 * n * n] * 7))
        rows.append(
            synthetic.row("window=256", "flash", "avx2", n, [4.0 * synthetic.pairs("window=256", n)] * 7)
        )
    (section,) = analysis.sections([load(tmp_path, rows)])
    for found in section.against_dense:
        assert found.efficiency == pytest.approx(0.5)
        assert found.pair_ratio == pytest.approx(found.n**2 / synthetic.pairs("window=256", found.n))


# Guards stages: in their order, shares that add up to 1.
def test_stage_shares(sweep):
    _, (section,) = sweep
    assert len(section.stages) == 7 + 7 + 5
    for found in section.stages:
        assert list(found.times_ns) == ["qk", "scale", "mask", "softmax", "pv"]
        assert sum(found.share(stage) for stage in found.times_ns) == pytest.approx(1)
        assert found.share("qk") == pytest.approx(0.35, abs=0.02)


# Guards the summary: each subject is there, with the numbers that the data was made with.
def test_statements(sweep):
    run, sections = sweep
    said = {s.subject: " ".join((s.text, *s.parts)) for s in leading(sections, run)}
    assert list(said) == ["Growth", "ISA levels", "Algorithms", "Crossovers", "Patterns", "Stages", "Limits"]
    assert "dense · flash: n^2.00 [" in said["Growth"]
    assert "avx512 is 12." in said["ISA levels"] and "avx2 is 6." in said["ISA levels"]
    assert "n=2048" in said["ISA levels"]
    assert "flash is 2." in said["Algorithms"]
    assert (
        "window=256 · flash at n=8192 is" in said["Patterns"] and "sparse efficiency 77 %" in said["Patterns"]
    )
    assert "dense, avx512: naive and flash: none: flash is faster at every n measured." in said["Crossovers"]
    assert "dense and window=64:64,sink=64,random=3:64:1: n = " in said["Crossovers"]
    assert "is qk with 35 %" in said["Stages"]
    assert "of the measured FMA peak" in said["Limits"]


# Guards doubt: failed rows, impossible speeds, drift, an interrupted run and a debug build are all said.
def test_warnings(tmp_path):
    rows = synthetic.power_law(1.0, 2.0)
    rows[0] |= {"error_occurred": True, "error_message": "no memory"}
    rows[1]["pct_peak"] = 250.0
    rows[2]["pct_peak"] = 104.0
    change = {"drift": {"flagged": True, "change": 0.08}, "incomplete": True, "build_type": "debug"}
    text = "\n".join(summary.warnings([load(tmp_path, rows, **change)]))
    for part in ("no memory", "250 %", "8.0 % longer", "interrupted", "debug build"):
        assert part in text
    assert "104 %" not in text
    assert (
        summary.warnings([load(tmp_path, synthetic.power_law(1.0, 2.0, pct_peak=90.0), incomplete=False)])
        == []
    )


# Guards the text table: a line for each series, aligned, with the exponent that the data has.
def test_text_table(tmp_path):
    run = load(
        tmp_path, synthetic.power_law(2.0, 1.7) + [synthetic.row("causal", "flash", "avx2", 128, [7.0])]
    )
    lines = text_table.text_table(analysis.sections([run]), [run]).splitlines()
    assert lines[0] == "f32, 1 head, head dimension 64, 1 thread"
    assert lines[2].split()[:5] == ["dense", "·", "flash", "avx2", "128..8192"]
    assert "1.70 [1.70, 1.70]" in lines[2]
    assert lines[3].split()[4:6] == ["128", "-"]
    assert len({len(line) for line in lines[1:]}) == 1


# Guards kernel rows: they have a length and a level, and are series of their own.
def test_kernels(tmp_path):
    rows = [
        {
            "id": f"kernel/softmax/{isa}/f32/n{n}",
            "isa": isa,
            "algorithm": "softmax",
            "dtype": "f32",
            "n": n,
            "real_time": t * n,
            "samples_ns": [t * n] * 7,
        }
        for n in synthetic.LENGTHS
        for isa, t in (("scalar", 4.0), ("avx2", 1.0))
    ]
    (section,) = analysis.sections([load(tmp_path, rows)])
    assert section.group.label.startswith("kernels, f32")
    assert [s.exponent.value for s in section.series] == pytest.approx([1.0, 1.0])
    assert {s.ratio.value for s in section.speed_ups} == {4.0}


# Guards a level to come, which has no colour yet: reports are made, and it is black.
def test_level_without_colour(monkeypatch):
    with monkeypatch.context() as changed:
        changed.setattr(series, "ISA_ORDER", (*series.ISA_ORDER, "sve"))
        importlib.reload(theme)
        assert theme.isa_colour("sve") == theme.FURTHER_ISA_COLOUR
        assert theme.isa_colour("avx2") != theme.FURTHER_ISA_COLOUR
    importlib.reload(theme)


# Guards the sentence about the fastest sample: it alone decides exponents and crossovers, medians do not, and the
# caption at the charts says so.
def test_exponents_and_crossovers_rest_on_the_fastest_sample(tmp_path):
    rows = []
    for algorithm, factor, power in (("naive", 1.0, 2.0), ("flash", 1000.0, 1.0)):
        for n in synthetic.LENGTHS:
            fastest = factor * n**power
            # Medians that grow in the other's way and never cross.
            slowed = [fastest, *([1e9 * n ** (3 - power)] * 6)]
            rows.append(synthetic.row("dense", algorithm, "avx2", n, slowed))
    (section,) = analysis.sections([load(tmp_path, rows)])
    fitted = {s.variant.algorithm: s.exponent.value for s in section.series}
    assert fitted == {"naive": pytest.approx(2.0), "flash": pytest.approx(1.0)}
    (found,) = comparisons.crossovers([section])
    # n^2 is 1000 n there; the samples beside the fastest widen the intervals and move no position.
    lengths = found.found.lengths
    assert [r.value for r in found.found.ratios] == [pytest.approx(n / 1000) for n in lengths]
    caption = charts_scaling.scaling(section, theme.Marks(section.variants), "").caption
    assert figures.FASTEST in caption


# Guards against impossible speeds, as the harness refuses them: such a row is none that was measured, and stands in no
# chart, ratio, sentence or export; at the limit it does.
@pytest.mark.parametrize(("percent", "told"), [(131.0, False), (105.0, True)])
def test_impossible_speeds_are_refused(tmp_path, percent, told):
    rows = [
        synthetic.row("dense", "flash", isa, n, [5.0 * n**2] * 7, pct_peak=share, presets="bert-base")
        for isa in ("scalar", "avx2")
        for n, share in ((128, 60.0), (256, 40.0), (512, 80.0), (1024, percent if isa == "avx2" else 9.0))
    ]
    run = load_run(synthetic.write(tmp_path / "r.json", rows))
    assert (1024 in {row.keys for row in run.rows if row.isa == "avx2"}) == told
    (section,) = analysis.sections([run])
    assert (1024 in {s.n for s in section.speed_ups}) == told
    warned = [
        text for text in summary.warnings([run]) if "fault of measurement: 131 % of the measured peak" in text
    ]
    assert len(warned) == (not told)
    said = {s.subject: " ".join((s.text, *s.parts)) for s in leading([section], run)}
    best = percent if told else 80
    peak = next(text for text in said.values() if "most useful work" in text)
    assert f"most useful work: {best:.0f} % of the measured FMA peak" in peak
    assert (f"{percent:.0f} % of the measured FMA peak" in said["Models"]) == told
    assert (f"{percent:.0f}" in str(page.all_rows([run]).rows)) == told
    assert ("nq1024" in exports.tidy_csv(run).partition("avx2")[2]) == told
