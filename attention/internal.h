/* What the files of attention/ share. */
#ifndef ATTN_INTERNAL_H
#define ATTN_INTERNAL_H

#include "attention/plan.h"
#include "dispatch/dispatch.h"

#include <math.h>

#define ATTN_ALIGN_BYTES 64

/* Keys of a tile, the grain of skipping: one word of a mask row, and two to four panels at every level. The
 * engine joins neighbouring tiles into kernel calls of up to key_block keys, so a small tile costs dense work
 * nothing, while a border of a window wastes at most this many keys. */
#define ATTN_KEY_TILE 64

/* Depth of a step of a product of any depth: a query tile of A, packed to this depth, is 96 KiB and stays in
 * the second cache while all of B goes by; matmul itself cuts a step into passes whose panels stay in the
 * first. Of whole passes, so that steps do not change the result. */
#define ATTN_STEP_DEPTH 512
_Static_assert(ATTN_STEP_DEPTH % ATTN_MATMUL_DEPTH == 0, "steps must be whole passes");

static inline int64_t attn_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t attn_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t attn_ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b > 0);
}
/* Rounds towards minus infinity; b > 0. */
static inline int64_t attn_floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}
static inline int64_t attn_round_up(int64_t a, int64_t b) {
    return attn_ceil_div(a, b) * b;
}
/* Sorts `count` items of one or two numbers each, by the first, then by the second. Without an allocation,
 * which qsort may make: executing must not. */
void attn_sort(int64_t *items, int64_t count, int numbers);

/* Bits that are set in the words of `count` bits. */
static inline int64_t attn_count_bits(const uint64_t *bits, int64_t count) {
    int64_t set = 0;
    for (int64_t word = 0; word < attn_ceil_div(count, 64); word++)
        set += __builtin_popcountll(bits[word]);
    return set;
}
/* The lowest `count` bits, 0 to 64. */
static inline uint64_t attn_low_bits(int64_t count) {
    return count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1;
}

/* ---- problem.c ---- */

/* ATTN_OK if the problem makes sense; otherwise says which argument is wrong. */
attn_status attn_problem_check(const attn_problem *problem, attn_error *error);
/* What is read or written element by element lies at a multiple of the element's size. */
attn_status attn_check_aligned(const char *name, const void *data, size_t bytes, attn_error *error);
/* The tensors that the problem needs are there, and lengths lie within their limits. */
attn_status attn_tensors_check(const attn_problem *problem, const attn_tensors *tensors, attn_error *error);
/* The scale in force: the given one or 1/sqrt(D). */
float attn_problem_scale(const attn_problem *problem);

/* ---- pattern.c ---- */

/* What is wrong with the terms together, whatever the numbers in them. */
attn_status attn_pattern_check_terms(const attn_pattern *pattern, attn_error *error);

/* ---- blocks.c: selections by blocks of queries and keys (random, blocks) ---- */

/* For each head map and block of queries, the selected blocks of keys in ascending order. */
typedef struct attn_blocks {
    int64_t size;  /* B */
    int64_t heads; /* 1: the same map for every head */
    int64_t query_blocks, key_blocks;
    int64_t *start; /* heads * query_blocks + 1 offsets into `index` */
    int64_t *index;
} attn_blocks;

attn_status attn_blocks_random(attn_blocks *blocks, const attn_problem *problem, attn_error *error);
attn_status attn_blocks_map(attn_blocks *blocks, const attn_problem *problem, attn_error *error);
void attn_blocks_free(attn_blocks *blocks);
/* The selected key blocks of query i: *count of them, ascending. */
const int64_t *attn_blocks_row(const attn_blocks *blocks, int64_t head, int64_t i, int64_t *count);

/* ---- attended.c: which pairs are attended ---- */

/* All that decides which pairs of one (batch, head) are attended. */
typedef struct attn_view {
    const attn_plan *plan;
    int64_t head;   /* for maps that differ by head */
    int64_t keys;   /* keys below this exist (kv_lens) */
    int64_t offset; /* query i stands at position i + offset */
    /* What depends on data; NULL where the problem has none. */
    const int64_t *segments;
    const uint8_t *mask;
    int64_t mask_query_stride, mask_key_stride;
    const float *bias;
    int64_t bias_query_stride, bias_key_stride;
} attn_view;

/* The view of the pattern alone, with the offset that the shapes give. */
attn_view attn_view_static(const attn_plan *plan, int64_t head);
attn_view attn_view_of(const attn_plan *plan, const attn_tensors *tensors, int64_t batch, int64_t head);
static inline bool attn_view_has_data(const attn_view *view) {
    return view->segments || view->mask || view->bias;
}

/* Keys [first, last). */
typedef struct attn_interval {
    int64_t first, last;
} attn_interval;

/* Keys that the restrictions leave to query i: always one interval (empty: first >= last). */
attn_interval attn_restriction(const attn_view *view, int64_t i);
/* Keys that the selections given by one interval each (window, sink, global) select for query i, clipped
 * to `within`; returns how many, at most ATTN_MAX_SELECTED. Empty ones are kept, so that the k-th entry is
 * the same term for every row. */
#define ATTN_MAX_SELECTED 3 /* one each of window, sink and global */
int attn_selected(const attn_view *view, int64_t i, attn_interval within, attn_interval *selected);
bool attn_has_selection(const attn_pattern *pattern);

/* Bit k of bits[] (ceil(count/64) words, bits past count clear) tells whether query i attends key first + k,
 * by all that decides it. */
void attn_row_bits_all(const attn_view *view, int64_t i, int64_t first, int64_t count, uint64_t *bits);

/* The bias of rows [row, row + rows) and keys [first, first + count) as rows of innermost stride 1, *stride
 * apart: the caller's own where it has that, else a copy in `copy`. */
const float *attn_tile_bias(const attn_view *view, int64_t row, int64_t rows, int64_t first, int64_t count,
                            float *copy, int64_t *stride);

/* Bit k: byte k of `count` <= 64 bytes, one every `stride`, is nonzero. */
uint64_t attn_nonzero_bits(const uint8_t *bytes, int64_t stride, int64_t count);

/* Kind of a tile from its rows' bits: `some` are set in a row, `all` in every one; `ones` stand for its keys.
 */
static inline attn_tile_kind attn_kind_of(uint64_t some, uint64_t all, uint64_t ones) {
    return !some ? ATTN_TILE_ABSENT : all == ones ? ATTN_TILE_FULL : ATTN_TILE_PARTIAL;
}
/* Kind of the tile of rows [row, row + rows) and at most 64 keys [first, first + count), looked at row by
 * row: by the pattern and kv_lens, or `with_data` too. */
attn_tile_kind attn_tile_by_bits(const attn_view *view, int64_t row, int64_t rows, int64_t first,
                                 int64_t count, bool with_data);

/* ---- runs.c: tiles ---- */

/* Key tiles [first, last) of one kind, for one tile of queries. */
typedef struct attn_run {
    int64_t first, last;
    attn_tile_kind kind;
} attn_run;

/* The runs of visited tiles (full or partial; neighbours differ in kind or are apart), ascending, for the
 * queries of tile `query_tile`, by the pattern. `runs` holds attn_runs_limit(plan, each_stride) entries.
 *
 * The tiles of a wide stride lie apart, as many as there are tiles, so they make no runs worth keeping: a
 * stretch of them is one partial run, whose empty tiles are left out when they are visited. With
 * `each_stride` they are told one by one, to be counted. */
int64_t attn_runs(const attn_view *view, int64_t query_tile, int64_t *scratch, attn_run *runs,
                  bool each_stride);
int64_t attn_runs_limit(const attn_plan *plan, bool each_stride);
/* int64_t elements of scratch that attn_runs needs, and attn_count_pairs. */
int64_t attn_runs_scratch(const attn_plan *plan);

/* ---- count.c ---- */

int64_t attn_count_scratch(const attn_plan *plan); /* no more than attn_runs_scratch */
/* Attended pairs of the view's pattern, exactly; those that topk chooses among, or those that it leaves. */
int64_t attn_count_pairs(const attn_view *view, int64_t *scratch, bool before_topk);

/* ---- plan.c ---- */

struct attn_plan {
    attn_problem problem; /* block_map is NULL here: see `blocks` */
    const attn_kernels *kernels;
    attn_algorithm algorithm;
    float scale;
    int64_t query_tile, key_tile; /* rows and keys of a tile; key_tile is ATTN_KEY_TILE */
    int64_t query_tiles, key_tiles;
    int64_t heads_distinct; /* 1, or H when a block map differs by head */
    attn_blocks random, blocks;

    /* Runs of each (distinct head, query tile) for flash, when the offset is known now; else NULL. */
    attn_run *runs;
    int64_t *run_start; /* heads_distinct * query_tiles + 1 */
    /* Cost of the query tiles before each one, heads_distinct * (query_tiles + 1). */
    int64_t *cost_before;
    /* Few queries against many keys: the keys are split, and splits computed side by side are merged.
     * The cut depends on the problem alone. 1: not split. */
    int64_t splits, split_tiles; /* splits of split_tiles key tiles each */
    attn_info info;
};

/* Runs of a query tile, for flash: stored ones, or computed into `runs` with `scratch` for a view whose
 * offset came at execution. */
const attn_run *attn_plan_tile_runs(const attn_plan *plan, const attn_view *view, int64_t query_tile,
                                    int64_t *scratch, attn_run *runs, int64_t *count);

/* A unit of work is one query tile of one (batch, head), numbered in that order. Part `part` of `parts` is
 * units [*first, *last). */
void attn_plan_part(const attn_plan *plan, int part, int parts, int64_t *first, int64_t *last);

/* ---- repair.c: what is not finite ---- */

/* The kernels take zero where V is NaN or Inf, so that masked pairs (weight 0) contribute nothing. This
 * adds each such value of keys [first, last) to the output rows [row, row + rows) that attend it: NaN gives
 * NaN, Inf gives Inf or NaN. */
void attn_repair_values(const attn_view *view, const attn_tensors *tensors, int64_t batch, int64_t row,
                        int64_t rows, int64_t first, int64_t last);
/* A sink logit of NaN or +inf has made NaN of the output rows [row, row + rows). Those that attend nothing
 * get what any sink logit gives them: zeros, and the logit as log-sum-exp. */
void attn_repair_sink(const attn_view *view, const attn_tensors *tensors, int64_t batch, int64_t row,
                      int64_t rows);

/* ---- execute.c ---- */

/* Adds what a part visited to tensors->counts, if there. */
void attn_counts_publish(const attn_tensors *tensors, const attn_counts *counts);

/* ---- algorithms ---- */

/* What the algorithms visit, and attn_look with them. */

/* Rows of a query tile; key tiles that hold keys of the view, and keys of one of them. */
static inline int64_t attn_tile_rows(const attn_plan *plan, int64_t query_tile) {
    return attn_min(plan->query_tile, plan->problem.queries - query_tile * plan->query_tile);
}
static inline int64_t attn_view_tiles(const attn_view *view) {
    return attn_ceil_div(view->keys, view->plan->key_tile);
}
static inline int64_t attn_tile_keys(const attn_view *view, int64_t tile) {
    return attn_min(view->plan->key_tile, view->keys - tile * view->plan->key_tile);
}
/* flash looks at a tile's bits where the plan's kind leaves them open: a tile that nobody attends is then
 * left out, and one that all rows attend needs no mask. */
static inline bool attn_flash_needs_bits(const attn_view *view, attn_tile_kind planned) {
    return planned == ATTN_TILE_PARTIAL || attn_view_has_data(view);
}
/* naive computes every pair and masks afterwards, where there is anything that could mask. */
static inline attn_tile_kind attn_naive_kind(const attn_view *view) {
    return view->plan->problem.pattern.terms || attn_view_has_data(view) ? ATTN_TILE_PARTIAL : ATTN_TILE_FULL;
}

/* Sizes in bytes of one call's workspace. For naive that of parts of at most `rows` rows of any head. */
int64_t attn_naive_workspace(const attn_plan *plan, int64_t rows);
int64_t attn_flash_workspace(const attn_plan *plan);
/* Execute units [first, last). */
void attn_naive(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int64_t first,
                int64_t last);
void attn_flash(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int64_t first,
                int64_t last);

/* ---- decode.c: few queries against many keys ---- */

int64_t attn_decode_workspace(const attn_plan *plan);
/* Executes units [first, last): whole (batch, head)s, one query tile each. */
void attn_decode(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int64_t first,
                 int64_t last);
/* The same in steps of tasks, splits side by side; bit for bit what attn_decode gives. `workspace` is that of
 * all threads. */
int64_t attn_decode_tasks(const attn_plan *plan, int64_t step);
void attn_decode_task(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int thread,
                      int64_t step, int64_t task);

/* Address of row 0 of a (batch, head) of a stored tensor, and of a row. */
static inline const void *attn_at(const attn_tensor *tensor, attn_dtype dtype, int64_t batch, int64_t head,
                                  int64_t row) {
    const int64_t element =
        batch * tensor->batch_stride + head * tensor->head_stride + row * tensor->row_stride;
    return (const char *)tensor->data + element * (int64_t)attn_dtype_bytes(dtype);
}

/* Query heads that share a key/value head. */
static inline int64_t attn_group(const attn_problem *problem) {
    return problem->heads / problem->kv_heads;
}

static inline float *attn_lse_row(const attn_problem *problem, const attn_tensors *t, int64_t batch,
                                  int64_t head, int64_t row) {
    return t->lse + (batch * problem->heads + head) * problem->queries + row;
}

static inline float *attn_out_row(const attn_tensors *t, int64_t batch, int64_t head, int64_t row) {
    return t->out + batch * t->out_batch_stride + head * t->out_head_stride + row * t->out_row_stride;
}

/* Log-sum-exp from a row's maximum and sum of exponentials; -inf for a row that attends nothing. */
static inline float attn_lse(float row_max, float row_sum) {
    return row_sum == 0 ? -INFINITY : row_max + (float)log((double)row_sum);
}

/* Log-sum-exp of the output rows [row, row + rows), if wanted. */
static inline void attn_write_lse(const attn_view *view, const attn_tensors *t, int64_t batch, int64_t row,
                                  int64_t rows, const float *row_max, const float *row_sum) {
    if (!t->lse)
        return;
    float *lse = attn_lse_row(&view->plan->problem, t, batch, view->head, row);
    for (int64_t r = 0; r < rows; r++)
        lse[r] = attn_lse(row_max[r], row_sum[r]);
}

/* Where a workspace is being cut. Without memory nothing is cut, only counted: cutting and sizing are the
 * same text. */
typedef struct attn_cursor {
    char *memory; /* NULL: only count */
    int64_t bytes;
} attn_cursor;

/* The next `bytes` of the workspace, aligned. */
static inline void *attn_take(attn_cursor *cursor, int64_t bytes) {
    char *at = cursor->memory ? cursor->memory + cursor->bytes : NULL;
    cursor->bytes += attn_round_up(bytes, ATTN_ALIGN_BYTES);
    return at;
}

#endif
