/* Plain C, built without auto-vectorisation: what the other levels are measured against. */
#define ISA_NAME scalar
#define MR 6
#define QUERY_TILE 48
#define KEY_BLOCK 128
#define PEAK_CHAINS 14

#include "kernels/vec_scalar.h"
#include "kernels/table_tmpl.h"
