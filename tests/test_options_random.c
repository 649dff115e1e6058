/* Combinations of options, drawn at random: each is right against the reference, with every algorithm that
 * computes it. What each combination is depends on the run's seed and its number alone. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/edges.h"
#include "tests/patterns.h"
#include "tests/topk.h"

/* Combinations of a run, over all levels: ATTNSCOPE_TEST_COMBINATIONS, or 10,000, 500 where code is slow, or
 * ten times that in a full run. */
static int combinations(void) {
    const char *text = getenv("ATTNSCOPE_TEST_COMBINATIONS");
    if (text == NULL || *text == '\0')
        return TEST_ASAN || TEST_UBSAN ? test_count(500, 500, 5000) : test_count(500, 10000, 100000);
    char *end;
    const long number = strtol(text, &end, 10);
    if (*end != '\0' || number < 1 || number > 100000000)
        test_fail("ATTNSCOPE_TEST_COMBINATIONS is '%s', must be 1 to 100000000", text);
    return (int)number;
}

/* ---- drawing ------------------------------------------------------------------------------------------ */

/* A combination: the case, and what a case_spec does not hold. */
typedef struct combination {
    case_spec spec;
    bool zero_scale;
    int threads;
} combination;

static int64_t pick(test_rng *rng, const int64_t *list, size_t count) {
    return list[test_between(rng, 0, (int64_t)count - 1)];
}
#define PICK(rng, ...)                                                                                       \
    pick(rng, (const int64_t[]){__VA_ARGS__}, sizeof(const int64_t[]){__VA_ARGS__} / sizeof(int64_t))

static bool chance(test_rng *rng, int one_in) {
    return test_between(rng, 1, one_in) == 1;
}

/* Lengths: short ones, neighbours of tiles, few queries against many keys, empty. */
static void draw_lengths(test_rng *rng, const attn_kernels *kernels, case_spec *s) {
    const int64_t tile = kernels->query_tile, block = kernels->key_block;
    switch (test_between(rng, 0, 11)) {
    case 0: /* split keys */
        s->queries = test_between(rng, 1, 8);
        s->keys = PICK(rng, 2049, 2112, 2500, 4096, 4097, 4200);
        break;
    case 1:
    case 2:
        s->queries = PICK(rng, tile - 1, tile, tile + 1, 2 * tile + 1);
        s->keys = PICK(rng, 63, 64, 65, 127, 128, 129, 191);
        break;
    case 3:
        s->queries = test_between(rng, 1, 9);
        s->keys = PICK(rng, block - 1, block, block + 1, block + 65);
        break;
    case 4: /* wide, tall */
        s->queries = test_between(rng, 0, 1) ? test_between(rng, 1, 10) : test_between(rng, 60, 200);
        s->keys = s->queries < 60 ? test_between(rng, 60, 300) : test_between(rng, 1, 10);
        break;
    case 5: /* empty, or nearly */
        s->queries = test_between(rng, 0, 2);
        s->keys = test_between(rng, 0, 2);
        break;
    case 6:
        s->queries = s->keys = test_between(rng, 60, 140);
        break;
    default:
        s->queries = test_between(rng, 1, 40);
        s->keys = chance(rng, 3) ? s->queries : test_between(rng, 1, 80);
    }
}

static void draw_heads(test_rng *rng, case_spec *s) {
    static const int64_t heads[][2] = {{1, 1}, {1, 1}, {2, 2}, {2, 1}, {3, 3},
                                       {4, 2}, {6, 2}, {6, 1}, {6, 3}};
    const int64_t *pair = heads[test_between(rng, 0, COUNT_OF(heads) - 1)];
    s->batch = chance(rng, 60) ? 0 : test_between(rng, 1, 3);
    s->heads = pair[0];
    s->kv_heads = pair[1];
    s->head_dim = chance(rng, 40)
                      ? PICK(rng, 256, 576)
                      : PICK(rng, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 64, 80, 96, 112);
    s->value_dim = chance(rng, 2)    ? s->head_dim
                   : chance(rng, 20) ? 0
                                     : PICK(rng, 1, 2, 3, 5, 8, 13, 16, 17, 31, 32, 33, 40, 64, 80, 130);
}

/* Multiply-adds and pairs that the reference takes, about. */
static int64_t cost(const case_spec *s) {
    return s->batch * s->heads * s->queries * s->keys * (s->head_dim + 4 * s->value_dim + 20);
}

/* Makes scores such that most keys are told apart by more than rounding may: not all the same, not all but
 * one far below, not flattened by the cap, and not of 16-bit numbers too few to differ. */
static void keep_apart(test_rng *rng, combination *c) {
    case_spec *s = &c->spec;
    s->kind = chance(rng, 2) ? DATA_NORMAL : DATA_UNIFORM;
    s->head_dim = s->head_dim < 8 ? s->head_dim + 8 : s->head_dim;
    c->zero_scale = false;
    if (s->softcap > 0) {
        s->softcap = s->softcap < 1 ? 3 : s->softcap;
        s->scale = s->scale < 0 ? -(float)(1 / sqrt((double)s->head_dim)) : 0;
    }
}

/* Caps about the scores' size, and such that leave none of their differences. */
static float pick_cap(test_rng *rng) {
    static const float caps[] = {0.5f, 1.5f, 15, 1e-3f, 1e-6f, 1e-30f};
    return caps[test_between(rng, 0, COUNT_OF(caps) - 1)];
}

static combination draw(test_rng *rng, const attn_kernels *kernels) {
    combination c = {.threads = chance(rng, 3) ? (int)test_between(rng, 2, 4) : 1};
    case_spec *s = &c.spec;
    draw_lengths(rng, kernels, s);
    do /* a case of the usual size takes a few milliseconds */
        draw_heads(rng, s);
    while (cost(s) > 3000000);
    s->dtype = (attn_dtype)test_between(rng, ATTN_F32, ATTN_BF16);
    if (!chance(rng, 5))
        s->pattern = pattern_random(rng, s->keys, s->heads);
    if (s->keys > 300) /* the reference ranks every score with every other */
        s->pattern.terms &= ~(uint32_t)ATTN_TOPK;
    s->inputs =
        chance(rng, 20) ? CASE_ALL_INPUTS : (uint32_t)(test_random(rng) & test_random(rng) & CASE_ALL_INPUTS);
    if (chance(rng, 4))
        s->softcap = pick_cap(rng);
    switch (test_between(rng, 0, 6)) {
    case 0:
        c.zero_scale = true;
        break;
    case 1:
        s->scale = -(float)(1 / sqrt((double)s->head_dim));
        break;
    case 2:
        s->scale = (float)(2.5 / sqrt((double)s->head_dim));
    }
    s->kind = chance(rng, 2) ? DATA_NORMAL : (data_kind)test_between(rng, 0, DATA_KINDS - 1);
    if (s->dtype == ATTN_F16 && (s->kind == DATA_HUGE || s->kind == DATA_TINY)) /* beyond its range */
        s->kind = DATA_UNIFORM;
    s->place = (guard_place)test_between(rng, 0, GUARD_PLACES - 1);
    s->layout = (case_layout)test_between(rng, 0, LAYOUT_COUNT - 1);
    if (s->pattern.terms & ATTN_TOPK)
        keep_apart(rng, &c);
    return c;
}

/* ---- which pairs of options have met ------------------------------------------------------------------ */

/* What a combination may have, one bit each: pattern terms and inputs in the header's order, and the rest. */
enum {
    TOPK = 10, /* the last term */
    KV_LENS,   /* the first input */
    SOFTCAP = KV_LENS + 7,
    SCALE,
    HALF,
    GROUPED,
    OTHER_DIM,
    LAYOUT,
    SPLIT,
    THREADS,
    FEATURES
};
_Static_assert(ATTN_TOPK == 1 << TOPK, "each term has a name, topk's is the last of them");
_Static_assert(CASE_ALL_INPUTS == (1u << (SOFTCAP - KV_LENS)) - 1, "each input has a name");
_Static_assert(FEATURES <= 32, "features are bits of a word");

static const char *const feature_names[] = {
    "causal", "causal-top-left", "prefix",  "chunk",   "window",    "sink",     "global",  "stride",
    "random", "blocks",          "topk",    "kv_lens", "q_offsets", "segments", "mask",    "bias",
    "alibi",  "sink_logits",     "softcap", "scale",   "half",      "grouped",  "Dv != D", "layout",
    "split",  "threads"};
_Static_assert(COUNT_OF(feature_names) == FEATURES, "each feature has a name");

/* The options of a combination, one bit each. */
static uint32_t features(const combination *c) {
    const case_spec *s = &c->spec;
    const bool has[FEATURES] = {
        [SOFTCAP] = s->softcap > 0,
        [SCALE] = s->scale != 0 || c->zero_scale,
        [HALF] = s->dtype != ATTN_F32,
        [GROUPED] = s->kv_heads < s->heads,
        [OTHER_DIM] = s->value_dim != s->head_dim,
        [LAYOUT] = s->layout != LAYOUT_PLAIN,
        [SPLIT] = s->queries <= 8 && s->keys > 2048,
        [THREADS] = c->threads > 1,
    };
    uint32_t bits = s->pattern.terms | s->inputs << KV_LENS;
    for (int k = SOFTCAP; k < FEATURES; k++)
        bits |= (uint32_t)has[k] << k;
    return bits;
}

/* What the runs of a level add up to. */
typedef struct tally {
    double used;
    int64_t topk_rows, relaxed;
    int met[FEATURES][FEATURES];
} tally;

/* Fails if a run that is long enough left out a pair that can be drawn: of 3000 combinations 13 to 14 have
 * the rarest, so that chance leaves it out once in 10^6 runs. */
static void expect_pairs(const tally *all, int drawn) {
    int pairs = 0, missing = 0, fewest = drawn;
    for (int a = 0; a < FEATURES; a++)
        for (int b = 0; b < a; b++) {
            const bool never = a == SPLIT && b == TOPK; /* which the reference would rank for minutes */
            pairs += !never;
            missing += !never && all->met[a][b] == 0;
            if (!never && all->met[a][b] < fewest)
                fewest = all->met[a][b];
            if (!never && all->met[a][b] == 0 && drawn >= 3000)
                test_fail("%s and %s never met", feature_names[b], feature_names[a]);
        }
    test_note("%d of %d pairs of options met, each at least %d times", pairs - missing, pairs, fewest);
    assert_true(drawn < 1000 || missing * 20 <= pairs); /* of 1000 there are 5 */
}

/* ---- checking ------------------------------------------------------------------------------------------ */

/* Attended pairs, looked at one by one; with topk at most K a row. */
static int64_t attended_pairs(const attention_case *c) {
    const case_spec *s = &c->spec;
    const bool topk = s->pattern.terms & ATTN_TOPK;
    int64_t total = 0;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->queries; i++) {
                int64_t row = 0;
                for (int64_t j = 0; j < s->keys; j++)
                    row += ref_attended(&c->problem, &c->tensors, b, h, i, j);
                total += topk && row > s->pattern.topk ? s->pattern.topk : row;
            }
    return total;
}

static void check(const combination *drawn, test_rng *rng, const char *isa, bool count, tally *all) {
    const case_spec *s = &drawn->spec;
    attention_case *c = case_new(s);
    if (drawn->zero_scale)
        c->problem.scale = 0;
    const bool topk = s->pattern.terms & ATTN_TOPK;
    if (topk)
        topk_separate(c, rng);
    case_expect(c);
    for (int64_t n = 0; n < s->batch * s->heads * s->queries * s->value_dim; n++)
        assert_true(isfinite(c->expected[n])); /* a NaN that both sides share would pass (cubecl#1070) */
    if (topk) {
        all->topk_rows += s->batch * s->heads * s->queries;
        all->relaxed += topk_relax(c);
    }
    for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
        if (topk && edge_algorithms[a] == ATTN_FLASH)
            continue; /* refused by name: see test_options.c */
        attn_counts counts = {0};
        c->tensors.counts = &counts;
        case_execute(c, isa, edge_algorithms[a], drawn->threads);
        all->used = fmax(all->used, case_compare(c, isa, edge_algorithms[a]));
        if (count && counts.pairs_useful != attended_pairs(c))
            test_fail("%s %s: counted %lld pairs of %lld", attn_algorithm_name(edge_algorithms[a]),
                      case_describe(s), (long long)counts.pairs_useful, (long long)attended_pairs(c));
        if (counts.pairs_useful > counts.pairs_executed)
            test_fail("%s: executed fewer pairs than are attended", case_describe(s));
    }
    case_free(c);
}

/* How many of a run's combinations a level takes: its share among the levels that run here. */
static int share(const char *level) {
    int running = 0, before = 0;
    for (int k = 0; k < attn_isa_count(); k++) {
        const char *name = attn_isa_name(k);
        if (strcmp(name, level) == 0)
            before = running;
        running += test_level_wanted(name) && attn_isa_check(name, NULL) == ATTN_OK;
    }
    return (combinations() - before + running - 1) / running;
}

/* The number of a level's nth combination: every how-many-th there are levels in the build, whichever of them
 * run. So those of a level under an emulator, which are few, are the first of those that it takes natively.
 */
static int number_of(const char *level, int n) {
    int index = 0;
    while (strcmp(attn_isa_name(index), level) != 0)
        index++;
    return index + n * attn_isa_count();
}

/* So many combinations are named: tests/runner compares them between runs. */
enum { LISTED = 5 };

/* Guards: any combination of options is right: shapes, patterns, inputs, storage, layouts, threads, data.
 * Each level takes numbers of its own; every one reads and writes between unmapped pages. */
static void random_combinations(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int drawn = share(kernels->name);
    tally *all = calloc(1, sizeof *all);
    assert_non_null(all);
    for (int n = 0; n < drawn; n++) {
        test_rng rng = test_rng_start("combinations", (uint64_t)number_of(kernels->name, n));
        const combination c = draw(&rng, kernels);
        const uint32_t bits = features(&c);
        for (int a = 0; a < FEATURES; a++)
            for (int b = 0; b < a; b++)
                all->met[a][b] += (bits >> a & 1) && (bits >> b & 1);
        check(&c, &rng, kernels->name, n % 8 == 0, all);
        if (n < LISTED)
            test_note("%s: number %d is %s", kernels->name, number_of(kernels->name, n),
                      case_describe(&c.spec));
    }
    test_note("%s: %d combinations, used %.3f of the tolerance; of %lld rows with topk %lld were too close "
              "to judge",
              kernels->name, drawn, all->used, (long long)all->topk_rows, (long long)all->relaxed);
    expect_pairs(all, drawn);
    assert_true(all->relaxed * 50 <= all->topk_rows);
    free(all);
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "combinations", random_combinations);
    return test_run_list("options_random", &list);
}
