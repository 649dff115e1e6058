/* AVX-512 F, BW, DQ, VL: a register tile of 12 x 32, 24 of 32 registers accumulate. */
#define ISA_NAME avx512
#define MR 12
#define QUERY_TILE 48
#define KEY_BLOCK 256
#define PEAK_CHAINS 24

#include "kernels/vec_avx512.h"
#include "kernels/table_tmpl.h"
