/* Packing and widening: exact layouts and values for every storage type, reading nothing outside the rows x
 * cols given and writing nothing outside the panels. */
#include "tests/support.h"

#include <math.h>
#include <string.h>

#include "reference/internal.h"
#include "tests/guard.h"

/* A stored matrix in a guarded buffer that ends with its last element; the gaps between rows are NaN. */
typedef struct matrix {
    guard buffer;
    attn_dtype dtype;
    int64_t rows, cols, stride;
} matrix;

/* Any bits are a value; `special` leaves NaN and infinities among them. */
static matrix matrix_new(int64_t rows, int64_t cols, int64_t gap, attn_dtype dtype, guard_place place,
                         bool special, test_rng *rng) {
    matrix m = {.dtype = dtype, .rows = rows, .cols = cols, .stride = cols + gap};
    const int64_t elements = rows > 0 ? (rows - 1) * m.stride + cols : 0;
    m.buffer = guard_new((size_t)elements * attn_dtype_bytes(dtype), place, attn_dtype_bytes(dtype));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            const int64_t at = r * m.stride + c;
            do {
                const uint64_t bits = test_random(rng);
                if (dtype != ATTN_F32)
                    ((uint16_t *)m.buffer.data)[at] = (uint16_t)bits;
                else if (special && bits % 8 == 0)
                    ((float *)m.buffer.data)[at] = bits & 64 ? NAN : bits & 128 ? INFINITY : -INFINITY;
                else
                    ((float *)m.buffer.data)[at] = (float)test_normal(rng);
            } while (!special && !isfinite(ref_load(m.buffer.data, dtype, at)));
        }
    guard_seal(&m.buffer);
    return m;
}

static float element(const matrix *m, int64_t row, int64_t col) {
    return (float)ref_load(m->buffer.data, m->dtype, row * m->stride + col);
}

static bool same(float a, float b) {
    return isnan(a) ? isnan(b) : memcmp(&a, &b, sizeof a) == 0;
}

typedef void pack_body(const attn_kernels *kernels, int64_t rows, int64_t cols, int64_t gap, attn_dtype dtype,
                       guard_place place, test_rng *rng);

/* Rows and columns around panels and vectors, each storage type, each place, with and without gaps. */
static void each_shape(const attn_kernels *kernels, const char *stream, pack_body *body) {
    const int64_t lanes = kernels->lanes, mr = kernels->mr, nr = kernels->nr;
    const int64_t rows[] = {0, 1, 2, mr - 1, mr, mr + 1, nr - 1, nr, nr + 1, 3 * nr + 2, 67};
    const int64_t cols[] = {1, 3, lanes - 1, lanes, lanes + 1, nr - 1, nr, nr + 1, 5 * lanes + 3, 80};
    for (size_t r = 0; r < COUNT_OF(rows); r++)
        for (size_t c = 0; c < COUNT_OF(cols); c++)
            for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++)
                for (int place = 0; place < GUARD_PLACES; place++) {
                    if (rows[r] < 0 || cols[c] < 1 || (test_quick() && (r + c + (size_t)dtype) % 3 != 0))
                        continue;
                    test_rng rng = test_rng_start(stream, r * 1000 + c * 10 + (uint64_t)dtype);
                    body(kernels, rows[r], cols[c], place * 3, (attn_dtype)dtype, (guard_place)place, &rng);
                }
}

#define shape_fail(what)                                                                                     \
    test_fail("%s: %d x %d + %d, dtype %d at %s", what, (int)rows, (int)cols, (int)gap, (int)dtype,          \
              guard_place_name[place])

/* ---- B panels from the rows of a matrix ------------------------------------------ */

static void pack_bt_one(const attn_kernels *kernels, int64_t rows, int64_t cols, int64_t gap,
                        attn_dtype dtype, guard_place place, test_rng *rng) {
    const int64_t nr = kernels->nr;
    matrix m = matrix_new(rows, cols, gap, dtype, place, true, rng);
    guard packed = guard_new((size_t)(test_round_up(rows, nr) * cols) * sizeof(float), place, sizeof(float));
    test_call(kernels->pack_bt(packed.data, m.buffer.data, dtype, m.stride, rows, cols));
    const float *p = packed.data;
    for (int64_t key = 0; key < test_round_up(rows, nr); key++)
        for (int64_t d = 0; d < cols; d++)
            if (!same(p[key / nr * nr * cols + d * nr + key % nr], key < rows ? element(&m, key, d) : 0.0f))
                shape_fail("pack_bt");
    assert_true(guard_intact(&packed));
    guard_free(&packed);
    guard_free(&m.buffer);
}

/* Guards: column c of the operand is row c of the matrix, in panels of nr, missing columns zero. */
static void pack_bt(void **state) {
    each_shape(test_kernels(state), "pack_bt", pack_bt_one);
}

/* ---- B panels from the columns of a matrix ----------------------------------------- */

static void pack_b_case(const attn_kernels *kernels, const matrix *m, guard_place place, int64_t below,
                        bool finite_only) {
    const int64_t nr = kernels->nr, rows = m->rows, cols = m->cols, gap = m->stride - m->cols;
    const attn_dtype dtype = m->dtype;
    const int64_t panels = test_round_up(cols, nr) / nr, panel_stride = (rows + below) * nr;
    const int64_t floats = rows > 0 ? (panels - 1) * panel_stride + rows * nr : 0;
    guard packed = guard_new((size_t)floats * sizeof(float), place, sizeof(float));
    bool found;
    test_call(found = kernels->pack_b(packed.data, panel_stride, m->buffer.data, dtype, m->stride, rows, cols,
                                      finite_only));
    const float *p = packed.data;
    bool expected_found = false;
    for (int64_t panel = 0; panel < panels; panel++)
        for (int64_t row = 0; row < rows + below; row++)
            for (int64_t c = 0; c < nr; c++) {
                const int64_t at = panel * panel_stride + row * nr + c, col = panel * nr + c;
                if (at >= floats)
                    continue;
                if (row >= rows) { /* rows that another call will write */
                    if (test_bits(p[at]) != UINT32_MAX)
                        shape_fail("pack_b writes between panels");
                    continue;
                }
                float expected = col < cols ? element(m, row, col) : 0.0f;
                expected_found |= !isfinite(expected);
                if (finite_only && !isfinite(expected))
                    expected = 0;
                if (!same(p[at], expected))
                    shape_fail("pack_b");
            }
    if (found != expected_found)
        shape_fail("pack_b: what it returns");
    assert_true(guard_intact(&packed));
    guard_free(&packed);
}

static void pack_b_one(const attn_kernels *kernels, int64_t rows, int64_t cols, int64_t gap, attn_dtype dtype,
                       guard_place place, test_rng *rng) {
    for (int special = 0; special < 2; special++) {
        matrix m = matrix_new(rows, cols, gap, dtype, place, special != 0, rng);
        pack_b_case(kernels, &m, place, 0, false);
        pack_b_case(kernels, &m, place, 5, true);
        guard_free(&m.buffer);
    }
}

/* Guards: layout with panels apart, NaN and Inf kept or stored as zero, and reported in both cases. */
static void pack_b(void **state) {
    each_shape(test_kernels(state), "pack_b", pack_b_one);
}

/* Guards: one NaN or Inf at any place is found, so that no masked value can leak by its position. */
static void pack_b_finds(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static float packed[5 * 128 + 64];
    const int64_t cols = kernels->nr + kernels->lanes + 1;
    assert_true(test_round_up(cols, kernels->nr) <= 128);
    for (int64_t at = 0; at < 5 * cols; at++)
        for (int inf = 0; inf < 2; inf++) {
            float values[5 * 128] = {0};
            values[at] = inf ? -INFINITY : NAN;
            assert_true(kernels->pack_b(packed, 5 * kernels->nr, values, ATTN_F32, cols, 5, cols, true));
            for (int64_t i = 0; i < 5 * test_round_up(cols, kernels->nr); i++)
                assert_true(packed[i] == 0);
            values[at] = 3.4e38f;
            assert_false(kernels->pack_b(packed, 5 * kernels->nr, values, ATTN_F32, cols, 5, cols, true));
        }
}

/* ---- A panels -------------------------------------------------------------------------- */

/* The layout is the level's own: read back through a product with the identity. */
static void pack_a_one(const attn_kernels *kernels, int64_t rows, int64_t cols, int64_t gap, attn_dtype dtype,
                       guard_place place, test_rng *rng) {
    enum { MOST = 128 };
    static float identity[MOST * MOST], packed_identity[MOST * MOST], c[MOST * MOST];
    if (cols > MOST || rows > MOST)
        return;
    matrix m = matrix_new(rows, cols, gap, dtype, place, false, rng);
    guard packed =
        guard_new((size_t)(test_round_up(rows, kernels->mr) * cols) * sizeof(float), place, sizeof(float));
    test_call(kernels->pack_a(packed.data, m.buffer.data, dtype, m.stride, rows, cols, 0.7f));
    assert_true(guard_intact(&packed));
    memset(identity, 0, sizeof identity);
    for (int64_t i = 0; i < cols; i++)
        identity[i * cols + i] = 1;
    kernels->pack_bt(packed_identity, identity, ATTN_F32, cols, cols, cols);
    kernels->matmul(rows, cols, cols, packed.data, packed_identity, cols * kernels->nr, c, cols, false);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t d = 0; d < cols; d++)
            if (c[r * cols + d] != element(&m, r, d) * 0.7f)
                shape_fail("pack_a");
    guard_free(&packed);
    guard_free(&m.buffer);
}

/* Guards: every element times the factor, rounded once, at its place. */
static void pack_a(void **state) {
    each_shape(test_kernels(state), "pack_a", pack_a_one);
}

/* ---- widen ------------------------------------------------------------------------------ */

/* Guards: all 65536 values of f16 and bf16 exactly, subnormals included; NaN stays NaN. */
static void widen_all(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static uint16_t stored[65536];
    static float wide[65536];
    for (int i = 0; i < 65536; i++)
        stored[i] = (uint16_t)i;
    for (int dtype = ATTN_F16; dtype <= ATTN_BF16; dtype++) {
        test_call(kernels->widen(wide, stored, (attn_dtype)dtype, 65536));
        for (int i = 0; i < 65536; i++)
            if (!same(wide[i], (float)ref_load(stored, (attn_dtype)dtype, i)))
                test_fail("dtype %d: 0x%04x widens to %g", dtype, i, (double)wide[i]);
    }
}

/* Guards: sizes of the family at guarded places. */
static void widen_sizes(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    int64_t sizes[TEST_SIZES];
    const int count = test_sizes(sizes, kernels->lanes, 0);
    for (int s = 0; s < count; s++)
        for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++)
            for (int place = 0; place < GUARD_PLACES; place++) {
                test_rng rng = test_rng_start("widen", (uint64_t)sizes[s]);
                matrix m = matrix_new(1, sizes[s], 0, (attn_dtype)dtype, (guard_place)place, true, &rng);
                guard wide = guard_new((size_t)sizes[s] * sizeof(float), (guard_place)place, sizeof(float));
                test_call(kernels->widen(wide.data, m.buffer.data, (attn_dtype)dtype, sizes[s]));
                for (int64_t i = 0; i < sizes[s]; i++)
                    if (!same(((float *)wide.data)[i], element(&m, 0, i)))
                        test_fail("n=%d, dtype %d: element %d", (int)sizes[s], dtype, (int)i);
                assert_true(guard_intact(&wide));
                guard_free(&wide);
                guard_free(&m.buffer);
            }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "pack_bt", pack_bt);
    test_add_levels(&list, "pack_b", pack_b);
    test_add_levels(&list, "pack_b finds what is not finite", pack_b_finds);
    test_add_levels(&list, "pack_a", pack_a);
    test_add_levels(&list, "widen all values", widen_all);
    test_add_levels(&list, "widen sizes", widen_sizes);
    return test_run_list("kernels_pack", &list);
}
