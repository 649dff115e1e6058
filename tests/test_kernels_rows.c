/* The kernels that work on one row: scale, mask, adjust, read, copy (softmax: test_kernels_softmax.c). Every
 * size of the family, flush against unmapped pages on either side and misaligned, against double precision.
 */
#include "tests/support.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "reference/reference.h"
#include "tests/row.h"

static const double u = 0x1p-24;

/* Random bits, at `place`, as many words as n elements need; `density` of 8 are set. */
static guard bits_new(int64_t n, guard_place place, int density, test_rng *rng) {
    guard g = guard_new((size_t)(n + 63) / 64 * sizeof(uint64_t), place, sizeof(uint64_t));
    memset(g.data, 0, g.bytes);
    for (int64_t i = 0; i < n; i++)
        if (test_between(rng, 0, 7) < density)
            ((uint64_t *)g.data)[i / 64] |= (uint64_t)1 << (i % 64);
    /* what lies past n is of no meaning, so it may as well be set */
    for (int64_t i = n; i % 64 != 0; i++)
        ((uint64_t *)g.data)[i / 64] |= (uint64_t)1 << (i % 64);
    guard_seal(&g);
    return g;
}

static bool bit(const guard *bits, int64_t i) {
    return ((const uint64_t *)bits->data)[i / 64] >> (i % 64) & 1;
}

/* ---- scale ------------------------------------------------------------------------ */

static void scale_one(const attn_kernels *kernels, int64_t n, guard_place place) {
    row r = row_new(n, place, "scale", 1);
    if (n > 2)
        r.x[n - 1] = r.before[n - 1] = NAN;
    test_call(kernels->scale(r.x, n, -0.3f));
    for (int64_t i = 0; i < n; i++) {
        float expected = r.before[i] * -0.3f;
        if (memcmp(&r.x[i], &expected, sizeof expected) != 0 && !(isnan(expected) && isnan(r.x[i])))
            test_fail("n=%d at %s: x[%d] = %g, expected %g", (int)n, guard_place_name[place], (int)i,
                      (double)r.x[i], (double)expected);
    }
    row_free(&r);
}

/* Guards: scale is one correctly rounded product per element, tails included. */
static void scale(void **state) {
    row_each_size(test_kernels(state), scale_one);
}

/* ---- mask ------------------------------------------------------------------------- */

static void mask_one(const attn_kernels *kernels, int64_t n, guard_place place) {
    for (int density = 0; density <= 8; density += 4) {
        test_rng rng = test_rng_start("mask bits", (uint64_t)(n * 10 + density));
        row r = row_new(n, place, "mask", 1);
        guard bits = bits_new(n, place, density, &rng);
        for (int64_t i = 0; i < n; i += 5)
            r.x[i] = r.before[i] = NAN;
        test_call(kernels->mask(r.x, bits.data, n));
        for (int64_t i = 0; i < n; i++)
            if (bit(&bits, i) ? memcmp(&r.x[i], &r.before[i], 4) != 0 : r.x[i] != -INFINITY)
                test_fail("n=%d at %s: x[%d] = %g from %g, bit %d", (int)n, guard_place_name[place], (int)i,
                          (double)r.x[i], (double)r.before[i], bit(&bits, i));
        row_free(&r);
        guard_free(&bits);
    }
}

/* Guards: a clear bit gives -inf whatever was there, a set bit leaves every bit of the element. */
static void mask(void **state) {
    row_each_size(test_kernels(state), mask_one);
}

/* ---- adjust ----------------------------------------------------------------------- */

static void adjust_case(const attn_kernels *kernels, int64_t n, guard_place place, int options) {
    const bool has_cap = options & 1, has_slope = options & 2, has_bias = options & 4, has_mask = options & 8;
    test_rng rng = test_rng_start("adjust", (uint64_t)(n * 16 + options));
    row r = row_new(n, place, "adjust scores", 4), bias = row_new(n, place, "adjust bias", 2);
    for (int64_t i = 3; i < n; i += 7)
        bias.x[i] = bias.before[i] = -INFINITY;
    if (n > 10 && has_bias) { /* masked by their bias, whatever the score */
        r.x[3] = r.before[3] = NAN;
        r.x[10] = r.before[10] = INFINITY;
    }
    guard_seal(&bias.buffer);
    guard bits = bits_new(n, place, 5, &rng);
    const attn_score_ops ops = {
        .softcap = has_cap ? 3.0f : 0,
        .slope = has_slope ? 0.37f : 0,
        .distance = test_between(&rng, -n, 2 * n),
        .bias = has_bias ? bias.x : NULL,
        .mask = has_mask ? bits.data : NULL,
    };
    test_call(kernels->adjust(r.x, n, &ops));
    for (int64_t i = 0; i < n; i++) {
        double x = r.before[i];
        if (has_cap)
            x = 3 * tanh(x / 3);
        const double capped = fabs(x),
                     linear = has_slope ? (double)0.37f * fabs((double)(ops.distance - i)) : 0;
        x -= linear;
        if (has_bias)
            x += bias.before[i];
        double tolerance = u * (8 * has_cap * capped + 3 * linear + has_slope * (capped + linear)) +
                           u * has_bias * fabs(x) * 1.01;
        if ((has_mask && !bit(&bits, i)) || (has_bias && bias.before[i] == -INFINITY)) {
            x = -INFINITY;
            tolerance = 0;
        }
        ref_comparison c = ref_compare(&r.x[i], &x, &tolerance, 1);
        if (!c.ok)
            test_fail("n=%d at %s, options %d: x[%d] = %.9g, expected %.9g +- %g", (int)n,
                      guard_place_name[place], options, (int)i, (double)r.x[i], x, tolerance);
    }
    row_free(&r);
    row_free(&bias);
    guard_free(&bits);
}

static void adjust_one(const attn_kernels *kernels, int64_t n, guard_place place) {
    for (int options = 0; options < 16; options++)
        if (!test_quick() || options == 0 || options == 15 || (options & (options - 1)) == 0)
            adjust_case(kernels, n, place, options);
}

/* Guards: cap, ALiBi, bias and mask, each alone and together, in their order; -inf for what is masked. */
static void adjust(void **state) {
    row_each_size(test_kernels(state), adjust_one);
}

/* Guards: the cap over its whole range: odd, monotonic in the large, finite for infinities, NaN stays; its
 * relative error small also for scores far below the cap, where 1 - 2/(e^2x + 1) would lose every digit. */
static void adjust_cap(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const float caps[] = {50, 1e-3f, 1e-6f, 1e-30f};
    double worst = 0;
    for (size_t k = 0; k < COUNT_OF(caps); k++) {
        const attn_score_ops ops = {.softcap = caps[k]};
        const double cap = caps[k];
        for (float x = 1e-30f; x < 1e30f; x *= 1.0173f) {
            float y[2] = {x, -x};
            kernels->adjust(y, 2, &ops);
            double expected = cap * tanh(x / cap), error = fabs(y[0] - expected) / expected;
            worst = fmax(worst, error / u);
            assert_true(y[0] == -y[1] && y[0] <= caps[k]);
        }
        float y[] = {INFINITY, -INFINITY, NAN, 0};
        kernels->adjust(y, 4, &ops);
        assert_true(y[0] == caps[k] && y[1] == -caps[k] && isnan(y[2]) && y[3] == 0);
    }
    test_note("%s: worst error of the cap %.2f of 2^-24, 8 allowed", kernels->name, worst);
    assert_true(worst <= 8);
}

/* Guards: ALiBi at distances beyond 2^31, on both sides. */
static void adjust_far(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int side = -1; side <= 1; side += 2) {
        const attn_score_ops ops = {.slope = 0.5f, .distance = side * ((int64_t)1 << 40)};
        float x[37] = {0};
        kernels->adjust(x, 37, &ops);
        for (int i = 0; i < 37; i++)
            assert_true(fabs(x[i] + 0x1p39) <= 0x1p39 * 4 * u);
    }
}

/* Guards: a finite bias masks nothing: where it and a finite score sum up to -inf, the score is -FLT_MAX;
 * what is not finite stays what it is, a bias of -inf masks. In vectors and tails, at each place of them. */
static void adjust_lowest(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const float cases[][3] = {
        /* score, bias, what comes out */
        {-1e32f, -FLT_MAX, -FLT_MAX},   {-FLT_MAX, -FLT_MAX, -FLT_MAX},
        {-1, -FLT_MAX, -FLT_MAX},       {1e38f, -FLT_MAX, 1e38f - FLT_MAX},
        {-1e32f, -INFINITY, -INFINITY}, {-INFINITY, -1, -INFINITY},
        {INFINITY, -FLT_MAX, INFINITY}, {NAN, -FLT_MAX, NAN},
        {NAN, -INFINITY, -INFINITY},    {-FLT_MAX, NAN, NAN},
        {1e38f, FLT_MAX, INFINITY},     {-INFINITY, INFINITY, NAN},
    };
    for (size_t shift = 0; shift < COUNT_OF(cases); shift++)
        for (int n = 1; n <= 37; n++) {
            float x[37], bias[37];
            for (int i = 0; i < n; i++) {
                x[i] = cases[((size_t)i + shift) % COUNT_OF(cases)][0];
                bias[i] = cases[((size_t)i + shift) % COUNT_OF(cases)][1];
            }
            kernels->adjust(x, n, &(attn_score_ops){.bias = bias});
            for (int i = 0; i < n; i++) {
                const float *c = cases[((size_t)i + shift) % COUNT_OF(cases)];
                if (isnan(c[2]) ? !isnan(x[i]) : x[i] != c[2])
                    test_fail("n=%d, x[%d]: %g with a bias of %g is %g, must be %g", n, i, (double)c[0],
                              (double)c[1], (double)x[i], (double)c[2]);
            }
        }
}

/* ---- bandwidth ------------------------------------------------------------------------ */

static void stream_one(const attn_kernels *kernels, int64_t n, guard_place place) {
    row r = row_new(n, place, "stream", 1), to = row_new(n, place, "stream to", 0);
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += r.x[i];
        size += fabs(r.x[i]);
    }
    guard_seal(&r.buffer);
    float actual;
    test_call(actual = kernels->read(r.x, n));
    assert_true(fabs(actual - sum) <= (double)n * u * size);
    test_call(kernels->copy(to.x, r.x, n));
    assert_memory_equal(to.x, r.before, (size_t)n * sizeof(float));
    row_free(&r);
    row_free(&to);
}

/* Guards: the bandwidth kernels read every element once, and copy all of them. */
static void stream(void **state) {
    row_each_size(test_kernels(state), stream_one);
}

/* What fma_peak returns: every chain with its own start, `iterations` times x = x + 0.75 * 0.25, or
 * x = x * 0.75 + 0.25 where the level has no FMA; the sum of all, one lane after the other. */
static float peak_expected(const attn_kernels *kernels, int64_t iterations) {
    const bool fused = strcmp(kernels->name, "scalar") != 0;
    const int64_t chains = kernels->peak_flops / (2 * kernels->lanes);
    float sum = 0.0f;
    for (int64_t i = 0; i < chains; i++) {
        float x = (float)(iterations & 1) + 0.0625f * (float)i;
        for (int64_t n = 0; n < iterations; n++)
            if (fused)
                x += 0.1875f; /* the product is exact: one rounding */
            else
                x = x * 0.75f + 0.25f;
        sum += x;
    }
    return sum * (float)kernels->lanes; /* lanes hold the same: sums of 2, 4, 8 and 16 of them are exact */
}

/* Guards: the peak loop does what it is said to do, no less: its result is that of exactly so many rounds of
 * as many chains as its FLOPs are counted for. */
static void fma_peak(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t iterations[] = {0, 1, 2, 3, 4, 7, 8, 10, 11, 63, 64, 1000, 1001};
    assert_int_equal(kernels->peak_flops % (2 * kernels->lanes), 0);
    assert_true(kernels->peak_flops >= 2 * kernels->lanes);
    for (size_t i = 0; i < COUNT_OF(iterations); i++) {
        float actual;
        test_call(actual = kernels->fma_peak(iterations[i]));
        const float expected = peak_expected(kernels, iterations[i]);
        if (actual != expected)
            test_fail("%d rounds: %.9g, expected %.9g", (int)iterations[i], (double)actual, (double)expected);
    }
}

/* Guards: nor does ALiBi mask while its slope is finite: a finite score that it takes below the range is
 * -FLT_MAX, one that it takes above is +inf, one that is not finite stays what it is, one that stays within
 * the range is the nearest float, though the slope's part alone be beyond it; and an infinite slope gives
 * what the formula says. Expected in double, which holds every product and sum here. */
static void adjust_steep(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const float scores[] = {-1e32f,   0,     FLT_MAX, INFINITY, -INFINITY, NAN,
                                   -FLT_MAX, 3e38f, -3e38f,  2e38f,    -1e38f};
    static const float slopes[] = {3e38f, FLT_MAX, 2e38f, 1e37f, INFINITY, -1e37f, -2e38f, -FLT_MAX};
    static const int64_t distances[] = {1, 2, 3, 20, 140}; /* of key 0, which is the farthest */
    for (size_t k = 0; k < COUNT_OF(slopes) * COUNT_OF(scores) * COUNT_OF(distances); k++)
        for (int n = 1; n <= 37; n++) {
            const float slope = slopes[k / COUNT_OF(scores) % COUNT_OF(slopes)];
            const int64_t distance = distances[k / COUNT_OF(scores) / COUNT_OF(slopes)];
            float x[37];
            for (int i = 0; i < n; i++)
                x[i] = scores[((size_t)i + k) % COUNT_OF(scores)];
            kernels->adjust(x, n, &(attn_score_ops){.slope = slope, .distance = distance});
            for (int i = 0; i < n; i++) {
                const float score = scores[((size_t)i + k) % COUNT_OF(scores)];
                const double sum = (double)score - (double)slope * fabs((double)(distance - i));
                float expected = (float)sum;
                if (isfinite(slope) && isfinite(score) && expected == -INFINITY)
                    expected = -FLT_MAX;
                if (isnan(expected) ? !isnan(x[i]) : x[i] != expected)
                    test_fail("n=%d, x[%d]: %g with a slope of %g at %d is %g, must be %g", n, i,
                              (double)score, (double)slope, (int)(distance - i), (double)x[i],
                              (double)expected);
            }
        }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "scale", scale);
    test_add_levels(&list, "mask", mask);
    test_add_levels(&list, "adjust", adjust);
    test_add_levels(&list, "adjust cap", adjust_cap);
    test_add_levels(&list, "adjust far", adjust_far);
    test_add_levels(&list, "adjust lowest", adjust_lowest);
    test_add_levels(&list, "adjust steep", adjust_steep);
    test_add_levels(&list, "read and copy", stream);
    test_add_levels(&list, "fma peak", fma_peak);
    return test_run_list("kernels_rows", &list);
}
