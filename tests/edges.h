/* What the tests of edges share: places where an edge can lie, inputs of full size that a test fills by hand,
 * and results taken out for comparison bit by bit. */
#ifndef ATTN_TESTS_EDGES_H
#define ATTN_TESTS_EDGES_H

#include "tests/attention_case.h"

#define EDGE_ALGORITHMS 2
extern const attn_algorithm edge_algorithms[EDGE_ALGORITHMS];

/* Within one tile, over several tiles of queries and keys, and where flash splits the keys. */
typedef struct edge_place {
    const char *name;
    int64_t queries, keys;
} edge_place;
#define EDGE_PLACES 3
extern const edge_place edge_places[EDGE_PLACES];

/* Batches, grouped heads, D and Dv that differ and are no multiple of a vector. */
case_spec edge_spec(size_t place);

attn_pattern edge_pattern(const char *text);

/* Plan of a case; fails the test if there is none. */
attn_plan *edge_plan(const attention_case *c, const char *isa, attn_algorithm algorithm);

attn_info edge_info(const attention_case *c, const char *isa, attn_algorithm algorithm);

/* The mask (bias) of a case that has one, replaced by one of B x H x Nq x Nk entries, all `value`. Its
 * element (b, h, i, j) is at edge_pair(c, b, h, i, j). */
int64_t edge_pair(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t j);

uint8_t *edge_mask(attention_case *c, uint8_t value);

float *edge_bias(attention_case *c, float value);

/* Every element of a tensor of `rows` x `dim` (the case's q, k or v) set to the same number. */
void edge_fill(attention_case *c, const attn_tensor *tensor, float value);

/* ---- results ----------------------------------------------------------------------- */

typedef struct edge_result {
    float *out; /* B, H, Nq, Dv without gaps */
    float *lse; /* B, H, Nq */
} edge_result;

/* What the case's last execution left. */
edge_result edge_take(const attention_case *c);

edge_result edge_execute(attention_case *c, const char *isa, attn_algorithm algorithm, int threads);

void edge_free(edge_result *r);

/* Bitwise the same (NaN equals NaN whatever its bits: hardware picks the payload). */
bool edge_same(float a, float b);

/* Fails unless both results are the same in every bit. */
void edge_expect_same(const attention_case *c, const edge_result *a, const edge_result *b, const char *what);

/* A case whose output shows its weights: all scores 0 but for what ALiBi or a bias adds, V the identity. */
attention_case *edge_weights(const case_spec *spec);

/* Fails unless row (b, h, i) is the mean over exactly the keys where drawn[j] is '#'. */
void edge_expect_drawn(const attention_case *c, int64_t b, int64_t h, int64_t i, const char *drawn);

/* ---- a poison and its traces --------------------------------------------------------- */

/* What a change of the inputs may do to an element of the output. */
typedef enum edge_effect {
    EDGE_NONE,       /* no bit of it changes */
    EDGE_NAN,        /* it becomes NaN */
    EDGE_NOT_FINITE, /* it becomes NaN or infinite */
    EDGE_ZERO,       /* it becomes exactly zero */
    EDGE_ANY         /* whatever the reference says */
} edge_effect;

/* Changes the inputs of a case. */
typedef void edge_poison(attention_case *c);
/* What must have happened to column d of row (b, h, i); d = -1 asks about its log-sum-exp. */
typedef edge_effect edge_traces(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t d);

/* Whether an element shows an effect; `lse`: it is a log-sum-exp, whose zero is -inf. */
bool edge_has(edge_effect effect, float before, float after, bool lse);

/* Executes a case with every algorithm before and after the poison: each element must show exactly the trace
 * that it should, and all must equal the reference. Returns how many elements should show one. Frees the
 * case. */
int64_t edge_check_case(attention_case *c, const char *isa, const char *what, edge_poison *poison,
                        edge_traces *traces);

#endif
