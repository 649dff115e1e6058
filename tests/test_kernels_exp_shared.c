/* There is one exponential: what softmax, the flash tile and the merging of splits compute with is bit for
 * bit what exp gives, in vector bodies and tails. test_kernels_exp.c says how good that is. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* e^x is a normal number down to here, and +0 below: math_tmpl.h. */
static const float lowest = -0x1.5d589ep+6f;

/* `steps` floats from x < 0, towards zero if positive. */
static float neighbour(float x, int steps) {
    return test_float(test_bits(x) - (uint32_t)steps);
}

/* Between -110 and 0, of four kinds: the cut-off and its neighbours, where an exponential that ends one float
 * too early is +0; the boundaries of the range reduction, odd halves of ln 2, and theirs; any; close to zero.
 */
static float argument(test_rng *rng) {
    switch (test_between(rng, 0, 3)) {
    case 0:
        return neighbour(lowest, (int)test_between(rng, -2, 2));
    case 1:
        return neighbour((float)(-((double)test_between(rng, 0, 126) + 0.5) * 0.693147180559945309),
                         (int)test_between(rng, -2, 2));
    case 2:
        return (float)(-110 * test_uniform(rng));
    default:
        return (float)-ldexp(1 + test_uniform(rng), (int)-test_between(rng, 0, 25));
    }
}

static float exp_of(const attn_kernels *kernels, float x) {
    float y;
    kernels->exp(&y, &x, 1);
    return y;
}

static void same(const attn_kernels *kernels, float actual, float expected, float x, const char *where,
                 int64_t at, int64_t n) {
    if (test_bits(actual) != test_bits(expected))
        test_fail("%s: %s, element %d of %d: %a for x = %a, expected %a", kernels->name, where, (int)at,
                  (int)n, (double)actual, (double)x, (double)expected);
}

/* Guards: softmax's exponential at every place of a row. Only the maximum, 0, and x are not -inf, so the sum
 * is 1 + e^x however it is ordered, and the weight is e^x times its reciprocal: e^x itself below -17.4, and
 * above a number that seldom stays when e^x changes by a bit. */
static void in_softmax(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    int64_t sizes[TEST_SIZES];
    const int count = test_sizes(sizes, kernels->lanes, 64);
    test_rng rng = test_rng_start("shared softmax", 0);
    for (int s = 0; s < count; s++)
        for (int64_t at = 0, n = sizes[s]; at < n && n > 1; at++)
            for (int64_t repeat = 0; repeat < 300 / n + 3; repeat++) {
                float row[320], max, sum;
                const float x = argument(&rng), e = exp_of(kernels, x);
                for (int64_t i = 0; i < n; i++)
                    row[i] = -INFINITY;
                row[at] = x;
                row[(at + 1 + repeat) % n == at ? (at + 1) % n : (at + 1 + repeat) % n] = 0;
                kernels->softmax(row, n, -INFINITY, &max, &sum);
                same(kernels, sum, 1 + e, x, "sum of softmax", at, n);
                same(kernels, row[at], e * (1 / (1 + e)), x, "softmax", at, n);
                /* the sink logit's term: the sum of it and of one score of zero */
                float zero = 0;
                kernels->softmax(&zero, 1, x, &max, &sum);
                same(kernels, sum, 1 + e, x, "sink logit of softmax", 0, 1);
            }
}

/* A flash tile whose scores are query * key exactly (one dimension), and whose accumulator is the row of
 * exponentials itself: the values are the unit matrix, and one column of zeros more, where what the
 * accumulator held is rescaled. */
typedef struct tile {
    const attn_kernels *kernels;
    int64_t rows, keys, columns, acc_stride;
    float *query, *key, *value, *acc, *scratch, *row_max, *row_sum;
} tile;

static float *floats(int64_t count) {
    const size_t bytes = ((size_t)count * sizeof(float) + 63) / 64 * 64;
    float *x = aligned_alloc(64, bytes);
    assert_non_null(x);
    memset(x, 0, bytes);
    return x;
}

static tile tile_new(const attn_kernels *kernels, int64_t rows, int64_t keys, const float *query,
                     const float *key) {
    const int64_t mr = kernels->mr, nr = kernels->nr, padded_rows = (rows + mr - 1) / mr * mr;
    tile t = {.kernels = kernels, .rows = rows, .keys = keys, .columns = keys + 1};
    t.acc_stride = (t.columns + nr - 1) / nr * nr;
    t.query = floats(padded_rows);
    t.key = floats((keys + nr - 1) / nr * nr);
    t.value = floats(t.acc_stride * keys);
    t.acc = floats(kernels->query_tile * t.acc_stride);
    t.scratch = floats(kernels->flash_scratch);
    t.row_max = floats(padded_rows);
    t.row_sum = floats(padded_rows);
    kernels->pack_a(t.query, query, ATTN_F32, 1, rows, 1, 1);
    kernels->pack_bt(t.key, key, ATTN_F32, 1, keys, 1);
    float *unit = floats(keys * t.columns);
    for (int64_t i = 0; i < keys; i++)
        unit[i * t.columns + i] = 1;
    kernels->pack_b(t.value, keys * nr, unit, ATTN_F32, t.columns, keys, t.columns, false);
    free(unit);
    return t;
}

static void tile_run(const tile *t) {
    const attn_flash_tile step = {
        .rows = t->rows,
        .keys = t->keys,
        .head_dim = 1,
        .value_dim = t->columns,
        .query = t->query,
        .key = t->key,
        .value = t->value,
        .value_panel_stride = t->keys * t->kernels->nr,
        .row_max = t->row_max,
        .row_sum = t->row_sum,
        .acc = t->acc,
        .scratch = t->scratch,
    };
    t->kernels->flash_tile(&step);
}

static void tile_free(tile *t) {
    float *all[] = {t->query, t->key, t->value, t->acc, t->scratch, t->row_max, t->row_sum};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        free(all[i]);
}

/* Guards: the flash tile's exponential of every key, whole vectors and the rest, for the rows of more than
 * one panel; in the first row of each, the arguments to the bit. The running maximum is 0 already. */
static void in_flash_tile(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    int64_t sizes[TEST_SIZES];
    const int count = test_sizes(sizes, kernels->lanes, 64);
    test_rng rng = test_rng_start("shared flash", 0);
    const int64_t rows = kernels->mr + 1;
    for (int s = 0; s < count; s++) {
        const int64_t keys = sizes[s];
        if (keys < 1 || keys > kernels->key_block)
            continue;
        float query[64], key[320];
        for (int64_t i = 0; i < rows; i++)
            query[i] = i % kernels->mr ? (float)(1 - 0.9 * test_uniform(&rng)) : 1;
        for (int64_t j = 0; j < keys; j++)
            key[j] = argument(&rng);
        tile t = tile_new(kernels, rows, keys, query, key);
        tile_run(&t);
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < keys; j++)
                same(kernels, t.acc[i * t.acc_stride + j], exp_of(kernels, query[i] * key[j]),
                     query[i] * key[j], "flash tile", j, keys);
            if (keys == 1)
                same(kernels, t.row_sum[i], t.acc[i * t.acc_stride], query[i] * key[0], "sum of flash", 0, 1);
        }
        tile_free(&t);
    }
}

/* Guards: what rescales a row when its maximum rises, in every row of a tile: the maximum goes from x to 0.
 */
static void in_rescaling(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    test_rng rng = test_rng_start("shared rescaling", 0);
    const float zero = 0;
    for (int64_t rows = 1; rows <= kernels->query_tile; rows += test_quick() ? 5 : 1)
        for (int64_t repeat = 0; repeat < 20; repeat++) {
            float query[64] = {0}, x[64];
            assert_true(rows <= (int64_t)COUNT_OF(x));
            tile t = tile_new(kernels, rows, 1, query, &zero);
            for (int64_t i = 0; i < rows; i++) {
                t.row_max[i] = x[i] = argument(&rng);
                t.row_sum[i] = 1;
                t.acc[i * t.acc_stride + 1] = 1;
            }
            tile_run(&t);
            for (int64_t i = 0; i < rows; i++) {
                const float e = exp_of(kernels, x[i]);
                same(kernels, t.acc[i * t.acc_stride + 1], e, x[i], "rescaled accumulator of row", i, rows);
                same(kernels, t.row_sum[i], e + 1, x[i], "rescaled sum of row", i, rows);
            }
            tile_free(&t);
        }
}

/* Guards: what weighs the splits of the keys when they are merged. Two splits of 2048 keys, with scores 0 and
 * x and values 0 and 1; x is so low that the sum stays 2048, so the output is e^x itself. */
static void in_merging(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    enum { N = 2048, ROWS = 8 };
    static float keys[2 * N];
    float x[ROWS], out[ROWS];
    for (int j = 0; j < 2 * N; j++)
        keys[j] = j < N ? 0 : 1;
    const attn_problem problem = {.batch = 1,
                                  .heads = 1,
                                  .kv_heads = 1,
                                  .queries = ROWS,
                                  .keys = (int64_t)2 * N,
                                  .head_dim = 1,
                                  .value_dim = 1,
                                  .scale = 1};
    const attn_options options = {.isa = kernels->name, .algorithm = ATTN_FLASH};
    const attn_tensors tensors = {
        .q = {x, 0, 0, 1}, .k = {keys, 0, 0, 1}, .v = {keys, 0, 0, 1}, .out = out, .out_row_stride = 1};
    attn_plan *plan = NULL;
    attn_error error = {""};
    if (attn_plan_create(&problem, &options, &plan, &error) != ATTN_OK)
        test_fail("%s", error.text);
    assert_int_equal(attn_plan_info(plan).key_splits, 2);
    test_rng rng = test_rng_start("shared merging", 0);
    for (int repeat = 0; repeat < 50; repeat++) {
        for (int i = 0; i < ROWS; i++)
            do
                x[i] = argument(&rng);
            while (x[i] > -18);
        if (attn_execute(plan, &tensors, NULL, 1, &error) != ATTN_OK)
            test_fail("%s", error.text);
        for (int i = 0; i < ROWS; i++)
            same(kernels, out[i], exp_of(kernels, x[i]), x[i], "merged row", i, ROWS);
    }
    attn_plan_destroy(plan);
}

/* Guards: levels that have FMA compute the same exponential, bit for bit: what was found about one on every
 * float holds for the others. */
static void same_with_fma(void **state) {
#define ISA(id, ...) &attn_kernels_##id,
    static const attn_kernels *const levels[] = {
#include "dispatch/isa.def"
    };
#undef ISA
    enum { N = 4096 };
    static float x[N], first[N], other[N];
    test_rng rng = test_rng_start("shared levels", 0);
    int compared = 0;
    for (size_t l = 2; l < COUNT_OF(levels); l++) { /* levels[0], scalar, multiplies and adds */
        attn_error error;
        if (attn_isa_check(levels[l]->name, &error) != ATTN_OK)
            continue;
        for (int repeat = 0; repeat < test_count(8, 64, 1024); repeat++) {
            for (int i = 0; i < N; i++)
                x[i] = i % 2 ? argument(&rng) : (float)(89 * test_uniform(&rng));
            levels[1]->exp(first, x, N);
            levels[l]->exp(other, x, N);
            for (int i = 0; i < N; i++)
                same(levels[l], other[i], first[i], x[i], levels[1]->name, i, N);
        }
        compared++;
    }
    if (compared == 0)
        test_skip("this machine has less than two levels with FMA");
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "softmax's exponential is exp", in_softmax);
    test_add_levels(&list, "flash's exponential is exp", in_flash_tile);
    test_add_levels(&list, "flash rescales by exp", in_rescaling);
    test_add_levels(&list, "merging weighs by exp", in_merging);
    test_add(&list, "exp is the same at all levels with FMA", same_with_fma);
    return test_run_list("kernels_exp_shared", &list);
}
