/* The text form of patterns: terms joined by commas. */
#include "attention/internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char accepted[] = "dense, causal, causal-top-left, prefix=P, chunk=C, window=W, window=L:R, "
                               "sink=S, global=G, stride=T, random=R:B:SEED, blocks=FILE:B, topk=K";

/* Reads a decimal number at *text up to `stop` (or the end), moves *text past it. No sign, no space: what a
 * user mistypes must not be read as something else. */
static bool read_number(const char **text, char stop, uint64_t most, uint64_t *value) {
    const char *at = *text;
    uint64_t number = 0;
    if (!isdigit((unsigned char)*at))
        return false;
    for (; isdigit((unsigned char)*at); at++) {
        const unsigned digit = (unsigned)(*at - '0');
        if (number > (most - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (*at != stop)
        return false;
    *text = at + (stop != 0);
    *value = number;
    return true;
}

static bool read_count(const char **text, char stop, int64_t least, int64_t *value) {
    uint64_t number;
    if (!read_number(text, stop, (uint64_t)ATTN_MAX_NUMBER, &number) || (int64_t)number < least)
        return false;
    *value = (int64_t)number;
    return true;
}

static bool read_side(const char **text, char stop, int64_t *value) {
    if (!strncmp(*text, "inf", 3) && (*text)[3] == stop) {
        *text += 3 + (stop != 0);
        *value = ATTN_WINDOW_INF;
        return true;
    }
    return read_count(text, stop, 0, value);
}

static bool read_window(const char *text, attn_pattern *pattern) {
    if (strchr(text, ':'))
        return read_side(&text, ':', &pattern->window_left) && read_side(&text, 0, &pattern->window_right);
    int64_t width;
    if (!read_count(&text, 0, 1, &width))
        return false;
    pattern->window_left = width - 1;
    pattern->window_right = 0;
    return true;
}

static bool read_random(const char *text, attn_pattern *pattern) {
    return read_count(&text, ':', 1, &pattern->random_count) &&
           read_count(&text, ':', 1, &pattern->random_block) &&
           read_number(&text, 0, UINT64_MAX, &pattern->random_seed);
}

/* One term `name` or `name=value`; value is NULL without '='. */
static attn_status read_term(const char *name, const char *value, attn_pattern *pattern, attn_error *error) {
    const struct {
        const char *name;
        uint32_t term;
        int64_t *count; /* where one number >= 1 goes; NULL for none */
        const char *takes;
    } terms[] = {
        {"causal", ATTN_CAUSAL, NULL, NULL},
        {"causal-top-left", ATTN_CAUSAL_TOP_LEFT, NULL, NULL},
        {"prefix", ATTN_PREFIX, &pattern->prefix, "prefix=P with P 1 to 2^60"},
        {"chunk", ATTN_CHUNK, &pattern->chunk, "chunk=C with C 1 to 2^60"},
        {"window", ATTN_WINDOW, NULL,
         "window=W with W 1 to 2^60, or window=L:R with L and R 0 to 2^60 or inf"},
        {"sink", ATTN_SINK, &pattern->sink, "sink=S with S 1 to 2^60"},
        {"global", ATTN_GLOBAL, &pattern->global, "global=G with G 1 to 2^60"},
        {"stride", ATTN_STRIDE, &pattern->stride, "stride=T with T 1 to 2^60"},
        {"random", ATTN_RANDOM, NULL, "random=R:B:SEED with R and B 1 to 2^60, SEED 0 to 2^64-1"},
        {"topk", ATTN_TOPK, &pattern->topk, "topk=K with K 1 to 2^60"},
    };
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        if (strcmp(name, terms[i].name))
            continue;
        if (pattern->terms & terms[i].term)
            return attn_fail(error, ATTN_INVALID, "pattern: term '%s' is given twice", name);
        bool good;
        if (!terms[i].takes) {
            if (value)
                return attn_fail(error, ATTN_INVALID, "pattern: term '%s' takes no value, got '%s'", name,
                                 value);
            good = true;
        } else if (!value) {
            good = false;
        } else if (terms[i].term == ATTN_WINDOW) {
            good = read_window(value, pattern);
        } else if (terms[i].term == ATTN_RANDOM) {
            good = read_random(value, pattern);
        } else {
            const char *at = value; /* moves; `value` is still to be named */
            good = read_count(&at, 0, 1, terms[i].count);
        }
        if (!good)
            return attn_fail(error, ATTN_INVALID, "pattern: term '%s%s%.60s' is wrong; accepted: %s", name,
                             value ? "=" : "", value ? value : "", terms[i].takes);
        pattern->terms |= terms[i].term;
        return ATTN_OK;
    }
    if (!strcmp(name, "blocks"))
        return attn_fail(error, ATTN_UNSUPPORTED,
                         "pattern: blocks=FILE:B needs a caller that reads the file; set block_map instead");
    if (!strcmp(name, "dense"))
        return attn_fail(error, ATTN_INVALID, "pattern: 'dense' stands alone, without value or other terms");
    return attn_fail(error, ATTN_INVALID, "pattern: unknown term '%.40s'; accepted: %s", name, accepted);
}

attn_status attn_pattern_check_terms(const attn_pattern *pattern, attn_error *error) {
    if ((pattern->terms & ATTN_PREFIX) && !(pattern->terms & (ATTN_CAUSAL | ATTN_CAUSAL_TOP_LEFT)))
        return attn_fail(error, ATTN_INVALID, "pattern: prefix=%" PRId64 " needs causal or causal-top-left",
                         pattern->prefix);
    return ATTN_OK;
}

attn_status attn_pattern_parse(const char *text, attn_pattern *pattern, attn_error *error) {
    attn_pattern parsed = {0};
    char term[128];
    if (!text || !pattern)
        return attn_fail(error, ATTN_INVALID, "%s is NULL", text ? "pattern" : "text");
    if (!strcmp(text, "dense")) {
        *pattern = parsed;
        return ATTN_OK;
    }
    for (const char *at = text;;) {
        const size_t length = strcspn(at, ",");
        if (length == 0)
            return attn_fail(error, ATTN_INVALID, "pattern: empty term in '%.80s'; accepted: %s", text,
                             accepted);
        if (length >= sizeof term)
            return attn_fail(error, ATTN_INVALID, "pattern: unknown term '%.40s...'; accepted: %s", at,
                             accepted);
        memcpy(term, at, length);
        term[length] = 0;
        char *equals = strchr(term, '=');
        if (equals)
            *equals = 0;
        const attn_status status = read_term(term, equals ? equals + 1 : NULL, &parsed, error);
        if (status != ATTN_OK)
            return status;
        if (!at[length])
            break;
        at += length + 1;
    }
    const attn_status status = attn_pattern_check_terms(&parsed, error);
    if (status == ATTN_OK)
        *pattern = parsed;
    return status;
}

/* An snprintf that appends at *length. */
static void append(char *text, size_t size, int *length, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void append(char *text, size_t size, int *length, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const size_t used = (size_t)*length < size ? (size_t)*length : size;
    *length += vsnprintf(text ? text + used : NULL, size - used, format, args);
    va_end(args);
}

static const char *side_text(int64_t side, char *buffer, size_t size) {
    if (side == ATTN_WINDOW_INF)
        return "inf";
    snprintf(buffer, size, "%" PRId64, side);
    return buffer;
}

int attn_pattern_format(const attn_pattern *p, char *text, size_t size) {
    int length = 0;
    char left[24], right[24];
    if (!text)
        size = 0;
    if (size > 0)
        text[0] = 0;
    if (!p)
        return 0;
#define TERM(bit, ...)                                                                                       \
    if (p->terms & (bit)) {                                                                                  \
        if (length > 0)                                                                                      \
            append(text, size, &length, ",");                                                                \
        append(text, size, &length, __VA_ARGS__);                                                            \
    }
    if (!p->terms)
        append(text, size, &length, "dense");
    TERM(ATTN_CAUSAL, "causal")
    TERM(ATTN_CAUSAL_TOP_LEFT, "causal-top-left")
    TERM(ATTN_PREFIX, "prefix=%" PRId64, p->prefix)
    TERM(ATTN_CHUNK, "chunk=%" PRId64, p->chunk)
    /* The shorter form, unless its number passes the greatest that is parsed. */
    if (p->window_right == 0 && p->window_left < ATTN_MAX_NUMBER) {
        TERM(ATTN_WINDOW, "window=%" PRId64, p->window_left + 1)
    } else {
        TERM(ATTN_WINDOW, "window=%s:%s", side_text(p->window_left, left, sizeof left),
             side_text(p->window_right, right, sizeof right))
    }
    TERM(ATTN_SINK, "sink=%" PRId64, p->sink)
    TERM(ATTN_GLOBAL, "global=%" PRId64, p->global)
    TERM(ATTN_STRIDE, "stride=%" PRId64, p->stride)
    TERM(ATTN_RANDOM, "random=%" PRId64 ":%" PRId64 ":%" PRIu64, p->random_count, p->random_block,
         p->random_seed)
    TERM(ATTN_BLOCKS, "blocks=map:%" PRId64, p->block_size)
    TERM(ATTN_TOPK, "topk=%" PRId64, p->topk)
#undef TERM
    return length;
}
