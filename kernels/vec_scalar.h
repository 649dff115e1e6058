/* The vector vocabulary for plain C: one lane, multiply then add (the x86 baseline has no FMA, and
 * AArch64 follows it so that "scalar" means the same arithmetic everywhere).
 *
 * Every vec_<isa>.h defines the same names over VL float32 lanes; the algorithms (*_tmpl.h) use
 * nothing else. `vf` is a vector of floats, `vm` a lane mask. Functions whose name ends in _part
 * touch the first n elements only, 0 <= n <= VL, and fill the rest of a loaded vector with zeros. */
#ifndef ATTN_VEC_H
#define ATTN_VEC_H

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

#define VF_INLINE static inline __attribute__((always_inline, unused))

#define VL 1
#define VF_FUSED 0 /* 1: vf_fma and vf_fnma round once */
typedef float vf;
typedef uint32_t vm; /* 0 or all ones */

VF_INLINE vf vf_set1(float x) {
    return x;
}
VF_INLINE vf vf_iota(void) {
    return 0.0f;
}
VF_INLINE vf vf_load(const float *p) {
    return *p;
}
VF_INLINE void vf_store(float *p, vf v) {
    *p = v;
}
VF_INLINE vf vf_load_part(const float *p, int64_t n) {
    return n > 0 ? *p : 0.0f;
}
VF_INLINE void vf_store_part(float *p, vf v, int64_t n) {
    if (n > 0)
        *p = v;
}

VF_INLINE vf vf_add(vf a, vf b) {
    return a + b;
}
VF_INLINE vf vf_sub(vf a, vf b) {
    return a - b;
}
VF_INLINE vf vf_mul(vf a, vf b) {
    return a * b;
}
VF_INLINE vf vf_div(vf a, vf b) {
    return a / b;
}
/* a * b + c and c - a * b, fused where the level has FMA. */
VF_INLINE vf vf_fma(vf a, vf b, vf c) {
    return a * b + c;
}
VF_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return c - a * b;
}
/* c - a * b of a product that may pass the range of float where the difference does not. */
VF_INLINE vf vf_fnma_wide(vf a, vf b, vf c) {
    return (float)((double)c - (double)a * (double)b);
}
/* If either operand is NaN the result is `b`, here and with AVX; NEON's is the number. Callers keep the
 * running value in b, so a NaN among the data never becomes the maximum. */
VF_INLINE vf vf_max(vf a, vf b) {
    return a > b ? a : b;
}

VF_INLINE float vf_float_(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
VF_INLINE uint32_t vf_bits_(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
VF_INLINE vf vf_abs(vf x) {
    return vf_float_(vf_bits_(x) & 0x7fffffffu);
}
/* `magnitude` >= +0 with the sign of `sign`. */
VF_INLINE vf vf_copysign(vf magnitude, vf sign) {
    return vf_float_(vf_bits_(magnitude) | (vf_bits_(sign) & 0x80000000u));
}

/* Comparisons are false where either side is NaN. */
VF_INLINE vm vf_lt(vf a, vf b) {
    return a < b ? UINT32_MAX : 0;
}
VF_INLINE vm vf_le(vf a, vf b) {
    return a <= b ? UINT32_MAX : 0;
}
VF_INLINE vm vf_eq(vf a, vf b) {
    return a == b ? UINT32_MAX : 0;
}
/* a where m, b elsewhere. */
VF_INLINE vf vf_select(vm m, vf a, vf b) {
    return vf_float_((vf_bits_(a) & m) | (vf_bits_(b) & ~m));
}
/* +0 where m, x elsewhere. */
VF_INLINE vf vf_zero_where(vm m, vf x) {
    return vf_float_(vf_bits_(x) & ~m);
}
/* Lane i is set when bit i of `bits` is; lanes below n. */
VF_INLINE vm vm_bits(uint64_t bits) {
    return (bits & 1) ? UINT32_MAX : 0;
}
VF_INLINE vm vm_first(int64_t n) {
    return n > 0 ? UINT32_MAX : 0;
}

VF_INLINE bool vm_all(vm m) {
    return m != 0;
}

/* Adds the integer in the low bits of t to the exponent of x: x * 2^n for t = n + 0x1.8p23. */
VF_INLINE vf vf_add_exponent(vf x, vf t) {
    return vf_float_(vf_bits_(x) + (vf_bits_(t) << 23));
}

/* 2^n for t = n + 127 + 0x1.8p23, -127 <= n <= 127 (0 for -127). */
VF_INLINE vf vf_power(vf t) {
    return vf_float_(vf_bits_(t) << 23);
}

VF_INLINE float vf_reduce_add(vf x) {
    return x;
}
VF_INLINE float vf_reduce_max(vf x) {
    return x;
}

/* rows[i] lane j <-> rows[j] lane i. */
VF_INLINE void vf_transpose(vf rows[VL]) {
    (void)rows;
}

/* binary16 to float32 in integers: no conversion instruction in the baseline, and no table. */
VF_INLINE vf vf_load_f16(const uint16_t *p) {
    uint32_t sign = (uint32_t)(*p & 0x8000u) << 16, exponent = (*p >> 10) & 31, fraction = *p & 1023;
    if (exponent == 0) /* zero or subnormal: fraction * 2^-24, exact in float32 */
        return vf_float_(vf_bits_((float)fraction * 0x1p-24f) | sign);
    if (exponent == 31) /* NaN becomes quiet, as conversion instructions do */
        return vf_float_(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0));
    return vf_float_(sign | (exponent + 112) << 23 | fraction << 13);
}
VF_INLINE vf vf_load_f16_part(const uint16_t *p, int64_t n) {
    return n > 0 ? vf_load_f16(p) : 0.0f;
}
VF_INLINE vf vf_load_bf16(const uint16_t *p) {
    return vf_float_((uint32_t)*p << 16);
}
VF_INLINE vf vf_load_bf16_part(const uint16_t *p, int64_t n) {
    return n > 0 ? vf_load_bf16(p) : 0.0f;
}

#endif
