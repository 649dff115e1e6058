/* The plan: problem + kernels + algorithm + tiles. What the engine, `show` and the harness see of it. */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "kernels/kernels.h"

typedef enum attn_tile_kind { ATTN_TILE_ABSENT, ATTN_TILE_PARTIAL, ATTN_TILE_FULL } attn_tile_kind;

/* Keys that lie in tiles which some query attends, over all key/value heads of one batch: what of K and V has
 * to be read, whichever algorithm reads it. By the pattern alone, with the offset Nk - Nq. Negative when
 * there is no memory. */
int64_t attn_plan_keys_attended(const attn_plan *plan);

/* Calls `work` once on each of a team of 1 to `threads` threads, numbered from 0, tells it how many they are,
 * and returns when all have. */
typedef void attn_team_work(void *context, int thread, int team);
typedef void attn_team(int threads, attn_team_work *work, void *context);

/* attn_execute on a team of the caller's, which may be smaller than asked for: the result is the same. `used`
 * is how many threads did work, fewer too where there is less to share out. Teams are asked for no more
 * threads than have work. */
attn_status attn_execute_on(attn_team *team, const attn_plan *plan, const attn_tensors *tensors,
                            void *workspace, int threads, int *used, attn_error *error);

/* Adds so many times the counts. */
void attn_counts_add(attn_counts *total, const attn_counts *add, int64_t times);

/* ---- Looking at what an execution would visit, without executing ----
 * One (batch, head) of a plan. `tensors` brings the lengths, offsets, segments, mask and bias that the plan
 * was made with; nothing else of it is looked at, and NULL does for a plan without them. Plan and tensors
 * must outlive the look. NULL when there is no memory. */
typedef struct attn_look attn_look;
attn_look *attn_look_open(const attn_plan *plan, const attn_tensors *tensors, int64_t batch, int64_t head);
void attn_look_close(attn_look *look);
/* The kinds of all ceil(Nk / key_tile) key tiles of a query tile, as the algorithm visits them. */
void attn_look_tiles(attn_look *look, int64_t query_tile, attn_tile_kind *kinds);
/* Bit j of ceil(Nk / 64) words tells whether `query` attends key j (with topk: whether it may). */
void attn_look_row(attn_look *look, int64_t query, uint64_t *bits);
/* What attn_execute would add to its counts. */
attn_counts attn_look_count(attn_look *look);

/* The stages of `naive`, for one (batch, head), each working on what the one before left in
 * `workspace`; all of them in order are the algorithm. For timing each on its own. */
typedef enum attn_stage {
    ATTN_STAGE_QK,
    ATTN_STAGE_SCALE,
    ATTN_STAGE_MASK, /* and cap, ALiBi, bias, where the problem has them */
    ATTN_STAGE_SOFTMAX,
    ATTN_STAGE_PV,
    ATTN_STAGE_COUNT
} attn_stage;
const char *attn_stage_name(attn_stage stage);
void attn_naive_stage(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int64_t batch,
                      int64_t head, attn_stage stage);

#endif
