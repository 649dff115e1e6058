/* Patterns as text: whatever is typed is refused with one line or means one thing, which its canonical form
 * says again. */
#include "tests/fuzz/fuzz.h"

#include "attention/internal.h"

#include <stdlib.h>
#include <string.h>

static void check_equal(const attn_pattern *a, const attn_pattern *b, const char *text) {
    FUZZ_CHECK(a->terms == b->terms && a->prefix == b->prefix && a->chunk == b->chunk &&
                   a->window_left == b->window_left && a->window_right == b->window_right &&
                   a->sink == b->sink && a->global == b->global && a->stride == b->stride &&
                   a->random_count == b->random_count && a->random_block == b->random_block &&
                   a->random_seed == b->random_seed && a->topk == b->topk && a->block_size == b->block_size &&
                   a->block_map == b->block_map && a->block_heads == b->block_heads,
               "%s", text);
}

/* The canonical text; checks that shorter buffers get its beginning, and not a byte more. */
static char *format(const attn_pattern *pattern) {
    const int length = attn_pattern_format(pattern, NULL, 0);
    FUZZ_CHECK(length > 0, "length %d", length);
    const size_t size = (size_t)length + 1;
    char *text = fuzz_alloc(size);
    FUZZ_CHECK(attn_pattern_format(pattern, text, size) == length && strlen(text) == size - 1, "%s", text);
    const size_t sizes[] = {1, 2, size / 2, size - 1};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        if (sizes[k] == 0)
            continue;
        char *part = fuzz_alloc(sizes[k]);
        FUZZ_CHECK(attn_pattern_format(pattern, part, sizes[k]) == length, "%s", text);
        FUZZ_CHECK(strlen(part) == sizes[k] - 1 && strncmp(part, text, sizes[k] - 1) == 0, "'%s' of '%s'",
                   part, text);
        free(part);
    }
    return text;
}

static attn_pattern parse(const char *text) {
    attn_pattern pattern;
    attn_error error;
    FUZZ_CHECK(attn_pattern_parse(text, &pattern, &error) == ATTN_OK, "'%s': %s", text, error.text);
    return pattern;
}

/* The terms in reverse order. */
static char *reversed(const char *text) {
    const size_t length = strlen(text);
    char *other = fuzz_alloc(length + 1);
    size_t used = 0;
    for (size_t end = length;;) {
        size_t start = end;
        while (start > 0 && text[start - 1] != ',')
            start--;
        memcpy(other + used, text + start, end - start);
        used += end - start;
        if (start == 0)
            break;
        other[used++] = ',';
        end = start - 1;
    }
    other[used] = 0;
    return other;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    attn_pattern pattern, before;
    attn_error error;
    memset(&pattern, 0x5a, sizeof pattern);
    memcpy(&before, &pattern, sizeof before);
    const attn_status status = attn_pattern_parse(text, &pattern, &error);
    FUZZ_CHECK(attn_pattern_parse(text, &(attn_pattern){0}, NULL) == status, "%s", text);
    if (status != ATTN_OK) {
        fuzz_check_error(error.text, sizeof error.text);
        FUZZ_CHECK(memcmp(&pattern, &before, sizeof before) == 0, "refused, but changed: %s", text);
        free(text);
        return 0;
    }

    /* No term counts twice, and none is passed over. */
    int terms = 1;
    for (const char *at = text; *at; at++)
        terms += *at == ',';
    FUZZ_CHECK(terms == __builtin_popcount(pattern.terms) || (terms == 1 && pattern.terms == 0),
               "%d terms, 0x%x: %s", terms, pattern.terms, text);

    char *canonical = format(&pattern);
    const attn_pattern again = parse(canonical);
    check_equal(&pattern, &again, canonical);
    char *turned = reversed(text);
    const attn_pattern other = parse(turned);
    check_equal(&pattern, &other, turned);
    char *twice = format(&again);
    FUZZ_CHECK(strcmp(canonical, twice) == 0, "'%s' and '%s'", canonical, twice);
    /* As an id it has no space, and what can be typed can be planned. */
    FUZZ_CHECK(canonical[strcspn(canonical, " \t\n")] == 0, "'%s'", canonical);
    attn_problem problem;
    attn_problem_init(&problem, 1, 1, 1, 4, 4, 1, 1);
    problem.pattern = pattern;
    FUZZ_CHECK(attn_problem_check(&problem, &error) == ATTN_OK, "'%s': %s", canonical, error.text);

    free(twice);
    free(turned);
    free(canonical);
    free(text);
    return 0;
}
