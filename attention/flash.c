/* flash: one pass over the plan's runs for each query tile, online softmax, nothing n x n in memory.
 *
 * Keys and values are packed tile by tile when first visited, once per (batch, key/value head) and part, so
 * query heads that share them pack them once, and keys that a pattern never visits are never read.
 * Method: Dao, Fu, Ermon, Rudra, Ré, "FlashAttention", 2022, and Milakov, Gimelshein, "Online normalizer
 * calculation for softmax", 2018; tiles stream through cache-sized steps as in BLIS-like matrix products. */
#include "attention/internal.h"

#include <math.h>
#include <string.h>

/* A tile's mask is one word of a row. */
_Static_assert(ATTN_KEY_TILE == 64, "a key tile is a word");
/* Most key tiles of one step of a kernel, at every level. */
#define MOST_STEP_TILES (ATTN_MOST_KEY_BLOCK / ATTN_KEY_TILE)

typedef struct flash_workspace {
    float *packed_keys;         /* key_tiles * key_tile x D */
    float *packed_values;       /* panels of key_tiles * key_tile rows */
    uint8_t *packed;            /* by key tile: packed for the current (batch, key/value head) */
    uint8_t *not_finite;        /* by key tile: its values hold NaN or Inf */
    float *query;               /* A panels of one query tile */
    float *acc;                 /* query_tile x round_up(Dv, nr) */
    float *row_max, *row_sum;   /* query_tile */
    float *scratch;             /* the kernel's */
    uint64_t *mask;             /* query_tile x key_block / 64 words: a word for each tile of a step */
    float *bias;                /* query_tile x key_block; only with a bias */
    int64_t *run_scratch;       /* only when runs are made at execution */
    attn_run *runs;             /* likewise */
    int64_t value_panel_stride; /* floats from one panel of values to the next */
} flash_workspace;

/* One query tile on its way through its runs. */
typedef struct flash_walk {
    const attn_plan *plan;
    const attn_tensors *tensors;
    flash_workspace *w;
    attn_view view;
    int64_t batch, kv_head;
    int64_t row, rows;
    float slope;
    attn_counts counts;
} flash_walk;

static flash_workspace cut_workspace(const attn_plan *plan, attn_cursor *cursor) {
    const attn_problem *problem = &plan->problem;
    const attn_kernels *kernels = plan->kernels;
    const int64_t keys = plan->key_tiles * plan->key_tile;
    const int64_t f32 = sizeof(float);
    flash_workspace w = {.value_panel_stride = keys * kernels->nr};
    w.packed_keys = attn_take(cursor, keys * problem->head_dim * f32);
    w.packed_values = attn_take(cursor, keys * attn_round_up(problem->value_dim, kernels->nr) * f32);
    w.packed = attn_take(cursor, plan->key_tiles);
    w.not_finite = attn_take(cursor, plan->key_tiles);
    w.query = attn_take(cursor, plan->query_tile * problem->head_dim * f32);
    w.acc = attn_take(cursor, plan->query_tile * attn_round_up(problem->value_dim, kernels->nr) * f32);
    w.row_max = attn_take(cursor, plan->query_tile * f32);
    w.row_sum = attn_take(cursor, plan->query_tile * f32);
    w.scratch = attn_take(cursor, kernels->flash_scratch * f32);
    w.mask = attn_take(cursor, plan->query_tile * kernels->key_block / 8);
    if (problem->inputs & ATTN_HAS_BIAS)
        w.bias = attn_take(cursor, plan->query_tile * kernels->key_block * f32);
    if (!plan->runs) {
        w.run_scratch = attn_take(cursor, attn_runs_scratch(plan) * (int64_t)sizeof(int64_t));
        w.runs = attn_take(cursor, attn_runs_limit(plan, false) * (int64_t)sizeof(attn_run));
    }
    return w;
}

int64_t attn_flash_workspace(const attn_plan *plan) {
    attn_cursor count = {0};
    cut_workspace(plan, &count);
    return count.bytes;
}

static void pack_tile(const flash_walk *walk, int64_t tile) {
    const attn_plan *plan = walk->plan;
    const attn_problem *problem = &plan->problem;
    const attn_kernels *kernels = plan->kernels;
    flash_workspace *w = walk->w;
    const int64_t first = tile * plan->key_tile;
    const int64_t count = attn_tile_keys(&walk->view, tile);
    const int64_t at = tile * plan->key_tile;
    const attn_tensor *k = &walk->tensors->k, *v = &walk->tensors->v;
    kernels->pack_bt(w->packed_keys + at * problem->head_dim,
                     attn_at(k, problem->dtype, walk->batch, walk->kv_head, first), problem->dtype,
                     k->row_stride, count, problem->head_dim);
    w->not_finite[tile] = kernels->pack_b(w->packed_values + at * kernels->nr, w->value_panel_stride,
                                          attn_at(v, problem->dtype, walk->batch, walk->kv_head, first),
                                          problem->dtype, v->row_stride, count, problem->value_dim, true);
    w->packed[tile] = 1;
}

/* Key tiles that go through the kernel together: neighbours, at most key_block keys. */
typedef struct flash_step {
    int64_t first, last; /* tiles */
    bool partial[MOST_STEP_TILES];
    bool any_partial;
} flash_step;

/* Makes the mask column of one tile, word `column` of each row's mask_words, and tells its kind and how many
 * pairs are attended. */
static attn_tile_kind mask_tile(const flash_walk *walk, int64_t tile, int64_t column, int64_t *attended) {
    const int64_t words = walk->plan->kernels->key_block / 64;
    const int64_t first = tile * walk->plan->key_tile;
    const int64_t count = attn_tile_keys(&walk->view, tile);
    const uint64_t ones = attn_low_bits(count);
    uint64_t some = 0, all = ones;
    for (int64_t r = 0; r < walk->rows; r++) {
        uint64_t *bits = &walk->w->mask[r * words + column];
        attn_row_bits_all(&walk->view, walk->row + r, first, count, bits);
        some |= *bits;
        all &= *bits;
        *attended += __builtin_popcountll(*bits);
    }
    return attn_kind_of(some, all, ones);
}

/* Takes the gathered tiles through the kernel and starts a new step. */
static void take_step(flash_walk *walk, flash_step *step) {
    if (step->first == step->last)
        return;
    const attn_plan *plan = walk->plan;
    const attn_problem *problem = &plan->problem;
    const int64_t words = plan->kernels->key_block / 64;
    const int64_t first = step->first * plan->key_tile;
    const int64_t count = attn_min(step->last * plan->key_tile, walk->view.keys) - first;
    flash_workspace *w = walk->w;
    for (int64_t tile = step->first; tile < step->last; tile++) {
        if (!w->packed[tile])
            pack_tile(walk, tile);
        if (step->any_partial && !step->partial[tile - step->first])
            for (int64_t r = 0; r < walk->rows; r++)
                w->mask[r * words + tile - step->first] = ~(uint64_t)0;
    }
    attn_score_ops ops = {
        .softcap = problem->softcap,
        .slope = walk->slope,
        .distance = walk->row + walk->view.offset - first,
        .mask = step->any_partial ? w->mask : NULL,
        .mask_words = words,
    };
    if (walk->view.bias)
        ops.bias =
            attn_tile_bias(&walk->view, walk->row, walk->rows, first, count, w->bias, &ops.bias_stride);
    const bool plain = !ops.mask && !ops.bias && ops.softcap == 0 && ops.slope == 0;
    plan->kernels->flash_tile(&(attn_flash_tile){
        .rows = walk->rows,
        .keys = count,
        .head_dim = problem->head_dim,
        .value_dim = problem->value_dim,
        .query = w->query,
        .key = w->packed_keys + first * problem->head_dim,
        .value = w->packed_values + first * plan->kernels->nr,
        .value_panel_stride = w->value_panel_stride,
        .ops = plain ? NULL : &ops,
        .row_max = w->row_max,
        .row_sum = w->row_sum,
        .acc = w->acc,
        .scratch = w->scratch,
    });
    walk->counts.pairs_executed += walk->rows * count;
    step->first = step->last;
    step->any_partial = false;
}

/* Gathers the runs' tiles into steps. What depends on data is known only now. */
static void visit(flash_walk *walk, const attn_run *runs, int64_t count) {
    const int64_t most = walk->plan->kernels->key_block / walk->plan->key_tile;
    const int64_t tiles = attn_view_tiles(&walk->view);
    flash_step step = {0};
    for (int64_t k = 0; k < count; k++) {
        for (int64_t tile = runs[k].first; tile < attn_min(runs[k].last, tiles); tile++) {
            if (tile != step.last || step.last - step.first == most) {
                take_step(walk, &step);
                step.first = step.last = tile;
            }
            attn_tile_kind kind = runs[k].kind;
            int64_t attended = 0;
            if (attn_flash_needs_bits(&walk->view, kind))
                kind = mask_tile(walk, tile, tile - step.first, &attended);
            else
                attended = walk->rows * attn_tile_keys(&walk->view, tile);
            walk->counts.pairs_useful += attended;
            if (kind == ATTN_TILE_ABSENT)
                continue; /* the next tile is no neighbour: a new step begins there */
            if (kind == ATTN_TILE_FULL)
                walk->counts.tiles_full++;
            else
                walk->counts.tiles_partial++;
            step.partial[tile - step.first] = kind == ATTN_TILE_PARTIAL;
            step.any_partial |= kind == ATTN_TILE_PARTIAL;
            step.last++;
        }
    }
    take_step(walk, &step);
}

static void start(const flash_walk *walk) {
    const attn_plan *plan = walk->plan;
    const attn_problem *problem = &plan->problem;
    flash_workspace *w = walk->w;
    for (int64_t r = 0; r < plan->query_tile; r++) {
        w->row_max[r] = -INFINITY;
        w->row_sum[r] = 0;
    }
    memset(w->acc, 0,
           (size_t)(plan->query_tile * attn_round_up(problem->value_dim, plan->kernels->nr)) * sizeof(float));
    plan->kernels->pack_a(
        w->query, attn_at(&walk->tensors->q, problem->dtype, walk->batch, walk->view.head, walk->row),
        problem->dtype, walk->tensors->q.row_stride, walk->rows, problem->head_dim, plan->scale);
}

/* A sink logit is a key without a value that comes first: its weight is exp(sink - sink) = 1. */
static void start_from_sink(const flash_walk *walk) {
    const float sink = walk->tensors->sink_logits ? walk->tensors->sink_logits[walk->view.head] : -INFINITY;
    for (int64_t r = 0; r < walk->rows && sink != -INFINITY; r++) {
        walk->w->row_max[r] = sink;
        walk->w->row_sum[r] = 1.0f; /* a sink of NaN or +inf makes NaN of the row by its maximum */
    }
}

static void finish_rows(const flash_walk *walk, const attn_run *runs, int64_t count) {
    const attn_plan *plan = walk->plan;
    const attn_problem *problem = &plan->problem;
    const attn_tensors *t = walk->tensors;
    const flash_workspace *w = walk->w;
    if (problem->value_dim > 0)
        plan->kernels->flash_finish(walk->rows, problem->value_dim, w->acc, w->row_sum,
                                    attn_out_row(t, walk->batch, walk->view.head, walk->row),
                                    t->out_row_stride);
    attn_write_lse(&walk->view, t, walk->batch, walk->row, walk->rows, w->row_max, w->row_sum);
    for (int64_t k = 0; k < count; k++)
        for (int64_t tile = runs[k].first; tile < runs[k].last; tile++)
            if (w->packed[tile] && w->not_finite[tile])
                attn_repair_values(&walk->view, t, walk->batch, walk->row, walk->rows, tile * plan->key_tile,
                                   tile * plan->key_tile + attn_tile_keys(&walk->view, tile));
    attn_repair_sink(&walk->view, t, walk->batch, walk->row, walk->rows);
}

static flash_walk walk_of(const attn_plan *plan, const attn_tensors *tensors, flash_workspace *w,
                          int64_t batch, int64_t head, int64_t query_tile) {
    const attn_problem *problem = &plan->problem;
    return (flash_walk){
        .plan = plan,
        .tensors = tensors,
        .w = w,
        .view = attn_view_of(plan, tensors, batch, head),
        .batch = batch,
        .kv_head = head / attn_group(problem),
        .row = query_tile * plan->query_tile,
        .rows = attn_tile_rows(plan, query_tile),
        .slope = tensors->alibi_slopes ? tensors->alibi_slopes[head] : 0,
    };
}

void attn_flash(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int64_t first,
                int64_t last) {
    const attn_problem *problem = &plan->problem;
    attn_cursor cursor = {.memory = workspace};
    flash_workspace w = cut_workspace(plan, &cursor);
    attn_counts total = {0};
    int64_t packed_for = -1; /* which (batch, key/value head) the packed keys belong to */
    for (int64_t unit = first; unit < last; unit++) {
        const int64_t tile = unit % plan->query_tiles, head = unit / plan->query_tiles % problem->heads;
        const int64_t batch = unit / plan->query_tiles / problem->heads;
        flash_walk walk = walk_of(plan, tensors, &w, batch, head, tile);
        if (packed_for != batch * problem->kv_heads + walk.kv_head) {
            memset(w.packed, 0, (size_t)plan->key_tiles);
            packed_for = batch * problem->kv_heads + walk.kv_head;
        }
        int64_t count;
        const attn_run *runs = attn_plan_tile_runs(plan, &walk.view, tile, w.run_scratch, w.runs, &count);
        start(&walk);
        start_from_sink(&walk);
        visit(&walk, runs, count);
        finish_rows(&walk, runs, count);
        attn_counts_add(&total, &walk.counts, 1);
    }
    attn_counts_publish(tensors, &total);
}
