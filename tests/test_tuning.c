/* Tuning tables: what they make of ATTN_AUTO, and which files are refused. */
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attnscope.h"

static char path[64];

static int make_file(void **state) {
    strcpy(path, "/tmp/attnscope-tuning-XXXXXX");
    const int file = mkstemp(path);
    return file < 0 || close(file) != 0;
}

static int remove_file(void **state) {
    return unlink(path);
}

static attn_status load(const char *text, attn_tuning **tuning, attn_error *error) {
    test_skip_jansson_unseen();
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return attn_tuning_load(path, tuning, error);
}

/* An entry of a table in JSON. */
#define ENTRY(isa, dtype, d, pattern, threads, from, algorithm)                                              \
    "{\"isa\":\"" isa "\",\"dtype\":\"" dtype "\",\"head_dim\":" d ",\"value_dim\":" d                       \
    ",\"pattern\":\"" pattern "\",\"threads\":" threads ",\"from_n\":" from                                  \
    ",\"to_n\":100000,\"algorithm\":\"" algorithm "\"}"

/* clang-format off */
static const char table[] =
    "{\"context\":{\"fingerprint\":\"0011223344556677\"},\"analysis\":{\"tuning\":["
    ENTRY("scalar", "f32", "64", "dense", "1", "0", "naive") ","
    ENTRY("scalar", "f32", "64", "dense", "1", "300", "flash") ","
    ENTRY("scalar", "f32", "64", "dense", "2", "0", "flash") ","
    ENTRY("scalar", "f32", "128", "dense", "1", "0", "flash") ","
    ENTRY("scalar", "f32", "64", "causal", "1", "0", "flash") ","
    ENTRY("scalar", "f32", "64", "window=16", "1", "0", "flash") ","
    ENTRY("scalar", "f32", "64", "window=256", "1", "1000", "naive") ","
    ENTRY("scalar", "f32", "64", "window=4:3", "1", "0", "naive") ","
    ENTRY("scalar", "f32", "64", "sink=1,window=9", "1", "0", "naive") ","
    ENTRY("scalar", "f32", "64", "causal,window=inf:0", "1", "0", "naive") ","
    ENTRY("scalar", "bf16", "64", "dense", "1", "0", "naive") ","
    ENTRY("other", "f32", "64", "dense", "1", "0", "naive") ","
    ENTRY("scalar", "f32", "16", "dense", "4", "0", "naive") "]}}";
/* clang-format on */

static void set(attn_problem *p, int64_t n, int64_t d, const char *pattern) {
    attn_problem_init(p, 1, 2, 1, n, n, d, d);
    assert_int_equal(attn_pattern_parse(pattern, &p->pattern, NULL), ATTN_OK);
}

/* Guards: the entry of this level, type, kind of pattern and nearest dimension that begins last at or below n
 * decides; what was not measured is not guessed. */
static void chooses(void **state) {
    static const struct {
        int64_t n, d;
        const char *pattern;
        int threads;
        attn_algorithm chosen;
    } cases[] = {
        {1, 64, "dense", 1, ATTN_NAIVE},
        {299, 64, "dense", 0, ATTN_NAIVE}, /* 0 is one thread */
        {300, 64, "dense", 1, ATTN_FLASH},
        {299, 64, "dense", 2, ATTN_FLASH},
        {299, 64, "dense", 3, ATTN_AUTO},
        {299, 64, "dense", 4, ATTN_AUTO}, /* measured at another dimension */
        {299, 16, "dense", 4, ATTN_NAIVE},
        {100000, 64, "dense", 1, ATTN_FLASH},
        {100, 80, "dense", 1, ATTN_NAIVE},
        {100, 100, "dense", 1, ATTN_FLASH}, /* 128 is nearer */
        {100, 32, "dense", 1, ATTN_NAIVE},
        {100, 31, "dense", 1, ATTN_AUTO}, /* beyond a factor of 2 */
        {100, 256, "dense", 1, ATTN_FLASH},
        {100, 257, "dense", 1, ATTN_AUTO},
        {100001, 64, "dense", 1, ATTN_AUTO}, /* longer than was measured */
        {100, 16, "dense", 1, ATTN_AUTO},    /* measured with four threads alone */
        {100, 64, "causal", 1, ATTN_FLASH},
        {100, 64, "causal,prefix=3", 1, ATTN_FLASH},
        {100, 64, "causal-top-left", 1, ATTN_FLASH},
        /* A window is known by its width, and the nearest within a factor of 2 decides. */
        {1000, 64, "window=256", 1, ATTN_NAIVE},
        {999, 64, "window=256", 1, ATTN_AUTO},
        {1000, 64, "window=512", 1, ATTN_NAIVE},
        {1000, 64, "window=513", 1, ATTN_AUTO},
        {1000, 64, "window=127", 1, ATTN_AUTO},
        {1000, 64, "causal,window=255:99", 1, ATTN_NAIVE},
        {1000, 64, "window=100:100", 1, ATTN_NAIVE},
        {1000, 64, "window=20", 1, ATTN_FLASH},
        {1000, 64, "window=33", 1, ATTN_AUTO},
        {1000, 64, "window=8", 1, ATTN_NAIVE},
        {1000, 64, "window=11", 1, ATTN_NAIVE}, /* 8 is nearer than 16 */
        {1000, 64, "window=12", 1, ATTN_FLASH},
        {1000, 64, "window=3", 1, ATTN_AUTO},
        {1000, 64, "window=inf:0", 1, ATTN_AUTO},
        {1000, 64, "causal,window=inf:0", 1, ATTN_NAIVE},
        {1000, 64, "causal,prefix=2,window=20", 1, ATTN_AUTO}, /* no window alone */
        /* Of other patterns none speaks for another; how one is written does not count. */
        {100, 64, "window=9,sink=1", 1, ATTN_NAIVE},
        {100, 64, "window=8:0,sink=1", 1, ATTN_NAIVE},
        {100, 64, "window=9,sink=2", 1, ATTN_AUTO},
        {100, 64, "chunk=8", 1, ATTN_AUTO},
    };
    attn_tuning *tuning;
    attn_error error;
    if (load(table, &tuning, &error) != ATTN_OK)
        test_fail("%s", error.text);
    assert_string_equal(attn_tuning_machine(tuning), "0011223344556677");
    attn_problem p;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        set(&p, cases[i].n, cases[i].d, cases[i].pattern);
        const attn_algorithm chosen = attn_tuning_choose(tuning, &p, "scalar", cases[i].threads);
        if (chosen != cases[i].chosen)
            test_fail("n=%lld d=%lld %s, %d threads: chose %s", (long long)cases[i].n, (long long)cases[i].d,
                      cases[i].pattern, cases[i].threads, attn_algorithm_name(chosen));
    }
    set(&p, 100, 64, "dense");
    assert_int_equal(attn_tuning_choose(tuning, &p, "avx9", 1), ATTN_AUTO);
    assert_int_equal(attn_tuning_choose(NULL, &p, "scalar", 1), ATTN_AUTO);
    p.dtype = ATTN_BF16;
    assert_int_equal(attn_tuning_choose(tuning, &p, "scalar", 1), ATTN_NAIVE);
    p.dtype = ATTN_F16;
    assert_int_equal(attn_tuning_choose(tuning, &p, "scalar", 1), ATTN_AUTO);
    set(&p, 100, 64, "dense");
    p.queries = 99;
    assert_int_equal(attn_tuning_choose(tuning, &p, "scalar", 1), ATTN_AUTO);
    set(&p, 100, 64, "dense");
    p.softcap = 1;
    assert_int_equal(attn_tuning_choose(tuning, &p, "scalar", 1), ATTN_AUTO);
    set(&p, 100, 64, "dense");
    p.inputs = ATTN_HAS_ALIBI;
    assert_int_equal(attn_tuning_choose(tuning, &p, "scalar", 1), ATTN_AUTO);
    attn_tuning_free(tuning);
}

/* Guards: of two shapes that are equally far the smaller decides, in whatever order the table has them. */
static void chooses_the_smaller(void **state) {
    static const char *const tables[] = {
        "{\"tuning\":[" ENTRY("scalar", "f32", "64", "dense", "1", "0",
                              "naive") "," ENTRY("scalar", "f32", "128", "dense", "1", "0", "flash") "]}",
        "{\"tuning\":[" ENTRY("scalar", "f32", "128", "dense", "1", "0",
                              "flash") "," ENTRY("scalar", "f32", "64", "dense", "1", "0", "naive") "]}",
    };
    for (size_t i = 0; i < COUNT_OF(tables); i++) {
        attn_tuning *tuning;
        assert_int_equal(load(tables[i], &tuning, NULL), ATTN_OK);
        attn_problem p;
        set(&p, 100, 64, "dense");
        p.value_dim = 128;
        assert_int_equal(attn_tuning_choose(tuning, &p, "scalar", 1), ATTN_NAIVE);
        set(&p, 100, 128, "dense");
        p.value_dim = 64;
        assert_int_equal(attn_tuning_choose(tuning, &p, "scalar", 1), ATTN_NAIVE);
        p.value_dim = 65; /* not as far from 128 */
        assert_int_equal(attn_tuning_choose(tuning, &p, "scalar", 1), ATTN_FLASH);
        attn_tuning_free(tuning);
    }
}

/* Guards: a plan takes what the table says when it is asked for auto, what it was told otherwise, and never
 * what cannot be computed. */
static void plans_follow(void **state) {
    attn_tuning *tuning;
    assert_int_equal(load(table, &tuning, NULL), ATTN_OK);
    static const struct {
        int64_t n;
        const char *pattern;
        int threads;
        attn_algorithm asked, runs;
    } cases[] = {
        {70, "dense", 0, ATTN_AUTO, ATTN_NAIVE},     {300, "dense", 0, ATTN_AUTO, ATTN_FLASH},
        {70, "dense", 1, ATTN_AUTO, ATTN_NAIVE},     {70, "dense", 2, ATTN_AUTO, ATTN_FLASH},
        {70, "dense", 1, ATTN_FLASH, ATTN_FLASH},    {300, "dense", 1, ATTN_NAIVE, ATTN_NAIVE},
        {70, "window=30", 1, ATTN_AUTO, ATTN_FLASH}, {70, "causal,topk=2", 1, ATTN_AUTO, ATTN_NAIVE},
        {70, "window=6", 1, ATTN_AUTO, ATTN_NAIVE},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        attn_problem p;
        set(&p, cases[i].n, 64, cases[i].pattern);
        const attn_options options = {
            .isa = "scalar", .algorithm = cases[i].asked, .tuning = tuning, .threads = cases[i].threads};
        attn_plan *plan;
        assert_int_equal(attn_plan_create(&p, &options, &plan, NULL), ATTN_OK);
        assert_int_equal(attn_plan_info(plan).algorithm, cases[i].runs);
        attn_plan_destroy(plan);
    }
    attn_tuning_free(tuning);
}

/* Guards: a file that is no table is refused by its name, with the entry and the field that are wrong. */
static void refuses(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "not JSON"},
        {"[1", "not JSON"},
        {"{\"a\":1,\"a\":2}", "not JSON"},
        {"[]", "no tuning table"},
        {"{\"benchmarks\":[]}", "no tuning table"},
        {"{\"tuning\":{}}", "no tuning table"},
        {"{\"tuning\":[1]}", "tuning[0]: isa"},
        {"{\"tuning\":[" ENTRY("scalar", "f32", "64", "dense", "1", "0",
                               "flash") "," ENTRY("scalar", "f64", "64", "dense", "1", "0", "flash") "]}",
         "tuning[1]: dtype"},
        {"{\"tuning\":[" ENTRY("scalar", "f32", "0", "dense", "1", "0", "flash") "]}", "tuning[0]: head_dim"},
        {"{\"tuning\":[{\"isa\":\"scalar\",\"dtype\":\"f32\",\"pattern\":\"dense\",\"algorithm\":\"flash\","
         "\"head_dim\":64,"
         "\"value_dim\":\"64\"}]}",
         "tuning[0]: value_dim"},
        {"{\"tuning\":[" ENTRY("scalar", "f32", "64", "ring", "1", "0", "flash") "]}", "tuning[0]: pattern"},
        {"{\"tuning\":[" ENTRY("scalar", "f32", "64", "window", "1", "0", "flash") "]}",
         "tuning[0]: pattern"},
        {"{\"tuning\":[" ENTRY("scalar", "f32", "64", "blocks=map:8", "1", "0", "flash") "]}",
         "tuning[0]: pattern"},
        {"{\"tuning\":[" ENTRY("scalar", "f32", "64", "dense", "0", "0", "flash") "]}", "tuning[0]: threads"},
        {"{\"tuning\":[" ENTRY("scalar", "f32", "64", "dense", "1", "-1", "flash") "]}", "tuning[0]: from_n"},
        {"{\"tuning\":[" ENTRY("scalar", "f32", "64", "dense", "1", "0.5", "flash") "]}",
         "tuning[0]: from_n"},
        {"{\"tuning\":[{\"isa\":\"scalar\",\"dtype\":\"f32\",\"pattern\":\"dense\",\"algorithm\":\"flash\","
         "\"head_dim\":64,"
         "\"value_dim\":64,\"from_n\":0,\"threads\":1}]}",
         "tuning[0]: to_n"},
        {"{\"tuning\":[" ENTRY("scalar", "f32", "64", "dense", "1", "0", "auto") "]}",
         "tuning[0]: algorithm"},
        {"{\"tuning\":[" ENTRY("a-name-of-sixteen", "f32", "64", "dense", "1", "0", "flash") "]}",
         "tuning[0]: isa"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        attn_tuning *tuning = (attn_tuning *)path;
        attn_error error;
        assert_int_equal(load(cases[i].text, &tuning, &error), ATTN_INVALID);
        assert_null(tuning);
        if (!strstr(error.text, cases[i].says) || !strstr(error.text, path))
            test_fail("%s: %s", cases[i].text, error.text);
    }
    attn_tuning *tuning;
    attn_error error;
    assert_int_equal(attn_tuning_load("/nowhere/t.json", &tuning, &error), ATTN_INVALID);
    assert_non_null(strstr(error.text, "/nowhere/t.json"));
    assert_int_equal(attn_tuning_load(NULL, &tuning, NULL), ATTN_INVALID);
    assert_int_equal(attn_tuning_load(path, NULL, NULL), ATTN_INVALID);
    assert_string_equal(attn_tuning_machine(NULL), "");
    attn_tuning_free(NULL);
}

/* Guards: the entry of a pattern decides for those that the list has beside it and for no other, and so the
 * report's tests, which read the same list, hold the report to what the library does. */
static void patterns_speak_for_their_kind(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum { DENSE, CAUSAL, WINDOW, OTHER } kind;
        int64_t width;
    } patterns[] = {
#define PATTERN(...) {__VA_ARGS__},
#include "tests/tuning_patterns.def"
    };
    for (size_t i = 0; i < COUNT_OF(patterns); i++) {
        char text[512];
        const int length = snprintf(
            text, sizeof text, "{\"tuning\":[" ENTRY("scalar", "f32", "64", "%s", "1", "0", "naive") "]}",
            patterns[i].text);
        assert_in_range(length, 1, sizeof text - 1);
        attn_tuning *tuning;
        assert_int_equal(load(text, &tuning, NULL), ATTN_OK);
        for (size_t k = 0; k < COUNT_OF(patterns); k++) {
            const int64_t a = patterns[i].width, b = patterns[k].width;
            const bool alike = patterns[i].kind == patterns[k].kind && a <= 2 * b && b <= 2 * a &&
                               (patterns[i].kind != OTHER || i == k);
            attn_problem p;
            set(&p, 1000, 64, patterns[k].text);
            const attn_algorithm chosen = attn_tuning_choose(tuning, &p, "scalar", 1);
            if (chosen != (alike ? ATTN_NAIVE : ATTN_AUTO))
                test_fail("of %s, %s takes %s", patterns[i].text, patterns[k].text,
                          attn_algorithm_name(chosen));
        }
        attn_tuning_free(tuning);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chooses, make_file, remove_file),
        cmocka_unit_test_setup_teardown(chooses_the_smaller, make_file, remove_file),
        cmocka_unit_test_setup_teardown(plans_follow, make_file, remove_file),
        cmocka_unit_test_setup_teardown(patterns_speak_for_their_kind, make_file, remove_file),
        cmocka_unit_test_setup_teardown(refuses, make_file, remove_file),
    };
    return test_run("tuning", tests, COUNT_OF(tests));
}
