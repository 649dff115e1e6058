/* Storage types, one number at a time; kernels convert whole rows when they pack. */
#include "attention/internal.h"

#include <string.h>

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Shifts right by `shift` (1..31), rounding to nearest, ties to even. */
static uint32_t shift_round(uint32_t x, unsigned shift) {
    const uint32_t half = (uint32_t)1 << (shift - 1);
    const uint32_t odd = x >> shift & 1;
    return (x + half - 1 + odd) >> shift;
}

uint16_t attn_f32_to_f16(float x) {
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t half;
    if (magnitude > 0x7f800000) /* NaN: quiet, the upper payload bits kept */
        half = 0x7e00 | (magnitude >> 13 & 0x1ff);
    else if (magnitude >= 0x477ff000) /* 65520, midway between the largest half and 2^16, and above */
        half = 0x7c00;
    else if (magnitude >= 0x38800000) /* 2^-14: normal in both; a carry moves into the exponent */
        half = shift_round(magnitude - ((127 - 15) << 23), 13);
    else if (magnitude > 0x33000000) /* above 2^-25: a subnormal half, in units of 2^-24 */
        half = shift_round((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23));
    else
        half = 0;
    return (uint16_t)(sign | half);
}

float attn_f16_to_f32(uint16_t x) {
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16, magnitude = x & 0x7fff;
    if (magnitude >= 0x7c00) /* Inf; NaN becomes quiet, as the hardware's conversions make it */
        return float_of(sign | 0x7f800000 | (magnitude > 0x7c00 ? 0x400000 | (magnitude & 0x3ff) << 13 : 0));
    if (magnitude >= 0x400)
        return float_of(sign | ((magnitude << 13) + ((127 - 15) << 23)));
    const float value = (float)magnitude * 0x1p-24f; /* exact: subnormal halves are normal floats */
    return sign ? -value : value;
}

uint16_t attn_f32_to_bf16(float x) {
    const uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffff) > 0x7f800000) /* NaN: quiet, so that its payload cannot round away */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float attn_bf16_to_f32(uint16_t x) {
    return float_of((uint32_t)x << 16);
}
