/* The double-precision reference: independent of the kernels, slow, obvious.
 *
 * It takes the public problem and tensors of attnscope.h (the types only: it calls nothing of the
 * library, parses storage types and patterns by itself) and computes every option they describe.
 * Used by `attnscope verify`, by `attnscope bench` and by the tests.
 */
#ifndef ATTN_REFERENCE_H
#define ATTN_REFERENCE_H

#include "attnscope.h"

/* Is key j attended by query i of batch b, head h? Pattern (without topk), kv_lens, q_offsets,
 * segments, mask, and a bias of -inf, exactly as attnscope.h states. Aborts when memory runs out. */
bool ref_attended(const attn_problem *problem, const attn_tensors *tensors, int64_t b, int64_t h, int64_t i,
                  int64_t j);

/* ref_attended for each key of a row, 1 or 0 into attended[problem->keys]: draws the blocks of `random` once
 * instead of once a pair. False when memory runs out. */
bool ref_attended_row(const attn_problem *problem, const attn_tensors *tensors, int64_t b, int64_t h,
                      int64_t i, uint8_t *attended);

/* Results, C order without gaps; each may be NULL. */
typedef struct ref_result {
    double *out;           /* B, H, Nq, Dv */
    double *out_tolerance; /* B, H, Nq, Dv: largest error a float32 implementation may have there */
    double *lse;           /* B, H, Nq */
    double *lse_tolerance; /* B, H, Nq */
    double *weights;       /* B, H, Nq, Nk: softmax weights, 0 where not attended */
} ref_result;

/* Computes the problem. `tensors->out` is not touched. Returns false when memory runs out. */
bool ref_attention(const attn_problem *problem, const attn_tensors *tensors, const ref_result *result);

/* A query: of batch b and head h, the i-th. */
typedef struct ref_place {
    int64_t b, h, i;
} ref_place;

/* The same for `count` queries alone: the results hold one row for each, in their order. */
bool ref_attention_at(const attn_problem *problem, const attn_tensors *tensors, const ref_place *place,
                      int64_t count, const ref_result *result);

/* Number of attended pairs by the pattern alone (topk included), counted one by one over batches and
 * heads; -1 when memory runs out. */
int64_t ref_count_pairs(const attn_problem *problem);

/* Largest error of a weight of the softmax over n scores, computed in float32 with `lanes` partial sums at
 * least: `weight` is the exact one, `spread` its score's distance from the largest. Infinite for a score of
 * -inf, whose weight is exactly zero. */
double ref_softmax_tolerance(double weight, double spread, int64_t n, int lanes);

/* Errors that all lean one way hide below a bound: a comparison of at least so many elements fails
 * when the mean of error / tolerance passes the limit. */
#define REF_BIAS_COUNT 64
#define REF_BIAS_LIMIT 0.25

/* Outcome of comparing `count` floats with the reference, element by element. What is not finite
 * must be met in kind: NaN by NaN; +-Inf by the same Inf or, unless its tolerance is 0, by NaN (the
 * semantics allow either). NaN or Inf against a finite reference always fails, whatever the
 * tolerance. Tolerance 0 asks for the very number (-0 is 0): masked entries, empty rows. */
typedef struct ref_comparison {
    bool ok;       /* every element passes, and the errors do not lean (see above) */
    int64_t worst; /* index of the worst element, -1 if count is 0 */
    double used;   /* largest |error| / tolerance seen, infinity on a failure of kind */
    double bias;   /* mean of error / tolerance over finite elements with a tolerance */
} ref_comparison;

ref_comparison ref_compare(const float *actual, const double *expected, const double *tolerance,
                           int64_t count);

#endif
