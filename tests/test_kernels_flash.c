/* The flash tile, and the decode tile of keys and values as they are stored, driven as the engine drives
 * them: blocks of keys one after the other, then finished, against the reference. Every buffer is guarded. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"
#include "tests/data.h"
#include "tests/guard.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Guarded floats; `aligned` to 64 bytes as the contract asks for some. */
static guard floats(int64_t count, guard_place place, bool aligned) {
    const size_t bytes = (size_t)count * sizeof(float);
    if (aligned)
        place = bytes % 64 == 0 && place == GUARD_BACK ? GUARD_BACK : GUARD_FRONT;
    return guard_new(bytes, place, sizeof(float));
}

enum { CAP = 1, SLOPE = 2, BIAS = 4, MASK = 8, OPTIONS = 16 };

typedef struct flash_case {
    int64_t rows, keys, block, dim, value_dim;
    bool stored; /* through decode_tile, of `dtype`; rows of heads that each have ops_rows of them (0: all) */
    attn_dtype dtype;
    int64_t ops_rows;
    int options;
    data_kind kind;
    guard_place place;
} flash_case;

/* The case as a problem for the reference, with the data it owns. */
typedef struct flash_data {
    attn_problem problem;
    attn_tensors tensors;
    float *q, *k, *v, *bias, slope;
    uint8_t *mask;
    double *out, *out_tolerance, *lse, *lse_tolerance;
} flash_data;

/* Values that storage of this type holds exactly. */
static void round_to(attn_dtype dtype, float *x, int64_t n) {
    for (int64_t i = 0; i < n && dtype != ATTN_F32; i++)
        x[i] = dtype == ATTN_F16 ? attn_f16_to_f32(attn_f32_to_f16(x[i]))
                                 : attn_bf16_to_f32(attn_f32_to_bf16(x[i]));
}

static flash_data data_new(const flash_case *c) {
    const size_t rows = (size_t)c->rows, keys = (size_t)c->keys, value_dim = (size_t)c->value_dim;
    flash_data d = {
        .problem = {.batch = 1,
                    .heads = 1,
                    .kv_heads = 1,
                    .queries = c->rows,
                    .keys = c->keys,
                    .head_dim = c->dim,
                    .value_dim = c->value_dim,
                    .scale = NAN,
                    .softcap = c->options & CAP ? 4.0f : 0},
        .q = calloc(rows * (size_t)c->dim + 1, sizeof(float)),
        .k = calloc(keys * (size_t)c->dim + 1, sizeof(float)),
        .v = calloc(keys * value_dim + 1, sizeof(float)),
        .bias = calloc(rows * keys + 1, sizeof(float)),
        .mask = calloc(rows * keys + 1, 1),
        .slope = 0.05f,
        .out = calloc(rows * value_dim + 1, sizeof(double)),
        .out_tolerance = calloc(rows * value_dim + 1, sizeof(double)),
        .lse = calloc(rows + 1, sizeof(double)),
        .lse_tolerance = calloc(rows + 1, sizeof(double)),
    };
    test_rng rng = test_rng_start("flash", (uint64_t)(((c->rows * 1000 + c->keys) * 1000 + c->dim) * 100 +
                                                      c->options * 10 + (int)c->kind));
    data_fill(c->kind, &rng, c->rows, 1, c->keys, c->dim, c->value_dim, d.q, d.k, d.v);
    round_to(c->dtype, d.k, c->keys * c->dim);
    round_to(c->dtype, d.v, c->keys * c->value_dim);
    const int64_t first_masked_block = c->options & MASK ? c->block : 0; /* an empty start for row 0 */
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < c->keys; j++) {
            d.bias[i * c->keys + j] = test_between(&rng, 0, 5) ? (float)test_normal(&rng) : -INFINITY;
            d.mask[i * c->keys + j] = test_between(&rng, 0, 3) != 0 && !(i == 0 && j < first_masked_block) &&
                                      i != 2 /* a row with nothing */;
        }
    d.problem.inputs = (c->options & SLOPE ? ATTN_HAS_ALIBI : 0) | (c->options & BIAS ? ATTN_HAS_BIAS : 0) |
                       (c->options & MASK ? ATTN_HAS_MASK : 0);
    return d;
}

static void data_free(flash_data *d) {
    free(d->q);
    free(d->k);
    free(d->v);
    free(d->bias);
    free(d->mask);
    free(d->out);
    free(d->out_tolerance);
    free(d->lse);
    free(d->lse_tolerance);
}

/* Operands and state of the tile, packed and guarded. */
typedef struct buffers {
    guard query, key, value, row_max, row_sum, acc, scratch, product, out, bias, bits;
} buffers;

/* Rows of keys and values as stored are further apart than they are long. */
enum { STORED_GAP = 3 };

/* rows x cols of `dtype`, flush against the guard, what is between rows not finite. */
static guard stored_rows(const flash_case *c, const float *x, int64_t rows, int64_t cols) {
    const int64_t stride = cols + STORED_GAP;
    const size_t size = attn_dtype_bytes(c->dtype);
    guard g = guard_new((size_t)((rows - 1) * stride + cols) * size, c->place, size);
    memset(g.data, 0xff, g.bytes);
    for (int64_t i = 0; i < rows * cols; i++) {
        const int64_t at = i / cols * stride + i % cols;
        if (c->dtype == ATTN_F32)
            ((float *)g.data)[at] = x[i];
        else
            ((uint16_t *)g.data)[at] = c->dtype == ATTN_F16 ? attn_f32_to_f16(x[i]) : attn_f32_to_bf16(x[i]);
    }
    guard_seal(&g);
    return g;
}

/* Query, keys and values for decode_tile. */
static void store_operands(const attn_kernels *kernels, const flash_case *c, const flash_data *d,
                           buffers *b) {
    const int64_t stride = test_round_up(c->dim, kernels->lanes);
    b->query = floats(c->rows * stride, c->place, false);
    memset(b->query.data, 0, b->query.bytes);
    for (int64_t i = 0; i < c->rows * c->dim; i++)
        ((float *)b->query.data)[i / c->dim * stride + i % c->dim] = d->q[i] * (1 / sqrtf((float)c->dim));
    guard_seal(&b->query);
    b->key = stored_rows(c, d->k, c->keys, c->dim);
    b->value = stored_rows(c, d->v, c->keys, c->value_dim);
}

/* Bits and biases of block [first, first + n) for all rows, flush against the guard like all else. */
static attn_score_ops block_ops(const flash_case *c, const flash_data *d, buffers *b, int64_t first,
                                int64_t n) {
    const int64_t words = (n + 63) / 64 + 1, stride = n + 1; /* wider than the block */
    guard_free(&b->bias);
    guard_free(&b->bits);
    b->bias = floats((c->rows - 1) * stride + n, c->place, false);
    b->bits = guard_new((size_t)(c->rows * words) * sizeof(uint64_t), c->place, sizeof(uint64_t));
    uint64_t *bits = b->bits.data;
    memset(bits, 0, b->bits.bytes);
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t k = 0; k < n; k++) {
            ((float *)b->bias.data)[i * stride + k] = d->bias[i * c->keys + first + k];
            if (d->mask[i * c->keys + first + k])
                bits[i * words + k / 64] |= (uint64_t)1 << (k % 64);
        }
    guard_seal(&b->bias);
    guard_seal(&b->bits);
    return (attn_score_ops){
        .softcap = d->problem.softcap,
        .slope = c->options & SLOPE ? d->slope : 0,
        .distance = c->keys - c->rows - first,
        .bias = c->options & BIAS ? b->bias.data : NULL,
        .bias_stride = stride,
        .mask = c->options & MASK ? bits : NULL,
        .mask_words = words,
    };
}

static buffers buffers_new(const attn_kernels *kernels, const flash_case *c, const flash_data *d) {
    const int64_t mr = kernels->mr, nr = kernels->nr;
    const int64_t rows = c->stored ? c->rows : test_round_up(c->rows, mr);
    const int64_t columns = test_round_up(c->value_dim, nr);
    buffers b = {
        .row_max = floats(rows, c->place, false),
        .row_sum = floats(rows, c->place, false),
        .acc = floats((c->stored ? rows : kernels->query_tile) * columns, c->place, true),
        .scratch = floats(kernels->flash_scratch, c->place, true),
        .product = floats(rows * columns, c->place, true),
        .out = floats((c->rows - 1) * (c->value_dim + 3) + c->value_dim, c->place, false),
    };
    if (c->stored) {
        store_operands(kernels, c, d, &b);
    } else {
        b.query = floats(rows * c->dim, c->place, false);
        b.key = floats(test_round_up(c->keys, nr) * c->dim, c->place, false);
        b.value = floats(columns * c->keys, c->place, false);
        kernels->pack_a(b.query.data, d->q, ATTN_F32, c->dim, c->rows, c->dim, 1 / sqrtf((float)c->dim));
        kernels->pack_bt(b.key.data, d->k, ATTN_F32, c->dim, c->keys, c->dim);
        kernels->pack_b(b.value.data, c->keys * nr, d->v, ATTN_F32, c->value_dim, c->keys, c->value_dim,
                        false);
        guard_seal(&b.query);
        guard_seal(&b.key);
        guard_seal(&b.value);
    }
    for (int64_t i = 0; i < rows; i++) {
        ((float *)b.row_max.data)[i] = -INFINITY;
        ((float *)b.row_sum.data)[i] = 0;
    }
    memset(b.acc.data, 0, b.acc.bytes);
    return b;
}

static void buffers_free(buffers *b) {
    guard *all[] = {&b->query, &b->key,     &b->value,   &b->row_max, &b->row_sum, &b->acc,
                    &b->out,   &b->scratch, &b->product, &b->bias,    &b->bits};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        assert_true(all[i]->pages == NULL || guard_intact(all[i]));
        guard_free(all[i]);
    }
}

static void run_block(const attn_kernels *kernels, const flash_case *c, buffers *b, const attn_score_ops *ops,
                      int64_t first, int64_t n) {
    const attn_flash_tile tile = {
        .rows = c->rows,
        .keys = n,
        .head_dim = c->dim,
        .value_dim = c->value_dim,
        .query = b->query.data,
        .key = (float *)b->key.data + first * c->dim,
        .value = (float *)b->value.data + first * kernels->nr,
        .value_panel_stride = c->keys * kernels->nr,
        .ops = c->options ? ops : NULL,
        .row_max = b->row_max.data,
        .row_sum = b->row_sum.data,
        .acc = b->acc.data,
        .scratch = b->scratch.data,
    };
    test_call(kernels->flash_tile(&tile));
}

static const void *stored_row(const flash_case *c, const guard *g, int64_t row, int64_t cols) {
    return (const char *)g->data + row * (cols + STORED_GAP) * (int64_t)attn_dtype_bytes(c->dtype);
}

/* Whether the kernel saw a value that is not finite. */
static bool run_stored_block(const attn_kernels *kernels, const flash_case *c, buffers *b,
                             const attn_score_ops *ops, int64_t first, int64_t n) {
    const int64_t next = first + n, ops_rows = c->ops_rows ? c->ops_rows : c->rows;
    attn_score_ops of_heads[64];
    for (int64_t h = 0; h * ops_rows < c->rows; h++) {
        assert_true(h < (int64_t)COUNT_OF(of_heads));
        of_heads[h] = *ops;
        of_heads[h].distance += h * ops_rows; /* the reference has one head, whose rows follow each other */
        if (ops->bias)
            of_heads[h].bias += h * ops_rows * ops->bias_stride;
        if (ops->mask)
            of_heads[h].mask += h * ops_rows * ops->mask_words;
    }
    const attn_decode_tile tile = {
        .rows = c->rows,
        .keys = n,
        .head_dim = c->dim,
        .value_dim = c->value_dim,
        .dtype = c->dtype,
        .query = b->query.data,
        .key = stored_row(c, &b->key, first, c->dim),
        .value = stored_row(c, &b->value, first, c->value_dim),
        .key_stride = c->dim + STORED_GAP,
        .value_stride = c->value_dim + STORED_GAP,
        .next_key = next < c->keys ? stored_row(c, &b->key, next, c->dim) : NULL,
        .next_keys = c->keys - next,
        .ops = c->options ? of_heads : NULL,
        .ops_rows = ops_rows,
        .row_max = b->row_max.data,
        .row_sum = b->row_sum.data,
        .acc = b->acc.data,
        .scratch = b->scratch.data,
        .product = b->product.data,
    };
    bool not_finite = false;
    guard_reset(&b->product);
    test_call(not_finite = kernels->decode_tile(&tile));
    return not_finite;
}

/* All blocks, then out; whether a block of decode_tile's had values that are not finite. */
static bool run_tile(const attn_kernels *kernels, const flash_case *c, const flash_data *d, buffers *b) {
    bool not_finite = false;
    for (int64_t first = 0; first < c->keys; first += c->block) {
        const int64_t n = least(c->block, c->keys - first);
        const attn_score_ops ops = block_ops(c, d, b, first, n);
        guard_reset(&b->scratch); /* contents of no meaning between calls */
        if (c->stored)
            not_finite |= run_stored_block(kernels, c, b, &ops, first, n);
        else
            run_block(kernels, c, b, &ops, first, n);
    }
    test_call(kernels->flash_finish(c->rows, c->value_dim, b->acc.data, b->row_sum.data, b->out.data,
                                    c->value_dim + 3));
    return not_finite;
}

static double used_out;

static void check_case(const attn_kernels *kernels, flash_case c) {
    flash_data d = data_new(&c);
    d.tensors = (attn_tensors){.q = {d.q, 0, 0, c.dim},
                               .k = {d.k, 0, 0, c.dim},
                               .v = {d.v, 0, 0, c.value_dim},
                               .mask = d.mask,
                               .mask_strides = {0, 0, c.keys, 1},
                               .bias = d.bias,
                               .bias_strides = {0, 0, c.keys, 1},
                               .alibi_slopes = &d.slope};
    const ref_result result = {d.out, d.out_tolerance, d.lse, d.lse_tolerance, NULL};
    assert_true(ref_attention(&d.problem, &d.tensors, &result));
    buffers b = buffers_new(kernels, &c, &d);
    assert_false(run_tile(kernels, &c, &d, &b));
    for (int64_t i = 0; i < c.rows; i++) {
        const float *out = (float *)b.out.data + i * (c.value_dim + 3);
        const float sum = ((float *)b.row_sum.data)[i];
        const float lse = sum == 0 ? -INFINITY : ((float *)b.row_max.data)[i] + logf(sum);
        ref_comparison o =
            ref_compare(out, d.out + i * c.value_dim, d.out_tolerance + i * c.value_dim, c.value_dim);
        ref_comparison l = ref_compare(&lse, d.lse + i, d.lse_tolerance + i, 1);
        used_out = fmax(used_out, o.used);
        if (!o.ok || !l.ok)
            test_fail("%s %d: rows %d keys %d block %d D %d Dv %d options %d %s at %s: row %d, out used %g, "
                      "lse used %g",
                      c.stored ? "stored as" : "packed", (int)c.dtype, (int)c.rows, (int)c.keys, (int)c.block,
                      (int)c.dim, (int)c.value_dim, c.options, data_kind_name[c.kind],
                      guard_place_name[c.place], (int)i, o.used, l.used);
        for (int64_t gap = c.value_dim; gap < c.value_dim + 3 && i + 1 < c.rows; gap++)
            assert_true(isnan(out[gap]));
    }
    buffers_free(&b);
    data_free(&d);
}

/* Guards: rows, keys and both dimensions around panels, vectors and blocks, at every place. */
static void shapes(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t mr = kernels->mr, nr = kernels->nr, lanes = kernels->lanes;
    const int64_t rows[] = {1, 2, mr - 1, mr, mr + 1, kernels->query_tile - 1, kernels->query_tile};
    const int64_t keys[] = {1, 2, lanes - 1, lanes + 1, nr, nr + 1, 63, 64, 65, 131};
    const int64_t dims[] = {1, 3, 16, 17, 40}, value_dims[] = {0, 1, lanes, nr - 1, nr + 1, 2 * nr + 3};
    used_out = 0;
    for (size_t r = 0; r < COUNT_OF(rows); r++)
        for (size_t k = 0; k < COUNT_OF(keys); k++)
            for (int place = 0; place < GUARD_PLACES; place++) {
                if (rows[r] < 1 || (test_quick() && (r + k) % 4 != (size_t)place))
                    continue;
                check_case(kernels, (flash_case){.rows = rows[r],
                                                 .keys = keys[k],
                                                 .block = 64,
                                                 .dim = dims[(r + k) % COUNT_OF(dims)],
                                                 .value_dim = value_dims[(2 * r + k) % COUNT_OF(value_dims)],
                                                 .kind = DATA_NORMAL,
                                                 .place = (guard_place)place});
            }
    test_note("%s: used %.3f of the tolerance", kernels->name, used_out);
}

/* Guards: the same of keys and values as stored, in each type: rows around the register tiles' 1, 2 and 4,
 * with strides, and nothing read or written beyond a row's last element. */
static void stored_shapes(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t nr = kernels->nr, lanes = kernels->lanes;
    const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, kernels->query_tile};
    const int64_t keys[] = {1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 131};
    const int64_t dims[] = {1, lanes - 1, lanes, lanes + 1, 40, 64};
    const int64_t value_dims[] = {0, 1, lanes, nr - 1, nr + 1, 2 * nr + 3};
    used_out = 0;
    for (size_t r = 0; r < COUNT_OF(rows); r++)
        for (size_t k = 0; k < COUNT_OF(keys); k++)
            for (int place = 0; place < GUARD_PLACES; place++) {
                const int64_t dim = dims[(r + 2 * k + (size_t)place) % COUNT_OF(dims)];
                if (dim < 1 || (test_quick() && (r + k) % 4 != (size_t)place))
                    continue;
                check_case(kernels, (flash_case){.rows = rows[r],
                                                 .keys = keys[k],
                                                 .block = 64,
                                                 .dim = dim,
                                                 .value_dim = value_dims[(2 * r + k) % COUNT_OF(value_dims)],
                                                 .stored = true,
                                                 .dtype = (attn_dtype)((r + k + (size_t)place) % 3),
                                                 .kind = DATA_NORMAL,
                                                 .place = (guard_place)place});
            }
    test_note("%s: used %.3f of the tolerance", kernels->name, used_out);
}

/* Guards: every combination of cap, slope, bias and mask; with a mask, row 0 attends nothing in its first
 * block and row 2 nothing at all. */
static void options(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t blocks[] = {64, kernels->key_block};
    for (int options = 0; options < OPTIONS; options++)
        for (size_t b = 0; b < COUNT_OF(blocks); b++)
            check_case(kernels, (flash_case){.rows = kernels->mr + 3,
                                             .keys = 2 * blocks[b] + 7,
                                             .block = blocks[b],
                                             .dim = 24,
                                             .value_dim = kernels->nr + 2,
                                             .options = options,
                                             .place = GUARD_BACK});
    /* And the rows of three heads, each with its own. */
    for (int options = 0; options < OPTIONS; options++)
        check_case(kernels, (flash_case){.rows = 6,
                                         .keys = 2 * 64 + 7,
                                         .block = 64,
                                         .dim = 24,
                                         .value_dim = kernels->nr + 2,
                                         .stored = true,
                                         .ops_rows = 2,
                                         .options = options,
                                         .place = GUARD_BACK});
}

/* Guards: rescaling at every step, one-hot rows, huge and tiny numbers, tails that would be subnormal. */
static void adversarial(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    used_out = 0;
    for (int kind = 0; kind < DATA_KINDS; kind++)
        for (int turn = 0; turn < 4; turn++)
            check_case(kernels, (flash_case){.rows = kernels->mr + 1,
                                             .keys = 400,
                                             .block = 64,
                                             .dim = 64,
                                             .value_dim = 32,
                                             .stored = turn / 2,
                                             .options = turn % 2 ? MASK : 0,
                                             .kind = (data_kind)kind,
                                             .place = GUARD_BACK});
    test_note("%s: used %.3f of the tolerance", kernels->name, used_out);
}

/* Guards: a row's result is bitwise the same in any company and at any place in its panel. */
static void check_rows_alone(const attn_kernels *kernels, bool stored) {
    flash_case c = {.rows = kernels->mr + 3,
                    .stored = stored,
                    .keys = 150,
                    .block = 64,
                    .dim = 20,
                    .value_dim = kernels->nr + 1,
                    .options = CAP | BIAS,
                    .place = GUARD_BACK};
    flash_data d = data_new(&c);
    buffers all = buffers_new(kernels, &c, &d);
    run_tile(kernels, &c, &d, &all);
    for (int64_t i = 0; i < c.rows; i++) {
        flash_case one = c;
        one.rows = 1;
        flash_data alone = d;
        alone.q = d.q + i * c.dim;
        alone.bias = d.bias + i * c.keys;
        alone.mask = d.mask + i * c.keys;
        buffers b = buffers_new(kernels, &one, &alone);
        run_tile(kernels, &one, &alone, &b);
        assert_memory_equal(b.out.data, (float *)all.out.data + i * (c.value_dim + 3),
                            (size_t)c.value_dim * sizeof(float));
        buffers_free(&b);
    }
    buffers_free(&all);
    data_free(&d);
}

static void rows_stand_alone(void **state) {
    check_rows_alone(test_kernels(state), false);
    check_rows_alone(test_kernels(state), true);
}

/* Guards: decode_tile tells of values that are not finite, whatever their weights, and counts them as zero:
 * NaN and infinities, of keys that are masked and of others, beside an element's neighbours and at a row's
 * end. Sums that overflow, and scores that are NaN, are none of those. */
static void stored_not_finite(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t at[] = {0, 7, 70};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int dtype = 0; dtype < 3; dtype++)
        for (size_t k = 0; k < COUNT_OF(at) * COUNT_OF(bad); k++)
            for (int rows = 1; rows <= 3; rows++) {
                flash_case c = {.rows = rows,
                                .keys = 75,
                                .block = 64,
                                .dim = 9,
                                .value_dim = kernels->nr + 3,
                                .stored = true,
                                .dtype = (attn_dtype)dtype,
                                .options = MASK,
                                .place = GUARD_BACK};
                flash_data d = data_new(&c);
                float *element = d.v + at[k % 3] * c.value_dim + (k % 2 ? c.value_dim - 1 : 2);
                *element = 0;
                buffers without = buffers_new(kernels, &c, &d);
                assert_false(run_tile(kernels, &c, &d, &without));
                *element = bad[k / 3];
                buffers with = buffers_new(kernels, &c, &d);
                assert_true(run_tile(kernels, &c, &d, &with));
                assert_memory_equal(with.out.data, without.out.data, with.out.bytes);
                buffers_free(&with);
                buffers_free(&without);
                data_free(&d);
            }
    flash_case c = {
        .rows = 2, .keys = 20, .block = 64, .dim = 9, .value_dim = 5, .stored = true, .place = GUARD_BACK};
    flash_data d = data_new(&c);
    for (int64_t i = 0; i < c.keys * c.value_dim; i++)
        d.v[i] = 3e38f;
    d.q[0] = NAN;
    buffers b = buffers_new(kernels, &c, &d);
    assert_false(run_tile(kernels, &c, &d, &b));
    const float *out = b.out.data, *second = out + c.value_dim + 3;
    assert_true(isnan(out[0]) && (isinf(second[0]) || fabsf(second[0] / 3e38f - 1) < 1e-5f));
    buffers_free(&b);
    data_free(&d);
}

/* Guards: a row that attended nothing is exactly zero whatever its accumulator holds, and its neighbours are
 * not. */
static void finish_of_nothing(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static _Alignas(64) float acc[3 * 128];
    const float sums[] = {2, 0, 4};
    float out[3 * 65];
    assert_true(kernels->nr < 64);
    for (int64_t dim = 1; dim <= kernels->nr + 1; dim++) {
        const int64_t stride = test_round_up(dim, kernels->nr);
        for (int64_t i = 0; i < 3 * stride; i++)
            acc[i] = i / stride == 1 ? NAN : 8;
        test_call(kernels->flash_finish(3, dim, acc, sums, out, dim));
        for (int64_t i = 0; i < 3 * dim; i++)
            assert_true(out[i] == (i / dim == 0 ? 4 : i / dim == 1 ? 0 : 2));
    }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "flash tile shapes", shapes);
    test_add_levels(&list, "decode tile shapes", stored_shapes);
    test_add_levels(&list, "tile options", options);
    test_add_levels(&list, "tile adversarial data", adversarial);
    test_add_levels(&list, "tile rows stand alone", rows_stand_alone);
    test_add_levels(&list, "decode tile, values not finite", stored_not_finite);
    test_add_levels(&list, "flash finish of nothing", finish_of_nothing);
    return test_run_list("kernels_flash", &list);
}
