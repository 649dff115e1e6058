/* exp and tanh over the vector vocabulary. Parameters: none.
 *
 * e^x = 2^n * e^r with n = round(x / ln 2), r = x - n ln 2 (Cody and Waite: ln 2 in two parts, the
 * first short enough that n times it is exact), and e^r from a polynomial on |r| <= ln(2)/2.
 *
 * There is one exponential: vf_exp and vf_exp_below differ in how they multiply by 2^n, exactly either
 * way, and in what lies outside of the range. */

#define EXP_MAGIC (0x1.8p23f + 127.0f) /* adding it leaves round(x) + 127 in the low bits */
#define EXP_LOWEST -0x1.5d589ep+6f     /* the least float whose e^x is at least 2^-126 */
#define EXP_HIGHEST 0x1.62e42ep+6f     /* the greatest whose e^x is finite */
#define EXP_LOG2E 0x1.715476p0f

/* e^r, and *t = n + EXP_MAGIC. The polynomial errs by 0.03 ulp, so that rounding is all of the error. Degree
 * 5 errs by 1.05 ulp at best; with coefficients chosen for the least total error it still passed 2 ulp
 * without FMA. Degree 6 costs flash (avx2, n = 1024, D = 64, Zen 3) 1 to 3 hundredths: ratios of the least
 * times were 1.015 to 1.033, with noise as large. */
VF_INLINE vf exp_reduced_(vf x, vf *t) {
    *t = vf_fma(x, vf_set1(EXP_LOG2E), vf_set1(EXP_MAGIC));
    const vf n = vf_sub(*t, vf_set1(EXP_MAGIC));
    vf r = vf_fnma(n, vf_set1(0x1.62e4p-1f), x);
    r = vf_fnma(n, vf_set1(0x1.7f7d1cp-20f), r);
    vf p = vf_fma(vf_set1(0x1.6a241ap-10f), r, vf_set1(0x1.1239f2p-7f));
    p = vf_fma(p, r, vf_set1(0x1.5558f2p-5f));
    p = vf_fma(p, r, vf_set1(0x1.555492p-3f));
    p = vf_fma(p, r, vf_set1(0x1.fffffcp-2f));
    p = vf_fma(p, r, vf_set1(1.0f));
    return vf_fma(p, r, vf_set1(1.0f));
}

/* e^x within 2 ulp; below EXP_LOWEST +0, so never a subnormal; above EXP_HIGHEST +inf; NaN stays. */
VF_INLINE vf vf_exp(vf x) {
    vf t, y = exp_reduced_(x, &t);
    y = vf_add_exponent(y, vf_sub(t, vf_set1(127.0f))); /* n = 128 too, which has no 2^n */
    if (vm_all(vf_le(vf_abs(x), vf_set1(87.0f))))       /* nearly always: 3 instructions instead of 5 */
        return y;
    /* Where x <= highest is false, x + inf is +inf or NaN, just what is wanted. */
    y = vf_select(vf_le(x, vf_set1(EXP_HIGHEST)), y, vf_add(x, vf_set1(INFINITY)));
    return vf_zero_where(vf_lt(x, vf_set1(EXP_LOWEST)), y);
}

/* The same for x <= 0 or NaN, all that softmax has. Multiplying keeps NaN without a select. */
VF_INLINE vf vf_exp_below(vf x) {
    vf t, y = exp_reduced_(x, &t);
    return vf_zero_where(vf_lt(x, vf_set1(EXP_LOWEST)), vf_mul(y, vf_power(t)));
}

/* tanh, odd, within 2 ulp: an odd polynomial below 0.625, 1 - 2 / (e^2|x| + 1) above, which is 1
 * where the exponential overflows. */
VF_INLINE vf vf_tanh(vf x) {
    vf a = vf_abs(x);
    vf z = vf_mul(x, x);
    vf q = vf_fma(vf_set1(-0x1.75e1d4p-8f), z, vf_set1(0x1.52269cp-6f));
    q = vf_fma(q, z, vf_set1(-0x1.b83c5ap-5f));
    q = vf_fma(q, z, vf_set1(0x1.110726p-3f));
    q = vf_fma(q, z, vf_set1(-0x1.555532p-2f));
    vf small = vf_fma(vf_mul(q, z), x, x);
    vf e = vf_exp(vf_add(a, a));
    vf large = vf_sub(vf_set1(1.0f), vf_div(vf_set1(2.0f), vf_add(e, vf_set1(1.0f))));
    return vf_select(vf_lt(a, vf_set1(0.625f)), small, vf_copysign(large, x));
}
