/* Selection of an ISA level: the best, the one that was asked for, or a refusal with its reason. */
#include "dispatch/dispatch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const struct level {
    const char *name;
    uint32_t required;
    const attn_kernels *kernels;
} levels[] = {
#define ISA(id, features) {#id, features, &attn_kernels_##id},
#include "dispatch/isa.def"
#undef ISA
};
enum { LEVEL_COUNT = sizeof levels / sizeof *levels };

#if defined(ATTN_ARCH_X86)
#    define ARCHITECTURE "x86"
#elif defined(ATTN_ARCH_ARM64)
#    define ARCHITECTURE "AArch64"
#else
#    define ARCHITECTURE "any architecture"
#endif

int attn_isa_count(void) {
    return LEVEL_COUNT;
}

const char *attn_isa_name(int index) {
    return index >= 0 && index < LEVEL_COUNT ? levels[index].name : NULL;
}

uint32_t attn_isa_required(int index) {
    return levels[index].required;
}

int attn_isa_best(uint32_t features) {
    int best = 0; /* the first level requires nothing */
    for (int i = 0; i < LEVEL_COUNT; ++i)
        if ((levels[i].required & ~features) == 0)
            best = i;
    return best;
}

/* Features of this machine. CPUID traps in a virtual machine (tens of microseconds a leaf), so it is
 * read once; threads that come at the same time read it twice and store the same word. */
static uint32_t machine_features(void) {
    enum { KNOWN = 1 << CPU_FEATURE_COUNT };
    static atomic_uint published;
    unsigned word = atomic_load_explicit(&published, memory_order_relaxed);
    if (!(word & KNOWN)) {
        cpu_info cpu;
        cpu_read(&cpu);
        word = cpu.features | KNOWN;
        atomic_store_explicit(&published, word, memory_order_relaxed);
    }
    return word & ~(unsigned)KNOWN;
}

static int find_level(const char *name) {
    for (int i = 0; i < LEVEL_COUNT; ++i)
        if (strcmp(levels[i].name, name) == 0)
            return i;
    return -1;
}

/* Whether some architecture has a level of this name. */
static bool known_elsewhere(const char *name) {
    static const char *const names[] = {
#define ISA(id, features) #id,
#define ISA_EVERY
#include "dispatch/isa.def"
#undef ISA_EVERY
#undef ISA
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static attn_status refuse_name(const char *name, attn_error *error) {
    char accepted[128] = "auto";
    for (int i = 0; i < LEVEL_COUNT; ++i)
        cpu_append(accepted, sizeof accepted, ", %s", levels[i].name);
    if (known_elsewhere(name))
        return attn_fail(error, ATTN_UNSUPPORTED,
                         "isa '%s' is not in this build for " ARCHITECTURE "; accepted: %s", name, accepted);
    return attn_fail(error, ATTN_INVALID, "isa '%.64s' is unknown; accepted: %s", name, accepted);
}

attn_status attn_isa_check_on(const char *name, const cpu_info *cpu, attn_error *error) {
    int index = find_level(name);
    if (index < 0)
        return refuse_name(name, error);
    char reason[160];
    if (!cpu_can_run(cpu, levels[index].required, reason, sizeof reason))
        return attn_fail(error, ATTN_UNSUPPORTED, "isa %s cannot run here: %s", name, reason);
    return ATTN_OK;
}

attn_status attn_isa_check(const char *name, attn_error *error) {
    if (!name)
        return attn_fail(error, ATTN_INVALID, "isa is NULL; a level's name is needed");
    int index = find_level(name);
    if (index >= 0 && (levels[index].required & ~machine_features()) == 0)
        return ATTN_OK;
    cpu_info cpu; /* read again: only a refusal needs the reason */
    cpu_read(&cpu);
    return attn_isa_check_on(name, &cpu, error);
}

/* `index` of the level that "auto" means. */
static attn_status choose(int *index, attn_error *error) {
    const char *forced = getenv("ATTNSCOPE_ISA");
    if (!forced || !forced[0] || strcmp(forced, "auto") == 0) {
        *index = attn_isa_best(machine_features());
        return ATTN_OK;
    }
    attn_error why;
    attn_status status = attn_isa_check(forced, &why);
    if (status != ATTN_OK)
        return attn_fail(error, status, "ATTNSCOPE_ISA=%.64s: %.180s", forced, why.text);
    *index = find_level(forced);
    return ATTN_OK;
}

const char *attn_isa_auto(attn_error *error) {
    int index;
    return choose(&index, error) == ATTN_OK ? levels[index].name : NULL;
}

attn_status attn_dispatch(const char *isa, const attn_kernels **kernels, attn_error *error) {
    *kernels = NULL;
    int index;
    attn_status status;
    if (!isa || strcmp(isa, "auto") == 0) {
        status = choose(&index, error);
    } else {
        status = attn_isa_check(isa, error);
        index = find_level(isa);
    }
    if (status == ATTN_OK)
        *kernels = levels[index].kernels;
    return status;
}
