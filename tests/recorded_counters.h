/* Hardware counters that answer what a test has recorded: files of what reads return, one after the other. */
#ifndef ATTN_TESTS_RECORDED_COUNTERS_H
#define ATTN_TESTS_RECORDED_COUNTERS_H

#include "tests/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/counters.h"
#include "bench/machine.h"

/* One read of a group of `members`, as the kernel writes it; -1 on failure. */
static inline ssize_t recorded_write(int fd, uint64_t members, uint64_t enabled, uint64_t running,
                                     const double *value) {
    uint64_t words[3 + COUNTERS_EVENTS] = {members, enabled, running};
    for (uint64_t i = 0; i < members; i++)
        words[3 + i] = (uint64_t)value[i];
    return write(fd, words, (3 + members) * sizeof *words);
}

/* A file of its own, which nothing is left of once it is closed. */
static inline int recorded_file(void) {
    char name[] = "/tmp/attnscope-counters-XXXXXX";
    const int fd = mkstemp(name);
    assert_true(fd >= 0);
    unlink(name);
    return fd;
}

/* What a sound processor counts for the chain that counters are calibrated with. */
static inline double recorded_chain(double value[COUNTERS_EVENTS]) {
    const double adds = machine_add_chain(COUNTERS_CHAIN_ROUNDS);
    const double sound[COUNTERS_EVENTS] = {adds * 35 / 32, adds * 1.003, 12, 1, 4};
    for (int event = 0; event < COUNTERS_EVENTS; event++)
        value[event] = sound[event];
    return adds;
}

static inline void expect_text(const char *text, const char *part, const char *what) {
    if (!strstr(text, part))
        test_fail("%s: '%s' has no '%s'", what, text, part);
}

#endif
