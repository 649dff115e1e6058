/* naive: the textbook stages, each over all rows of a (batch, head) before the next, with the n x n scores in
 * memory. What it costs is what attention costs without tiles; the products inside are the same kernels. */
#include "attention/internal.h"

#include <math.h>
#include <string.h>

/* A score and its key, ranked for topk. */
typedef struct ranked {
    float score;
    int64_t key;
} ranked;

typedef struct naive_workspace {
    float *scores; /* rows x Nk */
    float *packed_keys;
    float *packed_values;
    float *rows;                /* A panels of one query tile, of depth D or ATTN_STEP_DEPTH */
    float *row_max, *row_sum;   /* rows */
    uint64_t *mask;             /* one row's bits, with topk those of every row */
    float *bias;                /* one row */
    ranked *heap;               /* only with topk */
    int64_t mask_words;         /* words of a row */
    int64_t value_panel_stride; /* floats from one panel of values to the next */
} naive_workspace;

/* For `rows` rows of one head: no more than for more rows. */
static naive_workspace cut_workspace(const attn_plan *plan, int64_t rows, attn_cursor *cursor) {
    const attn_problem *problem = &plan->problem;
    const int64_t nr = plan->kernels->nr, keys = attn_round_up(problem->keys, nr);
    const int64_t f32 = sizeof(float);
    naive_workspace w = {
        .mask_words = attn_ceil_div(problem->keys, 64),
        .value_panel_stride = keys * nr,
    };
    const bool topk = problem->pattern.terms & ATTN_TOPK;
    w.scores = attn_take(cursor, rows * problem->keys * f32);
    w.packed_keys = attn_take(cursor, keys * problem->head_dim * f32);
    w.packed_values = attn_take(cursor, keys * attn_round_up(problem->value_dim, nr) * f32);
    w.rows = attn_take(cursor, plan->query_tile * attn_max(problem->head_dim, ATTN_STEP_DEPTH) * f32);
    w.row_max = attn_take(cursor, rows * f32);
    w.row_sum = attn_take(cursor, rows * f32);
    w.mask = attn_take(cursor, (topk ? rows : 1) * w.mask_words * (int64_t)sizeof(uint64_t));
    if (problem->inputs & ATTN_HAS_BIAS)
        w.bias = attn_take(cursor, problem->keys * f32);
    if (topk)
        w.heap = attn_take(cursor, attn_min(problem->pattern.topk, problem->keys) * (int64_t)sizeof(ranked));
    return w;
}

int64_t attn_naive_workspace(const attn_plan *plan, int64_t rows) {
    attn_cursor count = {0};
    cut_workspace(plan, rows, &count);
    return count.bytes;
}

/* Rows [row, row + rows) of one (batch, head). Row r of the scores is row `row + r` of the queries. */
typedef struct naive_rows {
    const attn_plan *plan;
    const attn_tensors *tensors;
    naive_workspace w;
    attn_view view;
    int64_t batch, kv_head;
    int64_t row, rows;
    int64_t attended;   /* pairs, counted by stage_mask */
    int64_t candidates; /* pairs that topk chooses among; 0 without it */
} naive_rows;

static float *score_row(const naive_rows *n, int64_t r) {
    return n->w.scores + r * n->plan->problem.keys;
}

static void pack_keys(const naive_rows *n) {
    const attn_problem *problem = &n->plan->problem;
    const attn_tensor *k = &n->tensors->k;
    n->plan->kernels->pack_bt(n->w.packed_keys, attn_at(k, problem->dtype, n->batch, n->kv_head, 0),
                              problem->dtype, k->row_stride, n->view.keys, problem->head_dim);
}

static void stage_qk(naive_rows *n) {
    const attn_problem *problem = &n->plan->problem;
    const attn_kernels *kernels = n->plan->kernels;
    const attn_tensor *q = &n->tensors->q;
    pack_keys(n);
    for (int64_t r = 0; r < n->rows; r += n->plan->query_tile) {
        const int64_t rows = attn_min(n->plan->query_tile, n->rows - r);
        kernels->pack_a(n->w.rows, attn_at(q, problem->dtype, n->batch, n->view.head, n->row + r),
                        problem->dtype, q->row_stride, rows, problem->head_dim, 1.0f);
        kernels->matmul(rows, n->view.keys, problem->head_dim, n->w.rows, n->w.packed_keys,
                        problem->head_dim * kernels->nr, score_row(n, r), problem->keys, false);
    }
}

static void stage_scale(naive_rows *n) {
    for (int64_t r = 0; r < n->rows; r++)
        n->plan->kernels->scale(score_row(n, r), n->view.keys, n->plan->scale);
}

/* NaN first, then from large to small, equal ones by the lower index. */
static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (isnan(x->score) != isnan(y->score))
        return isnan(x->score) ? -1 : 1;
    if (!isnan(x->score) && x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

/* Leaves of the attended keys in `bits` those with the K largest scores, with a heap of K in the workspace
 * whose root is the least of those kept. */
static void keep_topk(const float *scores, int64_t keys, int64_t topk, uint64_t *bits, ranked *heap) {
    int64_t kept = 0;
    for (int64_t j = 0; j < keys; j++) {
        if (!(bits[j / 64] >> (j % 64) & 1))
            continue;
        ranked next = {scores[j], j};
        int64_t at;
        if (kept < topk) { /* sift up */
            for (at = kept++; at > 0; at = (at - 1) / 2) {
                if (compare_ranked(&heap[(at - 1) / 2], &next) >= 0)
                    break;
                heap[at] = heap[(at - 1) / 2];
            }
        } else {
            if (compare_ranked(&next, &heap[0]) > 0) {
                bits[j / 64] &= ~((uint64_t)1 << (j % 64));
                continue;
            }
            bits[heap[0].key / 64] &= ~((uint64_t)1 << (heap[0].key % 64));
            for (at = 0;;) { /* sift down */
                int64_t child = 2 * at + 1;
                if (child >= kept)
                    break;
                if (child + 1 < kept && compare_ranked(&heap[child + 1], &heap[child]) > 0)
                    child++;
                if (compare_ranked(&heap[child], &next) <= 0)
                    break;
                heap[at] = heap[child];
                at = child;
            }
        }
        heap[at] = next;
    }
}

static const float *row_bias(const naive_rows *n, int64_t i) {
    const attn_view *view = &n->view;
    const float *bias = view->bias + i * view->bias_query_stride;
    if (view->bias_key_stride == 1)
        return bias;
    for (int64_t j = 0; j < view->keys; j++)
        n->w.bias[j] = bias[j * view->bias_key_stride];
    return n->w.bias;
}

static void stage_mask(naive_rows *n) {
    const attn_problem *problem = &n->plan->problem;
    const attn_kernels *kernels = n->plan->kernels;
    const bool topk = problem->pattern.terms & ATTN_TOPK;
    const float *slopes = n->tensors->alibi_slopes;
    const float slope = slopes ? slopes[n->view.head] : 0;
    const bool masked = attn_naive_kind(&n->view) == ATTN_TILE_PARTIAL;
    const bool adjusted = problem->softcap > 0 || slope != 0 || n->view.bias;
    if (!masked)
        n->attended = n->rows * n->view.keys;
    if (!masked && !adjusted)
        return;
    for (int64_t r = 0; r < n->rows; r++) {
        const int64_t i = n->row + r;
        float *scores = score_row(n, r);
        uint64_t *bits = n->w.mask + (topk ? r * n->w.mask_words : 0);
        if (masked)
            attn_row_bits_all(&n->view, i, 0, n->view.keys, bits);
        if (adjusted)
            kernels->adjust(scores, n->view.keys,
                            &(attn_score_ops){
                                .softcap = problem->softcap,
                                .slope = slope,
                                .distance = i + n->view.offset,
                                .bias = n->view.bias ? row_bias(n, i) : NULL,
                                .mask = masked && !topk ? bits : NULL,
                            });
        if (topk) {
            n->candidates += attn_count_bits(bits, n->view.keys);
            keep_topk(scores, n->view.keys, problem->pattern.topk, bits, n->w.heap);
        }
        if (masked && (topk || !adjusted))
            kernels->mask(scores, bits, n->view.keys);
        if (masked)
            n->attended += attn_count_bits(bits, n->view.keys);
    }
}

static void stage_softmax(naive_rows *n) {
    const float *sinks = n->tensors->sink_logits;
    const float sink = sinks ? sinks[n->view.head] : -INFINITY;
    for (int64_t r = 0; r < n->rows; r++)
        n->plan->kernels->softmax(score_row(n, r), n->view.keys, sink, &n->w.row_max[r], &n->w.row_sum[r]);
}

/* With topk, what a row attends is known only from its scores: the bits that stage_mask left. */
static void repair_topk(const naive_rows *n) {
    for (int64_t r = 0; r < n->rows; r++)
        for (int64_t j = 0; j < n->view.keys; j++)
            if (n->w.mask[r * n->w.mask_words + j / 64] >> (j % 64) & 1)
                attn_repair_values(&n->view, n->tensors, n->batch, n->row + r, 1, j, j + 1);
}

static void stage_pv(naive_rows *n) {
    const attn_problem *problem = &n->plan->problem;
    const attn_kernels *kernels = n->plan->kernels;
    const attn_tensors *t = n->tensors;
    const int64_t keys = n->view.keys;
    float *out = attn_out_row(t, n->batch, n->view.head, n->row);
    const bool not_finite = keys > 0 && problem->value_dim > 0 &&
                            kernels->pack_b(n->w.packed_values, n->w.value_panel_stride,
                                            attn_at(&t->v, problem->dtype, n->batch, n->kv_head, 0),
                                            problem->dtype, t->v.row_stride, keys, problem->value_dim, true);
    for (int64_t r = 0; r < n->rows && problem->value_dim > 0; r += n->plan->query_tile) {
        const int64_t rows = attn_min(n->plan->query_tile, n->rows - r);
        float *out_rows = out + r * t->out_row_stride;
        for (int64_t i = 0; i < rows; i++)
            memset(out_rows + i * t->out_row_stride, 0, (size_t)problem->value_dim * sizeof *out);
        for (int64_t k = 0; k < keys; k += ATTN_STEP_DEPTH) {
            const int64_t depth = attn_min(ATTN_STEP_DEPTH, keys - k);
            kernels->pack_a(n->w.rows, score_row(n, r) + k, ATTN_F32, problem->keys, rows, depth, 1.0f);
            kernels->matmul(rows, problem->value_dim, depth, n->w.rows, n->w.packed_values + k * kernels->nr,
                            n->w.value_panel_stride, out_rows, t->out_row_stride, k > 0);
        }
    }
    if (not_finite && (problem->pattern.terms & ATTN_TOPK))
        repair_topk(n);
    else if (not_finite)
        attn_repair_values(&n->view, t, n->batch, n->row, n->rows, 0, keys);
    attn_write_lse(&n->view, t, n->batch, n->row, n->rows, n->w.row_max, n->w.row_sum);
    attn_repair_sink(&n->view, t, n->batch, n->row, n->rows);
}

static void (*const stages[ATTN_STAGE_COUNT])(naive_rows *) = {
    [ATTN_STAGE_QK] = stage_qk,           [ATTN_STAGE_SCALE] = stage_scale, [ATTN_STAGE_MASK] = stage_mask,
    [ATTN_STAGE_SOFTMAX] = stage_softmax, [ATTN_STAGE_PV] = stage_pv,
};

const char *attn_stage_name(attn_stage stage) {
    static const char *const names[ATTN_STAGE_COUNT] = {
        [ATTN_STAGE_QK] = "qk",           [ATTN_STAGE_SCALE] = "scale", [ATTN_STAGE_MASK] = "mask",
        [ATTN_STAGE_SOFTMAX] = "softmax", [ATTN_STAGE_PV] = "pv",
    };
    return stage >= 0 && stage < ATTN_STAGE_COUNT ? names[stage] : NULL;
}

static naive_rows rows_of(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int64_t batch,
                          int64_t head, int64_t row, int64_t rows) {
    return (naive_rows){
        .plan = plan,
        .tensors = tensors,
        .w = cut_workspace(plan, rows, &(attn_cursor){.memory = workspace}),
        .view = attn_view_of(plan, tensors, batch, head),
        .batch = batch,
        .kv_head = head / attn_group(&plan->problem),
        .row = row,
        .rows = rows,
    };
}

void attn_naive_stage(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int64_t batch,
                      int64_t head, attn_stage stage) {
    naive_rows n = rows_of(plan, tensors, workspace, batch, head, 0, plan->problem.queries);
    stages[stage](&n);
}

void attn_naive(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int64_t first,
                int64_t last) {
    const int64_t tiles = plan->query_tiles, heads = plan->problem.heads;
    attn_counts total = {0};
    for (int64_t unit = first; unit < last;) {
        /* All of the part's units that belong to one (batch, head) go through the stages together. */
        const int64_t whole = unit / tiles, end = attn_min(last, (whole + 1) * tiles);
        const int64_t row = (unit % tiles) * plan->query_tile;
        const int64_t row_end = attn_min((end - whole * tiles) * plan->query_tile, plan->problem.queries);
        naive_rows n = rows_of(plan, tensors, workspace, whole / heads, whole % heads, row, row_end - row);
        for (int stage = 0; stage < ATTN_STAGE_COUNT; stage++)
            stages[stage](&n);
        total.pairs_useful += n.attended;
        total.pairs_executed += plan->problem.pattern.terms & ATTN_TOPK ? n.candidates : n.rows * n.view.keys;
        *(attn_naive_kind(&n.view) == ATTN_TILE_PARTIAL ? &total.tiles_partial : &total.tiles_full) +=
            (end - unit) * attn_view_tiles(&n.view);
        unit = end;
    }
    attn_counts_publish(tensors, &total);
}
