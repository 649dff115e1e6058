/* `show` as a picture: pairs or tiles as rectangles in an SVG file that needs nothing else.
 *
 * The plot's rectangles are in units of the grid (a pair, or a cell of tiles), so their areas are counts;
 * neighbours of one kind in a row, and equal ones of successive rows, are one rectangle. Blue and orange
 * differ in lightness too, so that they are told apart by colour-blind readers and in print. */
#include "cli/show.h"
#include "cli/svg_text.h"

#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 780,
    LEFT = 92, /* of the plot */
    PLOT = 640,
    TEXT = 40,        /* left border of titles and legend */
    LINE = 22,        /* from one line of text to the next */
    CELLS_MOST = 320, /* tiles each way before they are scaled: two pixels each */
    CELL_LARGEST = 28,
};

/* What a cell of the grid shows; `nothing` is the background. */
typedef enum cell_kind { CELL_NOTHING, CELL_SOME, CELL_ALL, CELL_KINDS } cell_kind;
static const char *const pair_names[CELL_KINDS] = {"skipped", "masked", "attended"};
static const char *const tile_names[CELL_KINDS] = {"absent", "partial", "full"};

typedef struct picture {
    const show_subject *subject;
    FILE *file;
    bool pairs;
    const char *const *names;        /* of kinds: pair_names or tile_names */
    int64_t drawn[CELL_KINDS];       /* cells of each kind */
    int64_t rows, columns;           /* of the grid */
    int64_t row_step, column_step;   /* tiles in a cell; 1 for pairs */
    int64_t unit_height, unit_width; /* queries and keys of a cell */
    double top, width, height;       /* of the plot */
    double text_y;                   /* of the last line written */
} picture;

/* ---- Text ---- */

static void start_line(picture *p, double advance, const char *class) {
    p->text_y += advance;
    fprintf(p->file, "<text class=\"%s\" x=\"%d\" y=\"%.0f\">", class, TEXT, p->text_y);
}

static void end_line(picture *p) {
    fputs("</text>\n", p->file);
}

static void put_heading(picture *p) {
    const show_subject *s = p->subject;
    const show_options *o = s->options;
    size_t length = strlen(s->pattern_text);
    start_line(p, 38, length <= 56 ? "title" : "title long");
    svg_put_text(p->file, s->pattern_text, length <= 56 ? 56 : 92);
    end_line(p);
    char queries[SVG_NUMBER_TEXT], keys[SVG_NUMBER_TEXT];
    start_line(p, LINE, "note");
    fprintf(p->file, "%s queries \xc3\x97 %s keys", svg_number(o->queries, queries),
            svg_number(o->keys, keys));
    if (o->heads > 1)
        fprintf(p->file, ", head %lld of %lld", (long long)o->head, (long long)o->heads);
    fprintf(p->file, " \xc2\xb7 %s on %s, tiles of %lld \xc3\x97 %lld",
            attn_algorithm_name(s->info.algorithm), s->info.isa, (long long)s->info.query_tile,
            (long long)s->info.key_tile);
    end_line(p);
    if (o->q_offset_given || o->kv_len_given) {
        start_line(p, LINE, "note");
        if (o->q_offset_given)
            fprintf(p->file, "the first query at position %s", svg_number(o->q_offset, queries));
        if (o->kv_len_given)
            fprintf(p->file, "%s%s keys, the rest is padding", o->q_offset_given ? "; " : "",
                    svg_number(o->kv_len, keys));
        end_line(p);
    }
    for (int which = 0; which < INPUT_COUNT; which++) {
        if (!o->inputs[which])
            continue;
        start_line(p, LINE, "note");
        fprintf(p->file, "%s: ", cli_input_names[which]);
        svg_put_text(p->file, o->inputs[which], 84);
        end_line(p);
    }
}

static void legend_entry(picture *p, cell_kind kind, int64_t count, int64_t whole, const char *explanation) {
    char text[SVG_NUMBER_TEXT], percent[SHOW_PERCENT_TEXT];
    p->text_y += LINE;
    fprintf(p->file, "<rect class=\"swatch %s\" x=\"%d\" y=\"%.0f\" width=\"14\" height=\"14\"/>\n",
            p->names[kind], TEXT, p->text_y - 12);
    fprintf(p->file, "<text x=\"%d\" y=\"%.0f\"><tspan class=\"name\">%s</tspan>: %s %s (%s %%), %s</text>\n",
            TEXT + 22, p->text_y, p->names[kind], svg_number(count, text), p->pairs ? "pairs" : "tiles",
            show_percent(count, whole, percent), explanation);
}

static void put_pairs_legend(picture *p) {
    const show_subject *s = p->subject;
    const attn_counts *head = &s->head;
    int64_t pairs = s->options->queries * s->options->keys, tiles = s->tile_rows * s->tile_columns;
    bool topk = s->problem.pattern.terms & ATTN_TOPK;
    char full[SVG_NUMBER_TEXT], partial[SVG_NUMBER_TEXT], absent[SVG_NUMBER_TEXT];
    legend_entry(p, CELL_ALL, p->drawn[CELL_ALL], pairs,
                 topk ? "from which topk chooses" : "the useful work");
    legend_entry(p, CELL_SOME, p->drawn[CELL_SOME], pairs, "computed with their tile, then dropped");
    legend_entry(p, CELL_NOTHING, p->drawn[CELL_NOTHING], pairs, "never computed");
    if (topk) {
        start_line(p, LINE + 4, "note");
        fprintf(p->file, "topk keeps %s of the attended pairs; which ones depends on the scores",
                svg_number(head->pairs_useful, full));
        end_line(p);
    }
    start_line(p, topk ? LINE : LINE + 4, "note");
    fprintf(p->file, "tiles%s: %s full, %s partial, %s absent", tiles > 1 ? " (dashed borders)" : "",
            svg_number(head->tiles_full, full), svg_number(head->tiles_partial, partial),
            svg_number(tiles - head->tiles_full - head->tiles_partial, absent));
    end_line(p);
}

static void put_tiles_legend(picture *p) {
    const show_subject *s = p->subject;
    const attn_counts *head = &s->head;
    int64_t pairs = s->options->queries * s->options->keys, tiles = s->tile_rows * s->tile_columns;
    char useful[SVG_NUMBER_TEXT], executed[SVG_NUMBER_TEXT], dense[SVG_NUMBER_TEXT];
    char percent_useful[SHOW_PERCENT_TEXT], percent_executed[SHOW_PERCENT_TEXT];
    legend_entry(p, CELL_ALL, head->tiles_full, tiles, "every pair attended: no mask is needed");
    legend_entry(p, CELL_SOME, head->tiles_partial, tiles,
                 s->info.algorithm == ATTN_NAIVE ? "all computed, then masked"
                                                 : "some pairs attended: masked when visited");
    legend_entry(p, CELL_NOTHING, tiles - head->tiles_full - head->tiles_partial, tiles,
                 "no pair attended: never visited");
    start_line(p, LINE + 4, "note");
    fprintf(p->file, "pairs: %s useful (%s %%), %s executed (%s %%), %s dense",
            svg_number(head->pairs_useful, useful), show_percent(head->pairs_useful, pairs, percent_useful),
            svg_number(head->pairs_executed, executed),
            show_percent(head->pairs_executed, pairs, percent_executed), svg_number(pairs, dense));
    end_line(p);
    if (p->row_step > 1 || p->column_step > 1) {
        start_line(p, LINE, "note");
        fprintf(p->file,
                "scaled: a cell is %lld \xc3\x97 %lld tiles, drawn as partial where their kinds differ",
                (long long)p->row_step, (long long)p->column_step);
        end_line(p);
    }
}

/* ---- Axes ---- */

/* A round distance of at most `most` ticks: a power of two where that divides, else 1, 2 or 5 times a power
 * of ten. */
static int64_t tick_step(int64_t n, int64_t most) {
    for (int64_t step = 1; step <= n; step *= 2) {
        if (n % step == 0 && n / step <= most && n / step > most / 2 - 1)
            return step;
    }
    for (int64_t ten = 1;; ten *= 10) {
        for (int64_t step = ten; step <= 5 * ten; step += step == ten ? ten : 3 * ten) {
            if (n / step <= most)
                return step;
        }
    }
}

/* Ticks of one axis of `n` pairs over `length` pixels: pairs are numbered at their centres, tiles at borders.
 */
static void put_ticks(const picture *p, bool keys, int64_t n, double length) {
    if (n == 0)
        return;
    char digits[SVG_NUMBER_TEXT];
    int label = snprintf(digits, sizeof digits, "%lld", (long long)n) * 8 + 20; /* pixels */
    int64_t most = (int64_t)(length / (keys ? label : 22));
    most = most < 1 ? 1 : most > 8 ? 8 : most;
    int64_t step = tick_step(n, most), last = p->pairs ? n - 1 : n;
    double centre = p->pairs ? 0.5 : 0;
    for (int64_t at = 0; at <= last; at += step) {
        double along = length * ((double)at + centre) / (double)n;
        if (keys)
            fprintf(p->file,
                    "<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%lld</text>\n"
                    "<path class=\"line\" d=\"M%.1f %.1fv4\"/>\n",
                    LEFT + along, p->top + p->height + 18, (long long)at, LEFT + along, p->top + p->height);
        else
            fprintf(p->file,
                    "<text class=\"tick\" text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%lld</text>\n"
                    "<path class=\"line\" d=\"M%d %.1fh4\"/>\n",
                    LEFT - 8, p->top + along + 4, (long long)at, LEFT - 4, p->top + along);
    }
}

static void put_axes(picture *p) {
    const show_options *o = p->subject->options;
    double middle = p->top + p->height / 2;
    fprintf(p->file, "<rect class=\"frame\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", LEFT,
            p->top, p->width, p->height);
    put_ticks(p, true, o->keys, p->width);
    put_ticks(p, false, o->queries, p->height);
    p->text_y = p->top + p->height + 38;
    fprintf(p->file, "<text text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">keys</text>\n", LEFT + p->width / 2,
            p->text_y);
    fprintf(p->file,
            "<text text-anchor=\"middle\" transform=\"translate(%d %.1f) rotate(-90)\">queries</text>\n",
            TEXT - 12, middle);
    p->text_y += 8;
}

/* Lines between cells of `height` x `width` pixels, as one path. */
static void put_lines(const picture *p, const char *class, double height, double width) {
    bool across = height < p->height - 0.01, down = width < p->width - 0.01;
    if (!across && !down)
        return;
    fprintf(p->file, "<path class=\"%s\" d=\"", class);
    for (double y = height; across && y < p->height - 0.01; y += height)
        fprintf(p->file, "M%d %.2fh%.1f", LEFT, p->top + y, p->width);
    for (double x = width; down && x < p->width - 0.01; x += width)
        fprintf(p->file, "M%.2f %.1fv%.1f", LEFT + x, p->top, p->height);
    fputs("\"/>\n", p->file);
}

/* ---- Cells ---- */

typedef struct block {
    int64_t first, last, top; /* columns [first, last), rows from top */
    cell_kind kind;
} block;

static void put_block(const picture *p, const block *b, int64_t row) {
    fprintf(p->file, "<rect class=\"%s\" x=\"%lld\" y=\"%lld\" width=\"%lld\" height=\"%lld\"/>\n",
            p->names[b->kind], (long long)b->first, (long long)b->top, (long long)(b->last - b->first),
            (long long)(row - b->top));
}

/* Takes row `row` of cells (NULL: past the last) to the blocks still growing: those that the row goes on with
 * stay, others are written. Returns how many are growing now. */
static int64_t take_row(const picture *p, int64_t row, const cell_kind *cells, block *growing, int64_t count,
                        block *next) {
    int64_t made = 0, old = 0;
    for (int64_t c = 0; cells && c < p->columns;) {
        int64_t first = c;
        while (c < p->columns && cells[c] == cells[first])
            c++;
        if (cells[first] != CELL_NOTHING)
            next[made++] = (block){first, c, row, cells[first]};
    }
    for (int64_t n = 0; n < made; n++) {
        for (; old < count && growing[old].first < next[n].first; old++)
            put_block(p, &growing[old], row);
        const block *same = old < count ? &growing[old] : NULL;
        if (same && same->first == next[n].first && same->last == next[n].last &&
            same->kind == next[n].kind) {
            next[n].top = same->top;
            old++;
        }
    }
    for (; old < count; old++)
        put_block(p, &growing[old], row);
    memcpy(growing, next, (size_t)made * sizeof *next);
    return made;
}

/* The cells of one row: tiles, or pairs as far as their tile is visited. */
static void fill_row(const picture *p, int64_t row, attn_tile_kind *kinds, attn_tile_kind *tiles,
                     uint64_t *bits, cell_kind *cells) {
    const show_subject *s = p->subject;
    if (!p->pairs) {
        show_cells(s, row * p->row_step, p->row_step, p->column_step, kinds, tiles);
        for (int64_t c = 0; c < p->columns; c++)
            cells[c] = tiles[c] == ATTN_TILE_FULL      ? CELL_ALL
                       : tiles[c] == ATTN_TILE_PARTIAL ? CELL_SOME
                                                       : CELL_NOTHING;
        return;
    }
    if (row % s->info.query_tile == 0)
        attn_look_tiles(s->look, row / s->info.query_tile, kinds);
    attn_look_row(s->look, row, bits);
    int64_t keys = s->options->kv_len_given ? s->options->kv_len : p->columns;
    for (int64_t j = 0; j < p->columns; j++) {
        bool visited = j < keys && kinds[j / s->info.key_tile] != ATTN_TILE_ABSENT;
        cells[j] = bits[j / 64] >> (j % 64) & 1 ? CELL_ALL : visited ? CELL_SOME : CELL_NOTHING;
    }
}

static bool put_cells(picture *p) {
    const show_subject *s = p->subject;
    attn_tile_kind *kinds = cli_alloc("the picture", s->tile_columns, sizeof *kinds);
    attn_tile_kind *tiles = cli_alloc("the picture", p->columns, sizeof *tiles);
    uint64_t *bits = cli_alloc("the picture", p->columns / 64 + 1, sizeof *bits);
    cell_kind *cells = cli_alloc("the picture", p->columns, sizeof *cells);
    block *blocks = cli_alloc("the picture", 2 * p->columns, sizeof *blocks);
    bool room = kinds && tiles && bits && cells && blocks;
    if (room) {
        /* Without queries or keys there is no cell, and the frame stays empty. */
        double keys = (double)(s->options->keys ? s->options->keys : 1);
        double queries = (double)(s->options->queries ? s->options->queries : 1);
        double x = p->width * (double)p->unit_width / keys;
        double y = p->height * (double)p->unit_height / queries;
        fprintf(
            p->file,
            "<clipPath id=\"plot\"><rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></clipPath>\n"
            "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n"
            "<g clip-path=\"url(#plot)\"><g id=\"cells\" shape-rendering=\"crispEdges\" "
            "transform=\"translate(%d %.1f) scale(%.6g %.6g)\">\n",
            LEFT, p->top, p->width, p->height, p->names[CELL_NOTHING], LEFT, p->top, p->width, p->height,
            LEFT, p->top, x, y);
        int64_t growing = 0;
        for (int64_t row = 0; row < p->rows; row++) {
            fill_row(p, row, kinds, tiles, bits, cells);
            for (int64_t c = 0; c < p->columns; c++)
                p->drawn[cells[c]]++;
            growing = take_row(p, row, cells, blocks, growing, blocks + p->columns);
        }
        take_row(p, p->rows, NULL, blocks, growing, blocks + p->columns);
        fputs("</g></g>\n", p->file);
        if (x >= 6 && y >= 6 && p->rows > 0 && p->columns > 0)
            put_lines(p, "grid", y, x);
        if (p->pairs && p->rows > 0 && p->columns > 0)
            put_lines(p, "tile", p->height * (double)s->info.query_tile / (double)p->rows,
                      p->width * (double)s->info.key_tile / (double)p->columns);
    }
    free(kinds);
    free(tiles);
    free(bits);
    free(cells);
    free(blocks);
    return room;
}

/* ---- The whole ---- */

static void measure(picture *p) {
    const show_subject *s = p->subject;
    double queries = (double)s->options->queries, keys = (double)s->options->keys;
    double most = queries > keys ? queries : keys;
    double pair = PLOT / (most > 1 ? most : 1);
    p->row_step = p->column_step = 1;
    if (p->pairs) {
        p->rows = s->options->queries;
        p->columns = s->options->keys;
        p->unit_height = p->unit_width = 1;
        if (pair >= 1)
            pair = pair < CELL_LARGEST ? (double)(int)pair : CELL_LARGEST;
    } else {
        p->row_step = show_scale(s->tile_rows, CELLS_MOST);
        p->column_step = show_scale(s->tile_columns, CELLS_MOST);
        p->rows = cli_ceil_div(s->tile_rows, p->row_step);
        p->columns = cli_ceil_div(s->tile_columns, p->column_step);
        p->unit_height = p->row_step * s->info.query_tile;
        p->unit_width = p->column_step * s->info.key_tile;
    }
    /* Decoding is one row against many keys: a strip is easier to read than a line. */
    p->width = keys * pair < 48 ? 48 : keys * pair;
    p->height = queries * pair < 48 ? 48 : queries * pair;
}

bool show_write_svg(const show_subject *s, bool pairs, cli_output *output) {
    if (!cli_output_open(output))
        return false;
    picture p = {
        .subject = s, .file = output->file, .pairs = pairs, .names = pairs ? pair_names : tile_names};
    measure(&p);
    int headings = 2 + (s->options->q_offset_given || s->options->kv_len_given);
    for (int which = 0; which < INPUT_COUNT; which++)
        headings += s->options->inputs[which] != NULL;
    p.top = 38 + (headings - 1) * LINE + 20;
    bool more = pairs ? s->problem.pattern.terms & ATTN_TOPK : p.row_step > 1 || p.column_step > 1;
    double total = p.top + p.height + 46 + (4 + more) * LINE + 24;
    fprintf(p.file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
            "role=\"img\">\n<title>",
            WIDTH, total, WIDTH, total);
    svg_put_text(p.file, s->pattern_text, 4096);
    fputs("</title>\n<style>\n"
          "text { font: 13px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2933; }\n"
          ".title { font-size: 20px; font-weight: 600; }\n.title.long { font-size: 13px; }\n"
          ".note, .tick { fill: #52606d; }\n.tick { font-size: 12px; }\n.name { font-weight: 600; }\n"
          ".attended, .full { fill: #1d4f91; }\n.masked { fill: #fadcb4; }\n.partial { fill: #f0a040; }\n"
          ".skipped, .absent { fill: #edf0f3; }\n"
          ".swatch { stroke: #9aa5b1; stroke-width: 0.5; }\n"
          ".frame, .line { fill: none; stroke: #7b8794; }\n.grid { fill: none; stroke: #ffffff; "
          "stroke-width: 1; }\n"
          ".tile { fill: none; stroke: #1f2933; stroke-width: 1; stroke-dasharray: 4 3; }\n"
          "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
          p.file);
    put_heading(&p);
    if (!put_cells(&p))
        return false;
    put_axes(&p);
    if (pairs)
        put_pairs_legend(&p);
    else
        put_tiles_legend(&p);
    fputs("</svg>\n", p.file);
    return cli_output_close(output);
}
