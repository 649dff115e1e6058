/* Random tensors and block maps, in memory of exactly their size. */
#include "tests/fuzz/plan_data.h"

#include "attention/internal.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static uint64_t random_state;

/* Uniform in [0, 1), 24 bits. */
static float uniform(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(random_state >> 40) / 16777216;
}

static void *stored(int64_t count, attn_dtype dtype) {
    void *data = fuzz_alloc((size_t)count * attn_dtype_bytes(dtype));
    for (int64_t i = 0; i < count; i++) {
        const float value = 2 * uniform() - 1;
        if (dtype == ATTN_F32)
            ((float *)data)[i] = value;
        else
            ((uint16_t *)data)[i] = dtype == ATTN_F16 ? attn_f32_to_f16(value) : attn_f32_to_bf16(value);
    }
    return data;
}

static float *floats(int64_t count) {
    return stored(count, ATTN_F32);
}

static int64_t *integers(int64_t count, int64_t least, int64_t most) {
    int64_t *data = fuzz_alloc((size_t)count * sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = least + (int64_t)(uniform() * (float)(most - least + 1));
    return data;
}

static uint8_t *bytes(int64_t count) {
    uint8_t *data = fuzz_alloc((size_t)count);
    for (int64_t i = 0; i < count; i++)
        data[i] = uniform() < 0.5f ? 0 : (uint8_t)(1 + 254 * uniform());
    return data;
}

static void *keep(fuzz_tensors *m, void *memory) {
    m->owned[m->count++] = memory;
    return memory;
}

/* A mask or bias (B, H, Nq, Nk) has an axis broadcast where a bit of the seed is set. */
static int64_t broadcast_strides(const attn_problem *p, int64_t seed, int64_t strides[4]) {
    const int64_t sizes[4] = {p->batch, p->heads, p->queries, p->keys};
    int64_t count = 1;
    for (int axis = 3; axis >= 0; axis--) {
        const bool one = seed >> axis & 1;
        strides[axis] = one ? 0 : count;
        count *= one ? 1 : sizes[axis];
    }
    return count;
}

fuzz_tensors fuzz_tensors_new(const fuzz_case *c) {
    fuzz_tensors made = {.count = 0}, *m = &made;
    random_state = (uint64_t)c->seed;
    const attn_problem *p = &c->problem;
    const int64_t rows = p->batch * p->heads * p->queries, key_rows = p->batch * p->kv_heads * p->keys;
    void *q = keep(m, stored(rows * p->head_dim, p->dtype));
    void *k = keep(m, stored(key_rows * p->head_dim, p->dtype));
    void *v = keep(m, stored(key_rows * p->value_dim, p->dtype));
    attn_tensors *t = &m->tensors;
    attn_tensors_init(t, p, q, k, v, keep(m, floats(rows * p->value_dim)));
    t->lse = keep(m, floats(rows));
    if (p->inputs & ATTN_HAS_KV_LENS)
        t->kv_lens = keep(m, integers(p->batch, 0, p->keys));
    if (p->inputs & ATTN_HAS_Q_OFFSETS) {
        int64_t *offsets = keep(m, integers(p->batch, -p->queries, p->keys));
        for (int64_t b = 0; b < p->batch; b++) {
            const int64_t most = (int64_t)1 << 60; /* what an execution takes */
            if (__builtin_add_overflow(offsets[b], c->offset, &offsets[b]))
                offsets[b] = c->offset;
            offsets[b] = attn_max(-most, attn_min(offsets[b], most));
        }
        t->q_offsets = offsets;
    }
    if (p->inputs & ATTN_HAS_SEGMENTS)
        t->segments = keep(m, integers(p->batch * p->keys, 0, 2));
    if (p->inputs & ATTN_HAS_MASK)
        t->mask = keep(m, bytes(broadcast_strides(p, c->seed, t->mask_strides)));
    if (p->inputs & ATTN_HAS_BIAS) {
        const int64_t count = broadcast_strides(p, c->seed >> 4, t->bias_strides);
        float *bias = keep(m, floats(count));
        for (int64_t i = 0; i < count; i++)
            if (bias[i] > 0.5f)
                bias[i] = -INFINITY;
        t->bias = bias;
    }
    if (p->inputs & ATTN_HAS_ALIBI)
        t->alibi_slopes = keep(m, floats(p->heads));
    if (p->inputs & ATTN_HAS_SINK_LOGIT)
        t->sink_logits = keep(m, floats(p->heads));
    return made;
}

void fuzz_tensors_free(fuzz_tensors *m) {
    while (m->count > 0)
        free(m->owned[--m->count]);
}

uint8_t *fuzz_block_map(const fuzz_case *c) {
    const attn_pattern *pattern = &c->problem.pattern;
    random_state = (uint64_t)c->map;
    return bytes(pattern->block_heads * attn_ceil_div(c->problem.queries, pattern->block_size) *
                 attn_ceil_div(c->problem.keys, pattern->block_size));
}
