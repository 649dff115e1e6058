/* Selection: levels follow from features, what cannot be is refused with its reason, and ATTNSCOPE_ISA is
 * honoured or refused. */
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"

/* Guards the list of levels: the first runs everywhere, names are found, what is outside is NULL. */
static void test_levels(void **state) {
    assert_true(attn_isa_count() >= 1);
    assert_string_equal(attn_isa_name(0), "scalar");
    assert_int_equal(attn_isa_required(0), 0);
    assert_null(attn_isa_name(-1));
    assert_null(attn_isa_name(attn_isa_count()));
    assert_int_equal(attn_isa_check("scalar", NULL), ATTN_OK);
    cpu_info cpu;
    cpu_read(&cpu);
    for (int i = 0; i < attn_isa_count(); i++) {
        attn_error error = {{0}}, same = {{0}};
        const attn_kernels *kernels = (const attn_kernels *)&error;
        const char *name = attn_isa_name(i);
        attn_status status = attn_isa_check(name, &error);
        /* Selection and refusal say the same, and a table is given exactly when the level runs. */
        assert_int_equal(attn_isa_check_on(name, &cpu, &same), status);
        assert_string_equal(error.text, same.text);
        assert_int_equal(attn_dispatch(name, &kernels, NULL), status);
        if (status == ATTN_OK)
            assert_string_equal(kernels->name, name);
        else
            assert_null(kernels);
    }
}

/* Guards the refusals: unknown is invalid and lists what is accepted; another architecture's level is
 * unsupported and says so. */
static void test_names(void **state) {
    char accepted[128] = "auto";
    for (int i = 0; i < attn_isa_count(); i++)
        cpu_append(accepted, sizeof accepted, ", %s", attn_isa_name(i));
    static const char *const unknown[] = {"avx3", "AVX2", "", " avx2", "scalar,avx2"};
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        attn_error error;
        const attn_kernels *kernels;
        char expected[256];
        snprintf(expected, sizeof expected, "isa '%s' is unknown; accepted: %s", unknown[i], accepted);
        assert_int_equal(attn_dispatch(unknown[i], &kernels, &error), ATTN_INVALID);
        assert_string_equal(error.text, expected);
        assert_null(kernels);
    }
#ifdef ATTN_ARCH_X86
    const char *foreign = "neon", *architecture = "x86";
#elif defined(ATTN_ARCH_ARM64)
    const char *foreign = "avx2", *architecture = "AArch64";
#else
    const char *foreign = "avx2", *architecture = "any architecture";
#endif
    attn_error error;
    char expected[256];
    snprintf(expected, sizeof expected, "isa '%s' is not in this build for %s; accepted: %s", foreign,
             architecture, accepted);
    assert_int_equal(attn_isa_check(foreign, &error), ATTN_UNSUPPORTED);
    assert_string_equal(error.text, expected);
    assert_int_equal(attn_isa_check(NULL, &error), ATTN_INVALID);

    /* A value with line breaks, and one longer than any message. */
    assert_int_equal(attn_isa_check("a\nb", &error), ATTN_INVALID);
    assert_null(strchr(error.text, '\n'));
    char lengthy[2000];
    memset(lengthy, 'x', sizeof lengthy);
    lengthy[sizeof lengthy - 1] = 0;
    assert_int_equal(attn_isa_check(lengthy, &error), ATTN_INVALID);
    assert_true(strlen(error.text) < sizeof error.text);
    assert_non_null(strstr(error.text, "is unknown; accepted: auto"));
}

/* Guards ATTNSCOPE_ISA: honoured, or refused by name; read at each call; an explicit level ignores it. */
static void test_environment(void **state) {
    const char *saved = getenv("ATTNSCOPE_ISA");
    char *kept = saved ? strdup(saved) : NULL;
    cpu_info cpu;
    cpu_read(&cpu);
    const char *best = attn_isa_name(attn_isa_best(cpu.features));
    const attn_kernels *kernels;
    attn_error error;

    unsetenv("ATTNSCOPE_ISA");
    assert_string_equal(attn_isa_auto(&error), best);
    setenv("ATTNSCOPE_ISA", "", 1);
    assert_string_equal(attn_isa_auto(NULL), best);
    setenv("ATTNSCOPE_ISA", "auto", 1);
    assert_string_equal(attn_isa_auto(&error), best);

    setenv("ATTNSCOPE_ISA", "scalar", 1);
    assert_string_equal(attn_isa_auto(&error), "scalar");
    assert_int_equal(attn_dispatch(NULL, &kernels, &error), ATTN_OK);
    assert_string_equal(kernels->name, "scalar");
    assert_int_equal(attn_dispatch("auto", &kernels, &error), ATTN_OK);
    assert_string_equal(kernels->name, "scalar");
    assert_int_equal(attn_dispatch(best, &kernels, &error), ATTN_OK);
    assert_string_equal(kernels->name, best);

    setenv("ATTNSCOPE_ISA", "avx3", 1);
    assert_null(attn_isa_auto(&error));
    assert_non_null(strstr(error.text, "ATTNSCOPE_ISA=avx3: isa 'avx3' is unknown; accepted: auto, scalar"));
    assert_int_equal(attn_dispatch(NULL, &kernels, &error), ATTN_INVALID);
    assert_null(kernels);
    assert_int_equal(attn_dispatch("scalar", &kernels, &error), ATTN_OK);

    /* A level that exists but cannot run: one that this machine lacks, or another architecture's. */
    const char *lacking = "neon";
#ifdef ATTN_ARCH_ARM64
    lacking = "avx2";
#endif
    for (int i = 0; i < attn_isa_count(); i++)
        if (attn_isa_check(attn_isa_name(i), NULL) != ATTN_OK)
            lacking = attn_isa_name(i);
    char prefix[64];
    snprintf(prefix, sizeof prefix, "ATTNSCOPE_ISA=%s: isa ", lacking);
    setenv("ATTNSCOPE_ISA", lacking, 1);
    assert_null(attn_isa_auto(&error));
    assert_int_equal(strncmp(error.text, prefix, strlen(prefix)), 0);
    assert_int_equal(attn_dispatch(NULL, &kernels, &error), ATTN_UNSUPPORTED);

    if (kept)
        setenv("ATTNSCOPE_ISA", kept, 1);
    else
        unsetenv("ATTNSCOPE_ISA");
    free(kept);
}

/* Guards the default level, and that all above it are refused and all below it run. On a CPU whose level is
 * known, an emulated one, ATTNSCOPE_TEST_EXPECT_ISA names it: a wrong one would pass unseen otherwise, with
 * every test of the right one skipped. */
static void test_default_level(void **state) {
    cpu_info cpu;
    cpu_read(&cpu);
    const char *expected = getenv("ATTNSCOPE_TEST_EXPECT_ISA");
    if (expected == NULL || *expected == '\0')
        expected = attn_isa_name(attn_isa_best(cpu.features));
    assert_int_not_equal(attn_isa_check(expected, NULL), ATTN_INVALID); /* a misspelt name */
    const char *saved = getenv("ATTNSCOPE_ISA");
    char *kept = saved ? strdup(saved) : NULL;
    unsetenv("ATTNSCOPE_ISA");
    attn_error error = {{0}};
    const char *chosen = attn_isa_auto(&error);
    const attn_kernels *kernels = NULL;
    const attn_status status = attn_dispatch(NULL, &kernels, &error);
    if (kept)
        setenv("ATTNSCOPE_ISA", kept, 1);
    free(kept);
    if (status != ATTN_OK || strcmp(chosen, expected) != 0 || strcmp(kernels->name, expected) != 0)
        test_fail("the default level is %s, not %s %s", chosen ? chosen : "none", expected, error.text);
    bool better = false;
    for (int i = 0; i < attn_isa_count(); i++) {
        const char *name = attn_isa_name(i);
        error.text[0] = '\0';
        assert_int_equal(attn_dispatch(name, &kernels, &error), better ? ATTN_UNSUPPORTED : ATTN_OK);
        assert_int_equal(error.text[0] != '\0', better);
        better |= strcmp(name, expected) == 0;
    }
}

/* Guards the choice among levels as a function of features alone: more features never choose a worse
 * level, and what is chosen is allowed. Every subset of features. */
static void test_selection_is_monotonic(void **state) {
    for (uint32_t features = 0; features < 1u << CPU_FEATURE_COUNT; features++) {
        int best = attn_isa_best(features);
        assert_int_equal(attn_isa_required(best) & ~features, 0);
        for (int bit = 0; bit < CPU_FEATURE_COUNT; bit++)
            assert_true(attn_isa_best(features | 1u << bit) >= best);
        for (int i = best + 1; i < attn_isa_count(); i++)
            assert_int_not_equal(attn_isa_required(i) & ~features, 0);
    }
}

/* Guards the error function: one line, cut at its end, NULL allowed. */
static void test_fail_function(void **state) {
    attn_error error;
    assert_int_equal(attn_fail(NULL, ATTN_INVALID, "%d", 1), ATTN_INVALID);
    assert_int_equal(attn_fail(&error, ATTN_NO_MEMORY, "n %d\r\n%s", 7, "\x1b[1m"), ATTN_NO_MEMORY);
    assert_string_equal(error.text, "n 7???[1m");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),        cmocka_unit_test(test_names),
        cmocka_unit_test(test_environment),   cmocka_unit_test(test_selection_is_monotonic),
        cmocka_unit_test(test_default_level), cmocka_unit_test(test_fail_function),
    };
    return test_run("dispatch", tests, COUNT_OF(tests));
}
