/* The parts of `attnscope show`: what was asked for, what it looks at, the two ways of drawing it. */
#ifndef ATTN_CLI_SHOW_H
#define ATTN_CLI_SHOW_H

#include "attention/plan.h"
#include "common/cli.h"
#include "cli/inputs.h"
#include "common/output.h"

typedef struct show_options {
    const char *pattern, *isa, *svg;
    const char *inputs[INPUT_COUNT]; /* mask, bias and segments may be given */
    attn_algorithm algorithm;
    bool algorithm_given, pairs, tiles, q_offset_given, kv_len_given;
    int64_t n, queries, keys, heads, head; /* queries, keys: -1 until given, then n */
    int64_t q_offset, kv_len;
} show_options;

/* A problem of one batch, its plan, and the look at one of its heads. */
typedef struct show_subject {
    const show_options *options;
    cli_pattern pattern;
    char *pattern_text;
    cli_inputs inputs;
    attn_problem problem;
    attn_tensors tensors;
    attn_plan *plan;
    attn_info info;
    attn_look *look;
    int64_t tile_rows, tile_columns; /* of the whole problem */
    attn_counts head, all;           /* of the head drawn, of all heads */
    char not_drawn[160];             /* why nothing is, and the counts are the plan's; else empty */
} show_subject;

/* Percent of `whole` with as many decimals, one at least, as tell it apart from none and from all by two
 * digits, into `text`; returns it. */
enum { SHOW_PERCENT_TEXT = 32 };
const char *show_percent(int64_t part, int64_t whole, char text[SHOW_PERCENT_TEXT]);

/* How many of `tiles` one cell stands for each way, so that there are at most `most` cells. */
static inline int64_t show_scale(int64_t tiles, int64_t most) {
    return tiles > most ? cli_ceil_div(tiles, most) : 1;
}

/* Kinds of cells of up to `rows` x `columns` tiles, for the row of cells that begins at tile row `row`: that
 * of their tiles, partial where those differ. `kinds` holds subject->tile_columns entries, `cells` one for
 * each cell. */
void show_cells(const show_subject *subject, int64_t row, int64_t rows, int64_t columns,
                attn_tile_kind *kinds, attn_tile_kind *cells);

/* Draws on standard output; print an error and return false when there is no memory. */
void show_print_counts(const show_subject *subject);
bool show_print_pairs(const show_subject *subject);
bool show_print_tiles(const show_subject *subject);

/* Writes the picture, pairs or tiles, into the temporary file of `output`; the caller commits it. Prints an
 * error and returns false; the caller discards. */
bool show_write_svg(const show_subject *subject, bool pairs, cli_output *output);

#endif
