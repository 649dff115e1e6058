/* What tensors hold, and copies of them for calls that are to find none in a cache. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>

#include "bench/bench.h"

/* Guards: no number that the generators draw passes the bounds which the tolerance rests on. */
static void data_is_within_its_bounds(void **state) {
    (void)state;
    for (int data = 0; data < BENCH_DATA_COUNT; data++) {
        attn_problem problem;
        attn_problem_init(&problem, 1, 2, 2, 300, 300, 40, 24);
        problem.inputs = bench_data_inputs((bench_data)data);
        bench_inputs inputs;
        assert_true(bench_inputs_make(&inputs, &problem, (bench_data)data, 3));
        const bench_bounds b = bench_data_bounds((bench_data)data, 40);
        const double slack = 1 + 0x1p-20; /* of the float32 in which they are made */
        for (int64_t i = 0; i < 2 * 300 * 40; i++) {
            assert_true(fabs((double)((float *)inputs.q)[i]) <= b.q * slack);
            assert_true(fabs((double)((float *)inputs.k)[i]) <= b.k * slack);
        }
        for (int64_t i = 0; i < 2 * 300 * 24; i++)
            assert_true(fabs((double)((float *)inputs.v)[i]) <= b.v * slack);
        int masked = 0;
        for (int64_t i = 0; inputs.tensors.bias && i < 300; i++)
            masked += inputs.tensors.bias[i] == -INFINITY;
        assert_int_equal(masked, data == BENCH_INF_BLOCKS ? 64 + 64 + 44 - 1 : 0);
        assert_true((data == BENCH_INF_BLOCKS) == (inputs.tensors.bias != NULL));
        bench_inputs_free(&inputs);
    }
}

/* Guards copies that calls use by turns: together they take what was asked for, hold the inputs, do not
 * overlap, and the first are the inputs themselves; a row that is large enough has no other. */
static void copies_take_turns(void **state) {
    (void)state;
    attn_problem problem;
    attn_problem_init(&problem, 1, 2, 1, 5, 7, 8, 24);
    bench_inputs inputs;
    bench_copies copies;
    assert_true(bench_inputs_make(&inputs, &problem, BENCH_NORMAL, 3));
    const double cold = 20000;
    assert_true(bench_copies_make(&copies, &inputs, cold));
    const double bytes =
        (double)(inputs.q_bytes + inputs.k_bytes + inputs.v_bytes) + 4 * (double)inputs.out_count;
    assert_true(copies.count > 1 && (double)(copies.count * copies.step_bytes) > cold);
    assert_true(bytes <= (double)copies.step_bytes && (double)copies.step_bytes < bytes + 4 * 64);
    for (int turn = 0; turn < 2; turn++) {
        for (int64_t i = 0; i < copies.count; i++) {
            attn_tensors t = inputs.tensors;
            bench_copies_next(&copies, &inputs, &t);
            assert_int_equal(t.out == inputs.out, i == 0);
            assert_memory_equal(t.q.data, inputs.q, (size_t)inputs.q_bytes);
            assert_memory_equal(t.k.data, inputs.k, (size_t)inputs.k_bytes);
            assert_memory_equal(t.v.data, inputs.v, (size_t)inputs.v_bytes);
            for (int64_t k = 0; k < inputs.out_count; k++) /* of this copy alone */
                t.out[k] = (float)(turn * copies.count + i);
        }
    }
    for (int64_t i = 0; i < copies.count; i++) {
        attn_tensors t = inputs.tensors;
        bench_copies_next(&copies, &inputs, &t);
        for (int64_t k = 0; k < inputs.out_count; k++)
            assert_true(t.out[k] == (float)(copies.count + i));
    }
    free(copies.memory);
    assert_true(bench_copies_make(&copies, &inputs, 0) && copies.count == 1 && !copies.memory);
    assert_true(bench_copies_make(&copies, &inputs, (double)copies.step_bytes) && copies.count == 1);
    bench_inputs_free(&inputs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_within_its_bounds),
        cmocka_unit_test(copies_take_turns),
    };
    return test_run("inputs", tests, COUNT_OF(tests));
}
