/* The kernels of every level, through the public single operations. */
#include "cli/verify.h"
#include "dispatch/dispatch.h"
#include "reference/reference.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])

static const float canary = -12345.5f;
static const double eps = 0x1p-23; /* as in the public header */

/* Buffers of one case of any operation: inputs, one result, what it should be. */
typedef struct buffers {
    float *a, *b, *result;
    double *expected, *tolerance;
    uint8_t *mask;
} buffers;

static bool buffers_init(buffers *x, verify_run *run, int64_t a, int64_t b, int64_t results) {
    *x = (buffers){verify_alloc(run, a, sizeof(float)),        verify_alloc(run, b, sizeof(float)),
                   verify_alloc(run, results, sizeof(float)),  verify_alloc(run, results, sizeof(double)),
                   verify_alloc(run, results, sizeof(double)), verify_alloc(run, results, 1)};
    return !run->no_memory;
}

static void buffers_free(buffers *x) {
    free(x->a);
    free(x->b);
    free(x->result);
    free(x->expected);
    free(x->tolerance);
    free(x->mask);
}

/* ---- Matrix products ---- */

static void matmul_case(verify_run *run, bool transposed, int64_t m, int64_t n, int64_t k, uint64_t stream) {
    /* Rows are apart by more than their length; what lies between must stay. */
    const int64_t a_stride = k + 3, b_rows = transposed ? n : k, b_stride = (transposed ? k : n) + 1,
                  c_stride = n + 2;
    buffers x;
    if (buffers_init(&x, run, m * a_stride, b_rows * b_stride, m * c_stride)) {
        verify_random random = verify_seed(run, stream);
        for (int64_t i = 0; i < m * a_stride; i++)
            x.a[i] = verify_normal(&random);
        for (int64_t i = 0; i < b_rows * b_stride; i++)
            x.b[i] = verify_normal(&random);
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < c_stride; j++) {
                double sum = j < n ? 0 : canary, magnitude = 0;
                for (int64_t d = 0; j < n && d < k; d++) {
                    double b = transposed ? x.b[j * b_stride + d] : x.b[d * b_stride + j];
                    sum += (double)x.a[i * a_stride + d] * b;
                    magnitude += fabs((double)x.a[i * a_stride + d] * b);
                }
                x.expected[i * c_stride + j] = sum;
                x.tolerance[i * c_stride + j] = (double)k * eps * magnitude;
            }
        }
        char what[64];
        snprintf(what, sizeof what, "m=%lld n=%lld k=%lld", (long long)m, (long long)n, (long long)k);
        verify_row *row = verify_row_of(run, transposed ? "matmul A B^T" : "matmul A B", "-");
        for (int level = 0; level < run->level_count; level++) {
            for (int64_t i = 0; i < m * c_stride; i++)
                x.result[i] = canary;
            attn_error error;
            attn_status status = transposed ? attn_matmul_nt_f32(run->levels[level], m, n, k, x.a, a_stride,
                                                                 x.b, b_stride, x.result, c_stride, &error)
                                            : attn_matmul_nn_f32(run->levels[level], m, n, k, x.a, a_stride,
                                                                 x.b, b_stride, x.result, c_stride, &error);
            if (status != ATTN_OK)
                verify_fail(run, row, level, what, error.text);
            else
                verify_compare(run, row, level, what, x.result, x.expected, x.tolerance, m * c_stride);
        }
    }
    buffers_free(&x);
}

static void verify_matmul(verify_run *run) {
    static const int64_t sizes[] = {1,  2,  3,  5,  7,  8,  9,  13, 15,  16, 17,
                                    24, 31, 32, 33, 48, 63, 64, 65, 100, 129};
    verify_progress(run, "matmul");
    for (int i = 0; i < COUNT(sizes); i += run->quick ? 3 : 1) {
        int64_t m = sizes[i], n = sizes[(i * 4 + 7) % COUNT(sizes)], k = sizes[(i * 10 + 3) % COUNT(sizes)];
        matmul_case(run, true, m, n, k, UINT64_C(1000) + (uint64_t)i);
        matmul_case(run, false, m, n, k, UINT64_C(2000) + (uint64_t)i);
    }
    /* Deeper than any packed block. */
    matmul_case(run, true, 3, 5, 1500, 3000);
    matmul_case(run, false, 3, 5, 1500, 3001);
}

/* ---- Rows ---- */

typedef enum row_kind {
    ROW_NORMAL,
    ROW_WIDE,
    ROW_EQUAL,
    ROW_RISING,
    ROW_MASKED,
    ROW_EMPTY,
    ROW_KINDS
} row_kind;
static const char *const row_names[ROW_KINDS] = {"normal", "wide",        "equal",
                                                 "rising", "partly -inf", "all -inf"};

static void fill_row(float *x, int64_t n, row_kind kind, verify_random *random) {
    for (int64_t i = 0; i < n; i++) {
        float normal = verify_normal(random);
        bool masked =
            kind == ROW_EMPTY || (kind == ROW_MASKED && (i < n / 2 || verify_uniform(random) < 0.5));
        x[i] = masked               ? -INFINITY
               : kind == ROW_WIDE   ? 20 * normal
               : kind == ROW_EQUAL  ? 3.5f
               : kind == ROW_RISING ? 0.5f * (float)i
                                    : normal;
    }
}

static void softmax_expected(const float *x, int64_t n, int lanes, double *expected, double *tolerance) {
    double maximum = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        maximum = fmax(maximum, x[i]);
    for (int64_t i = 0; i < n && maximum > -INFINITY; i++)
        sum += exp(x[i] - maximum);
    for (int64_t i = 0; i < n; i++) {
        bool none = isinf(x[i]);
        expected[i] = none ? 0 : exp(x[i] - maximum) / sum;
        tolerance[i] = ref_softmax_tolerance(expected[i], none ? INFINITY : maximum - x[i], n, lanes);
    }
}

static void softmax_case(verify_run *run, int64_t n, row_kind kind, uint64_t stream) {
    buffers x;
    if (buffers_init(&x, run, n, 1, n)) {
        verify_random random = verify_seed(run, stream);
        fill_row(x.a, n, kind, &random);
        char what[64];
        snprintf(what, sizeof what, "n=%lld %s", (long long)n, row_names[kind]);
        verify_row *row = verify_row_of(run, "softmax", "-");
        for (int level = 0; level < run->level_count; level++) {
            const attn_kernels *kernels;
            attn_error error;
            memcpy(x.result, x.a, (size_t)n * sizeof *x.a);
            if (attn_dispatch(run->levels[level], &kernels, &error) != ATTN_OK ||
                attn_softmax_f32(run->levels[level], 1, n, x.result, n, &error) != ATTN_OK) {
                verify_fail(run, row, level, what, error.text);
                continue;
            }
            softmax_expected(x.a, n, kernels->lanes, x.expected, x.tolerance);
            verify_compare(run, row, level, what, x.result, x.expected, x.tolerance, n);
        }
    }
    buffers_free(&x);
}

static void verify_softmax(verify_run *run) {
    static const int64_t sizes[] = {1,  2,  3,  4,  5,  7,  8,   9,   15,   16,  17,
                                    31, 32, 33, 63, 64, 65, 127, 129, 1000, 4099};
    verify_progress(run, "softmax");
    for (int i = 0; i < COUNT(sizes); i += run->quick ? 2 : 1) {
        for (int kind = 0; kind < ROW_KINDS; kind++)
            softmax_case(run, sizes[i], kind, UINT64_C(4000) + (uint64_t)(i * ROW_KINDS + kind));
    }
}

/* scale and mask are exact: one rounding, or a copy. */
static void elementwise_case(verify_run *run, bool scale, int64_t n, uint64_t stream) {
    buffers x;
    if (buffers_init(&x, run, n, 1, n)) {
        verify_random random = verify_seed(run, stream);
        const float factor = 0.3f * verify_normal(&random);
        for (int64_t i = 0; i < n; i++) {
            x.a[i] = verify_normal(&random);
            x.mask[i] = verify_bits(&random) % 3 ? (uint8_t)(1 + i % 255) : 0; /* anything but 0 attends */
            x.expected[i] = scale ? (float)((double)x.a[i] * factor) : x.mask[i] ? x.a[i] : -INFINITY;
        }
        char what[32];
        snprintf(what, sizeof what, "n=%lld", (long long)n);
        verify_row *row = verify_row_of(run, scale ? "scale" : "mask", "-");
        for (int level = 0; level < run->level_count; level++) {
            attn_error error;
            memcpy(x.result, x.a, (size_t)n * sizeof *x.a);
            attn_status status = scale ? attn_scale_f32(run->levels[level], n, factor, x.result, &error)
                                       : attn_mask_f32(run->levels[level], n, x.mask, x.result, &error);
            if (status != ATTN_OK)
                verify_fail(run, row, level, what, error.text);
            else
                verify_compare(run, row, level, what, x.result, x.expected, x.tolerance, n);
        }
    }
    buffers_free(&x);
}

/* ---- exp ---- */

/* What e^x must be and how exactly; false where two answers are right (the borders' last digits). */
static bool exp_expected(float x, double *expected, double *tolerance) {
    *tolerance = 0;
    if (isnan(x)) {
        *expected = x;
        return true;
    }
    if (x < -87.34f || x > 88.73f) {
        *expected = x < 0 ? 0 : INFINITY;
        return true;
    }
    if (x < -87.33f || x > 88.72f)
        return false;
    *expected = exp(x);
    *tolerance = 2 * ldexp(1, ilogb(*expected) - 23);
    return true;
}

static void verify_exp(verify_run *run) {
    static const float special[] = {0.0f,    -0.0f,    INFINITY, -INFINITY, NAN,     1e-40f,
                                    -1e-40f, FLT_MAX,  -FLT_MAX, 88.72f,    -87.33f, 88.73f,
                                    -87.34f, -1000.0f, 1000.0f,  -104.0f};
    verify_progress(run, "exp");
    const int64_t spread = run->quick ? 20000 : 200003, n = spread + COUNT(special);
    buffers x;
    if (buffers_init(&x, run, n, 1, n)) {
        verify_random random = verify_seed(run, 5000);
        int64_t kept = 0;
        for (int64_t i = 0; i < n; i++) {
            /* One value from each of `spread` equal parts of -110..90. */
            double at = ((double)i + verify_uniform(&random)) / (double)spread;
            x.a[kept] = i < spread ? (float)(-110 + 200 * at) : special[i - spread];
            kept += exp_expected(x.a[kept], &x.expected[kept], &x.tolerance[kept]);
        }
        char what[64];
        snprintf(what, sizeof what, "%lld values from -110 to 90", (long long)kept);
        verify_row *row = verify_row_of(run, "exp", "-");
        for (int level = 0; level < run->level_count; level++) {
            attn_error error;
            if (attn_exp_f32(run->levels[level], kept, x.a, x.result, &error) != ATTN_OK)
                verify_fail(run, row, level, what, error.text);
            else
                verify_compare(run, row, level, what, x.result, x.expected, x.tolerance, kept);
        }
    }
    buffers_free(&x);
}

void verify_kernels(verify_run *run) {
    verify_matmul(run);
    for (int64_t n = 1; n <= 70; n += run->quick ? 3 : 1) {
        elementwise_case(run, true, n, UINT64_C(6000) + (uint64_t)n);
        elementwise_case(run, false, n, UINT64_C(7000) + (uint64_t)n);
    }
    verify_softmax(run);
    verify_exp(run);
}
