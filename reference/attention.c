/* Attention in double precision, row by row, in the order of the formula. */
#include "reference/internal.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Buffers for one (batch, head) and for one row of it. */
typedef struct work {
    double *query;    /* D */
    double *keys;     /* Nk x D */
    double *values;   /* Nk x Dv */
    int64_t *index;   /* Nk: the attended keys, ascending */
    ref_score *score; /* Nk, as all below: one per attended key */
    double *weight;   /* Nk + 1: the sink logit comes last */
    double *slack;    /* Nk + 1 */
    double *column;   /* one column of the attended values */
    ref_draws draws;
} work;

static void work_free(work *w) {
    free(w->query);
    free(w->keys);
    free(w->values);
    free(w->index);
    free(w->score);
    free(w->weight);
    free(w->slack);
    free(w->column);
    ref_draws_free(&w->draws);
}

static bool work_init(work *w, const attn_problem *problem) {
    size_t keys = (size_t)problem->keys, dim = (size_t)problem->head_dim,
           value_dim = (size_t)problem->value_dim;
    *w = (work){
        .query = calloc(dim + 1, sizeof(double)),
        .keys = calloc(keys * dim + 1, sizeof(double)),
        .values = calloc(keys * value_dim + 1, sizeof(double)),
        .index = calloc(keys + 1, sizeof(int64_t)),
        .score = calloc(keys + 1, sizeof(ref_score)),
        .weight = calloc(keys + 1, sizeof(double)),
        .slack = calloc(keys + 1, sizeof(double)),
        .column = calloc(keys + 1, sizeof(double)),
    };
    bool drawn = ref_draws_init(&w->draws, problem);
    if (drawn && w->query && w->keys && w->values && w->index && w->score && w->weight && w->slack &&
        w->column)
        return true;
    work_free(w);
    return false;
}

/* ---- scores -------------------------------------------------------------- */

/* As a float32, but for its rounding: what leaves the range is infinite. */
static double in_range(double x) {
    return isinf((float)x) ? (double)(float)x : x;
}

/* score + term. A finite term masks nothing: below a finite score the sum ends at -FLT_MAX. */
static double plus(double score, double term) {
    double sum = in_range(score + term);
    return sum == -INFINITY && isfinite(score) && isfinite(term) ? -(double)FLT_MAX : sum;
}

static ref_score final_score(const attn_problem *problem, const attn_tensors *tensors, const work *w,
                             int64_t b, int64_t h, int64_t i, int64_t j) {
    ref_score score = {0};
    double scale = isnan(problem->scale) ? 1 / sqrt((double)problem->head_dim) : problem->scale;
    const double *key = w->keys + j * problem->head_dim;
    double dot = 0;
    for (int64_t d = 0; d < problem->head_dim; d++) {
        dot += w->query[d] * key[d];
        score.abs_dot += fabs(scale * w->query[d] * key[d]);
        score.abs_key += fabs(key[d]);
    }

    score.capped = in_range(scale * dot);
    if (problem->softcap > 0)
        score.capped = problem->softcap * tanh(score.capped / problem->softcap);
    score.value = score.capped;
    if (problem->inputs & ATTN_HAS_ALIBI) {
        int64_t distance = ref_position(problem, tensors, b, i) - j;
        double linear = tensors->alibi_slopes[h] * fabs((double)distance);
        score.value = plus(score.value, -linear);
        score.abs_linear += fabs(linear);
    }
    if (problem->inputs & ATTN_HAS_BIAS) {
        const int64_t *stride = tensors->bias_strides;
        double bias = tensors->bias[b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]];
        score.value = plus(score.value, bias);
        score.abs_linear += fabs(bias);
    }
    return score;
}

/* ---- topk ----------------------------------------------------------------- */

/* Does `a` come before `b`, a lower key's score, among the largest? NaN first; ties to the lower. */
static bool ranks_before(float a, float b) {
    return (isnan(a) && !isnan(b)) || a > b;
}

/* Keeps the K attended keys with the largest scores, in the order of their indices. */
static int64_t keep_topk(work *w, int64_t count, int64_t k) {
    int64_t kept = 0;
    for (int64_t a = 0; a < count; a++) {
        float mine = (float)w->score[a].value;
        int64_t better = 0;
        for (int64_t c = 0; c < count; c++) {
            float other = (float)w->score[c].value;
            better += c < a ? !ranks_before(mine, other) : ranks_before(other, mine);
        }
        w->weight[a] = better < k; /* free until the softmax */
    }
    for (int64_t a = 0; a < count; a++)
        if (w->weight[a] != 0) {
            w->index[kept] = w->index[a];
            w->score[kept++] = w->score[a];
        }
    return kept;
}

/* ---- one row ---------------------------------------------------------------- */

/* Softmax over w->score and the sink logit. Fills w->weight and w->slack. */
static ref_row softmax(const attn_problem *problem, work *w, int64_t count, double sink_logit) {
    ref_row row = {.count = count, .weight = w->weight, .slack = w->slack, .max = sink_logit};
    bool nan = isnan(sink_logit);
    for (int64_t a = 0; a < count; a++) {
        nan |= isnan(w->score[a].value);
        if (w->score[a].value > row.max)
            row.max = w->score[a].value;
    }
    if (nan)
        row.max = (double)NAN;
    if (row.max == -INFINITY) { /* nothing is attended, or nothing but scores of -inf */
        memset(w->weight, 0, (size_t)(count + 1) * sizeof(double));
        memset(w->slack, 0, (size_t)(count + 1) * sizeof(double));
        return row;
    }

    /* With a maximum of NaN or +inf every weight becomes NaN: the row is NaN. */
    double sum = isfinite(row.max) ? 0 : (double)NAN;
    for (int64_t a = 0; a <= count; a++) {
        w->weight[a] = exp((a < count ? w->score[a].value : sink_logit) - row.max);
        sum += w->weight[a];
    }
    row.log_sum = isinf(row.max) ? 0 : log(sum);

    for (int64_t a = 0; a <= count; a++) {
        double score = a < count ? w->score[a].value : sink_logit;
        double tolerance = a < count ? ref_score_tolerance(problem, &w->score[a]) : 0;
        double log_error = ref_log_error(score, tolerance, row.max, count, problem->keys);
        w->weight[a] /= sum;
        /* A weight too small for a double may still be seen where scores are badly rounded. */
        w->slack[a] = w->weight[a] != 0 ? w->weight[a] * expm1(log_error)
                                        : exp(score - row.max - row.log_sum + log_error);
        if (log_error > row.max_log_error)
            row.max_log_error = log_error;
    }
    return row;
}

/* weight * value. An infinite value is infinite however small its weight: where the weight has
 * underflowed, in double or in float32, Inf and NaN are both right (see ref_compare), 0 is not. */
static double contribution(double weight, double value) {
    return isinf(value) && !isnan(weight) ? value : weight * value;
}

static void write_values(const attn_problem *problem, work *w, const ref_row *row, int64_t position,
                         const ref_result *result) {
    for (int64_t c = 0; c < problem->value_dim; c++) {
        double out = 0;
        for (int64_t a = 0; a < row->count; a++) {
            w->column[a] = w->values[w->index[a] * problem->value_dim + c];
            out += contribution(w->weight[a], w->column[a]);
        }
        if (result->out)
            result->out[position * problem->value_dim + c] = out;
        if (result->out_tolerance)
            result->out_tolerance[position * problem->value_dim + c] = ref_out_tolerance(row, w->column, out);
    }
}

/* Into row `position` of the result. */
static void compute_row(const attn_problem *problem, const attn_tensors *tensors, work *w, int64_t b,
                        int64_t h, int64_t i, int64_t position, const ref_result *result) {
    for (int64_t d = 0; d < problem->head_dim; d++)
        w->query[d] = ref_load(tensors->q.data, problem->dtype,
                               b * tensors->q.batch_stride + h * tensors->q.head_stride +
                                   i * tensors->q.row_stride + d);

    int64_t count = 0;
    for (int64_t j = 0; j < problem->keys; j++)
        if (ref_pair_attended(problem, tensors, &w->draws, b, h, i, j)) {
            w->index[count] = j;
            w->score[count++] = final_score(problem, tensors, w, b, h, i, j);
        }
    if (problem->pattern.terms & ATTN_TOPK)
        count = keep_topk(w, count, problem->pattern.topk);

    double sink = problem->inputs & ATTN_HAS_SINK_LOGIT ? tensors->sink_logits[h] : -INFINITY;
    ref_row row = softmax(problem, w, count, sink);

    write_values(problem, w, &row, position, result);
    if (result->lse)
        result->lse[position] = row.max + row.log_sum;
    if (result->lse_tolerance)
        result->lse_tolerance[position] = ref_lse_tolerance(&row);
    if (result->weights) {
        double *weights = result->weights + position * problem->keys;
        memset(weights, 0, (size_t)problem->keys * sizeof *weights);
        for (int64_t a = 0; a < count; a++)
            weights[w->index[a]] = w->weight[a];
    }
}

static void load_head(const attn_problem *problem, const attn_tensors *tensors, work *w, int64_t b,
                      int64_t h) {
    int64_t kv_head = h / (problem->heads / problem->kv_heads);
    ref_load_matrix(w->keys, &tensors->k, problem->dtype, b, kv_head, problem->keys, problem->head_dim);
    ref_load_matrix(w->values, &tensors->v, problem->dtype, b, kv_head, problem->keys, problem->value_dim);
}

bool ref_attention(const attn_problem *problem, const attn_tensors *tensors, const ref_result *result) {
    work w;
    if (!work_init(&w, problem))
        return false;
    int64_t position = 0;
    for (int64_t b = 0; b < problem->batch; b++)
        for (int64_t h = 0; h < problem->heads; h++) {
            load_head(problem, tensors, &w, b, h);
            for (int64_t i = 0; i < problem->queries; i++)
                compute_row(problem, tensors, &w, b, h, i, position++, result);
        }
    work_free(&w);
    return true;
}

bool ref_attention_at(const attn_problem *problem, const attn_tensors *tensors, const ref_place *place,
                      int64_t count, const ref_result *result) {
    work w;
    if (!work_init(&w, problem))
        return false;
    for (int64_t at = 0; at < count; at++) {
        if (at == 0 || place[at].b != place[at - 1].b || place[at].h != place[at - 1].h)
            load_head(problem, tensors, &w, place[at].b, place[at].h);
        compute_row(problem, tensors, &w, place[at].b, place[at].h, place[at].i, at, result);
    }
    work_free(&w);
    return true;
}
