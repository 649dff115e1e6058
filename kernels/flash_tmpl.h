/* One step of FlashAttention. Needs matmul_tmpl.h and rows_tmpl.h.
 *
 * Parameters:
 *   QUERY_TILE   rows of a tile, a multiple of MR
 *   KEY_BLOCK    most keys of a step, a multiple of 64
 *   SCORE_STRIDE row stride of the score tile, >= KEY_BLOCK; constant, so that the rows of a register
 *                tile are constant displacements from one pointer
 *
 * Scores of the whole tile are computed into scratch, turned into exponentials row by row in place,
 * and are then the left operand of the value product, whose accumulators start at the rescaled
 * ones: the rescaling of online softmax costs one multiply per accumulator and step. */

#define ROW_RESCALED(i)                                                                                      \
    vf c0_##i = vf_mul(vf_load(c + (i)*c_stride), vf_set1(alpha[i]));                                        \
    vf c1_##i = vf_mul(vf_load(c + (i)*c_stride + VL), vf_set1(alpha[i]));

#ifdef VF_ROW_PAIRS
#    define ROW_SCORES(i) VF_ROW_PAIR(p + (i)*SCORE_STRIDE, b00, b01, b10, b11, c0_##i, c1_##i);
#endif
#define ROW_SCORE(i)                                                                                         \
    {                                                                                                        \
        const vf score = vf_set1(p[(i)*SCORE_STRIDE]);                                                       \
        c0_##i = vf_fma(score, b0, c0_##i);                                                                  \
        c1_##i = vf_fma(score, b1, c1_##i);                                                                  \
    }

/* C[MR][NR] = alpha[row] * C + P B: P is MR rows of exponentials of k keys, B one panel of values. */
static __attribute__((noinline)) void tile_values(int64_t k, const float *p, const float *b,
                                                  const float *alpha, float *c, int64_t c_stride) {
    FOR_ROWS(ROW_RESCALED)
    int64_t l = 0;
#ifdef VF_ROW_PAIRS
    for (; l + 2 <= k; l += 2) {
        const vf b00 = vf_load(b), b01 = vf_load(b + VL), b10 = vf_load(b + NR), b11 = vf_load(b + NR + VL);
        FOR_ROWS(ROW_SCORES)
        p += 2;
        b += 2 * NR;
    }
#endif
    for (; l < k; l++) {
        const vf b0 = vf_load(b), b1 = vf_load(b + VL);
        FOR_ROWS(ROW_SCORE)
        p++;
        b += NR;
    }
    FOR_ROWS(ROW_STORE)
}

/* Applies ops to row `row` of the score tile, n keys. */
static void adjust_scores(float *x, int64_t n, const attn_score_ops *ops, int64_t row) {
    const float *bias = ops->bias ? ops->bias + row * ops->bias_stride : NULL;
    const uint64_t *bits = ops->mask ? ops->mask + row * ops->mask_words : NULL;
    for (int64_t i = 0; i < n; i += VL)
        vf_store(x + i, adjust_vector_(vf_load(x + i), ops, ops->distance + row, bias, bits, i, n - i));
}

/* Scores to exponentials for one row whose n keys are followed by -inf up to a whole vector. Updates
 * the row's maximum and sum, and returns what its accumulators are to be multiplied by. */
VF_INLINE float row_softmax_(float *x, int64_t n, float *row_max, float *row_sum) {
    vf m0 = vf_set1(*row_max), m1 = m0;
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        m0 = vf_max(vf_load(x + i), m0);
        m1 = vf_max(vf_load(x + i + VL), m1);
    }
    for (; i < n; i += VL)
        m0 = vf_max(vf_load(x + i), m0);
    float maximum = vf_reduce_max(vf_max(m0, m1));
    /* A row that has attended nothing so far: all its scores are -inf, and exp(-inf - 0) is 0. */
    float reference = maximum == -INFINITY ? 0.0f : maximum;
    float lane[VL];
    vf_store(lane, vf_exp_below(vf_set1(*row_max - reference)));
    const vf m = vf_set1(reference);
    vf s0 = vf_set1(0.0f), s1 = s0;
    for (i = 0; i + 2 * VL <= n; i += 2 * VL) {
        vf e0 = vf_exp_below(vf_sub(vf_load(x + i), m));
        vf e1 = vf_exp_below(vf_sub(vf_load(x + i + VL), m));
        s0 = vf_add(s0, e0);
        s1 = vf_add(s1, e1);
        vf_store(x + i, e0);
        vf_store(x + i + VL, e1);
    }
    for (; i < n; i += VL) {
        vf e = vf_exp_below(vf_sub(vf_load(x + i), m));
        s0 = vf_add(s0, e);
        vf_store(x + i, e);
    }
    *row_max = maximum;
    *row_sum = *row_sum * lane[0] + vf_reduce_add(vf_add(s0, s1));
    return lane[0];
}

static void flash_tile(const attn_flash_tile *tile) {
    const int64_t keys = tile->keys;
    const int64_t acc_stride = (tile->value_dim + NR - 1) / NR * NR;
    float *scores = tile->scratch;
    float alpha[QUERY_TILE];
    for (int64_t j = 0; j < keys; j += NR)
        for (int64_t i = 0; i < tile->rows; i += MR)
            tile_new(tile->head_dim, tile->query + i * tile->head_dim, tile->key + j * tile->head_dim,
                     scores + i * SCORE_STRIDE + j, SCORE_STRIDE);
    for (int64_t i = 0; i < tile->rows; i++) {
        float *row = scores + i * SCORE_STRIDE;
        if (tile->ops)
            adjust_scores(row, keys, tile->ops, i);
        for (int64_t j = keys; j % VL != 0; j++)
            row[j] = -INFINITY;
        alpha[i] = row_softmax_(row, keys, tile->row_max + i, tile->row_sum + i);
    }
    for (int64_t i = tile->rows; i % MR != 0; i++) /* rows that only fill the last panel */
        alpha[i] = 0.0f;
    for (int64_t c = 0; c < tile->value_dim; c += NR)
        for (int64_t i = 0; i < tile->rows; i += MR)
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
