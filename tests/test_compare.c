/* The comparer rejects what it must: a comparer that cannot fail would pass every kernel. */
#include "tests/support.h"

#include <math.h>

#include "reference/reference.h"

/* One element. */
static bool passes(float actual, double expected, double tolerance) {
    return ref_compare(&actual, &expected, &tolerance, 1).ok;
}

/* Guards: an exact result passes, with nothing of the tolerance used. */
static void accepts_equal(void **state) {
    const float actual[] = {1, -2, 0};
    const double expected[] = {1, -2, 0}, tolerance[] = {1e-6, 0, 0};
    ref_comparison c = ref_compare(actual, expected, tolerance, 3);
    assert_true(c.ok);
    assert_true(c.used == 0);
    assert_true(c.bias == 0);
}

/* Guards: no elements is no failure, and says so. */
static void accepts_nothing(void **state) {
    ref_comparison c = ref_compare(NULL, NULL, NULL, 0);
    assert_true(c.ok);
    assert_int_equal(c.worst, -1);
}

/* Guards: errors up to the tolerance pass, anything above fails, in both directions. */
static void rejects_beyond_tolerance(void **state) {
    assert_true(passes(1.5f, 1, 0.5));
    assert_true(passes(0.5f, 1, 0.5));
    assert_false(passes(1.5f, 1, 0.499));
    assert_false(passes(0.5f, 1, 0.499));
    assert_false(passes(nextafterf(1, 2), 1, 1e-9));
}

/* Guards: the worst element and how much of its tolerance it used are found. */
static void reports_the_worst(void **state) {
    const float actual[] = {1, 2.25f, 3, 4.5f};
    const double expected[] = {1, 2, 3, 4}, tolerance[] = {1, 1, 1, 1};
    ref_comparison c = ref_compare(actual, expected, tolerance, 4);
    assert_true(c.ok);
    assert_int_equal(c.worst, 3);
    assert_true(c.used == 0.5);
    assert_true(fabs(c.bias - 0.1875) < 1e-12);
}

/* Guards: NaN on one side fails whatever the tolerance; on both sides it passes. */
static void rejects_nan_on_one_side(void **state) {
    assert_true(passes(NAN, NAN, 0));
    assert_false(passes(NAN, 1, INFINITY));
    assert_false(passes(1, NAN, INFINITY));
    assert_false(passes(0, NAN, INFINITY));
    assert_false(passes(INFINITY, NAN, INFINITY));
    assert_false(passes(NAN, 0, 0));
}

/* Guards: a NaN that both sides share does not hide a wrong neighbour. */
static void shared_nan_hides_nothing(void **state) {
    const float actual[] = {NAN, 2};
    const double expected[] = {NAN, 1}, tolerance[] = {0, 0.5};
    ref_comparison c = ref_compare(actual, expected, tolerance, 2);
    assert_false(c.ok);
    assert_int_equal(c.worst, 1);
}

/* Guards: Inf is met by the same Inf, or by NaN where the tolerance allows it; never by the other one
 * or a finite number. */
static void infinities_in_kind(void **state) {
    assert_true(passes(INFINITY, INFINITY, INFINITY));
    assert_true(passes(-INFINITY, -INFINITY, 0));
    assert_true(passes(NAN, INFINITY, INFINITY));
    assert_false(passes(NAN, -INFINITY, 0)); /* the log-sum-exp of an empty row */
    assert_false(passes(-INFINITY, INFINITY, INFINITY));
    assert_false(passes(INFINITY, -INFINITY, 0));
    assert_false(passes(3.4e38f, INFINITY, INFINITY));
    assert_false(passes(INFINITY, 3.4e38, INFINITY));
}

/* Guards: a masked or empty element must be exactly zero; the sign of zero is no error. */
static void exact_zero(void **state) {
    assert_true(passes(0.0f, 0, 0));
    assert_true(passes(-0.0f, 0, 0));
    assert_false(passes(0x1p-149f, 0, 0));
    assert_false(passes(-1e-30f, 0, 0));
}

/* Guards: a tolerance that is NaN or negative (a fault in the formula) does not pass everything. */
static void rejects_a_bad_tolerance(void **state) {
    assert_false(passes(1, 1.25, NAN));
    assert_false(passes(1, 1.25, -1));
    assert_false(passes(1, 1, NAN));
}

/* Guards: errors that all lean one way fail although each is within its tolerance; the same sizes with
 * changing signs pass, and a handful of elements is not judged. */
static void rejects_biased_errors(void **state) {
    enum { N = REF_BIAS_COUNT };
    float leaning[N], balanced[N];
    double expected[N], tolerance[N];
    for (int i = 0; i < N; i++) {
        expected[i] = i;
        tolerance[i] = 1;
        leaning[i] = (float)i - 0.5f;
        balanced[i] = (float)i + (i % 2 ? 0.5f : -0.5f);
    }
    assert_false(ref_compare(leaning, expected, tolerance, N).ok);
    assert_true(ref_compare(leaning, expected, tolerance, N).used <= 1);
    assert_true(ref_compare(balanced, expected, tolerance, N).ok);
    assert_true(ref_compare(leaning, expected, tolerance, N - 1).ok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_equal),
        cmocka_unit_test(accepts_nothing),
        cmocka_unit_test(rejects_beyond_tolerance),
        cmocka_unit_test(reports_the_worst),
        cmocka_unit_test(rejects_nan_on_one_side),
        cmocka_unit_test(shared_nan_hides_nothing),
        cmocka_unit_test(infinities_in_kind),
        cmocka_unit_test(exact_zero),
        cmocka_unit_test(rejects_a_bad_tolerance),
        cmocka_unit_test(rejects_biased_errors),
    };
    return test_run("compare", tests, COUNT_OF(tests));
}
