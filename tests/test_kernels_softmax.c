/* The softmax kernel: every size of the family, flush against unmapped pages on either side and misaligned,
 * against double precision. */
#include "tests/support.h"

#include <math.h>

#include "reference/reference.h"
#include "tests/row.h"

enum softmax_data { NORMAL, SPREAD, RISING, EQUAL, MASKED_FRONT, ALL_MASKED, TAILS, SOFTMAX_DATA };

static void fill_row(row *r, enum softmax_data kind, test_rng *rng) {
    for (int64_t i = 0; i < r->n; i++) {
        double x = test_normal(rng);
        switch (kind) {
        case SPREAD:
            x *= 40;
            break;
        case RISING:
            x = 0.25 * (double)i;
            break;
        case EQUAL:
            x = -3e38;
            break;
        case MASKED_FRONT:
            x = 2 * i < r->n ? -INFINITY : x;
            break;
        case ALL_MASKED:
            x = -INFINITY;
            break;
        case TAILS:
            x = i == r->n / 2 ? 0 : -87 - 16 * test_uniform(rng);
            break;
        default:
            break;
        }
        r->x[i] = r->before[i] = (float)x;
    }
}

static double softmax_used;

static void softmax_case(const attn_kernels *kernels, int64_t n, guard_place place, int kind, float sink) {
    test_rng rng = test_rng_start("softmax", (uint64_t)(n * 10 + kind));
    row r = row_new(n, place, "softmax", 1);
    fill_row(&r, (enum softmax_data)kind, &rng);
    double max = sink, sum = 0, sum_tolerance = 0;
    for (int64_t i = 0; i < n; i++)
        max = r.before[i] > max ? r.before[i] : max; /* fmax here crashes gcc 12 for AArch64 */
    for (int64_t i = 0; i <= n && max != -INFINITY; i++) {
        double x = i < n ? r.before[i] : sink, e = exp(x - max);
        sum += e;
        sum_tolerance += x == -INFINITY ? 0 : e * (0.5 * (max - x) + 6) * 0x1p-23 + 0x1p-126;
    }

    float row_max, row_sum;
    test_call(kernels->softmax(r.x, n, sink, &row_max, &row_sum));
    const double lanes = kernels->lanes;
    for (int64_t i = 0; i < n; i++) {
        const double spread = r.before[i] == -INFINITY ? (double)INFINITY : max - r.before[i];
        double expected = isinf(spread) ? 0 : exp(-spread) / sum;
        double tolerance = ref_softmax_tolerance(expected, spread, n, kernels->lanes);
        ref_comparison c = ref_compare(&r.x[i], &expected, &tolerance, 1);
        if (expected > 0x1p-100) /* below, flushing may use all of it */
            softmax_used = fmax(softmax_used, c.used);
        if (!c.ok)
            test_fail("n=%d at %s, data %d, sink %g: x[%d] = %.9g, expected %.9g, used %g", (int)n,
                      guard_place_name[place], kind, (double)sink, (int)i, (double)r.x[i], expected, c.used);
        if (fpclassify(r.x[i]) == FP_SUBNORMAL && expected * sum > 0x1p-120)
            test_fail("subnormal weight %g", (double)r.x[i]);
    }
    assert_true((double)row_max == max);
    assert_true(fabs(row_sum - sum) <= sum_tolerance + sum * (double)n / (2 * lanes) * 0x1p-23);
    row_free(&r);
}

static void softmax_one(const attn_kernels *kernels, int64_t n, guard_place place) {
    for (int kind = 0; kind < SOFTMAX_DATA; kind++) {
        softmax_case(kernels, n, place, kind, -INFINITY);
        softmax_case(kernels, n, place, kind, 1.5f);
    }
}

/* Guards: weights within the documented tolerance, exact zeros where masked, maximum and sum for the
 * log-sum-exp, with and without a sink logit; a row of only -inf becomes zeros. */
static void softmax(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    softmax_used = 0;
    row_each_size(kernels, softmax_one);
    test_note("%s: used %.3f of the softmax tolerance", kernels->name, softmax_used);
}

/* Guards: NaN or +inf at any place, or as the sink logit, makes every attended element NaN, and the sum NaN.
 */
static void softmax_nan(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int64_t n = 1; n < 70; n += n < 40 ? 1 : 13)
        for (int64_t at = 0; at <= n; at++) /* n: the sink */
            for (int inf = 0; inf < 2; inf++) {
                row r = row_new(n, GUARD_BACK, "softmax nan", 1);
                float row_max, row_sum, sink = -INFINITY;
                *(at < n ? &r.x[at] : &sink) = inf ? INFINITY : NAN;
                kernels->softmax(r.x, n, sink, &row_max, &row_sum);
                for (int64_t i = 0; i < n; i++)
                    if (!isnan(r.x[i]))
                        test_fail("n=%d, %s at %d: x[%d] = %g", (int)n, inf ? "inf" : "NaN", (int)at, (int)i,
                                  (double)r.x[i]);
                assert_true(isnan(row_sum));
                row_free(&r);
            }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "softmax", softmax);
    test_add_levels(&list, "softmax nan", softmax_nan);
    return test_run_list("kernels_softmax", &list);
}
