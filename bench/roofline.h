/* This machine's own limits, measured: FMA peak, exponentials, bandwidth of each cache and of memory.
 * Usable from C++.
 *
 * Every figure is the best of several short trials: what interrupts a trial makes it slower, never
 * faster. On a busy machine all may be interrupted; each figure has the share of its CPUs that its trial got.
 */
#ifndef ATTN_ROOFLINE_H
#define ATTN_ROOFLINE_H

#include "bench/machine.h"
#include "kernels/kernels.h"

#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Share of its CPU below which a row or a figure is said to have been disturbed. */
#define BENCH_UNDISTURBED 0.95

typedef struct roofline_peak {
    double gflops; /* 10^9 FLOP per second, 2 for a multiply-add */
    double ghz;    /* effective clock, measured directly before and after, the larger */
    double cpu_share;
} roofline_peak;

/* FMA peak of one ISA level, in about `milliseconds` (30 is enough; 0 for 30). Runs on the calling thread,
 * which the caller binds, and touches nothing else: a harness repeats it between its rows. */
roofline_peak roofline_fma(const attn_kernels *kernels, double milliseconds);

enum { ROOFLINE_MEMORY = MACHINE_CACHE_LEVELS, ROOFLINE_LEVELS }; /* MACHINE_L1D.., memory */

typedef struct roofline_bandwidth {
    int64_t bytes; /* per thread; 0: this machine does not say how large the level is */
    /* 10^9 bytes per second. Reading counts each byte once, copying counts what is read and what is written;
     * lines that the hardware reads in order to write them are not counted. */
    double read_gbs, copy_gbs;
    double read_cpu_share, copy_cpu_share;
} roofline_bandwidth;

#define ROOFLINE_MAX_ISA 8

/* Limits of `threads` threads together, each bound to its own PU. */
typedef struct roofline {
    int threads;
    int bound;                            /* how many of them were bound, checked */
    roofline_peak peak[ROOFLINE_MAX_ISA]; /* by index of attn_isa_name; 0 where it cannot run */
    double exp_g[ROOFLINE_MAX_ISA];       /* 10^9 exponentials per second, from the first-level cache */
    double exp_cpu_share[ROOFLINE_MAX_ISA];
    roofline_bandwidth level[ROOFLINE_LEVELS]; /* at the best ISA level */
} roofline;

/* Whether other work disturbed one of the figures: they are no limits of the machine then. */
bool roofline_disturbed(const roofline *r);

/* Who waits for the figures. */
typedef struct roofline_watch {
    void (*progress)(void *context, const char *name); /* before each figure, as in "avx2 fma"; may be NULL */
    void *context;
    /* Where not NULL: once it is not 0, as a signal handler makes it, what is left is not measured. */
    const volatile sig_atomic_t *stop;
} roofline_watch;

/* Measures everything on `threads` threads, about `milliseconds` a figure. The calling thread is
 * one of them and gets its affinity back. `watch` may be NULL. Stopped, it succeeds with figures that say
 * nothing. */
attn_status roofline_measure(const machine *m, int threads, double milliseconds, roofline *result,
                             const roofline_watch *watch, attn_error *error);

#ifdef __cplusplus
}
#endif

#endif
