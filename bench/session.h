/* One run of the harness: what the rows share while they are measured, and what is known afterwards. */
#ifndef ATTN_BENCH_SESSION_H
#define ATTN_BENCH_SESSION_H

#include "bench/bench.h"
#include "bench/roofline.h"

#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Change of the first row, when repeated at the end, from which on the machine is said to drift. */
#define BENCH_DRIFT 0.03
/* A row that is faster than its peak or bandwidth by more than this was not measured, whatever the samples
 * say. */
#define BENCH_FAULT_PCT 105
/* By how much of itself a budget may be exceeded, apart from the call that is running then and the look at
 * its output. */
#define BENCH_BUDGET_EXCESS 0.05

/* What a file that is resumed holds beside the rows asked for. All NULL and 0 where none is. */
typedef struct bench_resumed {
    json_t *context; /* owned */
    json_t *others;  /* rows that are not asked for now; owned */
    int sessions;    /* that it went through before this one */
    int rows;        /* asked for and there */
} bench_resumed;

/* The hardware counters of the pool's threads (counting.c). */
typedef struct bench_counting bench_counting;

/* What the reference computes for some queries of each problem (expected.c). */
typedef struct bench_expected bench_expected;
typedef struct bench_expectations {
    bench_expected *item; /* owned */
    int count;
    double spent_ns; /* by the reference, once for each problem */
} bench_expectations;

/* Where the time of the rows goes. */
typedef enum bench_part {
    BENCH_PREPARING, /* plan, data, workspace, the call that checks */
    BENCH_PEAKS,
    BENCH_WARM_UP,
    BENCH_SAMPLING,
    BENCH_COUNTING, /* reading hardware counters around the samples */
    BENCH_CHECKING, /* of the output, and taking the row down */
    BENCH_PARTS
} bench_part;

typedef struct bench_session {
    bench_config *config;
    bench_resumed resumed;
    const machine *host;
    bench_rows *rows;
    bench_pool *pool;
    bench_counting *counting; /* owned; NULL before the first row */
    roofline *limits;         /* measured before the sweep, for each number of threads; owned */
    int limits_count;
    bench_expectations expected;

    /* The order of the run; the last may be the first again, in `again`. */
    bench_row **order;
    int order_count;
    bench_row again;   /* its result.measured tells whether it was run */
    int done;          /* of them, begun and ended; counts repetitions */
    double planned_ns; /* time planned for all of them, and for those that are done */
    double done_ns;
    /* Time a row (config->min_time_s) as planned, and the least that one was given; 0 before the first. */
    double plan_time_s, least_time_s;
    double predicted_calls_ns, seen_calls_ns;         /* by bench_budget_note */
    int64_t started_ns;                               /* of the program */
    int64_t measuring_ns;                             /* of the first row */
    int threads_made;                                 /* of the pool */
    void (*after_row)(struct bench_session *session); /* called between rows, with what is measured so far */
    void *after_row_context;
    double part_ns[BENCH_PARTS];
    double rows_ns;    /* of all rows, from begin to end; 0 while they run */
    char no_peak[128]; /* why no row has a peak of resident memory; "" */

    /* FMA peaks measured beside rows: the best of all, by index of attn_isa_name, one thread. */
    double best_peak[ROOFLINE_MAX_ISA];
    json_t *library_context;   /* Google Benchmark's own context; owned */
    const char *library_error; /* why its file is not whole; NULL: it is */

    /* The row being measured. */
    bench_instance instance;
    int64_t sample_calls, sample_count;
    double aimed_ns;   /* what the samples are to take */
    bool first_counts; /* as a sample: the call that was made to see that the row works */
    double peak_gflops, ghz;
} bench_session;

/* ---- session.c ---- */

/* Chooses the order (seeded), and the first row again at the end where there are several. */
bool bench_session_order(bench_session *session);
/* Limits for every number of threads that rows use. */
bool bench_session_limits(bench_session *session);

/* Set by the handler of SIGINT, SIGTERM and SIGHUP: measurement winds up. */
extern volatile sig_atomic_t bench_interrupted;
/* Catches them until the program ends; a second SIGINT or SIGTERM ends it at once. */
void bench_catch_signals(void);

/* ---- measure.c ---- */

/* The three steps of a row. Begin makes it ready, warms up and chooses the samples; it returns how
 * many calls there will be, 0 with the reason in row->error, which is empty when interrupted. */
int64_t bench_measure_begin(bench_session *session, bench_row *row);
void bench_measure_samples(bench_session *session, bench_row *row);
/* Returns the median, or 0 as above. */
double bench_measure_end(bench_session *session, bench_row *row);

/* ---- budget.c ---- */

/* Before a row of session->order, and again once it is known what its calls take (call_ns; 0: as predicted):
 * sets config->min_time_s so that all that are left fit into the budget, or is false, and row->left_out says
 * that this one does not. True without a budget, and for a row that has been measured. */
bool bench_budget_turn(bench_session *session, bench_row *row, double call_ns, int64_t now_ns);
/* Notes how long the calls of a row took; what the latest notes say together of calls beside their
 * predictions, 1 at least. */
void bench_budget_note(bench_session *session, const bench_row *row, double call_ns);
double bench_slower(const bench_session *session);
/* When measuring ends whatever is left; infinite without a budget. */
double bench_budget_end_ns(const bench_session *session);
/* So many of `least` samples as fit before that, three at least. */
int64_t bench_budget_samples(const bench_session *session, double call_ns, int64_t least, int64_t now_ns);
/* Whether a row that has taken so many samples since begun_ns has to stop there: nothing is left, and it is
 * left out where they are too few; or they took twice their time, and are enough. */
bool bench_budget_is_over(const bench_session *session, bench_row *row, int64_t taken, int64_t begun_ns,
                          int64_t now_ns);

/* ---- beside.c ---- */

/* The FMA peak of the row's ISA level on its threads, and the mean of their clocks: notes the larger of the
 * peaks in session->peak_gflops and the mean of the clocks in session->ghz. */
void bench_take_peak(bench_session *session, double milliseconds);
/* What the row's threads read together of the working set that bounds the row, noted in its limits. */
void bench_take_bandwidth(bench_session *session, const bench_row *row);
/* What a hypervisor has taken so far from the CPUs that the row's threads are bound to; -1 unknown, also
 * where one of them is not bound. */
int64_t bench_stolen_now(const bench_session *session);
/* Of threads times wall time: CPU time, or if that is less what was not stolen, since some kernels count that
 * as CPU time. A tick of each CPU may have begun before the samples. */
double bench_share_of_cpus(const bench_result *r, int threads);

/* ---- counting.c ---- */

/* Opens the counters of all threads of the pool, or notes why there are none; false without memory. `opener`
 * as for counters_open, called by every thread. */
bool bench_counting_start(bench_session *session, counters_opener opener, void *context);
void bench_counting_free(bench_session *session);
/* Around the samples of a row, which are `calls` calls. */
void bench_counting_begin(bench_session *session, const bench_row *row);
void bench_counting_end(bench_session *session, bench_row *row, int64_t calls);
/* Once the row's clock is known, and before its instance goes. */
void bench_counting_judge(const bench_session *session, bench_row *row);
/* What the file says: of a row (NULL where nothing was counted), and of the session. */
json_t *bench_counting_row(const bench_row *row);
json_t *bench_counting_context(const bench_session *session);

/* ---- retake.c ---- */

/* Measures rows once more that look slowed down, as far as a part of the time that all took allows. */
void bench_retake(bench_session *session);
/* Whether the row's own figures say so; `best_ghz` is the best clock beside any row. */
bool bench_looks_slowed(const bench_row *row, double best_ghz);
/* Notes a visit of a row, and makes it the row's result where it is the faster one, or as fast and the
 * sounder one; true if so. The other one's samples are then the visit's. A fault of the visit is the row's.
 */
bool bench_take_visit(bench_row *row, bench_row *visit);

/* ---- judge.c ---- */

/* Says that what a row computed, or its time, cannot be right: it is no result then, whatever other visits
 * say. The fault that was found first is the one that row->error tells. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void bench_fault(bench_row *row, const char *format, ...);
/* Of a row whose samples are taken and whose instance still stands, with the peaks beside it in `session`:
 * checks its output, then what it says of its time, up to the first error; result.measured tells whether
 * there is none, and the result is whole then. Of the repeated first row it also checks that it computed the
 * same again. */
void bench_judge(bench_session *session, bench_row *row);
/* The part of it about speed, for a row whose median is known: by the peak beside it and the limits. Faster
 * than possible is a fault. Perhaps it was the limit that something disturbed: before that is said, it looks
 * once more, longer. What a last cache and memory give changes with what others take from it: a row that is
 * above is only flagged. Sets result.peak_gflops and above_bandwidth. */
void bench_judge_speed(bench_session *session, bench_row *row);

/* 100 * useful FLOPs per second over peak; 0 where either is unknown. */
double bench_pct_peak(const bench_row *row);
/* How long a row needs at least to read what it has to: each stream at the rate of the smallest level of
 * memory that holds its working set. What is written flows beside what is read: counting both would pass 100
 * % where they overlap. */
typedef struct bench_reading {
    bool known;   /* else the limits were not measured */
    int level;    /* from which most of that time is spent on reading */
    double bytes; /* the working set read from there, per thread */
    double ns;
} bench_reading;
bench_reading bench_row_reading(const bench_session *session, const bench_row *row);
/* The level that a stream comes from on so many threads, and the working set per thread there. */
int bench_level_of(const roofline *r, const bench_stream *s, int threads, double *bytes);
/* That time in percent of the row's; 0 where nothing is known or nothing read. */
double bench_pct_bandwidth(const bench_session *session, const bench_row *row, int *level);
/* Notes that the row's threads have read that working set at `gbs`; false where limits were not measured. */
bool bench_raise_bandwidth(bench_session *session, const bench_row *row, double gbs);
/* Whether nobody else can change what the row is compared with: to be above it is a fault of measurement. */
bool bench_bandwidth_is_fixed(const bench_session *session, const bench_row *row);

/* What three limits would take of the row's time at least, in percent: executed FLOPs at the peak and
 * exponentials at their best rate; the bytes it has to read, at the bandwidth of `level`; what a call costs
 * with next to no work. */
typedef struct bench_shares {
    double compute, bandwidth, overhead;
    int level;
} bench_shares;
/* False where the limits were not measured. */
bool bench_shares_of(const bench_session *session, const bench_row *row, bench_shares *shares);

/* Whether other work took CPU time from a row's threads while it was measured, and how many rows were so. */
bool bench_disturbed(const bench_row *row);
int bench_count_disturbed(const bench_rows *rows);
/* Rows that this run has measured. */
int bench_count_measured(const bench_rows *rows);
/* What was stolen from the CPUs of this run's rows while they were measured, and its share of their time;
 * false where that is not known of all of them. */
bool bench_stolen(const bench_session *session, double *stolen_ns, double *share);
/* Relative change of the first row when repeated; false when there is none. */
bool bench_drift(const bench_session *session, double *change);

/* ---- expected.c ---- */

/* Turns the row into an error if queries of its output are not what the reference makes of them, to rounding;
 * what that is, is computed once a problem. `seed` draws the queries. Notes result.out_tolerance. */
void bench_check_output(bench_expectations *known, const bench_instance *instance, uint64_t seed,
                        bench_row *row);
/* Elements of keys and values that the reference looks at for the row's problem; 0 where nothing is compared.
 * What one takes, from a small problem now. */
double bench_check_elements(const bench_row *row);
double bench_check_element_ns(void);
void bench_expectations_free(bench_expectations *known);

/* ---- checksums.c ---- */

/* The id that all rows of one problem share. */
void bench_problem_id(const bench_row *row, char id[BENCH_ID_BYTES]);

/* Turns the row into an error if its output's sum is not to the bit what it was before. */
void bench_check_repeat(bench_row *row, double checksum);
/* How far apart the sums of two implementations of the row's problem may be. */
double bench_checksum_tolerance(const bench_row *row);
/* Rows of one problem whose sums differ by more from those of the first of them, as an array of objects; NULL
 * without memory. */
json_t *bench_checksums_differ(const bench_rows *rows);

/* ---- resume.c, resume_rows.c ---- */

/* Reads config->out, refuses what does not fit (another machine, build, or settings that decide how a row is
 * measured), and marks the rows that are there. A file that is not there is begun anew. 0, or an exit code
 * after an error. */
int bench_resume(bench_session *session);
/* The rows of such a file (resume_rows.c): refuses what `attnscope analyze` would, and notes in session->rows
 * those that are there, the others in session->resumed. 0, or an exit code after an error. */
int bench_resume_rows(bench_session *session, json_t *list);
bench_row *bench_find_row(const bench_rows *rows, const char *id); /* NULL: none has that id */
void bench_resumed_free(bench_resumed *resumed);
/* Puts what the resumed file's context says of earlier sessions into the new one. */
void bench_resume_context(const bench_session *session, json_t *context);

/* ---- runner.cc: Google Benchmark ---- */
/* Hands the library its options, false after an error message. `library_out` is where it writes its own file;
 * NULL for nowhere. */
bool bench_runner_options(bench_config *config, const char *library_out);
/* Registers and runs every row of session->order. */
void bench_runner_run(bench_session *session);
/* "1.7.1", from the build. */
const char *bench_runner_version(void);

/* ---- progress and table (table.c) ---- */
void bench_progress(const bench_session *session, const bench_row *row);
/* A figure of the roofline is about to be measured. */
void bench_progress_limits(void *context, const char *figure);
void bench_progress_clear(void);
void bench_table(const bench_session *session);
void bench_warnings(const bench_session *session);

/* ---- The file (results.c, context.c, context_session.c, context_names.c, fields.c) ---- */

/* The whole file; NULL when there is no memory. */
json_t *bench_results(const bench_session *session);
json_t *bench_context(const bench_session *session);
/* What a file must have in common with this run to be resumed by it: an object of "name": value. */
json_t *bench_conditions(const bench_session *session);
/* Whether --benchmark_context names only what the file does not say itself; prints an error where not. */
bool bench_context_accepts(const bench_config *config);
/* What holds for this session alone. */
json_t *bench_context_session(const bench_session *session);
/* Sets a number that is finite, or nothing; a text that is not empty, or nothing. */
void bench_set_real(json_t *object, const char *key, double value);
void bench_set_text(json_t *object, const char *key, const char *value);
void bench_set_integer(json_t *object, const char *key, int64_t value);

#ifdef __cplusplus
}
#endif

#endif
