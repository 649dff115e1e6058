/* NaN and infinities: in masked pairs and in padding they leave no trace; in what is attended they reach
 * exactly the rows and columns that they must, every other bit staying as it was. At each ISA level with each
 * algorithm, over patterns, inputs, storage types and places. */
#include "tests/support.h"

#include <math.h>

#include "tests/edges.h"

/* What may stand around a poisoned element: patterns and inputs that decide who attends it, and options that
 * change the way scores are made. */
static const struct {
    const char *pattern;
    uint32_t inputs;
    float softcap;
    attn_dtype dtype;
} surroundings[] = {
    {"dense", 0, 0, ATTN_F32},
    {"causal", 0, 0, ATTN_F16},
    {"causal-top-left", 0, 0, ATTN_F32},
    {"window=2:3", 0, 4, ATTN_BF16},
    {"causal,window=40,sink=2", ATTN_HAS_KV_LENS | ATTN_HAS_ALIBI, 0, ATTN_F32},
    {"chunk=20", ATTN_HAS_SEGMENTS | ATTN_HAS_Q_OFFSETS, 0, ATTN_F32},
    {"stride=3", ATTN_HAS_MASK, 0, ATTN_F16},
    {"causal,random=2:8:5", ATTN_HAS_BIAS | ATTN_HAS_SINK_LOGIT, 0, ATTN_F32},
    {"global=1,window=5", ATTN_HAS_MASK | ATTN_HAS_BIAS | ATTN_HAS_ALIBI, 6, ATTN_BF16},
};

static bool attended(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    return ref_attended(&c->problem, &c->tensors, b, h, i, j);
}

/* Does row (b, h, i) attend any key? */
static bool attends_any(const attention_case *c, int64_t b, int64_t h, int64_t i) {
    for (int64_t j = 0; j < c->spec.keys; j++)
        if (attended(c, b, h, i, j))
            return true;
    return false;
}

/* Does any row that reads key/value head `kv` of batch b attend key j? */
static bool is_read(const attention_case *c, int64_t b, int64_t kv, int64_t j) {
    const int64_t group = c->spec.heads / c->spec.kv_heads;
    for (int64_t h = kv * group; h < (kv + 1) * group; h++)
        for (int64_t i = 0; i < c->spec.queries; i++)
            if (attended(c, b, h, i, j))
                return true;
    return false;
}

static edge_effect no_trace(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t d) {
    return EDGE_NONE;
}

/* Runs a poison in every surrounding. `traces` may be NULL: then no bit of the output may change. */
static void each_surrounding(void **state, const char *what, uint32_t more_inputs, edge_poison *poison,
                             edge_traces *traces) {
    const attn_kernels *kernels = test_kernels(state);
    int64_t changed = 0;
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t k = 0; k < COUNT_OF(surroundings); k++) {
            if (!test_keep(place + k, 3))
                continue;
            case_spec s = edge_spec(place);
            s.pattern = edge_pattern(surroundings[k].pattern);
            s.inputs = surroundings[k].inputs | more_inputs;
            s.softcap = surroundings[k].softcap;
            s.dtype = surroundings[k].dtype;
            s.layout = k % 2 ? LAYOUT_GAPS : LAYOUT_INTERLEAVED;
            attention_case *c = case_new(&s);
            if (more_inputs & ATTN_HAS_BIAS)
                edge_bias(c, 0.5f);
            changed += edge_check_case(c, kernels->name, what, poison, traces ? traces : no_trace);
        }
    assert_true(traces ? changed > 0 : changed == 0); /* the poison was within reach */
}

/* ---- where nobody looks ---------------------------------------------------------------- */

static const float poisons[] = {NAN, INFINITY, -INFINITY};

/* Everything that no row attends: masked keys and values, padding past kv_lens, biases of masked pairs. */
static void poison_unattended(attention_case *c) {
    const case_spec *s = &c->spec;
    int64_t n = 0;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t kv = 0; kv < s->kv_heads; kv++)
            for (int64_t j = 0; j < s->keys; j++) {
                if (is_read(c, b, kv, j))
                    continue;
                for (int64_t d = 0; d < s->head_dim; d++)
                    case_set(c, &c->tensors.k, b, kv, j, d, poisons[n++ % 3]);
                for (int64_t d = 0; d < s->value_dim; d++)
                    case_set(c, &c->tensors.v, b, kv, j, d, poisons[n++ % 3]);
            }
}

/* Guards: NaN and Inf in masked keys and values leave no trace (pytorch#101967: 0 * NaN). A mask leaves out
 * keys 1, 4, 7, ... of every row; patterns and lengths leave out others. */
static void masked_keys(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const char *const patterns[] = {"dense", "causal-top-left", "window=3",
                                           "dense", "sink=2",          "chunk=8"};
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t p = 0; p < COUNT_OF(patterns); p++) {
            case_spec s = edge_spec(place);
            s.pattern = edge_pattern(patterns[p]);
            s.inputs = (p % 2 ? ATTN_HAS_KV_LENS : 0) | (p < 4 ? ATTN_HAS_MASK : 0);
            s.dtype = (attn_dtype)(p % 3);
            s.softcap = p == 4 ? 3 : 0;
            attention_case *c = case_new(&s);
            uint8_t *mask = p < 4 ? edge_mask(c, 1) : NULL;
            for (int64_t n = 0; mask && n < s.batch * edge_pair(c, 1, 0, 0, 0); n++)
                mask[n] = n % s.keys % 3 != 1;
            edge_check_case(c, kernels->name, "NaN in masked keys", poison_unattended, no_trace);
        }
}

/* Guards: the same in every surrounding, for all keys that nobody attends. */
static void unattended(void **state) {
    each_surrounding(state, "NaN where nobody attends", 0, poison_unattended, NULL);
}

static void poison_masked_bias(attention_case *c) {
    const case_spec *s = &c->spec;
    float *bias = c->bias.data;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->queries; i++)
                for (int64_t j = 0; j < s->keys; j++)
                    if (!attended(c, b, h, i, j))
                        bias[edge_pair(c, b, h, i, j)] = poisons[j % 2];
}

/* Guards: NaN and +Inf in the bias of masked pairs leave no trace. */
static void masked_bias(void **state) {
    each_surrounding(state, "NaN in the bias of masked pairs", ATTN_HAS_BIAS, poison_masked_bias, NULL);
}

/* ---- in a query or a key ------------------------------------------------------------------ */

/* The query that is poisoned: one in the middle, of one head. */
static void poison_query(attention_case *c) {
    case_set(c, &c->tensors.q, 1, 2, c->spec.queries / 2, c->spec.head_dim - 1, NAN);
}

static edge_effect rows_of_query(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t d) {
    const bool own = b == 1 && h == 2 && i == c->spec.queries / 2;
    return own && attends_any(c, b, h, i) ? EDGE_NAN : EDGE_NONE;
}

/* Guards: NaN in a query is not swallowed by a maximum: exactly that row becomes NaN, and stays as it was if
 * it attends nothing (pytorch#141128; x86 max drops NaN by operand order). */
static void nan_query(void **state) {
    each_surrounding(state, "NaN in a query", 0, poison_query, rows_of_query);
}

/* Guards: the same for each element of the query, each row of a tile in turn and both operand orders: one row
 * at a time of Q[i][0] = NaN. */
static void nan_query_each_row(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    case_spec s = edge_spec(1);
    s.batch = 1;
    s.heads = s.kv_heads = 1;
    s.queries = 37;
    attention_case *c = case_new(&s);
    for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
        edge_result clean = edge_execute(c, kernels->name, edge_algorithms[a], 1);
        for (int64_t bad = 0; bad < s.queries; bad++) {
            float *element = (float *)c->q.data + bad * s.head_dim + bad % s.head_dim;
            const float kept = *element;
            *element = NAN;
            edge_result r = edge_execute(c, kernels->name, edge_algorithms[a], 1);
            for (int64_t n = 0; n < s.queries * s.value_dim; n++)
                assert_true(n / s.value_dim == bad ? isnan(r.out[n]) : edge_same(r.out[n], clean.out[n]));
            for (int64_t n = 0; n < s.queries; n++)
                assert_true(n == bad ? isnan(r.lse[n]) : edge_same(r.lse[n], clean.lse[n]));
            edge_free(&r);
            *element = kept;
        }
        edge_free(&clean);
    }
    case_free(c);
}

/* The key that is poisoned, of key/value head 1 of batch 0. */
static int64_t bad_key(const attention_case *c) {
    return c->spec.keys * 2 / 3;
}

static void poison_key(attention_case *c) {
    case_set(c, &c->tensors.k, 0, 1, bad_key(c), 0, NAN);
}

static edge_effect rows_of_key(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t d) {
    return b == 0 && h / 2 == 1 && attended(c, b, h, i, bad_key(c)) ? EDGE_NAN : EDGE_NONE;
}

/* Guards: NaN in a key makes NaN of exactly the rows that attend it, of the heads that read it. */
static void nan_key(void **state) {
    each_surrounding(state, "NaN in a key", 0, poison_key, rows_of_key);
}

static void poison_first_and_last_key(attention_case *c) {
    case_set(c, &c->tensors.k, 0, 0, 0, c->spec.head_dim - 1, NAN);
    case_set(c, &c->tensors.k, 0, 0, c->spec.keys - 1, c->spec.head_dim - 1, NAN);
}

static edge_effect rows_of_first_and_last_key(const attention_case *c, int64_t b, int64_t h, int64_t i,
                                              int64_t d) {
    const bool reads = b == 0 && h / 2 == 0;
    return reads && (attended(c, b, h, i, 0) || attended(c, b, h, i, c->spec.keys - 1)) ? EDGE_NAN
                                                                                        : EDGE_NONE;
}

/* Guards: the same at both ends of the keys, in the last element of the head dimension. */
static void nan_key_at_the_ends(void **state) {
    each_surrounding(state, "NaN in the first and the last key", 0, poison_first_and_last_key,
                     rows_of_first_and_last_key);
}

/* ---- in a value ------------------------------------------------------------------------------ */

static void poison_value(attention_case *c) {
    case_set(c, &c->tensors.v, 0, 1, bad_key(c), 3, NAN);
}

static edge_effect column_of_value(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t d) {
    return d == 3 ? rows_of_key(c, b, h, i, d) : EDGE_NONE;
}

/* Guards: NaN in a value reaches that column of the rows that attend it, and nothing else. */
static void nan_value(void **state) {
    each_surrounding(state, "NaN in a value", 0, poison_value, column_of_value);
}

/* Guards: values are looked at in their own type: large finite ones beside a NaN, in its column and in
 * others, are finite. The bits of a bf16 from 2^121 up are, as f16, those of Inf and NaN. */
static void large_values_beside_nan(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const float large[] = {[ATTN_F32] = 0x1p121f, [ATTN_F16] = 65504, [ATTN_BF16] = 0x1p121f};
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t dtype = 0; dtype < COUNT_OF(large); dtype++) {
            case_spec s = edge_spec(place);
            s.dtype = (attn_dtype)dtype;
            attention_case *c = case_new(&s);
            for (int64_t d = 0; d < s.value_dim; d++) {
                case_set(c, &c->tensors.v, 0, 1, bad_key(c) - 1, d, large[dtype]);
                case_set(c, &c->tensors.v, 0, 1, bad_key(c) + 1, d, -large[dtype] * (d % 2 ? 0.75f : 1));
            }
            assert_true(edge_check_case(c, kernels->name, "NaN beside large values", poison_value,
                                        column_of_value) > 0);
        }
}

static void poison_value_with_infinities(attention_case *c) {
    case_set(c, &c->tensors.v, 0, 1, bad_key(c), 0, INFINITY);
    case_set(c, &c->tensors.v, 0, 1, bad_key(c), 4, -INFINITY);
}

static edge_effect columns_of_infinities(const attention_case *c, int64_t b, int64_t h, int64_t i,
                                         int64_t d) {
    const bool reached = (d == 0 || d == 4) && rows_of_key(c, b, h, i, d) == EDGE_NAN;
    return reached ? EDGE_NOT_FINITE : EDGE_NONE;
}

/* Guards: Inf in a value gives Inf or NaN in that column of the rows that attend it, and nothing else. */
static void infinite_value(void **state) {
    each_surrounding(state, "Inf in a value", 0, poison_value_with_infinities, columns_of_infinities);
}

static void poison_value_both_ways(attention_case *c) {
    case_set(c, &c->tensors.v, 0, 1, bad_key(c), 2, INFINITY);
    case_set(c, &c->tensors.v, 0, 1, bad_key(c) - 1, 2, -INFINITY);
}

static edge_effect column_of_both(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t d) {
    const bool reads = b == 0 && h / 2 == 1 && d == 2;
    const bool one = reads && attended(c, b, h, i, bad_key(c)),
               other = reads && attended(c, b, h, i, bad_key(c) - 1);
    return one && other ? EDGE_NAN : one || other ? EDGE_NOT_FINITE : EDGE_NONE;
}

/* Guards: +Inf and -Inf in one column cancel to NaN where both are attended. */
static void infinite_values_of_both_signs(void **state) {
    each_surrounding(state, "+Inf and -Inf in values", 0, poison_value_both_ways, column_of_both);
}

/* ---- scores of infinity -------------------------------------------------------------------------- */

/* Guards: a score of +inf, from a bias or from a key that is Inf, makes its row NaN, and no other; one of
 * -inf from a key has no weight: the row is bit for bit what it is with that pair masked. */
static void infinite_scores(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++)
            for (int kind = 0; kind < 3; kind++) {
                case_spec s = edge_spec(place);
                s.inputs = ATTN_HAS_BIAS;
                s.pattern = edge_pattern("causal");
                attention_case *c = case_new(&s);
                const int64_t bad = s.keys - 2;
                float *bias = edge_bias(c, 0);
                edge_fill(c, &c->tensors.q, 0.25f); /* so that the sign of q.k is the key's */
                edge_result clean = edge_execute(c, kernels->name, edge_algorithms[a], 1);
                if (kind == 2)
                    for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++)
                        bias[row * s.keys + bad] = -INFINITY;
                edge_result masked = edge_execute(c, kernels->name, edge_algorithms[a], 1);
                if (kind == 2)
                    edge_bias(c, 0);
                if (kind == 0)
                    bias[edge_pair(c, 1, 2, s.queries - 1, bad)] = INFINITY;
                else /* of key/value head 1 of batch 1, read by heads 2 and 3 */
                    case_set(c, &c->tensors.k, 1, 1, bad, 0, kind == 1 ? INFINITY : -INFINITY);
                case_expect(c);
                edge_result r = edge_execute(c, kernels->name, edge_algorithms[a], 1);
                case_compare(c, kernels->name, edge_algorithms[a]);
                for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++) {
                    const int64_t b = row / s.queries / s.heads, h = row / s.queries % s.heads,
                                  i = row % s.queries;
                    const bool reads = b == 1 && (kind == 0 ? h == 2 && i == s.queries - 1
                                                            : h >= 2 && attended(c, b, h, i, bad));
                    const edge_result *other = reads ? &masked : &clean;
                    for (int64_t d = 0; d < s.value_dim; d++) {
                        const int64_t n = row * s.value_dim + d;
                        assert_true(reads && kind < 2 ? isnan(r.out[n]) : edge_same(r.out[n], other->out[n]));
                    }
                    if (!reads || kind == 2)
                        assert_true(edge_same(r.lse[row], other->lse[row]));
                }
                edge_free(&clean);
                edge_free(&masked);
                edge_free(&r);
                case_free(c);
            }
}

/* ---- the comparer ----------------------------------------------------------------------------------- */

/* Guards: a NaN that implementation and reference share is seen (cubecl#1070): NaN on one side fails, either
 * way round; NaN on both sides passes only because the semantics ask for it, so the reference itself must be
 * free of NaN for finite inputs, whatever is masked. */
static void nan_on_both_sides(void **state) {
    const double one = 1, nan = (double)NAN, tolerance = 1e300;
    const float actual_one = 1, actual_nan = NAN;
    assert_false(ref_compare(&actual_nan, &one, &tolerance, 1).ok);
    assert_false(ref_compare(&actual_one, &nan, &tolerance, 1).ok);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t k = 0; k < COUNT_OF(surroundings); k++) {
            case_spec s = edge_spec(place);
            s.pattern = edge_pattern(surroundings[k].pattern);
            s.inputs = surroundings[k].inputs;
            attention_case *c = case_new(&s);
            case_expect(c);
            for (int64_t n = 0; n < s.batch * s.heads * s.queries * s.value_dim; n++)
                assert_true(isfinite(c->expected[n]));
            for (int64_t n = 0; n < s.batch * s.heads * s.queries; n++)
                assert_true(isfinite(c->expected_lse[n]) || c->expected_lse[n] == -INFINITY);
            case_free(c);
        }
}

int main(void) {
    test_list list = {0};
    test_add(&list, "NaN on both sides", nan_on_both_sides);
    test_add_levels(&list, "NaN in masked keys", masked_keys);
    test_add_levels(&list, "NaN where nobody attends", unattended);
    test_add_levels(&list, "NaN in the bias of masked pairs", masked_bias);
    test_add_levels(&list, "NaN in a query", nan_query);
    test_add_levels(&list, "NaN in each query in turn", nan_query_each_row);
    test_add_levels(&list, "NaN in a key", nan_key);
    test_add_levels(&list, "NaN in the first and last key", nan_key_at_the_ends);
    test_add_levels(&list, "NaN in a value", nan_value);
    test_add_levels(&list, "NaN beside large values", large_values_beside_nan);
    test_add_levels(&list, "Inf in a value", infinite_value);
    test_add_levels(&list, "Inf of both signs in values", infinite_values_of_both_signs);
    test_add_levels(&list, "scores of infinity", infinite_scores);
    return test_run_list("edges_nan", &list);
}
