/* Patterns as the command line takes them, with blocks=FILE:B. What is typed never names a file that is
 * opened: the argument's own text is compiled here over a reader that makes maps up.
 *
 *     HEADS QUERIES KEYS TYPE SIZE SIZE SIZE     the problem; the map's element type and shape (-1: none)
 *     causal,blocks=FILE:B                       the argument
 */
#define npy_read fuzz_npy_read
#include "common/pattern_arg.c"
#undef npy_read

#include "tests/fuzz/fuzz.h"
#include "attention/internal.h"

/* The file that every name leads to: no file without a type or a name. */
static npy_header made_up;
static int times_read;

bool fuzz_npy_read(const char *path, npy_array *array) {
    FUZZ_CHECK(*path, "an empty name is opened");
    times_read++;
    if (!made_up.kind) {
        cli_error("%s: No such file", path);
        return false;
    }
    array->header = made_up;
    array->data = fuzz_alloc((size_t)(made_up.count * made_up.item_bytes));
    for (int64_t i = 0; i < made_up.count * made_up.item_bytes; i++)
        ((uint8_t *)array->data)[i] = (uint8_t)(i % 3 * 127); /* also values that are neither 0 nor 1 */
    return true;
}

/* The next number of the first line, clipped; `fallback` where there is none. */
static int64_t number(const char **at, int64_t least, int64_t most, int64_t fallback) {
    char *end;
    const long long value = strtoll(*at, &end, 10);
    if (end == *at)
        return fallback;
    *at = end;
    return value < least ? least : value > most ? most : value;
}

static void read_shapes(const char *line, int64_t shape[3]) {
    for (int i = 0; i < 3; i++)
        shape[i] = number(&line, i == 0, 64, 4);
    line += strspn(line, " ");
    memset(&made_up, 0, sizeof made_up);
    if (*line && strchr("biuf", *line)) {
        made_up.kind = *line++;
        made_up.item_bytes = made_up.kind == 'b' ? 1 : 4;
    }
    made_up.count = 1;
    while (made_up.rank < 3) {
        const int64_t size = number(&line, -1, 64, -1);
        if (size < 0)
            break;
        made_up.shape[made_up.rank++] = size;
        made_up.count *= size;
    }
}

/* Whether the made-up map is one for blocks of this size. */
static bool map_fits(const int64_t shape[3], int64_t block) {
    const int64_t *given = made_up.shape + (made_up.rank == 3);
    return made_up.kind == 'b' && (made_up.rank == 2 || made_up.rank == 3) &&
           given[0] == (shape[1] + block - 1) / block && given[1] == (shape[2] + block - 1) / block &&
           (made_up.rank == 2 || made_up.shape[0] == 1 || made_up.shape[0] == shape[0]);
}

static void check_accepted(const cli_pattern *pattern, const int64_t shape[3], const char *text) {
    const attn_pattern *p = &pattern->pattern;
    const bool blocks = p->terms & ATTN_BLOCKS;
    FUZZ_CHECK(blocks == !!pattern->block_file && blocks == !!pattern->block_map && blocks == times_read,
               "'%s' reads %d files", text, times_read);
    if (blocks) {
        FUZZ_CHECK(p->block_map == pattern->block_map && p->block_size >= 1 && map_fits(shape, p->block_size),
                   "'%s'", text);
        FUZZ_CHECK(p->block_heads == (made_up.rank == 3 ? made_up.shape[0] : 1), "'%s'", text);
    }
    attn_error error;
    attn_problem problem;
    attn_problem_init(&problem, 1, shape[0], 1, shape[1], shape[2], 1, 1);
    problem.pattern = *p;
    FUZZ_CHECK(attn_problem_check(&problem, &error) == ATTN_OK, "'%s': %s", text, error.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *line = fuzz_text(data, size);
    char *newline = strchr(line, '\n');
    char *text = fuzz_text((uint8_t *)(newline ? newline + 1 : ""), newline ? strlen(newline + 1) : 0);
    if (newline)
        *newline = 0;
    int64_t shape[3];
    read_shapes(line, shape);

    cli_pattern pattern;
    times_read = 0;
    fuzz_listen();
    const bool accepted = cli_pattern_parse(text, shape[0], shape[1], shape[2], &pattern);
    FUZZ_CHECK(fuzz_listened(!accepted) == !accepted, "'%s'", text);
    FUZZ_CHECK(times_read <= 1, "'%s' reads %d files", text, times_read);
    if (accepted) {
        check_accepted(&pattern, shape, text);
        char *canonical = cli_pattern_format(&pattern);
        cli_pattern again;
        times_read = 0;
        fuzz_listen();
        const bool read = cli_pattern_parse(canonical, shape[0], shape[1], shape[2], &again);
        FUZZ_CHECK(fuzz_listened(0) == 0 && read, "'%s' of '%s'", canonical, text);
        check_accepted(&again, shape, canonical);
        char *twice = cli_pattern_format(&again);
        FUZZ_CHECK(strcmp(canonical, twice) == 0, "'%s', '%s'", canonical, twice);
        FUZZ_CHECK(!pattern.block_file || strcmp(pattern.block_file, again.block_file) == 0, "'%s' of '%s'",
                   canonical, text);
        free(twice);
        free(canonical);
        cli_pattern_free(&again);
        cli_pattern_free(&pattern);
    }
    FUZZ_CHECK(!pattern.block_map && !pattern.block_file && !pattern.pattern.terms, "'%s'", text);
    free(text);
    free(line);
    return 0;
}
