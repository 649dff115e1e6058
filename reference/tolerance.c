/* What a float32 implementation may get wrong: bounds, derived from the inputs.
 *
 * u = 2^-24 is the largest relative error of one rounding. Terms in u^2 are left out; the constants
 * are rounded up instead. The bounds hold for any order of summation, with or without fused
 * multiply-add, for the textbook stages and for tiles with an online softmax, while no partial sum
 * leaves the range of float32.
 *
 * 1. The score. A sum of D products errs by D u sum|q||k|; the scale (its own rounding, its product
 *    with the query or the sum, a factor log2(e) where exponentials are base 2) by six more u. A
 *    query that the scale makes subnormal errs by 2^-150 absolutely. tanh has slope at most 1, so
 *    that the cap passes errors on undiminished at worst; it is itself computed within 8 u. slope *
 *    distance: two roundings; each addition: u times its result.
 *
 * 2. The weight before normalisation, exp(score - max). The maximum is a float whatever its error,
 *    and divides out; an error e of the score multiplies the weight by exp(e). The difference is
 *    rounded, twice where it is then multiplied by log2(e): 2 u |score - max|, also when it is taken
 *    in pieces by rescaling (the pieces have the same sign). 12 u for the exponential within 2 ulp,
 *    the first rescaling and a merge of splits. Each rescaling after that: an exponential and a
 *    product, 6 u; there are no more of them than attended keys, nor than steps, taken as at least
 *    16 keys long. All this together is the logarithmic error l; the weight w may grow by
 *    w * (e^l - 1), its slack.
 *
 * 3. The output, sum w v / sum w. With weights w (1 + r), |r| <= e^l - 1, it moves by
 *        sum w r (v - out) / (1 + sum w r),
 *    at most sum slack |v - out| / (1 - sum slack): errors that all weights share divide out. And it
 *    stays a mean of the values, whatever the weights are: it moves by no more than max |v - out|.
 *    The sink logit is a key with value 0.
 *
 * 4. The sums: n u sum w|v| above, n u below the line, ten more for products, rescaling and division.
 *    Exponentials below 2^-126 may be flushed: n 2^-126 max|v|; products may be subnormal: n 2^-149.
 *
 * 5. Log-sum-exp: moves by no more than sum slack, and by no more than the largest l. The sum's
 *    n u, the logarithm and the additions come on top.
 */
#include "reference/internal.h"

#include <math.h>

static const double u = 0x1p-24;

double ref_score_tolerance(const attn_problem *problem, const ref_score *score) {
    if (!isfinite(score->value))
        return 0; /* infinite and NaN scores are met in kind */
    double tolerance = ((double)problem->head_dim + 6) * u * score->abs_dot + 0x1p-150 * score->abs_key;
    if (problem->softcap > 0)
        tolerance += 8 * u * fabs(score->capped);
    if (problem->inputs & (ATTN_HAS_ALIBI | ATTN_HAS_BIAS))
        tolerance += u * (3 * score->abs_linear + fabs(score->capped) + fabs(score->value));
    return tolerance;
}

double ref_log_error(double score, double score_tolerance, double max, int64_t count, int64_t keys) {
    if (score == -INFINITY)
        return 0; /* exactly no weight */
    int64_t steps = keys / 16 + 1;
    if (count < steps)
        steps = count;
    return score_tolerance + u * (2 * fabs(score - max) + 12 + 6 * (double)steps);
}

/* fmax, which is a call; of NaN and a number the number `a` too. */
static double larger(double a, double b) {
    return b > a ? b : a;
}

double ref_out_tolerance(const ref_row *row, const double *value, double out) {
    if (!isfinite(out))
        return INFINITY;
    if (row->max == -INFINITY)
        return 0; /* no weight at all: zeros */
    const double *weight = row->weight, *slack = row->slack;
    double sink_slack = slack[row->count];
    double size = 0, largest = 0, slacks = sink_slack;
    double moved = sink_slack * fabs(out), spread = weight[row->count] > 0 ? fabs(out) : 0;
    for (int64_t a = 0; a < row->count; a++) {
        size += weight[a] * fabs(value[a]);
        slacks += slack[a];
        largest = larger(largest, fabs(value[a]));
        spread = larger(spread, fabs(value[a] - out));
        if (value[a] != out) /* an infinite slack of a value that is the mean moves nothing */
            moved += slack[a] * fabs(value[a] - out);
    }
    moved = slacks < 0.5 ? moved / (1 - slacks) : spread;
    moved = fmin(moved, spread);
    if (largest == 0)
        return 0; /* only zeros were summed */

    double n = (double)row->count;
    return moved + (n + 10) * u * (size + fabs(out) + moved) + n * (0x1p-126 * largest + 0x1p-149);
}

double ref_lse_tolerance(const ref_row *row) {
    double lse = row->max + row->log_sum;
    if (!isfinite(lse))
        return lse == -INFINITY ? 0 : INFINITY;
    if (row->count == 0)
        return 2 * u * fabs(lse); /* the sink logit itself */
    double slacks = 0;
    for (int64_t a = 0; a <= row->count; a++)
        slacks += row->slack[a];
    return fmin(slacks, row->max_log_error) +
           u * ((double)row->count + 8 + 4 * fabs(row->log_sum) + 2 * fabs(row->max) + 2 * fabs(lse));
}

double ref_softmax_tolerance(double weight, double spread, int64_t n, int lanes) {
    if (isinf(spread))
        return 0;
    /* As attnscope.h states it. Exponentials are flushed from e^-87.33 down, a little more than the smallest
     * normal number, and so are quotients up to 2^-20 above that, before they are rounded. */
    const double relative = (0.5 * spread + 6 + (double)n / (2.0 * lanes)) * 0x1p-23;
    const bool flushed = spread > 87 || weight * (1 - relative) < 0x1.00001p-126;
    return weight * relative + (flushed ? 2 * 0x1p-126 : 0);
}
