/* The matrix product of packed panels: exact on integers, within its bound on others, each row by itself. */
#include "tests/support.h"

#include <math.h>
#include <string.h>

#include "tests/guard.h"

static guard floats(int64_t count, guard_place place) {
    return guard_new((size_t)count * sizeof(float), place, sizeof(float));
}

/* A (m x k), B (n x k, transposed) and C (m x n, c_stride), the packed operands, all guarded. */
typedef struct product {
    int64_t m, n, k, c_stride;
    guard a, b, c, packed_a, packed_b;
} product;

static product product_new(const attn_kernels *kernels, int64_t m, int64_t n, int64_t k, int64_t c_gap,
                           guard_place place, bool integers) {
    product p = {.m = m, .n = n, .k = k, .c_stride = n + c_gap};
    p.a = floats(m * k, place);
    p.b = floats(n * k, place);
    p.c = floats(m > 0 && n > 0 ? (m - 1) * p.c_stride + n : 0, place);
    p.packed_a = floats(test_round_up(m, kernels->mr) * k, place);
    p.packed_b = floats(test_round_up(n, kernels->nr) * k, place);
    test_rng rng = test_rng_start("matmul", (uint64_t)((m * 1000 + n) * 1000 + k));
    for (int64_t i = 0; i < m * k; i++)
        ((float *)p.a.data)[i] = integers ? (float)test_between(&rng, -9, 9) : (float)test_normal(&rng);
    for (int64_t i = 0; i < n * k; i++)
        ((float *)p.b.data)[i] = integers ? (float)test_between(&rng, -9, 9) : (float)test_normal(&rng);
    kernels->pack_a(p.packed_a.data, p.a.data, ATTN_F32, k, m, k, 1);
    kernels->pack_bt(p.packed_b.data, p.b.data, ATTN_F32, k, n, k);
    guard_seal(&p.packed_a);
    guard_seal(&p.packed_b);
    return p;
}

static void product_free(product *p) {
    assert_true(guard_intact(&p->c));
    guard_free(&p->a);
    guard_free(&p->b);
    guard_free(&p->c);
    guard_free(&p->packed_a);
    guard_free(&p->packed_b);
}

/* C against double loops; `rounds` products were accumulated. The gaps between rows must be untouched. */
static double check(const product *p, int rounds, const char *where) {
    const float *a = p->a.data, *b = p->b.data, *c = p->c.data;
    double used = 0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0, size = 0;
            for (int64_t l = 0; l < p->k; l++) {
                sum += (double)a[i * p->k + l] * b[j * p->k + l];
                size += fabs((double)a[i * p->k + l] * b[j * p->k + l]);
            }
            sum *= rounds;
            /* k products and additions, and the sum before them when accumulating; integers are exact */
            const double tolerance = (double)(p->k + 2) * rounds * 0x1p-24 * size * rounds;
            const double error = fabs(c[i * p->c_stride + j] - sum);
            if (!(error <= tolerance) ||
                (sum == rint(sum) && size < 0x1p24 && size == rint(size) && error != 0))
                test_fail("%s m=%d n=%d k=%d: c[%d][%d] = %.9g, expected %.9g +- %g", where, (int)p->m,
                          (int)p->n, (int)p->k, (int)i, (int)j, (double)c[i * p->c_stride + j], sum,
                          tolerance);
            if (tolerance > 0)
                used = fmax(used, error / tolerance);
        }
    for (int64_t i = 0; p->n > 0 && i + 1 < p->m; i++)
        for (int64_t j = p->n; j < p->c_stride; j++)
            if (!isnan(c[i * p->c_stride + j]))
                test_fail("%s m=%d n=%d k=%d: wrote c[%d][%d]", where, (int)p->m, (int)p->n, (int)p->k,
                          (int)i, (int)j);
    return used;
}

/* Guards: every element is the right one, for shapes around the register tile, k from 0, accumulated or not;
 * only m x n of C is touched. */
static void shapes(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t mr = kernels->mr, nr = kernels->nr, lanes = kernels->lanes;
    const int64_t ms[] = {0, 1, 2, mr - 1, mr, mr + 1, 3 * mr + 2};
    const int64_t ns[] = {0, 1, 2, lanes - 1, lanes, lanes + 1, nr - 1, nr, nr + 1, 2 * nr + lanes + 3};
    const int64_t ks[] = {0, 1, 2, 3, 7, 16, 17, 64};
    for (size_t m = 0; m < COUNT_OF(ms); m++)
        for (size_t n = 0; n < COUNT_OF(ns); n++)
            for (size_t k = 0; k < COUNT_OF(ks); k++)
                for (int place = 0; place < GUARD_PLACES; place++) {
                    if (ms[m] < 0 || ns[n] < 0 || (test_quick() && (m + n + k) % 3 != (size_t)place))
                        continue;
                    product p =
                        product_new(kernels, ms[m], ns[n], ks[k], place * 2, (guard_place)place, k % 2);
                    const int64_t panel = ks[k] * nr;
                    test_call(kernels->matmul(p.m, p.n, p.k, p.packed_a.data, p.packed_b.data, panel,
                                              p.c.data, p.c_stride, false));
                    check(&p, 1, guard_place_name[place]);
                    test_call(kernels->matmul(p.m, p.n, p.k, p.packed_a.data, p.packed_b.data, panel,
                                              p.c.data, p.c_stride, true));
                    check(&p, 2, "accumulated");
                    product_free(&p);
                }
}

/* Guards: long and odd depths, the sizes of real heads, within the bound. */
static void depths(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t ks[] = {5, 8, 15, 40, 80, 96, 112, 128, 192, 256, 576, 1021};
    double used = 0;
    for (size_t k = 0; k < COUNT_OF(ks); k++) {
        product p = product_new(kernels, kernels->mr + 1, kernels->nr + 3, ks[k], 0, GUARD_BACK, false);
        kernels->matmul(p.m, p.n, p.k, p.packed_a.data, p.packed_b.data, ks[k] * kernels->nr, p.c.data,
                        p.c_stride, false);
        used = fmax(used, check(&p, 1, "depth"));
        product_free(&p);
    }
    test_note("%s: used %.3f of the tolerance", kernels->name, used);
}

/* Guards: what one pass leaves, the next one adds to, in every group of rows that goes through the passes: a
 * product of more rows than one group has and of more depth than one pass, whole tiles and edges, exactly. */
static void passes(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t m = ATTN_MATMUL_PANELS * kernels->mr + kernels->mr + 1,
                  n = test_quick() ? 2 : kernels->nr + 2;
    const int64_t ks[] = {ATTN_MATMUL_DEPTH, ATTN_MATMUL_DEPTH + 3};
    for (size_t k = 0; k < COUNT_OF(ks); k++) {
        product p = product_new(kernels, m, n, ks[k], 1, GUARD_BACK, true);
        const int64_t panel = ks[k] * kernels->nr;
        for (int rounds = 1; rounds <= 2; rounds++) {
            test_call(kernels->matmul(m, n, ks[k], p.packed_a.data, p.packed_b.data, panel, p.c.data,
                                      p.c_stride, rounds > 1));
            check(&p, rounds, "passes");
        }
        product_free(&p);
    }
}

/* Guards: depth 0 makes a product of zeros, and adds nothing where it accumulates. */
static void no_depth(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t m = kernels->mr + 1, n = kernels->nr + 1;
    product p = product_new(kernels, m, n, 0, 2, GUARD_BACK, true);
    float *c = p.c.data;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * p.c_stride + j] = (float)(1 + i * n + j);
    test_call(kernels->matmul(m, n, 0, p.packed_a.data, p.packed_b.data, 0, c, p.c_stride, true));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            assert_true(c[i * p.c_stride + j] == (float)(1 + i * n + j));
    test_call(kernels->matmul(m, n, 0, p.packed_a.data, p.packed_b.data, 0, c, p.c_stride, false));
    check(&p, 1, "no depth");
    product_free(&p);
}

/* Guards docs/numerics.md: chains of at most 256 products, at whole tiles and at edges. 2^24 + 1 is 2^24 in
 * float32, so a chain that begins with 2^24 swallows the ones after it, and only those: what is left of k
 * tells its length. A step of `flash` has at most that many keys, and 128 at `scalar`. */
static void chains(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t m = kernels->mr + 1, n = kernels->nr + 1, k = 1020;
    product p = product_new(kernels, m, n, k, 0, GUARD_BACK, true);
    guard a = floats(m * k, GUARD_BACK), b = floats(n * k, GUARD_BACK);
    guard packed_a = floats(test_round_up(m, kernels->mr) * k, GUARD_BACK);
    guard packed_b = floats(test_round_up(n, kernels->nr) * k, GUARD_BACK);
    for (int64_t i = 0; i < m * k; i++)
        ((float *)a.data)[i] = i % k == 0 ? 0x1p24f : 1.0f;
    for (int64_t i = 0; i < n * k; i++)
        ((float *)b.data)[i] = 1.0f;
    kernels->pack_a(packed_a.data, a.data, ATTN_F32, k, m, k, 1);
    kernels->pack_bt(packed_b.data, b.data, ATTN_F32, k, n, k);
    test_call(kernels->matmul(m, n, k, packed_a.data, packed_b.data, k * kernels->nr, p.c.data, n, false));
    for (int64_t i = 0; i < m * n; i++) {
        const int64_t length = k - (int64_t)(((float *)p.c.data)[i] - 0x1p24f);
        if (length < 1 || length > 256)
            test_fail("element %d: a chain of %d", (int)i, (int)length);
    }
    assert_in_range(kernels->key_block, 64, strcmp(kernels->name, "scalar") == 0 ? 128 : 256);
    guard_free(&a);
    guard_free(&b);
    guard_free(&packed_a);
    guard_free(&packed_b);
    product_free(&p);
}

/* Guards: panels may lie apart, and what lies between them is not used. */
static void panels_apart(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t nr = kernels->nr, k = 11, n = 3 * nr - 1, stride = (k + 4) * nr;
    product p = product_new(kernels, 2 * kernels->mr - 1, n, k, 0, GUARD_BACK, true);
    guard apart = floats(2 * stride + k * nr, GUARD_BACK); /* NaN where nothing is copied */
    for (int64_t panel = 0; panel < 3; panel++)
        memcpy((float *)apart.data + panel * stride, (float *)p.packed_b.data + panel * k * nr,
               (size_t)(k * nr) * sizeof(float));
    guard_seal(&apart);
    kernels->matmul(p.m, p.n, p.k, p.packed_a.data, apart.data, stride, p.c.data, p.c_stride, false);
    check(&p, 1, "apart");
    guard_free(&apart);
    product_free(&p);
}

/* Guards: a row's result is bitwise the same in any company and at any place in its panel. */
static void rows_stand_alone(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t k = 37, n = kernels->nr + 5, m = 2 * kernels->mr + 3;
    product p = product_new(kernels, m, n, k, 0, GUARD_BACK, false);
    kernels->matmul(m, n, k, p.packed_a.data, p.packed_b.data, k * kernels->nr, p.c.data, n, false);
    guard row = floats(n, GUARD_BACK), packed = floats(test_round_up(m, kernels->mr) * k, GUARD_BACK);
    for (int64_t i = 0; i < m; i++) {
        kernels->pack_a(packed.data, (float *)p.a.data + i * k, ATTN_F32, k, 1, k, 1);
        kernels->matmul(1, n, k, packed.data, p.packed_b.data, k * kernels->nr, row.data, n, false);
        assert_memory_equal(row.data, (float *)p.c.data + i * n, (size_t)n * sizeof(float));
    }
    /* and with everything one row further down */
    guard rest = floats((m - 1) * n, GUARD_BACK);
    kernels->pack_a(packed.data, (float *)p.a.data + k, ATTN_F32, k, m - 1, k, 1);
    kernels->matmul(m - 1, n, k, packed.data, p.packed_b.data, k * kernels->nr, rest.data, n, false);
    assert_memory_equal(rest.data, (float *)p.c.data + n, rest.bytes);
    guard_free(&row);
    guard_free(&packed);
    guard_free(&rest);
    product_free(&p);
}

/* Guards: NaN and Inf reach the rows and columns that contain them, and no others. */
static void special_values(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t m = kernels->mr + 2, n = kernels->nr + 2, k = 5;
    for (int64_t bad = 0; bad < m; bad++) {
        product p = product_new(kernels, m, n, k, 0, GUARD_BACK, true);
        ((float *)p.a.data)[bad * k + bad % k] = NAN;
        guard packed = floats(test_round_up(m, kernels->mr) * k, GUARD_BACK);
        kernels->pack_a(packed.data, p.a.data, ATTN_F32, k, m, k, 1);
        kernels->matmul(m, n, k, packed.data, p.packed_b.data, k * kernels->nr, p.c.data, n, false);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                assert_int_equal(isnan(((float *)p.c.data)[i * n + j]) != 0, i == bad);
        guard_free(&packed);
        product_free(&p);
    }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "matmul shapes", shapes);
    test_add_levels(&list, "matmul depths", depths);
    test_add_levels(&list, "matmul passes", passes);
    test_add_levels(&list, "matmul no depth", no_depth);
    test_add_levels(&list, "matmul chains", chains);
    test_add_levels(&list, "matmul panels apart", panels_apart);
    test_add_levels(&list, "matmul rows stand alone", rows_stand_alone);
    test_add_levels(&list, "matmul special values", special_values);
    return test_run_list("kernels_matmul", &list);
}
