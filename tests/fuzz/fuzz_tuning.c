/* Tuning tables: a file that another program may have written. */
#include "tests/fuzz/fuzz.h"

#include "attnscope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Written anew for each input: the library takes the name of a file. */
static const char *store(const uint8_t *data, size_t size) {
    static char path[64];
    static FILE *file;
    if (!file) {
        strcpy(path, "/tmp/attnscope-fuzz-XXXXXX");
        const int number = mkstemp(path);
        file = number < 0 ? NULL : fdopen(number, "w+");
        FUZZ_CHECK(file, "no file %s", path);
    }
    rewind(file);
    FUZZ_CHECK(ftruncate(fileno(file), 0) == 0 && fwrite(data, 1, size, file) == size && fflush(file) == 0,
               "cannot write %s", path);
    return path;
}

static void forget(void) {
    unlink(store((const uint8_t *)"", 0));
}

/* What a table says must be something that can be asked for, whatever the problem, and always the same. */
static void check_choices(const attn_tuning *tuning) {
    static const char *const patterns[] = {"dense", "causal", "window=64", "causal,window=3,sink=1",
                                           "prefix=2,causal"};
    static const int64_t lengths[] = {0, 1, 100, 4096, INT64_C(1) << 40};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
            attn_problem problem;
            attn_problem_init(&problem, 1, 1, 1, lengths[k], lengths[k], 64, 64);
            FUZZ_CHECK(attn_pattern_parse(patterns[i], &problem.pattern, NULL) == ATTN_OK, "%s", patterns[i]);
            const attn_algorithm chosen = attn_tuning_choose(tuning, &problem, "avx2", 1);
            FUZZ_CHECK(chosen == ATTN_AUTO || chosen == ATTN_NAIVE || chosen == ATTN_FLASH, "%d",
                       (int)chosen);
            FUZZ_CHECK(chosen == attn_tuning_choose(tuning, &problem, "avx2", 1), "%s", patterns[i]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool registered;
    if (!registered)
        registered = atexit(forget) == 0;
    const char *path = store(data, size);
    attn_tuning *tuning = (attn_tuning *)&registered; /* must be set, either way */
    attn_error error = {""};
    const attn_status status = attn_tuning_load(path, &tuning, &error);
    if (status == ATTN_OK) {
        FUZZ_CHECK(strnlen(attn_tuning_machine(tuning), 64) < 64, "a fingerprint without an end");
        check_choices(tuning);
        attn_tuning_free(tuning);
    } else {
        FUZZ_CHECK(status == ATTN_INVALID && !tuning, "status %d", (int)status);
        fuzz_check_error(error.text, sizeof error.text);
    }
    return 0;
}
