/* Attended pairs, counted exactly.
 *
 * A row's pairs are the union of its terms' intervals. From row to row each end of an interval stays or moves
 * on by one key. As long as none changes its mind and none overtakes another, the number of pairs changes by
 * the same amount with every row: the first and the last row of a stretch tell those between. Stretches in
 * which that does not hold are halved, so a pattern costs its corners, not its rows. */
#include "attention/internal.h"

/* Scratch: for each interval that a row may have, room in two lists of intervals and for two ends. */
int64_t attn_count_scratch(const attn_plan *plan) {
    return 8 * (ATTN_MAX_SELECTED + plan->random.key_blocks + plan->blocks.key_blocks);
}

/* By first, then by last. */
static void sort_intervals(attn_interval *list, int64_t count) {
    _Static_assert(sizeof *list == 2 * sizeof list->first, "an interval is two numbers");
    attn_sort(&list->first, count, 2);
}

static int64_t add_block_intervals(const attn_blocks *blocks, const attn_view *view, int64_t i,
                                   attn_interval within, attn_interval *list) {
    int64_t count;
    const int64_t *row = attn_blocks_row(blocks, view->head, i, &count);
    for (int64_t k = 0; k < count; k++) {
        list[k].first = attn_max(within.first, attn_min(within.last, row[k] * blocks->size));
        list[k].last = attn_max(within.first, attn_min(within.last, (row[k] + 1) * blocks->size));
    }
    return count;
}

/* The intervals of a row, but not those of `stride`; also the empty ones: in rows that are `alike` the k-th
 * is the same. */
static int64_t row_intervals(const attn_view *view, int64_t i, attn_interval within, attn_interval *list) {
    const attn_plan *plan = view->plan;
    const attn_pattern *pattern = &plan->problem.pattern;
    if (!attn_has_selection(pattern)) {
        list[0] = within;
        return 1;
    }
    int64_t count = attn_selected(view, i, within, list);
    if (pattern->terms & ATTN_RANDOM)
        count += add_block_intervals(&plan->random, view, i, within, list + count);
    if (pattern->terms & ATTN_BLOCKS)
        count += add_block_intervals(&plan->blocks, view, i, within, list + count);
    return count;
}

/* How many j in [first, last) are congruent to p modulo stride. */
static int64_t count_stride(int64_t first, int64_t last, int64_t p, int64_t stride) {
    return first >= last ? 0 : attn_floor_div(last - 1 - p, stride) - attn_floor_div(first - 1 - p, stride);
}

/* Attended pairs of a row, whose intervals are `list`; sorts it. */
static int64_t count_row(const attn_view *view, int64_t i, attn_interval within, attn_interval *list,
                         int64_t count) {
    const attn_pattern *pattern = &view->plan->problem.pattern;
    const bool by_stride = pattern->terms & ATTN_STRIDE;
    if (within.first >= within.last)
        return 0;
    int64_t used = 0, total = 0, reached = within.first;
    for (int64_t k = 0; k < count; k++) /* drop the empty ones, which may lie anywhere */
        if (list[k].first < list[k].last)
            list[used++] = list[k];
    sort_intervals(list, used);
    for (int64_t k = 0; k < used; k++) {
        if (by_stride)
            total += count_stride(reached, list[k].first, i + view->offset, pattern->stride);
        total += attn_max(0, list[k].last - attn_max(reached, list[k].first));
        reached = attn_max(reached, list[k].last);
    }
    if (by_stride)
        total += count_stride(reached, within.last, i + view->offset, pattern->stride);
    return total;
}

/* No term begins anew between rows `first` and `last`. */
static bool alike(const attn_view *view, int64_t first, int64_t last) {
    const attn_plan *plan = view->plan;
    const attn_pattern *pattern = &plan->problem.pattern;
    const int64_t p = first + view->offset, q = last + view->offset;
    if (pattern->terms & ATTN_STRIDE)
        return first == last;
    if ((pattern->terms & ATTN_CHUNK) &&
        attn_floor_div(p, pattern->chunk) != attn_floor_div(q, pattern->chunk))
        return false;
    if ((pattern->terms & ATTN_GLOBAL) &&
        ((p < 0) != (q < 0) || (p < pattern->global) != (q < pattern->global)))
        return false;
    if ((pattern->terms & ATTN_RANDOM) && first / plan->random.size != last / plan->random.size)
        return false;
    return !(pattern->terms & ATTN_BLOCKS) || first / plan->blocks.size == last / plan->blocks.size;
}

/* Every end of the intervals stays or moves with the row over `steps` rows, and none overtakes another. */
static bool move_evenly(const attn_interval *low, const attn_interval *high, int64_t count, int64_t steps,
                        attn_interval *ends) {
    for (int64_t k = 0; k < count; k++) { /* of each end, where it is in the first row and in the last */
        ends[2 * k] = (attn_interval){low[k].first, high[k].first};
        ends[2 * k + 1] = (attn_interval){low[k].last, high[k].last};
    }
    for (int64_t k = 0; k < 2 * count; k++)
        if (ends[k].last != ends[k].first && ends[k].last - ends[k].first != steps)
            return false;
    sort_intervals(ends, 2 * count);
    for (int64_t k = 1; k < 2 * count; k++)
        if (ends[k].last < ends[k - 1].last)
            return false;
    return true;
}

/* Pairs of rows first..last, at most `limit` of each. */
static int64_t count_rows(const attn_view *view, int64_t first, int64_t last, int64_t limit,
                          attn_interval *scratch) {
    if (alike(view, first, last)) {
        const attn_interval within[2] = {attn_restriction(view, first), attn_restriction(view, last)};
        const int64_t most = attn_count_scratch(view->plan) / 8;
        attn_interval *low = scratch, *high = low + most, *ends = high + most;
        const int64_t count = row_intervals(view, first, within[0], low);
        row_intervals(view, last, within[1], high);
        if (last - first <= 1 || move_evenly(low, high, count, last - first, ends)) {
            const int64_t begin = count_row(view, first, within[0], low, count);
            const int64_t end = count_row(view, last, within[1], high, count);
            if (last == first)
                return attn_min(begin, limit);
            if (last - first == 1 || (begin >= limit && end >= limit))
                return (attn_min(begin, limit) + attn_min(end, limit)) * (last - first + 1) / 2;
            if (begin <= limit && end <= limit)
                return (begin + end) * (last - first + 1) / 2;
        }
    }
    const int64_t middle = first + (last - first) / 2;
    return count_rows(view, first, middle, limit, scratch) +
           count_rows(view, middle + 1, last, limit, scratch);
}

int64_t attn_count_pairs(const attn_view *view, int64_t *scratch, bool before_topk) {
    const attn_problem *problem = &view->plan->problem;
    const bool limited = (problem->pattern.terms & ATTN_TOPK) && !before_topk;
    if (!problem->pattern.terms)
        return problem->queries * view->keys;
    if (problem->queries == 0)
        return 0;
    return count_rows(view, 0, problem->queries - 1, limited ? problem->pattern.topk : INT64_MAX,
                      (attn_interval *)scratch);
}
