/* Going on with a file: which of its rows stay, and whether they were measured as the rest will be. */
#include "bench/session.h"
#include "common/cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Whether it fits ---------------------------------------------------------------- */

/* Numbers lose their last digits in a file. */
static bool same(const json_t *there, const json_t *here) {
    if (!json_is_number(there) || !json_is_number(here))
        return json_equal(there, here);
    const double a = json_number_value(there), b = json_number_value(here);
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static void print_value(FILE *text, const json_t *value) {
    char *printed = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(10)) : NULL;
    fputs(printed ? printed : "nothing", text);
    free(printed);
}

/* Writes "name THERE, here HERE; ..." for each value that differs, and returns how many do. */
static int print_differences(FILE *text, const char *place, const json_t *there, const json_t *here,
                             int count) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)here, key, value) {
        const json_t *other = json_object_get(there, key);
        char name[96];
        snprintf(name, sizeof name, "%s%s%s", place, *place ? "." : "", key);
        if (json_is_object(value)) {
            count = print_differences(text, name, other, value, count);
        } else if (!same(other, value)) {
            fprintf(text, "%s%s ", count++ ? "; " : "", name);
            print_value(text, other);
            fputs(", here ", text);
            print_value(text, value);
        }
    }
    return count;
}

static int check_conditions(const bench_session *session, const json_t *there) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    json_t *here = bench_conditions(session);
    const int count = stream ? print_differences(stream, "", there, here, 0) : 0;
    json_decref(here);
    if (!stream || fclose(stream) != 0) {
        free(text);
        return cli_error("not enough memory");
    }
    const int status =
        count ? cli_error("cannot resume %s: measured under other conditions: %s", session->config->out, text)
              : 0;
    free(text);
    return status;
}

/* ---- The file ------------------------------------------------------------------------- */

static int take_file(bench_session *session, json_t *file) {
    const char *path = session->config->out;
    json_t *context = json_object_get(file, "context"), *rows = json_object_get(file, "benchmarks"),
           *sessions = json_object_get(context, "sessions"),
           *conditions = json_object_get(context, "conditions");
    if (!json_is_array(rows) || json_array_size(sessions) == 0 || !json_is_object(conditions))
        return cli_error("cannot resume %s: not a result file of this version of attnscope bench", path);
    int status = check_conditions(session, conditions);
    if (status != 0)
        return status;
    session->resumed.context = json_incref(context);
    session->resumed.sessions = (int)json_array_size(sessions);
    session->resumed.others = json_array();
    status = bench_resume_rows(session, rows);
    if (status == 0)
        fprintf(stderr, "attnscope bench: session %d of %s: %d of %d rows are there\n",
                session->resumed.sessions + 1, path, session->resumed.rows, session->rows->count);
    return status;
}

int bench_resume(bench_session *session) {
    const char *path = session->config->out;
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        fprintf(stderr, "attnscope bench: there is no %s yet: begun anew\n", path);
        return 0;
    }
    if (!cli_regular_file("cannot resume", path))
        return CLI_USAGE;
    json_error_t error;
    json_t *file = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!file)
        return cli_error("cannot resume %s: line %d: %s", path, error.line, error.text);
    const int status = take_file(session, file);
    json_decref(file);
    return status;
}

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

void bench_resumed_free(bench_resumed *resumed) {
    json_decref(resumed->context);
    json_decref(resumed->others);
    *resumed = (bench_resumed){0};
}

/* ---- What the new file says of the old sessions ----------------------------------------- */

/* Entries of a list of the old context whose rows are still neither asked for nor there. `key` is the member
 * that holds the id, NULL where the entry itself is one. */
static void keep_entries(const bench_session *session, json_t *context, const char *name, const char *key) {
    json_t *list = json_object_get(context, name), *entry;
    size_t at;
    json_array_foreach(json_object_get(session->resumed.context, name), at, entry) {
        const char *id = json_string_value(key ? json_object_get(entry, key) : entry);
        if (id && !bench_find_row(session->rows, id))
            json_array_append(list, entry);
    }
}

/* The largest figure of each level, as peaks of rows are those of their own time. */
static void merge_peaks(json_t *peaks, const json_t *old) {
    const char *isa;
    json_t *value;
    json_object_foreach((json_t *)old, isa, value) {
        if (json_number_value(value) > json_number_value(json_object_get(peaks, isa)))
            json_object_set(peaks, isa, value);
    }
}

/* Limits for numbers of threads that only older sessions looked at. */
static void merge_limits(json_t *limits, const json_t *old) {
    size_t at, i;
    json_t *entry, *other;
    json_array_foreach(old, at, entry) {
        bool known = false;
        json_array_foreach(limits, i, other) {
            known = known || json_equal(json_object_get(entry, "threads"), json_object_get(other, "threads"));
        }
        if (!known)
            json_array_append(limits, entry);
    }
}

static void merge_drift(json_t *context, json_t *old) {
    const double here = number(json_object_get(context, "drift"), "change"), there = number(old, "change");
    if (old && (!json_object_get(context, "drift") || fabs(there) > fabs(here)))
        json_object_set(context, "drift", old);
}

static int count_disturbed(const json_t *rows) {
    size_t at;
    json_t *row;
    int count = 0;
    json_array_foreach(rows, at, row) {
        const json_t *share = json_object_get(row, "cpu_share");
        count += share && json_number_value(share) < BENCH_UNDISTURBED;
    }
    return count;
}

void bench_resume_context(const bench_session *session, json_t *context) {
    json_t *old = session->resumed.context;
    if (!old)
        return;
    json_t *sessions = json_copy(json_object_get(old, "sessions"));
    json_array_extend(sessions, json_object_get(context, "sessions"));
    json_object_set_new(context, "sessions", sessions);
    keep_entries(session, context, "left_out", "id");
    keep_entries(session, context, "checksums_differ", "id");
    keep_entries(session, context, "not_measured", NULL);
    merge_peaks(json_object_get(context, "peak_gflops"), json_object_get(old, "peak_gflops"));
    merge_limits(json_object_get(context, "roofline"), json_object_get(old, "roofline"));
    merge_drift(context, json_object_get(old, "drift"));
    bench_set_real(context, "elapsed_s", number(context, "elapsed_s") + number(old, "elapsed_s"));
    bench_set_integer(context, "rows_disturbed",
                      (json_int_t)number(context, "rows_disturbed") +
                          count_disturbed(session->resumed.others));
    /* What else the file said: words of --benchmark_context, say. But not of rows that are measured by now.
     */
    json_t *rest = json_copy(old);
    json_object_del(rest, "not_measured");
    json_object_update_missing(context, rest);
    json_decref(rest);
}
