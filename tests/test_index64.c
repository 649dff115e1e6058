/* Indices past 2^31 and 2^32 (onnxruntime#20921, pytorch#187225): n = 65537, where n^2 no longer fits 32
 * bits, and tensors whose strides spread them over more than 2^33 bytes. The memory is reserved, not used:
 * rows that are touched lie far apart. Where a machine grants no such reservation, the test says so and is
 * skipped. */
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/edges.h"

/* Address space of `bytes` that reads as zero and costs only what is written; skips the test if there is
 * none. */
static void *reserve(size_t bytes) {
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        test_skip("no address space of %zu bytes", bytes);
    return map;
}

/* ---- n = 65537 ---------------------------------------------------------------------------------- */

enum { N = 65537, DIM = 4, WINDOW = 8 };

/* Rows that attend something; the mask leaves nothing of the others. Those past 32768 have indices n * i past
 * 2^31, the last ones past 2^32. */
static const int64_t touched[] = {0, 1, 40, 32767, 32768, 32769, 40000, 65533, 65534, 65535, 65536};

typedef struct long_case {
    attn_problem problem;
    attn_tensors tensors;
    float *q, *k, *v, *out, *lse;
} long_case;

static float *normals(int64_t count, uint64_t number) {
    float *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    test_rng rng = test_rng_start("index64", number);
    for (int64_t n = 0; n < count; n++)
        x[n] = (float)test_normal(&rng);
    return x;
}

static long_case long_case_new(const char *pattern, uint32_t inputs) {
    long_case c = {.q = normals(N * DIM, 1), .k = normals(N * DIM, 2), .v = normals(N * DIM, 3)};
    c.out = malloc((size_t)N * DIM * sizeof(float));
    c.lse = malloc((size_t)N * sizeof(float));
    assert_true(c.out && c.lse);
    attn_problem_init(&c.problem, 1, 1, 1, N, N, DIM, DIM);
    c.problem.pattern = edge_pattern(pattern);
    c.problem.inputs = inputs;
    attn_tensors_init(&c.tensors, &c.problem, c.q, c.k, c.v, c.out);
    c.tensors.lse = c.lse;
    return c;
}

static void long_case_free(long_case *c) {
    free(c->q);
    free(c->k);
    free(c->v);
    free(c->out);
    free(c->lse);
}

/* Compares row i with the reference for that row alone: one query that stands at position i. */
static void expect_row(const long_case *c, int64_t i) {
    attn_problem one = c->problem;
    one.queries = 1;
    one.inputs |= ATTN_HAS_Q_OFFSETS;
    attn_tensors t = c->tensors;
    t.q_offsets = &i;
    t.q.data = c->q + i * DIM;
    if (t.mask)
        t.mask += i * t.mask_strides[2];
    if (t.bias)
        t.bias += i * t.bias_strides[2];
    double out[DIM], tolerance[DIM], lse, lse_tolerance;
    assert_true(ref_attention(&one, &t, &(ref_result){out, tolerance, &lse, &lse_tolerance, NULL}));
    if (!ref_compare(c->out + i * DIM, out, tolerance, DIM).ok ||
        !ref_compare(c->lse + i, &lse, &lse_tolerance, 1).ok)
        test_fail("row %lld: %.9g, must be %.9g", (long long)i, (double)c->out[i * DIM], out[0]);
}

/* Guards: a mask and a bias of n x n entries, 2^32 and 2^34 bytes, are read at the right place in every row.
 */
static void masks_of_65537(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const size_t entries = (size_t)N * N;
    uint8_t *mask = reserve(entries);
    float *bias = reserve(entries * sizeof(float));
    long_case c = long_case_new("causal,window=8", ATTN_HAS_MASK | ATTN_HAS_BIAS);
    c.tensors.mask = mask;
    c.tensors.bias = bias;
    c.tensors.mask_strides[2] = c.tensors.bias_strides[2] = N;
    c.tensors.mask_strides[3] = c.tensors.bias_strides[3] = 1;
    test_rng rng = test_rng_start("65537", 0);
    for (size_t t = 0; t < COUNT_OF(touched); t++)
        for (int64_t j = touched[t] - WINDOW - 1; j <= touched[t] + 1; j++)
            if (j >= 0 && j < N) {
                mask[touched[t] * N + j] = (uint8_t)(j % 5 != 4);
                bias[touched[t] * N + j] = (float)test_normal(&rng);
            }
    attn_plan *plan;
    const attn_options options = {.isa = kernels->name, .algorithm = ATTN_FLASH};
    attn_error error = {""};
    assert_int_equal(attn_plan_create(&c.problem, &options, &plan, &error), ATTN_OK);
    assert_int_equal(attn_execute(plan, &c.tensors, NULL, 2, &error), ATTN_OK);
    attn_plan_destroy(plan);
    for (int64_t i = 0, t = 0; i < N; i++) {
        if (t < (int64_t)COUNT_OF(touched) && touched[t] == i) {
            expect_row(&c, i);
            assert_true(isfinite(c.lse[i]));
            t++;
        } else {
            assert_true(c.lse[i] == -INFINITY && c.out[i * DIM] == 0 && c.out[i * DIM + DIM - 1] == 0);
        }
    }
    long_case_free(&c);
    munmap(mask, entries);
    munmap(bias, entries * sizeof(float));
}

/* Guards: patterns over 65537 positions: windows, sinks, strides and chunks far from the start. */
static void patterns_of_65537(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const char *const patterns[] = {"causal,window=8,sink=2", "window=3:4", "causal,chunk=16",
                                           "chunk=9,stride=4"};
    for (size_t p = 0; p < COUNT_OF(patterns); p++) {
        if (test_quick() && p > 0)
            break;
        long_case c = long_case_new(patterns[p], ATTN_HAS_ALIBI);
        const float slope = 0.5f;
        c.tensors.alibi_slopes = &slope;
        attn_plan *plan;
        const attn_options options = {.isa = kernels->name, .algorithm = ATTN_FLASH};
        assert_int_equal(attn_plan_create(&c.problem, &options, &plan, NULL), ATTN_OK);
        assert_int_equal(attn_execute(plan, &c.tensors, NULL, 2, NULL), ATTN_OK);
        attn_plan_destroy(plan);
        for (size_t t = 0; t < COUNT_OF(touched); t++)
            expect_row(&c, touched[t]);
        long_case_free(&c);
    }
}

/* Guards: naive, whose scores alone would take 2^34 bytes: the parts that hold the first, a middle and the
 * last rows, each with a workspace that is reserved and hardly touched. */
static void naive_of_65537(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    long_case c = long_case_new("causal", 0);
    attn_plan *plan;
    const attn_options options = {.isa = kernels->name, .algorithm = ATTN_NAIVE};
    assert_int_equal(attn_plan_create(&c.problem, &options, &plan, NULL), ATTN_OK);
    const attn_info info = attn_plan_info(plan);
    assert_true(info.workspace_bytes > (int64_t)N * N * 4);
    void *workspace = reserve((size_t)info.workspace_bytes);
    const int parts = (int)((N + info.query_tile - 1) / info.query_tile);
    const int chosen[] = {0, parts / 2, parts - 1};
    for (size_t k = 0; k < COUNT_OF(chosen); k++) {
        memset(c.out, 0xFF, (size_t)N * DIM * sizeof(float));
        assert_int_equal(attn_execute_part(plan, &c.tensors, workspace, chosen[k], parts, NULL), ATTN_OK);
        int64_t written = 0;
        for (int64_t i = 0; i < N; i++)
            if (!isnan(c.out[i * DIM])) {
                if (written++ % 5 == 0 || i == N - 1)
                    expect_row(&c, i);
            }
        assert_true(written > 0 && written <= 2 * info.query_tile);
        assert_true(chosen[k] < parts - 1 || !isnan(c.out[(N - 1) * DIM]));
    }
    munmap(workspace, (size_t)info.workspace_bytes);
    attn_plan_destroy(plan);
    long_case_free(&c);
}

/* Guards: counts past 2^32 are exact, for lengths whose squares pass 2^32, 2^34 and 2^40. */
static void counts_of_long_sequences(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int64_t lengths[] = {N, 131072, 1048577};
    for (size_t k = 0; k < COUNT_OF(lengths); k++)
        for (int causal = 0; causal < 2; causal++) {
            const int64_t n = lengths[k];
            attn_problem problem;
            attn_problem_init(&problem, 3, 2, 1, n, n, 64, 64);
            problem.pattern = edge_pattern(causal ? "causal" : "dense");
            attn_plan *plan;
            const attn_options options = {.isa = kernels->name, .algorithm = ATTN_FLASH};
            assert_int_equal(attn_plan_create(&problem, &options, &plan, NULL), ATTN_OK);
            const attn_info info = attn_plan_info(plan);
            assert_true(info.pairs_dense == 6 * n * n);
            assert_true(info.pairs_useful == (causal ? 6 * (n * (n + 1) / 2) : 6 * n * n));
            assert_true(info.pairs_executed >= info.pairs_useful && info.pairs_executed <= info.pairs_dense);
            assert_true(causal || info.pairs_executed == info.pairs_dense);
            attn_plan_destroy(plan);
        }
}

/* ---- strides past 2^33 bytes ------------------------------------------------------------------------------
 */

#define SPREAD ((int64_t)1 << 33) /* bytes between an axis' first and last entry */

enum { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_OUT, TENSOR_MASK, TENSOR_BIAS, TENSORS };
static const char *const tensor_names[TENSORS] = {"q", "k", "v", "out", "mask", "bias"};

/* Sizes of a tensor's axes (batch, head, row, innermost) and bytes of an element. */
static void axes_of(const attention_case *c, int tensor, int64_t sizes[4], int64_t *bytes) {
    const case_spec *s = &c->spec;
    const int64_t half = (int64_t)attn_dtype_bytes(s->dtype);
    const int64_t all[TENSORS][4] = {
        {s->batch, s->heads, s->queries, s->head_dim},  {s->batch, s->kv_heads, s->keys, s->head_dim},
        {s->batch, s->kv_heads, s->keys, s->value_dim}, {s->batch, s->heads, s->queries, s->value_dim},
        {s->batch, s->heads, s->queries, s->keys},      {s->batch, s->heads, s->queries, s->keys}};
    memcpy(sizes, all[tensor], sizeof all[tensor]);
    *bytes = tensor == TENSOR_MASK ? 1 : tensor < TENSOR_OUT ? half : 4;
}

/* Strides in elements without gaps but along `axis`, whose last entry lies past SPREAD bytes. */
static void spread_strides(const int64_t sizes[4], int64_t bytes, int axis, int64_t strides[4]) {
    strides[3] = 1;
    for (int a = 2; a >= 0; a--)
        strides[a] = strides[a + 1] * sizes[a + 1];
    if (axis >= 0)
        strides[axis] = SPREAD / bytes / (sizes[axis] - 1) + 1;
}

static char *element(void *data, const int64_t strides[4], int64_t bytes, const int64_t at[4]) {
    return (char *)data +
           (at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3]) * bytes;
}

/* Copies a tensor from one set of strides to another, element by element. */
static void copy(void *to, const int64_t to_strides[4], const void *from, const int64_t from_strides[4],
                 const int64_t sizes[4], int64_t bytes) {
    int64_t at[4];
    for (at[0] = 0; at[0] < sizes[0]; at[0]++)
        for (at[1] = 0; at[1] < sizes[1]; at[1]++)
            for (at[2] = 0; at[2] < sizes[2]; at[2]++)
                for (at[3] = 0; at[3] < sizes[3]; at[3]++)
                    memcpy(element(to, to_strides, bytes, at),
                           element((void *)(uintptr_t)from, from_strides, bytes, at), (size_t)bytes);
}

/* Puts a tensor of the case at `data` with the given strides. */
static void place_tensor(attn_tensors *t, int tensor, void *data, const int64_t strides[4]) {
    attn_tensor *const stored[] = {&t->q, &t->k, &t->v};
    if (tensor < TENSOR_OUT) {
        *stored[tensor] = (attn_tensor){data, strides[0], strides[1], strides[2]};
    } else if (tensor == TENSOR_OUT) {
        t->out = data;
        t->out_batch_stride = strides[0];
        t->out_head_stride = strides[1];
        t->out_row_stride = strides[2];
    } else if (tensor == TENSOR_MASK) {
        t->mask = data;
        memcpy(t->mask_strides, strides, sizeof t->mask_strides);
    } else {
        t->bias = data;
        memcpy(t->bias_strides, strides, sizeof t->bias_strides);
    }
}

static void *data_of(const attention_case *c, int tensor) {
    void *const all[TENSORS] = {c->q.data, c->k.data, c->v.data, c->out.data, c->mask.data, c->bias.data};
    return all[tensor];
}

/* One tensor of the case, one axis of it spread; the results must be those of the plain case in every bit. */
static void spread_one(attention_case *c, const char *isa, int tensor, int axis, void *map, size_t map_bytes,
                       const edge_result plain[EDGE_ALGORITHMS]) {
    const attn_tensors kept = c->tensors;
    int64_t sizes[4], bytes, far[4], near[4];
    axes_of(c, tensor, sizes, &bytes);
    if (sizes[axis] < 2)
        return;
    spread_strides(sizes, bytes, axis, far);
    spread_strides(sizes, bytes, -1, near);
    if (tensor != TENSOR_OUT)
        copy(map, far, data_of(c, tensor), near, sizes, bytes);
    for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
        place_tensor(&c->tensors, tensor, map, far);
        attn_plan *plan = edge_plan(c, isa, edge_algorithms[a]);
        attn_error error = {""};
        if (attn_execute(plan, &c->tensors, NULL, 2, &error) != ATTN_OK)
            test_fail("%s, axis %d: %s", tensor_names[tensor], axis, error.text);
        attn_plan_destroy(plan);
        c->tensors = kept;
        if (tensor == TENSOR_OUT)
            copy(c->out.data, near, map, far, sizes, bytes);
        edge_result got = edge_take(c);
        char what[64];
        snprintf(what, sizeof what, "%s with axis %d spread, %s", tensor_names[tensor], axis,
                 attn_algorithm_name(edge_algorithms[a]));
        edge_expect_same(c, &plain[a], &got, what);
        edge_free(&got);
    }
    madvise(map, map_bytes, MADV_DONTNEED); /* zeros again */
}

/* Guards: every stride of every tensor, with entries more than 2^33 bytes apart: bit for bit what compact
 * tensors give, for one tile and for split keys. */
static void strides_of_2_33(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const size_t map_bytes = (size_t)SPREAD + ((size_t)1 << 24);
    void *map = reserve(map_bytes);
    for (size_t place = 0; place < COUNT_OF(edge_places); place += 2)
        for (int dtype = ATTN_F32; dtype <= ATTN_F16; dtype++) {
            case_spec s = edge_spec(place);
            s.dtype = (attn_dtype)dtype;
            s.inputs = ATTN_HAS_MASK | ATTN_HAS_BIAS;
            attention_case *c = case_new(&s);
            uint8_t *mask = edge_mask(c, 1);
            float *bias = edge_bias(c, 0);
            test_rng rng = test_rng_start("spread", place);
            for (int64_t n = 0; n < s.batch * edge_pair(c, 1, 0, 0, 0); n++) {
                mask[n] = (uint8_t)test_between(&rng, 0, 2);
                bias[n] = (float)test_normal(&rng);
            }
            edge_result plain[EDGE_ALGORITHMS];
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++)
                plain[a] = edge_execute(c, kernels->name, edge_algorithms[a], 1);
            for (int tensor = 0; tensor < TENSORS; tensor++)
                for (int axis = 0; axis < (tensor < TENSOR_MASK ? 3 : 4); axis++)
                    if (!test_quick() || (tensor + axis) % 2 == 0)
                        spread_one(c, kernels->name, tensor, axis, map, map_bytes, plain);
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++)
                edge_free(&plain[a]);
            case_free(c);
        }
    munmap(map, map_bytes);
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "masks of 65537 x 65537", masks_of_65537);
    test_add_levels(&list, "patterns over 65537 positions", patterns_of_65537);
    test_add_levels(&list, "naive over 65537 positions", naive_of_65537);
    test_add_levels(&list, "counts of long sequences", counts_of_long_sequences);
    test_add_levels(&list, "strides of 2^33 bytes", strides_of_2_33);
    return test_run_list("index64", &list);
}
