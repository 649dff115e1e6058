/* The context of a result file: Google Benchmark's own, and what makes the numbers comparable. */
#include "bench/session.h"

#include <unistd.h>

#include "bench_commit.h"

static void set_flag(json_t *object, const char *key, bool value) {
    json_object_set_new(object, key, json_boolean(value));
}

/* In the library's form; its own list is empty where /sys does not show caches. */
static json_t *make_caches(const machine *m) {
    machine_cache_group groups[16];
    int count = machine_cache_groups(m, groups, 16);
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        json_t *cache = json_object();
        bench_set_text(cache, "type", groups[i].level == MACHINE_L1D ? "Data" : "Unified");
        bench_set_integer(cache, "level", groups[i].level + 1);
        bench_set_integer(cache, "size", groups[i].cache.bytes);
        bench_set_integer(cache, "num_sharing", groups[i].cache.shared_by);
        json_array_append_new(list, cache);
    }
    return list;
}

static void add_field(void *context, const char *name, const char *value) {
    json_object_set_new(context, name, json_string(value));
}

static void describe_machine(const machine *m, json_t *object) {
    bench_set_text(object, "fingerprint", m->fingerprint);
    bench_set_integer(object, "schema", MACHINE_SCHEMA);
    bench_set_text(object, "brand", m->brand);
    bench_set_text(object, "vendor", m->vendor);
    bench_set_text(object, "arch", m->arch);
    bench_set_text(object, "features", m->features);
    bench_set_text(object, "tuning", m->tuning);
    bench_set_text(object, "hypervisor", m->hypervisor);
    bench_set_text(object, "governor", m->governor);
    bench_set_text(object, "boost", m->boost);
    bench_set_text(object, "kernel", m->kernel);
    bench_set_text(object, "libc", m->libc);
    bench_set_text(object, "topology_source", m->source);
    bench_set_text(object, "core_kinds_note", m->kinds_note);
    bench_set_integer(object, "memory_bytes", m->memory_bytes);
    bench_set_integer(object, "packages", m->packages);
    bench_set_integer(object, "numa_nodes", m->nodes);
    bench_set_integer(object, "cores", m->cores);
    bench_set_integer(object, "pus", m->pu_count);
    bench_set_integer(object, "core_kinds", m->core_kinds);
    bench_set_integer(object, "allowed_pus", m->allowed_pus);
    bench_set_integer(object, "usable_threads", m->usable_threads);
    bench_set_real(object, "quota_cpus", m->quota.cpus);
}

/* Rows that are not in the list of benchmarks, and why. */
static json_t *make_left_out(const bench_session *session) {
    json_t *list = json_array();
    for (int i = 0; i < session->rows->count; i++) {
        const bench_row *row = &session->rows->row[i];
        if (!*row->left_out)
            continue;
        json_t *object = json_object();
        bench_set_text(object, "id", row->id);
        bench_set_text(object, "reason", row->left_out);
        bench_set_real(object, "predicted_ns", row->predicted_ns);
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *make_not_measured(const bench_session *session) {
    json_t *list = json_array();
    for (int i = 0; i < session->rows->count; i++) {
        const bench_row *row = &session->rows->row[i];
        if (bench_row_waits(row) && !row->result.measured)
            json_array_append_new(list, json_string(row->id));
    }
    return list;
}

json_t *bench_conditions(const bench_session *session) {
    const bench_config *config = session->config;
    json_t *conditions = json_object(), *settings = json_object(), *described = json_object(),
           *fields = json_object();
    bench_set_integer(conditions, "schema_version", BENCH_SCHEMA_VERSION);
    bench_set_text(conditions, "commit", BENCH_COMMIT);
    bench_set_integer(conditions, "seed", config->seed);
    bench_set_real(settings, "min_time_s", config->asked_time_s);
    /* Null: as the row's time says, which is compared already. */
    json_object_set_new(settings, "warm_up_s",
                        config->warm_up_s >= 0 ? json_real(config->warm_up_s) : json_null());
    bench_set_integer(settings, "fixed_calls", config->fixed_calls);
    bench_set_integer(settings, "repetitions", config->repetitions);
    set_flag(settings, "one_call", config->one_call);
    set_flag(settings, "bind", !config->no_bind);
    set_flag(settings, "cold", config->cold);
    json_object_set_new(conditions, "settings", settings);
    machine_fields(session->host, add_field, fields);
    json_object_set_new(described, "fields", fields);
    json_object_set_new(conditions, "machine", described);
    char state[16];
    int64_t bytes;
    memory_huge_pages(state, sizeof state, &bytes);
    json_object_set_new(conditions, "memory",
                        json_pack("{s:s}", "transparent_huge_pages", *state ? state : "not available"));
    return conditions;
}

/* Those that follow from others, or decide which rows there are. */
static void add_settings(const bench_config *config, json_t *settings) {
    bench_set_real(settings, "warm_up_s", bench_warm_up_s(config, config->asked_time_s));
    bench_set_real(settings, "budget_s", config->budget_s);
    bench_set_real(settings, "max_call_s", config->max_call_s);
    bench_set_text(settings, "filter", config->filter);
    bench_set_text(settings, "tuning", config->tuning_file);
}

static void add_memory(const bench_session *session, json_t *memory) {
    char state[16];
    int64_t huge;
    memory_huge_pages(state, sizeof state, &huge);
    bench_set_integer(memory, "page_bytes", sysconf(_SC_PAGESIZE));
    if (huge > 0)
        bench_set_integer(memory, "huge_page_bytes", huge);
    bench_set_text(memory, "advice", "none"); /* what malloc gives: no madvise */
    bench_set_text(memory, "first_touch", "thread 0: tensors and workspaces");
    bench_set_text(memory, "resident_peak", *session->no_peak ? session->no_peak : "measured");
}

json_t *bench_context(const bench_session *session) {
    const machine *m = session->host;
    json_t *context = json_object(), *conditions = bench_conditions(session);
    json_object_update(context, session->library_context);
    json_object_update(context, conditions);
    json_object_set_new(context, "conditions", json_deep_copy(conditions));
    json_decref(conditions);
    if (json_array_size(json_object_get(context, "caches")) == 0)
        json_object_set_new(context, "caches", make_caches(m));
    bench_set_text(context, "attnscope_version", attn_version());
    /* The library says it from 1.8.4 on; before, the build knows. */
    if (!json_object_get(context, "library_version"))
        bench_set_text(context, "library_version", bench_runner_version());
    json_t *libraries = json_object();
    bench_set_text(libraries, "google_benchmark", bench_runner_version());
    bench_set_text(libraries, "hwloc", machine_hwloc_version());
    bench_set_text(libraries, "jansson", machine_jansson_version());
    json_object_set_new(context, "libraries", libraries);
    bench_set_text(context, "compiler", machine_compiler());
    bench_set_text(context, "flags", machine_flags());
    bench_set_text(context, "build_type", machine_build_type());
    bench_set_text(context, "fingerprint", m->fingerprint);
    bench_set_text(context, "cpu_brand", m->brand);
    describe_machine(m, json_object_get(context, "machine"));
    add_settings(session->config, json_object_get(context, "settings"));
    add_memory(session, json_object_get(context, "memory"));

    /* What holds for the last session stands beside what holds for all, and again among the sessions. */
    static const char *const of_session[] = {"binding",  "peak_gflops", "roofline", "drift",
                                             "counters", "elapsed_s",   "time",     "steal"};
    json_t *own = bench_context_session(session);
    for (size_t i = 0; i < sizeof of_session / sizeof of_session[0]; i++) {
        json_t *value = json_object_get(own, of_session[i]);
        if (value)
            json_object_set_new(context, of_session[i], json_deep_copy(value));
    }
    json_object_set_new(context, "sessions", json_pack("[o]", own));

    json_object_set_new(context, "left_out", make_left_out(session));
    json_object_set_new(context, "not_measured", make_not_measured(session));
    json_object_set_new(context, "checksums_differ", bench_checksums_differ(session->rows));
    bench_set_integer(context, "rows_disturbed", bench_count_disturbed(session->rows));
    bench_resume_context(session, context);
    const bool whole = json_array_size(json_object_get(context, "not_measured")) == 0;
    set_flag(context, "incomplete", bench_interrupted != 0 || !whole);
    if (whole)
        json_object_del(context, "not_measured");
    return context;
}
