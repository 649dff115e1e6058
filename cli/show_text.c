/* `show` as text: counts, pairs, tiles. */
#include "cli/show.h"

#include <stdio.h>
#include <stdlib.h>

enum { TILE_COLUMNS = 96, TILE_ROWS = 48 }; /* larger drawings are scaled down to this */

const char *show_percent(int64_t part, int64_t whole, char text[SHOW_PERCENT_TEXT]) {
    const int64_t rest = part < whole - part ? part : whole - part;
    int decimals = 1;
    if (rest > 0) {
        for (double shown = 1000.0 * (double)rest / (double)whole; shown < 10; shown *= 10)
            decimals++;
    }
    snprintf(text, SHOW_PERCENT_TEXT, "%.*f", decimals,
             whole > 0 ? 100.0 * (double)part / (double)whole : 0.0);
    return text;
}

void show_print_counts(const show_subject *s) {
    const show_options *o = s->options;
    cli_print_value("pattern", s->pattern_text);
    printf("queries: %lld\nkeys: %lld\nheads: %lld\n", (long long)o->queries, (long long)o->keys,
           (long long)o->heads);
    if (o->q_offset_given)
        printf("q_offset: %lld\n", (long long)o->q_offset);
    if (o->kv_len_given)
        printf("kv_len: %lld\n", (long long)o->kv_len);
    for (int which = 0; which < INPUT_COUNT; which++) {
        if (o->inputs[which])
            cli_print_value(cli_input_names[which], o->inputs[which]);
    }
    const attn_counts *all = &s->all;
    int64_t tiles = o->heads * s->tile_rows * s->tile_columns, dense = s->info.pairs_dense;
    printf("isa: %s\nalgorithm: %s\nquery_tile: %lld\nkey_tile: %lld\n", s->info.isa,
           attn_algorithm_name(s->info.algorithm), (long long)s->info.query_tile,
           (long long)s->info.key_tile);
    printf("tiles_full: %lld\ntiles_partial: %lld\ntiles_absent: %lld\n", (long long)all->tiles_full,
           (long long)all->tiles_partial, (long long)(tiles - all->tiles_full - all->tiles_partial));
    printf("pairs_useful: %lld\npairs_executed: %lld\npairs_dense: %lld\n", (long long)all->pairs_useful,
           (long long)all->pairs_executed, (long long)dense);
    char useful[SHOW_PERCENT_TEXT], executed[SHOW_PERCENT_TEXT];
    printf("percent_useful: %s\npercent_executed: %s\n", show_percent(all->pairs_useful, dense, useful),
           show_percent(all->pairs_executed, dense, executed));
    cli_pattern_note(&s->pattern, all->pairs_useful, all->pairs_executed, dense);
    if (s->problem.pattern.terms & ATTN_TOPK)
        printf("note: which pairs topk keeps depends on the scores%s\n",
               *s->not_drawn ? "" : "; the pairs it chooses from are drawn");
    if (!*s->not_drawn)
        return;
    printf("note: nothing is drawn: %s\n", s->not_drawn);
    if (s->problem.inputs)
        puts("note: the counts are those of the pattern alone: offset, length, segments, mask and bias are "
             "left out");
}

/* Two lines above the columns: tens (and hundreds) where they change, and units. */
static void print_ruler(int64_t keys, int label) {
    printf("%*s ", label, "");
    for (int64_t j = 0; j < keys; j++) {
        if (j % 10 == 0)
            j += printf("%lld", (long long)j) - 1;
        else
            putchar(' ');
    }
    printf("\n%*s ", label, "");
    for (int64_t j = 0; j < keys; j++)
        putchar((char)('0' + j % 10));
    putchar('\n');
}

bool show_print_pairs(const show_subject *s) {
    const show_options *o = s->options;
    uint64_t *bits = cli_alloc("a row of pairs", o->keys / 64 + 1, sizeof *bits);
    if (!bits)
        return false;
    puts("\npairs: a row per query, a column per key; # attended, . not");
    print_ruler(o->keys, 5);
    for (int64_t i = 0; i < o->queries; i++) {
        attn_look_row(s->look, i, bits);
        printf("%5lld ", (long long)i);
        for (int64_t j = 0; j < o->keys; j++)
            putchar(bits[j / 64] >> (j % 64) & 1 ? '#' : '.');
        putchar('\n');
    }
    free(bits);
    return true;
}

bool show_print_tiles(const show_subject *s) {
    static const char marks[] = {[ATTN_TILE_ABSENT] = '.', [ATTN_TILE_PARTIAL] = '+', [ATTN_TILE_FULL] = '#'};
    int64_t row_step = show_scale(s->tile_rows, TILE_ROWS),
            column_step = show_scale(s->tile_columns, TILE_COLUMNS);
    int64_t columns = cli_ceil_div(s->tile_columns, column_step);
    attn_tile_kind *kinds = cli_alloc("a row of tiles", s->tile_columns, sizeof *kinds);
    attn_tile_kind *cells = cli_alloc("a row of tiles", columns, sizeof *cells);
    bool drawn = kinds && cells;
    if (drawn) {
        printf("\ntiles: a row per %lld queries, a column per %lld keys; # full, + partial, . absent\n",
               (long long)(row_step * s->info.query_tile), (long long)(column_step * s->info.key_tile));
        if (row_step > 1 || column_step > 1)
            printf("scaled: each character stands for %lld x %lld tiles, and is + where their kinds differ\n",
                   (long long)row_step, (long long)column_step);
        for (int64_t row = 0; row < s->tile_rows; row += row_step) {
            show_cells(s, row, row_step, column_step, kinds, cells);
            printf("%8lld ", (long long)(row * s->info.query_tile));
            for (int64_t c = 0; c < columns; c++)
                putchar(marks[cells[c]]);
            putchar('\n');
        }
    }
    free(kinds);
    free(cells);
    return drawn;
}
