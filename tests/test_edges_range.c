/* Edges of float32's range: scores of infinity that no mask made, under a softcap too, and slopes of ALiBi
 * and biases that pass -FLT_MAX. At each ISA level with each algorithm, the right value as the assertion. */
#include "tests/support.h"

#include <float.h>
#include <math.h>

#include "tests/edges.h"

/* ---- scores of -inf ------------------------------------------------------------------ */

/* What makes a score of -inf beside queries of -1e20. */
static const struct {
    const char *name;
    float key; /* every element of the key */
} below[] = {{"q.k overflows", 1e20f}, {"a key of Inf", INFINITY}};

/* Keys that score -inf: all, those of the first half (splits and tiles of nothing else), every third. */
static bool is_below(const attention_case *c, int which, int64_t j) {
    return which == 0 || (which == 1 ? 2 * j < c->spec.keys : j % 3 == 1);
}

static void set_keys(attention_case *c, int which, float key) {
    edge_fill(c, &c->tensors.q, -1e20f);
    for (int64_t row = 0; row < c->spec.batch * c->spec.kv_heads; row++)
        for (int64_t j = 0; j < c->spec.keys; j++)
            for (int64_t d = 0; d < c->spec.head_dim; d++)
                case_set(c, &c->tensors.k, row / c->spec.kv_heads, row % c->spec.kv_heads, j, d,
                         is_below(c, which, j) ? key : 1e-20f * (float)(j % 5));
}

/* Rows that attend nothing but scores of -inf: exact zeros, and the sink logit or -inf. */
static void expect_nothing(const attention_case *c) {
    const case_spec *s = &c->spec;
    for (int64_t row = 0; row < s->batch * s->heads * s->queries; row++) {
        const int64_t h = row / s->queries % s->heads;
        const float *out = case_out(c, row / s->queries / s->heads, h, row % s->queries);
        for (int64_t d = 0; d < s->value_dim; d++)
            assert_true(out[d] == 0);
        assert_true(c->tensors.lse[row] == (c->tensors.sink_logits ? c->tensors.sink_logits[h] : -INFINITY));
    }
}

/* The last execution, and one where those pairs are masked by their bias: the same in every bit. */
static void expect_masked(attention_case *c, int which, const char *isa, attn_algorithm algorithm) {
    edge_result by_score = edge_take(c);
    float *bias = edge_bias(c, 0);
    for (int64_t n = 0; n < c->spec.batch * edge_pair(c, 1, 0, 0, 0); n++)
        bias[n] = is_below(c, which, n % c->spec.keys) ? -INFINITY : 0;
    edge_result masked = edge_execute(c, isa, algorithm, 1);
    edge_expect_same(c, &by_score, &masked, "a score of -inf against a bias of -inf");
    edge_free(&by_score);
    edge_free(&masked);
    edge_bias(c, 0);
}

/* Guards: a score of -inf weighs nothing, wherever it comes from, and a row of nothing else is zeros like one
 * that attends nothing, never NaN: in one tile, in several, where flash splits the keys; in tiles whose
 * scores are final at once, and in those that a bias adjusts. */
static void scores_below_the_range(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const uint32_t inputs[] = {0, ATTN_HAS_SINK_LOGIT, ATTN_HAS_BIAS};
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t k = 0; k < COUNT_OF(below) * COUNT_OF(inputs) * 3; k++) {
            const int which = (int)(k % 3);
            if (!test_keep(place + k / 3, 3))
                continue;
            case_spec s = edge_spec(place);
            s.inputs = inputs[k / 3 % COUNT_OF(inputs)];
            attention_case *c = case_new(&s);
            if (s.inputs & ATTN_HAS_BIAS)
                edge_bias(c, 0);
            set_keys(c, which, below[k / 3 / COUNT_OF(inputs)].key);
            case_expect(c);
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                case_execute(c, kernels->name, edge_algorithms[a], 1);
                case_compare(c, kernels->name, edge_algorithms[a]);
                if (which == 0)
                    expect_nothing(c);
                if (which == 2 && s.inputs & ATTN_HAS_BIAS) /* which masks no tile as a whole */
                    expect_masked(c, which, kernels->name, edge_algorithms[a]);
            }
            case_free(c);
        }
}

/* Guards: a softcap makes finite scores of infinite products, as the formula says: cap(+-inf) = +-c. Also one
 * so small that it leaves the scores of a row all the same: it is no reason to leave it out. */
static void capped_infinities(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const float caps[] = {2.5f, 1e-3f, 1e-6f, 1e-30f};
    for (size_t k = 0; k < COUNT_OF(edge_places) * COUNT_OF(caps); k++) {
        case_spec s = edge_spec(k / COUNT_OF(caps));
        s.softcap = caps[k % COUNT_OF(caps)];
        attention_case *c = case_new(&s);
        edge_fill(c, &c->tensors.q, 0.25f);
        for (int64_t h = 0; h < 2; h++) {
            case_set(c, &c->tensors.k, 0, h, 1, 0, INFINITY);
            case_set(c, &c->tensors.k, 0, h, 4, 2, -INFINITY);
        }
        case_expect(c);
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            case_execute(c, kernels->name, edge_algorithms[a], 1);
            case_compare(c, kernels->name, edge_algorithms[a]);
            for (int64_t d = 0; d < s.value_dim; d++)
                assert_true(isfinite(case_out(c, 0, 0, 0)[d]));
        }
        case_free(c);
    }
}

/* ---- sums below -FLT_MAX --------------------------------------------------------------- */

/* Each row is the mean of its values (of float32), within the rounding of a sum of n. */
static void expect_mean(const attention_case *c) {
    const case_spec *s = &c->spec;
    for (int64_t row = 0; row < s->batch * s->heads * s->queries; row++)
        for (int64_t d = 0; d < s->value_dim; d++) {
            const int64_t kv = row / s->queries / (s->heads / s->kv_heads);
            double sum = 0, size = 0;
            for (int64_t j = 0; j < s->keys; j++) {
                const double v = ((float *)c->v.data)[(kv * s->keys + j) * s->value_dim + d];
                sum += v;
                size += fabs(v);
            }
            const double n = (double)s->keys, error = c->tensors.out[row * s->value_dim + d] - sum / n;
            assert_true(fabs(error) <= (n + 10) * 0x1p-23 * size / n);
        }
}

/* Guards: a finite bias, however negative, is a number: a row of -3.4e38 or -FLT_MAX is a uniform average
 * (pytorch#110213), also where the score's sum with it would overflow; in the reference too. */
static void lowest_bias(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const float lowest[] = {-3e38f, -3.4e38f, -FLT_MAX, -FLT_MAX};
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t k = 0; k < COUNT_OF(lowest); k++) {
            case_spec s = edge_spec(place);
            s.inputs = ATTN_HAS_BIAS;
            attention_case *c = case_new(&s);
            edge_bias(c, lowest[k]);
            if (k == 3) { /* scores of -3e32 */
                edge_fill(c, &c->tensors.q, -1e16f);
                edge_fill(c, &c->tensors.k, 1e16f);
            }
            case_expect(c);
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                case_execute(c, kernels->name, edge_algorithms[a], 1);
                case_compare(c, kernels->name, edge_algorithms[a]);
                expect_mean(c);
            }
            case_free(c);
        }
}

/* Guards: a finite slope of ALiBi masks nothing, however steep, as a finite bias does not: rows whose scores
 * all pass -FLT_MAX are the mean of their values, within the rounding of a sum of n; with a bias, above and
 * below zero, that is added after. An infinite slope does mask. */
static void steep_slopes(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const struct {
        float slope, bias;
    } steep[] = {{3e38f, 0},        {FLT_MAX, 0},     {1e38f, -3e38f}, {3e38f, -FLT_MAX},
                 {1e30f, -FLT_MAX}, {FLT_MAX, 1e38f}, {INFINITY, 0}};
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t k = 0; k < COUNT_OF(steep); k++) {
            if (!test_keep(place + k, 3))
                continue;
            case_spec s = edge_spec(place);
            s.inputs = ATTN_HAS_ALIBI | ATTN_HAS_Q_OFFSETS | (steep[k].bias != 0 ? ATTN_HAS_BIAS : 0);
            attention_case *c = case_new(&s);
            for (int64_t h = 0; h < s.heads; h++)
                ((float *)c->slopes.data)[h] = steep[k].slope;
            for (int64_t b = 0; b < s.batch; b++) /* every key at least 8 away */
                ((int64_t *)c->q_offsets.data)[b] = s.keys + 7;
            if (steep[k].bias != 0)
                edge_bias(c, steep[k].bias);
            case_expect(c);
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                case_execute(c, kernels->name, edge_algorithms[a], 1);
                case_compare(c, kernels->name, edge_algorithms[a]);
                if (isinf(steep[k].slope))
                    expect_nothing(c);
                else
                    expect_mean(c);
            }
            case_free(c);
        }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "scores below the range", scores_below_the_range);
    test_add_levels(&list, "softcap of infinity", capped_infinities);
    test_add_levels(&list, "lowest bias", lowest_bias);
    test_add_levels(&list, "steep slopes", steep_slopes);
    return test_run_list("edges_range", &list);
}
