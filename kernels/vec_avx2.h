/* The vector vocabulary for AVX2 + FMA + F16C: 8 lanes, masks as vectors. What each function means
 * stands in vec_scalar.h. */
#ifndef ATTN_VEC_H
#define ATTN_VEC_H

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

#define VF_INLINE static inline __attribute__((always_inline, unused))

#define VL 8
#define VF_FUSED 1
typedef __m256 vf;
typedef __m256 vm; /* lanes of zeros or ones */

VF_INLINE vf vf_set1(float x) {
    return _mm256_set1_ps(x);
}
VF_INLINE vf vf_iota(void) {
    return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
}
VF_INLINE vf vf_load(const float *p) {
    return _mm256_loadu_ps(p);
}
VF_INLINE void vf_store(float *p, vf v) {
    _mm256_storeu_ps(p, v);
}
VF_INLINE __m256i vf_first_(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
VF_INLINE vf vf_load_part(const float *p, int64_t n) {
    return _mm256_maskload_ps(p, vf_first_(n));
}
VF_INLINE void vf_store_part(float *p, vf v, int64_t n) {
    _mm256_maskstore_ps(p, vf_first_(n), v);
}

VF_INLINE vf vf_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
VF_INLINE vf vf_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
VF_INLINE vf vf_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
VF_INLINE vf vf_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
VF_INLINE vf vf_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
VF_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return _mm256_fnmadd_ps(a, b, c);
}
/* FMA has no product of its own that could. */
VF_INLINE vf vf_fnma_wide(vf a, vf b, vf c) {
    return vf_fnma(a, b, c);
}
VF_INLINE vf vf_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
VF_INLINE vf vf_abs(vf x) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}
VF_INLINE vf vf_copysign(vf magnitude, vf sign) {
    return _mm256_or_ps(magnitude, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
}

VF_INLINE vm vf_lt(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
VF_INLINE vm vf_le(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_LE_OQ);
}
VF_INLINE vm vf_eq(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
VF_INLINE vf vf_select(vm m, vf a, vf b) {
    return _mm256_blendv_ps(b, a, m);
}
VF_INLINE vf vf_zero_where(vm m, vf x) {
    return _mm256_andnot_ps(m, x);
}
VF_INLINE vm vm_bits(uint64_t bits) {
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i all = _mm256_set1_epi32((int)(uint32_t)bits);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, lane), lane));
}
VF_INLINE vm vm_first(int64_t n) {
    return _mm256_castsi256_ps(vf_first_(n));
}

VF_INLINE bool vm_all(vm m) {
    return _mm256_movemask_ps(m) == 0xff;
}

VF_INLINE vf vf_add_exponent(vf x, vf t) {
    __m256i n = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), n));
}

VF_INLINE vf vf_power(vf t) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23));
}

VF_INLINE float vf_reduce_add(vf x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
VF_INLINE float vf_reduce_max(vf x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

VF_INLINE void vf_transpose(vf rows[VL]) {
    vf pairs[8], quads[8];
    for (int i = 0; i < 8; i += 2) { /* two rows: columns 0 1 (4 5), then 2 3 (6 7) */
        pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) /* four rows: column i % 4 (and 4 more) in each */
        for (int j = 0; j < 2; j++) {
            quads[i + 2 * j] = _mm256_shuffle_ps(pairs[i + j], pairs[i + 2 + j], 0x44);
            quads[i + 2 * j + 1] = _mm256_shuffle_ps(pairs[i + j], pairs[i + 2 + j], 0xee);
        }
    for (int j = 0; j < 4; j++) {
        rows[j] = _mm256_permute2f128_ps(quads[j], quads[j + 4], 0x20);
        rows[j + 4] = _mm256_permute2f128_ps(quads[j], quads[j + 4], 0x31);
    }
}

/* There are no 16-bit masked loads below AVX-512: tails go through a buffer. */
VF_INLINE __m128i vf_load_half_part_(const uint16_t *p, int64_t n) {
    uint16_t buffer[8] = {0};
    for (int64_t i = 0; i < n; i++)
        buffer[i] = p[i];
    return _mm_loadu_si128((const __m128i *)buffer);
}
VF_INLINE vf vf_load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
VF_INLINE vf vf_load_f16_part(const uint16_t *p, int64_t n) {
    return _mm256_cvtph_ps(vf_load_half_part_(p, n));
}
VF_INLINE vf vf_from_bf16_(__m128i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
VF_INLINE vf vf_load_bf16(const uint16_t *p) {
    return vf_from_bf16_(_mm_loadu_si128((const __m128i *)p));
}
VF_INLINE vf vf_load_bf16_part(const uint16_t *p, int64_t n) {
    return vf_from_bf16_(vf_load_half_part_(p, n));
}

#endif
