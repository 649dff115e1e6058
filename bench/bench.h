/* The harness: rows (what is measured), their instances (what runs) and results (what came out).
 *
 * Order of a run: options -> rows -> predictions -> measurement (Google Benchmark runs the rows) ->
 * results.json and the table. */
#ifndef ATTN_BENCH_H
#define ATTN_BENCH_H

#include "attention/plan.h"
#include "bench/counters.h"
#include "bench/inputs.h"
#include "bench/machine.h"
#include "bench/memory.h"
#include "bench/pool.h"

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_SCHEMA_VERSION 1

enum {
    BENCH_ID_BYTES = 201,  /* with the final 0 */
    BENCH_MAX_LIST = 64,   /* values of an option that may be given several times */
    BENCH_MAX_SIZES = 256, /* lengths in --n */
    BENCH_MAX_ROWS = 20000,
    BENCH_MAX_N = 1 << 24,
    BENCH_MAX_PARTS = 8,                      /* steps an octave */
    BENCH_MAX_BORDERS = MACHINE_CACHE_LEVELS, /* of regimes */
};

/* ---- Kernels (kernel_rows.c, kernel_list.c) ---- */

typedef struct bench_kernel_run {
    const attn_kernels *kernels;
    int64_t n, head_dim, value_dim;
    attn_dtype dtype;
    /* What the kernel wants, NULL for what it does not; 64-byte aligned. */
    float *in, *out;     /* of a row of numbers, or a matrix to be packed; out of matmul and tiles too */
    float *left, *right; /* panels of a matmul */
    float *query, *key, *value; /* panels of a tile */
    float *scratch;             /* of a tile */
    int64_t rows, row;          /* copies of the input that calls consume, and how many are gone */
    uint64_t *bits;
    attn_flash_tile tile;
    float result;
} bench_kernel_run;

typedef struct bench_kernel {
    const char *name, *note;
    bool typed;                                   /* takes storage types other than f32 */
    bool has_head_dim, has_value_dim;             /* beside n: they are in the id */
    double (*flops)(const bench_kernel_run *run); /* NULL: none that count */
    double (*exps)(const bench_kernel_run *run);  /* exponentials; NULL: none */
    double (*bytes)(const bench_kernel_run *run);
    double (*reads)(const bench_kernel_run *run);          /* of the bytes; NULL: half of them */
    double (*touches)(const bench_kernel_run *run);        /* bytes of memory; NULL: as `bytes` */
    bool (*prepare)(bench_kernel_run *run, uint64_t seed); /* false: no memory */
    void (*call)(bench_kernel_run *run);
    double (*checksum)(const bench_kernel_run *run);
    void (*restore)(
        bench_kernel_run *run); /* before every run->rows calls, not timed; NULL: nothing to restore */
} bench_kernel;

extern const bench_kernel bench_kernels[];
extern const int bench_kernel_count;
const bench_kernel *bench_kernel_find(const char *name);
void bench_kernel_free(bench_kernel_run *run);

/* ---- Rows (rows.c) ---- */

typedef enum bench_kind { BENCH_ATTENTION, BENCH_STAGE, BENCH_KERNEL } bench_kind;

/* Times that a row may be measured at: see retake.c. */
#define BENCH_MAX_VISITS 4

typedef struct bench_result {
    bool measured;
    double *samples_ns; /* time of one call: the mean over calls_per_sample */
    int sample_count;
    int64_t calls_per_sample, calls;
    int64_t samples_planned; /* of one repetition */
    double median_ns, min_ns, max_ns, cpu_ns;
    double p05_ns, p25_ns, p75_ns, p95_ns;
    double wall_ns;    /* of all samples, with what ran between them */
    double aimed_ns;   /* what they were to take */
    int64_t stolen_ns; /* from the CPUs of its threads meanwhile, in whole ticks of the kernel; -1 unknown */
    double cpu_share;  /* of their CPUs that the row's threads had, 1 when nothing disturbed them */
    double checksum;   /* sum of the output */
    double checksum_abs;  /* of its absolute values; 0 for a kernel */
    double out_tolerance; /* the largest of those elements that were compared; 0: none was */
    int64_t resident_before, resident_peak; /* bytes of the process; -1 unknown */
    int64_t huge_bytes;                     /* of tensors and workspace, in huge pages; -1 unknown */
    counters_sum counted;                   /* beside the samples; no calls where nothing was */
    double peak_gflops;                     /* of the row's threads, beside the row; 0 unknown */
    double ghz;                             /* likewise; 0 unknown */
    double pct_peak;
    bool above_bandwidth; /* read faster than what it reads from was seen to be read, which others use too */
    int threads_used;     /* that did some of the work */
    int64_t copies;       /* of the tensors, that calls took by turns */
    int order;            /* position in the run */
    int64_t repetitions;  /* that are whole */
    int visits;           /* 0: one, whose median this is */
    double visit_ns[BENCH_MAX_VISITS]; /* the median of each; the samples are those of one of them */
    char date[32];                     /* when the last of them ended, as in 2026-11-30T15:45:32+00:00 */
} bench_result;

/* Something that a row reads, and how much memory is touched from one reading of a byte to the next: the
 * cache that holds so much is where it comes from. */
typedef struct bench_stream {
    double bytes;    /* read in a call, by all threads */
    double own, all; /* touched by one thread, and by all together */
} bench_stream;

enum { BENCH_STREAMS = 2 };

typedef struct bench_row {
    char id[BENCH_ID_BYTES];
    /* What was asked for. */
    bench_kind kind;
    attn_problem problem;
    char pattern[160];
    char block_digest[13]; /* of the pattern's block map; "" without one */
    const char *isa;       /* may be "auto" */
    attn_algorithm algorithm;
    const attn_tuning *tuning; /* that decides for auto; NULL: none */
    int threads;
    bench_data data;
    double cold_bytes; /* that copies of its tensors take at least, which calls use by turns; 0: one copy */
    attn_stage stage;
    const bench_kernel *kernel;
    int64_t n; /* of a kernel */
    char presets[96];
    bool between; /* a half octave that a standard sweep adds where it has the time */
    /* What the plan says (attention and stages), or the kernel. */
    attn_info info;
    double flops_useful, flops_executed, flops_dense;
    double exps;             /* exponentials computed: of softmax, and one in each tanh of a softcap */
    double bytes_compulsory; /* read and written */
    double bytes_read;       /* of them; with the scores of naive, which are read back */
    bench_stream stream[BENCH_STREAMS]; /* of bytes_read: tensors, and scores */
    /* What is expected. */
    double predicted_ns;  /* of one call; 0 when it will not run */
    double overhead_ns;   /* of a call with one query and one key, or one element; 0 unknown */
    double planned_ns;    /* of the whole row, but for what the reference takes: */
    double check_ns;      /* for the row's problem, once */
    int first_of_problem; /* index of the first of all rows of the problem */
    bool check_planned;   /* by bench_plan_check */
    char left_out[128];   /* why the row is not run; "" when it is */
    char error[256];      /* why there is no result; "" when there is one */
    bool faulty;          /* since it says that what was computed or measured cannot be right */
    bench_result result;
    /* Of a file that is resumed. */
    json_t *kept; /* the row as it stands there; NULL when it is not there; owned */
    bool there;   /* nothing is left to measure: `result` is the file's */
} bench_row;

/* Whether the row is to be measured in this run. */
static inline bool bench_row_waits(const bench_row *row) {
    return !*row->left_out && !*row->error && !row->there;
}

/* What the row asks of the library beside its problem. */
static inline attn_options bench_row_options(const bench_row *row) {
    const attn_options options = {row->isa, row->algorithm, row->tuning, row->threads};
    return options;
}

typedef struct bench_rows {
    bench_row *row;
    int count, space;
    /* That rows point to, each with the file it comes from; owned. */
    struct bench_block_map {
        uint8_t *map;
        char *file;
    } * block_map;
    int block_maps;
} bench_rows;

/* ---- Options (options.c, options_library.c, values.c, help.c, cold.c) ---- */

typedef struct bench_list {
    const char *item[BENCH_MAX_LIST];
    int count;
} bench_list;

typedef struct bench_numbers {
    int64_t item[BENCH_MAX_SIZES];
    int count;
} bench_numbers;

typedef struct bench_config {
    bench_list presets, patterns, isas, kernels;
    bench_numbers algorithms, dtypes, data; /* attn_algorithm, attn_dtype, bench_data */
    bench_numbers sizes, threads;
    bool sizes_given;
    int64_t heads, kv_heads, head_dim, value_dim, batch, queries; /* 0: not given */
    float softcap;
    bool alibi, sink_logit;
    bool stages, cold;
    int64_t cache_bytes[MACHINE_CACHE_LEVELS]; /* of the CPU that rows run on; 0 unknown */
    bool standard; /* the standard series (no pattern, algorithm, kernel, preset, stage asked for) */
    const char *out, *tuning_file;
    attn_tuning *tuning; /* what tuning_file holds; owned */
    bool dry_run, list_presets, no_roofline, no_counters, no_bind, resume;
    int64_t seed;
    double budget_s;     /* of the whole sweep; 0: none */
    double checkpoint_s; /* from one writing of the file to the next, at least */
    double spent_s;      /* of it, before the first row; of a dry run: as expected */
    double max_call_s;   /* longer calls are left out; 0: none */
    /* Google Benchmark's, as far as they decide what we do. */
    double min_time_s; /* measuring time of a row; less than was asked for where a budget is short */
    double asked_time_s;
    int64_t fixed_calls;        /* --benchmark_min_time=100x; 0: by time */
    double warm_up_s;           /* at least; below 0: as the row's time says */
    const char *filter;         /* NULL: all */
    bool list_tests, one_call;  /* --benchmark_list_tests, --benchmark_dry_run */
    bool own_table;             /* no --benchmark_format given */
    const char *library_out;    /* --benchmark_out */
    const char *library_format; /* --benchmark_out_format; never NULL */
    int64_t repetitions;        /* --benchmark_repetitions */
    int library_argc;           /* what is passed on; argv[0] first */
    char **library_argv;
} bench_config;

/* Reads the command line. 0: go on; -1: done (help was printed); else an exit code after an error. */
int bench_options(int argc, char **argv, const machine *m, bench_config *config);
void bench_config_free(bench_config *config);
/* Takes an argument that begins with "--benchmark_" (options_library.c). 0, or an exit code. */
int bench_library_option(bench_config *config, char *argument);
/* An error where counters are asked of a library that has none. */
int bench_library_counters(const bench_config *config);
/* A list "A,B,C", the powers of two in "A:B", or P steps an octave in "A:B/P"; values from 1 up. Prints an
 * error. */
bool bench_parse_sizes(const char *option, const char *text, bench_numbers *sizes);
/* "2s", "0.1", and where `calls` is not NULL "100x". Prints an error. */
bool bench_parse_time(const char *option, const char *text, double *seconds, int64_t *calls);
void bench_help(void);

/* What copies of a row's tensors take that no cache holds: twice the last cache, 64 MiB at least; 0 without
 * --cold. */
double bench_cold_bytes(const bench_config *config);

/* ---- Lengths (grid.c) ---- */

/* Adds 2^(k/parts) for k = 0, 1, ... that lie in low..high: to the nearest multiple of 8 where they are no
 * power of two and 32 or more, else to the nearest integer. False when there is none, or no room. */
bool bench_add_steps(int64_t low, int64_t high, int parts, bench_numbers *sizes);
/* Lengths above which what a head works on passes one of the caches (0: unknown), as `working_sets` of the
 * report has them: K and V, n * (D + Dv) * bytes, of a window alone no more than its keys; of naive the
 * scores too, n * queries * 4 (queries 0: n). Ascending. Returns how many there are. */
int bench_borders(const attn_problem *problem, int64_t queries, attn_algorithm algorithm,
                  const int64_t *cache_bytes, double border[BENCH_MAX_BORDERS]);
/* `sizes` (powers of two, ascending), with the half octaves of each regime between two borders that has fewer
 * than four of them. */
void bench_refine(const bench_numbers *sizes, const double *border, int borders, bench_numbers *refined);

/* ---- Making rows (rows.c, counts.c) ---- */

/* All rows that the options ask for, each with its plan's counts or the reason why the library
 * refuses it. 0, or an exit code after an error. */
int bench_rows_make(const bench_config *config, bench_rows *rows);
void bench_rows_free(bench_rows *rows);
/* Adds a row for which kind, problem and what else was asked for are set; fills the rest. A row whose
 * id is there already is dropped. */
int bench_row_add(bench_rows *rows, const bench_row *row);
/* Counts pairs, FLOPs and bytes, or notes in the row why the library refuses it. 0, or an exit code. */
int bench_row_count(bench_row *row);
/* What the kernel of the row is run on, still without operands. */
bench_kernel_run bench_kernel_of_row(const bench_row *row, const attn_kernels *kernels);
/* Counts again by what an execution did, where tensors have their say, as a bias of -inf does. */
void bench_row_recount(bench_row *row, const attn_counts *counts);
/* Writes the stable id; false when it does not fit. */
bool bench_row_id(bench_row *row);
/* Adds `row` (shapes, pattern and queries set) for every algorithm, ISA level, type, thread count
 * and kind of data that the options ask for. */
int bench_expand_row(const bench_config *config, const bench_row *row, bench_rows *rows);

/* ---- Presets (presets.c) ---- */

void bench_presets_print(void);
/* Adds the rows of preset NAME, NAME:prefill or NAME:decode. 0, or an exit code after an error. */
int bench_preset_rows(const bench_config *config, const char *name, bench_rows *rows);

/* ---- Instances (instance.c) ---- */

/* What one thread has done in all calls. Padded: threads count side by side. */
typedef struct bench_share {
    attn_tensors tensors; /* the row's, with `counts` pointing to these */
    attn_counts counts;
    char padding[64];
} bench_share;

/* A row made ready: plan, tensors, workspace. */
typedef struct bench_instance {
    const bench_row *row;
    bench_pool *pool;
    const attn_kernels *kernels;
    attn_plan *plan;
    bench_inputs inputs;
    bench_copies copies; /* of the inputs */
    char *workspace;
    bench_kernel_run kernel_run;
    int threads; /* asked for, and running */
    /* What attn_execute would do on as many threads, done by the pool's. */
    bench_share *share;       /* one a thread, NULL for one thread; owned */
    int64_t step, step_tasks; /* of the call that runs; member 0 writes them */
    int64_t taken;            /* tasks of the step, beside the first of each thread */
    attn_counts counts;       /* of the first call, which does all the work, where the problem has a bias */
    double first_ns;          /* what the first call took, made to see that it works */
    double first_cpu_ns;      /* likewise, of the process' CPU time */
} bench_instance;

/* Whether an instance of the row, which has been counted, fits a machine with this memory (0: unknown); false
 * with the reason in `error`. Refused before the system has to kill us for it. */
bool bench_row_fits(const bench_row *row, int64_t memory_bytes, attn_error *error);
/* False with the reason in `error`. */
bool bench_instance_make(bench_instance *instance, const bench_row *row, bench_pool *pool, uint64_t seed,
                         attn_error *error);
double bench_cpu_now_ns(void);    /* that the process has used */
double bench_thread_now_ns(void); /* that the calling thread has */
/* Runs `calls` calls and returns their time in nanoseconds, all together; for a stage the time of that
 * stage alone. */
int64_t bench_instance_run(bench_instance *instance, int64_t calls);
/* Threads that have visited a tile since the instance was made: counted, not asked for. Kernels and stages
 * run on the calling thread. */
int bench_instance_threads_used(const bench_instance *instance);
/* Of the output; not finite when something went wrong. *sum_abs is the sum of absolute values, 0 for a
 * kernel. */
double bench_instance_checksum(bench_instance *instance, double *sum_abs);
enum { BENCH_PIECES = 5 };
/* What it holds in memory: tensors and workspace; none of a kernel. Returns how many. */
int bench_instance_pieces(const bench_instance *instance, memory_piece pieces[BENCH_PIECES]);
void bench_instance_free(bench_instance *instance);

/* ---- Predictions (predict.c) ---- */

enum { BENCH_SAMPLES = 7, BENCH_SAMPLES_SLOW = 5, BENCH_SAMPLES_LEAST = 3, BENCH_MAX_SAMPLES = 256 };
/* Beside a row's calls and looks at the peak: data, plan, and looking at the output. */
#define BENCH_AROUND_ROW_NS 2e6
/* A look takes this much more than it is given, and the clock before and after it. */
#define BENCH_LOOK_NS 0.5e6
/* Calls of this length are warm after one; and the first is worth a sample. */
#define BENCH_WARM_CALL_NS 10e6
#define BENCH_FIRST_COUNTS_NS 20e6
/* What surrounds a row follows the time it is given, so that it stays a tenth of it: warm-up, unless it was
 * asked for, and the look at the peak on each side. */
double bench_warm_up_s(const bench_config *config, double min_time_s);
double bench_peak_ms(const bench_config *config);
double bench_look_ns(const bench_config *config); /* that it takes, with the clock */
/* How often a call of `call_ns` is measured at least, and what a row takes with all around it. */
int bench_min_samples(double call_ns);
/* Of one repetition, but for what the reference takes. */
double bench_row_ns(const bench_config *config, const bench_row *row);

/* Measures small instances of what will run and predicts every row's time from them, leaves out what
 * takes too long, and fits the rest into the budget: first by less time a row (config->min_time_s),
 * then by leaving out what takes longest. */
void bench_predict(bench_config *config, bench_rows *rows, bench_pool *pool, int64_t started_ns);
/* The last of these steps, for rows whose time a call is known and config->spent_s: sets planned_ns, lowers
 * config->min_time_s and leaves rows out until bench_planned_s is within config->budget_s. */
void bench_fit_budget(bench_config *config, bench_rows *rows);
/* Seconds that all rows will take, and what comes before them. */
double bench_planned_s(const bench_config *config, bench_rows *rows);
/* What the reference takes for the row's problem: of the rows that are asked about since bench_begin_checks
 * the first of each problem waits for it, and 0 is said of the others. */
void bench_begin_checks(bench_rows *rows);
double bench_plan_check(bench_rows *rows, const bench_row *row);
/* Lists rows, predicted times, what is left out and the total. */
int bench_dry_run(const bench_config *config, bench_rows *rows);

#ifdef __cplusplus
}
#endif

#endif
