/* Tiles: for a tile of queries, the runs of key tiles that are full or partial.
 *
 * Every term gives, for the rows of the tile, a hull (keys that some row may attend through it) and a core
 * (keys that every row attends through it). Tiles are classified between the ends of these intervals alone,
 * so a tile row costs the number of its runs, not of its tiles. The few tiles that hulls and cores leave open
 * are looked at one by one, by their bits, or with a stride by arithmetic: the counts of tiles are exact too.
 */
#include "attention/internal.h"

#include <stdlib.h>
#include <string.h>

/* A stretch that hulls and cores leave open is looked at tile by tile up to this length. The borders of
 * intervals need one or two tiles; longer ones come from rows of `global`, where all tiles are partial, and
 * from `stride`, whose tiles are worth finding one by one up to some 64 million keys. */
#define OPEN_TILES 4
#define STRIDE_TILES ((int64_t)1 << 20)

/* Keys that some row, and that every row, may attend through one term that gives each row an interval. */
typedef struct term_bounds {
    attn_interval hull, core;
} term_bounds;

/* Scratch: marks and a list of the key blocks of each block selection, then the ends. */
static int64_t ends_limit(const attn_plan *plan) {
    /* Two ends each of hull and core of each term and of the restriction, each rounded down and up; two
     * borders of each key block, rounded likewise; the first and the last tile. */
    return 2 * 4 * (ATTN_MAX_SELECTED + 1) + 4 * (plan->random.key_blocks + plan->blocks.key_blocks) + 2;
}

int64_t attn_runs_scratch(const attn_plan *plan) {
    const int64_t blocks = plan->random.key_blocks + plan->blocks.key_blocks;
    return attn_max(2 * blocks + ends_limit(plan), attn_count_scratch(plan));
}

static bool stride_by_tiles(const attn_plan *plan) {
    return (plan->problem.pattern.terms & ATTN_STRIDE) && plan->key_tiles <= STRIDE_TILES;
}

/* Are there blocks whose pairs a restriction may take away? */
static bool restricts_blocks(const attn_pattern *pattern) {
    return (pattern->terms & (ATTN_RANDOM | ATTN_BLOCKS)) &&
           (pattern->terms & (ATTN_CAUSAL | ATTN_CAUSAL_TOP_LEFT | ATTN_CHUNK));
}

int64_t attn_runs_limit(const attn_plan *plan, bool each_stride) {
    /* Each stretch between two ends gives one run, or one for each of its tiles when looked at so. */
    return (each_stride && stride_by_tiles(plan)) || restricts_blocks(&plan->problem.pattern)
               ? plan->key_tiles + 1
               : attn_min(OPEN_TILES * ends_limit(plan), plan->key_tiles) + 1;
}

/* The key tiles' view of a query tile while its runs are made. */
typedef struct tile_row {
    const attn_view *view;
    int64_t first_row, last_row;
    term_bounds terms[ATTN_MAX_SELECTED];
    int term_count;
    bool bounded; /* by a stretch of rows already */
    term_bounds restriction;
    bool by_stride;
    bool unsure; /* a row's interval is empty, or hulls of several stretches were joined: hulls may reach too
                    far */
    /* For each block selection in use: how many of the tile's query blocks select each key block. */
    const attn_blocks *blocks[2];
    int64_t *marks[2];
    int64_t query_blocks[2];
    int64_t *selected[2], selected_count[2]; /* the key blocks that have a mark */
    int block_count;
} tile_row;

/* Adds the terms' bounds over rows [first, last), a stretch in which the ends of every interval only grow
 * with the row, so that the outermost rows give hull and core. */
static void bound_stretch(tile_row *row, int64_t first, int64_t last) {
    const attn_view *view = row->view;
    const bool selection = attn_has_selection(&view->plan->problem.pattern);
    /* The restriction comes first, then the terms (without a selection, the restriction once more). */
    attn_interval low[ATTN_MAX_SELECTED + 1], high[ATTN_MAX_SELECTED + 1];
    low[0] = low[1] = attn_restriction(view, first);
    high[0] = high[1] = attn_restriction(view, last - 1);
    const int count = selection ? attn_selected(view, first, low[0], low + 1) : 1;
    if (selection)
        attn_selected(view, last - 1, high[0], high + 1);
    row->term_count = count;
    for (int t = 0; t <= count; t++) {
        term_bounds *bounds = t == 0 ? &row->restriction : &row->terms[t - 1];
        const attn_interval hull = {low[t].first, high[t].last}, core = {high[t].first, low[t].last};
        row->unsure |= low[t].first >= low[t].last || high[t].first >= high[t].last;
        if (!row->bounded) {
            *bounds = (term_bounds){hull, core};
            continue;
        }
        bounds->hull.first = attn_min(bounds->hull.first, hull.first);
        bounds->hull.last = attn_max(bounds->hull.last, hull.last);
        bounds->core.first = attn_max(bounds->core.first, core.first);
        bounds->core.last = attn_min(bounds->core.last, core.last);
    }
    row->bounded = true;
}

static void bound_rows(tile_row *row) {
    const attn_pattern *pattern = &row->view->plan->problem.pattern;
    int64_t first = row->first_row;
    if (pattern->terms & ATTN_GLOBAL) {
        /* Positions 0..G-1 see everything: the only place where an interval's end falls back. */
        const int64_t breaks[2] = {-row->view->offset, pattern->global - row->view->offset};
        for (int k = 0; k < 2; k++) {
            if (breaks[k] <= first || breaks[k] >= row->last_row)
                continue;
            bound_stretch(row, first, breaks[k]);
            first = breaks[k];
            row->unsure = true;
        }
    }
    bound_stretch(row, first, row->last_row);
}

/* `scratch` holds twice as many as there are key blocks. */
static void mark_blocks(tile_row *row, const attn_blocks *blocks, int64_t *scratch) {
    const int64_t size = blocks->size;
    int64_t *marks = scratch, *marked = scratch + blocks->key_blocks, marked_count = 0;
    const int64_t first = row->first_row / size, last = (row->last_row - 1) / size;
    memset(marks, 0, (size_t)blocks->key_blocks * sizeof *marks);
    for (int64_t a = first; a <= last; a++) {
        int64_t count;
        const int64_t *selected = attn_blocks_row(blocks, row->view->head, a * size, &count);
        for (int64_t k = 0; k < count; k++)
            if (marks[selected[k]]++ == 0)
                marked[marked_count++] = selected[k];
    }
    row->blocks[row->block_count] = blocks;
    row->marks[row->block_count] = marks;
    row->selected[row->block_count] = marked;
    row->selected_count[row->block_count] = marked_count;
    row->query_blocks[row->block_count++] = last - first + 1;
}

static bool overlaps(attn_interval a, attn_interval b) {
    return attn_max(a.first, b.first) < attn_min(a.last, b.last);
}
static bool contains(attn_interval outer, attn_interval inner) {
    return outer.first <= inner.first && inner.last <= outer.last;
}

/* Kind of the keys of a stretch between two ends, by hulls and cores; *sure tells whether "partial" is
 * certain: where one term alone reaches, its hull is attended by some row everywhere, and a block selected by
 * some rows, not by all, is so too. */
static attn_tile_kind stretch_kind(const tile_row *row, attn_interval keys, bool *sure) {
    int reaching = 0, blocks_reaching = 0;
    *sure = false;
    if (!overlaps(row->restriction.hull, keys))
        return ATTN_TILE_ABSENT;
    for (int t = 0; t < row->term_count; t++) {
        if (contains(row->terms[t].core, keys))
            return ATTN_TILE_FULL;
        reaching += overlaps(row->terms[t].hull, keys);
    }
    const bool unrestricted = contains(row->restriction.core, keys);
    if (row->by_stride && row->view->plan->problem.pattern.stride == 1 && unrestricted)
        return ATTN_TILE_FULL;
    for (int s = 0; s < row->block_count; s++) {
        const int64_t size = row->blocks[s]->size;
        /* In a stretch of several tiles there is no end, so that all of its blocks have the same marks. */
        const bool one_tile = keys.last - keys.first <= row->view->plan->key_tile;
        const int64_t first = keys.first / size, last = one_tile ? (keys.last - 1) / size : first;
        bool all = true, some = false;
        for (int64_t c = first; c <= last; c++) {
            all &= row->marks[s][c] == row->query_blocks[s];
            some |= row->marks[s][c] > 0;
        }
        if (all && unrestricted)
            return ATTN_TILE_FULL;
        blocks_reaching += some;
    }
    if (!row->by_stride && reaching + blocks_reaching == 1)
        *sure = reaching == 1 ? !row->unsure : unrestricted;
    return row->by_stride || reaching + blocks_reaching > 0 ? ATTN_TILE_PARTIAL : ATTN_TILE_ABSENT;
}

/* Kind of one tile, looked at row by row. */
static attn_tile_kind exact_kind(const tile_row *row, attn_interval keys) {
    return attn_tile_by_bits(row->view, row->first_row, row->last_row - row->first_row, keys.first,
                             keys.last - keys.first, false);
}

/* Kind of one tile of a stretch that hulls and cores leave open. */
static attn_tile_kind open_kind(const tile_row *row, attn_interval keys) {
    const int64_t stride = row->view->plan->problem.pattern.stride;
    bool others = row->block_count > 0 || !contains(row->restriction.core, keys);
    for (int t = 0; t < row->term_count; t++)
        others |= overlaps(row->terms[t].hull, keys);
    if (!row->by_stride || others)
        return exact_kind(row, keys);
    /* The stride alone: the differences p - j of a tile are all numbers from `least` to `most`. Two of them
     * at least, and a stride of at least 2, so never all of them multiples. */
    const int64_t least = row->first_row + row->view->offset - (keys.last - 1);
    const int64_t most = row->last_row - 1 + row->view->offset - keys.first;
    if (least == most)
        return exact_kind(row, keys);
    return attn_floor_div(most, stride) > attn_floor_div(least - 1, stride) ? ATTN_TILE_PARTIAL
                                                                            : ATTN_TILE_ABSENT;
}

static void add_end(const attn_view *view, int64_t *ends, int64_t *count, int64_t key) {
    const int64_t tile = view->plan->key_tile;
    const int64_t clipped = attn_max(0, attn_min(key, view->keys));
    ends[(*count)++] = clipped / tile;
    ends[(*count)++] = attn_ceil_div(clipped, tile);
}

static void add_bounds(const attn_view *view, int64_t *ends, int64_t *count, const term_bounds *bounds) {
    add_end(view, ends, count, bounds->hull.first);
    add_end(view, ends, count, bounds->hull.last);
    add_end(view, ends, count, bounds->core.first);
    add_end(view, ends, count, bounds->core.last);
}

/* The borders between key blocks whose marks differ, found from the selected ones: few, where there are many
 * blocks. A border that has selected blocks on both sides is added by the upper one. */
static void add_block_ends(const tile_row *row, int s, int64_t *ends, int64_t *count) {
    const attn_blocks *blocks = row->blocks[s];
    const int64_t *marks = row->marks[s];
    for (int64_t k = 0; k < row->selected_count[s]; k++) {
        const int64_t c = row->selected[s][k];
        if (c > 0 && marks[c - 1] != marks[c])
            add_end(row->view, ends, count, c * blocks->size);
        if (c + 1 < blocks->key_blocks && marks[c + 1] == 0)
            add_end(row->view, ends, count, (c + 1) * blocks->size);
    }
}

static int64_t sorted_ends(const tile_row *row, int64_t *ends) {
    const attn_view *view = row->view;
    int64_t count = 0;
    ends[count++] = 0;
    ends[count++] = attn_ceil_div(view->keys, view->plan->key_tile);
    add_bounds(view, ends, &count, &row->restriction);
    for (int t = 0; t < row->term_count; t++)
        add_bounds(view, ends, &count, &row->terms[t]);
    for (int s = 0; s < row->block_count; s++)
        add_block_ends(row, s, ends, &count);
    attn_sort(ends, count, 1);
    int64_t unique = 1;
    for (int64_t k = 1; k < count; k++)
        if (ends[k] != ends[unique - 1])
            ends[unique++] = ends[k];
    return unique;
}

static void add_run(attn_run *runs, int64_t *count, int64_t first, int64_t last, attn_tile_kind kind) {
    if (kind == ATTN_TILE_ABSENT)
        return;
    if (*count > 0 && runs[*count - 1].last == first && runs[*count - 1].kind == kind)
        runs[*count - 1].last = last;
    else
        runs[(*count)++] = (attn_run){first, last, kind};
}

int64_t attn_runs(const attn_view *view, int64_t query_tile, int64_t *scratch, attn_run *runs,
                  bool each_stride) {
    const attn_plan *plan = view->plan;
    const attn_pattern *pattern = &plan->problem.pattern;
    tile_row row = {
        .view = view,
        .first_row = query_tile * plan->query_tile,
        .last_row = attn_min((query_tile + 1) * plan->query_tile, plan->problem.queries),
        .by_stride = pattern->terms & ATTN_STRIDE,
    };
    if (view->keys == 0)
        return 0;
    bound_rows(&row);
    if (pattern->terms & ATTN_RANDOM)
        mark_blocks(&row, &plan->random, scratch);
    if (pattern->terms & ATTN_BLOCKS)
        mark_blocks(&row, &plan->blocks, scratch + 2 * plan->random.key_blocks);
    int64_t *ends = scratch + 2 * (plan->random.key_blocks + plan->blocks.key_blocks);
    const int64_t end_count = sorted_ends(&row, ends);
    int64_t count = 0;
    for (int64_t k = 0; k + 1 < end_count; k++) {
        const int64_t tile = plan->key_tile;
        const attn_interval keys = {ends[k] * tile, attn_min(ends[k + 1] * tile, view->keys)};
        bool sure;
        const attn_tile_kind kind = stretch_kind(&row, keys, &sure);
        /* Blocks with equal marks may be selected by different rows, of which a restriction leaves some tiles
         * none. That is only so where it cuts through the query tile: at the ends of chunks, on the diagonal.
         */
        const bool cut = row.block_count > 0 && !contains(row.restriction.core, keys);
        const bool by_tiles =
            ends[k + 1] - ends[k] <= OPEN_TILES || cut || (each_stride && stride_by_tiles(plan));
        if (kind != ATTN_TILE_PARTIAL || sure || !by_tiles) {
            add_run(runs, &count, ends[k], ends[k + 1], kind);
            continue;
        }
        for (int64_t t = ends[k]; t < ends[k + 1]; t++) {
            const attn_interval one = {t * tile, attn_min((t + 1) * tile, view->keys)};
            add_run(runs, &count, t, t + 1, open_kind(&row, one));
        }
    }
    return count;
}
