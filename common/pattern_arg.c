/* Patterns as the command line takes them: the library's text form, and block maps from files. */
#include "common/cli.h"
#include "common/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the term that begins at `term` ends: at the next comma. A file's name may hold commas and
 * colons, so a `blocks=` term ends after the first ":DIGITS" that a comma or the end follows. */
static const char *term_end(const char *term) {
    const char *end = term + strcspn(term, ",");
    if (strncmp(term, "blocks=", 7) != 0)
        return end;
    for (const char *colon = strchr(term, ':'); colon; colon = strchr(colon + 1, ':')) {
        size_t digits = strspn(colon + 1, "0123456789");
        if (digits && (colon[1 + digits] == ',' || colon[1 + digits] == 0))
            return colon + 1 + digits;
    }
    return end;
}

/* Splits `blocks=FILE:B`. */
static bool parse_blocks_term(const char *term, size_t length, cli_pattern *out) {
    char *text = strndup(term, length);
    char *colon = text ? strrchr(text, ':') : NULL;
    if (!colon || colon == text + 7 ||
        !cli_parse_int(colon + 1, 1, ATTN_MAX_NUMBER, &out->pattern.block_size)) {
        cli_error("pattern term '%.*s': expected blocks=FILE:B with the name of a .npy file and a block size "
                  "of 1 to 2^60",
                  (int)length, term);
        free(text);
        return false;
    }
    *colon = 0;
    out->block_file = strdup(text + 7);
    free(text);
    return out->block_file != NULL;
}

static bool load_map(cli_pattern *out, int64_t heads, int64_t queries, int64_t keys) {
    npy_array array;
    if (!npy_read(out->block_file, &array))
        return false;
    int64_t rows = cli_ceil_div(queries, out->pattern.block_size),
            columns = cli_ceil_div(keys, out->pattern.block_size);
    npy_header header = array.header;
    uint8_t *map = npy_take_booleans(&array, "pattern blocks");
    if (!map)
        return false;
    const int64_t *shape = header.shape;
    bool fits =
        (header.rank == 2 && shape[0] == rows && shape[1] == columns) ||
        (header.rank == 3 && (shape[0] == 1 || shape[0] == heads) && shape[1] == rows && shape[2] == columns);
    if (!fits) {
        char text[NPY_SHAPE_TEXT];
        cli_error(
            "block map %s: shape %s; expected (%lld, %lld), or (%lld, %lld, %lld) with one map per head, "
            "for %lld queries and %lld keys in blocks of %lld",
            out->block_file, npy_shape_text(header.rank, shape, text, sizeof text), (long long)rows,
            (long long)columns, (long long)heads, (long long)rows, (long long)columns, (long long)queries,
            (long long)keys, (long long)out->pattern.block_size);
        free(map);
        return false;
    }
    out->block_map = map;
    out->pattern.block_map = map;
    out->pattern.block_heads = header.rank == 3 ? shape[0] : 1;
    return true;
}

/* The terms but `blocks` into `rest`, which is as long as `text`; the number of them, or -1. */
static int split_terms(const char *text, char *rest, cli_pattern *out) {
    int count = 0;
    size_t used = 0;
    for (const char *term = text;; term++) {
        const char *end = term_end(term);
        size_t length = (size_t)(end - term);
        if (strncmp(term, "blocks=", 7) == 0) {
            if (out->block_file) {
                cli_error("pattern '%s': blocks is given twice", text);
                return -1;
            }
            if (!parse_blocks_term(term, length, out))
                return -1;
        } else {
            if (count++ > 0)
                rest[used++] = ',';
            memcpy(rest + used, term, length);
            used += length;
        }
        if (*end == 0)
            break;
        term = end;
    }
    rest[used] = 0;
    return count;
}

bool cli_pattern_file(const char *text, char **file) {
    cli_pattern terms = {0};
    char *rest = cli_alloc("the pattern", (int64_t)strlen(text) + 1, 1);
    const bool split = rest && split_terms(text, rest, &terms) >= 0;
    free(rest);
    if (!split)
        cli_pattern_free(&terms);
    *file = terms.block_file;
    return split;
}

bool cli_pattern_parse(const char *text, int64_t heads, int64_t queries, int64_t keys, cli_pattern *out) {
    memset(out, 0, sizeof *out);
    char *rest = cli_alloc("the pattern", (int64_t)strlen(text) + 1, 1);
    if (!rest)
        return false;
    int others = split_terms(text, rest, out);
    bool parsed = others >= 0;
    if (parsed && others > 0) {
        attn_pattern terms;
        attn_error error;
        parsed = attn_pattern_parse(rest, &terms, &error) == ATTN_OK;
        if (!parsed) {
            cli_error("%s", error.text); /* names the term */
        } else if (out->block_file && terms.terms == 0) {
            parsed = false;
            cli_error("--pattern '%s': dense stands alone", text);
        } else {
            terms.block_size = out->pattern.block_size;
            out->pattern = terms;
        }
    }
    free(rest);
    if (parsed && out->block_file) {
        out->pattern.terms |= ATTN_BLOCKS;
        parsed = load_map(out, heads, queries, keys);
    }
    if (!parsed)
        cli_pattern_free(out);
    return parsed;
}

char *cli_pattern_format(const cli_pattern *pattern) {
    int length = attn_pattern_format(&pattern->pattern, NULL, 0);
    char *canonical = malloc((size_t)length + 1);
    if (!canonical)
        return NULL;
    attn_pattern_format(&pattern->pattern, canonical, (size_t)length + 1);
    char *map = pattern->block_file ? strstr(canonical, "blocks=map:") : NULL;
    if (!map)
        return canonical;
    size_t size = (size_t)length + strlen(pattern->block_file) + 1;
    char *named = malloc(size);
    if (named)
        snprintf(named, size, "%.*s%s%s", (int)(map + 7 - canonical), canonical, pattern->block_file,
                 map + 10);
    free(canonical);
    return named;
}

void cli_pattern_note(const cli_pattern *pattern, int64_t useful, int64_t executed, int64_t dense) {
    if (pattern->pattern.terms & ATTN_STRIDE && executed > useful)
        printf(
            "note: stride is not gathered: whole tiles are computed, %lld pairs for %lld attended, of %lld\n",
            (long long)executed, (long long)useful, (long long)dense);
}

void cli_pattern_free(cli_pattern *pattern) {
    free(pattern->block_map);
    free(pattern->block_file);
    memset(pattern, 0, sizeof *pattern);
}
