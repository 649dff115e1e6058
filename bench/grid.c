/* Which lengths a sweep visits: powers of two or finer steps, and finer ones where a regime would be too
 * short to fit an exponent to. */
#include "bench/bench.h"

#include <math.h>

/* Below, a multiple of 8 would be too far from the step. */
enum { SMALLEST_ROUNDED = 32, REGIME_POINTS = 4 };

bool bench_add_steps(int64_t low, int64_t high, int parts, bench_numbers *sizes) {
    const int before = sizes->count;
    for (int64_t k = 0;; k++) {
        const double exact = exp2((double)k / parts);
        if (exact > 2.0 * (double)high)
            break;
        const bool rounded = k % parts != 0 && exact >= SMALLEST_ROUNDED;
        const int64_t n = (int64_t)(rounded ? 8 * llround(exact / 8) : llround(exact));
        if (n < low || n > high || (sizes->count > before && n <= sizes->item[sizes->count - 1]))
            continue;
        if (sizes->count == BENCH_MAX_SIZES)
            return false;
        sizes->item[sizes->count++] = n;
    }
    return sizes->count > before;
}

/* Keys that are live at a time where nothing but a window selects: what causal leaves of them, beside which
 * the queries of a prefix see keys behind them. 0 where all are live. */
static double live_keys(const attn_pattern *p) {
    const uint32_t causal = p->terms & (ATTN_CAUSAL | ATTN_CAUSAL_TOP_LEFT);
    const int64_t right = causal && !(p->terms & ATTN_PREFIX) ? 0 : p->window_right;
    if ((p->terms & ~(causal | ATTN_PREFIX)) != ATTN_WINDOW || p->window_left == ATTN_WINDOW_INF ||
        right == ATTN_WINDOW_INF)
        return 0;
    return (double)p->window_left + (double)right + 1;
}

int bench_borders(const attn_problem *p, int64_t queries, attn_algorithm algorithm,
                  const int64_t *cache_bytes, double border[BENCH_MAX_BORDERS]) {
    const double key_bytes = (double)((p->head_dim + p->value_dim) * (int64_t)attn_dtype_bytes(p->dtype));
    const double live = live_keys(&p->pattern);
    int count = 0;
    for (int level = 0; level < MACHINE_CACHE_LEVELS; level++) {
        const double cache = (double)cache_bytes[level];
        if (cache <= 0)
            continue;
        /* The scores are float32 whatever the operands are. */
        if (algorithm == ATTN_NAIVE && queries == 0)
            border[count++] = (sqrt(key_bytes * key_bytes + 16 * cache) - key_bytes) / 8;
        else if (algorithm == ATTN_NAIVE)
            border[count++] = cache / (key_bytes + 4 * (double)queries);
        else if (live == 0 || live * key_bytes > cache)
            border[count++] = cache / key_bytes;
    }
    for (int i = 1; i < count; i++) {
        for (int k = i; k > 0 && border[k] < border[k - 1]; k--) {
            const double swapped = border[k];
            border[k] = border[k - 1];
            border[k - 1] = swapped;
        }
    }
    return count;
}

/* Lengths of `sizes` above `low` up to `high`. */
static int count_between(const bench_numbers *sizes, double low, double high) {
    int count = 0;
    for (int i = 0; i < sizes->count; i++)
        count += (double)sizes->item[i] > low && (double)sizes->item[i] <= high;
    return count;
}

void bench_refine(const bench_numbers *sizes, const double *border, int borders, bench_numbers *refined) {
    *refined = (bench_numbers){.count = 0};
    const int64_t first = sizes->item[0], last = sizes->item[sizes->count - 1];
    bench_numbers half = {.count = 0};
    if (!bench_add_steps(first, last, 2, &half) || half.count < sizes->count) {
        *refined = *sizes;
        return;
    }
    double low = 0;
    for (int b = 0; b <= borders; b++) {
        const double high = b < borders ? border[b] : INFINITY;
        const bench_numbers *from = count_between(sizes, low, high) < REGIME_POINTS ? &half : sizes;
        for (int i = 0; i < from->count; i++) {
            if ((double)from->item[i] > low && (double)from->item[i] <= high)
                refined->item[refined->count++] = from->item[i];
        }
        low = high;
    }
}
