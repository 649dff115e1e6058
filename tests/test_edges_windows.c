/* Edges of windows and alignment: which key a query attends is drawn or counted exactly, with scores
 * that are all equal, so that the weights show the attended pairs and nothing else. At each ISA level with
 * each algorithm; each test names the public report of the fault that it would find. */
#include "tests/support.h"

#include <math.h>
#include <string.h>

#include "attention/plan.h"
#include "tests/edges.h"

/* Guards: windows are exact, neither one key too wide nor too narrow (onnxruntime#25927, vllm#3385), and
 * causal alignment is that of the named term when there are more keys than queries or fewer (pytorch#108108,
 * mlx#2835). */
static void drawings(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const struct {
        const char *pattern;
        int64_t queries, keys;
        const char *rows[7];
    } drawn[] = {
        {"window=1", 7, 7, {"#......", ".#.....", "..#....", "...#...", "....#..", ".....#.", "......#"}},
        {"window=2", 7, 7, {"#......", "##.....", ".##....", "..##...", "...##..", "....##.", ".....##"}},
        {"window=7", 7, 7, {"#......", "##.....", "###....", "####...", "#####..", "######.", "#######"}},
        {"window=8", 7, 7, {"#......", "##.....", "###....", "####...", "#####..", "######.", "#######"}},
        {"window=6", 7, 7, {"#......", "##.....", "###....", "####...", "#####..", "######.", ".######"}},
        {"window=1:2", 7, 7, {"###....", "####...", ".####..", "..####.", "...####", "....###", ".....##"}},
        {"window=0:inf", 7, 7, {"#######", ".######", "..#####", "...####", "....###", ".....##", "......#"}},
        {"causal", 3, 7, {"#####..", "######.", "#######"}},
        {"causal-top-left", 3, 7, {"#......", "##.....", "###...."}},
        {"window=2", 3, 7, {"...##..", "....##.", ".....##"}},
        {"causal-top-left,window=2", 3, 7, {"#......", "##.....", ".##...."}},
        {"causal", 7, 3, {"...", "...", "...", "...", "#..", "##.", "###"}},
        {"causal-top-left", 7, 3, {"#..", "##.", "###", "###", "###", "###", "###"}},
        {"window=2", 7, 3, {"...", "...", "...", "...", "#..", "##.", ".##"}},
        {"causal,window=1,sink=1",
         7,
         7,
         {"#......", "##.....", "#.#....", "#..#...", "#...#..", "#....#.", "#.....#"}},
        {"window=1,global=1", 3, 7, {"#...#..", "#....#.", "#.....#"}},
        {"causal,prefix=2", 3, 3, {"##.", "##.", "###"}},
        {"chunk=2", 3, 7, {"....##.", "....##.", "......#"}},
        {"causal,stride=2", 3, 7, {"#.#.#..", ".#.#.#.", "#.#.#.#"}},
    };
    for (size_t k = 0; k < COUNT_OF(drawn); k++) {
        case_spec s = edge_spec(0);
        s.queries = drawn[k].queries;
        s.keys = drawn[k].keys;
        s.pattern = edge_pattern(drawn[k].pattern);
        attention_case *c = edge_weights(&s);
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            case_execute(c, kernels->name, edge_algorithms[a], 1);
            attn_plan *plan = edge_plan(c, kernels->name, edge_algorithms[a]);
            attn_look *look = attn_look_open(plan, NULL, 1, 3);
            assert_non_null(look);
            for (int64_t i = 0; i < s.queries; i++) {
                uint64_t bits;
                edge_expect_drawn(c, 1, 3, i, drawn[k].rows[i]);
                attn_look_row(look, i, &bits);
                for (int64_t j = 0; j < s.keys; j++)
                    assert_int_equal(bits >> j & 1, drawn[k].rows[i][j] == '#');
            }
            attn_look_close(look);
            attn_plan_destroy(plan);
        }
        case_free(c);
    }
}

static float stored(const void *data, attn_dtype dtype, int64_t at) {
    if (dtype == ATTN_F32)
        return ((const float *)data)[at];
    const uint16_t half = ((const uint16_t *)data)[at];
    return dtype == ATTN_F16 ? attn_f16_to_f32(half) : attn_bf16_to_f32(half);
}

/* Guards: window=1 gives out == V bit for bit (the softmax of one element is 1), whatever Q and K are, for
 * every storage type, more keys than queries, and offsets of a growing cache. */
static void window_of_one_is_v(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (int variant = 0; variant < 6; variant++) {
            case_spec s = edge_spec(place);
            s.pattern = edge_pattern("window=1");
            s.dtype = (attn_dtype)(variant % 3);
            s.inputs = variant >= 3 ? ATTN_HAS_Q_OFFSETS : 0;
            attention_case *c = case_new(&s);
            int64_t offsets[2] = {s.keys - s.queries, s.keys - s.queries};
            for (int64_t b = 0; b < s.batch && variant >= 3; b++)
                ((int64_t *)c->q_offsets.data)[b] = offsets[b] = (s.keys - s.queries) / 2 + b;
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                case_execute(c, kernels->name, edge_algorithms[a], 1);
                for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++) {
                    const int64_t b = row / s.queries / s.heads, h = row / s.queries % s.heads,
                                  i = row % s.queries;
                    const int64_t p = i + offsets[b];
                    for (int64_t d = 0; d < s.value_dim; d++) {
                        const int64_t at = ((b * s.kv_heads + h / 2) * s.keys + p) * s.value_dim + d;
                        const float expected = p < s.keys ? stored(c->v.data, s.dtype, at) : 0;
                        assert_true(case_out(c, b, h, i)[d] == expected);
                    }
                }
            }
            case_free(c);
        }
}

/* Fails unless row (0, 0, i) is the mean of keys [first, last), each with the same weight: the log-sum-exp of
 * so many scores of 0 counts them, and the value of key j is j. */
static void expect_interval(const attention_case *c, int64_t i, int64_t first, int64_t last) {
    first = first > 0 ? first : 0;
    last = last < c->spec.keys ? last : c->spec.keys;
    const double count = last > first ? (double)(last - first) : 0, mean = (double)(first + last - 1) / 2;
    const double lse = c->tensors.lse[i], out = case_out(c, 0, 0, i)[0];
    const bool right =
        count == 0 ? out == 0 && lse == -(double)INFINITY
                   : fabs(exp(lse) - count) < 0.01 && fabs(out - mean) <= (count + 10) * 0x1p-23 * mean;
    if (!right)
        test_fail("%s: query %d attends %.6g keys with mean %.9g, should attend %.0f with %.9g",
                  case_describe(&c->spec), (int)i, exp(lse), out, count, mean);
}

/* Guards: a window that ends beside a tile's border is not rounded to it (vllm#27650): tile-1, tile, tile+1
 * for the key tile, the query tile and a kernel's block of keys, to the left and to the right. */
static void windows_at_tile_borders(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    case_spec s = {.batch = 1, .heads = 1, .kv_heads = 1, .head_dim = 4, .value_dim = 1};
    s.queries = s.keys = 2 * kernels->key_block + 77;
    attention_case *probe = case_new(&s);
    const int64_t key_tile = edge_info(probe, kernels->name, ATTN_FLASH).key_tile;
    case_free(probe);
    const int64_t tiles[] = {key_tile, 2 * key_tile, kernels->query_tile, kernels->key_block};
    for (size_t t = 0; t < COUNT_OF(tiles); t++)
        for (int64_t width = tiles[t] - 1; width <= tiles[t] + 1; width++)
            for (int sides = 0; sides < 3; sides++) {
                if (test_quick() && (t + (size_t)width) % 3 != 0)
                    continue;
                s.pattern = (attn_pattern){.terms = ATTN_WINDOW,
                                           .window_left = sides != 1 ? width - 1 : 0,
                                           .window_right = sides != 0 ? width - 1 : 0};
                attention_case *c = case_new(&s);
                edge_fill(c, &c->tensors.q, 0);
                for (int64_t j = 0; j < s.keys; j++)
                    case_set(c, &c->tensors.v, 0, 0, j, 0, (float)j);
                for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                    case_execute(c, kernels->name, edge_algorithms[a], 1);
                    for (int64_t i = 0; i < s.queries; i++)
                        expect_interval(c, i, i - s.pattern.window_left, i + s.pattern.window_right + 1);
                }
                case_free(c);
            }
}

/* Guards: windows whose sides are as large as the interface allows are no overflow: everything is attended.
 */
static void huge_parameters(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t most = (int64_t)1 << 60;
    const attn_pattern patterns[] = {
        {.terms = ATTN_WINDOW, .window_left = most, .window_right = most},
        {.terms = ATTN_WINDOW, .window_left = ATTN_WINDOW_INF, .window_right = most},
        {.terms = ATTN_WINDOW, .window_left = most, .window_right = ATTN_WINDOW_INF},
        {.terms = ATTN_CAUSAL | ATTN_PREFIX, .prefix = most},
        {.terms = ATTN_CHUNK, .chunk = most},
        {.terms = ATTN_SINK, .sink = most},
        {.terms = ATTN_GLOBAL, .global = most},
        {.terms = ATTN_RANDOM, .random_count = most, .random_block = most},
    };
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t p = 0; p < COUNT_OF(patterns); p++) {
            case_spec s = edge_spec(place);
            s.batch = s.heads = s.kv_heads = s.value_dim = 1;
            s.pattern = patterns[p];
            attention_case *c = case_new(&s);
            edge_fill(c, &c->tensors.q, 0);
            for (int64_t j = 0; j < s.keys; j++)
                case_set(c, &c->tensors.v, 0, 0, j, 0, (float)j);
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                case_execute(c, kernels->name, edge_algorithms[a], 1);
                for (int64_t i = 0; i < s.queries; i++)
                    expect_interval(c, i, 0, s.keys);
            }
            case_free(c);
        }
}

/* Guards: a stride of any size selects the query's own position and nothing else, and offsets far outside the
 * keys are no overflow. */
static void far_positions(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t most = (int64_t)1 << 60;
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (int kind = 0; kind < 5; kind++) {
            case_spec s = edge_spec(place);
            s.batch = s.heads = s.kv_heads = s.value_dim = 1;
            s.inputs = kind > 0 ? ATTN_HAS_Q_OFFSETS : 0;
            s.pattern = kind < 3 ? (attn_pattern){.terms = ATTN_STRIDE, .stride = most}
                                 : (attn_pattern){.terms = ATTN_CAUSAL | ATTN_WINDOW,
                                                  .window_left = most,
                                                  .window_right = most};
            attention_case *c = case_new(&s);
            edge_fill(c, &c->tensors.q, 0);
            for (int64_t j = 0; j < s.keys; j++)
                case_set(c, &c->tensors.v, 0, 0, j, 0, (float)j);
            if (kind > 0)
                *(int64_t *)c->q_offsets.data = kind % 2 ? most : -most;
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                case_execute(c, kernels->name, edge_algorithms[a], 1);
                for (int64_t i = 0; i < s.queries; i++) {
                    const int64_t p = i + s.keys - s.queries;
                    if (kind == 0)
                        expect_interval(c, i, p, p + 1);
                    else if (kind < 3) /* 2^60 divides p - j for j = i alone */
                        expect_interval(c, i, i, i < s.keys ? i + 1 : i);
                    else /* p - 2^60 <= j: all up to i behind the keys, nothing before them */
                        expect_interval(c, i, i, kind == 3 ? s.keys : i);
                }
            }
            case_free(c);
        }
}

/* Guards: BigBird on fewer keys than a block: what ran is what is reported (transformers#20031). The one
 * block is always drawn, so everything is attended, and plan, execution and result say just that. */
static void bigbird_below_a_block(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int64_t n = 5; n <= 70; n += 65) {
        case_spec s = edge_spec(0);
        s.queries = s.keys = n;
        attention_case *dense = case_new(&s);
        attention_case *sparse = case_new(&s);
        sparse->spec.pattern = sparse->problem.pattern = edge_pattern("window=1:1,global=1,random=3:71:9");
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            attn_counts counts = {0};
            sparse->tensors.counts = &counts;
            edge_result all = edge_execute(dense, kernels->name, edge_algorithms[a], 1);
            edge_result some = edge_execute(sparse, kernels->name, edge_algorithms[a], 1);
            edge_expect_same(sparse, &all, &some, "BigBird below a block against dense");
            const attn_info info = edge_info(sparse, kernels->name, edge_algorithms[a]);
            assert_int_equal(info.pairs_useful, 8 * n * n);
            assert_int_equal(info.pairs_executed, 8 * n * n);
            assert_int_equal(info.tiles_absent, 0);
            assert_int_equal(counts.pairs_executed, info.pairs_executed);
            assert_int_equal(counts.tiles_full, info.tiles_full);
            assert_int_equal(counts.tiles_partial, info.tiles_partial);
            if (edge_algorithms[a] == ATTN_FLASH)
                assert_int_equal(info.tiles_partial, 0);
            edge_free(&all);
            edge_free(&some);
        }
        case_free(dense);
        case_free(sparse);
    }
}

/* Guards: parameters past 2^60, which a position could not be added to, are refused by name. */
static void parameters_too_large(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t more = ((int64_t)1 << 60) + 1, most = INT64_MAX - 1;
    const struct {
        attn_pattern pattern;
        const char *name;
    } refused[] = {
        {{.terms = ATTN_WINDOW, .window_left = more}, "window"},
        {{.terms = ATTN_WINDOW, .window_left = ATTN_WINDOW_INF, .window_right = most}, "window"},
        {{.terms = ATTN_CAUSAL | ATTN_PREFIX, .prefix = most}, "prefix"},
        {{.terms = ATTN_CHUNK, .chunk = more}, "chunk"},
        {{.terms = ATTN_SINK, .sink = INT64_MAX}, "sink"},
        {{.terms = ATTN_GLOBAL, .global = more}, "global"},
        {{.terms = ATTN_STRIDE, .stride = INT64_MAX}, "stride"},
        {{.terms = ATTN_RANDOM, .random_count = 1, .random_block = most}, "random"},
        {{.terms = ATTN_TOPK, .topk = more}, "topk"},
    };
    for (size_t k = 0; k < COUNT_OF(refused); k++) {
        attn_problem problem;
        attn_problem_init(&problem, 1, 1, 1, 70, 70, 8, 8);
        problem.pattern = refused[k].pattern;
        const attn_options options = {.isa = kernels->name};
        attn_plan *plan;
        attn_error error = {""};
        assert_int_equal(attn_plan_create(&problem, &options, &plan, &error), ATTN_INVALID);
        assert_non_null(strstr(error.text, refused[k].name));
    }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "drawings", drawings);
    test_add_levels(&list, "window of one is V", window_of_one_is_v);
    test_add_levels(&list, "windows at tile borders", windows_at_tile_borders);
    test_add_levels(&list, "huge parameters", huge_parameters);
    test_add_levels(&list, "parameters too large", parameters_too_large);
    test_add_levels(&list, "far positions", far_positions);
    test_add_levels(&list, "BigBird below a block", bigbird_below_a_block);
    return test_run_list("edges_windows", &list);
}
