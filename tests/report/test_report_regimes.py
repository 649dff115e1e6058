"""The model of fixed, linear and quadratic parts, and the stretches that a series is divided into."""

import math
import random
import re
from pathlib import Path

import pytest
import synthetic
from attnscope_py import analysis, charts_scaling, regimes, twoterm
from attnscope_py import statistics as st
from attnscope_py.reading import load_run

LENGTHS = [128, 256, 512, 1024, 2048, 4096, 8192]
HALVES = [round(128 * 2 ** (i / 2)) // 8 * 8 for i in range(13)]


def load(tmp_path, time, lengths=LENGTHS, pattern="dense", algorithm="flash", noise=0.0, **context):
    """The one series of a file whose times are time(n) ns, with noise between rows and, one-sided, within."""
    rng = random.Random(3)
    rows = []
    for n in lengths:
        row = time(n) * math.exp(rng.gauss(0, noise))
        samples = [row * math.exp(abs(rng.gauss(0, noise))) for _ in range(7)]
        rows.append(synthetic.row(pattern, algorithm, "avx2", n, samples))
    (section,) = analysis.sections([load_run(synthetic.write(tmp_path / "r.json", rows, **context))])
    return section.series[0]


def caches(**sizes):
    return [{"type": "Unified", "level": int(name[1]), "size": size} for name, size in sizes.items()]


# Guards the model: each coefficient is found again, and the length at which the square takes over.
def test_two_terms_are_recovered():
    model = twoterm.two_term(LENGTHS, [5e4 + 30 * n + 0.5 * n * n for n in LENGTHS])
    for term, value in (
        (model.fixed, 5e4),
        (model.linear, 30),
        (model.quadratic, 0.5),
        (model.takes_over, 60),
    ):
        assert term.value == pytest.approx(value, rel=1e-5)
        assert term.low <= value * (1 + 1e-5) and term.high >= value * (1 - 1e-5)
        assert term.there
    assert model.overhead_share(128) == pytest.approx(5e4 / (5e4 + 30 * 128 + 0.5 * 128**2), rel=1e-5)


# Guards terms that are not there: of exact times none is invented, and nothing takes over.
@pytest.mark.parametrize(
    ("coefficients", "there"),
    [((0, 40, 0), "linear"), ((0, 0, 0.5), "quadratic"), ((900, 0, 0), "fixed")],
)
@pytest.mark.parametrize("lengths", [LENGTHS[2:], LENGTHS, HALVES])
def test_missing_terms(coefficients, there, lengths):
    a, b, c = coefficients
    model = twoterm.two_term(lengths, [a + b * n + c * n * n for n in lengths])
    for name in ("fixed", "linear", "quadratic"):
        assert getattr(model, name).there == (name == there), name
    assert model.takes_over is None


# Guards windows and sparse patterns: time that follows their pairs exactly is linear above the window, whatever part of
# a window the first queries lack.
@pytest.mark.parametrize("longest", [8192, 32768])
@pytest.mark.parametrize("width", [64, 256, 500])
def test_time_of_a_window_is_linear(tmp_path, width, longest):
    lengths = [n for n in (512, 1024, 2048, 4096, 8192, 16384, 32768) if n <= longest]

    def time(n):
        return 8.0 * (width * n - width * (width - 1) // 2)

    s = load(tmp_path, time, lengths, pattern=f"window={width}", caches=[])
    model = s.two_term
    assert model.linear.value == pytest.approx(8 * width, rel=1e-4)
    assert model.fixed.value == pytest.approx(-4 * width * (width - 1), rel=1e-3)
    assert model.quadratic.low == 0 and model.quadratic.value * longest < 1e-3 * 8 * width
    assert (model.text, model.takes_over) == ("no quadratic term", None)
    assert regimes.overhead(lengths, model) is None


# The same of the sparse pattern of the sweep, whose drawn blocks are all different from n = 768 on.
def test_time_of_a_sparse_pattern_is_linear(tmp_path):
    pattern = synthetic.PATTERNS[3]
    s = load(tmp_path, lambda n: 8.0 * synthetic.pairs(pattern, n), pattern=pattern, caches=[])
    assert s.two_term.n_low == 128 and not s.two_term.quadratic.there
    s = load(tmp_path, lambda n: 8.0 * synthetic.pairs(pattern, n), HALVES[6:], pattern=pattern, caches=[])
    assert s.two_term.text == "no quadratic term"
    assert s.two_term.linear.value == pytest.approx(8 * (64 + 129 + 192), rel=1e-4)


# Guards the model's robustness: one row that something made half as slow again does not bend it.
def test_one_slow_row_does_not_bend_the_model():
    times = [2e4 + 0.5 * n * n for n in HALVES]
    times[8] *= 1.5
    model = twoterm.two_term(HALVES, times)
    assert model.fixed.value == pytest.approx(2e4, rel=0.02)
    assert model.quadratic.value == pytest.approx(0.5, rel=0.02)


# Guards the intervals of the model down to the fewest lengths, with all terms, without some, and with rows that are slower
# than the others: each holds the truth in at least 90 of 100 series, and a term that is not there is told of in at most
# 10. The length at which the square takes over is held as often, where it is told.
@pytest.mark.parametrize(
    ("lengths", "coefficients", "noise", "slow"),
    [
        (LENGTHS[2:], (0, 900, 0), 0.003, 0),
        (LENGTHS[2:], (0, 900, 0), 0.01, 0.25),
        (LENGTHS[2:], (0, 0, 2.5), 0.01, 0),
        (LENGTHS, (5e3, 900, 0), 0.01, 0),
        (LENGTHS, (0, 1000, 2.5), 0.03, 0),
        (HALVES, (0, 90, 0), 0.01, 0),
        (HALVES, (5e4, 90, 0.5), 0.01, 0.25),
    ],
)
def test_intervals_of_the_model(lengths, coefficients, noise, slow):
    runs, held, invented, told, taken = 200, [0, 0, 0], [0, 0, 0], 0, 0
    a, b, c = coefficients
    rng = random.Random(5)
    for _ in range(runs):
        factors = [
            math.exp(rng.gauss(0, noise) + (rng.random() < slow) * abs(rng.gauss(0, 0.08))) for _ in lengths
        ]
        times = [(a + b * n + c * n * n) * f for n, f in zip(lengths, factors, strict=True)]
        model = twoterm.two_term(lengths, times)
        terms = (model.fixed, model.linear, model.quadratic)
        for i, (term, value) in enumerate(zip(terms, coefficients, strict=True)):
            held[i] += term.low <= value <= term.high
            invented[i] += term.there and not value
        if model.takes_over and b and c:
            told += 1
            taken += model.takes_over.low <= b / c <= model.takes_over.high
    assert min(held) >= 0.9 * runs and max(invented) <= 0.1 * runs, (held, invented)
    assert taken >= 0.9 * told and (not (b and c) or told > runs / 2)


# Guards too few lengths: three terms of four points would fit anything.
def test_too_few_lengths_for_a_model():
    assert twoterm.two_term([128, 256, 512, 1024], [1.0, 2.0, 4.0, 8.0]) is None


# Guards a series that nothing divides: one regime, from the first length to the last, with the exponent.
def test_undivided_series(tmp_path):
    s = load(tmp_path, lambda n: 7 * n**1.7, caches=[])
    (only,) = s.regimes
    assert (only.n_low, only.n_high, only.points, only.reason) == (128, 8192, 7, "all points")
    assert s.exponent is only.exponent and s.exponent.value == pytest.approx(1.7)
    assert s.regime == "all points"
    assert load(tmp_path, lambda n: 1000.0, caches=[]).exponent.value == pytest.approx(0)


# Guards the lower border: lengths whose fixed part is 5 % or more are set apart, and then the exponent is right.
def test_overhead_is_set_apart(tmp_path):
    lengths = [2**k for k in range(5, 14)]
    s = load(tmp_path, lambda n: 2e4 + 1.0 * n * n, lengths, caches=[])
    # 2e4 / (2e4 + 512^2) is 7.1 %, at 1024 1.9 %
    assert [(r.n_low, r.n_high) for r in s.regimes] == [(32, 512), (1024, 8192)]
    assert "falls below 5 %" in s.regime and "20 µs" in s.regime
    assert s.exponent.value == pytest.approx(2, abs=0.02)
    assert s.regimes[0].exponent.value < 1.5


# Guards the headline against noise: without a fixed part none is set apart, whatever the noise.
def test_noise_makes_no_overhead(tmp_path):
    for exponent in (1, 2):
        s = load(tmp_path, lambda n, e=exponent: 7.0 * n**e, HALVES, noise=0.03, caches=[])
        assert [r.n_low for r in s.regimes] == [128]


# Guards the border at the window: what is inside it is not fitted together with what is above, even if it is short.
def test_window_is_set_apart(tmp_path):
    s = load(tmp_path, lambda n: 8.0 * synthetic.pairs("window=256", n), pattern="window=256", caches=[])
    inside, above = s.regimes
    assert (inside.n_low, inside.n_high, inside.exponent) == (128, 256, None)
    assert "no exponent: 2 of at least 4 lengths" in inside.reason
    assert (above.n_low, above.n_high) == (512, 8192) and "window restricts from n = 257" in above.reason
    assert s.exponent is above.exponent
    assert s.exponent.value == pytest.approx(s.pair_exponent, abs=1e-6)
    assert s.two_term.n_low == 512


# Guards cache borders: a planted change of slope at the border gives two regimes, each with its own exponent and
# the formula that says where the border is.
def test_planted_cache_border(tmp_path):
    # 512 B a key: n = 1024 fills 512 KiB.
    s = load(
        tmp_path, lambda n: n**1.8 if n <= 1024 else 1024**-0.4 * n**2.2, HALVES, caches=caches(L2=512 << 10)
    )
    below, above = s.regimes
    assert (below.n_high, above.n_low) == (1024, 1448)
    assert below.exponent.value == pytest.approx(1.8, abs=0.01)
    assert above.exponent.value == pytest.approx(2.2, abs=0.03)
    assert "512n = L2, 512 KiB" in below.reason and "512n = L2, 512 KiB" in above.reason
    assert s.exponent is above.exponent


# Guards short regimes: they join a neighbour, which says so; the one that is left alone is undivided.
def test_short_regimes_are_merged(tmp_path):
    s = load(tmp_path, lambda n: n**2.0, LENGTHS, caches=caches(L2=1 << 20))
    (only,) = s.regimes
    assert only.points == 7 and len(only.merged) == 1
    assert "not divided at 512n = L2, 1 MiB: too few lengths" in s.regime
    s = load(tmp_path, lambda n: n**2.0, HALVES, caches=caches(L1=100 << 10, L2=1 << 20, L3=3 << 20))
    assert [r.points for r in s.regimes] == [9, 4]  # 128, 181 | 256 .. 2048 | 2896 .. 5792 | 8192
    assert [len(r.merged) for r in s.regimes] == [1, 1]
    assert all(r.exponent for r in s.regimes)


# Guards every division: whatever the borders, each regime that has an exponent has four points or more, the regimes
# cover all points once and in order, and the last one has an exponent.
def test_divisions_hold_their_rules():
    rng = random.Random(11)
    for _ in range(400):
        lengths = sorted(rng.sample(range(1, 60), rng.randint(4, 14)))
        kinds = ("cache", "window", "overhead")
        found = sorted(
            (
                regimes.Border(rng.uniform(lengths[0], lengths[-1]) - 0.01, rng.choice(kinds), "x")
                for _ in range(rng.randint(0, 4))
            ),
            key=lambda b: b.n,
        )
        found = [b for b in found if b.n >= lengths[0]]
        divided = regimes._merge(regimes._divide(lengths, found))
        assert sum(r.points for r in divided) == len(lengths)
        assert (divided[0].n_low, divided[-1].n_high) == (lengths[0], lengths[-1])
        for a, b in zip(divided, divided[1:], strict=False):
            assert lengths.index(b.n_low) == lengths.index(a.n_high) + 1
            assert a.upper == b.lower and a.n_high <= a.upper.n < b.n_low
        assert divided[-1].points >= st.MIN_POINTS
        for r in divided:
            assert r.points >= st.MIN_POINTS or r.upper.kind != "cache"
        merged = sum(len(r.merged) for r in divided) + len(divided) - 1
        assert merged <= len(found)


_BORDER = re.compile(r'^BORDER\("([^"]+)", (\w+), (\w+), (\d+), (\d+), (\d+), (\d+), (\d+)\)$', re.MULTILINE)
BORDERS = _BORDER.findall((Path(__file__).parents[1] / "borders.def").read_text(encoding="utf-8"))


# Guards the table against being read in part: each of its lines is one.
def test_all_borders_are_read():
    text = (Path(__file__).parents[1] / "borders.def").read_text(encoding="utf-8")
    assert len(BORDERS) == text.count("\nBORDER(") > 20


# Guards the working set, where the harness has it and where the charts mark it: keys and values of a head, with the
# scores for naive; of a window no more than its keys; half the bytes of a 16-bit type.
@pytest.mark.parametrize("border", BORDERS, ids=" ".join)
def test_working_sets(tmp_path, border):
    pattern, algorithm, dtype, *numbers = border
    head_dim, value_dim, queries, cache, expected = map(int, numbers)
    changes = {"pattern": pattern, "dtype": dtype.lower(), "head_dim": head_dim, "value_dim": value_dim}
    rows = [
        synthetic.row("dense", algorithm.lower(), "avx2", n, [1.0 * n] * 3)
        | changes
        | {"queries": queries or n}
        for n in LENGTHS
    ]
    file = synthetic.write(tmp_path / "r.json", rows, caches=caches(L2=cache))
    (section,) = analysis.sections([load_run(file)])
    (series,) = section.series
    found = regimes.working_sets(series)
    assert [b.n for b in found] == ([pytest.approx(expected, rel=1e-14)] if expected else [])
    assert charts_scaling._working_sets(series) == [(b.n, b.reason) for b in found]
