/* What is looked at beside a row, on its threads: peaks, clock, bandwidth, and what others took of its CPUs.
 */
#include "bench/session.h"
#include "bench/steal.h"
#include "bench/sysfs.h"
#include "dispatch/dispatch.h"

#include <math.h>

/* ---- Peaks ------------------------------------------------------------------------- */

typedef struct peaks {
    const attn_kernels *kernels;
    double milliseconds;
    roofline_peak of[ATTN_MAX_THREADS];
} peaks;

static void peak_task(void *context, int worker) {
    peaks *p = context;
    p->of[worker] = roofline_fma(p->kernels, p->milliseconds);
}

void bench_take_peak(bench_session *session, double milliseconds) {
    const bench_instance *instance = &session->instance;
    peaks p = {.kernels = instance->kernels, .milliseconds = milliseconds};
    bench_pool_run(session->pool, peak_task, &p);
    double gflops = 0, ghz = 0;
    for (int i = 0; i < instance->threads; i++) {
        gflops += p.of[i].gflops;
        ghz += p.of[i].ghz / instance->threads;
    }
    if (gflops > session->peak_gflops)
        session->peak_gflops = gflops;
    session->ghz = session->ghz > 0 ? (session->ghz + ghz) / 2 : ghz;
    const int isa = roofline_isa(instance->kernels->name);
    if (isa >= 0)
        session->best_peak[isa] = fmax(session->best_peak[isa], p.of[0].gflops);
}

/* What the row's threads read together of the working set that bounds the row, beside it; with the kernels
 * that the limits are measured with. */
typedef struct reads {
    const attn_kernels *kernels;
    int64_t bytes;
    double gbs[ATTN_MAX_THREADS];
} reads;

static void read_task(void *context, int worker) {
    reads *r = context;
    r->gbs[worker] = roofline_read(r->kernels, r->bytes, 40);
}

void bench_take_bandwidth(bench_session *session, const bench_row *row) {
    reads r = {.kernels = session->instance.kernels,
               .bytes = (int64_t)fmax(256, bench_row_reading(session, row).bytes)};
    for (int i = 0; i < attn_isa_count(); i++) {
        const attn_kernels *kernels;
        if (attn_dispatch(attn_isa_name(i), &kernels, NULL) == ATTN_OK)
            r.kernels = kernels;
    }
    bench_pool_run(session->pool, read_task, &r);
    double gbs = 0;
    for (int i = 0; i < session->instance.threads; i++)
        gbs += r.gbs[i];
    bench_raise_bandwidth(session, row, gbs);
}

/* ---- Steal ---- */

int64_t bench_stolen_now(const bench_session *session) {
    int os_index[ATTN_MAX_THREADS];
    const int count = session->instance.threads;
    for (int i = 0; i < count; i++) {
        const machine_binding *binding = bench_pool_binding(session->pool, i);
        if (!binding->bound) /* it may be on any CPU, of which most are not the row's */
            return -1;
        os_index[i] = binding->os_index;
    }
    return steal_ns(sysfs_root(NULL), os_index, count);
}

double bench_share_of_cpus(const bench_result *r, int threads) {
    const double all = r->wall_ns * threads;
    if (r->wall_ns < 1e6) /* the clocks' steps would decide */
        return 1;
    const double stolen = fmax(0, (double)r->stolen_ns - (double)threads * (double)steal_tick_ns());
    return fmin(1, fmax(0, fmin(r->cpu_ns, all - stolen)) / all);
}
