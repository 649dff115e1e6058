/* Checks a problem and the tensors that come with it, and says precisely what is wrong. */
#include "attention/environment.h"
#include "attention/internal.h"

#include <math.h>
#include <string.h>

const char *attn_version(void) {
    return ATTN_VERSION;
}

const char *attn_dtype_name(attn_dtype dtype) {
    switch (dtype) {
    case ATTN_F32:
        return "f32";
    case ATTN_F16:
        return "f16";
    case ATTN_BF16:
        return "bf16";
    }
    return NULL;
}

size_t attn_dtype_bytes(attn_dtype dtype) {
    switch (dtype) {
    case ATTN_F32:
        return 4;
    case ATTN_F16:
    case ATTN_BF16:
        return 2;
    }
    return 0;
}

const char *attn_algorithm_name(attn_algorithm algorithm) {
    switch (algorithm) {
    case ATTN_AUTO:
        return "auto";
    case ATTN_NAIVE:
        return "naive";
    case ATTN_FLASH:
        return "flash";
    }
    return NULL;
}

void attn_alibi_slopes(int64_t heads, float *slopes) {
    int64_t power = 1;
    while (power <= heads / 2)
        power *= 2;
    const uint64_t caller = attn_environment_enter();
    for (int64_t h = 0; h < heads && slopes; h++) {
        const double exponent = h < power ? 8 * (double)(h + 1) : 4 * (double)(2 * (h - power) + 1);
        const volatile float slope = (float)exp2(-exponent / (double)power); /* rounded before the end */
        slopes[h] = slope;
    }
    attn_environment_leave(caller);
}

void attn_problem_init(attn_problem *problem, int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries,
                       int64_t keys, int64_t head_dim, int64_t value_dim) {
    if (!problem)
        return;
    memset(problem, 0, sizeof *problem);
    problem->batch = batch;
    problem->heads = heads;
    problem->kv_heads = kv_heads;
    problem->queries = queries;
    problem->keys = keys;
    problem->head_dim = head_dim;
    problem->value_dim = value_dim;
    problem->scale = NAN;
}

float attn_problem_scale(const attn_problem *problem) {
    if (!isnan(problem->scale))
        return problem->scale;
    const uint64_t caller = attn_environment_enter();
    const volatile float scale = (float)(1.0 / sqrt((double)problem->head_dim)); /* rounded before the end */
    attn_environment_leave(caller);
    return scale;
}

void attn_tensors_init(attn_tensors *tensors, const attn_problem *p, const void *q, const void *k,
                       const void *v, float *out) {
    if (!tensors)
        return;
    memset(tensors, 0, sizeof *tensors);
    if (!p)
        return;
    tensors->q = (attn_tensor){q, p->heads * p->queries * p->head_dim, p->queries * p->head_dim, p->head_dim};
    tensors->k = (attn_tensor){k, p->kv_heads * p->keys * p->head_dim, p->keys * p->head_dim, p->head_dim};
    tensors->v = (attn_tensor){v, p->kv_heads * p->keys * p->value_dim, p->keys * p->value_dim, p->value_dim};
    tensors->out = out;
    tensors->out_batch_stride = p->heads * p->queries * p->value_dim;
    tensors->out_head_stride = p->queries * p->value_dim;
    tensors->out_row_stride = p->value_dim;
}

static attn_status check_pattern(const attn_problem *problem, attn_error *error) {
    const attn_pattern *pattern = &problem->pattern;
    const uint32_t known = 2 * (uint32_t)ATTN_TOPK - 1;
    const struct {
        uint32_t term;
        const char *name;
        int64_t value, least;
    } params[] = {
        {ATTN_PREFIX, "prefix", pattern->prefix, 1},
        {ATTN_CHUNK, "chunk", pattern->chunk, 1},
        {ATTN_WINDOW, "window's left side", pattern->window_left, 0},
        {ATTN_WINDOW, "window's right side", pattern->window_right, 0},
        {ATTN_SINK, "sink", pattern->sink, 1},
        {ATTN_GLOBAL, "global", pattern->global, 1},
        {ATTN_STRIDE, "stride", pattern->stride, 1},
        {ATTN_RANDOM, "random's number of blocks", pattern->random_count, 1},
        {ATTN_RANDOM, "random's block size", pattern->random_block, 1},
        {ATTN_BLOCKS, "blocks' block size", pattern->block_size, 1},
        {ATTN_TOPK, "topk", pattern->topk, 1},
    };
    if (pattern->terms & ~known)
        return attn_fail(error, ATTN_INVALID, "pattern has unknown terms 0x%x", pattern->terms & ~known);
    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        const bool unlimited = params[i].term == ATTN_WINDOW && params[i].value == ATTN_WINDOW_INF;
        if ((pattern->terms & params[i].term) && !unlimited &&
            (params[i].value < params[i].least || params[i].value > ATTN_MAX_NUMBER))
            return attn_fail(error, ATTN_INVALID, "pattern: %s is %lld, must be %lld to 2^60%s",
                             params[i].name, (long long)params[i].value, (long long)params[i].least,
                             params[i].term == ATTN_WINDOW ? ", or ATTN_WINDOW_INF" : "");
    }
    if (pattern->terms & ATTN_BLOCKS) {
        if (!pattern->block_map)
            return attn_fail(error, ATTN_INVALID, "pattern: blocks has no block map");
        if (pattern->block_heads != 1 && pattern->block_heads != problem->heads)
            return attn_fail(error, ATTN_INVALID,
                             "pattern: blocks has %lld maps, must be 1 or the %lld query heads",
                             (long long)pattern->block_heads, (long long)problem->heads);
    }
    return attn_pattern_check_terms(pattern, error);
}

attn_status attn_problem_check(const attn_problem *p, attn_error *error) {
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = {
        {"batch", p->batch, 0},         {"heads", p->heads, 1}, {"kv_heads", p->kv_heads, 1},
        {"queries", p->queries, 0},     {"keys", p->keys, 0},   {"head_dim", p->head_dim, 1},
        {"value_dim", p->value_dim, 0},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < sizes[i].least || sizes[i].value > ATTN_MAX_SIZE)
            return attn_fail(error, ATTN_INVALID, "%s is %lld, must be %lld to 2^40", sizes[i].name,
                             (long long)sizes[i].value, (long long)sizes[i].least);
    if (p->heads % p->kv_heads)
        return attn_fail(error, ATTN_INVALID, "heads is %lld, must be a multiple of kv_heads, which is %lld",
                         (long long)p->heads, (long long)p->kv_heads);
    /* Weeks of work. What is counted in bytes then fits in 63 bits too: the scores of `naive`, packed keys
     * and values, strides; also of a batch that is empty. */
    const int64_t most_flops = (int64_t)1 << 58;
    int64_t flops;
    if (__builtin_mul_overflow(attn_max(p->batch, 1), p->heads, &flops) ||
        __builtin_mul_overflow(flops, attn_max(p->queries, 1), &flops) ||
        __builtin_mul_overflow(flops, attn_max(p->keys, 1), &flops) ||
        __builtin_mul_overflow(flops, 2 * (p->head_dim + p->value_dim), &flops) || flops > most_flops)
        return attn_fail(error, ATTN_INVALID,
                         "batch * heads * queries * keys * 2 (head_dim + value_dim) is beyond 2^58");
    if (!attn_dtype_name(p->dtype))
        return attn_fail(error, ATTN_INVALID, "dtype is %d, must be f32, f16 or bf16", (int)p->dtype);
    if (isinf(p->scale))
        return attn_fail(error, ATTN_INVALID, "scale is %g, must be finite", (double)p->scale);
    if (!(p->softcap >= 0) || isinf(p->softcap))
        return attn_fail(error, ATTN_INVALID, "softcap is %g, must be finite and above 0, or 0 for none",
                         (double)p->softcap);
    if (p->inputs & ~(2u * ATTN_HAS_SINK_LOGIT - 1))
        return attn_fail(error, ATTN_INVALID, "inputs has unknown bits 0x%x", p->inputs);
    return check_pattern(p, error);
}

attn_status attn_check_aligned(const char *name, const void *data, size_t bytes, attn_error *error) {
    if ((uintptr_t)data % bytes)
        return attn_fail(error, ATTN_INVALID, "%s is at %p, must be aligned to its elements of %d bytes",
                         name, data, (int)bytes);
    return ATTN_OK;
}

/* No two rows of the output share an element: in the order of their strides, each dimension steps over all
 * that lies within. Rows may run backwards, and be as far apart as they like. */
static attn_status check_out_strides(const attn_problem *p, const attn_tensors *t, attn_error *error) {
    struct {
        const char *name;
        int64_t stride, extent;
        uint64_t step;
    } dims[] =
        {
            {"out_row_stride", t->out_row_stride, p->queries, 0},
            {"out_head_stride", t->out_head_stride, p->heads, 0},
            {"out_batch_stride", t->out_batch_stride, p->batch, 0},
        },
      swap;
    const int count = sizeof dims / sizeof *dims;
    for (int i = 0; i < count; i++) { /* sorted by step; a stride of one place counts for nothing */
        dims[i].step = dims[i].extent <= 1  ? 0
                       : dims[i].stride < 0 ? -(uint64_t)dims[i].stride
                                            : (uint64_t)dims[i].stride;
        for (int k = i; k > 0 && dims[k - 1].step > dims[k].step; k--) {
            swap = dims[k];
            dims[k] = dims[k - 1];
            dims[k - 1] = swap;
        }
    }
    uint64_t within = (uint64_t)p->value_dim;
    for (int i = 0; i < count; i++) {
        if (dims[i].extent <= 1)
            continue;
        if (dims[i].step < within)
            return attn_fail(
                error, ATTN_INVALID,
                "%s is %lld: rows of out would overlap, must be at least the %lld elements that lie "
                "within",
                dims[i].name, (long long)dims[i].stride, (long long)within);
        uint64_t reach;
        if (__builtin_mul_overflow(dims[i].step, (uint64_t)dims[i].extent - 1, &reach) ||
            __builtin_add_overflow(within, reach, &within) || within > INT64_MAX)
            return attn_fail(error, ATTN_INVALID, "%s is %lld: out would reach past 2^63 elements",
                             dims[i].name, (long long)dims[i].stride);
    }
    return ATTN_OK;
}

attn_status attn_tensors_check(const attn_problem *p, const attn_tensors *t, attn_error *error) {
    if (!t)
        return attn_fail(error, ATTN_INVALID, "tensors is NULL");
    const bool any_rows = p->batch > 0 && p->queries > 0;
    const struct {
        const char *name;
        const void *data;
        size_t bytes;
        bool needed;
    } needed[] = {
        {"tensor q", t->q.data, attn_dtype_bytes(p->dtype), any_rows},
        {"tensor k", t->k.data, attn_dtype_bytes(p->dtype), any_rows && p->keys > 0},
        {"tensor v", t->v.data, attn_dtype_bytes(p->dtype), any_rows && p->keys > 0 && p->value_dim > 0},
        {"tensor out", t->out, sizeof *t->out, any_rows && p->value_dim > 0},
    };
    attn_status status;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (needed[i].needed && !needed[i].data)
            return attn_fail(error, ATTN_INVALID, "%s is NULL", needed[i].name);
        if (needed[i].needed &&
            (status = attn_check_aligned(needed[i].name, needed[i].data, needed[i].bytes, error)) != ATTN_OK)
            return status;
    }
    if (any_rows && p->value_dim > 0 && (status = check_out_strides(p, t, error)) != ATTN_OK)
        return status;
    if ((status = attn_check_aligned("lse", t->lse, _Alignof(float), error)) != ATTN_OK ||
        (status = attn_check_aligned("counts", t->counts, _Alignof(attn_counts), error)) != ATTN_OK)
        return status;
    const struct {
        const char *name;
        const void *data;
        size_t bytes;
        uint32_t input;
        bool empty;
    } optional[] = {
        {"kv_lens", t->kv_lens, _Alignof(int64_t), ATTN_HAS_KV_LENS, p->batch == 0},
        {"q_offsets", t->q_offsets, _Alignof(int64_t), ATTN_HAS_Q_OFFSETS, p->batch == 0},
        {"segments", t->segments, _Alignof(int64_t), ATTN_HAS_SEGMENTS, p->batch == 0 || p->keys == 0},
        {"mask", t->mask, 1, ATTN_HAS_MASK, !any_rows || p->keys == 0},
        {"bias", t->bias, _Alignof(float), ATTN_HAS_BIAS, !any_rows || p->keys == 0},
        {"alibi_slopes", t->alibi_slopes, _Alignof(float), ATTN_HAS_ALIBI, false},
        {"sink_logits", t->sink_logits, _Alignof(float), ATTN_HAS_SINK_LOGIT, false},
    };
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        const bool planned = p->inputs & optional[i].input;
        if (planned && !optional[i].data && !optional[i].empty)
            return attn_fail(error, ATTN_INVALID, "%s is NULL, but the plan was made with it",
                             optional[i].name);
        if (!planned && optional[i].data)
            return attn_fail(error, ATTN_INVALID, "%s is given, but the plan was made without it",
                             optional[i].name);
        if (planned && !optional[i].empty &&
            (status = attn_check_aligned(optional[i].name, optional[i].data, optional[i].bytes, error)) !=
                ATTN_OK)
            return status;
    }
    const int64_t most = ATTN_MAX_NUMBER;
    for (int64_t b = 0; b < p->batch; b++) {
        if (t->kv_lens && (t->kv_lens[b] < 0 || t->kv_lens[b] > p->keys))
            return attn_fail(error, ATTN_INVALID, "kv_lens[%lld] is %lld, must be 0 to keys, which is %lld",
                             (long long)b, (long long)t->kv_lens[b], (long long)p->keys);
        if (t->q_offsets && (t->q_offsets[b] < -most || t->q_offsets[b] > most))
            return attn_fail(error, ATTN_INVALID, "q_offsets[%lld] is %lld, must be -2^60 to 2^60",
                             (long long)b, (long long)t->q_offsets[b]);
    }
    return ATTN_OK;
}
