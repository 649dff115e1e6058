/* All templates in order, and the table. Parameters: ISA_NAME (identifier), MR, QUERY_TILE, KEY_BLOCK,
 * PEAK_CHAINS, as the templates state; vec_<isa>.h is included already. */
#include "kernels/math_tmpl.h"
#include "kernels/matmul_tmpl.h"
#include "kernels/pack_tmpl.h"
#include "kernels/rows_tmpl.h"
#include "kernels/flash_tmpl.h"
#include "kernels/decode_tmpl.h"
#include "kernels/machine_tmpl.h"

#ifndef VF_FUSED
#    error "vec_<isa>.h must say by VF_FUSED whether vf_fma rounds once"
#endif
_Static_assert(64 % NR == 0, "a run of 64 keys must be whole panels");
_Static_assert(MR < VL || MR % VL == 0, "packing stores whole vectors");
_Static_assert(QUERY_TILE % MR == 0, "a query tile must be whole panels");
_Static_assert(QUERY_TILE >= 8, "decoding takes up to 8 rows of a head at once");
_Static_assert(KEY_BLOCK <= ATTN_MOST_KEY_BLOCK, "a step remembers each of its tiles");
_Static_assert(KEY_BLOCK % 64 == 0, "a key block must be whole tiles");
_Static_assert(SCORE_STRIDE % VL == 0, "rows of the score tile must be aligned");

#define TABLE_PASTE_(a, b) a##b
#define TABLE_NAME_(isa) TABLE_PASTE_(attn_kernels_, isa)
#define TABLE_TEXT_(x) #x
#define TABLE_STRING_(x) TABLE_TEXT_(x)

const attn_kernels TABLE_NAME_(ISA_NAME) = {
    .name = TABLE_STRING_(ISA_NAME),
    .lanes = VL,
    .mr = MR,
    .nr = NR,
    .query_tile = QUERY_TILE,
    .key_block = KEY_BLOCK,
    .flash_scratch = (int64_t)QUERY_TILE * SCORE_STRIDE,
    .pack_a = pack_a,
    .pack_bt = pack_bt,
    .pack_b = pack_b,
    .matmul = matmul,
    .scale = scale,
    .adjust = adjust,
    .mask = mask,
    .softmax = softmax,
    .exp = exponential,
    .widen = widen,
    .flash_tile = flash_tile,
    .decode_tile = decode_tile,
    .flash_finish = flash_finish,
    .fma_peak = fma_peak,
    .peak_flops = PEAK_FLOPS,
    .read = read_all,
    .copy = copy,
};
