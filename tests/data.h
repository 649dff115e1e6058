/* Inputs for attention: random ones and adversarial ones. */
#ifndef ATTN_TESTS_DATA_H
#define ATTN_TESTS_DATA_H

#include "tests/support.h"

typedef enum data_kind {
    DATA_NORMAL,
    DATA_UNIFORM, /* [-1, 1) */
    DATA_PEAKED,  /* one key far above the others: softmax is nearly one-hot */
    DATA_RISING,  /* scores rise with the key: an online softmax rescales at every step */
    DATA_EQUAL,   /* all scores the same: a plain mean of the values */
    DATA_HUGE,    /* scores around 1e5, values around 1e30 */
    DATA_TINY,    /* scores around 1e-38, values around 1e-30 */
    DATA_TAILS,   /* one score of 0, the others -103..-87: exponentials that would be subnormal */
    DATA_KINDS
} data_kind;

extern const char *const data_kind_name[DATA_KINDS];

/* Fills Q (q_rows x D), K (k_heads x keys x D) and V (k_heads x keys x Dv), no gaps. The scores meant
 * above are those with the scale 1/sqrt(D). */
void data_fill(data_kind kind, test_rng *rng, int64_t q_rows, int64_t kv_heads, int64_t keys, int64_t dim,
               int64_t value_dim, float *q, float *k, float *v);

#endif
