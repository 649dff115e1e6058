/* Which pairs are attended: as intervals where a term gives one, and as bits for a tile's mask. */
#include "attention/internal.h"

#include <math.h>
#include <string.h>

attn_view attn_view_static(const attn_plan *plan, int64_t head) {
    const attn_problem *problem = &plan->problem;
    const bool top_left = problem->pattern.terms & ATTN_CAUSAL_TOP_LEFT;
    return (attn_view){
        .plan = plan,
        .head = head,
        .keys = problem->keys,
        .offset = top_left ? 0 : problem->keys - problem->queries,
    };
}

attn_view attn_view_of(const attn_plan *plan, const attn_tensors *t, int64_t batch, int64_t head) {
    attn_view view = attn_view_static(plan, head);
    if (t->kv_lens)
        view.keys = t->kv_lens[batch];
    if (t->q_offsets)
        view.offset = t->q_offsets[batch];
    if (t->segments)
        view.segments = t->segments + batch * plan->problem.keys;
    if (t->mask) {
        view.mask = t->mask + batch * t->mask_strides[0] + head * t->mask_strides[1];
        view.mask_query_stride = t->mask_strides[2];
        view.mask_key_stride = t->mask_strides[3];
    }
    if (t->bias) {
        view.bias = t->bias + batch * t->bias_strides[0] + head * t->bias_strides[1];
        view.bias_query_stride = t->bias_strides[2];
        view.bias_key_stride = t->bias_strides[3];
    }
    return view;
}

attn_interval attn_restriction(const attn_view *view, int64_t i) {
    const attn_pattern *pattern = &view->plan->problem.pattern;
    const int64_t p = i + view->offset;
    attn_interval left = {0, view->keys};
    if (pattern->terms & (ATTN_CAUSAL | ATTN_CAUSAL_TOP_LEFT)) {
        int64_t last = view->keys;
        if (pattern->terms & ATTN_CAUSAL)
            last = attn_min(last, p + 1);
        if (pattern->terms & ATTN_CAUSAL_TOP_LEFT) /* j <= i, wherever the query stands */
            last = attn_min(last, i + 1);
        if (pattern->terms & ATTN_PREFIX)
            last = attn_max(last, pattern->prefix);
        left.last = attn_min(view->keys, last);
    }
    if (pattern->terms & ATTN_CHUNK) {
        const int64_t chunk = attn_floor_div(p, pattern->chunk);
        left.first = attn_max(left.first, chunk * pattern->chunk);
        left.last = attn_min(left.last, (chunk + 1) * pattern->chunk);
    }
    return left;
}

bool attn_has_selection(const attn_pattern *pattern) {
    return pattern->terms & (ATTN_WINDOW | ATTN_SINK | ATTN_GLOBAL | ATTN_STRIDE | ATTN_RANDOM | ATTN_BLOCKS);
}

int attn_selected(const attn_view *view, int64_t i, attn_interval within, attn_interval *selected) {
    const attn_pattern *pattern = &view->plan->problem.pattern;
    const int64_t p = i + view->offset;
    int count = 0;
    if (pattern->terms & ATTN_WINDOW) {
        attn_interval *window = &selected[count++];
        *window = within;
        if (pattern->window_left != ATTN_WINDOW_INF)
            window->first = attn_max(within.first, p - pattern->window_left);
        if (pattern->window_right != ATTN_WINDOW_INF)
            window->last = attn_min(within.last, p + pattern->window_right + 1);
    }
    if (pattern->terms & ATTN_SINK)
        selected[count++] = (attn_interval){within.first, attn_min(within.last, pattern->sink)};
    if (pattern->terms & ATTN_GLOBAL)
        selected[count++] = p >= 0 && p < pattern->global
                                ? within
                                : (attn_interval){within.first, attn_min(within.last, pattern->global)};
    return count;
}

/* Sets bits [from, to) of bits[]. */
static void set_bits(uint64_t *bits, int64_t from, int64_t to) {
    while (from < to) {
        const int64_t in_word = attn_min(64 - from % 64, to - from);
        bits[from / 64] |= attn_low_bits(in_word) << (from % 64);
        from += in_word;
    }
}

/* Sets the bits of keys in `selected`, of those in `within`, for bits that start at key `first`. */
static void set_interval(uint64_t *bits, int64_t first, attn_interval within, attn_interval selected) {
    set_bits(bits, attn_max(within.first, selected.first) - first,
             attn_min(within.last, selected.last) - first);
}

static void set_blocks(uint64_t *bits, int64_t first, attn_interval within, const attn_blocks *blocks,
                       int64_t head, int64_t i) {
    int64_t count;
    const int64_t *row = attn_blocks_row(blocks, head, i, &count);
    int64_t low = 0, high = count; /* the first selected block that reaches into `within` */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if ((row[middle] + 1) * blocks->size <= within.first)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < count && row[low] * blocks->size < within.last; low++)
        set_interval(bits, first, within,
                     (attn_interval){row[low] * blocks->size, (row[low] + 1) * blocks->size});
}

/* As attn_row_bits_all, by the pattern and kv_lens alone. */
static void row_bits_pattern(const attn_view *view, int64_t i, int64_t first, int64_t count, uint64_t *bits) {
    const attn_pattern *pattern = &view->plan->problem.pattern;
    attn_interval within = attn_restriction(view, i);
    within.first = attn_max(within.first, first);
    within.last = attn_min(within.last, first + count);
    memset(bits, 0, (size_t)attn_ceil_div(count, 64) * sizeof *bits);
    if (within.first >= within.last)
        return;
    if (!attn_has_selection(pattern)) {
        set_interval(bits, first, within, within);
        return;
    }
    attn_interval selected[ATTN_MAX_SELECTED];
    const int terms = attn_selected(view, i, within, selected);
    for (int t = 0; t < terms; t++)
        set_interval(bits, first, within, selected[t]);
    if (pattern->terms & ATTN_STRIDE) {
        const int64_t p = i + view->offset, stride = pattern->stride;
        int64_t j = within.first + (p - within.first) % stride; /* congruent to p, near within.first */
        if (j < within.first)
            j += stride;
        for (; j < within.last; j += stride)
            bits[(j - first) / 64] |= (uint64_t)1 << ((j - first) % 64);
    }
    if (pattern->terms & ATTN_RANDOM)
        set_blocks(bits, first, within, &view->plan->random, view->head, i);
    if (pattern->terms & ATTN_BLOCKS)
        set_blocks(bits, first, within, &view->plan->blocks, view->head, i);
}

uint64_t attn_nonzero_bits(const uint8_t *bytes, int64_t stride, int64_t count) {
    const uint64_t low7 = 0x7f7f7f7f7f7f7f7fu, high = 0x8080808080808080u;
    uint64_t bits = 0;
    int64_t k = 0;
    for (; stride == 1 && k + 8 <= count; k += 8) {
        uint64_t eight;
        memcpy(&eight, bytes + k, sizeof eight);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        eight = __builtin_bswap64(eight);
#endif
        /* The high bit of every nonzero byte, moved to its low bit; the product brings the eight of them
         * together in the upper byte, in order. */
        const uint64_t ones = ((((eight & low7) + low7) | eight) & high) >> 7;
        bits |= (ones * 0x0102040810204080u >> 56) << k;
    }
    for (; k < count; k++)
        bits |= (uint64_t)(bytes[k * stride] != 0) << k;
    return bits;
}

static uint64_t not_minus_inf_bits(const float *bias, int64_t stride, int64_t count) {
    uint64_t bits = 0;
    for (int64_t k = 0; k < count; k++)
        bits |= (uint64_t)(bias[k * stride] != -INFINITY) << k;
    return bits;
}

static uint64_t equal_bits(const int64_t *ids, int64_t id, int64_t count) {
    uint64_t bits = 0;
    for (int64_t k = 0; k < count; k++)
        bits |= (uint64_t)(ids[k] == id) << k;
    return bits;
}

void attn_row_bits_all(const attn_view *view, int64_t i, int64_t first, int64_t count, uint64_t *bits) {
    row_bits_pattern(view, i, first, count, bits);
    if (!attn_view_has_data(view))
        return;
    const int64_t p = i + view->offset;
    /* A query that stands outside the keys belongs to no segment. */
    const bool no_segment = view->segments && (p < 0 || p >= view->plan->problem.keys);
    for (int64_t word = 0; word < attn_ceil_div(count, 64); word++) {
        const int64_t j = first + word * 64;
        const int64_t keys = attn_min(64, first + count - j);
        if (!bits[word])
            continue;
        if (no_segment)
            bits[word] = 0;
        else if (view->segments)
            bits[word] &= equal_bits(view->segments + j, view->segments[p], keys);
        if (view->mask)
            bits[word] &=
                attn_nonzero_bits(view->mask + i * view->mask_query_stride + j * view->mask_key_stride,
                                  view->mask_key_stride, keys);
        if (view->bias)
            bits[word] &=
                not_minus_inf_bits(view->bias + i * view->bias_query_stride + j * view->bias_key_stride,
                                   view->bias_key_stride, keys);
    }
}

attn_tile_kind attn_tile_by_bits(const attn_view *view, int64_t row, int64_t rows, int64_t first,
                                 int64_t count, bool with_data) {
    const uint64_t ones = attn_low_bits(count);
    uint64_t some = 0, all = ones;
    for (int64_t i = row; i < row + rows && !(some && all != ones); i++) {
        uint64_t bits;
        if (with_data)
            attn_row_bits_all(view, i, first, count, &bits);
        else
            row_bits_pattern(view, i, first, count, &bits);
        some |= bits;
        all &= bits;
    }
    return attn_kind_of(some, all, ones);
}

const float *attn_tile_bias(const attn_view *view, int64_t row, int64_t rows, int64_t first, int64_t count,
                            float *copy, int64_t *stride) {
    const float *bias = view->bias + row * view->bias_query_stride + first * view->bias_key_stride;
    *stride = view->bias_query_stride;
    if (view->bias_key_stride == 1)
        return bias;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < count; k++)
            copy[r * count + k] = bias[r * view->bias_query_stride + k * view->bias_key_stride];
    *stride = count;
    return copy;
}
