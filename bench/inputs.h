/* What rows work on: tensors, drawn by a seed, and copies of them. Usable from C++. */
#ifndef ATTN_BENCH_INPUTS_H
#define ATTN_BENCH_INPUTS_H

#include "attention/plan.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Inputs (inputs.c) ---- */

typedef enum bench_data {
    BENCH_NORMAL,
    BENCH_UNIFORM,
    BENCH_PEAKED,
    BENCH_RISING,
    BENCH_TAILS,
    BENCH_INF_BLOCKS,
    BENCH_DATA_COUNT
} bench_data;
const char *bench_data_name(bench_data data); /* NULL outside */
const char *bench_data_note(bench_data data); /* one line for the help page */

/* The next number of a SplitMix64 generator. */
uint64_t bench_random(uint64_t *state);

/* element[i] = x, rounded to the type. */
static inline void bench_store(void *element, int64_t i, attn_dtype dtype, float x) {
    if (dtype == ATTN_F32)
        ((float *)element)[i] = x;
    else
        ((uint16_t *)element)[i] = dtype == ATTN_F16 ? attn_f32_to_f16(x) : attn_f32_to_bf16(x);
}

/* Memory aligned to 64 bytes and touched; NULL when there is none. Released with free. */
void *bench_alloc(int64_t bytes);

typedef struct bench_inputs {
    attn_tensors tensors;
    void *q, *k, *v;
    float *out, *alibi_slopes, *sink_logits, *bias;
    int64_t out_count;                 /* floats in out */
    int64_t q_bytes, k_bytes, v_bytes; /* as allocated */
} bench_inputs;

/* What the data asks a problem for beside Q, K and V: ATTN_HAS_BIAS, or 0. */
uint32_t bench_data_inputs(bench_data data);
/* Bounds of what bench_inputs_make draws. */
typedef struct bench_bounds {
    double q, k, v; /* largest absolute values */
} bench_bounds;
bench_bounds bench_data_bounds(bench_data data, int64_t head_dim);

/* Tensors for the problem, the same for the same seed, shapes and data, whatever will run on them.
 * False when there is no memory. */
bool bench_inputs_make(bench_inputs *inputs, const attn_problem *problem, bench_data data, uint64_t seed);
void bench_inputs_free(bench_inputs *inputs);

/* ---- Cold tensors (cold.c) ---- */

typedef struct bench_copies {
    char *memory;  /* of all but the first, which are the inputs themselves; NULL for one; owned */
    int64_t count; /* with the first */
    int64_t next;  /* that a call works on */
    int64_t step_bytes, offset[4]; /* of a copy, and of Q, K, V and the output in it */
} bench_copies;

/* As many copies of the inputs as take `cold_bytes` together, the first being they themselves; with 0 that
 * one alone. False without memory. */
bool bench_copies_make(bench_copies *copies, const bench_inputs *inputs, double cold_bytes);
/* Points the tensors to the next copy. */
void bench_copies_next(bench_copies *copies, const bench_inputs *inputs, attn_tensors *tensors);

#ifdef __cplusplus
}
#endif

#endif
