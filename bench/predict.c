/* What rows will take, from small instances of the same work measured just now: FLOPs over peak would
 * not know that the scalar level is bound by other things than the vector levels are. */
#include "bench/session.h"
#include "common/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_QUERIES = 256, SMALL_KEYS = 512, SMALL_N = 256 };

/* Before the first row: the roofline of one number of threads. */
static const double roofline_ns = 2.5e9;

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The unit in which a row's time is taken to grow. */
static double weight(const bench_row *row) {
    if (row->kind == BENCH_KERNEL)
        return row->flops_executed > 0 ? row->flops_executed : row->bytes_compulsory;
    /* Rows cost something even where they attend little. */
    const attn_problem *p = &row->problem;
    return (double)row->info.pairs_executed + 8.0 * (double)(p->batch * p->heads * p->queries);
}

static void shrink(bench_row *row) {
    attn_problem *p = &row->problem;
    row->threads = 1;
    row->cold_bytes = 0;
    row->n = smaller(row->n, SMALL_N);
    p->batch = p->heads = p->kv_heads = 1;
    p->queries = smaller(p->queries, SMALL_QUERIES);
    p->keys = smaller(p->keys, SMALL_KEYS);
    /* A block map fits no other shape. */
    p->pattern.terms &= ~(uint32_t)ATTN_BLOCKS;
    if (row->kind == BENCH_STAGE)
        row->stage = ATTN_STAGE_PV; /* runs all before it */
}

/* Time of a call on this thread, all stages included; of its CPU, so that other work beside it does not
 * decide which rows there are. */
static double time_call(bench_instance *instance) {
    const double start = bench_thread_now_ns();
    bench_instance_run(instance, 1);
    return fmax(1, bench_thread_now_ns() - start);
}

/* Nanoseconds per unit of weight; 0 with the reason in row->error. */
static double calibrate(bench_row *row, bench_pool *pool) {
    attn_error error;
    bench_instance instance;
    if (bench_row_count(row) != 0 || *row->error)
        return 0;
    if (!bench_instance_make(&instance, row, pool, 1, &error)) {
        snprintf(row->error, sizeof row->error, "%s", error.text);
        return 0;
    }
    double best = time_call(&instance), total = 0;
    /* At least four: the first finds nothing in the caches. */
    for (int i = 0; i < 3 || (i < 20 && total < 3e6); i++) {
        const double now = time_call(&instance);
        total += now;
        best = fmin(best, now);
    }
    bench_instance_free(&instance);
    return best / weight(row);
}

/* Nanoseconds that a call takes with one query and one key, or one element: what does not grow with them. */
static double calibrate_overhead(bench_row *row, bench_pool *pool) {
    enum { CALLS = 16, ROUNDS = 8 };
    attn_error error;
    bench_instance instance;
    if (bench_row_count(row) != 0 || *row->error || !bench_instance_make(&instance, row, pool, 1, &error))
        return 0;
    bench_pool_start(pool, row->threads);
    double best = INFINITY, total = 0;
    for (int i = 0; i < ROUNDS && total < 1e6; i++) {
        const double now = (double)bench_instance_run(&instance, CALLS);
        total += now;
        best = fmin(best, now / CALLS);
    }
    bench_pool_stop(pool);
    bench_instance_free(&instance);
    return best;
}

typedef struct calibration {
    char id[BENCH_ID_BYTES];
    double ns;
} calibration;

/* What `measure` says of the row, asked once for each id. */
static double recall(bench_row *row, bench_pool *pool, double (*measure)(bench_row *, bench_pool *),
                     calibration *known, int *count) {
    bench_row_id(row);
    for (int i = 0; i < *count; i++) {
        if (strcmp(known[i].id, row->id) == 0)
            return known[i].ns;
    }
    calibration *added = &known[(*count)++];
    memcpy(added->id, row->id, sizeof added->id);
    added->ns = measure(row, pool);
    return added->ns;
}

static double rate(const bench_row *row, bench_pool *pool, calibration *known, int *count) {
    bench_row small = *row;
    shrink(&small);
    return recall(&small, pool, calibrate, known, count);
}

static double overhead(const bench_row *row, bench_pool *pool, calibration *known, int *count) {
    bench_row tiny = *row;
    tiny.cold_bytes = 0;
    tiny.n = tiny.problem.queries = tiny.problem.keys = 1;
    tiny.problem.pattern.terms &= ~(uint32_t)ATTN_BLOCKS;
    return recall(&tiny, pool, calibrate_overhead, known, count);
}

double bench_warm_up_s(const bench_config *config, double min_time_s) {
    return config->warm_up_s >= 0 ? config->warm_up_s : fmin(0.02, fmax(0.001, 0.04 * min_time_s));
}

double bench_peak_ms(const bench_config *config) {
    return fmin(4, fmax(0.5, 6 * config->min_time_s));
}

double bench_look_ns(const bench_config *config) {
    const double peak_ms = bench_peak_ms(config);
    return (peak_ms + 2 * fmin(1, peak_ms / 1.5)) * 1e6 + BENCH_LOOK_NS;
}

int bench_min_samples(double call_ns) {
    return call_ns < 0.3e9 ? BENCH_SAMPLES : BENCH_SAMPLES_SLOW;
}

double bench_row_ns(const bench_config *config, const bench_row *row) {
    const double call = row->predicted_ns;
    const attn_problem *p = &row->problem;
    const double elements =
        row->kind == BENCH_KERNEL
            ? row->bytes_compulsory / 4
            : (double)p->batch * ((double)(p->heads * p->queries) + (double)(p->kv_heads * p->keys)) *
                      (double)(p->head_dim + p->value_dim) +
                  (double)row->info.workspace_bytes / 8;
    const double sampling = config->one_call ? call
                            : config->fixed_calls
                                ? (double)config->fixed_calls * call
                                : fmax(config->min_time_s * 1e9, bench_min_samples(call) * call);
    const double looks = 2 * bench_look_ns(config);
    const double warm_up = bench_warm_up_s(config, config->min_time_s) * 1e9;
    /* The first call checks and warms up; short ones are followed by more, long ones are a sample. */
    double before = fmax(fmax(call, warm_up), fmin(3 * call, BENCH_WARM_CALL_NS));
    if (call >= BENCH_FIRST_COUNTS_NS && row->kind == BENCH_ATTENTION && row->threads == 1)
        before = fmax(0, warm_up - call);
    return BENCH_AROUND_ROW_NS + looks + 4 * elements + row->cold_bytes + before + sampling;
}

void bench_begin_checks(bench_rows *rows) {
    for (int i = 0; i < rows->count; i++)
        rows->row[i].check_planned = false;
}

double bench_plan_check(bench_rows *rows, const bench_row *row) {
    bench_row *first = &rows->row[row->first_of_problem];
    const double ns = first->check_planned ? 0 : first->check_ns;
    first->check_planned = true;
    return ns;
}

double bench_planned_s(const bench_config *config, bench_rows *rows) {
    double total = 0, checks = 0;
    bench_begin_checks(rows);
    for (int i = 0; i < rows->count; i++) {
        const bench_row *row = &rows->row[i];
        if (!bench_row_waits(row))
            continue;
        total += row->planned_ns;
        checks += bench_plan_check(rows, row);
    }
    return config->spent_s + ((double)config->repetitions * total + checks) / 1e9;
}

/* What a run spends before its first row. */
static double expect_spent_s(const bench_config *config, const bench_rows *rows) {
    int rooflines = 0;
    for (int i = 0; i < rows->count && !config->no_roofline; i++) {
        bool first = bench_row_waits(&rows->row[i]);
        for (int k = 0; k < i; k++)
            first =
                first && (!bench_row_waits(&rows->row[k]) || rows->row[k].threads != rows->row[i].threads);
        rooflines += first;
    }
    return rooflines * roofline_ns / 1e9;
}

static void plan_rows(const bench_config *config, bench_rows *rows) {
    for (int i = 0; i < rows->count; i++) {
        bench_row *row = &rows->row[i];
        row->planned_ns = bench_row_waits(row) ? bench_row_ns(config, row) : 0;
    }
}

/* Less time for each row, down to `least` seconds, until the rows fit. */
static void shorten_rows(bench_config *config, bench_rows *rows, double least) {
    while (bench_planned_s(config, rows) > config->budget_s && config->min_time_s > least) {
        config->min_time_s = fmax(least, 0.8 * config->min_time_s);
        plan_rows(config, rows);
    }
}

/* Fewer rows, the longest first, until they fit; half octaves only, or any. */
static void leave_out_rows(const bench_config *config, bench_rows *rows, bool between_only) {
    while (bench_planned_s(config, rows) > config->budget_s) {
        bench_row *longest = NULL;
        for (int i = 0; i < rows->count; i++) {
            bench_row *row = &rows->row[i];
            if (bench_row_waits(row) && (row->between || !between_only) &&
                (!longest || row->planned_ns > longest->planned_ns))
                longest = row;
        }
        if (!longest)
            return;
        snprintf(longest->left_out, sizeof longest->left_out,
                 "would take %.3g s of a budget of %g s, of which %.3g s go before the first row",
                 (double)config->repetitions * longest->planned_ns / 1e9, config->budget_s, config->spent_s);
    }
}

void bench_fit_budget(bench_config *config, bench_rows *rows) {
    /* Half the time a row makes its interval 1.4 times wider, which points between the powers of two are
     * worth; below a third, calls of a few milliseconds would fall short of their samples. */
    const double half = config->min_time_s / 2, third = config->min_time_s / 3;
    plan_rows(config, rows);
    shorten_rows(config, rows, half);
    leave_out_rows(config, rows, true);
    shorten_rows(config, rows, third);
    leave_out_rows(config, rows, false);
}

/* Which rows are of one problem, and what the reference takes for it, once. */
static void plan_checks(bench_rows *rows) {
    const double element_ns = bench_check_element_ns();
    char(*id)[BENCH_ID_BYTES] = calloc((size_t)rows->count + 1, sizeof *id);
    for (int i = 0; id && i < rows->count; i++) {
        bench_row *row = &rows->row[i];
        int first = 0;
        bench_problem_id(row, id[i]);
        while (strcmp(id[first], id[i]) != 0)
            first++;
        row->first_of_problem = first;
        row->check_ns = element_ns * bench_check_elements(row);
    }
    free(id);
}

void bench_predict(bench_config *config, bench_rows *rows, bench_pool *pool, int64_t started_ns) {
    calibration *known = calloc(2 * (size_t)rows->count + 1, sizeof *known);
    int count = 0;
    for (int i = 0; known && i < rows->count && !bench_interrupted; i++) {
        bench_row *row = &rows->row[i];
        if (!bench_row_waits(row))
            continue;
        row->overhead_ns = overhead(row, pool, known, &count);
        row->predicted_ns = rate(row, pool, known, &count) * weight(row) / row->threads;
        /* The matrix of scores, once it has left the caches, comes from memory for every stage. */
        if (row->info.algorithm == ATTN_NAIVE && row->info.workspace_bytes > 4 << 20)
            row->predicted_ns *= 1.3;
        if (config->max_call_s > 0 && row->predicted_ns > config->max_call_s * 1e9)
            snprintf(row->left_out, sizeof row->left_out,
                     "predicted %.3g s a call, more than %g s (--max-call)", row->predicted_ns / 1e9,
                     config->max_call_s);
    }
    free(known);
    plan_checks(rows);
    config->spent_s =
        config->dry_run ? expect_spent_s(config, rows) : (double)(machine_now_ns() - started_ns) / 1e9;
    if (config->budget_s > 0)
        bench_fit_budget(config, rows);
    plan_rows(config, rows);
}

int bench_dry_run(const bench_config *config, bench_rows *rows) {
    int left_out = 0, failing = 0, there = 0;
    printf("%12s %9s  %s\n", "ms a call", "s in all", "row");
    for (int i = 0; i < rows->count; i++) {
        const bench_row *row = &rows->row[i];
        left_out += *row->left_out != 0;
        failing += *row->error != 0;
        there += row->there;
        if (*row->error)
            printf("%12s %9s  %s\n%24s(refused: %s)\n", "-", "-", row->id, "", row->error);
        else if (*row->left_out)
            printf("%12.4g %9s  %s\n%24s(left out: %s)\n", row->predicted_ns / 1e6, "-", row->id, "",
                   row->left_out);
        else if (row->there)
            printf("%12.4g %9s  %s\n%24s(in the file already)\n", row->result.median_ns / 1e6, "-", row->id,
                   "");
        else
            printf("%12.4g %9.2f  %s\n", row->predicted_ns / 1e6, row->planned_ns / 1e9, row->id);
    }
    const int runnable = rows->count - left_out - failing;
    printf("%d row%s, %d left out, %d refused", runnable, runnable == 1 ? "" : "s", left_out, failing);
    if (config->resume)
        printf(", %d in the file", there);
    printf("; predicted %.0f s", bench_planned_s(config, rows));
    printf(config->budget_s > 0 ? " of a budget of %g s\n" : "\n", config->budget_s);
    return runnable;
}
