/* Problem + kernels + algorithm -> plan: made once, executed many times, never changed. */
#include "attention/internal.h"

#include <stdlib.h>
#include <string.h>

/* Keys are split when at most this many queries meet them, in splits of this many key tiles: long enough
 * that merging is nothing beside them, short enough that 16 threads share 32768 keys. */
#define SPLIT_MOST_QUERIES 8
#define SPLIT_TILES 32

attn_info attn_plan_info(const attn_plan *plan) {
    return plan ? plan->info : (attn_info){0};
}

void attn_plan_destroy(attn_plan *plan) {
    if (!plan)
        return;
    attn_blocks_free(&plan->random);
    attn_blocks_free(&plan->blocks);
    free(plan->runs);
    free(plan->run_start);
    free(plan->cost_before);
    free(plan);
}

const attn_run *attn_plan_tile_runs(const attn_plan *plan, const attn_view *view, int64_t query_tile,
                                    int64_t *scratch, attn_run *runs, int64_t *count) {
    if (plan->runs) {
        const int64_t head = plan->heads_distinct == 1 ? 0 : view->head;
        const int64_t *start = plan->run_start + head * plan->query_tiles + query_tile;
        *count = start[1] - start[0];
        return plan->runs + start[0];
    }
    *count = attn_runs(view, query_tile, scratch, runs, false);
    return runs;
}

/* Cost of a query tile in units of a pair: its pairs, and a share for what each tile costs besides. */
static int64_t tile_cost(const attn_plan *plan, int64_t pairs) {
    return pairs + 16 * plan->query_tile;
}

/* Counts the tiles and pairs of one query tile's runs into `info`; returns the pairs. */
static int64_t count_tile(const attn_plan *plan, int64_t query_tile, const attn_run *runs, int64_t count,
                          attn_info *info) {
    const int64_t rows = attn_tile_rows(plan, query_tile);
    int64_t keys = 0, visited = 0;
    for (int64_t k = 0; k < count; k++) {
        keys += attn_min(runs[k].last * plan->key_tile, plan->problem.keys) - runs[k].first * plan->key_tile;
        visited += runs[k].last - runs[k].first;
        if (runs[k].kind == ATTN_TILE_FULL)
            info->tiles_full += runs[k].last - runs[k].first;
        else
            info->tiles_partial += runs[k].last - runs[k].first;
    }
    info->tiles_absent += plan->key_tiles - visited;
    info->pairs_executed += rows * keys;
    return rows * keys;
}

/* Walks all query tiles once: counts, costs, and the runs, which are kept for flash unless offsets come
 * later; naive visits every tile. */
static attn_status make_runs(attn_plan *plan, attn_error *error) {
    const attn_problem *problem = &plan->problem;
    const int64_t tile_rows = plan->heads_distinct * plan->query_tiles;
    const bool keep = plan->algorithm == ATTN_FLASH && !(problem->inputs & ATTN_HAS_Q_OFFSETS);
    const int64_t repeat = problem->batch * (problem->heads / plan->heads_distinct);
    const int64_t limit = attn_runs_limit(plan, true);
    int64_t used = 0, capacity = 0, before_topk = 0;
    attn_status status = ATTN_OK;
    int64_t *scratch = malloc((size_t)attn_runs_scratch(plan) * sizeof *scratch);
    attn_run *found = malloc((size_t)limit * sizeof *found);
    plan->cost_before = calloc((size_t)(tile_rows + plan->heads_distinct), sizeof *plan->cost_before);
    if (keep)
        plan->run_start = calloc((size_t)tile_rows + 1, sizeof *plan->run_start);
    if (!scratch || !found || (keep && !plan->run_start) || !plan->cost_before)
        goto no_memory;
    for (int64_t head = 0; head < plan->heads_distinct; head++) {
        const attn_view view = attn_view_static(plan, head);
        int64_t *cost = plan->cost_before + head * (plan->query_tiles + 1);
        plan->info.pairs_useful += attn_count_pairs(&view, scratch, false);
        if (problem->pattern.terms & ATTN_TOPK)
            before_topk += attn_count_pairs(&view, scratch, true);
        for (int64_t t = 0; t < plan->query_tiles; t++) {
            int64_t count = attn_runs(&view, t, scratch, found, true);
            const int64_t pairs = count_tile(plan, t, found, count, &plan->info);
            cost[t + 1] =
                cost[t] +
                tile_cost(plan, plan->algorithm == ATTN_FLASH ? pairs : plan->query_tile * problem->keys);
            if (!keep)
                continue;
            if (problem->pattern.terms & ATTN_STRIDE)
                count = attn_runs(&view, t, scratch, found, false);
            if (used + count > capacity) {
                capacity = 2 * capacity + count + 64;
                attn_run *grown = realloc(plan->runs, (size_t)capacity * sizeof *grown);
                if (!grown)
                    goto no_memory;
                plan->runs = grown;
            }
            if (count > 0) /* else both may be NULL */
                memcpy(plan->runs + used, found, (size_t)count * sizeof *found);
            used += count;
            plan->run_start[head * plan->query_tiles + t + 1] = used;
        }
    }
    if (keep && !plan->runs && !(plan->runs = malloc(sizeof *plan->runs))) /* no run at all */
        goto no_memory;
    attn_info *info = &plan->info;
    info->pairs_dense = problem->batch * problem->heads * problem->queries * problem->keys;
    info->pairs_useful *= repeat;
    /* topk looks at every attended pair, and only then chooses. */
    if (problem->pattern.terms & ATTN_TOPK)
        info->pairs_executed = before_topk;
    info->pairs_executed *= repeat;
    info->tiles_full *= repeat;
    info->tiles_partial *= repeat;
    info->tiles_absent *= repeat;
    goto done;
no_memory:
    status =
        attn_fail(error, ATTN_NO_MEMORY, "no memory for a plan of %lld query tiles", (long long)tile_rows);
done:
    free(scratch);
    free(found);
    return status;
}

/* Options that an algorithm does not compute are refused by name. */
static attn_status check_supported(const attn_plan *plan, attn_error *error) {
    if (plan->algorithm == ATTN_FLASH && (plan->problem.pattern.terms & ATTN_TOPK))
        return attn_fail(error, ATTN_UNSUPPORTED,
                         "algorithm flash does not compute pattern term topk; use naive");
    return ATTN_OK;
}

static attn_algorithm choose_algorithm(const attn_plan *plan, const attn_options *options) {
    const attn_problem *problem = &plan->problem;
    if (options && options->algorithm != ATTN_AUTO)
        return options->algorithm;
    if (problem->pattern.terms & ATTN_TOPK)
        return ATTN_NAIVE;
    const attn_algorithm measured =
        options && options->tuning
            ? attn_tuning_choose(options->tuning, problem, plan->kernels->name, options->threads)
            : ATTN_AUTO;
    return measured != ATTN_AUTO ? measured : ATTN_FLASH;
}

static attn_status plan_fill(attn_plan *plan, const attn_options *options, attn_error *error) {
    attn_problem *problem = &plan->problem;
    attn_status status = attn_dispatch(options ? options->isa : NULL, &plan->kernels, error);
    if (status != ATTN_OK)
        return status;
    const attn_algorithm asked = options ? options->algorithm : ATTN_AUTO;
    if (!attn_algorithm_name(asked))
        return attn_fail(error, ATTN_INVALID, "algorithm is %d, must be auto, naive or flash", (int)asked);
    if (options && (options->threads < 0 || options->threads > ATTN_MAX_THREADS))
        return attn_fail(error, ATTN_INVALID, "threads is %d, must be 0 to %d", options->threads,
                         ATTN_MAX_THREADS);
    plan->algorithm = choose_algorithm(plan, options);
    if ((status = check_supported(plan, error)) != ATTN_OK)
        return status;
    plan->scale = attn_problem_scale(problem);
    plan->query_tile = plan->kernels->query_tile;
    plan->key_tile = ATTN_KEY_TILE;
    plan->query_tiles = attn_ceil_div(problem->queries, plan->query_tile);
    plan->key_tiles = attn_ceil_div(problem->keys, plan->key_tile);
    if ((problem->pattern.terms & ATTN_RANDOM) &&
        (status = attn_blocks_random(&plan->random, problem, error)) != ATTN_OK)
        return status;
    if ((problem->pattern.terms & ATTN_BLOCKS) &&
        (status = attn_blocks_map(&plan->blocks, problem, error)) != ATTN_OK)
        return status;
    problem->pattern.block_map = NULL; /* the caller's; from here on `blocks` is what counts */
    plan->splits = 1;
    plan->split_tiles = plan->key_tiles;
    if (plan->algorithm == ATTN_FLASH && problem->queries > 0 && problem->queries <= SPLIT_MOST_QUERIES &&
        plan->key_tiles > SPLIT_TILES) {
        plan->split_tiles = SPLIT_TILES;
        plan->splits = attn_ceil_div(plan->key_tiles, SPLIT_TILES);
    }
    plan->heads_distinct = plan->blocks.heads > 1 ? plan->blocks.heads : 1;
    if ((status = make_runs(plan, error)) != ATTN_OK)
        return status;
    attn_info *info = &plan->info;
    info->isa = plan->kernels->name;
    info->scale = plan->scale;
    info->algorithm = plan->algorithm;
    info->query_tile = plan->query_tile;
    info->key_tile = plan->key_tile;
    info->key_splits = plan->splits;
    if (plan->algorithm == ATTN_NAIVE) {
        /* The textbook computes every pair and looks at every mask afterwards. */
        if (problem->pattern.terms) {
            info->tiles_partial += info->tiles_full + info->tiles_absent;
            info->tiles_full = info->tiles_absent = 0;
        }
        if (!(problem->pattern.terms & ATTN_TOPK))
            info->pairs_executed = info->pairs_dense;
        info->workspace_bytes = attn_naive_workspace(plan, problem->queries);
    } else {
        info->workspace_bytes = plan->splits > 1 ? attn_decode_workspace(plan) : attn_flash_workspace(plan);
    }
    return ATTN_OK;
}

attn_status attn_plan_create(const attn_problem *problem, const attn_options *options, attn_plan **plan,
                             attn_error *error) {
    if (!plan)
        return attn_fail(error, ATTN_INVALID, "plan is NULL");
    *plan = NULL;
    if (!problem)
        return attn_fail(error, ATTN_INVALID, "problem is NULL");
    attn_status status = attn_problem_check(problem, error);
    if (status != ATTN_OK)
        return status;
    attn_plan *made = calloc(1, sizeof *made);
    if (!made)
        return attn_fail(error, ATTN_NO_MEMORY, "no memory for a plan");
    made->problem = *problem;
    status = plan_fill(made, options, error);
    if (status != ATTN_OK) {
        attn_plan_destroy(made);
        return status;
    }
    *plan = made;
    return ATTN_OK;
}

/* Cost of all units before `unit`. */
static int64_t units_cost(const attn_plan *plan, int64_t unit) {
    const int64_t tiles = plan->query_tiles, heads = plan->problem.heads;
    const int64_t whole = unit / tiles, tile = unit % tiles; /* whole (batch, head)s, tiles in the next */
    if (plan->heads_distinct == 1)
        return whole * plan->cost_before[tiles] + plan->cost_before[tile];
    int64_t before = 0, one_batch = 0;
    for (int64_t head = 0; head < heads; head++) {
        const int64_t *cost = plan->cost_before + head * (tiles + 1);
        one_batch += cost[tiles];
        if (head < whole % heads)
            before += cost[tiles];
        else if (head == whole % heads)
            before += cost[tile];
    }
    return whole / heads * one_batch + before;
}

void attn_plan_part(const attn_plan *plan, int part, int parts, int64_t *first, int64_t *last) {
    const int64_t units = plan->problem.batch * plan->problem.heads * plan->query_tiles;
    int64_t bounds[2] = {0, 0};
    for (int side = 0; side < 2 && units > 0; side++) {
        /* The first unit that lies at or past the part's share of the cost. */
        const double share = (double)(part + side) / parts * (double)units_cost(plan, units);
        int64_t low = 0, high = units;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if ((double)units_cost(plan, middle) < share)
                low = middle + 1;
            else
                high = middle;
        }
        bounds[side] = part + side == parts ? units : low;
    }
    *first = bounds[0];
    *last = bounds[1];
}
