/* Single kernels as rows: `--kernel NAME`. One table line each: operands, call, FLOPs, bytes. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t round_up(int64_t a, int64_t b) {
    return (a + b - 1) / b * b;
}

static float *floats(int64_t count) {
    return bench_alloc(count * (int64_t)sizeof(float));
}

/* Random numbers in -2..2, in the storage type of the run. */
static void *make_source(const bench_kernel_run *run, attn_dtype dtype, int64_t count, uint64_t seed) {
    void *memory = bench_alloc(count * (int64_t)attn_dtype_bytes(dtype));
    uint64_t state = seed ^ (uint64_t)run->n;
    for (int64_t i = 0; memory && i < count; i++) {
        bench_store(memory, i, dtype, (float)((int64_t)bench_random(&state) >> 40) * 0x1p-22f);
    }
    return memory;
}

static double sum(const float *x, int64_t count) {
    double total = 0;
    for (int64_t i = 0; i < count; i++)
        total += (double)x[i];
    return total;
}

/* ---- matmul: scores, n x n with depth D ---- */

static bool scores_prepare(bench_kernel_run *run, uint64_t seed) {
    const attn_kernels *k = run->kernels;
    const int64_t n = run->n, depth = run->head_dim;
    float *source = make_source(run, ATTN_F32, n * depth, seed);
    run->left = floats(round_up(n, k->mr) * depth);
    run->right = floats(round_up(n, k->nr) * depth);
    run->out = floats(n * n);
    const bool made = source && run->left && run->right && run->out;
    if (made) {
        k->pack_a(run->left, source, ATTN_F32, depth, n, depth, 0.125f);
        k->pack_bt(run->right, source, ATTN_F32, depth, n, depth);
    }
    free(source);
    return made;
}
static void scores_call(bench_kernel_run *run) {
    const attn_kernels *k = run->kernels;
    k->matmul(run->n, run->n, run->head_dim, run->left, run->right, run->head_dim * k->nr, run->out, run->n,
              false);
}
static double scores_flops(const bench_kernel_run *run) {
    return 2.0 * (double)run->n * (double)run->n * (double)run->head_dim;
}
static double scores_bytes(const bench_kernel_run *run) {
    return 4.0 * (double)run->n * (2 * (double)run->head_dim + (double)run->n);
}
static double scores_reads(const bench_kernel_run *run) {
    return 4.0 * (double)run->n * 2 * (double)run->head_dim;
}
static double scores_checksum(const bench_kernel_run *run) {
    return sum(run->out, run->n * run->n);
}

/* ---- matmul_pv: weights times values, n x Dv with depth n ---- */

static bool values_prepare(bench_kernel_run *run, uint64_t seed) {
    const attn_kernels *k = run->kernels;
    const int64_t n = run->n, width = run->value_dim;
    float *weights = make_source(run, ATTN_F32, n * n, seed),
          *values = make_source(run, ATTN_F32, n * width, seed);
    run->left = floats(round_up(n, k->mr) * n);
    run->right = floats(round_up(width, k->nr) * n);
    run->out = floats(n * width);
    const bool made = weights && values && run->left && run->right && run->out;
    if (made) {
        k->pack_a(run->left, weights, ATTN_F32, n, n, n, 1.0f);
        k->pack_b(run->right, n * k->nr, values, ATTN_F32, width, n, width, false);
    }
    free(weights);
    free(values);
    return made;
}
static void values_call(bench_kernel_run *run) {
    const attn_kernels *k = run->kernels;
    k->matmul(run->n, run->value_dim, run->n, run->left, run->right, run->n * k->nr, run->out, run->value_dim,
              false);
}
static double values_flops(const bench_kernel_run *run) {
    return 2.0 * (double)run->n * (double)run->n * (double)run->value_dim;
}
static double values_bytes(const bench_kernel_run *run) {
    return 4.0 * (double)run->n * (2 * (double)run->value_dim + (double)run->n);
}
static double values_reads(const bench_kernel_run *run) {
    return 4.0 * (double)run->n * ((double)run->value_dim + (double)run->n);
}
static double values_checksum(const bench_kernel_run *run) {
    return sum(run->out, run->n * run->value_dim);
}

/* ---- vectors of n: x in `in`, y in `out` ---- */

static bool vector_prepare(bench_kernel_run *run, uint64_t seed) {
    run->in = make_source(run, run->dtype, run->n, seed);
    run->out = floats(run->n);
    run->bits = bench_alloc(round_up(run->n, 64) / 8);
    uint64_t state = seed;
    for (int64_t i = 0; run->bits && i < round_up(run->n, 64) / 64; i++)
        run->bits[i] = bench_random(&state);
    return run->in && run->out && run->bits;
}
static double read_write_bytes(const bench_kernel_run *run) {
    return 8.0 * (double)run->n;
}
static double convert_bytes(const bench_kernel_run *run) {
    return ((double)attn_dtype_bytes(run->dtype) + 4) * (double)run->n;
}
static double read_bytes(const bench_kernel_run *run) {
    return 4.0 * (double)run->n;
}
static double one_each(const bench_kernel_run *run) {
    return (double)run->n;
}
static double vector_checksum(const bench_kernel_run *run) {
    return sum(run->out, run->n) + (double)run->result;
}
/* For what leaves -inf behind: what is left of the finite ones. */
static double masked_checksum(const bench_kernel_run *run) {
    double total = 0;
    for (int64_t i = 0; i < run->n; i++)
        total += isinf(run->in[i]) ? 0 : (double)run->in[i];
    return total;
}
static double in_place_checksum(const bench_kernel_run *run) {
    return sum(run->in, run->n);
}
/* A factor of 1: any other would leave the numbers subnormal or infinite after enough calls. */
static void scale_call(bench_kernel_run *run) {
    run->kernels->scale(run->in, run->n, 1.0f);
}
static void adjust_call(bench_kernel_run *run) {
    run->kernels->adjust(run->in, run->n, &(attn_score_ops){.softcap = 50});
}
static void mask_call(bench_kernel_run *run) {
    run->kernels->mask(run->in, run->bits, run->n);
}
/* In place: a row that is not restored is a softmax of probabilities from the second call on, of equal
 * numbers in the end. Each call takes the next of `rows` copies, so that the clock is not read for every
 * short row, and together they stay in the first-level cache. */
static int64_t softmax_rows(const bench_kernel_run *run) {
    return run->n < 4096 ? 4096 / run->n : 1;
}
static double softmax_touches(const bench_kernel_run *run) {
    return 4.0 * (double)(softmax_rows(run) * run->n);
}
static bool softmax_prepare(bench_kernel_run *run, uint64_t seed) {
    run->rows = softmax_rows(run);
    run->in = make_source(run, ATTN_F32, run->n, seed);
    run->out = floats(run->rows * run->n);
    return run->in && run->out;
}
static void softmax_restore(bench_kernel_run *run) {
    for (int64_t row = 0; row < run->rows; row++)
        memcpy(run->out + row * run->n, run->in, (size_t)run->n * sizeof(float));
    run->row = 0;
}
static void softmax_call(bench_kernel_run *run) {
    float maximum, total;
    run->kernels->softmax(run->out + run->row++ * run->n, run->n, -INFINITY, &maximum, &total);
    run->result = total;
}
static void exp_call(bench_kernel_run *run) {
    run->kernels->exp(run->out, run->in, run->n);
}
static void widen_call(bench_kernel_run *run) {
    run->kernels->widen(run->out, run->in, run->dtype, run->n);
}
static void read_call(bench_kernel_run *run) {
    run->result = run->kernels->read(run->in, run->n);
}
static void copy_call(bench_kernel_run *run) {
    run->kernels->copy(run->out, run->in, run->n);
}

/* ---- packing of n x D: source in `in`, panels in `out` ---- */

static bool pack_prepare(bench_kernel_run *run, uint64_t seed) {
    const attn_kernels *k = run->kernels;
    run->in = make_source(run, run->dtype, run->n * run->head_dim, seed);
    run->out = floats(round_up(run->n, k->mr * k->nr) * round_up(run->head_dim, k->nr));
    return run->in && run->out;
}
static double pack_bytes(const bench_kernel_run *run) {
    return ((double)attn_dtype_bytes(run->dtype) + 4) * (double)run->n * (double)run->head_dim;
}
static double pack_checksum(const bench_kernel_run *run) {
    return sum(run->out, run->n * run->head_dim);
}
static void pack_a_call(bench_kernel_run *run) {
    run->kernels->pack_a(run->out, run->in, run->dtype, run->head_dim, run->n, run->head_dim, 0.125f);
}
static void pack_bt_call(bench_kernel_run *run) {
    run->kernels->pack_bt(run->out, run->in, run->dtype, run->head_dim, run->n, run->head_dim);
}
static void pack_b_call(bench_kernel_run *run) {
    run->result = run->kernels->pack_b(run->out, run->n * run->kernels->nr, run->in, run->dtype,
                                       run->head_dim, run->n, run->head_dim, true);
}

/* ---- flash_tile: one tile of queries against n keys ---- */

static bool tile_prepare(bench_kernel_run *run, uint64_t seed) {
    const attn_kernels *k = run->kernels;
    const int64_t rows = k->query_tile, keys = run->n, depth = run->head_dim, width = run->value_dim;
    float *query = make_source(run, ATTN_F32, rows * depth, seed);
    float *key = make_source(run, ATTN_F32, keys * depth, seed + 1);
    float *value = make_source(run, ATTN_F32, keys * width, seed + 2);
    run->query = floats(rows * depth);
    run->key = floats(round_up(keys, k->nr) * depth);
    run->value = floats(keys * round_up(width, k->nr));
    run->out = floats(rows * (round_up(width, k->nr) + 2));
    run->scratch = floats(k->flash_scratch);
    const bool made =
        query && key && value && run->query && run->key && run->value && run->out && run->scratch;
    if (made) {
        k->pack_a(run->query, query, ATTN_F32, depth, rows, depth, 1 / sqrtf((float)depth));
        k->pack_bt(run->key, key, ATTN_F32, depth, keys, depth);
        k->pack_b(run->value, keys * k->nr, value, ATTN_F32, width, keys, width, true);
        run->tile = (attn_flash_tile){
            .rows = rows,
            .head_dim = depth,
            .value_dim = width,
            .query = run->query,
            .value_panel_stride = keys * k->nr,
            .acc = run->out,
            .row_max = run->out + rows * round_up(width, k->nr),
            .row_sum = run->out + rows * (round_up(width, k->nr) + 1),
            .scratch = run->scratch,
        };
    }
    free(query);
    free(key);
    free(value);
    return made;
}
static void tile_call(bench_kernel_run *run) {
    const attn_kernels *k = run->kernels;
    attn_flash_tile *tile = &run->tile;
    memset(run->out, 0, (size_t)(tile->rows * (round_up(run->value_dim, k->nr) + 2)) * sizeof(float));
    for (int64_t r = 0; r < tile->rows; r++)
        tile->row_max[r] = -INFINITY;
    for (int64_t key = 0; key < run->n; key += k->key_block) {
        tile->keys = run->n - key < k->key_block ? run->n - key : k->key_block;
        tile->key = run->key + key * run->head_dim;
        tile->value = run->value + key * k->nr;
        k->flash_tile(tile);
    }
}
static double tile_flops(const bench_kernel_run *run) {
    return 2.0 * (double)run->kernels->query_tile * (double)run->n * (double)(run->head_dim + run->value_dim);
}
static double tile_exps(const bench_kernel_run *run) {
    return (double)run->kernels->query_tile * (double)run->n;
}
static double tile_bytes(const bench_kernel_run *run) {
    return 4.0 * (double)(run->n + run->kernels->query_tile) * (double)(run->head_dim + run->value_dim);
}
static double tile_checksum(const bench_kernel_run *run) {
    return sum(run->tile.acc, run->tile.rows * round_up(run->value_dim, run->kernels->nr));
}

/* ---- The table ---- */

const bench_kernel bench_kernels[] = {
    {.name = "matmul",
     .note = "scores: n x n with depth D",
     .has_head_dim = true,
     .flops = scores_flops,
     .bytes = scores_bytes,
     .reads = scores_reads,
     .prepare = scores_prepare,
     .call = scores_call,
     .checksum = scores_checksum},
    {.name = "matmul_pv",
     .note = "weights times values: n x Dv with depth n",
     .has_value_dim = true,
     .flops = values_flops,
     .bytes = values_bytes,
     .reads = values_reads,
     .prepare = values_prepare,
     .call = values_call,
     .checksum = values_checksum},
    {.name = "scale",
     .note = "a row of n scores times a factor",
     .flops = one_each,
     .bytes = read_write_bytes,
     .touches = read_bytes,
     .prepare = vector_prepare,
     .call = scale_call,
     .checksum = in_place_checksum},
    {.name = "adjust",
     .note = "softcap of a row of n scores",
     .exps = one_each,
     .bytes = read_write_bytes,
     .touches = read_bytes,
     .prepare = vector_prepare,
     .call = adjust_call,
     .checksum = in_place_checksum},
    {.name = "mask",
     .note = "a row of n scores under random bits",
     .bytes = read_write_bytes,
     .touches = read_bytes,
     .prepare = vector_prepare,
     .call = mask_call,
     .checksum = masked_checksum},
    {.name = "softmax",
     .note = "a row of n scores, the same for each call",
     .exps = one_each,
     .bytes = read_write_bytes,
     .touches = softmax_touches,
     .prepare = softmax_prepare,
     .call = softmax_call,
     .checksum = vector_checksum,
     .restore = softmax_restore},
    {.name = "exp",
     .note = "n numbers",
     .exps = one_each,
     .bytes = read_write_bytes,
     .prepare = vector_prepare,
     .call = exp_call,
     .checksum = vector_checksum},
    {.name = "widen",
     .note = "n numbers from --dtype to f32",
     .typed = true,
     .bytes = convert_bytes,
     .prepare = vector_prepare,
     .call = widen_call,
     .checksum = vector_checksum},
    {.name = "pack_a",
     .note = "n x D into A panels",
     .typed = true,
     .has_head_dim = true,
     .bytes = pack_bytes,
     .prepare = pack_prepare,
     .call = pack_a_call,
     .checksum = pack_checksum},
    {.name = "pack_bt",
     .note = "n x D into B panels, transposed",
     .typed = true,
     .has_head_dim = true,
     .bytes = pack_bytes,
     .prepare = pack_prepare,
     .call = pack_bt_call,
     .checksum = pack_checksum},
    {.name = "pack_b",
     .note = "n x D into B panels",
     .typed = true,
     .has_head_dim = true,
     .bytes = pack_bytes,
     .prepare = pack_prepare,
     .call = pack_b_call,
     .checksum = pack_checksum},
    {.name = "flash_tile",
     .note = "one tile of queries against n keys",
     .has_head_dim = true,
     .has_value_dim = true,
     .flops = tile_flops,
     .exps = tile_exps,
     .bytes = tile_bytes,
     .reads = tile_bytes,
     .prepare = tile_prepare,
     .call = tile_call,
     .checksum = tile_checksum},
    {.name = "read",
     .note = "sum of n numbers",
     .bytes = read_bytes,
     .reads = read_bytes,
     .prepare = vector_prepare,
     .call = read_call,
     .checksum = vector_checksum},
    {.name = "copy",
     .note = "n numbers",
     .bytes = read_write_bytes,
     .prepare = vector_prepare,
     .call = copy_call,
     .checksum = vector_checksum},
};
const int bench_kernel_count = sizeof bench_kernels / sizeof bench_kernels[0];
