/* The program behind `attnscope bench`. */
#include "bench/session.h"
#include "common/cli.h"
#include "common/output.h"

#include <math.h>
#ifdef __GLIBC__
#    include <malloc.h>
#endif
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Keeps the rows whose id the expression matches, or with a '-' before it those that it does not, as
 * the library does with its own names. */
static int apply_filter(const char *filter, bench_rows *rows) {
    if (!filter || !*filter || strcmp(filter, "all") == 0)
        return 0;
    const bool negative = *filter == '-';
    regex_t expression;
    const int status = regcomp(&expression, filter + negative, REG_EXTENDED | REG_NOSUB);
    if (status != 0) {
        char text[128];
        regerror(status, &expression, text, sizeof text);
        return cli_error("--benchmark_filter '%s': %s", filter, text);
    }
    int kept = 0;
    for (int i = 0; i < rows->count; i++) {
        if ((regexec(&expression, rows->row[i].id, 0, NULL, 0) == 0) != negative)
            rows->row[kept++] = rows->row[i];
    }
    regfree(&expression);
    rows->count = kept;
    return kept > 0 ? 0 : cli_error("--benchmark_filter '%s' matches no row", filter);
}

static int most_threads(const bench_rows *rows) {
    int most = 1;
    for (int i = 0; i < rows->count; i++) {
        if (bench_row_waits(&rows->row[i]) && rows->row[i].threads > most)
            most = rows->row[i].threads;
    }
    return most;
}

/* Before anything is planned or promised for them. */
static void refuse_too_large(bench_rows *rows, const machine *m) {
    for (int i = 0; i < rows->count; i++) {
        bench_row *row = &rows->row[i];
        attn_error error;
        if (bench_row_waits(row) && !bench_row_fits(row, m->memory_bytes, &error))
            snprintf(row->error, sizeof row->error, "%s", error.text);
    }
}

/* Where all that was asked for is refused, by the library or for its memory, there is nothing to run: that is
 * an error of usage, as in `eval`. Beside rows that can be measured a refused one is a row without a time. */
static int check_refused(const bench_rows *rows) {
    for (int i = 0; i < rows->count; i++) {
        if (!*rows->row[i].error)
            return 0;
    }
    return rows->count == 0 ? 0
                            : cli_error("refused%s: %s: %s", rows->count > 1 ? ", as all rows are" : "",
                                        rows->row[0].id, rows->row[0].error);
}

static void say_binding(const bench_session *session) {
    for (int i = 0; i < session->threads_made; i++) {
        const machine_binding *binding = bench_pool_binding(session->pool, i);
        if (binding->bound)
            fprintf(stderr, "thread %d bound to CPU %d\n", i, binding->os_index);
        else
            fprintf(stderr, "thread %d not bound%s%s\n", i, *binding->reason ? ": " : "", binding->reason);
    }
}

typedef struct outputs {
    cli_output results, library; /* --out, --benchmark_out */
} outputs;

/* Both are checked before minutes are spent on what could not be kept. The library opens its file by name: an
 * empty one is made for it to write into. */
static bool prepare_outputs(const bench_config *config, const bench_rows *rows, outputs *o) {
    if (!cli_output_prepare(&o->results, "out", config->out) ||
        !cli_output_prepare(&o->library, "benchmark_out", config->library_out) ||
        !cli_output_differs(&o->results, &o->library) ||
        (config->tuning_file && (!cli_output_spares(&o->results, config->tuning_file) ||
                                 !cli_output_spares(&o->library, config->tuning_file))))
        return false;
    for (int i = 0; i < rows->block_maps; i++) {
        if (!cli_output_spares(&o->results, rows->block_map[i].file) ||
            !cli_output_spares(&o->library, rows->block_map[i].file))
            return false;
    }
    return cli_output_open(&o->library);
}

static bool write_results(const bench_session *session, cli_output *output) {
    if (!output->path)
        return true;
    json_t *results = bench_results(session);
    char *text = results ? json_dumps(results, JSON_INDENT(1) | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(results);
    if (!text) {
        cli_error("not enough memory for the results");
        return false;
    }
    const bool written = cli_output_open(output) && cli_output_write(output, text, strlen(text)) &&
                         cli_output_write(output, "\n", 1) && cli_output_close(output) &&
                         cli_output_commit(output);
    free(text);
    if (!written)
        cli_output_discard(output);
    return written;
}

/* A run that measured nothing, for whatever reason, has nothing that were worth more than the files of the
 * last one. */
static bool worth_keeping(const bench_session *session) {
    return bench_count_measured(session->rows) > 0;
}

typedef struct checkpoint {
    outputs *outputs;
    int64_t written_ns;
} checkpoint;

/* The file as an interruption would leave it: whole, marked incomplete, for --resume to go on with. It is
 * what a kill or a power cut leaves. */
static void write_checkpoint(bench_session *session) {
    checkpoint *c = session->after_row_context;
    const int64_t now = machine_now_ns();
    if (bench_interrupted || (double)(now - c->written_ns) < session->config->checkpoint_s * 1e9 ||
        !worth_keeping(session))
        return;
    c->written_ns = now;
    cli_output output;
    if (c->outputs->results.path && cli_output_prepare(&output, "out", c->outputs->results.path))
        write_results(session, &output);
}

static void say_interrupted(const bench_session *session, const outputs *o) {
    int wanted = 0;
    for (int i = 0; i < session->rows->count; i++)
        wanted += !*session->rows->row[i].left_out;
    const char *place = o->results.path ? o->results.path : o->library.path;
    const bool kept = worth_keeping(session);
    fprintf(stderr, "attnscope bench: interrupted: %d of %d rows measured%s%s\n",
            bench_count_measured(session->rows) + session->resumed.rows, wanted,
            !place ? ""
            : kept ? ", written to "
                   : ", nothing written",
            place && kept ? place : "");
}

/* Of a run that has, or of a dry run that would have, a time for so many rows. */
static int exit_code(const bench_rows *rows, int with_time) {
    if (bench_interrupted)
        return 128 + (int)bench_interrupted;
    for (int i = 0; i < rows->count; i++) {
        if (*rows->row[i].error)
            return CLI_UNMEASURED;
    }
    return with_time > 0 ? CLI_FINE : CLI_UNMEASURED;
}

static bool library_wrote(const bench_session *session, const outputs *o) {
    if (session->library_error)
        cli_error("cannot write %s: %s", o->library.path, session->library_error);
    return !session->library_error;
}

static int finish(const bench_session *session, outputs *o) {
    bench_progress_clear();
    /* The results come first: they are kept even where the table finds no room. */
    const bool written =
        !worth_keeping(session) || (write_results(session, &o->results) && library_wrote(session, o) &&
                                    cli_output_close(&o->library) && cli_output_commit(&o->library));
    if (session->config->own_table)
        bench_table(session);
    bench_warnings(session);
    if (!written)
        return CLI_USAGE;
    if (bench_interrupted)
        say_interrupted(session, o);
    return !cli_flush()
               ? CLI_USAGE
               : exit_code(session->rows, bench_count_measured(session->rows) + session->resumed.rows);
}

static int run(bench_session *session, outputs *o) {
    bench_config *config = session->config;
    int status;
    if (config->resume && (status = bench_resume(session)) != 0)
        return status;
    refuse_too_large(session->rows, session->host);
    if ((status = check_refused(session->rows)) != 0)
        return status;
    if (!config->dry_run && !config->no_roofline && !bench_session_limits(session))
        return cli_error("not enough memory");
    session->threads_made = most_threads(session->rows);
    session->pool = bench_pool_new(session->host, session->threads_made, !config->no_bind);
    if (!session->pool)
        return cli_error("cannot make %d threads", session->threads_made);
    bench_predict(config, session->rows, session->pool, session->started_ns);
    if (config->dry_run) {
        if (bench_interrupted)
            return 128 + (int)bench_interrupted;
        const int runnable = bench_dry_run(config, session->rows);
        return cli_flush() ? exit_code(session->rows, runnable) : CLI_USAGE;
    }
    if (!bench_session_order(session))
        return cli_error("not enough memory");
    if (!bench_interrupted && session->order_count > 0) {
        bench_progress_clear();
        say_binding(session);
        if (!bench_counting_start(session, NULL, NULL))
            return cli_error("not enough memory");
        session->measuring_ns = machine_now_ns();
        checkpoint kept = {o, session->measuring_ns};
        session->after_row = write_checkpoint;
        session->after_row_context = &kept;
        bench_runner_run(session);
        bench_retake(session);
        session->rows_ns = (double)(machine_now_ns() - session->measuring_ns);
    }
    return finish(session, o);
}

static int list_rows(const bench_rows *rows) {
    for (int i = 0; i < rows->count; i++)
        printf("%s\n", rows->row[i].id);
    return CLI_FINE;
}

/* Options that would be ignored are refused. */
static int check_tuning(const bench_config *config, const bench_rows *rows) {
    for (int i = 0; i < rows->count; i++) {
        if (rows->row[i].kind == BENCH_ATTENTION && rows->row[i].algorithm == ATTN_AUTO)
            return 0;
    }
    return config->tuning_file ? cli_error("--tuning: no row leaves the choice to --algorithm auto") : 0;
}

/* The CPU that a row of one thread runs on. */
static const machine_pu *first_pu(const machine *m) {
    int os_index;
    return machine_pick(m, 1, &os_index) == 1 ? machine_find_pu(m, os_index) : NULL;
}

static int with_machine(int argc, char **argv, const machine *m) {
    bench_config config;
    bench_rows rows = {0};
    bench_session session = {.config = &config, .host = m, .rows = &rows, .started_ns = machine_now_ns()};
    static outputs files;
    int status = bench_options(argc, argv, m, &config);
    if (status == 0 && config.list_presets) {
        bench_presets_print();
        status = -1;
    }
    const machine_pu *first = first_pu(m);
    for (int level = 0; first && level < MACHINE_CACHE_LEVELS; level++)
        config.cache_bytes[level] = first->cache[level].bytes;
    if (status == 0)
        status = bench_rows_make(&config, &rows);
    if (status == 0)
        status = apply_filter(config.filter, &rows);
    if (status == 0 && !config.list_tests)
        status = check_refused(&rows);
    if (status == 0)
        status = check_tuning(&config, &rows);
    if (status == 0)
        status = bench_library_counters(&config);
    if (status == 0 && !bench_context_accepts(&config))
        status = CLI_USAGE;
    bench_catch_signals();
    const bool measuring = status == 0 && !config.list_tests && !config.dry_run;
    if (measuring && !prepare_outputs(&config, &rows, &files))
        status = CLI_USAGE;
    if (status == 0 && !bench_runner_options(&config, files.library.path ? files.library.temp : NULL))
        status = CLI_USAGE;
    if (status == 0 && config.list_tests) {
        list_rows(&rows);
        status = -1;
    }
    if (status == 0)
        status = run(&session, &files);
    cli_output_discard(&files.library);
    if (status == -1)
        status = cli_flush() ? CLI_FINE : CLI_USAGE;
    bench_counting_free(&session);
    bench_pool_free(session.pool);
    free(session.order);
    free(session.limits);
    bench_expectations_free(&session.expected);
    free(session.again.result.samples_ns);
    json_decref(session.library_context);
    bench_resumed_free(&session.resumed);
    bench_rows_free(&rows);
    bench_config_free(&config);
    return status;
}

int main(int argc, char **argv) {
    cli_begin("bench");
#ifdef __GLIBC__
    /* A row's memory goes back to the system with the row: what the allocator kept would not be resident anew
     * for the next, nor touched first by it. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
#endif
    attn_error error;
    machine *m = machine_load(NULL, &error);
    if (!m)
        return cli_error("%s", error.text);
    const int status = with_machine(argc, argv, m);
    machine_free(m);
    return status;
}
