/* Hardware counters around a row's samples, on recorded answers: each thread reads its own, and the row's
 * figures are those of all, per call. */
#include "tests/recorded_counters.h"

#include <string.h>

#include "bench/session.h"
#include "dispatch/dispatch.h"

enum { THREADS = 2, CALLS = 4 };

typedef struct recording {
    double share;   /* of the row's time that is counted */
    double divisor; /* of the instructions */
    bool silent;    /* no counters at all */
} recording;

/* Each thread's leader: three reads that calibrate, and two around the row. */
static int open_recorded(void *context, int event, int group) {
    const recording *recorded = context;
    if (recorded->silent)
        return -2; /* ENOENT */
    const int fd = recorded_file();
    if (event > 0)
        return fd;
    double value[COUNTERS_EVENTS];
    recorded_chain(value);
    const double row[COUNTERS_EVENTS] = {8e9 / recorded->divisor, 4e9, 1e6, 1e3, 1e2};
    const double none[COUNTERS_EVENTS] = {0};
    bool fine = recorded_write(fd, COUNTERS_EVENTS, 0, 0, none) > 0 &&
                recorded_write(fd, COUNTERS_EVENTS, 0, 0, none) > 0 &&
                recorded_write(fd, COUNTERS_EVENTS, 1000, 1000, value) > 0 &&
                recorded_write(fd, COUNTERS_EVENTS, 1000, 1000, none) > 0;
    fine =
        fine && recorded_write(fd, COUNTERS_EVENTS, 2000, 1000 + (uint64_t)(1000 * recorded->share), row) > 0;
    lseek(fd, 0, SEEK_SET);
    return fine ? fd : -5;
}

/* Counts a row of two threads; what the file says of it and of the session. */
static void count(bench_kind kind, const bench_kernel *kernel, bool left_out, recording recorded,
                  json_t **of_row, json_t **of_session) {
    test_skip_jansson_unseen();
    attn_error error = {""};
    bench_config config = {.no_counters = left_out};
    machine *m = machine_load(NULL, &error);
    assert_non_null(m);
    bench_session session = {.config = &config, .host = m, .threads_made = THREADS};
    bench_row row = {.kind = kind, .kernel = kernel, .threads = THREADS, .flops_useful = 4e9};
    session.pool = bench_pool_new(m, THREADS, false);
    assert_non_null(session.pool);
    session.instance.threads = THREADS;
    assert_int_equal(attn_dispatch("scalar", &session.instance.kernels, &error), ATTN_OK);
    assert_true(bench_counting_start(&session, open_recorded, &recorded));
    bench_pool_start(session.pool, THREADS);
    bench_counting_begin(&session, &row);
    bench_counting_end(&session, &row, CALLS);
    bench_pool_stop(session.pool);
    bench_counting_judge(&session, &row);
    *of_row = bench_counting_row(&row);
    *of_session = bench_counting_context(&session);
    assert_true((session.part_ns[BENCH_COUNTING] > 0) == (*of_row != NULL));
    bench_counting_free(&session);
    bench_pool_free(session.pool);
    machine_free(m);
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        test_fail("no %s", key);
    return json_number_value(value);
}

/* Guards the figures: summed over threads, scaled, divided by the calls. */
static void figures_per_call(void **state) {
    for (int half = 0; half < 2; half++) {
        json_t *row, *session;
        count(BENCH_ATTENTION, NULL, false, (recording){half ? 0.5 : 1, 1, false}, &row, &session);
        const double times = (half ? 2.0 : 1.0) * THREADS / CALLS;
        assert_true(json_is_true(json_object_get(session, "available")));
        assert_true(number(row, "instructions") == 8e9 * times && number(row, "cycles") == 4e9 * times);
        assert_true(number(row, "l1d_misses") == 1e6 * times && number(row, "llc_misses") == 1e3 * times);
        assert_true(number(row, "branch_misses") == 1e2 * times && number(row, "ipc") == 2);
        assert_true(number(row, "share_counted") == (half ? 0.5 : 1) &&
                    number(row, "calls_counted") == CALLS);
        assert_null(json_object_get(row, "reason"));
        json_decref(row);
        json_decref(session);
    }
}

static void expect_reason(recording recorded, const char *reason) {
    json_t *row, *session;
    count(BENCH_ATTENTION, NULL, false, recorded, &row, &session);
    const char *said = json_string_value(json_object_get(row, "reason"));
    if (!said || !strstr(said, reason))
        test_fail("'%s', not '%s'", said, reason);
    assert_int_equal(json_object_size(row), 1); /* and no figure */
    json_decref(row);
    json_decref(session);
}

/* Guards that figures which cannot be true, or were counted too rarely, are replaced by the reason: here
 * fewer instructions than the FLOPs of four calls need at two each. */
static void reasons_of_a_row(void **state) {
    expect_reason((recording){0.2, 1, false}, "below 25 %");
    expect_reason((recording){1, 2.5, false}, "FLOPs, at most 2 each");
}

static void expect_none(bench_kind kind, const bench_kernel *kernel, bool left_out, bool silent,
                        const char *reason) {
    json_t *row, *session;
    count(kind, kernel, left_out, (recording){1, 1, silent}, &row, &session);
    assert_null(row);
    const char *said = json_string_value(json_object_get(session, "reason"));
    assert_true(json_is_boolean(json_object_get(session, "available")));
    assert_true(json_is_true(json_object_get(session, "available")) == !reason);
    if (reason ? !said || !strstr(said, reason) : said != NULL)
        test_fail("'%s', not '%s'", said ? said : "", reason ? reason : "");
    json_decref(session);
}

/* Guards the reason where there are no counters, and that a stage, or a kernel whose input is made anew
 * between calls, has no figures: they would be those of other work as well. */
static void nothing_to_count(void **state) {
    expect_none(BENCH_ATTENTION, NULL, true, false, "--no-counters");
    expect_none(BENCH_ATTENTION, NULL, false, true, "not available: no hardware counters here");
    expect_none(BENCH_STAGE, NULL, false, false, NULL);
    const bench_kernel *restoring = NULL, *plain = NULL;
    for (int i = 0; i < bench_kernel_count; i++)
        *(bench_kernels[i].restore ? &restoring : &plain) = &bench_kernels[i];
    assert_true(restoring && plain);
    expect_none(BENCH_KERNEL, restoring, false, false, NULL);
    json_t *row, *session;
    count(BENCH_KERNEL, plain, false, (recording){1, 1, false}, &row, &session);
    assert_non_null(json_object_get(row, "instructions"));
    json_decref(row);
    json_decref(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_per_call),
        cmocka_unit_test(reasons_of_a_row),
        cmocka_unit_test(nothing_to_count),
    };
    return test_run("counting", tests, COUNT_OF(tests));
}
