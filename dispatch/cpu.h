/* What a CPU and its OS can run. Decoding is pure: it looks at values handed in, so that tables of
 * recorded and broken machines test it on any machine. cpu_read hands in the real ones. */
#ifndef ATTN_CPU_H
#define ATTN_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every feature that a level in isa.def may require: X(constant, name). */
#define CPU_FEATURE_LIST(X)                                                                                  \
    X(CPU_AVX, "avx")                                                                                        \
    X(CPU_AVX2, "avx2")                                                                                      \
    X(CPU_FMA, "fma")                                                                                        \
    X(CPU_F16C, "f16c")                                                                                      \
    X(CPU_AVX512F, "avx512f")                                                                                \
    X(CPU_AVX512BW, "avx512bw")                                                                              \
    X(CPU_AVX512DQ, "avx512dq")                                                                              \
    X(CPU_AVX512VL, "avx512vl")                                                                              \
    X(CPU_NEON, "neon")

enum {
#define X(constant, name) constant##_BIT,
    CPU_FEATURE_LIST(X)
#undef X
        CPU_FEATURE_COUNT
};
enum {
#define X(constant, name) constant = 1 << constant##_BIT,
    CPU_FEATURE_LIST(X)
#undef X
};

/* Remarks on speed. They never decide what can run. */
enum {
    CPU_TUNE_SLOW_512 = 1 << 0,  /* 512-bit instructions lower the clock (Skylake-X to Cooper Lake) */
    CPU_TUNE_SPLIT_512 = 1 << 1, /* 512-bit instructions run as two halves (Zen 4) */
};

typedef struct cpu_info {
    uint32_t features;           /* CPU_*: the processor has it and the OS allows it */
    uint32_t hardware;           /* CPU_*: the processor has it */
    uint32_t tuning;             /* CPU_TUNE_* */
    bool x86;                    /* the fields of x86 below mean something */
    bool hypervisor;             /* it says that it is virtual */
    bool os_xsave;               /* x86: the OS has enabled XGETBV and extended state */
    uint64_t xcr0;               /* x86: the state that the OS has enabled; 0 without os_xsave */
    uint32_t max_leaf;           /* x86: last basic CPUID leaf */
    int family, model, stepping; /* AArch64: part, variant, revision; -1 where not readable */
    char vendor[16];             /* "GenuineIntel", "ARM", ...; "" unknown */
    char brand[64];              /* "" unknown */
    char hypervisor_name[16];    /* x86: "KVMKVMKVM", "TCGTCGTCGTCG", ...; "" unknown */
} cpu_info;

/* CPUID leaves as EAX, EBX, ECX, EDX. A leaf that the processor does not have is ignored, whatever
 * stands in it. */
typedef struct cpu_x86_raw {
    uint32_t leaf0[4]; /* maximum leaf, vendor */
    uint32_t leaf1[4];
    uint32_t leaf7[4];         /* subleaf 0 */
    uint32_t leaf_hyper[4];    /* 0x40000000 */
    uint32_t leaf_ext0[4];     /* 0x80000000: maximum extended leaf */
    uint32_t leaf_brand[3][4]; /* 0x80000002 to 4 */
    uint64_t xcr0;             /* XGETBV(0), where leaf 1 says OSXSAVE */
} cpu_x86_raw;

void cpu_decode_x86(const cpu_x86_raw *raw, cpu_info *info);

typedef struct cpu_arm_raw {
    bool has_hwcap; /* false where the OS has none: NEON is then assumed, as the architecture's ABI does */
    uint64_t hwcap; /* Linux AT_HWCAP */
    bool has_midr;
    uint64_t midr; /* MIDR_EL1 */
} cpu_arm_raw;

void cpu_decode_arm(const cpu_arm_raw *raw, cpu_info *info);

/* This machine. On an architecture that is neither, no features. */
void cpu_read(cpu_info *info);

/* Name of the feature with this bit number, 0 <= bit < CPU_FEATURE_COUNT. */
const char *cpu_feature_name(int bit);

/* Appends formatted text, cut at the end of `text`, which holds `size` bytes and is a string. */
void cpu_append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The names of `features` into `text`, `separator` between. */
void cpu_format_features(uint32_t features, const char *separator, char *text, size_t size);

/* Why `info` cannot run something that requires `required`: "the CPU lacks avx512bw", "the OS has not
 * enabled ZMM state (XCR0 = 0x7)". Returns true, and writes "", if it can. */
bool cpu_can_run(const cpu_info *info, uint32_t required, char *reason, size_t size);

#ifdef __cplusplus
}
#endif

#endif
