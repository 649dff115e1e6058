/* Input data. Equal numbers everywhere would never move the running maximum of an online softmax and
 * would time half of it; so the usual data is random, and others provoke what data can provoke. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *note;
} kinds[BENCH_DATA_COUNT] = {
    [BENCH_NORMAL] = {"normal", "Q, K, V about normal: scores spread by about 1"},
    [BENCH_UNIFORM] = {"uniform", "Q, K, V uniform in -1..1"},
    [BENCH_PEAKED] = {"peaked", "as normal, but Q 16 times larger: few keys take all the weight"},
    [BENCH_RISING] = {"rising", "scores rise by 40 along the keys: every step moves the maximum"},
    [BENCH_INF_BLOCKS] = {"inf-blocks",
                          "as normal, with a bias that masks every other block of 64 keys, the first too"},
    [BENCH_TAILS] = {"tails", "one key far above the rest, whose exponentials would be subnormal"},
};

const char *bench_data_name(bench_data data) {
    return data >= 0 && data < BENCH_DATA_COUNT ? kinds[data].name : NULL;
}

const char *bench_data_note(bench_data data) {
    return data >= 0 && data < BENCH_DATA_COUNT ? kinds[data].note : NULL;
}

uint64_t bench_random(uint64_t *state) {
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Uniform in [-1, 1). */
static float draw_uniform(uint64_t *state) {
    return (float)((int64_t)bench_random(state) >> 40) * 0x1p-23f;
}

/* Near enough to normal (four uniform numbers added, variance 1, at most 3.46), at the price of one
 * random word: making the inputs must not take longer than measuring with them. */
static float draw_normal(uint64_t *state) {
    uint64_t x = bench_random(state);
    int32_t sum = (int16_t)x + (int16_t)(x >> 16) + (int16_t)(x >> 32) + (int16_t)(x >> 48);
    return (float)sum * (0.8660254f / 32768);
}

void *bench_alloc(int64_t bytes) {
    size_t size = ((size_t)bytes + 63) / 64 * 64 + 64;
    void *memory = aligned_alloc(64, size);
    /* First touch: page faults belong to nobody's time. */
    return memory ? memset(memory, 0, size) : NULL;
}

typedef enum role { QUERY, KEY, VALUE } role;

/* Scores of `rising` and `tails` come from one direction common to queries and keys: with Q = 1 in
 * every component and K = c, scale * q.k is sqrt(D) * c. */
static float element(role which, bench_data data, int64_t row, int64_t rows, int64_t head_dim,
                     uint64_t *state) {
    const float x = data == BENCH_UNIFORM ? draw_uniform(state) : draw_normal(state);
    if (which == VALUE || data == BENCH_NORMAL || data == BENCH_UNIFORM || data == BENCH_INF_BLOCKS)
        return x;
    if (data == BENCH_PEAKED)
        return which == QUERY ? 16 * x : x;
    if (which == QUERY)
        return 1 + 0.01f * x;
    const float root = sqrtf((float)head_dim);
    float score;
    if (data == BENCH_RISING)
        score = 40 * (float)row / (float)rows;
    else /* e^-88 to e^-103 are subnormal */
        score = row == 0 ? 0 : -88 - (float)(row % 16);
    return score / root + 0.01f * x / root;
}

static void *make_tensor(role which, bench_data data, attn_dtype dtype, int64_t matrices, int64_t rows,
                         int64_t width, int64_t head_dim, uint64_t seed) {
    const int64_t count = matrices * rows * width;
    void *memory = bench_alloc(count * (int64_t)attn_dtype_bytes(dtype));
    if (!memory)
        return NULL;
    uint64_t state = seed;
    for (int64_t r = 0, i = 0; r < matrices * rows; r++) {
        for (int64_t c = 0; c < width; c++, i++) {
            bench_store(memory, i, dtype, element(which, data, r % rows, rows, head_dim, &state));
        }
    }
    return memory;
}

uint32_t bench_data_inputs(bench_data data) {
    return data == BENCH_INF_BLOCKS ? ATTN_HAS_BIAS : 0;
}

bench_bounds bench_data_bounds(bench_data data, int64_t head_dim) {
    const double normal = 4 * 0.8660254, root = sqrt((double)head_dim);
    bench_bounds b = {normal, normal, normal};
    if (data == BENCH_UNIFORM)
        b = (bench_bounds){1, 1, 1};
    if (data == BENCH_PEAKED)
        b.q = 16 * normal;
    if (data == BENCH_RISING || data == BENCH_TAILS) {
        b.q = 1 + 0.01 * normal;
        b.k = ((data == BENCH_RISING ? 40 : 103) + 0.01 * normal) / root;
    }
    return b;
}

/* A bias for each key, the same for all queries: -inf for the blocks of even number, but for the last key of
 * all, without which short problems would attend nothing. */
static void fill_bias(float *bias, int64_t keys) {
    const int64_t block = keys >= 128 ? 64 : keys / 2 + 1;
    for (int64_t key = 0; key < keys; key++)
        bias[key] = key / block % 2 == 0 && key < keys - 1 ? -INFINITY : 0;
}

bool bench_inputs_make(bench_inputs *inputs, const attn_problem *p, bench_data data, uint64_t seed) {
    memset(inputs, 0, sizeof *inputs);
    uint64_t seeds = seed;
    inputs->q = make_tensor(QUERY, data, p->dtype, p->batch * p->heads, p->queries, p->head_dim, p->head_dim,
                            bench_random(&seeds));
    inputs->k = make_tensor(KEY, data, p->dtype, p->batch * p->kv_heads, p->keys, p->head_dim, p->head_dim,
                            bench_random(&seeds));
    inputs->v = make_tensor(VALUE, data, p->dtype, p->batch * p->kv_heads, p->keys, p->value_dim, p->head_dim,
                            bench_random(&seeds));
    inputs->out_count = p->batch * p->heads * p->queries * p->value_dim;
    inputs->out = bench_alloc(inputs->out_count * (int64_t)sizeof(float));
    inputs->alibi_slopes = bench_alloc(p->heads * (int64_t)sizeof(float));
    inputs->sink_logits = bench_alloc(p->heads * (int64_t)sizeof(float));
    inputs->bias = bench_alloc(p->keys * (int64_t)sizeof(float));
    if (!inputs->q || !inputs->k || !inputs->v || !inputs->out || !inputs->alibi_slopes ||
        !inputs->sink_logits || !inputs->bias) {
        bench_inputs_free(inputs);
        return false;
    }
    attn_tensors_init(&inputs->tensors, p, inputs->q, inputs->k, inputs->v, inputs->out);
    for (int64_t h = 0; h < p->heads; h++) {
        /* Slopes 2^(-8(h+1)/H): exact where H is a power of two, and any slopes cost the same. */
        inputs->alibi_slopes[h] = exp2f(-8.0f * (float)(h + 1) / (float)p->heads);
        inputs->sink_logits[h] = draw_normal(&seeds);
    }
    const int64_t element_bytes = (int64_t)attn_dtype_bytes(p->dtype);
    inputs->q_bytes = p->batch * p->heads * p->queries * p->head_dim * element_bytes;
    inputs->k_bytes = p->batch * p->kv_heads * p->keys * p->head_dim * element_bytes;
    inputs->v_bytes = p->batch * p->kv_heads * p->keys * p->value_dim * element_bytes;
    fill_bias(inputs->bias, p->keys);
    if (p->inputs & ATTN_HAS_BIAS) {
        inputs->tensors.bias = inputs->bias;
        memcpy(inputs->tensors.bias_strides, (const int64_t[]){0, 0, 0, 1},
               sizeof inputs->tensors.bias_strides);
    }
    if (p->inputs & ATTN_HAS_ALIBI)
        inputs->tensors.alibi_slopes = inputs->alibi_slopes;
    if (p->inputs & ATTN_HAS_SINK_LOGIT)
        inputs->tensors.sink_logits = inputs->sink_logits;
    return true;
}

void bench_inputs_free(bench_inputs *inputs) {
    free(inputs->q);
    free(inputs->k);
    free(inputs->v);
    free(inputs->out);
    free(inputs->alibi_slopes);
    free(inputs->sink_logits);
    free(inputs->bias);
    memset(inputs, 0, sizeof *inputs);
}
