"""The statistics, on data whose answer is known."""

import math
import random

import numpy as np
import pytest
from attnscope_py import statistics as st
from hypothesis import given, settings
from hypothesis import strategies as hs

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
    assert fit.at(1000) == pytest.approx(3.5 * 1000**exponent, rel=1e-6)
    assert (fit.n_low, fit.n_high, fit.points) == (128, 8192, 7)


# Guards the interval: of 60 noisy series it must hold the truth in most (95 % nominal; a bootstrap of seven
# points is known to be somewhat narrow), and it must not be so wide that it holds everything.
def test_interval_holds_the_truth():
    held, widths = 0, []
    for seed in range(60):
        rng = random.Random(seed)
        samples = [noisy(rng, 2.0 * n**1.7) for n in LENGTHS]
        fit = st.exponent(LENGTHS, [float(np.median(s)) for s in samples], samples)
        held += fit.low <= 1.7 <= fit.high
        widths.append(fit.high - fit.low)
        assert abs(fit.value - 1.7) < 0.05
    assert held >= 51
    assert 0 < max(widths) < 0.1


# Guards the noise of the samples in the interval: the same medians with wider samples give a wider one.
def test_noisier_samples_widen_the_interval():
    times = [2.0 * n**1.7 for n in LENGTHS]
    quiet = st.exponent(LENGTHS, times, [[t * f for f in (0.99, 1.0, 1.01)] for t in times])
    loud = st.exponent(LENGTHS, times, [[t * f for f in (0.7, 1.0, 1.3)] for t in times])
    assert quiet.value == loud.value == pytest.approx(1.7)
    assert loud.high - loud.low > 3 * (quiet.high - quiet.low)


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
    rng = random.Random(4)
    samples = [noisy(rng, 1000.0) for _ in LENGTHS]
    fit = st.exponent(LENGTHS, [float(np.median(s)) for s in samples], samples)
    assert fit.low <= 0 <= fit.high
    assert abs(fit.value) < 0.02


# Guards reproducibility: the same file gives the same report.
def test_same_data_same_interval():
    rng = random.Random(1)
    samples = [noisy(rng, n**1.5) for n in LENGTHS]
    times = [float(np.median(s)) for s in samples]
    assert st.exponent(LENGTHS, times, samples) == st.exponent(LENGTHS, times, samples)


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
    assert st.regime([128, 256, 512], [1.0, 2.0, 4.0]) is None


# Guards the model of fixed, linear and quadratic parts.
def test_two_terms_are_recovered():
    model = st.two_term(LENGTHS, [5e4 + 30 * n + 0.5 * n * n for n in LENGTHS])
    assert model.fixed == pytest.approx(5e4, rel=1e-6)
    assert model.linear == pytest.approx(30, rel=1e-6)
    assert model.quadratic == pytest.approx(0.5, rel=1e-6)
    assert model.overhead_share(128) == pytest.approx(5e4 / (5e4 + 30 * 128 + 0.5 * 128**2))


# Guards the lower border: points with 5 % of fixed cost or more are cut off, and then the exponent is right.
def test_regime_starts_above_the_overhead():
    lengths = [2**k for k in range(5, 14)]
    times = [2e4 + 1.0 * n * n for n in lengths]
    regime = st.regime(lengths, times)
    assert lengths[regime.first] == 1024  # 2e4 / (2e4 + 512^2) is 7.1 %, at 1024 1.9 %
    assert "below 5 %" in regime.reason
    fit = st.exponent(lengths[regime.first :], times[regime.first :])
    assert fit.value == pytest.approx(2, abs=0.02)
    assert st.exponent(lengths, times).value < 1.9  # what it would be otherwise


# Guards the border at the window, and that nothing is cut off where nothing has to be.
def test_regime_starts_above_the_window():
    window = [8.0 * sum(min(i + 1, 256) for i in range(n)) for n in LENGTHS]
    regime = st.regime(LENGTHS, window, saturated_above=256)
    assert LENGTHS[regime.first] == 512
    assert "window" in regime.reason
    assert st.regime(LENGTHS, [n**1.7 for n in LENGTHS]) == st.Regime(0, "all points")


# Guards merging: where the rest would be too short all points are taken, and it is said.
def test_short_regimes_are_merged_and_said_to_be():
    constant = st.regime(LENGTHS, [1000.0] * 7)
    assert constant.first == 0
    assert "too few" in constant.reason
    window = st.regime(LENGTHS, [n**2.0 for n in LENGTHS], saturated_above=4096)
    assert window.first == 0
    assert "window" in window.reason and "too few" in window.reason


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
