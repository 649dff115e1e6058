/* attn_look: the tiles, rows and counts that it tells are those of the pattern's definition, and what an
 * execution then counts. */
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/plan.h"
#include "tests/attention_case.h"
#include "tests/patterns.h"

static const struct { int64_t queries, keys; } shapes[] = {{7, 7}, {3, 70}, {70, 150}, {130, 129}};

/* What may decide about a pair besides the pattern. */
static const uint32_t inputs[] = {
    0,
    ATTN_HAS_KV_LENS,
    ATTN_HAS_Q_OFFSETS,
    ATTN_HAS_SEGMENTS,
    ATTN_HAS_MASK,
    ATTN_HAS_BIAS | ATTN_HAS_ALIBI,
    ATTN_HAS_KV_LENS | ATTN_HAS_Q_OFFSETS | ATTN_HAS_SEGMENTS | ATTN_HAS_MASK | ATTN_HAS_BIAS,
};

/* One (batch, head), pair by pair. */
typedef struct definition {
    const attention_case *c;
    bool *attended; /* Nq x Nk */
    int64_t keys;   /* that are there: the others are padding */
} definition;

static definition define(const attention_case *c, int64_t b, int64_t h) {
    const case_spec *s = &c->spec;
    definition d = {.c = c, .keys = c->tensors.kv_lens ? c->tensors.kv_lens[b] : s->keys};
    d.attended = malloc((size_t)(s->queries * s->keys));
    assert_non_null(d.attended);
    for (int64_t i = 0; i < s->queries; i++)
        for (int64_t j = 0; j < s->keys; j++)
            d.attended[i * s->keys + j] = ref_attended(&c->problem, &c->tensors, b, h, i, j);
    return d;
}

/* Kind of a tile for an algorithm, and the pairs in it. flash leaves out what nobody attends; naive takes
 * every tile that has keys, and masks where anything may mask. */
static attn_tile_kind kind_of(const definition *d, const attn_info *info, int64_t qt, int64_t kt,
                              int64_t *pairs) {
    const case_spec *s = &d->c->spec;
    const uint32_t masking = ATTN_HAS_SEGMENTS | ATTN_HAS_MASK | ATTN_HAS_BIAS;
    int64_t attended = 0;
    *pairs = 0;
    for (int64_t i = qt * info->query_tile; i < (qt + 1) * info->query_tile && i < s->queries; i++)
        for (int64_t j = kt * info->key_tile; j < (kt + 1) * info->key_tile && j < d->keys; j++) {
            attended += d->attended[i * s->keys + j];
            ++*pairs;
        }
    if (info->algorithm == ATTN_NAIVE && *pairs > 0)
        return s->pattern.terms || s->inputs & masking ? ATTN_TILE_PARTIAL : ATTN_TILE_FULL;
    return attended == 0 ? ATTN_TILE_ABSENT : attended == *pairs ? ATTN_TILE_FULL : ATTN_TILE_PARTIAL;
}

static void check_tiles(const definition *d, const attn_info *info, attn_look *look, attn_counts *counts) {
    const case_spec *s = &d->c->spec;
    const int64_t tiles = (s->keys + info->key_tile - 1) / info->key_tile;
    attn_tile_kind kinds[8];
    assert_true(tiles <= (int64_t)COUNT_OF(kinds));
    for (int64_t qt = 0; qt * info->query_tile < s->queries; qt++) {
        memset(kinds, 0xFF, sizeof kinds);
        attn_look_tiles(look, qt, kinds);
        for (int64_t kt = 0; kt < tiles; kt++) {
            int64_t pairs;
            const attn_tile_kind kind = kind_of(d, info, qt, kt, &pairs);
            if (kinds[kt] != kind)
                test_fail("%s %s: tile %d, %d looks %d, is %d", attn_algorithm_name(info->algorithm),
                          case_describe(s), (int)qt, (int)kt, (int)kinds[kt], (int)kind);
            counts->tiles_full += kind == ATTN_TILE_FULL;
            counts->tiles_partial += kind == ATTN_TILE_PARTIAL;
            counts->pairs_executed += kind == ATTN_TILE_ABSENT ? 0 : pairs;
        }
    }
}

static void check_rows(const definition *d, attn_look *look, attn_counts *counts) {
    const case_spec *s = &d->c->spec;
    const bool topk = s->pattern.terms & ATTN_TOPK;
    uint64_t bits[8];
    assert_true(s->keys <= 64 * (int64_t)COUNT_OF(bits));
    if (topk)
        counts->pairs_executed = 0;
    for (int64_t i = 0; i < s->queries; i++) {
        int64_t row = 0;
        attn_look_row(look, i, bits);
        for (int64_t j = 0; j < s->keys; j++) {
            const bool attended = d->attended[i * s->keys + j];
            if ((bits[j / 64] >> (j % 64) & 1) != attended)
                test_fail("%s: pair %d, %d looks %d", case_describe(s), (int)i, (int)j, !attended);
            row += attended;
        }
        counts->pairs_executed += topk ? row : 0; /* that it chooses among */
        counts->pairs_useful += topk && row > s->pattern.topk ? s->pattern.topk : row;
    }
}

static void expect_counts(const attention_case *c, const char *what, const attn_counts *told,
                          const attn_counts *right) {
    if (memcmp(told, right, sizeof *told) != 0)
        test_fail("%s, %s: full %d of %d, partial %d of %d, useful %d of %d, executed %d of %d", what,
                  case_describe(&c->spec), (int)told->tiles_full, (int)right->tiles_full,
                  (int)told->tiles_partial, (int)right->tiles_partial, (int)told->pairs_useful,
                  (int)right->pairs_useful, (int)told->pairs_executed, (int)right->pairs_executed);
}

/* Every (batch, head) of a case, looked at and executed. */
static void check_look(const case_spec *s, const char *isa, attn_algorithm algorithm) {
    attention_case *c = case_new(s);
    const attn_options options = {.isa = isa, .algorithm = algorithm};
    attn_plan *plan;
    attn_error error = {""};
    if (attn_plan_create(&c->problem, &options, &plan, &error) != ATTN_OK)
        test_fail("%s: %s", case_describe(s), error.text);
    const attn_info info = attn_plan_info(plan);
    attn_counts looked = {0}, executed = {0};
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++) {
            definition d = define(c, b, h);
            attn_look *look = attn_look_open(plan, s->inputs ? &c->tensors : NULL, b, h);
            assert_non_null(look);
            attn_counts right = {0};
            check_tiles(&d, &info, look, &right);
            check_rows(&d, look, &right);
            const attn_counts told = attn_look_count(look);
            expect_counts(c, "looked at", &told, &right);
            looked.tiles_full += told.tiles_full;
            looked.tiles_partial += told.tiles_partial;
            looked.pairs_useful += told.pairs_useful;
            looked.pairs_executed += told.pairs_executed;
            attn_look_close(look);
            free(d.attended);
        }
    c->tensors.counts = &executed;
    if (attn_execute(plan, &c->tensors, NULL, 1, &error) != ATTN_OK)
        test_fail("%s: %s", case_describe(s), error.text);
    expect_counts(c, "executed", &executed, &looked);
    attn_plan_destroy(plan);
    case_free(c);
}

static void check_algorithms(attn_pattern pattern, size_t shape, size_t input, const char *isa) {
    const case_spec s = {.batch = 2,
                         .heads = 2,
                         .kv_heads = 1,
                         .queries = shapes[shape].queries,
                         .keys = shapes[shape].keys,
                         .head_dim = 3,
                         .value_dim = 2,
                         .pattern = pattern,
                         .inputs = inputs[input]};
    check_look(&s, isa, ATTN_NAIVE);
    if (!(pattern.terms & ATTN_TOPK))
        check_look(&s, isa, ATTN_FLASH);
}

/* Guards: every pattern of the list with every input that decides about pairs, within one tile and over
 * several, with both algorithms. */
static void patterns_of_the_list(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int p = 0; p < pattern_count(); p++)
        for (size_t k = 0; k < COUNT_OF(inputs); k++)
            if (test_keep((size_t)p + k, 3))
                check_algorithms(pattern_at(p, 2), ((size_t)p + k) % COUNT_OF(shapes), k, kernels->name);
}

/* Guards: the same for combinations of terms, topk among them. */
static void combinations(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int n = 0; n < test_count(40, 100, 2000); n++) {
        test_rng rng = test_rng_start("looked at", (uint64_t)n);
        const size_t shape = (size_t)test_between(&rng, 0, COUNT_OF(shapes) - 1);
        const size_t input = (size_t)test_between(&rng, 0, COUNT_OF(inputs) - 1);
        check_algorithms(pattern_random(&rng, shapes[shape].keys, 2), shape, input, kernels->name);
    }
}

/* Does some query of a query head of group `kv` attend a key of [first, last)? */
static bool group_attends(const attn_problem *problem, int64_t kv, int64_t first, int64_t last) {
    const int64_t group = problem->heads / problem->kv_heads;
    for (int64_t h = kv * group; h < (kv + 1) * group; h++)
        for (int64_t i = 0; i < problem->queries; i++)
            for (int64_t j = first; j < last; j++)
                if (ref_attended(problem, &(attn_tensors){0}, 0, h, i, j))
                    return true;
    return false;
}

/* Guards: the keys that have to be read are those of tiles that some query of some query head attends, also
 * with as many queries as keys and with maps that differ by head, whichever algorithm is asked. */
static void keys_attended(void **state) {
    (void)state;
    static const struct { int64_t queries, keys; } sizes[] = {{200, 200}, {3, 300}, {130, 129}, {90, 450}};
    const int listed = pattern_count();
    for (int n = 0; n < listed + test_count(20, 100, 1000); n++)
        for (size_t k = 0; k < COUNT_OF(sizes); k++) {
            test_rng rng = test_rng_start("keys attended", (uint64_t)n);
            case_spec s = {.batch = 1, .heads = 4, .kv_heads = 2, .head_dim = 1, .value_dim = 1};
            s.queries = sizes[k].queries;
            s.keys = sizes[k].keys;
            s.pattern = n < listed ? pattern_at(n, 4) : pattern_random(&rng, s.keys, 4);
            attention_case *c = case_new(&s);
            const bool flash = !(s.pattern.terms & ATTN_TOPK) && n % 2;
            const attn_options options = {.algorithm = flash ? ATTN_FLASH : ATTN_NAIVE};
            attn_plan *plan;
            attn_error error = {""};
            if (attn_plan_create(&c->problem, &options, &plan, &error) != ATTN_OK)
                test_fail("%s: %s", case_describe(&s), error.text);
            const int64_t tile = attn_plan_info(plan).key_tile;
            int64_t right = 0;
            for (int64_t kv = 0; kv < s.kv_heads; kv++)
                for (int64_t first = 0; first < s.keys; first += tile) {
                    const int64_t last = first + tile < s.keys ? first + tile : s.keys;
                    right += group_attends(&c->problem, kv, first, last) ? last - first : 0;
                }
            const int64_t told = attn_plan_keys_attended(plan);
            if (told != right)
                test_fail("%s: %d keys, should be %d", case_describe(&s), (int)told, (int)right);
            attn_plan_destroy(plan);
            case_free(c);
        }
}

/* Guards: blocks that are selected by different rows of a query tile, of which the end of a chunk leaves some
 * tiles no pair: the plan holds the tiles that are visited, in long stretches too. */
static void blocks_cut_by_chunks(void **state) {
    (void)state;
    for (int seed = 0; seed < test_count(40, 200, 2000); seed++) {
        attn_problem problem;
        char text[64];
        snprintf(text, sizeof text, "chunk=%d,random=3:81:%d", 400 + seed % 50, seed);
        attn_problem_init(&problem, 1, 1, 1, 90, 450, 1, 1);
        assert_int_equal(attn_pattern_parse(text, &problem.pattern, NULL), ATTN_OK);
        const attn_options options = {.algorithm = ATTN_FLASH};
        attn_plan *plan;
        assert_int_equal(attn_plan_create(&problem, &options, &plan, NULL), ATTN_OK);
        attn_look *look = attn_look_open(plan, NULL, 0, 0);
        assert_non_null(look);
        const attn_info info = attn_plan_info(plan);
        const attn_counts counts = attn_look_count(look);
        if (info.pairs_executed != counts.pairs_executed || info.tiles_partial != counts.tiles_partial ||
            info.tiles_full != counts.tiles_full || info.pairs_useful != counts.pairs_useful)
            test_fail("%s: the plan executes %lld pairs, a look %lld", text, (long long)info.pairs_executed,
                      (long long)counts.pairs_executed);
        attn_look_close(look);
        attn_plan_destroy(plan);
    }
}

/* Guards: nothing to look at, and nothing to close. */
static void empty(void **state) {
    attn_look_close(NULL);
    attn_problem problem;
    attn_problem_init(&problem, 1, 1, 1, 3, 0, 4, 4);
    attn_plan *plan;
    assert_int_equal(attn_plan_create(&problem, NULL, &plan, NULL), ATTN_OK);
    attn_look *look = attn_look_open(plan, NULL, 0, 0);
    assert_non_null(look);
    const attn_counts counts = attn_look_count(look), none = {0};
    assert_memory_equal(&counts, &none, sizeof none);
    assert_int_equal(attn_plan_keys_attended(plan), 0);
    attn_look_close(look);
    attn_plan_destroy(plan);
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "look at the list", patterns_of_the_list);
    test_add_levels(&list, "look at combinations", combinations);
    test_add(&list, "keys that are attended", keys_attended);
    test_add(&list, "blocks cut by chunks", blocks_cut_by_chunks);
    test_add(&list, "look at nothing", empty);
    return test_run_list("look", &list);
}
