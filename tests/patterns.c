#include "tests/patterns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line a pattern: add new terms here and every test of patterns covers them. */
static const char *const texts[] = {
    "dense",
    "causal",
    "causal-top-left",
    "causal,prefix=5",
    "causal-top-left,prefix=70",
    "chunk=1",
    "chunk=13",
    "causal,chunk=64",
    "window=1",
    "window=2",
    "window=63",
    "window=64",
    "window=65",
    "causal,window=10",
    "window=100000",
    "window=0:0",
    "window=3:5",
    "window=0:70",
    "window=inf:2",
    "window=7:inf",
    "window=inf:inf",
    "causal,window=16,sink=4",
    "sink=1",
    "sink=65",
    "causal,sink=3",
    "global=2",
    "causal,global=3",
    "window=2:2,global=1",
    "stride=1",
    "stride=3",
    "causal,stride=8",
    "stride=100",
    "causal,window=8,stride=16",
    "causal-top-left,window=20,sink=2",
    "causal,prefix=9,chunk=32,window=6",
    "random=1:1:0",
    "random=2:16:7",
    "random=1000:8:9",
    "causal,window=4,global=2,random=2:32:18446744073709551615",
    "blocks=map:1",
    "blocks=map:16",
    "causal,window=9,blocks=map:64",
    "blocks=maps:24",
    "topk=1",
    "topk=7",
    "causal,window=30,topk=100000",
};

int pattern_count(void) {
    return (int)COUNT_OF(texts);
}

const char *pattern_text(int index) {
    return texts[index];
}

attn_pattern pattern_at(int index, int64_t heads) {
    char text[128];
    long long block = 0;
    const char *maps = strstr(texts[index], "blocks=");
    const size_t length = maps ? (size_t)(maps - texts[index]) : strlen(texts[index]);
    snprintf(text, sizeof text, "%.*s", (int)length, texts[index]);
    if (maps && length > 0)
        text[length - 1] = '\0'; /* the comma before it */
    attn_pattern pattern = {0};
    attn_error error = {""};
    if (text[0] != '\0' && attn_pattern_parse(text, &pattern, &error) != ATTN_OK)
        test_fail("%s: %s", text, error.text);
    if (maps) {
        assert_int_equal(sscanf(strchr(maps, ':'), ":%lld", &block), 1);
        pattern.terms |= ATTN_BLOCKS;
        pattern.block_size = block;
        pattern.block_heads = maps[strlen("blocks=map")] == 's' ? heads : 1;
    }
    return pattern;
}

attn_pattern pattern_random(test_rng *rng, int64_t n, int64_t heads) {
    attn_pattern pattern = {0};
    for (int64_t left = test_between(rng, 1, 4); left > 0; left--)
        pattern.terms |= (uint32_t)1 << test_between(rng, 0, 10);
    if (!(pattern.terms & (ATTN_CAUSAL | ATTN_CAUSAL_TOP_LEFT)))
        pattern.terms &= ~(uint32_t)ATTN_PREFIX;
    const int64_t size = n + 4;
    pattern.prefix = test_between(rng, 1, size);
    pattern.chunk = test_between(rng, 1, size);
    pattern.window_left = test_between(rng, 0, 5) ? test_between(rng, 0, size) : ATTN_WINDOW_INF;
    pattern.window_right = test_between(rng, 0, 5) ? test_between(rng, 0, size / 4 + 1) : ATTN_WINDOW_INF;
    pattern.sink = test_between(rng, 1, size / 4 + 1);
    pattern.global = test_between(rng, 1, size / 4 + 1);
    pattern.stride = test_between(rng, 1, size);
    pattern.random_count = test_between(rng, 1, 4);
    pattern.random_block = test_between(rng, 1, size / 4 + 1);
    pattern.random_seed = test_random(rng);
    pattern.topk = test_between(rng, 1, size);
    pattern.block_size = test_between(rng, 1, size / 4 + 1);
    pattern.block_heads = test_between(rng, 0, 1) ? heads : 1;
    return pattern;
}

uint8_t *pattern_map(attn_pattern *pattern, int64_t size, int64_t count, int64_t heads, int64_t blocks) {
    uint8_t *map = calloc((size_t)(heads * blocks * blocks), 1);
    assert_non_null(map);
    for (int64_t row = 0; row < heads * blocks; row++)
        for (int64_t left = count, c = row * 7; left > 0; c += 29) {
            uint8_t *selected = &map[row * blocks + c % blocks];
            left -= !*selected;
            *selected = 1;
        }
    pattern->terms = ATTN_BLOCKS;
    pattern->block_size = size;
    pattern->block_heads = heads;
    pattern->block_map = map;
    return map;
}
