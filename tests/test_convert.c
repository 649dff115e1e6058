/* Conversions between float32 and the storage types: every one of the 65,536 values, every midpoint between
 * neighbours and the floats beside it, where numbers overflow and vanish; and the kernels' own conversions,
 * which must agree with the scalar ones bit for bit. What is right is computed in double from the bit fields,
 * here or in the reference. */
#include "tests/support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/internal.h"

enum { VALUES = 65536, SIGN = 0x8000 };

/* A storage type: its conversions, and the bits of infinity without the sign. */
typedef struct storage {
    attn_dtype dtype;
    uint16_t (*narrow)(float x);
    float (*widen)(uint16_t x);
    uint16_t infinity;
    int fraction_bits, least_exponent; /* of a normal number, as frexp counts */
} storage;

static const storage types[] = {
    {ATTN_F16, attn_f32_to_f16, attn_f16_to_f32, 0x7c00, 10, -13},
    {ATTN_BF16, attn_f32_to_bf16, attn_bf16_to_f32, 0x7f80, 7, -125},
};

/* The value of stored bits, by the reference's decoder. */
static double value_of(const storage *t, uint16_t stored) {
    return ref_load(&stored, t->dtype, 0);
}

static void expect_bits(const storage *t, float x, uint16_t expected) {
    const uint16_t actual = t->narrow(x);
    if (actual != expected)
        test_fail("%s: %.9g (0x%08x) narrows to 0x%04x, must be 0x%04x", attn_dtype_name(t->dtype), (double)x,
                  test_bits(x), actual, expected);
}

/* ---- widening ------------------------------------------------------------------------------------ */

/* Guards: each value widens exactly, subnormals and signed zeros included; Inf stays, NaN stays NaN with its
 * sign. */
static void widen_every_value(void **state) {
    for (size_t k = 0; k < COUNT_OF(types); k++)
        for (int i = 0; i < VALUES; i++) {
            const storage *t = &types[k];
            const float wide = t->widen((uint16_t)i);
            const double expected = value_of(t, (uint16_t)i);
            const bool right = isnan(expected) ? isnan(wide) : wide == expected;
            if (!right || (signbit(wide) != 0) != (i >= SIGN))
                test_fail("%s: 0x%04x widens to %.9g, must be %.9g", attn_dtype_name(t->dtype), i,
                          (double)wide, expected);
        }
}

/* Guards: each value comes back from float32 as it was, and each NaN as a NaN of its sign. */
static void round_trip(void **state) {
    for (size_t k = 0; k < COUNT_OF(types); k++)
        for (int i = 0; i < VALUES; i++) {
            const storage *t = &types[k];
            const uint16_t back = t->narrow(t->widen((uint16_t)i));
            if (isnan(value_of(t, (uint16_t)i)))
                assert_true(isnan(value_of(t, back)) && (back & SIGN) == (i & SIGN));
            else
                assert_int_equal(back, i);
        }
}

/* ---- narrowing ------------------------------------------------------------------------------------- */

/* Guards: every midpoint between neighbours goes to the even one, the floats beside it to the nearer, from
 * zero over the subnormals to the border of infinity, in both signs. */
static void midpoints(void **state) {
    for (size_t k = 0; k < COUNT_OF(types); k++)
        for (uint16_t low = 0; low < types[k].infinity; low++) {
            const storage *t = &types[k];
            const uint16_t high = (uint16_t)(low + 1);
            const double ulp = low == t->infinity - 1 ? value_of(t, low) - value_of(t, (uint16_t)(low - 1))
                                                      : value_of(t, high) - value_of(t, low);
            const float middle = (float)(value_of(t, low) + ulp / 2);
            assert_true((double)middle == value_of(t, low) + ulp / 2); /* float32 holds all of them */
            for (uint16_t sign = 0; sign <= 1; sign++) {
                const float s = sign ? -1 : 1;
                const uint16_t bit = sign ? SIGN : 0;
                expect_bits(t, s * middle, (uint16_t)(bit | (low % 2 == 0 ? low : high)));
                expect_bits(t, s * nextafterf(middle, 0), (uint16_t)(bit | low));
                expect_bits(t, s * nextafterf(middle, INFINITY), (uint16_t)(bit | high));
                expect_bits(t, s * (float)value_of(t, low), (uint16_t)(bit | low));
            }
        }
}

/* Guards: the borders by their numbers. f16: 65520 and above overflow, half of the least subnormal (2^-25)
 * and below vanish; bf16: FLT_MAX overflows, as it lies above the midpoint. Infinities stay, and NaN of any
 * payload, which must not round into infinity. */
static void borders(void **state) {
    const storage *f16 = &types[0], *bf16 = &types[1];
    expect_bits(f16, 65504, 0x7bff);
    expect_bits(f16, nextafterf(65520, 0), 0x7bff);
    expect_bits(f16, 65520, 0x7c00);
    expect_bits(f16, -65520, 0xfc00);
    expect_bits(f16, FLT_MAX, 0x7c00);
    expect_bits(f16, 0x1p-24f, 0x0001);
    expect_bits(f16, nextafterf(0x1p-25f, 1), 0x0001);
    expect_bits(f16, 0x1p-25f, 0x0000);
    expect_bits(f16, -0x1p-25f, 0x8000);
    expect_bits(f16, 0x1p-149f, 0x0000);
    expect_bits(f16, 0x1.ffcp-15f, 0x0400); /* between the largest subnormal and the least normal number */
    expect_bits(bf16, FLT_MAX, 0x7f80);
    expect_bits(bf16, -FLT_MAX, 0xff80);
    expect_bits(bf16, 0x1.fep127f, 0x7f7f);
    expect_bits(bf16, nextafterf(0x1.ffp127f, 0), 0x7f7f);
    expect_bits(bf16, 0x1.ffp127f, 0x7f80);
    expect_bits(bf16, 0x1p-149f, 0x0000);
    expect_bits(bf16, 0x1p-133f, 0x0001);
    for (size_t k = 0; k < COUNT_OF(types); k++) {
        expect_bits(&types[k], INFINITY, types[k].infinity);
        expect_bits(&types[k], -INFINITY, (uint16_t)(types[k].infinity | SIGN));
        for (uint32_t payload = 1; payload < 0x800000; payload += payload < 0x20000 ? 1 : 4097)
            for (uint32_t sign = 0; sign <= 1; sign++) {
                const uint32_t bits = sign << 31 | 0x7f800000 | payload;
                const uint16_t stored = types[k].narrow(test_float(bits));
                assert_true(isnan(value_of(&types[k], stored)) && stored >> 15 == sign);
            }
    }
}

/* Round to nearest even by arithmetic in double: the number of ulps is an integer that nearbyint finds. */
static double rounded(const storage *t, double x) {
    int exponent;
    frexp(x, &exponent);
    const double ulp =
        ldexp(1, (exponent > t->least_exponent ? exponent : t->least_exponent) - 1 - t->fraction_bits);
    const double r = nearbyint(x / ulp) * ulp;
    return fabs(r) > value_of(t, (uint16_t)(t->infinity - 1)) ? copysign((double)INFINITY, x) : r;
}

/* Guards: any float rounds as arithmetic says: random bits of all magnitudes, and numbers in the type's own
 * range. */
static void random_floats(void **state) {
    test_rng rng = test_rng_start("narrow", 0);
    for (size_t k = 0; k < COUNT_OF(types); k++)
        for (int n = 0; n < test_count(100000, 2000000, 40000000); n++) {
            float x = test_float((uint32_t)test_random(&rng));
            if (n % 2)
                x = (float)ldexp(test_normal(&rng), (int)test_between(&rng, -28, 18));
            if (isnan(x) || isinf(x))
                continue;
            const uint16_t stored = types[k].narrow(x);
            const double expected = rounded(&types[k], x);
            if (value_of(&types[k], stored) != expected || stored >> 15 != (signbit(x) != 0))
                test_fail("%s: %.9g narrows to %.9g, must be %.9g", attn_dtype_name(types[k].dtype),
                          (double)x, value_of(&types[k], stored), expected);
        }
}

/* ---- the kernels' conversions -------------------------------------------------------------------------- */

/* All values of a type, in order, and what the scalar conversion makes of them. */
typedef struct all_values {
    uint16_t stored[VALUES];
    float wide[VALUES];
} all_values;

static all_values *all_of(const storage *t) {
    all_values *all = malloc(sizeof *all);
    assert_non_null(all);
    for (int i = 0; i < VALUES; i++) {
        all->stored[i] = (uint16_t)i;
        all->wide[i] = t->widen((uint16_t)i);
    }
    return all;
}

static void expect_same(const storage *t, const char *what, int i, float actual, float expected) {
    if (isnan(expected) ? !isnan(actual) : test_bits(actual) != test_bits(expected))
        test_fail("%s of %s: 0x%04x becomes 0x%08x, must be 0x%08x", what, attn_dtype_name(t->dtype), i,
                  test_bits(actual), test_bits(expected));
}

/* Guards: widen gives the scalar conversion's bits for every value, in vectors and in tails: from every
 * offset into a vector, so that each value meets each lane. */
static void kernel_widen(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t k = 0; k < COUNT_OF(types); k++) {
        all_values *all = all_of(&types[k]);
        float *wide = malloc(VALUES * sizeof *wide);
        assert_non_null(wide);
        for (int skip = 0; skip < kernels->lanes; skip += test_quick() ? 3 : 1) {
            test_call(kernels->widen(wide, all->stored + skip, types[k].dtype, VALUES - skip));
            for (int i = skip; i < VALUES; i++)
                expect_same(&types[k], "widen", i, wide[i - skip], all->wide[i]);
        }
        for (int n = 1; n < kernels->lanes; n++) /* tails alone */
            for (int i = 0; i + n <= VALUES; i += n) {
                kernels->widen(wide, all->stored + i, types[k].dtype, n);
                for (int j = 0; j < n; j++)
                    expect_same(&types[k], "a tail's widen", i + j, wide[j], all->wide[i + j]);
            }
        free(wide);
        free(all);
    }
}

/* Guards: the same for keys packed as the transposed operand, for rows that fill vectors and odd ones. */
static void kernel_pack_bt(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t nr = kernels->nr, depths[] = {1, 7, 16, 64, 61};
    for (size_t k = 0; k < COUNT_OF(types); k++)
        for (size_t d = 0; d < COUNT_OF(depths); d++) {
            const int64_t depth = depths[d], rows = VALUES / depth;
            all_values *all = all_of(&types[k]);
            float *packed = malloc((size_t)((rows + nr) * depth) * sizeof *packed);
            assert_non_null(packed);
            test_call(kernels->pack_bt(packed, all->stored, types[k].dtype, depth, rows, depth));
            for (int64_t i = 0; i < rows * depth; i++) {
                const int64_t row = i / depth, at = row / nr * nr * depth + i % depth * nr + row % nr;
                expect_same(&types[k], "pack_bt", (int)i, packed[at], all->wide[i]);
            }
            free(packed);
            free(all);
        }
}

/* Guards: the same for values, as they are and with zero for what is not finite, which is reported. */
static void kernel_pack_b(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t nr = kernels->nr, widths[] = {1, 7, 16, 64, 61};
    for (size_t k = 0; k < COUNT_OF(types); k++)
        for (size_t w = 0; w < COUNT_OF(widths); w++)
            for (int finite_only = 0; finite_only < 2; finite_only++) {
                const int64_t cols = widths[w], depth = VALUES / cols, panels = (cols + nr - 1) / nr;
                all_values *all = all_of(&types[k]);
                float *packed = malloc((size_t)(panels * depth * nr) * sizeof *packed);
                assert_non_null(packed);
                bool found;
                test_call(found = kernels->pack_b(packed, depth * nr, all->stored, types[k].dtype, cols,
                                                  depth, cols, finite_only));
                assert_true(found);
                for (int64_t i = 0; i < depth * cols; i++) {
                    const int64_t col = i % cols, at = col / nr * depth * nr + i / cols * nr + col % nr;
                    const float expected = finite_only && !isfinite(all->wide[i]) ? 0 : all->wide[i];
                    expect_same(&types[k], "pack_b", (int)i, packed[at], expected);
                }
                free(packed);
                free(all);
            }
}

/* Guards: the same for queries. Their layout is the level's own, so they are read back through a product with
 * 1: rows of one element, the product exact. Rows lie at all places of a panel: VALUES is no multiple of
 * every mr. */
static void kernel_pack_a(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const float one = 1;
    float identity[64];
    kernels->pack_bt(identity, &one, ATTN_F32, 1, 1, 1);
    for (size_t k = 0; k < COUNT_OF(types); k++)
        for (int skip = 0; skip < kernels->mr; skip++) {
            const int64_t rows = VALUES - skip;
            all_values *all = all_of(&types[k]);
            float *packed = malloc((size_t)(rows + kernels->mr) * sizeof *packed);
            float *product = malloc((size_t)rows * sizeof *product);
            assert_true(packed && product && kernels->nr <= (int)COUNT_OF(identity));
            test_call(kernels->pack_a(packed, all->stored + skip, types[k].dtype, 1, rows, 1, 1));
            kernels->matmul(rows, 1, 1, packed, identity, kernels->nr, product, 1, false);
            for (int64_t i = 0; i < rows; i++) /* + 0 makes a positive zero of a negative one */
                expect_same(&types[k], "pack_a", (int)(i + skip), product[i], all->wide[i + skip] + 0.0f);
            free(packed);
            free(product);
            free(all);
        }
}

int main(void) {
    test_list list = {0};
    test_add(&list, "widen every value", widen_every_value);
    test_add(&list, "round trip", round_trip);
    test_add(&list, "midpoints", midpoints);
    test_add(&list, "borders", borders);
    test_add(&list, "random floats", random_floats);
    test_add_levels(&list, "kernels widen every value", kernel_widen);
    test_add_levels(&list, "kernels pack every value as keys", kernel_pack_bt);
    test_add_levels(&list, "kernels pack every value as values", kernel_pack_b);
    test_add_levels(&list, "kernels pack every value as queries", kernel_pack_a);
    return test_run_list("convert", &list);
}
