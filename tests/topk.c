#include "tests/topk.h"

#include <math.h>
#include <stdlib.h>

#include "reference/internal.h"

static int topk_descending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static double topk_largest(const void *data, attn_dtype dtype, int64_t elements) {
    double most = 0;
    for (int64_t n = 0; n < elements; n++) {
        const double x = fabs(ref_load(data, dtype, n));
        if (x > most) /* gaps between rows are NaN */
            most = x;
    }
    return most;
}

/* The most that two scores of the case can come closer to each other by rounding: twice the bound that
 * reference/tolerance.c derives, with the largest |q|, |k|, distance and bias for those of each pair. */
static double topk_gap(const attention_case *c) {
    const attn_problem *p = &c->problem;
    const double u = 0x1p-24, dim = (double)p->head_dim,
                 scale = isnan(p->scale) ? 1 / sqrt(dim) : fabs(p->scale);
    const int64_t bytes = (int64_t)attn_dtype_bytes(p->dtype);
    const double dot = scale * dim * topk_largest(c->q.data, p->dtype, (int64_t)c->q.bytes / bytes) *
                       topk_largest(c->k.data, p->dtype, (int64_t)c->k.bytes / bytes);
    double bias = 0, distance = 0, slope = 0;
    for (size_t n = 0; n < c->bias.bytes / sizeof(float); n++) {
        const double x = fabs((double)((float *)c->bias.data)[n]);
        bias = isfinite(x) ? fmax(bias, x) : bias;
    }
    for (int64_t b = 0; b < p->batch; b++) {
        const double offset = c->tensors.q_offsets ? fabs((double)c->tensors.q_offsets[b]) : 0;
        distance = fmax(distance, (double)(p->queries + p->keys) + offset);
    }
    for (int64_t h = 0; c->tensors.alibi_slopes && h < p->heads; h++)
        slope = fmax(slope, fabs((double)c->tensors.alibi_slopes[h]));
    const double linear = bias + slope * distance;
    return 2 * u * ((dim + 20) * dot + 8 * linear);
}

/* Which rows of the case cannot be judged (room for B x H x Nq); returns how many. */
static int64_t topk_close(const attention_case *c, bool *close) {
    attn_problem all = c->problem;
    all.pattern.terms &= ~(uint32_t)ATTN_TOPK;
    const int64_t rows = all.batch * all.heads * all.queries, keys = all.keys, k = all.pattern.topk;
    double *weights = malloc((size_t)(rows * keys + 1) * sizeof *weights);
    double *lse = malloc((size_t)(rows + 1) * sizeof *lse);
    assert_true(weights && lse);
    assert_true(ref_attention(&all, &c->tensors, &(ref_result){.weights = weights, .lse = lse}));
    const double gap = topk_gap(c);
    int64_t count = 0;
    for (int64_t row = 0; row < rows; row++) {
        double *score =
            weights + row * keys; /* weights become scores: log w + lse, -inf where not attended */
        for (int64_t j = 0; j < keys; j++)
            score[j] = log(score[j]) + lse[row];
        qsort(score, (size_t)keys, sizeof *score, topk_descending);
        close[row] = k < keys && score[k] != -INFINITY && score[k - 1] - score[k] <= gap;
        count += close[row];
    }
    free(weights);
    free(lse);
    return count;
}

int64_t topk_relax(attention_case *c) {
    const int64_t rows = c->spec.batch * c->spec.heads * c->spec.queries;
    bool *close = malloc((size_t)rows + 1);
    assert_non_null(close);
    const int64_t relaxed = topk_close(c, close);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t d = 0; close[row] && d < c->spec.value_dim; d++)
            c->tolerance[row * c->spec.value_dim + d] = INFINITY;
        if (close[row])
            c->lse_tolerance[row] = INFINITY;
    }
    free(close);
    return relaxed;
}

enum { MOST_TRIES = 20 };

void topk_separate(attention_case *c, test_rng *rng) {
    const case_spec *s = &c->spec;
    bool *close = malloc((size_t)(s->batch * s->heads * s->queries) + 1);
    assert_non_null(close);
    for (int tries = 0; tries < MOST_TRIES && topk_close(c, close) > 0; tries++)
        for (int64_t row = 0; row < s->batch * s->heads * s->queries; row++)
            for (int64_t d = 0; close[row] && d < s->head_dim; d++)
                case_set(c, &c->tensors.q, row / s->queries / s->heads, row / s->queries % s->heads,
                         row % s->queries, d, (float)test_normal(rng));
    free(close);
}
