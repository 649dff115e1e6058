/* Hardware counters: what is made of recorded answers, sound and broken ones, and of the system's own. */
#include "tests/recorded_counters.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#ifdef __linux__
#    include <linux/perf_event.h>
#    include <sys/syscall.h>
#endif

/* ---- reasons ---- */

/* Guards that the reason names what to do something about: the setting and its value, or what is missing. */
static void reasons(void **state) {
    static const struct {
        int error, paranoid;
        bool sibling;
        const char *parts[3];
    } cases[] = {
        {ENOENT, 2, false, {"ENOENT", "virtual machine"}},
        {EOPNOTSUPP, 2, false, {"EOPNOTSUPP", "virtual machine"}},
        {ENODEV, 2, false, {"ENODEV", "virtual machine"}},
        {ENOENT, 2, true, {"no such event (ENOENT)"}},
        {EOPNOTSUPP, 2, true, {"no such event (EOPNOTSUPP)"}},
        {EINVAL, 2, true, {"EINVAL", "too many"}},
        {EINVAL, 2, false, {"perf_event_open: ", "errno"}},
        {EMFILE, 2, true, {"perf_event_open: ", "errno"}},
        {EACCES, 3, false, {"EACCES", "/proc/sys/kernel/perf_event_paranoid is 3"}},
        {EPERM, 4, false, {"EPERM", "/proc/sys/kernel/perf_event_paranoid is 4"}},
        {EPERM, 2, false, {"EPERM", "perf_event_paranoid is 2", "seccomp"}},
        {EACCES, -1, true, {"EACCES", "perf_event_paranoid is -1", "seccomp"}},
        {EPERM, -2, false, {"EPERM", "perf_event_paranoid is not readable"}},
        {ENOSYS, 2, false, {"ENOSYS", "not Linux", "seccomp"}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[sizeof((counters *)NULL)->reason];
        counters_explain(cases[i].error, cases[i].paranoid, cases[i].sibling, text, sizeof text);
        for (int part = 0; part < 3 && cases[i].parts[part]; part++)
            expect_text(text, cases[i].parts[part], strerror(cases[i].error));
        assert_true(strlen(text) + 1 < sizeof((counters *)NULL)->missing[0] || !cases[i].sibling);
    }
}

/* ---- decoding ---- */

static counters make_counters(bool llc) {
    counters c = {.fd = {3, 4, 5, 6, 7}};
    if (!llc)
        c.fd[COUNTERS_LLC_MISSES] = -1;
    return c;
}

/* Guards the place of every value, where an event in the middle is missing too. */
static void decodes(void **state) {
    const uint64_t words[] = {5, 900, 600, 11, 12, 13, 14, 15, 0}, fewer[] = {4, 900, 600, 11, 12, 13, 15};
    counters_reading r;
    counters c = make_counters(true);
    counters_decode(&c, words, 64, &r);
    assert_true(r.valid && r.enabled_ns == 900 && r.running_ns == 600);
    for (int event = 0; event < COUNTERS_EVENTS; event++)
        assert_int_equal(r.value[event], 11 + event);
    c = make_counters(false);
    counters_decode(&c, fewer, 56, &r);
    assert_true(r.valid && r.value[COUNTERS_LLC_MISSES] == 0 && r.value[COUNTERS_BRANCH_MISSES] == 15);
}

/* Guards against believing an answer of another form: cut, longer, failed, of more or fewer events, or with
 * more time counted than there was. */
static void refuses_other_forms(void **state) {
    static const int64_t sizes[] = {-1, 0, 8, 24, 56, 63, 65, 72};
    uint64_t words[] = {5, 900, 600, 11, 12, 13, 14, 15, 16};
    const counters c = make_counters(true);
    counters_reading r;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        counters_decode(&c, words, sizes[i], &r);
        assert_false(r.valid);
    }
    for (uint64_t members = 0; members < 8; members++) {
        words[0] = members;
        counters_decode(&c, words, 64, &r);
        assert_true(r.valid == (members == 5));
    }
    words[0] = 5;
    words[2] = 901;
    counters_decode(&c, words, 64, &r);
    assert_false(r.valid);
    assert_int_equal(r.value[0] + r.value[4], 11 + 15); /* it was only the times */
}

/* ---- scaling ---- */

static counters_reading reading(uint64_t enabled, uint64_t running, uint64_t value) {
    counters_reading r = {.valid = true, .enabled_ns = enabled, .running_ns = running};
    for (int event = 0; event < COUNTERS_EVENTS; event++)
        r.value[event] = value * (uint64_t)(event + 1);
    return r;
}

/* Guards the scale (over the time between the readings, not since opening), the sum over threads, and that
 * the smallest share stands for all. */
static void scales_and_adds(void **state) {
    const counters all = make_counters(true), fewer = make_counters(false);
    const counters_reading before = reading(1000000, 1000, 50), whole = reading(1001000, 2000, 150),
                           half = reading(1001000, 1500, 150), least = reading(1001000, 1250, 150);
    counters_sum sum = {0};
    counters_add(&sum, &all, &before, &whole);
    assert_true(sum.share == 1 && sum.value[0] == 100 && sum.value[4] == 500 && sum.counted[3]);
    counters_add(&sum, &fewer, &before, &half);
    assert_true(sum.share == 0.5 && sum.value[0] == 300 && sum.value[4] == 1500);
    assert_false(sum.counted[COUNTERS_LLC_MISSES]); /* of one thread only: no sum */
    counters_add(&sum, &all, &before, &least);
    assert_true(sum.share == COUNTERS_MIN_SHARE && sum.value[0] == 700 && !*sum.reason);
    assert_false(sum.counted[COUNTERS_LLC_MISSES]);
    counters_add(&sum, &all, &before, &whole);
    assert_true(sum.share == COUNTERS_MIN_SHARE);
}

/* Guards against figures of too small a share, of none, or of counters that ran backwards; what comes after
 * does not mend it. */
static void refuses_readings(void **state) {
    counters_reading invalid = reading(1000, 1000, 100);
    invalid.valid = false;
    counters_reading one_back = reading(3000, 3000, 300);
    one_back.value[2] = 1;
    const counters_reading before = reading(2000, 2000, 200);
    const struct {
        const char *reason;
        counters_reading before, after;
    } cases[] = {
        {"24.9 %", before, reading(3000, 2249, 900)},
        {"0 %", before, reading(3000, 2000, 200)},
        {"0 %", before, before},
        {"backwards", before, reading(1000, 3000, 300)},
        {"backwards", before, reading(3000, 1000, 300)},
        {"backwards", before, one_back},
        {"backwards", before, reading(2100, 2200, 300)},
        {"form", invalid, reading(3000, 3000, 300)},
        {"form", before, invalid},
    };
    const counters c = make_counters(true);
    const counters_reading sound = reading(3000, 3000, 300);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        counters_sum sum = {0};
        counters_add(&sum, &c, &before, &sound);
        counters_add(&sum, &c, &cases[i].before, &cases[i].after);
        expect_text(sum.reason, cases[i].reason, "reading");
        const counters_sum noted = sum;
        counters_add(&sum, &c, &invalid, &invalid);
        counters_add(&sum, &c, &before, &sound);
        assert_string_equal(sum.reason, noted.reason);
        assert_false(counters_check_row(&sum, &(counters_context){0}));
        assert_false(counters_check_chain(&sum, 100));
        assert_string_equal(sum.reason, noted.reason);
    }
}

/* ---- judging ---- */

/* Guards the calibration: every event far from what a chain of additions does is a fault, with the figures.
 */
static void judges_the_chain(void **state) {
    static const struct {
        double value[COUNTERS_EVENTS];
        const char *reason; /* "": sound */
    } cases[] = {
        {{35e4, 32.1e4, 40, 3, 9}, ""},
        {{32e4, 32e4, 0, 0, 0}, ""},       /* the loop's end as none at all */
        {{44e4, 41e4, 6e3, 6e3, 6e3}, ""}, /* not optimised, interrupted */
        {{0, 32e4, 0, 0, 0}, "counts 0 instructions"},
        {{31.9e4, 32e4, 0, 0, 0}, "counts 319000 instructions"},
        {{70e4, 32e4, 0, 0, 0}, "counts 700000 instructions"},
        {{35e4, 0, 0, 0, 0}, "counts 0 cycles"},
        {{35e4, 16e4, 0, 0, 0}, "counts 160000 cycles"}, /* half of them counted */
        {{35e4, 64e4, 0, 0, 0}, "counts 640000 cycles"},
        {{35e4, 32e4, 35e4, 0, 0}, "counts 350000 l1d_misses"},
        {{35e4, 32e4, 0, 1e4, 0}, "counts 10000 llc_misses"},
        {{35e4, 32e4, 0, 0, 1e4}, "counts 10000 branch_misses"},
        {{0. / 0., 32e4, 0, 0, 0}, "instructions"},
        {{35e4, 0. / 0., 0, 0, 0}, "cycles"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        counters_sum sum = {.share = 1};
        memcpy(sum.value, cases[i].value, sizeof sum.value);
        assert_true(counters_check_chain(&sum, 32e4) == !*cases[i].reason);
        expect_text(sum.reason, cases[i].reason, "chain");
        assert_true(*cases[i].reason || !*sum.reason);
    }
}

/* Guards the rules of a row, on both sides of each bound. */
static void judges_a_row(void **state) {
    static const struct {
        double value[COUNTERS_EVENTS], cpu_ns, ghz, flops, each;
        const char *reason; /* "": sound */
    } cases[] = {
        {{8e9, 4e9, 1e8, 1e6, 1e5}, 1e9, 4, 2.5e11, 32, ""},
        {{8e9, 4e9, 1e8, 1e6, 1e5}, 1e9, 0, 0, 0, ""},
        {{8e9, 2e9, 0, 0, 0}, 1e9, 4, 0, 0, ""},
        {{8e9, 1.99e9, 0, 0, 0}, 1e9, 4, 0, 0, "0.50 of CPU time"},
        {{8e9, 5e9, 0, 0, 0}, 1e9, 4, 0, 0, ""},
        {{8e9, 5.02e9, 0, 0, 0}, 1e9, 4, 0, 0, "1.25 of CPU time"},
        {{8e5, 1e5, 0, 0, 0}, 0.9e6, 4, 0, 0, ""}, /* too short for the CPU's clock */
        {{8e5, 1e5, 0, 0, 0}, 1e6, 4, 0, 0, "0.03 of CPU time"},
        {{0, 4e9, 0, 0, 0}, 1e9, 4, 0, 0, "0 instructions"},
        {{8e9, 0, 0, 0, 0}, 1e9, 4, 0, 0, "0 cycles"},
        {{8e9, 0. / 0., 0, 0, 0}, 1e9, 0, 0, 0, "cycles"},
        {{16e6, 1e6, 0, 0, 0}, 0, 0, 0, 0, ""},
        {{17e6, 1e6, 0, 0, 0}, 0, 0, 0, 0, "more than 16 a cycle"},
        {{1e6, 1e6, 1e6, 1e6, 1e6}, 0, 0, 0, 0, ""},
        {{1e6, 1e6, 2e6, 0, 0}, 0, 0, 0, 0, "2000000 l1d_misses"},
        {{1e6, 1e6, 0, 2e6, 0}, 0, 0, 0, 0, "2000000 llc_misses"},
        {{1e6, 1e6, 0, 0, 2e6}, 0, 0, 0, 0, "2000000 branch_misses"},
        {{1e6, 1e6, 0, 0, 0}, 0, 0, 32e6, 32, ""},
        {{1e6, 1e6, 0, 0, 0}, 0, 0, 33e6, 32, "FLOPs, at most 32 each"},
        {{1e6, 1e6, 0, 0, 0}, 0, 0, 33e6, 0, ""}, /* unknown level */
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        counters_sum sum = {.share = 1, .cpu_ns = cases[i].cpu_ns};
        memcpy(sum.value, cases[i].value, sizeof sum.value);
        const counters_context context = {cases[i].ghz, cases[i].flops, cases[i].each};
        if (counters_check_row(&sum, &context) != !*cases[i].reason)
            test_fail("case %zu: '%s'", i, sum.reason);
        expect_text(sum.reason, cases[i].reason, "row");
        assert_true(*cases[i].reason || !*sum.reason);
    }
}

/* ---- the system's own ---- */

#ifdef __linux__
/* CPU time, which every kernel can count, in place of each event. */
static int open_task_clock(void *context, int event, int group) {
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attributes,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };
    const long fd = syscall(SYS_perf_event_open, &attributes, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}
#endif

/* Guards the form of what a real kernel answers, and that nanoseconds do not pass for instructions. */
static void real_group_is_decoded(void **state) {
#ifdef __linux__
    counters c = {0};
    assert_false(counters_open(&c, open_task_clock, NULL));
    if (!strstr(c.reason, "a chain of"))
        test_skip("software events: %s", c.reason);
    for (int event = 0; event < COUNTERS_EVENTS; event++)
        c.fd[event] = open_task_clock(NULL, event, event ? c.fd[0] : -1);
    counters_reading before, after;
    counters_read(&c, &before);
    machine_add_chain(COUNTERS_CHAIN_ROUNDS);
    counters_read(&c, &after);
    counters_sum sum = {0};
    counters_add(&sum, &c, &before, &after);
    counters_close(&c);
    assert_string_equal(sum.reason, "");
    assert_true(sum.share > 0.99);
    for (int event = 0; event < COUNTERS_EVENTS; event++)
        assert_true(sum.counted[event] && sum.value[event] > 0);
#else
    test_skip("no perf_event_open: not Linux");
#endif
}

/* Guards this machine's counters where it has any: a chain twice as long counts twice as much, to the bounds
 * of the calibration. */
static void real_counters(void **state) {
    counters c;
    if (!counters_open(&c, NULL, NULL)) {
        assert_true(*c.reason);
        test_skip("hardware counters: %s", c.reason);
    }
    counters_reading before, after;
    counters_read(&c, &before);
    const double adds = machine_add_chain(2 * COUNTERS_CHAIN_ROUNDS);
    counters_read(&c, &after);
    counters_sum sum = {0};
    counters_add(&sum, &c, &before, &after);
    counters_close(&c);
    if (!*sum.reason && !counters_check_chain(&sum, adds))
        test_fail("%s", sum.reason);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons),
        cmocka_unit_test(decodes),
        cmocka_unit_test(refuses_other_forms),
        cmocka_unit_test(scales_and_adds),
        cmocka_unit_test(refuses_readings),
        cmocka_unit_test(judges_the_chain),
        cmocka_unit_test(judges_a_row),
        cmocka_unit_test(real_group_is_decoded),
        cmocka_unit_test(real_counters),
    };
    return test_run("counters", tests, COUNT_OF(tests));
}
