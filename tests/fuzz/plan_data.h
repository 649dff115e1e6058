/* What the target of plans is given, and the data for it. */
#ifndef ATTN_TESTS_FUZZ_PLAN_DATA_H
#define ATTN_TESTS_FUZZ_PLAN_DATA_H

#include "attnscope.h"

typedef struct fuzz_case {
    attn_problem problem;
    int64_t dtype, algorithm, isa; /* isa: a level's index; -1 for auto; no such level otherwise */
    int64_t inputs, terms;
    int64_t seed; /* of the data and the block map */
    int64_t map;  /* 0: no block map */
    int64_t parts;
    int64_t offset; /* added to the q_offsets, where there are any */
} fuzz_case;

typedef struct fuzz_tensors {
    attn_tensors tensors;
    void *owned[12];
    int count;
} fuzz_tensors;

/* Tensors for the problem, by the case's seed. */
fuzz_tensors fuzz_tensors_new(const fuzz_case *c);
void fuzz_tensors_free(fuzz_tensors *m);
/* A block map for the problem's pattern, by the case's map; the caller frees it. */
uint8_t *fuzz_block_map(const fuzz_case *c);

#endif
