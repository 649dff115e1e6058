/* The patterns that tests run through, in text form; `blocks` is set by the caller (see pattern_at). */
#ifndef ATTN_TESTS_PATTERNS_H
#define ATTN_TESTS_PATTERNS_H

#include "tests/support.h"

/* Number of patterns in the list. */
int pattern_count(void);
/* The text of pattern `index`. */
const char *pattern_text(int index);
/* Pattern `index`, parsed; for `blocks` only the block size and number of maps are set. `heads` is H. */
attn_pattern pattern_at(int index, int64_t heads);
/* A random combination of one to four terms, with parameters that suit lengths around n. */
attn_pattern pattern_random(test_rng *rng, int64_t n, int64_t heads);

/* Gives the pattern `heads` maps of blocks x blocks, `count` of them selected in each row; returns the map,
 * to free. */
uint8_t *pattern_map(attn_pattern *pattern, int64_t size, int64_t count, int64_t heads, int64_t blocks);

#endif
