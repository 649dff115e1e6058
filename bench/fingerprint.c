#include "bench/fingerprint.h"
#include "dispatch/cpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void machine_fields(const machine *m, void (*each)(void *context, const char *name, const char *value),
                    void *context) {
    char text[512];

#define NUMBER(name, value) (snprintf(text, sizeof text, "%d", value), each(context, name, text))
    each(context, "arch", m->arch);
    each(context, "vendor", m->vendor);
    each(context, "brand", m->brand);
    NUMBER("family", m->family);
    NUMBER("model", m->model);
    NUMBER("stepping", m->stepping);
    each(context, "microcode", m->microcode);
    each(context, "features", m->features);

    /* "L1d 49152/1 x2": bytes, PUs that share it, how many there are. */
    machine_cache_group groups[16];
    int count = machine_cache_groups(m, groups, 16);
    text[0] = 0;
    for (int i = 0; i < count; ++i)
        cpu_append(text, sizeof text, "%s%s %" PRId64 "/%d x%d", i ? ", " : "",
                   machine_level_name(groups[i].level), groups[i].cache.bytes, groups[i].cache.shared_by,
                   groups[i].count);
    each(context, "caches", text);

    snprintf(text, sizeof text, "packages %d, nodes %d, cores %d, pus %d, kinds %d", m->packages, m->nodes,
             m->cores, m->pu_count, m->core_kinds);
    each(context, "topology", text);
    each(context, "hypervisor", m->hypervisor);
    each(context, "governor", m->governor);
    each(context, "compiler", machine_compiler());
    each(context, "flags", machine_flags());
    each(context, "build_type", machine_build_type());
    each(context, "libc", m->libc);
    each(context, "library", attn_version());
    NUMBER("schema", MACHINE_SCHEMA);
#undef NUMBER
}

/* FNV-1a, 64 bit (draft-eastlake-fnv), over "name=value\n" of each field: no secret to keep, only
 * machines to tell apart. */
static void add_field(void *context, const char *name, const char *value) {
    uint64_t *hash = context;
    const char *const pieces[] = {name, "=", value, "\n"};
    for (int i = 0; i < 4; ++i)
        for (const char *c = pieces[i]; *c; ++c)
            *hash = (*hash ^ (unsigned char)*c) * UINT64_C(0x100000001B3);
}

void fingerprint_compute(machine *m) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    machine_fields(m, add_field, &hash);
    snprintf(m->fingerprint, sizeof m->fingerprint, "%016" PRIx64, hash);
}
