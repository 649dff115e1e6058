/* Rows that look as if something slowed them down are measured once more, later.
 *
 * A neighbour on the same core (another virtual machine's thread, say) slows a row down by half for seconds
 * while the process has all of its CPU: no clock of the guest's shows it, and no number of samples taken in
 * one stretch helps. It shows in the effective clock beside the row, which loses some tenths of a percent,
 * and in samples that differ; and it is over some seconds later. So is a stall in the warm-up, which leaves a
 * row with the least number of samples. */
#include "bench/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the best effective clock of the run; undisturbed rows agree to 0.05 %. */
static const double clock_loss = 0.002;
/* Of the median over the fastest sample. Undisturbed rows stay within some 3 %. */
static const double spread = 0.10;
/* A visit that differs by less than this is the same: of two that are, the sounder one stands. */
static const double gain = 0.01;
/* All of them together take no more of the time that the rows took. On a machine whose clock moves by itself
 * every row would be taken again. */
static const double share_of_time = 0.25;
static const int rounds = BENCH_MAX_VISITS - 1;

bool bench_looks_slowed(const bench_row *row, double best_ghz) {
    const bench_result *r = &row->result;
    if (!r->measured || row->there)
        return false;
    return bench_disturbed(row) || (r->ghz > 0 && r->ghz < best_ghz * (1 - clock_loss)) ||
           r->median_ns > r->min_ns * (1 + spread) || r->wall_ns < r->aimed_ns / 2;
}

/* Whether what a visit says is better founded than what a row has: nothing disturbed it, or it has samples
 * that the row lacks because a stall in the warm-up passed for the length of a call. */
static bool is_sounder(const bench_row *visit, const bench_row *row) {
    if (bench_disturbed(visit) != bench_disturbed(row))
        return bench_disturbed(row);
    return row->result.wall_ns < row->result.aimed_ns / 2 &&
           visit->result.sample_count > row->result.sample_count;
}

bool bench_take_visit(bench_row *row, bench_row *visit) {
    bench_result *r = &row->result, *v = &visit->result;
    if (r->visits == 0)
        r->visit_ns[r->visits++] = r->median_ns;
    if (visit->faulty) /* one that only lacked memory says nothing */
        bench_fault(row, "%s", visit->error);
    if (!v->measured || r->visits == BENCH_MAX_VISITS)
        return false;
    r->visit_ns[r->visits++] = v->median_ns;
    bench_check_repeat(row, v->checksum);
    if (*row->error || v->median_ns > r->median_ns * (is_sounder(visit, row) ? 1 + gain : 1 - gain))
        return false;
    memcpy(v->visit_ns, r->visit_ns, sizeof v->visit_ns);
    v->visits = r->visits;
    v->order = r->order; /* the row's place in the run, of which a later visit is no part */
    const bench_result slower = *r;
    *r = *v;
    *v = slower; /* with its samples, which go with the visit */
    return true;
}

/* The best beside rows of as many threads: with more of them the clock may be another. */
static double best_ghz(const bench_session *session, int threads) {
    double best = 0;
    for (int i = 0; i < session->order_count; i++) {
        const bench_row *row = session->order[i];
        if (row->result.measured && row->threads == threads)
            best = fmax(best, row->result.ghz);
    }
    return best;
}

static void visit_again(bench_session *session, bench_row *row) {
    bench_row *visit = malloc(sizeof *visit);
    if (!visit)
        return;
    *visit = *row;
    visit->result = (bench_result){0};
    if (bench_measure_begin(session, visit) > 0) {
        bench_measure_samples(session, visit);
        bench_measure_end(session, visit);
    }
    if (!bench_interrupted)
        bench_take_visit(row, visit);
    free(visit->result.samples_ns);
    free(visit);
}

void bench_retake(bench_session *session) {
    const bench_config *config = session->config;
    if (config->one_call || config->fixed_calls || config->repetitions > 1)
        return;
    const double now = (double)machine_now_ns();
    double end = now + share_of_time * (now - (double)session->measuring_ns);
    if (config->budget_s > 0)
        end = fmin(end, (double)session->started_ns + config->budget_s * 1e9);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < session->order_count && !bench_interrupted; i++) {
            bench_row *row = session->order[i];
            const bench_result *r = &row->result;
            if (row == &session->again || !bench_looks_slowed(row, best_ghz(session, row->threads)))
                continue;
            /* Its samples, the first call, and what is around them. */
            if ((double)machine_now_ns() + r->wall_ns + 2 * r->median_ns + 50e6 < end)
                visit_again(session, row);
        }
    }
}
