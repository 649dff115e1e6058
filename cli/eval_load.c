/* Reading and checking what `eval` works on. */
#include "eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const eval_extra_names[EVAL_EXTRA_COUNT] = {
    [EVAL_BIAS] = "bias",           [EVAL_MASK] = "mask",         [EVAL_KV_LENS] = "kv-lens",
    [EVAL_Q_OFFSETS] = "q-offsets", [EVAL_SEGMENTS] = "segments", [EVAL_SINK_LOGIT] = "sink-logit",
};

/* One of Q, K and V: its shape as the file has it, and as (batch, heads, rows, dimension). */
typedef struct operand {
    const char *name; /* the option */
    int rank;
    int64_t shape[4];
    int64_t batch, heads, rows, dim;
} operand;

static const char *shape_of(const operand *o, char *text) {
    return npy_shape_text(o->rank, o->shape, text, NPY_SHAPE_TEXT);
}

/* Float32 elements in the storage type, rounded to nearest even; frees `floats`. */
static void *store(float *floats, int64_t count, attn_dtype dtype, const char *name) {
    if (dtype == ATTN_F32)
        return floats;
    uint16_t *stored = cli_alloc(name, count, sizeof *stored);
    for (int64_t i = 0; stored && i < count; i++)
        stored[i] = dtype == ATTN_F16 ? attn_f32_to_f16(floats[i]) : attn_f32_to_bf16(floats[i]);
    free(floats);
    return stored;
}

static bool load_operand(const char *path, const eval_options *options, operand *o, void **data) {
    npy_array array;
    if (!npy_read(path, &array))
        return false;
    o->rank = array.header.rank;
    if (o->rank < 2 || o->rank > 4) {
        char text[NPY_SHAPE_TEXT];
        cli_error("--%s %s: shape %s; expected (B, H, N, D), (H, N, D) or (N, D)%s", o->name, path,
                  npy_shape_text(o->rank, array.header.shape, text, sizeof text),
                  options->bnhd ? ", with H after N in layout bnhd" : "");
        npy_free(&array);
        return false;
    }
    memcpy(o->shape, array.header.shape, sizeof o->shape);
    const int64_t *last = o->shape + o->rank - 1;
    o->dim = last[0];
    o->rows = o->rank > 2 && options->bnhd ? last[-2] : last[-1];
    o->heads = o->rank > 2 ? (options->bnhd ? last[-1] : last[-2]) : 1;
    o->batch = o->rank > 3 ? last[-3] : 1;

    int64_t count = array.header.count;
    float *floats = npy_take_floats(&array, o->name);
    *data = floats ? store(floats, count, options->dtype, o->name) : NULL;
    return *data != NULL;
}

static attn_tensor tensor_of(const operand *o, const void *data, bool bnhd) {
    int64_t batch = o->heads * o->rows * o->dim;
    return bnhd ? (attn_tensor){data, batch, o->dim, o->heads * o->dim}
                : (attn_tensor){data, batch, o->rows * o->dim, o->dim};
}

static bool mismatch(const operand *a, const operand *b, const char *rule) {
    char a_text[NPY_SHAPE_TEXT], b_text[NPY_SHAPE_TEXT];
    cli_error("--%s has shape %s, --%s has shape %s: %s", a->name, shape_of(a, a_text), b->name,
              shape_of(b, b_text), rule);
    return false;
}

static bool check_operands(const operand *q, const operand *k, const operand *v) {
    if (q->rank != k->rank)
        return mismatch(q, k, "expected the same number of dimensions");
    if (k->rank != v->rank)
        return mismatch(k, v, "expected the same number of dimensions");
    if (q->batch != k->batch)
        return mismatch(q, k, "expected the same batch B");
    if (k->batch != v->batch)
        return mismatch(k, v, "expected the same batch B");
    if (k->heads != v->heads)
        return mismatch(k, v, "expected the same number of heads");
    if (k->heads == 0 || q->heads == 0 || q->heads % k->heads != 0)
        return mismatch(q, k,
                        "expected at least 1 head, and query heads H that are a multiple of the key heads");
    if (k->rows != v->rows)
        return mismatch(k, v, "expected the same length N");
    if (q->dim != k->dim || q->dim == 0)
        return mismatch(q, k, "expected the same last dimension D, at least 1");
    return true;
}

static bool load_operands(const eval_options *options, eval_data *data) {
    operand q = {.name = "q"}, k = {.name = "k"}, v = {.name = "v"};
    if (!load_operand(options->q, options, &q, &data->q) ||
        !load_operand(options->k, options, &k, &data->k) ||
        !load_operand(options->v, options, &v, &data->v) || !check_operands(&q, &k, &v))
        return false;
    data->rank = q.rank;
    memcpy(data->shape, q.shape, sizeof data->shape);

    attn_problem *problem = &data->problem;
    attn_problem_init(problem, q.batch, q.heads, k.heads, q.rows, k.rows, q.dim, v.dim);
    problem->dtype = options->dtype;
    problem->scale = options->scale;
    problem->softcap = options->softcap;

    /* Also with the zeros left out, since strides are computed from the other sizes. */
    int64_t rows = q.batch * q.heads * q.rows, most = q.batch > 0 ? q.batch : 1;
    if (__builtin_mul_overflow(most, q.heads * (q.rows > 0 ? q.rows : 1), &most) ||
        __builtin_mul_overflow(most, v.dim > 0 ? v.dim : 1, &most)) {
        mismatch(&q, &v, "the output would have more than 2^63 elements");
        return false;
    }
    int64_t outputs = rows * v.dim;
    attn_tensors *tensors = &data->tensors;
    tensors->q = tensor_of(&q, data->q, options->bnhd);
    tensors->k = tensor_of(&k, data->k, options->bnhd);
    tensors->v = tensor_of(&v, data->v, options->bnhd);
    operand out = q;
    out.dim = v.dim;
    attn_tensor strides = tensor_of(&out, NULL, options->bnhd);
    tensors->out_batch_stride = strides.batch_stride;
    tensors->out_head_stride = strides.head_stride;
    tensors->out_row_stride = strides.row_stride;
    tensors->counts = &data->counts;
    tensors->out = cli_alloc("the output", outputs, sizeof(float));
    if (!tensors->out)
        return false;
    if (options->lse)
        tensors->lse = cli_alloc("the log-sum-exp", rows, sizeof(float));
    return !options->lse || tensors->lse;
}

/* Right-aligns a shape to (B, H, Nq, Nk) and gives its strides, 0 where it is broadcast. */
static bool broadcast(const npy_header *header, int64_t shape[4], int64_t strides[4],
                      const int64_t target[4]) {
    if (header->rank > 4)
        return false;
    int64_t stride = 1;
    for (int i = 3; i >= 0; i--) {
        int from = i - (4 - header->rank);
        shape[i] = from >= 0 ? header->shape[from] : 1;
        if (shape[i] != 1 && shape[i] != target[i])
            return false;
        strides[i] = shape[i] == 1 ? 0 : stride;
        stride *= shape[i];
    }
    return true;
}

static bool load_broadcast(int which, npy_array *array, eval_data *data) {
    const attn_problem *p = &data->problem;
    const char *name = eval_extra_names[which];
    const int64_t target[4] = {p->batch, p->heads, p->queries, p->keys};
    int64_t *strides = which == EVAL_MASK ? data->tensors.mask_strides : data->tensors.bias_strides;
    if (!broadcast(&array->header, data->extra_shape[which], strides, target)) {
        char text[NPY_SHAPE_TEXT], target_text[NPY_SHAPE_TEXT];
        cli_error("--%s has shape %s, which does not broadcast to (B, H, Nq, Nk) = %s", name,
                  npy_shape_text(array->header.rank, array->header.shape, text, sizeof text),
                  npy_shape_text(4, target, target_text, sizeof target_text));
        npy_free(array);
        return false;
    }
    if (which == EVAL_MASK)
        data->tensors.mask = data->extra[which] = npy_take_booleans(array, name);
    else
        data->tensors.bias = data->extra[which] = npy_take_floats(array, name);
    return data->extra[which] != NULL;
}

/* A list of `size` elements, one per `per` (batch, query head), or a scalar for all of them. */
static bool check_list(const npy_header *header, const char *name, int64_t size, const char *per) {
    if (header->rank == 0 || (header->rank == 1 && header->shape[0] == size))
        return true;
    char text[NPY_SHAPE_TEXT];
    cli_error("--%s has shape %s; expected (%lld,), one per %s, or a scalar", name,
              npy_shape_text(header->rank, header->shape, text, sizeof text), (long long)size, per);
    return false;
}

/* `times` copies of `count` elements of `size` bytes, one after another; frees `data`. */
static void *repeat(void *data, int64_t times, int64_t count, size_t size, const char *name) {
    if (!data || times == 1)
        return data;
    char *all = cli_alloc(name, times * count, size);
    size_t bytes = (size_t)count * size;
    for (int64_t i = 0; all && i < times; i++)
        memcpy(all + (size_t)i * bytes, data, bytes);
    free(data);
    return all;
}

static int64_t *load_integers(npy_array *array, const char *name, int64_t times) {
    int64_t copies = array->header.rank == 0 ? times : 1;
    return repeat(npy_take_integers(array, name), copies, 1, sizeof(int64_t), name);
}

static float *load_floats(npy_array *array, const char *name, int64_t times) {
    int64_t copies = array->header.rank == 0 ? times : 1;
    return repeat(npy_take_floats(array, name), copies, 1, sizeof(float), name);
}

/* Segments (B, Nk), or (Nk,) for every batch. */
static int64_t *load_segments(npy_array *array, const attn_problem *p) {
    const npy_header header = array->header;
    bool whole = header.rank == 2 && header.shape[0] == p->batch && header.shape[1] == p->keys;
    bool shared = header.rank == 1 && header.shape[0] == p->keys;
    if (!whole && !shared) {
        char text[NPY_SHAPE_TEXT];
        cli_error(
            "--segments has shape %s; expected (%lld, %lld) or (%lld,): one id per position of the keys",
            npy_shape_text(header.rank, header.shape, text, sizeof text), (long long)p->batch,
            (long long)p->keys, (long long)p->keys);
        npy_free(array);
        return NULL;
    }
    return repeat(npy_take_integers(array, "segments"), whole ? 1 : p->batch, p->keys, sizeof(int64_t),
                  "segments");
}

static bool load_extra(int which, const char *path, eval_data *data) {
    const attn_problem *p = &data->problem;
    const char *name = eval_extra_names[which];
    npy_array array;
    if (!npy_read(path, &array))
        return false;
    bool listed = which == EVAL_KV_LENS || which == EVAL_Q_OFFSETS || which == EVAL_SINK_LOGIT;
    bool by_head = which == EVAL_SINK_LOGIT;
    if (listed &&
        !check_list(&array.header, name, by_head ? p->heads : p->batch, by_head ? "query head" : "batch")) {
        npy_free(&array);
        return false;
    }
    attn_tensors *tensors = &data->tensors;
    switch (which) {
    case EVAL_KV_LENS:
        tensors->kv_lens = data->extra[which] = load_integers(&array, name, p->batch);
        for (int64_t b = 0; tensors->kv_lens && b < p->batch; b++) {
            if (tensors->kv_lens[b] < 0 || tensors->kv_lens[b] > p->keys) {
                cli_error("--kv-lens %s: length %lld of batch %lld; expected 0 to Nk = %lld", path,
                          (long long)tensors->kv_lens[b], (long long)b, (long long)p->keys);
                return false;
            }
        }
        break;
    case EVAL_Q_OFFSETS:
        tensors->q_offsets = data->extra[which] = load_integers(&array, name, p->batch);
        break;
    case EVAL_SEGMENTS:
        tensors->segments = data->extra[which] = load_segments(&array, p);
        break;
    case EVAL_SINK_LOGIT:
        tensors->sink_logits = data->extra[which] = load_floats(&array, name, p->heads);
        break;
    default:
        return load_broadcast(which, &array, data);
    }
    return data->extra[which] != NULL;
}

void eval_alibi_slopes(int64_t heads, float *slopes) {
    /* Press, Smith, Lewis: a power of two n of heads has 2^(-8/n), 2^(-16/n), ..., 2^-8; other
     * numbers take those of the power below, then every other one of the power above. */
    int64_t power = 1;
    while (power * 2 <= heads)
        power *= 2;
    for (int64_t h = 0; h < heads; h++) {
        double exponent =
            h < power ? (double)(h + 1) / (double)power : (double)(2 * (h - power) + 1) / (double)(2 * power);
        slopes[h] = (float)exp2(-8.0 * exponent);
    }
}

bool eval_load(const eval_options *options, eval_data *data) {
    static const uint32_t bits[EVAL_EXTRA_COUNT] = {
        [EVAL_BIAS] = ATTN_HAS_BIAS,         [EVAL_MASK] = ATTN_HAS_MASK,
        [EVAL_KV_LENS] = ATTN_HAS_KV_LENS,   [EVAL_Q_OFFSETS] = ATTN_HAS_Q_OFFSETS,
        [EVAL_SEGMENTS] = ATTN_HAS_SEGMENTS, [EVAL_SINK_LOGIT] = ATTN_HAS_SINK_LOGIT,
    };
    if (!load_operands(options, data))
        return false;
    attn_problem *problem = &data->problem;
    if (!cli_pattern_parse(options->pattern, problem->heads, problem->queries, problem->keys, &data->pattern))
        return false;
    problem->pattern = data->pattern.pattern;
    if (options->weights && !eval_weights_fit(problem))
        return false;
    if (options->mask_out && (problem->pattern.terms & ATTN_TOPK)) {
        cli_error("--mask-out: not for topk, which depends on the scores");
        return false;
    }
    for (int which = 0; which < EVAL_EXTRA_COUNT; which++) {
        if (!options->extra[which])
            continue;
        if (!load_extra(which, options->extra[which], data))
            return false;
        problem->inputs |= bits[which];
    }
    if (options->alibi) {
        data->slopes = cli_alloc("the slopes", problem->heads, sizeof *data->slopes);
        if (!data->slopes)
            return false;
        eval_alibi_slopes(problem->heads, data->slopes);
        data->tensors.alibi_slopes = data->slopes;
        problem->inputs |= ATTN_HAS_ALIBI;
    }
    return true;
}

void eval_free(eval_data *data) {
    free(data->q);
    free(data->k);
    free(data->v);
    free(data->tensors.out);
    free(data->tensors.lse);
    for (int which = 0; which < EVAL_EXTRA_COUNT; which++)
        free(data->extra[which]);
    free(data->slopes);
    free(data->weights);
    cli_pattern_free(&data->pattern);
    memset(data, 0, sizeof *data);
}
