/* The harness' instances: that a row runs what attn_execute would run, shared out as it says. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

enum { CALLS = 3 };

static bench_row make_row(int64_t queries, int64_t keys, int threads) {
    bench_row row = {.kind = BENCH_ATTENTION, .isa = "scalar", .algorithm = ATTN_FLASH, .threads = threads};
    row.pattern[0] = 0;
    attn_problem_init(&row.problem, 1, 1, 1, queries, keys, 16, 16);
    assert_int_equal(bench_row_count(&row), 0);
    assert_string_equal(row.error, "");
    return row;
}

/* Runs the row on a pool of its threads; pairs that each thread executed into pairs[], the sum of the output
 * into *checksum. Returns how many threads the harness says were used. */
static int run_row(const bench_row *row, int64_t *pairs, double *checksum) {
    attn_error error = {""};
    machine *m = machine_load(NULL, &error);
    bench_pool *pool = m ? bench_pool_new(m, row->threads, false) : NULL;
    assert_non_null(pool);
    bench_instance instance;
    if (!bench_instance_make(&instance, row, pool, 1, &error))
        test_fail("%s", error.text);
    bench_pool_start(pool, row->threads);
    bench_instance_run(&instance, CALLS);
    bench_pool_stop(pool);
    for (int i = 0; instance.share && i < row->threads; i++)
        pairs[i] = instance.share[i].counts.pairs_executed;
    double sum_abs;
    *checksum = bench_instance_checksum(&instance, &sum_abs);
    assert_true(sum_abs >= fabs(*checksum));
    const int used = bench_instance_threads_used(&instance);
    bench_instance_free(&instance);
    bench_pool_free(pool);
    machine_free(m);
    return used;
}

/* Guards: one query against many keys is split over the row's threads, as attn_execute splits it, not left to
 * one of them under the name of several; and the result is that of one thread. */
static void decoding_is_shared(void **state) {
    int64_t pairs[3] = {0};
    double alone, together;
    bench_row row = make_row(1, 3 * 2048 + 100, 1);
    assert_int_equal(row.info.key_splits, 4);
    assert_int_equal(run_row(&row, pairs, &alone), 1);
    row.threads = 3;
    assert_int_equal(run_row(&row, pairs, &together), 3);
    for (int i = 0; i < 3; i++)
        assert_true(pairs[i] > 0);
    assert_int_equal(pairs[0] + pairs[1] + pairs[2], CALLS * row.info.pairs_executed);
    assert_true(alone == together && alone != 0);
}

/* Guards: a row with less to share than threads does not say that all of them worked. */
static void idle_threads_are_not_used(void **state) {
    int64_t pairs[3] = {0};
    double checksum;
    bench_row row = make_row(9, 64, 3); /* one tile of queries, and too many of them to split the keys */
    assert_int_equal(row.info.key_splits, 1);
    assert_int_equal(run_row(&row, pairs, &checksum), 1);
    assert_int_equal(pairs[0], CALLS * row.info.pairs_executed);
    assert_int_equal(pairs[1] + pairs[2], 0);
    row = make_row(2 * row.info.query_tile, 64, 3);
    assert_int_equal(run_row(&row, pairs, &checksum), 2);
    assert_int_equal(pairs[0], pairs[1]);
    assert_int_equal(pairs[0] + pairs[1], CALLS * row.info.pairs_executed);
}

/* Guards: with as many queries as keys, what no query attends is not counted as read: Q, the output, and K
 * and V of the one tile of keys that the sink reaches; without a pattern all of them. */
static void bytes_are_those_of_attended_keys(void **state) {
    (void)state;
    bench_row row = make_row(4096, 4096, 1);
    assert_true(row.bytes_compulsory == 4.0 * 16 * (2 * 4096 + 2 * 4096));
    assert_int_equal(attn_pattern_parse("sink=4", &row.problem.pattern, NULL), ATTN_OK);
    assert_int_equal(bench_row_count(&row), 0);
    assert_true(row.bytes_compulsory == 4.0 * 16 * (2 * 4096 + 2 * row.info.key_tile));
}

/* Guards: what is said to be read, which is set against the read bandwidth. In place, that is half of what a
 * stage moves; a figure of both came out at twice the machine's bandwidth. */
static void reading_is_counted_apart(void **state) {
    (void)state;
    const double rows = 4.0 * 16 * 2048, scores = 4.0 * 2048 * 2048;
    static const struct {
        double rows_read, scores_read, rows_written, scores_written;
    } stage[ATTN_STAGE_COUNT] = {
        [ATTN_STAGE_QK] = {2, 0, 0, 1},   [ATTN_STAGE_SCALE] = {0, 1, 0, 1},
        [ATTN_STAGE_MASK] = {0, 1, 0, 1}, [ATTN_STAGE_SOFTMAX] = {0, 1, 0, 1},
        [ATTN_STAGE_PV] = {1, 1, 1, 0},
    };
    bench_row row = make_row(2048, 2048, 1);
    assert_true(row.bytes_read == 3 * rows && row.bytes_compulsory == 4 * rows);
    row.algorithm = ATTN_NAIVE;
    assert_int_equal(bench_row_count(&row), 0);
    assert_true(row.bytes_read == 3 * rows + scores && row.bytes_compulsory == 4 * rows);
    row.kind = BENCH_STAGE;
    for (int s = 0; s < 2 * ATTN_STAGE_COUNT; s++) {
        const bool masks = s >= ATTN_STAGE_COUNT; /* without a pair to mask, that stage does nothing */
        row.problem.pattern.terms = masks ? ATTN_CAUSAL : 0;
        row.stage = (attn_stage)(s % ATTN_STAGE_COUNT);
        assert_int_equal(bench_row_count(&row), 0);
        const double moved = row.stage == ATTN_STAGE_MASK && !masks ? 0 : scores;
        const double read = stage[row.stage].rows_read * rows + stage[row.stage].scores_read * moved;
        assert_true(row.bytes_read == read);
        assert_true(row.bytes_compulsory ==
                    read + stage[row.stage].rows_written * rows + stage[row.stage].scores_written * moved);
    }
    for (int k = 0; k < bench_kernel_count; k++) {
        bench_row kernel = {.kind = BENCH_KERNEL, .isa = "scalar", .kernel = &bench_kernels[k], .n = 256};
        kernel.problem.head_dim = kernel.problem.value_dim = 64;
        assert_int_equal(bench_row_count(&kernel), 0);
        assert_true(kernel.bytes_read > 0 && kernel.bytes_read <= kernel.bytes_compulsory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_is_shared),
        cmocka_unit_test(idle_threads_are_not_used),
        cmocka_unit_test(bytes_are_those_of_attended_keys),
        cmocka_unit_test(reading_is_counted_apart),
    };
    return test_run("harness", tests, COUNT_OF(tests));
}
