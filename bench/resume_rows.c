/* The rows of a file that is gone on with: whether each is one, and what of it the run needs. */
#include "bench/session.h"
#include "common/cli.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Whether a row is one ------------------------------------------------------------ */

/* What may stand under a name. What is not in the list is nobody's business but its writer's. */
typedef enum content { TEXT, NUMBER, COUNT, TIME, TIMES, FLAG } content;

static const struct {
    const char *name;
    content content;
} fields[] = {
    {"error_occurred", FLAG},
    {"name", TEXT},
    {"time_unit", TEXT},
    {"isa", TEXT},
    {"algorithm", TEXT},
    {"kernel", TEXT},
    {"pattern", TEXT},
    {"dtype", TEXT},
    {"stage", TEXT},
    {"bandwidth_level", TEXT},
    {"limited_by", TEXT},
    {"error_message", TEXT},
    {"batch", COUNT},
    {"heads", COUNT},
    {"kv_heads", COUNT},
    {"queries", COUNT},
    {"keys", COUNT},
    {"n", COUNT},
    {"head_dim", COUNT},
    {"value_dim", COUNT},
    {"threads", COUNT},
    {"threads_used", COUNT},
    {"sample_count", COUNT},
    {"iterations", COUNT},
    {"calls_per_sample", COUNT},
    {"session", COUNT},
    {"repetitions_done", COUNT},
    {"pairs_useful", NUMBER},
    {"pairs_executed", NUMBER},
    {"pairs_dense", NUMBER},
    {"flops_useful", NUMBER},
    {"bytes_compulsory", NUMBER},
    {"workspace_bytes", NUMBER},
    {"pct_peak", NUMBER},
    {"pct_bandwidth", NUMBER},
    {"limit_compute_pct", NUMBER},
    {"limit_bandwidth_pct", NUMBER},
    {"limit_overhead_pct", NUMBER},
    {"effective_ghz", NUMBER},
    {"peak_gflops", NUMBER},
    {"cpu_share", NUMBER},
    {"checksum_abs", NUMBER},
    {"out_tolerance", NUMBER},
    {"real_time", TIME},
    {"cpu_time", TIME},
    {"min_ns", TIME},
    {"p05_ns", TIME},
    {"p25_ns", TIME},
    {"p75_ns", TIME},
    {"p95_ns", TIME},
    {"max_ns", TIME},
    {"samples_ns", TIMES},
};

/* As `attnscope analyze` has them. */
static const double least_ns = 1e-3, most_ns = 1e18, most = 1e30;

static bool is_time(const json_t *value) {
    return json_is_number(value) && json_number_value(value) >= least_ns &&
           json_number_value(value) <= most_ns;
}

/* NULL where the value may stand there; else what was expected, with the value in `wrong`. */
static const char *expected(content kind, const json_t *value, const json_t **wrong) {
    const double number = json_number_value(value);
    size_t at;
    json_t *sample;
    *wrong = value;
    switch (kind) {
    case TEXT:
        return json_is_string(value) ? NULL : "a text";
    case FLAG:
        return json_is_boolean(value) ? NULL : "true or false";
    case NUMBER:
        return json_is_number(value) && number >= 0 && number <= most ? NULL : "a number from 0 to 1e30";
    case COUNT:
        return json_is_number(value) && number >= 0 && number < 0x1p53 && number == floor(number)
                   ? NULL
                   : "a whole number from 0";
    case TIME: /* nought is no time, as of a row that failed */
        return is_time(value) || (json_is_number(value) && number == 0) ? NULL : "0.001 to 1e18 ns";
    case TIMES:
        if (!json_is_array(value))
            return "a list of times";
        json_array_foreach(value, at, sample) {
            *wrong = sample;
            if (!is_time(sample))
                return "times of 0.001 to 1e18 ns";
        }
    }
    return NULL;
}

/* `row` names the row in the message. */
static int check_row(const char *path, const char *row, const json_t *from) {
    if (json_is_true(json_object_get(from, "error_occurred")))
        return 0;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const json_t *value = json_object_get(from, fields[i].name), *wrong;
        const char *wanted =
            value && !json_is_null(value) ? expected(fields[i].content, value, &wrong) : NULL;
        if (!wanted)
            continue;
        char *shown = json_dumps(wrong, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(10));
        const int status = cli_error("cannot resume %s: %s: %s is %.60s, expected %s", path, row,
                                     fields[i].name, shown ? shown : "something else", wanted);
        free(shown);
        return status;
    }
    const char *unit = json_string_value(json_object_get(from, "time_unit"));
    if (unit && strcmp(unit, "ns") != 0)
        return cli_error("cannot resume %s: %s: time_unit is \"%.60s\", expected \"ns\"", path, row, unit);
    if (!json_is_number(json_object_get(from, "real_time")) &&
        json_array_size(json_object_get(from, "samples_ns")) == 0)
        return cli_error("cannot resume %s: %s: neither real_time nor samples_ns", path, row);
    return 0;
}

/* ---- What is needed of it ------------------------------------------------------------------------- */

static double number(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

/* Takes over what the table and the judgements need; false when the row is not one that was measured in full.
 */
static bool take_result(bench_row *row, const json_t *from) {
    const json_t *samples = json_object_get(from, "samples_ns");
    const size_t count = json_array_size(samples);
    if (json_is_true(json_object_get(from, "error_occurred")) || count == 0 ||
        json_object_get(from, "repetitions_done") || !(number(from, "real_time") > 0))
        return false;
    bench_result *r = &row->result;
    *r = (bench_result){
        .sample_count = (int)count,
        .calls = (int64_t)number(from, "iterations"),
        .calls_per_sample = (int64_t)number(from, "calls_per_sample"),
        .median_ns = number(from, "real_time"),
        .min_ns = number(from, "min_ns"),
        .max_ns = number(from, "max_ns"),
        .p25_ns = number(from, "p25_ns"),
        .p75_ns = number(from, "p75_ns"),
        .cpu_share = number(from, "cpu_share"),
        .checksum = number(from, "checksum"),
        .checksum_abs = number(from, "checksum_abs"),
        .out_tolerance = number(from, "out_tolerance"),
        .peak_gflops = number(from, "peak_gflops"),
        .ghz = number(from, "effective_ghz"),
        .threads_used = (int)fmin(INT_MAX, number(from, "threads_used")),
        .measured = true,
    };
    return true;
}

bench_row *bench_find_row(const bench_rows *rows, const char *id) {
    for (int i = 0; i < rows->count; i++) {
        if (strcmp(rows->row[i].id, id) == 0)
            return &rows->row[i];
    }
    return NULL;
}

static void take_row(bench_session *session, const char *id, json_t *from) {
    bench_row *row = bench_find_row(session->rows, id);
    if (!row) {
        json_array_append(session->resumed.others, from);
        return;
    }
    row->kept = json_incref(from);
    row->there = !*row->error && take_result(row, from);
    session->resumed.rows += row->there;
}

int bench_resume_rows(bench_session *session, json_t *list) {
    const char *path = session->config->out;
    json_t *seen = json_object(), *from;
    size_t at;
    int status = seen ? 0 : cli_error("not enough memory");
    json_array_foreach(list, at, from) {
        if (status != 0)
            break;
        const char *id = json_string_value(json_object_get(from, "id"));
        if (!id)
            status = cli_error("cannot resume %s: row %zu has no id", path, at + 1);
        else if (json_object_get(seen, id))
            status = cli_error("cannot resume %s: it has the row %.200s twice", path, id);
        else if (json_object_set_new(seen, id, json_true()) != 0)
            status = cli_error("cannot resume %s: not enough memory", path);
        else if ((status = check_row(path, id, from)) == 0)
            take_row(session, id, from);
    }
    json_decref(seen);
    return status;
}
