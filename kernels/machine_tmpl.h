/* What the roofline measures: FMA rate, load bandwidth, copy. Needs matmul_tmpl.h, for its lists of rows.
 *
 * Parameters:
 *   PEAK_CHAINS  independent FMA chains, one register each beside two for constants: 12, 14 or 24. Two
 *                pipes of latency 4 (x86) need 8, four of latency 4 (large AArch64 cores) 16, and
 *                multiplying and adding on separate pipes, 6 together, 12.
 *   VF_FUSED     from vec_<isa>.h: 1 where vf_fma is one instruction */

/* Each chain runs x = f * g + x where FMAs are: NEON's adds to its third operand, and x = x * f + g would
 * have to copy g before every FMA, which takes slots of the same pipes: a third of the rate. Elsewhere
 * f * g would be taken out of the loop, and x = x * f + g it is, towards g / (1 - f). Values stay normal for
 * ever: sums of positive terms grow until they absorb what is added. */
#define PEAK_FLOPS (2 * PEAK_CHAINS * VL)
#define PEAK_12(F) ROWS_12(F)
#define PEAK_14(F) ROWS_14(F)
#define PEAK_24(F)                                                                                           \
    ROWS_12(F)                                                                                               \
    F(12) F(13) F(14) F(15) F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23)
#define PEAK_PASTE_(n) PEAK_##n
#define PEAK_NAME_(n) PEAK_PASTE_(n)
#define PEAK_ALL(F) PEAK_NAME_(PEAK_CHAINS)(F)

static float fma_peak(int64_t iterations) {
    const vf f = vf_set1(0.75f), g = vf_set1(0.25f);
    /* Unknown to the compiler: clang finds a chain that starts at its fixed point, 1, and drops it. */
    const float start = (float)(iterations & 1);
#define PEAK_START(i) vf c##i = vf_set1(start + 0.0625f * (i));
#if VF_FUSED
#    define PEAK_STEP(i) c##i = vf_fma(f, g, c##i);
#else
#    define PEAK_STEP(i) c##i = vf_fma(c##i, f, g);
#endif
    PEAK_ALL(PEAK_START)
    for (int64_t n = 0; n < iterations; n++) {
        PEAK_ALL(PEAK_STEP)
    }
    vf sum = vf_set1(0.0f);
#define PEAK_SUM(i) sum = vf_add(sum, c##i);
    PEAK_ALL(PEAK_SUM)
    return vf_reduce_add(sum);
}

static float read_all(const float *x, int64_t n) {
    vf s0 = vf_set1(0.0f), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    int64_t i = 0;
    for (; i + 8 * VL <= n; i += 8 * VL) {
        s0 = vf_add(s0, vf_load(x + i));
        s1 = vf_add(s1, vf_load(x + i + VL));
        s2 = vf_add(s2, vf_load(x + i + 2 * VL));
        s3 = vf_add(s3, vf_load(x + i + 3 * VL));
        s4 = vf_add(s4, vf_load(x + i + 4 * VL));
        s5 = vf_add(s5, vf_load(x + i + 5 * VL));
        s6 = vf_add(s6, vf_load(x + i + 6 * VL));
        s7 = vf_add(s7, vf_load(x + i + 7 * VL));
    }
    for (; i + VL <= n; i += VL)
        s0 = vf_add(s0, vf_load(x + i));
    if (i < n)
        s1 = vf_add(s1, vf_load_part(x + i, n - i));
    s0 = vf_add(vf_add(s0, s1), vf_add(s2, s3));
    return vf_reduce_add(vf_add(s0, vf_add(vf_add(s4, s5), vf_add(s6, s7))));
}

static void copy(float *dst, const float *src, int64_t n) {
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        vf x0 = vf_load(src + i), x1 = vf_load(src + i + VL);
        vf x2 = vf_load(src + i + 2 * VL), x3 = vf_load(src + i + 3 * VL);
        vf_store(dst + i, x0);
        vf_store(dst + i + VL, x1);
        vf_store(dst + i + 2 * VL, x2);
        vf_store(dst + i + 3 * VL, x3);
    }
    for (; i < n; i += VL)
        vf_store_part(dst + i, vf_load_part(src + i, n - i < VL ? n - i : VL), n - i < VL ? n - i : VL);
}
