/* When memory runs out: the k-th allocation of a call fails, for k = 1, 2, ... until the call needs no more.
 * Each time the call says so, leaves nothing behind and has written nothing. */
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attention/internal.h"
#include "tests/patterns.h"

/* ---- allocators between the library and the C library: the linker puts them there (--wrap) ---- */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);

static struct {
    bool on;
    int failing; /* number of the allocation that fails, from 1 */
    int asked;   /* so far */
    int held;    /* blocks that are not freed yet */

    /* Of an aligned block: what follows it is marked, and looked at when it is freed. */
    unsigned char *block;
    size_t bytes;
} memory;

enum { MARK = 0xA5, MARK_BYTES = 256 };

static bool fails(void) {
    return memory.on && ++memory.asked == memory.failing;
}

static void *held(void *block) {
    memory.held += memory.on && block;
    return block;
}

void *__wrap_malloc(size_t bytes) {
    return fails() ? NULL : held(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return fails() ? NULL : held(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *old, size_t bytes) {
    if (fails())
        return NULL;
    return old ? __real_realloc(old, bytes) : held(__real_malloc(bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    if (fails())
        return NULL;
    unsigned char *block = __real_aligned_alloc(alignment, bytes + MARK_BYTES);
    if (block) {
        memory.block = block;
        memory.bytes = bytes;
        memset(block + bytes, MARK, MARK_BYTES);
    }
    return held(block);
}

void __wrap_free(void *block) {
    if (block && block == memory.block) {
        for (int i = 0; i < MARK_BYTES; i++)
            if (memory.block[memory.bytes + (size_t)i] != MARK)
                test_fail("byte %d past a block of %zu was written", i, memory.bytes);
        memory.block = NULL;
    }
    memory.held -= memory.on && block;
    __real_free(block);
}

/* Makes something and gives it back; where it cannot, looks whether anything was made after all. */
typedef attn_status attempt(void *context, attn_error *error);

/* Returns how many allocations the attempt takes: each has failed once. */
static int each_failure(const char *what, attempt *make, void *context) {
    for (int k = 1;; k++) {
        attn_error error = {""};
        memory.failing = k;
        memory.asked = memory.held = 0;
        memory.on = true;
        const attn_status status = make(context, &error);
        memory.on = false;
        if (memory.held != 0)
            test_fail("%s: allocation %d failed, %d blocks are left", what, k, memory.held);
        if (memory.asked < k) {
            assert_int_equal(status, ATTN_OK);
            return k - 1;
        }
        if (status != ATTN_NO_MEMORY || strncmp(error.text, "no memory ", 10) != 0)
            test_fail("%s: allocation %d failed, status %d, '%s'", what, k, status, error.text);
    }
}

/* ---- what allocates ---- */

typedef struct planned {
    attn_problem problem;
    attn_options options;
} planned;

static attn_status make_plan(void *context, attn_error *error) {
    const planned *p = context;
    attn_plan *plan = (attn_plan *)&memory; /* must be cleared */
    const attn_status status = attn_plan_create(&p->problem, &p->options, &plan, error);
    if ((status == ATTN_OK) != (plan != NULL))
        test_fail("status %d and plan %p", status, (void *)plan);
    attn_plan_destroy(plan);
    return status;
}

static attn_status look(void *context, attn_error *error) {
    attn_look *made = attn_look_open(context, NULL, 0, 0);
    strcpy(error->text, "no memory to look"); /* which says so by NULL */
    const attn_status status = made ? ATTN_OK : ATTN_NO_MEMORY;
    attn_look_close(made);
    return status;
}

static attn_status count_keys(void *context, attn_error *error) {
    strcpy(error->text, "no memory to count keys"); /* which says so by a negative count */
    return attn_plan_keys_attended(context) >= 0 ? ATTN_OK : ATTN_NO_MEMORY;
}

/* Guards: plans of every pattern, with runs kept or not, few and so many that their list grows; and looking
 * at them. */
static void plans(void **state) {
    static const uint8_t map[2 * 4096] = {0, 1, 1}; /* as many blocks as size 1 takes */
    static const struct {
        int64_t queries, keys;
        uint32_t inputs;
    } shapes[] = {{50, 60, 0}, {50, 60, ATTN_HAS_Q_OFFSETS}, {5, 0, 0}, {0, 5, 0}, {1, 3000, 0}};
    int most = 0;
    for (int p = 0; p < pattern_count(); p++)
        for (size_t shape = 0; shape < COUNT_OF(shapes); shape++) {
            planned it = {.options.algorithm = ATTN_AUTO};
            attn_problem_init(&it.problem, 1, 2, 1, shapes[shape].queries, shapes[shape].keys, 8, 8);
            it.problem.inputs = shapes[shape].inputs;
            it.problem.pattern = pattern_at(p, 2);
            it.problem.pattern.block_map = map;
            const int taken = each_failure(pattern_text(p), make_plan, &it);
            const bool keeps_runs =
                !(it.problem.pattern.terms & ATTN_TOPK) && !(it.problem.inputs & ATTN_HAS_Q_OFFSETS);
            assert_true(taken >= (keeps_runs ? 6 : 4)); /* the plan and its lists at least */
            most = taken > most ? taken : most;
            attn_plan *plan;
            assert_int_equal(attn_plan_create(&it.problem, NULL, &plan, NULL), ATTN_OK);
            assert_int_equal(each_failure("look", look, plan), 5);
            assert_int_equal(each_failure("keys", count_keys, plan), 3);
            attn_plan_destroy(plan);
        }
    assert_true(most >= 8);
    planned grows = {.options.algorithm = ATTN_FLASH};
    attn_problem_init(&grows.problem, 1, 1, 1, 8192, 8192, 8, 8);
    assert_int_equal(attn_pattern_parse("causal", &grows.problem.pattern, NULL), ATTN_OK);
    assert_true(each_failure("causal, many tiles", make_plan, &grows) >= 7);
}

static attn_status load_tuning(void *context, attn_error *error) {
    attn_tuning *tuning;
    const attn_status status = attn_tuning_load(context, &tuning, error);
    attn_tuning_free(tuning);
    return status;
}

/* Guards: a tuning table, as far as the library itself asks for memory. */
static void tuning(void **state) {
    test_skip_jansson_unseen();
    char path[] = "/tmp/attnscope-memory-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, "{\"tuning\":[]}", 13), 13);
    assert_int_equal(close(file), 0);
    const int taken = each_failure("tuning", load_tuning, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(taken, 1);
}

typedef struct execution {
    attn_plan *plan;
    attn_tensors tensors;
    float out[8];
} execution;

static attn_status execute(void *context, attn_error *error) {
    execution *e = context;
    for (size_t i = 0; i < COUNT_OF(e->out); i++)
        e->out[i] = 7;
    const attn_status status = attn_execute(e->plan, &e->tensors, NULL, 1, error);
    for (size_t i = 0; i < COUNT_OF(e->out); i++)
        assert_true((e->out[i] == 7) == (status != ATTN_OK));
    return status;
}

/* Guards: an execution that brings its own workspace, with either algorithm. */
static void executions(void **state) {
    static const float data[2 * 4 * 4];
    attn_problem problem;
    attn_problem_init(&problem, 1, 2, 2, 2, 3, 4, 2);
    for (int algorithm = ATTN_NAIVE; algorithm <= ATTN_FLASH; algorithm++) {
        execution e = {.plan = NULL};
        const attn_options options = {.algorithm = (attn_algorithm)algorithm};
        assert_int_equal(attn_plan_create(&problem, &options, &e.plan, NULL), ATTN_OK);
        attn_tensors_init(&e.tensors, &problem, data, data, data, e.out);
        assert_int_equal(each_failure("execution", execute, &e), 1);
        attn_plan_destroy(e.plan);
    }
}

/* Guards: an execution with naive that takes its own memory takes the scores of a part's rows for each
 * thread, not those of all rows: what few threads compute, many do too. The rows have the same bits, and
 * nothing is written past a workspace. */
static void naive_threads(void **state) {
    enum { QUERIES = 403, KEYS = 1500, D = 8, MOST_HEADS = 3 };
    static float q[MOST_HEADS * QUERIES * D], kv[MOST_HEADS * KEYS * D], out[2][MOST_HEADS * QUERIES * D];
    static const char *const patterns[] = {"dense", "causal,window=200", "topk=5"};
    test_rng rng = test_rng_start("naive_threads", 0);
    for (size_t i = 0; i < COUNT_OF(q); i++)
        q[i] = (float)test_normal(&rng);
    for (size_t i = 0; i < COUNT_OF(kv); i++)
        kv[i] = (float)test_normal(&rng);
    for (int64_t heads = 1; heads <= MOST_HEADS; heads += 2)
        for (size_t p = 0; p < COUNT_OF(patterns); p++) {
            attn_problem problem;
            attn_plan *plan, *fewer;
            attn_tensors tensors;
            attn_problem_init(&problem, 1, heads, heads, QUERIES, KEYS, D, D);
            assert_int_equal(attn_pattern_parse(patterns[p], &problem.pattern, NULL), ATTN_OK);
            const attn_options naive = {.algorithm = ATTN_NAIVE};
            assert_int_equal(attn_plan_create(&problem, &naive, &plan, NULL), ATTN_OK);
            attn_tensors_init(&tensors, &problem, q, kv, kv, out[0]);
            assert_int_equal(attn_execute(plan, &tensors, NULL, 1, NULL), ATTN_OK);
            const attn_info info = attn_plan_info(plan);
            assert_int_equal(memory.bytes, info.workspace_bytes);
            const int64_t units = heads * attn_ceil_div(QUERIES, info.query_tile);
            for (int threads = 2; threads <= 128; threads = threads * 3 / 2) {
                memset(out[1], 0, sizeof out[1]);
                tensors.out = out[1];
                assert_int_equal(attn_execute(plan, &tensors, NULL, threads, NULL), ATTN_OK);
                assert_memory_equal(out[0], out[1], (size_t)(heads * QUERIES * D) * sizeof **out);
                /* Parts have equal costs, so at most one tile more than their share. */
                const int64_t parts = attn_min(threads, units);
                problem.queries = attn_min(QUERIES, (units / parts + 1) * info.query_tile);
                assert_int_equal(attn_plan_create(&problem, &naive, &fewer, NULL), ATTN_OK);
                const int64_t bytes = attn_plan_info(fewer).workspace_bytes;
                attn_plan_destroy(fewer);
                problem.queries = QUERIES;
                if ((int64_t)memory.bytes > parts * bytes)
                    test_fail("%s, %lld heads, %d threads: %zu bytes, more than %lld of %lld", patterns[p],
                              (long long)heads, threads, memory.bytes, (long long)parts, (long long)bytes);
            }
            attn_plan_destroy(plan);
        }
}

/* Guards: a draw of as many blocks as there are is dense, with its counts and bits, and as cheap at lengths
 * whose lists of blocks would find no memory; beside other terms too, and where blocks do not divide the
 * lengths. */
static void random_of_all(void **state) {
    static const struct {
        int64_t queries, keys;
        const char *random, *same;
    } cases[] = {
        {1 << 20, 1 << 20, "random=1048576:1:1", "dense"},
        {1 << 20, 1 << 20, "causal,random=1152921504606846976:7:2", "causal"},
        {300, 500, "random=8:64:3", "dense"}, /* the last block has 52 keys */
        {500, 300, "chunk=70,random=1:1000:4", "chunk=70"},
        {300, 500, "causal,random=500:1:5,window=9", "causal"},
        {300, 0, "random=1:1:1", "dense"},
        {0, 300, "random=300:1:1", "dense"},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        attn_problem problem;
        attn_info info[2];
        attn_plan *plan[2];
        attn_problem_init(&problem, 1, 1, 1, cases[k].queries, cases[k].keys, 8, 8);
        for (int which = 0; which < 2; which++) {
            attn_error error;
            const char *text = which ? cases[k].same : cases[k].random;
            assert_int_equal(attn_pattern_parse(text, &problem.pattern, NULL), ATTN_OK);
            if (attn_plan_create(&problem, NULL, &plan[which], &error) != ATTN_OK)
                test_fail("%s: %s", text, error.text);
            info[which] = attn_plan_info(plan[which]);
        }
        assert_int_equal(info[0].tiles_full, info[1].tiles_full);
        assert_int_equal(info[0].tiles_partial, info[1].tiles_partial);
        assert_int_equal(info[0].pairs_useful, info[1].pairs_useful);
        assert_int_equal(info[0].pairs_executed, info[1].pairs_executed);
        attn_look *look[2] = {attn_look_open(plan[0], NULL, 0, 0), attn_look_open(plan[1], NULL, 0, 0)};
        uint64_t bits[2][(1 << 20) / 64];
        for (int64_t i = 0; i < cases[k].queries; i += cases[k].queries / 7 + 1) {
            memset(bits, 0, sizeof bits);
            for (int which = 0; which < 2; which++)
                attn_look_row(look[which], i, bits[which]);
            assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
        }
        for (int which = 0; which < 2; which++) {
            attn_look_close(look[which]);
            attn_plan_destroy(plan[which]);
        }
    }
}

/* Guards: where workspaces find no memory, the message says how large they are and what takes less. */
static void too_large(void **state) {
    attn_problem problem;
    attn_plan *plan;
    attn_tensors tensors;
    attn_error error;
    static const float data[1];
    float out[1];
    attn_problem_init(&problem, 1, 1 << 20, 1, 1 << 16, 1 << 16, 1, 1);
    assert_int_equal(attn_plan_create(&problem, &(attn_options){.algorithm = ATTN_NAIVE}, &plan, NULL),
                     ATTN_OK);
    attn_tensors_init(&tensors, &problem, data, data, data, out);
    for (int threads = 1; threads <= 2; threads++) {
        memory.failing = 1;
        memory.asked = 0;
        memory.on = true;
        assert_int_equal(attn_execute(plan, &tensors, NULL, threads, &error), ATTN_NO_MEMORY);
        memory.on = false;
        char expected[64];
        snprintf(expected, sizeof expected, "no memory for %d workspaces of %lld bytes", threads,
                 (long long)attn_plan_info(plan).workspace_bytes);
        assert_non_null(strstr(error.text, expected));
        assert_int_equal(strstr(error.text, "fewer threads") != NULL, threads > 1);
    }
    attn_plan_destroy(plan);
}

static attn_status multiply(void *context, attn_error *error) {
    static const float a[4] = {1, 2, 3, 4};
    const bool *transposed = context;
    float c[4] = {9, 9, 9, 9};
    const attn_status status = *transposed ? attn_matmul_nt_f32(NULL, 2, 2, 2, a, 2, a, 2, c, 2, error)
                                           : attn_matmul_nn_f32(NULL, 2, 2, 2, a, 2, a, 2, c, 2, error);
    assert_true(c[0] == (status != ATTN_OK ? 9 : *transposed ? 5 : 7));
    assert_true(c[3] == (status != ATTN_OK ? 9 : *transposed ? 25 : 22));
    return status;
}

/* Guards: the single operations that pack their matrices. */
static void operations(void **state) {
    for (int transposed = 0; transposed < 2; transposed++)
        assert_int_equal(each_failure("matmul", multiply, &(bool){transposed}), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans),         cmocka_unit_test(executions), cmocka_unit_test(naive_threads),
        cmocka_unit_test(random_of_all), cmocka_unit_test(too_large),  cmocka_unit_test(operations),
        cmocka_unit_test(tuning),
    };
    return test_run("memory", tests, COUNT_OF(tests));
}
