/* Values of options that more than one place reads: lengths and times. */
#include "bench/bench.h"
#include "common/cli.h"

#include <stdio.h>
#include <string.h>

/* Of the text up to `end`, which may be NULL for all of it. */
static bool parse_part(const char *text, const char *end, int64_t min, int64_t max, int64_t *value) {
    char part[24];
    const size_t length = end ? (size_t)(end - text) : strlen(text);
    if (length >= sizeof part)
        return false;
    snprintf(part, sizeof part, "%.*s", (int)length, text);
    return cli_parse_int(part, min, max, value);
}

/* "A:B" or "A:B/P". */
static bool parse_range(const char *text, bench_numbers *sizes) {
    const char *colon = strchr(text, ':'), *slash = strchr(colon, '/');
    int64_t low, high, parts = 1;
    return parse_part(text, colon, 1, BENCH_MAX_N, &low) &&
           parse_part(colon + 1, slash, low, BENCH_MAX_N, &high) &&
           (!slash || parse_part(slash + 1, NULL, 1, BENCH_MAX_PARTS, &parts)) &&
           bench_add_steps(low, high, (int)parts, sizes);
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
        cli_error(
            "--%s '%s': expected a list A,B,C of lengths from 1 to %d, A:B for the powers of two from A to "
            "B, or A:B/P for P steps an octave, up to %d",
            option, text, BENCH_MAX_N, BENCH_MAX_PARTS);
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
