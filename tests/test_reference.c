/* The reference's values, against results that can be written down. */
#include "tests/support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "reference/reference.h"

enum { MOST = 64 };

/* A problem of one batch with its tensors, and what the reference makes of it. */
typedef struct fixture {
    attn_problem problem;
    attn_tensors tensors;
    double out[MOST], out_tolerance[MOST], lse[MOST], lse_tolerance[MOST], weights[MOST];
} fixture;

static fixture make(int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys, int64_t dim,
                    int64_t value_dim, const void *q, const void *k, const void *v) {
    return (fixture){
        .problem = {.batch = 1,
                    .heads = heads,
                    .kv_heads = kv_heads,
                    .queries = queries,
                    .keys = keys,
                    .head_dim = dim,
                    .value_dim = value_dim,
                    .scale = 1},
        .tensors = {.q = {q, 0, queries * dim, dim},
                    .k = {k, 0, keys * dim, dim},
                    .v = {v, 0, keys * value_dim, value_dim}},
    };
}

static void compute(fixture *f) {
    const ref_result result = {f->out, f->out_tolerance, f->lse, f->lse_tolerance, f->weights};
    assert_true(ref_attention(&f->problem, &f->tensors, &result));
}

static void close_to(double actual, double expected) {
    if (!(fabs(actual - expected) <= 1e-12 * (1 + fabs(expected))))
        test_fail("%.17g, expected %.17g", actual, expected);
}

/* Guards: the textbook example, scores 2.0, 1.0, 0.5 give weights 0.63, 0.23, 0.14, and the scale is
 * 1/sqrt(D) unless given. */
static void textbook(void **state) {
    const float q[] = {1, 0, 0, 0}, k[] = {2, 0, 0, 0, 1, 0, 0, 0, 0.5f, 0, 0, 0}, v[] = {1, 10, 100};
    fixture f = make(1, 1, 1, 3, 4, 1, q, k, v);
    compute(&f);
    double e[] = {exp(2.0), exp(1.0), exp(0.5)}, sum = e[0] + e[1] + e[2];
    close_to(f.weights[0], e[0] / sum);
    assert_true(fabs(f.weights[0] - 0.63) < 0.005 && fabs(f.weights[1] - 0.23) < 0.005 &&
                fabs(f.weights[2] - 0.14) < 0.005);
    close_to(f.out[0], (e[0] + 10 * e[1] + 100 * e[2]) / sum);
    close_to(f.lse[0], log(sum));
    f.problem.scale = NAN;
    compute(&f);
    close_to(f.weights[0], exp(1.0) / (exp(1.0) + exp(0.5) + exp(0.25)));
    f.problem.scale = -1;
    compute(&f);
    close_to(f.weights[0], exp(-2.0) / (exp(-2.0) + exp(-1.0) + exp(-0.5)));
}

/* Guards: cap before ALiBi before bias; the distance is that of positions, on both sides. */
static void final_score(void **state) {
    const float q[] = {3, 3}, k[] = {1, 2, -1}, v[] = {1, 1, 1};
    const float bias[] = {0, 0, 0.25f, 0, 0.5f, 0}, slopes[] = {0.125f};
    fixture f = make(1, 1, 2, 3, 1, 1, q, k, v);
    f.problem.softcap = 2;
    f.problem.inputs = ATTN_HAS_ALIBI | ATTN_HAS_BIAS;
    f.tensors.alibi_slopes = slopes;
    f.tensors.bias = bias;
    f.tensors.bias_strides[2] = 3;
    f.tensors.bias_strides[3] = 1;
    compute(&f);
    for (int i = 0; i < 2; i++) {
        double s[3], sum = 0;
        for (int j = 0; j < 3; j++) {
            s[j] = 2 * tanh((double)q[i] * k[j] / 2) - 0.125 * abs(i + 1 - j) + bias[3 * i + j];
            sum += exp(s[j]);
        }
        close_to(f.lse[i], log(sum));
        for (int j = 0; j < 3; j++)
            close_to(f.weights[3 * i + j], exp(s[j]) / sum);
    }
}

/* Guards: a finite bias or slope masks nothing: a score that they take below the range of float32 is
 * -FLT_MAX, so three of them are a mean; a score of -inf weighs nothing, also one of a product beyond the
 * range. */
static void final_score_below_the_range(void **state) {
    const float q[] = {-1e18f, 0}, k[] = {2e19f, 0, 2e19f, 0, 2e19f, 0}, v[] = {3, 4, 8};
    const float slopes[] = {3e38f};
    for (uint32_t inputs = ATTN_HAS_BIAS; inputs <= (ATTN_HAS_BIAS | ATTN_HAS_ALIBI); inputs++) {
        if (inputs & ~(uint32_t)(ATTN_HAS_BIAS | ATTN_HAS_ALIBI))
            continue;
        const int64_t offset = 9;
        const float bias = -3.4e38f;
        fixture f = make(1, 1, 1, 3, 2, 1, q, k, v);
        f.problem.inputs = inputs | ATTN_HAS_Q_OFFSETS;
        f.tensors.q_offsets = &offset;
        f.tensors.alibi_slopes = slopes;
        f.tensors.bias = &bias;
        compute(&f);
        close_to(f.out[0], 5);
        close_to(f.lse[0], -(double)FLT_MAX);
    }
    for (int infinite = 0; infinite < 2; infinite++) {
        const float low = infinite ? INFINITY : 3e22f;
        const float keys[] = {low, 0, low, 0, -1e-18f, 0};
        fixture f = make(1, 1, 1, 3, 2, 1, q, keys, v);
        compute(&f);
        assert_true(f.weights[0] == 0 && f.weights[1] == 0 && f.weights[2] == 1 && f.out[0] == 8);
        f.problem.keys = 2;
        compute(&f);
        assert_true(f.out[0] == 0 && f.lse[0] == -INFINITY && f.out_tolerance[0] == 0);
    }
}

/* Guards: the sink logit takes weight and gives no value, scaled and capped by nothing; alone in a row it
 * leaves zeros and its own log-sum-exp. */
static void sink_logit(void **state) {
    const float q[] = {1, 1}, k[] = {1}, v[] = {8}, sinks[] = {3};
    fixture f = make(1, 1, 2, 1, 1, 1, q, k, v);
    f.problem.pattern.terms = ATTN_CAUSAL; /* row 0 is empty */
    f.problem.inputs = ATTN_HAS_SINK_LOGIT;
    f.problem.scale = 2;
    f.problem.softcap = 1;
    f.tensors.sink_logits = sinks;
    compute(&f);
    double score = tanh(2.0);
    assert_true(f.out[0] == 0 && f.lse[0] == 3 && f.out_tolerance[0] == 0);
    close_to(f.out[1], 8 * exp(score) / (exp(score) + exp(3.0)));
    close_to(f.lse[1], log(exp(score) + exp(3.0)));
    const float none[] = {-INFINITY};
    f.tensors.sink_logits = none;
    compute(&f);
    assert_true(f.out[0] == 0 && f.lse[0] == -INFINITY);
    close_to(f.out[1], 8);
}

/* Guards: query head h reads key/value head h / (H / Hkv). */
static void grouped_heads(void **state) {
    const float q[6] = {1, 1, 1, 1, 1, 1}, k[] = {1, 2}, v[] = {10, 20};
    fixture f = make(6, 2, 1, 1, 1, 1, q, k, v);
    compute(&f);
    for (int h = 0; h < 6; h++) {
        close_to(f.out[h], h < 3 ? 10 : 20);
        close_to(f.lse[h], h < 3 ? 1 : 2);
    }
}

/* Guards: topk keeps the K largest in float32, ties to the lower key, NaN first; the sink takes no part. */
static void topk(void **state) {
    const float q[] = {1}, k[] = {1, 2, 2, 3, 2}, v[] = {1, 1, 1, 1, 1};
    const float bias[] = {0, 0, 0, NAN, 0}, sinks[] = {100};
    fixture f = make(1, 1, 1, 5, 1, 1, q, k, v);
    f.problem.pattern = (attn_pattern){.terms = ATTN_TOPK, .topk = 3};
    const bool kept[] = {false, true, true, true, false};
    compute(&f);
    for (int j = 0; j < 5; j++)
        assert_int_equal(f.weights[j] > 0, kept[j]);
    f.problem.inputs = ATTN_HAS_SINK_LOGIT;
    f.tensors.sink_logits = sinks;
    compute(&f);
    for (int j = 0; j < 5; j++)
        assert_int_equal(f.weights[j] > 0, kept[j]);
    f.problem.pattern.topk = 1;
    f.problem.inputs = ATTN_HAS_BIAS;
    f.tensors.bias = bias;
    f.tensors.bias_strides[3] = 1;
    compute(&f);
    assert_true(isnan(f.out[0]) && isnan(f.weights[3]) && f.weights[1] == 0);
}

/* Guards: f16 and bf16 storage, special values included, and strides. */
static void storage(void **state) {
    const uint16_t f16[] = {0x3C00, 0x7BFF, 0x0001, 0x83FF, 0x7C00, 0xFC00, 0x7E00, 0x8000};
    const double as_f16[] = {1, 65504, 0x1p-24, -1023 * 0x1p-24, INFINITY, -INFINITY, NAN, 0};
    const uint16_t bf16[] = {0x3F80, 0x7F7F, 0x0001, 0x807F, 0x7F80, 0xFF80, 0x7FC0, 0x8000};
    const double as_bf16[] = {1, 0x1.FEp127, 0x1p-133, -127 * 0x1p-133, INFINITY, -INFINITY, NAN, 0};
    const uint16_t one[] = {0x3C00, 0x3F80};
    for (int i = 0; i < 8; i++)
        for (int bf = 0; bf < 2; bf++) {
            double expected = bf ? as_bf16[i] : as_f16[i];
            fixture f = make(1, 1, 1, 1, 1, 1, &one[bf], &one[bf], bf ? &bf16[i] : &f16[i]);
            f.problem.dtype = bf ? ATTN_BF16 : ATTN_F16;
            compute(&f);
            assert_true(isnan(expected) ? isnan(f.out[0]) : f.out[0] == expected);
            close_to(f.lse[0], 1);
        }
    /* every second row, backwards */
    const float q[] = {0}, k[] = {0, 0, 0}, v[] = {1, 2, 4, 8, 16};
    fixture f = make(1, 1, 1, 3, 1, 1, q, k, v + 4);
    f.tensors.v.row_stride = -2;
    compute(&f);
    close_to(f.out[0], 7);
}

/* Guards: what is not attended leaves no trace, NaN and Inf in it included. */
static void masked_pairs_leave_no_trace(void **state) {
    const float q[] = {1, 1}, k[] = {1, NAN, INFINITY}, v[] = {5, NAN, INFINITY};
    const int64_t lens[] = {1};
    fixture f = make(1, 1, 2, 3, 1, 1, q, k, v);
    f.problem.inputs = ATTN_HAS_KV_LENS;
    f.tensors.kv_lens = lens;
    compute(&f);
    assert_true(f.out[0] == 5 && f.out[1] == 5 && f.lse[0] == 1);
    const int64_t none[] = {0};
    f.tensors.kv_lens = none;
    compute(&f);
    assert_true(f.out[0] == 0 && f.lse[0] == -INFINITY);
    assert_true(f.out_tolerance[0] == 0 && f.lse_tolerance[0] == 0);
}

/* Guards: NaN and Inf in what is attended reach the rows and columns they must, and no others. */
static void attended_pairs_show(void **state) {
    const float q[] = {1, NAN, 1}, k[] = {1, 1}, v[] = {1, NAN, 2, 4};
    fixture f = make(1, 1, 3, 2, 1, 2, q, k, v);
    compute(&f);
    assert_true(f.out[0] == 1.5 && isnan(f.out[1]) && isnan(f.out[2]) && isnan(f.out[3]) && f.out[4] == 1.5);
    assert_true(isnan(f.lse[1]) && !isnan(f.lse[2]));
    const float inf_k[] = {1, INFINITY}, finite_v[] = {1, 2, 3, 4};
    f = make(1, 1, 1, 2, 1, 2, q, inf_k, finite_v); /* a score of +inf */
    compute(&f);
    assert_true(isnan(f.out[0]) && isnan(f.out[1]) && f.lse[0] == INFINITY);
    const float inf_v[] = {1, INFINITY, 2, 4}, nan_v[] = {1, 2, 3, NAN};
    f = make(1, 1, 1, 2, 1, 2, q, k, inf_v);
    compute(&f);
    assert_true(f.out[0] == 1.5 && f.out[1] == INFINITY);
    const float far_k[] = {0, -2000}; /* its weight underflows even in double: Inf all the same, or NaN */
    f = make(1, 1, 1, 2, 1, 2, q, far_k, inf_v);
    compute(&f);
    assert_true(f.out[0] == 1 && f.out[1] == INFINITY && f.out_tolerance[1] == INFINITY);
    f.tensors.v.data = nan_v;
    compute(&f);
    assert_true(f.out[0] == 1 && isnan(f.out[1]));
}

/* Guards: a finite bias is an ordinary number, however low; what leaves float32 is infinite. */
static void lowest_bias(void **state) {
    const float q[] = {1}, k[] = {1, 1}, v[] = {1, 3}, bias[] = {-3.4e38f, -3.4e38f};
    fixture f = make(1, 1, 1, 2, 1, 1, q, k, v);
    f.problem.inputs = ATTN_HAS_BIAS;
    f.tensors.bias = bias;
    f.tensors.bias_strides[3] = 1;
    compute(&f);
    assert_true(f.out[0] == 2);
    const float high[] = {3.4e38f, 0};
    const float large_k[] = {3e38f, 1};
    f.tensors.bias = high;
    f.tensors.k.data = large_k;
    compute(&f);
    assert_true(isnan(f.out[0]));
}

/* Guards: shapes without queries, keys or value columns. */
static void empty_shapes(void **state) {
    const float x[] = {1};
    fixture f = make(1, 1, 1, 0, 1, 1, x, NULL, NULL);
    f.out[0] = 7;
    compute(&f);
    assert_true(f.out[0] == 0 && f.lse[0] == -INFINITY);
    f = make(1, 1, 1, 1, 1, 0, x, x, NULL);
    compute(&f);
    close_to(f.lse[0], 1);
    f = make(1, 1, 0, 1, 1, 1, NULL, x, x);
    compute(&f);
}

/* Guards the documented error of a softmax: it grows with the spread and with the terms of a partial sum;
 * what is masked has none, and only what may be flushed is allowed a smallest normal number. */
static void softmax_tolerance(void **state) {
    close_to(ref_softmax_tolerance(0.5, 0, 0, 1) * 0x1p+23, 3);
    close_to(ref_softmax_tolerance(0.25, 40, 0, 8) * 0x1p+23, 6.5);
    close_to(ref_softmax_tolerance(0.25, 40, 1600, 8) * 0x1p+23, 31.5);
    assert_true(ref_softmax_tolerance(0x1p-125, 87, 1, 1) < 0x1p-140);
    assert_true(ref_softmax_tolerance(0x1p-125, 88, 1, 1) >= 0x1p-126);
    assert_true(ref_softmax_tolerance(0x1p-126, 80, 1, 1) >= 0x1p-126); /* flushed where it may round below */
    assert_true(ref_softmax_tolerance(0, (double)INFINITY, 1, 1) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(textbook),
        cmocka_unit_test(final_score),
        cmocka_unit_test(final_score_below_the_range),
        cmocka_unit_test(sink_logit),
        cmocka_unit_test(grouped_heads),
        cmocka_unit_test(topk),
        cmocka_unit_test(storage),
        cmocka_unit_test(masked_pairs_leave_no_trace),
        cmocka_unit_test(attended_pairs_show),
        cmocka_unit_test(lowest_bias),
        cmocka_unit_test(empty_shapes),
        cmocka_unit_test(softmax_tolerance),
    };
    return test_run("reference", tests, COUNT_OF(tests));
}
