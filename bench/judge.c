/* What results say once they are there: shares of limits, what disturbed them, what changed meanwhile. */
#include "bench/session.h"

#include <math.h>

double bench_pct_peak(const bench_row *row) {
    const bench_result *r = &row->result;
    if (!(r->peak_gflops > 0) || !(r->median_ns > 0))
        return 0;
    return 100 * row->flops_useful / r->median_ns / r->peak_gflops;
}

double bench_pct_bandwidth(const bench_session *session, const bench_row *row, int *level) {
    const machine_binding *binding = bench_pool_binding(session->pool, 0);
    const machine_pu *pu = binding->bound ? machine_find_pu(session->host, binding->os_index) : NULL;
    if (!pu)
        pu = &session->host->pus[0];
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
