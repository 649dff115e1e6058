/* Features of x86 processors from CPUID and XCR0.
 * Bits: Intel SDM volume 2A, CPUID, and volume 1, chapters 13 and 14; AMD APM volume 3, appendix E. */
#include "dispatch/cpu.h"

#include <string.h>

static bool bit(uint32_t word, int index) {
    return word >> index & 1;
}

static void decode_features(const cpu_x86_raw *raw, cpu_info *info) {
    enum { EAX, EBX, ECX, EDX };
    uint32_t hardware = 0;
    if (info->max_leaf >= 1) {
        hardware |= bit(raw->leaf1[ECX], 28) ? CPU_AVX : 0;
        hardware |= bit(raw->leaf1[ECX], 12) ? CPU_FMA : 0;
        hardware |= bit(raw->leaf1[ECX], 29) ? CPU_F16C : 0;
        info->os_xsave = bit(raw->leaf1[ECX], 27);
        info->hypervisor = bit(raw->leaf1[ECX], 31);
    }
    /* Past the maximum leaf, Intel answers with the contents of its last leaf: bits without meaning. */
    if (info->max_leaf >= 7) {
        hardware |= bit(raw->leaf7[EBX], 5) ? CPU_AVX2 : 0;
        hardware |= bit(raw->leaf7[EBX], 16) ? CPU_AVX512F : 0;
        hardware |= bit(raw->leaf7[EBX], 17) ? CPU_AVX512DQ : 0;
        hardware |= bit(raw->leaf7[EBX], 30) ? CPU_AVX512BW : 0;
        hardware |= bit(raw->leaf7[EBX], 31) ? CPU_AVX512VL : 0;
    }
    info->hardware = hardware;

    /* The registers have to be saved on a task switch, and only the OS knows whether it does: SSE and
     * YMM state (bits 1, 2) for everything here, opmask and both halves of ZMM (5, 6, 7) for AVX-512. */
    info->xcr0 = info->os_xsave ? raw->xcr0 : 0;
    bool ymm = (info->xcr0 & 0x06) == 0x06 && (hardware & CPU_AVX);
    bool zmm = ymm && (info->xcr0 & 0xE6) == 0xE6 && (hardware & CPU_AVX512F);
    if (ymm)
        info->features |= hardware & (CPU_AVX | CPU_AVX2 | CPU_FMA | CPU_F16C);
    if (zmm)
        info->features |= hardware & (CPU_AVX512F | CPU_AVX512BW | CPU_AVX512DQ | CPU_AVX512VL);
}

static void decode_identity(const cpu_x86_raw *raw, cpu_info *info) {
    /* The vendor stands in EBX, EDX, ECX; a hypervisor's in EBX, ECX, EDX. */
    memcpy(info->vendor + 0, &raw->leaf0[1], 4);
    memcpy(info->vendor + 4, &raw->leaf0[3], 4);
    memcpy(info->vendor + 8, &raw->leaf0[2], 4);
    if (info->hypervisor)
        memcpy(info->hypervisor_name, &raw->leaf_hyper[1], 12);

    if (info->max_leaf >= 1) {
        uint32_t signature = raw->leaf1[0];
        int family = signature >> 8 & 0xF, model = signature >> 4 & 0xF;
        if (family == 0xF || family == 0x6)
            model |= (int)(signature >> 16 & 0xF) << 4;
        if (family == 0xF)
            family += (int)(signature >> 20 & 0xFF);
        info->family = family;
        info->model = model;
        info->stepping = signature & 0xF;
    }

    if (raw->leaf_ext0[0] >= 0x80000004u) {
        char brand[49] = {0};
        memcpy(brand, raw->leaf_brand, 48);
        char *start = brand; /* Intel pads in front, everyone behind */
        while (*start == ' ')
            ++start;
        size_t length = strlen(start);
        while (length > 0 && start[length - 1] == ' ')
            --length;
        memcpy(info->brand, start, length);
    }
}

/* What comes from CPUID is printed and written to JSON: printable ASCII only. */
static void clean(char *text) {
    for (; *text; ++text)
        if (*text < 0x20 || *text > 0x7E)
            *text = '?';
}

void cpu_decode_x86(const cpu_x86_raw *raw, cpu_info *info) {
    memset(info, 0, sizeof *info);
    info->x86 = true;
    info->family = info->model = info->stepping = -1;
    info->max_leaf = raw->leaf0[0];
    decode_features(raw, info);
    decode_identity(raw, info);
    clean(info->vendor);
    clean(info->brand);
    clean(info->hypervisor_name);

    bool intel = strcmp(info->vendor, "GenuineIntel") == 0, amd = strcmp(info->vendor, "AuthenticAMD") == 0;
    if (info->hardware & CPU_AVX512F) {
        if (intel && info->family == 6 && info->model == 0x55) /* Skylake-X, Cascade and Cooper Lake */
            info->tuning |= CPU_TUNE_SLOW_512;
        if (amd && info->family == 0x19) /* Zen 4: its Zen 3 brothers have no AVX-512 */
            info->tuning |= CPU_TUNE_SPLIT_512;
    }
}

#if defined(__x86_64__) || defined(__i386__)

#    include <cpuid.h>
#    ifdef __APPLE__
#        include <sys/sysctl.h>
#    endif

static void cpuid(uint32_t leaf, uint32_t out[4]) {
    __cpuid_count(leaf, 0, out[0], out[1], out[2], out[3]);
}

/* In assembly: the intrinsic needs -mxsave, which this file, run on every CPU, must not have. */
static uint64_t xgetbv0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

void cpu_read(cpu_info *info) {
    cpu_x86_raw raw;
    memset(&raw, 0, sizeof raw);
    cpuid(0, raw.leaf0);
    if (raw.leaf0[0] >= 1)
        cpuid(1, raw.leaf1);
    if (raw.leaf0[0] >= 7)
        cpuid(7, raw.leaf7);
    if (bit(raw.leaf1[2], 31))
        cpuid(0x40000000u, raw.leaf_hyper);
    cpuid(0x80000000u, raw.leaf_ext0);
    /* A processor without extended leaves answers with anything; a maximum far off is no maximum. */
    if (raw.leaf_ext0[0] < 0x80000000u || raw.leaf_ext0[0] > 0x8000FFFFu)
        raw.leaf_ext0[0] = 0; /* GCOV_EXCL_LINE: only such a processor comes here */
    if (raw.leaf_ext0[0] >= 0x80000004u)
        for (uint32_t i = 0; i < 3; ++i)
            cpuid(0x80000002u + i, raw.leaf_brand[i]);
    if (bit(raw.leaf1[2], 27)) {
        raw.xcr0 = xgetbv0();
#    ifdef __APPLE__
        /* Darwin enables ZMM state for a thread at its first use, so XCR0 does not show it yet. */
        int avx512 = 0;
        size_t size = sizeof avx512;
        if (sysctlbyname("hw.optional.avx512f", &avx512, &size, NULL, 0) == 0 && avx512)
            raw.xcr0 |= 0xE0;
#    endif
    }
    cpu_decode_x86(&raw, info);
}

#endif
