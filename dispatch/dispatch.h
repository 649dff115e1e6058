/* Which kernel table runs: the best this CPU and OS can run, or the one that was asked for. */
#ifndef ATTN_DISPATCH_H
#define ATTN_DISPATCH_H

#include "kernels/kernels.h"

/* The table of level `isa`; NULL or "auto" means attn_isa_auto. An unknown name is ATTN_INVALID, a
 * level that cannot run here ATTN_UNSUPPORTED, both with the reason, and *kernels is NULL. */
attn_status attn_dispatch(const char *isa, const attn_kernels **kernels, attn_error *error);

/* Writes a printf-style message into `error` (if not NULL) and returns `status`. */
attn_status attn_fail(attn_error *error, attn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
