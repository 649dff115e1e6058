/* Few queries against many keys, as in generation: too few rows to share out, so the keys are.
 *
 * Each split of the keys gives a partial result (maximum, sum, accumulator) and the partial results are
 * merged in the order of the keys. How the keys are cut depends on the problem alone, so the result is
 * bitwise the same on any number of threads. A split that attends nothing counts for nothing.
 * Method: "Flash-Decoding", Dao, Haziza, Massa, Sizov, 2023. */
#include "attention/internal.h"

#include <string.h>

/* Partial results of query heads kept at a time, at least those of all that share one (batch, key/value
 * head). */
#define MOST_PARTIALS ATTN_MAX_THREADS

/* The partial result of one split of one (batch, key/value head): rows of all query heads that share it,
 * those of one after the other's. */
typedef struct partial {
    float *row_max, *row_sum; /* group x Nq */
    float *acc;               /* group x Nq x round_up(Dv, nr) */
    uint8_t *not_finite;      /* one flag: some value in the split is NaN or Inf */
} partial;

typedef struct decode_workspace {
    int64_t wave; /* (batch, key/value head)s whose partials are kept at a time */
    char *partials;
    int64_t partial_bytes;
    /* Of the heads that go through the kernel together, `stack` at most. */
    int64_t stack;
    attn_score_ops *ops;  /* of each head */
    float *query;         /* stack x Nq x round_up(D, lanes) */
    float *product;       /* stack x Nq x round_up(Dv, nr) */
    float *scratch;       /* the kernel's */
    float *bias;          /* Nq x key_tile; only with a bias */
    uint64_t *mask;       /* Nq words */
    int64_t *run_scratch; /* only when runs are made at execution */
    attn_run *runs;       /* likewise */
} decode_workspace;

static int64_t acc_columns(const attn_plan *plan) {
    return attn_round_up(plan->problem.value_dim, plan->kernels->nr);
}

static partial cut_partial(const attn_plan *plan, attn_cursor *cursor) {
    const int64_t rows = attn_group(&plan->problem) * plan->problem.queries;
    const int64_t f32 = sizeof(float);
    partial p;
    p.row_max = attn_take(cursor, rows * f32);
    p.row_sum = attn_take(cursor, rows * f32);
    p.acc = attn_take(cursor, rows * acc_columns(plan) * f32);
    p.not_finite = attn_take(cursor, 1);
    return p;
}

static decode_workspace cut_workspace(const attn_plan *plan, attn_cursor *cursor) {
    const attn_problem *problem = &plan->problem;
    const attn_kernels *kernels = plan->kernels;
    const int64_t group = attn_group(problem), f32 = sizeof(float);
    decode_workspace w = {
        .wave =
            attn_max(1, attn_min(MOST_PARTIALS / (plan->splits * group), problem->batch * problem->kv_heads)),
        /* Heads whose blocks differ visit tiles of their own. */
        .stack = plan->heads_distinct > 1 ? 1 : attn_min(group, kernels->query_tile / problem->queries),
    };
    const int64_t rows = w.stack * problem->queries;
    w.ops = attn_take(cursor, w.stack * (int64_t)sizeof *w.ops);
    w.query = attn_take(cursor, rows * attn_round_up(problem->head_dim, kernels->lanes) * f32);
    w.product = attn_take(cursor, rows * acc_columns(plan) * f32);
    w.scratch = attn_take(cursor, kernels->flash_scratch * f32);
    w.mask = attn_take(cursor, problem->queries * (int64_t)sizeof *w.mask);
    if (problem->inputs & ATTN_HAS_BIAS)
        w.bias = attn_take(cursor, problem->queries * plan->key_tile * f32);
    if (!plan->runs) {
        w.run_scratch = attn_take(cursor, attn_runs_scratch(plan) * (int64_t)sizeof(int64_t));
        w.runs = attn_take(cursor, attn_runs_limit(plan, false) * (int64_t)sizeof(attn_run));
    }
    attn_cursor one = {0};
    cut_partial(plan, &one);
    w.partial_bytes = one.bytes;
    w.partials = attn_take(cursor, w.wave * plan->splits * w.partial_bytes);
    return w;
}

int64_t attn_decode_workspace(const attn_plan *plan) {
    attn_cursor count = {0};
    cut_workspace(plan, &count);
    return count.bytes;
}

/* Slot `slot` of (wave's key/value head, split): all splits of one after another. */
static partial partial_at(const attn_plan *plan, const decode_workspace *w, int64_t slot) {
    attn_cursor cursor = {.memory = w->partials + slot * w->partial_bytes};
    return cut_partial(plan, &cursor);
}

/* Query heads [head, head + heads) of a batch, which attend the same keys and go through the kernel together:
 * rows of one after the other's. */
typedef struct stack {
    const attn_plan *plan;
    const attn_tensors *tensors;
    decode_workspace *w;
    attn_view view; /* of the first, and of all */
    int64_t batch, head, heads;
    partial p;          /* of their first row on */
    attn_counts counts; /* of one head */
} stack;

/* Whether a mask or a bias may differ from head to head: each is then visited on its own, and its tiles are
 * those that it attends. */
static bool heads_differ(const attn_tensors *tensors) {
    return (tensors->mask && tensors->mask_strides[1] != 0) ||
           (tensors->bias && tensors->bias_strides[1] != 0);
}

/* The queries, times the scale, as rows of whole vectors. */
static void load_queries(const stack *s) {
    const attn_problem *problem = &s->plan->problem;
    const attn_kernels *kernels = s->plan->kernels;
    const int64_t stride = attn_round_up(problem->head_dim, kernels->lanes);
    for (int64_t r = 0; r < s->heads * problem->queries; r++) {
        float *to = s->w->query + r * stride;
        kernels->widen(to,
                       attn_at(&s->tensors->q, problem->dtype, s->batch, s->head + r / problem->queries,
                               r % problem->queries),
                       problem->dtype, problem->head_dim);
        kernels->scale(to, problem->head_dim, s->plan->scale);
        memset(to + problem->head_dim, 0, (size_t)(stride - problem->head_dim) * sizeof *to);
    }
}

/* Makes the mask of a tile, a word for each query, and counts what is attended. */
static attn_tile_kind mask_tile(stack *s, int64_t first, int64_t count) {
    const uint64_t ones = attn_low_bits(count);
    uint64_t some = 0, all = ones;
    for (int64_t i = 0; i < s->plan->problem.queries; i++) {
        uint64_t *bits = &s->w->mask[i];
        attn_row_bits_all(&s->view, i, first, count, bits);
        some |= *bits;
        all &= *bits;
        s->counts.pairs_useful += __builtin_popcountll(*bits);
    }
    return attn_kind_of(some, all, ones);
}

/* What the scores of each head meet in a tile; NULL where that is nothing. */
static const attn_score_ops *tile_ops(const stack *s, int64_t first, int64_t count, bool masked) {
    const attn_problem *problem = &s->plan->problem;
    if (!masked && !s->view.bias && !s->tensors->alibi_slopes && problem->softcap == 0)
        return NULL;
    attn_score_ops ops = {
        .softcap = problem->softcap,
        .distance = s->view.offset - first,
        .mask = masked ? s->w->mask : NULL,
        .mask_words = 1,
    };
    if (s->view.bias)
        ops.bias = attn_tile_bias(&s->view, 0, problem->queries, first, count, s->w->bias, &ops.bias_stride);
    for (int64_t h = 0; h < s->heads; h++) {
        s->w->ops[h] = ops;
        if (s->tensors->alibi_slopes)
            s->w->ops[h].slope = s->tensors->alibi_slopes[s->head + h];
    }
    return s->w->ops;
}

static void visit_tile(stack *s, int64_t tile, attn_tile_kind kind) {
    const attn_plan *plan = s->plan;
    const attn_problem *problem = &plan->problem;
    const attn_tensors *t = s->tensors;
    const int64_t first = tile * plan->key_tile, count = attn_tile_keys(&s->view, tile);
    const int64_t kv_head = s->head / attn_group(problem);
    if (attn_flash_needs_bits(&s->view, kind))
        kind = mask_tile(s, first, count);
    else
        s->counts.pairs_useful += problem->queries * count;
    if (kind == ATTN_TILE_ABSENT)
        return;
    if (kind == ATTN_TILE_FULL)
        s->counts.tiles_full++;
    else
        s->counts.tiles_partial++;
    s->counts.pairs_executed += problem->queries * count;
    const int64_t next = first + count < s->view.keys ? first + count : first; /* fetched in any case */
    *s->p.not_finite |= plan->kernels->decode_tile(&(attn_decode_tile){
        .rows = s->heads * problem->queries,
        .keys = count,
        .head_dim = problem->head_dim,
        .value_dim = problem->value_dim,
        .dtype = problem->dtype,
        .query = s->w->query,
        .key = attn_at(&t->k, problem->dtype, s->batch, kv_head, first),
        .value = attn_at(&t->v, problem->dtype, s->batch, kv_head, first),
        .key_stride = t->k.row_stride,
        .value_stride = t->v.row_stride,
        .next_key = attn_at(&t->k, problem->dtype, s->batch, kv_head, next),
        .next_keys = s->view.keys - next,
        .ops = tile_ops(s, first, count, kind == ATTN_TILE_PARTIAL),
        .ops_rows = problem->queries,
        .row_max = s->p.row_max,
        .row_sum = s->p.row_sum,
        .acc = s->p.acc,
        .scratch = s->w->scratch,
        .product = s->w->product,
    });
}

/* One split for query heads [head, head + heads) of a batch, which share their keys and values, into `into`.
 */
static void run_split(const attn_plan *plan, const attn_tensors *tensors, decode_workspace *own, partial into,
                      int64_t batch, int64_t head, int64_t heads, int64_t split) {
    const attn_problem *problem = &plan->problem;
    const int64_t together = heads_differ(tensors) ? 1 : own->stack;
    attn_counts total = {0};
    *into.not_finite = 0;
    for (int64_t done = 0; done < heads; done += together) {
        const int64_t row = done * problem->queries;
        stack s = {
            .plan = plan,
            .tensors = tensors,
            .w = own,
            .view = attn_view_of(plan, tensors, batch, head + done),
            .batch = batch,
            .head = head + done,
            .heads = attn_min(together, heads - done),
            .p = {into.row_max + row, into.row_sum + row, into.acc + row * acc_columns(plan),
                  into.not_finite},
        };
        const int64_t rows = s.heads * problem->queries;
        for (int64_t r = 0; r < rows; r++) {
            s.p.row_max[r] = -INFINITY;
            s.p.row_sum[r] = 0;
        }
        memset(s.p.acc, 0, (size_t)(rows * acc_columns(plan)) * sizeof(float));
        load_queries(&s);
        int64_t count;
        const attn_run *runs = attn_plan_tile_runs(plan, &s.view, 0, own->run_scratch, own->runs, &count);
        const int64_t begin = split * plan->split_tiles;
        const int64_t end = attn_min(begin + plan->split_tiles, attn_view_tiles(&s.view));
        for (int64_t k = 0; k < count; k++)
            for (int64_t tile = attn_max(runs[k].first, begin); tile < attn_min(runs[k].last, end); tile++)
                visit_tile(&s, tile, runs[k].kind);
        attn_counts_add(&total, &s.counts, s.heads);
    }
    attn_counts_publish(tensors, &total);
}

/* e^x by the level's exponential. */
static float exp_of(const attn_plan *plan, float x) {
    float e;
    plan->kernels->exp(&e, &x, 1);
    return e;
}

/* Merges row r of the splits from slot `slot` on: its output into acc of the first partial, its maximum and
 * sum likewise. */
static void merge_row(const attn_plan *plan, const decode_workspace *w, int64_t slot, float sink, int64_t r) {
    const int64_t columns = acc_columns(plan);
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

/* Merges the splits of a head, whose rows in the partials begin at `row`. */
static void merge(const attn_plan *plan, const attn_tensors *tensors, const decode_workspace *w,
                  int64_t batch, int64_t head, int64_t slot, int64_t row) {
    const attn_problem *problem = &plan->problem;
    const float sink = tensors->sink_logits ? tensors->sink_logits[head] : -INFINITY;
    const partial into = partial_at(plan, w, slot);
    const attn_view view = attn_view_of(plan, tensors, batch, head);
    for (int64_t r = row; r < row + problem->queries; r++)
        merge_row(plan, w, slot, sink, r);
    if (problem->value_dim > 0)
        plan->kernels->flash_finish(problem->queries, problem->value_dim, into.acc + row * acc_columns(plan),
                                    into.row_sum + row, attn_out_row(tensors, batch, head, 0),
                                    tensors->out_row_stride);
    attn_write_lse(&view, tensors, batch, 0, problem->queries, into.row_max + row, into.row_sum + row);
    for (int64_t s = 0; s < plan->splits; s++) {
        const int64_t first = s * plan->split_tiles * plan->key_tile;
        const int64_t last = attn_min(first + plan->split_tiles * plan->key_tile, view.keys);
        if (*partial_at(plan, w, slot + s).not_finite)
            attn_repair_values(&view, tensors, batch, 0, problem->queries, first, last);
    }
    attn_repair_sink(&view, tensors, batch, 0, problem->queries);
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
            run_split(plan, tensors, &w, partial_at(plan, &w, split), batch, head, heads, split);
        for (int64_t h = 0; h < heads; h++)
            merge(plan, tensors, &w, batch, head + h, 0, h * problem->queries);
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
        run_split(plan, tensors, &own, partial_at(plan, &shared, task), kv / problem->kv_heads,
                  kv % problem->kv_heads * group, group, task % plan->splits);
    } else {
        const int64_t head = at.first * group + task;
        merge(plan, tensors, &shared, head / problem->heads, head % problem->heads,
              task / group * plan->splits, task % group * problem->queries);
    }
}
