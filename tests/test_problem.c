/* What is refused, and that the text names the argument; pattern text both ways. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attnscope.h"

static attn_problem good(void) {
    attn_problem problem;
    attn_problem_init(&problem, 2, 4, 2, 5, 7, 8, 8);
    return problem;
}

static void expect_refusal(const attn_problem *problem, const attn_options *options, attn_status status,
                           const char *names) {
    attn_error error = {""};
    attn_plan *plan = (attn_plan *)&error; /* must be cleared */
    assert_int_equal(attn_plan_create(problem, options, &plan, &error), status);
    assert_null(plan);
    if (!strstr(error.text, names))
        test_fail("'%s' does not name '%s'", error.text, names);
    assert_null(strchr(error.text, '\n'));
    assert_int_equal(attn_plan_create(problem, options, &plan, NULL), status); /* no error wanted */
}

/* Guards: every size and number that makes no sense is refused by its name. */
static void bad_sizes(void **state) {
    const int64_t huge = INT64_MAX;
    const struct {
        size_t at;
        int64_t value;
        const char *names;
    } cases[] = {
        {offsetof(attn_problem, batch), -1, "batch is -1"},
        {offsetof(attn_problem, heads), 0, "heads is 0"},
        {offsetof(attn_problem, heads), 5, "heads is 5"},
        {offsetof(attn_problem, kv_heads), 0, "kv_heads is 0"},
        {offsetof(attn_problem, kv_heads), 3, "kv_heads, which is 3"},
        {offsetof(attn_problem, queries), -5, "queries is -5"},
        {offsetof(attn_problem, keys), -1, "keys is -1"},
        {offsetof(attn_problem, head_dim), 0, "head_dim is 0"},
        {offsetof(attn_problem, value_dim), -1, "value_dim is -1"},
        {offsetof(attn_problem, batch), huge, "batch is"},
        {offsetof(attn_problem, queries), huge, "queries is"},
        {offsetof(attn_problem, keys), huge, "keys is"},
        {offsetof(attn_problem, head_dim), huge, "head_dim is"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        attn_problem problem = good();
        memcpy((char *)&problem + cases[i].at, &cases[i].value, sizeof cases[i].value);
        expect_refusal(&problem, NULL, ATTN_INVALID, cases[i].names);
    }
    attn_problem problem = good(); /* each size is fine, their product is not */
    problem.batch = problem.queries = problem.keys = (int64_t)1 << 30;
    expect_refusal(&problem, NULL, ATTN_INVALID, "2^58");
    problem = good(); /* a workspace past 2^63 bytes, whether there is a batch to use it or not */
    problem.keys = (int64_t)1 << 40;
    problem.head_dim = (int64_t)1 << 20;
    expect_refusal(&problem, NULL, ATTN_INVALID, "2^58");
    problem.batch = 0;
    expect_refusal(&problem, NULL, ATTN_INVALID, "2^58");
    attn_problem_init(&problem, (int64_t)1 << 40, 1, 1, 1, 1, 1 << 16, 1 << 16); /* 2^58 of them */
    attn_plan *plan;
    attn_error error = {""};
    assert_int_equal(attn_plan_create(&problem, NULL, &plan, &error), ATTN_OK);
    attn_plan_destroy(plan);
    problem.value_dim++;
    expect_refusal(&problem, NULL, ATTN_INVALID, "2^58");
}

/* Guards: numbers and options outside their range are refused by name. */
static void bad_options(void **state) {
    attn_problem problem = good();
    problem.scale = INFINITY;
    expect_refusal(&problem, NULL, ATTN_INVALID, "scale is inf");
    problem = good();
    problem.softcap = -1;
    expect_refusal(&problem, NULL, ATTN_INVALID, "softcap is -1");
    problem.softcap = NAN;
    expect_refusal(&problem, NULL, ATTN_INVALID, "softcap is");
    problem = good();
    problem.dtype = (attn_dtype)9;
    expect_refusal(&problem, NULL, ATTN_INVALID, "dtype is 9");
    problem = good();
    problem.inputs = 1u << 20;
    expect_refusal(&problem, NULL, ATTN_INVALID, "inputs");
    problem = good();
    expect_refusal(&problem, &(attn_options){.isa = "avx9"}, ATTN_INVALID, "avx9");
    expect_refusal(&problem, &(attn_options){.algorithm = (attn_algorithm)7}, ATTN_INVALID, "algorithm is 7");
    expect_refusal(&problem, &(attn_options){.threads = -1}, ATTN_INVALID, "threads is -1");
    expect_refusal(&problem, &(attn_options){.threads = ATTN_MAX_THREADS + 1}, ATTN_INVALID,
                   "threads is 1025");
    problem.pattern = (attn_pattern){.terms = ATTN_TOPK, .topk = 3};
    expect_refusal(&problem, &(attn_options){.algorithm = ATTN_FLASH}, ATTN_UNSUPPORTED, "topk");
}

/* Guards: pattern terms set by hand are checked like parsed ones. */
static void bad_patterns(void **state) {
    const struct {
        attn_pattern pattern;
        const char *names;
    } cases[] = {
        {{.terms = ATTN_WINDOW, .window_left = -1}, "window"},
        {{.terms = ATTN_WINDOW, .window_right = -1}, "window"},
        {{.terms = ATTN_CHUNK}, "chunk is 0"},
        {{.terms = ATTN_SINK, .sink = -3}, "sink is -3"},
        {{.terms = ATTN_GLOBAL}, "global is 0"},
        {{.terms = ATTN_STRIDE}, "stride is 0"},
        {{.terms = ATTN_TOPK}, "topk is 0"},
        {{.terms = ATTN_PREFIX, .prefix = 3}, "prefix=3 needs causal"},
        {{.terms = ATTN_RANDOM, .random_count = 1}, "random"},
        {{.terms = ATTN_BLOCKS, .block_size = 2}, "blocks"},
        {{.terms = ATTN_BLOCKS, .block_size = 2, .block_map = (const uint8_t *)"", .block_heads = 3},
         "blocks"},
        {{.terms = 1u << 30}, "unknown terms"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        attn_problem problem = good();
        problem.pattern = cases[i].pattern;
        expect_refusal(&problem, NULL, ATTN_INVALID, cases[i].names);
    }
}

/* Guards: tensors that do not fit the plan are refused by name, and nothing is written. */
static void bad_tensors(void **state) {
    attn_problem problem = good();
    attn_plan *plan;
    attn_error error;
    float data[2 * 4 * 7 * 8] = {0}, out[2 * 4 * 5 * 8];
    const int64_t lens[2] = {8, 0}, negative[2] = {0, -1};
    for (size_t i = 0; i < COUNT_OF(out); i++)
        out[i] = 7;
    assert_int_equal(attn_plan_create(&problem, NULL, &plan, &error), ATTN_OK);
    attn_tensors tensors;
    attn_tensors_init(&tensors, &problem, data, data, NULL, out);
    assert_int_equal(attn_execute(plan, &tensors, NULL, 1, &error), ATTN_INVALID);
    assert_non_null(strstr(error.text, "tensor v"));
    attn_tensors_init(&tensors, &problem, data, data, data, out);
    tensors.kv_lens = lens; /* planned without */
    assert_int_equal(attn_execute(plan, &tensors, NULL, 1, &error), ATTN_INVALID);
    assert_non_null(strstr(error.text, "kv_lens"));
    tensors.kv_lens = NULL;
    const int threads[] = {0, -1, 1025};
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(attn_execute(plan, &tensors, NULL, threads[i], &error), ATTN_INVALID);
        assert_non_null(strstr(error.text, "threads"));
    }
    assert_int_equal(attn_execute(plan, &tensors, (char *)out + 4, 1, &error), ATTN_INVALID);
    assert_non_null(strstr(error.text, "aligned"));
    assert_int_equal(attn_execute_part(plan, &tensors, NULL, 0, 1, &error), ATTN_INVALID);
    assert_non_null(strstr(error.text, "workspace"));
    static const int parts[][2] = {{0, 0}, {-1, 2}, {2, 2}, {0, -1}};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        assert_int_equal(attn_execute_part(plan, &tensors, NULL, parts[i][0], parts[i][1], &error),
                         ATTN_INVALID);
        assert_non_null(strstr(error.text, "part is"));
    }
    attn_plan_destroy(plan);

    problem.inputs = ATTN_HAS_KV_LENS;
    assert_int_equal(attn_plan_create(&problem, NULL, &plan, &error), ATTN_OK);
    assert_int_equal(attn_execute(plan, &tensors, NULL, 1, &error), ATTN_INVALID); /* planned with */
    assert_non_null(strstr(error.text, "kv_lens is NULL"));
    tensors.kv_lens = lens;
    assert_int_equal(attn_execute(plan, &tensors, NULL, 1, &error), ATTN_INVALID);
    assert_non_null(strstr(error.text, "kv_lens[0] is 8"));
    tensors.kv_lens = negative;
    assert_int_equal(attn_execute(plan, &tensors, NULL, 1, &error), ATTN_INVALID);
    assert_non_null(strstr(error.text, "kv_lens[1] is -1"));
    attn_plan_destroy(plan);

    problem.inputs = ATTN_HAS_Q_OFFSETS;
    assert_int_equal(attn_plan_create(&problem, NULL, &plan, &error), ATTN_OK);
    tensors.kv_lens = NULL;
    const int64_t most = (int64_t)1 << 60, far[][2] = {{most + 1, 0}, {0, -most - 1}};
    for (size_t i = 0; i < COUNT_OF(far); i++) {
        tensors.q_offsets = far[i];
        assert_int_equal(attn_execute(plan, &tensors, NULL, 1, &error), ATTN_INVALID);
        assert_non_null(strstr(error.text, i == 0 ? "q_offsets[0] is 1152" : "q_offsets[1] is -1152"));
    }
    attn_plan_destroy(plan);
    attn_plan_destroy(NULL);
    for (size_t i = 0; i < COUNT_OF(out); i++)
        assert_true(out[i] == 7);
}

/* Guards: the text of a pattern survives parsing and formatting, in the order of the table. */
static void pattern_text(void **state) {
    const char *const same[] = {
        "dense",
        "causal",
        "causal-top-left",
        "causal,prefix=3,chunk=9,window=4,sink=2,global=1,stride=5,random=2:8:18446744073709551615,topk=6",
        "window=3:7",
        "window=inf:0",
        "window=0:inf",
        "window=inf:inf",
    };
    const char *const canonical[][2] = {
        {"sink=4,causal,window=8", "causal,window=8,sink=4"},
        {"window=7:0", "window=8"},
        {"topk=1,stride=2", "stride=2,topk=1"},
    };
    char text[256];
    attn_pattern pattern;
    for (size_t i = 0; i < COUNT_OF(same) + COUNT_OF(canonical); i++) {
        const bool is_same = i < COUNT_OF(same);
        const char *const from = is_same ? same[i] : canonical[i - COUNT_OF(same)][0];
        const char *const to = is_same ? same[i] : canonical[i - COUNT_OF(same)][1];
        attn_error error;
        if (attn_pattern_parse(from, &pattern, &error) != ATTN_OK)
            test_fail("%s", error.text);
        assert_int_equal(attn_pattern_format(&pattern, text, sizeof text), strlen(to));
        assert_string_equal(text, to);
        /* As snprintf: the full length, a cut text, nothing past the size. */
        char small[8] = "#######";
        assert_int_equal(attn_pattern_format(&pattern, small, 5), strlen(to));
        assert_int_equal(strncmp(small, to, 4), 0);
        assert_int_equal(small[4], 0);
        assert_int_equal(small[5], '#');
        assert_int_equal(attn_pattern_format(&pattern, NULL, 0), strlen(to));
    }
}

/* Guards: text that is almost a pattern is refused, named, and changes nothing. */
static void bad_text(void **state) {
    const char *const texts[] = {
        "",
        ",",
        "causal,",
        ",causal",
        "causal,,sink=1",
        "Causal",
        "causal=1",
        "window",
        "window=",
        "window=0",
        "window=-1",
        "window=+1",
        "window= 1",
        "window=1x",
        "window=1:",
        "window=:1",
        "window=1:2:3",
        "window=inf",
        "window=1.5",
        "sink=0",
        "sink=0x10",
        "chunk=0",
        "stride=0",
        "topk=0",
        "global=0",
        "prefix=3",
        "random=1:2",
        "random=0:2:3",
        "random=1:0:3",
        "random=1:2:-3",
        "dense,sink",
        "dense,dense",
        "causal,causal",
        "sink=1,sink=2",
        "blocks=f.npy:3",
        "triangular",
        "causal ",
        " causal",
        "causal,dense",
        "window=99999999999999999999",
        "sink=1e3",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        attn_pattern pattern = {.terms = ATTN_SINK, .sink = 77};
        const attn_pattern before = pattern;
        attn_error error = {""};
        if (attn_pattern_parse(texts[i], &pattern, &error) == ATTN_OK)
            test_fail("'%s' was accepted", texts[i]);
        assert_memory_equal(&pattern, &before, sizeof pattern);
        assert_true(strlen(error.text) > 10);
        assert_null(strchr(error.text, '\n'));
    }
}

/* Guards: single operations refuse what makes no sense. */
static void bad_operations(void **state) {
    attn_error error;
    float x[4] = {1, 2, 3, 4};
    assert_int_equal(attn_scale_f32(NULL, -1, 2, x, &error), ATTN_INVALID);
    assert_non_null(strstr(error.text, "n is -1"));
    assert_int_equal(attn_scale_f32(NULL, 4, 2, NULL, &error), ATTN_INVALID);
    assert_int_equal(attn_scale_f32("avx9", 4, 2, x, &error), ATTN_INVALID);
    assert_int_equal(attn_mask_f32(NULL, 4, NULL, x, &error), ATTN_INVALID);
    assert_int_equal(attn_softmax_f32(NULL, 2, 4, x, 3, &error), ATTN_INVALID);
    assert_non_null(strstr(error.text, "stride"));
    assert_int_equal(attn_exp_f32(NULL, 4, x, NULL, &error), ATTN_INVALID);
    assert_int_equal(attn_matmul_nt_f32(NULL, 2, 2, 2, x, 1, x, 2, x, 2, &error), ATTN_INVALID);
    assert_non_null(strstr(error.text, "a is 1"));
    assert_int_equal(attn_matmul_nn_f32(NULL, 2, -2, 2, x, 2, x, 2, x, 2, &error), ATTN_INVALID);
    assert_true(x[0] == 1 && x[1] == 2 && x[2] == 3 && x[3] == 4);
}

/* Guards what callers size their tensors with, outside the enumeration too. */
static void storage_types(void **state) {
    static const struct {
        int dtype;
        const char *name;
        size_t bytes;
    } types[] = {{ATTN_F32, "f32", 4}, {ATTN_F16, "f16", 2}, {ATTN_BF16, "bf16", 2}};
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        assert_string_equal(attn_dtype_name((attn_dtype)types[i].dtype), types[i].name);
        assert_int_equal(attn_dtype_bytes((attn_dtype)types[i].dtype), types[i].bytes);
    }
    assert_null(attn_dtype_name((attn_dtype)3));
    assert_int_equal(attn_dtype_bytes((attn_dtype)3), 0);
}

/* Guards ALiBi's slopes: those published for 8 and 12 heads (the paper; its authors' code); for every number
 * of heads the rule of that code, a geometric series, then every other slope of the next one; nothing behind.
 */
static void alibi_slopes(void **state) {
    enum { MOST = 300 };
    float slopes[MOST + 1], next[2 * MOST];
    attn_alibi_slopes(12, slopes);
    for (int h = 0; h < 8; h++)
        assert_true(slopes[h] == ldexpf(1, -h - 1));
    for (int h = 8; h < 12; h++)
        assert_true(slopes[h] == (float)exp2(-0.5 - (h - 8)));
    for (int heads = 0; heads <= MOST; heads++) {
        int power = 1;
        while (2 * power <= heads)
            power *= 2;
        slopes[heads] = -7;
        attn_alibi_slopes(heads, slopes);
        assert_true(slopes[heads] == -7);
        attn_alibi_slopes(2 * power, next);
        const double start = pow(2, -pow(2, 3 - log2(power)));
        for (int h = 0; h < heads; h++) {
            const double series = pow(start, h + 1); /* at 2^-53 an operation, h + 1 times in the exponent */
            assert_true(h < power ? fabs((double)slopes[h] / series - 1) <= 0x1p-23
                                  : slopes[h] == next[2 * (h - power)]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_sizes),      cmocka_unit_test(bad_options),   cmocka_unit_test(bad_patterns),
        cmocka_unit_test(bad_tensors),    cmocka_unit_test(pattern_text),  cmocka_unit_test(bad_text),
        cmocka_unit_test(bad_operations), cmocka_unit_test(storage_types), cmocka_unit_test(alibi_slopes),
    };
    return test_run("problem", tests, COUNT_OF(tests));
}
