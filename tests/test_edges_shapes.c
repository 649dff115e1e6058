/* Edges of shapes: lengths that are no multiple of anything, keys that the queries do not reach, odd head
 * dimensions, strides, nothing at all. At each ISA level with each algorithm; each test names the public
 * report of the fault that it would find.
 *
 * Reports of the same kind that are held elsewhere: indices past 32 bits in test_index64.c; memory that grows
 * in test_reuse.c; subnormals in test_edges_environment.c; results that change with threads or splits in
 * test_edges_splits.c; levels that the OS has not enabled (whisper.cpp#3699, ggml#1435) in test_cpu.c;
 * instructions beyond what is detected (vmaf#1555, llama.cpp#12393, ramblr#188) in tests/dispatch and under
 * emulated cores. */
#include "tests/support.h"

#include <math.h>

#include "reference/internal.h"
#include "tests/edges.h"

/* Guards: key and query lengths that are no multiple of a block (pytorch#159247), each with each. */
static void lengths(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    int64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 0, 0, 0, 0};
    case_spec s = edge_spec(0);
    attention_case *probe = case_new(&s);
    const attn_info info = edge_info(probe, kernels->name, ATTN_FLASH);
    case_free(probe);
    sizes[11] = info.key_tile - 1;
    sizes[12] = info.key_tile;
    sizes[13] = info.key_tile + 1;
    sizes[14] = info.query_tile + 1;
    s.batch = 1;
    s.heads = 2;
    double used = 0;
    for (size_t q = 0; q < COUNT_OF(sizes); q++)
        for (size_t k = 0; k < COUNT_OF(sizes); k++) {
            if (test_quick() && (q + k) % 4 != 0)
                continue;
            s.queries = sizes[q];
            s.keys = sizes[k];
            s.pattern = edge_pattern((q + k) % 2 ? "causal" : "dense");
            s.place = (guard_place)((q + k / 2) % GUARD_PLACES);
            used = fmax(used, case_check(&s, kernels->name));
        }
    test_note("%s: used %.3f of the tolerance", kernels->name, used);
}

/* Guards: keys are not cut to the query length, nor queries to the key length (MNN#4898): the last key takes
 * all of the weight of every query, so that each row is its value, exactly. */
static void last_key_counts(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int64_t shapes[][2] = {{1, 9}, {3, 70}, {70, 300}, {5, 4100}, {9, 1}, {70, 3}, {300, 70}};
    for (size_t k = 0; k < COUNT_OF(shapes); k++) {
        case_spec s = edge_spec(0);
        s.queries = shapes[k][0];
        s.keys = shapes[k][1];
        attention_case *c = case_new(&s);
        edge_fill(c, &c->tensors.q, 10);
        edge_fill(c, &c->tensors.k, -10);
        for (int64_t h = 0; h < 4; h++)
            for (int64_t d = 0; d < s.head_dim; d++)
                case_set(c, &c->tensors.k, h / 2, h % 2, s.keys - 1, d, 10);
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            case_execute(c, kernels->name, edge_algorithms[a], 2);
            for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++) {
                const int64_t kv = row / s.queries / 2;
                const float *last = (float *)c->v.data + (kv * s.keys + s.keys - 1) * s.value_dim;
                const float *out = c->tensors.out + row * s.value_dim;
                assert_memory_equal(out, last, (size_t)s.value_dim * sizeof(float));
            }
        }
        case_free(c);
    }
}

/* Guards: every element of odd head dimensions takes part (vllm#31968, turbovec#314: a vector tail that
 * computes nothing). One element of the head dimension alone decides which key gets all the weight; the row
 * is that key's value exactly, in all of its columns. */
static void head_dims(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int64_t dims[] = {1,  2,  3,  4,  5,  8,   15,  16,  17,  31,
                                   33, 40, 64, 80, 96, 112, 128, 192, 256, 576};
    for (size_t k = 0; k < COUNT_OF(dims); k++) {
        case_spec s = {.batch = 1, .heads = 1, .kv_heads = 1, .queries = 9, .keys = 67, .scale = 1};
        s.head_dim = dims[k];
        s.value_dim = dims[COUNT_OF(dims) - 1 - k];
        s.dtype = (attn_dtype)(k % 3);
        s.place = (guard_place)(k / 3 % GUARD_PLACES);
        case_check(&s, kernels->name);
        attention_case *c = case_new(&s);
        for (int64_t d = 0; d<s.head_dim; d += s.head_dim> 20 && d < s.head_dim - 18 ? 7 : 1) {
            edge_fill(c, &c->tensors.q, 0);
            edge_fill(c, &c->tensors.k, 0);
            for (int64_t i = 0; i < s.queries; i++)
                case_set(c, &c->tensors.q, 0, 0, i, d, 16);
            case_set(c, &c->tensors.k, 0, 0, (d * 5 + 1) % s.keys, d, 16); /* a score of 256 among zeros */
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                case_execute(c, kernels->name, edge_algorithms[a], 1);
                for (int64_t n = 0; n < s.queries * s.value_dim; n++) {
                    const double v =
                        ref_load(c->v.data, s.dtype, (d * 5 + 1) % s.keys * s.value_dim + n % s.value_dim);
                    if (c->tensors.out[n] != v)
                        test_fail("%s: element %d is not seen: %.9g, must be %.9g", case_describe(&s), (int)d,
                                  (double)c->tensors.out[n], v);
                }
            }
        }
        case_free(c);
    }
}

/* ---- strides ---------------------------------------------------------------------------------- */

/* Guards: padded rows and interleaved heads (pytorch#187506, pytorch#191937), and addresses aligned to
 * nothing but the element, give bit for bit what plain tensors give. Strides inside a row are not part of the
 * interface. */
static void layouts(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++)
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                case_spec s = edge_spec(place);
                s.dtype = (attn_dtype)dtype;
                s.pattern = edge_pattern("causal");
                attention_case *plain = case_new(&s);
                edge_result expected = edge_execute(plain, kernels->name, edge_algorithms[a], 1);
                for (int variant = 0; variant < 9; variant++) {
                    static const case_layout kinds[] = {LAYOUT_PLAIN, LAYOUT_GAPS, LAYOUT_INTERLEAVED};
                    s.layout = kinds[variant / 3];
                    s.place = (guard_place)(variant % 3);
                    attention_case *c = case_new(&s);
                    edge_result got = edge_execute(c, kernels->name, edge_algorithms[a], 1);
                    edge_expect_same(c, &expected, &got, "a layout against the plain one");
                    edge_free(&got);
                    case_free(c);
                }
                edge_free(&expected);
                case_free(plain);
            }
}

/* What a tensor of the case must look like where a stride is zero: every element along the broadcast axes is
 * the first one's. Copies the plain tensor `from` into `to`, broadcast along the axes of `zero` (batch, head,
 * row). */
static void broadcast_into(attention_case *c, const attn_tensor *to, const float *from, int zero) {
    const bool query = to == &c->tensors.q, key = to == &c->tensors.k;
    const int64_t heads = query ? c->spec.heads : c->spec.kv_heads,
                  rows = query ? c->spec.queries : c->spec.keys,
                  dim = query || key ? c->spec.head_dim : c->spec.value_dim;
    for (int64_t b = 0; b < c->spec.batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t d = 0; d < dim; d++) {
                    const int64_t at =
                        (((zero & 1 ? 0 : b) * heads + (zero & 2 ? 0 : h)) * rows + (zero & 4 ? 0 : r)) *
                            dim +
                        d;
                    case_set(c, to, b, h, r, d, from[at]);
                }
}

/* Guards: strides of zero broadcast a batch, a head or a row of q, k and v: bit for bit what copies give. */
static void broadcast(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (int which = 0; which < 3; which++)
            for (int zero = 1; zero < 8; zero++)
                for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                    if (test_quick() && (which + zero + (int)a) % 4 != 0)
                        continue;
                    case_spec s = edge_spec(place);
                    attention_case *c = case_new(&s), *copies = case_new(&s);
                    attn_tensor *tensors[] = {&c->tensors.q, &c->tensors.k, &c->tensors.v};
                    const attn_tensor *full[] = {&copies->tensors.q, &copies->tensors.k, &copies->tensors.v};
                    broadcast_into(copies, full[which], tensors[which]->data, zero);
                    tensors[which]->batch_stride = zero & 1 ? 0 : tensors[which]->batch_stride;
                    tensors[which]->head_stride = zero & 2 ? 0 : tensors[which]->head_stride;
                    tensors[which]->row_stride = zero & 4 ? 0 : tensors[which]->row_stride;
                    edge_result with = edge_execute(c, kernels->name, edge_algorithms[a], 1);
                    edge_result without = edge_execute(copies, kernels->name, edge_algorithms[a], 1);
                    edge_expect_same(c, &with, &without, "strides of zero against copies");
                    edge_free(&with);
                    edge_free(&without);
                    case_free(c);
                    case_free(copies);
                }
}

/* Guards: strides may run backwards: tensors stored in reverse order give what the same numbers in order do.
 */
static void backwards(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            case_spec s = edge_spec(place);
            attention_case *c = case_new(&s), *reversed = case_new(&s);
            attn_tensor *k = &reversed->tensors.k, *v = &reversed->tensors.v;
            for (int64_t h = 0; h < 4; h++)
                for (int64_t j = 0; j < s.keys; j++) {
                    const int64_t from = h * s.keys + s.keys - 1 - j;
                    for (int64_t d = 0; d < s.head_dim; d++)
                        case_set(reversed, k, h / 2, h % 2, j, d,
                                 ((float *)c->k.data)[from * s.head_dim + d]);
                    for (int64_t d = 0; d < s.value_dim; d++)
                        case_set(reversed, v, h / 2, h % 2, j, d,
                                 ((float *)c->v.data)[from * s.value_dim + d]);
                }
            k->data = (float *)reversed->k.data + (s.keys - 1) * s.head_dim;
            v->data = (float *)reversed->v.data + (s.keys - 1) * s.value_dim;
            k->row_stride = -s.head_dim;
            v->row_stride = -s.value_dim;
            edge_result forward = edge_execute(c, kernels->name, edge_algorithms[a], 1);
            edge_result backward = edge_execute(reversed, kernels->name, edge_algorithms[a], 1);
            edge_expect_same(c, &forward, &backward, "strides that run backwards");
            edge_free(&forward);
            edge_free(&backward);
            case_free(c);
            case_free(reversed);
        }
}

/* ---- nothing at all ------------------------------------------------------------------------ */

/* Guards: B, Nq, Nk and Dv may be zero, each alone and all together, with every input: nothing is written
 * beyond the rows there are, rows without keys are zero, their log-sum-exp -inf or the sink logit. */
static void nothing(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const uint32_t inputs[] = {0,
                                      ATTN_HAS_KV_LENS,
                                      ATTN_HAS_Q_OFFSETS,
                                      ATTN_HAS_SEGMENTS,
                                      ATTN_HAS_MASK,
                                      ATTN_HAS_BIAS,
                                      ATTN_HAS_ALIBI,
                                      ATTN_HAS_SINK_LOGIT,
                                      127};
    static const char *const patterns[] = {"dense", "causal,window=3,sink=1", "random=2:4:1",
                                           "chunk=2,stride=3"};
    for (int empty = 1; empty < 16; empty++)
        for (size_t in = 0; in < COUNT_OF(inputs); in++)
            for (size_t p = 0; p < COUNT_OF(patterns); p++) {
                case_spec s = edge_spec(0);
                s.batch = empty & 1 ? 0 : s.batch;
                s.queries = empty & 2 ? 0 : s.queries;
                s.keys = empty & 4 ? 0 : s.keys;
                s.value_dim = empty & 8 ? 0 : s.value_dim;
                s.inputs = inputs[in];
                s.pattern = edge_pattern(patterns[p]);
                attention_case *c = case_new(&s);
                case_expect(c);
                for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                    case_execute(c, kernels->name, edge_algorithms[a], 2);
                    case_compare(c, kernels->name, edge_algorithms[a]);
                    const int64_t rows = s.batch * s.heads * s.queries;
                    for (int64_t n = 0; n < rows && s.keys == 0; n++) {
                        const float *sinks = c->sinks.data;
                        assert_true(c->tensors.lse[n] ==
                                    (sinks ? sinks[n / s.queries % s.heads] : -INFINITY));
                        for (int64_t d = 0; d < s.value_dim; d++)
                            assert_true(c->tensors.out[n * s.value_dim + d] == 0);
                    }
                }
                case_free(c);
            }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "lengths", lengths);
    test_add_levels(&list, "last key counts", last_key_counts);
    test_add_levels(&list, "head dimensions", head_dims);
    test_add_levels(&list, "layouts", layouts);
    test_add_levels(&list, "broadcast", broadcast);
    test_add_levels(&list, "backwards", backwards);
    test_add_levels(&list, "nothing at all", nothing);
    return test_run_list("edges_shapes", &list);
}
