/* Values of options that more than one place reads: lengths and times. */
#include "bench/bench.h"
#include "common/cli.h"

#include <stdio.h>
#include <string.h>

static bool parse_range(const char *text, bench_numbers *sizes) {
    char first[24];
    const char *colon = strchr(text, ':');
    if ((size_t)(colon - text) >= sizeof first)
        return false;
    snprintf(first, sizeof first, "%.*s", (int)(colon - text), text);
    int64_t low, high;
    if (!cli_parse_int(first, 1, BENCH_MAX_N, &low) || !cli_parse_int(colon + 1, low, BENCH_MAX_N, &high))
        return false;
    for (int64_t n = 1; n <= high; n *= 2) {
        if (n >= low)
            sizes->item[sizes->count++] = n;
    }
    return sizes->count > 0;
}

static bool parse_list(const char *text, bench_numbers *sizes) {
    for (;;) {
        const size_t length = strcspn(text, ",");
        char item[24];
        if (length >= sizeof item || sizes->count == BENCH_MAX_SIZES)
            return false;
        snprintf(item, sizeof item, "%.*s", (int)length, text);
        if (!cli_parse_int(item, 1, BENCH_MAX_N, &sizes->item[sizes->count++]))
            return false;
        if (!text[length])
            return true;
        text += length + 1;
    }
}

bool bench_parse_sizes(const char *option, const char *text, bench_numbers *sizes) {
    bench_numbers parsed = {.count = 0};
    if (!(strchr(text, ':') ? parse_range(text, &parsed) : parse_list(text, &parsed))) {
        cli_error("--%s '%s': expected a list A,B,C of lengths from 1 to %d, or A:B for the powers of two "
                  "from A to B",
                  option, text, BENCH_MAX_N);
        return false;
    }
    *sizes = parsed;
    return true;
}

bool bench_parse_time(const char *option, const char *text, double *seconds, int64_t *calls) {
    char number[32];
    const size_t length = strlen(text);
    const char last = length > 0 ? text[length - 1] : 0;
    const bool suffix = last == 's' || (last == 'x' && calls);
    double value = 0;
    int64_t count;
    const bool fits = length - suffix < sizeof number;
    if (fits)
        snprintf(number, sizeof number, "%.*s", (int)(length - suffix), text);
    if (fits && last == 'x' && calls && cli_parse_int(number, 1, 1000000000, &count)) {
        *calls = count;
        return true;
    }
    if (fits && last != 'x' && cli_parse_float(number, &value) && value >= 0 && value <= 1e6) {
        *seconds = value;
        return true;
    }
    cli_error("--%s '%s': expected seconds from 0 to 1000000%s", option, text,
              calls ? ", as in 0.1 or 0.1s, or a number of calls, as in 100x" : "");
    return false;
}
