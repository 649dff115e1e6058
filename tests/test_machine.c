/* The description of the machine, on topologies made for the purpose and on this one. */
#include "tests/fake_root.h"

#include <inttypes.h>

#include "bench/sysfs.h"
#include "tests/machines.h"

#ifdef HAVE_HWLOC
#    include <hwloc.h>
#endif

static void expect_pick(const machine *m, int threads, const int *expected, int count) {
    int picked[64];
    assert_int_equal(machine_pick(m, threads, picked), count);
    for (int i = 0; i < count; i++)
        if (picked[i] != expected[i])
            test_fail("thread %d gets PU %d, expected %d", i, picked[i], expected[i]);
}

/* ---- topologies of hwloc ------------------------------------------------------- */

/* Guards counts, caches and the order of threads on two sockets with SMT: a thread per core first. */
static void test_two_sockets(void **state) {
    need_hwloc();
    machine *m = load(&(machine_options){.synthetic = TWO_SOCKETS});
    assert_int_equal(m->packages, 2);
    assert_int_equal(m->cores, 8);
    assert_int_equal(m->pu_count, 16);
    assert_int_equal(m->core_kinds, 1);
    assert_int_equal(m->allowed_pus, 16);
    assert_int_equal(m->default_threads <= 8, 1);

    machine_cache_group groups[8];
    assert_int_equal(machine_cache_groups(m, groups, 8), 3);
    static const machine_cache_group expected[] = {
        {MACHINE_L1D, {32768, 2}, 8}, {MACHINE_L2, {1048576, 2}, 8}, {MACHINE_L3, {33554432, 8}, 2}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(groups[i].level, expected[i].level);
        assert_int_equal(groups[i].cache.bytes, expected[i].cache.bytes);
        assert_int_equal(groups[i].cache.shared_by, expected[i].cache.shared_by);
        assert_int_equal(groups[i].count, expected[i].count);
    }
    assert_int_equal(machine_cache_groups(m, groups, 2), 2); /* no more than asked */

    /* PUs 2k and 2k+1 are the threads of core k. */
    static const int order[] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    expect_pick(m, 16, order, 16);
    expect_pick(m, 3, order, 3);
    expect_pick(m, 40, order, 16);
    expect_pick(m, 0, order, 0);
    assert_int_equal(machine_find_pu(m, 9)->core, 4);
    assert_int_equal(machine_find_pu(m, 9)->package, 1);
    assert_int_equal(machine_find_pu(m, 9)->thread, 1);
    assert_null(machine_find_pu(m, 16));
    machine_free(m);
}

/* Guards NUMA nodes. */
static void test_numa(void **state) {
    need_hwloc();
    machine *m = load(&(machine_options){.synthetic = "package:2 numa:2 core:2 pu:1"});
    assert_int_equal(m->nodes, 4);
    assert_int_equal(m->packages, 2);
    for (int i = 0; i < m->pu_count; i++)
        assert_int_equal(m->pus[i].node, i / 2);
    machine_cache_group groups[4];
    assert_int_equal(machine_cache_groups(m, groups, 4), 0); /* none known is none invented */
    machine_free(m);
}

/* Guards the cpuset: threads only where the process may run, and as many as it may use. */
static void test_restricted(void **state) {
    need_hwloc();
    machine *m = load(&(machine_options){.synthetic = TWO_SOCKETS, .allowed = "1,4-5,30"});
    static const int order[] = {4, 1, 5};
    assert_int_equal(m->allowed_pus, 3);
    assert_true(m->usable_threads <= 3);
    assert_true(m->default_threads <= 2);
    expect_pick(m, 16, order, 3);
    machine_free(m);

    static const char *const wrong[] = {"99", "", "4-", "all"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        attn_error error = {{0}};
        assert_null(machine_load(&(machine_options){.synthetic = TWO_SOCKETS, .allowed = wrong[i]}, &error));
        assert_true(error.text[0]);
    }
    attn_error error = {{0}};
    assert_null(machine_load(&(machine_options){.synthetic = "nonsense"}, &error));
    assert_non_null(strstr(error.text, "nonsense"));
    assert_null(machine_load(&(machine_options){.xml = "/nonexistent.xml"}, &error));
    assert_non_null(strstr(error.text, "/nonexistent.xml"));
}

#ifdef HAVE_HWLOC
/* Two fast cores with two threads each (PUs 0-3) and four slow ones (PUs 4-7), as XML; with
 * `efficiency` false the kinds are known but not which is faster. */
static void write_hybrid(const char *path, bool efficiency) {
    hwloc_topology_t topology;
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(topology, "package:1 core:4 pu:2"), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    hwloc_bitmap_set_range(cpus, 0, 3);
    assert_int_equal(hwloc_cpukinds_register(topology, cpus, efficiency ? 1 : -1, 0, NULL, 0), 0);
    hwloc_bitmap_zero(cpus);
    hwloc_bitmap_set_range(cpus, 4, 7);
    assert_int_equal(hwloc_cpukinds_register(topology, cpus, efficiency ? 0 : -1, 0, NULL, 0), 0);
    assert_int_equal(hwloc_topology_export_xml(topology, path, 0), 0);
    hwloc_bitmap_free(cpus);
    hwloc_topology_destroy(topology);
}
#endif

/* Guards hybrid CPUs: one kind of core by default, the fastest; no kinds in a virtual machine, which
 * reports where its CPUs happened to run; none where the order is not known. */
static void test_hybrid(void **state) {
    need_hwloc();
#ifdef HAVE_HWLOC
    fake_root root = fake_root_make();
    char path[128];
    snprintf(path, sizeof path, "%s/hybrid.xml", root.path);
    write_hybrid(path, true);

    machine *m = load(&(machine_options){.xml = path, .hypervisor = -1});
    static const int order[] = {0, 2, 1, 3, 4, 6, 5, 7};
    assert_int_equal(m->core_kinds, 2);
    assert_string_equal(m->kinds_note, "");
    assert_true(m->default_threads <= 2);
    expect_pick(m, 8, order, 8);
    machine_free(m);

    m = load(&(machine_options){.xml = path, .hypervisor = -1, .allowed = "4-7"}); /* slow ones only */
    assert_int_equal(m->core_kinds, 2);
    expect_pick(m, 8, (int[]){4, 6, 5, 7}, 4);
    machine_free(m);

    m = load(&(machine_options){.xml = path, .hypervisor = 1});
    assert_int_equal(m->core_kinds, 1);
    assert_non_null(strstr(m->kinds_note, "virtual machine"));
    expect_pick(m, 8, (int[]){0, 2, 4, 6, 1, 3, 5, 7}, 8);
    machine_free(m);

    write_hybrid(path, false);
    m = load(&(machine_options){.xml = path, .hypervisor = -1});
    assert_int_equal(m->core_kinds, 1);
    machine_free(m);
    fake_root_remove(&root);
#endif
}

/* ---- /sys ------------------------------------------------------------------------ */

static void write_cpu(const fake_root *root, int cpu, int package, const char *siblings, const char *l3) {
    char name[128], text[32];
#define CPU_FILE(file, ...)                                                                                  \
    (snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu%d/" file, cpu),                                \
     snprintf(text, sizeof text, __VA_ARGS__), fake_root_write(root, name, text))
    CPU_FILE("topology/physical_package_id", "%d\n", package);
    CPU_FILE("topology/thread_siblings_list", "%s\n", siblings);
    CPU_FILE("cache/index0/level", "1\n");
    CPU_FILE("cache/index0/type", "Data\n");
    CPU_FILE("cache/index0/size", "48K\n");
    CPU_FILE("cache/index0/shared_cpu_list", "%s\n", siblings);
    CPU_FILE("cache/index1/level", "1\n");
    CPU_FILE("cache/index1/type", "Instruction\n");
    CPU_FILE("cache/index1/size", "32K\n");
    CPU_FILE("cache/index1/shared_cpu_list", "%s\n", siblings);
    CPU_FILE("cache/index2/level", "3\n");
    CPU_FILE("cache/index2/type", "Unified\n");
    CPU_FILE("cache/index2/size", "16M\n");
    CPU_FILE("cache/index2/shared_cpu_list", "%s\n", l3);
}

/* Guards the topology without hwloc, on a machine whose numbers are not in the order of its hardware:
 * siblings are k and k+4, and the second package comes between. */
static void test_sys_topology(void **state) {
    fake_root root = fake_root_make();
    fake_root_write(&root, "/sys/devices/system/cpu/online", "0-7\n");
    static const char *const siblings[] = {"0,4", "1,5", "2,6", "3,7"};
    static const char *const l3[] = {"0,2,4,6", "1,3,5,7"};
    for (int cpu = 0; cpu < 8; cpu++)
        write_cpu(&root, cpu, cpu % 2 * 7, siblings[cpu % 4], l3[cpu % 2]);
    fake_root_write(&root, "/sys/devices/system/node/online", "0,3\n");
    fake_root_write(&root, "/sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
    fake_root_write(&root, "/sys/devices/system/node/node3/cpulist", "1,3,5,7\n");
    machine_options options = {.root = root.path, .without_hwloc = true, .allowed = "0-7", .hypervisor = -1};

    machine *m = load(&options);
    assert_int_equal(m->packages, 2);
    assert_int_equal(m->nodes, 2);
    assert_int_equal(m->cores, 4);
    assert_int_equal(m->pu_count, 8);
    assert_non_null(strstr(m->source, "hwloc: not"));
    expect_pick(m, 8, (int[]){0, 2, 1, 3, 4, 6, 5, 7}, 8);
    assert_int_equal(machine_find_pu(m, 7)->package, 1);
    assert_int_equal(machine_find_pu(m, 7)->node, 1);
    machine_cache_group groups[8];
    assert_int_equal(machine_cache_groups(m, groups, 8), 2);
    assert_int_equal(groups[0].cache.bytes, 49152);
    assert_int_equal(groups[0].cache.shared_by, 2);
    assert_int_equal(groups[0].count, 4);
    assert_int_equal(groups[1].level, MACHINE_L3);
    assert_int_equal(groups[1].cache.bytes, 16777216);
    assert_int_equal(groups[1].cache.shared_by, 4);
    assert_int_equal(groups[1].count, 2);
    machine_free(m);

    /* Intel's two kinds, by the counters that each has. */
    fake_root_write(&root, "/sys/devices/cpu_core/cpus", "0-1,4-5\n");
    fake_root_write(&root, "/sys/devices/cpu_atom/cpus", "2-3,6-7\n");
    m = load(&options);
    assert_int_equal(m->core_kinds, 2);
    expect_pick(m, 4, (int[]){0, 1, 4, 5}, 4);
    machine_free(m);

    /* What does not parse is not there: a cache whose list lacks its own CPU, a size without sense. */
    fake_root_write(&root, "/sys/devices/system/cpu/cpu0/cache/index0/size", "lots\n");
    fake_root_write(&root, "/sys/devices/system/cpu/cpu2/cache/index0/shared_cpu_list", "5\n");
    m = load(&options);
    assert_int_equal(machine_find_pu(m, 0)->cache[MACHINE_L1D].bytes, 0);
    assert_int_equal(machine_find_pu(m, 2)->cache[MACHINE_L1D].bytes, 0);
    assert_int_equal(machine_find_pu(m, 1)->cache[MACHINE_L1D].bytes, 49152);
    machine_free(m);
    fake_root_remove(&root);
}

/* Guards a system that has no /sys, as macOS: threads are counted, the rest is said to be unknown. */
static void test_nothing_readable(void **state) {
    fake_root root = fake_root_make();
    machine *m = load(&(machine_options){.root = root.path, .without_hwloc = true});
    assert_true(m->pu_count >= 1);
    assert_true(m->usable_threads >= 1);
    assert_non_null(strstr(m->source, "not known"));
    assert_string_equal(m->governor, "");
    assert_string_equal(m->boost, "");
    assert_string_equal(m->microcode, "");
    machine_free(m);
    fake_root_remove(&root);
}

/* Guards what is printed about frequency and microcode: read, merged, and refused when it is not a word,
 * a flag or a hexadecimal number. */
static void test_frequency(void **state) {
    fake_root root = fake_root_make();
    machine_options options = {.root = root.path, .without_hwloc = true, .allowed = "0-1"};
#define GOVERNOR(cpu) "/sys/devices/system/cpu/cpu" #cpu "/cpufreq/scaling_governor"
    fake_root_write(&root, "/sys/devices/system/cpu/online", "0-2\n");
    fake_root_write(&root, GOVERNOR(0), "performance\n");
    fake_root_write(&root, GOVERNOR(1), "performance\n");
    fake_root_write(&root, GOVERNOR(2), "powersave\n"); /* not allowed: does not count */
    fake_root_write(&root, "/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
    fake_root_write(&root, "/proc/cpuinfo", "processor\t: 0\nmicrocode\t: 0xd000390\n\nmicrocode\t: 0x1\n");
    machine *m = load(&options);
    assert_string_equal(m->governor, "performance");
    assert_string_equal(m->boost, "off");
    assert_string_equal(m->microcode, "0xd000390");
    machine_free(m);

    fake_root_write(&root, GOVERNOR(1), "schedutil\n");
    fake_root_write(&root, "/sys/devices/system/cpu/cpufreq/boost", "1\n");
    fake_root_write(&root, "/sys/devices/system/cpu/cpu0/microcode/version", "0xa20\n");
    m = load(&options);
    assert_string_equal(m->governor, "mixed");
    assert_string_equal(m->boost, "on");
    assert_string_equal(m->microcode, "0xa20");
    machine_free(m);

    fake_root_write(&root, GOVERNOR(0), "<b>\n");
    fake_root_write(&root, GOVERNOR(1), "\n");
    fake_root_write(&root, "/sys/devices/system/cpu/cpufreq/boost", "2\n");
    fake_root_write(&root, "/sys/devices/system/cpu/intel_pstate/no_turbo", "yes\n");
    fake_root_write(&root, "/sys/devices/system/cpu/cpu0/microcode/version", "0x\n");
    fake_root_write(&root, "/proc/cpuinfo", "microcode : 12 monkeys\n");
    m = load(&options);
    assert_string_equal(m->governor, "");
    assert_string_equal(m->boost, "");
    assert_string_equal(m->microcode, "");
    machine_free(m);
    fake_root_remove(&root);
}

/* Guards against two descriptions of one machine: hwloc and /sys see the same cores and caches. */
static void test_sources_agree(void **state) {
    need_hwloc();
    if (access("/sys/devices/system/cpu/online", R_OK) != 0)
        test_skip("no /sys/devices/system/cpu here");
    machine *a = load(NULL), *b = load(&(machine_options){.without_hwloc = true});
    test_note("%s: %d PUs, %d cores; %s: %d, %d", a->source, a->pu_count, a->cores, b->source, b->pu_count,
              b->cores);
    assert_int_equal(a->pu_count, b->pu_count);
    assert_int_equal(a->cores, b->cores);
    assert_int_equal(a->packages, b->packages);
    assert_int_equal(a->allowed_pus, b->allowed_pus);
    for (int i = 0; i < a->pu_count; i++) {
        const machine_pu *other = machine_find_pu(b, a->pus[i].os_index);
        assert_non_null(other);
        /* An emulated process may see a /sys that lacks the caches; what both see is the same. */
        for (int level = 0; level < MACHINE_CACHE_LEVELS; level++)
            if (a->pus[i].cache[level].bytes && other->cache[level].bytes)
                assert_int_equal(a->pus[i].cache[level].bytes, other->cache[level].bytes);
    }
    machine_free(a);
    machine_free(b);
}

/* Guards lists of names: whole ones are found wherever they stand, and no part of one. */
static void test_lists(void **state) {
    static const struct {
        const char *list, *name;
        bool there;
    } lists[] = {{"cpu", "cpu", true},           {"cpu,cpuacct", "cpu", true}, {"cpuacct,cpu", "cpu", true},
                 {"a,cpu,b", "cpu", true},       {"cpuacct", "cpu", false},    {"xcpu", "cpu", false},
                 {"xcpu,cpuacct", "cpu", false}, {"cpu", "cpuacct", false},    {"", "cpu", false},
                 {",cpu", "cpu", true},          {"a, cpu", "cpu", false}};
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        if (sysfs_in_list(lists[i].list, lists[i].name) != lists[i].there)
            test_fail("'%s' in '%s'", lists[i].name, lists[i].list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_sockets),  cmocka_unit_test(test_numa),
        cmocka_unit_test(test_restricted),   cmocka_unit_test(test_hybrid),
        cmocka_unit_test(test_sys_topology), cmocka_unit_test(test_nothing_readable),
        cmocka_unit_test(test_frequency),    cmocka_unit_test(test_sources_agree),
        cmocka_unit_test(test_lists),
    };
    return test_run("machine", tests, COUNT_OF(tests));
}
