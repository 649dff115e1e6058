/* Which kernel table runs: the best this CPU and OS can run, or the one that was asked for. */
#ifndef ATTN_DISPATCH_H
#define ATTN_DISPATCH_H

#include "dispatch/cpu.h"
#include "dispatch/error.h"
#include "kernels/kernels.h"

/* The table of level `isa`; NULL or "auto" means attn_isa_auto. An unknown name is ATTN_INVALID, a
 * level that cannot run here ATTN_UNSUPPORTED, both with the reason, and *kernels is NULL. */
attn_status attn_dispatch(const char *isa, const attn_kernels **kernels, attn_error *error);

/* The same rules for a machine that is handed in: the best level (an index for attn_isa_name) that
 * `features` allow, and whether `cpu` can run level `name`, with the reason as in attn_isa_check. */
int attn_isa_best(uint32_t features);
attn_status attn_isa_check_on(const char *name, const cpu_info *cpu, attn_error *error);

/* The features that level `index` requires, CPU_*. */
uint32_t attn_isa_required(int index);

#endif
