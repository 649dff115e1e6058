/* Kernels over one row: scale, mask, adjust, softmax, exp. Parameters: none. Needs math_tmpl.h. */

static void scale(float *x, int64_t n, float factor) {
    const vf f = vf_set1(factor);
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(x + i, vf_mul(vf_load(x + i), f));
    if (i < n)
        vf_store_part(x + i, vf_mul(vf_load_part(x + i, n - i), f), n - i);
}

/* The lanes of element i's vector (i a multiple of VL, VL divides 64). */
VF_INLINE vm mask_lanes_(const uint64_t *bits, int64_t i) {
    return vm_bits(bits[i >> 6] >> (i & 63));
}

static void mask(float *x, const uint64_t *bits, int64_t n) {
    const vf none = vf_set1(-INFINITY);
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(x + i, vf_select(mask_lanes_(bits, i), vf_load(x + i), none));
    if (i < n)
        vf_store_part(x + i, vf_select(mask_lanes_(bits, i), vf_load_part(x + i, n - i), none), n - i);
}

/* The sum of score x and a finite bias or ALiBi's part. Those mask nothing: where two finite numbers sum up
 * to less than -FLT_MAX, the sum is that. By selects, which keep NaN at every level (a maximum does not), and
 * a score that was -inf already. */
VF_INLINE vf hold_(vf x, vf sum) {
    const vf lowest = vf_set1(-0x1.fffffep+127f);
    return vf_select(vf_lt(x, lowest), sum, vf_select(vf_lt(sum, lowest), lowest, sum));
}

/* The final scores of one row's keys i.. (n of them, n >= VL for a whole vector). `distance`, `bias`
 * and `bits` are the row's own. */
VF_INLINE vf adjust_vector_(vf x, const attn_score_ops *ops, int64_t distance, const float *bias,
                            const uint64_t *bits, int64_t i, int64_t n) {
    if (ops->softcap > 0.0f) {
        const vf cap = vf_set1(ops->softcap);
        x = vf_mul(cap, vf_tanh(vf_div(x, cap)));
    }
    if (ops->slope != 0.0f) { /* |p - j|; the difference rounds only beyond 2^24, as a float must */
        const vf distances = vf_abs(vf_sub(vf_set1((float)(distance - i)), vf_iota()));
        const vf sum = vf_fnma_wide(vf_set1(ops->slope), distances, x);
        x = ops->slope < INFINITY ? hold_(x, sum) : sum;
    }
    if (bias) {
        const vf b = n >= VL ? vf_load(bias + i) : vf_load_part(bias + i, n);
        x = vf_select(vf_eq(b, vf_set1(-INFINITY)), b, hold_(x, vf_add(x, b)));
    }
    if (bits)
        x = vf_select(mask_lanes_(bits, i), x, vf_set1(-INFINITY));
    return x;
}

static void adjust(float *x, int64_t n, const attn_score_ops *ops) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(x + i, adjust_vector_(vf_load(x + i), ops, ops->distance, ops->bias, ops->mask, i, VL));
    if (i < n) {
        vf last = vf_load_part(x + i, n - i);
        vf_store_part(x + i, adjust_vector_(last, ops, ops->distance, ops->bias, ops->mask, i, n - i), n - i);
    }
}

/* Maximum of a row, -inf if empty. NaN is passed over: it comes back through the sum. */
VF_INLINE float row_max_(const float *x, int64_t n) {
    vf m0 = vf_set1(-INFINITY), m1 = m0, m2 = m0, m3 = m0;
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        m0 = vf_max(vf_load(x + i), m0);
        m1 = vf_max(vf_load(x + i + VL), m1);
        m2 = vf_max(vf_load(x + i + 2 * VL), m2);
        m3 = vf_max(vf_load(x + i + 3 * VL), m3);
    }
    for (; i + VL <= n; i += VL)
        m0 = vf_max(vf_load(x + i), m0);
    if (i < n)
        m1 = vf_max(vf_select(vm_first(n - i), vf_load_part(x + i, n - i), m1), m1);
    return vf_reduce_max(vf_max(vf_max(m0, m1), vf_max(m2, m3)));
}

/* x[i] /= sum, by one reciprocal. What would be less than 2^-126 becomes 0 before it is multiplied: no
 * subnormal is made, nor the time that many CPUs take over one. The bound is one part in 2^20 higher, for
 * rounding. */
VF_INLINE void normalize_(float *x, int64_t n, float sum) {
    const vf f = vf_set1(1.0f / sum), least = vf_set1(sum * 0x1.00001p-126f);
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        const vf e = vf_load(x + i);
        vf_store(x + i, vf_mul(vf_zero_where(vf_lt(e, least), e), f));
    }
    if (i < n) {
        const vf e = vf_load_part(x + i, n - i);
        vf_store_part(x + i, vf_mul(vf_zero_where(vf_lt(e, least), e), f), n - i);
    }
}

/* Three passes: maximum, exponentials and their sum (four vectors of partial sums that take turns), and the
 * product with its reciprocal. One vector a turn, as in exponentials_() of flash_tmpl.h: with four, gcc 12
 * spills four a turn at avx2 and clang 14 eight. */
static void softmax(float *x, int64_t n, float sink_logit, float *row_max, float *row_sum) {
    float maximum = row_max_(x, n);
    if (sink_logit > maximum) /* one of NaN makes the sum NaN */
        maximum = sink_logit;
    /* With nothing attended any finite reference makes every exponential zero. */
    float reference = maximum == -INFINITY ? 0.0f : maximum;
    const vf m = vf_set1(reference);
    vf s0 = vf_set1(0.0f), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf e = vf_exp_below(vf_sub(vf_load(x + i), m));
        vf_store(x + i, e);
        vf sum = vf_add(s0, e);
        s0 = s1;
        s1 = s2;
        s2 = s3;
        s3 = sum;
    }
    if (i < n) {
        vf e = vf_exp_below(vf_sub(vf_load_part(x + i, n - i), m));
        s1 = vf_add(s1, vf_select(vm_first(n - i), e, vf_set1(0.0f)));
        vf_store_part(x + i, e, n - i);
    }
    float sum = vf_reduce_add(vf_add(vf_add(s0, s1), vf_add(s2, s3)));
    float lane[VL];
    vf_store(lane, vf_exp_below(vf_set1(sink_logit - reference)));
    sum += lane[0];
    if (sum != 0.0f)
        normalize_(x, n, sum);
    *row_max = maximum;
    *row_sum = sum;
}

static void exponential(float *y, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(y + i, vf_exp(vf_load(x + i)));
    if (i < n)
        vf_store_part(y + i, vf_exp(vf_load_part(x + i, n - i)), n - i);
}
