/* The exponential: accuracy in ulp, ends of the range, special values, the same arithmetic everywhere. */
#include "tests/support.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/guard.h"

/* |y - e^x| in units in the last place of the exact value, which is a normal number. */
static double error_ulp(float x, float y) {
    const double exact =
        fabsf(x) < 0x1p-26f ? 1 + (double)x : exp((double)x); /* most floats are that small */
    uint64_t bits;
    memcpy(&bits, &exact, sizeof bits);
    bits = (bits & 0x7FF0000000000000u) - ((uint64_t)23 << 52); /* 2^(exponent - 23) */
    double ulp;
    memcpy(&ulp, &bits, sizeof ulp);
    return fabs(y - exact) / ulp;
}

/* What was seen: the worst error and where, the first value that is wrong and why. */
typedef struct seen {
    double ulp;
    float x;
    const char *fault; /* NULL: none */
    float wrong_x, wrong_y;
} seen;

/* Of equal errors the least x, in whatever order threads come to them: the page names one. */
static bool is_worse(const seen *s, double ulp, float x) {
    return ulp > s->ulp || (ulp == s->ulp && x < s->x);
}

/* What is wrong with y = e^x, NULL if nothing, whatever the range of x. */
static const char *fault_of(float x, float y, seen *s) {
    if (isnan(x))
        return isnan(y) ? NULL : "NaN must stay";
    if (fpclassify(y) == FP_SUBNORMAL)
        return "subnormal";
    if (x < -0x1.5d58ap+6f) /* e^x < 2^-126 */
        return test_bits(y) == 0 ? NULL : "must be +0";
    if (x > 0x1.62e42ep+6f) /* e^x > FLT_MAX */
        return y == INFINITY ? NULL : "must be inf";
    const bool inside = x >= -87.33f && x <= 88.72f;
    if (!inside && (y == 0 || y == INFINITY)) /* the last hundredth at each end */
        return NULL;
    const double ulp = error_ulp(x, y);
    if (inside && is_worse(s, ulp, x)) {
        s->ulp = ulp;
        s->x = x;
    }
    return ulp <= 2 ? NULL : "more than 2 ulp off"; /* a NaN is neither */
}

static void check_value(float x, float y, seen *s) {
    const char *fault = fault_of(x, y, s);
    if (fault && !s->fault) {
        s->fault = fault;
        s->wrong_x = x;
        s->wrong_y = y;
    }
}

static void assert_seen(const seen *s) {
    if (s->fault)
        test_fail("exp(%a) is %a, expected %a: %s", (double)s->wrong_x, (double)s->wrong_y,
                  exp((double)s->wrong_x), s->fault);
}

static void check_all(const attn_kernels *kernels, const float *x, int64_t n, seen *s) {
    float *y = malloc((size_t)n * sizeof *y);
    assert_non_null(y);
    test_call(kernels->exp(y, x, n));
    for (int64_t i = 0; i < n; i++)
        check_value(x[i], y[i], s);
    free(y);
    assert_seen(s);
}

/* ---- the worst error, and the one that docs/numerics.md states --------------------------- */

/* The worst error that docs/numerics.md states for a level and where, from its line "| level | ulp | x |",
 * and whether that line is `found` to the letter. */
typedef struct statement {
    double ulp;
    float x;
    bool is_found;
} statement;

static statement stated(const char *level, const char *found) {
    FILE *page = fopen(NUMERICS_PAGE, "r");
    if (page == NULL)
        test_fail("%s, which states the worst error of exp, is not here", NUMERICS_PAGE);
    char line[256], name[16];
    statement s = {.ulp = -1}, read;
    while (fgets(line, sizeof line, page) != NULL)
        if (sscanf(line, "| %15s | %lf | %f |", name, &read.ulp, &read.x) == 3 && strcmp(name, level) == 0) {
            line[strcspn(line, "\n")] = 0;
            s = (statement){read.ulp, read.x, strcmp(line, found) == 0};
        }
    fclose(page);
    if (s.ulp < 0)
        test_fail("%s states no worst error of exp for %s", NUMERICS_PAGE, level);
    return s;
}

static void assert_stated(const attn_kernels *kernels, const seen *s, bool every_float) {
    char line[64];
    snprintf(line, sizeof line, "| %s | %.2f | %.9g |", kernels->name, s->ulp, (double)s->x);
    test_note("worst error of exp%s: %s", every_float ? ", every float" : "", line);
    const statement page = stated(kernels->name, line);
    if (s->ulp > page.ulp + 0.005)
        test_fail("docs/numerics.md says %.2f ulp for %s, found %.4f at %a", page.ulp, kernels->name, s->ulp,
                  (double)s->x);
    else if (every_float && !page.is_found)
        test_fail("docs/numerics.md says %.2f ulp at %.9g for %s, the line must be: %s", page.ulp,
                  (double)page.x, kernels->name, line);
}

/* Guards the page where only a sample is tried: the x that it states has the error that it states. */
static void stated_place(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const statement page = stated(kernels->name, "");
    float y;
    kernels->exp(&y, &page.x, 1);
    const double ulp = error_ulp(page.x, y);
    if (fabs(ulp - page.ulp) > 0.005)
        test_fail("docs/numerics.md says %.2f ulp at %.9g for %s, it is %.4f", page.ulp, (double)page.x,
                  kernels->name, ulp);
}

/* Guards: 2 ulp over the range, by strata of equal width, and for arguments close to zero by strata of
 * exponents; no more than docs/numerics.md states. */
static void accuracy(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t n = 1 << 20;
    test_rng rng = test_rng_start("exp", 0);
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = i % 8 ? (float)(-110 + 200 * ((double)i + test_uniform(&rng)) / (double)n)
                     : (float)ldexp(i % 16 ? -1 : 1, (int)(-150 * test_uniform(&rng))) *
                           (1 + (float)test_uniform(&rng));
    seen s = {0};
    check_all(kernels, x, n, &s);
    free(x);
    assert_stated(kernels, &s, false);
}

/* Every `step`-th float of magnitude at most 110, both signs: the share of one thread of `threads`. */
typedef struct share {
    const attn_kernels *kernels;
    uint32_t step, thread, threads;
    bool environment_kept;
    seen s;
    pthread_t id;
} share;

static void *check_share(void *argument) {
    enum { CHUNK = 4096 };
    const uint32_t last = test_bits(110);
    share *own = argument;
    own->environment_kept = true;
    for (uint32_t chunk = own->thread; (uint64_t)chunk * CHUNK * own->step <= last; chunk += own->threads) {
        float x[2 * CHUNK], y[2 * CHUNK];
        int64_t n = 0;
        for (uint64_t i = 0; i < CHUNK; i++) {
            const uint64_t bits = (chunk * (uint64_t)CHUNK + i) * own->step;
            if (bits <= last) {
                x[n++] = test_float((uint32_t)bits);
                x[n++] = test_float((uint32_t)bits | 0x80000000u);
            }
        }
        const uint64_t control = test_fp_control();
        own->kernels->exp(y, x, n);
        own->environment_kept &= test_fp_control() == control;
        for (int64_t i = 0; i < n; i++)
            check_value(x[i], y[i], &own->s);
    }
    return NULL;
}

/* Guards: the same for a part of all floats in [-110, 110] that is the same in every run, and in the long
 * form for each of them, on all processors: there the line in docs/numerics.md has to be the one found. */
static void every_float(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    if (test_quick())
        test_skip("emulated: a sample is checked");
    const int most = 64;
    share shares[64] = {0};
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const int threads = processors < 1 ? 1 : processors > most ? most : (int)processors;
    for (int i = 0; i < threads; i++) {
        shares[i].kernels = kernels;
        shares[i].step = test_full() ? 1 : 1021;
        shares[i].thread = (uint32_t)i;
        shares[i].threads = (uint32_t)threads;
        assert_int_equal(pthread_create(&shares[i].id, NULL, check_share, &shares[i]), 0);
    }
    seen worst = {0};
    bool environment_kept = true;
    for (int i = 0; i < threads; i++) {
        assert_int_equal(pthread_join(shares[i].id, NULL), 0);
        environment_kept &= shares[i].environment_kept;
        const seen *s = &shares[i].s;
        if (is_worse(&worst, s->ulp, s->x)) {
            worst.ulp = s->ulp;
            worst.x = s->x;
        }
        if (s->fault && !worst.fault) {
            worst.fault = s->fault;
            worst.wrong_x = s->wrong_x;
            worst.wrong_y = s->wrong_y;
        }
    }
    assert_seen(&worst);
    assert_true(environment_kept);
    assert_stated(kernels, &worst, test_full());
}

/* Guards: both sides of every boundary of the range reduction, and of the ends of the range. */
static void boundaries(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    enum { STEPS = 300, AROUND = 16 };
    static float x[STEPS * AROUND];
    seen s = {0};
    for (int half = 0; half < 2; half++) {
        for (int k = 0; k < STEPS; k++) {
            const float boundary = (float)((k - 160 + 0.5 * half) * 0.693147180559945309);
            for (int i = 0; i < AROUND; i++)
                x[k * AROUND + i] = test_float(test_bits(boundary) + (uint32_t)(i - AROUND / 2));
        }
        check_all(kernels, x, STEPS * AROUND, &s);
    }
    for (int i = 0; i < 2000; i++) {
        x[i] = test_float(test_bits(-87.336f) + (uint32_t)(i - 1000));
        x[i + 2000] = test_float(test_bits(88.7228f) + (uint32_t)(i - 1000));
    }
    check_all(kernels, x, 4000, &s);
    assert_stated(kernels, &s, false);
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
                       test_float(0xFFBFFFFF),
                       test_float(0x7F800001),
                       -104,
                       -103.98f,
                       -88,
                       89,
                       1e10f,
                       -1e10f};
    enum { N = COUNT_OF(x) };
    float y[N];
    seen s = {0};
    check_all(kernels, x, N, &s);
    kernels->exp(y, x, N);
    assert_true(y[0] == INFINITY && test_bits(y[1]) == 0 && isnan(y[2]) && isnan(y[3]));
    for (int i = 4; i < 9; i++)
        assert_true(y[i] == 1);
    assert_true(y[9] == INFINITY && test_bits(y[10]) == 0 && isnan(y[11]) && isnan(y[12]));
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
                if (test_bits(alone) != test_bits(y[i]))
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
    test_add_levels(&list, "exp of every float", every_float);
    test_add_levels(&list, "exp where its error is stated", stated_place);
    test_add_levels(&list, "exp boundaries", boundaries);
    test_add_levels(&list, "exp special values", special);
    test_add_levels(&list, "exp sizes and places", sizes_and_places);
    test_add_levels(&list, "exp leaves the caller's mode", leaves_the_callers_mode);
    return test_run_list("kernels_exp", &list);
}
