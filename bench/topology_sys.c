/* The topology without hwloc: Linux's /sys/devices/system (Documentation/ABI/stable/sysfs-devices-system-cpu,
 * and admin-guide/cputopology.rst), macOS's sysctl, or a bare count. */
#include "bench/sysfs.h"
#include "bench/topology.h"
#include "dispatch/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __APPLE__
#    include <sys/sysctl.h>
#endif

#define CPU_DIRECTORY "/sys/devices/system/cpu"

/* A PU beside what orders it: first CPUs of the groups it belongs to. */
typedef struct place {
    machine_pu pu;
    int64_t package_id;
    int core_first, l3_first;
} place;

static int compare_places(const void *left, const void *right) {
    const place *a = left, *b = right;
    if (a->package_id != b->package_id)
        return a->package_id < b->package_id ? -1 : 1;
    if (a->l3_first != b->l3_first)
        return a->l3_first < b->l3_first ? -1 : 1;
    if (a->core_first != b->core_first)
        return a->core_first < b->core_first ? -1 : 1;
    return a->pu.os_index - b->pu.os_index;
}

static void read_caches(const char *root, int cpu, place *p) {
    p->l3_first = -1;
    for (int index = 0; index < 16; ++index) {
        char type[32], size[32];
        int64_t level, bytes;
        sysfs_cpus shared;
        if (!sysfs_int(&level, 1, 16, root, CPU_DIRECTORY "/cpu%d/cache/index%d/level", cpu, index))
            break;
        if (level > MACHINE_CACHE_LEVELS ||
            !sysfs_line(type, sizeof type, root, CPU_DIRECTORY "/cpu%d/cache/index%d/type", cpu, index) ||
            (strcmp(type, "Data") != 0 && strcmp(type, "Unified") != 0) ||
            !sysfs_line(size, sizeof size, root, CPU_DIRECTORY "/cpu%d/cache/index%d/size", cpu, index) ||
            !sysfs_parse_bytes(size, &bytes) ||
            !sysfs_cpu_list(&shared, root, CPU_DIRECTORY "/cpu%d/cache/index%d/shared_cpu_list", cpu,
                            index) ||
            !sysfs_has_cpu(&shared, cpu))
            continue;
        p->pu.cache[level - 1].bytes = bytes;
        p->pu.cache[level - 1].shared_by = sysfs_count_cpus(&shared);
        if (level == 3)
            p->l3_first = sysfs_first_cpu(&shared);
    }
}

static void read_place(const char *root, int cpu, place *p) {
    sysfs_cpus siblings;
    int64_t capacity;
    p->pu.os_index = cpu;
    p->pu.kind = -1;
    if (!sysfs_int(&p->package_id, 0, SYSFS_CPUS, root, CPU_DIRECTORY "/cpu%d/topology/physical_package_id",
                   cpu))
        p->package_id = 0;
    p->core_first = cpu;
    if (sysfs_cpu_list(&siblings, root, CPU_DIRECTORY "/cpu%d/topology/thread_siblings_list", cpu) &&
        sysfs_has_cpu(&siblings, cpu))
        p->core_first = sysfs_first_cpu(&siblings);
    /* AArch64: relative speed, the fastest being 1024. */
    if (sysfs_int(&capacity, 1, 1024, root, CPU_DIRECTORY "/cpu%d/cpu_capacity", cpu))
        p->pu.kind = (int)capacity;
    read_caches(root, cpu, p);
}

/* Intel's hybrids have a performance counter unit for each kind of core. */
static void read_intel_kinds(const char *root, place *places, int count) {
    sysfs_cpus fast, slow;
    if (!sysfs_cpu_list(&fast, root, "/sys/devices/cpu_core/cpus") ||
        !sysfs_cpu_list(&slow, root, "/sys/devices/cpu_atom/cpus"))
        return;
    for (int i = 0; i < count; ++i) {
        if (sysfs_has_cpu(&fast, places[i].pu.os_index))
            places[i].pu.kind = 1;
        else if (sysfs_has_cpu(&slow, places[i].pu.os_index))
            places[i].pu.kind = 0;
    }
}

static void read_nodes(const char *root, place *places, int count) {
    sysfs_cpus nodes, members;
    if (!sysfs_cpu_list(&nodes, root, "/sys/devices/system/node/online"))
        return;
    int number = 0;
    for (int node = 0; node < SYSFS_CPUS; ++node) {
        if (!sysfs_has_cpu(&nodes, node))
            continue;
        if (sysfs_cpu_list(&members, root, "/sys/devices/system/node/node%d/cpulist", node))
            for (int i = 0; i < count; ++i)
                if (sysfs_has_cpu(&members, places[i].pu.os_index))
                    places[i].pu.node = number;
        ++number;
    }
}

static bool no_memory(int count, attn_error *error) {
    attn_fail(error, ATTN_NO_MEMORY, "no memory for %d processing units", count);
    return false;
}

static bool read_sys(machine *m, const char *root, const sysfs_cpus *online, attn_error *error) {
    int count = sysfs_count_cpus(online), filled = 0;
    place *places = calloc((size_t)count, sizeof *places);
    m->pus = calloc((size_t)count, sizeof *m->pus);
    if (!places || !m->pus) {
        free(places);
        return no_memory(count, error);
    }
    for (int cpu = 0; cpu < SYSFS_CPUS; ++cpu)
        if (sysfs_has_cpu(online, cpu))
            read_place(root, cpu, &places[filled++]);
    read_intel_kinds(root, places, count);
    read_nodes(root, places, count);
    qsort(places, (size_t)count, sizeof *places, compare_places);
    int core = 0, package = 0;
    for (int i = 0; i < count; ++i) {
        if (i > 0 && places[i].package_id != places[i - 1].package_id)
            ++package;
        if (i > 0 && (places[i].core_first != places[i - 1].core_first ||
                      places[i].package_id != places[i - 1].package_id))
            ++core;
        m->pus[i] = places[i].pu;
        m->pus[i].package = package;
        m->pus[i].core = core;
    }
    m->pu_count = count;
    snprintf(m->source, sizeof m->source, CPU_DIRECTORY);
    free(places);
    return true;
}

#ifdef __APPLE__
static int64_t sysctl_bytes(const char *name) {
    int64_t value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) == 0 && size == sizeof value && value > 0 ? value : 0;
}
#endif

static bool count_only(machine *m, attn_error *error) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int count = online < 1 ? 1 : online > SYSFS_CPUS ? SYSFS_CPUS : (int)online;
    m->pus = calloc((size_t)count, sizeof *m->pus);
    if (!m->pus)
        return no_memory(count, error);
    m->pu_count = count;
    for (int i = 0; i < count; ++i) {
        m->pus[i].os_index = m->pus[i].core = i;
        m->pus[i].kind = -1;
    }
    snprintf(m->source, sizeof m->source, "sysconf: caches, cores and nodes are not known");
#ifdef __APPLE__
    int64_t l1d = sysctl_bytes("hw.perflevel0.l1dcachesize"), l2 = sysctl_bytes("hw.perflevel0.l2cachesize");
    for (int i = 0; i < count; ++i) {
        m->pus[i].cache[MACHINE_L1D] = (machine_cache){l1d ? l1d : sysctl_bytes("hw.l1dcachesize"), 1};
        m->pus[i].cache[MACHINE_L2] = (machine_cache){l2 ? l2 : sysctl_bytes("hw.l2cachesize"), 1};
    }
    snprintf(m->source, sizeof m->source, "sysctl: core kinds and the sharing of caches are not known");
#endif
    return true;
}

bool topology_from_sys(machine *m, const char *root, attn_error *error) {
    sysfs_cpus online;
    if (sysfs_cpu_list(&online, root, CPU_DIRECTORY "/online"))
        return read_sys(m, root, &online, error);
    return count_only(m, error);
}
