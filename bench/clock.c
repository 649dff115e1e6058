/* The monotonic clock, and the core's own clock measured against it. */
#include "bench/machine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int64_t machine_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void machine_date(char date[32]) {
    const time_t now = time(NULL);
    struct tm local;
    char zone[8];
    localtime_r(&now, &local);
    strftime(zone, sizeof zone, "%z", &local);
    strftime(date, 26, "%Y-%m-%dT%H:%M:%S", &local);
    snprintf(date + strlen(date), 8, "%.3s:%.2s", zone, zone + 3);
}

/* Additions of one register to another, each waiting for the one before: one cycle each on every
 * processor of the last twenty years. Not an immediate: Golden Cove folds those at renaming. */
#if defined(__x86_64__) || defined(__i386__)
#    define ADD() __asm__ volatile("add %1, %0" : "+r"(x) : "r"(y) : "cc")
#elif defined(__aarch64__)
#    define ADD() __asm__ volatile("add %0, %0, %1" : "+r"(x) : "r"(y))
#else
#    define ADD() __asm__ volatile("" : "+r"(x = x + y))
#endif

#define ADD8()                                                                                               \
    ADD();                                                                                                   \
    ADD();                                                                                                   \
    ADD();                                                                                                   \
    ADD();                                                                                                   \
    ADD();                                                                                                   \
    ADD();                                                                                                   \
    ADD();                                                                                                   \
    ADD()

enum { CHAIN = 32 };

static void run_chain(int64_t rounds) {
    uintptr_t x = 1, y = 3;
    for (int64_t i = 0; i < rounds; ++i) {
        ADD8();
        ADD8();
        ADD8();
        ADD8();
    }
}

double machine_add_chain(int64_t rounds) {
    run_chain(rounds);
    return (double)rounds * CHAIN;
}

double machine_effective_ghz(double milliseconds) {
    /* Stretches of about 100 microseconds at a few GHz: long against reading the clock, short against
     * a time slice, so that some of them are not interrupted. The fastest is the answer. */
    enum { ROUNDS = 8192 };
    if (!(milliseconds > 0))
        milliseconds = 2;
    double best = 0;
    int64_t start = machine_now_ns();
    int64_t end = start + (int64_t)(milliseconds * 1e6);
    int64_t now = start;
    do {
        int64_t before = machine_now_ns();
        run_chain(ROUNDS);
        now = machine_now_ns();
        double ghz = now > before ? (double)ROUNDS * CHAIN / (double)(now - before) : 0;
        best = ghz > best ? ghz : best;
    } while (now < end);
    return best;
}
