/* AArch64 NEON: a register tile of 12 x 8, 24 of 32 registers accumulate. */
#define ISA_NAME neon
#define MR 12
#define QUERY_TILE 48
#define KEY_BLOCK 256
#define PEAK_CHAINS 24

#include "kernels/vec_neon.h"
#include "kernels/table_tmpl.h"
