/* One way of sorting for runs and counts: short lists of intervals, long ones of block maps. */
#include "attention/internal.h"

static bool less(const int64_t *a, const int64_t *b, int numbers) {
    return a[0] != b[0] || numbers == 1 ? a[0] < b[0] : a[1] < b[1];
}

static void move(int64_t *to, const int64_t *from, int numbers) {
    to[0] = from[0];
    if (numbers == 2)
        to[1] = from[1];
}

/* Shellsort, with Ciura's first steps (Experimental Analysis of Insertion Sort, 2001) and from there on three
 * times as wide ones. A short list, usually nearly sorted, costs a round or two of insertion. */
void attn_sort(int64_t *items, int64_t count, int numbers) {
    static const int64_t steps[] = {1,    4,     10,    23,     57,     132,     301,     701,     2103,
                                    6309, 18927, 56781, 170343, 511029, 1533087, 4599261, 13797783};
    int round = sizeof steps / sizeof *steps - 1;
    while (round > 0 && steps[round] >= count)
        round--;
    for (; round >= 0; round--) {
        const int64_t step = steps[round];
        for (int64_t k = step; k < count; k++) {
            int64_t one[2] = {0}, at = k;
            move(one, items + k * numbers, numbers);
            for (; at >= step && less(one, items + (at - step) * numbers, numbers); at -= step)
                move(items + at * numbers, items + (at - step) * numbers, numbers);
            move(items + at * numbers, one, numbers);
        }
    }
}
