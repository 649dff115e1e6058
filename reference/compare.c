/* Floats against the reference. What is not finite is met in kind, never by a difference: NaN - NaN
 * would pass any test of the form `error > tolerance`. */
#include "reference/internal.h"

#include <math.h>

/* |error| / tolerance with its sign, or +infinity where no error is small enough. */
static double used_tolerance(double actual, double expected, double tolerance) {
    if (isnan(expected))
        return isnan(actual) ? 0 : (double)INFINITY;
    if (isinf(expected)) {
        bool as_nan = isnan(actual) && tolerance != 0;
        return actual == expected || as_nan ? 0 : (double)INFINITY;
    }
    if (!isfinite(actual) || !(tolerance >= 0))
        return INFINITY;
    if (actual == expected)
        return 0;
    return tolerance == 0 ? (double)INFINITY : (actual - expected) / tolerance;
}

ref_comparison ref_compare(const float *actual, const double *expected, const double *tolerance,
                           int64_t count) {
    ref_comparison result = {.ok = true, .worst = -1, .used = 0, .bias = 0};
    double sum = 0;
    int64_t measured = 0;
    for (int64_t i = 0; i < count; i++) {
        double used = used_tolerance(actual[i], expected[i], tolerance[i]);
        if (result.worst < 0 || fabs(used) > result.used) {
            result.worst = i;
            result.used = fabs(used);
        }
        if (isfinite(used) && isfinite(expected[i]) && tolerance[i] > 0) {
            sum += used;
            measured++;
        }
    }
    if (measured > 0)
        result.bias = sum / (double)measured;
    result.ok = result.used <= 1;
    if (measured >= REF_BIAS_COUNT && fabs(result.bias) > REF_BIAS_LIMIT)
        result.ok = false;
    return result;
}
