/* Which level of memory a row's bytes come from, and what it is compared with. */
#include "tests/support.h"

#include <math.h>
#include <string.h>

#include "bench/session.h"
#include "dispatch/dispatch.h"

/* A machine of two threads: 32 KiB and 1 MiB for each, 32 MiB for both, of which `others` take their part. */
static roofline make_roofline(int threads, double l3_held) {
    static const double gbs[ROOFLINE_LEVELS] = {200, 120, 100, 20};
    const double share[MACHINE_CACHE_LEVELS] = {0x1p15, 0x1p20, 0x1p25 / threads};
    roofline r = {.threads = threads};
    for (int level = 0; level < MACHINE_CACHE_LEVELS; level++) {
        r.level[level].holds_bytes = (int64_t)share[level];
        r.level[level].bytes = level ? 2 * (int64_t)share[level - 1] : 1 << 14;
        r.level[level].sharers = level == MACHINE_L3 ? threads : 1;
    }
    r.level[ROOFLINE_MEMORY] = (roofline_bandwidth){.bytes = 1 << 27, .sharers = threads};
    for (double bytes = 0x1p14; bytes <= 0x1p27; bytes *= 2) {
        int level = 0;
        while (level < ROOFLINE_MEMORY && bytes > (level == MACHINE_L3 ? l3_held : share[level]))
            level++;
        r.reading[r.readings++] = (roofline_reading){(int64_t)bytes, threads * gbs[level], 1};
    }
    roofline_judge_levels(&r);
    return r;
}

/* Guards what stands for a level: the best that reading at least so much reached, so that one disturbed
 * reading moves nothing; and a last cache of which others have a part, which holds no more than was seen. */
static void levels_are_judged_by_their_readings(void **state) {
    (void)state;
    static const double gbs[ROOFLINE_LEVELS] = {200, 120, 100, 20};
    for (double held = 0x1p22; held <= 0x1p25; held *= 2) {
        roofline r = make_roofline(1, held);
        for (int level = 0; level < ROOFLINE_LEVELS; level++)
            assert_true(r.level[level].read_gbs == gbs[level]);
        assert_int_equal(r.level[MACHINE_L3].holds_bytes, (int64_t)held);
        assert_int_equal(r.level[MACHINE_L2].holds_bytes, 1 << 20);
    }
    roofline r = make_roofline(1, 0x1p25);
    for (int i = 0; i < r.readings; i++) {
        roofline disturbed = r;
        disturbed.reading[i].gbs /= 3;
        roofline_judge_levels(&disturbed);
        for (int k = 0; k < r.readings; k++) { /* the last of a level has none to stand in for it */
            const double bytes = (double)r.reading[k].bytes;
            const double now = roofline_read_best(&disturbed, bytes)->gbs;
            assert_true(now <= roofline_read_best(&r, bytes)->gbs);
            assert_true(k == i || now == roofline_read_best(&r, bytes)->gbs || r.reading[i].bytes > bytes);
        }
    }
    const roofline nothing = {.threads = 1};
    assert_true(roofline_read_best(&nothing, 1e6)->gbs == 0);
}

/* Guards that a rate never rises with the working set, and holds from its size to the next one. */
static void larger_is_not_faster(void **state) {
    (void)state;
    roofline r = make_roofline(1, 0x1p24);
    r.reading[3].gbs = 1000;
    double last = INFINITY;
    for (double bytes = 1; bytes < 0x1p30; bytes *= 1.1) {
        const double gbs = roofline_read_best(&r, bytes)->gbs;
        assert_true(gbs <= last && gbs >= 20);
        last = gbs;
    }
    assert_true(roofline_read_best(&r, 1)->gbs == 1000);
    assert_true(roofline_read_best(&r, 0x1p15 + 1)->gbs == roofline_read_best(&r, 0x1p15)->gbs);
    roofline_raise(&r, 0x1p20, 130);
    assert_true(roofline_read_best(&r, 0x1p20)->gbs == 130 && r.level[MACHINE_L2].read_gbs == 1000);
    roofline_raise(&r, 0x1p20, 110); /* less is not taken */
    assert_true(roofline_read_best(&r, 0x1p20)->gbs == 130);
}

/* Guards the level: caches of one thread hold what that thread touches, shared ones what all of them do, and
 * where others have half of the last cache its other half is memory. */
static void bytes_come_from_where_they_fit(void **state) {
    (void)state;
    static const struct {
        int threads;
        double own, all, held;
        int level;
        double bytes;
    } cases[] = {
        {1, 0x1p14, 0x1p14, 0x1p25, MACHINE_L1D, 0x1p14},
        {1, 0x1p15, 0x1p15, 0x1p25, MACHINE_L1D, 0x1p15},
        {1, 0x1p15 + 1, 0x1p15 + 1, 0x1p25, MACHINE_L2, 0x1p15 + 1},
        {1, 0x1p24, 0x1p24, 0x1p25, MACHINE_L3, 0x1p24},
        {1, 0x1p25, 0x1p25, 0x1p24, ROOFLINE_MEMORY, 0x1p25},
        {1, 0x1p26, 0x1p26, 0x1p25, ROOFLINE_MEMORY, 0x1p26},
        /* Each reads the same 1 MiB, each half of 2 MiB, and each the same 24 MiB. */
        {2, 0x1p20, 0x1p20, 0x1p24, MACHINE_L2, 0x1p20},
        {2, 0x1p20, 0x1p21, 0x1p24, MACHINE_L2, 0x1p20},
        {2, 0x1.8p24, 0x1.8p24, 0x1p24, MACHINE_L3, 0x1.8p23},
        /* The same 1.5 MiB: more than the second level has, less each than it has. */
        {2, 0x1.8p20, 0x1.8p20, 0x1p24, MACHINE_L3, 0x1p20},
        {2, 0x1p25, 0x1p26, 0x1p24, ROOFLINE_MEMORY, 0x1p25},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const roofline r = make_roofline(cases[i].threads, cases[i].held);
        const bench_stream s = {1, cases[i].own, cases[i].all};
        double bytes;
        assert_int_equal(bench_level_of(&r, &s, cases[i].threads, &bytes), cases[i].level);
        assert_true(bytes == cases[i].bytes);
    }
}

/* Guards against percentages above 100 of a row whose bytes were counted, or placed, wrongly: at every length
 * each kind of row, run as fast as each of its streams can be read, is at 100 % exactly, and names a level
 * that its working set fits in and not in the one above. */
static void check_row(bench_row *row) {
    assert_int_equal(bench_row_count(row), 0);
    assert_string_equal(row->error, "");
    roofline limits = make_roofline(1, 0x1p25);
    const bench_session session = {.limits = &limits, .limits_count = 1};
    const double read = row->stream[0].bytes + row->stream[1].bytes;
    assert_true(fabs(read - row->bytes_read) <= 1e-12 * read &&
                read <= row->bytes_compulsory + 4 * (double)row->info.pairs_executed);
    const bench_reading reading = bench_row_reading(&session, row);
    assert_true(reading.known && reading.ns >= read / 200 * (1 - 1e-12) &&
                reading.ns <= read / 20 * (1 + 1e-12));
    row->result.median_ns = reading.ns;
    int level;
    const double percent = bench_pct_bandwidth(&session, row, &level);
    assert_true(read > 0 ? fabs(percent - 100) < 1e-9 : percent == 0);
    assert_int_equal(level, reading.level);
    if (level < ROOFLINE_MEMORY)
        assert_true(reading.bytes <= (double)limits.level[level].holds_bytes);
    if (level > 0)
        assert_true(reading.bytes > (double)limits.level[level - 1].holds_bytes);
}

static void every_row_is_placed(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 1 << 14; n *= 2) {
        for (int k = 0; k < bench_kernel_count; k++) {
            bench_row row = {
                .kind = BENCH_KERNEL, .kernel = &bench_kernels[k], .isa = "scalar", .threads = 1, .n = n};
            attn_problem_init(&row.problem, 1, 1, 1, n, n, 64, 64);
            check_row(&row);
        }
        for (int stage = -1; stage < ATTN_STAGE_COUNT; stage++) {
            for (int flash = 0; flash <= (stage < 0); flash++) {
                bench_row row = {.kind = stage < 0 ? BENCH_ATTENTION : BENCH_STAGE,
                                 .stage = (attn_stage)(stage < 0 ? 0 : stage),
                                 .algorithm = flash ? ATTN_FLASH : ATTN_NAIVE,
                                 .isa = "scalar",
                                 .threads = 1};
                attn_problem_init(&row.problem, 2, 4, 2, n, n, 64, 32);
                check_row(&row);
            }
        }
    }
}

/* Guards the counts of stages: what is changed in place is touched once, scores are those of one head, and
 * where there is nothing to mask nothing is read. */
static void stages_touch_what_they_work_on(void **state) {
    (void)state;
    for (int stage = 0; stage < ATTN_STAGE_COUNT; stage++) {
        bench_row row = {.kind = BENCH_STAGE,
                         .stage = (attn_stage)stage,
                         .algorithm = ATTN_NAIVE,
                         .isa = "scalar",
                         .threads = 1};
        attn_problem_init(&row.problem, 1, 3, 3, 512, 512, 64, 64);
        const double scores = 4.0 * 512 * 512;
        assert_int_equal(bench_row_count(&row), 0);
        const bool reads = stage == ATTN_STAGE_SCALE || stage == ATTN_STAGE_SOFTMAX || stage == ATTN_STAGE_PV;
        assert_true(row.stream[1].bytes == (reads ? 3 * scores : 0));
        assert_true(row.stream[1].own == scores && row.stream[1].all == scores);
        assert_int_equal(attn_pattern_parse("causal", &row.problem.pattern, NULL), ATTN_OK);
        assert_int_equal(bench_row_count(&row), 0);
        assert_true(row.stream[1].bytes == (reads || stage == ATTN_STAGE_MASK ? 3 * scores : 0));
    }
}

/* Guards who is at fault: where only the clock decides, and above what any memory gives, the row; where
 * others take their part of a cache or of memory, perhaps the limit. */
static void faults_are_told_from_doubts(void **state) {
    (void)state;
    roofline limits = make_roofline(1, 0x1p25);
    bench_session session = {.limits = &limits, .limits_count = 1};
    static const bool fixed[ROOFLINE_LEVELS] = {true, true, false, false};
    static const int64_t n[ROOFLINE_LEVELS] = {1 << 12, 1 << 17, 1 << 20, 1 << 26};
    for (int level = 0; level < ROOFLINE_LEVELS; level++) {
        bench_row row = {.kind = BENCH_KERNEL,
                         .kernel = bench_kernel_find("read"),
                         .isa = "scalar",
                         .threads = 1,
                         .n = n[level]};
        attn_problem_init(&row.problem, 1, 1, 1, 1, 1, 64, 64);
        assert_int_equal(bench_row_count(&row), 0);
        const bench_reading reading = bench_row_reading(&session, &row);
        assert_int_equal(reading.level, level);
        row.result.median_ns = reading.ns / 1.06;
        assert_int_equal(bench_bandwidth_is_fixed(&session, &row), fixed[level]);
        row.result.median_ns = row.bytes_read / (200 * 1.06);
        assert_true(bench_bandwidth_is_fixed(&session, &row));
        assert_true(bench_raise_bandwidth(&session, &row, 2000));
        assert_true(bench_row_reading(&session, &row).ns == row.bytes_read / 2000);
        assert_false(level > MACHINE_L2 && bench_bandwidth_is_fixed(&session, &row));
        limits = make_roofline(1, 0x1p25);
        session.limits_count = 0;
        assert_false(bench_bandwidth_is_fixed(&session, &row) || bench_raise_bandwidth(&session, &row, 1));
        session.limits_count = 1;
    }
}

/* A session of one thread at level scalar, which a peak may be taken in. */
static bench_session make_session(double peak_gflops) {
    bench_session session = {.pool = bench_pool_new(NULL, 1, false), .peak_gflops = peak_gflops};
    assert_non_null(session.pool);
    session.instance.threads = 1;
    assert_int_equal(attn_dispatch("scalar", &session.instance.kernels, NULL), ATTN_OK);
    return session;
}

/* Guards the larger of two peaks, which a row is compared with: one that was disturbed lowers nothing. */
static void best_peak_stands(void **state) {
    (void)state;
    bench_session session = make_session(1e12); /* above what any machine has */
    bench_take_peak(&session, 1);
    assert_true(session.peak_gflops == 1e12);
    session.peak_gflops = 0;
    bench_take_peak(&session, 1);
    assert_true(session.peak_gflops > 0 && session.peak_gflops < 1e12 && session.ghz > 0);
    bench_pool_free(session.pool);
}

/* Guards the fault itself: a row above 105 % of its peak is no result, unless the peak was taken too low,
 * which is looked at once more before; up to there it is a result and nothing is looked at. */
static void above_the_peak_is_a_fault(void **state) {
    (void)state;
    bench_session session = make_session(0);
    for (int percent = 95; percent <= 120; percent++) {
        for (int low = 0; low < 2; low++) {
            session.peak_gflops = low ? 1e-6 : 1e12;
            const double before = session.peak_gflops;
            bench_row row = {.threads = 1, .flops_useful = before * 1e6 * percent / 100};
            row.result.median_ns = 1e6;
            if (percent == 105) /* the border itself is one of rounding */
                continue;
            bench_judge_speed(&session, &row);
            char expected[96] = "";
            if (percent > 105 && !low)
                snprintf(expected, sizeof expected,
                         "fault of measurement: %d %% of the peak of 1e+12 GFLOP/s", percent);
            assert_string_equal(row.error, expected);
            assert_true((session.peak_gflops > before) == (percent > 105 && low));
            assert_true(row.result.peak_gflops == session.peak_gflops);
        }
    }
    bench_pool_free(session.pool);
}

/* Guards the same of bandwidth: above what a thread's own caches give is a fault, above what others have a
 * part of is only flagged. Rates a million times those of a machine, which a look at this one cannot raise.
 */
static void above_the_bandwidth_is_a_fault_or_flagged(void **state) {
    (void)state;
    roofline limits = make_roofline(1, 0x1p25);
    for (int i = 0; i < limits.readings; i++)
        limits.reading[i].gbs *= 1e6;
    roofline_judge_levels(&limits);
    bench_session session = make_session(1e12);
    session.limits = &limits;
    session.limits_count = 1;
    static const double bytes[ROOFLINE_LEVELS] = {0x1p14, 0x1p18, 0x1p23, 0x1p26};
    for (int level = 0; level < ROOFLINE_LEVELS; level++) {
        for (int percent = 104; percent <= 106; percent += 2) {
            bench_row row = {.threads = 1, .bytes_read = bytes[level]};
            row.stream[0] = (bench_stream){bytes[level], bytes[level], bytes[level]};
            row.result.median_ns = bench_row_reading(&session, &row).ns / percent * 100;
            bench_judge_speed(&session, &row);
            assert_int_equal(row.result.above_bandwidth, percent > 105);
            const bool fault = percent > 105 && level < MACHINE_L3;
            assert_true(fault ==
                        (strncmp(row.error, "fault of measurement: 106 % of what its bytes take", 50) == 0));
            assert_true(fault || !*row.error);
        }
    }
    bench_pool_free(session.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_judged_by_their_readings),
        cmocka_unit_test(larger_is_not_faster),
        cmocka_unit_test(bytes_come_from_where_they_fit),
        cmocka_unit_test(every_row_is_placed),
        cmocka_unit_test(stages_touch_what_they_work_on),
        cmocka_unit_test(faults_are_told_from_doubts),
        cmocka_unit_test(best_peak_stands),
        cmocka_unit_test(above_the_peak_is_a_fault),
        cmocka_unit_test(above_the_bandwidth_is_a_fault_or_flagged),
    };
    return test_run("levels", tests, COUNT_OF(tests));
}
