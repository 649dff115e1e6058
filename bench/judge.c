/* What results say once they are there: shares of limits, what disturbed them, what changed meanwhile. */
#include "bench/session.h"

#include <math.h>
#include <string.h>

double bench_pct_peak(const bench_row *row) {
    const bench_result *r = &row->result;
    if (!(r->peak_gflops > 0) || !(r->median_ns > 0))
        return 0;
    return 100 * row->flops_useful / r->median_ns / r->peak_gflops;
}

/* Where rows run: their threads are of one kind. */
static const machine_pu *row_pu(const bench_session *session) {
    const machine_binding *binding = bench_pool_binding(session->pool, 0);
    const machine_pu *pu = binding->bound ? machine_find_pu(session->host, binding->os_index) : NULL;
    return pu ? pu : &session->host->pus[0];
}

static const bench_limits *find_limits(const bench_session *session, int threads) {
    for (int i = 0; i < session->limits_count; i++) {
        if (session->limits[i].threads == threads)
            return &session->limits[i];
    }
    return NULL;
}

/* Bytes that a row touches: its tensors, and the workspace where naive's scores are. */
static double count_touched(const bench_row *row) {
    const bool scores = row->kind == BENCH_ATTENTION && row->info.algorithm == ATTN_NAIVE;
    return row->bytes_compulsory + (scores ? (double)row->info.workspace_bytes : 0);
}

double bench_pct_bandwidth(const bench_session *session, const bench_row *row, int *level) {
    const bench_limits *l = find_limits(session, row->threads);
    if (!l || !(row->result.median_ns > 0))
        return 0;
    const machine_pu *pu = row_pu(session);
    const double touched = count_touched(row);
    *level = 0;
    while (*level < ROOFLINE_MEMORY &&
           !(l->limits.level[*level].read_gbs > 0 && touched <= (double)pu->cache[*level].bytes))
        ++*level;
    const double read_gbs = l->limits.level[*level].read_gbs;
    return read_gbs > 0 ? 100 * row->bytes_read / row->result.median_ns / read_gbs : 0;
}

/* Exponentials that a row computes. */
static double count_exp(const bench_row *row) {
    const char *kernel = row->kind == BENCH_KERNEL ? row->kernel->name : "";
    if (row->kind == BENCH_ATTENTION || (row->kind == BENCH_STAGE && row->stage == ATTN_STAGE_SOFTMAX))
        return (double)row->info.pairs_executed;
    return strcmp(kernel, "exp") == 0 || strcmp(kernel, "softmax") == 0 ? (double)row->n : 0;
}

bool bench_shares_of(const bench_session *session, const bench_row *row, bench_shares *shares) {
    const bench_limits *l = find_limits(session, row->threads);
    shares->bandwidth = bench_pct_bandwidth(session, row, &shares->level);
    double exp_g = 0;
    for (int i = 0; l && i < attn_isa_count() && i < ROOFLINE_MAX_ISA; i++) {
        if (row->info.isa && strcmp(attn_isa_name(i), row->info.isa) == 0)
            exp_g = l->limits.exp_g[i];
    }
    if (!(shares->bandwidth > 0) || !(exp_g > 0) || !(row->result.peak_gflops > 0))
        return false;
    const double percent = 100 / row->result.median_ns;
    shares->compute = percent * (row->flops_executed / row->result.peak_gflops + count_exp(row) / exp_g);
    shares->overhead = percent * row->overhead_ns;
    return true;
}

bool bench_disturbed(const bench_row *row) {
    return row->result.measured && row->result.cpu_share < BENCH_UNDISTURBED;
}

int bench_count_disturbed(const bench_rows *rows) {
    int count = 0;
    for (int i = 0; i < rows->count; i++)
        count += bench_disturbed(&rows->row[i]);
    return count;
}

int bench_count_measured(const bench_rows *rows) {
    int count = 0;
    for (int i = 0; i < rows->count; i++)
        count += rows->row[i].result.measured && !rows->row[i].there;
    return count;
}

bool bench_drift(const bench_session *session, double *change) {
    const bench_row *first = session->order_count > 1 ? session->order[0] : NULL;
    if (!first || !first->result.measured || !session->again.result.measured)
        return false;
    *change = session->again.result.median_ns / first->result.median_ns - 1;
    return true;
}
