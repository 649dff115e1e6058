#include "bench/system.h"
#include "bench/sysfs.h"
#include "dispatch/dispatch.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef __GLIBC__
#    include <gnu/libc-version.h>
#endif
#ifdef __APPLE__
#    include <sys/sysctl.h>
#endif

static void copy(char *text, size_t size, const char *value) {
    snprintf(text, size, "%s", value);
}

static void describe_tuning(machine *m, uint32_t tuning) {
    if (tuning & CPU_TUNE_SLOW_512)
        copy(m->tuning, sizeof m->tuning, "512-bit instructions lower the clock");
    if (tuning & CPU_TUNE_SPLIT_512)
        copy(m->tuning, sizeof m->tuning, "512-bit instructions run as two halves");
}

static void describe_processor(machine *m, const cpu_info *cpu) {
#if defined(__x86_64__)
    copy(m->arch, sizeof m->arch, "x86-64");
#elif defined(__aarch64__)
    copy(m->arch, sizeof m->arch, "aarch64");
#else
    struct utsname names;
    if (uname(&names) == 0)
        snprintf(m->arch, sizeof m->arch, "%.15s", names.machine);
#endif
    copy(m->vendor, sizeof m->vendor, cpu->vendor);
    copy(m->brand, sizeof m->brand, cpu->brand);
    m->family = cpu->family;
    m->model = cpu->model;
    m->stepping = cpu->stepping;
    cpu_format_features(cpu->features, " ", m->features, sizeof m->features);
    describe_tuning(m, cpu->tuning);
#ifdef __APPLE__
    size_t size = sizeof m->brand;
    if (sysctlbyname("machdep.cpu.brand_string", m->brand, &size, NULL, 0) != 0)
        copy(m->brand, sizeof m->brand, cpu->brand);
    m->brand[sizeof m->brand - 1] = 0;
    if (!m->vendor[0] && strncmp(m->brand, "Apple", 5) == 0)
        copy(m->vendor, sizeof m->vendor, "Apple");
#endif
}

static void describe_hypervisor(machine *m, const cpu_info *cpu, const char *root) {
    static const struct {
        const char *id, *name;
    } known[] = {
        {"KVMKVMKVM", "KVM"},           {"Microsoft Hv", "Hyper-V"},  {"VMwareVMware", "VMware"},
        {"XenVMMXenVMM", "Xen"},        {"TCGTCGTCGTCG", "QEMU TCG"}, {"bhyve bhyve ", "bhyve"},
        {"VBoxVBoxVBox", "VirtualBox"}, {"ACRNACRNACRN", "ACRN"},
    };
    char text[64];
    if (cpu->hypervisor) {
        copy(m->hypervisor, sizeof m->hypervisor, cpu->hypervisor_name[0] ? cpu->hypervisor_name : "unnamed");
        for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
            if (strcmp(cpu->hypervisor_name, known[i].id) == 0)
                copy(m->hypervisor, sizeof m->hypervisor, known[i].name);
        return;
    }
    if (cpu->x86) /* every hypervisor sets the bit unless it hides */
        return;
    if (sysfs_line(text, sizeof text, root, "/sys/hypervisor/type")) {
        snprintf(m->hypervisor, sizeof m->hypervisor, "%.31s", text);
    } else if (sysfs_line(text, sizeof text, root, "/sys/class/dmi/id/product_name") &&
               (strstr(text, "KVM") || strstr(text, "Virtual"))) {
        snprintf(m->hypervisor, sizeof m->hypervisor, "%.31s", text);
    } else if (sysfs_line(text, sizeof text, root, "/sys/class/dmi/id/sys_vendor") && strstr(text, "QEMU")) {
        copy(m->hypervisor, sizeof m->hypervisor, "QEMU");
    }
#ifdef __APPLE__
    int virtual = 0;
    size_t size = sizeof virtual;
    if (sysctlbyname("kern.hv_vmm_present", &virtual, &size, NULL, 0) == 0 && virtual)
        copy(m->hypervisor, sizeof m->hypervisor, "unnamed");
#endif
}

/* "0x" and hexadecimal digits. */
static bool is_hex(const char *text) {
    return text[0] == '0' && text[1] == 'x' && text[2] &&
           !text[2 + strspn(text + 2, "0123456789abcdefABCDEF")];
}

static void describe_microcode(machine *m, const char *root) {
    char text[sizeof m->microcode], name[1024], line[1024];
    if (sysfs_line(text, sizeof text, root, "/sys/devices/system/cpu/cpu0/microcode/version") &&
        is_hex(text)) {
        copy(m->microcode, sizeof m->microcode, text);
        return;
    }
    snprintf(name, sizeof name, "%s/proc/cpuinfo", root);
    FILE *file = fopen(name, "r");
    if (!file)
        return;
    while (fgets(line, sizeof line, file) && line[0] != '\n')
        if (sscanf(line, "microcode : %31s", text) == 1 && is_hex(text))
            copy(m->microcode, sizeof m->microcode, text);
    fclose(file);
}

static void describe_system(machine *m, const char *root) {
    struct utsname names;
    if (uname(&names) == 0)
        snprintf(m->kernel, sizeof m->kernel, "%.70s %.80s", names.sysname, names.release);
#if defined(__GLIBC__)
    snprintf(m->libc, sizeof m->libc, "glibc %.50s", gnu_get_libc_version());
#elif defined(__APPLE__)
    copy(m->libc, sizeof m->libc, "libSystem");
#elif defined(__linux__)
    copy(m->libc, sizeof m->libc, "not glibc"); /* musl does not say its name */
#else
    copy(m->libc, sizeof m->libc, "the system's");
#endif
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0 && pages <= INT64_MAX / page)
        m->memory_bytes = (int64_t)pages * page;
    int64_t limit = quota_memory_bytes(root);
    if (m->memory_bytes > limit)
        m->memory_bytes = limit;
}

void system_describe(machine *m, const char *root, int hypervisor) {
    cpu_info cpu;
    cpu_read(&cpu);
    describe_processor(m, &cpu);
    describe_hypervisor(m, &cpu, root);
    if (hypervisor < 0)
        m->hypervisor[0] = 0;
    else if (hypervisor > 0 && !m->hypervisor[0])
        copy(m->hypervisor, sizeof m->hypervisor, "unnamed");
    describe_microcode(m, root);
    describe_system(m, root);
}

/* A governor's name: a word. */
static bool is_word(const char *text) {
    return text[0] && !text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-")];
}

void system_frequency(machine *m, const char *root) {
    char governor[sizeof m->governor];
    m->governor[0] = m->boost[0] = 0;
    for (int i = 0; i < m->pu_count; ++i) {
        if (!m->pus[i].allowed ||
            !sysfs_line(governor, sizeof governor, root,
                        "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", m->pus[i].os_index) ||
            !is_word(governor))
            continue;
        if (m->governor[0] && strcmp(m->governor, governor) != 0) {
            copy(m->governor, sizeof m->governor, "mixed");
            break;
        }
        copy(m->governor, sizeof m->governor, governor);
    }
    int64_t flag;
    if (sysfs_int(&flag, 0, 1, root, "/sys/devices/system/cpu/cpufreq/boost"))
        copy(m->boost, sizeof m->boost, flag ? "on" : "off");
    else if (sysfs_int(&flag, 0, 1, root, "/sys/devices/system/cpu/intel_pstate/no_turbo"))
        copy(m->boost, sizeof m->boost, flag ? "off" : "on");
}
