/* The caller's floating-point control counts for nothing: results have the bits that they have under the
 * default one, in every thread, and it is as before afterwards. */
#include "tests/support.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/edges.h"

/* What callers set: -ffast-math programs and audio code flush, interval arithmetic rounds up, those who look
 * for faults trap. */
static const struct {
    const char *name;
    uint64_t control;
} controls[] = {
#if defined(__x86_64__)
    {"FTZ", 0x9f80},
    {"DAZ", 0x1fc0},
    {"FTZ and DAZ", 0x9fc0},
    {"rounding up", 0x5f80},
    {"rounding up, FTZ and DAZ", 0xdfc0},
    {"traps", 0},
#elif defined(__aarch64__)
    {"FZ", 1 << 24},
    {"FZ16", 1 << 19},
    {"rounding up", 1 << 22},
    {"rounding up, FZ", 1 << 22 | 1 << 24},
#else
    {"rounding up", FE_UPWARD},
#endif
};

#if defined(__x86_64__)
enum { USUAL = 0x1f80 };
#elif defined(__aarch64__)
enum { USUAL = 0 };
#else
enum { USUAL = FE_TONEAREST };
#endif

/* Runs a call under a control and fails if that is another one afterwards. No arithmetic of the test's own.
 */
#define UNDER(which, call)                                                                                   \
    do {                                                                                                     \
        test_fp_set(controls[which].control);                                                                \
        const uint64_t before_ = test_fp_control();                                                          \
        const attn_status status_ = (call);                                                                  \
        const uint64_t after_ = test_fp_control();                                                           \
        test_fp_set(USUAL);                                                                                  \
        if (status_ != ATTN_OK || after_ != before_)                                                         \
            test_fail("%s: status %d, control 0x%llx, was 0x%llx", controls[which].name, (int)status_,       \
                      (unsigned long long)after_, (unsigned long long)before_);                              \
    } while (0)

/* Scores near 0 and, for every third key, near -70, whose weights are far from 1 and count by their large
 * values. Other values are subnormal, or ordinary. */
static attention_case *tiny_case(size_t place) {
    case_spec s = edge_spec(place);
    s.scale = NAN; /* 1/sqrt(D), which is rounded */
    s.inputs = ATTN_HAS_ALIBI | ATTN_HAS_SINK_LOGIT;
    attention_case *c = case_new(&s);
    test_rng rng = test_rng_start("control", place);
    edge_fill(c, &c->tensors.q, 0);
    edge_fill(c, &c->tensors.k, 0);
    for (int64_t b = 0; b < s.batch; b++) {
        for (int64_t h = 0; h < s.heads; h++)
            for (int64_t i = 0; i < s.queries; i++)
                case_set(c, &c->tensors.q, b, h, i, 4, 3);
        for (int64_t h = 0; h < s.kv_heads; h++)
            for (int64_t j = 0; j < s.keys; j++) {
                const float score = j % 3 ? 0.25f * (float)test_uniform(&rng) : -70;
                case_set(c, &c->tensors.k, b, h, j, 4, score);
                case_set(c, &c->tensors.v, b, h, j, 0, j % 3 ? 0 : 0x1p101f);
                case_set(c, &c->tensors.v, b, h, j, 1, (float)test_uniform(&rng) * 0x1p-130f);
            }
    }
    float *const slopes = c->slopes.data, *const sinks = c->sinks.data;
    for (int64_t h = 0; h < s.heads; h++) {
        slopes[h] = 0x1p-13f * (float)h; /* leaves the far keys where they are */
        sinks[h] = h == 1 ? 0.5f : -INFINITY;
    }
    return c;
}

/* The ways of executing: attn_execute with 1 to 3 threads, parts, tasks. */
enum { PARTS = 4, TASKS, WAYS };

static attn_status execute(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int way) {
    attn_status status = ATTN_OK;
    if (way < PARTS)
        return attn_execute(plan, tensors, NULL, way, NULL);
    for (int part = 0; way == PARTS && part < 3 && status == ATTN_OK; part++)
        status = attn_execute_part(plan, tensors, workspace, part, 3, NULL);
    for (int64_t step = 0, tasks; way == TASKS && (tasks = attn_step_tasks(plan, 2, step)) > 0; step++)
        for (int64_t task = 0; task < tasks && status == ATTN_OK; task++)
            status = attn_execute_task(plan, tensors, workspace, 2, (int)(task % 2), step, task, NULL);
    return status;
}

/* Guards: flushing, rounding and traps of the caller neither change a bit (worker threads keep the control
 * they were created with, so two threads could differ) nor are they changed; with weights and values where
 * each of them would show, through each way of executing, the plan made under them too. */
static void attention(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            attention_case *c = tiny_case(place);
            edge_result usual = edge_execute(c, kernels->name, edge_algorithms[a], 1);
            const float weighted = usual.out[0], subnormal = usual.out[1];
            assert_true(weighted > 0.01f && weighted < 10 && subnormal > 0 && subnormal < 0x1p-126f);
            const attn_options options = {.isa = kernels->name, .algorithm = edge_algorithms[a]};
            for (size_t k = 0; k < COUNT_OF(controls); k++)
                for (int way = 1; way < WAYS; way++) {
                    attn_plan *plan = NULL;
                    UNDER(k, attn_plan_create(&c->problem, &options, &plan, NULL));
                    assert_true(attn_plan_info(plan).scale == 1.0f / 3); /* D is 9 */
                    void *workspace = aligned_alloc(64, (size_t)(2 * attn_plan_info(plan).workspace_bytes));
                    assert_non_null(workspace);
                    guard_reset(&c->out);
                    guard_reset(&c->lse);
                    UNDER(k, execute(plan, &c->tensors, workspace, way));
                    edge_result now = edge_take(c);
                    char what[96];
                    snprintf(what, sizeof what, "%s under %s, way %d",
                             attn_algorithm_name(edge_algorithms[a]), controls[k].name, way);
                    edge_expect_same(c, &usual, &now, what);
                    edge_free(&now);
                    free(workspace);
                    attn_plan_destroy(plan);
                }
            edge_free(&usual);
            case_free(c);
        }
}

/* ---- operations ---------------------------------------------------------------------------------------- */

enum { N = 37, OPERATIONS = 6 };

static const char *const operation_names[OPERATIONS] = {"matmul_nt", "matmul_nn", "scale",
                                                        "mask",      "softmax",   "exp"};

static attn_status operate(int operation, const char *isa, const float *x, const uint8_t *mask, float *y) {
    switch (operation) {
    case 0:
        return attn_matmul_nt_f32(isa, N, N, N, x, N, x, N, y, N, NULL);
    case 1:
        return attn_matmul_nn_f32(isa, N, N, N, x, N, x, N, y, N, NULL);
    case 2:
        return attn_scale_f32(isa, N * N, 0.3f, y, NULL);
    case 3:
        return attn_mask_f32(isa, N * N, mask, y, NULL);
    case 4:
        return attn_softmax_f32(isa, N, N, y, N, NULL);
    default:
        return attn_exp_f32(isa, N * N, x, y, NULL);
    }
}

/* Guards: the same of each single operation, with subnormal operands and results. */
static void operations(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static float x[N * N], usual[N * N], y[N * N];
    static uint8_t mask[N * N];
    test_rng rng = test_rng_start("control of operations", 0);
    for (int i = 0; i < N * N; i++) {
        const float factors[] = {1, 0x1p-64f, 0x1p-128f, 40};
        x[i] = (float)test_normal(&rng) * factors[i % 4];
        mask[i] = i % 5 > 0;
    }
    for (int operation = 0; operation < OPERATIONS; operation++) {
        memcpy(usual, x, sizeof usual);
        if (operation == 4)
            usual[0] = 86.9f; /* far above the rest of its row: what is divided by the sum is subnormal */
        static float before[N * N];
        memcpy(before, usual, sizeof before);
        assert_int_equal(operate(operation, kernels->name, x, mask, usual), ATTN_OK);
        for (size_t k = 0; k < COUNT_OF(controls); k++) {
            memcpy(y, before, sizeof y);
            UNDER(k, operate(operation, kernels->name, x, mask, y));
            if (memcmp(y, usual, sizeof y))
                test_fail("%s: other bits under %s", operation_names[operation], controls[k].name);
        }
    }
}

/* Guards: conversions compute with integers, or exactly: the same bits under any control. */
static void conversions(void **state) {
    (void)state;
    for (size_t k = 0; k < COUNT_OF(controls); k++)
        for (uint32_t x = 0; x < 65536; x += 7) {
            const uint32_t as_float = x << 16 | (x * 2654435761u >> 16);
            const float wide = test_float(as_float);
            float half[2], brain[2];
            uint16_t narrow[2][2];
            for (int under = 0; under < 2; under++) {
                test_fp_set(under ? controls[k].control : USUAL);
                half[under] = attn_f16_to_f32((uint16_t)x);
                brain[under] = attn_bf16_to_f32((uint16_t)x);
                narrow[under][0] = attn_f32_to_f16(wide);
                narrow[under][1] = attn_f32_to_bf16(wide);
                test_fp_set(USUAL);
            }
            if (memcmp(&half[0], &half[1], sizeof *half) || memcmp(&brain[0], &brain[1], sizeof *brain) ||
                memcmp(narrow[0], narrow[1], sizeof *narrow))
                test_fail("conversions of 0x%x: other bits under %s", x, controls[k].name);
        }
}

/* Guards: so for slopes, which are computed. */
static void slopes(void **state) {
    (void)state;
    for (size_t k = 0; k < COUNT_OF(controls); k++)
        for (int64_t heads = 1; heads <= 96; heads++) {
            float usual[96], other[96];
            attn_alibi_slopes(heads, usual);
            test_fp_set(controls[k].control);
            const uint64_t before = test_fp_control();
            attn_alibi_slopes(heads, other);
            const bool kept = test_fp_control() == before;
            test_fp_set(USUAL);
            if (!kept || memcmp(usual, other, (size_t)heads * sizeof *usual))
                test_fail("slopes of %d heads: other bits under %s, or another control after it", (int)heads,
                          controls[k].name);
        }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "attention under the caller's control", attention);
    test_add_levels(&list, "operations under the caller's control", operations);
    test_add(&list, "conversions under the caller's control", conversions);
    test_add(&list, "slopes under the caller's control", slopes);
    return test_run_list("edges_control", &list);
}
