/* The plan's parts: every unit of work in one of them, each with its share of the pairs. */
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

#include "attention/internal.h"
#include "tests/edges.h"
#include "tests/patterns.h"

static int64_t dense_row(int64_t head, int64_t i, int64_t n) {
    (void)head;
    (void)i;
    return n;
}
static int64_t causal_row(int64_t head, int64_t i, int64_t n) {
    (void)head;
    (void)n;
    return i + 1;
}
static int64_t window_row(int64_t head, int64_t i, int64_t n) {
    (void)head;
    (void)n;
    return i < 5000 ? i + 1 : 5000 + attn_min(9, i - 4999);
}
static int64_t map_row(int64_t head, int64_t i, int64_t n) {
    (void)i;
    return head == 1 ? n : 640;
}

/* Guards: every unit is in exactly one part, and parts differ by no more than one unit in the pairs that they
 * attend, counted by the pattern's definition; what each tile row executes beside them (`besides`, at the
 * borders of up to three runs) counts in favour of the plan. */
static void parts_share_the_pairs(void **state) {
    const int64_t n = 20000;
    const int parts[] = {1, 2, 3, 7, 64, 192, 1024};
    const struct {
        const char *pattern; /* NULL: three maps of blocks, the second one full */
        int64_t heads;
        int64_t (*row)(int64_t head, int64_t i, int64_t n);
    } cases[] = {
        {"dense", 1, dense_row},   {"causal", 1, causal_row},
        {"causal", 2, causal_row}, {"causal,window=5000,sink=9", 1, window_row},
        {NULL, 3, map_row},
    };
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        const int64_t heads = cases[c].heads;
        attn_problem problem;
        attn_problem_init(&problem, 2, heads, heads, n, n, 8, 8);
        uint8_t *map = NULL;
        if (!cases[c].pattern) {
            const int64_t blocks = attn_ceil_div(n, 160);
            map = pattern_map(&problem.pattern, 160, 4, heads, blocks);
            memset(map + blocks * blocks, 1, (size_t)(blocks * blocks));
        } else {
            problem.pattern = edge_pattern(cases[c].pattern);
        }
        const attn_options options = {.isa = test_kernels(state)->name, .algorithm = ATTN_FLASH};
        attn_plan *plan;
        assert_int_equal(attn_plan_create(&problem, &options, &plan, NULL), ATTN_OK);
        const int64_t units = 2 * heads * plan->query_tiles, rows = plan->query_tile;
        const int64_t besides = 6 * rows * plan->key_tile + rows * rows + (map ? 8 * rows * 160 : 0);
        int64_t *before = calloc((size_t)units + 1, sizeof *before), most = 0;
        assert_non_null(before);
        for (int64_t u = 0; u < units; u++) {
            const int64_t first = u % plan->query_tiles * rows;
            int64_t pairs = 0;
            for (int64_t i = first; i < attn_min(first + rows, n); i++)
                pairs += cases[c].row(u / plan->query_tiles % heads, i, n);
            before[u + 1] = before[u] + pairs;
            most = attn_max(most, pairs);
        }
        if (!map)
            assert_int_equal(before[units], plan->info.pairs_useful);
        for (size_t k = 0; k < COUNT_OF(parts); k++) {
            const double ideal = (double)(before[units] + units * besides) / parts[k];
            int64_t next = 0;
            for (int part = 0; part < parts[k]; part++) {
                int64_t first, last;
                attn_plan_part(plan, part, parts[k], &first, &last);
                assert_int_equal(first, next);
                assert_true(last >= first);
                next = last;
                const int64_t pairs = before[last] - before[first];
                if ((double)pairs > ideal + (double)(most + besides))
                    test_fail("%s: part %d of %d has %lld pairs, its share is %.0f, a unit at most %lld",
                              cases[c].pattern ? cases[c].pattern : "maps", part, parts[k], (long long)pairs,
                              ideal, (long long)(most + besides));
            }
            assert_int_equal(next, units);
        }
        free(before);
        attn_plan_destroy(plan);
        free(map);
    }
}

int main(void) {
    test_list tests = {0};
    test_add_levels(&tests, "parts share the pairs", parts_share_the_pairs);
    return test_run_list("plan_parts", &tests);
}
