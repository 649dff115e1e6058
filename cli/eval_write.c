/* What `eval` writes: files, and the lines of --explain. */
#include "cli/eval.h"
#include "reference/reference.h"

#include <stdlib.h>
#include <string.h>

bool eval_spares(const eval_outputs *outputs, const char *input) {
    for (int i = 0; i < EVAL_OUTPUT_COUNT; i++) {
        if (!cli_output_spares(&outputs->files[i], input))
            return false;
    }
    return true;
}

bool eval_prepare(const eval_options *options, eval_outputs *outputs) {
    const struct {
        const char *option, *path;
    } wanted[EVAL_OUTPUT_COUNT] = {
        [EVAL_OUT] = {"out", options->out},
        [EVAL_LSE] = {"lse", options->lse},
        [EVAL_MASK_OUT] = {"mask-out", options->mask_out},
        [EVAL_WEIGHTS] = {"weights", options->weights},
    };
    cli_output *files = outputs->files;
    for (int i = 0; i < EVAL_OUTPUT_COUNT; i++) {
        if (!cli_output_prepare(&files[i], wanted[i].option, wanted[i].path))
            return false;
    }

    for (int i = 0; i < EVAL_OUTPUT_COUNT; i++) {
        for (int other = 0; other < i; other++) {
            if (!cli_output_differs(&files[i], &files[other]))
                return false;
        }
    }
    const char *inputs[4 + INPUT_COUNT] = {options->q, options->k, options->v, options->tuning};
    memcpy(inputs + 4, options->inputs, sizeof options->inputs);
    for (size_t input = 0; input < sizeof inputs / sizeof inputs[0]; input++) {
        if (!eval_spares(outputs, inputs[input]))
            return false;
    }
    return true;
}

static bool write_out(const eval_data *data, cli_output *output) {
    int64_t shape[4];
    memcpy(shape, data->shape, sizeof shape);
    const attn_problem *p = &data->problem;
    shape[data->rank - 1] = p->value_dim;
    int64_t count = p->batch * p->heads * p->queries * p->value_dim;
    return cli_output_open(output) && npy_write_header(output, "<f4", data->rank, shape) &&
           cli_output_write(output, data->tensors.out, (size_t)count * sizeof(float)) &&
           cli_output_close(output);
}

/* The library's (B, H, Nq), written in the order of Q. */
static bool write_lse(const eval_data *data, bool bnhd, cli_output *output) {
    if (!cli_output_open(output) || !npy_write_header(output, "<f4", data->rank - 1, data->shape))
        return false;
    const attn_problem *p = &data->problem;
    for (int64_t b = 0; b < p->batch; b++) {
        const float *lse = data->tensors.lse ? data->tensors.lse + b * p->heads * p->queries : NULL;
        if (!bnhd || p->heads == 1) {
            if (!cli_output_write(output, lse, (size_t)(p->heads * p->queries) * sizeof *lse))
                return false;
            continue;
        }
        for (int64_t i = 0; i < p->queries; i++) {
            for (int64_t h = 0; h < p->heads; h++) {
                if (!cli_output_write(output, lse + h * p->queries + i, sizeof *lse))
                    return false;
            }
        }
    }
    return cli_output_close(output);
}

/* The mask is computed by the reference, so it is independent of the plan. */
static bool write_mask(const eval_data *data, cli_output *output) {
    const attn_problem *p = &data->problem;
    const uint32_t per_batch = ATTN_HAS_KV_LENS | ATTN_HAS_Q_OFFSETS | ATTN_HAS_SEGMENTS;
    const int64_t *mask_strides = data->tensors.mask_strides, *bias_strides = data->tensors.bias_strides;
    bool by_batch = (p->inputs & per_batch) || mask_strides[0] || bias_strides[0];
    bool by_head = cli_differs_by_head(p, &data->tensors);
    const int64_t shape[4] = {by_batch ? p->batch : 1, by_head ? p->heads : 1, p->queries, p->keys};
    if (!cli_output_open(output) || !npy_write_header(output, "|b1", 4, shape))
        return false;
    uint8_t *row = cli_alloc("a row of the mask", p->keys, 1);
    bool written = row != NULL;
    for (int64_t b = 0; b < shape[0] && written; b++) {
        for (int64_t h = 0; h < shape[1] && written; h++) {
            for (int64_t i = 0; i < p->queries && written; i++) {
                bool known = ref_attended_row(p, &data->tensors, b, h, i, row);
                if (!known)
                    cli_error("not enough memory for a row of the mask");
                written = known && cli_output_write(output, row, (size_t)p->keys);
            }
        }
    }
    free(row);
    return written && cli_output_close(output);
}

/* Always by head, query and key, as masks and biases are: a layout orders tensors that have a last dimension
 * of their own. */
static bool write_weights(const eval_data *data, cli_output *output) {
    const attn_problem *p = &data->problem;
    const int64_t shape[4] = {p->batch, p->heads, p->queries, p->keys};
    int64_t count = p->batch * p->heads * p->queries * p->keys;
    return cli_output_open(output) && npy_write_header(output, "<f4", data->rank, shape + 4 - data->rank) &&
           cli_output_write(output, data->weights, (size_t)count * sizeof(float)) && cli_output_close(output);
}

static bool explain(const eval_options *options, const eval_data *data, const attn_info *info) {
    const attn_problem *p = &data->problem;
    char *pattern = cli_pattern_format(&data->pattern);
    if (!pattern) {
        cli_error("not enough memory");
        return false;
    }
    const char *chosen_by = options->algorithm != ATTN_AUTO ? "--algorithm"
                            : data->tuned                   ? "--tuning"
                                                            : "default";
    printf("isa: %s\nalgorithm: %s\nalgorithm_by: %s\nthreads: %d\n", info->isa,
           attn_algorithm_name(info->algorithm), chosen_by, data->threads_used);
    printf("batch: %lld\nheads: %lld\nkv_heads: %lld\nqueries: %lld\nkeys: %lld\nhead_dim: %lld\nvalue_dim: "
           "%lld\n",
           (long long)p->batch, (long long)p->heads, (long long)p->kv_heads, (long long)p->queries,
           (long long)p->keys, (long long)p->head_dim, (long long)p->value_dim);
    printf("q_file: %s\nk_file: %s\nv_file: %s\n", data->types[0], data->types[1], data->types[2]);
    printf("dtype: %s\nlayout: %s\n", attn_dtype_name(p->dtype), options->bnhd ? "bnhd" : "bhnd");
    cli_print_value("pattern", pattern);
    free(pattern);
    printf("scale: %.9g\n", (double)info->scale);
    if (p->softcap > 0)
        printf("softcap: %.9g\n", (double)p->softcap);
    else
        puts("softcap: none");
    printf("alibi: %s\n", options->alibi ? "yes" : "none");
    for (int which = 0; which < INPUT_COUNT; which++) {
        char key[32];
        snprintf(key, sizeof key, "%s", cli_input_names[which]);
        for (char *c = key; *c; c++)
            *c = *c == '-' ? '_' : *c;
        cli_print_value(key, options->inputs[which] ? options->inputs[which] : "none");
    }
    printf("query_tile: %lld\nkey_tile: %lld\nkey_splits: %lld\n", (long long)info->query_tile,
           (long long)info->key_tile, (long long)info->key_splits);
    /* What was attended and visited: data (lengths, segments, masks) may have made it less than planned. */
    const attn_counts *ran = &data->counts;
    int64_t tiles = info->tiles_full + info->tiles_partial + info->tiles_absent;
    printf("tiles_full: %lld\ntiles_partial: %lld\ntiles_absent: %lld\n", (long long)ran->tiles_full,
           (long long)ran->tiles_partial, (long long)(tiles - ran->tiles_full - ran->tiles_partial));
    printf("pairs_useful: %lld\npairs_executed: %lld\npairs_dense: %lld\n", (long long)ran->pairs_useful,
           (long long)ran->pairs_executed, (long long)info->pairs_dense);
    printf("workspace_bytes: %lld\n", (long long)info->workspace_bytes);
    cli_pattern_note(&data->pattern, ran->pairs_useful, ran->pairs_executed, info->pairs_dense);
    return cli_flush();
}

bool eval_write(const eval_options *options, const eval_data *data, const attn_info *info,
                eval_outputs *outputs) {
    cli_output *files = outputs->files;
    bool written = write_out(data, &files[EVAL_OUT]) &&
                   (!options->lse || write_lse(data, options->bnhd, &files[EVAL_LSE])) &&
                   (!options->mask_out || write_mask(data, &files[EVAL_MASK_OUT])) &&
                   (!options->weights || write_weights(data, &files[EVAL_WEIGHTS])) &&
                   (!options->explain || explain(options, data, info));
    for (int i = 0; i < EVAL_OUTPUT_COUNT && written; i++)
        written = cli_output_commit(&files[i]);
    for (int i = 0; i < EVAL_OUTPUT_COUNT; i++) {
        if (files[i].path)
            cli_output_discard(&files[i]);
    }
    return written;
}
