/* One step of FlashAttention. Needs matmul_tmpl.h and rows_tmpl.h.
 *
 * Parameters:
 *   QUERY_TILE   rows of a tile, a multiple of MR
 *   KEY_BLOCK    most keys of a step, a multiple of 64
 *   VF_ROW_PAIRS and VF_ROW_PAIR, where vec_<isa>.h takes the values' left operand two steps at a time
 *
 * Scores of the whole tile are computed into scratch, turned into exponentials row by row in place,
 * and are then the left operand of the value product. Each step's product starts at zero and joins the
 * rescaled accumulators by one FMA: the rescaling of online softmax is free, and errors grow with the keys of
 * a step plus the number of steps, not with all keys as one long chain would have them. */

/* Row stride of the score tile: constant, so that the rows of a register tile are constant displacements from
 * one pointer, and not a power of two, so that rows spread over the cache's sets. */
#define SCORE_STRIDE (KEY_BLOCK + 16)

#define ROW_ONTO_RESCALED(i)                                                                                 \
    {                                                                                                        \
        const vf factor = vf_set1(alpha[i]);                                                                 \
        float *const at = c + (i)*c_stride;                                                                  \
        vf_store(at, vf_fma(factor, vf_load(at), c0_##i));                                                   \
        vf_store(at + VL, vf_fma(factor, vf_load(at + VL), c1_##i));                                         \
    }

#ifdef VF_ROW_PAIRS
#    define ROW_PAIR(i) VF_ROW_PAIR(p + (i)*SCORE_STRIDE, b00, b01, b10, b11, c0_##i, c1_##i);
#    define ROW_VALUES(i)                                                                                    \
        {                                                                                                    \
            const vf score = vf_set1(p[(i)*SCORE_STRIDE]);                                                   \
            c0_##i = vf_fma(score, b0, c0_##i);                                                              \
            c1_##i = vf_fma(score, b1, c1_##i);                                                              \
        }
#else
#    define ROW_VALUES(i) VF_PANEL_ROW(step, i, (i)*SCORE_STRIDE, b0, b1, c0_##i, c1_##i);
#endif

/* C[MR][NR] = alpha[row] * C + P B: P is MR rows of exponentials of k keys, B one panel of values. */
static __attribute__((noinline)) void tile_values(int64_t k, const float *p, const float *b,
                                                  const float *alpha, float *c, int64_t c_stride) {
    FOR_ROWS(ROW_ZERO)
    int64_t l = 0;
#ifdef VF_ROW_PAIRS
    for (; l + 2 <= k; l += 2) {
        const vf b00 = vf_load(b), b01 = vf_load(b + VL), b10 = vf_load(b + NR), b11 = vf_load(b + NR + VL);
        FOR_ROWS(ROW_PAIR)
        p += 2;
        b += 2 * NR;
    }
#endif
    for (; l < k; l++) {
        const vf b0 = vf_load(b), b1 = vf_load(b + VL);
#ifndef VF_ROW_PAIRS
        const vf_panel step = vf_panel_load(p);
#endif
        FOR_ROWS(ROW_VALUES)
        p++;
        b += NR;
    }
    FOR_ROWS(ROW_ONTO_RESCALED)
}

#define ROW_SCORES_OUT(i)                                                                                    \
    vf_store(c + (i)*SCORE_STRIDE, c0_##i);                                                                  \
    vf_store(c + (i)*SCORE_STRIDE + VL, c1_##i);                                                             \
    vf_store(maxima + (i)*VL, vf_max(vf_max(c0_##i, c1_##i), vf_load(maxima + (i)*VL)));

/* Scores of MR rows against one panel of keys, all of which count: the tile into scratch, and each
 * row's maximum, kept as a vector, raised by them. */
static __attribute__((noinline)) void tile_scores(int64_t k, const float *a, const float *b, float *c,
                                                  float *maxima) {
    FOR_ROWS(ROW_ZERO)
    PANEL_STEPS
    FOR_ROWS(ROW_SCORES_OUT)
}

/* Final scores of keys first.. of one row of the score tile (first a multiple of VL), what lies
 * beyond the last key set to -inf up to a whole vector; the row's maximum raised by them. */
static void finish_scores(float *x, int64_t first, int64_t keys, const attn_score_ops *ops, int64_t row,
                          float *maxima) {
    const float *bias = ops && ops->bias ? ops->bias + row * ops->bias_stride : NULL;
    const uint64_t *bits = ops && ops->mask ? ops->mask + row * ops->mask_words : NULL;
    const vf none = vf_set1(-INFINITY);
    vf m = vf_load(maxima);
    for (int64_t i = first; i < keys; i += VL) {
        vf s = vf_load(x + i);
        if (ops)
            s = adjust_vector_(s, ops, ops->distance + row, bias, bits, i, keys - i);
        if (keys - i < VL)
            s = vf_select(vm_first(keys - i), s, none); /* GCOV_EXCL_LINE: level scalar: one key */
        vf_store(x + i, s);
        m = vf_max(s, m);
    }
    vf_store(maxima, m);
}

/* Scores to exponentials of one row, in place, n of them rounded up to whole vectors; their sum. One vector
 * a turn: with two, clang 14 spills one at avx2, and they gain nothing, as turns overlap in any case. Sums of
 * 16 are summed: beside a peak, equal small terms all round the same way, and one chain adds that up. */
static __attribute__((noinline)) float exponentials_(float *x, int64_t n, float reference) {
    const vf m = vf_set1(reference);
    vf sum = vf_set1(0.0f);
    for (int64_t i = 0; i < n;) {
        const int64_t end = n - i < 16 * VL ? n : i + 16 * VL;
        vf part = vf_set1(0.0f);
        for (; i < end; i += VL) {
            vf e = vf_exp_below(vf_sub(vf_load(x + i), m));
            part = vf_add(part, e);
            vf_store(x + i, e);
        }
        sum = vf_add(sum, part);
    }
    return vf_reduce_add(sum);
}

/* Online softmax: the maxima of a step's scores join the running ones,
 * scores become exponentials, and their sums join the rescaled sums. alpha: what rescales the rows. */
static void renew_(int64_t rows, int64_t keys, float *scores, float *tops, float *row_max, float *row_sum,
                   float *alpha) {
    float references[QUERY_TILE + VL]; /* rounded up for whole vectors over rows */
    /* For a vector of rows at a time. A row that has attended nothing yet refers to 0: all its scores are
     * -inf, and exp(-inf - 0) is 0. */
    for (int64_t i = 0; i < rows; i += VL) {
        const int64_t n = rows - i < VL ? rows - i : VL;
        const vf none = vf_set1(-INFINITY);
        vf old = vf_load_part(row_max + i, n);
        vf top = vf_max(vf_load_part(tops + i, n), old);
        vf reference = vf_select(vf_eq(top, none), vf_set1(0.0f), top);
        vf_store_part(row_max + i, top, n);
        vf_store(references + i, reference);
        vf_store(alpha + i, vf_exp_below(vf_sub(old, reference)));
    }
    for (int64_t i = 0; i < rows; i++) {
        float sum = exponentials_(scores + i * SCORE_STRIDE, keys, references[i]);
        row_sum[i] = row_sum[i] * alpha[i] + sum;
    }
}

static void flash_tile(const attn_flash_tile *tile) {
    const int64_t rows = tile->rows, keys = tile->keys, depth = tile->head_dim;
    const int64_t acc_stride = (tile->value_dim + NR - 1) / NR * NR;
    float *scores = tile->scratch;
    float maxima[QUERY_TILE * VL];                  /* of this tile's scores: a vector per row */
    float tops[QUERY_TILE], alpha[QUERY_TILE + VL]; /* alpha rounded up for whole vectors over rows */

    for (int64_t i = 0; i < QUERY_TILE; i++)
        vf_store(maxima + i * VL, vf_set1(-INFINITY));
    const int64_t plain = tile->ops ? 0 : keys / NR * NR; /* keys whose scores are final at once */
    int64_t j = 0;
    for (; j < plain; j += NR)
        for (int64_t i = 0; i < rows; i += MR)
            tile_scores(depth, tile->query + i * depth, tile->key + j * depth, scores + i * SCORE_STRIDE + j,
                        maxima + i * VL);
    for (; j < keys; j += NR)
        for (int64_t i = 0; i < rows; i += MR)
            tile_new(depth, tile->query + i * depth, tile->key + j * depth, scores + i * SCORE_STRIDE + j,
                     SCORE_STRIDE);
    if (plain < keys)
        for (int64_t i = 0; i < rows; i++)
            finish_scores(scores + i * SCORE_STRIDE, plain, keys, tile->ops, i, maxima + i * VL);

    for (int64_t i = 0; i < rows; i++)
        tops[i] = vf_reduce_max(vf_load(maxima + i * VL));
    renew_(rows, keys, scores, tops, tile->row_max, tile->row_sum, alpha);
    for (int64_t i = rows; i % MR != 0; i++) /* rows that only fill the last panel */
        alpha[i] = 0.0f;
    for (int64_t c = 0; c < tile->value_dim; c += NR)
        for (int64_t i = 0; i < rows; i += MR)
            tile_values(keys, scores + i * SCORE_STRIDE, tile->value + c / NR * tile->value_panel_stride,
                        alpha + i, tile->acc + i * acc_stride + c, acc_stride);
}

static void flash_finish(int64_t rows, int64_t value_dim, const float *acc, const float *row_sum, float *out,
                         int64_t out_stride) {
    const int64_t acc_stride = (value_dim + NR - 1) / NR * NR;
    for (int64_t r = 0; r < rows; r++, acc += acc_stride, out += out_stride) {
        /* Nothing attended: a true zero, whatever acc holds. */
        const bool none = row_sum[r] == 0.0f;
        const vf f = vf_set1(none ? 0.0f : 1.0f / row_sum[r]);
        for (int64_t c = 0; c < value_dim; c += VL) {
            vf x = none ? f : vf_mul(vf_load(acc + c), f);
            if (value_dim - c >= VL)
                vf_store(out + c, x);
            else
                vf_store_part(out + c, x, value_dim - c);
        }
    }
}
