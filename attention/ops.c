/* The single operations of the public interface. */
#include "attention/environment.h"
#include "attention/internal.h"

#include <stdlib.h>
#include <string.h>

/* Floats under this name, unless there are none. */
static attn_status check_floats(const char *name, const float *data, bool any, attn_error *error) {
    if (any && !data)
        return attn_fail(error, ATTN_INVALID, "%s is NULL", name);
    return any ? attn_check_aligned(name, data, _Alignof(float), error) : ATTN_OK;
}

static attn_status check_matrix(const char *name, const float *data, int64_t rows, int64_t columns,
                                int64_t stride, attn_error *error) {
    const attn_status status = check_floats(name, data, rows > 0 && columns > 0, error);
    if (status != ATTN_OK)
        return status;
    if (rows > 1 && stride < columns)
        return attn_fail(error, ATTN_INVALID, "row stride of %s is %lld, must be at least its %lld columns",
                         name, (long long)stride, (long long)columns);
    return ATTN_OK;
}

static attn_status check_size(const char *name, int64_t size, attn_error *error) {
    if (size < 0 || size > ATTN_MAX_SIZE)
        return attn_fail(error, ATTN_INVALID, "%s is %lld, must be 0 to 2^40", name, (long long)size);
    return ATTN_OK;
}

static attn_status matmul(const char *isa, bool transposed, int64_t m, int64_t n, int64_t k, const float *a,
                          int64_t a_stride, const float *b, int64_t b_stride, float *c, int64_t c_stride,
                          attn_error *error) {
    const attn_kernels *kernels;
    attn_status status;
    if ((status = attn_dispatch(isa, &kernels, error)) != ATTN_OK ||
        (status = check_size("m", m, error)) != ATTN_OK || (status = check_size("n", n, error)) != ATTN_OK ||
        (status = check_size("k", k, error)) != ATTN_OK ||
        (status = check_matrix("matrix a", a, m, k, a_stride, error)) != ATTN_OK ||
        (status = check_matrix("matrix b", b, transposed ? n : k, transposed ? k : n, b_stride, error)) !=
            ATTN_OK ||
        (status = check_matrix("matrix c", c, m, n, c_stride, error)) != ATTN_OK)
        return status;
    if (m == 0 || n == 0)
        return ATTN_OK;
    const int64_t depth = attn_min(ATTN_STEP_DEPTH, attn_max(k, 1));
    const int64_t rows = kernels->query_tile, columns = attn_round_up(n, kernels->nr);
    const int64_t floats = depth * (rows + columns + kernels->nr); /* below 2^50, as n is checked */
    float *packed = aligned_alloc(ATTN_ALIGN_BYTES, (size_t)attn_round_up(floats * 4, ATTN_ALIGN_BYTES));
    if (!packed)
        return attn_fail(error, ATTN_NO_MEMORY, "no memory to pack %lld columns", (long long)n);
    float *packed_a = packed, *packed_b = packed + attn_round_up(depth * rows, 16);
    const uint64_t caller = attn_environment_enter();
    if (k == 0)
        for (int64_t i = 0; i < m; i++)
            memset(c + i * c_stride, 0, (size_t)n * sizeof *c);
    for (int64_t at = 0; at < k; at += depth) {
        const int64_t step = attn_min(depth, k - at);
        if (transposed)
            kernels->pack_bt(packed_b, b + at, ATTN_F32, b_stride, n, step);
        else
            kernels->pack_b(packed_b, step * kernels->nr, b + at * b_stride, ATTN_F32, b_stride, step, n,
                            false);
        for (int64_t i = 0; i < m; i += rows) {
            const int64_t count = attn_min(rows, m - i);
            kernels->pack_a(packed_a, a + i * a_stride + at, ATTN_F32, a_stride, count, step, 1.0f);
            kernels->matmul(count, n, step, packed_a, packed_b, step * kernels->nr, c + i * c_stride,
                            c_stride, at > 0);
        }
    }
    attn_environment_leave(caller);
    free(packed);
    return ATTN_OK;
}

attn_status attn_matmul_nt_f32(const char *isa, int64_t m, int64_t n, int64_t k, const float *a,
                               int64_t a_stride, const float *b, int64_t b_stride, float *c, int64_t c_stride,
                               attn_error *error) {
    return matmul(isa, true, m, n, k, a, a_stride, b, b_stride, c, c_stride, error);
}

attn_status attn_matmul_nn_f32(const char *isa, int64_t m, int64_t n, int64_t k, const float *a,
                               int64_t a_stride, const float *b, int64_t b_stride, float *c, int64_t c_stride,
                               attn_error *error) {
    return matmul(isa, false, m, n, k, a, a_stride, b, b_stride, c, c_stride, error);
}

/* The level's table, for rows of n elements. */
static attn_status row_op(const char *isa, int64_t n, const attn_kernels **kernels, attn_error *error) {
    const attn_status status = attn_dispatch(isa, kernels, error);
    return status == ATTN_OK ? check_size("n", n, error) : status;
}

/* The level's table, for n elements at x. */
static attn_status vector_op(const char *isa, int64_t n, const float *x, const attn_kernels **kernels,
                             attn_error *error) {
    const attn_status status = row_op(isa, n, kernels, error);
    return status == ATTN_OK ? check_floats("x", x, n > 0, error) : status;
}

attn_status attn_scale_f32(const char *isa, int64_t n, float factor, float *x, attn_error *error) {
    const attn_kernels *kernels;
    const attn_status status = vector_op(isa, n, x, &kernels, error);
    if (status != ATTN_OK)
        return status;
    const uint64_t caller = attn_environment_enter();
    kernels->scale(x, n, factor);
    attn_environment_leave(caller);
    return ATTN_OK;
}

attn_status attn_mask_f32(const char *isa, int64_t n, const uint8_t *mask, float *x, attn_error *error) {
    const attn_kernels *kernels;
    const attn_status status = vector_op(isa, n, x, &kernels, error);
    if (status != ATTN_OK)
        return status;
    if (n > 0 && !mask)
        return attn_fail(error, ATTN_INVALID, "mask is NULL");
    const uint64_t caller = attn_environment_enter();
    for (int64_t i = 0; i < n; i += 64) {
        const int64_t count = attn_min(64, n - i);
        const uint64_t bits = attn_nonzero_bits(mask + i, 1, count);
        kernels->mask(x + i, &bits, count);
    }
    attn_environment_leave(caller);
    return ATTN_OK;
}

attn_status attn_softmax_f32(const char *isa, int64_t rows, int64_t n, float *x, int64_t stride,
                             attn_error *error) {
    const attn_kernels *kernels;
    attn_status status = row_op(isa, n, &kernels, error);
    if (status != ATTN_OK || (status = check_size("rows", rows, error)) != ATTN_OK ||
        (status = check_matrix("matrix x", x, rows, n, stride, error)) != ATTN_OK)
        return status;
    const uint64_t caller = attn_environment_enter();
    for (int64_t r = 0; r < rows && n > 0; r++) {
        float row_max, row_sum;
        kernels->softmax(x + r * stride, n, -INFINITY, &row_max, &row_sum);
    }
    attn_environment_leave(caller);
    return ATTN_OK;
}

attn_status attn_exp_f32(const char *isa, int64_t n, const float *x, float *y, attn_error *error) {
    const attn_kernels *kernels;
    attn_status status = vector_op(isa, n, x, &kernels, error);
    if (status != ATTN_OK || (status = check_floats("y", y, n > 0, error)) != ATTN_OK)
        return status;
    const uint64_t caller = attn_environment_enter();
    kernels->exp(y, x, n);
    attn_environment_leave(caller);
    return ATTN_OK;
}
