/* What every C test includes: cmocka, the runner, the run's seed, and ISA levels as tests. */
#ifndef ATTN_TESTS_SUPPORT_H
#define ATTN_TESTS_SUPPORT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static inline int64_t test_round_up(int64_t a, int64_t b) {
    return (a + b - 1) / b * b;
}
/* The bits of a float, and back. */
static inline uint32_t test_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float test_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The sanitizers that this build is under: address, threads, memory, and of clang undefined behaviour, which
 * gcc keeps to itself. */
#if defined(__has_feature)
#    define TEST_HAS_FEATURE(name) __has_feature(name)
#else
#    define TEST_HAS_FEATURE(name) 0
#endif
enum {
#if defined(__SANITIZE_ADDRESS__) || TEST_HAS_FEATURE(address_sanitizer)
    TEST_ASAN = 1,
#else
    TEST_ASAN = 0,
#endif
#if defined(__SANITIZE_THREAD__) || TEST_HAS_FEATURE(thread_sanitizer)
    TEST_TSAN = 1,
#else
    TEST_TSAN = 0,
#endif
#if TEST_HAS_FEATURE(memory_sanitizer)
    TEST_MSAN = 1,
#else
    TEST_MSAN = 0,
#endif
#if TEST_HAS_FEATURE(undefined_behavior_sanitizer)
    TEST_UBSAN = 1,
#else
    TEST_UBSAN = 0,
#endif
};

/* ---- the runner ----------------------------------------------------------
 * Runs the tests with cmocka and prints TAP. cmocka itself reports a skipped test as "not ok # SKIP",
 * which Meson counts as a failure, and keeps the reason to itself; this reports "ok # SKIP reason". A
 * program that dies is reported too. Returns main's exit code: 0, or 1 if any test failed. */
int test_run(const char *group, const struct CMUnitTest *tests, size_t count);

/* Skips the running test, aloud. */
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Skips the running test under MemorySanitizer, which does not see what jansson writes. */
void test_skip_jansson_unseen(void);

/* A TAP comment: shown in logs, counted by nobody. */
void test_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fails the running test with a message. */
#define test_fail(...) test_fail_at(__FILE__, __LINE__, __VA_ARGS__)
void test_fail_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/* True under emulation (ATTNSCOPE_TEST_QUICK=1): fewer sizes, the same kinds. */
bool test_quick(void);
/* Whether case `number` of a loop runs: each, or one of `step` when test_quick(), and of those one of
 * ATTNSCOPE_TEST_THIN (1) where even that takes minutes, as it does where a whole machine is emulated. */
bool test_keep(size_t number, size_t step);
/* True in the long form of a run (ATTNSCOPE_TEST_FULL=1, scripts/test.sh --full): more cases of the same
 * kinds, and what takes minutes. Never together with test_quick(). */
bool test_full(void);
/* The count for this run, among the three forms. */
int test_count(int quick, int usual, int full);

/* ---- levels ------------------------------------------------------------------
 * A test of every ISA level is entered once per level of this build, so that a level which this CPU
 * lacks is one skipped test with its name and reason. */

/* A list of tests that grows. */
typedef struct test_list {
    struct CMUnitTest *tests;
    size_t count;
} test_list;

void test_add(test_list *list, const char *name, CMUnitTestFunction function);
/* Adds "name [level]" for each level; the test finds its kernels with test_kernels(state). */
void test_add_levels(test_list *list, const char *name, CMUnitTestFunction function);
/* Whether a level is among those that ATTNSCOPE_TEST_LEVELS names (with commas between); all are if unset.
 * Tests of the others are left out, for machines on which they run elsewhere. */
bool test_level_wanted(const char *name);
/* The kernels of the running test's level; skips the test where this machine cannot run them. */
const attn_kernels *test_kernels(void **state);
/* Family of sizes around a vector of `lanes` and a tile (0: none), ascending, none twice:
 * 0, 1, 2, 3, lanes and its multiples by 2 and 4 with their neighbours, the tile and its neighbours, primes.
 * Returns their number, at most TEST_SIZES; fewer when test_quick(). */
#define TEST_SIZES 40
int test_sizes(int64_t sizes[TEST_SIZES], int64_t lanes, int64_t tile);
/* The floating-point control state: rounding, flushing, exception masks; no status flags. */
uint64_t test_fp_control(void);
/* Sets MXCSR or FPCR (elsewhere the rounding mode); switches flushing of subnormal results and operands
 * there, as -ffast-math programs and audio code do (elsewhere nothing). */
void test_fp_set(uint64_t control);
void test_fp_flush(bool on);
/* Runs a call of a kernel and fails if it changes that state. */
#define test_call(call)                                                                                      \
    do {                                                                                                     \
        const uint64_t control_before_ = test_fp_control();                                                  \
        call;                                                                                                \
        if (test_fp_control() != control_before_)                                                            \
            test_fail("%s changes the floating-point environment", #call);                                   \
    } while (0)
/* test_run, and frees the list. */
int test_run_list(const char *group, test_list *list);

/* ---- random numbers -----------------------------------------------------------
 * One seed per run, printed by the runner, taken from ATTNSCOPE_TEST_SEED if set. A stream depends on the
 * seed and on its own name and numbers only: the same data for every ISA level, in any order of tests. */

typedef struct test_rng {
    uint64_t state;
} test_rng;

uint64_t test_seed(void);
test_rng test_rng_start(const char *name, uint64_t number);
uint64_t test_random(test_rng *rng);
/* Uniform in [low, high], both included. */
int64_t test_between(test_rng *rng, int64_t low, int64_t high);
/* Uniform in [0, 1). */
double test_uniform(test_rng *rng);
/* Standard normal. */
double test_normal(test_rng *rng);

#endif
