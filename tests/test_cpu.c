/* Detection: features are decoded from the words of recorded and of broken machines, the right level
 * follows from them, and a refusal says what is missing. */
#include "tests/support.h"

#include <stdio.h>
#include <string.h>

#include "dispatch/dispatch.h"

/* ---- machines ------------------------------------------------------------------ */

#define INTEL 0x756E6547, 0x6C65746E, 0x49656E69
#define AMD 0x68747541, 0x444D4163, 0x69746E65

enum {
    AVX_2 = CPU_AVX | CPU_AVX2 | CPU_FMA | CPU_F16C,
    AVX_512 = CPU_AVX512F | CPU_AVX512BW | CPU_AVX512DQ | CPU_AVX512VL,
};

typedef struct recorded {
    const char *name;
    cpu_x86_raw raw;
    uint32_t features, tuning;
    int family, model, stepping;
    const char *level;
    const char *avx2, *avx512; /* why the levels are refused; "" where they run */
} recorded;

/* The words that these machines answer CPUID and XGETBV with. This project's own records are marked; the
 * others are as published in dumps of the processors. */
static const recorded machines[] = {
    {"Nehalem, Core i7-920",
     {.leaf0 = {0xB, INTEL}, .leaf1 = {0x106A5, 0x100800, 0x0098E3BD, 0xBFEBFBFF}},
     0,
     0,
     6,
     0x1A,
     5,
     "scalar",
     "the CPU lacks avx, avx2, fma, f16c",
     "the CPU lacks avx, avx2, fma, f16c, avx512f, avx512bw, avx512dq, avx512vl"},
    {"Haswell, Core i7-4770",
     {.leaf0 = {0xD, INTEL},
      .leaf1 = {0x306C3, 0x100800, 0x7FFAFBFF, 0xBFEBFBFF},
      .leaf7 = {0, 0x27AB, 0, 0},
      .xcr0 = 0x7},
     AVX_2,
     0,
     6,
     0x3C,
     3,
     "avx2",
     "",
     "the CPU lacks avx512f, avx512bw, avx512dq, avx512vl"},
    {"Skylake-X, Core i9-7900X",
     {.leaf0 = {0x16, INTEL},
      .leaf1 = {0x50654, 0x100800, 0x7FFEFBFF, 0xBFEBFBFF},
      .leaf7 = {0, 0xD39FFFFB, 0, 0},
      .xcr0 = 0xFF},
     AVX_2 | AVX_512,
     CPU_TUNE_SLOW_512,
     6,
     0x55,
     4,
     "avx512",
     "",
     ""},
    {"Alder Lake, Core i9-12900K: AVX-512 fused off",
     {.leaf0 = {0x20, INTEL},
      .leaf1 = {0x90672, 0x800800, 0x7FFAFBFF, 0xBFEBFBFF},
      .leaf7 = {2, 0x239CA7EB, 0x98C027AC, 0xFC1CC410},
      .xcr0 = 0x207},
     AVX_2,
     0,
     6,
     0x97,
     2,
     "avx2",
     "",
     "the CPU lacks avx512f, avx512bw, avx512dq, avx512vl"},
    {"Zen 4, Ryzen 9 7950X",
     {.leaf0 = {0x10, AMD},
      .leaf1 = {0xA60F12, 0xC0800, 0x7EF8320B, 0x178BFBFF},
      .leaf7 = {1, 0xF1BF97A9, 0x405FCE, 0x10000010},
      .xcr0 = 0x2E7},
     AVX_2 | AVX_512,
     CPU_TUNE_SPLIT_512,
     0x19,
     0x61,
     2,
     "avx512",
     "",
     ""},
    {"Zen 5 under KVM (own record)",
     {.leaf0 = {0x1C, AMD},
      .leaf1 = {0xB00F21, 0x01020800, 0xFFFA3203, 0x178BFBFF},
      .leaf7 = {1, 0xF1BF07AB, 0x405FC6, 0x110},
      .leaf_hyper = {0x40000001, 0x4B4D564B, 0x564B4D56, 0x4D},
      .xcr0 = 0xE7},
     AVX_2 | AVX_512,
     0,
     0x1A,
     2,
     1,
     "avx512",
     "",
     ""},
    {"QEMU 7.2 TCG, max (own record)",
     {.leaf0 = {0xD, AMD},
      .leaf1 = {0x60FB1, 0x800, 0xFED8320B, 0x0FCBFBFD},
      .leaf7 = {0, 0x01D843A9, 0x8001020C, 0},
      .leaf_hyper = {0x40000001, 0x54474354, 0x43544743, 0x47435447},
      .xcr0 = 0x21F},
     AVX_2,
     0,
     15,
     0x6B,
     1,
     "avx2",
     "",
     "the CPU lacks avx512f, avx512bw, avx512dq, avx512vl"},
    {"QEMU 7.2 TCG, qemu64 (own record)",
     {.leaf0 = {0xD, AMD}, .leaf1 = {0x60FB1, 0x800, 0x80002001, 0x078BFBFD}},
     0,
     0,
     15,
     0x6B,
     1,
     "scalar",
     "the CPU lacks avx, avx2, fma, f16c",
     "the CPU lacks avx, avx2, fma, f16c, avx512f, avx512bw, avx512dq, avx512vl"},
};

/* Skylake-X with one thing broken: maximum leaf, leaf 1 ECX, leaf 7 EBX or XCR0. */
#define LEAF1 0x7FFEFBFF
#define LEAF7 0xD39FFFFB
#define BROKEN(max_leaf, leaf1_ecx, leaf7_ebx, state)                                                        \
    {                                                                                                        \
        .leaf0 = {max_leaf, INTEL}, .leaf1 = {0x50654, 0x100800, leaf1_ecx, 0xBFEBFBFF},                     \
        .leaf7 = {0, leaf7_ebx, 0, 0}, .xcr0 = state                                                         \
    }

static const recorded broken[] = {
    {"OSXSAVE off: XCR0 means nothing, whatever it is said to be",
     BROKEN(0x16, LEAF1 & ~(1u << 27), LEAF7, 0xFF), 0, CPU_TUNE_SLOW_512, 6, 0x55, 4, "scalar",
     "the OS has not enabled extended state (CPUID says no OSXSAVE)",
     "the OS has not enabled extended state (CPUID says no OSXSAVE)"},
    {"XCR0 0x3: SSE state only", BROKEN(0x16, LEAF1, LEAF7, 0x3), 0, CPU_TUNE_SLOW_512, 6, 0x55, 4, "scalar",
     "the OS has not enabled YMM state (XCR0 = 0x3)", "the OS has not enabled YMM state (XCR0 = 0x3)"},
    {"XCR0 0x4: YMM without SSE", BROKEN(0x16, LEAF1, LEAF7, 0x4), 0, CPU_TUNE_SLOW_512, 6, 0x55, 4, "scalar",
     "the OS has not enabled YMM state (XCR0 = 0x4)", "the OS has not enabled YMM state (XCR0 = 0x4)"},
    {"XCR0 0x7: no ZMM state", BROKEN(0x16, LEAF1, LEAF7, 0x7), AVX_2, CPU_TUNE_SLOW_512, 6, 0x55, 4, "avx2",
     "", "the OS has not enabled ZMM state (XCR0 = 0x7)"},
    {"XCR0 0x67: upper half of ZMM0-15 but not ZMM16-31", BROKEN(0x16, LEAF1, LEAF7, 0x67), AVX_2,
     CPU_TUNE_SLOW_512, 6, 0x55, 4, "avx2", "", "the OS has not enabled ZMM state (XCR0 = 0x67)"},
    {"XCR0 0xE3: ZMM without YMM", BROKEN(0x16, LEAF1, LEAF7, 0xE3), 0, CPU_TUNE_SLOW_512, 6, 0x55, 4,
     "scalar", "the OS has not enabled YMM state (XCR0 = 0xe3)",
     "the OS has not enabled YMM state (XCR0 = 0xe3)"},
    {"XCR0 0xC7: no opmask state", BROKEN(0x16, LEAF1, LEAF7, 0xC7), AVX_2, CPU_TUNE_SLOW_512, 6, 0x55, 4,
     "avx2", "", "the OS has not enabled ZMM state (XCR0 = 0xc7)"},
    {"maximum leaf below 7: leaf 7 repeats another one", BROKEN(0x6, LEAF1, LEAF7, 0xFF),
     CPU_AVX | CPU_FMA | CPU_F16C, 0, 6, 0x55, 4, "scalar", "the CPU lacks avx2 (its CPUID ends at leaf 6)",
     "the CPU lacks avx2, avx512f, avx512bw, avx512dq, avx512vl (its CPUID ends at leaf 6)"},
    {"maximum leaf 0", BROKEN(0, LEAF1, LEAF7, 0xFF), 0, 0, -1, -1, -1, "scalar",
     "the CPU lacks avx, avx2, fma, f16c (its CPUID ends at leaf 0)",
     "the CPU lacks avx, avx2, fma, f16c, avx512f, avx512bw, avx512dq, avx512vl (its CPUID ends at leaf 0)"},
    {"AVX2 without FMA", BROKEN(0x16, LEAF1 & ~(1u << 12), LEAF7, 0xFF), (AVX_2 & ~CPU_FMA) | AVX_512,
     CPU_TUNE_SLOW_512, 6, 0x55, 4, "scalar", "the CPU lacks fma", "the CPU lacks fma"},
    {"FMA without AVX2", BROKEN(0x16, LEAF1, LEAF7 & ~(1u << 5), 0xFF), (AVX_2 & ~CPU_AVX2) | AVX_512,
     CPU_TUNE_SLOW_512, 6, 0x55, 4, "scalar", "the CPU lacks avx2", "the CPU lacks avx2"},
    {"AVX2 without F16C", BROKEN(0x16, LEAF1 & ~(1u << 29), LEAF7, 0xFF), (AVX_2 & ~CPU_F16C) | AVX_512,
     CPU_TUNE_SLOW_512, 6, 0x55, 4, "scalar", "the CPU lacks f16c", "the CPU lacks f16c"},
    {"everything but AVX itself", BROKEN(0x16, LEAF1 & ~(1u << 28), LEAF7, 0xFF), 0, CPU_TUNE_SLOW_512, 6,
     0x55, 4, "scalar", "the CPU lacks avx", "the CPU lacks avx"},
    {"AVX-512F alone (Knights Landing has neither BW, DQ nor VL)",
     BROKEN(0x16, LEAF1, LEAF7 & ~(1u << 17 | 1u << 30 | 1u << 31), 0xFF), AVX_2 | CPU_AVX512F,
     CPU_TUNE_SLOW_512, 6, 0x55, 4, "avx2", "", "the CPU lacks avx512bw, avx512dq, avx512vl"},
    {"AVX-512 without BW", BROKEN(0x16, LEAF1, LEAF7 & ~(1u << 30), 0xFF), AVX_2 | (AVX_512 & ~CPU_AVX512BW),
     CPU_TUNE_SLOW_512, 6, 0x55, 4, "avx2", "", "the CPU lacks avx512bw"},
    {"BW, DQ and VL without F", BROKEN(0x16, LEAF1, LEAF7 & ~(1u << 16), 0xFF), AVX_2, 0, 6, 0x55, 4, "avx2",
     "", "the CPU lacks avx512f"},
};

static void check_reason(const recorded *machine, const cpu_info *cpu, const char *level, uint32_t required,
                         const char *expected) {
    char reason[160];
    bool runs = cpu_can_run(cpu, required, reason, sizeof reason);
    if (strcmp(reason, expected) != 0 || runs != !expected[0])
        test_fail("%s: %s %s, reason '%s', expected '%s'", machine->name, level, runs ? "runs" : "is refused",
                  reason, expected);
#ifdef ATTN_ARCH_X86
    /* The same through the level's name. */
    attn_error error = {{0}};
    attn_status status = attn_isa_check_on(level, cpu, &error);
    char text[256] = "";
    if (expected[0])
        snprintf(text, sizeof text, "isa %s cannot run here: %s", level, expected);
    assert_int_equal(status, expected[0] ? ATTN_UNSUPPORTED : ATTN_OK);
    assert_string_equal(error.text, text);
#endif
}

static void check_machine(const recorded *machine) {
    cpu_info cpu;
    cpu_decode_x86(&machine->raw, &cpu);
    char got[160], expected[160];
    cpu_format_features(cpu.features, " ", got, sizeof got);
    cpu_format_features(machine->features, " ", expected, sizeof expected);
    if (cpu.features != machine->features)
        test_fail("%s: features '%s', expected '%s'", machine->name, got, expected);
    if (cpu.tuning != machine->tuning)
        test_fail("%s: tuning 0x%x, expected 0x%x", machine->name, cpu.tuning, machine->tuning);
    if (cpu.family != machine->family || cpu.model != machine->model || cpu.stepping != machine->stepping)
        test_fail("%s: family %d, model %d, stepping %d", machine->name, cpu.family, cpu.model, cpu.stepping);
    check_reason(machine, &cpu, "avx2", CPU_AVX2 | CPU_FMA | CPU_F16C, machine->avx2);
    check_reason(machine, &cpu, "avx512", CPU_AVX2 | CPU_FMA | CPU_F16C | AVX_512, machine->avx512);
#ifdef ATTN_ARCH_X86
    const char *level = attn_isa_name(attn_isa_best(cpu.features));
    if (strcmp(level, machine->level) != 0)
        test_fail("%s: level %s, expected %s", machine->name, level, machine->level);
#endif
}

/* Guards against an illegal instruction on a real CPU, and against leaving one idle. */
static void test_recorded(void **state) {
    for (size_t i = 0; i < COUNT_OF(machines); i++)
        check_machine(&machines[i]);
}

/* Guards each rule of detection alone: AVX state that the OS does not save corrupts other programs, leaf 7
 * past the maximum is noise, and emulators report bits that do not fit together. */
static void test_broken(void **state) {
    for (size_t i = 0; i < COUNT_OF(broken); i++)
        check_machine(&broken[i]);
}

/* Guards every part of the state alone and with the others: XCR0 has a bit for each, SSE (1), YMM (2), opmask
 * (5), the upper halves of ZMM0-15 (6) and ZMM16-31 (7). All of them or the level does not run. */
static void test_states(void **state) {
    for (unsigned xcr0 = 0; xcr0 < 0x400; xcr0++) {
        cpu_x86_raw raw = BROKEN(0x16, LEAF1, LEAF7, xcr0);
        cpu_info cpu;
        cpu_decode_x86(&raw, &cpu);
        const bool ymm = (xcr0 >> 1 & 1) && (xcr0 >> 2 & 1);
        const bool zmm = ymm && (xcr0 >> 5 & 1) && (xcr0 >> 6 & 1) && (xcr0 >> 7 & 1);
        const uint32_t expected = (ymm ? AVX_2 : 0) | (zmm ? AVX_512 : 0);
        if (cpu.features != expected)
            test_fail("XCR0 0x%x: features 0x%x, expected 0x%x", xcr0, cpu.features, expected);
    }
}

/* Guards the text fields: vendor order of registers, blanks around brands, bytes that JSON cannot hold. */
static void test_identity(void **state) {
    cpu_x86_raw raw = {.leaf0 = {0xD, INTEL}, .leaf1 = {0x306C3, 0, 1u << 31, 0}};
    raw.leaf_ext0[0] = 0x80000008;
    memcpy(raw.leaf_brand, "      Some CPU \x01@ 3.0GHz                         ", 48);
    memcpy(&raw.leaf_hyper[1], "KVMKVMKVM\0\0\0", 12);
    cpu_info cpu;
    cpu_decode_x86(&raw, &cpu);
    assert_string_equal(cpu.vendor, "GenuineIntel");
    assert_string_equal(cpu.brand, "Some CPU ?@ 3.0GHz");
    assert_true(cpu.hypervisor);
    assert_string_equal(cpu.hypervisor_name, "KVMKVMKVM");

    raw.leaf_ext0[0] = 0x80000003; /* no brand: what stands in its leaves is not one */
    raw.leaf1[2] = 0;              /* no hypervisor */
    cpu_decode_x86(&raw, &cpu);
    assert_string_equal(cpu.brand, "");
    assert_false(cpu.hypervisor);
    assert_string_equal(cpu.hypervisor_name, "");
}

/* Guards AArch64: NEON from HWCAP where there is one, by the ABI where there is none; identity. */
static void test_arm(void **state) {
    static const struct {
        cpu_arm_raw raw;
        uint32_t features;
        const char *vendor, *brand;
        int family, model, stepping;
    } cases[] = {
        /* Cortex-A72: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid */
        {{true, 0x8FF, true, 0x410FD083}, CPU_NEON, "ARM", "Cortex-A72", 0xD08, 0, 3},
        /* Neoverse-N1 r3p1 */
        {{true, 0x119FFF, true, 0x413FD0C1}, CPU_NEON, "ARM", "Neoverse-N1", 0xD0C, 3, 1},
        {{true, 0x8FF, true, 0x610F0220}, CPU_NEON, "Apple", "Apple part 0x022", 0x022, 0, 0},
        {{true, 0x8FF, true, 0x770F1231}, CPU_NEON, "0x77", "0x77 part 0x123", 0x123, 0, 1},
        {{true, 0x8FF, false, 0}, CPU_NEON, "", "", -1, -1, -1},
        {{false, 0, false, 0}, CPU_NEON, "", "", -1, -1, -1},
        {{true, 0x1, false, 0}, 0, "", "", -1, -1, -1}, /* floating point without Advanced SIMD */
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        cpu_info cpu;
        cpu_decode_arm(&cases[i].raw, &cpu);
        test_note("hwcap 0x%llx midr 0x%llx", (unsigned long long)cases[i].raw.hwcap,
                  (unsigned long long)cases[i].raw.midr);
        assert_int_equal(cpu.features, cases[i].features);
        assert_string_equal(cpu.vendor, cases[i].vendor);
        assert_string_equal(cpu.brand, cases[i].brand);
        assert_int_equal(cpu.family, cases[i].family);
        assert_int_equal(cpu.model, cases[i].model);
        assert_int_equal(cpu.stepping, cases[i].stepping);
    }
    cpu_info cpu;
    cpu_decode_arm(&cases[COUNT_OF(cases) - 1].raw, &cpu);
    char reason[160];
    assert_false(cpu_can_run(&cpu, CPU_NEON, reason, sizeof reason));
    assert_string_equal(reason, "the CPU lacks neon");
}

/* ---- this machine ------------------------------------------------------------------ */

/* Guards the reader: it and the compiler's own detection are independent and must agree. */
static void test_agrees_with_compiler(void **state) {
#ifdef ATTN_ARCH_X86
    cpu_info cpu;
    cpu_read(&cpu);
    __builtin_cpu_init();
    struct {
        const char *name;
        bool theirs;
        uint32_t ours;
    } pairs[] = {
        {"avx", __builtin_cpu_supports("avx"), CPU_AVX},
        {"avx2", __builtin_cpu_supports("avx2"), CPU_AVX2},
        {"fma", __builtin_cpu_supports("fma"), CPU_FMA},
        {"avx512f", __builtin_cpu_supports("avx512f"), CPU_AVX512F},
        {"avx512bw", __builtin_cpu_supports("avx512bw"), CPU_AVX512BW},
        {"avx512dq", __builtin_cpu_supports("avx512dq"), CPU_AVX512DQ},
        {"avx512vl", __builtin_cpu_supports("avx512vl"), CPU_AVX512VL},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++)
        if (!!pairs[i].theirs != !!(cpu.features & pairs[i].ours))
            test_fail("%s: the compiler says %d", pairs[i].name, pairs[i].theirs);
#else
    test_skip("the compiler's run-time detection is used for comparison on x86 only");
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded), cmocka_unit_test(test_broken),
        cmocka_unit_test(test_states),   cmocka_unit_test(test_identity),
        cmocka_unit_test(test_arm),      cmocka_unit_test(test_agrees_with_compiler),
    };
    return test_run("cpu", tests, COUNT_OF(tests));
}
