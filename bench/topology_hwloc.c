/* The topology as hwloc sees it. */
#include "bench/topology.h"
#include "dispatch/dispatch.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ancestor_index(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_obj_t pu, int otherwise) {
    hwloc_obj_t object = hwloc_get_ancestor_obj_by_type(topology, type, pu);
    return object ? (int)object->logical_index : otherwise;
}

static int node_index(hwloc_topology_t topology, hwloc_obj_t pu) {
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)))
        if (node->cpuset && hwloc_bitmap_isset(node->cpuset, pu->os_index))
            return (int)node->logical_index;
    return 0;
}

/* Kinds in the order of their speed; -1 where hwloc could not order them. */
static int kind_of(hwloc_topology_t topology, hwloc_obj_t pu) {
#if HWLOC_API_VERSION >= 0x00020400
    int kind = hwloc_cpukinds_get_by_cpuset(topology, pu->cpuset, 0);
    int efficiency = -1;
    if (kind < 0 || hwloc_cpukinds_get_info(topology, (unsigned)kind, NULL, &efficiency, NULL, NULL, 0) < 0)
        return -1;
    return efficiency;
#else
    return -1;
#endif
}

static void fill_pu(hwloc_topology_t topology, hwloc_obj_t object, machine_pu *pu) {
    static const hwloc_obj_type_t caches[MACHINE_CACHE_LEVELS] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE,
                                                                  HWLOC_OBJ_L3CACHE};
    pu->os_index = (int)object->os_index;
    pu->core = ancestor_index(topology, HWLOC_OBJ_CORE, object, (int)object->logical_index);
    pu->package = ancestor_index(topology, HWLOC_OBJ_PACKAGE, object, 0);
    pu->node = node_index(topology, object);
    pu->kind = kind_of(topology, object);
    for (int level = 0; level < MACHINE_CACHE_LEVELS; ++level) {
        hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(topology, caches[level], object);
        if (cache && cache->attr->cache.size > 0 && cache->attr->cache.size <= INT64_MAX) {
            pu->cache[level].bytes = (int64_t)cache->attr->cache.size;
            pu->cache[level].shared_by = hwloc_bitmap_weight(cache->cpuset);
        }
    }
}

static bool load(hwloc_topology_t topology, const machine_options *options, attn_error *error) {
    if (options->synthetic && hwloc_topology_set_synthetic(topology, options->synthetic) < 0) {
        attn_fail(error, ATTN_INVALID, "topology '%s' is not an hwloc synthetic description",
                  options->synthetic);
        return false;
    }
    if (options->xml && hwloc_topology_set_xml(topology, options->xml) < 0) {
        attn_fail(error, ATTN_INVALID, "topology file '%s' is not hwloc XML", options->xml);
        return false;
    }
    /* The whole machine: which part a container allows must not change its fingerprint. */
    hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_load(topology) < 0) {
        attn_fail(error, ATTN_UNSUPPORTED, "hwloc could not load the topology%s%s",
                  options->xml ? " of " : "", options->xml ? options->xml : "");
        return false;
    }
    return true;
}

bool topology_from_hwloc(machine *m, const machine_options *options, attn_error *error) {
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) < 0) {
        attn_fail(error, ATTN_NO_MEMORY, "hwloc could not start");
        return false;
    }
    bool good = load(topology, options, error);
    int count = good ? hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU) : 0;
    if (good && count < 1) {
        attn_fail(error, ATTN_UNSUPPORTED, "hwloc finds no processing unit");
        good = false;
    }
    if (good && !(m->pus = calloc((size_t)count, sizeof *m->pus))) {
        attn_fail(error, ATTN_NO_MEMORY, "no memory for %d processing units", count);
        good = false;
    }
    if (good) {
        m->pu_count = count;
        for (int i = 0; i < count; ++i)
            fill_pu(topology, hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, (unsigned)i), &m->pus[i]);
        snprintf(m->source, sizeof m->source, "hwloc " HWLOC_VERSION);
    }
    hwloc_topology_destroy(topology);
    return good;
}
