/* Few queries against many keys, as in generation: too few rows to share out, so the keys are.
 *
 * Each split of the keys gives a partial result (maximum, sum, accumulator) and the partial results are
 * merged in the order of the keys. How the keys are cut depends on the problem alone, so the result is
 * bitwise the same on any number of threads. A split that attends nothing counts for nothing.
 * Method: "Flash-Decoding", Dao, Haziza, Massa, Sizov, 2023. */
#include "attention/flash.h"

#include <string.h>

/* Partial results kept at a time, at least those of all query heads of one (batch, key/value head): enough
 * for the largest number of threads. */
#define MOST_PARTIALS ATTN_MAX_THREADS

/* The partial result of one split of one (batch, head), all of its rows. */
typedef struct partial {
    float *row_max, *row_sum; /* Nq */
    float *acc;               /* Nq x round_up(Dv, nr) */
    uint8_t *not_finite;      /* one flag: some value in the split is NaN or Inf */
} partial;

typedef struct decode_workspace {
    flash_workspace flash;
    int64_t wave; /* (batch, key/value head)s whose partials are kept at a time */
    char *partials;
    int64_t partial_bytes;
} decode_workspace;

static partial cut_partial(const attn_plan *plan, attn_cursor *cursor) {
    const attn_problem *problem = &plan->problem;
    const int64_t f32 = sizeof(float);
    partial p;
    p.row_max = attn_take(cursor, problem->queries * f32);
    p.row_sum = attn_take(cursor, problem->queries * f32);
    p.acc = attn_take(cursor, problem->queries * attn_round_up(problem->value_dim, plan->kernels->nr) * f32);
    p.not_finite = attn_take(cursor, 1);
    return p;
}

static decode_workspace cut_workspace(const attn_plan *plan, attn_cursor *cursor) {
    const attn_problem *problem = &plan->problem;
    const int64_t group = attn_group(problem);
    decode_workspace w = {.flash = attn_flash_cut(plan, plan->split_tiles, cursor)};
    w.wave =
        attn_max(1, attn_min(MOST_PARTIALS / (plan->splits * group), problem->batch * problem->kv_heads));
    attn_cursor one = {0};
    cut_partial(plan, &one);
    w.partial_bytes = one.bytes;
    w.partials = attn_take(cursor, w.wave * group * plan->splits * w.partial_bytes);
    return w;
}

int64_t attn_decode_workspace(const attn_plan *plan) {
    attn_cursor count = {0};
    cut_workspace(plan, &count);
    return count.bytes;
}

/* Slot `slot` of (wave's head, split): heads of a wave in order, all splits of one after another. */
static partial partial_at(const attn_plan *plan, const decode_workspace *w, int64_t slot) {
    attn_cursor cursor = {.memory = w->partials + slot * w->partial_bytes};
    return cut_partial(plan, &cursor);
}

/* One split for query heads [head, head + heads) of a batch, which share their keys and values; the first
 * goes to slot `slot`. */
static void run_split(const attn_plan *plan, const attn_tensors *tensors, decode_workspace *own,
                      const decode_workspace *shared, int64_t batch, int64_t head, int64_t heads,
                      int64_t split, int64_t slot) {
    const attn_problem *problem = &plan->problem;
    flash_workspace *w = &own->flash;
    attn_counts total = {0};
    w->first_tile = split * plan->split_tiles;
    memset(w->packed, 0, (size_t)w->tiles);
    for (int64_t h = head; h < head + heads; h++) {
        flash_walk walk = attn_flash_walk(plan, tensors, w, batch, h, 0);
        const partial p = partial_at(plan, shared, slot + (h - head) * plan->splits + split);
        int64_t count;
        const attn_run *runs = attn_plan_tile_runs(plan, &walk.view, 0, w->run_scratch, w->runs, &count);
        attn_flash_start(&walk);
        attn_flash_visit(&walk, runs, count);
        memcpy(p.row_max, w->row_max, (size_t)problem->queries * sizeof(float));
        memcpy(p.row_sum, w->row_sum, (size_t)problem->queries * sizeof(float));
        memcpy(p.acc, w->acc,
               (size_t)(problem->queries * attn_round_up(problem->value_dim, plan->kernels->nr)) *
                   sizeof(float));
        *p.not_finite = 0;
        for (int64_t tile = 0; tile < w->tiles; tile++)
            *p.not_finite |= w->packed[tile] && w->not_finite[tile];
        attn_counts_add(&total, &walk.counts, 1);
    }
    attn_counts_publish(tensors, &total);
}

/* e^x by the level's exponential. */
static float exp_of(const attn_plan *plan, float x) {
    float e;
    plan->kernels->exp(&e, &x, 1);
    return e;
}

/* Merges row r of the splits: its output into acc of the first partial, its maximum and sum likewise. */
static void merge_row(const attn_plan *plan, const decode_workspace *w, int64_t slot, float sink, int64_t r) {
    const int64_t columns = attn_round_up(plan->problem.value_dim, plan->kernels->nr);
    const partial into = partial_at(plan, w, slot);
    float most = sink;
    for (int64_t s = 0; s < plan->splits; s++)
        most = fmaxf(most, partial_at(plan, w, slot + s).row_max[r]);
    /* Where nothing is attended at all every maximum is -inf: each weight is then 0, not exp(nan). */
    const float reference = most == -INFINITY ? 0 : most;
    float sum = 0;
    if (sink != -INFINITY)
        sum = exp_of(plan, sink - reference);
    for (int64_t s = 0; s < plan->splits; s++) {
        const partial from = partial_at(plan, w, slot + s);
        const float weight = exp_of(plan, from.row_max[r] - reference);
        sum += weight * from.row_sum[r];
        for (int64_t c = 0; c < columns; c++) {
            const float before = s == 0 ? 0 : into.acc[r * columns + c];
            into.acc[r * columns + c] = before + weight * from.acc[r * columns + c];
        }
    }
    into.row_max[r] = most;
    into.row_sum[r] = sum;
}

static void merge(const attn_plan *plan, const attn_tensors *tensors, const decode_workspace *w,
                  int64_t batch, int64_t head, int64_t slot) {
    const attn_problem *problem = &plan->problem;
    const float sink = tensors->sink_logits ? tensors->sink_logits[head] : -INFINITY;
    const partial into = partial_at(plan, w, slot);
    const flash_walk walk = attn_flash_walk(plan, tensors, NULL, batch, head, 0);
    for (int64_t r = 0; r < problem->queries; r++)
        merge_row(plan, w, slot, sink, r);
    if (problem->value_dim > 0)
        plan->kernels->flash_finish(problem->queries, problem->value_dim, into.acc, into.row_sum,
                                    attn_out_row(tensors, batch, head, 0), tensors->out_row_stride);
    attn_flash_lse(&walk, into.row_max, into.row_sum);
    for (int64_t s = 0; s < plan->splits; s++) {
        const int64_t first = s * plan->split_tiles * plan->key_tile;
        const int64_t last = attn_min(first + plan->split_tiles * plan->key_tile, walk.view.keys);
        if (*partial_at(plan, w, slot + s).not_finite)
            attn_repair_values(&walk.view, tensors, batch, 0, problem->queries, first, last);
    }
    attn_repair_sink(&walk.view, tensors, batch, 0, problem->queries);
}

void attn_decode(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int64_t first,
                 int64_t last) {
    const attn_problem *problem = &plan->problem;
    const int64_t group = attn_group(problem);
    attn_cursor cursor = {.memory = workspace};
    decode_workspace w = cut_workspace(plan, &cursor);
    for (int64_t unit = first; unit < last;) {
        /* The part's heads that share keys and values go together. */
        const int64_t batch = unit / problem->heads, head = unit % problem->heads;
        const int64_t heads = attn_min(group - head % group, last - unit);
        for (int64_t split = 0; split < plan->splits; split++)
            run_split(plan, tensors, &w, &w, batch, head, heads, split, 0);
        for (int64_t h = 0; h < heads; h++)
            merge(plan, tensors, &w, batch, head + h, h * plan->splits);
        unit += heads;
    }
}

/* Steps come in pairs, the splits of a wave and their merging. */
typedef struct wave {
    int64_t first, count; /* (batch, key/value head)s */
} wave;

static wave wave_of(const attn_plan *plan, const decode_workspace *w, int64_t step) {
    const int64_t all = plan->problem.batch * plan->problem.kv_heads, first = step / 2 * w->wave;
    return (wave){first, attn_max(0, attn_min(w->wave, all - first))};
}

int64_t attn_decode_tasks(const attn_plan *plan, int64_t step) {
    attn_cursor count = {0};
    const decode_workspace w = cut_workspace(plan, &count);
    if (step / 2 > plan->problem.batch * plan->problem.kv_heads) /* and no product overflows */
        return 0;
    const int64_t group = attn_group(&plan->problem);
    return wave_of(plan, &w, step).count * (step % 2 == 0 ? plan->splits : group);
}

void attn_decode_task(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int thread,
                      int64_t step, int64_t task) {
    const attn_problem *problem = &plan->problem;
    const int64_t group = attn_group(problem);
    attn_cursor shared_at = {.memory = workspace};
    attn_cursor own_at = {.memory = (char *)workspace + thread * plan->info.workspace_bytes};
    const decode_workspace shared = cut_workspace(plan, &shared_at);
    const wave at = wave_of(plan, &shared, step);
    if (step % 2 == 0) {
        decode_workspace own = cut_workspace(plan, &own_at);
        const int64_t kv = at.first + task / plan->splits;
        run_split(plan, tensors, &own, &shared, kv / problem->kv_heads, kv % problem->kv_heads * group, group,
                  task % plan->splits, task / plan->splits * group * plan->splits);
    } else {
        const int64_t head = at.first * group + task;
        merge(plan, tensors, &shared, head / problem->heads, head % problem->heads, task * plan->splits);
    }
}
