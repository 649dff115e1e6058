/* Which pairs are attended, term by term, as the table in attnscope.h states them. */
#include "reference/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t floor_div(int64_t a, int64_t b) {
    int64_t q = a / b;
    return a % b < 0 ? q - 1 : q;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

int64_t ref_position(const attn_problem *problem, const attn_tensors *tensors, int64_t b, int64_t i) {
    if (tensors != NULL && (problem->inputs & ATTN_HAS_Q_OFFSETS))
        return i + tensors->q_offsets[b];
    if (problem->pattern.terms & ATTN_CAUSAL_TOP_LEFT)
        return i;
    return i + problem->keys - problem->queries;
}

/* ---- random ------------------------------------------------------------- */

/* SplitMix64's output for state x (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

bool ref_draws_init(ref_draws *draws, const attn_problem *problem) {
    *draws = (ref_draws){.drawn = NULL, .query_block = -1};
    if (!(problem->pattern.terms & ATTN_RANDOM))
        return true;
    draws->drawn = malloc((size_t)ceil_div(problem->keys, problem->pattern.random_block) + 1);
    return draws->drawn != NULL;
}

void ref_draws_free(ref_draws *draws) {
    free(draws->drawn);
}

static bool random_selects(const attn_problem *problem, ref_draws *draws, int64_t i, int64_t j) {
    const attn_pattern *pattern = &problem->pattern;
    int64_t query_block = i / pattern->random_block;
    if (query_block != draws->query_block) {
        int64_t blocks = ceil_div(problem->keys, pattern->random_block);
        int64_t wanted = pattern->random_count < blocks ? pattern->random_count : blocks;
        uint64_t state = mix(mix(pattern->random_seed) ^ (uint64_t)query_block);
        memset(draws->drawn, 0, (size_t)blocks);
        for (uint64_t t = 0; wanted > 0; t++) {
            uint64_t block = mix(state ^ t) % (uint64_t)blocks;
            wanted -= !draws->drawn[block];
            draws->drawn[block] = 1;
        }
        draws->query_block = query_block;
    }
    return draws->drawn[j / pattern->random_block] != 0;
}

/* ---- the pattern -------------------------------------------------------- */

static bool block_map_selects(const attn_problem *problem, int64_t h, int64_t i, int64_t j) {
    const attn_pattern *pattern = &problem->pattern;
    int64_t rows = ceil_div(problem->queries, pattern->block_size);
    int64_t cols = ceil_div(problem->keys, pattern->block_size);
    int64_t map = pattern->block_heads > 1 ? h : 0;
    return pattern->block_map[(map * rows + i / pattern->block_size) * cols + j / pattern->block_size] != 0;
}

static bool restrictions_hold(const attn_pattern *pattern, int64_t i, int64_t p, int64_t j) {
    bool in_prefix = (pattern->terms & ATTN_PREFIX) && j < pattern->prefix;
    if ((pattern->terms & ATTN_CAUSAL) && !(j <= p || in_prefix))
        return false;
    if ((pattern->terms & ATTN_CAUSAL_TOP_LEFT) && !(j <= i || in_prefix))
        return false;
    if ((pattern->terms & ATTN_CHUNK) && floor_div(j, pattern->chunk) != floor_div(p, pattern->chunk))
        return false;
    return true;
}

static bool selected(const attn_problem *problem, ref_draws *draws, int64_t h, int64_t i, int64_t p,
                     int64_t j) {
    const attn_pattern *pattern = &problem->pattern;
    const uint32_t selections =
        ATTN_WINDOW | ATTN_SINK | ATTN_GLOBAL | ATTN_STRIDE | ATTN_RANDOM | ATTN_BLOCKS;
    if (!(pattern->terms & selections))
        return true;

    int64_t behind = p - j;
    if ((pattern->terms & ATTN_WINDOW) && behind <= pattern->window_left && -behind <= pattern->window_right)
        return true;
    if ((pattern->terms & ATTN_SINK) && j < pattern->sink)
        return true;
    if ((pattern->terms & ATTN_GLOBAL) && (j < pattern->global || (0 <= p && p < pattern->global)))
        return true;
    if ((pattern->terms & ATTN_STRIDE) && behind % pattern->stride == 0)
        return true;
    if ((pattern->terms & ATTN_RANDOM) && random_selects(problem, draws, i, j))
        return true;
    if ((pattern->terms & ATTN_BLOCKS) && block_map_selects(problem, h, i, j))
        return true;
    return false;
}

/* ---- what comes with the tensors ---------------------------------------- */

static bool tensors_allow(const attn_problem *problem, const attn_tensors *tensors, int64_t b, int64_t h,
                          int64_t i, int64_t p, int64_t j) {
    if ((problem->inputs & ATTN_HAS_KV_LENS) && j >= tensors->kv_lens[b])
        return false;
    if (problem->inputs & ATTN_HAS_SEGMENTS) {
        const int64_t *segments = tensors->segments + b * problem->keys;
        if (p < 0 || p >= problem->keys || segments[p] != segments[j])
            return false;
    }
    if (problem->inputs & ATTN_HAS_MASK) {
        const int64_t *stride = tensors->mask_strides;
        if (!tensors->mask[b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]])
            return false;
    }
    if (problem->inputs & ATTN_HAS_BIAS) {
        const int64_t *stride = tensors->bias_strides;
        if (tensors->bias[b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]] == -INFINITY)
            return false;
    }
    return true;
}

bool ref_pair_attended(const attn_problem *problem, const attn_tensors *tensors, ref_draws *draws, int64_t b,
                       int64_t h, int64_t i, int64_t j) {
    int64_t p = ref_position(problem, tensors, b, i);
    return restrictions_hold(&problem->pattern, i, p, j) && selected(problem, draws, h, i, p, j) &&
           (tensors == NULL || tensors_allow(problem, tensors, b, h, i, p, j));
}

bool ref_attended(const attn_problem *problem, const attn_tensors *tensors, int64_t b, int64_t h, int64_t i,
                  int64_t j) {
    ref_draws draws;
    if (!ref_draws_init(&draws, problem)) {
        /* One byte per block of keys was refused: nothing sensible can follow. */
        fputs("reference: out of memory\n", stderr);
        abort();
    }
    bool attended = ref_pair_attended(problem, tensors, &draws, b, h, i, j);
    ref_draws_free(&draws);
    return attended;
}

bool ref_attended_row(const attn_problem *problem, const attn_tensors *tensors, int64_t b, int64_t h,
                      int64_t i, uint8_t *attended) {
    ref_draws draws;
    if (!ref_draws_init(&draws, problem))
        return false;
    for (int64_t j = 0; j < problem->keys; j++)
        attended[j] = ref_pair_attended(problem, tensors, &draws, b, h, i, j);
    ref_draws_free(&draws);
    return true;
}

int64_t ref_count_pairs(const attn_problem *problem) {
    ref_draws draws;
    if (!ref_draws_init(&draws, problem))
        return -1;
    int64_t total = 0;
    for (int64_t h = 0; h < problem->heads; h++)
        for (int64_t i = 0; i < problem->queries; i++) {
            int64_t row = 0;
            for (int64_t j = 0; j < problem->keys; j++)
                row += ref_pair_attended(problem, NULL, &draws, 0, h, i, j);
            if ((problem->pattern.terms & ATTN_TOPK) && row > problem->pattern.topk)
                row = problem->pattern.topk;
            total += row;
        }
    ref_draws_free(&draws);
    return total * problem->batch;
}
