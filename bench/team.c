#include "bench/team.h"
#include "bench/pool.h"
#include "dispatch/dispatch.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

typedef struct member {
    int64_t start_ns, end_ns, cpu_ns; /* of the last trial */
} member;

struct team {
    int count;
    team_body body;
    void *context;
    const volatile sig_atomic_t *stop; /* only member 0 looks: all must leave together */
    member *members;
    atomic_int arrived, generation; /* the barrier */
    int64_t rounds;                 /* of the next trial; 0 ends the measurement. Member 0 writes it. */
    team_figure best;
};

/* Spinning, since members must leave together; yielding after a while, since they may be more than
 * the cores that are free. pthread_barrier_t is missing on macOS and wakes too slowly. */
static void barrier(team *t) {
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

static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The CPU's clock is read outside the other: half a microsecond more, never less, of a trial that had it all.
 */
static void time_rounds(member *m, team_work work, void *context, int64_t rounds) {
    const int64_t cpu = cpu_ns();
    m->start_ns = machine_now_ns();
    work(context, rounds);
    m->end_ns = machine_now_ns();
    m->cpu_ns = cpu_ns() - cpu;
}

/* Rounds that take about `target_ns`, found by doubling. */
static int64_t calibrate(team_work work, void *context, int64_t target_ns) {
    int64_t rounds = 1;
    for (;;) {
        member m;
        time_rounds(&m, work, context, rounds);
        const int64_t ns = m.end_ns - m.start_ns;
        if (ns >= target_ns / 4 || rounds > INT64_MAX / 16) {
            double wanted = (double)rounds * (double)target_ns / (double)(ns > 0 ? ns : 1);
            return wanted < 1 ? 1 : (int64_t)wanted;
        }
        rounds *= ns < target_ns / 64 ? 8 : 2;
    }
}

/* Keeps the better of *best and a trial of `count` members. The rate is that of work done by all between the
 * first start and the last end: what they get together, at one time. A member's share counts from the first
 * start: one that is kept from starting was disturbed, one that is through before the others was not. */
static void keep_best(team_figure *best, const member *members, int count, int64_t rounds) {
    int64_t start = members[0].start_ns, end = members[0].end_ns;
    for (int i = 1; i < count; ++i) {
        start = members[i].start_ns < start ? members[i].start_ns : start;
        end = members[i].end_ns > end ? members[i].end_ns : end;
    }
    const double rate = end > start ? (double)rounds * count * 1e9 / (double)(end - start) : 0;
    if (rate <= best->rate)
        return;
    *best = (team_figure){rate, 1};
    for (int i = 0; i < count; ++i) {
        const double share = (double)members[i].cpu_ns / (double)(members[i].end_ns - start);
        best->cpu_share = share < best->cpu_share ? share : best->cpu_share;
    }
}

static team_figure alone(team_work work, void *context, int64_t target_ns, int64_t budget_ns) {
    int64_t rounds = calibrate(work, context, target_ns), end = machine_now_ns() + budget_ns;
    team_figure best = {0, 0};
    for (int trial = 0; trial < 3 || machine_now_ns() < end; ++trial) {
        member m;
        time_rounds(&m, work, context, rounds);
        keep_best(&best, &m, 1, rounds);
    }
    return best;
}

static bool stopped(const team *t) {
    return t->stop && *t->stop;
}

team_figure team_rate(team *t, int me, team_work work, void *context, double milliseconds) {
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
        t->best = (team_figure){0, 0};
        t->rounds = stopped(t) ? 0 : calibrate(work, context, target_ns);
        end = machine_now_ns() + budget_ns;
    }
    for (;; ++trial) {
        barrier(t);
        if (t->rounds == 0)
            break;
        barrier(t); /* the first may have been a long wait; the second is left together */
        time_rounds(self, work, context, t->rounds);
        barrier(t);
        if (me == 0) {
            keep_best(&t->best, t->members, t->count, t->rounds);
            if (stopped(t) || (trial >= 2 && machine_now_ns() >= end))
                t->rounds = 0;
        }
    }
    const team_figure best = t->best;
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
