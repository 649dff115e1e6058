/* One step of decoding: few rows against a block of keys and values as they are stored. Needs pack_tmpl.h and
 * flash_tmpl.h.
 *
 * Packing pays when a panel meets many rows; with few, reading keys and values once is all that can be had.
 * So scores are dot products along the stored rows of K, and values are added up along those of V, in tiles
 * of rows x keys whose sums or weights stay in registers. While rows of K are read those of V are fetched,
 * and while V is read the next block's K, so that memory is never waited for. */

/* Lines of `rows` stored rows around element l of each. */
VF_INLINE void decode_fetch_(attn_dtype dtype, int rows, const void *first, int64_t stride, int64_t l) {
    const int64_t bytes = dtype == ATTN_F32 ? 4 : 2;
    if (first && l * bytes % 64 == 0)
        PACK_UNROLL for (int j = 0; j < rows; j++)
            __builtin_prefetch((const char *)first + (j * stride + l) * bytes, 0, 2);
}

/* Row `j` of a stored matrix; NULL stays. */
VF_INLINE const void *decode_row_(attn_dtype dtype, const void *first, int64_t stride, int64_t j) {
    return first ? (const char *)first + j * stride * (dtype == ATTN_F32 ? 4 : 2) : NULL;
}

/* Scores of R rows against K keys, R * K up to 12: with the keys' vectors and one of a query 16 registers.
 * FMAs along the depth depend on each other, and 8 chains keep two pipes of latency 4 busy. `ahead`: rows to
 * fetch, as many as keys. */
VF_INLINE void decode_dots_(attn_dtype dtype, int R, int K, int64_t depth, const float *query,
                            int64_t query_stride, const void *key, int64_t stride, const void *ahead,
                            int64_t ahead_stride, int64_t ahead_cols, float *scores) {
    vf sum[12], k[8];
    PACK_UNROLL for (int i = 0; i < R * K; i++) sum[i] = vf_set1(0.0f);
    int64_t l = 0;
    for (; l + VL <= depth; l += VL) {
        PACK_UNROLL for (int j = 0; j < K; j++) k[j] = pack_load_(key, dtype, j * stride + l, VL);
        PACK_UNROLL for (int i = 0; i < R; i++) {
            const vf q = vf_load(query + i * query_stride + l);
            PACK_UNROLL for (int j = 0; j < K; j++) sum[i * K + j] = vf_fma(q, k[j], sum[i * K + j]);
        }
        if (l < ahead_cols)
            decode_fetch_(dtype, K, ahead, ahead_stride, l);
    }
    if (l < depth) { /* the query's row is whole vectors */
        PACK_UNROLL for (int j = 0; j < K; j++) k[j] = pack_load_(key, dtype, j * stride + l, depth - l);
        PACK_UNROLL for (int i = 0; i < R; i++) {
            const vf q = vf_load(query + i * query_stride + l);
            PACK_UNROLL for (int j = 0; j < K; j++) sum[i * K + j] = vf_fma(q, k[j], sum[i * K + j]);
        }
    }
    PACK_UNROLL for (int i = 0; i < R; i++) PACK_UNROLL for (int j = 0; j < K; j++)
        scores[i * SCORE_STRIDE + j] = vf_reduce_add(sum[i * K + j]);
}

/* product[R][cols] += weights[R][K] V, R * K up to 8. With `finite_only` elements of V that are NaN or Inf
 * count as zero, and *check becomes NaN where there was one. */
VF_INLINE void decode_values_(attn_dtype dtype, int R, int K, int64_t cols, const float *weights,
                              const void *value, int64_t stride, const void *ahead, int64_t ahead_stride,
                              int64_t ahead_cols, float *product, int64_t product_stride, bool finite_only,
                              vf *check) {
    vf weight[8], sum[2];
    PACK_UNROLL for (int i = 0; i < R; i++) PACK_UNROLL for (int j = 0; j < K; j++) weight[i * K + j] =
        vf_set1(weights[i * SCORE_STRIDE + j]);
    for (int64_t c = 0; c < cols; c += VL) {
        PACK_UNROLL for (int i = 0; i < R; i++) sum[i] = vf_load(product + i * product_stride + c);
        PACK_UNROLL for (int j = 0; j < K; j++) {
            vf v = pack_load_(value, dtype, j * stride + c, cols - c);
            if (finite_only) {
                const vf none = vf_sub(v, v); /* 0, or NaN */
                *check = vf_add(*check, none);
                v = vf_select(vf_eq(none, vf_set1(0.0f)), v, vf_set1(0.0f));
            }
            PACK_UNROLL for (int i = 0; i < R; i++) sum[i] = vf_fma(weight[i * K + j], v, sum[i]);
        }
        PACK_UNROLL for (int i = 0; i < R; i++) vf_store(product + i * product_stride + c, sum[i]);
        if (c < ahead_cols)
            decode_fetch_(dtype, K, ahead, ahead_stride, c);
    }
}

/* R rows from `row` on against all keys of the tile. */
VF_INLINE void decode_scores_(attn_dtype dtype, int R, int K, const attn_decode_tile *tile, int64_t row) {
    const int64_t query_stride = (tile->head_dim + VL - 1) / VL * VL;
    const void *ahead = row == 0 ? tile->value : NULL;
    int64_t j = 0;
#define DECODE_DOTS(count)                                                                                   \
    decode_dots_(dtype, R, count, tile->head_dim, tile->query + row * query_stride, query_stride,            \
                 decode_row_(dtype, tile->key, tile->key_stride, j), tile->key_stride,                       \
                 decode_row_(dtype, ahead, tile->value_stride, j), tile->value_stride, tile->value_dim,      \
                 tile->scratch + row * SCORE_STRIDE + j);
    for (; j + K <= tile->keys; j += K)
        DECODE_DOTS(K)
    for (; j < tile->keys; j++)
        DECODE_DOTS(1)
}

VF_INLINE void decode_products_(attn_dtype dtype, int R, int K, const attn_decode_tile *tile, int64_t row,
                                bool finite_only, vf *check) {
    const int64_t stride = (tile->value_dim + NR - 1) / NR * NR;
    int64_t j = 0;
#define DECODE_VALUES(count)                                                                                 \
    decode_values_(                                                                                          \
        dtype, R, count, tile->value_dim, tile->scratch + row * SCORE_STRIDE + j,                            \
        decode_row_(dtype, tile->value, tile->value_stride, j), tile->value_stride,                          \
        row == 0 && j + (count) <= tile->next_keys ? decode_row_(dtype, tile->next_key, tile->key_stride, j) \
                                                   : NULL,                                                   \
        tile->key_stride, tile->head_dim, tile->product + row * stride, stride, finite_only, check);
    for (; j + K <= tile->keys; j += K)
        DECODE_VALUES(K)
    for (; j < tile->keys; j++)
        DECODE_VALUES(1)
}

/* The rows' weights times V into tile->product. Returns NaN where an element of it is not finite; with
 * `finite_only` where one of V is not. */
VF_INLINE float decode_product_(attn_dtype dtype, const attn_decode_tile *tile, bool finite_only) {
    const int64_t elements = tile->rows * ((tile->value_dim + NR - 1) / NR * NR);
    vf check = vf_set1(0.0f);
    memset(tile->product, 0, (size_t)elements * sizeof(float));
    int64_t i = 0;
    for (; i + 2 <= tile->rows; i += 2)
        decode_products_(dtype, 2, 4, tile, i, finite_only, &check);
    if (i < tile->rows)
        decode_products_(dtype, 1, 8, tile, i, finite_only, &check);
    for (i = 0; i < elements && !finite_only; i += VL) {
        const vf x = vf_load(tile->product + i);
        check = vf_add(check, vf_sub(x, x));
    }
    return vf_reduce_add(check);
}

VF_INLINE void decode_tile_(attn_dtype dtype, const attn_decode_tile *tile, bool *not_finite) {
    float maxima[VL], tops[QUERY_TILE], alpha[QUERY_TILE + VL];
    int64_t i = 0;
    for (; i + 4 <= tile->rows; i += 4)
        decode_scores_(dtype, 4, 3, tile, i);
    for (; i + 2 <= tile->rows; i += 2)
        decode_scores_(dtype, 2, 4, tile, i);
    if (i < tile->rows)
        decode_scores_(dtype, 1, 8, tile, i);
    for (i = 0; i < tile->rows; i++) {
        const attn_score_ops *ops = tile->ops ? tile->ops + i / tile->ops_rows : NULL;
        vf_store(maxima, vf_set1(-INFINITY));
        finish_scores(tile->scratch + i * SCORE_STRIDE, 0, tile->keys, ops, i % tile->ops_rows, maxima);
        tops[i] = vf_reduce_max(vf_load(maxima));
    }
    renew_(tile->rows, tile->keys, tile->scratch, tops, tile->row_max, tile->row_sum, alpha);
    /* Elements of V that are not finite show in the product, whatever their weight is. So may a score or a
     * sum that is not: only looking again tells, and leaves such elements of V out. */
    const float seen = decode_product_(dtype, tile, false);
    if (seen != seen) {
        const float of_values = decode_product_(dtype, tile, true);
        *not_finite = of_values != of_values;
    }
    const int64_t stride = (tile->value_dim + NR - 1) / NR * NR;
    for (i = 0; i < tile->rows; i++)
        for (int64_t c = i * stride; c < (i + 1) * stride; c += VL)
            vf_store(tile->acc + c,
                     vf_fma(vf_set1(alpha[i]), vf_load(tile->acc + c), vf_load(tile->product + c)));
}

static bool decode_tile(const attn_decode_tile *tile) {
    const attn_dtype dtype = tile->dtype;
    bool not_finite = false;
    PACK_DISPATCH(decode_tile_, tile, &not_finite)
    return not_finite;
}
