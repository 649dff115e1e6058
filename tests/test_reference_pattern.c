/* The reference's patterns, drawn by hand: rows are queries, columns keys, X is attended. */
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reference/reference.h"

static attn_problem shape(int64_t queries, int64_t keys, attn_pattern pattern) {
    return (attn_problem){.batch = 1,
                          .heads = 1,
                          .kv_heads = 1,
                          .queries = queries,
                          .keys = keys,
                          .head_dim = 1,
                          .value_dim = 1,
                          .pattern = pattern,
                          .scale = NAN};
}

/* Compares batch b, head h with a drawing, rows separated by blanks; the rows taken whole with their pairs;
 * and the count if nothing but the pattern plays a part. */
static void expect_drawing(const attn_problem *problem, const attn_tensors *tensors, int64_t b, int64_t h,
                           const char *drawing) {
    char drawn[1024];
    size_t at = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < problem->queries; i++) {
        uint8_t row[1024];
        assert_true(ref_attended_row(problem, tensors, b, h, i, row));
        for (int64_t j = 0; j < problem->keys; j++) {
            bool attended = ref_attended(problem, tensors, b, h, i, j);
            assert_int_equal(row[j], attended);
            count += attended;
            drawn[at++] = attended ? 'X' : '.';
        }
        drawn[at++] = ' ';
    }
    drawn[at - 1] = '\0';
    assert_string_equal(drawn, drawing);
    if (problem->inputs == 0 && problem->heads == 1 && problem->batch == 1)
        assert_int_equal(ref_count_pairs(problem), count);
}

static void expect(int64_t queries, int64_t keys, attn_pattern pattern, const char *drawing) {
    attn_problem problem = shape(queries, keys, pattern);
    attn_tensors tensors = {0};
    expect_drawing(&problem, &tensors, 0, 0, drawing);
}

/* Guards: causal is aligned to the last key, causal-top-left to the first, for q < k, q > k, q = k. */
static void causal(void **state) {
    expect(3, 3, (attn_pattern){0}, "XXX XXX XXX");
    expect(3, 3, (attn_pattern){.terms = ATTN_CAUSAL}, "X.. XX. XXX");
    expect(2, 4, (attn_pattern){.terms = ATTN_CAUSAL}, "XXX. XXXX");
    expect(4, 2, (attn_pattern){.terms = ATTN_CAUSAL}, ".. .. X. XX");
    expect(2, 4, (attn_pattern){.terms = ATTN_CAUSAL_TOP_LEFT}, "X... XX..");
    expect(4, 2, (attn_pattern){.terms = ATTN_CAUSAL_TOP_LEFT}, "X. XX XX XX");
}

/* Guards: a prefix is seen by all, and only relaxes causal. */
static void prefix(void **state) {
    expect(4, 4, (attn_pattern){.terms = ATTN_CAUSAL | ATTN_PREFIX, .prefix = 2}, "XX.. XX.. XXX. XXXX");
    expect(3, 2, (attn_pattern){.terms = ATTN_CAUSAL | ATTN_PREFIX, .prefix = 1}, "X. X. XX");
    expect(2, 3, (attn_pattern){.terms = ATTN_CAUSAL_TOP_LEFT | ATTN_PREFIX, .prefix = 9}, "XXX XXX");
    expect(3, 3, (attn_pattern){.terms = ATTN_CAUSAL | ATTN_PREFIX | ATTN_WINDOW, .prefix = 2},
           "X.. .X. ..X");
}

/* Guards: chunks are cut at multiples of C among the positions, floor division below zero too. */
static void chunk(void **state) {
    expect(5, 5, (attn_pattern){.terms = ATTN_CHUNK, .chunk = 2}, "XX... XX... ..XX. ..XX. ....X");
    expect(2, 5, (attn_pattern){.terms = ATTN_CHUNK, .chunk = 3}, "...XX ...XX");
    expect(5, 2, (attn_pattern){.terms = ATTN_CHUNK, .chunk = 3}, ".. .. .. XX XX");
}

/* Guards: window=W is W keys with its own, window=L:R counts both sides without it, inf is no limit. */
static void window(void **state) {
    attn_pattern w = {.terms = ATTN_WINDOW};
    expect(4, 4, w, "X... .X.. ..X. ...X");
    w.window_left = 1;
    expect(4, 4, w, "X... XX.. .XX. ..XX");
    w.window_right = 1;
    expect(4, 4, w, "XX.. XXX. .XXX ..XX");
    w.window_left = ATTN_WINDOW_INF;
    expect(4, 4, w, "XX.. XXX. XXXX XXXX");
    w.window_right = ATTN_WINDOW_INF;
    expect(4, 4, w, "XXXX XXXX XXXX XXXX");
    w.window_left = 0;
    expect(4, 4, w, "XXXX .XXX ..XX ...X");
    expect(2, 4, (attn_pattern){.terms = ATTN_WINDOW, .window_left = 1}, ".XX. ..XX");
    expect(2, 4, (attn_pattern){.terms = ATTN_WINDOW | ATTN_CAUSAL_TOP_LEFT, .window_left = 1}, "X... XX..");
    expect(4, 2, (attn_pattern){.terms = ATTN_WINDOW, .window_right = 1}, ".. X. XX .X");
}

/* Guards: selections add up, restrictions hold for all of them. */
static void sink_and_global(void **state) {
    attn_pattern w = {.terms = ATTN_WINDOW | ATTN_SINK, .sink = 1};
    expect(4, 4, w, "X... XX.. X.X. X..X");
    expect(4, 4, (attn_pattern){.terms = ATTN_SINK, .sink = 2}, "XX.. XX.. XX.. XX..");
    expect(3, 3, (attn_pattern){.terms = ATTN_SINK | ATTN_CAUSAL, .sink = 2}, "X.. XX. XX.");
    expect(4, 4, (attn_pattern){.terms = ATTN_GLOBAL, .global = 1}, "XXXX X... X... X...");
    expect(4, 4, (attn_pattern){.terms = ATTN_GLOBAL | ATTN_CAUSAL, .global = 2}, "X... XX.. XX.. XX..");
    /* p runs from -2: rows 2 and 3 stand at 0 and 1 */
    expect(4, 2, (attn_pattern){.terms = ATTN_GLOBAL, .global = 1}, "X. X. XX X.");
}

/* Guards: stride counts from the query's position in both directions, negative positions too. */
static void stride(void **state) {
    expect(4, 4, (attn_pattern){.terms = ATTN_STRIDE, .stride = 2}, "X.X. .X.X X.X. .X.X");
    expect(3, 4, (attn_pattern){.terms = ATTN_STRIDE, .stride = 3}, ".X.. ..X. X..X");
    expect(4, 2, (attn_pattern){.terms = ATTN_STRIDE, .stride = 3}, ".X .. X. .X");
    expect(4, 4, (attn_pattern){.terms = ATTN_STRIDE | ATTN_CAUSAL, .stride = 2}, "X... .X.. X.X. .X.X");
}

/* Guards: the blocks drawn by `random` are those of an independent program. */
static void random_blocks(void **state) {
    attn_pattern r = {.terms = ATTN_RANDOM, .random_count = 2, .random_block = 2, .random_seed = 7};
    expect(10, 10, r,
           "..XX..XX.. ..XX..XX.. ..XXXX.... ..XXXX.... ......XXXX ......XXXX ....XX..XX "
           "....XX..XX XX....XX.. XX....XX..");
    r = (attn_pattern){.terms = ATTN_RANDOM, .random_count = 1, .random_block = 1, .random_seed = UINT64_MAX};
    expect(3, 3, r, "X.. X.. .X.");
    r.random_count = 100;
    expect(3, 3, r, "XXX XXX XXX");
    r = (attn_pattern){.terms = ATTN_RANDOM, .random_count = 3, .random_block = 1, .random_seed = 42};
    expect(4, 7, r, ".XX.X.. XX...X. .XX...X X....XX");
}

/* Guards: a block map selects by blocks, the last ones cut off, and by head where it has heads. */
static void block_map(void **state) {
    const uint8_t map[] = {1, 0, 0, 0, 0, 7, /* head 1: */ 0, 1, 0, 1, 0, 0};
    attn_pattern m = {.terms = ATTN_BLOCKS, .block_size = 2, .block_map = map, .block_heads = 1};
    expect(3, 5, m, "XX... XX... ....X");
    attn_problem problem = shape(3, 5, m);
    problem.heads = 2;
    problem.pattern.block_heads = 2;
    attn_tensors tensors = {0};
    expect_drawing(&problem, &tensors, 0, 0, "XX... XX... ....X");
    expect_drawing(&problem, &tensors, 0, 1, "..XX. ..XX. XX...");
    assert_int_equal(ref_count_pairs(&problem), 5 + 6);
}

/* Guards: kv_lens hide keys and move nothing; q_offsets move the positions of their batch. */
static void lengths_and_offsets(void **state) {
    attn_problem problem = shape(3, 3, (attn_pattern){.terms = ATTN_CAUSAL});
    problem.batch = 3;
    const int64_t lens[] = {3, 2, 0}, offsets[] = {1, -1, 100};
    attn_tensors tensors = {.kv_lens = lens, .q_offsets = offsets};
    problem.inputs = ATTN_HAS_KV_LENS;
    expect_drawing(&problem, &tensors, 0, 0, "X.. XX. XXX");
    expect_drawing(&problem, &tensors, 1, 0, "X.. XX. XX.");
    expect_drawing(&problem, &tensors, 2, 0, "... ... ...");
    problem.inputs = ATTN_HAS_Q_OFFSETS;
    expect_drawing(&problem, &tensors, 0, 0, "XX. XXX XXX");
    expect_drawing(&problem, &tensors, 1, 0, "... X.. XX.");
    expect_drawing(&problem, &tensors, 2, 0, "XXX XXX XXX");
    problem.pattern.terms = ATTN_WINDOW | ATTN_CAUSAL_TOP_LEFT; /* j <= i, while p = i + 1 */
    problem.pattern.window_left = 1;
    expect_drawing(&problem, &tensors, 0, 0, "X.. .X. ..X");
}

/* Guards: a query has the segment of its position, and none outside the keys. */
static void segments(void **state) {
    attn_problem problem = shape(3, 3, (attn_pattern){0});
    const int64_t ids[] = {5, 5, -1};
    const int64_t offsets[] = {1};
    attn_tensors tensors = {.segments = ids, .q_offsets = offsets};
    problem.inputs = ATTN_HAS_SEGMENTS;
    expect_drawing(&problem, &tensors, 0, 0, "XX. XX. ..X");
    problem.inputs |= ATTN_HAS_Q_OFFSETS;
    expect_drawing(&problem, &tensors, 0, 0, "XX. ..X ...");
}

/* Guards: masks and biases broadcast by their strides; a bias of -inf masks, the lowest float does not. */
static void masks_and_biases(void **state) {
    attn_problem problem = shape(2, 3, (attn_pattern){0});
    problem.heads = 2;
    const uint8_t mask[] = {1, 0, 1, 0, 2, 0};
    const float bias[] = {0, -INFINITY, -3.4e38f};
    attn_tensors tensors = {
        .mask = mask, .mask_strides = {0, 3, 0, 1}, .bias = bias, .bias_strides = {0, 0, 1, 1}};
    problem.inputs = ATTN_HAS_MASK; /* one row a head */
    expect_drawing(&problem, &tensors, 0, 0, "X.X X.X");
    expect_drawing(&problem, &tensors, 0, 1, ".X. .X.");
    problem.inputs = ATTN_HAS_BIAS; /* a Toeplitz bias: strides may overlap */
    problem.keys = 2;
    expect_drawing(&problem, &tensors, 0, 0, "X. .X");
}

/* Guards: the pair counts that other tools get wrong by alignment or by one. */
static void pair_counts(void **state) {
    const struct {
        int64_t queries, keys;
        attn_pattern pattern;
        int64_t pairs;
    } cases[] = {
        {7, 7, {.terms = ATTN_CAUSAL}, 28},
        {7, 7, {.terms = ATTN_CAUSAL | ATTN_WINDOW, .window_left = 2}, 18},
        {7, 7, {.terms = ATTN_WINDOW, .window_left = 2, .window_right = 2}, 29},
        {3, 7, {.terms = ATTN_CAUSAL}, 18},
        {3, 7, {.terms = ATTN_CAUSAL_TOP_LEFT}, 6},
        {7, 3, {.terms = ATTN_CAUSAL}, 6},
        {4096, 4096, {.terms = ATTN_CAUSAL | ATTN_WINDOW, .window_left = 511}, 1966336},
        {7, 7, {.terms = ATTN_CAUSAL | ATTN_TOPK, .topk = 3}, 18},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        attn_problem problem = shape(cases[i].queries, cases[i].keys, cases[i].pattern);
        problem.batch = 2;
        problem.heads = 3;
        assert_int_equal(ref_count_pairs(&problem), 6 * cases[i].pairs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal),          cmocka_unit_test(prefix),
        cmocka_unit_test(chunk),           cmocka_unit_test(window),
        cmocka_unit_test(sink_and_global), cmocka_unit_test(stride),
        cmocka_unit_test(random_blocks),   cmocka_unit_test(block_map),
        cmocka_unit_test(segments),        cmocka_unit_test(lengths_and_offsets),
        cmocka_unit_test(pair_counts),     cmocka_unit_test(masks_and_biases),
    };
    return test_run("reference_pattern", tests, COUNT_OF(tests));
}
