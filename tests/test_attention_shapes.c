/* Shapes: lengths around tiles and vectors, head dimensions of real models and odd ones, batches, grouped
 * heads, layouts; naive and flash at every level, all tensors between unmapped pages. */
#include "tests/support.h"

#include <math.h>

#include "tests/attention_case.h"

static case_spec plain(int64_t queries, int64_t keys, int64_t head_dim, int64_t value_dim) {
    return (case_spec){.batch = 1,
                       .heads = 1,
                       .kv_heads = 1,
                       .queries = queries,
                       .keys = keys,
                       .head_dim = head_dim,
                       .value_dim = value_dim};
}

/* The key tile of flash at this level, from a plan. */
static attn_info flash_info(const attn_kernels *kernels) {
    attn_problem problem;
    attn_problem_init(&problem, 1, 1, 1, 4096, 4096, 64, 64);
    const attn_options options = {.isa = kernels->name, .algorithm = ATTN_FLASH};
    attn_plan *plan;
    assert_int_equal(attn_plan_create(&problem, &options, &plan, NULL), ATTN_OK);
    const attn_info info = attn_plan_info(plan);
    attn_plan_destroy(plan);
    return info;
}

/* Guards: query and key lengths from 0 over vectors, panels and tiles, each with its neighbours. */
static void lengths(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const attn_info info = flash_info(kernels);
    int64_t queries[TEST_SIZES], keys[TEST_SIZES];
    const int q_count = test_sizes(queries, kernels->mr, info.query_tile);
    const int k_count = test_sizes(keys, kernels->nr, info.key_tile);
    double used = 0;
    for (int q = 0; q < q_count; q++)
        for (int k = 0; k < k_count; k++) {
            if ((q + k) % (test_count(12, 3, 1)) != 0)
                continue;
            case_spec s = plain(queries[q], keys[k], 8, 8);
            s.place = (guard_place)((q + k / 3) % GUARD_PLACES);
            s.pattern.terms = (q + k) % 2 ? ATTN_CAUSAL : 0;
            used = fmax(used, case_check(&s, kernels->name));
        }
    test_note("%s: used %.3f of the tolerance", kernels->name, used);
}

/* Guards: key lengths that are not a multiple of the block, with few queries and many. */
static void odd_lengths(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33};
    for (size_t q = 0; q < COUNT_OF(sizes); q++)
        for (size_t k = 0; k < COUNT_OF(sizes); k++) {
            case_spec s = plain(sizes[q], sizes[k], 5, 3);
            s.place = GUARD_BACK;
            case_check(&s, kernels->name);
        }
}

/* Guards: head dimensions of models and odd ones, with value dimensions that differ from them. */
static void dimensions(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int64_t dims[] = {1, 3, 4, 5, 8, 15, 16, 17, 32, 40, 64, 80, 96, 112, 128, 192, 256};
    double used = 0;
    for (size_t d = 0; d < COUNT_OF(dims); d++) {
        const int64_t value_dims[] = {dims[d], dims[COUNT_OF(dims) - 1 - d], 0};
        for (size_t v = 0; v < COUNT_OF(value_dims); v++) {
            case_spec s = plain(7, 70, dims[d], value_dims[v]);
            s.place = (guard_place)((d + v) % GUARD_PLACES);
            used = fmax(used, case_check(&s, kernels->name));
        }
    }
    const case_spec latent = plain(5, 67, 576, 512); /* multi-head latent attention */
    used = fmax(used, case_check(&latent, kernels->name));
    test_note("%s: used %.3f of the tolerance", kernels->name, used);
}

/* Guards: the batch and head of every row, in each layout and storage type. */
static void batches_and_heads(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int64_t heads[][2] = {{1, 1}, {6, 2}, {6, 6}, {6, 1}, {5, 5}, {12, 4}};
    for (size_t h = 0; h < COUNT_OF(heads); h++)
        for (int layout = 0; layout < LAYOUT_COUNT; layout++)
            for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++) {
                case_spec s = plain(9, 33, 20, 12);
                s.batch = 3;
                s.heads = heads[h][0];
                s.kv_heads = heads[h][1];
                s.layout = (case_layout)layout;
                s.dtype = (attn_dtype)dtype;
                s.place = (guard_place)((h + (size_t)layout) % GUARD_PLACES);
                case_check(&s, kernels->name);
            }
}

/* Guards: query head h reads key/value head h / (H / Hkv): with every value of a head its index, that index
 * comes out exactly. */
static void grouped_heads(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int algorithm = ATTN_NAIVE; algorithm <= ATTN_FLASH; algorithm++) {
        case_spec s = plain(5, 40, 8, 3);
        s.heads = 6;
        s.kv_heads = 2;
        attention_case *c = case_new(&s);
        for (int64_t h = 0; h < 2; h++)
            for (int64_t j = 0; j < 40; j++)
                for (int64_t d = 0; d < 3; d++)
                    case_set(c, &c->tensors.v, 0, h, j, d, (float)h);
        case_execute(c, kernels->name, (attn_algorithm)algorithm, 1);
        for (int64_t h = 0; h < 6; h++)
            for (int64_t i = 0; i < 5; i++)
                for (int64_t d = 0; d < 3; d++)
                    assert_true(fabs(case_out(c, 0, h, i)[d] - (double)(h / 3)) <= 40 * 0x1p-23);
        case_free(c);
    }
}

/* Guards: decoding, few queries against a long cache, at the end of it and before. */
static void decoding(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int64_t queries = 1; queries <= 8; queries++) {
        case_spec s = plain(queries, test_quick() ? 2500 : 5000, 64, 64);
        s.heads = 4;
        s.kv_heads = queries % 2 ? 1 : 4;
        s.pattern.terms = ATTN_CAUSAL;
        s.inputs = queries % 3 ? 0 : ATTN_HAS_KV_LENS | ATTN_HAS_Q_OFFSETS;
        s.dtype = (attn_dtype)(queries % 3);
        case_check(&s, kernels->name);
    }
}

/* Guards: no queries, no keys, no batch, no value columns: no work, zeros where there are rows. */
static void empty(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    case_spec specs[] = {plain(0, 5, 4, 4), plain(5, 0, 4, 4), plain(5, 5, 4, 0), plain(0, 0, 4, 0),
                         plain(3, 3, 4, 4)};
    specs[4].batch = 0;
    for (size_t i = 0; i < COUNT_OF(specs); i++)
        for (uint32_t inputs = 0; inputs < 2 * ATTN_HAS_SINK_LOGIT; inputs += ATTN_HAS_SINK_LOGIT) {
            specs[i].inputs = inputs;
            case_check(&specs[i], kernels->name);
            attention_case *c = case_new(&specs[i]);
            case_execute(c, kernels->name, ATTN_FLASH, 3);
            for (int64_t r = 0; specs[i].keys == 0 && r < specs[i].queries; r++)
                for (int64_t d = 0; d < specs[i].value_dim; d++)
                    assert_true(case_out(c, 0, 0, r)[d] == 0);
            case_free(c);
        }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "lengths", lengths);
    test_add_levels(&list, "odd lengths", odd_lengths);
    test_add_levels(&list, "dimensions", dimensions);
    test_add_levels(&list, "batches and heads", batches_and_heads);
    test_add_levels(&list, "grouped heads", grouped_heads);
    test_add_levels(&list, "decoding", decoding);
    test_add_levels(&list, "empty shapes", empty);
    return test_run_list("attention_shapes", &list);
}
