/* Limits of the machine as JSON, and back. */
#ifndef ATTN_BENCH_ROOFLINE_JSON_H
#define ATTN_BENCH_ROOFLINE_JSON_H

#include "bench/roofline.h"

#include <jansson.h>

/* NULL without memory. */
json_t *roofline_to_json(const roofline *r);
/* False for what was not written so. */
bool roofline_from_json(const json_t *object, roofline *r);

#endif
