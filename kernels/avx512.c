/* AVX-512 F, BW, DQ, VL: a register tile of 14 x 32, 28 of 32 registers accumulate. */
#define ISA_NAME avx512
#define MR 14
#define QUERY_TILE 56
#define KEY_BLOCK 256
#define SCORE_STRIDE (KEY_BLOCK + 16) /* not a power of two, so that rows spread over the cache's sets */
#define PEAK_CHAINS 24

#include "kernels/vec_avx512.h"
#include "kernels/table_tmpl.h"
