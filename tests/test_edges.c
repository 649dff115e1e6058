/* Edges of masks: rows that attend nothing, key tiles that are masked for a row, sentinels, biases and scores
 * of any size. Each test names the public report of the fault that it would find; every one
 * runs at each ISA level with each algorithm, the right value as the assertion. */
#include "tests/support.h"

#include <math.h>
#include <string.h>

#include "tests/edges.h"

/* ---- rows that attend nothing -------------------------------------------------------- */

/* Guards: a key tile that is masked for a row as a whole, with 2 * key_tile + 1 keys and a window of 10,
 * leaves no NaN behind (pytorch#127055, pytorch#130014). */
static void key_tile_masked(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    case_spec s = edge_spec(0);
    s.pattern = edge_pattern("window=10");
    attention_case *probe = case_new(&s);
    s.queries = s.keys = 2 * edge_info(probe, kernels->name, ATTN_FLASH).key_tile + 1;
    case_free(probe);
    test_note("%s: used %.3f of the tolerance", kernels->name, case_check(&s, kernels->name));
    s.pattern = edge_pattern("causal,window=10");
    case_check(&s, kernels->name);
}

/* Rows 1, 2, 4, 8, ... of each head, more heads apart by one: masked rows beside others in every tile. */
static bool row_is_masked(int64_t h, int64_t i) {
    return ((i + h) & (i + h - 1)) == 0;
}

static void mask_rows(attention_case *c) {
    uint8_t *mask = c->mask.data;
    for (int64_t b = 0; b < c->spec.batch; b++)
        for (int64_t h = 0; h < c->spec.heads; h++)
            for (int64_t i = 0; i < c->spec.queries; i++)
                if (row_is_masked(h, i))
                    memset(mask + edge_pair(c, b, h, i, 0), 0, (size_t)c->spec.keys);
}

/* Guards: a row whose mask is all false is exactly zero with a log-sum-exp of -inf; every other row is bit
 * for bit what it is without a mask at all (pytorch#103963). */
static void all_false_row(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            case_spec s = edge_spec(place);
            if (place == 0)
                s.queries = s.keys = 3;
            attention_case *plain = case_new(&s);
            edge_result without = edge_execute(plain, kernels->name, edge_algorithms[a], 1);
            attention_case *masked = case_new(&s);
            masked->spec.inputs = masked->problem.inputs = ATTN_HAS_MASK;
            edge_mask(masked, 1);
            edge_result open = edge_execute(masked, kernels->name, edge_algorithms[a], 1);
            edge_expect_same(masked, &without, &open, "a mask of all true");
            edge_free(&open);
            mask_rows(masked);
            case_expect(masked);
            edge_result with = edge_execute(masked, kernels->name, edge_algorithms[a], 1);
            case_compare(masked, kernels->name, edge_algorithms[a]);
            for (int64_t r = 0; r < s.batch * s.heads * s.queries; r++) {
                const bool gone = row_is_masked(r / s.queries % s.heads, r % s.queries);
                assert_true(gone ? with.lse[r] == -INFINITY : edge_same(with.lse[r], without.lse[r]));
                for (int64_t d = 0; d < s.value_dim; d++) {
                    const float x = with.out[r * s.value_dim + d];
                    assert_true(gone ? x == 0 : edge_same(x, without.out[r * s.value_dim + d]));
                }
            }
            edge_free(&with);
            edge_free(&without);
            case_free(masked);
            case_free(plain);
        }
}

static void open_and_mask_rows(attention_case *c) {
    edge_mask(c, 1);
    mask_rows(c);
}

static edge_effect masked_rows_are_zero(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t d) {
    return row_is_masked(h, i) ? EDGE_ZERO : EDGE_ANY;
}

/* Guards: the same with all else that may surround a masked row: pattern, softcap, ALiBi, bias, lengths. */
static void all_false_row_among_options(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const char *const patterns[] = {"dense", "causal,window=40,sink=2", "chunk=16", "stride=5"};
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t p = 0; p < COUNT_OF(patterns); p++) {
            case_spec s = edge_spec(place);
            s.pattern = edge_pattern(patterns[p]);
            s.inputs = ATTN_HAS_MASK | ATTN_HAS_BIAS | ATTN_HAS_ALIBI | ATTN_HAS_KV_LENS;
            s.softcap = 5;
            edge_check_case(case_new(&s), kernels->name, "all-false rows", open_and_mask_rows,
                            masked_rows_are_zero);
        }
}

/* Guards: an empty row with a sink logit is exactly zero, its log-sum-exp exactly that logit, one of NaN or
 * +inf too. Every other row is as the reference's: NaN for those two, even where all its scores are -inf. */
static void empty_row_with_sink(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const float logits[][4] = {{-30.25f, 0, 77.7f, -INFINITY}, {NAN, INFINITY, -INFINITY, NAN}};
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (int kind = 0; kind < 4; kind++) { /* which logits, whether scores are -inf */
            case_spec s = edge_spec(place);
            s.inputs = ATTN_HAS_MASK | ATTN_HAS_SINK_LOGIT;
            attention_case *c = case_new(&s);
            edge_mask(c, 1);
            mask_rows(c);
            memcpy(c->sinks.data, logits[kind % 2], sizeof logits[0]);
            if (kind >= 2) {
                edge_fill(c, &c->tensors.q, 0.25f);
                edge_fill(c, &c->tensors.k, -INFINITY);
            }
            case_expect(c);
            for (size_t a = 0; a < 2 * EDGE_ALGORITHMS; a++) {
                edge_result r = edge_execute(c, kernels->name, edge_algorithms[a / 2], 1 + (int)a % 2);
                case_compare(c, kernels->name, edge_algorithms[a / 2]);
                for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++) {
                    const int64_t h = row / s.queries % s.heads;
                    if (!row_is_masked(h, row % s.queries))
                        continue;
                    assert_true(edge_same(r.lse[row], logits[kind % 2][h]));
                    for (int64_t d = 0; d < s.value_dim; d++)
                        assert_true(r.out[row * s.value_dim + d] == 0);
                }
                edge_free(&r);
            }
            case_free(c);
        }
}

/* Guards: causal and padding together leave row 0 of q=k=4 empty: zeros, not NaN (burn#4697); with longer
 * padding as many rows. */
static void causal_and_padding(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int64_t n = 4; n <= 133; n += 129)
        for (int64_t padding = 1; padding < n; padding = padding * 3 + 1) {
            case_spec s = edge_spec(0);
            s.queries = s.keys = n;
            s.pattern = edge_pattern("causal");
            s.inputs = ATTN_HAS_MASK;
            attention_case *c = case_new(&s);
            uint8_t *mask = edge_mask(c, 1);
            for (int64_t r = 0; r < s.batch * s.heads * n; r++)
                memset(mask + r * n, 0, (size_t)padding);
            case_expect(c);
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                case_execute(c, kernels->name, edge_algorithms[a], 1);
                case_compare(c, kernels->name, edge_algorithms[a]);
                for (int64_t i = 0; i < padding; i++)
                    for (int64_t d = 0; d < s.value_dim; d++)
                        assert_true(case_out(c, 1, 3, i)[d] == 0);
                for (int64_t d = 0; d < s.value_dim; d++) /* one key: its value, exactly */
                    assert_true(case_out(c, 1, 3, padding)[d] ==
                                ((float *)c->v.data)[((1 * 2 + 1) * n + padding) * s.value_dim + d]);
            }
            case_free(c);
        }
}

/* Guards: the first key tiles of a row are masked, later ones are not, with and without a sink logit, by a
 * mask and by a bias of -inf (ik_llama.cpp#2344). */
static void leading_tiles_masked(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int64_t masked[] = {1, 63, 64, 65, 128, 200, 2048, 2050, 4199};
    for (size_t place = 1; place < COUNT_OF(edge_places); place++)
        for (size_t m = 0; m < COUNT_OF(masked); m++)
            for (int variant = 0; variant < 4; variant++) {
                case_spec s = edge_spec(place);
                s.keys = place == 1 ? 210 : s.keys;
                if (masked[m] >= s.keys || !test_keep(m + (size_t)variant, 3))
                    continue;
                s.inputs =
                    (variant & 1 ? ATTN_HAS_SINK_LOGIT : 0) | (variant & 2 ? ATTN_HAS_BIAS : ATTN_HAS_MASK);
                attention_case *c = case_new(&s);
                uint8_t *mask = variant & 2 ? NULL : edge_mask(c, 1);
                float *bias = variant & 2 ? edge_bias(c, 0.5f) : NULL;
                for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++)
                    for (int64_t j = 0; j < masked[m] && row % 3 != 2; j++)
                        if (mask)
                            mask[row * s.keys + j] = 0;
                        else
                            bias[row * s.keys + j] = -INFINITY;
                case_expect(c);
                for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                    case_execute(c, kernels->name, edge_algorithms[a], 1);
                    case_compare(c, kernels->name, edge_algorithms[a]);
                }
                case_free(c);
            }
}

/* Guards: with everything masked no row becomes the mean of V (onnxruntime#28904), whatever masks it: mask,
 * bias, lengths, segments, pattern. */
static void nothing_attended(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (int by = 0; by < 5; by++) {
            static const uint32_t inputs[] = {ATTN_HAS_MASK, ATTN_HAS_BIAS, ATTN_HAS_KV_LENS,
                                              ATTN_HAS_SEGMENTS | ATTN_HAS_Q_OFFSETS, ATTN_HAS_Q_OFFSETS};
            case_spec s = edge_spec(place);
            s.inputs = inputs[by];
            if (by == 4)
                s.pattern = edge_pattern("causal");
            attention_case *c = case_new(&s);
            for (int64_t b = 0; b < s.batch; b++) {
                if (by == 2)
                    ((int64_t *)c->kv_lens.data)[b] = 0;
                if (by >= 3) /* every query stands before the keys */
                    ((int64_t *)c->q_offsets.data)[b] = -s.queries - b;
            }
            if (by == 0)
                edge_mask(c, 0);
            if (by == 1)
                edge_bias(c, -INFINITY);
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                edge_result r = edge_execute(c, kernels->name, edge_algorithms[a], 2);
                for (int64_t n = 0; n < s.batch * s.heads * s.queries * s.value_dim; n++)
                    assert_true(r.out[n] == 0);
                for (int64_t n = 0; n < s.batch * s.heads * s.queries; n++)
                    assert_true(r.lse[n] == -INFINITY);
                edge_free(&r);
            }
            case_free(c);
        }
}

/* ---- biases and scores of any size ------------------------------------------------------ */

/* Guards: scores near -1e5, from the keys or from a bias, are not taken for masked ones: with V = 1 the
 * weights sum to 1 within the rounding of n of them (flashinfer#4267). */
static void low_scores(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (int biased = 0; biased < 2; biased++) {
            case_spec s = edge_spec(place);
            s.inputs = biased ? ATTN_HAS_BIAS : 0;
            attention_case *c = case_new(&s);
            edge_fill(c, &c->tensors.v, 1);
            test_rng rng = test_rng_start("low scores", place);
            if (biased) {
                float *bias = edge_bias(c, 0);
                for (int64_t n = 0; n < s.batch * edge_pair(c, 1, 0, 0, 0); n++)
                    bias[n] = (float)(-1e5 + test_normal(&rng));
            } else { /* scale * q.k = sqrt(D) * q k */
                edge_fill(c, &c->tensors.q, -300);
                for (int64_t j = 0; j < s.keys; j++)
                    for (int64_t d = 0; d < s.head_dim; d++)
                        for (int64_t h = 0; h < 4; h++)
                            case_set(c, &c->tensors.k, h / 2, h % 2, j, d,
                                     (float)(111 + 0.002 * test_uniform(&rng)));
            }
            case_expect(c);
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                edge_result r = edge_execute(c, kernels->name, edge_algorithms[a], 1);
                case_compare(c, kernels->name, edge_algorithms[a]);
                for (int64_t n = 0; n < s.batch * s.heads * s.queries * s.value_dim; n++)
                    assert_true(fabs((double)r.out[n] - 1) <= (double)(s.keys + 10) * 0x1p-23);
                for (int64_t n = 0; n < s.batch * s.heads * s.queries; n++)
                    assert_true(r.lse[n] < -9e4f && r.lse[n] > -1.1e5f);
                edge_free(&r);
            }
            case_free(c);
        }
}

/* Guards: beside ordinary scores a bias of -3.4e38 leaves a weight of exactly zero (the row equals, bit for
 * bit, one where those pairs are masked), and a bias of +3.4e38 takes all of it (the row is that value). */
static void extreme_bias_beside_others(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            case_spec s = edge_spec(place);
            s.inputs = ATTN_HAS_BIAS;
            attention_case *c = case_new(&s);
            float *bias = edge_bias(c, 0.25f);
            edge_result results[2];
            for (int infinite = 0; infinite < 2; infinite++) {
                for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++)
                    for (int64_t j = row % 2; j < s.keys; j += 2)
                        bias[row * s.keys + j] = infinite ? -INFINITY : -3.4e38f;
                results[infinite] = edge_execute(c, kernels->name, edge_algorithms[a], 1);
            }
            edge_expect_same(c, &results[0], &results[1], "-3.4e38 beside 0 against -inf");
            for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++)
                bias[row * s.keys + row % s.keys] = 3.4e38f;
            edge_result peak = edge_execute(c, kernels->name, edge_algorithms[a], 1);
            for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++) {
                assert_true(peak.lse[row] == 3.4e38f);
                const int64_t kv = row / s.queries / 2;
                for (int64_t d = 0; d < s.value_dim; d++)
                    assert_true(peak.out[row * s.value_dim + d] ==
                                ((float *)c->v.data)[(kv * s.keys + row % s.keys) * s.value_dim + d]);
            }
            edge_free(&peak);
            edge_free(&results[0]);
            edge_free(&results[1]);
            case_free(c);
        }
}

/* A causal case where every third pair is masked: by a false entry of the mask, or by a bias of -inf beside
 * biases of 0. Q, K and V are the same for both. */
static attention_case *third_masked(size_t place, bool by_bias) {
    case_spec s = edge_spec(place);
    s.pattern = edge_pattern("causal");
    attention_case *c = case_new(&s);
    c->spec.inputs = c->problem.inputs = by_bias ? ATTN_HAS_BIAS : ATTN_HAS_MASK;
    uint8_t *mask = by_bias ? NULL : edge_mask(c, 7);
    float *bias = by_bias ? edge_bias(c, 0) : NULL;
    test_rng rng = test_rng_start("a third masked", place);
    for (int64_t n = 0; n < s.batch * edge_pair(c, 1, 0, 0, 0); n++)
        if (test_between(&rng, 0, 2) == 0) {
            if (by_bias)
                bias[n] = -INFINITY;
            else
                mask[n] = 0;
        }
    return c;
}

/* Guards: a bias of -inf masks exactly as a false mask entry does: the same bits in every row. */
static void infinite_bias_is_a_mask(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++) {
        attention_case *by_mask = third_masked(place, false), *by_bias = third_masked(place, true);
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            edge_result masked = edge_execute(by_mask, kernels->name, edge_algorithms[a], 1);
            edge_result biased = edge_execute(by_bias, kernels->name, edge_algorithms[a], 1);
            edge_expect_same(by_bias, &masked, &biased, "mask against bias");
            edge_free(&masked);
            edge_free(&biased);
        }
        case_free(by_mask);
        case_free(by_bias);
    }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "key tile masked for a row", key_tile_masked);
    test_add_levels(&list, "all-false row", all_false_row);
    test_add_levels(&list, "all-false row among options", all_false_row_among_options);
    test_add_levels(&list, "empty row with a sink logit", empty_row_with_sink);
    test_add_levels(&list, "causal and padding", causal_and_padding);
    test_add_levels(&list, "leading tiles masked", leading_tiles_masked);
    test_add_levels(&list, "nothing attended", nothing_attended);
    test_add_levels(&list, "low scores", low_scores);
    test_add_levels(&list, "extreme bias beside others", extreme_bias_beside_others);
    test_add_levels(&list, "infinite bias is a mask", infinite_bias_is_a_mask);
    return test_run_list("edges", &list);
}
