/* The rows of a result file, in Google Benchmark's form with our fields added. One row for each id, no
 * aggregates, and never a number that is not finite. */
#include "bench/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Counts are whole numbers; JSON's reals would write them as 1.0e9. */
static void set_count(json_t *object, const char *key, double value) {
    if (isfinite(value) && fabs(value) < 9e18)
        json_object_set_new(object, key, json_integer((json_int_t)llround(value)));
}

static double rounded(double ns) {
    return round(ns * 1000) / 1000;
}

static void add_problem(const bench_row *row, json_t *object) {
    const attn_problem *p = &row->problem;
    bench_set_text(object, "dtype", attn_dtype_name(p->dtype));
    bench_set_text(object, "isa", row->info.isa ? row->info.isa : row->isa);
    if (row->kind == BENCH_KERNEL) {
        bench_set_text(object, "algorithm", row->kernel->name);
        bench_set_text(object, "kernel", row->kernel->name);
        set_count(object, "n", (double)row->n);
    } else {
        const attn_algorithm ran = row->info.isa ? row->info.algorithm : row->algorithm;
        bench_set_text(object, "algorithm", attn_algorithm_name(ran));
        bench_set_text(object, "pattern", row->pattern);
        bench_set_text(object, "data", bench_data_name(row->data));
        if (row->kind == BENCH_STAGE)
            bench_set_text(object, "stage", attn_stage_name(row->stage));
        set_count(object, "batch", (double)p->batch);
        set_count(object, "heads", (double)p->heads);
        set_count(object, "kv_heads", (double)p->kv_heads);
        set_count(object, "queries", (double)p->queries);
        set_count(object, "keys", (double)p->keys);
    }
    set_count(object, "head_dim", (double)p->head_dim);
    set_count(object, "value_dim", (double)p->value_dim);
    if (p->softcap > 0)
        bench_set_real(object, "softcap", (double)p->softcap);
    if (*row->presets)
        bench_set_text(object, "presets", row->presets);
}

static void add_counts(const bench_row *row, json_t *object) {
    if (row->kind != BENCH_KERNEL) {
        set_count(object, "pairs_useful", (double)row->info.pairs_useful);
        set_count(object, "pairs_executed", (double)row->info.pairs_executed);
        set_count(object, "pairs_dense", (double)row->info.pairs_dense);
        set_count(object, "tiles_full", (double)row->info.tiles_full);
        set_count(object, "tiles_partial", (double)row->info.tiles_partial);
        set_count(object, "tiles_absent", (double)row->info.tiles_absent);
        set_count(object, "key_splits", (double)row->info.key_splits);
        set_count(object, "workspace_bytes", (double)row->info.workspace_bytes);
    }
    set_count(object, "flops_useful", row->flops_useful);
    set_count(object, "flops_executed", row->flops_executed);
    set_count(object, "flops_dense", row->flops_dense);
    set_count(object, "bytes_compulsory", row->bytes_compulsory);
    set_count(object, "bytes_read", row->bytes_read);
}

static void add_memory(const bench_row *row, json_t *object) {
    const bench_result *r = &row->result;
    if (r->resident_peak >= 0) {
        set_count(object, "resident_peak_bytes", (double)r->resident_peak);
        set_count(object, "resident_row_bytes", (double)(r->resident_peak - r->resident_before));
    }
    if (r->huge_bytes >= 0)
        set_count(object, "huge_page_bytes", (double)r->huge_bytes);
}

/* The largest of the three shares names what binds. */
static void add_shares(const bench_session *session, const bench_row *row, json_t *object) {
    bench_shares s;
    bench_set_real(object, "overhead_ns", rounded(row->overhead_ns));
    if (!bench_shares_of(session, row, &s))
        return;
    bench_set_real(object, "limit_compute_pct", s.compute);
    bench_set_real(object, "limit_bandwidth_pct", s.bandwidth);
    bench_set_real(object, "limit_overhead_pct", s.overhead);
    char text[32] = "overhead";
    if (s.compute >= s.bandwidth && s.compute >= s.overhead)
        snprintf(text, sizeof text, "compute");
    else if (s.bandwidth >= s.overhead)
        snprintf(text, sizeof text, "bandwidth(%s)", machine_level_key(s.level));
    bench_set_text(object, "limited_by", text);
}

static void add_measured(const bench_session *session, const bench_row *row, json_t *object) {
    const bench_result *r = &row->result;
    set_count(object, "threads_used", r->threads_used);
    bench_set_real(object, "gflops", row->flops_useful / r->median_ns);
    bench_set_real(object, "peak_gflops", r->peak_gflops);
    bench_set_real(object, "pct_peak", bench_pct_peak(row));
    int level = 0;
    const double bandwidth = bench_pct_bandwidth(session, row, &level);
    if (bandwidth > 0) {
        bench_set_real(object, "pct_bandwidth", bandwidth);
        bench_set_text(object, "bandwidth_level", machine_level_key(level));
        json_object_set_new(object, "bandwidth_doubted", json_boolean(r->above_bandwidth));
    }
    if (r->ghz > 0)
        bench_set_real(object, "effective_ghz", r->ghz);
    bench_set_real(object, "min_ns", rounded(r->min_ns));
    bench_set_real(object, "p05_ns", rounded(r->p05_ns));
    bench_set_real(object, "p25_ns", rounded(r->p25_ns));
    bench_set_real(object, "p75_ns", rounded(r->p75_ns));
    bench_set_real(object, "p95_ns", rounded(r->p95_ns));
    bench_set_real(object, "max_ns", rounded(r->max_ns));
    bench_set_real(object, "cpu_share", r->cpu_share);
    if (r->stolen_ns >= 0)
        set_count(object, "stolen_ns", (double)r->stolen_ns);
    bench_set_real(object, "checksum", r->checksum);
    if (row->kind != BENCH_KERNEL)
        bench_set_real(object, "checksum_abs", r->checksum_abs);
    if (r->out_tolerance > 0) /* else nothing was compared */
        bench_set_real(object, "out_tolerance", r->out_tolerance);
    add_memory(row, object);
    json_t *counted = bench_counting_row(row);
    if (counted)
        json_object_set_new(object, "counters", counted);
    add_shares(session, row, object);
    if (row->cold_bytes > 0)
        set_count(object, "cold_copies", (double)r->copies);
    set_count(object, "sample_count", r->sample_count);
    set_count(object, "calls_per_sample", (double)r->calls_per_sample);
    set_count(object, "order", r->order);
    set_count(object, "session", session->resumed.sessions + 1);
    bench_set_text(object, "date", r->date);
    /* An interruption may leave a row with some of its repetitions. */
    if (r->repetitions < session->config->repetitions)
        set_count(object, "repetitions_done", (double)r->repetitions);
    set_count(object, "visits", fmax(1, r->visits));
    if (r->visits > 1) {
        json_t *visits = json_array();
        for (int i = 0; i < r->visits; i++)
            json_array_append_new(visits, json_real(rounded(r->visit_ns[i])));
        json_object_set_new(object, "visit_medians_ns", visits);
    }
    json_t *samples = json_array();
    for (int i = 0; i < r->sample_count; i++)
        json_array_append_new(samples, json_real(rounded(r->samples_ns[i])));
    json_object_set_new(object, "samples_ns", samples);
}

static json_t *make_row(const bench_session *session, const bench_row *row) {
    const bench_result *r = &row->result;
    json_t *object = json_object();
    bench_set_text(object, "name", row->id);
    bench_set_text(object, "id", row->id);
    set_count(object, "family_index", 0); /* of its place, set when it gets one */
    set_count(object, "per_family_instance_index", 0);
    bench_set_text(object, "run_name", row->id);
    bench_set_text(object, "run_type", "iteration");
    set_count(object, "repetitions", 1);
    set_count(object, "repetition_index", 0);
    set_count(object, "threads", row->threads);
    if (*row->error) {
        json_object_set_new(object, "error_occurred", json_true());
        bench_set_text(object, "error_message", row->error);
    }
    set_count(object, "iterations", (double)r->calls);
    bench_set_real(object, "real_time", r->measured ? rounded(r->median_ns) : 0);
    /* A stage's calls run the stages before it too, which are not its time. */
    const double cpu = row->kind == BENCH_STAGE ? r->median_ns * r->cpu_share : r->cpu_ns / (double)r->calls;
    bench_set_real(object, "cpu_time", r->measured ? rounded(cpu) : 0);
    bench_set_text(object, "time_unit", "ns");
    add_problem(row, object);
    if (row->info.isa) /* else the library refused it, and there is no plan to count with */
        add_counts(row, object);
    if (r->measured)
        add_measured(session, row, object);
    return object;
}

/* An object of this run, or a copy of the file's. */
static json_t *make_or_keep(const bench_session *session, const bench_row *row) {
    if (!row->result.measured || row->there) {
        if (row->kept && json_object_get(row->kept, "samples_ns"))
            return json_copy(
                row->kept); /* a row that failed or was cut short today is the better one still */
        if (*row->left_out || !*row->error)
            return NULL;
    }
    return make_row(session, row);
}

static void append(json_t *rows, json_t *row) {
    if (!row)
        return;
    bench_set_integer(row, "family_index", (int64_t)json_array_size(rows));
    json_array_append_new(rows, row);
}

/* Length of an id without its stage; 0 for a row that is none. */
static size_t stage_stem(const json_t *row) {
    const char *id = json_string_value(json_object_get(row, "id")),
               *stage = id ? strstr(id, "/stage:") : NULL;
    return stage ? (size_t)(stage - id) : 0;
}

/* Each stage's share of the sum of all five, where all five are there: rows of earlier sessions too. */
static void add_stage_shares(json_t *rows) {
    size_t i, k;
    json_t *row, *other;
    json_array_foreach(rows, i, row) {
        const size_t stem = stage_stem(row);
        const char *id = json_string_value(json_object_get(row, "id"));
        double sum = 0;
        int there = 0;
        for (k = 0; stem > 0 && k < json_array_size(rows); k++) {
            other = json_array_get(rows, k);
            const double time = json_number_value(json_object_get(other, "real_time"));
            if (stage_stem(other) != stem || !(time > 0) ||
                strncmp(id, json_string_value(json_object_get(other, "id")), stem) != 0)
                continue;
            sum += time;
            there++;
        }
        const double time = json_number_value(json_object_get(row, "real_time"));
        if (there == ATTN_STAGE_COUNT && time > 0)
            bench_set_real(row, "stage_share", time / sum);
    }
}

json_t *bench_results(const bench_session *session) {
    json_t *file = json_object(), *rows = json_array();
    json_object_set_new(file, "context", bench_context(session));
    for (int i = 0; i < session->rows->count; i++)
        append(rows, make_or_keep(session, &session->rows->row[i]));
    size_t at;
    json_t *other;
    json_array_foreach(session->resumed.others, at, other) append(rows, json_copy(other));
    add_stage_shares(rows);
    json_object_set_new(file, "benchmarks", rows);
    return file;
}
