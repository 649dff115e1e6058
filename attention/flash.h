/* What flash.c and decode.c share: a query tile's walk over runs of key tiles. */
#ifndef ATTN_FLASH_H
#define ATTN_FLASH_H

#include "attention/internal.h"

/* A tile's mask is one word of a row. */
_Static_assert(ATTN_KEY_TILE == 64, "a key tile is a word");
/* Most key tiles of one step of a kernel, at every level. */
#define MOST_STEP_TILES (ATTN_MOST_KEY_BLOCK / ATTN_KEY_TILE)

typedef struct flash_workspace {
    int64_t first_tile;         /* the key tile that the packed arrays begin with */
    int64_t tiles;              /* and how many there is room for */
    float *packed_keys;         /* tiles * key_tile x D */
    float *packed_values;       /* panels of tiles * key_tile rows */
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

/* Cuts the workspace at *cursor, with room for the packed keys and values of `tiles` key tiles. */
flash_workspace attn_flash_cut(const attn_plan *plan, int64_t tiles, attn_cursor *cursor);
/* The walk of query tile `query_tile` of a (batch, head). */
flash_walk attn_flash_walk(const attn_plan *plan, const attn_tensors *tensors, flash_workspace *w,
                           int64_t batch, int64_t head, int64_t query_tile);
/* Packs the queries; the state of no key seen. */
void attn_flash_start(const flash_walk *walk);
/* Takes the runs' tiles within the packed range through the kernel. */
void attn_flash_visit(flash_walk *walk, const attn_run *runs, int64_t count);
/* Writes log-sum-exp of the walk's rows, if wanted. */
void attn_flash_lse(const flash_walk *walk, const float *row_max, const float *row_sum);

#endif
