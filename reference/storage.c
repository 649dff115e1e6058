/* Stored elements as doubles, bit field by bit field. */
#include "reference/internal.h"

#include <math.h>
#include <string.h>

/* 2^exponent, exactly; of normal doubles. ldexp would take longer than all else here. */
static double power_of_two(int exponent) {
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* A binary floating-point number of `exponent_bits` and `fraction_bits`, IEEE conventions. */
static double decode(uint32_t bits, int exponent_bits, int fraction_bits) {
    int64_t fraction = bits & ((1u << fraction_bits) - 1);
    int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    bool negative = bits >> (exponent_bits + fraction_bits) & 1;
    int bias = (1 << (exponent_bits - 1)) - 1;

    double magnitude;
    if (exponent == (1 << exponent_bits) - 1)
        magnitude = fraction == 0 ? (double)INFINITY : (double)NAN;
    else if (exponent == 0)
        magnitude = (double)fraction * power_of_two(1 - bias - fraction_bits);
    else
        magnitude = (double)(fraction + (1 << fraction_bits)) * power_of_two(exponent - bias - fraction_bits);
    return negative ? -magnitude : magnitude;
}

double ref_load(const void *data, attn_dtype dtype, int64_t index) {
    if (dtype == ATTN_F32) {
        float value;
        memcpy(&value, (const float *)data + index, sizeof value);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, (const uint16_t *)data + index, sizeof bits);
    return dtype == ATTN_F16 ? decode(bits, 5, 10) : decode(bits, 8, 7);
}

void ref_load_matrix(double *dst, const attn_tensor *tensor, attn_dtype dtype, int64_t b, int64_t h,
                     int64_t rows, int64_t cols) {
    int64_t base = b * tensor->batch_stride + h * tensor->head_stride;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            dst[r * cols + c] = ref_load(tensor->data, dtype, base + r * tensor->row_stride + c);
}
