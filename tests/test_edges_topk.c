/* NaN and infinities with topk, where the scores decide who attends: in values they reach the rows that keep
 * their key, in queries and keys those that choose among them; every other bit stays as it was. */
#include "tests/support.h"

#include <math.h>

#include "tests/edges.h"

#define QUERIES 6
#define KEYS 90
#define COLUMNS 3
#define POISONED 1 /* column */

static const int64_t topks[] = {1, 2, 30, 88, 200};
static const float poisons[] = {NAN, INFINITY, -INFINITY};

/* Scores of a row are all different, by 1/16 at least, and rise or fall from row to row. */
static float score(int64_t i, int64_t j) {
    return (i % 2 ? -1.0f : 1.0f) * (float)(j * 37 % KEYS) / 16;
}

static bool may_attend(int64_t i, int64_t j) {
    return j <= i + KEYS - QUERIES;
}

/* Is key j among the k best that row i may attend? */
static bool keeps(int64_t i, int64_t j, int64_t k) {
    int64_t better = 0;
    for (int64_t other = 0; other < KEYS; other++)
        better += may_attend(i, other) && score(i, other) > score(i, j);
    return may_attend(i, j) && better < k;
}

static attention_case *case_of(int64_t topk) {
    const case_spec s = {.batch = 1,
                         .heads = 1,
                         .kv_heads = 1,
                         .queries = QUERIES,
                         .keys = KEYS,
                         .head_dim = 1,
                         .value_dim = COLUMNS,
                         .scale = 1,
                         .pattern = {.terms = ATTN_TOPK | ATTN_CAUSAL, .topk = topk}};
    attention_case *c = case_new(&s);
    for (int64_t j = 0; j < KEYS; j++)
        case_set(c, &c->tensors.k, 0, 0, j, 0, score(0, j));
    for (int64_t i = 0; i < QUERIES; i++)
        case_set(c, &c->tensors.q, 0, 0, i, 0, i % 2 ? -1 : 1);
    return c;
}

/* Executes the case after `before` was taken of it; frees both. `hit` tells of each row whether its poisoned
 * column, or with `whole` all of it and its log-sum-exp, is no longer finite. */
static void expect_traces(attention_case *c, const char *isa, edge_result *before, const bool hit[QUERIES],
                          bool whole) {
    case_expect(c);
    edge_result after = edge_execute(c, isa, ATTN_NAIVE, 1);
    case_compare(c, isa, ATTN_NAIVE);
    for (int64_t i = 0; i < QUERIES; i++)
        for (int64_t d = -1; d < COLUMNS; d++) {
            const bool lse = d < 0, traced = hit[i] && (whole || d == POISONED);
            const float was = lse ? before->lse[i] : before->out[i * COLUMNS + d];
            const float is = lse ? after.lse[i] : after.out[i * COLUMNS + d];
            const edge_effect effect = !traced ? EDGE_NONE : whole ? EDGE_NAN : EDGE_NOT_FINITE;
            if (!edge_has(effect, was, is, lse))
                test_fail("topk=%d: row %d column %d was %.9g, is %.9g", (int)c->spec.pattern.topk, (int)i,
                          (int)d, (double)was, (double)is);
        }
    edge_free(before);
    edge_free(&after);
    case_free(c);
}

/* Guards: a value that is not finite shows in the rows that keep its key, not in those that merely might. */
static void values(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    int64_t hits = 0, passed_over = 0;
    for (size_t k = 0; k < COUNT_OF(topks); k++)
        for (int64_t j = 0; j < KEYS; j += test_quick() ? 5 : 1) {
            attention_case *c = case_of(topks[k]);
            edge_result before = edge_execute(c, kernels->name, ATTN_NAIVE, 1);
            case_set(c, &c->tensors.v, 0, 0, j, POISONED, poisons[(size_t)j % COUNT_OF(poisons)]);
            bool hit[QUERIES];
            for (int64_t i = 0; i < QUERIES; i++) {
                hit[i] = keeps(i, j, topks[k]);
                hits += hit[i];
                passed_over += !hit[i] && may_attend(i, j);
            }
            expect_traces(c, kernels->name, &before, hit, false);
        }
    assert_true(hits > 0 && passed_over > 0);
}

/* Guards: a key that is NaN comes first, so that every row that may attend it is NaN, however few it keeps;
 * with a second one, too. */
static void keys(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t k = 0; k < COUNT_OF(topks); k++)
        for (int64_t j = 1; j < KEYS; j += j < KEYS - QUERIES - 2 ? test_quick() ? 41 : 7 : 1)
            for (int second = 0; second < 2; second++) {
                attention_case *c = case_of(topks[k]);
                edge_result before = edge_execute(c, kernels->name, ATTN_NAIVE, 1);
                const int64_t first = second ? j / 2 : j;
                case_set(c, &c->tensors.k, 0, 0, j, 0, NAN);
                case_set(c, &c->tensors.k, 0, 0, first, 0, NAN);
                bool hit[QUERIES];
                for (int64_t i = 0; i < QUERIES; i++)
                    hit[i] = may_attend(i, first);
                expect_traces(c, kernels->name, &before, hit, true);
            }
}

/* Guards: a query that is NaN makes its own row NaN. */
static void queries(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t k = 0; k < COUNT_OF(topks); k++)
        for (int64_t i = 0; i < QUERIES; i++) {
            attention_case *c = case_of(topks[k]);
            edge_result before = edge_execute(c, kernels->name, ATTN_NAIVE, 1);
            case_set(c, &c->tensors.q, 0, 0, i, 0, NAN);
            bool hit[QUERIES] = {false};
            hit[i] = true;
            expect_traces(c, kernels->name, &before, hit, true);
        }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "values with topk", values);
    test_add_levels(&list, "keys with topk", keys);
    test_add_levels(&list, "queries with topk", queries);
    return test_run_list("edges_topk", &list);
}
