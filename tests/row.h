/* One row of floats between unmapped pages, for the tests of kernels that work on rows. */
#ifndef ATTN_TESTS_ROW_H
#define ATTN_TESTS_ROW_H

#include "tests/guard.h"
#include "tests/support.h"

/* A row in a guarded buffer, with a copy of what it held. */
typedef struct row {
    guard buffer;
    float *x;
    float before[320];
    int64_t n;
} row;

/* n normal numbers times `size`, the same for each place and level; `stream` names them. */
row row_new(int64_t n, guard_place place, const char *stream, double size);
/* Fails if what lies around the row has changed. */
void row_free(row *r);

/* Calls `body` for every size of the family and every place. */
void row_each_size(const attn_kernels *kernels,
                   void (*body)(const attn_kernels *kernels, int64_t n, guard_place place));

#endif
