/* What both architectures share: names of features, and reasons. */
#include "dispatch/cpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *cpu_feature_name(int bit) {
    static const char *const names[] = {
#define X(constant, name) [constant##_BIT] = name,
        CPU_FEATURE_LIST(X)
#undef X
    };
    return bit >= 0 && bit < CPU_FEATURE_COUNT ? names[bit] : NULL;
}

void cpu_append(char *text, size_t size, const char *format, ...) {
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, size - length, format, arguments);
    va_end(arguments);
}

void cpu_format_features(uint32_t features, const char *separator, char *text, size_t size) {
    text[0] = 0;
    for (int bit = 0; bit < CPU_FEATURE_COUNT; ++bit)
        if (features >> bit & 1)
            cpu_append(text, size, "%s%s", text[0] ? separator : "", cpu_feature_name(bit));
}

bool cpu_can_run(const cpu_info *info, uint32_t required, char *reason, size_t size) {
    const uint32_t needs_ymm = (uint32_t)~CPU_NEON;
    const uint32_t needs_zmm = CPU_AVX512F | CPU_AVX512BW | CPU_AVX512DQ | CPU_AVX512VL;

    reason[0] = 0;
    if ((required & ~info->features) == 0)
        return true;

    /* A bit that stands without AVX is the mark of a broken emulator: AVX is what is missing. */
    uint32_t missing = required & ~info->hardware;
    if ((required & needs_ymm) && !(info->hardware & CPU_AVX))
        missing |= CPU_AVX;
    if (missing) {
        char names[128];
        cpu_format_features(missing, ", ", names, sizeof names);
        cpu_append(reason, size, "the CPU lacks %s", names);
        if (info->x86 && info->max_leaf < 7)
            cpu_append(reason, size, " (its CPUID ends at leaf %u)", (unsigned)info->max_leaf);
    } else if (!info->os_xsave) {
        cpu_append(reason, size, "the OS has not enabled extended state (CPUID says no OSXSAVE)");
    } else {
        bool ymm = (info->xcr0 & 0x6) == 0x6;
        cpu_append(reason, size, "the OS has not enabled %s state (XCR0 = 0x%llx)",
                   ymm && (required & needs_zmm) ? "ZMM" : "YMM", (unsigned long long)info->xcr0);
    }
    return false;
}

#if !defined(__x86_64__) && !defined(__i386__) && !defined(__aarch64__)
void cpu_read(cpu_info *info) {
    memset(info, 0, sizeof *info);
    info->family = info->model = info->stepping = -1;
}
#endif
