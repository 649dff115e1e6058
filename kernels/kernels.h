/* The kernel table: what every ISA level offers, and the contract of each entry.
 *
 * One const table per level, `attn_kernels_<isa>`, is the only symbol its object exports.
 * Kernels know nothing of attention's shapes or patterns: they get matrices, tiles and bits.
 * None allocates, locks, or reads or writes one byte outside what it is given; none changes the
 * floating-point environment. Pointers are aligned to their element only, except where stated.
 *
 * Packed operands. A matrix product takes its right side in panels of `nr` columns,
 *
 *     [ceil(cols / nr)][depth][nr]      ("B panels": element (k, c) at panel c/nr, row k, column c%nr)
 *
 * the missing columns of the last panel being zero, and its left side in panels of `mr` rows whose
 * inner layout is private to the level ("A panels": round_up(rows, mr) * depth floats). For scores
 * the columns are keys and the depth is D, so a run of keys that starts at a multiple of nr is one
 * piece of memory: key j starts at packed + j * D. For values the columns are those of V and the
 * depth is the keys: key j starts at row j of every panel, packed + j * nr, panels being
 * `panel_stride` floats apart.
 *
 * A row's result depends on that row and the columns alone, never on which other rows are in the
 * call or where the row lies in its panel: the bitwise reproducibility of the engine rests on it.
 */
#ifndef ATTN_KERNELS_H
#define ATTN_KERNELS_H

#include "attnscope.h"

/* What turns q.k into the final score and which pairs count, for one tile (or one row, rows = 1):
 *     score = cap(scale * q.k) - slope * |distance + row - key| + bias[row][key]
 * The scale is already in the scores when an entry takes these. Pairs whose mask bit is clear, and
 * those whose bias is -inf, become -inf whatever the score was (NaN included); a finite slope or bias makes
 * no finite score -inf, but -FLT_MAX. */
typedef struct attn_score_ops {
    float softcap;     /* c > 0, or 0 for none */
    float slope;       /* ALiBi; 0 for none */
    int64_t distance;  /* p of the tile's row 0 minus the index of its first key */
    const float *bias; /* innermost stride 1; NULL for none */
    int64_t bias_stride;
    const uint64_t *mask; /* bit k%64 of word row*mask_words + k/64; NULL when all are attended */
    int64_t mask_words;
} attn_score_ops;

/* One step of FlashAttention: scores of a query tile against a block of keys, online softmax,
 * accumulation. Scores never leave `scratch`. */
typedef struct attn_flash_tile {
    int64_t rows;                /* 1..query_tile */
    int64_t keys;                /* 1..key_block */
    int64_t head_dim, value_dim; /* D >= 1, Dv >= 0 */
    const float *query;          /* A panels of rows x D, already multiplied by the scale */
    const float *key;            /* B panels (columns are keys) at the block's first key */
    const float *value;          /* B panels (columns of V) at the block's first key */
    int64_t value_panel_stride;
    const attn_score_ops *ops; /* NULL: nothing but q.k, all pairs attended */
    /* State, for round_up(rows, mr) rows: running maximum (-inf at first), running sum of
     * exp(score - maximum) (0 at first), sum of exp(score - maximum) * value. */
    float *row_max, *row_sum;
    float *acc;     /* [query_tile][round_up(Dv, nr)], 64-byte aligned */
    float *scratch; /* flash_scratch floats, 64-byte aligned, contents of no meaning between calls */
} attn_flash_tile;

/* The same for few rows, which may be of several heads that share their keys, against keys and values as they
 * are stored, rows `*_stride` elements apart. */
typedef struct attn_decode_tile {
    int64_t rows;                /* 1..query_tile */
    int64_t keys;                /* 1..key_block */
    int64_t head_dim, value_dim; /* D >= 1, Dv >= 0 */
    attn_dtype dtype;            /* of keys and values */
    const float *query;      /* rows x round_up(D, lanes), zeros beyond D, already multiplied by the scale */
    const void *key, *value; /* of the block's first key */
    int64_t key_stride, value_stride;
    const void
        *next_key; /* of the key that is likely wanted next, next_keys - 1 more after it: only fetched */
    int64_t next_keys;
    const attn_score_ops *ops; /* one for every ops_rows rows; NULL: nothing but q.k, all pairs attended */
    int64_t ops_rows;
    float *row_max, *row_sum, *acc; /* state as in attn_flash_tile, of `rows` rows */
    float *scratch;                 /* likewise */
    float *product;                 /* rows x round_up(Dv, nr), contents of no meaning between calls */
} attn_decode_tile;

#define ATTN_MOST_KEY_BLOCK 1024

/* Depth of one pass of `matmul`: a B panel of it (2 to 32 KiB) stays in L1. An element's sum is cut into one
 * chain for each pass, so a product in steps of a multiple of it is bit for bit that in one step. */
#define ATTN_MATMUL_DEPTH 256
/* A panels of one pass: they stay in L2 while all B panels go by. */
#define ATTN_MATMUL_PANELS 32

typedef struct attn_kernels {
    const char *name;      /* the ISA level */
    int lanes;             /* float32 lanes of a vector */
    int mr, nr;            /* register tile of the matrix product: rows, columns; nr divides 64 */
    int query_tile;        /* rows of a flash tile; a multiple of mr */
    int key_block;         /* most keys of one flash step; a multiple of 64, up to ATTN_MOST_KEY_BLOCK */
    int64_t flash_scratch; /* floats */

    /* Packing. `src` has `dtype` elements, rows `src_stride` elements apart, and is read within its
     * rows x cols only. */

    /* A panels of rows x depth, each element times `factor`. */
    void (*pack_a)(float *dst, const void *src, attn_dtype dtype, int64_t src_stride, int64_t rows,
                   int64_t depth, float factor);
    /* B panels whose columns are the rows of src (keys x D): the transposed operand of A B^T.
     * Missing columns of the last panel are set to zero. */
    void (*pack_bt)(float *dst, const void *src, attn_dtype dtype, int64_t src_stride, int64_t rows,
                    int64_t depth);
    /* Rows of B panels whose columns are the columns of src (depth x cols): writes `depth` rows at
     * dst in every panel. With `finite_only`, elements that are NaN or Inf are stored as zero.
     * Returns true if there was any such element. */
    bool (*pack_b)(float *dst, int64_t panel_stride, const void *src, attn_dtype dtype, int64_t src_stride,
                   int64_t depth, int64_t cols, bool finite_only);

    /* C[m][n] = A B, or C += A B with `accumulate`. A panels of m x k, B panels of k x n with
     * `b_panel_stride` floats between panels (k * nr when packed alone). Only m x n of C is touched. */
    void (*matmul)(int64_t m, int64_t n, int64_t k, const float *a, const float *b, int64_t b_panel_stride,
                   float *c, int64_t c_stride, bool accumulate);

    /* x[i] *= factor. */
    void (*scale)(float *x, int64_t n, float factor);
    /* Score to final score of one row of n keys starting at the tile's first key; ops->mask is for
     * this row (mask_words unused), as is ops->bias. */
    void (*adjust)(float *x, int64_t n, const attn_score_ops *ops);
    /* x[i] = -inf where bit i%64 of bits[i/64] is clear. */
    void (*mask)(float *x, const uint64_t *bits, int64_t n);
    /* Softmax of one row in place, with one more term `sink_logit` in the denominator (-inf: none).
     * A row of only -inf becomes zeros. NaN anywhere or +inf makes the row's attended elements NaN
     * (elements that are -inf may stay zero or become NaN). Stores the maximum m and the sum s,
     * both including the sink, so that log-sum-exp is m + log(s) (m = -inf, s = 0 if nothing). */
    void (*softmax)(float *x, int64_t n, float sink_logit, float *row_max, float *row_sum);
    /* y[i] = e^x[i]: within 2 ulp on [-87.33, 88.72], +0 below, +inf above, NaN stays. */
    void (*exp)(float *y, const float *x, int64_t n);
    /* dst[i] = src[i] as float32. */
    void (*widen)(float *dst, const void *src, attn_dtype dtype, int64_t n);

    void (*flash_tile)(const attn_flash_tile *tile);
    /* Elements of V that are NaN or Inf count as zero; returns true if there was any. */
    bool (*decode_tile)(const attn_decode_tile *tile);
    /* out[r][c] = acc[r][c] * (1 / row_sum[r]), zeros where row_sum is 0. */
    void (*flash_finish)(int64_t rows, int64_t value_dim, const float *acc, const float *row_sum, float *out,
                         int64_t out_stride);

    /* For the roofline: `iterations` rounds of independent FMA chains (multiply and add where the
     * level has no FMA), `peak_flops` FLOPs each; the result depends on all of them. */
    float (*fma_peak)(int64_t iterations);
    int64_t peak_flops;
    /* Sum of n floats at the speed of loads, and a plain copy, for bandwidth. */
    float (*read)(const float *x, int64_t n);
    void (*copy)(float *dst, const float *src, int64_t n);
} attn_kernels;

/* Declares attn_kernels_<isa> for every level of this architecture. */
#if defined(__x86_64__)
#    define ATTN_ARCH_X86 1
#elif defined(__aarch64__)
#    define ATTN_ARCH_ARM64 1
#endif
#define ISA(id, ...) extern const attn_kernels attn_kernels_##id;
#include "dispatch/isa.def"
#undef ISA

#endif
