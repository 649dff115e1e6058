#include "tests/attention_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const attn_algorithm algorithms[] = {ATTN_NAIVE, ATTN_FLASH};

const char *case_describe(const case_spec *s) {
    static char text[512];
    static const char *const layouts[] = {"plain", "gaps", "interleaved", "broadcast"};
    char pattern[256];
    attn_pattern_format(&s->pattern, pattern, sizeof pattern);
    snprintf(text, sizeof text,
             "b%d h%d kv%d q%d k%d d%d dv%d %s %s inputs 0x%x scale %g cap %g data %s at %s, %s",
             (int)s->batch, (int)s->heads, (int)s->kv_heads, (int)s->queries, (int)s->keys, (int)s->head_dim,
             (int)s->value_dim, attn_dtype_name(s->dtype), pattern, s->inputs, (double)s->scale,
             (double)s->softcap, data_kind_name[s->kind], guard_place_name[s->place], layouts[s->layout]);
    return text;
}

/* A number that depends on everything in the case but where and in which layout it lies. */
static uint64_t case_number(const case_spec *s) {
    char pattern[256]; /* in words, which leave out the parameters of absent terms */
    attn_pattern_format(&s->pattern, pattern, sizeof pattern);
    uint32_t scale, softcap;
    memcpy(&scale, &s->scale, sizeof scale);
    memcpy(&softcap, &s->softcap, sizeof softcap);
    const int64_t parts[] = {s->batch,
                             s->heads,
                             s->kv_heads,
                             s->queries,
                             s->keys,
                             s->head_dim,
                             s->value_dim,
                             s->dtype,
                             s->inputs,
                             s->kind,
                             scale,
                             softcap,
                             s->pattern.terms & ATTN_BLOCKS ? s->pattern.block_heads : 0};
    uint64_t number = 0;
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        number = number * 1000003 + (uint64_t)parts[i];
    for (const char *c = pattern; *c; c++)
        number = number * 1000003 + (uint64_t)*c;
    return number;
}

/* ---- tensors ------------------------------------------------------------------- */

static void strides(const case_spec *s, bool key_value, int64_t heads, int64_t rows, int64_t dim,
                    int64_t *batch, int64_t *head, int64_t *row) {
    switch (s->layout) {
    case LAYOUT_GAPS:
        *row = dim + 3;
        *head = rows * *row + 5;
        *batch = heads * *head + 7;
        break;
    case LAYOUT_INTERLEAVED:
        *head = dim;
        *row = heads * dim;
        *batch = rows * *row;
        break;
    default:
        *row = dim;
        *head = rows * dim;
        *batch = heads * rows * dim;
        if (s->layout == LAYOUT_BROADCAST && key_value)
            *batch = *head = 0;
    }
}

/* Elements up to the last one, which ends the buffer. */
static int64_t extent(int64_t batch, int64_t heads, int64_t rows, int64_t dim, int64_t batch_stride,
                      int64_t head_stride, int64_t row_stride) {
    if (batch == 0 || heads == 0 || rows == 0 || dim == 0)
        return 0;
    return (batch - 1) * batch_stride + (heads - 1) * head_stride + (rows - 1) * row_stride + dim;
}

static guard tensor_new(const case_spec *s, bool key_value, int64_t heads, int64_t rows, int64_t dim,
                        attn_tensor *tensor) {
    strides(s, key_value, heads, rows, dim, &tensor->batch_stride, &tensor->head_stride, &tensor->row_stride);
    const int64_t elements =
        extent(s->batch, heads, rows, dim, tensor->batch_stride, tensor->head_stride, tensor->row_stride);
    guard g = guard_new((size_t)elements * attn_dtype_bytes(s->dtype), s->place, attn_dtype_bytes(s->dtype));
    tensor->data = g.data;
    return g;
}

static void store(void *data, attn_dtype dtype, int64_t at, float value) {
    if (dtype == ATTN_F32)
        ((float *)data)[at] = value;
    else
        ((uint16_t *)data)[at] = dtype == ATTN_F16 ? attn_f32_to_f16(value) : attn_f32_to_bf16(value);
}

void case_set(attention_case *c, const attn_tensor *tensor, int64_t b, int64_t h, int64_t row, int64_t d,
              float value) {
    guard *owner = tensor == &c->tensors.q ? &c->q : tensor == &c->tensors.k ? &c->k : &c->v;
    store(owner->data, c->problem.dtype,
          b * tensor->batch_stride + h * tensor->head_stride + row * tensor->row_stride + d, value);
}

static void scatter(attention_case *c, const attn_tensor *tensor, int64_t heads, int64_t rows, int64_t dim,
                    const float *values) {
    for (int64_t b = 0; b < c->spec.batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t d = 0; d < dim; d++)
                    case_set(c, tensor, b, h, r, d, values[((b * heads + h) * rows + r) * dim + d]);
}

static void make_tensors(attention_case *c, test_rng *rng) {
    const case_spec *s = &c->spec;
    c->q = tensor_new(s, false, s->heads, s->queries, s->head_dim, &c->tensors.q);
    c->k = tensor_new(s, true, s->kv_heads, s->keys, s->head_dim, &c->tensors.k);
    c->v = tensor_new(s, true, s->kv_heads, s->keys, s->value_dim, &c->tensors.v);
    const int64_t q_rows = s->batch * s->heads * s->queries, kv_heads = s->batch * s->kv_heads;
    float *q = malloc((size_t)(q_rows * s->head_dim + 1) * sizeof *q);
    float *k = malloc((size_t)(kv_heads * s->keys * s->head_dim + 1) * sizeof *k);
    float *v = malloc((size_t)(kv_heads * s->keys * s->value_dim + 1) * sizeof *v);
    assert_true(q && k && v);
    data_fill(s->kind, rng, q_rows, kv_heads, s->keys, s->head_dim, s->value_dim, q, k, v);
    scatter(c, &c->tensors.q, s->heads, s->queries, s->head_dim, q);
    scatter(c, &c->tensors.k, s->kv_heads, s->keys, s->head_dim, k);
    scatter(c, &c->tensors.v, s->kv_heads, s->keys, s->value_dim, v);
    free(q);
    free(k);
    free(v);

    attn_tensors *t = &c->tensors;
    strides(s, false, s->heads, s->queries, s->value_dim, &t->out_batch_stride, &t->out_head_stride,
            &t->out_row_stride);
    const int64_t elements = extent(s->batch, s->heads, s->queries, s->value_dim, t->out_batch_stride,
                                    t->out_head_stride, t->out_row_stride);
    c->out = guard_new((size_t)elements * sizeof(float), s->place, sizeof(float));
    t->out = c->out.data;
    c->lse = guard_new((size_t)q_rows * sizeof(float), s->place, sizeof(float));
    t->lse = c->lse.data;
}

/* ---- optional inputs -------------------------------------------------------------- */

static guard integers(const case_spec *s, int64_t count, const int64_t **where) {
    guard g = guard_new((size_t)count * sizeof(int64_t), s->place, sizeof(int64_t));
    *where = g.data;
    return g;
}

/* Strides of a tensor that is broadcast along some of its axes, chosen at random. Returns its elements. */
static int64_t broadcast(const case_spec *s, test_rng *rng, int64_t out[4]) {
    const int64_t sizes[] = {s->batch, s->heads, s->queries, s->keys};
    int64_t elements = 1;
    for (int axis = 3; axis >= 0; axis--) {
        const bool full = axis >= 2 ? test_between(rng, 0, 4) != 0 : test_between(rng, 0, 1) != 0;
        out[axis] = full ? elements : 0;
        elements *= full ? sizes[axis] : 1;
    }
    return s->batch * s->heads * s->queries * s->keys == 0 ? 0 : elements;
}

static void make_inputs(attention_case *c, test_rng *rng) {
    const case_spec *s = &c->spec;
    attn_tensors *t = &c->tensors;
    if (s->inputs & ATTN_HAS_KV_LENS) {
        c->kv_lens = integers(s, s->batch, &t->kv_lens);
        for (int64_t b = 0; b < s->batch; b++)
            ((int64_t *)c->kv_lens.data)[b] = test_between(rng, 0, s->keys);
    }
    if (s->inputs & ATTN_HAS_Q_OFFSETS) {
        c->q_offsets = integers(s, s->batch, &t->q_offsets);
        for (int64_t b = 0; b < s->batch; b++)
            ((int64_t *)c->q_offsets.data)[b] = test_between(rng, -s->queries - 2, s->keys + 2);
    }
    if (s->inputs & ATTN_HAS_SEGMENTS) {
        c->segments = integers(s, s->batch * s->keys, &t->segments);
        int64_t id = -3;
        for (int64_t i = 0; i < s->batch * s->keys; i++) {
            id += test_between(rng, 0, 9) == 0 ? 1 : test_between(rng, 0, 60) == 0 ? -1 : 0;
            ((int64_t *)c->segments.data)[i] = id;
        }
    }
    if (s->inputs & ATTN_HAS_MASK) {
        const int64_t n = broadcast(s, rng, t->mask_strides);
        c->mask = guard_new((size_t)n, s->place, 1);
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)c->mask.data)[i] = (uint8_t)(test_between(rng, 0, 3) * test_between(rng, 0, 90));
        t->mask = c->mask.data;
    }
    if (s->inputs & ATTN_HAS_BIAS) {
        const int64_t n = broadcast(s, rng, t->bias_strides);
        c->bias = guard_new((size_t)n * sizeof(float), s->place, sizeof(float));
        for (int64_t i = 0; i < n; i++)
            ((float *)c->bias.data)[i] = test_between(rng, 0, 7) ? (float)(2 * test_normal(rng)) : -INFINITY;
        t->bias = c->bias.data;
    }
    if (s->inputs & ATTN_HAS_ALIBI) {
        c->slopes = guard_new((size_t)s->heads * sizeof(float), s->place, sizeof(float));
        for (int64_t h = 0; h < s->heads; h++)
            ((float *)c->slopes.data)[h] = (float)exp2(-8.0 * (double)(h + 1) / (double)s->heads);
        t->alibi_slopes = c->slopes.data;
    }
    if (s->inputs & ATTN_HAS_SINK_LOGIT) {
        c->sinks = guard_new((size_t)s->heads * sizeof(float), s->place, sizeof(float));
        for (int64_t h = 0; h < s->heads; h++)
            ((float *)c->sinks.data)[h] = test_between(rng, 0, 5) ? (float)test_normal(rng) : -INFINITY;
        t->sink_logits = c->sinks.data;
    }
    if (s->pattern.terms & ATTN_BLOCKS) {
        const int64_t block = s->pattern.block_size;
        const int64_t n =
            s->pattern.block_heads * ((s->queries + block - 1) / block) * ((s->keys + block - 1) / block);
        c->block_map = malloc((size_t)n + 1);
        assert_non_null(c->block_map);
        for (int64_t i = 0; i < n; i++)
            c->block_map[i] = (uint8_t)(test_between(rng, 0, 2) == 0 ? test_between(rng, 1, 255) : 0);
        c->problem.pattern.block_map = c->block_map;
    }
}

/* ---- cases ------------------------------------------------------------------------------ */

attention_case *case_new(const case_spec *spec) {
    attention_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->spec = *spec;
    attn_problem_init(&c->problem, spec->batch, spec->heads, spec->kv_heads, spec->queries, spec->keys,
                      spec->head_dim, spec->value_dim);
    c->problem.dtype = spec->dtype;
    c->problem.pattern = spec->pattern;
    c->problem.inputs = spec->inputs;
    c->problem.softcap = spec->softcap;
    if (spec->scale != 0)
        c->problem.scale = spec->scale;
    test_rng rng = test_rng_start("case", case_number(spec));
    make_tensors(c, &rng);
    make_inputs(c, &rng);
    return c;
}

static void each_guard(attention_case *c, void (*visit)(guard *g)) {
    guard *all[] = {&c->q,         &c->k,        &c->v,    &c->out,  &c->lse,    &c->kv_lens,
                    &c->q_offsets, &c->segments, &c->mask, &c->bias, &c->slopes, &c->sinks};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (all[i]->pages != NULL)
            visit(all[i]);
}

void case_free(attention_case *c) {
    each_guard(c, guard_free);
    free(c->block_map);
    free(c->expected);
    free(c->tolerance);
    free(c->expected_lse);
    free(c->lse_tolerance);
    free(c);
}

static void seal(guard *g) {
    guard_seal(g);
}

static double *doubles(int64_t count) {
    double *x = calloc((size_t)count + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

void case_expect(attention_case *c) {
    const case_spec *s = &c->spec;
    const int64_t rows = s->batch * s->heads * s->queries;
    c->expected = doubles(rows * s->value_dim);
    c->tolerance = doubles(rows * s->value_dim);
    c->expected_lse = doubles(rows);
    c->lse_tolerance = doubles(rows);
    const ref_result result = {c->expected, c->tolerance, c->expected_lse, c->lse_tolerance, NULL};
    assert_true(ref_attention(&c->problem, &c->tensors, &result));
    const guard out = c->out, lse = c->lse; /* everything but the outputs becomes read-only */
    c->out = c->lse = (guard){0};
    each_guard(c, seal);
    c->out = out;
    c->lse = lse;
}

const float *case_out(const attention_case *c, int64_t b, int64_t h, int64_t i) {
    const attn_tensors *t = &c->tensors;
    return t->out + b * t->out_batch_stride + h * t->out_head_stride + i * t->out_row_stride;
}

void case_execute(attention_case *c, const char *isa, attn_algorithm algorithm, int threads) {
    guard_reset(&c->out);
    guard_reset(&c->lse);
    const attn_options options = {.isa = isa, .algorithm = algorithm};
    attn_plan *plan = NULL;
    attn_error error = {""};
    if (attn_plan_create(&c->problem, &options, &plan, &error) != ATTN_OK)
        test_fail("%s %s: no plan: %s", attn_algorithm_name(algorithm), case_describe(&c->spec), error.text);
    test_call(if (attn_execute(plan, &c->tensors, NULL, threads, &error) != ATTN_OK) test_fail(
        "%s %s: %s", attn_algorithm_name(algorithm), case_describe(&c->spec), error.text));
    const attn_info info = attn_plan_info(plan);
    assert_string_equal(info.isa, isa);
    assert_int_equal(info.algorithm, algorithm);
    attn_plan_destroy(plan);
}

/* Every element of the output buffer that is in no row still holds what guard_reset left. */
static bool gaps_untouched(const attention_case *c) {
    const case_spec *s = &c->spec;
    const size_t floats = c->out.bytes / sizeof(float);
    uint32_t *copy = malloc(c->out.bytes + 1);
    assert_non_null(copy);
    memcpy(copy, c->out.data, c->out.bytes);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->queries && s->value_dim > 0; i++)
                memset(copy + (case_out(c, b, h, i) - c->tensors.out), 0xFF,
                       (size_t)s->value_dim * sizeof(float));
    bool untouched = guard_intact(&c->out) && guard_intact(&c->lse);
    for (size_t n = 0; n < floats; n++)
        untouched &= copy[n] == UINT32_MAX;
    free(copy);
    return untouched;
}

double case_compare(const attention_case *c, const char *isa, attn_algorithm algorithm) {
    const case_spec *s = &c->spec;
    const int64_t rows = s->batch * s->heads * s->queries;
    float *gathered = malloc((size_t)(rows * s->value_dim + 1) * sizeof *gathered);
    assert_non_null(gathered);
    for (int64_t r = 0; r < rows && s->value_dim > 0; r++)
        memcpy(gathered + r * s->value_dim,
               case_out(c, r / s->queries / s->heads, r / s->queries % s->heads, r % s->queries),
               (size_t)s->value_dim * sizeof(float));
    const ref_comparison out = ref_compare(gathered, c->expected, c->tolerance, rows * s->value_dim);
    const ref_comparison lse = ref_compare(c->lse.data, c->expected_lse, c->lse_tolerance, rows);
    if (!out.ok)
        test_fail("%s %s %s: out[%d] = %.9g, expected %.9g, used %g, bias %g", isa,
                  attn_algorithm_name(algorithm), case_describe(s), (int)out.worst,
                  (double)gathered[out.worst], c->expected[out.worst], out.used, out.bias);
    if (!lse.ok)
        test_fail("%s %s %s: lse[%d] = %.9g, expected %.9g, used %g, bias %g", isa,
                  attn_algorithm_name(algorithm), case_describe(s), (int)lse.worst,
                  (double)c->tensors.lse[lse.worst], c->expected_lse[lse.worst], lse.used, lse.bias);
    if (!gaps_untouched(c))
        test_fail("%s %s %s: wrote outside its rows", isa, attn_algorithm_name(algorithm), case_describe(s));
    free(gathered);
    return fmax(out.used, lse.used);
}

double case_check(const case_spec *spec, const char *isa) {
    attention_case *c = case_new(spec);
    case_expect(c);
    double used = 0;
    for (size_t a = 0; a < COUNT_OF(algorithms); a++) {
        if (algorithms[a] == ATTN_FLASH && (spec->pattern.terms & ATTN_TOPK))
            continue; /* refused by name: see test_problem.c */
        case_execute(c, isa, algorithms[a], 1);
        used = fmax(used, case_compare(c, isa, algorithms[a]));
    }
    case_free(c);
    return used;
}
