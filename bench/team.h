/* A pool of threads that measure together, in step. Internal to the
 * roofline. */
#ifndef ATTN_TEAM_H
#define ATTN_TEAM_H

#include "bench/machine.h"

#include <signal.h>

typedef struct team team;

/* What every member runs; `me` is 0 for the calling thread. All members call the same sequence of
 * team_rate. */
typedef void (*team_body)(team *t, int me, void *context);

/* Runs `body` on a pool of `count` threads, bound as machine_pick says; the calling thread is member 0, and
 * gets its affinity back from `m`. *bound is how many bindings were checked to hold. Once *stop is not 0
 * (`stop` may be NULL), team_rate measures nothing more and returns 0 or what it has. */
attn_status team_run(const machine *m, int count, team_body body, void *context,
                     const volatile sig_atomic_t *stop, int *bound, attn_error *error);

/* Does `rounds` rounds of something. */
typedef void (*team_work)(void *context, int64_t rounds);

typedef struct team_figure {
    double rate; /* rounds per second of all members together */
    /* CPU time over wall time in that trial, of the member that got least of its CPU: at most 1; 0 where
     * there was no trial. */
    double cpu_share;
} team_figure;

/* The best of short trials within `milliseconds` (twice that for more than one member), at least three. `t`
 * NULL is a team of the calling thread alone. Every member gets the result. */
team_figure team_rate(team *t, int me, team_work work, void *context, double milliseconds);

#endif
