/* The vector vocabulary for AVX-512 (F, BW, DQ, VL): 16 lanes, masks in mask registers. What each
 * function means stands in vec_scalar.h. */
#ifndef ATTN_VEC_H
#define ATTN_VEC_H

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

#define VF_INLINE static inline __attribute__((always_inline, unused))

#define VL 16
#define VF_FUSED 1
typedef __m512 vf;
typedef __mmask16 vm;

VF_INLINE vf vf_set1(float x) {
    return _mm512_set1_ps(x);
}
VF_INLINE vf vf_iota(void) {
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
VF_INLINE vm vm_first(int64_t n) {
    return (vm)((1u << n) - 1);
}
VF_INLINE vf vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}
VF_INLINE void vf_store(float *p, vf v) {
    _mm512_storeu_ps(p, v);
}
VF_INLINE vf vf_load_part(const float *p, int64_t n) {
    return _mm512_maskz_loadu_ps(vm_first(n), p);
}
VF_INLINE void vf_store_part(float *p, vf v, int64_t n) {
    _mm512_mask_storeu_ps(p, vm_first(n), v);
}

VF_INLINE vf vf_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
VF_INLINE vf vf_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
VF_INLINE vf vf_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
VF_INLINE vf vf_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
VF_INLINE vf vf_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
VF_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return _mm512_fnmadd_ps(a, b, c);
}
/* FMA has no product of its own that could. */
VF_INLINE vf vf_fnma_wide(vf a, vf b, vf c) {
    return vf_fnma(a, b, c);
}
VF_INLINE vf vf_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
VF_INLINE vf vf_abs(vf x) {
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x);
}
VF_INLINE vf vf_copysign(vf magnitude, vf sign) {
    return _mm512_or_ps(magnitude, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}

VF_INLINE vm vf_lt(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
VF_INLINE vm vf_le(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}
VF_INLINE vm vf_eq(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
VF_INLINE vf vf_select(vm m, vf a, vf b) {
    return _mm512_mask_blend_ps(m, b, a);
}
VF_INLINE vf vf_zero_where(vm m, vf x) {
    return _mm512_maskz_mov_ps((vm)~m, x);
}
VF_INLINE vm vm_bits(uint64_t bits) {
    return (vm)bits;
}

VF_INLINE bool vm_all(vm m) {
    return m == 0xffff;
}

VF_INLINE vf vf_add_exponent(vf x, vf t) {
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), n));
}

VF_INLINE vf vf_power(vf t) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23));
}

VF_INLINE float vf_reduce_add(vf x) {
    return _mm512_reduce_add_ps(x);
}
VF_INLINE float vf_reduce_max(vf x) {
    return _mm512_reduce_max_ps(x);
}

VF_INLINE void vf_transpose(vf rows[VL]) {
    vf pairs[16], quads[16];
    for (int i = 0; i < 16; i += 2) {
        pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
    /* Four rows i..i+3: columns j, j + 4, j + 8, j + 12 in quads[i + j]. */
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            quads[i + 2 * j] = _mm512_shuffle_ps(pairs[i + j], pairs[i + 2 + j], 0x44);
            quads[i + 2 * j + 1] = _mm512_shuffle_ps(pairs[i + j], pairs[i + 2 + j], 0xee);
        }
    for (int j = 0; j < 4; j++) { /* a 4 x 4 transpose of quarters */
        vf low = _mm512_shuffle_f32x4(quads[j], quads[j + 4], 0x88);
        vf low_odd = _mm512_shuffle_f32x4(quads[j], quads[j + 4], 0xdd);
        vf high = _mm512_shuffle_f32x4(quads[j + 8], quads[j + 12], 0x88);
        vf high_odd = _mm512_shuffle_f32x4(quads[j + 8], quads[j + 12], 0xdd);
        rows[j] = _mm512_shuffle_f32x4(low, high, 0x88);
        rows[j + 4] = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
        rows[j + 8] = _mm512_shuffle_f32x4(low, high, 0xdd);
        rows[j + 12] = _mm512_shuffle_f32x4(low_odd, high_odd, 0xdd);
    }
}

VF_INLINE vf vf_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
VF_INLINE vf vf_load_f16_part(const uint16_t *p, int64_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vm_first(n), p));
}
VF_INLINE vf vf_from_bf16_(__m256i x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
VF_INLINE vf vf_load_bf16(const uint16_t *p) {
    return vf_from_bf16_(_mm256_loadu_si256((const __m256i *)p));
}
VF_INLINE vf vf_load_bf16_part(const uint16_t *p, int64_t n) {
    return vf_from_bf16_(_mm256_maskz_loadu_epi16(vm_first(n), p));
}

/* A row's element is used twice. Broadcasting it into a register costs a load and, on Zen 4 by LLVM's
 * model, a slot of an FMA pipe; broadcasting it within each FMA costs two loads, of which a step of
 * 12 x 32 must not have more than 24. So every third row goes through a register: 22 loads and 26 of 24
 * cycles by that model, where registers alone would take 36. Measured on Zen 4: docs/kernels.md, 96 to 99 %.
 * The second name keeps compilers from loading the element once. */
typedef struct vf_panel {
    const float *a, *again;
} vf_panel;
VF_INLINE vf_panel vf_panel_load(const float *a) {
    vf_panel panel = {a, a};
    __asm__("" : "+r"(panel.again));
    return panel;
}
#define VF_PANEL_ROW(step, i, offset, b0, b1, c0, c1)                                                        \
    do {                                                                                                     \
        const vf row_##i = vf_set1((step).a[offset]);                                                        \
        c0 = vf_fma(row_##i, b0, c0);                                                                        \
        c1 = vf_fma((i) % 3 == 0 ? row_##i : vf_set1((step).again[offset]), b1, c1);                         \
    } while (0)

#endif
