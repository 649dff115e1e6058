/* Lists of lengths and times, as `attnscope bench` takes them. */
#include "tests/fuzz/fuzz.h"

#include "bench/bench.h"
#include "common/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The lengths as a list, which must be read as the same lengths. */
static void check_list(const bench_numbers *sizes, const char *text) {
    char *list = fuzz_alloc((size_t)sizes->count * 24 + 1);
    size_t used = 0;
    for (int i = 0; i < sizes->count; i++)
        used += (size_t)snprintf(list + used, 24, "%s%lld", i ? "," : "", (long long)sizes->item[i]);
    bench_numbers again = {.count = 0};
    FUZZ_CHECK(bench_parse_sizes("n", list, &again), "'%s' gave '%s'", text, list);
    FUZZ_CHECK(again.count == sizes->count &&
                   memcmp(again.item, sizes->item, (size_t)sizes->count * sizeof *sizes->item) == 0,
               "'%s' gave '%s'", text, list);
    free(list);
}

/* 2^(k/P), to the nearest multiple of 8 from 32 on, else to the nearest whole number. */
static void check_steps(const char *text, long long low, long long high, long long parts,
                        const bench_numbers *sizes) {
    int found = 0;
    int64_t last = 0;
    for (long long k = 0; k <= 24 * parts; k++) {
        const double exact = exp2((double)k / (double)parts);
        const int64_t n = exact < 32 ? llround(exact) : 8 * llround(exact / 8);
        if (n < low || n > high || n <= last)
            continue;
        last = n;
        FUZZ_CHECK(found < sizes->count && sizes->item[found] == n, "--n '%s' lacks %lld", text,
                   (long long)n);
        found++;
    }
    FUZZ_CHECK(found == sizes->count, "--n '%s': %d of %d lengths are steps", text, found, sizes->count);
}

static void check_sizes(const char *text) {
    bench_numbers sizes = {.count = -1};
    fuzz_listen();
    const bool accepted = bench_parse_sizes("n", text, &sizes);
    FUZZ_CHECK(fuzz_listened(!accepted) == !accepted, "--n '%s'", text);
    if (!accepted) {
        FUZZ_CHECK(sizes.count == -1, "refused, but changed: --n '%s'", text);
        return;
    }
    FUZZ_CHECK(sizes.count >= 1 && sizes.count <= BENCH_MAX_SIZES, "--n '%s': %d lengths", text, sizes.count);
    const char *colon = strchr(text, ':');
    const long long low = strtoll(text, NULL, 10), high = colon ? strtoll(colon + 1, NULL, 10) : 0;
    for (int i = 0; i < sizes.count; i++) {
        const int64_t n = sizes.item[i];
        FUZZ_CHECK(n >= 1 && n <= BENCH_MAX_N, "--n '%s' gives %lld", text, (long long)n);
        if (colon)
            FUZZ_CHECK(n >= low && n <= high && (i == 0 || n > sizes.item[i - 1]), "--n '%s' gives %lld",
                       text, (long long)n);
    }
    if (colon) /* all steps there are, and nothing else: each is found in its turn */
        check_steps(text, low, high, strchr(colon, '/') ? strtoll(strchr(colon, '/') + 1, NULL, 10) : 1,
                    &sizes);
    if (!colon) {
        const char *at = text;
        for (int i = 0; i < sizes.count; i++) {
            char *end;
            FUZZ_CHECK(strtoll(at, &end, 10) == sizes.item[i] && *end == (i + 1 < sizes.count ? ',' : 0),
                       "--n '%s' at %d", text, i);
            at = end + 1;
        }
    }
    check_list(&sizes, text);
}

static void check_time(const char *text) {
    double seconds = -1;
    int64_t calls = -1;
    fuzz_listen();
    const bool accepted = bench_parse_time("budget", text, &seconds, &calls);
    FUZZ_CHECK(fuzz_listened(!accepted) == !accepted, "--budget '%s'", text);
    FUZZ_CHECK((seconds >= 0) + (calls >= 1) == accepted, "--budget '%s': %g s, %lld calls", text, seconds,
               (long long)calls);
    FUZZ_CHECK(seconds <= 1e6, "--budget '%s' gives %g s", text, seconds);

    /* The same without calls: a time stays what it is, a number of calls is refused. */
    double alone = -1;
    fuzz_listen();
    const bool time = bench_parse_time("budget", text, &alone, NULL);
    FUZZ_CHECK(fuzz_listened(!time) == !time, "--budget '%s'", text);
    FUZZ_CHECK(time == (seconds >= 0) && (!time || alone == seconds), "--budget '%s': %g s, %g s", text,
               seconds, alone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    check_sizes(text);
    check_time(text);
    free(text);
    return 0;
}
