/* One step of decoding: few rows against a block of keys and values as they are stored. Needs pack_tmpl.h and
 * flash_tmpl.h.
 *
 * Packing pays when a panel meets many rows; with few, reading keys and values once is all that can be had.
 * So scores are dot products along the stored rows of K, and values are added up along those of V, in tiles
 * of rows x keys whose sums or weights stay in registers. While rows of K are read those of V are fetched,
 * and while V is read the next block's K, so that memory is hardly waited for.
 *
 * Each tile is a function of its own, whose loop is straight code: inlined into one another, gcc 12 and clang
 * 14 spill them at avx2. */

VF_INLINE int64_t decode_bytes_(attn_dtype dtype) {
    return dtype == ATTN_F32 ? 4 : 2;
}

/* Row `j` of a stored matrix. */
VF_INLINE const void *decode_row_(attn_dtype dtype, const void *first, int64_t stride, int64_t j) {
    return (const char *)first + j * stride * decode_bytes_(dtype);
}

/* Fetches what lies `element` elements from `first`, which may be past the end of anything: nothing is read.
 * Where a vector is a small part of a line, fetching with each would cost more than it gains. */
VF_INLINE void decode_fetch_(attn_dtype dtype, const void *first, int64_t element) {
    if (VL * decode_bytes_(dtype) >= 16)
        __builtin_prefetch((const void *)((uintptr_t)first + (uintptr_t)(element * decode_bytes_(dtype))), 0,
                           2);
}

/* Lists of a tile's keys and rows, as named variables: see matmul_tmpl.h. */
#define KEYS_1(F, i) F(i, 0)
#define KEYS_3(F, i) F(i, 0) F(i, 1) F(i, 2)
#define KEYS_4(F, i) KEYS_3(F, i) F(i, 3)
#define KEYS_8(F, i) KEYS_4(F, i) F(i, 4) F(i, 5) F(i, 6) F(i, 7)
#define HEIGHT_1(F, K) F(0, K)
#define HEIGHT_2(F, K) F(0, K) F(1, K)
#define HEIGHT_4(F, K) HEIGHT_2(F, K) F(2, K) F(3, K)

#define DOT_ZERO(i, j) vf sum##i##_##j = vf_set1(0.0f);
#define DOT_KEY(unused, j)                                                                                   \
    const vf key##j = pack_load_(key, dtype, j * tile->key_stride + l, n);                                   \
    decode_fetch_(dtype, ahead, j * tile->value_stride + l);
#define DOT_FMA(i, j) sum##i##_##j = vf_fma(query##i, key##j, sum##i##_##j);
#define DOT_OUT(i, j) scores[i * SCORE_STRIDE + j] = vf_reduce_add(sum##i##_##j);
#define DOT_ROW_ZERO(i, K) KEYS_##K(DOT_ZERO, i)
#define DOT_ROW_FMA(i, K)                                                                                    \
    const vf query##i = vf_load(query + i * stride + l);                                                     \
    KEYS_##K(DOT_FMA, i)
#define DOT_ROW_OUT(i, K) KEYS_##K(DOT_OUT, i)

/* Scores of R rows from `row` on against the tile's keys [first, first + K), R * K up to 12: with the keys'
 * vectors and one of a query 16 registers. FMAs along the depth depend on each other, and 8 chains keep two
 * pipes of latency 4 busy. The values of the same keys are fetched. */
#define DECODE_DOTS(name, type, R, K)                                                                        \
    static __attribute__((noinline)) void dots_##name##_##R##x##K(const attn_decode_tile *tile, int64_t row, \
                                                                  int64_t first) {                           \
        const attn_dtype dtype = type;                                                                       \
        const int64_t depth = tile->head_dim, stride = (depth + VL - 1) / VL * VL;                           \
        const float *query = tile->query + row * stride;                                                     \
        const void *key = decode_row_(dtype, tile->key, tile->key_stride, first);                            \
        const void *ahead = decode_row_(dtype, tile->value, tile->value_stride, first);                      \
        float *scores = tile->scratch + row * SCORE_STRIDE + first;                                          \
        HEIGHT_##R(DOT_ROW_ZERO, K) int64_t l = 0;                                                           \
        for (; l + VL <= depth; l += VL) {                                                                   \
            const int64_t n = VL;                                                                            \
            KEYS_##K(DOT_KEY, 0) HEIGHT_##R(DOT_ROW_FMA, K)                                                  \
        }                                                                                                    \
        if (l < depth) { /* the query's row is whole vectors */                                              \
            const int64_t n = depth - l;                                                                     \
            KEYS_##K(DOT_KEY, 0) HEIGHT_##R(DOT_ROW_FMA, K)                                                  \
        }                                                                                                    \
        HEIGHT_##R(DOT_ROW_OUT, K)                                                                           \
    }

#define VALUES_WEIGHT(i, j) const vf weight##i##_##j = vf_set1(weights[i * SCORE_STRIDE + j]);
#define VALUES_KEY(unused, j)                                                                                \
    const vf value##j = pack_load_(value, dtype, j * tile->value_stride + c, n);                             \
    decode_fetch_(dtype, ahead, j * tile->key_stride + c);
#define VALUES_FMA(i, j) sum##i = vf_fma(weight##i##_##j, value##j, sum##i);
#define VALUES_ROW_WEIGHTS(i, K) KEYS_##K(VALUES_WEIGHT, i)
#define VALUES_ROW_FMA(i, K)                                                                                 \
    vf sum##i = vf_load(product + i * stride + c);                                                           \
    KEYS_##K(VALUES_FMA, i) vf_store(product + i * stride + c, sum##i);

/* product[R][value_dim] += weights[R][K] V for the same rows and keys, R * K up to 8. As many of the next
 * block's keys are fetched. */
#define DECODE_VALUES(name, type, R, K)                                                                      \
    static __attribute__((noinline)) void values_##name##_##R##x##K(const attn_decode_tile *tile,            \
                                                                    int64_t row, int64_t first) {            \
        const attn_dtype dtype = type;                                                                       \
        const int64_t cols = tile->value_dim, stride = (cols + NR - 1) / NR * NR;                            \
        const float *weights = tile->scratch + row * SCORE_STRIDE + first;                                   \
        const void *value = decode_row_(dtype, tile->value, tile->value_stride, first);                      \
        const int64_t next = first + (K) <= tile->next_keys ? first : 0;                                     \
        const void *ahead = decode_row_(dtype, tile->next_key, tile->key_stride, next);                      \
        float *product = tile->product + row * stride;                                                       \
        HEIGHT_##R(VALUES_ROW_WEIGHTS, K) int64_t c = 0;                                                     \
        for (; c + VL <= cols; c += VL) {                                                                    \
            const int64_t n = VL;                                                                            \
            KEYS_##K(VALUES_KEY, 0) HEIGHT_##R(VALUES_ROW_FMA, K)                                            \
        }                                                                                                    \
        if (c < cols) { /* the product's rows are whole vectors */                                           \
            const int64_t n = cols - c;                                                                      \
            KEYS_##K(VALUES_KEY, 0) HEIGHT_##R(VALUES_ROW_FMA, K)                                            \
        }                                                                                                    \
    }
typedef void decode_step_(const attn_decode_tile *tile, int64_t row, int64_t first);

/* Tiles of one storage type, those of most rows first, and of one row of keys for what is left. */
#define DECODE_TILES(name, dtype)                                                                            \
    DECODE_DOTS(name, dtype, 4, 3)                                                                           \
    DECODE_DOTS(name, dtype, 4, 1)                                                                           \
    DECODE_DOTS(name, dtype, 2, 4)                                                                           \
    DECODE_DOTS(name, dtype, 2, 1)                                                                           \
    DECODE_DOTS(name, dtype, 1, 8)                                                                           \
    DECODE_DOTS(name, dtype, 1, 1)                                                                           \
    DECODE_VALUES(name, dtype, 2, 4)                                                                         \
    DECODE_VALUES(name, dtype, 2, 1)                                                                         \
    DECODE_VALUES(name, dtype, 1, 8)                                                                         \
    DECODE_VALUES(name, dtype, 1, 1)
DECODE_TILES(f32, ATTN_F32)
DECODE_TILES(f16, ATTN_F16)
DECODE_TILES(bf16, ATTN_BF16)

/* The best tile for up to `rows` rows: it takes `rows` rows and `keys` keys, `one` as many rows and one key.
 */
typedef struct decode_form_ {
    int rows, keys;
    decode_step_ *step, *one;
} decode_form_;

#define DECODE_FORMS(name)                                                                                   \
    {                                                                                                        \
        {{4, 3, dots_##name##_4x3, dots_##name##_4x1},                                                       \
         {2, 4, dots_##name##_2x4, dots_##name##_2x1},                                                       \
         {1, 8, dots_##name##_1x8, dots_##name##_1x1}},                                                      \
        {                                                                                                    \
            {2, 4, values_##name##_2x4, values_##name##_2x1}, {                                              \
                1, 8, values_##name##_1x8, values_##name##_1x1                                               \
            }                                                                                                \
        }                                                                                                    \
    }
enum { DECODE_DOTS_, DECODE_VALUES_ };
static const decode_form_ decode_forms_[3][2][3] = {
    [ATTN_F32] = DECODE_FORMS(f32), [ATTN_F16] = DECODE_FORMS(f16), [ATTN_BF16] = DECODE_FORMS(bf16)};

/* All rows against all keys, in tiles. */
static void decode_cover_(const attn_decode_tile *tile, const decode_form_ *form) {
    for (int64_t row = 0; row < tile->rows; row += form->rows) {
        while (tile->rows - row < form->rows)
            form++;
        int64_t j = 0;
        for (; j + form->keys <= tile->keys; j += form->keys)
            form->step(tile, row, j);
        for (; j < tile->keys; j++)
            form->one(tile, row, j);
    }
}

/* product[rows][cols] += weights V once more, elements of V that are NaN or Inf as zero; whether there is
 * any. */
VF_INLINE void decode_finite_(attn_dtype dtype, const attn_decode_tile *tile, bool *not_finite) {
    const int64_t stride = (tile->value_dim + NR - 1) / NR * NR;
    vf check = vf_set1(0.0f);
    for (int64_t i = 0; i < tile->rows; i++)
        for (int64_t j = 0; j < tile->keys; j++)
            for (int64_t c = 0; c < tile->value_dim; c += VL) {
                const vf v = pack_load_(tile->value, dtype, j * tile->value_stride + c, tile->value_dim - c);
                const vf none = vf_sub(v, v); /* 0, or NaN */
                float *const at = tile->product + i * stride + c;
                check = vf_add(check, none);
                vf_store(at, vf_fma(vf_set1(tile->scratch[i * SCORE_STRIDE + j]),
                                    vf_select(vf_eq(none, vf_set1(0.0f)), v, vf_set1(0.0f)), vf_load(at)));
            }
    const float sum = vf_reduce_add(check);
    *not_finite = sum != sum;
}

/* The rows' weights times V into tile->product; whether an element of V is not finite. Such an element shows
 * in the product, whatever its weight is. So may a weight or a sum that is not finite: only looking again
 * tells. */
static bool decode_product_(const attn_decode_tile *tile) {
    const attn_dtype dtype = tile->dtype;
    const int64_t elements = tile->rows * ((tile->value_dim + NR - 1) / NR * NR);
    vf check = vf_set1(0.0f);
    memset(tile->product, 0, (size_t)elements * sizeof(float));
    decode_cover_(tile, decode_forms_[dtype][DECODE_VALUES_]);
    for (int64_t i = 0; i < elements; i += VL) {
        const vf x = vf_load(tile->product + i);
        check = vf_add(check, vf_sub(x, x));
    }
    const float sum = vf_reduce_add(check);
    bool not_finite = false;
    if (sum != sum) {
        memset(tile->product, 0, (size_t)elements * sizeof(float));
        PACK_DISPATCH(decode_finite_, tile, &not_finite)
    }
    return not_finite;
}

static bool decode_tile(const attn_decode_tile *tile) {
    float maxima[VL], tops[QUERY_TILE], alpha[QUERY_TILE + VL];
    const int64_t stride = (tile->value_dim + NR - 1) / NR * NR;
    decode_cover_(tile, decode_forms_[tile->dtype][DECODE_DOTS_]);
    for (int64_t i = 0; i < tile->rows; i++) {
        const attn_score_ops *ops = tile->ops ? tile->ops + i / tile->ops_rows : NULL;
        float *const scores = tile->scratch + i * SCORE_STRIDE;
        for (int64_t j = tile->keys; j % VL != 0; j++) /* finish_scores takes whole vectors */
            scores[j] = 0;
        vf_store(maxima, vf_set1(-INFINITY));
        finish_scores(scores, 0, tile->keys, ops, i % tile->ops_rows, maxima);
        tops[i] = vf_reduce_max(vf_load(maxima));
    }
    renew_(tile->rows, tile->keys, tile->scratch, tops, tile->row_max, tile->row_sum, alpha);
    const bool not_finite = decode_product_(tile);
    for (int64_t i = 0; i < tile->rows; i++)
        for (int64_t c = i * stride; c < (i + 1) * stride; c += VL)
            vf_store(tile->acc + c,
                     vf_fma(vf_set1(alpha[i]), vf_load(tile->acc + c), vf_load(tile->product + c)));
    return not_finite;
}
