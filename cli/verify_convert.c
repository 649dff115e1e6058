/* Conversions to and from float16 and bfloat16, against arithmetic in double precision. They are
 * the same on every level, so they are checked once and shown under the first one. */
#include "cli/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODES = 1 << 16 };

typedef struct format {
    const char *name;
    int exponent_bits, fraction_bits;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
} format;

/* The value that a code stands for, from the definition of the format. */
static double decode(const format *f, unsigned code) {
    int exponent = (int)(code >> f->fraction_bits) & ((1 << f->exponent_bits) - 1);
    int fraction = (int)code & ((1 << f->fraction_bits) - 1);
    int most = (1 << f->exponent_bits) - 1, bias = most / 2;
    double value = exponent == most ? (fraction ? NAN : INFINITY)
                   : exponent ? ldexp(fraction + (1 << f->fraction_bits), exponent - bias - f->fraction_bits)
                              : ldexp(fraction, 1 - bias - f->fraction_bits);
    return code >> 15 ? -value : value;
}

/* Every code to float32; every code back; and around the midpoint between each two neighbours: it
 * goes to the even one, the floats beside it to the nearer one. */
static void check_format(verify_run *run, const format *f) {
    enum { TESTS = 5 };
    float *actual = verify_alloc(run, (int64_t)TESTS * CODES, sizeof *actual);
    double *expected = verify_alloc(run, (int64_t)TESTS * CODES, sizeof *expected);
    double *exact = verify_alloc(run, (int64_t)TESTS * CODES, sizeof *exact); /* tolerances: all zero */
    if (actual && expected && exact) {
        int64_t count = 0;
        for (unsigned code = 0; code < CODES; code++) {
            double value = decode(f, code);
            actual[count] = f->widen((uint16_t)code);
            expected[count++] = value;
            actual[count] = f->widen(f->narrow((float)value));
            expected[count++] = value;
            unsigned next = code + 1; /* the neighbour away from zero, for either sign */
            if (!isfinite(value) || (next & 0x7fff) == 0)
                continue;
            /* Past the largest finite value rounding goes as if there were one more. */
            double above = decode(f, next);
            double step = isfinite(above) ? above - value : value - decode(f, code - 1);
            float middle = (float)(value + step / 2);
            actual[count] = f->widen(f->narrow(middle));
            expected[count++] = code % 2 ? above : value;
            actual[count] = f->widen(f->narrow(nextafterf(middle, (float)value)));
            expected[count++] = value;
            actual[count] = f->widen(f->narrow(nextafterf(middle, step > 0 ? INFINITY : -INFINITY)));
            expected[count++] = above;
        }
        char name[32];
        snprintf(name, sizeof name, "convert %s", f->name);
        verify_compare(run, verify_row_of(run, name, "-"), 0, "all 65536 codes and midpoints", actual,
                       expected, exact, count);
    }
    free(actual);
    free(expected);
    free(exact);
}

void verify_conversions(verify_run *run) {
    static const format formats[] = {
        {"f16", 5, 10, attn_f16_to_f32, attn_f32_to_f16},
        {"bf16", 8, 7, attn_bf16_to_f32, attn_f32_to_bf16},
    };
    verify_progress(run, "conversions");
    for (int i = 0; i < 2; i++)
        check_format(run, &formats[i]);
}
