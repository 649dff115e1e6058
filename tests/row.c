#include "tests/row.h"

row row_new(int64_t n, guard_place place, const char *stream, double size) {
    row r = {.buffer = guard_new((size_t)n * sizeof(float), place, sizeof(float)), .n = n};
    assert_true(n <= (int64_t)COUNT_OF(r.before));
    test_rng rng = test_rng_start(stream, (uint64_t)n);
    r.x = r.buffer.data;
    for (int64_t i = 0; i < n; i++)
        r.x[i] = r.before[i] = (float)(size * test_normal(&rng));
    return r;
}

void row_free(row *r) {
    assert_true(guard_intact(&r->buffer));
    guard_free(&r->buffer);
}

void row_each_size(const attn_kernels *kernels,
                   void (*body)(const attn_kernels *kernels, int64_t n, guard_place place)) {
    int64_t sizes[TEST_SIZES];
    const int count = test_sizes(sizes, kernels->lanes, 64);
    for (int i = 0; i < count; i++)
        for (int place = 0; place < GUARD_PLACES; place++)
            body(kernels, sizes[i], (guard_place)place);
}
