/* Which PUs the process may use, and binding a thread to one of them. */
#include "bench/binding.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#ifdef __linux__
#    include <sched.h>

/* The kernel refuses a set that is narrower than its own; this is as wide as it can be built. */
typedef union kernel_set {
    cpu_set_t set;
    unsigned char bytes[SYSFS_CPUS / 8];
} kernel_set;

static void to_kernel(const sysfs_cpus *cpus, kernel_set *set) {
    memset(set, 0, sizeof *set);
    for (int cpu = 0; cpu < SYSFS_CPUS; ++cpu)
        if (sysfs_has_cpu(cpus, cpu))
            CPU_SET_S((size_t)cpu, sizeof *set, &set->set);
}

bool binding_allowed(sysfs_cpus *cpus) {
    kernel_set set;
    memset(&set, 0, sizeof set);
    memset(cpus, 0, sizeof *cpus);
    if (sched_getaffinity(0, sizeof set, &set.set) != 0)
        return false;
    for (int cpu = 0; cpu < SYSFS_CPUS; ++cpu)
        if (CPU_ISSET_S((size_t)cpu, sizeof set, &set.set))
            sysfs_add_cpu(cpus, cpu);
    return true;
}

static bool set_affinity(const sysfs_cpus *cpus) {
    kernel_set set;
    to_kernel(cpus, &set);
    return sched_setaffinity(0, sizeof set, &set.set) == 0;
}

bool machine_bind(int os_index, machine_binding *report) {
    memset(report, 0, sizeof *report);
    report->os_index = os_index;
    report->ran_on = -1;
    sysfs_cpus wanted = {{0}}, got;
    sysfs_add_cpu(&wanted, os_index);
    if (sysfs_first_cpu(&wanted) < 0) {
        snprintf(report->reason, sizeof report->reason, "there is no PU %d", os_index);
        return false;
    }
    if (!set_affinity(&wanted)) {
        snprintf(report->reason, sizeof report->reason, "the system refused PU %d: %s", os_index,
                 strerror(errno));
        return false;
    }
    report->ran_on = sched_getcpu();
    /* The kernel intersects with the cpuset that it allows, so success alone says little. */
    if (!binding_allowed(&got) || memcmp(&got, &wanted, sizeof got) != 0)
        snprintf(report->reason, sizeof report->reason, "asked for PU %d, the system keeps another set",
                 os_index);
    else if (report->ran_on != os_index)
        snprintf(report->reason, sizeof report->reason, "bound to PU %d, but found on PU %d", os_index,
                 report->ran_on);
    else
        report->bound = true;
    return report->bound;
}

void machine_unbind(const machine *m) {
    sysfs_cpus allowed = {{0}};
    for (int i = 0; i < m->pu_count; ++i)
        if (m->pus[i].allowed)
            sysfs_add_cpu(&allowed, m->pus[i].os_index);
    set_affinity(&allowed);
}

#else

bool binding_allowed(sysfs_cpus *cpus) {
    memset(cpus, 0, sizeof *cpus);
    return false;
}

bool machine_bind(int os_index, machine_binding *report) {
    memset(report, 0, sizeof *report);
    report->os_index = os_index;
    report->ran_on = -1;
    snprintf(report->reason, sizeof report->reason, "binding a thread is not supported on this system");
    return false;
}

void machine_unbind(const machine *m) {
}

#endif
