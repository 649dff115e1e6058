/* Selections by blocks: drawn at random (BigBird), or given as a map. Both become, for each block of
 * queries, a sorted list of blocks of keys, so that the rest of the engine knows one form. */
#include "attention/internal.h"

#include <stdlib.h>
#include <string.h>

static attn_status blocks_alloc(attn_blocks *blocks, const attn_problem *problem, int64_t size, int64_t heads,
                                attn_error *error) {
    blocks->size = size;
    blocks->heads = heads;
    blocks->query_blocks = attn_ceil_div(problem->queries, size);
    blocks->key_blocks = attn_ceil_div(problem->keys, size);
    const int64_t rows = heads * blocks->query_blocks;
    blocks->start = calloc((size_t)rows + 1, sizeof *blocks->start);
    if (!blocks->start)
        return attn_fail(error, ATTN_NO_MEMORY, "no memory for %lld rows of blocks", (long long)rows);
    return ATTN_OK;
}

static attn_status index_alloc(attn_blocks *blocks, int64_t count, attn_error *error) {
    blocks->index = malloc(((size_t)count + 1) * sizeof *blocks->index);
    if (!blocks->index)
        return attn_fail(error, ATTN_NO_MEMORY, "no memory for %lld selected blocks", (long long)count);
    return ATTN_OK;
}

void attn_blocks_free(attn_blocks *blocks) {
    free(blocks->start);
    free(blocks->index);
    memset(blocks, 0, sizeof *blocks);
}

const int64_t *attn_blocks_row(const attn_blocks *blocks, int64_t head, int64_t i, int64_t *count) {
    const int64_t map = blocks->heads == 1 ? 0 : head;
    const int64_t row = map * blocks->query_blocks + i / blocks->size;
    *count = blocks->start[row + 1] - blocks->start[row];
    return blocks->index + blocks->start[row];
}

/* SplitMix64's output for state x (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* The first `wanted` distinct draws of query block a, sorted into `row`. `drawn` has one mark per key
 * block, each less than a + 1 on entry. */
static void draw_row(int64_t *row, int64_t wanted, int64_t a, uint64_t seed, int64_t key_blocks,
                     int64_t *drawn) {
    const uint64_t state = mix(mix(seed) ^ (uint64_t)a);
    int64_t count = 0;
    for (uint64_t t = 0; count < wanted; t++) {
        const int64_t block = (int64_t)(mix(state ^ t) % (uint64_t)key_blocks);
        if (drawn[block] == a + 1)
            continue;
        drawn[block] = a + 1;
        row[count++] = block;
    }
    attn_sort(row, count, 1);
}

attn_status attn_blocks_random(attn_blocks *blocks, const attn_problem *problem, attn_error *error) {
    const attn_pattern *pattern = &problem->pattern;
    /* All blocks: one that holds them is the same pairs, and costs no list of each row's. */
    const bool all = pattern->random_count >= attn_ceil_div(problem->keys, pattern->random_block);
    const int64_t whole = attn_max(1, attn_max(problem->queries, problem->keys));
    attn_status status = blocks_alloc(blocks, problem, all ? whole : pattern->random_block, 1, error);
    if (status != ATTN_OK)
        return status;
    const int64_t wanted = attn_min(pattern->random_count, blocks->key_blocks);
    if ((status = index_alloc(blocks, wanted * blocks->query_blocks, error)) != ATTN_OK)
        return status;
    int64_t *drawn = calloc((size_t)blocks->key_blocks + 1, sizeof *drawn);
    if (!drawn)
        return attn_fail(error, ATTN_NO_MEMORY, "no memory to draw random blocks");
    for (int64_t a = 0; a < blocks->query_blocks; a++) {
        int64_t *row = blocks->index + a * wanted;
        if (all)
            for (int64_t c = 0; c < wanted; c++) /* the one, where there are keys */
                row[c] = c;
        else
            draw_row(row, wanted, a, pattern->random_seed, blocks->key_blocks, drawn);
        blocks->start[a + 1] = (a + 1) * wanted;
    }
    free(drawn);
    return ATTN_OK;
}

attn_status attn_blocks_map(attn_blocks *blocks, const attn_problem *problem, attn_error *error) {
    const attn_pattern *pattern = &problem->pattern;
    attn_status status = blocks_alloc(blocks, problem, pattern->block_size, pattern->block_heads, error);
    if (status != ATTN_OK)
        return status;
    const int64_t rows = blocks->heads * blocks->query_blocks, columns = blocks->key_blocks;
    int64_t count = 0;
    for (int64_t k = 0; k < rows * columns; k++)
        count += pattern->block_map[k] != 0;
    if ((status = index_alloc(blocks, count, error)) != ATTN_OK)
        return status;
    count = 0;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t c = 0; c < columns; c++)
            if (pattern->block_map[row * columns + c])
                blocks->index[count++] = c;
        blocks->start[row + 1] = count;
    }
    return ATTN_OK;
}
