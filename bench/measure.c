/* Measuring a row: peaks before and after, warm-up, samples. */
#include "bench/session.h"

#include <math.h>
#ifdef __GLIBC__
#    include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A sample shorter than this would measure the clock: reading it takes some 25 ns. */
static const double sample_ns = 10e3;

/* ---- Memory ---- */

/* What was resident before the row was made, and the peak from then on. */
static void begin_memory(bench_session *session, bench_result *r) {
#ifdef __GLIBC__
    malloc_trim(0); /* what rows before this one have left resident */
#endif
    const bool reset = memory_reset_peak(session->no_peak, sizeof session->no_peak);
    r->resident_before = reset ? memory_resident() : -1;
    r->resident_peak = r->huge_bytes = -1;
}

static void end_memory(const bench_session *session, bench_result *r) {
    memory_piece pieces[BENCH_PIECES];
    const int count = bench_instance_pieces(&session->instance, pieces);
    if (r->resident_before >= 0)
        r->resident_peak = memory_resident_peak();
    if (count > 0)
        r->huge_bytes = memory_huge_bytes(pieces, count, NULL);
}

/* ---- A row -------------------------------------------------------------------------- */

/* Adds the time since `start` to a part of the session's; returns now. */
static int64_t spend(bench_session *session, bench_part part, int64_t start) {
    const int64_t now = machine_now_ns();
    session->part_ns[part] += (double)(now - start);
    return now;
}

/* Warms up by time and by number; returns the least nanoseconds that a call took in it, with all that has to
 * run before it: the last one might have been interrupted. */
static double warm_up(bench_session *session) {
    const double least = bench_warm_up_s(session->config, session->config->min_time_s) * 1e9;
    /* The call that checked has warmed up too, where it did all the work. */
    const bool first = session->instance.threads == 1;
    double call = session->instance.first_ns, before_ns = first ? call : 0;
    bool sure = before_ns >= sample_ns; /* shorter stretches say little */
    const int64_t start = machine_now_ns();
    int64_t calls = 1;
    for (int rounds = before_ns > 0; !bench_interrupted; rounds++) {
        const int64_t before = machine_now_ns();
        const double elapsed = before_ns + (double)(before - start);
        if (elapsed >= least && (rounds >= 3 || elapsed >= BENCH_WARM_CALL_NS))
            break;
        bench_instance_run(&session->instance, calls);
        const double ns = fmax((double)(machine_now_ns() - before), 1), now = ns / (double)calls;
        if (!sure || ns >= sample_ns)
            call = sure ? fmin(call, now) : now;
        sure = sure || ns >= sample_ns;
        calls = (int64_t)fmin(1e6, fmax(1, least / 4 / call));
    }
    return fmax(call, 1);
}

static void choose_samples(bench_session *session, double call) {
    const bench_config *config = session->config;
    double time = config->min_time_s * 1e9;
    session->aimed_ns = time;
    int64_t least = bench_budget_samples(session, call, bench_min_samples(call), machine_now_ns());
    if (config->one_call) {
        session->sample_calls = session->sample_count = 1;
        return;
    }
    session->sample_calls = (int64_t)ceil(sample_ns / call);
    if (config->fixed_calls) {
        /* Exactly as many calls as asked for, to the sample. */
        if (session->sample_calls > config->fixed_calls)
            session->sample_calls = config->fixed_calls;
        time = (double)config->fixed_calls * call;
        least = 1;
    }
    /* Not more samples than a file should hold: longer ones instead. */
    session->sample_calls =
        (int64_t)fmax((double)session->sample_calls, ceil(time / call / BENCH_MAX_SAMPLES));
    session->sample_count = (int64_t)fmax((double)least, round(time / call / (double)session->sample_calls));
}

/* A call long enough that what only the first one pays for, below a millisecond, is lost in it is the first
 * sample at once: an eighth of a row's time, and more, would go into warming up. */
static bool takes_first(const bench_session *session, const bench_row *row) {
    const bench_config *config = session->config;
    return row->kind == BENCH_ATTENTION && row->threads == 1 && !(row->problem.inputs & ATTN_HAS_BIAS) &&
           session->instance.first_ns >= BENCH_FIRST_COUNTS_NS && session->sample_calls == 1 &&
           session->sample_count > 1 && !config->fixed_calls;
}

static bool make_space(bench_session *session, bench_result *r) {
    const int space = r->sample_count + (int)session->sample_count;
    double *grown = realloc(r->samples_ns, (size_t)space * sizeof *grown);
    if (!grown)
        return false;
    r->samples_ns = grown;
    return true;
}

static void finish(bench_session *session, const bench_row *row) {
    if (session->instance.row) {
        bench_pool_stop(session->pool);
        bench_instance_free(&session->instance);
    }
    session->done++;
    session->done_ns += row->planned_ns;
}

int64_t bench_measure_begin(bench_session *session, bench_row *row) {
    attn_error error;
    if (bench_interrupted || !bench_budget_turn(session, row, 0, machine_now_ns()))
        return 0;
    bench_progress(session, row);
    session->peak_gflops = session->ghz = 0;
    int64_t now = machine_now_ns();
    begin_memory(session, &row->result);
    now = spend(session, BENCH_CHECKING, now);
    if (!bench_instance_make(&session->instance, row, session->pool, (uint64_t)session->config->seed,
                             &error)) {
        snprintf(row->error, sizeof row->error, "%s", error.text);
        finish(session, row);
        return 0;
    }
    if (row->problem.inputs & ATTN_HAS_BIAS)
        bench_row_recount(row, &session->instance.counts);
    bench_pool_start(session->pool, row->threads);
    now = spend(session, BENCH_PREPARING, now);
    bench_take_peak(session, bench_peak_ms(session->config));
    now = spend(session, BENCH_PEAKS, now);
    const double call = warm_up(session);
    spend(session, BENCH_WARM_UP, now);
    bench_budget_note(session, row, call);
    bench_result *r = &row->result;
    if (!bench_budget_turn(session, row, call, machine_now_ns()) ||
        (r->repetitions > 0 && bench_budget_is_over(session, row, 0, now, machine_now_ns()))) {
        finish(session, row);
        return 0;
    }
    if (r->calls_per_sample == 0) {
        choose_samples(session, call);
        r->calls_per_sample = session->sample_calls;
        r->samples_planned = session->sample_count;
        r->aimed_ns = session->aimed_ns;
    } else {
        /* Repetitions are alike: the library ends the program over other numbers of calls. */
        session->sample_calls = r->calls_per_sample;
        session->sample_count = r->samples_planned;
    }
    if (!make_space(session, r)) {
        snprintf(row->error, sizeof row->error, "not enough memory for the samples");
        finish(session, row);
        return 0;
    }
    r->order = session->done;
    session->first_counts = takes_first(session, row);
    return session->sample_calls * session->sample_count;
}

void bench_measure_samples(bench_session *session, bench_row *row) {
    bench_result *r = &row->result;
    double *samples = r->samples_ns + r->sample_count;
    const int64_t stolen = bench_stolen_now(session);
    bench_counting_begin(session, row);
    const int64_t start = machine_now_ns();
    const double cpu = bench_cpu_now_ns(), wall = (double)start;
    double first_cpu = 0, first_wall = 0;
    if (session->first_counts) {
        samples[0] = session->instance.first_ns;
        first_cpu = session->instance.first_cpu_ns;
        first_wall = session->instance.first_ns;
        session->part_ns[BENCH_SAMPLING] += session->instance.first_ns;
        session->part_ns[BENCH_PREPARING] -= session->instance.first_ns;
    }
    int64_t i = session->first_counts;
    for (; i < session->sample_count && !bench_interrupted; i++) {
        if (bench_budget_is_over(session, row, i, start, machine_now_ns()))
            break;
        const double elapsed = (double)bench_instance_run(&session->instance, session->sample_calls);
        /* A clock that did not move still took less than its step. */
        samples[i] = fmax(elapsed, 1) / (double)session->sample_calls;
    }
    spend(session, BENCH_SAMPLING, start);
    /* What was cut short is no repetition, unless it is the only one and has samples enough. */
    if (bench_interrupted || *row->left_out || (i < session->sample_count && r->repetitions > 0))
        return;
    bench_counting_end(session, row, (i - session->first_counts) * session->sample_calls);
    r->sample_count += (int)i;
    r->repetitions++;
    machine_date(r->date);
    r->calls += i * session->sample_calls;
    r->cpu_ns += first_cpu + bench_cpu_now_ns() - cpu;
    r->wall_ns += first_wall + (double)machine_now_ns() - wall;
    const int64_t stolen_after = bench_stolen_now(session);
    r->stolen_ns =
        stolen < 0 || stolen_after < stolen || r->stolen_ns < 0 ? -1 : r->stolen_ns + stolen_after - stolen;
}

double bench_measure_end(bench_session *session, bench_row *row) {
    /* A row that was cut short has no distribution. */
    int64_t now = machine_now_ns();
    if (!bench_interrupted && !*row->left_out) {
        bench_take_peak(session, bench_peak_ms(session->config));
        now = spend(session, BENCH_PEAKS, now);
        end_memory(session, &row->result);
        bench_judge(session, row);
    }
    finish(session, row);
    spend(session, BENCH_CHECKING, now);
    return row->result.measured && !bench_interrupted ? row->result.median_ns : 0;
}
