/* What makes a measured row no result, which of several faults is told, and what its limits count. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/session.h"

enum { SAMPLES = 5 };

/* A row that has run: its instance in the session, its output right, its samples in place. */
typedef struct judged {
    bench_config config;
    bench_session session;
    bench_row row;
} judged;

static judged *make_judged(double sample_ns) {
    judged *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->row = (bench_row){.kind = BENCH_ATTENTION, .isa = "scalar", .algorithm = ATTN_FLASH, .threads = 1};
    strcpy(j->row.pattern, "dense");
    attn_problem_init(&j->row.problem, 1, 1, 1, 32, 32, 16, 16);
    assert_int_equal(bench_row_count(&j->row), 0);
    assert_true(bench_row_id(&j->row));
    j->config.seed = 7;
    j->session.config = &j->config;
    j->session.pool = bench_pool_new(NULL, 1, false);
    assert_non_null(j->session.pool);
    attn_error error = {""};
    if (!bench_instance_make(&j->session.instance, &j->row, j->session.pool, 7, &error))
        test_fail("%s", error.text);
    j->session.peak_gflops = 1e6; /* above what a look could find, so that none raises it */
    bench_result *r = &j->row.result;
    r->samples_ns = calloc(SAMPLES, sizeof *r->samples_ns);
    assert_non_null(r->samples_ns);
    r->sample_count = SAMPLES;
    r->repetitions = 1;
    for (int i = 0; i < SAMPLES; i++)
        r->samples_ns[i] = sample_ns;
    return j;
}

static void free_judged(judged *j) {
    free(j->row.result.samples_ns);
    bench_expectations_free(&j->session.expected);
    bench_instance_free(&j->session.instance);
    bench_pool_free(j->session.pool);
    free(j);
}

/* A time that the row can have, and one that none has. */
static const double possible_ns = 1e6, impossible_ns = 1e-3;

static void expect_fault(const bench_row *row, const char *what) {
    if (!strstr(row->error, what))
        test_fail("'%s' is told as '%s'", what, row->error);
    assert_true(row->faulty);
    assert_false(row->result.measured);
}

/* Guards a row that is right: it is a result, with a summary of its samples, also once repeated. */
static void right_rows_are_results(void **state) {
    (void)state;
    judged *j = make_judged(possible_ns);
    for (j->row.result.repetitions = 1; j->row.result.repetitions < 3; j->row.result.repetitions++) {
        bench_judge(&j->session, &j->row);
        assert_string_equal(j->row.error, "");
        assert_true(j->row.result.measured && !j->row.faulty);
        assert_true(j->row.result.median_ns == possible_ns && j->row.result.max_ns == possible_ns);
    }
    free_judged(j);
}

/* Guards an impossible speed by itself. */
static void impossible_speed(void **state) {
    (void)state;
    judged *j = make_judged(impossible_ns);
    bench_judge(&j->session, &j->row);
    expect_fault(&j->row, "fault of measurement");
    free_judged(j);
}

/* Guards which fault is told of a row that has several: what it computed before how long it took, since a
 * wrong output explains a time that cannot be; in a first run and, where a result was there, in a repetition.
 */
static void the_first_fault_is_told(void **state) {
    (void)state;
    static const float wrong[] = {2, NAN};
    static const char *const told[] = {"the output is wrong", "the output is not finite"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        for (int repetition = 1; repetition <= 2; repetition++) {
            judged *j = make_judged(repetition == 1 ? impossible_ns : possible_ns);
            if (repetition == 2) {
                bench_judge(&j->session, &j->row);
                assert_true(j->row.result.measured);
                j->row.result.repetitions = 2;
                for (int s = 0; s < SAMPLES; s++)
                    j->row.result.samples_ns[s] = impossible_ns;
            }
            for (int64_t k = 0; k < j->session.instance.inputs.out_count; k++)
                j->session.instance.inputs.out[k] += wrong[i];
            bench_judge(&j->session, &j->row);
            expect_fault(&j->row, told[i]);
            free_judged(j);
        }
    }
}

/* Guards an output that is right to rounding but not what it was: that is told, not the speed. */
static void changed_before_too_fast(void **state) {
    (void)state;
    judged *j = make_judged(possible_ns);
    bench_judge(&j->session, &j->row);
    j->row.result.repetitions = 2;
    j->row.result.checksum = nextafter(j->row.result.checksum, INFINITY);
    for (int s = 0; s < SAMPLES; s++)
        j->row.result.samples_ns[s] = impossible_ns;
    bench_judge(&j->session, &j->row);
    expect_fault(&j->row, "changed when the row was repeated");
    free_judged(j);
}

/* Guards the row that is run again at the end: whatever it gets wrong is the first row's fault, of which
 * alone the file tells. */
static void the_repeated_row_accuses_the_first(void **state) {
    (void)state;
    static const float wrong[] = {0, 2, NAN};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        judged *j = make_judged(possible_ns);
        bench_judge(&j->session, &j->row);
        bench_row *order[] = {&j->row};
        j->session.order = order;
        j->session.again = j->row;
        for (int64_t k = 0; k < j->session.instance.inputs.out_count; k++)
            j->session.instance.inputs.out[k] += wrong[i];
        bench_judge(&j->session, &j->session.again);
        if (wrong[i] == 0)
            assert_true(j->row.result.measured && !*j->row.error);
        else
            expect_fault(&j->row, "changed when the row was repeated");
        free_judged(j);
    }
}

/* Guards which of two impossible speeds is told: the first that was found. */
static void one_speed_is_told(void **state) {
    (void)state;
    judged *j = make_judged(possible_ns);
    bench_fault(&j->row, "first");
    bench_fault(&j->row, "second");
    expect_fault(&j->row, "first");
    j->row.result.median_ns = impossible_ns;
    bench_judge_speed(&j->session, &j->row);
    assert_string_equal(j->row.error, "first");
    free_judged(j);
}

/* ---- Exponentials ---- */

/* Guards the exponentials of kernels: those of a tile, and the one that each tanh is made of, are among them.
 */
static void kernels_count_exponentials(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    enum { N = 130 };
    const struct {
        const char *name;
        int64_t exps;
    } some[] = {{"exp", N}, {"softmax", N}, {"adjust", N}, {"flash_tile", N * kernels->query_tile}};
    size_t found = 0;
    for (int k = 0; k < bench_kernel_count; k++) {
        bench_row row = {.kind = BENCH_KERNEL, .isa = kernels->name, .threads = 1, .n = N};
        row.kernel = &bench_kernels[k];
        attn_problem_init(&row.problem, 1, 1, 1, 1, 1, 64, 32);
        assert_int_equal(bench_row_count(&row), 0);
        int64_t expected = 0;
        for (size_t i = 0; i < COUNT_OF(some); i++) {
            if (strcmp(some[i].name, row.kernel->name) == 0) {
                expected = some[i].exps;
                found++;
            }
        }
        if (row.exps != (double)expected)
            test_fail("%s: %g exponentials, not %d", row.kernel->name, row.exps, (int)expected);
    }
    assert_int_equal(found, COUNT_OF(some));
}

/* Guards the exponentials of calls and stages, one a pair that is executed and one more for its softcap; and
 * that they are in the share of the limit. */
static void rows_count_exponentials(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    roofline r = {.threads = 1, .readings = 1};
    r.reading[0] = (roofline_reading){1 << 30, 10, 1};
    for (int i = 0; i < attn_isa_count(); i++)
        r.exp_g[i] = strcmp(attn_isa_name(i), kernels->name) == 0 ? 2 : 1e9;
    const bench_session session = {.limits = &r, .limits_count = 1};
    for (int stage = -1; stage < ATTN_STAGE_COUNT; stage++) {
        for (int softcap = 0; softcap <= 1; softcap++) {
            bench_row row = {.kind = stage < 0 ? BENCH_ATTENTION : BENCH_STAGE, .isa = kernels->name};
            row.stage = (attn_stage)(stage < 0 ? 0 : stage);
            row.algorithm = stage < 0 ? ATTN_FLASH : ATTN_NAIVE;
            row.threads = 1;
            attn_problem_init(&row.problem, 1, 2, 1, 70, 70, 16, 16);
            row.problem.softcap = softcap ? 30 : 0;
            assert_int_equal(attn_pattern_parse("causal", &row.problem.pattern, NULL), ATTN_OK);
            assert_int_equal(bench_row_count(&row), 0);
            const int a_pair = stage < 0                     ? 1 + softcap
                               : stage == ATTN_STAGE_MASK    ? softcap
                               : stage == ATTN_STAGE_SOFTMAX ? 1
                                                             : 0;
            assert_true(row.info.pairs_executed > 0);
            assert_true(row.exps == (double)(a_pair * row.info.pairs_executed));
            row.result.median_ns = 1e6;
            row.result.peak_gflops = 10;
            bench_shares shares;
            assert_true(bench_shares_of(&session, &row, &shares));
            const double ns = row.flops_executed / 10 + row.exps / 2;
            assert_true(fabs(shares.compute - ns / 1e4) <= 1e-12 * shares.compute);
        }
    }
}

int main(void) {
    test_list list = {0};
    test_add(&list, "right rows are results", right_rows_are_results);
    test_add(&list, "impossible speed", impossible_speed);
    test_add(&list, "the first fault is told", the_first_fault_is_told);
    test_add(&list, "changed before too fast", changed_before_too_fast);
    test_add(&list, "the repeated row accuses the first", the_repeated_row_accuses_the_first);
    test_add(&list, "one speed is told", one_speed_is_told);
    test_add_levels(&list, "kernels count exponentials", kernels_count_exponentials);
    test_add_levels(&list, "rows count exponentials", rows_count_exponentials);
    return test_run_list("judge", &list);
}
