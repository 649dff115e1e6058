/* What results say once they are there: whether they can be right, shares of limits, what disturbed them,
 * what changed meanwhile. */
#include "bench/session.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double bench_pct_peak(const bench_row *row) {
    const bench_result *r = &row->result;
    if (!(r->peak_gflops > 0) || !(r->median_ns > 0))
        return 0;
    return 100 * row->flops_useful / r->median_ns / r->peak_gflops;
}

static const roofline *find_limits(const bench_session *session, int threads) {
    for (int i = 0; i < session->limits_count; i++) {
        if (session->limits[i].threads == threads)
            return &session->limits[i];
    }
    return NULL;
}

/* A cache of one thread has to hold what that thread touches, one of several what all of them do. */
static double working_set(const roofline *r, const bench_stream *s, int threads, int level) {
    return r->level[level].sharers > 1 ? s->all / threads : s->own;
}

int bench_level_of(const roofline *r, const bench_stream *s, int threads, double *bytes) {
    int level = 0;
    double below = 0;
    for (; level < ROOFLINE_MEMORY; level++) {
        const roofline_bandwidth *cache = &r->level[level];
        if (!(cache->read_gbs > 0))
            continue;
        /* Of threads that share what they read, each may read less than the cache above has. */
        *bytes = fmax(below, working_set(r, s, threads, level));
        if (*bytes <= (double)cache->holds_bytes)
            return level;
        below = (double)cache->holds_bytes;
    }
    *bytes = fmax(below, s->all / threads);
    return level;
}

bench_reading bench_row_reading(const bench_session *session, const bench_row *row) {
    bench_reading reading = {.level = ROOFLINE_MEMORY};
    const roofline *l = find_limits(session, row->threads);
    double longest = -1;
    for (int i = 0; l && i < BENCH_STREAMS; i++) {
        const bench_stream *s = &row->stream[i];
        double bytes;
        const int level = bench_level_of(l, s, row->threads, &bytes);
        const double gbs = roofline_read_best(l, bytes)->gbs;
        if (!(gbs > 0))
            return (bench_reading){.level = level};
        const double ns = s->bytes / gbs;
        reading.ns += ns;
        reading.known = true;
        if (ns > longest) {
            longest = ns;
            reading.level = level;
            reading.bytes = bytes;
        }
    }
    return reading;
}

double bench_pct_bandwidth(const bench_session *session, const bench_row *row, int *level) {
    const bench_reading reading = bench_row_reading(session, row);
    *level = reading.level;
    return row->result.median_ns > 0 ? 100 * reading.ns / row->result.median_ns : 0;
}

bool bench_raise_bandwidth(bench_session *session, const bench_row *row, double gbs) {
    const bench_reading reading = bench_row_reading(session, row);
    for (int i = 0; reading.known && i < session->limits_count; i++) {
        if (session->limits[i].threads == row->threads)
            roofline_raise(&session->limits[i], reading.bytes, gbs);
    }
    return reading.known;
}

/* The clock alone decides how fast a thread reads its own caches, and nothing is read faster than the first.
 */
bool bench_bandwidth_is_fixed(const bench_session *session, const bench_row *row) {
    const roofline *l = find_limits(session, row->threads);
    const bench_reading reading = bench_row_reading(session, row);
    if (!l || !reading.known)
        return false;
    int last = MACHINE_CACHE_LEVELS - 1;
    while (last > 0 && !(l->level[last].read_gbs > 0))
        last--;
    const double fastest = roofline_read_best(l, 0)->gbs;
    return reading.level < last || row->bytes_read / row->result.median_ns > BENCH_FAULT_PCT / 100 * fastest;
}

bool bench_shares_of(const bench_session *session, const bench_row *row, bench_shares *shares) {
    const roofline *l = find_limits(session, row->threads);
    shares->bandwidth = bench_pct_bandwidth(session, row, &shares->level);
    const int isa = roofline_isa(row->info.isa);
    const double exp_g = l && isa >= 0 ? l->exp_g[isa] : 0;
    if (!bench_row_reading(session, row).known || !(exp_g > 0) || !(row->result.peak_gflops > 0))
        return false;
    const double percent = 100 / row->result.median_ns;
    shares->compute = percent * (row->flops_executed / row->result.peak_gflops + row->exps / exp_g);
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

bool bench_stolen(const bench_session *session, double *stolen_ns, double *share) {
    double all = 0;
    *stolen_ns = 0;
    for (int i = 0; i < session->order_count; i++) {
        const bench_row *row = session->order[i];
        if (!row->result.measured)
            continue;
        if (row->result.stolen_ns < 0)
            return false;
        *stolen_ns += (double)row->result.stolen_ns;
        all += row->result.wall_ns * row->threads;
    }
    *share = all > 0 ? *stolen_ns / all : 0;
    return all > 0;
}

bool bench_drift(const bench_session *session, double *change) {
    const bench_row *first = session->order_count > 1 ? session->order[0] : NULL;
    if (!first || !first->result.measured || !session->again.result.measured)
        return false;
    *change = session->again.result.median_ns / first->result.median_ns - 1;
    return true;
}

/* ---- Whether it can be right ---- */

void bench_fault(bench_row *row, const char *format, ...) {
    if (!*row->error) {
        va_list values;
        va_start(values, format);
        vsnprintf(row->error, sizeof row->error, format, values);
        va_end(values);
    }
    row->faulty = true;
    row->result.measured = false;
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the two samples beside it, as NumPy does it: of 0-based rank p * (count - 1). */
static double quantile(const double *sorted, int count, double p) {
    const double rank = p * (count - 1);
    const int below = (int)rank, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (rank - below) * (sorted[above] - sorted[below]);
}

static bool summarise(bench_result *r) {
    double *sorted = malloc((size_t)r->sample_count * sizeof *sorted);
    if (!sorted)
        return false;
    memcpy(sorted, r->samples_ns, (size_t)r->sample_count * sizeof *sorted);
    qsort(sorted, (size_t)r->sample_count, sizeof *sorted, compare_doubles);
    r->min_ns = sorted[0];
    r->max_ns = sorted[r->sample_count - 1];
    r->p05_ns = quantile(sorted, r->sample_count, 0.05);
    r->p25_ns = quantile(sorted, r->sample_count, 0.25);
    r->median_ns = quantile(sorted, r->sample_count, 0.5);
    r->p75_ns = quantile(sorted, r->sample_count, 0.75);
    r->p95_ns = quantile(sorted, r->sample_count, 0.95);
    free(sorted);
    return true;
}

void bench_judge_speed(bench_session *session, bench_row *row) {
    bench_result *r = &row->result;
    r->peak_gflops = session->peak_gflops;
    if (bench_pct_peak(row) > BENCH_FAULT_PCT) {
        bench_take_peak(session, 40);
        r->peak_gflops = session->peak_gflops;
    }
    if (bench_pct_peak(row) > BENCH_FAULT_PCT)
        bench_fault(row, "fault of measurement: %.0f %% of the peak of %.4g GFLOP/s", bench_pct_peak(row),
                    r->peak_gflops);
    int level;
    if (bench_pct_bandwidth(session, row, &level) > BENCH_FAULT_PCT)
        bench_take_bandwidth(session, row);
    const double percent = bench_pct_bandwidth(session, row, &level);
    r->above_bandwidth = percent > BENCH_FAULT_PCT;
    if (r->above_bandwidth && bench_bandwidth_is_fixed(session, row))
        bench_fault(row, "fault of measurement: %.0f %% of what its bytes take from %s at least", percent,
                    machine_level_name(level));
}

/* What it computed: false where that is wrong, or could not be looked at. */
static bool judge_output(bench_session *session, bench_row *row) {
    bench_result *r = &row->result;
    double sum_abs;
    const double checksum = bench_instance_checksum(&session->instance, &sum_abs);
    /* Nobody reads the repeated row's own error: it is the first row that was not computed the same again. */
    if (row == &session->again)
        bench_check_repeat(session->order[0], checksum);
    if (!isfinite(checksum))
        bench_fault(row, "the output is not finite (its sum is %g)", checksum);
    else
        bench_check_output(&session->expected, &session->instance, (uint64_t)session->config->seed, row);
    if (!*row->error && r->repetitions > 1)
        bench_check_repeat(row, checksum);
    r->checksum = checksum;
    r->checksum_abs = sum_abs;
    return !*row->error;
}

void bench_judge(bench_session *session, bench_row *row) {
    bench_result *r = &row->result;
    if (judge_output(session, row) && !summarise(r))
        snprintf(row->error, sizeof row->error, "not enough memory for %d samples", r->sample_count);
    if (!*row->error)
        bench_judge_speed(session, row);
    r->measured = !*row->error;
    if (!r->measured)
        return;
    r->ghz = session->ghz;
    bench_counting_judge(session, row);
    r->threads_used = bench_instance_threads_used(&session->instance);
    r->copies = session->instance.copies.count;
    /* All threads of the pool run, those that find no task too. */
    r->cpu_share = bench_share_of_cpus(r, session->instance.threads);
}
