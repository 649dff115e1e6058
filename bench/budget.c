/* A budget is planned before the first row (predict.c), and kept here while rows run: under load they take
 * longer than predicted, and what is left has to be made to fit again.
 *
 * Before each row what all that are left would take is added up anew, with their predicted calls as much
 * slower as the latest rows' were. Where that is too much the rules of the plan hold: less time a row, then
 * no half octaves, then no rows, the longest first. Only the row whose turn it is is decided about: a burst
 * of load costs the rows that it meets, and none that come after it. */
#include "bench/session.h"

#include <math.h>
#include <stdio.h>

/* Leaving a row out for what is within the errors of predictions would cost more than it saves. */
static const double tolerated = 1 + BENCH_BUDGET_EXCESS / 2;
/* What one row says of the machine's speed counts for so much less with each row that follows. */
static const double fading = 0.8;

double bench_budget_end_ns(const bench_session *session) {
    const double budget_s = session->config->budget_s;
    return budget_s > 0 ? (double)session->started_ns + budget_s * (1 + BENCH_BUDGET_EXCESS) * 1e9 : INFINITY;
}

/* What rows that are left take: all, the half octaves among them, and those that would be left out before the
 * one whose turn it is. */
typedef struct demand {
    double all_ns, between_ns, before_ns;
} demand;

static bool is_left_out_before(const bench_row *a, double a_ns, const bench_row *b, double b_ns) {
    return a->between != b->between ? a->between : a_ns > b_ns;
}

static double row_ns(const bench_session *session, const bench_row *row, double time_s, double call_ns) {
    bench_config config = *session->config;
    bench_row timed = *row;
    config.min_time_s = time_s;
    timed.predicted_ns = call_ns;
    return (double)config.repetitions * bench_row_ns(&config, &timed);
}

/* What rows from `at` on take if each is given so much time, and a call of that one takes call_ns. */
static demand demand_of(const bench_session *session, int at, double time_s, double call_ns) {
    const bench_row *row = session->order[at];
    const double slower = bench_slower(session), own_ns = row_ns(session, row, time_s, call_ns);
    demand d = {.all_ns = own_ns, .between_ns = row->between ? own_ns : 0};
    bench_begin_checks(session->rows);
    for (int i = 0; i < session->order_count; i++) {
        const bench_row *other = session->order[i];
        if (i < at && *other->left_out)
            continue;
        const double check_ns =
            other == &session->again ? 0 : bench_plan_check(session->rows, other) * slower;
        if (i < at || (i > at && (*other->error || other->there)))
            continue;
        d.all_ns += check_ns;
        if (i == at)
            continue;
        const double ns = row_ns(session, other, time_s, other->predicted_ns * slower);
        d.all_ns += ns;
        d.between_ns += other->between ? ns : 0;
        d.before_ns += is_left_out_before(other, ns, row, own_ns) ? ns : 0;
    }
    return d;
}

double bench_slower(const bench_session *session) {
    return session->predicted_calls_ns > 0 ? fmax(1, session->seen_calls_ns / session->predicted_calls_ns)
                                           : 1;
}

void bench_budget_note(bench_session *session, const bench_row *row, double call_ns) {
    if (!(row->predicted_ns > 0) || !(call_ns > 0))
        return;
    if (session->predicted_calls_ns == 0) {
        /* As if a typical row had been as predicted: the first is not all there is to know, and of a call
         * that is short the prediction may be far off. */
        for (int i = 0; i < session->order_count; i++)
            session->predicted_calls_ns += session->order[i]->predicted_ns / session->order_count;
        session->seen_calls_ns = session->predicted_calls_ns;
    }
    session->predicted_calls_ns = fading * session->predicted_calls_ns + row->predicted_ns;
    session->seen_calls_ns = fading * session->seen_calls_ns + call_ns;
}

bool bench_budget_turn(bench_session *session, bench_row *row, double call_ns, int64_t now_ns) {
    bench_config *config = session->config;
    int at = 0;
    while (at < session->order_count && session->order[at] != row)
        at++;
    /* Of another visit bench_retake has asked itself. */
    if (config->budget_s <= 0 || at == session->order_count || row->result.repetitions > 0)
        return true;
    if (row == &session->again && *session->order[0]->left_out) { /* nothing to compare it with */
        snprintf(row->left_out, sizeof row->left_out, "%s", session->order[0]->left_out);
        return false;
    }
    if (session->plan_time_s == 0)
        session->plan_time_s = session->least_time_s = config->min_time_s;
    if (!(call_ns > 0))
        call_ns = row->predicted_ns * bench_slower(session);
    const double left_ns = config->budget_s * 1e9 - (double)(now_ns - session->started_ns),
                 most_ns = left_ns + (tolerated - 1) * config->budget_s * 1e9;
    const double half = fmin(session->plan_time_s, config->asked_time_s / 2),
                 third = fmin(session->plan_time_s, config->asked_time_s / 3);
    double time_s = session->plan_time_s;
    demand d = demand_of(session, at, time_s, call_ns);
    while (d.all_ns > left_ns && time_s > half) {
        time_s = fmax(half, 0.8 * time_s);
        d = demand_of(session, at, time_s, call_ns);
    }
    bool fits = !row->between || d.all_ns - d.before_ns <= most_ns;
    /* What will be left out at its turn is no reason for less time. */
    while (fits && d.all_ns - (row->between ? d.before_ns : d.between_ns) > left_ns && time_s > third) {
        time_s = fmax(third, 0.8 * time_s);
        d = demand_of(session, at, time_s, call_ns);
    }
    fits = fits && (row->between || d.all_ns - d.before_ns <= most_ns);
    if (fits) {
        config->min_time_s = time_s;
        session->least_time_s = fmin(session->least_time_s, time_s);
        return true;
    }
    snprintf(
        row->left_out, sizeof row->left_out,
        "would take %.3g s, calls taking %.2g times what was predicted; %.3g s of a budget of %g s are left",
        row_ns(session, row, time_s, call_ns) / 1e9, fmax(call_ns / row->predicted_ns, 0.01),
        fmax(0, left_ns / 1e9), config->budget_s);
    return false;
}

int64_t bench_budget_samples(const bench_session *session, double call_ns, int64_t least, int64_t now_ns) {
    /* Three samples still have a median that one of them cannot move far. */
    const double fitting = (bench_budget_end_ns(session) - (double)now_ns) / call_ns;
    return fitting < (double)least ? (int64_t)fmax(fmin((double)least, BENCH_SAMPLES_LEAST), fitting) : least;
}

bool bench_budget_is_over(const bench_session *session, bench_row *row, int64_t taken, int64_t begun_ns,
                          int64_t now_ns) {
    const bench_config *config = session->config;
    if (config->one_call)
        return false;
    if ((double)now_ns <= bench_budget_end_ns(session))
        /* How many samples there are was chosen by an undisturbed call: others would wait for disturbed ones.
         */
        return config->budget_s > 0 && !config->fixed_calls && config->repetitions == 1 &&
               taken >= BENCH_SAMPLES && (double)(now_ns - begun_ns) > 2 * session->aimed_ns;
    if ((taken < BENCH_SAMPLES_LEAST || config->fixed_calls) && row->result.repetitions == 0)
        snprintf(row->left_out, sizeof row->left_out,
                 "the budget of %g s was spent after %lld of its samples", config->budget_s,
                 (long long)taken);
    return taken >= BENCH_SAMPLES_LEAST || *row->left_out || row->result.repetitions > 0;
}
