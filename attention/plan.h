/* The plan: problem + kernels + algorithm + tiles. What the engine, `show` and the harness see of it. */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "kernels/kernels.h"

typedef enum attn_tile_kind { ATTN_TILE_ABSENT, ATTN_TILE_PARTIAL, ATTN_TILE_FULL } attn_tile_kind;

/* Kind of the tile `query_tile` x `key_tile` (indices) of query head `head`, and whether the pattern
 * attends a pair; both by the pattern alone, with the offset Nk - Nq. */
attn_tile_kind attn_plan_tile_kind(const attn_plan *plan, int64_t head, int64_t query_tile, int64_t key_tile);
bool attn_plan_attended(const attn_plan *plan, int64_t head, int64_t query, int64_t key);

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
