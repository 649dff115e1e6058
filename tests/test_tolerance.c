/* The reference's tolerances are wide enough for honest float32 arithmetic of different kinds, and narrow
 * enough that a wrong key, term or scale shows. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"
#include "tests/data.h"

/* ---- a float32 implementation with faults to choose from ----------------------- */

typedef enum fault_kind {
    NO_FAULT,
    ONE_KEY_MORE, /* one key that is not attended counts */
    ONE_KEY_LESS, /* the last attended key does not */
    NO_SOFTCAP,
    NO_ALIBI,
    NO_BIAS,
    NO_SINK,
    WRONG_SCALE, /* off by one part in a thousand */
    WRONG_VALUE, /* the last two attended values swapped */
    CRUDE_EXP,   /* exp in half precision */
} fault_kind;

typedef enum style_kind { PLAIN, BACKWARDS, TILED_BASE_2, STYLES } style_kind;

static float exponential(float x, fault_kind fault) {
    float y = expf(x);
    if (fault == CRUDE_EXP)
        y = roundf(y * 1024) / 1024;
    return y;
}

static float score32(const attn_problem *p, const attn_tensors *t, const float *q, const float *k, int64_t h,
                     int64_t i, int64_t j, style_kind style, fault_kind fault) {
    float scale = isnan(p->scale) ? 1 / sqrtf((float)p->head_dim) : p->scale;
    if (fault == WRONG_SCALE)
        scale *= 1.001f;
    float s = 0;
    for (int64_t n = 0; n < p->head_dim; n++) {
        int64_t d = style == BACKWARDS ? p->head_dim - 1 - n : n;
        s = style == TILED_BASE_2 ? fmaf(q[d] * scale, k[d], s) : s + q[d] * k[d];
    }
    if (style != TILED_BASE_2)
        s *= scale;
    if (p->softcap > 0 && fault != NO_SOFTCAP)
        s = p->softcap * tanhf(s / p->softcap);
    if ((p->inputs & ATTN_HAS_ALIBI) && fault != NO_ALIBI)
        s -= t->alibi_slopes[h] * fabsf((float)(i + p->keys - p->queries - j));
    if ((p->inputs & ATTN_HAS_BIAS) && fault != NO_BIAS)
        s += t->bias[i * t->bias_strides[2] + j];
    return s;
}

/* One row, head h of batch 0: scores and keys of what is attended, then plain softmax or, in steps of 16
 * keys, an online one in base 2. */
static void row32(const attn_problem *p, const attn_tensors *t, int64_t h, int64_t i, style_kind style,
                  fault_kind fault, float *out, float *lse) {
    int64_t group = p->heads / p->kv_heads, count = 0, spare = -1;
    const float *q = (const float *)t->q.data + h * t->q.head_stride + i * t->q.row_stride;
    const float *k = (const float *)t->k.data + h / group * t->k.head_stride;
    const float *v = (const float *)t->v.data + h / group * t->v.head_stride;
    float *s = malloc((size_t)(p->keys + 1) * sizeof *s);
    int64_t *key = malloc((size_t)(p->keys + 1) * sizeof *key);
    for (int64_t j = 0; j < p->keys; j++) {
        if (ref_attended(p, t, 0, h, i, j))
            key[count++] = j;
        else
            spare = j;
    }
    if (fault == ONE_KEY_MORE && spare >= 0)
        key[count++] = spare;
    if (fault == ONE_KEY_LESS && count > 0)
        count--;
    for (int64_t a = 0; a < count; a++)
        s[a] = score32(p, t, q, k + key[a] * t->k.row_stride, h, i, key[a], style, fault);
    if (fault == WRONG_VALUE && count > 1) {
        int64_t last = key[count - 1];
        key[count - 1] = key[count - 2];
        key[count - 2] = last;
    }

    float sink = (p->inputs & ATTN_HAS_SINK_LOGIT) && fault != NO_SINK ? t->sink_logits[h] : -INFINITY;
    float max = -INFINITY, sum = 0;
    memset(out, 0, (size_t)p->value_dim * sizeof *out);
    const int64_t step = style == TILED_BASE_2 ? 16 : count + 1;
    for (int64_t first = 0; first < count; first += step) {
        int64_t last = first + step < count ? first + step : count;
        float before = max;
        for (int64_t a = first; a < last; a++)
            max = fmaxf(max, s[a]);
        float rescale = before == -INFINITY ? 0 : exponential(before - max, fault);
        sum *= rescale;
        for (int64_t c = 0; c < p->value_dim; c++)
            out[c] *= rescale;
        for (int64_t n = first; n < last; n++) {
            int64_t a = style == BACKWARDS ? last - 1 - (n - first) : n;
            float w =
                style == TILED_BASE_2 ? exp2f((s[a] - max) * 1.44269504f) : exponential(s[a] - max, fault);
            sum += w;
            for (int64_t c = 0; c < p->value_dim; c++)
                out[c] += w * v[key[a] * t->v.row_stride + c];
        }
    }
    float all = fmaxf(max, sink), rescale = count == 0 ? 0 : exponential(max - all, fault);
    float total = sum * rescale + (sink == -INFINITY ? 0 : exponential(sink - all, fault));
    for (int64_t c = 0; c < p->value_dim; c++)
        out[c] = total == 0 ? 0 : out[c] * rescale / total;
    *lse = total == 0 ? -INFINITY : all + logf(total);
    free(s);
    free(key);
}

/* ---- cases ------------------------------------------------------------------------ */

typedef struct subject {
    attn_problem problem;
    attn_tensors tensors;
    float *q, *k, *v, *bias;
    float slopes[2], sinks[2];
    double *out, *out_tolerance, *lse, *lse_tolerance;
} subject;

static subject subject_new(data_kind kind, int64_t queries, int64_t keys, int64_t dim, uint32_t inputs,
                           attn_pattern pattern, float softcap) {
    const int64_t heads = 2, value_dim = 5;
    subject s = {
        .problem = {.batch = 1,
                    .heads = heads,
                    .kv_heads = 1,
                    .queries = queries,
                    .keys = keys,
                    .head_dim = dim,
                    .value_dim = value_dim,
                    .pattern = pattern,
                    .scale = NAN,
                    .softcap = softcap,
                    .inputs = inputs},
        .q = calloc((size_t)(heads * queries * dim), sizeof(float)),
        .k = calloc((size_t)(keys * dim), sizeof(float)),
        .v = calloc((size_t)(keys * value_dim), sizeof(float)),
        .bias = calloc((size_t)(queries * keys), sizeof(float)),
        .slopes = {0.5f, 0.03125f},
        .sinks = {0.5f, 2},
        .out = calloc((size_t)(heads * queries * value_dim), sizeof(double)),
        .out_tolerance = calloc((size_t)(heads * queries * value_dim), sizeof(double)),
        .lse = calloc((size_t)(heads * queries), sizeof(double)),
        .lse_tolerance = calloc((size_t)(heads * queries), sizeof(double)),
    };
    test_rng rng = test_rng_start("tolerance", (uint64_t)(kind * 1000000 + queries * 1000 + keys + dim));
    data_fill(kind, &rng, heads * queries, 1, keys, dim, value_dim, s.q, s.k, s.v);
    for (int64_t n = 0; n < queries * keys; n++)
        s.bias[n] = (float)test_normal(&rng);
    s.tensors = (attn_tensors){.q = {s.q, 0, queries * dim, dim},
                               .k = {s.k, 0, 0, dim},
                               .v = {s.v, 0, 0, value_dim},
                               .bias = s.bias,
                               .bias_strides = {0, 0, keys, 1},
                               .alibi_slopes = s.slopes,
                               .sink_logits = s.sinks};
    return s;
}

static void subject_free(subject *s) {
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->bias);
    free(s->out);
    free(s->out_tolerance);
    free(s->lse);
    free(s->lse_tolerance);
}

/* Compares the float32 implementation with the reference: output, and log-sum-exp. */
static void compare_subject(subject *s, style_kind style, fault_kind fault, ref_comparison *out,
                            ref_comparison *lse) {
    const attn_problem *p = &s->problem;
    s->tensors.alibi_slopes = s->slopes;
    s->tensors.sink_logits = s->sinks;
    const ref_result result = {s->out, s->out_tolerance, s->lse, s->lse_tolerance, NULL};
    assert_true(ref_attention(p, &s->tensors, &result));
    const int64_t rows = p->heads * p->queries;
    float *actual = malloc((size_t)(rows * p->value_dim) * sizeof *actual);
    float *actual_lse = malloc((size_t)rows * sizeof *actual_lse);
    for (int64_t r = 0; r < rows; r++)
        row32(p, &s->tensors, r / p->queries, r % p->queries, style, fault, actual + r * p->value_dim,
              actual_lse + r);
    *out = ref_compare(actual, s->out, s->out_tolerance, rows * p->value_dim);
    *lse = ref_compare(actual_lse, s->lse, s->lse_tolerance, rows);
    free(actual);
    free(actual_lse);
}

static const struct {
    const char *name;
    uint32_t inputs;
    attn_pattern pattern;
    float softcap;
} options[] = {
    {"plain", 0, {0}, 0},
    {"causal", 0, {.terms = ATTN_CAUSAL}, 0},
    {"window", 0, {.terms = ATTN_WINDOW, .window_left = 3, .window_right = 2}, 0},
    {"softcap", 0, {0}, 5},
    {"alibi", ATTN_HAS_ALIBI, {0}, 0},
    {"bias", ATTN_HAS_BIAS, {0}, 0},
    {"sink", ATTN_HAS_SINK_LOGIT, {0}, 0},
    {"all", ATTN_HAS_ALIBI | ATTN_HAS_BIAS | ATTN_HAS_SINK_LOGIT, {.terms = ATTN_CAUSAL}, 5},
};

/* Guards: float32 in any order, fused or not, in one piece or in rescaled tiles of base 2, stays within
 * the tolerance on every kind of data, and prints how much of it was used. */
static void wide_enough(void **state) {
    const struct {
        int64_t queries, keys, dim;
    } sizes[] = {{1, 1, 1}, {2, 3, 4}, {5, 17, 8}, {9, 65, 64}, {3, 200, 33}, {2, 700, 192}};
    double used_out = 0, used_lse = 0;
    for (int kind = 0; kind < DATA_KINDS; kind++)
        for (size_t o = 0; o < COUNT_OF(options); o++)
            for (size_t n = 0; n < COUNT_OF(sizes) - (test_quick() ? 2 : 0); n++) {
                subject s = subject_new((data_kind)kind, sizes[n].queries, sizes[n].keys, sizes[n].dim,
                                        options[o].inputs, options[o].pattern, options[o].softcap);
                for (int style = 0; style < STYLES; style++) {
                    ref_comparison out, lse;
                    compare_subject(&s, (style_kind)style, NO_FAULT, &out, &lse);
                    if (!out.ok || !lse.ok)
                        test_fail("%s %s q=%d k=%d d=%d style %d: out %g bias %g, lse %g bias %g",
                                  data_kind_name[kind], options[o].name, (int)sizes[n].queries,
                                  (int)sizes[n].keys, (int)sizes[n].dim, style, out.used, out.bias, lse.used,
                                  lse.bias);
                    used_out = fmax(used_out, out.used);
                    used_lse = fmax(used_lse, lse.used);
                }
                subject_free(&s);
            }
    test_note("used of the tolerance: out %.3f, lse %.3f", used_out, used_lse);
}

/* Guards: each fault shows in the output, on normal data, short and long. */
static void narrow_enough(void **state) {
    const struct {
        const char *name;
        fault_kind fault;
        uint32_t inputs;
        attn_pattern pattern;
        float softcap;
    } faults[] = {
        {"one key more", ONE_KEY_MORE, 0, {.terms = ATTN_WINDOW, .window_left = 255}, 0},
        {"one key less", ONE_KEY_LESS, 0, {0}, 0},
        {"no softcap", NO_SOFTCAP, 0, {0}, 30},
        {"no alibi", NO_ALIBI, ATTN_HAS_ALIBI, {0}, 0},
        {"no bias", NO_BIAS, ATTN_HAS_BIAS, {0}, 0},
        {"no sink", NO_SINK, ATTN_HAS_SINK_LOGIT, {0}, 0},
        {"wrong scale", WRONG_SCALE, 0, {0}, 0},
        {"wrong value", WRONG_VALUE, 0, {0}, 0},
        {"crude exp", CRUDE_EXP, 0, {0}, 0},
    };
    const int64_t lengths[] = {16, 100, 600}, dims[] = {8, 64, 128};
    for (size_t f = 0; f < COUNT_OF(faults); f++)
        for (size_t n = 0; n < COUNT_OF(lengths) - test_quick(); n++)
            for (size_t d = 0; d < COUNT_OF(dims); d++) {
                attn_pattern pattern = faults[f].pattern;
                if (pattern.terms & ATTN_WINDOW)
                    pattern.window_left = lengths[n] / 2;
                subject s = subject_new(DATA_NORMAL, 4, lengths[n], dims[d], faults[f].inputs, pattern,
                                        faults[f].softcap);
                ref_comparison out, lse;
                compare_subject(&s, PLAIN, faults[f].fault, &out, &lse);
                if (out.ok)
                    test_fail("%s, keys %d, dim %d: not seen, used %g", faults[f].name, (int)lengths[n],
                              (int)dims[d], out.used);
                subject_free(&s);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wide_enough), cmocka_unit_test(narrow_enough)};
    return test_run("tolerance", tests, COUNT_OF(tests));
}
