/* Reading and checking what `eval` works on. */
#include "cli/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One of Q, K and V: its shape as the file has it, and as (batch, heads, rows, dimension). */
typedef struct operand {
    const char *name; /* the option */
    int rank;
    int64_t shape[4];
    int64_t batch, heads, rows, dim;
    const char *type; /* of the file's elements */
} operand;

static const char *shape_of(const operand *o, char *text) {
    return npy_shape_text(o->rank, o->shape, text, NPY_SHAPE_TEXT);
}

/* A finite number that the type `beyond` cannot hold becomes Inf: in a query or a key its rows turn to NaN or
 * weigh nothing, and not without a word. No error, since it may lie where nothing attends, as in padding. */
static void warn_of_range(const char *name, int64_t element, double value, const char *beyond) {
    cli_error("warning: --%s: element %lld is %g, beyond %s, and taken as %sInf", name, (long long)element,
              value, beyond, value < 0 ? "-" : "");
}

/* Of float64, which npy_take_floats narrows; the first such element. */
static void check_float32(const npy_array *array, const char *name) {
    if (array->header.kind != 'f' || array->header.item_bytes != 8)
        return;
    const double *values = array->data;
    for (int64_t i = 0; i < array->header.count; i++)
        if (isfinite(values[i]) && isinf((float)values[i])) {
            warn_of_range(name, i, values[i], "float32");
            return;
        }
}

/* Float32 elements in the storage type, rounded to nearest even; frees `floats`. */
static void *store(float *floats, int64_t count, attn_dtype dtype, const char *name) {
    if (dtype == ATTN_F32)
        return floats;
    uint16_t *stored = cli_alloc(name, count, sizeof *stored);
    bool warned = false;
    for (int64_t i = 0; stored && i < count; i++) {
        stored[i] = dtype == ATTN_F16 ? attn_f32_to_f16(floats[i]) : attn_f32_to_bf16(floats[i]);
        const float kept = dtype == ATTN_F16 ? attn_f16_to_f32(stored[i]) : attn_bf16_to_f32(stored[i]);
        if (!warned && isinf(kept) && isfinite(floats[i])) {
            warn_of_range(name, i, (double)floats[i], attn_dtype_name(dtype));
            warned = true;
        }
    }
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

    check_float32(&array, o->name);
    o->type = npy_type_text(&array.header);
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
    data->types[0] = q.type;
    data->types[1] = k.type;
    data->types[2] = v.type;
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

bool eval_load(const eval_options *options, eval_data *data) {
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
    for (int which = 0; which < INPUT_COUNT; which++) {
        if (options->inputs[which] &&
            !cli_input_load(which, options->inputs[which], problem, &data->tensors, &data->inputs))
            return false;
    }
    if (options->alibi) {
        data->slopes = cli_alloc("the slopes", problem->heads, sizeof *data->slopes);
        if (!data->slopes)
            return false;
        attn_alibi_slopes(problem->heads, data->slopes);
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
    cli_inputs_free(&data->inputs);
    free(data->slopes);
    free(data->weights);
    cli_pattern_free(&data->pattern);
    memset(data, 0, sizeof *data);
}
