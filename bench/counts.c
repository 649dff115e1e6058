/* What a row will do: pairs, FLOPs, bytes, from the plan that the library makes for it. */
#include "bench/bench.h"
#include "common/cli.h"
#include "dispatch/dispatch.h"

#include <stdio.h>

static void count_pairs(bench_row *row) {
    const attn_info *info = &row->info;
    const double per_pair = 2.0 * (double)(row->problem.head_dim + row->problem.value_dim);
    row->flops_useful = per_pair * (double)info->pairs_useful;
    row->flops_executed = per_pair * (double)info->pairs_executed;
    row->flops_dense = per_pair * (double)info->pairs_dense;
}

static void count_attention(bench_row *row, const attn_plan *plan) {
    const attn_problem *p = &row->problem;
    const double element = (double)attn_dtype_bytes(p->dtype);
    count_pairs(row);
    const double query_rows = (double)(p->batch * p->heads * p->queries);
    const int64_t keys = attn_plan_keys_attended(plan);
    if (keys < 0)
        snprintf(row->error, sizeof row->error, "no memory to count the keys that are attended");
    const double key_rows = (double)p->batch * (double)keys;
    row->bytes_read = query_rows * (double)p->head_dim * element +
                      key_rows * (double)(p->head_dim + p->value_dim) * element;
    row->bytes_compulsory = row->bytes_read + query_rows * (double)p->value_dim * 4;
    if (row->info.algorithm == ATTN_NAIVE)
        row->bytes_read += 4 * (double)row->info.pairs_executed;
}

/* A stage does its share of the work over the whole score matrix, and moves it. */
static void count_stage(bench_row *row) {
    const attn_problem *p = &row->problem;
    const double element = (double)attn_dtype_bytes(p->dtype);
    const double useful = (double)row->info.pairs_useful, dense = (double)row->info.pairs_dense;
    const double query_rows = (double)(p->batch * p->heads * p->queries);
    const double key_rows = (double)(p->batch * p->kv_heads * p->keys);
    double per_pair = 0, bytes = 2 * 4 * dense, written = 4 * dense;
    switch (row->stage) {
    case ATTN_STAGE_QK:
        per_pair = 2.0 * (double)p->head_dim;
        bytes = 4 * dense + element * (double)p->head_dim * (query_rows + key_rows);
        break;
    case ATTN_STAGE_PV:
        per_pair = 2.0 * (double)p->value_dim;
        written = (double)p->value_dim * 4 * query_rows;
        bytes = 4 * dense + written + (double)p->value_dim * element * key_rows;
        break;
    case ATTN_STAGE_SCALE:
        per_pair = 1;
        break;
    default:
        break;
    }
    row->flops_useful = per_pair * useful;
    row->flops_executed = per_pair * (double)row->info.pairs_executed;
    row->flops_dense = per_pair * dense;
    row->bytes_compulsory = bytes;
    row->bytes_read = bytes - written;
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

static int count_kernel(bench_row *row) {
    attn_error error;
    const attn_kernels *kernels;
    if (attn_dispatch(row->isa, &kernels, &error) != ATTN_OK)
        return cli_error("%s", error.text);
    const bench_kernel_run run = {
        .kernels = kernels,
        .n = row->n,
        .head_dim = row->problem.head_dim,
        .value_dim = row->problem.value_dim,
        .dtype = row->problem.dtype,
    };
    row->flops_useful = row->flops_executed = row->flops_dense =
        row->kernel->flops ? row->kernel->flops(&run) : 0;
    row->bytes_compulsory = row->kernel->bytes(&run);
    row->bytes_read = row->kernel->reads ? row->kernel->reads(&run) : row->bytes_compulsory / 2;
    row->info.isa = kernels->name;
    return 0;
}

/* Asks the library. What makes no sense is a usage error; what it does not support is that row's. */
int bench_row_count(bench_row *row) {
    if (row->kind == BENCH_KERNEL)
        return count_kernel(row);
    const attn_options options = {
        .isa = row->isa, .algorithm = row->algorithm, .tuning = row->tuning, .threads = row->threads};
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
