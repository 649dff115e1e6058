/* What an execution would visit and attend, found as the algorithms find it, without their arithmetic. */
#include "attention/internal.h"

#include <stdlib.h>
#include <string.h>

struct attn_look {
    const attn_plan *plan;
    attn_view view;
    int64_t *scratch;
    attn_run *runs;
    attn_tile_kind *kinds;
    uint64_t *bits; /* of one row */
};

attn_look *attn_look_open(const attn_plan *plan, const attn_tensors *tensors, int64_t batch, int64_t head) {
    attn_look *look = calloc(1, sizeof *look);
    if (!look)
        return NULL;
    const size_t keys = (size_t)plan->problem.keys;
    look->plan = plan;
    look->view = tensors ? attn_view_of(plan, tensors, batch, head) : attn_view_static(plan, head);
    look->scratch = malloc((size_t)attn_runs_scratch(plan) * sizeof *look->scratch);
    look->runs = malloc((size_t)attn_runs_limit(plan, false) * sizeof *look->runs);
    look->kinds = malloc(((size_t)plan->key_tiles + 1) * sizeof *look->kinds);
    look->bits = malloc((keys / 64 + 1) * sizeof *look->bits);
    if (!look->scratch || !look->runs || !look->kinds || !look->bits) {
        attn_look_close(look);
        return NULL;
    }
    return look;
}

void attn_look_close(attn_look *look) {
    if (!look)
        return;
    free(look->scratch);
    free(look->runs);
    free(look->kinds);
    free(look->bits);
    free(look);
}

/* As flash does: the plan's runs, and what is partial or depends on data by its bits. */
static void flash_tiles(attn_look *look, int64_t query_tile, attn_tile_kind *kinds) {
    const attn_plan *plan = look->plan;
    const attn_view *view = &look->view;
    const int64_t end = attn_view_tiles(view);
    int64_t count;
    const attn_run *runs =
        attn_plan_tile_runs(plan, &look->view, query_tile, look->scratch, look->runs, &count);
    for (int64_t k = 0; k < count; k++) {
        for (int64_t tile = runs[k].first; tile < attn_min(runs[k].last, end); tile++)
            kinds[tile] =
                attn_flash_needs_bits(view, runs[k].kind)
                    ? attn_tile_by_bits(view, query_tile * plan->query_tile, attn_tile_rows(plan, query_tile),
                                        tile * plan->key_tile, attn_tile_keys(view, tile), true)
                    : runs[k].kind;
    }
}

void attn_look_tiles(attn_look *look, int64_t query_tile, attn_tile_kind *kinds) {
    for (int64_t tile = 0; tile < look->plan->key_tiles; tile++)
        kinds[tile] = ATTN_TILE_ABSENT;
    if (look->plan->algorithm != ATTN_NAIVE) {
        flash_tiles(look, query_tile, kinds);
        return;
    }
    for (int64_t tile = 0; tile < attn_view_tiles(&look->view); tile++)
        kinds[tile] = attn_naive_kind(&look->view);
}

void attn_look_row(attn_look *look, int64_t query, uint64_t *bits) {
    attn_row_bits_all(&look->view, query, 0, look->plan->problem.keys, bits);
}

/* Pairs that are attended before and after topk chooses. */
static void count_attended(attn_look *look, int64_t *before, int64_t *after) {
    const attn_problem *problem = &look->plan->problem;
    *before = *after = 0;
    if (!attn_view_has_data(&look->view)) {
        *before = attn_count_pairs(&look->view, look->scratch, true);
        *after = attn_count_pairs(&look->view, look->scratch, false);
        return;
    }
    for (int64_t i = 0; i < problem->queries; i++) {
        attn_look_row(look, i, look->bits);
        const int64_t attended = attn_count_bits(look->bits, problem->keys);
        *before += attended;
        *after += problem->pattern.terms & ATTN_TOPK ? attn_min(problem->pattern.topk, attended) : attended;
    }
}

attn_counts attn_look_count(attn_look *look) {
    attn_counts counts = {0};
    int64_t attended;
    for (int64_t t = 0; t < look->plan->query_tiles; t++) {
        attn_look_tiles(look, t, look->kinds);
        for (int64_t tile = 0; tile < look->plan->key_tiles; tile++) {
            counts.tiles_full += look->kinds[tile] == ATTN_TILE_FULL;
            counts.tiles_partial += look->kinds[tile] == ATTN_TILE_PARTIAL;
            if (look->kinds[tile] != ATTN_TILE_ABSENT)
                counts.pairs_executed += attn_tile_rows(look->plan, t) * attn_tile_keys(&look->view, tile);
        }
    }
    count_attended(look, &attended, &counts.pairs_useful);
    if (look->plan->problem.pattern.terms & ATTN_TOPK)
        counts.pairs_executed = attended;
    return counts;
}

/* Adds to change[t] how many more runs hold key tile t than hold tile t - 1, over the head's query tiles. */
static void add_changes(const attn_plan *plan, int64_t head, int64_t *scratch, attn_run *runs,
                        int64_t *change) {
    const attn_view view = attn_view_static(plan, head);
    for (int64_t t = 0; t < plan->query_tiles; t++) {
        const int64_t count = attn_runs(&view, t, scratch, runs, true);
        for (int64_t k = 0; k < count; k++) {
            change[runs[k].first]++;
            change[runs[k].last]--;
        }
    }
}

int64_t attn_plan_keys_attended(const attn_plan *plan) {
    const attn_problem *problem = &plan->problem;
    const bool alike = plan->heads_distinct == 1; /* one head tells of all */
    const int64_t group = alike ? 1 : attn_group(problem);
    const int64_t kv_heads = alike ? 1 : problem->kv_heads;
    int64_t *scratch = malloc((size_t)attn_runs_scratch(plan) * sizeof *scratch);
    attn_run *runs = malloc((size_t)attn_runs_limit(plan, true) * sizeof *runs);
    int64_t *change = malloc(((size_t)plan->key_tiles + 1) * sizeof *change);
    int64_t keys = scratch && runs && change ? 0 : -1;
    for (int64_t kv = 0; kv < kv_heads && keys >= 0; kv++) {
        memset(change, 0, ((size_t)plan->key_tiles + 1) * sizeof *change);
        for (int64_t head = kv * group; head < (kv + 1) * group; head++)
            add_changes(plan, head, scratch, runs, change);
        int64_t holding = 0;
        for (int64_t t = 0; t < plan->key_tiles; t++)
            if ((holding += change[t]) > 0)
                keys += attn_min(plan->key_tile, problem->keys - t * plan->key_tile);
    }
    free(scratch);
    free(runs);
    free(change);
    return alike ? keys * problem->kv_heads : keys;
}
