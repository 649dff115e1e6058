/* Numbers on the command line: exactly those of a grammar that is written down a second time here are
 * accepted, with their value. */
#include "tests/fuzz/fuzz.h"

#include "common/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) {
    return '0' <= c && c <= '9';
}

/* -?[0-9]+ within 63 bits and a sign. */
static bool integer(const char *text, int64_t *value) {
    const bool negative = *text == '-';
    text += negative;
    if (!*text)
        return false;
    fuzz_wide number = 0;
    for (; *text; text++) {
        if (!is_digit(*text))
            return false;
        number = number * 10 + (*text - '0');
        if (number > (fuzz_wide)INT64_MAX + 1)
            number = (fuzz_wide)INT64_MAX + 2; /* too large either way, and stays so */
    }
    if (negative)
        number = -number;
    *value = (int64_t)number;
    return number >= INT64_MIN && number <= INT64_MAX;
}

/* -?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)? */
static bool decimal(const char *text) {
    text += *text == '-';
    int digits = 0;
    for (; is_digit(*text); text++)
        digits++;
    if (*text == '.')
        for (text++; is_digit(*text); text++)
            digits++;
    if (digits == 0)
        return false;
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '+' || *text == '-';
        if (!is_digit(*text))
            return false;
        while (is_digit(*text))
            text++;
    }
    return *text == 0;
}

static void check_integer(const char *text, int64_t min, int64_t max) {
    int64_t expected = 0, value = 42;
    const bool accepted = integer(text, &expected) && expected >= min && expected <= max;
    FUZZ_CHECK(cli_parse_int(text, min, max, &value) == accepted, "'%s' in %lld..%lld", text, (long long)min,
               (long long)max);
    FUZZ_CHECK(value == (accepted ? expected : 42), "'%s' gives %lld", text, (long long)value);
    fuzz_listen();
    const bool again = cli_int_option("heads", text, min, max, &value);
    FUZZ_CHECK(fuzz_listened(!accepted) == !accepted && again == accepted, "--heads '%s'", text);
}

static void check_decimal(const char *text) {
    double value = 42;
    const bool grammar = decimal(text);
    const double number = grammar ? strtod(text, NULL) : 0;
    const bool accepted = grammar && isfinite(number);
    FUZZ_CHECK(cli_parse_float(text, &value) == accepted, "'%s'", text);
    FUZZ_CHECK(value == (accepted ? number : 42), "'%s' gives %g", text, value);
    float narrow = 42;
    /* What is not 0 must not become 0 either. */
    const bool fits = accepted && isfinite((float)number) && (number == 0) == ((float)number == 0);
    fuzz_listen();
    const bool again = cli_float_option("scale", text, &narrow);
    FUZZ_CHECK(fuzz_listened(!fits) == !fits && again == fits, "--scale '%s'", text);
    FUZZ_CHECK(narrow == (fits ? (float)number : 42), "--scale '%s' gives %g", text, (double)narrow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    check_integer(text, 1, 1024);
    check_integer(text, 0, INT64_MAX);
    check_integer(text, INT64_MIN, INT64_MAX);
    check_decimal(text);
    free(text);
    return 0;
}
