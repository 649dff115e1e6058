/* Plans that are used many times: memory that does not grow, workspaces of the size that was asked for and of
 * any content, several threads at once (semantic-router#1431, tvm#14723: memory n^2, or growing with each
 * call). */
#include "tests/support.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/edges.h"

/* The cases that plans are made for here: every kind of workspace there is. */
static case_spec spec_of(size_t place, int options) {
    case_spec s = edge_spec(place);
    s.dtype = ATTN_BF16;
    if (options > 0) {
        s.inputs = CASE_ALL_INPUTS;
        s.softcap = 3;
        s.pattern = edge_pattern("causal,window=60,sink=2,random=1:16:5");
    }
    return s;
}

static attention_case *case_of(size_t place, int options) {
    const case_spec s = spec_of(place, options);
    attention_case *c = case_new(&s);
    for (int64_t b = 0; b < s.batch && options > 0; b++) {
        ((int64_t *)c->kv_lens.data)[b] = s.keys - b;
        ((int64_t *)c->q_offsets.data)[b] = s.keys - s.queries - b;
    }
    return c;
}

/* ---- memory ------------------------------------------------------------------------------------- */

/* Pages of this process that are in memory. */
static int64_t resident_pages(void) {
    long long total, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lld %lld", &total, &resident) != 2)
        test_skip("no /proc/self/statm");
    fclose(file);
    return resident;
}

/* What is called again and again. */
typedef struct subject {
    const attention_case *c;
    const attn_plan *plan;
    const char *isa;
    attn_algorithm algorithm;
    int threads;
} subject;

typedef void call_body(const subject *s);

static void execute_once(const subject *s) {
    assert_int_equal(attn_execute(s->plan, &s->c->tensors, NULL, s->threads, NULL), ATTN_OK);
}

static void plan_once(const subject *s) {
    attn_plan_destroy(edge_plan(s->c, s->isa, s->algorithm));
}

static void fail_once(const subject *s) {
    attn_plan *none;
    attn_problem problem = s->c->problem;
    const attn_options options = {.isa = s->isa, .algorithm = ATTN_FLASH};
    problem.pattern.terms |= ATTN_TOPK | ATTN_RANDOM;
    problem.pattern.topk = problem.pattern.random_count = problem.pattern.random_block = 3;
    assert_int_equal(attn_plan_create(&problem, &options, &none, NULL), ATTN_UNSUPPORTED);
    assert_int_equal(attn_execute(s->plan, &s->c->tensors, NULL, 0, NULL), ATTN_INVALID);
}

/* Resident memory over `calls` calls. The smallest thing that a call could leak is one allocation, which
 * takes at least 32 bytes of the heap; less than half of that many are granted, for what the C library does
 * besides. */
static void expect_flat(void **state, call_body *body) {
    enum { CALLS = 10000, LEAST = 32 };
    const attn_kernels *kernels = test_kernels(state);
    if (TEST_ASAN || TEST_TSAN || TEST_MSAN)
        test_skip("a sanitizer keeps what was freed");
    if (test_quick())
        test_skip("the emulator's own memory grows");
    const int64_t bound = (int64_t)CALLS * LEAST / 2 / sysconf(_SC_PAGESIZE);
    for (int k = 0; k < 8; k++) {
        const bool split = k & 1;
        attention_case *c = case_of(split ? 2 : 0, k >> 1 & 1);
        const attn_algorithm algorithm = edge_algorithms[(size_t)k >> 2];
        if (split) /* one head of one query: a call then takes no time either */
            c->problem.queries = c->problem.batch = c->problem.heads = c->problem.kv_heads = 1;
        attn_plan *plan = edge_plan(c, kernels->name, algorithm);
        const subject called = {c, plan, kernels->name, algorithm, 1 + k % 4 / 3};
        for (int n = 0; n < 100; n++)
            body(&called);
        const int64_t before = resident_pages();
        for (int n = 0; n < CALLS; n++)
            body(&called);
        const int64_t grown = resident_pages() - before;
        if (grown > bound)
            test_fail("%s: %lld pages more after %d calls", case_describe(&c->spec), (long long)grown, CALLS);
        attn_plan_destroy(plan);
        case_free(c);
    }
}

/* Guards: 10,000 executions leave resident memory as it was. */
static void executions_are_flat(void **state) {
    expect_flat(state, execute_once);
}

/* Guards: so do plans that are made and destroyed. */
static void plans_are_flat(void **state) {
    expect_flat(state, plan_once);
}

/* Guards: so do plans and executions that are refused. */
static void failures_are_flat(void **state) {
    expect_flat(state, fail_once);
}

static int64_t workspace_for(const attn_kernels *kernels, attn_algorithm algorithm, int64_t n,
                             const char *pattern) {
    attn_problem problem;
    attn_problem_init(&problem, 2, 8, 2, n, n, 64, 64);
    problem.pattern = edge_pattern(pattern);
    const attn_options options = {.isa = kernels->name, .algorithm = algorithm};
    attn_plan *plan;
    assert_int_equal(attn_plan_create(&problem, &options, &plan, NULL), ATTN_OK);
    const int64_t bytes = attn_plan_info(plan).workspace_bytes;
    attn_plan_destroy(plan);
    return bytes;
}

/* Guards: flash's workspace is linear in the length: each doubling adds twice what the one before added, and
 * a key costs no more than its packed copy (D + Dv floats) and two flags, with an alignment for each of the
 * arrays. Naive holds n x n scores of one head, and says so. */
static void workspace_grows_as_documented(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const char *const patterns[] = {"dense", "causal", "causal,window=100,sink=4", "stride=3"};
    for (size_t p = 0; p < COUNT_OF(patterns); p++) {
        int64_t bytes[6];
        for (int k = 0; k < 6; k++)
            bytes[k] = workspace_for(kernels, ATTN_FLASH, (int64_t)4096 << k, patterns[p]);
        for (int k = 0; k + 2 < 6; k++) {
            const int64_t first = bytes[k + 1] - bytes[k], second = bytes[k + 2] - bytes[k + 1];
            assert_true(first > 0 && llabs(second - 2 * first) <= 64 * 32);
            assert_true(first <= ((int64_t)4096 << k) * (128 * 4 + 2) + 64 * 32);
        }
        const int64_t n = 4096, naive = workspace_for(kernels, ATTN_NAIVE, n, patterns[p]);
        assert_true(naive >= n * n * 4 && naive <= n * n * 4 + bytes[0] * 4);
    }
}

/* ---- the workspace ------------------------------------------------------------------------------------ */

/* Guards: a workspace of just the size that was asked for, between unmapped pages, of any content, gives the
 * same bits as the engine's own; nothing is written outside it. In one part, in several, and on several
 * threads. */
static void any_workspace(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (int options = 0; options < 2; options++)
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                attention_case *c = case_of(place, options);
                edge_result own = edge_execute(c, kernels->name, edge_algorithms[a], 1);
                attn_plan *plan = edge_plan(c, kernels->name, edge_algorithms[a]);
                const int64_t bytes = attn_plan_info(plan).workspace_bytes;
                assert_int_equal(bytes % 64, 0); /* several lie one behind the other, each aligned */
                for (int threads = 1; threads <= 3; threads++)
                    for (int fill = 0; fill < 3; fill++) {
                        static const unsigned char bytes_of_fill[] = {0xFF, 0x00,
                                                                      0x7F}; /* NaN, 0, large numbers */
                        guard w =
                            guard_new((size_t)(bytes * threads), fill % 2 ? GUARD_FRONT : GUARD_BACK, 64);
                        memset(w.data, bytes_of_fill[fill], w.bytes);
                        guard_reset(&c->out);
                        attn_error error = {""};
                        if (attn_execute(plan, &c->tensors, w.data, threads, &error) != ATTN_OK)
                            test_fail("%s", error.text);
                        edge_result r = edge_take(c);
                        edge_expect_same(c, &own, &r, "a caller's workspace");
                        assert_true(guard_intact(&w));
                        edge_free(&r);
                        guard_free(&w);
                    }
                for (int parts = 1; parts <= 3; parts += 2) {
                    guard w = guard_new((size_t)bytes, GUARD_BACK, 64);
                    guard_reset(&c->out);
                    for (int part = 0; part < parts; part++) {
                        memset(w.data, 0xFF, w.bytes);
                        assert_int_equal(attn_execute_part(plan, &c->tensors, w.data, part, parts, NULL),
                                         ATTN_OK);
                    }
                    edge_result r = edge_take(c);
                    edge_expect_same(c, &own, &r, "a caller's workspace, in parts");
                    assert_true(guard_intact(&w));
                    edge_free(&r);
                    guard_free(&w);
                }
                attn_plan_destroy(plan);
                edge_free(&own);
                case_free(c);
            }
}

/* Guards: a workspace that is not aligned, or missing, is refused by name and nothing is written. */
static void wrong_workspace(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
        attention_case *c = case_of(0, 0);
        attn_plan *plan = edge_plan(c, kernels->name, edge_algorithms[a]);
        guard w = guard_new((size_t)attn_plan_info(plan).workspace_bytes + 64, GUARD_FRONT, 64);
        attn_error error = {""};
        assert_int_equal(attn_execute(plan, &c->tensors, (char *)w.data + 4, 1, &error), ATTN_INVALID);
        assert_non_null(strstr(error.text, "workspace"));
        assert_int_equal(attn_execute_part(plan, &c->tensors, (char *)w.data + 32, 0, 1, &error),
                         ATTN_INVALID);
        assert_non_null(strstr(error.text, "workspace"));
        assert_int_equal(attn_execute_part(plan, &c->tensors, NULL, 0, 1, &error), ATTN_INVALID);
        assert_non_null(strstr(error.text, "workspace"));
        for (size_t n = 0; n < c->out.bytes / sizeof(float); n++)
            assert_true(isnan(c->tensors.out[n]));
        guard_free(&w);
        attn_plan_destroy(plan);
        case_free(c);
    }
}

/* ---- many threads at once
 * ----------------------------------------------------------------------------------- */

/* One thread's own tensors and outputs, beside a plan that all share. */
typedef struct user {
    const attn_plan *plan;
    attention_case *c;
    int parts; /* 0: attn_execute, with threads of its own */
    int rounds;
    bool failed;
} user;

static void *use(void *argument) {
    user *u = argument;
    const size_t bytes = (size_t)attn_plan_info(u->plan).workspace_bytes;
    void *workspace = aligned_alloc(64, bytes + 64);
    for (int round = 0; round < u->rounds && workspace; round++) {
        guard_reset(&u->c->out);
        guard_reset(&u->c->lse);
        if (u->parts == 0)
            u->failed |= attn_execute(u->plan, &u->c->tensors, NULL, 2, NULL) != ATTN_OK;
        for (int part = 0; part < u->parts; part++)
            u->failed |=
                attn_execute_part(u->plan, &u->c->tensors, workspace, part, u->parts, NULL) != ATTN_OK;
    }
    u->failed |= workspace == NULL;
    free(workspace);
    return NULL;
}

/* Guards: one plan is executed by many threads at once, each with its own tensors (differing in their data),
 * through the parts and through attn_execute: each gets, bit for bit, what it gets alone. */
static void one_plan_many_threads(void **state) {
    enum { USERS = 6 };
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            user users[USERS];
            edge_result alone[USERS];
            pthread_t threads[USERS];
            attn_plan *plan = NULL;
            for (int n = 0; n < USERS; n++) {
                attention_case *c = case_of(place, 1);
                for (int64_t b = 0; b < 2; b++)
                    case_set(c, &c->tensors.k, b, 0, n, 1, (float)n);
                ((int64_t *)c->q_offsets.data)[1] -= n;
                alone[n] = edge_execute(c, kernels->name, edge_algorithms[a], 1);
                plan = plan ? plan : edge_plan(c, kernels->name, edge_algorithms[a]);
                users[n] = (user){.plan = plan, .c = c, .parts = n % 3, .rounds = test_count(3, 20, 200)};
            }
            for (int n = 0; n < USERS; n++)
                assert_int_equal(pthread_create(&threads[n], NULL, use, &users[n]), 0);
            for (int n = 0; n < USERS; n++)
                assert_int_equal(pthread_join(threads[n], NULL), 0);
            for (int n = 0; n < USERS; n++) {
                assert_false(users[n].failed);
                edge_result together = edge_take(users[n].c);
                edge_expect_same(users[n].c, &alone[n], &together, "many threads at once");
                edge_free(&together);
                edge_free(&alone[n]);
                case_free(users[n].c);
            }
            attn_plan_destroy(plan);
        }
}

/* One part of an execution that several threads share. */
typedef struct sharer {
    const attn_plan *plan;
    const attn_tensors *tensors;
    int part, parts;
    bool failed;
} sharer;

static void *share(void *argument) {
    sharer *s = argument;
    void *workspace = aligned_alloc(64, (size_t)attn_plan_info(s->plan).workspace_bytes + 64);
    s->failed = workspace == NULL ||
                attn_execute_part(s->plan, s->tensors, workspace, s->part, s->parts, NULL) != ATTN_OK;
    free(workspace);
    return NULL;
}

/* Guards: the parts of one execution run side by side on a caller's own threads, writing one output and one
 * count. */
static void parts_side_by_side(void **state) {
    enum { PARTS = 5 };
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            attention_case *c = case_of(place, 1);
            attn_counts counts[2] = {{0}};
            c->tensors.counts = &counts[0];
            edge_result alone = edge_execute(c, kernels->name, edge_algorithms[a], 1);
            attn_plan *plan = edge_plan(c, kernels->name, edge_algorithms[a]);
            for (int round = 0; round < 5; round++) {
                sharer sharers[PARTS];
                pthread_t threads[PARTS];
                counts[1] = (attn_counts){0};
                c->tensors.counts = &counts[1];
                guard_reset(&c->out);
                guard_reset(&c->lse);
                for (int n = 0; n < PARTS; n++) {
                    sharers[n] = (sharer){plan, &c->tensors, n, PARTS, false};
                    assert_int_equal(pthread_create(&threads[n], NULL, share, &sharers[n]), 0);
                }
                for (int n = 0; n < PARTS; n++) {
                    assert_int_equal(pthread_join(threads[n], NULL), 0);
                    assert_false(sharers[n].failed);
                }
                edge_result together = edge_take(c);
                edge_expect_same(c, &alone, &together, "parts side by side");
                assert_int_equal(counts[1].pairs_executed, counts[0].pairs_executed);
                assert_int_equal(counts[1].pairs_useful, counts[0].pairs_useful);
                edge_free(&together);
            }
            attn_plan_destroy(plan);
            edge_free(&alone);
            case_free(c);
        }
}

/* Guards: called from a team of the caller's own OpenMP, inside of which OpenMP makes no other team: the one
 * thread that attn_execute then has does the work of all that it asked for. */
static void within_a_team(void **state) {
    enum { THREADS = 4 };
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            attention_case *c = case_of(place, 1);
            edge_result alone = edge_execute(c, kernels->name, edge_algorithms[a], 1);
            attn_plan *plan = edge_plan(c, kernels->name, edge_algorithms[a]);
            attn_status status = ATTN_INVALID;
            guard_reset(&c->out);
            guard_reset(&c->lse);
#ifdef _OPENMP
#    pragma omp parallel num_threads(2)
#    pragma omp master
#endif
            status = attn_execute(plan, &c->tensors, NULL, THREADS, NULL);
            assert_int_equal(status, ATTN_OK);
            edge_result within = edge_take(c);
            edge_expect_same(c, &alone, &within, "within a team");
            edge_free(&within);
            edge_free(&alone);
            attn_plan_destroy(plan);
            case_free(c);
        }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "executions leave memory flat", executions_are_flat);
    test_add_levels(&list, "plans leave memory flat", plans_are_flat);
    test_add_levels(&list, "failures leave memory flat", failures_are_flat);
    test_add_levels(&list, "workspace grows as documented", workspace_grows_as_documented);
    test_add_levels(&list, "any workspace", any_workspace);
    test_add_levels(&list, "wrong workspace", wrong_workspace);
    test_add_levels(&list, "one plan, many threads", one_plan_many_threads);
    test_add_levels(&list, "parts side by side", parts_side_by_side);
    test_add_levels(&list, "within a team", within_a_team);
    return test_run_list("reuse", &list);
}
