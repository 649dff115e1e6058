/* `attnscope info` as text: label, then value. */
#include "cli/info.h"
#include "dispatch/dispatch.h"

#include <stdio.h>
#include <string.h>

bool info_isa_runs(int index, char *reason, size_t size) {
    cpu_info cpu;
    cpu_read(&cpu);
    return cpu_can_run(&cpu, attn_isa_required(index), reason, size);
}

void info_format_bytes(int64_t bytes, char *text, size_t size) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 5) {
        value /= 1024;
        ++unit;
    }
    snprintf(text, size, value == (double)(int64_t)value ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

/* Every line's label is as wide as this. */
#define LABEL "%-14s"

static void print_processor(const machine *m, double ghz) {
    printf(LABEL "%s\n", "processor", m->brand[0] ? m->brand : "unknown");
    printf(LABEL "%s", "", m->vendor[0] ? m->vendor : "vendor unknown");
    if (m->family >= 0 && strcmp(m->arch, "aarch64") == 0)
        printf(", part 0x%03x, variant %d, revision %d", m->family, m->model, m->stepping);
    else if (m->family >= 0)
        printf(", family %d, model %d, stepping %d", m->family, m->model, m->stepping);
    if (m->microcode[0])
        printf(", microcode %s", m->microcode);
    printf(", %s\n", m->arch);
    printf(LABEL "%s\n", "hypervisor", m->hypervisor[0] ? m->hypervisor : "none visible");
    printf(LABEL "%.2f GHz effective on one core now; governor %s, boost %s\n", "clock", ghz,
           m->governor[0] ? m->governor : "not readable", m->boost[0] ? m->boost : "not readable");
    if (m->tuning[0])
        printf(LABEL "%s\n", "note", m->tuning);
}

static void print_levels(const char *default_isa, const char *no_default) {
    for (int i = 0; i < attn_isa_count(); ++i) {
        const char *name = attn_isa_name(i);
        char reason[160];
        bool runs = info_isa_runs(i, reason, sizeof reason);
        printf(LABEL "%-8s %s%s%s\n", i == 0 ? "ISA levels" : "", name, runs ? "available" : "no: ", reason,
               default_isa && strcmp(name, default_isa) == 0 ? ", the default" : "");
    }
    if (!default_isa)
        printf(LABEL "none: %s\n", "default", no_default);
}

static void print_topology(const machine *m) {
    machine_cache_group groups[16];
    int count = machine_cache_groups(m, groups, 16);
    for (int i = 0; i < count; ++i) {
        char size[32];
        info_format_bytes(groups[i].cache.bytes, size, sizeof size);
        printf(LABEL "%-8s %s, %d of them, each for %d thread%s\n", i == 0 ? "caches" : "",
               machine_level_name(groups[i].level), size, groups[i].count, groups[i].cache.shared_by,
               groups[i].cache.shared_by == 1 ? "" : "s");
    }
    if (count == 0)
        printf(LABEL "unknown\n", "caches");
    printf(LABEL "%d package%s, %d NUMA node%s, %d core%s, %d hardware thread%s (%s)\n", "cores", m->packages,
           m->packages == 1 ? "" : "s", m->nodes, m->nodes == 1 ? "" : "s", m->cores,
           m->cores == 1 ? "" : "s", m->pu_count, m->pu_count == 1 ? "" : "s",
           m->pu_count > m->cores ? "SMT" : "no SMT");
    if (m->core_kinds > 1) {
        for (int kind = m->core_kinds - 1; kind >= 0; --kind) {
            int pus = 0;
            for (int i = 0; i < m->pu_count; ++i)
                pus += m->pus[i].kind == kind;
            printf(LABEL "kind %d: %d hardware threads%s\n", kind == m->core_kinds - 1 ? "core kinds" : "",
                   kind, pus, kind == m->core_kinds - 1 ? ", the fastest, used unless asked otherwise" : "");
        }
    } else if (m->kinds_note[0]) {
        printf(LABEL "ignored: %s\n", "core kinds", m->kinds_note);
    }
    printf(LABEL "%s\n", "topology from", m->source);
}

static void print_allowed(const machine *m) {
    char memory[32] = "unknown";
    if (m->memory_bytes)
        info_format_bytes(m->memory_bytes, memory, sizeof memory);
    printf(LABEL "%d usable: %d of %d hardware threads allowed", "threads", m->usable_threads, m->allowed_pus,
           m->pu_count);
    if (m->quota.cpus > 0)
        printf(", cgroup quota of %.2f CPUs (%s)\n", m->quota.cpus, m->quota.source);
    else
        printf(", no cgroup quota\n");
    printf(LABEL "%d%s: what --roofline measures beside one; eval and bench use 1 unless asked\n",
           "  one a core", m->default_threads, m->core_kinds > 1 ? " of the fastest kind" : "");
    printf(LABEL "%s\n", "memory", memory);
}

static void print_counters(const info_report *report) {
    printf(LABEL "%s%s", "counters",
           report->counted ? "available" : "not available: ", report->counters.reason);
    for (int event = 0; report->counted && event < COUNTERS_EVENTS; ++event) {
        if (report->counters.missing[event][0])
            printf("; %s not: %s", counters_name(event), report->counters.missing[event]);
    }
    putchar('\n');
}

void info_print_text(const info_report *report) {
    const machine *m = report->machine;
    print_processor(m, report->ghz);
    print_levels(report->default_isa, report->no_default);
    print_topology(m);
    print_allowed(m);
    print_counters(report);
    printf(LABEL "%s, %s\n", "system", m->kernel[0] ? m->kernel : "unknown", m->libc);
    const char *hwloc = machine_hwloc_version();
    printf(LABEL "attnscope %s, %s, %s; %s%s, jansson %s\n", "build", attn_version(), machine_compiler(),
           machine_build_type(), *hwloc ? "hwloc " : "no hwloc", hwloc, machine_jansson_version());
    printf(LABEL "%s\n", "flags", machine_flags());
    printf(LABEL "%s\n", "fingerprint", m->fingerprint);
    info_print_rooflines(report);
}
