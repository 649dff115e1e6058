/* The exponential: accuracy in ulp, ends of the range, special values, the same arithmetic everywhere. */
#include "tests/support.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/guard.h"

static uint32_t to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* |y - e^x| in units in the last place of the exact value, which is a normal number. */
static double error_ulp(float x, float y) {
    const double exact = exp((double)x);
    return fabs(y - exact) / ldexp(1, ilogb(exact) - 23);
}

/* Worst error seen, and where. */
typedef struct worst {
    double ulp;
    float x;
} worst;

/* Checks y = e^x for one value, whatever its range. */
static void check_value(float x, float y, worst *w) {
    if (isnan(x)) {
        assert_true(isnan(y));
    } else if (fpclassify(y) == FP_SUBNORMAL) {
        test_fail("exp(%a) is subnormal: %a", (double)x, (double)y);
    } else if (x < -0x1.5d58ap+6f) { /* e^x < 2^-126 */
        if (to_bits(y) != 0)
            test_fail("exp(%a) is %a, not +0", (double)x, (double)y);
    } else if (x > 0x1.62e42ep+6f) { /* e^x > FLT_MAX */
        if (y != INFINITY)
            test_fail("exp(%a) is %a, not inf", (double)x, (double)y);
    } else if (x >= -87.33f && x <= 88.72f) {
        const double ulp = error_ulp(x, y);
        if (!(ulp <= 2))
            test_fail("exp(%a) is %a, %g ulp from %a", (double)x, (double)y, ulp, exp((double)x));
        if (ulp > w->ulp)
            *w = (worst){ulp, x};
    } else if (!(y == 0 || y == INFINITY || error_ulp(x, y) <= 2)) { /* the last hundredth at each end */
        test_fail("exp(%a) is %a", (double)x, (double)y);
    }
}

static void check_all(const attn_kernels *kernels, const float *x, int64_t n, worst *w) {
    float *y = malloc((size_t)n * sizeof *y);
    assert_non_null(y);
    test_call(kernels->exp(y, x, n));
    for (int64_t i = 0; i < n; i++)
        check_value(x[i], y[i], w);
    free(y);
}

/* Guards: 2 ulp over the range, by strata of equal width, and for arguments close to zero by strata of
 * exponents. The worst error is printed. */
static void accuracy(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t n = test_quick() ? 1 << 16 : 1 << 20;
    test_rng rng = test_rng_start("exp", 0);
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = i % 8 ? (float)(-110 + 200 * ((double)i + test_uniform(&rng)) / (double)n)
                     : (float)ldexp(i % 16 ? -1 : 1, (int)(-150 * test_uniform(&rng))) *
                           (1 + (float)test_uniform(&rng));
    worst w = {0, 0};
    check_all(kernels, x, n, &w);
    free(x);
    test_note("%s: worst error of exp %.4f ulp at %a", kernels->name, w.ulp, (double)w.x);
}

/* Guards: both sides of every boundary of the range reduction, and of the ends of the range. */
static void boundaries(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    enum { STEPS = 300, AROUND = 16 };
    static float x[STEPS * AROUND];
    worst w = {0, 0};
    for (int half = 0; half < 2; half++) {
        for (int k = 0; k < STEPS; k++) {
            const float boundary = (float)((k - 160 + 0.5 * half) * 0.693147180559945309);
            for (int i = 0; i < AROUND; i++)
                x[k * AROUND + i] = from_bits(to_bits(boundary) + (uint32_t)(i - AROUND / 2));
        }
        check_all(kernels, x, STEPS * AROUND, &w);
    }
    for (int i = 0; i < 2000; i++) {
        x[i] = from_bits(to_bits(-87.336f) + (uint32_t)(i - 1000));
        x[i + 2000] = from_bits(to_bits(88.7228f) + (uint32_t)(i - 1000));
    }
    check_all(kernels, x, 4000, &w);
    test_note("%s: worst error at boundaries %.4f ulp at %a", kernels->name, w.ulp, (double)w.x);
}

/* Guards: infinities, NaN of both signs and kinds, zeros, subnormals, the largest numbers. */
static void special(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const float x[] = {INFINITY,
                       -INFINITY,
                       NAN,
                       -NAN,
                       0.0f,
                       -0.0f,
                       0x1p-149f,
                       -0x1p-149f,
                       0x1p-126f,
                       3.4028e38f,
                       -3.4e38f,
                       from_bits(0xFFBFFFFF),
                       from_bits(0x7F800001),
                       -104,
                       -103.98f,
                       -88,
                       89,
                       1e10f,
                       -1e10f};
    enum { N = COUNT_OF(x) };
    float y[N];
    worst w = {0, 0};
    check_all(kernels, x, N, &w);
    kernels->exp(y, x, N);
    assert_true(y[0] == INFINITY && to_bits(y[1]) == 0 && isnan(y[2]) && isnan(y[3]));
    for (int i = 4; i < 9; i++)
        assert_true(y[i] == 1);
    assert_true(y[9] == INFINITY && to_bits(y[10]) == 0 && isnan(y[11]) && isnan(y[12]));
}

/* Guards: sizes of the family at guarded places, in place and not; an element's result is bitwise the same
 * in vector bodies, tails and alone. */
static void sizes_and_places(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    int64_t sizes[TEST_SIZES];
    const int count = test_sizes(sizes, kernels->lanes, 64);
    for (int s = 0; s < count; s++)
        for (int place = 0; place < GUARD_PLACES; place++) {
            const size_t bytes = (size_t)sizes[s] * sizeof(float);
            guard from = guard_new(bytes, (guard_place)place, sizeof(float));
            guard to = guard_new(bytes, (guard_place)place, sizeof(float));
            float *x = from.data, *y = to.data;
            test_rng rng = test_rng_start("exp sizes", (uint64_t)sizes[s]);
            for (int64_t i = 0; i < sizes[s]; i++)
                x[i] = (float)(30 * test_normal(&rng));
            guard_seal(&from);
            test_call(kernels->exp(y, x, sizes[s]));
            for (int64_t i = 0; i < sizes[s]; i++) {
                float alone;
                kernels->exp(&alone, &x[i], 1);
                if (to_bits(alone) != to_bits(y[i]))
                    test_fail("n=%d: exp(%a) at %d is %a, alone %a", (int)sizes[s], (double)x[i], (int)i,
                              (double)y[i], (double)alone);
            }
            guard in_place = guard_new(bytes, (guard_place)place, sizeof(float));
            memcpy(in_place.data, x, bytes);
            kernels->exp(in_place.data, in_place.data, sizes[s]);
            assert_memory_equal(in_place.data, y, bytes);
            assert_true(guard_intact(&from) && guard_intact(&to) && guard_intact(&in_place));
            guard_free(&from);
            guard_free(&to);
            guard_free(&in_place);
        }
}

/* Guards: a caller that rounds upward still does so afterwards. */
static void leaves_the_callers_mode(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const float x[] = {1, -200, 3, 200, -88, 0, 5, 6, 7};
    float y[COUNT_OF(x)];
    fenv_t before;
    assert_int_equal(fegetenv(&before), 0);
    assert_int_equal(fesetround(FE_UPWARD), 0);
    const uint64_t upward = test_fp_control();
    kernels->exp(y, x, COUNT_OF(x));
    const bool same = test_fp_control() == upward;
    fesetenv(&before);
    assert_true(same);
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "exp accuracy", accuracy);
    test_add_levels(&list, "exp boundaries", boundaries);
    test_add_levels(&list, "exp special values", special);
    test_add_levels(&list, "exp sizes and places", sizes_and_places);
    test_add_levels(&list, "exp leaves the caller's mode", leaves_the_callers_mode);
    return test_run_list("kernels_exp", &list);
}
