/* One attention problem with its tensors in guarded buffers, the reference's results for it, and the
 * comparison with what the engine computes. */
#ifndef ATTN_TESTS_ATTENTION_CASE_H
#define ATTN_TESTS_ATTENTION_CASE_H

#include "reference/reference.h"
#include "tests/data.h"
#include "tests/guard.h"

typedef enum case_layout {
    LAYOUT_PLAIN,       /* batch, head, row, dimension without gaps */
    LAYOUT_GAPS,        /* NaN between rows, heads and batches */
    LAYOUT_INTERLEAVED, /* batch, row, head, dimension */
    LAYOUT_BROADCAST,   /* all batches and all key/value heads share one K and one V */
    LAYOUT_COUNT
} case_layout;

/* All zero but the shapes is a plain problem. Optional inputs are made at random from the case. */
typedef struct case_spec {
    int64_t batch, heads, kv_heads, queries, keys, head_dim, value_dim;
    attn_dtype dtype;
    attn_pattern pattern;
    uint32_t inputs;
    float scale; /* 0 means the default */
    float softcap;
    data_kind kind;
    guard_place place;
    case_layout layout;
} case_spec;

typedef struct attention_case {
    case_spec spec;
    attn_problem problem;
    attn_tensors tensors;
    guard q, k, v, out, lse, kv_lens, q_offsets, segments, mask, bias, slopes, sinks;
    uint8_t *block_map;
    double *expected, *tolerance, *expected_lse, *lse_tolerance; /* C order without gaps */
} attention_case;

/* All inputs that a problem may have; sink logits are the last of them. */
#define CASE_ALL_INPUTS (2 * (uint32_t)ATTN_HAS_SINK_LOGIT - 1)

/* Makes the data; inputs may still be changed before case_expect. */
attention_case *case_new(const case_spec *spec);
void case_free(attention_case *c);

/* Stores `value` into element (b, h, row, d) of a guarded tensor of the case. */
void case_set(attention_case *c, const attn_tensor *tensor, int64_t b, int64_t h, int64_t row, int64_t d,
              float value);

/* Computes what is expected, and makes the inputs read-only. */
void case_expect(attention_case *c);

/* Address of output row (b, h, i). */
const float *case_out(const attention_case *c, int64_t b, int64_t h, int64_t i);

/* Fills the outputs with NaN and executes; fails the test on an error. */
void case_execute(attention_case *c, const char *isa, attn_algorithm algorithm, int threads);
/* Compares what was executed with what is expected, and the surroundings of every buffer with what they
 * were; fails the test with a description of the case. Returns the fraction of the tolerance used. */
double case_compare(const attention_case *c, const char *isa, attn_algorithm algorithm);
/* case_new, case_expect, then case_execute and case_compare with every algorithm that supports it. */
double case_check(const case_spec *spec, const char *isa);

/* One line that names shapes, pattern and options. */
const char *case_describe(const case_spec *spec);

#endif
