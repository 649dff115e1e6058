/* `eval --weights`: the attention matrix, as the engine computed it.
 *
 * Attention over the identity as values gives the weights themselves, through the very kernels, tiles and
 * rescalings that gave the output: each weight is multiplied by 1, and added to products with 0. */
#include "cli/eval.h"
#include "cli/team.h"

#include <stdlib.h>

/* Columns of the identity at a time: bounds the packed values, Nk x this, while Q K^T, which every round
 * repeats, stays a small part of the work. */
#define COLUMNS 1024

bool eval_weights_fit(const attn_problem *p) {
    int64_t most =
        p->keys > EVAL_WEIGHTS_WORK / EVAL_WEIGHTS_MOST ? EVAL_WEIGHTS_WORK / p->keys : EVAL_WEIGHTS_MOST;
    int64_t count;
    bool fits = !__builtin_mul_overflow(p->batch, p->heads, &count) &&
                !__builtin_mul_overflow(count, p->queries, &count) &&
                !__builtin_mul_overflow(count, p->keys, &count) && count <= most;
    if (!fits)
        cli_error(
            "--weights: (B, H, Nq, Nk) = (%lld, %lld, %lld, %lld) has too many elements; for Nk = %lld at "
            "most %lld are written",
            (long long)p->batch, (long long)p->heads, (long long)p->queries, (long long)p->keys,
            (long long)p->keys, (long long)most);
    return fits;
}

/* Columns [first, first + plan's Dv) of the weights. `row` has keys + Dv - 1 zeros: row j of the identity's
 * columns begins keys - 1 - j elements in, so that one 1 in the right place serves all rows. */
static bool compute_columns(const attn_plan *plan, const eval_options *options, eval_data *data, void *row,
                            int64_t first) {
    const attn_problem *p = &data->problem;
    const size_t one_at = (size_t)(p->keys - 1 - first);
    if (p->dtype == ATTN_F32)
        ((float *)row)[one_at] = 1;
    else
        ((uint16_t *)row)[one_at] = p->dtype == ATTN_F16 ? attn_f32_to_f16(1) : attn_f32_to_bf16(1);

    attn_tensors tensors = data->tensors;
    tensors.v = (attn_tensor){.data = (char *)row + (size_t)(p->keys - 1) * attn_dtype_bytes(p->dtype),
                              .row_stride = -1};
    tensors.out = data->weights + first;
    tensors.out_row_stride = p->keys;
    tensors.out_head_stride = p->queries * p->keys;
    tensors.out_batch_stride = p->heads * p->queries * p->keys;
    tensors.lse = NULL;
    tensors.counts = NULL;
    attn_error error;
    int used;
    bool computed =
        attn_execute_on(cli_team, plan, &tensors, NULL, options->threads, &used, &error) == ATTN_OK;
    if (!computed)
        cli_error("%s", error.text);

    if (p->dtype == ATTN_F32)
        ((float *)row)[one_at] = 0;
    else
        ((uint16_t *)row)[one_at] = 0;
    return computed;
}

bool eval_weights(const eval_options *options, const attn_info *info, eval_data *data) {
    const attn_problem *p = &data->problem;
    data->weights = cli_alloc("the weights", p->batch * p->heads * p->queries * p->keys, sizeof(float));
    void *row = cli_alloc("the weights", p->keys + COLUMNS, sizeof(float));
    bool computed = data->weights && row;
    attn_plan *plan = NULL;
    int64_t planned = 0;
    for (int64_t first = 0; first < p->keys && computed; first += COLUMNS) {
        int64_t columns = p->keys - first < COLUMNS ? p->keys - first : COLUMNS;
        if (columns != planned) {
            attn_plan_destroy(plan);
            attn_problem identity = *p;
            identity.value_dim = planned = columns;
            attn_options how = {.isa = info->isa, .algorithm = info->algorithm};
            attn_error error;
            computed = attn_plan_create(&identity, &how, &plan, &error) == ATTN_OK;
            if (!computed)
                cli_error("%s", error.text);
        }
        computed = computed && compute_columns(plan, options, data, row, first);
    }
    attn_plan_destroy(plan);
    free(row);
    return computed;
}
