/* Patterns: results of every term and of random combinations; exact pair counts; honest tiles. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/plan.h"
#include "tests/attention_case.h"
#include "tests/patterns.h"

static const struct {
    int64_t queries, keys;
} shapes[] = {{1, 1}, {7, 7}, {3, 7}, {7, 3}, {70, 150}, {150, 70}, {130, 129}};

static case_spec spec_of(attn_pattern pattern, size_t shape) {
    return (case_spec){.batch = 1,
                       .heads = 2,
                       .kv_heads = 1,
                       .queries = shapes[shape].queries,
                       .keys = shapes[shape].keys,
                       .head_dim = 8,
                       .value_dim = 5,
                       .pattern = pattern};
}

/* topk is judged only where no score decides within the tolerance: see topk_keeps_the_largest. */
static bool is_topk(const attn_pattern *pattern) {
    return pattern->terms & ATTN_TOPK;
}

/* Guards: every pattern of the list, on square, wide and tall shapes, within one tile and over several. */
static void results(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int p = 0; p < pattern_count(); p++)
        for (size_t shape = 0; shape < COUNT_OF(shapes); shape++) {
            case_spec s = spec_of(pattern_at(p, 2), shape);
            if (!is_topk(&s.pattern) && (!test_quick() || (p + (int)shape) % 2))
                case_check(&s, kernels->name);
        }
}

/* Guards: any combination of terms, drawn at random. */
static void random_combinations(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int n = 0; n < test_count(60, 400, 4000); n++) {
        test_rng rng = test_rng_start("pattern combinations", (uint64_t)n);
        const size_t shape = (size_t)test_between(&rng, 0, COUNT_OF(shapes) - 1);
        case_spec s = spec_of(pattern_random(&rng, shapes[shape].keys, 2), shape);
        s.pattern.terms &= ~(uint32_t)ATTN_TOPK;
        case_check(&s, kernels->name);
    }
}

/* Guards: window=1 gives exactly V, whatever Q and K are. */
static void window_of_one(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    case_spec s = {
        .batch = 1, .heads = 1, .kv_heads = 1, .queries = 100, .keys = 100, .head_dim = 8, .value_dim = 4};
    assert_int_equal(attn_pattern_parse("window=1", &s.pattern, NULL), ATTN_OK);
    for (int algorithm = ATTN_NAIVE; algorithm <= ATTN_FLASH; algorithm++) {
        attention_case *c = case_new(&s);
        case_execute(c, kernels->name, (attn_algorithm)algorithm, 1);
        for (int64_t i = 0; i < s.queries; i++)
            assert_memory_equal(case_out(c, 0, 0, i), (const float *)c->v.data + i * 4, 4 * sizeof(float));
        case_free(c);
    }
}

/* Guards: topk keeps the K largest final scores of a row: keys are given scores a whole unit apart, in an
 * order that changes with the row, and their positions as values. */
static void topk_keeps_the_largest(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t n = 90;
    for (int64_t k = 1; k < 100; k += k < 4 ? 1 : 31) {
        case_spec s = {.batch = 1,
                       .heads = 1,
                       .kv_heads = 1,
                       .queries = 5,
                       .keys = n,
                       .head_dim = 1,
                       .value_dim = 2,
                       .scale = 1,
                       .pattern = {.terms = ATTN_TOPK | ATTN_CAUSAL, .topk = k},
                       .inputs = ATTN_HAS_SINK_LOGIT};
        attention_case *c = case_new(&s);
        for (int64_t j = 0; j < n; j++)
            case_set(c, &c->tensors.k, 0, 0, j, 0, (float)(j * 37 % n) / 16);
        for (int64_t i = 0; i < 5; i++)
            case_set(c, &c->tensors.q, 0, 0, i, 0, i % 2 ? -1 : 1);
        case_expect(c);
        case_execute(c, kernels->name, ATTN_NAIVE, 1);
        case_compare(c, kernels->name, ATTN_NAIVE);
        case_free(c);
    }
}

/* Guards: equal scores are kept from the lowest key on: with one score for all and K = 3 the mean of the
 * first three attended values comes out. */
static void topk_ties(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    case_spec s = {.batch = 1,
                   .heads = 1,
                   .kv_heads = 1,
                   .queries = 4,
                   .keys = 70,
                   .head_dim = 2,
                   .value_dim = 1,
                   .kind = DATA_EQUAL,
                   .pattern = {.terms = ATTN_TOPK, .topk = 3}};
    attention_case *c = case_new(&s);
    for (int64_t j = 0; j < s.keys; j++)
        case_set(c, &c->tensors.v, 0, 0, j, 0, j < 3 ? 3 : 100);
    case_execute(c, kernels->name, ATTN_NAIVE, 1);
    for (int64_t i = 0; i < 4; i++)
        assert_true(fabsf(case_out(c, 0, 0, i)[0] - 3) < 1e-5f);
    case_free(c);
}

/* ---- counts ----------------------------------------------------------------------- */

static attn_plan *plan_of(const attn_problem *problem, const char *isa, attn_algorithm algorithm) {
    const attn_options options = {.isa = isa, .algorithm = algorithm};
    attn_plan *plan;
    attn_error error = {""};
    if (attn_plan_create(problem, &options, &plan, &error) != ATTN_OK)
        test_fail("%s", error.text);
    return plan;
}

/* Guards: the pair counts that other tools get wrong by one or by alignment, with both algorithms. */
static void known_counts(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const struct {
        int64_t queries, keys;
        const char *pattern;
        int64_t pairs;
    } cases[] = {
        {7, 7, "causal", 28},         {7, 7, "causal,window=3", 18},
        {7, 7, "window=2:2", 29},     {3, 7, "causal", 18},
        {3, 7, "causal-top-left", 6}, {7, 3, "causal", 6},
        {7, 7, "dense", 49},          {4096, 4096, "causal,window=512", 1966336},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int algorithm = ATTN_NAIVE; algorithm <= ATTN_FLASH; algorithm++) {
            attn_problem problem;
            attn_problem_init(&problem, 2, 3, 1, cases[i].queries, cases[i].keys, 8, 8);
            assert_int_equal(attn_pattern_parse(cases[i].pattern, &problem.pattern, NULL), ATTN_OK);
            attn_plan *plan = plan_of(&problem, kernels->name, (attn_algorithm)algorithm);
            const attn_info info = attn_plan_info(plan);
            assert_int_equal(info.pairs_useful, 6 * cases[i].pairs);
            assert_int_equal(info.pairs_dense, 6 * cases[i].queries * cases[i].keys);
            attn_plan_destroy(plan);
        }
}

/* Kind of a tile by looking at each of its pairs. */
static attn_tile_kind kind_of(const attn_problem *problem, const attn_info *info, int64_t h, int64_t qt,
                              int64_t kt, int64_t *pairs) {
    const attn_tensors none = {0};
    int64_t attended = 0;
    *pairs = 0;
    for (int64_t i = qt * info->query_tile; i < (qt + 1) * info->query_tile && i < problem->queries; i++)
        for (int64_t j = kt * info->key_tile; j < (kt + 1) * info->key_tile && j < problem->keys; j++) {
            attended += ref_attended(problem, &none, 0, h, i, j);
            ++*pairs;
        }
    return attended == 0 ? ATTN_TILE_ABSENT : attended == *pairs ? ATTN_TILE_FULL : ATTN_TILE_PARTIAL;
}

/* Counts of one plan against pair-by-pair ones: useful pairs, tiles of each kind, executed pairs, and what an
 * execution says it visited. */
static void check_counts(const attn_kernels *kernels, const case_spec *s) {
    attention_case *c = case_new(s);
    const attn_problem *problem = &c->problem;
    attn_plan *plan = plan_of(problem, kernels->name, ATTN_FLASH);
    const attn_info info = attn_plan_info(plan);
    int64_t tiles[3] = {0}, executed = 0;
    for (int64_t h = 0; h < problem->heads; h++) {
        attn_look *look = attn_look_open(plan, NULL, 0, h);
        uint64_t *bits = calloc((size_t)problem->keys / 64 + 1, sizeof *bits);
        attn_tile_kind *looks = calloc((size_t)problem->keys / 64 + 1, sizeof *looks);
        assert_true(look && bits && looks);
        for (int64_t qt = 0; qt * info.query_tile < problem->queries; qt++) {
            attn_look_tiles(look, qt, looks);
            for (int64_t kt = 0; kt * info.key_tile < problem->keys; kt++) {
                int64_t pairs;
                const attn_tile_kind kind = kind_of(problem, &info, h, qt, kt, &pairs);
                if (looks[kt] != kind)
                    test_fail("%s: head %d tile %d, %d looks %d, is %d", case_describe(s), (int)h, (int)qt,
                              (int)kt, looks[kt], kind);
                tiles[kind]++;
                executed += kind == ATTN_TILE_ABSENT ? 0 : pairs;
            }
        }
        for (int64_t i = 0; i < problem->queries; i++) {
            attn_look_row(look, i, bits);
            for (int64_t j = 0; j < problem->keys; j++)
                assert_int_equal(bits[j / 64] >> (j % 64) & 1,
                                 ref_attended(problem, &(attn_tensors){0}, 0, h, i, j));
        }
        free(looks);
        free(bits);
        attn_look_close(look);
    }
    if (info.pairs_useful != ref_count_pairs(problem) || info.tiles_full != tiles[ATTN_TILE_FULL] ||
        info.tiles_partial != tiles[ATTN_TILE_PARTIAL] || info.tiles_absent != tiles[ATTN_TILE_ABSENT] ||
        info.pairs_executed != executed)
        test_fail("%s: useful %d of %d, full %d of %d, partial %d of %d, absent %d of %d, executed %d of %d",
                  case_describe(s), (int)info.pairs_useful, (int)ref_count_pairs(problem),
                  (int)info.tiles_full, (int)tiles[ATTN_TILE_FULL], (int)info.tiles_partial,
                  (int)tiles[ATTN_TILE_PARTIAL], (int)info.tiles_absent, (int)tiles[ATTN_TILE_ABSENT],
                  (int)info.pairs_executed, (int)executed);

    attn_counts counts = {0};
    c->tensors.counts = &counts;
    attn_error error = {""};
    if (attn_execute(plan, &c->tensors, NULL, 2, &error) != ATTN_OK)
        test_fail("%s", error.text);
    if (counts.pairs_executed != executed || counts.tiles_full != info.tiles_full ||
        counts.tiles_partial != info.tiles_partial)
        test_fail("%s: visited %d full, %d partial tiles, %d pairs; planned %d, %d, %d", case_describe(s),
                  (int)counts.tiles_full, (int)counts.tiles_partial, (int)counts.pairs_executed,
                  (int)info.tiles_full, (int)info.tiles_partial, (int)executed);
    attn_plan_destroy(plan);
    case_free(c);
}

/* Guards: for every pattern of the list, the plan's tiles and pairs are exact, and execution visits just
 * those. */
static void counts_of_the_list(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int p = 0; p < pattern_count(); p++)
        for (size_t shape = 0; shape < COUNT_OF(shapes); shape += test_quick() ? 2 : 1) {
            case_spec s = spec_of(pattern_at(p, 2), shape);
            if (!is_topk(&s.pattern))
                check_counts(kernels, &s);
        }
}

/* Guards: the same for random combinations. */
static void counts_of_combinations(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int n = 0; n < test_count(30, 200, 2000); n++) {
        test_rng rng = test_rng_start("count combinations", (uint64_t)n);
        const size_t shape = (size_t)test_between(&rng, 0, COUNT_OF(shapes) - 1);
        case_spec s = spec_of(pattern_random(&rng, shapes[shape].keys, 2), shape);
        s.pattern.terms &= ~(uint32_t)ATTN_TOPK;
        check_counts(kernels, &s);
    }
}

/* Guards: naive computes every pair, and says so; topk leaves min(K, attended) useful ones of those that it
 * chooses among (test_plan.c has their exact number). */
static void naive_counts(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int p = 0; p < pattern_count(); p++) {
        case_spec s = spec_of(pattern_at(p, 2), 4);
        attention_case *c = case_new(&s);
        attn_plan *plan = plan_of(&c->problem, kernels->name, ATTN_NAIVE);
        const attn_info info = attn_plan_info(plan);
        attn_counts counts = {0};
        c->tensors.counts = &counts;
        assert_int_equal(attn_execute(plan, &c->tensors, NULL, 1, NULL), ATTN_OK);
        assert_int_equal(info.pairs_useful, ref_count_pairs(&c->problem));
        if (c->problem.pattern.terms & ATTN_TOPK) /* it looks at every attended pair, and only then chooses */
            assert_true(info.pairs_executed >= info.pairs_useful && info.pairs_executed <= info.pairs_dense);
        else
            assert_int_equal(info.pairs_executed, info.pairs_dense);
        assert_int_equal(counts.pairs_executed, info.pairs_executed);
        attn_plan_destroy(plan);
        case_free(c);
    }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "pattern results", results);
    test_add_levels(&list, "pattern combinations", random_combinations);
    test_add_levels(&list, "window of one", window_of_one);
    test_add_levels(&list, "topk keeps the largest", topk_keeps_the_largest);
    test_add_levels(&list, "topk ties", topk_ties);
    test_add_levels(&list, "known pair counts", known_counts);
    test_add_levels(&list, "tiles and counts", counts_of_the_list);
    test_add_levels(&list, "tiles and counts of combinations", counts_of_combinations);
    test_add_levels(&list, "naive counts", naive_counts);
    return test_run_list("attention_patterns", &list);
}
