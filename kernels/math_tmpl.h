/* exp and tanh over the vector vocabulary. Parameters: none.
 *
 * e^x = 2^n * e^r with n = round(x / ln 2), r = x - n ln 2 (Cody and Waite: ln 2 in two parts, the
 * first short enough that n times it is exact), and e^r = 1 + r + r^2 q(r), q of degree 4 with the
 * least relative error on |r| <= ln(2)/2: 0.03 ulp of 1, so that rounding is nearly all of the error. */

#define EXP_MAGIC 0x1.8p23f        /* adding it leaves round(x) in the low bits */
#define EXP_LOWEST -0x1.5d589ep+6f /* the least float whose e^x is at least 2^-126 */
#define EXP_HIGHEST 0x1.62e42ep+6f /* the greatest whose e^x is finite */

/* e^r * 2^n, right where that is a normal number; garbage elsewhere. *t keeps n in its low bits. */
VF_INLINE vf exp_core_(vf x) {
    vf t = vf_fma(x, vf_set1(0x1.715476p0f), vf_set1(EXP_MAGIC));
    vf n = vf_sub(t, vf_set1(EXP_MAGIC));
    vf r = vf_fnma(n, vf_set1(0x1.62e4p-1f), x);
    r = vf_fnma(n, vf_set1(0x1.7f7d1cp-20f), r);
    vf q = vf_fma(vf_set1(0x1.6a241ap-10f), r, vf_set1(0x1.1239f2p-7f));
    q = vf_fma(q, r, vf_set1(0x1.5558f2p-5f));
    q = vf_fma(q, r, vf_set1(0x1.555492p-3f));
    q = vf_fma(q, r, vf_set1(0x1.fffffcp-2f));
    vf p = vf_fma(q, vf_mul(r, r), r);
    p = vf_add(p, vf_set1(1.0f));
    return vf_add_exponent(p, t);
}

/* e^x within 2 ulp; below EXP_LOWEST +0, so never a subnormal; above EXP_HIGHEST +inf; NaN stays. */
VF_INLINE vf vf_exp(vf x) {
    /* Where x <= highest is false, x + inf is +inf or NaN, just what is wanted. */
    vf y = vf_select(vf_le(x, vf_set1(EXP_HIGHEST)), exp_core_(x), vf_add(x, vf_set1(INFINITY)));
    return vf_zero_where(vf_lt(x, vf_set1(EXP_LOWEST)), y);
}

/* tanh, odd, within 3 ulp: an odd polynomial below 0.625, 1 - 2 / (e^2|x| + 1) above, which is 1
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
