/* Edges of heads: which key/value head, which slope and which mask a head gets. At each ISA level with each
 * algorithm; each test names the public report of the fault that it would find. */
#include "tests/support.h"

#include <math.h>
#include <string.h>

#include "tests/edges.h"

/* Guards: query head h reads key/value head h / (H / Hkv) (quant.cpp#61, jax-js#180): the values of each
 * key/value head are its index, and so must be the output. */
static void grouped_heads(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int64_t kv_heads[] = {1, 2, 3, 6};
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t k = 0; k < COUNT_OF(kv_heads); k++) {
            case_spec s = edge_spec(place);
            s.heads = 6;
            s.kv_heads = kv_heads[k];
            attention_case *c = case_new(&s);
            for (int64_t b = 0; b < s.batch; b++)
                for (int64_t h = 0; h < s.kv_heads; h++)
                    for (int64_t j = 0; j < s.keys; j++)
                        for (int64_t d = 0; d < s.value_dim; d++)
                            case_set(c, &c->tensors.v, b, h, j, d, (float)(h + 10 * b));
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                case_execute(c, kernels->name, edge_algorithms[a], 1);
                for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++) {
                    const int64_t b = row / s.queries / 6, h = row / s.queries % 6;
                    const double index = (double)(h / (6 / s.kv_heads) + 10 * b);
                    for (int64_t d = 0; d < s.value_dim; d++)
                        assert_true(fabs(case_out(c, b, h, row % s.queries)[d] - index) <=
                                    (double)(s.keys + 10) * 0x1p-23 * index);
                }
            }
            case_free(c);
        }
}

/* Guards: numbers of heads that do not divide are refused by name, never rounded. */
static void uneven_heads(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int64_t heads[][2] = {{5, 2}, {2, 6}, {7, 3}};
    for (size_t k = 0; k < COUNT_OF(heads); k++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            attn_problem problem;
            attn_problem_init(&problem, 1, heads[k][0], heads[k][1], 4, 4, 8, 8);
            const attn_options options = {.isa = kernels->name, .algorithm = edge_algorithms[a]};
            attn_plan *plan = (attn_plan *)&problem;
            attn_error error = {""};
            assert_int_equal(attn_plan_create(&problem, &options, &plan, &error), ATTN_INVALID);
            assert_null(plan);
            assert_non_null(strstr(error.text, "kv_heads"));
        }
}

/* Guards: ALiBi subtracts slope * |p - j| with each head's own slope, before and behind the query, with the
 * slopes that are published for 6 heads (mlx#343). */
static void alibi_of_six_heads(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const float published[] = {0x1p-2f, 0x1p-4f, 0x1p-6f, 0x1p-8f, 0x1p-1f, 0x1p-3f};
    for (size_t place = 0; place < 2; place++) {
        case_spec s = edge_spec(place);
        s.heads = s.kv_heads = 6;
        s.inputs = ATTN_HAS_ALIBI;
        attention_case *c = edge_weights(&s);
        memcpy(c->slopes.data, published, sizeof published);
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            case_execute(c, kernels->name, edge_algorithms[a], 1);
            for (int64_t h = 0; h < 6; h++)
                for (int64_t i = 0; i < s.queries; i++) {
                    const float *row = case_out(c, 1, h, i);
                    const int64_t p = i + s.keys - s.queries;
                    for (int64_t j = 0; j < s.keys; j++) {
                        const double x = (double)published[h] * fabs((double)(p - j));
                        const double ratio = exp(-x), tolerance = (2 * x + 16) * 0x1p-23 * ratio + 0x1p-125;
                        assert_true(fabs((double)row[j] / (double)row[p] - ratio) <= tolerance);
                    }
                }
        }
        case_free(c);
    }
}

/* Guards: with B == H a mask of three dimensions is read as its strides say, (B, 1, Q, K) or (1, H, Q, K),
 * never guessed (onnx#8108). The two readings of one asymmetric mask must give what is drawn for each. */
static void rank_three_mask(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const char *const drawn[2][2] = {{"#.#", "##."}, {"..#", ".#."}};
    case_spec s = {.batch = 2,
                   .heads = 2,
                   .kv_heads = 1,
                   .queries = 2,
                   .keys = 3,
                   .head_dim = 4,
                   .inputs = ATTN_HAS_MASK};
    for (int by_head = 0; by_head < 2; by_head++) {
        attention_case *c = edge_weights(&s);
        uint8_t *mask = edge_mask(c, 0);
        for (int64_t n = 0; n < 2 * 2 * 3; n++)
            mask[n] = drawn[n / 6][n / 3 % 2][n % 3] == '#';
        const int64_t strides[] = {by_head ? 0 : 6, by_head ? 6 : 0, 3, 1};
        memcpy(c->tensors.mask_strides, strides, sizeof strides);
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            case_execute(c, kernels->name, edge_algorithms[a], 1);
            for (int64_t b = 0; b < 2; b++)
                for (int64_t h = 0; h < 2; h++)
                    for (int64_t i = 0; i < 2; i++)
                        edge_expect_drawn(c, b, h, i, drawn[by_head ? h : b][i]);
        }
        case_free(c);
    }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "grouped heads", grouped_heads);
    test_add_levels(&list, "uneven heads", uneven_heads);
    test_add_levels(&list, "ALiBi of six heads", alibi_of_six_heads);
    test_add_levels(&list, "rank-three mask", rank_three_mask);
    return test_run_list("edges_heads", &list);
}
