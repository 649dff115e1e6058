/* The tensors that may come beside Q, K and V, read from files and checked against the problem. */
#include "cli/inputs.h"
#include "common/cli.h"
#include "common/npy.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const cli_input_names[INPUT_COUNT] = {
    [INPUT_BIAS] = "bias",           [INPUT_MASK] = "mask",         [INPUT_KV_LENS] = "kv-lens",
    [INPUT_Q_OFFSETS] = "q-offsets", [INPUT_SEGMENTS] = "segments", [INPUT_SINK_LOGIT] = "sink-logit",
};

/* Right-aligns a shape to (B, H, Nq, Nk) and gives its strides, 0 where it is broadcast. */
static bool broadcast(const npy_header *header, int64_t strides[4], const int64_t target[4]) {
    if (header->rank > 4)
        return false;
    int64_t stride = 1;
    for (int i = 3; i >= 0; i--) {
        int from = i - (4 - header->rank);
        int64_t size = from >= 0 ? header->shape[from] : 1;
        if (size != 1 && size != target[i])
            return false;
        strides[i] = size == 1 ? 0 : stride;
        stride *= size;
    }
    return true;
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

/* Beyond float32 a finite float64 would become infinite: a bias that masks, a sink that takes everything.
 * Both stay numbers, the largest there are, but not without a word. */
static void keep_finite(npy_array *array, const char *name) {
    if (array->header.kind != 'f' || array->header.item_bytes != 8)
        return;
    double *values = array->data;
    bool warned = false;
    for (int64_t i = 0; i < array->header.count; i++) {
        if (!isfinite(values[i]) || fabs(values[i]) <= FLT_MAX)
            continue;
        if (!warned)
            cli_error("warning: --%s: element %lld is %g, beyond float32, and taken as %g", name,
                      (long long)i, values[i], copysign(FLT_MAX, values[i]));
        warned = true;
        values[i] = copysign(FLT_MAX, values[i]);
    }
}

static float *load_floats(npy_array *array, const char *name, int64_t times) {
    int64_t copies = array->header.rank == 0 ? times : 1;
    keep_finite(array, name);
    return repeat(npy_take_floats(array, name), copies, 1, sizeof(float), name);
}

static bool load_broadcast(int which, npy_array *array, const attn_problem *p, attn_tensors *tensors,
                           cli_inputs *inputs) {
    const char *name = cli_input_names[which];
    const int64_t target[4] = {p->batch, p->heads, p->queries, p->keys};
    if (!broadcast(&array->header, which == INPUT_MASK ? tensors->mask_strides : tensors->bias_strides,
                   target)) {
        char text[NPY_SHAPE_TEXT], target_text[NPY_SHAPE_TEXT];
        cli_error("--%s has shape %s, which does not broadcast to (B, H, Nq, Nk) = %s", name,
                  npy_shape_text(array->header.rank, array->header.shape, text, sizeof text),
                  npy_shape_text(4, target, target_text, sizeof target_text));
        npy_free(array);
        return false;
    }
    if (which == INPUT_MASK)
        tensors->mask = inputs->memory[which] = npy_take_booleans(array, name);
    else
        tensors->bias = inputs->memory[which] = load_floats(array, name, 1);
    return inputs->memory[which] != NULL;
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

bool cli_input_load(int which, const char *path, attn_problem *problem, attn_tensors *tensors,
                    cli_inputs *inputs) {
    static const uint32_t bits[INPUT_COUNT] = {
        [INPUT_BIAS] = ATTN_HAS_BIAS,         [INPUT_MASK] = ATTN_HAS_MASK,
        [INPUT_KV_LENS] = ATTN_HAS_KV_LENS,   [INPUT_Q_OFFSETS] = ATTN_HAS_Q_OFFSETS,
        [INPUT_SEGMENTS] = ATTN_HAS_SEGMENTS, [INPUT_SINK_LOGIT] = ATTN_HAS_SINK_LOGIT,
    };
    const char *name = cli_input_names[which];
    npy_array array;
    if (!npy_read(path, &array))
        return false;
    problem->inputs |= bits[which];
    if (which == INPUT_MASK || which == INPUT_BIAS)
        return load_broadcast(which, &array, problem, tensors, inputs);
    bool by_head = which == INPUT_SINK_LOGIT;
    if (which != INPUT_SEGMENTS && !check_list(&array.header, name, by_head ? problem->heads : problem->batch,
                                               by_head ? "query head" : "batch")) {
        npy_free(&array);
        return false;
    }
    switch (which) {
    case INPUT_KV_LENS:
        tensors->kv_lens = inputs->memory[which] = load_integers(&array, name, problem->batch);
        for (int64_t b = 0; tensors->kv_lens && b < problem->batch; b++) {
            if (tensors->kv_lens[b] < 0 || tensors->kv_lens[b] > problem->keys) {
                cli_error("--kv-lens %s: length %lld of batch %lld; expected 0 to Nk = %lld", path,
                          (long long)tensors->kv_lens[b], (long long)b, (long long)problem->keys);
                return false;
            }
        }
        break;
    case INPUT_Q_OFFSETS:
        tensors->q_offsets = inputs->memory[which] = load_integers(&array, name, problem->batch);
        break;
    case INPUT_SEGMENTS:
        tensors->segments = inputs->memory[which] = load_segments(&array, problem);
        break;
    default:
        tensors->sink_logits = inputs->memory[which] = load_floats(&array, name, problem->heads);
    }
    return inputs->memory[which] != NULL;
}

void cli_inputs_free(cli_inputs *inputs) {
    for (int which = 0; which < INPUT_COUNT; which++)
        free(inputs->memory[which]);
    memset(inputs, 0, sizeof *inputs);
}

bool cli_differs_by_head(const attn_problem *problem, const attn_tensors *tensors) {
    return tensors->mask_strides[1] || tensors->bias_strides[1] ||
           ((problem->pattern.terms & ATTN_BLOCKS) && problem->pattern.block_heads > 1);
}
