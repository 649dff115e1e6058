/* How often keys and values are packed, or read as they are stored, counted where the kernels are called. */
#include "tests/support.h"

#include <stdlib.h>

#include "attention/internal.h"

/* The level's kernels, and the rows that went through two of them. */
static const attn_kernels *real;
static int64_t key_rows, value_rows, stored_rows;

static void count_pack_bt(float *dst, const void *src, attn_dtype dtype, int64_t src_stride, int64_t rows,
                          int64_t depth) {
    key_rows += rows;
    real->pack_bt(dst, src, dtype, src_stride, rows, depth);
}

static bool count_pack_b(float *dst, int64_t panel_stride, const void *src, attn_dtype dtype,
                         int64_t src_stride, int64_t depth, int64_t cols, bool finite_only) {
    value_rows += depth;
    return real->pack_b(dst, panel_stride, src, dtype, src_stride, depth, cols, finite_only);
}

static bool count_decode_tile(const attn_decode_tile *tile) {
    stored_rows += tile->keys;
    return real->decode_tile(tile);
}

/* Executes on one thread and counts. */
static void count_packed(attn_plan *plan) {
    const attn_problem *p = &plan->problem;
    attn_kernels counting = *(real = plan->kernels);
    counting.pack_bt = count_pack_bt;
    counting.pack_b = count_pack_b;
    counting.decode_tile = count_decode_tile;
    plan->kernels = &counting;
    key_rows = value_rows = stored_rows = 0;
    const int64_t rows = attn_max(p->queries, p->keys);
    float *data = calloc((size_t)(2 * p->batch * p->heads * rows * p->head_dim), sizeof *data);
    assert_non_null(data);
    attn_tensors tensors;
    attn_error error;
    attn_tensors_init(&tensors, p, data, data, data, data + p->batch * p->heads * rows * p->head_dim);
    if (attn_execute(plan, &tensors, NULL, 1, &error) != ATTN_OK)
        test_fail("%s", error.text);
    free(data);
    plan->kernels = real;
}

/* Guards: flash packs what it visits once for each (batch, key/value head): not again for each query tile,
 * nor for each query head that shares it, nor keys that the pattern leaves out. naive packs all keys once for
 * each query head. The last shapes are cut into splits of their keys, which are read as they are stored: once
 * for all query heads that share them, of which a kernel takes as many as have query_tile rows. */
static void packed_once(void **state) {
    static const struct {
        const char *pattern;
        int64_t queries, keys;
    } cases[] = {
        {"dense", 1, 1},
        {"dense", 200, 300},
        {"causal", 300, 300},
        {"window=70:10", 500, 1000},
        {"random=2:64:3", 9, 2000},
        {"dense", 3, 5000},
        {"causal,window=900", 8, 5000},
    };
    for (size_t c = 0; c < COUNT_OF(cases); c++)
        for (int algorithm = ATTN_NAIVE; algorithm <= ATTN_FLASH; algorithm++) {
            attn_problem problem;
            attn_problem_init(&problem, 2, 6, 2, cases[c].queries, cases[c].keys, 8, 8);
            const attn_options options = {.isa = test_kernels(state)->name, .algorithm = algorithm};
            attn_error error;
            attn_plan *plan;
            if (attn_pattern_parse(cases[c].pattern, &problem.pattern, &error) != ATTN_OK ||
                attn_plan_create(&problem, &options, &plan, &error) != ATTN_OK)
                test_fail("%s: %s", cases[c].pattern, error.text);
            count_packed(plan);
            const bool split = plan->splits > 1;
            const int64_t attended = 2 * attn_plan_keys_attended(plan);
            const int64_t expected = algorithm == ATTN_NAIVE ? 2 * 6 * problem.keys : split ? 0 : attended;
            if (key_rows != expected || value_rows != expected)
                test_fail("%s %s: %lld keys and %lld values packed, not %lld", cases[c].pattern,
                          attn_algorithm_name(algorithm), (long long)key_rows, (long long)value_rows,
                          (long long)expected);
            if (stored_rows != (split ? attended : 0)) /* 3 heads of 8 queries at most fill no tile */
                test_fail("%s: %lld keys read as stored, not %lld", cases[c].pattern, (long long)stored_rows,
                          (long long)attended);
            attn_plan_destroy(plan);
        }
}

int main(void) {
    test_list tests = {0};
    test_add_levels(&tests, "packed once", packed_once);
    return test_run_list("packing", &tests);
}
