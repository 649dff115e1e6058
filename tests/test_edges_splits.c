/* Edges of sharing work: splits of the keys that attend nothing, and results that are bitwise the same for
 * any number of threads and parts. At each ISA level; each test names the public report of the fault that it
 * would find. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/internal.h"
#include "tests/edges.h"

/* Keys of one split: see splits_are_where_they_are_thought. */
enum { SPLIT_KEYS = 2048 };

/* Guards: the lengths below lie beside the borders of splits, and the place "split keys" is split. */
static void splits_are_where_they_are_thought(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int64_t queries = 1; queries <= 8; queries += 7) {
        case_spec s = edge_spec(2);
        s.queries = queries;
        attention_case *c = case_new(&s);
        attn_plan *plan = edge_plan(c, kernels->name, ATTN_FLASH);
        assert_int_equal(plan->split_tiles * plan->key_tile, SPLIT_KEYS);
        assert_int_equal(plan->splits, (s.keys + SPLIT_KEYS - 1) / SPLIT_KEYS);
        attn_plan_destroy(plan);
        case_free(c);
    }
}

/* ---- empty splits --------------------------------------------------------------------------- */

/* Fails unless every row that attends a key has weights that sum to 1 (V is 1; with a sink logit at most 1),
 * and every other row is exactly zero. */
static void expect_whole(const attention_case *c) {
    const case_spec *s = &c->spec;
    for (int64_t row = 0; row < s->batch * s->heads * s->queries; row++) {
        const float *out =
            case_out(c, row / s->queries / s->heads, row / s->queries % s->heads, row % s->queries);
        const double bound = (double)(s->keys + 10) * 0x1p-23;
        const bool sink = s->inputs & ATTN_HAS_SINK_LOGIT, empty = c->tensors.lse[row] == -INFINITY;
        for (int64_t d = 0; d < s->value_dim; d++) {
            const double x = out[d];
            if (!(empty ? x == 0 : sink ? x >= 0 && x <= 1 + bound : fabs(x - 1) <= bound))
                test_fail("%s: row %d sums to %.9g", case_describe(s), (int)row, x);
        }
    }
}

/* Guards: splits that attend nothing count for nothing, not as (-inf) - (-inf) (flashinfer#4401): the first,
 * one in the middle, the last, all but one, all of them; by length, window, offset, mask and bias; with a
 * sink logit and without. Exactly as the reference, and weights sum to 1. */
static void empty_splits(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int64_t lengths[] = {
        0, 1, SPLIT_KEYS - 1, SPLIT_KEYS, SPLIT_KEYS + 1, 2 * SPLIT_KEYS, 3 * SPLIT_KEYS};
    static const char *const patterns[] = {"dense",      "causal,window=100", "sink=3", "window=70,sink=1",
                                           "chunk=2048", "stride=4096"};
    for (size_t p = 0; p < COUNT_OF(patterns); p++)
        for (size_t n = 0; n < COUNT_OF(lengths); n++)
            for (int sink = 0; sink < 2; sink++) {
                if (test_quick() && (p + n + (size_t)sink) % 3 != 0)
                    continue;
                case_spec s = edge_spec(2);
                s.queries = 1 + (int64_t)(p + n) % 8;
                s.keys = 3 * SPLIT_KEYS + 70;
                s.pattern = edge_pattern(patterns[p]);
                s.inputs = ATTN_HAS_KV_LENS | ATTN_HAS_Q_OFFSETS | (sink ? ATTN_HAS_SINK_LOGIT : 0);
                attention_case *c = case_new(&s);
                edge_fill(c, &c->tensors.v, 1);
                for (int64_t b = 0; b < 2; b++) {
                    ((int64_t *)c->kv_lens.data)[b] = lengths[(n + (size_t)b * 3) % COUNT_OF(lengths)];
                    ((int64_t *)c->q_offsets.data)[b] = b == 0 ? s.keys - s.queries : SPLIT_KEYS + 150;
                }
                case_expect(c);
                case_execute(c, kernels->name, ATTN_FLASH, 1 + (int)n % 3);
                case_compare(c, kernels->name, ATTN_FLASH);
                expect_whole(c);
                case_free(c);
            }
}

/* Guards: the same where the mask or a bias of -inf empties a split for some rows and not for others. */
static void splits_emptied_by_data(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (int masks = 0; masks < 16; masks++)
        for (int by_bias = 0; by_bias < 2; by_bias++) {
            /* Each set of splits by one of the two; sets of one to three splits by either. */
            if (test_quick() && (masks ^ masks >> 1 ^ by_bias) % 2 != 0)
                continue;
            case_spec s = edge_spec(2);
            s.keys = 3 * SPLIT_KEYS + 5;
            s.inputs = by_bias ? ATTN_HAS_BIAS : ATTN_HAS_MASK;
            attention_case *c = case_new(&s);
            edge_fill(c, &c->tensors.v, 1);
            uint8_t *mask = by_bias ? NULL : edge_mask(c, 1);
            float *bias = by_bias ? edge_bias(c, 1) : NULL;
            for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++)
                for (int64_t j = 0; j < s.keys; j++) {
                    const int split = (int)(j / SPLIT_KEYS);
                    if (!((masks >> split & 1) || (row % 5 == split)))
                        continue;
                    if (by_bias)
                        bias[row * s.keys + j] = -INFINITY;
                    else
                        mask[row * s.keys + j] = 0;
                }
            case_expect(c);
            for (int threads = 1; threads <= 2; threads++) {
                case_execute(c, kernels->name, ATTN_FLASH, threads);
                case_compare(c, kernels->name, ATTN_FLASH);
                expect_whole(c);
            }
            case_free(c);
        }
}

/* ---- threads and parts ------------------------------------------------------------------------------- */

/* Every input and every option that an algorithm computes, all at once. */
static case_spec everything(size_t place, attn_algorithm algorithm) {
    case_spec s = edge_spec(place);
    s.heads = 6;
    s.softcap = 7;
    s.inputs = CASE_ALL_INPUTS;
    s.layout = LAYOUT_INTERLEAVED;
    s.dtype = place == 1 ? ATTN_BF16 : ATTN_F16;
    s.pattern = edge_pattern("causal,prefix=4,chunk=2500,window=2:1,sink=2,global=3,stride=3,random=2:9:3");
    s.pattern.terms |= ATTN_BLOCKS;
    s.pattern.block_size = 10;
    s.pattern.block_heads = s.heads;
    if (algorithm == ATTN_NAIVE) {
        s.pattern.terms |= ATTN_TOPK;
        s.pattern.topk = 20;
    }
    return s;
}

/* The same case with nothing but K and V: other code paths. */
static case_spec nothing_special(size_t place) {
    case_spec s = edge_spec(place);
    s.queries = place == 2 ? 8 : s.queries + 37;
    return s;
}

/* Fails unless lengths, offsets, segments and masks left some rows that attend keys. */
static void expect_work(const edge_result *r, int64_t rows) {
    int64_t alive = 0;
    for (int64_t n = 0; n < rows; n++)
        alive += isfinite(r->lse[n]);
    assert_true(alive > 0);
}

typedef void sharing_body(attention_case *c, const char *isa, attn_algorithm algorithm,
                          const edge_result *one);

static void each_sharing(void **state, sharing_body *body) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++)
            for (int all = 0; all < 2; all++) {
                const case_spec s = all ? everything(place, edge_algorithms[a]) : nothing_special(place);
                attention_case *c = case_new(&s);
                for (int64_t b = 0; b < s.batch && all; b++) { /* lengths and offsets that leave something */
                    ((int64_t *)c->kv_lens.data)[b] = s.keys - b * 2;
                    ((int64_t *)c->q_offsets.data)[b] = s.keys - s.queries - b;
                }
                edge_result one = edge_execute(c, kernels->name, edge_algorithms[a], 1);
                expect_work(&one, s.batch * s.heads * s.queries);
                body(c, kernels->name, edge_algorithms[a], &one);
                edge_free(&one);
                case_free(c);
            }
}

static void with_threads(attention_case *c, const char *isa, attn_algorithm algorithm,
                         const edge_result *one) {
    static const int more[] = {33, 1024};
    attn_counts counts = {0}, first = {0};
    c->tensors.counts = &first;
    case_execute(c, isa, algorithm, 1);
    for (int t = 1; t <= 8 + (int)COUNT_OF(more); t++) {
        const int threads = t <= 8 ? t : more[t - 9];
        counts = (attn_counts){0};
        c->tensors.counts = &counts;
        edge_result r = edge_execute(c, isa, algorithm, threads);
        edge_expect_same(c, one, &r, "threads");
        assert_memory_equal(&counts, &first, sizeof counts);
        edge_free(&r);
    }
    c->tensors.counts = NULL;
}

/* Guards: results, log-sum-exp and counts are the same in every bit for 1 to 8 threads and many more, and
 * from run to run, with all options on and with none (flashinfer#696, FlashMLA#212). */
static void threads(void **state) {
    each_sharing(state, with_threads);
}

/* The k-th of 0..n-1 in an order that goes up by twos. */
static int shuffled(int k, int n) {
    return n % 2 == 0 && k >= n / 2 ? 2 * k % n + 1 : 2 * k % n;
}

static void with_parts(attention_case *c, const char *isa, attn_algorithm algorithm, const edge_result *one) {
    attn_plan *plan = edge_plan(c, isa, algorithm);
    const int64_t bytes = attn_plan_info(plan).workspace_bytes;
    void *workspace = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
    assert_non_null(workspace);
    for (int parts = 1; parts <= 9; parts++) {
        guard_reset(&c->out);
        guard_reset(&c->lse);
        for (int k = parts;
             k-- > 0;) { /* in no particular order, with what the part before left in the workspace */
            attn_error error = {""};
            attn_status status;
            test_call(status =
                          attn_execute_part(plan, &c->tensors, workspace, shuffled(k, parts), parts, &error));
            if (status != ATTN_OK)
                test_fail("%s", error.text);
        }
        edge_result r = edge_take(c);
        edge_expect_same(c, one, &r, "parts");
        edge_free(&r);
    }
    free(workspace);
    attn_plan_destroy(plan);
}

/* Guards: the same for 1 to 9 parts executed in any order with one workspace. */
static void parts(void **state) {
    each_sharing(state, with_parts);
}

static void with_tasks(attention_case *c, const char *isa, attn_algorithm algorithm, const edge_result *one) {
    attn_plan *plan = edge_plan(c, isa, algorithm);
    const attn_info info = attn_plan_info(plan);
    attn_counts first = {0};
    c->tensors.counts = &first;
    case_execute(c, isa, algorithm, 1);
    for (int threads = 1; threads <= 5; threads++) {
        void *workspace = aligned_alloc(64, (size_t)(threads * info.workspace_bytes));
        assert_non_null(workspace);
        attn_counts counts = {0};
        c->tensors.counts = &counts;
        guard_reset(&c->out);
        guard_reset(&c->lse);
        int64_t step = 0, most = 0;
        for (int tasks; (tasks = (int)attn_step_tasks(plan, threads, step)) > 0; step++) {
            most = tasks > most ? tasks : most;
            for (int k = 0; k < tasks; k++) { /* whoever is free takes any of them */
                attn_error error = {""};
                attn_status status;
                test_call(status = attn_execute_task(plan, &c->tensors, workspace, threads, k * 3 % threads,
                                                     step, shuffled(k, tasks), &error));
                if (status != ATTN_OK)
                    test_fail("%s", error.text);
            }
        }
        /* Splits are shared out where there are some, and whole rows elsewhere. */
        assert_int_equal(step > 1, threads > 1 && info.key_splits > 1);
        assert_true(most >= (step > 1 ? info.key_splits : 1));
        edge_result r = edge_take(c);
        edge_expect_same(c, one, &r, "tasks");
        assert_memory_equal(&counts, &first, sizeof counts);
        edge_free(&r);
        free(workspace);
    }
    c->tensors.counts = NULL;
    attn_plan_destroy(plan);
}

/* Guards: the same for a caller's own pool, whose threads take a step's tasks in any order. */
static void tasks(void **state) {
    each_sharing(state, with_tasks);
    /* More partial results than are kept at a time: steps come in several waves. */
    const attn_kernels *kernels = test_kernels(state);
    const case_spec s = {
        .batch = 2, .heads = 300, .kv_heads = 300, .queries = 1, .keys = 2100, .head_dim = 1, .value_dim = 1};
    attention_case *c = case_new(&s);
    edge_result one = edge_execute(c, kernels->name, ATTN_FLASH, 1);
    with_tasks(c, kernels->name, ATTN_FLASH, &one);
    edge_free(&one);
    case_free(c);
}

/* Guards: a task that is not there, or a thread without a workspace, is refused by name and writes nothing.
 */
static void wrong_tasks(void **state) {
    static const struct {
        int threads, thread;
        int64_t step, task;
        bool workspace;
        const char *names;
    } wrong[] = {
        {2, 2, 0, 0, true, "thread is 2 of 2"},      {2, -1, 0, 0, true, "thread is -1"},
        {1025, 0, 0, 0, true, "threads is 1025"},    {0, 0, 0, 0, true, "thread is 0 of 0"},
        {2, 0, -1, 0, true, "of step -1"},           {2, 0, 99, 0, true, "task is 0 of step 99"},
        {2, 0, 0, 1 << 20, true, "task is 1048576"}, {2, 0, 0, -1, true, "task is -1"},
        {2, 0, 0, 0, false, "workspace is NULL"},    {2, 0, INT64_MAX, 0, true, "of step"},
    };
    const attn_kernels *kernels = test_kernels(state);
    const case_spec s = edge_spec(2);
    attention_case *c = case_new(&s);
    attn_plan *plan = edge_plan(c, kernels->name, ATTN_FLASH);
    void *workspace = aligned_alloc(64, (size_t)(2 * attn_plan_info(plan).workspace_bytes));
    assert_non_null(workspace);
    guard_reset(&c->out);
    for (size_t n = 0; n < COUNT_OF(wrong); n++) {
        attn_error error = {""};
        assert_int_equal(attn_execute_task(plan, &c->tensors, wrong[n].workspace ? workspace : NULL,
                                           wrong[n].threads, wrong[n].thread, wrong[n].step, wrong[n].task,
                                           &error),
                         ATTN_INVALID);
        if (!strstr(error.text, wrong[n].names))
            test_fail("'%s' does not say '%s'", error.text, wrong[n].names);
    }
    assert_true(isnan(case_out(c, 0, 0, 0)[0])); /* as guard_reset left it */
    assert_int_equal(attn_step_tasks(NULL, 2, 0), 0);
    free(workspace);
    attn_plan_destroy(plan);
    case_free(c);
}

static void alone(attention_case *c, const char *isa, attn_algorithm algorithm, const edge_result *one) {
    attn_plan *plan = edge_plan(c, isa, algorithm);
    const int64_t bytes = attn_plan_info(plan).workspace_bytes;
    void *workspace = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
    assert_non_null(workspace);
    const int64_t rows = c->spec.batch * c->spec.heads * c->spec.queries;
    bool *written = calloc((size_t)rows, sizeof *written);
    assert_non_null(written);
    for (int part = 0; part < 7; part++) {
        guard_reset(&c->out);
        guard_reset(&c->lse);
        assert_int_equal(attn_execute_part(plan, &c->tensors, workspace, part, 7, NULL), ATTN_OK);
        edge_result r = edge_take(c);
        for (int64_t row = 0; row < rows; row++) {
            if (isnan(r.lse[row]) && isnan(r.out[row * c->spec.value_dim])) /* as guard_reset left it */
                continue;
            assert_false(written[row]);
            written[row] = true;
            assert_true(edge_same(r.lse[row], one->lse[row]));
        }
        edge_free(&r);
    }
    for (int64_t row = 0; row < rows; row++)
        assert_true(written[row]);
    free(written);
    free(workspace);
    attn_plan_destroy(plan);
}

/* Guards: each row is written by exactly one part, and a part writes no others. */
static void each_row_once(void **state) {
    each_sharing(state, alone);
}

/* Guards: more heads than a workspace has room for the partial results of, which then go through it in
 * several waves: the same bits on 1 to 3 threads. */
static void waves(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    case_spec s = edge_spec(COUNT_OF(edge_places) - 1);
    s.batch = 6;
    s.heads = 64;
    s.kv_heads = 32;
    s.queries = 1;
    s.keys = 4200;
    s.head_dim = s.value_dim = 4;
    attention_case *c = case_new(&s);
    edge_result one = edge_execute(c, kernels->name, ATTN_FLASH, 1);
    for (int threads = 2; threads <= 3; threads++) {
        edge_result more = edge_execute(c, kernels->name, ATTN_FLASH, threads);
        edge_expect_same(c, &one, &more, "threads");
        edge_free(&more);
    }
    edge_free(&one);
    case_free(c);
}

/* Guards: what is visited where heads that share their keys have masks or biases of their own: as by a look
 * at each head, however the work is cut, and the outputs with it. With one mask for all the heads go
 * together. */
static void heads_of_their_own(void **state) {
    enum { HEADS = 5, QUERIES = 2, KEYS = 2500, DIM = 8 };
    static uint8_t mask[HEADS * KEYS];
    static float bias[HEADS * KEYS], q[HEADS * QUERIES * DIM], k[KEYS * DIM], v[KEYS * DIM];
    static float out[2][HEADS * QUERIES * DIM];
    test_rng rng = test_rng_start("heads of their own", 0);
    for (int h = 0; h < HEADS; h++)
        for (int j = 0; j < KEYS; j++) {
            mask[h * KEYS + j] = j >= 400 * h && j < 400 * h + 900;
            bias[h * KEYS + j] = mask[h * KEYS + j] ? (float)test_normal(&rng) : -INFINITY;
        }
    for (size_t i = 0; i < COUNT_OF(q); i++)
        q[i] = (float)test_normal(&rng);
    for (size_t i = 0; i < COUNT_OF(k); i++) {
        k[i] = (float)test_normal(&rng);
        v[i] = (float)test_normal(&rng);
    }
    for (int kind = 0; kind < 3; kind++) { /* a mask for each head, a bias for each, one mask for all */
        attn_problem problem;
        attn_problem_init(&problem, 1, HEADS, 1, QUERIES, KEYS, DIM, DIM);
        problem.inputs = kind == 1 ? ATTN_HAS_BIAS : ATTN_HAS_MASK;
        const attn_options options = {.isa = test_kernels(state)->name, .algorithm = ATTN_FLASH};
        attn_plan *plan;
        assert_int_equal(attn_plan_create(&problem, &options, &plan, NULL), ATTN_OK);
        assert_true(attn_plan_info(plan).key_splits > 1);
        attn_tensors t;
        attn_tensors_init(&t, &problem, q, k, v, out[0]);
        t.mask = kind == 1 ? NULL : mask;
        t.bias = kind == 1 ? bias : NULL;
        t.mask_strides[1] = kind == 2 ? 0 : KEYS;
        t.bias_strides[1] = KEYS;
        t.mask_strides[3] = t.bias_strides[3] = 1;
        attn_counts right = {0};
        for (int h = 0; h < HEADS; h++) {
            attn_look *look = attn_look_open(plan, &t, 0, h);
            assert_non_null(look);
            const attn_counts one = attn_look_count(look);
            attn_counts_add(&right, &one, 1);
            attn_look_close(look);
        }
        void *workspace = aligned_alloc(64, (size_t)attn_plan_info(plan).workspace_bytes);
        assert_non_null(workspace);
        for (int parts = 1; parts <= HEADS + 1; parts++) {
            attn_counts counts = {0};
            t.counts = &counts;
            t.out = out[parts > 1];
            for (int part = 0; part < parts; part++)
                assert_int_equal(attn_execute_part(plan, &t, workspace, part, parts, NULL), ATTN_OK);
            if (memcmp(&counts, &right, sizeof right) != 0)
                test_fail("kind %d, %d parts: executed %lld of %lld pairs", kind, parts,
                          (long long)counts.pairs_executed, (long long)right.pairs_executed);
            assert_memory_equal(out[0], t.out, sizeof out[0]);
        }
        free(workspace);
        attn_plan_destroy(plan);
    }
}

/* Guards: nothing to do where keys would be split: no query, no batch, no key left; planned and executed. */
static void nothing_to_split(void **state) {
    for (int empty = 0; empty < 8; empty++) {
        static float data[3000 * 4], out[9 * 4];
        attn_problem problem;
        attn_problem_init(&problem, empty & 1 ? 0 : 1, 2, 1, empty & 2 ? 0 : 3, 3000, 4, 4);
        problem.inputs = ATTN_HAS_KV_LENS;
        const int64_t none = 0;
        const attn_options options = {.isa = test_kernels(state)->name, .algorithm = ATTN_FLASH};
        attn_plan *plan;
        assert_int_equal(attn_plan_create(&problem, &options, &plan, NULL), ATTN_OK);
        attn_tensors t;
        attn_tensors_init(&t, &problem, data, data, data, out);
        const int64_t all = 3000;
        t.kv_lens = empty & 4 ? &none : &all;
        for (size_t i = 0; i < COUNT_OF(out); i++)
            out[i] = 7;
        for (int threads = 1; threads <= 3; threads++)
            assert_int_equal(attn_execute(plan, &t, NULL, threads, NULL), ATTN_OK);
        for (int i = 0; i < 2 * 3 * 4 && !(empty & 3); i++)
            assert_true(out[i] == 0);
        attn_plan_destroy(plan);
    }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "where splits are", splits_are_where_they_are_thought);
    test_add_levels(&list, "empty splits", empty_splits);
    test_add_levels(&list, "splits emptied by data", splits_emptied_by_data);
    test_add_levels(&list, "threads", threads);
    test_add_levels(&list, "parts", parts);
    test_add_levels(&list, "tasks", tasks);
    test_add_levels(&list, "wrong tasks", wrong_tasks);
    test_add_levels(&list, "each row once", each_row_once);
    test_add_levels(&list, "waves", waves);
    test_add_levels(&list, "heads of their own", heads_of_their_own);
    test_add_levels(&list, "nothing to split", nothing_to_split);
    return test_run_list("edges_splits", &list);
}
