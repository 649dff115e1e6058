/* Packing into panels, and conversion to float32. Parameters: MR, as in matmul_tmpl.h.
 *
 * Each function's text is written once for any storage type; the type is a constant in each of the
 * three copies that PACK_DISPATCH makes. */

VF_INLINE int64_t pack_min_(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* VL elements of `dtype` from element `index` on, as float32; of the first n only if n < VL. */
VF_INLINE vf pack_load_(const void *src, attn_dtype dtype, int64_t index, int64_t n) {
    if (dtype == ATTN_F32) {
        const float *p = (const float *)src + index;
        return n >= VL ? vf_load(p) : vf_load_part(p, n);
    }
    const uint16_t *p = (const uint16_t *)src + index;
    if (dtype == ATTN_F16)
        return n >= VL ? vf_load_f16(p) : vf_load_f16_part(p, n);
    return n >= VL ? vf_load_bf16(p) : vf_load_bf16_part(p, n);
}

/* Completely, so that the rows of a block are registers. */
#ifdef __clang__
#    define PACK_UNROLL _Pragma("unroll")
#else
#    define PACK_UNROLL _Pragma("GCC unroll 16")
#endif

#define PACK_DISPATCH(call, ...)                                                                             \
    switch (dtype) {                                                                                         \
    case ATTN_F32:                                                                                           \
        call(ATTN_F32, __VA_ARGS__);                                                                         \
        break;                                                                                               \
    case ATTN_F16:                                                                                           \
        call(ATTN_F16, __VA_ARGS__);                                                                         \
        break;                                                                                               \
    case ATTN_BF16:                                                                                          \
        call(ATTN_BF16, __VA_ARGS__);                                                                        \
        break;                                                                                               \
    }

/* Panels of `width` rows of src, element (row, k) at dst[row / width][k][row % width], times
 * `factor`; zeros where rows end within a panel. By transposes of VL x VL: `width` is a multiple of VL, or
 * less than VL; then whole vectors are stored too, and what they hold beyond `width` is overwritten
 * by the next, up to the panel's last. */
VF_INLINE void pack_rows_(attn_dtype dtype, int width, float *dst, const void *src, int64_t src_stride,
                          int64_t rows, int64_t depth, float factor) {
    const vf f = vf_set1(factor);
    for (int64_t top = 0; top < rows; top += width, dst += width * depth)
        for (int64_t k = 0; k < depth; k += VL) {
            const int64_t n = pack_min_(VL, depth - k);
            for (int64_t first = 0; first < width; first += VL) {
                const int64_t count = pack_min_(pack_min_(VL, width - first), rows - top - first);
                const int64_t at = (top + first) * src_stride + k;
                vf block[VL];
                if (n == VL && count == pack_min_(VL, width))
                    PACK_UNROLL for (int i = 0; i < VL; i++) block[i] =
                        i < width ? pack_load_(src, dtype, at + i * src_stride, VL) : vf_set1(0.0f);
                else
                    for (int64_t i = 0; i < VL; i++)
                        block[i] = i < count ? pack_load_(src, dtype, at + i * src_stride, n) : vf_set1(0.0f);
                vf_transpose(block);
                float *out = dst + k * width + first;
                if (width >= VL ? n == VL : k + VL < depth)
                    PACK_UNROLL for (int i = 0; i < VL; i++) vf_store(out + i * width, vf_mul(block[i], f));
                else /* GCOV_EXCL_START: at level scalar n is VL always, and every store a whole vector */
                    for (int64_t i = 0; i < n; i++)
                        vf_store_part(out + i * width, vf_mul(block[i], f), pack_min_(VL, width));
                /* GCOV_EXCL_STOP */
            }
        }
}

static void pack_a(float *dst, const void *src, attn_dtype dtype, int64_t src_stride, int64_t rows,
                   int64_t depth, float factor) {
    PACK_DISPATCH(pack_rows_, MR, dst, src, src_stride, rows, depth, factor)
}

static void pack_bt(float *dst, const void *src, attn_dtype dtype, int64_t src_stride, int64_t rows,
                    int64_t depth) {
    PACK_DISPATCH(pack_rows_, NR, dst, src, src_stride, rows, depth, 1.0f)
}

/* Rows that go into one panel before the next panel's, as many as fill a line of the cache: where panels lie
 * a power of two apart, the lines that take one row share a set, and half written would be driven out. Row by
 * row pack_b took 2 to 4 times as long at `scalar`, 1.1 to 1.9 times with `finite_only` (n = 1024, D = 64 to
 * 128, Zen 3). */
#define PACK_LINE (NR < 16 ? 16 / NR : 1)

/* x - x is zero for finite x and NaN for the rest: the sum of these says whether all were finite. */
VF_INLINE void pack_columns_(attn_dtype dtype, float *dst, int64_t panel_stride, const void *src,
                             int64_t src_stride, int64_t depth, int64_t cols, bool finite_only, vf *check) {
    const vf zero = vf_set1(0.0f);
    vf sum = *check;
    for (int64_t top = 0; top < depth; top += PACK_LINE, dst += PACK_LINE * NR) {
        float *panel = dst;
        for (int64_t c = 0; c < cols; c += NR, panel += panel_stride) {
            const int64_t left = cols - c;
            for (int64_t i = 0; i < PACK_LINE && top + i < depth; i++) {
                const int64_t at = (top + i) * src_stride + c;
                vf x0 = pack_load_(src, dtype, at, left);
                vf x1 = left > VL ? pack_load_(src, dtype, at + VL, left - VL) : zero;
                vf d0 = vf_sub(x0, x0), d1 = vf_sub(x1, x1);
                sum = vf_add(sum, vf_add(d0, d1));
                if (finite_only) {
                    x0 = vf_select(vf_eq(d0, zero), x0, zero);
                    x1 = vf_select(vf_eq(d1, zero), x1, zero);
                }
                vf_store(panel + i * NR, x0);
                vf_store(panel + i * NR + VL, x1);
            }
        }
    }
    *check = sum;
}

static bool pack_b(float *dst, int64_t panel_stride, const void *src, attn_dtype dtype, int64_t src_stride,
                   int64_t depth, int64_t cols, bool finite_only) {
    vf check = vf_set1(0.0f);
    PACK_DISPATCH(pack_columns_, dst, panel_stride, src, src_stride, depth, cols, finite_only, &check)
    float sum = vf_reduce_add(check);
    return sum != sum;
}

VF_INLINE void widen_(attn_dtype dtype, float *dst, const void *src, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(dst + i, pack_load_(src, dtype, i, VL));
    if (i < n)
        vf_store_part(dst + i, pack_load_(src, dtype, i, n - i), n - i);
}

static void widen(float *dst, const void *src, attn_dtype dtype, int64_t n) {
    PACK_DISPATCH(widen_, dst, src, n)
}
