/* The test infrastructure itself: a runner that loses failures would make every other test worthless. */
#include "tests/support.h"

#include <signal.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/attention_case.h"

/* ---- a group of tests that do what must be reported -------------------------- */

static void child_passes(void **state) {
}
static void child_fails(void **state) {
    test_fail("wrong by %d", 7);
}
static void child_skips(void **state) {
    test_skip("%s: no such thing here", "avx1024");
}
static void child_crashes(void **state) {
    raise(SIGSEGV); /* not a null store, which a sanitizer would stop first */
}
static void child_exits(void **state) {
    _exit(0);
}
static void child_is_killed(void **state) {
    signal(SIGKILL, SIG_DFL);
    raise(SIGKILL);
}

/* Runs a group of one test in a child and returns its output; *code is its exit code. */
static char *run_group(CMUnitTestFunction function, int *code) {
    static char text[4096];
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct CMUnitTest tests[] = {{"subject", function, NULL, NULL, NULL}};
        dup2(fileno(file), STDOUT_FILENO);
        dup2(fileno(file), STDERR_FILENO);
        int result = test_run("inner", tests, 1);
        fflush(stdout);
        _exit(result);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    *code = WEXITSTATUS(status);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void expect(CMUnitTestFunction function, int code, const char *line) {
    int actual;
    char *text = run_group(function, &actual);
    if (actual != code || strstr(text, line) == NULL)
        test_fail("exit code %d, expected %d and a line with '%s' in: %s", actual, code, line, text);
}

/* Guards: a passing group gives 0 and one "ok". */
static void runner_passes(void **state) {
    expect(child_passes, 0, "\nok 1 - subject\n");
}

/* Guards: a failed assertion fails the program and shows its message. */
static void runner_fails(void **state) {
    expect(child_fails, 1, "\nnot ok 1 - subject\n");
    expect(child_fails, 1, "wrong by 7");
}

/* Guards: a skipped test is a TAP skip with its reason, and no failure. */
static void runner_skips(void **state) {
    expect(child_skips, 0, "\nok 1 - subject # SKIP avx1024: no such thing here\n");
}

/* Guards: a fault that reaches a guard page fails the test. */
static void runner_sees_crashes(void **state) {
    expect(child_crashes, 1, "not ok 1 - subject");
}

/* Guards: a program that vanishes, even with exit code 0, is a failure. */
static void runner_sees_vanishing(void **state) {
    expect(child_exits, 1, "Bail out! 0 of 1 tests reported");
    expect(child_is_killed, 1, "Bail out! died of signal 9");
}

/* ---- random numbers ------------------------------------------------------------ */

/* Guards: a stream is the same whenever it is started, and differs by name and number. */
static void streams_repeat(void **state) {
    test_rng a = test_rng_start("one", 1), b = test_rng_start("one", 1);
    test_rng c = test_rng_start("two", 1), d = test_rng_start("one", 2);
    uint64_t first = test_random(&a);
    assert_true(first == test_random(&b));
    assert_true(first != test_random(&c));
    assert_true(first != test_random(&d));
}

/* Guards: the generators have the ranges and moments they promise. */
static void generators_hold_ranges(void **state) {
    test_rng rng = test_rng_start("ranges", 0);
    enum { N = 20000 };
    double sum = 0, squares = 0;
    int seen[3] = {0};
    for (int i = 0; i < N; i++) {
        double uniform = test_uniform(&rng), normal = test_normal(&rng);
        assert_true(uniform >= 0 && uniform < 1);
        assert_true(isfinite(normal));
        sum += normal;
        squares += normal * normal;
        int64_t k = test_between(&rng, -1, 1);
        assert_true(k >= -1 && k <= 1);
        seen[k + 1]++;
    }
    /* 6 standard deviations of the mean, of the variance, and of a count */
    assert_true(fabs(sum / N) < 6 / sqrt(N));
    assert_true(fabs(squares / N - 1) < 6 * sqrt(2.0 / N));
    for (int k = 0; k < 3; k++)
        assert_true(fabs(seen[k] - N / 3.0) < 6 * sqrt(N * 2.0 / 9));
}

/* Guards the shape of the normal numbers: how many lie below each of many bounds, in the middle, where layers
 * of the generator end, and in its tail, is what the error function says, within 6 standard deviations. */
static void normals_are_normal(void **state) {
    enum { N = 400000, BOUNDS = 81 };
    test_rng rng = test_rng_start("normals", 0);
    int64_t below[BOUNDS] = {0};
    double farthest = 0;
    for (int n = 0; n < N; n++) {
        const double x = test_normal(&rng);
        farthest = fmax(farthest, fabs(x));
        for (int b = (int)fmax(0, ceil((x + 4) * 10)); b < BOUNDS; b++)
            below[b]++;
    }
    for (int b = 0; b < BOUNDS; b++) {
        const double p = 0.5 * erfc(-(b / 10.0 - 4) / sqrt(2)), expected = N * p;
        if (fabs((double)below[b] - expected) > 6 * sqrt(N * p * (1 - p)) + 1)
            test_fail("%d below %.1f, expected %.1f", (int)below[b], b / 10.0 - 4, expected);
    }
    assert_true(farthest > 3.7); /* none of 400,000 beyond 3.7 has a probability of 10^-38 */
}

/* Guards: cases that differ, if only by a parameter of the pattern, have different data; what differs only in
 * the place of its data, or by the parameter of a term that it has not, is the same case. */
static void cases_have_their_own_data(void **state) {
    const case_spec first = {.batch = 1,
                             .heads = 2,
                             .kv_heads = 1,
                             .queries = 3,
                             .keys = 4,
                             .head_dim = 4,
                             .value_dim = 4,
                             .pattern = {.terms = ATTN_WINDOW, .window_left = 3, .block_heads = 1}};
    enum { SPECS = 8, SAME = 6 };
    case_spec specs[SPECS];
    for (int i = 0; i < SPECS; i++)
        specs[i] = first;
    specs[1].pattern.window_left = 2;
    specs[2].pattern.window_right = 1;
    specs[3].scale = 2;
    specs[4].softcap = 1;
    specs[5].kind = DATA_UNIFORM;
    specs[SAME].pattern.sink = 5; /* from here on the same as the first */
    specs[SAME + 1].place = GUARD_FRONT;
    attention_case *cases[SPECS];
    for (int i = 0; i < SPECS; i++)
        cases[i] = case_new(&specs[i]);
    for (int i = 0; i < SPECS; i++)
        for (int j = 0; j < i; j++) {
            const bool same = (i >= SAME || i == 0) && (j >= SAME || j == 0);
            if (same != !memcmp(cases[i]->q.data, cases[j]->q.data, cases[i]->q.bytes))
                test_fail("cases %d and %d have %s data", i, j, same ? "different" : "the same");
        }
    for (int i = 0; i < SPECS; i++)
        case_free(cases[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runner_passes),
        cmocka_unit_test(runner_fails),
        cmocka_unit_test(runner_skips),
        cmocka_unit_test(runner_sees_crashes),
        cmocka_unit_test(runner_sees_vanishing),
        cmocka_unit_test(streams_repeat),
        cmocka_unit_test(generators_hold_ranges),
        cmocka_unit_test(normals_are_normal),
        cmocka_unit_test(cases_have_their_own_data),
    };
    return test_run("support", tests, COUNT_OF(tests));
}
