#include "bench/steal.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int64_t steal_tick_ns(void) {
    const long per_second = sysconf(_SC_CLK_TCK);
    return 1000000000 / (per_second > 0 ? per_second : 100);
}

/* "cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ..."; false for "cpu  ...", the sum of all. */
static bool read_line(const char *line, int *index, int64_t *ticks) {
    char name[16], excess;
    return sscanf(line, "%15s %*u %*u %*u %*u %*u %*u %*u %" SCNd64, name, ticks) == 2 && *ticks >= 0 &&
           sscanf(name, "cpu%d%c", index, &excess) == 1 && *index >= 0;
}

static bool is_wanted(int index, const int *os_index, int count) {
    bool wanted = false;
    for (int i = 0; i < count; i++)
        wanted = wanted || os_index[i] == index;
    return wanted;
}

int64_t steal_ns(const char *root, const int *os_index, int count) {
    char name[1024], line[512];
    snprintf(name, sizeof name, "%s/proc/stat", root);
    FILE *file = fopen(name, "r");
    int64_t sum = 0;
    int found = 0;
    /* CPUs come first, and what follows may be long. */
    while (file && fgets(line, sizeof line, file)) {
        int index;
        int64_t ticks;
        if (strncmp(line, "cpu", 3) != 0)
            break;
        if (!read_line(line, &index, &ticks) || !is_wanted(index, os_index, count))
            continue;
        sum += ticks;
        found++;
    }
    if (file)
        fclose(file);
    return found == count ? sum * steal_tick_ns() : -1;
}
