/* The plan: tiles against the reference pair by pair, what is executed against what is useful, parts. */
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

#include "attention/internal.h"
#include "reference/reference.h"

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
    "causal,window=40,topk=7", /* the last: naive only, and its tiles are those without it */
};

static attn_plan *plan_of(void **state, const char *pattern, int64_t queries, int64_t keys,
                          attn_algorithm algorithm) {
    attn_problem problem;
    attn_error error;
    attn_plan *plan;
    attn_problem_init(&problem, 1, 1, 1, queries, keys, 8, 8);
    const attn_options options = {.isa = test_kernels(state)->name, .algorithm = algorithm};
    if (attn_pattern_parse(pattern, &problem.pattern, &error) != ATTN_OK ||
        attn_plan_create(&problem, &options, &plan, &error) != ATTN_OK)
        test_fail("%s: %s", pattern, error.text);
    return plan;
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
    for (size_t p = 0; p < COUNT_OF(patterns) - 1; p++) {
        test_rng rng = test_rng_start("tiles", p);
        for (int round = 0; round < rounds; round++) {
            attn_plan *plan = plan_of(state, patterns[p], test_between(&rng, 1, 400),
                                      test_between(&rng, 1, 600), ATTN_FLASH);
            int64_t counts[3] = {0};
            for (int64_t a = 0; a < plan->query_tiles; a++)
                for (int64_t b = 0; b < plan->key_tiles; b++) {
                    const attn_tile_kind kind = attn_plan_tile_kind(plan, 0, a, b);
                    counts[kind]++;
                    if (kind != true_kind(plan, a, b))
                        test_fail("%s %lld x %lld: tile (%lld, %lld) is %d, should be %d", patterns[p],
                                  (long long)plan->problem.queries, (long long)plan->problem.keys,
                                  (long long)a, (long long)b, (int)kind, (int)true_kind(plan, a, b));
                }
            assert_int_equal(counts[ATTN_TILE_ABSENT], plan->info.tiles_absent);
            assert_int_equal(counts[ATTN_TILE_PARTIAL], plan->info.tiles_partial);
            assert_int_equal(counts[ATTN_TILE_FULL], plan->info.tiles_full);
            assert_int_equal(plan->info.pairs_useful, ref_count_pairs(&plan->problem));
            attn_plan_destroy(plan);
        }
    }
}

/* Guards: what an execution counts as its kernels are called is what the plan promised. */
static void executed_equals_planned(void **state) {
    for (size_t p = 0; p < COUNT_OF(patterns); p++)
        for (int algorithm = ATTN_NAIVE; algorithm <= ATTN_FLASH; algorithm++) {
            if (p == COUNT_OF(patterns) - 1 && algorithm == ATTN_FLASH)
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

/* Guards: patterns cost their pairs. Per query tile of R rows and key tiles of T keys, each border of a run
 * may waste what lies between the border and the grid (under T keys in each row) and, where the border moves
 * with the row, the triangle of R (R - 1) / 2 pairs. */
static void patterns_cost_their_pairs(void **state) {
    const struct {
        const char *pattern;
        int64_t straight, slanted; /* borders of runs in a tile row, at most */
    } cases[] = {
        {"dense", 0, 0},
        {"causal", 0, 1},
        {"window=256", 0, 2},
        {"causal,window=1000", 0, 2},
        {"window=100:300", 0, 2},
        {"causal,window=256,sink=16", 1, 2},
        {"causal,chunk=500", 3, 1}, /* a tile of queries may reach into two chunks */
        {"random=4:64:9", 0, 0},    /* blocks lie on the grid of tiles; see below */
    };
    const int64_t n = 8192;
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        attn_plan *plan = plan_of(state, cases[c].pattern, n, n, ATTN_FLASH);
        const int64_t rows = plan->query_tile, keys = plan->key_tile;
        int64_t allowed = (cases[c].straight + cases[c].slanted) * rows * (keys - 1) +
                          cases[c].slanted * rows * (rows - 1) / 2;
        if (plan->problem.pattern.terms & ATTN_RANDOM) /* rows of two blocks see both's keys */
            allowed += rows * 4 * 64;
        if (plan->problem.pattern.terms & ATTN_CHUNK) /* and two chunks' */
            allowed += rows * 500 / plan->problem.pattern.chunk * rows;
        const int64_t wasted = plan->info.pairs_executed - plan->info.pairs_useful;
        test_note("%s: %lld useful, %lld executed, %.2f of the bound on waste", cases[c].pattern,
                  (long long)plan->info.pairs_useful, (long long)plan->info.pairs_executed,
                  (double)wasted / (double)attn_max(1, allowed * plan->query_tiles));
        assert_true(wasted >= 0);
        assert_true(wasted <= allowed * plan->query_tiles);
        attn_plan_destroy(plan);
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

/* Guards: every unit is in exactly one part, and parts differ in cost by no more than one unit's. */
static void parts_share_the_cost(void **state) {
    const int parts[] = {1, 2, 3, 7, 64, 192, 1024};
    const char *const uneven[] = {"dense", "causal", "causal,window=500,sink=9"};
    for (size_t c = 0; c < COUNT_OF(uneven); c++) {
        attn_plan *plan = plan_of(state, uneven[c], 20000, 20000, ATTN_FLASH);
        const int64_t units = plan->query_tiles;
        int64_t most_unit = 0;
        for (int64_t u = 0; u < units; u++)
            most_unit = attn_max(most_unit, plan->cost_before[u + 1] - plan->cost_before[u]);
        for (size_t k = 0; k < COUNT_OF(parts); k++) {
            int64_t next = 0;
            const double ideal = (double)plan->cost_before[units] / parts[k];
            for (int part = 0; part < parts[k]; part++) {
                int64_t first, last;
                attn_plan_part(plan, part, parts[k], &first, &last);
                assert_int_equal(first, next);
                assert_true(last >= first);
                next = last;
                const int64_t cost = plan->cost_before[last] - plan->cost_before[first];
                assert_true((double)cost <= ideal + (double)most_unit);
            }
            assert_int_equal(next, units);
        }
        attn_plan_destroy(plan);
    }
}

int main(void) {
    test_list tests = {0};
    test_add_levels(&tests, "tiles are exact", tiles_are_exact);
    test_add_levels(&tests, "executed equals planned", executed_equals_planned);
    test_add_levels(&tests, "topk counts", topk_counts);
    test_add_levels(&tests, "patterns cost their pairs", patterns_cost_their_pairs);
    test_add_levels(&tests, "runs stay few", runs_stay_few);
    test_add_levels(&tests, "parts share the cost", parts_share_the_cost);
    return test_run_list("plan", &tests);
}
