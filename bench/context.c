/* The context of a result file: Google Benchmark's own, and what makes the numbers comparable. */
#include "bench/session.h"
#include "common/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_commit.h"

void bench_set_real(json_t *object, const char *key, double value) {
    /* json_real refuses what JSON cannot say. */
    if (isfinite(value))
        json_object_set_new(object, key, json_real(value));
}

static void set_text(json_t *object, const char *key, const char *value) {
    if (value && *value)
        json_object_set_new(object, key, json_string(value));
}

static void set_integer(json_t *object, const char *key, int64_t value) {
    json_object_set_new(object, key, json_integer(value));
}

static void set_flag(json_t *object, const char *key, bool value) {
    json_object_set_new(object, key, json_boolean(value));
}

/* In the library's form; its own list is empty where /sys does not show caches. */
static json_t *make_caches(const machine *m) {
    machine_cache_group groups[16];
    int count = machine_cache_groups(m, groups, 16);
    json_t *list = json_array();
    for (int i = 0; i < count && i < 16; i++) {
        json_t *cache = json_object();
        set_text(cache, "type", groups[i].level == MACHINE_L1D ? "Data" : "Unified");
        set_integer(cache, "level", groups[i].level + 1);
        set_integer(cache, "size", groups[i].cache.bytes);
        set_integer(cache, "num_sharing", groups[i].cache.shared_by);
        json_array_append_new(list, cache);
    }
    return list;
}

static void add_field(void *context, const char *name, const char *value) {
    json_object_set_new(context, name, json_string(value));
}

static json_t *make_machine(const machine *m) {
    json_t *object = json_object();
    set_text(object, "fingerprint", m->fingerprint);
    json_t *fields = json_object();
    machine_fields(m, add_field, fields);
    json_object_set_new(object, "fields", fields);
    set_integer(object, "schema", MACHINE_SCHEMA);
    set_text(object, "brand", m->brand);
    set_text(object, "vendor", m->vendor);
    set_text(object, "arch", m->arch);
    set_text(object, "features", m->features);
    set_text(object, "tuning", m->tuning);
    set_text(object, "hypervisor", m->hypervisor);
    set_text(object, "governor", m->governor);
    set_text(object, "boost", m->boost);
    set_text(object, "kernel", m->kernel);
    set_text(object, "libc", m->libc);
    set_text(object, "topology_source", m->source);
    set_text(object, "core_kinds_note", m->kinds_note);
    set_integer(object, "memory_bytes", m->memory_bytes);
    set_integer(object, "packages", m->packages);
    set_integer(object, "numa_nodes", m->nodes);
    set_integer(object, "cores", m->cores);
    set_integer(object, "pus", m->pu_count);
    set_integer(object, "core_kinds", m->core_kinds);
    set_integer(object, "allowed_pus", m->allowed_pus);
    set_integer(object, "usable_threads", m->usable_threads);
    bench_set_real(object, "quota_cpus", m->quota.cpus);
    return object;
}

static json_t *make_binding(const bench_session *session) {
    json_t *list = json_array();
    for (int i = 0; i < session->threads_made; i++) {
        const machine_binding *binding = bench_pool_binding(session->pool, i);
        json_t *object = json_object();
        set_integer(object, "thread", i);
        set_flag(object, "bound", binding->bound);
        if (binding->bound) {
            set_integer(object, "cpu", binding->os_index);
            set_integer(object, "ran_on", binding->ran_on);
        }
        set_text(object, "reason", binding->reason);
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *make_limits(const bench_limits *l) {
    json_t *object = json_object();
    set_integer(object, "threads", l->threads);
    set_integer(object, "bound", l->limits.bound);
    json_t *isas = json_object();
    for (int i = 0; i < attn_isa_count() && i < ROOFLINE_MAX_ISA; i++) {
        if (!(l->limits.peak[i].gflops > 0))
            continue;
        json_t *isa = json_object();
        bench_set_real(isa, "fma_gflops", l->limits.peak[i].gflops);
        bench_set_real(isa, "ghz", l->limits.peak[i].ghz);
        bench_set_real(isa, "exp_g", l->limits.exp_g[i]);
        json_object_set_new(isas, attn_isa_name(i), isa);
    }
    json_object_set_new(object, "isa", isas);
    json_t *levels = json_object();
    for (int i = 0; i < ROOFLINE_LEVELS; i++) {
        if (!(l->limits.level[i].read_gbs > 0))
            continue;
        json_t *level = json_object();
        set_integer(level, "bytes", l->limits.level[i].bytes);
        bench_set_real(level, "read_gbs", l->limits.level[i].read_gbs);
        bench_set_real(level, "copy_gbs", l->limits.level[i].copy_gbs);
        json_object_set_new(levels, machine_level_key(i), level);
    }
    json_object_set_new(object, "level", levels);
    return object;
}

/* Rows that are not in the list of benchmarks, and why. */
static json_t *make_left_out(const bench_session *session) {
    json_t *list = json_array();
    for (int i = 0; i < session->rows->count; i++) {
        const bench_row *row = &session->rows->row[i];
        if (!*row->left_out)
            continue;
        json_t *object = json_object();
        set_text(object, "id", row->id);
        set_text(object, "reason", row->left_out);
        bench_set_real(object, "predicted_ns", row->predicted_ns);
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *make_not_measured(const bench_session *session) {
    json_t *list = json_array();
    for (int i = 0; i < session->rows->count; i++) {
        const bench_row *row = &session->rows->row[i];
        if (!*row->left_out && !*row->error && !row->result.measured)
            json_array_append_new(list, json_string(row->id));
    }
    return list;
}

static void add_drift(const bench_session *session, json_t *context) {
    double change;
    if (!bench_drift(session, &change))
        return;
    json_t *object = json_object();
    set_text(object, "id", session->order[0]->id);
    bench_set_real(object, "first_ns", session->order[0]->result.median_ns);
    bench_set_real(object, "last_ns", session->again.result.median_ns);
    bench_set_real(object, "change", change);
    set_flag(object, "flagged", fabs(change) > BENCH_DRIFT);
    json_object_set_new(context, "drift", object);
}

static void add_settings(const bench_config *config, json_t *context) {
    set_integer(context, "seed", (int64_t)config->seed);
    json_t *settings = json_object();
    bench_set_real(settings, "min_time_s", config->min_time_s);
    bench_set_real(settings, "warm_up_s", config->warm_up_s);
    bench_set_real(settings, "budget_s", config->budget_s);
    bench_set_real(settings, "max_call_s", config->max_call_s);
    set_integer(settings, "fixed_calls", config->fixed_calls);
    set_integer(settings, "repetitions", config->repetitions);
    set_text(settings, "filter", config->filter);
    json_object_set_new(context, "settings", settings);
}

/* What the library or we say in every file, or in some. The user's words must not pass for it. */
static const char *const taken[] = {
    "aslr_enabled",
    "attnscope_version",
    "binding",
    "build_type",
    "caches",
    "commit",
    "compiler",
    "cpu_brand",
    "cpu_scaling_enabled",
    "date",
    "drift",
    "elapsed_s",
    "executable",
    "fingerprint",
    "flags",
    "host_name",
    "incomplete",
    "json_schema_version",
    "left_out",
    "library_build_type",
    "library_version",
    "load_avg",
    "machine",
    "mhz_per_cpu",
    "not_measured",
    "num_cpus",
    "peak_gflops",
    "roofline",
    "rows_disturbed",
    "schema_version",
    "seed",
    "settings",
};

/* `pairs` is NAME=VALUE[,NAME=VALUE]...; the library refuses what is not. */
static bool accepts(const char *pairs) {
    for (const char *name = pairs; name; name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL) {
        const size_t length = strcspn(name, "=,");
        bool refused = length == 0;
        for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
            refused = refused || (strlen(taken[i]) == length && strncmp(taken[i], name, length) == 0);
        if (!refused)
            continue;
        cli_error("--benchmark_context '%s': %s", pairs,
                  length == 0 ? "expected a name before '='" : "the file has a field of that name itself");
        return false;
    }
    return true;
}

bool bench_context_accepts(const bench_config *config) {
    static const char option[] = "--benchmark_context=";
    const char *variable = getenv("BENCHMARK_CONTEXT"); /* the library reads it too */
    for (int i = 1; i < config->library_argc; i++) {
        if (strncmp(config->library_argv[i], option, sizeof option - 1) == 0 &&
            !accepts(config->library_argv[i] + sizeof option - 1))
            return false;
    }
    return !variable || !*variable || accepts(variable);
}

json_t *bench_context(const bench_session *session) {
    const machine *m = session->host;
    json_t *context = json_object();
    json_object_update(context, session->library_context);
    if (json_array_size(json_object_get(context, "caches")) == 0)
        json_object_set_new(context, "caches", make_caches(m));
    set_integer(context, "schema_version", BENCH_SCHEMA_VERSION);
    set_text(context, "attnscope_version", attn_version());
    set_text(context, "commit", BENCH_COMMIT);
    /* The library says it from 1.8.4 on; before, the build knows. */
    if (!json_object_get(context, "library_version"))
        set_text(context, "library_version", bench_runner_version());
    set_text(context, "compiler", machine_compiler());
    set_text(context, "flags", machine_flags());
    set_text(context, "build_type", machine_build_type());
    set_text(context, "fingerprint", m->fingerprint);
    set_text(context, "cpu_brand", m->brand);
    json_object_set_new(context, "machine", make_machine(m));
    json_object_set_new(context, "binding", make_binding(session));

    json_t *peaks = json_object();
    for (int i = 0; i < attn_isa_count() && i < ROOFLINE_MAX_ISA; i++) {
        if (session->best_peak[i] > 0)
            bench_set_real(peaks, attn_isa_name(i), session->best_peak[i]);
    }
    json_object_set_new(context, "peak_gflops", peaks);
    json_t *limits = json_array();
    for (int i = 0; i < session->limits_count; i++)
        json_array_append_new(limits, make_limits(&session->limits[i]));
    json_object_set_new(context, "roofline", limits);

    add_settings(session->config, context);
    json_object_set_new(context, "left_out", make_left_out(session));
    set_flag(context, "incomplete", bench_interrupted != 0);
    if (bench_interrupted)
        json_object_set_new(context, "not_measured", make_not_measured(session));
    add_drift(session, context);
    set_integer(context, "rows_disturbed", bench_count_disturbed(session->rows));
    bench_set_real(context, "elapsed_s", (double)(machine_now_ns() - session->started_ns) / 1e9);
    return context;
}
