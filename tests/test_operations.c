/* The single operations of the public interface: values, strides, surroundings and refusals, at every level.
 * The kernels behind them have their own tests; here it is what the interface adds that is in question. */
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reference/reference.h"
#include "tests/guard.h"

/* The public name of the running level; skips the test where it cannot run. */
static const char *isa_of(void **state) {
    return test_kernels(state)->name;
}

/* rows x cols normals in a guarded buffer whose rows are `stride` apart; NaN between them. */
static guard matrix(int64_t rows, int64_t cols, int64_t stride, guard_place place, const char *stream) {
    const int64_t floats = rows > 0 && cols > 0 ? (rows - 1) * stride + cols : 0;
    guard g = guard_new((size_t)floats * sizeof(float), place, sizeof(float));
    test_rng rng = test_rng_start(stream, (uint64_t)(rows * 1000 + cols));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            ((float *)g.data)[r * stride + c] = (float)test_normal(&rng);
    return g;
}

static void free_intact(guard *g) {
    assert_true(guard_intact(g));
    guard_free(g);
}

/* ---- products ----------------------------------------------------------------------- */

static double matmul_used;

static void matmul_case(const char *isa, bool transposed, int64_t m, int64_t n, int64_t k, int64_t gap,
                        guard_place place) {
    const int64_t a_stride = k + gap, b_stride = (transposed ? k : n) + gap, c_stride = n + 2 * gap;
    guard a = matrix(m, k, a_stride, place, "a");
    guard b = transposed ? matrix(n, k, b_stride, place, "b") : matrix(k, n, b_stride, place, "b");
    const int64_t c_floats = m > 0 && n > 0 ? (m - 1) * c_stride + n : 0;
    guard c = guard_new((size_t)c_floats * sizeof(float), place, sizeof(float));
    guard_seal(&a);
    guard_seal(&b);
    const float *x = a.data, *y = b.data, *z = c.data;
    attn_error error = {""};
    attn_status status;
    if (transposed)
        test_call(status =
                      attn_matmul_nt_f32(isa, m, n, k, x, a_stride, y, b_stride, c.data, c_stride, &error));
    else
        test_call(status =
                      attn_matmul_nn_f32(isa, m, n, k, x, a_stride, y, b_stride, c.data, c_stride, &error));
    if (status != ATTN_OK)
        test_fail("%s", error.text);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < (n > 0 && i + 1 < m ? c_stride : n); j++) {
            const float actual = z[i * c_stride + j];
            double sum = 0, size = 0;
            for (int64_t l = 0; l < k && j < n; l++) {
                const double product =
                    (double)x[i * a_stride + l] * y[transposed ? j * b_stride + l : l * b_stride + j];
                sum += product;
                size += fabs(product);
            }
            const double tolerance = (double)k * 0x1p-23 * size, error_size = fabs(actual - sum);
            if (j < n ? !(error_size <= tolerance) : !isnan(actual))
                test_fail("%s %dx%dx%d + %d at %s: c[%d][%d] = %.9g, expected %.9g +- %g",
                          transposed ? "nt" : "nn", (int)m, (int)n, (int)k, (int)gap, guard_place_name[place],
                          (int)i, (int)j, (double)actual, sum, tolerance);
            if (j < n && tolerance > 0)
                matmul_used = fmax(matmul_used, error_size / tolerance);
        }
    free_intact(&a);
    free_intact(&b);
    free_intact(&c);
}

/* Guards: both products for shapes around tiles and past one packed block of depth and rows, with gaps
 * between rows that are neither read nor written; depth 0 gives zeros; the documented bound. */
static void matmul(void **state) {
    const char *isa = isa_of(state);
    static const int64_t sizes[][3] = {{0, 5, 3},   {5, 0, 3},    {3, 4, 0},    {1, 1, 1},     {2, 3, 5},
                                       {7, 16, 8},  {17, 33, 9},  {64, 64, 64}, {65, 63, 129}, {200, 31, 70},
                                       {5, 7, 511}, {3, 40, 512}, {4, 9, 513},  {70, 5, 1100}};
    matmul_used = 0;
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (int place = 0; place < GUARD_PLACES; place++)
            for (int transposed = 0; transposed < 2; transposed++)
                matmul_case(isa, transposed, sizes[s][0], sizes[s][1], sizes[s][2], place * 3,
                            (guard_place)place);
    test_note("%s: used %.3f of the documented bound", isa, matmul_used);
}

/* ---- rows ----------------------------------------------------------------------------- */

/* Guards: scale and mask change every element of their own and no other; any nonzero byte of a mask is true.
 */
static void scale_and_mask(void **state) {
    const char *isa = isa_of(state);
    static const int64_t sizes[] = {0, 1, 7, 63, 64, 65, 200};
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (int place = 0; place < GUARD_PLACES; place++) {
            const int64_t n = sizes[s];
            guard x = matrix(n > 0, n, n, (guard_place)place, "x"),
                  before = matrix(n > 0, n, n, GUARD_BACK, "x");
            guard mask = guard_new((size_t)n, (guard_place)place, 1);
            for (int64_t i = 0; i < n; i++)
                ((uint8_t *)mask.data)[i] = (uint8_t)(i % 3 ? 1 << (i % 8) : 0);
            guard_seal(&mask);
            assert_int_equal(attn_scale_f32(isa, n, 0.5f, x.data, NULL), ATTN_OK);
            assert_int_equal(attn_mask_f32(isa, n, mask.data, x.data, NULL), ATTN_OK);
            for (int64_t i = 0; i < n; i++)
                assert_true(((float *)x.data)[i] == (i % 3 ? 0.5f * ((float *)before.data)[i] : -INFINITY));
            free_intact(&x);
            free_intact(&before);
            free_intact(&mask);
        }
}

/* Guards: rows a stride apart are each a softmax of their own; a row of -inf becomes zeros; gaps untouched.
 */
static void softmax(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int64_t sizes[] = {0, 1, 2, 15, 16, 17, 100, 257};
    const int64_t rows = 4;
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (int place = 0; place < GUARD_PLACES; place++) {
            const int64_t n = sizes[s], stride = n + 3 * place;
            guard x = matrix(rows, n, stride, (guard_place)place, "softmax");
            guard before = matrix(rows, n, stride, GUARD_BACK, "softmax");
            float *actual = x.data, *given = before.data;
            for (int64_t j = 0; j < n; j++)
                actual[2 * stride + j] = given[2 * stride + j] = -INFINITY;
            assert_int_equal(attn_softmax_f32(kernels->name, rows, n, actual, stride, NULL), ATTN_OK);
            for (int64_t r = 0; r < rows; r++) {
                double max = -INFINITY, sum = 0;
                for (int64_t j = 0; j < n; j++)
                    max = given[r * stride + j] > max ? given[r * stride + j] : max;
                for (int64_t j = 0; j < n && r != 2; j++)
                    sum += exp(given[r * stride + j] - max);
                for (int64_t j = 0; j < n; j++) {
                    const double spread = r == 2 ? (double)INFINITY : max - given[r * stride + j];
                    const double expected = r == 2 ? 0 : exp(-spread) / sum;
                    const double bound = ref_softmax_tolerance(expected, spread, n, kernels->lanes);
                    assert_true(fabs(actual[r * stride + j] - expected) <= bound);
                }
                for (int64_t j = n; j < stride && r + 1 < rows && n > 0; j++)
                    assert_true(isnan(actual[r * stride + j]));
            }
            free_intact(&x);
            free_intact(&before);
        }
}

/* Guards: exp through the interface is the kernel's, in place too. */
static void exponential(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    float x[77], y[77], expected[77];
    for (int i = 0; i < 77; i++)
        x[i] = (float)(3 * i - 115);
    kernels->exp(expected, x, 77);
    assert_int_equal(attn_exp_f32(kernels->name, 77, x, y, NULL), ATTN_OK);
    assert_memory_equal(y, expected, sizeof y);
    assert_int_equal(attn_exp_f32(kernels->name, 77, x, x, NULL), ATTN_OK);
    assert_memory_equal(x, expected, sizeof x);
}

/* Guards: the operations composed as a textbook would are attention: q = k = 3, causal, against the same by
 * hand. */
static void composed(void **state) {
    const char *isa = isa_of(state);
    const float q[] = {1, 0, 0, 1, 1, 1}, k[] = {2, 0, 0, 3, 1, 1}, v[] = {1, 10, 100};
    const uint8_t causal[] = {1, 0, 0, 1, 1, 0, 1, 1, 1};
    float scores[9], out[3];
    assert_int_equal(attn_matmul_nt_f32(isa, 3, 3, 2, q, 2, k, 2, scores, 3, NULL), ATTN_OK);
    assert_int_equal(attn_scale_f32(isa, 9, 0.5f, scores, NULL), ATTN_OK);
    assert_int_equal(attn_mask_f32(isa, 9, causal, scores, NULL), ATTN_OK);
    assert_int_equal(attn_softmax_f32(isa, 3, 3, scores, 3, NULL), ATTN_OK);
    assert_int_equal(attn_matmul_nn_f32(isa, 3, 1, 3, scores, 3, v, 1, out, 1, NULL), ATTN_OK);
    assert_true(scores[0] == 1 && scores[1] == 0 && scores[2] == 0 && scores[5] == 0);
    const double second = exp(1.5), third[] = {exp(1.0), exp(1.5), exp(1.0)};
    assert_true(out[0] == 1);
    assert_true(fabs(out[1] - (1 + 10 * second) / (1 + second)) < 1e-5);
    assert_true(
        fabs(out[2] - (third[0] + 10 * third[1] + 100 * third[2]) / (third[0] + third[1] + third[2])) < 1e-4);
}

enum { OPERANDS = 11 }; /* pointers to floats, of all operations */

/* The operation that has this operand, which is `moved`, with n elements or n x n. */
static attn_status call_operation(const char *isa, int operand, int64_t n, float *moved, attn_error *error) {
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    const uint8_t mask[4] = {1, 0, 1, 0};
    float *a = operand % 3 == 0 ? moved : x, *b = operand % 3 == 1 ? moved : x,
          *c = operand % 3 == 2 ? moved : y;
    switch (operand) {
    case 0:
    case 1:
    case 2:
        return attn_matmul_nt_f32(isa, n, n, n, a, 2, b, 2, c, 2, error);
    case 3:
    case 4:
    case 5:
        return attn_matmul_nn_f32(isa, n, n, n, a, 2, b, 2, c, 2, error);
    case 6:
        return attn_scale_f32(isa, n, 2, moved, error);
    case 7:
        return attn_mask_f32(isa, n, mask, moved, error);
    case 8:
        return attn_softmax_f32(isa, n, n, moved, 2, error);
    case 9:
        return attn_exp_f32(isa, n, moved, y, error);
    default:
        return attn_exp_f32(isa, n, x, moved, error);
    }
}

/* Guards: floats that are not aligned to their size are refused by name, by every operation for every one of
 * its operands, and nothing is written; where there are no elements, no address is looked at. A mask's bytes
 * lie anywhere. */
static void alignment(void **state) {
    const char *isa = isa_of(state);
    static const char *const names[OPERANDS] = {"matrix a", "matrix b", "matrix c", "matrix a",
                                                "matrix b", "matrix c", "x",        "x",
                                                "matrix x", "x",        "y"};
    for (int operand = 0; operand < OPERANDS; operand++)
        for (int off = 0; off < 4; off++) {
            float buffer[5] = {1, 2, 3, 4, 5};
            const float before[5] = {1, 2, 3, 4, 5};
            float *moved = (float *)(void *)((char *)buffer + off);
            attn_error error = {""};
            char text[sizeof error.text];
            snprintf(text, sizeof text, "%s is at %p, must be aligned to its elements of 4 bytes",
                     names[operand], (void *)moved);
            assert_int_equal(call_operation(isa, operand, 0, moved, &error), ATTN_OK);
            assert_int_equal(call_operation(isa, operand, 2, moved, &error), off ? ATTN_INVALID : ATTN_OK);
            assert_string_equal(error.text, off ? text : "");
            if (off)
                assert_memory_equal(buffer, before, sizeof buffer);
            if (off)
                assert_int_equal(call_operation(isa, operand, 2, moved, NULL), ATTN_INVALID);
        }
    float x[5] = {1, 1, 1, 1, 1};
    const uint8_t mask[9] = {0};
    for (int off = 0; off < 4; off++)
        assert_int_equal(attn_mask_f32(isa, 5, mask + off, x, NULL), ATTN_OK);
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "matmul", matmul);
    test_add_levels(&list, "scale and mask", scale_and_mask);
    test_add_levels(&list, "softmax", softmax);
    test_add_levels(&list, "exp", exponential);
    test_add_levels(&list, "composed", composed);
    test_add_levels(&list, "alignment", alignment);
    return test_run_list("operations", &list);
}
