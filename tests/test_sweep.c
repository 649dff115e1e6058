/* What a sweep visits and for how long: lengths, borders of regimes, and a budget that is kept exactly. */
#include "tests/support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/session.h"

static void assert_sizes(const bench_numbers *sizes, const int64_t *expected, int count) {
    assert_int_equal(sizes->count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(sizes->item[i], expected[i]);
}
#define ASSERT_SIZES(sizes, ...)                                                                             \
    do {                                                                                                     \
        const int64_t expected_[] = {__VA_ARGS__};                                                           \
        assert_sizes(sizes, expected_, COUNT_OF(expected_));                                                 \
    } while (0)

/* Guards: the steps that the help page promises, none twice and none outside the range. */
static void steps_are_as_documented(void **state) {
    (void)state;
    bench_numbers sizes = {.count = 0};
    assert_true(bench_parse_sizes("n", "128:512/2", &sizes));
    ASSERT_SIZES(&sizes, 128, 184, 256, 360, 512);
    assert_true(bench_parse_sizes("n", "100:600", &sizes));
    ASSERT_SIZES(&sizes, 128, 256, 512);
    assert_true(bench_parse_sizes("n", "1:64/2", &sizes));
    ASSERT_SIZES(&sizes, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 48, 64);
    assert_true(bench_parse_sizes("n", "180:190/2", &sizes)); /* the step is at 181.02 */
    ASSERT_SIZES(&sizes, 184);
    assert_true(bench_parse_sizes("n", "1:1/8", &sizes));
    ASSERT_SIZES(&sizes, 1);
    for (int parts = 1; parts <= BENCH_MAX_PARTS; parts++) {
        bench_numbers all = {.count = 0};
        assert_true(bench_add_steps(1, BENCH_MAX_N, parts, &all));
        int powers = 0;
        for (int i = 0; i < all.count; i++) {
            const int64_t n = all.item[i];
            assert_true(i == 0 || n > all.item[i - 1]);
            powers += (n & (n - 1)) == 0;
            const double k = log2((double)n) * parts;
            /* Half a multiple of 8, or half an integer, away from a step. */
            assert_true(fabs(exp2(round(k) / parts) - (double)n) <= (n >= 32 ? 4 : 0.5));
        }
        assert_int_equal(powers, 25);
    }
}

/* Guards: borders are where the table says, to which the report's tests hold the report. */
static void borders_follow_the_caches(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        attn_algorithm algorithm;
        attn_dtype dtype;
        int64_t head_dim, value_dim, queries, cache;
        double expected;
    } table[] = {
#define NAIVE ATTN_NAIVE
#define FLASH ATTN_FLASH
#define F32 ATTN_F32
#define BF16 ATTN_BF16
#define F16 ATTN_F16
#define BORDER(pattern, ...) {pattern, __VA_ARGS__},
#include "tests/borders.def"
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        attn_problem problem;
        attn_problem_init(&problem, 1, 1, 1, 1, 1, table[i].head_dim, table[i].value_dim);
        problem.dtype = table[i].dtype;
        assert_int_equal(attn_pattern_parse(table[i].pattern, &problem.pattern, NULL), ATTN_OK);
        const int64_t caches[MACHINE_CACHE_LEVELS] = {0, table[i].cache, 0};
        double border[BENCH_MAX_BORDERS];
        const int count = bench_borders(&problem, table[i].queries, table[i].algorithm, caches, border);
        assert_int_equal(count, table[i].expected > 0);
        if (count) /* Rounding of the few operations. */
            assert_true(fabs(border[0] - table[i].expected) <= 8 * DBL_EPSILON * table[i].expected);
    }
}

/* Guards: borders ascend, in whatever order the caches are, and caches that are not known have none. */
static void borders_ascend(void **state) {
    (void)state;
    attn_problem problem;
    attn_problem_init(&problem, 1, 1, 1, 1, 1, 64, 64);
    double border[BENCH_MAX_BORDERS];
    const int64_t falling[MACHINE_CACHE_LEVELS] = {1 << 25, 1 << 20, 1 << 15};
    assert_int_equal(bench_borders(&problem, 0, ATTN_FLASH, falling, border), 3);
    assert_true(border[0] == 64 && border[1] == 2048 && border[2] == 65536);
    const int64_t unknown[MACHINE_CACHE_LEVELS] = {1 << 15, 0, -1};
    assert_int_equal(bench_borders(&problem, 0, ATTN_FLASH, unknown, border), 1);
}

/* Guards: regimes that have four lengths keep them, shorter ones get half octaves, and no length is lost. */
static void short_regimes_are_refined(void **state) {
    (void)state;
    bench_numbers sizes = {.count = 0}, refined;
    assert_true(bench_add_steps(128, 8192, 1, &sizes));
    bench_refine(&sizes, (const double[]){96, 2048}, 2, &refined);
    ASSERT_SIZES(&refined, 128, 256, 512, 1024, 2048, 2896, 4096, 5792, 8192);
    bench_refine(&sizes, NULL, 0, &refined);
    ASSERT_SIZES(&refined, 128, 256, 512, 1024, 2048, 4096, 8192);
    bench_refine(&sizes, (const double[]){512, 2896.3}, 2, &refined);
    ASSERT_SIZES(&refined, 128, 184, 256, 360, 512, 728, 1024, 1448, 2048, 2896, 4096, 5792, 8192);
    bench_refine(&sizes, (const double[]){1 << 20}, 1, &refined);
    ASSERT_SIZES(&refined, 128, 256, 512, 1024, 2048, 4096, 8192);
    /* Every border at every place: what was asked for stays, in order. */
    for (double border = 64; border < 20000; border *= 1.07) {
        bench_refine(&sizes, &border, 1, &refined);
        int found = 0;
        for (int i = 0; i < refined.count; i++) {
            assert_true(i == 0 || refined.item[i] > refined.item[i - 1]);
            found += found < sizes.count && refined.item[i] == sizes.item[found];
        }
        assert_int_equal(found, sizes.count);
    }
}

/* ---- The budget ---- */

enum { ROWS = 12 };

/* Rows whose calls take call_s seconds; every second one is a half octave. */
static bench_rows make_rows(bench_row *row, const double *call_s) {
    memset(row, 0, ROWS * sizeof *row);
    for (int i = 0; i < ROWS; i++) {
        attn_problem_init(&row[i].problem, 1, 1, 1, 0, 0, 64, 64); /* no data to make, so the sum is plain */
        row[i].predicted_ns = call_s[i] * 1e9;
        row[i].threads = 1;
        row[i].between = i % 2;
    }
    return (bench_rows){.row = row, .count = ROWS};
}

static double left_out_s(const bench_rows *rows, bool between) {
    double longest = 0;
    for (int i = 0; i < rows->count; i++) {
        if (*rows->row[i].left_out && rows->row[i].between == between)
            longest = fmax(longest, rows->row[i].predicted_ns / 1e9);
    }
    return longest;
}

static int count_left_out(const bench_rows *rows, bool between) {
    int count = 0;
    for (int i = 0; i < rows->count; i++)
        count += *rows->row[i].left_out && rows->row[i].between == between;
    return count;
}

/* What a row takes beside nothing: what surrounds it, the first call, the warm-up, the samples. */
static double cost_s(const bench_config *config, double call_s) {
    const double look_s = bench_look_ns(config) / 1e9;
    const double most_s = fmax(call_s, fmin(3 * call_s, BENCH_WARM_CALL_NS / 1e9));
    const double least_s = bench_warm_up_s(config, config->min_time_s);
    const double warm_up_s = call_s < BENCH_FIRST_COUNTS_NS / 1e9 ? fmax(least_s, most_s) : 0;
    return BENCH_AROUND_ROW_NS / 1e9 + 2 * look_s + warm_up_s +
           fmax(config->min_time_s, bench_min_samples(call_s * 1e9) * call_s);
}

/* Guards: what is planned is within the budget, to the nanosecond, whatever the budget; half octaves go
 * before anything else is left out, longer rows before shorter ones, and no row is shorter than a third of
 * what was asked for. What was left out would not have fitted. */
static void a_budget_is_kept_exactly(void **state) {
    (void)state;
    bench_row row[ROWS];
    double call_s[ROWS];
    for (int i = 0; i < ROWS; i++)
        call_s[i] = 0.001 * pow(2, i / 2) * (i % 2 ? 1.4 : 1);
    double last_time = 0;
    int last_left_out = ROWS;
    for (double budget = 0.5; budget < 12; budget *= 1.1) {
        bench_config config = {
            .min_time_s = 0.3, .repetitions = 1, .warm_up_s = 0.02, .budget_s = budget, .spent_s = 0.1};
        bench_rows rows = make_rows(row, call_s);
        bench_fit_budget(&config, &rows);
        const double planned = bench_planned_s(&config, &rows);
        double sum = config.spent_s;
        for (int i = 0; i < ROWS; i++)
            sum += *row[i].left_out ? 0 : cost_s(&config, call_s[i]);
        assert_true(fabs(sum - planned) <= 1e-9 * ROWS);
        assert_true(planned <= budget);
        assert_true(config.min_time_s >= 0.3 / 3 - 1e-12 && config.min_time_s <= 0.3);
        const int between = count_left_out(&rows, true), others = count_left_out(&rows, false);
        if (others > 0) {
            assert_int_equal(between, ROWS / 2);
            assert_true(fabs(config.min_time_s - 0.1) < 1e-12);
        }
        if (between == 0)
            assert_true(config.min_time_s >= 0.15 - 1e-12);
        for (int i = 0; i < ROWS; i++) {
            if (!*row[i].left_out)
                assert_true(left_out_s(&rows, row[i].between) == 0 ||
                            row[i].predicted_ns / 1e9 < left_out_s(&rows, row[i].between) + 1e-12);
        }
        /* The last that was left out would have been too much. */
        if (between + others > 0 && between + others < ROWS) {
            double shortest = INFINITY;
            for (int i = 0; i < ROWS; i++) {
                if (*row[i].left_out && row[i].between == (others == 0))
                    shortest = fmin(shortest, cost_s(&config, call_s[i]));
            }
            assert_true(planned + shortest > budget);
        }
        assert_true(between + others <= last_left_out); /* more time, no fewer rows */
        last_left_out = between + others;
        last_time = config.min_time_s;
    }
    assert_int_equal(last_left_out, 0);
    assert_true(last_time == 0.3);
}

/* How a sweep of the rows goes by a clock of its own: calls take `load` times what was predicted from row
 * `from` on. Returns when it ends, in seconds. */
static double run_by_clock(bench_session *session, double load, int from) {
    bench_config *config = session->config;
    double now_s = config->spent_s;
    for (int i = 0; i < session->order_count; i++) {
        bench_row *timed = session->order[i], slow = *timed;
        if (!bench_budget_turn(session, timed, 0, (int64_t)(now_s * 1e9)))
            continue;
        slow.predicted_ns *= i >= from ? load : 1;
        bench_budget_note(session, timed, slow.predicted_ns);
        const double first_s = slow.predicted_ns / 1e9;
        if (!bench_budget_turn(session, timed, slow.predicted_ns, (int64_t)((now_s + first_s) * 1e9))) {
            now_s += first_s + BENCH_AROUND_ROW_NS / 1e9;
            continue;
        }
        timed->result.measured = true;
        now_s += bench_row_ns(config, &slow) / 1e9;
    }
    return now_s;
}

/* Guards a budget that is only a plan: calls that take longer than predicted, from any row on, end no more
 * than a twentieth above it, beside one call. As in the plan rows get no less than a third of the time asked
 * for, half octaves go first, and nothing is left out of a run that goes as predicted. */
static void a_budget_is_kept_under_load(void **state) {
    (void)state;
    enum { OCTAVES = 4, COUNT = ROWS * OCTAVES };
    for (int seed = 1; seed <= 8; seed++) {
        for (double load = 1; load <= 16; load *= 2) {
            for (int from = 0; from < COUNT; from += 8) {
                bench_row row[COUNT];
                double call_s[ROWS];
                for (int i = 0; i < ROWS; i++)
                    call_s[i] = 0.001 * pow(2, i / 2) * (i % 2 ? 1.4 : 1);
                for (int k = 0; k < OCTAVES; k++)
                    make_rows(row + (size_t)k * ROWS, call_s);
                for (int i = 0; i < COUNT; i++)
                    row[i].first_of_problem = i;
                bench_rows rows = {.row = row, .count = COUNT};
                bench_config config = {.min_time_s = 0.25,
                                       .asked_time_s = 0.25,
                                       .repetitions = 1,
                                       .warm_up_s = -1,
                                       .budget_s = 16,
                                       .spent_s = 1,
                                       .seed = seed};
                bench_fit_budget(&config, &rows);
                const int planned = count_left_out(&rows, true) + count_left_out(&rows, false);
                bench_session session = {.config = &config, .rows = &rows};
                assert_true(bench_session_order(&session));
                const double end_s = run_by_clock(&session, load, from);
                const int between = count_left_out(&rows, true), others = count_left_out(&rows, false);
                const double call = load * call_s[ROWS - 1];
                if (end_s > config.budget_s * (1 + BENCH_BUDGET_EXCESS) + call)
                    test_fail("seed %d, load %g from row %d: ends after %g s of %g", seed, load, from, end_s,
                              config.budget_s);
                assert_true(session.least_time_s >= 0.25 / 3 - 1e-12 && session.least_time_s <= 0.25);
                if (load == 1)
                    assert_int_equal(between + others, planned);
                for (int i = 0; i < COUNT; i++)
                    assert_true(row[i].result.measured != (*row[i].left_out != 0));
                /* The shortest stay: each series has its points for a slope. */
                for (int i = 0; i < COUNT; i++)
                    assert_true(row[i].predicted_ns > 4e6 || row[i].between || load > 4 || !*row[i].left_out);
                free(session.order);
            }
        }
    }
}

/* Guards samples that go on when nothing is left: three stay a result, fewer are left out and say why; as
 * many calls as were asked for are never cut. */
static void samples_end_with_the_budget(void **state) {
    (void)state;
    bench_config config = {.budget_s = 10, .repetitions = 1};
    bench_session session = {.config = &config, .started_ns = 1000};
    const int64_t end = (int64_t)bench_budget_end_ns(&session);
    assert_true(fabs((double)end - 1000 - 10e9 * (1 + BENCH_BUDGET_EXCESS)) < 10);
    assert_int_equal(bench_budget_samples(&session, 1e9, 7, end - (int64_t)20e9), 7);
    assert_int_equal(bench_budget_samples(&session, 1e9, 7, end - (int64_t)5.5e9), 5);
    assert_int_equal(bench_budget_samples(&session, 1e9, 7, end + 1), 3);
    assert_int_equal(bench_budget_samples(&session, 1e9, 1, end + 1), 1);
    bench_row row = {.error = ""};
    assert_false(bench_budget_is_over(&session, &row, 0, 0, end));
    assert_true(bench_budget_is_over(&session, &row, 3, 0, end + 1) && !*row.left_out);
    assert_true(bench_budget_is_over(&session, &row, 2, 0, end + 1) &&
                strstr(row.left_out, "budget of 10 s"));
    /* Twice its time, with samples enough. */
    session.aimed_ns = 1e9;
    bench_row slow = {.error = ""};
    assert_false(bench_budget_is_over(&session, &slow, BENCH_SAMPLES, 1000, 2000001000));
    assert_false(bench_budget_is_over(&session, &slow, BENCH_SAMPLES - 1, 1000, 2000002000));
    assert_true(bench_budget_is_over(&session, &slow, BENCH_SAMPLES, 1000, 2000002000) && !*slow.left_out);
    config.fixed_calls = 100;
    assert_false(bench_budget_is_over(&session, &slow, BENCH_SAMPLES, 1000, 2000002000));
    config.fixed_calls = 0;
    config.budget_s = 0;
    bench_row free_row = {.error = ""};
    assert_false(bench_budget_is_over(&session, &free_row, 0, 0, INT64_MAX));
    assert_int_equal(bench_budget_samples(&session, 1e9, 7, INT64_MAX), 7);
}

/* Guards: what surrounds a row is planned to be less than a tenth of its samples, over calls of all lengths
 * that a sweep has, and for none of them much more. */
static void measuring_costs_a_tenth(void **state) {
    (void)state;
    enum { STEPS = 60 };
    /* As asked for, and the least that a budget leaves of it. */
    for (double time = 0.25; time > 0.08; time /= 3) {
        double sum = 0;
        for (int i = 0; i < STEPS; i++) {
            bench_row row[ROWS];
            double call_s[ROWS];
            for (int k = 0; k < ROWS; k++)
                call_s[k] = 1e-6 * pow(2e6, (double)i / STEPS);
            bench_config config = {.min_time_s = time, .repetitions = 1, .warm_up_s = -1, .budget_s = 1e6};
            bench_rows rows = make_rows(row, call_s);
            bench_fit_budget(&config, &rows);
            const double samples = fmax(time, bench_min_samples(call_s[0] * 1e9) * call_s[0]);
            const double share = row[0].planned_ns / 1e9 / samples - 1;
            assert_true(share > 0 && share < (time > 0.2 ? 0.13 : 0.25));
            sum += share;
        }
        test_note("rows of %g s: %.3f beside their samples", time, sum / STEPS);
        assert_true(sum / STEPS < 0.1);
    }
}

/* Guards: rows that are in the file already, or refused, cost nothing and are not left out. */
static void what_is_there_costs_no_budget(void **state) {
    (void)state;
    bench_row row[ROWS];
    double call_s[ROWS];
    for (int i = 0; i < ROWS; i++)
        call_s[i] = i < ROWS - 1 ? 100 : 0.001;
    bench_rows rows = make_rows(row, call_s);
    for (int i = 0; i < ROWS - 1; i++) {
        row[i].there = i % 2;
        strcpy(row[i].error, i % 2 ? "" : "refused");
    }
    bench_config config = {.min_time_s = 0.25, .repetitions = 2, .warm_up_s = 0.02, .budget_s = 1};
    bench_fit_budget(&config, &rows);
    assert_int_equal(count_left_out(&rows, true) + count_left_out(&rows, false), 0);
    assert_true(config.min_time_s == 0.25);
    assert_true(fabs(bench_planned_s(&config, &rows) - 2 * row[ROWS - 1].planned_ns / 1e9) < 1e-12);
}

/* Guards the reference's time: planned once for each problem of which a row is left, whichever that is, and
 * not for each repetition. */
static void a_problem_is_checked_once(void **state) {
    (void)state;
    bench_row row[ROWS];
    double call_s[ROWS];
    for (int i = 0; i < ROWS; i++)
        call_s[i] = 0.001;
    bench_config config = {.min_time_s = 0.1, .repetitions = 2, .warm_up_s = 0.02, .budget_s = 1e6};
    bench_rows rows = make_rows(row, call_s);
    bench_fit_budget(&config, &rows);
    const double without = bench_planned_s(&config, &rows);
    for (int i = 0; i < ROWS; i++) { /* three problems of four rows each */
        row[i].first_of_problem = i % 3;
        row[i].check_ns = 1e9 * pow(10, i % 3);
    }
    assert_true(fabs(bench_planned_s(&config, &rows) - without - 111) < 1e-9);
    assert_true(fabs(bench_planned_s(&config, &rows) - without - 111) < 1e-9); /* asked twice */
    for (int i = 0; i < ROWS - 3; i++)
        strcpy(row[i].error, "refused");
    const double each = row[0].planned_ns * 2 / 1e9;
    assert_true(fabs(bench_planned_s(&config, &rows) - 3 * each - 111) < 1e-9);
    row[ROWS - 1].there = true; /* the last of the third */
    assert_true(fabs(bench_planned_s(&config, &rows) - 2 * each - 11) < 1e-9);

    /* In the order of the run: each problem once, on the row that is measured first. */
    for (int i = 0; i < ROWS; i++)
        *row[i].error = row[i].there = 0;
    bench_session session = {.config = &config, .rows = &rows};
    const double planned_ns = row[0].planned_ns;
    assert_true(bench_session_order(&session));
    double checks_ns = 0;
    for (int i = 0; i < session.order_count; i++) {
        bool first = true;
        for (int k = 0; k < i; k++)
            first = first && session.order[k]->first_of_problem != session.order[i]->first_of_problem;
        const double check_ns = session.order[i]->planned_ns - planned_ns;
        if (session.order[i] != &session.again) /* a copy, of before the checks were planned */
            assert_true(fabs(check_ns - (first ? row[session.order[i]->first_of_problem].check_ns / 2 : 0)) <
                        1);
        checks_ns += check_ns;
    }
    assert_int_equal(session.order_count, ROWS + 1);
    assert_true(fabs(checks_ns - 111e9 / 2) < 10);
    assert_true(fabs(session.planned_ns - 2 * (ROWS + 1) * planned_ns - 111e9) < 100);
    free(session.order);

    bench_row compared = {.kind = BENCH_ATTENTION};
    attn_problem_init(&compared.problem, 2, 8, 8, 100, 1000, 64, 32);
    assert_true(bench_check_elements(&compared) == 3.0 * 1000 * 96);
    assert_int_equal(attn_pattern_parse("topk=4", &compared.problem.pattern, NULL), ATTN_OK);
    assert_true(bench_check_elements(&compared) == 0);
    const double ns = bench_check_element_ns();
    test_note("the reference takes %.3g ns an element", ns);
    assert_true(isfinite(ns) && ns > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_as_documented),
        cmocka_unit_test(borders_follow_the_caches),
        cmocka_unit_test(borders_ascend),
        cmocka_unit_test(short_regimes_are_refined),
        cmocka_unit_test(a_budget_is_kept_exactly),
        cmocka_unit_test(a_budget_is_kept_under_load),
        cmocka_unit_test(samples_end_with_the_budget),
        cmocka_unit_test(measuring_costs_a_tenth),
        cmocka_unit_test(what_is_there_costs_no_budget),
        cmocka_unit_test(a_problem_is_checked_once),
    };
    return test_run("sweep", tests, COUNT_OF(tests));
}
