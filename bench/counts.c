/* What a row will do: pairs, FLOPs, bytes, from the plan that the library makes for it. */
#include "bench/bench.h"
#include "common/cli.h"
#include "dispatch/dispatch.h"

#include <math.h>
#include <stdio.h>

/* Those that rescale are few beside one a pair. A tanh, which every pair's score goes through where there is
 * a softcap, is made of one. */
static void count_pairs(bench_row *row) {
    const attn_info *info = &row->info;
    row->exps = (row->problem.softcap > 0 ? 2 : 1) * (double)info->pairs_executed;
    const double per_pair = 2.0 * (double)(row->problem.head_dim + row->problem.value_dim);
    row->flops_useful = per_pair * (double)info->pairs_useful;
    row->flops_executed = per_pair * (double)info->pairs_executed;
    row->flops_dense = per_pair * (double)info->pairs_dense;
}

/* Bytes of a problem's tensors: of all keys, or of `keys` that are attended, in each batch. */
typedef struct tensor_bytes {
    double queries, keys, values, out;
} tensor_bytes;

static tensor_bytes count_tensors(const attn_problem *p, double keys) {
    const double element = (double)attn_dtype_bytes(p->dtype);
    const double query_rows = (double)(p->batch * p->heads * p->queries), key_rows = (double)p->batch * keys;
    return (tensor_bytes){query_rows * (double)p->head_dim * element,
                          key_rows * (double)p->head_dim * element, key_rows * (double)p->value_dim * element,
                          query_rows * (double)p->value_dim * 4};
}

/* Scores that naive keeps at a time for each thread: those of a head, or of the thread's part of one. */
static double count_scores(const bench_row *row) {
    const attn_problem *p = &row->problem;
    const double rows = (double)(p->batch * p->heads * p->queries) / row->threads;
    return 4 * fmin((double)p->queries, rows) * (double)p->keys;
}

/* Tensors are gone through from call to call, with `scores` between. Threads share out the queries in order,
 * so that each sees the keys of its heads. */
static bench_stream tensor_stream(const bench_row *row, const tensor_bytes *t, double bytes, double scores) {
    const attn_problem *p = &row->problem;
    /* Cold, each call has its own copy of them. */
    const double cold = row->kind == BENCH_ATTENTION ? row->cold_bytes : 0;
    const double groups = fmax(1, fmin(row->threads, (double)(p->batch * p->kv_heads)));
    const double own = (t->queries + t->out) / row->threads + (t->keys + t->values) / groups;
    const double all = t->queries + t->out + t->keys + t->values;
    return (bench_stream){bytes, fmax(own, cold / row->threads) + scores,
                          fmax(all, cold) + row->threads * scores};
}

static void count_attention(bench_row *row, const attn_plan *plan) {
    count_pairs(row);
    const int64_t keys = attn_plan_keys_attended(plan);
    if (keys < 0)
        snprintf(row->error, sizeof row->error, "no memory to count the keys that are attended");
    const tensor_bytes t = count_tensors(&row->problem, (double)keys);
    const bool naive = row->info.algorithm == ATTN_NAIVE;
    const double tensors = t.queries + t.keys + t.values, scores = naive ? count_scores(row) : 0;
    row->bytes_compulsory = tensors + t.out;
    row->stream[0] = tensor_stream(row, &t, tensors, scores);
    row->stream[1] =
        (bench_stream){naive ? 4 * (double)row->info.pairs_executed : 0, scores, row->threads * scores};
    row->bytes_read = row->stream[0].bytes + row->stream[1].bytes;
}

/* Without a pair to mask and a score to change, the stage finds that out and is done. */
static bool mask_is_idle(const bench_row *row) {
    return row->stage == ATTN_STAGE_MASK && row->info.tiles_partial == 0 && !(row->problem.softcap > 0) &&
           !(row->problem.inputs & ~(uint32_t)ATTN_HAS_SINK_LOGIT);
}

/* A stage does its share of the work over the whole score matrix, and moves it: each score once, though it is
 * changed in place. */
static void count_stage(bench_row *row) {
    const attn_problem *p = &row->problem;
    const double useful = (double)row->info.pairs_useful, dense = (double)row->info.pairs_dense;
    const tensor_bytes t = count_tensors(p, (double)(p->kv_heads * p->keys));
    double per_pair = 0, exps = 0, tensors = 0, scores = mask_is_idle(row) ? 0 : 4 * dense, written = scores;
    switch (row->stage) {
    case ATTN_STAGE_QK:
        per_pair = 2.0 * (double)p->head_dim;
        tensors = t.queries + t.keys;
        scores = 0;
        break;
    case ATTN_STAGE_PV:
        per_pair = 2.0 * (double)p->value_dim;
        tensors = t.values;
        written = t.out;
        break;
    case ATTN_STAGE_SCALE:
        per_pair = 1;
        break;
    case ATTN_STAGE_MASK:
        exps = p->softcap > 0;
        break;
    case ATTN_STAGE_SOFTMAX:
        exps = 1;
        break;
    default:
        break;
    }
    row->flops_useful = per_pair * useful;
    row->flops_executed = per_pair * (double)row->info.pairs_executed;
    row->flops_dense = per_pair * dense;
    row->exps = exps * (double)row->info.pairs_executed;
    row->bytes_read = tensors + scores;
    row->bytes_compulsory = row->bytes_read + written;
    const double kept = count_scores(row);
    row->stream[0] = tensor_stream(row, &t, tensors, kept);
    row->stream[1] = (bench_stream){scores, kept, row->threads * kept};
}

void bench_row_recount(bench_row *row, const attn_counts *counts) {
    attn_info *info = &row->info;
    info->tiles_absent += info->tiles_full + info->tiles_partial - counts->tiles_full - counts->tiles_partial;
    info->tiles_full = counts->tiles_full;
    info->tiles_partial = counts->tiles_partial;
    info->pairs_useful = counts->pairs_useful;
    info->pairs_executed = counts->pairs_executed;
    if (row->kind == BENCH_STAGE)
        count_stage(row);
    else
        count_pairs(row);
}

bench_kernel_run bench_kernel_of_row(const bench_row *row, const attn_kernels *kernels) {
    return (bench_kernel_run){
        .kernels = kernels,
        .n = row->n,
        .head_dim = row->problem.head_dim,
        .value_dim = row->problem.value_dim,
        .dtype = row->problem.dtype,
    };
}

static int count_kernel(bench_row *row) {
    attn_error error;
    const attn_kernels *kernels;
    if (attn_dispatch(row->isa, &kernels, &error) != ATTN_OK)
        return cli_error("%s", error.text);
    const bench_kernel_run run = bench_kernel_of_row(row, kernels);
    row->flops_useful = row->flops_executed = row->flops_dense =
        row->kernel->flops ? row->kernel->flops(&run) : 0;
    row->exps = row->kernel->exps ? row->kernel->exps(&run) : 0;
    row->bytes_compulsory = row->kernel->bytes(&run);
    row->bytes_read = row->kernel->reads ? row->kernel->reads(&run) : row->bytes_compulsory / 2;
    const double touched = row->kernel->touches ? row->kernel->touches(&run) : row->bytes_compulsory;
    row->stream[0] = (bench_stream){row->bytes_read, touched, touched * row->threads};
    row->info.isa = kernels->name;
    return 0;
}

/* Asks the library. What makes no sense is a usage error; what it does not support is that row's. */
int bench_row_count(bench_row *row) {
    if (row->kind == BENCH_KERNEL)
        return count_kernel(row);
    const attn_options options = bench_row_options(row);
    attn_plan *plan;
    attn_error error;
    switch (attn_plan_create(&row->problem, &options, &plan, &error)) {
    case ATTN_OK:
        break;
    case ATTN_INVALID:
        return cli_error("%s", error.text);
    default:
        snprintf(row->error, sizeof row->error, "%s", error.text);
        return 0;
    }
    row->info = attn_plan_info(plan);
    if (row->kind == BENCH_STAGE)
        count_stage(row);
    else
        count_attention(row, plan);
    attn_plan_destroy(plan);
    return 0;
}
