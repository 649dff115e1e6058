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
/* Likewise, 10^9 bytes per second of reading so many again and again; 0 without memory for them. */
double roofline_read(const attn_kernels *kernels, int64_t bytes, double milliseconds);

enum { ROOFLINE_MEMORY = MACHINE_CACHE_LEVELS, ROOFLINE_LEVELS }; /* MACHINE_L1D.., memory */

/* What reading a working set again and again reaches. */
typedef struct roofline_reading {
    int64_t bytes; /* per thread */
    double gbs, cpu_share;
} roofline_reading;

typedef struct roofline_bandwidth {
    int64_t bytes; /* of the working set that stands for the level, per thread; 0: its size is not known */
    /* The largest working set, per thread, that is read from here. Of the last cache no more than was seen to
     * be: other machines on the host may use it too, and no list of caches says so. 0 of memory. */
    int64_t holds_bytes;
    int sharers; /* threads of the survey that share an instance, at least 1 */
    /* 10^9 bytes per second. Reading counts each byte once, copying counts what is read and what is written;
     * lines that the hardware reads in order to write them are not counted. */
    double read_gbs, copy_gbs;
    double read_cpu_share, copy_cpu_share;
} roofline_bandwidth;

enum { ROOFLINE_MAX_ISA = 8, ROOFLINE_MAX_READINGS = 96 };

/* Limits of `threads` threads together, each bound to its own PU. */
typedef struct roofline {
    int threads;
    int bound;                            /* how many of them were bound, checked */
    roofline_peak peak[ROOFLINE_MAX_ISA]; /* by index of attn_isa_name; 0 where it cannot run */
    double exp_g[ROOFLINE_MAX_ISA];       /* 10^9 exponentials per second, from the first-level cache */
    double exp_cpu_share[ROOFLINE_MAX_ISA];
    roofline_bandwidth level[ROOFLINE_LEVELS]; /* at the best ISA level */
    /* Likewise, of working sets of half octaves from within the first cache into memory, ascending. */
    roofline_reading reading[ROOFLINE_MAX_READINGS];
    int readings;
} roofline;

/* Where the level stands in these arrays; -1 where it has no place, as NULL has none. */
int roofline_isa(const char *name);

/* ---- levels.c: what the readings say ---- */

/* Chooses the working sets for threads on these PUs: of each level, and of the readings. */
void roofline_choose_sizes(const machine *m, const int *os_index, int threads, roofline *result);
/* The best of the readings of `bytes` and more, or of next less than `bytes`: a larger working set is not
 * read faster. An upper bound for whoever reads so many; 0 where nothing was read. */
const roofline_reading *roofline_read_best(const roofline *r, double bytes);
/* Sets what the readings say of each level: read_gbs, and what the last cache holds. */
void roofline_judge_levels(roofline *r);
/* Notes that a working set was read at such a rate too. */
void roofline_raise(roofline *r, double bytes, double gbs);

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
