"""The statistics, on data whose answer is known."""

import math
import random

import numpy as np
import pytest
from attnscope_py import statistics as st
from hypothesis import given, settings
from hypothesis import strategies as hs
from scipy import stats

LENGTHS = [128, 256, 512, 1024, 2048, 4096, 8192]


def noisy(rng, time, sigma=0.02, count=9):
    return [time * math.exp(rng.gauss(0, sigma)) for _ in range(count)]


# Guards the exponent itself: an exact power law gives its exponent and no width, a constant gives 0.
@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.7, 2.0, 3.0])
def test_exact_power_law(exponent):
    fit = st.exponent(LENGTHS, [3.5 * n**exponent for n in LENGTHS])
    assert fit.value == pytest.approx(exponent, abs=1e-9)
    assert fit.low == pytest.approx(exponent, abs=1e-9)
    assert fit.high == pytest.approx(exponent, abs=1e-9)
    assert (fit.n_low, fit.n_high, fit.points) == (128, 8192, 7)


def series(rng, exponent=1.7, lengths=LENGTHS, rows=0.01, samples=0.02):
    """Times of a power law with noise between rows and, one-sided, within them, as `exponent` takes them."""
    raw = [
        [3.0 * n**exponent * math.exp(row + abs(rng.gauss(0, samples))) for _ in range(9)]
        for n, row in ((n, rng.gauss(0, rows)) for n in lengths)
    ]
    replicates = [st.undisturbed_logs(some, key) for key, some in enumerate(raw)]
    return lengths, [min(some) for some in raw], replicates


# Guards the interval: it holds the truth as often as it says, down to the fewest points, by a bound that a true 95 %
# stays above in 999 of 1000 runs; and it is not so wide that it holds everything: at most twice as wide as that of
# least squares, which knows that the noise is normal.
@pytest.mark.parametrize(("points", "step"), [(4, 1), (4, 0.5), (5, 1), (7, 1), (13, 0.5)])
def test_interval_holds_the_truth(points, step):
    lengths = [round(128 * 2 ** (step * i)) for i in range(points)]
    runs, noise = 120, 0.01
    held, widths = 0, []
    for seed in range(runs):
        fit = st.exponent(*series(random.Random(seed), lengths=lengths, rows=noise, samples=0.003))
        held += fit.low <= 1.7 <= fit.high
        widths.append(fit.high - fit.low)
    assert held >= stats.binom.ppf(1e-3, runs, st.LEVEL)
    spread = np.std(np.log(lengths)) * math.sqrt(points)
    assert np.median(widths) <= 2 * 2 * stats.t.ppf(0.975, points - 2) * noise / spread


# Guards the exponent with noise: 1.70 stays 1.70.
def test_noisy_power_law():
    for seed in range(40):
        assert st.exponent(*series(random.Random(seed))).value == pytest.approx(1.7, abs=0.05)


# Guards what the fits rest on: other work that slows most samples of a row down, not all, changes nothing.
def test_slow_samples_are_not_followed():
    lengths, quiet, _ = series(random.Random(5))
    raw = [
        [t * f for f in (1, 1.4, 1.5, 1.5, 1.6)] if n > 1024 else [t] * 5
        for n, t in zip(lengths, quiet, strict=True)
    ]
    fit = st.exponent(lengths, [min(some) for some in raw])
    medians = st.exponent(lengths, [float(np.median(some)) for some in raw])
    assert fit.value == pytest.approx(1.7, abs=0.02)
    assert medians.value > fit.value + 0.05


# Guards the noise of the samples in the interval: the same fastest samples with wider others give a wider one.
def test_noisier_samples_widen_the_interval():
    times = [2.0 * n**1.7 for n in LENGTHS]

    def width(*factors):
        replicates = [st.undisturbed_logs([t * f for f in factors], key) for key, t in enumerate(times)]
        fit = st.exponent(LENGTHS, times, replicates)
        assert fit.value == pytest.approx(1.7)
        return fit.high - fit.low

    assert width(1.0, 1.2, 1.3) > 3 * width(1.0, 1.01, 1.02) > 0


# Guards the bootstrap of the fastest sample against drawing with replacement itself.
def test_drawn_fastest_sample():
    samples = [7.0, 5.0, 9.0, 6.0, 8.0]
    draws = st.undisturbed_logs(samples, 1, 40000)
    for k, value in enumerate(sorted(samples)):
        share = ((5 - k) / 5) ** 5 - ((4 - k) / 5) ** 5
        assert np.isclose(draws, math.log(value)).mean() == pytest.approx(share, abs=0.01)
    assert (st.undisturbed_logs(samples, 2) != st.undisturbed_logs(samples, 3)).any()
    assert (st.undisturbed_logs([5.0], 1) == math.log(5.0)).all()


# Guards robustness: one wild point in seven hardly moves the slope, where least squares would follow it.
def test_one_outlier_is_not_followed():
    times = [2.0 * n**2 for n in LENGTHS]
    times[-1] *= 8
    fit = st.exponent(LENGTHS, times)
    least_squares = np.polyfit(np.log(LENGTHS), np.log(times), 1)[0]
    assert abs(fit.value - 2) < 0.05
    assert least_squares - 2 > 0.2
    assert fit.high > 2.2  # but the interval shows that something is odd


# Guards pure noise around a constant: no growth is found.
def test_noise_has_no_growth():
    fit = st.exponent(*series(random.Random(4), exponent=0))
    assert fit.low <= 0 <= fit.high
    assert abs(fit.value) < 0.02


# Guards reproducibility: the same file gives the same report.
def test_same_data_same_interval():
    one, other = (st.exponent(*series(random.Random(1))) for _ in range(2))
    assert one == other


# Guards the unit: nanoseconds or seconds, the exponent is the same.
@settings(deadline=None, max_examples=15)
@given(hs.floats(-3, 3), hs.floats(1e-9, 1e9), hs.integers(0, 1000))
def test_scale_does_not_matter(exponent, scale, seed):
    rng = random.Random(seed)
    times = [n**exponent * math.exp(rng.gauss(0, 0.05)) for n in LENGTHS]
    one, other = st.exponent(LENGTHS, times), st.exponent(LENGTHS, [t * scale for t in times])
    assert other.value == pytest.approx(one.value, abs=1e-6)
    assert other.low == pytest.approx(one.low, abs=1e-6)
    assert one.low <= one.value <= one.high


# Guards the rule of four points, and times that have no logarithm.
def test_too_little_for_an_exponent():
    with pytest.raises(ValueError, match="needs 4 different lengths, not 3"):
        st.exponent([128, 256, 512], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="above 0"):
        st.exponent(LENGTHS, [0.0] * 7)


# Guards the interval of a median against a table: k-th smallest and largest with P(Bin(m, 1/2) < k) <= 2.5 %.
@pytest.mark.parametrize(
    ("count", "k"), [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (20, 6), (30, 10)]
)
def test_median_interval_from_order_statistics(count, k):
    samples = list(range(1, count + 1))
    random.Random(count).shuffle(samples)
    found = st.median_interval(samples)
    assert (found.low, found.high) == (k, count + 1 - k)
    assert found.value == (count + 1) / 2
    assert not found.is_range


# Guards few samples: there is no interval, and the range says that it is one.
@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_samples_give_their_range(count):
    found = st.median_interval(range(1, count + 1))
    assert (found.low, found.high, found.is_range) == (1, count, True)


# Guards ratios: of equal noise around 10 and 2 the interval holds 5, of exact times it is a point.
def test_ratio():
    rng = random.Random(3)
    found = st.ratio(noisy(rng, 10.0, count=21), noisy(rng, 2.0, count=21))
    assert found.low <= 5 <= found.high
    assert 4.7 < found.low < found.value < found.high < 5.3
    exact = st.ratio([10.0] * 5, [2.0] * 5)
    assert (exact.low, exact.value, exact.high) == (5, 5, 5)
    few = st.ratio([10.0, 12.0], [2.0])
    assert (few.low, few.value, few.high) == (5, 5.5, 6)


# Guards the shortcut by which medians are drawn, odd and even: their distribution is that of drawing samples.
@pytest.mark.parametrize("count", [3, 4, 9, 10])
def test_drawn_medians(count):
    rng = np.random.default_rng(7)
    samples = np.exp(rng.normal(0, 1, count))
    found = np.concatenate([st._drawn_medians(samples, rng) for _ in range(20)])
    drawn = np.median(samples[rng.integers(0, count, (len(found), count))], axis=1)
    assert stats.ks_2samp(found, drawn).statistic < 0.02
