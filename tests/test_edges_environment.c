/* What a call finds and leaves: the caller's floating-point environment, and no subnormal numbers on the way.
 * At each ISA level with each algorithm; each test names the public report of the fault that it would find.
 */
#include "tests/support.h"

#include <math.h>

#include "tests/edges.h"

/* ---- the floating-point environment -------------------------------------------------------------- */

/* Guards: a call leaves the control state as it found it, whatever it was, and does not depend on how the
 * caller treats subnormals: the same bits with flushing on, half-precision subnormals among the inputs
 * included. (case_execute compares the control state before and after.) */
static void environment(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++)
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++)
                for (int threads = 1; threads <= 2; threads++) {
                    case_spec s = edge_spec(place);
                    s.dtype = (attn_dtype)dtype;
                    s.inputs = ATTN_HAS_BIAS | ATTN_HAS_ALIBI | ATTN_HAS_SINK_LOGIT | ATTN_HAS_MASK;
                    s.softcap = 4;
                    attention_case *c = case_new(&s);
                    for (int64_t j = 0; dtype == ATTN_F16 && j < s.keys; j += 3) {
                        case_set(c, &c->tensors.k, 0, 0, j, 1, 0x1p-20f);
                        case_set(c, &c->tensors.v, 0, 0, j, 1, -0x3p-24f);
                    }
                    edge_result usual = edge_execute(c, kernels->name, edge_algorithms[a], threads);
                    test_fp_flush(true);
                    const uint64_t before = test_fp_control();
                    edge_result flushed = edge_execute(c, kernels->name, edge_algorithms[a], threads);
                    const uint64_t after = test_fp_control();
                    test_fp_flush(false);
                    assert_true(before == after);
                    edge_expect_same(c, &usual, &flushed, "with subnormals flushed");
                    edge_free(&usual);
                    edge_free(&flushed);
                    case_free(c);
                }
}

/* ---- subnormals --------------------------------------------------------------------------------------- */

/* One key with a score of 0, key `peak`; the others' lie in -103..-90, where exponentials would be subnormal.
 * With a scale of 1, a query of ones in one element, and keys that hold their scores there. */
static attention_case *tails_case(size_t place, int64_t peak, bool ordinary) {
    case_spec s = edge_spec(place);
    s.batch = 1;
    s.scale = 1;
    attention_case *c = case_new(&s);
    test_rng rng = test_rng_start("tails", place);
    edge_fill(c, &c->tensors.q, 0);
    edge_fill(c, &c->tensors.k, 0);
    for (int64_t h = 0; h < s.heads; h++)
        for (int64_t i = 0; i < s.queries; i++)
            case_set(c, &c->tensors.q, 0, h, i, 4, 1);
    for (int64_t h = 0; h < s.kv_heads; h++)
        for (int64_t j = 0; j < s.keys; j++) {
            const double tail = ordinary ? test_normal(&rng) : -90 - 13 * test_uniform(&rng);
            case_set(c, &c->tensors.k, 0, h, j, 4, j == peak && !ordinary ? 0 : (float)tail);
        }
    return c;
}

/* Between the two, whether an arithmetic operation took or made a subnormal number, by the CPU's own flags:
 * that is what costs a hundred times the time. AArch64 tells of operands only while it flushes them, which a
 * call of the library switches off: of its operands only x86 tells. */
static void watch_subnormals(void) {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~0x3fu);
#elif defined(__aarch64__)
    test_fp_flush(true);
    __asm__ volatile("msr fpsr, %0" : : "r"((uint64_t)0));
#endif
}

static bool met_subnormals(void) {
#if defined(__x86_64__)
    const unsigned operand = 1 << 1, underflow = 1 << 4;
    return __builtin_ia32_stmxcsr() & (operand | underflow);
#elif defined(__aarch64__)
    const uint64_t underflow = 1 << 3, operand = 1 << 7;
    uint64_t status;
    __asm__ volatile("mrs %0, fpsr" : "=r"(status));
    test_fp_flush(false);
    return status & (operand | underflow);
#else
    test_skip("no flags to read on this architecture");
#endif
}

/* Guards: scores of -103..-90 beside 0 (funes#160, oneDNN#561) make no subnormal numbers, which take a
 * hundred times as long: the row is exactly the value of the key that has the weight, and no operation takes
 * or makes a subnormal number. The peak lies in the first tile or split, in the middle, in the last. */
static void no_subnormals(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (int where = 0; where < 3; where++) {
            const int64_t peak = where * (edge_places[place].keys - 1) / 2;
            attention_case *c = tails_case(place, peak, false);
            const case_spec *s = &c->spec;
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                attn_plan *plan = edge_plan(c, kernels->name, edge_algorithms[a]);
                watch_subnormals();
                assert_int_equal(attn_execute(plan, &c->tensors, NULL, 1, NULL), ATTN_OK);
                if (met_subnormals())
                    test_fail("%s, peak at %d: %s meets subnormal numbers", edge_places[place].name,
                              (int)peak, attn_algorithm_name(edge_algorithms[a]));
                attn_plan_destroy(plan);
                for (int64_t row = 0; row < s->heads * s->queries; row++) {
                    const float *v =
                        (float *)c->v.data + (row / s->queries / 2 * s->keys + peak) * s->value_dim;
                    assert_memory_equal(c->tensors.out + row * s->value_dim, v,
                                        (size_t)s->value_dim * sizeof *v);
                    assert_true(c->tensors.lse[row] == 0);
                }
            }
            case_free(c);
        }
}

/* Guards: weights that are subnormal though their exponentials are not: those of scores of -87..-80 beside
 * many of 0, whose sum divides them. None is made in any algorithm, nor does a value meet one. */
static void no_subnormal_weights(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++) {
        attention_case *c = tails_case(place, 0, false);
        const case_spec *s = &c->spec;
        test_rng rng = test_rng_start("weights", place);
        for (int64_t h = 0; h < s->kv_heads; h++)
            for (int64_t j = 0; j < s->keys; j++)
                case_set(c, &c->tensors.k, 0, h, j, 4, j % 2 ? -80 - 7 * (float)test_uniform(&rng) : 0);
        edge_fill(c, &c->tensors.v, 1.5f); /* no product with it is subnormal where the weight is not */
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            attn_plan *plan = edge_plan(c, kernels->name, edge_algorithms[a]);
            watch_subnormals();
            assert_int_equal(attn_execute(plan, &c->tensors, NULL, 1, NULL), ATTN_OK);
            if (met_subnormals())
                test_fail("%s: %s meets subnormal numbers", edge_places[place].name,
                          attn_algorithm_name(edge_algorithms[a]));
            attn_plan_destroy(plan);
        }
        case_free(c);
    }
}

/* Guards: the same for the single operations: the exponential gives exact zeros there, softmax exactly 1 and
 * 0. */
static void no_subnormals_alone(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    float x[257], y[257];
    for (int n = 1; n <= 257; n += n < 70 ? 1 : 17) {
        for (int i = 0; i < n; i++)
            x[i] = -90 - 13 * (float)i / 257;
        watch_subnormals();
        assert_int_equal(attn_exp_f32(kernels->name, n, x, y, NULL), ATTN_OK);
        for (int i = 0; i < n; i++)
            assert_true(y[i] == 0 && !signbit(y[i]));
        x[n / 2] = 0;
        assert_int_equal(attn_softmax_f32(kernels->name, 1, n, x, n, NULL), ATTN_OK);
        for (int i = 0; i < n; i++)
            assert_true(x[i] == (i == n / 2));
        assert_false(met_subnormals());
        /* Weights whose exponentials are normal numbers, at every place of a vector. */
        for (int i = 0; i < n; i++)
            x[i] = i % 3 == 0 ? 0 : -87 + (float)i / 257;
        watch_subnormals();
        assert_int_equal(attn_softmax_f32(kernels->name, 1, n, x, n, NULL), ATTN_OK);
        assert_false(met_subnormals());
        for (int i = 0; i < n; i++)
            assert_true(x[i] == 0 || x[i] >= 0x1p-126f);
    }
}

/* Guards: the flags that the two tests above read are raised by what they must find. */
static void subnormals_are_seen(void **state) {
    volatile float tiny = 0x1p-130f, small = 0x1p-100f, one = 1;
    watch_subnormals();
    one = one + 1;
    assert_false(met_subnormals());
    watch_subnormals();
    one = tiny * 3;
    const bool seen = met_subnormals();
    if (!seen && test_quick()) /* qemu tells of x86 operands never; a processor has to */
        test_skip("this emulator does not raise the flag for operands that are subnormal");
    assert_true(seen);
    watch_subnormals();
    one = small / 3e10f;
    assert_true(met_subnormals());
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "floating-point environment", environment);
    test_add_levels(&list, "no subnormals", no_subnormals);
    test_add_levels(&list, "no subnormal weights", no_subnormal_weights);
    test_add_levels(&list, "no subnormals in single operations", no_subnormals_alone);
    test_add(&list, "subnormals are seen", subnormals_are_seen);
    return test_run_list("edges_environment", &list);
}
