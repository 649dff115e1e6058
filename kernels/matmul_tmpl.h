/* The matrix product: a register tile of MR rows x 2 vectors of columns, and the loops around it.
 *
 * Parameters, set by <isa>.c before vec_<isa>.h is included:
 *   MR           rows of a register tile: 4, 6, 8, 12 or 14 (a multiple of 4 for NEON); less than VL or a
 *                multiple of it
 *   VF_PANEL_ROW and vf_panel, where vec_<isa>.h has better ones than those below
 *
 * The accumulators are named variables, not an array: compilers keep names in registers, while an
 * array indexed by an unrolled loop ends up in memory as often as not. Every element of C is the sum of
 * chains of FMAs over ascending k, cut every ATTN_MATMUL_DEPTH, full tile or edge, so a row's result is the
 * same wherever it lies. */

#define NR (2 * VL)

/* The left operand: how row i meets two vectors of columns, b0 and b1, and is added to c0 and c1. `panel` is
 * what vf_panel_load made of the step's address; the row's element lies `offset` floats from there: i in A
 * panels, which are [depth][MR], and further in the values' left operand (flash_tmpl.h). Where vf_panel is
 * vectors of neighbouring rows, VF_PANEL_ROW refuses other offsets, and VF_ROW_PAIRS takes the values' place.
 */
#ifndef VF_PANEL_ROW
typedef const float *vf_panel;
VF_INLINE vf_panel vf_panel_load(const float *a) {
    return a;
}
#    define VF_PANEL_ROW(panel, i, offset, b0, b1, c0, c1)                                                   \
        do {                                                                                                 \
            const vf row_##i = vf_set1((panel)[offset]);                                                     \
            c0 = vf_fma(row_##i, b0, c0);                                                                    \
            c1 = vf_fma(row_##i, b1, c1);                                                                    \
        } while (0)
#endif

#define ROWS_4(F) F(0) F(1) F(2) F(3)
#define ROWS_6(F) ROWS_4(F) F(4) F(5)
#define ROWS_8(F) ROWS_6(F) F(6) F(7)
#define ROWS_12(F) ROWS_8(F) F(8) F(9) F(10) F(11)
#define ROWS_14(F) ROWS_12(F) F(12) F(13)
#define ROWS_PASTE_(n) ROWS_##n
#define ROWS_NAME_(n) ROWS_PASTE_(n)
#define FOR_ROWS(F) ROWS_NAME_(MR)(F)

#define ROW_ZERO(i) vf c0_##i = vf_set1(0.0f), c1_##i = vf_set1(0.0f);
#define ROW_STORE(i)                                                                                         \
    vf_store(c + (i)*c_stride, c0_##i);                                                                      \
    vf_store(c + (i)*c_stride + VL, c1_##i);
#define ROW_ADD(i)                                                                                           \
    vf_store(c + (i)*c_stride, vf_add(vf_load(c + (i)*c_stride), c0_##i));                                   \
    vf_store(c + (i)*c_stride + VL, vf_add(vf_load(c + (i)*c_stride + VL), c1_##i));
#define ROW_PANEL(i) VF_PANEL_ROW(step, i, i, b0, b1, c0_##i, c1_##i);

#define PANEL_STEPS                                                                                          \
    for (int64_t l = 0; l < k; l++) {                                                                        \
        const vf b0 = vf_load(b), b1 = vf_load(b + VL);                                                      \
        const vf_panel step = vf_panel_load(a);                                                              \
        FOR_ROWS(ROW_PANEL)                                                                                  \
        a += MR;                                                                                             \
        b += NR;                                                                                             \
    }

/* C[MR][NR] = A B: one A panel, one B panel, k steps. */
static __attribute__((noinline)) void tile_new(int64_t k, const float *a, const float *b, float *c,
                                               int64_t c_stride) {
    FOR_ROWS(ROW_ZERO)
    PANEL_STEPS
    FOR_ROWS(ROW_STORE)
}

/* C[MR][NR] += A B. The product starts at zero: sums of blocks err less than one chain through all of them.
 */
static __attribute__((noinline)) void tile_add(int64_t k, const float *a, const float *b, float *c,
                                               int64_t c_stride) {
    FOR_ROWS(ROW_ZERO)
    PANEL_STEPS
    FOR_ROWS(ROW_ADD)
}

/* The same for a tile at an edge, where only rows x cols of C exist: by way of a whole tile. */
static __attribute__((noinline)) void tile_edge(int64_t k, const float *a, const float *b, float *c,
                                                int64_t c_stride, int64_t rows, int64_t cols, bool add) {
    float whole[MR * NR];
    if (!add) {
        tile_new(k, a, b, whole, NR);
    } else {
        memset(whole, 0, sizeof whole);
        for (int64_t i = 0; i < rows; i++)
            memcpy(whole + i * NR, c + i * c_stride, (size_t)cols * sizeof *c);
        tile_add(k, a, b, whole, NR);
    }
    for (int64_t i = 0; i < rows; i++)
        memcpy(c + i * c_stride, whole + i * NR, (size_t)cols * sizeof *c);
}

#define MATMUL_ROWS (MR * ATTN_MATMUL_PANELS)

static void matmul(int64_t m, int64_t n, int64_t k, const float *a, const float *b, int64_t b_panel_stride,
                   float *c, int64_t c_stride, bool accumulate) {
    if (k == 0 && n > 0 && !accumulate)
        for (int64_t i = 0; i < m; i++)
            memset(c + i * c_stride, 0, (size_t)n * sizeof *c);
    for (int64_t top = 0; top < m; top += MATMUL_ROWS) {
        int64_t bottom = m - top < MATMUL_ROWS ? m : top + MATMUL_ROWS;
        for (int64_t front = 0; front < k; front += ATTN_MATMUL_DEPTH) {
            int64_t depth = k - front < ATTN_MATMUL_DEPTH ? k - front : ATTN_MATMUL_DEPTH;
            bool add = accumulate || front > 0;
            for (int64_t j = 0; j < n; j += NR) {
                const float *b_panel = b + j / NR * b_panel_stride + front * NR;
                for (int64_t i = top; i < bottom; i += MR) {
                    const float *a_panel = a + i * k + front * MR;
                    float *c_tile = c + i * c_stride + j;
                    if (m - i < MR || n - j < NR)
                        tile_edge(depth, a_panel, b_panel, c_tile, c_stride, m - i < MR ? m - i : MR,
                                  n - j < NR ? n - j : NR, add);
                    else if (add)
                        tile_add(depth, a_panel, b_panel, c_tile, c_stride);
                    else
                        tile_new(depth, a_panel, b_panel, c_tile, c_stride);
                }
            }
        }
    }
}
