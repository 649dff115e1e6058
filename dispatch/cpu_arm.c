/* Features of AArch64 processors from Linux's HWCAP, identity from MIDR_EL1.
 * Bits: Linux, arch/arm64/include/uapi/asm/hwcap.h; Arm ARM, MIDR_EL1. */
#include "dispatch/cpu.h"

#include <stdio.h>
#include <string.h>

enum { HWCAP_BIT_ASIMD = 1, HWCAP_BIT_CPUID = 11 };

static const struct {
    unsigned implementer;
    const char *name;
} implementers[] = {
    {0x41, "ARM"},       {0x42, "Broadcom"},  {0x43, "Cavium"},   {0x46, "Fujitsu"},
    {0x48, "HiSilicon"}, {0x4E, "NVIDIA"},    {0x51, "Qualcomm"}, {0x53, "Samsung"},
    {0x61, "Apple"},     {0x6D, "Microsoft"}, {0xC0, "Ampere"},
};

static const struct {
    unsigned part;
    const char *name;
} arm_parts[] = {
    {0xD03, "Cortex-A53"},  {0xD05, "Cortex-A55"},  {0xD07, "Cortex-A57"},  {0xD08, "Cortex-A72"},
    {0xD09, "Cortex-A73"},  {0xD0A, "Cortex-A75"},  {0xD0B, "Cortex-A76"},  {0xD0C, "Neoverse-N1"},
    {0xD0D, "Cortex-A77"},  {0xD40, "Neoverse-V1"}, {0xD41, "Cortex-A78"},  {0xD44, "Cortex-X1"},
    {0xD46, "Cortex-A510"}, {0xD47, "Cortex-A710"}, {0xD48, "Cortex-X2"},   {0xD49, "Neoverse-N2"},
    {0xD4F, "Neoverse-V2"}, {0xD81, "Cortex-A720"}, {0xD84, "Neoverse-V3"}, {0xD8E, "Neoverse-N3"},
};

void cpu_decode_arm(const cpu_arm_raw *raw, cpu_info *info) {
    memset(info, 0, sizeof *info);
    info->family = info->model = info->stepping = -1;
    if (!raw->has_hwcap || raw->hwcap >> HWCAP_BIT_ASIMD & 1)
        info->hardware |= CPU_NEON;
    /* HWCAP speaks for CPU and kernel together. */
    info->features = info->hardware;

    if (!raw->has_midr)
        return;
    unsigned implementer = raw->midr >> 24 & 0xFF, part = raw->midr >> 4 & 0xFFF;
    info->family = (int)part;
    info->model = raw->midr >> 20 & 0xF;
    info->stepping = raw->midr & 0xF;
    snprintf(info->vendor, sizeof info->vendor, "0x%02x", implementer);
    for (size_t i = 0; i < sizeof implementers / sizeof *implementers; ++i)
        if (implementers[i].implementer == implementer)
            snprintf(info->vendor, sizeof info->vendor, "%s", implementers[i].name);
    if (implementer == 0x41)
        for (size_t i = 0; i < sizeof arm_parts / sizeof *arm_parts; ++i)
            if (arm_parts[i].part == part)
                snprintf(info->brand, sizeof info->brand, "%s", arm_parts[i].name);
    if (!info->brand[0])
        snprintf(info->brand, sizeof info->brand, "%s part 0x%03x", info->vendor, part);
}

#ifdef __aarch64__

#    ifdef __linux__
#        include <sys/auxv.h>
#    endif

void cpu_read(cpu_info *info) {
    cpu_arm_raw raw;
    memset(&raw, 0, sizeof raw);
#    ifdef __linux__
    raw.has_hwcap = true;
    raw.hwcap = getauxval(AT_HWCAP);
    /* With this bit the kernel answers reads of identification registers from user space. */
    if (raw.hwcap >> HWCAP_BIT_CPUID & 1) {
        __asm__("mrs %0, MIDR_EL1" : "=r"(raw.midr));
        raw.has_midr = true;
    }
#    endif
    cpu_decode_arm(&raw, info);
}

#endif
