"""From which n on one of two is faster, on times whose crossovers are known."""

import math
import random
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import synthetic
from attnscope_py import analysis, analysis_tables, comparisons, crossover, draw, tuning
from attnscope_py import statistics as st
from attnscope_py.reading import load_run, load_runs
from scipy import stats

LENGTHS = [128, 256, 512, 1024, 2048, 4096, 8192]
HALVES = [round(128 * 2 ** (i / 2)) // 8 * 8 for i in range(13)]


def sections_of(tmp_path, rows):
    return analysis.sections([load_run(synthetic.write(tmp_path / "r.json", rows))])


def rows_of(pattern, algorithm, isa, time, lengths=LENGTHS, rng=None, noise=0.01, threads=1, **changes):
    """Rows with times time(n) and, given a generator, with noise between rows and one-sided noise within them."""
    made = []
    for n in lengths:
        row = time(n) * math.exp(rng.gauss(0, noise) if rng else 0)
        samples = [row * math.exp(abs(rng.gauss(0, noise)) if rng else 0.001 * i) for i in range(7)]
        made.append(synthetic.row(pattern, algorithm, isa, n, samples, threads=threads) | changes)
    return made


def compared(tmp_path, first, second, lengths=LENGTHS, rng=None, noise=0.01):
    """naive takes first(n), flash second(n)."""
    rows = rows_of("dense", "naive", "avx2", first, lengths, rng, noise)
    rows += rows_of("dense", "flash", "avx2", second, lengths, rng, noise)
    (found,) = comparisons.crossovers(sections_of(tmp_path, rows))
    assert found.names == ("naive", "flash") and found.where == "dense, avx2"
    return found


@dataclass
class Fake:
    """What a comparison takes of a point."""

    n: int
    quiet: float
    replicates: object
    disturbed: bool = False


def fakes(rng, time, key, noise=0.01, off=0.0, lengths=LENGTHS):
    """Of the rows a share `off` took 4 % longer."""
    made = []
    for n in lengths:
        row = time(n) * math.exp(rng.gauss(0, noise) + 0.04 * (off > 0 and rng.random() < off))
        samples = [row * math.exp(abs(rng.gauss(0, noise))) for _ in range(7)]
        made.append(Fake(n, min(samples), st.undisturbed_logs(samples, key + n)))
    return made


# Guards the position: planted crossovers are found within their own interval, and in the right direction.
@pytest.mark.parametrize("planted", [200, 700, 1024, 3000, 6000])
@pytest.mark.parametrize("lengths", [LENGTHS, HALVES])
def test_planted_crossover(tmp_path, planted, lengths):
    found = compared(
        tmp_path, lambda n: 1.0 * n**2, lambda n: 1.0 * planted**0.5 * n**1.5, lengths, random.Random(planted)
    )
    (crossing,) = found.found.crossings
    assert crossing.low <= planted <= crossing.high
    assert crossing.n == pytest.approx(planted, rel=0.1)
    assert crossing.faster_above == 1
    assert (
        found.text.startswith(f"n = {crossing.n:.0f} [")
        and "naive is faster below, flash above" in found.text
    )


# Guards the interval: of many noisy pairs it holds the planted crossover as often as it says, by a bound that 95 %
# stay above in 999 of 1000 runs.
def test_interval_holds_the_crossover():
    runs, held = 150, 0
    for seed in range(runs):
        planted = 1000 + 3 * seed
        rng = random.Random(seed)
        first, second = (
            fakes(rng, lambda n: 1.0 * n**2, 1),
            fakes(rng, lambda n, p=planted: p**0.5 * n**1.5, 2),
        )
        (crossing,) = crossover.compare(first, second).crossings
        held += crossing.low <= planted <= crossing.high
    assert held >= stats.binom.ppf(1e-3, runs, 0.95)


# Guards noise: two that are level give "none" and nobody faster, in 19 of 20 cases at least, and never a crossover
# more often than chance allows (2.5 % of pairs part at all in one direction; both directions are rarer).
def test_noise_crosses_nowhere():
    runs, parted, crossed = 200, 0, 0
    for seed in range(runs):
        rng = random.Random(seed)
        found = crossover.compare(*(fakes(rng, lambda n: 7.0 * n**2, key) for key in (1, 2)))
        parted += any(found.signs)
        crossed += bool(found.crossings)
        if not any(found.signs):
            assert re.fullmatch(
                r"none: within \d+ % of each other at every n measured", found.text(("a", "b"))
            )
    assert parted <= stats.binom.ppf(1 - 1e-3, runs, 0.05)
    assert crossed <= stats.binom.ppf(1 - 1e-3, runs, 0.01)


# Guards against noise that is more than that of quiet rows: two that cost the same have a crossover in at most one of
# twenty pairs, whatever the noise and however few the lengths; one that is planted is found, and held by its interval.
@pytest.mark.parametrize(
    ("noise", "off"), [(0.005, 0), (0.01, 0), (0.02, 0), (0.04, 0), (0.003, 0.25), (0.003, 0.125)]
)
@pytest.mark.parametrize("lengths", [LENGTHS[:4], LENGTHS[:5], LENGTHS, HALVES], ids=len)
def test_any_noise_crosses_nowhere(noise, off, lengths):
    rng, equal, planted = random.Random(7), 100, 40

    def compare(first, second):
        return crossover.compare(
            *(fakes(rng, time, key, noise, off, lengths) for key, time in ((1, first), (2, second)))
        )

    crossed = sum(bool(compare(lambda n: 7.0 * n**2, lambda n: 7.0 * n**2).crossings) for _ in range(equal))
    assert crossed <= 0.05 * equal
    found = [compare(lambda n: 1.0 * n**2, lambda n: 500**0.5 * n**1.5).crossings for _ in range(planted)]
    assert all(len(some) == 1 for some in found)
    held = sum(crossing.low <= 500 <= crossing.high for (crossing,) in found)
    assert held >= stats.binom.ppf(1e-3, planted, 0.95)


# Guards an interval that says nothing: where both are level for long, there is no position but two lengths.
def test_slow_crossover_is_between(tmp_path):
    def gap(n):
        return 1.0 * n**2 * (1.3 if n <= 128 else 0.75 if n >= 8192 else 1)

    found = compared(tmp_path, gap, lambda n: 1.0 * n**2, rng=random.Random(2), noise=0.004)
    (crossing,) = found.found.crossings
    assert (crossing.n, crossing.low, crossing.high, crossing.faster_above) == (None, 128, 8192, 0)
    assert found.text == "between 128 and 8192: flash is faster below, naive above"


# Guards what never crosses, in each of its forms.
@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (lambda n: 1.5, "none: flash is faster at every n measured"),
        (lambda n: 0.5, "none: naive is faster at every n measured"),
        (lambda n: 1.5 if n > 512 else 1, "none: within X % up to n = 512, flash is faster from n = 1024 on"),
        (lambda n: 0.5 if n < 512 else 1, "none: naive is faster up to n = 256, within X % from n = 512 on"),
        (lambda n: 1 if n in (256, 1024) else 2, "none: flash is faster, or within X % (at n = 256, 1024)"),
    ],
)
def test_no_crossover(tmp_path, factor, text):
    found = compared(tmp_path, lambda n: factor(n) * n**2, lambda n: 1.0 * n**2)
    assert re.sub(r"\d+ %", "X %", found.text) == text and not found.found.crossings


# Guards what is said where two do not part: by how much they may still differ, which is more where rows scatter more.
@pytest.mark.parametrize(("noise", "least", "most"), [(0.003, 3, 6), (0.03, 6, 20)])
def test_within(noise, least, most):
    rng = random.Random(3)
    found = crossover.compare(*(fakes(rng, lambda n: 7.0 * n**2, key, noise) for key in (1, 2)))
    (said,) = re.findall(r"^none: within (\d+) % of each other at every n measured$", found.text(("a", "b")))
    assert int(said) == math.ceil(max(100 * (max(r.high, 1 / r.low) - 1) for r in found.ratios))
    assert least <= int(said) <= most


# Guards against rows that something slowed down: one that parts against both sides is named and is no crossover, and
# of several in turn none is taken for the position.
def test_single_lengths_are_no_crossovers(tmp_path):
    found = compared(tmp_path, lambda n: n**2 * (0.6 if n == 1024 else 1.5), lambda n: 1.0 * n**2)
    assert found.text == "none: flash is faster; other than the rest at n = 1024"
    turns = {1024: 1.5, 2048: 0.7, 4096: 1.5, 8192: 1.5}
    found = compared(tmp_path, lambda n: n**2 * turns.get(n, 0.7), lambda n: 1.0 * n**2)
    assert found.text == "between 512 and 4096: naive is faster below, flash above"


# Guards every sequence of signs: crossings alternate, lie between lengths that part, and lead from the first run to
# the last.
def test_runs_hold_their_rules():
    rng = random.Random(6)
    for _ in range(2000):
        signs = [rng.choice((-1, 0, 1)) for _ in range(rng.randint(1, 12))]
        solid, odd = crossover._runs(signs)
        used = [i for run in solid for i in run] + odd
        assert sorted(used) == [i for i, sign in enumerate(signs) if sign]
        for a, b in zip(solid, solid[1:], strict=False):
            assert a[-1] < b[0] and signs[a[0]] == -signs[b[0]]
        for run in solid:
            assert len({signs[i] for i in run}) == 1


# Guards the common lengths: only at those is anything compared, and two that share one are not.
def test_common_lengths(tmp_path):
    rows = rows_of("dense", "naive", "avx2", lambda n: 2.0 * n, LENGTHS[:4])
    rows += rows_of("dense", "flash", "avx2", lambda n: 1.0 * n, LENGTHS[2:])
    (found,) = comparisons.crossovers(sections_of(tmp_path, rows))
    assert found.found.lengths == (512, 1024)
    assert {round(r.value, 6) for r in found.found.ratios} == {2.0}
    rows = rows_of("dense", "naive", "avx2", lambda n: 2.0 * n, LENGTHS[:4])
    rows += rows_of("dense", "flash", "avx2", lambda n: 1.0 * n, LENGTHS[3:])
    assert comparisons.crossovers(sections_of(tmp_path, rows)) == []


# Guards what is compared with what: each pair that differs in one thing, once.
def test_what_is_compared(tmp_path):
    rows = []
    for isa, speed in (("scalar", 8.0), ("avx2", 1.0)):
        for pattern in ("dense", "window=256", "stride=4"):
            rows += rows_of(pattern, "flash", isa, lambda n, s=speed: s * n**2)
        rows += rows_of("dense", "naive", isa, lambda n, s=speed: s * n**2)
        rows += rows_of("dense", "flash", isa, lambda n, s=speed: s * n**2 / 2 + 1e6, threads=2)
    found = comparisons.crossovers(sections_of(tmp_path, rows))
    assert {kind: sum(c.kind == kind for c in found) for kind in comparisons.KINDS} == {
        "algorithm": 2,
        "pattern": 6,
        "isa": 5,
        "threads": 2,
    }
    threads = [c for c in found if c.kind == "threads"]
    assert threads[0].names == ("1 thread", "2 threads") and threads[0].where == "dense · flash, scalar"
    # s n^2 = s n^2 / 2 + 1e6 at n = sqrt(2e6 / s)
    for c, speed in zip(threads, (8, 1), strict=True):
        (crossing,) = c.found.crossings
        assert crossing.n == pytest.approx(math.sqrt(2e6 / speed), rel=0.2)
    # With two threads the ratio bends at n = 128, where it is only 5 %: that is within what it leaps by.
    for c in (c for c in found if c.kind == "isa"):
        level = "within X % up to n = 128, avx2 is faster from n = 256 on"
        two = c.first.group.threads == 2
        assert (
            re.sub(r"\d+ %", "X %", c.text)
            == f"none: {level if two else 'avx2 is faster at every n measured'}"
        )


# Guards thread scaling: speed-up over one thread and its share for each thread, with an interval.
def test_thread_scaling(tmp_path):
    rows = rows_of("dense", "flash", "avx2", lambda n: 3.0 * n**2, rng=random.Random(1))
    rows += rows_of("dense", "flash", "avx2", lambda n: 1.0 * n**2, rng=random.Random(2), threads=4)
    found = comparisons.thread_scaling(sections_of(tmp_path, rows))
    assert [t.n for t in found] == LENGTHS
    for t in found:
        assert t.threads == 4
        assert t.ratio.value == pytest.approx(3, rel=0.1) and t.efficiency.value == pytest.approx(
            0.75, rel=0.1
        )
        assert t.efficiency.low <= t.efficiency.value <= t.efficiency.high


# Guards sparse efficiency's interval: that of the ratio over the exact ratio of pairs.
def test_sparse_efficiency_has_an_interval(tmp_path):
    rows = rows_of("dense", "flash", "avx2", lambda n: 2.0 * n**2, rng=random.Random(1))
    rows += rows_of(
        "window=256", "flash", "avx2", lambda n: 4.0 * synthetic.pairs("window=256", n), rng=random.Random(2)
    )
    (section,) = sections_of(tmp_path, rows)
    for a in section.against_dense:
        found = a.efficiency_interval
        assert found.low < a.efficiency == found.value < found.high
        assert found.low <= 0.5 * 1.03 and found.high >= 0.5 * 0.97


# Guards the tuning table: the faster algorithm from each crossover on, sorted, from n = 0; flash where both are level;
# nothing of decoding, of options or of the other comparisons.
def test_tuning(tmp_path):
    rows = rows_of("dense", "naive", "avx2", lambda n: 1.0 * n**2)
    rows += rows_of("dense", "flash", "avx2", lambda n: 1000**0.5 * n**1.5)
    rows += rows_of("causal", "naive", "avx2", lambda n: 1.0 * n**2)
    rows += rows_of("causal", "flash", "avx2", lambda n: 1.0 * n**2)
    rows += rows_of("window=256", "naive", "avx2", lambda n: 2.0 * n**2)
    rows += rows_of("window=256", "flash", "avx2", lambda n: 3.0 * n**2)
    rows += [
        row | {"queries": 1, "id": row["id"].replace("nq", "q"), "name": "x"}
        for algorithm, factor in (("naive", 1.0), ("flash", 2.0))
        for row in rows_of("dense", algorithm, "avx2", lambda n, f=factor: f * n)
    ]
    table = tuning.choices(comparisons.crossovers(sections_of(tmp_path, rows)))
    assert [(e.pattern, e.from_n, e.algorithm) for e in table] == [
        ("dense", 0, "naive"),
        ("dense", pytest.approx(1000, abs=15), "flash"),
        ("causal", 0, "flash"),
        ("window=256", 0, "naive"),
    ]
    assert all(
        (e.isa, e.dtype, e.head_dim, e.value_dim, e.threads) == ("avx2", "f32", 64, 64, 1) for e in table
    )
    assert table[1].from_low <= 1000 <= table[1].from_high
    assert "less memory" in table[2].reason


# Guards the choice between several problems that the library does not tell apart: the one that was measured at most
# lengths decides, and where at a length one algorithm is faster for one and the other for another, nothing does.
@pytest.mark.parametrize("other", [1.2, 1.0, 0.5])
def test_tuning_takes_the_longest(tmp_path, other):
    rows = []
    for heads, lengths, naive in ((8, LENGTHS, 2.0), (1, LENGTHS[:3], other)):
        for algorithm, factor in (("naive", naive), ("flash", 1.0)):
            made = rows_of(
                "dense", algorithm, "avx2", lambda n, f=factor: f * n**2, lengths, heads=heads, kv_heads=heads
            )
            rows += [row | {"id": row["id"].replace("/h1/kv1", f"/h{heads}/kv{heads}")} for row in made]
    found = tuning.choices(comparisons.crossovers(sections_of(tmp_path, rows)))
    if other < 1:
        assert found == []
    else:
        (entry,) = found
        assert (entry.from_n, entry.to_n, entry.algorithm) == (0, LENGTHS[-1], "flash")


# Guards that no pattern decides for one that the library tells apart: windows of two widths, two sparse patterns,
# numbers of threads each have entries of their own; one pattern in two spellings has one.
def test_tuning_tells_patterns_apart(tmp_path):
    faster = {
        ("window=256", 1): "naive",
        ("window=32", 1): "flash",
        ("window=16:15", 2): "naive",
        ("sink=1,window=9", 1): "naive",
        ("sink=2,window=9", 1): "flash",
        ("causal,window=255:7", 1): "naive",  # as window=256
    }
    rows = []
    for (pattern, threads), name in faster.items():
        for algorithm in ("naive", "flash"):
            factor = 1.0 if algorithm == name else 2.0
            rows += rows_of(pattern, algorithm, "avx2", lambda n, f=factor: f * n**2, threads=threads)
    found = tuning.choices(comparisons.crossovers(sections_of(tmp_path, rows)))
    said = {(e.pattern, e.threads): e.algorithm for e in found}
    assert len(found) == len(said) == 5
    assert said.items() <= faster.items()


# Guards that a window with a prefix, which the library takes for another pattern, neither silences the window alone
# nor speaks for it: whichever is faster for which, both have their entry.
@pytest.mark.parametrize("faster", [("naive", "flash"), ("flash", "naive"), ("naive", "naive")])
def test_tuning_of_a_prefix(tmp_path, faster):
    patterns = ("causal,window=64", "causal,prefix=32,window=64")
    rows = [
        row
        for pattern, name in zip(patterns, faster, strict=True)
        for algorithm in ("naive", "flash")
        for row in rows_of(
            pattern, algorithm, "avx2", lambda n, f=1.0 if algorithm == name else 2.0: f * n**2
        )
    ]
    found = tuning.choices(comparisons.crossovers(sections_of(tmp_path, rows)))
    assert {e.pattern: e.algorithm for e in found} == dict(zip(patterns, faster, strict=True))


# Guards what the report takes for one pattern, which has to be what the library does: the test of that reads this list
# too.
def test_patterns_are_known_as_the_library_knows_them():
    text = (Path(__file__).parents[1] / "tuning_patterns.def").read_text(encoding="utf-8")
    listed = re.findall(r'^PATTERN\("([^"]+)", (\w+), (\d+)\)$', text, re.MULTILINE)
    assert len(listed) == text.count("\nPATTERN(") > 20
    keys = [tuning.known_by(pattern) for pattern, _, _ in listed]
    others = []
    for (pattern, kind, width), known in zip(listed, keys, strict=True):
        expected = {"DENSE": ("dense", ""), "CAUSAL": ("causal", ""), "WINDOW": ("window", int(width))}
        if kind == "OTHER":
            assert known[0] == "sparse", pattern
            others.append(known)
        else:
            assert known == expected[kind], pattern
    assert len(set(others)) == len(others)


# Guards the time that a report of many series takes: page and summary rest on one comparison of each two series, and
# each run gets of those of all what it has by itself.
def test_series_are_compared_once(tmp_path, monkeypatch):
    rows = rows_of("dense", "naive", "avx2", lambda n: 1.0 * n**2, LENGTHS[:4])
    rows += rows_of("dense", "flash", "avx2", lambda n: 2.0 * n**2, LENGTHS[:4])
    rows += rows_of("causal", "flash", "avx2", lambda n: 1.0 * n**2, LENGTHS[:4], threads=2)
    rows += rows_of("causal", "flash", "avx2", lambda n: 1.5 * n**2, LENGTHS[:4])
    places = [synthetic.write(tmp_path / f"{host}.json", rows, host=host) for host in ("one", "two")]
    runs = load_runs(places)
    compared = []

    def counted(a, b):
        compared.append((id(a), id(b)))
        return crossover.compare(a, b)

    monkeypatch.setattr(comparisons, "compare", counted)
    monkeypatch.setattr(draw, "figures", lambda sections: [(s, []) for s in sections])  # the words alone
    sections = analysis.sections(runs)
    draw.report(runs, sections, [], str(tmp_path / "out"), png=False)
    assert len(compared) == len(set(compared)) == 2 * 3
    found = comparisons.crossovers(sections)
    for run in runs:
        own = comparisons.crossovers([s.of_run(run) for s in sections])
        shown = analysis_tables.of_run(sections, found, run)
        assert shown == analysis_tables.of_run([s.of_run(run) for s in sections], own, run)
