/* Values and sink logits that are not finite.
 *
 * In a tile that is visited for some of its pairs, a masked pair has weight 0; 0 * NaN would carry the NaN
 * of a value that nobody attends into the output. So NaN and Inf count as zero, and where a tile had
 * any, they are added here to the rows that do attend them. Packing looks at every value to find out, and a
 * tile with one such value is read once more. A sink logit of NaN or +inf makes NaN of every row, and the
 * rows that attend nothing are mended afterwards: so nobody else pays for them. */
#include "attention/internal.h"

#include <math.h>
#include <string.h>

static float load(const void *row, attn_dtype dtype, int64_t c) {
    switch (dtype) {
    case ATTN_F32:
        break;
    case ATTN_F16:
        return attn_f16_to_f32(((const uint16_t *)row)[c]);
    case ATTN_BF16:
        return attn_bf16_to_f32(((const uint16_t *)row)[c]);
    }
    return ((const float *)row)[c];
}

/* Bit k: the value of key first + k has an element that is not finite. */
static uint64_t not_finite_bits(const attn_problem *problem, const attn_tensors *tensors, int64_t batch,
                                int64_t kv_head, int64_t first, int64_t count) {
    uint64_t bits = 0;
    for (int64_t k = 0; k < count; k++) {
        const void *value = attn_at(&tensors->v, problem->dtype, batch, kv_head, first + k);
        for (int64_t c = 0; c < problem->value_dim && !(bits >> k & 1); c++)
            bits |= (uint64_t)!isfinite(load(value, problem->dtype, c)) << k;
    }
    return bits;
}

void attn_repair_values(const attn_view *view, const attn_tensors *tensors, int64_t batch, int64_t row,
                        int64_t rows, int64_t first, int64_t last) {
    const attn_problem *problem = &view->plan->problem;
    const int64_t kv_head = view->head / attn_group(problem);
    for (int64_t j = first; j < last; j += 64) {
        const int64_t count = attn_min(64, last - j);
        const uint64_t marked = not_finite_bits(problem, tensors, batch, kv_head, j, count);
        for (int64_t i = row; i < row + rows && marked; i++) {
            uint64_t bits;
            float *out = attn_out_row(tensors, batch, view->head, i);
            attn_row_bits_all(view, i, j, count, &bits);
            for (bits &= marked; bits; bits &= bits - 1) {
                const void *value =
                    attn_at(&tensors->v, problem->dtype, batch, kv_head, j + __builtin_ctzll(bits));
                for (int64_t c = 0; c < problem->value_dim; c++) {
                    const float v = load(value, problem->dtype, c);
                    if (!isfinite(v))
                        out[c] += v;
                }
            }
        }
    }
}

static bool attends_any(const attn_view *view, int64_t i) {
    uint64_t bits = 0;
    for (int64_t j = 0; j < view->keys && !bits; j += 64)
        attn_row_bits_all(view, i, j, attn_min(64, view->keys - j), &bits);
    return bits != 0;
}

void attn_repair_sink(const attn_view *view, const attn_tensors *tensors, int64_t batch, int64_t row,
                      int64_t rows) {
    const attn_problem *problem = &view->plan->problem;
    const float sink = tensors->sink_logits ? tensors->sink_logits[view->head] : -INFINITY;
    if (sink < INFINITY)
        return;
    for (int64_t i = row; i < row + rows; i++) {
        if (attends_any(view, i))
            continue;
        if (problem->value_dim > 0)
            memset(attn_out_row(tensors, batch, view->head, i), 0,
                   (size_t)problem->value_dim * sizeof(float));
        if (tensors->lse)
            *attn_lse_row(problem, tensors, batch, view->head, i) = sink;
    }
}
