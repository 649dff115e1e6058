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

double bench_pct_bandwidth(const bench_session *session, const bench_row *row, int *level) {
    const machine_pu *pu = row_pu(session);
    for (int i = 0; i < session->limits_count; i++) {
        const bench_limits *l = &session->limits[i];
        if (l->threads != row->threads || !(row->result.median_ns > 0))
            continue;
        int at = 0;
        while (at < ROOFLINE_MEMORY &&
               !(l->limits.level[at].read_gbs > 0 && row->bytes_compulsory <= (double)pu->cache[at].bytes))
            at++;
        if (level)
            *level = at;
        if (l->limits.level[at].read_gbs > 0)
            return 100 * row->bytes_compulsory / row->result.median_ns / l->limits.level[at].read_gbs;
    }
    return 0;
}

static const bench_limits *find_limits(const bench_session *session, int threads) {
    for (int i = 0; i < session->limits_count; i++) {
        if (session->limits[i].threads == threads)
            return &session->limits[i];
    }
    return NULL;
}

/* Exponentials that a row computes. */
static double count_exp(const bench_row *row) {
    const char *kernel = row->kind == BENCH_KERNEL ? row->kernel->name : "";
    if (row->kind == BENCH_ATTENTION || (row->kind == BENCH_STAGE && row->stage == ATTN_STAGE_SOFTMAX))
        return (double)row->info.pairs_executed;
    return strcmp(kernel, "exp") == 0 || strcmp(kernel, "softmax") == 0 ? (double)row->n : 0;
}

/* Bytes that a call has to move and bytes that it touches. The scores of naive are written, and read again.
 */
static void count_traffic(const bench_row *row, double *moved, double *touched) {
    *moved = *touched = row->bytes_compulsory;
    if (row->kind == BENCH_ATTENTION && row->info.algorithm == ATTN_NAIVE) {
        *moved += 2 * 4 * (double)row->info.pairs_dense;
        *touched += (double)row->info.workspace_bytes;
    }
}

bool bench_shares_of(const bench_session *session, const bench_row *row, bench_shares *shares) {
    const bench_limits *l = find_limits(session, row->threads);
    const machine_pu *pu = row_pu(session);
    double moved, touched, exp_g = 0;
    if (!l || !(row->result.median_ns > 0) || !(row->result.peak_gflops > 0))
        return false;
    count_traffic(row, &moved, &touched);
    *shares = (bench_shares){.level = 0};
    while (shares->level < ROOFLINE_MEMORY && !(l->limits.level[shares->level].read_gbs > 0 &&
                                                touched <= (double)pu->cache[shares->level].bytes))
        shares->level++;
    for (int i = 0; i < attn_isa_count() && i < ROOFLINE_MAX_ISA; i++) {
        if (row->info.isa && strcmp(attn_isa_name(i), row->info.isa) == 0)
            exp_g = l->limits.exp_g[i];
    }
    const double read_gbs = l->limits.level[shares->level].read_gbs, percent = 100 / row->result.median_ns;
    if (!(read_gbs > 0) || !(exp_g > 0))
        return false;
    shares->compute = percent * (row->flops_executed / row->result.peak_gflops + count_exp(row) / exp_g);
    shares->bandwidth = percent * moved / read_gbs;
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
