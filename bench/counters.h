/* Hardware counters of the calling thread, in user mode: instructions, cycles, misses. Linux, through
 * perf_event_open; elsewhere, and where the system or the processor has none, they are absent with a reason.
 *
 * No figure is believed as it comes: readings are decoded and scaled, and judged twice, on a chain of
 * additions whose counts are known, and beside the row that they were taken of. All of that works on values
 * that it is handed, so that tests can hand it those of other machines, and broken ones. Usable from C++. */
#ifndef ATTN_COUNTERS_H
#define ATTN_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    COUNTERS_INSTRUCTIONS,
    COUNTERS_CYCLES,
    COUNTERS_L1D_MISSES, /* of reads */
    COUNTERS_LLC_MISSES, /* likewise, of the last cache */
    COUNTERS_BRANCH_MISSES,
    COUNTERS_EVENTS,
};
/* "instructions", "cycles", ...: keys of a result file. NULL outside. */
const char *counters_name(int event);

/* Where the kernel shares the counters out by turns, figures are scaled up from the share of the time in
 * which they counted. Below this one they are not reported: too much would be a guess. */
#define COUNTERS_MIN_SHARE 0.25

/* ---- Opening ---- */

typedef struct counters {
    int fd[COUNTERS_EVENTS];           /* -1: not counted */
    char reason[192];                  /* why nothing is counted; "" */
    char missing[COUNTERS_EVENTS][96]; /* why this event is not, where others are; "" */
} counters;

/* Opens one event for the calling thread, in the group that `group` leads (-1: leads one itself). Returns its
 * file descriptor, or -errno. What it reads has the form of PERF_FORMAT_GROUP with both total times. */
typedef int (*counters_opener)(void *context, int event, int group);

/* Opens the events and calibrates them. Without instructions and cycles there are none; the others may be
 * missing one by one. False with the reason. `opener` NULL is the system's. */
bool counters_open(counters *c, counters_opener opener, void *context);
void counters_close(counters *c);

/* Why an event could not be opened. `paranoid` is the value of /proc/sys/kernel/perf_event_paranoid, or below
 * -1 where it is not readable. `sibling`: others of the group were opened before it. */
void counters_explain(int error, int64_t paranoid, bool sibling, char *text, size_t size);

/* Rounds of the chain of additions that they are calibrated with (machine_add_chain). */
#define COUNTERS_CHAIN_ROUNDS (1 << 15)

/* ---- Reading ---- */

/* Since the events were opened: counts, and for how long they should have counted and have. */
typedef struct counters_reading {
    bool valid;
    uint64_t value[COUNTERS_EVENTS]; /* 0 for those that are not counted */
    uint64_t enabled_ns, running_ns;
} counters_reading;

/* One system call. */
void counters_read(const counters *c, counters_reading *reading);
/* What a read of `bytes` bytes gave: number of events, two times, one value for each that has an fd. Not
 * valid unless it is exactly that. */
void counters_decode(const counters *c, const uint64_t *words, int64_t bytes, counters_reading *reading);

/* ---- Adding up ---- */

/* Over threads and repetitions. All zero at first. */
typedef struct counters_sum {
    double value[COUNTERS_EVENTS]; /* scaled */
    bool counted[COUNTERS_EVENTS];
    double share;     /* of the time in which they counted: the smallest of all that was added */
    double cpu_ns;    /* CPU time of the threads meanwhile */
    double calls;     /* of what was counted */
    char reason[192]; /* why these are no figures; "" */
} counters_sum;

/* Adds what one thread counted between two readings, or notes why that says nothing. */
void counters_add(counters_sum *sum, const counters *c, const counters_reading *before,
                  const counters_reading *after);

/* ---- Judging ---- */

/* Of a chain of `adds` dependent additions: as many instructions, with those of its loop, and about as many
 * cycles; next to no misses. False with the figures in sum->reason, as below. */
bool counters_check_chain(counters_sum *sum, double adds);

typedef struct counters_context {
    double ghz;                   /* effective clock of the threads; 0 unknown */
    double flops;                 /* of all calls; 0 unknown */
    double flops_per_instruction; /* at most; 0 unknown */
} counters_context;
/* Whether figures of a row can be true:
 *  - there are instructions and cycles, at most 16 instructions a cycle, and no more misses than
 * instructions;
 *  - cycles are 0.5 to 1.25 of clock x CPU time, where that is a millisecond or more. The clock may have
 * moved, and what a hypervisor steals and what the kernel does count as CPU time, not as cycles;
 *  - no instruction does more FLOPs than the widest of its ISA level. */
bool counters_check_row(counters_sum *sum, const counters_context *context);

#ifdef __cplusplus
}
#endif

#endif
