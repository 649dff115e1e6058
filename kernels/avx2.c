/* AVX2 + FMA + F16C: a register tile of 6 x 16, 12 of 16 registers accumulate. */
#define ISA_NAME avx2
#define MR 6
#define QUERY_TILE 48
#define KEY_BLOCK 256
#define PEAK_CHAINS 12

#include "kernels/vec_avx2.h"
#include "kernels/table_tmpl.h"
