/* The sort of runs and counts, against qsort. */
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

#include "attention/internal.h"

static int by_first(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int by_both(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    const int first = by_first(x, y);
    return first ? first : by_first(x + 1, y + 1);
}

/* Guards: lists of any length around the steps, with many equal numbers, with none, sorted already and
 * backwards; of one number an item, and of two, which stay together. */
static void as_qsort(void **state) {
    static const int64_t lengths[] = {0,  1,  2,  3,  4,   5,   9,   10,   11,  23,
                                      24, 57, 64, 65, 133, 302, 702, 2104, 7000};
    for (size_t n = 0; n < COUNT_OF(lengths); n++)
        for (int kind = 0; kind < 4; kind++)
            for (int numbers = 1; numbers <= 2; numbers++) {
                const int64_t count = lengths[n];
                const size_t bytes = (size_t)(count * numbers) * sizeof(int64_t);
                test_rng rng = test_rng_start("sort", n * 8 + (size_t)kind * 2 + (size_t)numbers);
                int64_t *items = malloc(bytes + 1), *expected = malloc(bytes + 1);
                assert_true(items && expected);
                for (int64_t k = 0; k < count * numbers; k++)
                    items[k] = kind == 0   ? test_between(&rng, -3, 3)
                               : kind == 1 ? (int64_t)test_random(&rng)
                                           : (kind == 2 ? k : -k) / numbers;
                memcpy(expected, items, bytes);
                qsort(expected, (size_t)count, (size_t)numbers * sizeof(int64_t),
                      numbers == 1 ? by_first : by_both);
                attn_sort(items, count, numbers);
                assert_memory_equal(items, expected, bytes);
                free(items);
                free(expected);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_qsort)};
    return test_run("sort", tests, COUNT_OF(tests));
}
