/* Tests once per ISA level. */
#include "tests/support.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ISA(id, ...) &attn_kernels_##id,
static const attn_kernels *const levels[] = {
#include "dispatch/isa.def"
};
#undef ISA

static void append(test_list *list, const char *name, CMUnitTestFunction function,
                   const attn_kernels *level) {
    list->tests = realloc(list->tests, (list->count + 1) * sizeof *list->tests);
    if (list->tests == NULL)
        abort();
    list->tests[list->count++] =
        (struct CMUnitTest){.name = name, .test_func = function, .initial_state = (void *)(uintptr_t)level};
}

void test_add(test_list *list, const char *name, CMUnitTestFunction function) {
    append(list, name, function, NULL);
}

/* Whether one of the words of `list`, which commas part, is `name`. */
static bool listed(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *word = list; *word; word += *word == ',') {
        const size_t end = strcspn(word, ",");
        if (end == length && memcmp(word, name, length) == 0)
            return true;
        word += end;
    }
    return false;
}

/* Ends the program if a word is no level of this build: a misspelt filter must not pass for a run. */
static void check_filter(const char *list) {
    size_t words = 1, known = 0;
    for (const char *c = list; *c; c++)
        words += *c == ',';
    for (size_t i = 0; i < COUNT_OF(levels); i++)
        known += listed(list, levels[i]->name);
    if (known != words) {
        printf("Bail out! ATTNSCOPE_TEST_LEVELS is '%s', must name levels of this build, each once\n", list);
        exit(2);
    }
}

bool test_level_wanted(const char *name) {
    const char *list = getenv("ATTNSCOPE_TEST_LEVELS");
    if (list == NULL || *list == '\0')
        return true;
    check_filter(list);
    return listed(list, name);
}

void test_add_levels(test_list *list, const char *name, CMUnitTestFunction function) {
    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        if (!test_level_wanted(levels[i]->name))
            continue;
        char *full = NULL;
        if (asprintf(&full, "%s [%s]", name, levels[i]->name) < 0)
            abort();
        append(list, full, function, levels[i]); /* the name lives as long as the program */
    }
}

const attn_kernels *test_kernels(void **state) {
    const attn_kernels *kernels = *state;
    attn_error error;
    if (attn_isa_check(kernels->name, &error) != ATTN_OK)
        test_skip("%s: %s", kernels->name, error.text);
    return kernels;
}

int test_run_list(const char *group, test_list *list) {
    int code = test_run(group, list->tests, list->count);
    for (size_t i = 0; i < list->count; i++) {
        if (list->tests[i].initial_state != NULL)
            free((void *)(uintptr_t)list->tests[i].name); /* asprintf's */
    }
    free(list->tests);
    return code;
}

static void insert(int64_t sizes[TEST_SIZES], int *count, int64_t size) {
    int at = *count;
    while (at > 0 && sizes[at - 1] >= size)
        at--;
    if (size < 0 || (at < *count && sizes[at] == size) || *count == TEST_SIZES)
        return;
    memmove(sizes + at + 1, sizes + at, (size_t)(*count - at) * sizeof *sizes);
    sizes[at] = size;
    ++*count;
}

int test_sizes(int64_t sizes[TEST_SIZES], int64_t lanes, int64_t tile) {
    static const int64_t always[] = {0, 1, 2, 3, 13}, primes[] = {5, 7, 31, 61, 67, 131, 257};
    int count = 0;
    for (size_t i = 0; i < COUNT_OF(always); i++)
        insert(sizes, &count, always[i]);
    for (int64_t around = lanes; around <= 4 * lanes; around *= 2)
        for (int64_t size = around - 1; size <= around + 1; size++)
            insert(sizes, &count, size);
    for (int64_t size = tile - 1; tile > 0 && size <= tile + 1; size++)
        insert(sizes, &count, size);
    for (size_t i = 0; i < COUNT_OF(primes) && !test_quick(); i++)
        insert(sizes, &count, primes[i]);
    return count;
}

uint64_t test_fp_control(void) {
#if defined(__x86_64__) || defined(__i386__)
    const uint32_t status_flags = 0x3F;
    uint16_t x87 = 0; /* MemorySanitizer does not see what assembly stores */
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (uint64_t)x87 << 32 | (__builtin_ia32_stmxcsr() & ~status_flags);
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
#else
    return (uint64_t)fegetround();
#endif
}

void test_fp_set(uint64_t control) {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr((unsigned)control);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
#else
    fesetround((int)control);
#endif
}

void test_fp_flush(bool on) {
#if defined(__x86_64__)
    const unsigned ftz_daz = 0x8040, control = __builtin_ia32_stmxcsr();
    test_fp_set(on ? control | ftz_daz : control & ~ftz_daz);
#elif defined(__aarch64__)
    const uint64_t fz = 1 << 24, control = test_fp_control();
    test_fp_set(on ? control | fz : control & ~fz);
#else
    (void)on;
#endif
}
