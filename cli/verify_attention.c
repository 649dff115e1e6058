/* Attention of every algorithm and level against the reference, case by case. The reference is
 * computed once for a case; all levels get the same bytes. */
#include "cli/team.h"
#include "cli/verify.h"
#include "reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 64 }; /* floats before and behind an output, which must stay as they are */
static const float canary = -12345.5f;

typedef struct work {
    attn_problem problem;
    attn_tensors tensors; /* out and lse apart */
    int64_t out_count, lse_count;
    void *q, *k, *v;
    int64_t *kv_lens, *q_offsets, *segments;
    uint8_t *mask, *block_map;
    float *bias, *slopes, *sinks;
    float *out, *again; /* with margins: out_count + lse_count + 3 * MARGIN */
    ref_result expected;
} work;

static void work_free(work *w) {
    void *owned[] = {w->q,
                     w->k,
                     w->v,
                     w->kv_lens,
                     w->q_offsets,
                     w->segments,
                     w->mask,
                     w->bias,
                     w->slopes,
                     w->sinks,
                     w->block_map,
                     w->out,
                     w->again,
                     w->expected.out,
                     w->expected.lse,
                     w->expected.out_tolerance,
                     w->expected.lse_tolerance};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        free(owned[i]);
}

static void describe(const verify_case *c, char *text, size_t size) {
    char pattern[64]; /* with the map, beside which "dense" does not stand */
    const char *others = c->block_size && !strcmp(c->pattern, "dense") ? "" : c->pattern;
    int length = snprintf(pattern, sizeof pattern, "%s", others);
    if (c->block_size)
        snprintf(pattern + length, sizeof pattern - (size_t)length, "%sblocks=map:%lld",
                 length > 0 ? "," : "", (long long)c->block_size);
    snprintf(text, size, "%s b%lld h%lld kv%lld nq%lld nk%lld d%lld dv%lld", pattern, (long long)c->batch,
             (long long)c->heads, (long long)c->kv_heads, (long long)c->queries, (long long)c->keys,
             (long long)c->head_dim, (long long)c->value_dim);
}

/* ---- Inputs ---- */

/* Element (row, dimension) of one head of q ('q'), k or v. */
static float element(const verify_case *c, char which, int64_t row, int64_t d, verify_random *random) {
    float normal = verify_normal(random);
    if (which == 'v')
        return c->data == DATA_TINY ? normal * 1e-20f : normal;
    switch (c->data) {
    case DATA_PEAKED:
        return which == 'q' ? 8 * normal : normal;
    case DATA_RISING:
        return which == 'q' ? fabsf(normal) : 0.05f * (float)row + 0.01f * normal;
    case DATA_EQUAL:
        return which == 'q' ? normal : 0.5f;
    case DATA_TINY:
        return normal * 1e-22f;
    case DATA_SPACED: /* the score of key j is that of one dimension: a permutation of even steps */
        if (which == 'q')
            return d == 0 ? 1 : 0;
        return d == 0 ? 0.25f * sqrtf((float)c->head_dim) * (float)(row * 7919 % 1009) : normal;
    default:
        return normal;
    }
}

static void put(void *data, attn_dtype dtype, int64_t index, float x) {
    if (dtype == ATTN_F32)
        ((float *)data)[index] = x;
    else
        ((uint16_t *)data)[index] = dtype == ATTN_F16 ? attn_f32_to_f16(x) : attn_f32_to_bf16(x);
}

static attn_tensor make_tensor(verify_run *run, const verify_case *c, char which, int64_t heads, int64_t rows,
                               int64_t dim, verify_random *random) {
    void *data = verify_alloc(run, c->batch * heads * rows * dim, sizeof(float));
    attn_tensor t = {data, heads * rows * dim, c->interleaved ? dim : rows * dim,
                     c->interleaved ? heads * dim : dim};
    for (int64_t b = 0; b < c->batch && data; b++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t i = 0; i < rows; i++) {
                for (int64_t d = 0; d < dim; d++)
                    put(data, c->dtype, b * t.batch_stride + h * t.head_stride + i * t.row_stride + d,
                        element(c, which, i, d, random));
            }
        }
    }
    return t;
}

static void set_rows(const verify_case *c, const attn_tensor *t, void *data, int64_t b, int64_t heads,
                     int64_t row, int64_t dim, float x) {
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t d = 0; d < dim; d++)
            put(data, c->dtype, b * t->batch_stride + h * t->head_stride + row * t->row_stride + d, x);
    }
}

/* NaN and Inf where they must not, or must, be seen. */
static void spoil(const verify_case *c, work *w) {
    const attn_tensors *t = &w->tensors;
    for (int64_t b = 0; b < c->batch && c->data == DATA_POISON; b++) {
        for (int64_t j = w->kv_lens[b]; j < c->keys; j++) {
            set_rows(c, &t->k, w->k, b, c->kv_heads, j, c->head_dim, j % 2 ? NAN : INFINITY);
            set_rows(c, &t->v, w->v, b, c->kv_heads, j, c->value_dim, j % 2 ? -INFINITY : NAN);
        }
    }
    if (c->data == DATA_NAN && c->batch > 0) {
        put(w->q, c->dtype, c->queries / 2 * t->q.row_stride, NAN);
        put(w->v, c->dtype, c->keys / 3 * t->v.row_stride + c->value_dim / 2, NAN);
    }
}

static void make_lists(verify_run *run, const verify_case *c, work *w, verify_random *random) {
    attn_tensors *t = &w->tensors;
    const int64_t pairs = c->queries * c->keys;
    if (c->inputs & ATTN_HAS_KV_LENS)
        t->kv_lens = w->kv_lens = verify_alloc(run, c->batch, sizeof *w->kv_lens);
    if (c->inputs & ATTN_HAS_Q_OFFSETS)
        t->q_offsets = w->q_offsets = verify_alloc(run, c->batch, sizeof *w->q_offsets);
    if (c->inputs & ATTN_HAS_SEGMENTS)
        t->segments = w->segments = verify_alloc(run, c->batch * c->keys, sizeof *w->segments);
    if (c->inputs & ATTN_HAS_MASK)
        t->mask = w->mask = verify_alloc(run, c->batch * pairs, 1);
    if (c->inputs & ATTN_HAS_BIAS)
        t->bias = w->bias = verify_alloc(run, c->heads * pairs, sizeof *w->bias);
    if (c->inputs & ATTN_HAS_ALIBI)
        t->alibi_slopes = w->slopes = verify_alloc(run, c->heads, sizeof *w->slopes);
    if (c->inputs & ATTN_HAS_SINK_LOGIT)
        t->sink_logits = w->sinks = verify_alloc(run, c->heads, sizeof *w->sinks);
    if (run->no_memory)
        return;

    for (int64_t b = 0; b < c->batch && w->kv_lens; b++)
        w->kv_lens[b] = (int64_t)(verify_uniform(random) * (double)(c->keys + 1));
    for (int64_t b = 0; b < c->batch && w->q_offsets; b++)
        w->q_offsets[b] = (int64_t)(verify_uniform(random) * (double)(c->keys + 5)) - 3;
    for (int64_t i = 0; i < c->batch * c->keys && w->segments; i++)
        w->segments[i] = i % c->keys == 0 ? 3 : w->segments[i - 1] + (verify_uniform(random) < 0.1);
    /* One mask per batch and one bias per head, broadcast over the other. */
    t->mask_strides[0] = t->bias_strides[1] = pairs;
    t->mask_strides[2] = t->bias_strides[2] = c->keys;
    t->mask_strides[3] = t->bias_strides[3] = 1;
    for (int64_t i = 0; i < c->batch * pairs && w->mask; i++)
        w->mask[i] = verify_uniform(random) < 0.7;
    for (int64_t i = 0; i < c->heads * pairs && w->bias; i++)
        w->bias[i] = verify_uniform(random) < 0.1 ? -INFINITY : verify_normal(random);
    for (int64_t h = 0; h < c->heads && w->slopes; h++)
        w->slopes[h] = exp2f(-(float)(h + 1));
    for (int64_t h = 0; h < c->heads && w->sinks; h++)
        w->sinks[h] = h == 1 ? -INFINITY : verify_normal(random);
}

static void make_blocks(verify_run *run, const verify_case *c, work *w, verify_random *random) {
    attn_pattern *pattern = &w->problem.pattern;
    const int64_t rows = (c->queries - 1) / c->block_size + 1, columns = (c->keys - 1) / c->block_size + 1;
    w->block_map = verify_alloc(run, c->heads * rows * columns, 1);
    for (int64_t i = 0; i < c->heads * rows * columns && w->block_map; i++)
        w->block_map[i] = verify_uniform(random) < 0.4;
    pattern->terms |= ATTN_BLOCKS;
    pattern->block_size = c->block_size;
    pattern->block_map = w->block_map;
    pattern->block_heads = c->heads;
}

/* Fills `w`; false, with the reason booked, when the case cannot be made. */
static bool make_case(verify_run *run, const verify_case *c, work *w, const char *what) {
    attn_problem *p = &w->problem;
    attn_error error;
    attn_problem_init(p, c->batch, c->heads, c->kv_heads, c->queries, c->keys, c->head_dim, c->value_dim);
    p->inputs = c->inputs;
    p->dtype = c->dtype;
    p->softcap = c->softcap;
    if (c->scale == VERIFY_ZERO_SCALE)
        p->scale = 0;
    else if (c->scale != 0)
        p->scale = c->scale;
    if (attn_pattern_parse(c->pattern, &p->pattern, &error) != ATTN_OK) {
        verify_fail(run, verify_row_of(run, c->group, "-"), 0, what, error.text);
        return false;
    }

    verify_random random = verify_seed(run, c->stream);
    attn_tensors *t = &w->tensors;
    t->q = make_tensor(run, c, 'q', c->heads, c->queries, c->head_dim, &random);
    t->k = make_tensor(run, c, 'k', c->kv_heads, c->keys, c->head_dim, &random);
    t->v = make_tensor(run, c, 'v', c->kv_heads, c->keys, c->value_dim, &random);
    w->q = (void *)t->q.data;
    w->k = (void *)t->k.data;
    w->v = (void *)t->v.data;
    make_lists(run, c, w, &random);
    if (c->block_size)
        make_blocks(run, c, w, &random);
    w->out_count = c->batch * c->heads * c->queries * c->value_dim;
    w->lse_count = c->batch * c->heads * c->queries;
    const int64_t floats = w->out_count + w->lse_count + 3 * MARGIN;
    w->out = verify_alloc(run, floats, sizeof *w->out);
    w->again = verify_alloc(run, floats, sizeof *w->again);
    w->expected = (ref_result){.out = verify_alloc(run, w->out_count, sizeof(double)),
                               .out_tolerance = verify_alloc(run, w->out_count, sizeof(double)),
                               .lse = verify_alloc(run, w->lse_count, sizeof(double)),
                               .lse_tolerance = verify_alloc(run, w->lse_count, sizeof(double))};
    if (run->no_memory)
        return false;
    spoil(c, w);
    if (!ref_attention(p, t, &w->expected)) {
        run->no_memory = true;
        return false;
    }
    return true;
}

/* ---- Execution ---- */

/* Executes into `memory`: margin, out, margin, lse, margin. */
static attn_status execute(const attn_plan *plan, work *w, float *memory, int threads, int *used,
                           attn_error *error) {
    const int64_t floats = w->out_count + w->lse_count + 3 * MARGIN;
    for (int64_t i = 0; i < floats; i++)
        memory[i] = canary;
    attn_tensors t = w->tensors;
    const attn_problem *p = &w->problem;
    t.out = memory + MARGIN;
    t.out_batch_stride = p->heads * p->queries * p->value_dim;
    t.out_head_stride = p->queries * p->value_dim;
    t.out_row_stride = p->value_dim;
    t.lse = memory + MARGIN + w->out_count + MARGIN;
    return attn_execute_on(cli_team, plan, &t, NULL, threads, used, error);
}

static bool margins_kept(const work *w) {
    const int64_t starts[3] = {0, MARGIN + w->out_count, 2 * MARGIN + w->out_count + w->lse_count};
    for (int m = 0; m < 3; m++) {
        for (int64_t i = 0; i < MARGIN; i++) {
            if (w->out[starts[m] + i] != canary)
                return false;
        }
    }
    return true;
}

static void run_case(verify_run *run, const verify_case *c, work *w, int level, attn_algorithm algorithm,
                     const char *what) {
    verify_row *row = verify_row_of(run, c->group, attn_algorithm_name(algorithm));
    attn_options options = {.isa = run->levels[level], .algorithm = algorithm};
    attn_plan *plan;
    attn_error error;
    attn_status status = attn_plan_create(&w->problem, &options, &plan, &error);
    if (status == ATTN_UNSUPPORTED) {
        verify_refuse(run, row, level, what, error.text);
        return;
    }
    const int threads = c->threads > 1 ? c->threads : 1;
    int used = 1;
    if (status == ATTN_OK)
        status = execute(plan, w, w->out, threads, &used, &error);
    if (status != ATTN_OK) {
        verify_fail(run, row, level, what, error.text);
        attn_plan_destroy(plan);
        return;
    }
    if (!margins_kept(w))
        verify_fail(run, row, level, what, "wrote outside its output");
    if (threads > 1 && used == 1 && cli_team_had() == 1) {
        verify_refuse(run, row, level, what, "not compared with several threads: only one could be had here");
    } else if (threads > 1) {
        const size_t bytes = (size_t)(w->out_count + w->lse_count + 3 * MARGIN) * sizeof(float);
        if (execute(plan, w, w->again, 1, &used, &error) != ATTN_OK)
            verify_fail(run, row, level, what, error.text);
        else if (memcmp(w->out, w->again, bytes) != 0)
            verify_fail(run, row, level, what, "one thread and several do not agree bit by bit");
    }
    attn_plan_destroy(plan);
    verify_compare(run, row, level, what, w->out + MARGIN, w->expected.out, w->expected.out_tolerance,
                   w->out_count);
    char lse_what[128];
    snprintf(lse_what, sizeof lse_what, "log-sum-exp of %s", what);
    verify_compare(run, row, level, lse_what, w->out + 2 * MARGIN + w->out_count, w->expected.lse,
                   w->expected.lse_tolerance, w->lse_count);
}

static void each_case(verify_run *run, const verify_case *c) {
    char what[96];
    describe(c, what, sizeof what);
    verify_progress(run, c->group);
    work w = {0};
    if (make_case(run, c, &w, what)) {
        for (int a = ATTN_NAIVE; a <= ATTN_FLASH; a++) {
            for (int level = 0; level < run->level_count; level++)
                run_case(run, c, &w, level, (attn_algorithm)a, what);
        }
    }
    work_free(&w);
}

void verify_attention(verify_run *run) {
    verify_each_case(run->quick, each_case, run);
}
