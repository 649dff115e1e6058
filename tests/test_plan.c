/* The plan: tiles against the reference pair by pair, what is executed against what is useful. */
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/internal.h"
#include "reference/reference.h"
#include "tests/patterns.h"

static const char *const patterns[] = {
    "dense",
    "causal",
    "causal-top-left",
    "causal,window=5",
    "window=3:7",
    "window=inf:2",
    "window=64,sink=64",
    "causal,sink=3,window=10",
    "causal,window=100,sink=70",
    "chunk=17",
    "causal,chunk=33",
    "chunk=100,window=20:20",
    "causal,prefix=90",
    "causal,prefix=200,window=30:400",
    "causal,global=3,window=4",
    "window=2:2,global=70",
    "causal,chunk=64,global=90,sink=3",
    "stride=1",
    "stride=3",
    "stride=130",
    "stride=300,sink=9",
    "causal,stride=200,window=5",
    "chunk=300,stride=150,random=1:32:5",
    "causal,stride=5,window=2",
    "random=2:16:7",
    "random=3:100:1,sink=9",
    "causal,random=1:8:3,window=4",
    "causal,random=1:40:3",
    "window=90:90,random=2:64:4",
    "causal,window=40,topk=7", /* naive only */
};

/* `pattern` may be NULL, when the problem has its own. */
static attn_plan *plan_with(void **state, const char *pattern, attn_problem *problem,
                            attn_algorithm algorithm) {
    attn_error error;
    attn_plan *plan;
    const attn_options options = {.isa = test_kernels(state)->name, .algorithm = algorithm};
    if ((pattern && attn_pattern_parse(pattern, &problem->pattern, &error) != ATTN_OK) ||
        attn_plan_create(problem, &options, &plan, &error) != ATTN_OK)
        test_fail("%s: %s", pattern ? pattern : "blocks", error.text);
    return plan;
}

static attn_plan *plan_of(void **state, const char *pattern, int64_t queries, int64_t keys,
                          attn_algorithm algorithm) {
    attn_problem problem;
    attn_problem_init(&problem, 1, 1, 1, queries, keys, 8, 8);
    return plan_with(state, pattern, &problem, algorithm);
}

static bool has_topk(const char *pattern) {
    return strstr(pattern, "topk=") != NULL;
}

/* The kind of a tile, pair by pair. */
static attn_tile_kind true_kind(const attn_plan *plan, int64_t query_tile, int64_t key_tile) {
    const attn_problem *problem = &plan->problem;
    const attn_tensors none = {0};
    bool all = true, some = false;
    const int64_t rows = attn_min((query_tile + 1) * plan->query_tile, problem->queries);
    const int64_t keys = attn_min((key_tile + 1) * plan->key_tile, problem->keys);
    for (int64_t i = query_tile * plan->query_tile; i < rows; i++)
        for (int64_t j = key_tile * plan->key_tile; j < keys; j++) {
            const bool attended = ref_attended(problem, &none, 0, 0, i, j);
            all &= attended;
            some |= attended;
        }
    return all ? ATTN_TILE_FULL : some ? ATTN_TILE_PARTIAL : ATTN_TILE_ABSENT;
}

/* Guards: no attended pair lies in an absent tile, no pair that is not attended in a full one, and no tile is
 * visited in vain; the counts of tiles and pairs are those of the tiles. */
static void tiles_are_exact(void **state) {
    const int rounds = test_count(2, 12, 120);
    for (size_t p = 0; p < COUNT_OF(patterns); p++) {
        if (has_topk(patterns[p]))
            continue;
        test_rng rng = test_rng_start("tiles", p);
        for (int round = 0; round < rounds; round++) {
            attn_plan *plan = plan_of(state, patterns[p], test_between(&rng, 1, 400),
                                      test_between(&rng, 1, 600), ATTN_FLASH);
            int64_t counts[3] = {0};
            attn_look *look = attn_look_open(plan, NULL, 0, 0);
            attn_tile_kind kinds[10];
            assert_true(look && plan->key_tiles <= (int64_t)COUNT_OF(kinds));
            for (int64_t a = 0; a < plan->query_tiles; a++) {
                attn_look_tiles(look, a, kinds);
                for (int64_t b = 0; b < plan->key_tiles; b++) {
                    counts[kinds[b]]++;
                    if (kinds[b] != true_kind(plan, a, b))
                        test_fail("%s %lld x %lld: tile (%lld, %lld) is %d, should be %d", patterns[p],
                                  (long long)plan->problem.queries, (long long)plan->problem.keys,
                                  (long long)a, (long long)b, (int)kinds[b], (int)true_kind(plan, a, b));
                }
            }
            attn_look_close(look);
            assert_int_equal(counts[ATTN_TILE_ABSENT], plan->info.tiles_absent);
            assert_int_equal(counts[ATTN_TILE_PARTIAL], plan->info.tiles_partial);
            assert_int_equal(counts[ATTN_TILE_FULL], plan->info.tiles_full);
            assert_int_equal(plan->info.pairs_useful, ref_count_pairs(&plan->problem));
            attn_plan_destroy(plan);
        }
    }
}

/* Guards: the number of useful pairs, which is found from the corners of a pattern, for every small shape:
 * where terms begin, end, meet, overtake each other and move in steps of as many keys as there are rows. */
static void pairs_are_exact(void **state) {
    static const char *const small[] = {
        "causal",
        "chunk=7",
        "causal,chunk=5",
        "causal-top-left,prefix=3",
        "global=3",
        "window=2:1,sink=2,global=5",
        "causal,window=4,sink=2,global=3",
        "chunk=6,window=3:9,sink=8",
        "causal,window=3,stride=4",
        "random=1:3:5,window=2",
        "causal,random=2:2:7,sink=1",
        "causal,window=5,sink=2,topk=4",
        "window=1:9,topk=4",
        "random=2:4:1,topk=6",
    };
    const int64_t most = test_quick() ? 12 : 26;
    for (size_t p = 0; p < COUNT_OF(small); p++)
        for (int64_t queries = 1; queries <= most; queries++)
            for (int64_t keys = 1; keys <= most; keys++) {
                attn_plan *plan = plan_of(state, small[p], queries, keys, ATTN_NAIVE);
                const int64_t expected = ref_count_pairs(&plan->problem);
                if (plan->info.pairs_useful != expected)
                    test_fail("%s %d x %d: %d pairs, should be %d", small[p], (int)queries, (int)keys,
                              (int)plan->info.pairs_useful, (int)expected);
                attn_plan_destroy(plan);
            }
}

/* Guards: what an execution counts as its kernels are called is what the plan promised. */
static void executed_equals_planned(void **state) {
    for (size_t p = 0; p < COUNT_OF(patterns); p++)
        for (int algorithm = ATTN_NAIVE; algorithm <= ATTN_FLASH; algorithm++) {
            if (has_topk(patterns[p]) && algorithm == ATTN_FLASH)
                continue;
            attn_plan *plan = plan_of(state, patterns[p], 203, 331, algorithm);
            attn_counts counts = {0};
            attn_tensors tensors;
            attn_error error;
            float *data = calloc((size_t)(4 * 331 * 8), sizeof *data);
            assert_non_null(data);
            attn_tensors_init(&tensors, &plan->problem, data, data, data, data + 3 * 331 * 8);
            tensors.counts = &counts;
            for (int threads = 1; threads <= 3; threads += 2) {
                memset(&counts, 0, sizeof counts);
                if (attn_execute(plan, &tensors, NULL, threads, &error) != ATTN_OK)
                    test_fail("%s: %s", patterns[p], error.text);
                assert_int_equal(counts.pairs_useful, plan->info.pairs_useful);
                assert_int_equal(counts.pairs_executed, plan->info.pairs_executed);
                assert_int_equal(counts.tiles_full, plan->info.tiles_full);
                assert_int_equal(counts.tiles_partial, plan->info.tiles_partial);
            }
            free(data);
            attn_plan_destroy(plan);
        }
}

/* Guards: with topk, useful are the K of each row (or as many as there are), executed all that it chose
 * among. */
static void topk_counts(void **state) {
    attn_plan *plan = plan_of(state, "causal,topk=5", 20, 20, ATTN_NAIVE);
    assert_int_equal(plan->info.pairs_useful, 1 + 2 + 3 + 4 + 16 * 5);
    assert_int_equal(plan->info.pairs_executed, 20 * 21 / 2);
    assert_int_equal(plan->info.pairs_dense, 400);
    attn_plan_destroy(plan);
}

/* Executes more than is useful by `allowed` pairs at most. */
static void expect_waste(const attn_plan *plan, const char *pattern, int64_t allowed) {
    const int64_t wasted = plan->info.pairs_executed - plan->info.pairs_useful;
    test_note("%s: %lld useful, %lld executed, %.2f of the bound on waste", pattern,
              (long long)plan->info.pairs_useful, (long long)plan->info.pairs_executed,
              (double)wasted / (double)attn_max(1, allowed));
    if (wasted < 0 || wasted > allowed)
        test_fail("%s: %lld pairs wasted, %lld allowed", pattern, (long long)wasted, (long long)allowed);
}

/* Guards: patterns cost their pairs. Per query tile of R rows and key tiles of T keys, each border of a run
 * may waste what lies between the border and the grid (under T keys in each row) and, where the border moves
 * with the row, the triangle of R (R - 1) / 2 pairs. Where a border between rows falls into a tile, its rows
 * on either side execute what only the others attend: up to R times the keys that end or begin there. */
static void patterns_cost_their_pairs(void **state) {
    const int64_t n = 8192;
    const struct {
        const char *pattern;
        int64_t straight, slanted; /* borders of runs in a tile row, at most */
        int64_t row_borders;       /* in the whole pattern */
        int64_t border_keys;       /* that end or begin at one of them, at most */
    } cases[] = {
        {"dense", 0, 0, 0, 0},
        {"causal", 0, 1, 0, 0},
        {"window=256", 0, 2, 0, 0},
        {"causal,window=1000", 0, 2, 0, 0},
        {"window=100:300", 0, 2, 0, 0},
        {"causal,window=256,sink=16", 1, 2, 0, 0},
        {"causal,chunk=500", 3, 1, n / 500, 500}, /* a tile of queries may reach into two chunks */
        {"global=100", 1, 0, 1, n},               /* only its first rows attend everything */
        {"causal,global=100", 1, 1, 1, 100},
        {"causal,window=256,global=100", 1, 2, 1, 100},
        {"window=100:300,global=1", 1, 2, 1, n},
    };
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        attn_plan *plan = plan_of(state, cases[c].pattern, n, n, ATTN_FLASH);
        const int64_t rows = plan->query_tile, keys = plan->key_tile;
        const int64_t in_tile_row = (cases[c].straight + cases[c].slanted) * rows * (keys - 1) +
                                    cases[c].slanted * rows * (rows - 1) / 2;
        expect_waste(plan, cases[c].pattern,
                     in_tile_row * plan->query_tiles + cases[c].row_borders * rows * cases[c].border_keys);
        attn_plan_destroy(plan);
    }
}

/* Guards: so do selections by blocks, also where every head has its own map. A tile of R rows that reaches
 * into several blocks of queries executes for each row the keys of all of them; each run of keys has two
 * borders, on the grid where tiles of T keys fill blocks of B. */
static void blocks_cost_their_pairs(void **state) {
    const struct {
        const char *pattern; /* NULL: a map of `count` blocks a row, another one for each head */
        int64_t size, count, heads;
    } cases[] = {
        {"random=4:64:9", 64, 4, 1},
        {"random=3:100:5", 100, 3, 1},
        {NULL, 64, 4, 1},
        {NULL, 64, 4, 3},
        {NULL, 128, 2, 2},
        {NULL, 100, 3, 2},
    };
    const int64_t n = 8192;
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        const int64_t size = cases[c].size, count = cases[c].count, heads = cases[c].heads;
        attn_problem problem;
        attn_problem_init(&problem, 1, heads, 1, n, n, 8, 8);
        char name[64];
        snprintf(name, sizeof name, "blocks of %d, %d maps", (int)size, (int)heads);
        uint8_t *map = NULL;
        if (cases[c].pattern)
            snprintf(name, sizeof name, "%s", cases[c].pattern);
        else
            map = pattern_map(&problem.pattern, size, count, heads, attn_ceil_div(n, size));
        attn_plan *plan = plan_with(state, cases[c].pattern, &problem, ATTN_FLASH);
        const int64_t grid = size % plan->key_tile ? plan->key_tile - 1 : 0;
        int64_t allowed = 0;
        for (int64_t first = 0; first < n; first += plan->query_tile) {
            const int64_t last = attn_min(first + plan->query_tile, n);
            const int64_t others = (last - 1) / size - first / size;
            allowed += (last - first) * count * (others * size + (others + 1) * 2 * grid);
        }
        expect_waste(plan, name, heads * allowed);
        attn_plan_destroy(plan);
        free(map);
    }
}

/* Guards: a plan's memory grows with the runs, not with the tiles: at n = 131072 there are millions. */
static void runs_stay_few(void **state) {
    const char *const regular[] = {"dense",      "causal",   "window=4096", "causal,window=256,sink=64",
                                   "chunk=1000", "stride=7", "stride=250"};
    const int64_t n = 131072;
    for (size_t c = 0; c < COUNT_OF(regular); c++) {
        attn_plan *plan = plan_of(state, regular[c], n, n, ATTN_FLASH);
        const int64_t runs = plan->run_start[plan->query_tiles];
        assert_true(plan->query_tiles * plan->key_tiles > 4000000);
        assert_true(runs <= 6 * plan->query_tiles);
        attn_plan_destroy(plan);
    }
}

/* Guards: a plan keeps no runs that nobody reads: naive visits every tile, and with offsets flash makes its
 * runs when it executes. */
static void unread_runs_are_not_kept(void **state) {
    attn_problem problem;
    attn_problem_init(&problem, 1, 1, 1, 1000, 1000, 8, 8);
    for (int offsets = 0; offsets < 2; offsets++)
        for (int flash = 0; flash < 2; flash++) {
            problem.inputs = offsets ? ATTN_HAS_Q_OFFSETS : 0;
            attn_plan *plan =
                plan_with(state, "causal,window=40,random=2:64:1", &problem, flash ? ATTN_FLASH : ATTN_NAIVE);
            const bool read = flash && !offsets;
            assert_int_equal(plan->runs != NULL, read);
            assert_int_equal(plan->run_start != NULL, read);
            attn_plan_destroy(plan);
        }
}

/* Guards the default scale: the float nearest 1/sqrt(D), not a rounded 1 over a rounded root. */
static void default_scale_is_nearest(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int64_t d = 1; d <= 600; d++) {
        attn_problem problem;
        attn_problem_init(&problem, 1, 1, 1, 1, 1, d, 1);
        attn_plan *plan;
        attn_error error;
        const attn_options options = {.isa = kernels->name};
        if (attn_plan_create(&problem, &options, &plan, &error) != ATTN_OK)
            test_fail("%s", error.text);
        const float expected = (float)(1 / sqrt((double)d));
        if (attn_plan_info(plan).scale != expected)
            test_fail("D %d: %a, must be %a", (int)d, (double)attn_plan_info(plan).scale, (double)expected);
        attn_plan_destroy(plan);
    }
}

int main(void) {
    test_list tests = {0};
    test_add_levels(&tests, "tiles are exact", tiles_are_exact);
    test_add_levels(&tests, "pairs are exact", pairs_are_exact);
    test_add_levels(&tests, "executed equals planned", executed_equals_planned);
    test_add_levels(&tests, "topk counts", topk_counts);
    test_add_levels(&tests, "patterns cost their pairs", patterns_cost_their_pairs);
    test_add_levels(&tests, "blocks cost their pairs", blocks_cost_their_pairs);
    test_add_levels(&tests, "runs stay few", runs_stay_few);
    test_add_levels(&tests, "unread runs are not kept", unread_runs_are_not_kept);
    test_add_levels(&tests, "default scale is nearest", default_scale_is_nearest);
    return test_run_list("plan", &tests);
}
