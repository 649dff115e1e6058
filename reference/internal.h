/* What the reference's own files share. Nothing here is seen outside reference/. */
#ifndef ATTN_REFERENCE_INTERNAL_H
#define ATTN_REFERENCE_INTERNAL_H

#include "reference/reference.h"

/* ---- storage.c: stored elements as doubles ------------------------------ */

/* Element `index` of an array of `dtype`; exact for every value, NaN and Inf included. */
double ref_load(const void *data, attn_dtype dtype, int64_t index);

/* Copies rows x cols of `tensor` at (b, h) into `dst`, C order without gaps. */
void ref_load_matrix(double *dst, const attn_tensor *tensor, attn_dtype dtype, int64_t b, int64_t h,
                     int64_t rows, int64_t cols);

/* ---- pattern.c: which pairs are attended -------------------------------- */

/* Position of query i of batch b among the keys; `tensors` may be NULL (no offsets). */
int64_t ref_position(const attn_problem *problem, const attn_tensors *tensors, int64_t b, int64_t i);

/* The key blocks drawn for one block of queries by `random`, kept while the rows stay in it. */
typedef struct ref_draws {
    uint8_t *drawn;      /* ceil(Nk / B) bytes; NULL when the pattern has no `random` */
    int64_t query_block; /* the block that `drawn` belongs to, -1 at first */
} ref_draws;

/* False when memory runs out. */
bool ref_draws_init(ref_draws *draws, const attn_problem *problem);
void ref_draws_free(ref_draws *draws);

/* ref_attended with the draws at hand; `tensors` NULL asks for the pattern alone. */
bool ref_pair_attended(const attn_problem *problem, const attn_tensors *tensors, ref_draws *draws, int64_t b,
                       int64_t h, int64_t i, int64_t j);

/* ---- tolerance.c: what float32 may get wrong ---------------------------- */

/* A final score, and the sizes of all that was added and multiplied on the way to it. */
typedef struct ref_score {
    double value;      /* cap(scale * q.k) - slope * |p - j| + bias */
    double abs_dot;    /* |scale| * sum |q||k| */
    double abs_key;    /* sum |k| */
    double capped;     /* cap(scale * q.k) */
    double abs_linear; /* |slope * |p - j|| + |bias| */
} ref_score;

/* Largest error of the score computed in float32. */
double ref_score_tolerance(const attn_problem *problem, const ref_score *score);

/* One row of the softmax: its attended keys, and the sink logit as a key whose value is 0. */
typedef struct ref_row {
    int64_t count;        /* attended keys, the sink not counted */
    const double *weight; /* count + 1, the sink last */
    const double *slack;  /* count + 1: how much larger a weight may come out before normalisation */
    double max_log_error; /* the largest relative error of a weight, as a logarithm */
    double max, log_sum;  /* log-sum-exp = max + log_sum */
} ref_row;

/* Largest error of log(exp(score - max)) for a score with error `score_tolerance`, in a row that
 * attends `count` of `keys` keys. */
double ref_log_error(double score, double score_tolerance, double max, int64_t count, int64_t keys);

/* Tolerance of sum_j weight_j * value_j, whose exact result is `out`; `value` holds count elements. */
double ref_out_tolerance(const ref_row *row, const double *value, double out);

/* Tolerance of the row's log-sum-exp. */
double ref_lse_tolerance(const ref_row *row);

#endif
