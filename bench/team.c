#include "bench/team.h"
#include "bench/pool.h"
#include "dispatch/dispatch.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct member {
    int64_t start_ns, end_ns; /* of the last trial */
} member;

struct team {
    int count;
    team_body body;
    void *context;
    const volatile sig_atomic_t *stop; /* only member 0 looks: all must leave together */
    member *members;
    atomic_int arrived, generation; /* the barrier */
    int64_t rounds;                 /* of the next trial; 0 ends the measurement. Member 0 writes it. */
    double best;
};

/* Spinning, since members must leave together; yielding after a while, since they may be more than
 * the cores that are free. pthread_barrier_t is missing on macOS and wakes too slowly. */
static void barrier(team *t) {
    if (!t)
        return;
    int generation = atomic_load(&t->generation);
    if (atomic_fetch_add(&t->arrived, 1) + 1 == t->count) {
        atomic_store(&t->arrived, 0);
        atomic_fetch_add(&t->generation, 1);
        return;
    }
    for (int spins = 0; atomic_load(&t->generation) == generation; ++spins)
        if (spins > 10000)
            sched_yield();
}

static int64_t time_rounds(team_work work, void *context, int64_t rounds) {
    int64_t start = machine_now_ns();
    work(context, rounds);
    return machine_now_ns() - start;
}

/* Rounds that take about `target_ns`, found by doubling. */
static int64_t calibrate(team_work work, void *context, int64_t target_ns) {
    int64_t rounds = 1;
    for (;;) {
        int64_t ns = time_rounds(work, context, rounds);
        if (ns >= target_ns / 4 || rounds > INT64_MAX / 16) {
            double wanted = (double)rounds * (double)target_ns / (double)(ns > 0 ? ns : 1);
            return wanted < 1 ? 1 : (int64_t)wanted;
        }
        rounds *= ns < target_ns / 64 ? 8 : 2;
    }
}

static double alone(team_work work, void *context, int64_t target_ns, int64_t budget_ns) {
    int64_t rounds = calibrate(work, context, target_ns), end = machine_now_ns() + budget_ns;
    double best = 0;
    for (int trial = 0; trial < 3 || machine_now_ns() < end; ++trial) {
        int64_t ns = time_rounds(work, context, rounds);
        double rate = ns > 0 ? (double)rounds * 1e9 / (double)ns : 0;
        best = rate > best ? rate : best;
    }
    return best;
}

/* Work done by all between the first start and the last end: what they get together, at one time. */
static double trial_rate(const team *t) {
    int64_t start = t->members[0].start_ns, end = t->members[0].end_ns;
    for (int i = 1; i < t->count; ++i) {
        start = t->members[i].start_ns < start ? t->members[i].start_ns : start;
        end = t->members[i].end_ns > end ? t->members[i].end_ns : end;
    }
    return end > start ? (double)t->rounds * t->count * 1e9 / (double)(end - start) : 0;
}

static bool stopped(const team *t) {
    return t->stop && *t->stop;
}

double team_rate(team *t, int me, team_work work, void *context, double milliseconds) {
    /* Trials of 1 ms: long against the microseconds by which members start apart, short against a time
     * slice, so that some trials are left in peace. A team needs more of them: it is disturbed when any
     * of its members is. */
    int64_t budget_ns = (int64_t)(milliseconds * 1e6) * (t && t->count > 1 ? 2 : 1);
    int64_t target_ns = 1000000;
    if (target_ns > budget_ns / 4)
        target_ns = budget_ns / 4 > 10000 ? budget_ns / 4 : 10000;
    if (!t)
        return alone(work, context, target_ns, budget_ns);

    member *self = &t->members[me];
    int64_t end = 0;
    int trial = 0;
    if (me == 0) {
        t->best = 0;
        t->rounds = stopped(t) ? 0 : calibrate(work, context, target_ns);
        end = machine_now_ns() + budget_ns;
    }
    for (;; ++trial) {
        barrier(t);
        if (t->rounds == 0)
            break;
        barrier(t); /* the first may have been a long wait; the second is left together */
        self->start_ns = machine_now_ns();
        work(context, t->rounds);
        self->end_ns = machine_now_ns();
        barrier(t);
        if (me == 0) {
            double rate = trial_rate(t);
            t->best = rate > t->best ? rate : t->best;
            if (stopped(t) || (trial >= 2 && machine_now_ns() >= end))
                t->rounds = 0;
        }
    }
    double best = t->best;
    barrier(t); /* before member 0 starts the next one */
    return best;
}

static void run_member(void *context, int me) {
    team *t = context;
    t->body(t, me, t->context);
}

attn_status team_run(const machine *m, int count, team_body body, void *context,
                     const volatile sig_atomic_t *stop, int *bound, attn_error *error) {
    team t = {.count = count, .body = body, .context = context, .stop = stop};
    t.members = calloc((size_t)count, sizeof *t.members);
    bench_pool *pool = t.members ? bench_pool_new(m, count, true) : NULL;
    if (pool) {
        bench_pool_start(pool, count);
        bench_pool_run(pool, run_member, &t);
        bench_pool_stop(pool);
        *bound = 0;
        for (int i = 0; i < count; ++i)
            *bound += bench_pool_binding(pool, i)->bound;
        bench_pool_free(pool);
        machine_unbind(m);
    }
    free(t.members);
    return pool ? ATTN_OK : attn_fail(error, ATTN_NO_MEMORY, "cannot make %d threads", count);
}
