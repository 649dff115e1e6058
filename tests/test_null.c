/* NULL where a pointer must be: no function of the public interface follows it. */
#include "tests/support.h"

#include <string.h>

#include "attnscope.h"

/* `call` is refused with this text, and with nobody to read it too. */
#define MISSING(text_, call)                                                                                 \
    do {                                                                                                     \
        attn_error reason = {""}, *error = &reason;                                                          \
        assert_int_equal(call, ATTN_INVALID);                                                                \
        if (strncmp(reason.text, text_, strlen(text_)) != 0)                                                 \
            test_fail("'%s', must begin with '%s'", reason.text, text_);                                     \
        error = NULL;                                                                                        \
        assert_int_equal(call, ATTN_INVALID);                                                                \
    } while (0)

/* Guards: every public function asks by name for a pointer that must be there, or, without a status, does
 * nothing with NULL; what is there stays as it was. */
static void missing_pointers(void **state) {
    attn_problem problem;
    attn_plan *plan = (attn_plan *)&plan, *made; /* must be cleared */
    attn_tuning *tuning = (attn_tuning *)&plan;
    attn_pattern pattern = {.terms = ATTN_SINK, .sink = 77};
    attn_tensors tensors;
    float x[4] = {1, 2, 3, 4};
    const uint8_t mask[4] = {1, 1, 1, 1};
    attn_problem_init(&problem, 2, 4, 2, 5, 7, 8, 8);
    assert_int_equal(attn_plan_create(&problem, NULL, &made, NULL), ATTN_OK);
    attn_tensors_init(&tensors, &problem, x, x, x, x);

    MISSING("isa is NULL", attn_isa_check(NULL, error));
    MISSING("text is NULL", attn_pattern_parse(NULL, &pattern, error));
    MISSING("pattern is NULL", attn_pattern_parse("causal", NULL, error));
    MISSING("pattern is NULL", attn_pattern_parse("dense", NULL, error));
    MISSING("path is NULL", attn_tuning_load(NULL, &tuning, error));
    MISSING("tuning is NULL", attn_tuning_load("no-such-file", NULL, error));
    MISSING("plan is NULL", attn_plan_create(&problem, NULL, NULL, error));
    MISSING("problem is NULL", attn_plan_create(NULL, NULL, &plan, error));
    MISSING("plan is NULL", attn_execute(NULL, &tensors, NULL, 1, error));
    MISSING("plan is NULL", attn_execute_part(NULL, &tensors, x, 0, 1, error));
    MISSING("plan is NULL", attn_execute_task(NULL, &tensors, x, 1, 0, 0, 0, error));
    MISSING("tensors is NULL", attn_execute(made, NULL, NULL, 1, error));
    MISSING("tensors is NULL", attn_execute_part(made, NULL, x, 0, 1, error));
    MISSING("tensors is NULL", attn_execute_task(made, NULL, x, 1, 0, 0, 0, error));
    MISSING("workspace is NULL", attn_execute_part(made, &tensors, NULL, 0, 1, error));
    MISSING("workspace is NULL", attn_execute_task(made, &tensors, NULL, 1, 0, 0, 0, error));
    for (int missing = 0; missing < 3; missing++) {
        const float *a = missing == 0 ? NULL : x, *b = missing == 1 ? NULL : x;
        float *c = missing == 2 ? NULL : x;
        const char text[] = {'m', 'a', 't', 'r', 'i', 'x', ' ', (char)('a' + missing), '\0'};
        MISSING(text, attn_matmul_nt_f32(NULL, 2, 2, 2, a, 2, b, 2, c, 2, error));
        MISSING(text, attn_matmul_nn_f32(NULL, 2, 2, 2, a, 2, b, 2, c, 2, error));
    }
    MISSING("x is NULL", attn_scale_f32(NULL, 4, 2, NULL, error));
    MISSING("x is NULL", attn_mask_f32(NULL, 4, mask, NULL, error));
    MISSING("mask is NULL", attn_mask_f32(NULL, 4, NULL, x, error));
    MISSING("matrix x is NULL", attn_softmax_f32(NULL, 2, 2, NULL, 2, error));
    MISSING("x is NULL", attn_exp_f32(NULL, 4, NULL, x, error));
    MISSING("y is NULL", attn_exp_f32(NULL, 4, x, NULL, error));
    assert_true(plan == NULL && tuning == NULL && pattern.sink == 77);
    assert_true(x[0] == 1 && x[1] == 2 && x[2] == 3 && x[3] == 4);

    char text[8] = "before";
    assert_int_equal(attn_pattern_format(NULL, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(attn_pattern_format(&pattern, NULL, 8), (int)strlen("sink=77"));
    attn_problem_init(NULL, 1, 1, 1, 1, 1, 1, 1);
    attn_tensors_init(NULL, &problem, x, x, x, x);
    attn_tensors_init(&tensors, NULL, x, x, x, x);
    assert_null(tensors.out); /* which an execution then names */
    attn_alibi_slopes(4, NULL);
    assert_null(attn_plan_info(NULL).isa);
    attn_plan_destroy(NULL);
    assert_int_equal(attn_step_tasks(NULL, 1, 0), 0);
    attn_tuning_free(NULL);
    assert_string_equal(attn_tuning_machine(NULL), "");
    assert_int_equal(attn_tuning_choose(NULL, NULL, NULL, 0), ATTN_AUTO);
    attn_plan_destroy(made);
}

/* Guards: tensors without an element may be NULL, whatever else is empty; those that have elements are asked
 * for, at every level and in both algorithms: no combination of empty axes makes one be followed. */
static void empty_tensors(void **state) {
    (void)state;
    float some[2 * 2 * 3 * 4] = {0}, out[2 * 2 * 3 * 5];
    for (int isa = 0; isa < attn_isa_count(); isa++)
        for (int empty = 0; empty < 16; empty++)
            for (int algorithm = ATTN_NAIVE; algorithm <= ATTN_FLASH; algorithm++) {
                const int64_t batch = empty & 1 ? 0 : 1, queries = empty & 2 ? 0 : 3,
                              keys = empty & 4 ? 0 : 3;
                const int64_t value_dim = empty & 8 ? 0 : 5;
                attn_options options = {.isa = attn_isa_name(isa), .algorithm = (attn_algorithm)algorithm};
                attn_problem problem;
                attn_problem_init(&problem, batch, 2, 2, queries, keys, 4, value_dim);
                attn_plan *plan;
                if (attn_isa_check(options.isa, NULL) != ATTN_OK)
                    continue;
                assert_int_equal(attn_plan_create(&problem, &options, &plan, NULL), ATTN_OK);
                const int64_t elements[] = {batch * queries, batch * queries * keys,
                                            batch * queries * keys * value_dim, batch * queries * value_dim};
                for (int missing = 0; missing < 16; missing++) {
                    const void *at[4];
                    bool wanted = false;
                    for (int t = 0; t < 4; t++) {
                        at[t] = missing >> t & 1 ? NULL : t == 3 ? out : some;
                        wanted |= !at[t] && elements[t] > 0;
                    }
                    attn_tensors tensors;
                    attn_tensors_init(&tensors, &problem, at[0], at[1], at[2], (float *)at[3]);
                    for (size_t i = 0; i < COUNT_OF(out); i++)
                        out[i] = 7;
                    const attn_status status = attn_execute(plan, &tensors, NULL, 1, NULL);
                    if (status != (wanted ? ATTN_INVALID : ATTN_OK))
                        test_fail("empty axes %x, missing tensors %x: status %d", empty, missing,
                                  (int)status);
                    for (int64_t i = 0; i < 2 * elements[3] && status == ATTN_OK; i++)
                        assert_true(out[i] == 0);
                }
                attn_plan_destroy(plan);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(missing_pointers), cmocka_unit_test(empty_tensors)};
    return test_run("null", tests, COUNT_OF(tests));
}
