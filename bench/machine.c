/* Puts the description of the machine together, and chooses PUs for threads. */
#include "bench/machine.h"
#include "bench/binding.h"
#include "bench/build_info.h"
#include "bench/fingerprint.h"
#include "bench/sysfs.h"
#include "bench/system.h"
#include "bench/topology.h"
#include "dispatch/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *machine_compiler(void) {
    return BUILD_COMPILER;
}

const char *machine_flags(void) {
    return BUILD_FLAGS;
}

const char *machine_hwloc_version(void) {
    return BUILD_HWLOC;
}

const char *machine_jansson_version(void) {
    return BUILD_JANSSON;
}

const char *machine_build_type(void) {
    return BUILD_TYPE;
}

const char *machine_level_name(int level) {
    static const char *const names[MACHINE_CACHE_LEVELS + 1] = {"L1d", "L2", "L3", "memory"};
    return names[level];
}

const char *machine_level_key(int level) {
    static const char *const keys[MACHINE_CACHE_LEVELS + 1] = {"l1d", "l2", "l3", "memory"};
    return keys[level];
}

const machine_pu *machine_find_pu(const machine *m, int os_index) {
    for (int i = 0; i < m->pu_count; ++i)
        if (m->pus[i].os_index == os_index)
            return &m->pus[i];
    return NULL;
}

static bool load_topology(machine *m, const machine_options *options, const char *root, attn_error *error) {
#ifdef HAVE_HWLOC
    if (!options->without_hwloc)
        return topology_from_hwloc(m, options, error);
    const char *why = "hwloc: not asked";
#else
    const char *why = "hwloc: not built in";
#endif
    if (options->synthetic || options->xml) {
        attn_fail(error, ATTN_UNSUPPORTED, "a topology was given that only hwloc can read (%s)", why);
        return false;
    }
    if (!topology_from_sys(m, root, error))
        return false;
    char place[sizeof m->source];
    memcpy(place, m->source, sizeof place);
    snprintf(m->source, sizeof m->source, "%s; %.130s", why, place);
    return true;
}

/* Numbers the hardware threads of each core and counts packages, nodes and cores. */
static void count_topology(machine *m) {
    for (int i = 0; i < m->pu_count; ++i) {
        machine_pu *pu = &m->pus[i];
        pu->thread = i > 0 && pu[-1].core == pu->core ? pu[-1].thread + 1 : 0;
        m->packages = pu->package >= m->packages ? pu->package + 1 : m->packages;
        m->nodes = pu->node >= m->nodes ? pu->node + 1 : m->nodes;
        m->cores = pu->core >= m->cores ? pu->core + 1 : m->cores;
    }
}

/* Turns the kinds that the source reports into ranks from 0, or ignores them. */
static void rank_kinds(machine *m) {
    enum { MAX_KINDS = 16 };
    int kinds[MAX_KINDS], count = 0; /* distinct, ascending */
    for (int i = 0; i < m->pu_count && count < MAX_KINDS; ++i) {
        int at = 0, kind = m->pus[i].kind;
        while (at < count && kinds[at] < kind)
            ++at;
        if (at < count && kinds[at] == kind)
            continue;
        memmove(&kinds[at + 1], &kinds[at], (size_t)(count - at) * sizeof *kinds);
        kinds[at] = kind;
        ++count;
    }
    /* What a hypervisor shows is where its virtual CPUs happened to run at boot: cores of one kind then
     * differ by their frequencies and look like several. */
    const char *doubt = NULL;
    if (count > 1 && m->hypervisor[0])
        doubt = "but this is a virtual machine";
    else if (count > 1 && kinds[0] < 0)
        doubt = "but not which is faster";
    else if (count == MAX_KINDS)
        doubt = "more than can be told apart";
    if (doubt)
        snprintf(m->kinds_note, sizeof m->kinds_note, "different kinds of cores are reported, %s", doubt);
    m->core_kinds = doubt ? 1 : count;
    for (int i = 0; i < m->pu_count; ++i) {
        int rank = 0;
        while (!doubt && rank < count && kinds[rank] < m->pus[i].kind)
            ++rank;
        m->pus[i].kind = rank;
    }
}

static bool find_allowed(machine *m, const machine_options *options, attn_error *error) {
    sysfs_cpus cpus;
    bool foreign = options->synthetic || options->xml;
    bool limited = false;
    if (options->allowed) {
        if (!sysfs_parse_cpus(options->allowed, &cpus)) {
            attn_fail(error, ATTN_INVALID, "'%s' is not a CPU list such as 0-3,8", options->allowed);
            return false;
        }
        limited = true;
    } else if (!foreign) {
        limited = binding_allowed(&cpus);
    }
    for (int i = 0; i < m->pu_count; ++i) {
        m->pus[i].allowed = !limited || sysfs_has_cpu(&cpus, m->pus[i].os_index);
        m->allowed_pus += m->pus[i].allowed;
    }
    if (m->allowed_pus == 0)
        attn_fail(error, ATTN_INVALID, "none of the CPUs that this process may use is in the topology (%s)",
                  m->source);
    return m->allowed_pus > 0;
}

/* The order in which threads get PUs: the fastest kind first, then first hardware threads before
 * second ones, then neighbours. */
static bool comes_before(const machine_pu *a, const machine_pu *b) {
    if (a->kind != b->kind)
        return a->kind > b->kind;
    return a->thread < b->thread;
}

int machine_pick(const machine *m, int threads, int *os_index) {
    int chosen = 0;
    const machine_pu *last = NULL; /* of the class that is being handed out */
    while (chosen < threads) {
        const machine_pu *next = NULL;
        for (int i = 0; i < m->pu_count; ++i) {
            const machine_pu *pu = &m->pus[i];
            if (pu->allowed && (!last || comes_before(last, pu)) && (!next || comes_before(pu, next)))
                next = pu;
        }
        if (!next)
            break;
        for (int i = 0; i < m->pu_count && chosen < threads; ++i) {
            const machine_pu *pu = &m->pus[i];
            if (pu->allowed && pu->kind == next->kind && pu->thread == next->thread)
                os_index[chosen++] = pu->os_index;
        }
        last = next;
    }
    return chosen;
}

static void count_threads(machine *m) {
    int fastest = 0, cores = 0, last_core = -1;
    for (int i = 0; i < m->pu_count; ++i)
        if (m->pus[i].allowed && m->pus[i].kind > fastest)
            fastest = m->pus[i].kind;
    for (int i = 0; i < m->pu_count; ++i) {
        const machine_pu *pu = &m->pus[i];
        if (pu->allowed && pu->kind == fastest && pu->core != last_core) {
            ++cores;
            last_core = pu->core;
        }
    }
    int quota = quota_threads(&m->quota);
    m->usable_threads = m->allowed_pus < quota ? m->allowed_pus : quota;
    m->default_threads = cores < m->usable_threads ? cores : m->usable_threads;
}

machine *machine_load(const machine_options *options, attn_error *error) {
    static const machine_options here = {0};
    if (!options)
        options = &here;
    const char *root = sysfs_root(options->root);
    machine *m = calloc(1, sizeof *m);
    if (!m) {
        attn_fail(error, ATTN_NO_MEMORY, "no memory for the description of the machine");
        return NULL;
    }
    system_describe(m, root, options->hypervisor);
    if (!load_topology(m, options, root, error)) {
        machine_free(m);
        return NULL;
    }
    count_topology(m);
    rank_kinds(m);
    if (!find_allowed(m, options, error)) {
        machine_free(m);
        return NULL;
    }
    system_frequency(m, root);
    m->quota = quota_read(root);
    count_threads(m);
    fingerprint_compute(m);
    return m;
}

void machine_free(machine *m) {
    if (m)
        free(m->pus);
    free(m);
}

int machine_cache_groups(const machine *m, machine_cache_group *groups, int size) {
    int count = 0;
    for (int level = 0; level < MACHINE_CACHE_LEVELS; ++level) {
        int first = count;
        for (int i = 0; i < m->pu_count; ++i) {
            const machine_cache *cache = &m->pus[i].cache[level];
            if (!cache->bytes)
                continue;
            int at = first;
            while (at < count &&
                   (groups[at].cache.bytes != cache->bytes || groups[at].cache.shared_by != cache->shared_by))
                ++at;
            if (at == count && count < size)
                groups[count++] = (machine_cache_group){level, *cache, 0};
            if (at < count)
                ++groups[at].count; /* PUs for now */
        }
    }
    for (int i = 0; i < count; ++i) {
        int sharers = groups[i].cache.shared_by > 0 ? groups[i].cache.shared_by : 1;
        groups[i].count = (groups[i].count + sharers - 1) / sharers;
    }
    return count;
}
