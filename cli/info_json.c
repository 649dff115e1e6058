/* `attnscope info --json`. What is not known is null. */
#include "bench/roofline_json.h"
#include "common/cli.h"
#include "cli/info.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A constructor returns NULL without memory, and adding NULL to a container fails: noted here, so that
 * one look at the end is enough. */
typedef struct builder {
    bool broken;
} builder;

static void put(builder *b, json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) != 0)
        b->broken = true;
}

static void append(builder *b, json_t *array, json_t *value) {
    if (json_array_append_new(array, value) != 0)
        b->broken = true;
}

/* Null for "" and for what is not UTF-8 (a compiler flag may hold anything). */
static json_t *text(const char *value) {
    json_t *string = value[0] ? json_string(value) : NULL;
    return string ? string : json_null();
}

/* Null unless positive and finite. */
static json_t *real(double value) {
    return isfinite(value) && value > 0 ? json_real(value) : json_null();
}

static json_t *known_integer(int64_t value) {
    return value >= 0 ? json_integer(value) : json_null();
}

static json_t *positive_integer(int64_t value) {
    return value > 0 ? json_integer(value) : json_null();
}

static json_t *processor(builder *b, const machine *m, double ghz) {
    json_t *object = json_object(), *features = json_array();
    char names[sizeof m->features], *save = NULL;
    memcpy(names, m->features, sizeof names);
    for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save))
        append(b, features, text(name));
    put(b, object, "arch", text(m->arch));
    put(b, object, "vendor", text(m->vendor));
    put(b, object, "brand", text(m->brand));
    put(b, object, "family", known_integer(m->family));
    put(b, object, "model", known_integer(m->model));
    put(b, object, "stepping", known_integer(m->stepping));
    put(b, object, "microcode", text(m->microcode));
    put(b, object, "features", features);
    put(b, object, "tuning", text(m->tuning));
    put(b, object, "hypervisor", text(m->hypervisor));
    put(b, object, "effective_ghz", real(ghz));
    put(b, object, "governor", text(m->governor));
    put(b, object, "boost", text(m->boost));
    return object;
}

static json_t *levels(builder *b, const char *default_isa, const char *no_default) {
    json_t *object = json_object(), *array = json_array();
    for (int i = 0; i < attn_isa_count(); ++i) {
        char reason[160];
        json_t *level = json_object();
        bool available = info_isa_runs(i, reason, sizeof reason);
        put(b, level, "name", text(attn_isa_name(i)));
        put(b, level, "available", json_boolean(available));
        put(b, level, "reason", text(reason));
        append(b, array, level);
    }
    put(b, object, "default", text(default_isa ? default_isa : ""));
    put(b, object, "no_default", text(no_default));
    put(b, object, "levels", array);
    return object;
}

static json_t *topology(builder *b, const machine *m) {
    json_t *object = json_object(), *caches = json_array(), *pus = json_array();
    machine_cache_group groups[16];
    int count = machine_cache_groups(m, groups, 16);
    for (int i = 0; i < count; ++i) {
        json_t *cache = json_object();
        put(b, cache, "level", text(machine_level_name(groups[i].level)));
        put(b, cache, "bytes", json_integer(groups[i].cache.bytes));
        put(b, cache, "shared_by", json_integer(groups[i].cache.shared_by));
        put(b, cache, "count", json_integer(groups[i].count));
        append(b, caches, cache);
    }
    for (int i = 0; i < m->pu_count; ++i) {
        const machine_pu *pu = &m->pus[i];
        json_t *entry = json_object();
        put(b, entry, "os_index", json_integer(pu->os_index));
        put(b, entry, "core", json_integer(pu->core));
        put(b, entry, "package", json_integer(pu->package));
        put(b, entry, "node", json_integer(pu->node));
        put(b, entry, "kind", json_integer(pu->kind));
        put(b, entry, "allowed", json_boolean(pu->allowed));
        append(b, pus, entry);
    }
    put(b, object, "source", text(m->source));
    put(b, object, "packages", json_integer(m->packages));
    put(b, object, "numa_nodes", json_integer(m->nodes));
    put(b, object, "cores", json_integer(m->cores));
    put(b, object, "hardware_threads", json_integer(m->pu_count));
    put(b, object, "smt", json_boolean(m->pu_count > m->cores));
    put(b, object, "core_kinds", json_integer(m->core_kinds));
    put(b, object, "core_kinds_note", text(m->kinds_note));
    put(b, object, "caches", caches);
    put(b, object, "pus", pus);
    return object;
}

static json_t *limits(builder *b, const machine *m) {
    json_t *object = json_object(), *cgroup = json_null();
    if (m->quota.cpus > 0) {
        cgroup = json_object();
        put(b, cgroup, "cpus", real(m->quota.cpus));
        put(b, cgroup, "version", json_integer(m->quota.version));
        put(b, cgroup, "source", text(m->quota.source));
    }
    put(b, object, "allowed_threads", json_integer(m->allowed_pus));
    put(b, object, "cgroup_quota", cgroup);
    put(b, object, "usable_threads", json_integer(m->usable_threads));
    put(b, object, "default_threads", json_integer(m->default_threads));
    put(b, object, "memory_bytes", positive_integer(m->memory_bytes));
    return object;
}

static json_t *hardware_counters(builder *b, const info_report *report) {
    json_t *object = json_object(), *missing = json_object();
    for (int event = 0; report->counted && event < COUNTERS_EVENTS; ++event) {
        if (report->counters.missing[event][0])
            put(b, missing, counters_name(event), text(report->counters.missing[event]));
    }
    put(b, object, "available", json_boolean(report->counted));
    put(b, object, "reason", text(report->counters.reason));
    put(b, object, "missing", missing);
    return object;
}

static json_t *build(builder *b, const machine *m) {
    json_t *object = json_object(), *libraries = json_object();
    put(b, libraries, "hwloc", text(machine_hwloc_version()));
    put(b, libraries, "jansson", text(machine_jansson_version()));
    put(b, object, "version", text(attn_version()));
    put(b, object, "compiler", text(machine_compiler()));
    put(b, object, "flags", text(machine_flags()));
    put(b, object, "type", text(machine_build_type()));
    put(b, object, "libc", text(m->libc));
    put(b, object, "libraries", libraries);
    return object;
}

typedef struct fields {
    builder *builder;
    json_t *object;
} fields;

static void put_field(void *context, const char *name, const char *value) {
    fields *f = context;
    put(f->builder, f->object, name, text(value));
}

bool info_print_json(const info_report *report) {
    builder b = {false};
    const machine *m = report->machine;
    json_t *root = json_object();
    fields f = {&b, json_object()};
    machine_fields(m, put_field, &f);
    put(&b, root, "schema", json_integer(MACHINE_SCHEMA));
    put(&b, root, "fingerprint", text(m->fingerprint));
    put(&b, root, "fingerprint_fields", f.object);
    put(&b, root, "processor", processor(&b, m, report->ghz));
    put(&b, root, "isa", levels(&b, report->default_isa, report->no_default));
    put(&b, root, "topology", topology(&b, m));
    put(&b, root, "limits", limits(&b, m));
    put(&b, root, "counters", hardware_counters(&b, report));
    put(&b, root, "kernel", text(m->kernel));
    put(&b, root, "build", build(&b, m));
    if (report->roofline_count) {
        json_t *array = json_array();
        for (int i = 0; i < report->roofline_count; ++i)
            append(&b, array, roofline_to_json(&report->rooflines[i]));
        put(&b, root, "roofline", array);
        put(&b, root, "roofline_measured_at", text(report->measured_at));
        put(&b, root, "roofline_cached", json_boolean(report->cached));
    }
    char *printed = b.broken ? NULL : json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(root);
    if (!printed) {
        cli_error("no memory for the JSON");
        return false;
    }
    puts(printed);
    free(printed);
    return true;
}
