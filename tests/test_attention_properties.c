/* Properties that textbooks state of attention: weights that sum to 1, variances, permutations, rotations;
 * and its five stages. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/plan.h"
#include "tests/attention_case.h"

static const attn_algorithm algorithms[] = {ATTN_NAIVE, ATTN_FLASH};

/* One head with the identity as V: the output is the matrix of weights, n x n. */
static attention_case *weights_case(int64_t n, int64_t dim, float scale, uint32_t terms) {
    const case_spec s = {.batch = 1,
                         .heads = 1,
                         .kv_heads = 1,
                         .queries = n,
                         .keys = n,
                         .head_dim = dim,
                         .value_dim = n,
                         .scale = scale,
                         .pattern = {.terms = terms}};
    attention_case *c = case_new(&s);
    for (int64_t j = 0; j < n; j++)
        for (int64_t d = 0; d < n; d++)
            case_set(c, &c->tensors.v, 0, 0, j, d, j == d);
    return c;
}

/* Guards: scores 2.0, 1.0, 0.5 give weights of about 0.63, 0.23, 0.14. */
static void three_scores(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t a = 0; a < COUNT_OF(algorithms); a++) {
        attention_case *c = weights_case(3, 1, 1, 0);
        const float scores[] = {2, 1, 0.5f}, weights[] = {0.63f, 0.23f, 0.14f};
        for (int64_t j = 0; j < 3; j++) {
            case_set(c, &c->tensors.q, 0, 0, j, 0, 1);
            case_set(c, &c->tensors.k, 0, 0, j, 0, scores[j]);
        }
        case_execute(c, kernels->name, algorithms[a], 1);
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < 3; j++)
                assert_true(fabsf(case_out(c, 0, 0, i)[j] - weights[j]) < 0.005f);
        case_free(c);
    }
}

/* Guards: every row of weights sums to 1; with a causal mask the first token attends only itself, and no
 * token a later one. */
static void rows_sum_to_one(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t n = 100;
    for (size_t a = 0; a < COUNT_OF(algorithms); a++)
        for (uint32_t causal = 0; causal <= ATTN_CAUSAL; causal += ATTN_CAUSAL) {
            attention_case *c = weights_case(n, 16, 0, causal);
            case_execute(c, kernels->name, algorithms[a], 1);
            for (int64_t i = 0; i < n; i++) {
                double sum = 0;
                for (int64_t j = 0; j < n; j++) {
                    sum += case_out(c, 0, 0, i)[j];
                    assert_true(case_out(c, 0, 0, i)[j] >= 0);
                    assert_true(!causal || j <= i || case_out(c, 0, 0, i)[j] == 0);
                }
                assert_true(fabs(sum - 1) <= (double)n * 0x1p-23);
            }
            assert_true(!causal || case_out(c, 0, 0, 0)[0] == 1);
            case_free(c);
        }
}

/* Guards: dot products of d unit-variance components have variance d (standard deviation 22.6 at 512). Scores
 * are taken from the level's own product; 6 standard deviations of the estimate are allowed. */
static void dot_products_spread(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    enum { N = 64, D = 512 };
    static float q[N * D], k[N * D], scores[N * N];
    test_rng rng = test_rng_start("spread", 0);
    for (int i = 0; i < N * D; i++) {
        q[i] = (float)test_normal(&rng);
        k[i] = (float)test_normal(&rng);
    }
    assert_int_equal(attn_matmul_nt_f32(kernels->name, N, N, D, q, D, k, D, scores, N, NULL), ATTN_OK);
    double squares = 0;
    for (int i = 0; i < N * N; i++)
        squares += (double)scores[i] * scores[i];
    const double variance = squares / (N * N);
    /* rows share their q and columns their k, which adds a relative variance of 2/(N D) for each side */
    const double relative = sqrt(2.0 / (N * N) + 4.0 / (N * (double)D) + 6.0 / (D * (double)(N * N)));
    test_note("%s: standard deviation of scores at D = 512: %.2f", kernels->name, sqrt(variance));
    assert_true(fabs(variance / D - 1) < 6 * relative);
}

/* Mean over rows of the largest weight. */
static double mean_peak(const attn_kernels *kernels, float scale) {
    const int64_t n = 64;
    attention_case *c = weights_case(n, 512, scale, 0);
    case_execute(c, kernels->name, ATTN_FLASH, 1);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        float peak = 0;
        for (int64_t j = 0; j < n; j++)
            peak = fmaxf(peak, case_out(c, 0, 0, i)[j]);
        sum += peak;
    }
    case_free(c);
    return sum / (double)n;
}

/* Guards: without the scale, softmax at D = 512 is nearly one-hot; with it, it is not. */
static void the_scale_matters(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const double without = mean_peak(kernels, 1), with = mean_peak(kernels, 0);
    test_note("%s: mean largest weight %.3f without the scale, %.3f with it", kernels->name, without, with);
    assert_true(without > 0.75);
    assert_true(with < 0.3);
}

/* Guards: without a mask, permuting the queries permutes the outputs bit for bit, and permuting keys with
 * their values changes nothing beyond rounding. */
static void order_does_not_matter(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t n = 90, dim = 24;
    const case_spec s = {
        .batch = 1, .heads = 1, .kv_heads = 1, .queries = n, .keys = n, .head_dim = dim, .value_dim = dim};
    for (size_t a = 0; a < COUNT_OF(algorithms); a++) {
        attention_case *plain = case_new(&s), *queries = case_new(&s), *keys = case_new(&s);
        for (int64_t i = 0; i < n; i++) { /* 37 has no divisor in common with 90 */
            const int64_t from = i * 37 % n;
            memcpy((float *)queries->q.data + i * dim, (float *)plain->q.data + from * dim, (size_t)dim * 4);
            memcpy((float *)keys->k.data + i * dim, (float *)plain->k.data + from * dim, (size_t)dim * 4);
            memcpy((float *)keys->v.data + i * dim, (float *)plain->v.data + from * dim, (size_t)dim * 4);
        }
        case_expect(keys);
        case_execute(plain, kernels->name, algorithms[a], 1);
        case_execute(queries, kernels->name, algorithms[a], 1);
        case_execute(keys, kernels->name, algorithms[a], 1);
        case_compare(keys, kernels->name, algorithms[a]);
        for (int64_t i = 0; i < n; i++) {
            assert_memory_equal(case_out(queries, 0, 0, i), case_out(plain, 0, 0, i * 37 % n),
                                (size_t)dim * 4);
            for (int64_t d = 0; d < dim; d++) /* both are within the tolerance of the same exact result */
                assert_true(fabsf(case_out(keys, 0, 0, i)[d] - case_out(plain, 0, 0, i)[d]) <=
                            2 * keys->tolerance[i * dim + d]);
        }
        case_free(plain);
        case_free(queries);
        case_free(keys);
    }
}

/* Guards: after RoPE (pairs of dimensions rotated by an angle that grows with the position), scores depend on
 * the distance alone: the same tokens moved by 1000 positions give the same outputs within rounding. */
static void rotated_scores_depend_on_distance(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t n = 40, dim = 32;
    const case_spec s = {.batch = 1,
                         .heads = 1,
                         .kv_heads = 1,
                         .queries = n,
                         .keys = n,
                         .head_dim = dim,
                         .value_dim = 8,
                         .pattern = {.terms = ATTN_CAUSAL}};
    attention_case *plain = case_new(&s), *here = case_new(&s), *moved = case_new(&s);
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < dim; d += 2)
            for (int side = 0; side < 2; side++)
                for (int which = 0; which < 2; which++) {
                    attention_case *to = which ? moved : here;
                    const float *from = (const float *)(side ? plain->k.data : plain->q.data) + i * dim + d;
                    const double angle = (double)(i + 1000 * which) / pow(10000, (double)d / (double)dim);
                    const attn_tensor *tensor = side ? &to->tensors.k : &to->tensors.q;
                    case_set(to, tensor, 0, 0, i, d, (float)(from[0] * cos(angle) - from[1] * sin(angle)));
                    case_set(to, tensor, 0, 0, i, d + 1,
                             (float)(from[0] * sin(angle) + from[1] * cos(angle)));
                }
    case_expect(here);
    case_execute(here, kernels->name, ATTN_FLASH, 1);
    case_execute(moved, kernels->name, ATTN_FLASH, 1);
    case_execute(plain, kernels->name, ATTN_FLASH, 1);
    bool rotation_does_something = false;
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < 8; d++) {
            /* rounding of the rotated numbers is one more u per factor, of D + 6 in the tolerance */
            assert_true(fabsf(case_out(here, 0, 0, i)[d] - case_out(moved, 0, 0, i)[d]) <=
                        3 * here->tolerance[i * 8 + d]);
            rotation_does_something |=
                fabsf(case_out(here, 0, 0, i)[d] - case_out(plain, 0, 0, i)[d]) > 0.01f;
        }
    assert_true(rotation_does_something);
    case_free(plain);
    case_free(here);
    case_free(moved);
}

/* Guards: the five stages of naive, run one by one over every head as a timing does, leave what the algorithm
 * leaves, bit for bit; each has a name. */
static void stages_are_the_algorithm(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const char *const names[] = {"qk", "scale", "mask", "softmax", "pv"};
    const case_spec s = {.batch = 2,
                         .heads = 4,
                         .kv_heads = 2,
                         .queries = 33,
                         .keys = 70,
                         .head_dim = 12,
                         .value_dim = 9,
                         .pattern = {.terms = ATTN_CAUSAL | ATTN_SINK, .sink = 50},
                         .softcap = 3,
                         .inputs = ATTN_HAS_BIAS | ATTN_HAS_ALIBI | ATTN_HAS_SINK_LOGIT | ATTN_HAS_KV_LENS};
    assert_int_equal(ATTN_STAGE_COUNT, 5);
    attention_case *c = case_new(&s);
    case_execute(c, kernels->name, ATTN_NAIVE, 1);
    float *whole = malloc(c->out.bytes);
    assert_non_null(whole);
    memcpy(whole, c->out.data, c->out.bytes);

    const attn_options options = {.isa = kernels->name, .algorithm = ATTN_NAIVE};
    attn_plan *plan;
    assert_int_equal(attn_plan_create(&c->problem, &options, &plan, NULL), ATTN_OK);
    const int64_t bytes = attn_plan_info(plan).workspace_bytes;
    void *workspace = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    assert_non_null(workspace);
    guard_reset(&c->out);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 4; h++)
            for (int stage = 0; stage < ATTN_STAGE_COUNT; stage++) {
                assert_string_equal(attn_stage_name((attn_stage)stage), names[stage]);
                attn_naive_stage(plan, &c->tensors, workspace, b, h, (attn_stage)stage);
            }
    assert_memory_equal(c->out.data, whole, c->out.bytes);
    free(workspace);
    free(whole);
    attn_plan_destroy(plan);
    case_free(c);
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "three scores", three_scores);
    test_add_levels(&list, "rows sum to one", rows_sum_to_one);
    test_add_levels(&list, "dot products spread", dot_products_spread);
    test_add_levels(&list, "the scale matters", the_scale_matters);
    test_add_levels(&list, "order does not matter", order_does_not_matter);
    test_add_levels(&list, "rotated scores depend on distance", rotated_scores_depend_on_distance);
    test_add_levels(&list, "stages are the algorithm", stages_are_the_algorithm);
    return test_run_list("attention_properties", &list);
}
