/* The vector vocabulary for AArch64 NEON: 4 lanes, masks as vectors. What each function means
 * stands in vec_scalar.h. Needs MR, the rows of a panel (a multiple of 4), before it is included. */
#ifndef ATTN_VEC_H
#define ATTN_VEC_H

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

#define VF_INLINE static inline __attribute__((always_inline, unused))

#define VL 4
#define VF_FUSED 1
typedef float32x4_t vf;
typedef uint32x4_t vm; /* lanes of zeros or ones */

VF_INLINE vf vf_set1(float x) {
    return vdupq_n_f32(x);
}
VF_INLINE vf vf_iota(void) {
    return (vf){0, 1, 2, 3};
}
VF_INLINE vf vf_load(const float *p) {
    return vld1q_f32(p);
}
VF_INLINE void vf_store(float *p, vf v) {
    vst1q_f32(p, v);
}
/* NEON has no masked memory access: tails go lane by lane. */
VF_INLINE vf vf_load_part(const float *p, int64_t n) {
    vf v = vdupq_n_f32(0.0f);
    if (n >= 4)
        return vld1q_f32(p);
    if (n > 0)
        v = vld1q_lane_f32(p, v, 0);
    if (n > 1)
        v = vld1q_lane_f32(p + 1, v, 1);
    if (n > 2)
        v = vld1q_lane_f32(p + 2, v, 2);
    return v;
}
VF_INLINE void vf_store_part(float *p, vf v, int64_t n) {
    if (n >= 4) {
        vst1q_f32(p, v);
        return;
    }
    if (n > 0)
        vst1q_lane_f32(p, v, 0);
    if (n > 1)
        vst1q_lane_f32(p + 1, v, 1);
    if (n > 2)
        vst1q_lane_f32(p + 2, v, 2);
}

VF_INLINE vf vf_add(vf a, vf b) {
    return vaddq_f32(a, b);
}
VF_INLINE vf vf_sub(vf a, vf b) {
    return vsubq_f32(a, b);
}
VF_INLINE vf vf_mul(vf a, vf b) {
    return vmulq_f32(a, b);
}
VF_INLINE vf vf_div(vf a, vf b) {
    return vdivq_f32(a, b);
}
VF_INLINE vf vf_fma(vf a, vf b, vf c) {
    return vfmaq_f32(c, a, b);
}
VF_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return vfmsq_f32(c, a, b);
}
/* FMA has no product of its own that could. */
VF_INLINE vf vf_fnma_wide(vf a, vf b, vf c) {
    return vf_fnma(a, b, c);
}
VF_INLINE vf vf_max(vf a, vf b) {
    return vmaxnmq_f32(a, b);
}
VF_INLINE vf vf_abs(vf x) {
    return vabsq_f32(x);
}
VF_INLINE vf vf_copysign(vf magnitude, vf sign) {
    return vbslq_f32(vdupq_n_u32(0x80000000u), sign, magnitude);
}

VF_INLINE vm vf_lt(vf a, vf b) {
    return vcltq_f32(a, b);
}
VF_INLINE vm vf_le(vf a, vf b) {
    return vcleq_f32(a, b);
}
VF_INLINE vm vf_eq(vf a, vf b) {
    return vceqq_f32(a, b);
}
VF_INLINE vf vf_select(vm m, vf a, vf b) {
    return vbslq_f32(m, a, b);
}
VF_INLINE vf vf_zero_where(vm m, vf x) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), m));
}
VF_INLINE vm vm_bits(uint64_t bits) {
    const uint32x4_t lane = {1, 2, 4, 8};
    return vtstq_u32(vdupq_n_u32((uint32_t)bits), lane);
}
VF_INLINE vm vm_first(int64_t n) {
    const int32x4_t lane = {0, 1, 2, 3};
    return vcltq_s32(lane, vdupq_n_s32((int32_t)n));
}

VF_INLINE bool vm_all(vm m) {
    return vminvq_u32(m) != 0;
}

VF_INLINE vf vf_add_exponent(vf x, vf t) {
    int32x4_t n = vshlq_n_s32(vreinterpretq_s32_f32(t), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(x), n));
}

VF_INLINE vf vf_power(vf t) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(t), 23));
}

VF_INLINE float vf_reduce_add(vf x) {
    return vaddvq_f32(x);
}
VF_INLINE float vf_reduce_max(vf x) {
    return vmaxnmvq_f32(x);
}

VF_INLINE void vf_transpose(vf rows[VL]) {
    float32x4x2_t a = vtrnq_f32(rows[0], rows[1]), b = vtrnq_f32(rows[2], rows[3]);
    rows[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
    rows[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
    rows[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
    rows[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

VF_INLINE uint16x4_t vf_load_half_part_(const uint16_t *p, int64_t n) {
    uint16_t buffer[4] = {0};
    for (int64_t i = 0; i < n; i++)
        buffer[i] = p[i];
    return vld1_u16(buffer);
}
VF_INLINE vf vf_load_f16(const uint16_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
VF_INLINE vf vf_load_f16_part(const uint16_t *p, int64_t n) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vf_load_half_part_(p, n)));
}
VF_INLINE vf vf_load_bf16(const uint16_t *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
VF_INLINE vf vf_load_bf16_part(const uint16_t *p, int64_t n) {
    return vreinterpretq_f32_u32(vshll_n_u16(vf_load_half_part_(p, n), 16));
}

/* The left operand stays in vectors of four rows and enters each FMA as one lane: a broadcasting
 * load (ld1r) would cost a vector slot beside the load on many cores. So rows have to lie side by side, as in
 * A panels: the values' left operand, whose rows are apart, needs VF_ROW_PAIRS. */
typedef struct vf_panel {
    vf rows[MR / 4];
} vf_panel;
VF_INLINE vf_panel vf_panel_load(const float *a) {
    vf_panel panel;
    for (int i = 0; i < MR / 4; i++)
        panel.rows[i] = vld1q_f32(a + 4 * i);
    return panel;
}
#define VF_PANEL_ROW(a, i, offset, b0, b1, c0, c1)                                                           \
    do {                                                                                                     \
        _Static_assert((offset) == (i),                                                                      \
                       "the rows of a panel of vectors lie side by side: see VF_ROW_PAIRS");                 \
        c0 = vfmaq_laneq_f32(c0, b0, (a).rows[(i) / 4], (i) % 4);                                            \
        c1 = vfmaq_laneq_f32(c1, b1, (a).rows[(i) / 4], (i) % 4);                                            \
    } while (0)

/* Two steps of one row of a row-major left operand, for the same reason. The empty statement makes
 * the pair one register: gcc 12 would load its lanes one by one, and spill for it. */
#define VF_ROW_PAIRS 1
#define VF_ROW_PAIR(p, b00, b01, b10, b11, c0, c1)                                                           \
    do {                                                                                                     \
        float32x2_t pair = vld1_f32(p);                                                                      \
        __asm__("" : "+w"(pair));                                                                            \
        c0 = vfmaq_lane_f32(c0, b00, pair, 0);                                                               \
        c1 = vfmaq_lane_f32(c1, b01, pair, 0);                                                               \
        c0 = vfmaq_lane_f32(c0, b10, pair, 1);                                                               \
        c1 = vfmaq_lane_f32(c1, b11, pair, 1);                                                               \
    } while (0)

#endif
