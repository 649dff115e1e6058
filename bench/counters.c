#include "bench/counters.h"
#include "bench/machine.h"
#include "bench/sysfs.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#    include <linux/perf_event.h>
#    include <sys/syscall.h>
#endif

const char *counters_name(int event) {
    static const char *const names[COUNTERS_EVENTS] = {"instructions", "cycles", "l1d_misses", "llc_misses",
                                                       "branch_misses"};
    return event >= 0 && event < COUNTERS_EVENTS ? names[event] : NULL;
}

/* ---- Opening ---------------------------------------------------------------------- */

#ifdef __linux__
#    define READ_MISSES(cache)                                                                               \
        ((cache) | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

/* Not PERF_COUNT_HW_CACHE_MISSES for the last cache: on AMD it counts misses of the L2. */
static int open_event(void *context, int event, int group) {
    static const struct {
        uint32_t type;
        uint64_t config;
    } events[COUNTERS_EVENTS] = {
        [COUNTERS_INSTRUCTIONS] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
        [COUNTERS_CYCLES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
        [COUNTERS_L1D_MISSES] = {PERF_TYPE_HW_CACHE, READ_MISSES(PERF_COUNT_HW_CACHE_L1D)},
        [COUNTERS_LLC_MISSES] = {PERF_TYPE_HW_CACHE, READ_MISSES(PERF_COUNT_HW_CACHE_LL)},
        [COUNTERS_BRANCH_MISSES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    };
    /* User mode only: what the default of perf_event_paranoid allows everybody. */
    struct perf_event_attr attributes = {
        .type = events[event].type,
        .size = sizeof attributes,
        .config = events[event].config,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };
    const long fd = syscall(SYS_perf_event_open, &attributes, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}
#else
static int open_event(void *context, int event, int group) {
    return -ENOSYS;
}
#endif

static const int64_t not_readable = -100;

void counters_explain(int error, int64_t paranoid, bool sibling, char *text, size_t size) {
    const char *name = error == EACCES ? "EACCES" : "EPERM";
    if (sibling && (error == ENOENT || error == EOPNOTSUPP))
        snprintf(text, size, "no such event (%s)", error == ENOENT ? "ENOENT" : "EOPNOTSUPP");
    else if (sibling && error == EINVAL)
        snprintf(text, size, "no such event, or too many at once (EINVAL)");
    else if (error == ENOENT || error == EOPNOTSUPP || error == ENODEV)
        snprintf(text, size, "no hardware counters here, as in a virtual machine that is given none (%s)",
                 error == ENOENT   ? "ENOENT"
                 : error == ENODEV ? "ENODEV"
                                   : "EOPNOTSUPP");
    else if (error == ENOSYS)
        snprintf(text, size, "no perf_event_open: not Linux, an emulator, or a seccomp filter (ENOSYS)");
    else if (error != EACCES && error != EPERM)
        snprintf(text, size, "perf_event_open: %s (errno %d)", strerror(error), error);
    else if (paranoid < -1)
        snprintf(text, size, "forbidden (%s), and perf_event_paranoid is not readable", name);
    else if (paranoid > 2)
        snprintf(text, size, "forbidden (%s): /proc/sys/kernel/perf_event_paranoid is %lld, above 2", name,
                 (long long)paranoid);
    else
        snprintf(text, size,
                 "forbidden (%s), though perf_event_paranoid is %lld: a seccomp filter or security module",
                 name, (long long)paranoid);
}

static void explain(int error, bool sibling, char *text, size_t size) {
    int64_t paranoid;
    if (!sysfs_int(&paranoid, -1, 100, sysfs_root(NULL), "/proc/sys/kernel/perf_event_paranoid"))
        paranoid = not_readable;
    counters_explain(error, paranoid, sibling, text, size);
}

/* Until one chain was counted from end to end; where the counters are shared out by turns, which takes some
 * milliseconds, until there is enough of all of them. */
static bool calibrate(counters *c) {
    enum { CHAINS = 64 };
    counters_sum sum = {0};
    counters_reading before, after;
    double adds = 0;
    counters_read(c, &before);
    for (int i = 0; i < CHAINS; i++) {
        counters_reading first;
        counters_read(c, &first);
        const double chain = machine_add_chain(COUNTERS_CHAIN_ROUNDS);
        counters_read(c, &after);
        adds += chain;
        if (first.valid && after.valid &&
            after.running_ns - first.running_ns == after.enabled_ns - first.enabled_ns) {
            before = first;
            adds = chain;
            break;
        }
    }
    counters_add(&sum, c, &before, &after);
    if (counters_check_chain(&sum, adds))
        return true;
    snprintf(c->reason, sizeof c->reason, "%s", sum.reason);
    return false;
}

bool counters_open(counters *c, counters_opener opener, void *context) {
    *c = (counters){.reason = ""};
    for (int event = 0; event < COUNTERS_EVENTS; event++)
        c->fd[event] = -1;
    for (int event = 0; event < COUNTERS_EVENTS; event++) {
        const int leader = c->fd[COUNTERS_INSTRUCTIONS];
        const int fd = (opener ? opener : open_event)(context, event, leader);
        if (fd >= 0) {
            c->fd[event] = fd;
        } else if (event > COUNTERS_CYCLES) {
            explain(-fd, true, c->missing[event], sizeof c->missing[event]);
        } else {
            explain(-fd, event > 0, c->reason, sizeof c->reason);
            break;
        }
    }
    if (!*c->reason && calibrate(c))
        return true;
    counters_close(c);
    return false;
}

void counters_close(counters *c) {
    /* The leader last, though the kernel minds no order. */
    for (int event = COUNTERS_EVENTS - 1; event >= 0; event--) {
        if (c->fd[event] >= 0)
            close(c->fd[event]);
        c->fd[event] = -1;
    }
}

/* ---- Reading ---------------------------------------------------------------------- */

static uint64_t count_members(const counters *c) {
    uint64_t members = 0;
    for (int event = 0; event < COUNTERS_EVENTS; event++)
        members += c->fd[event] >= 0;
    return members;
}

void counters_decode(const counters *c, const uint64_t *words, int64_t bytes, counters_reading *reading) {
    *reading = (counters_reading){.valid = false};
    const uint64_t members = count_members(c);
    if (bytes != (int64_t)((3 + members) * sizeof *words) || words[0] != members)
        return;
    reading->enabled_ns = words[1];
    reading->running_ns = words[2];
    const uint64_t *value = words + 3;
    for (int event = 0; event < COUNTERS_EVENTS; event++) {
        if (c->fd[event] >= 0)
            reading->value[event] = *value++;
    }
    reading->valid = reading->running_ns <= reading->enabled_ns;
}

void counters_read(const counters *c, counters_reading *reading) {
    /* The kernel refuses to cut an answer that is longer (ENOSPC). */
    uint64_t words[3 + COUNTERS_EVENTS] = {0};
    const size_t size = (3 + count_members(c)) * sizeof *words;
    counters_decode(c, words, read(c->fd[COUNTERS_INSTRUCTIONS], words, size), reading);
}

/* ---- Adding up -------------------------------------------------------------------- */

/* What went wrong first stands. */
__attribute__((format(printf, 2, 3))) static bool refuse(counters_sum *sum, const char *format, ...) {
    if (*sum->reason)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sum->reason, sizeof sum->reason, format, arguments);
    va_end(arguments);
    return false;
}

void counters_add(counters_sum *sum, const counters *c, const counters_reading *before,
                  const counters_reading *after) {
    if (!before->valid || !after->valid) {
        refuse(sum, "the counters' answer has not the form that was asked for");
        return;
    }
    bool backwards = after->enabled_ns < before->enabled_ns || after->running_ns < before->running_ns;
    for (int event = 0; event < COUNTERS_EVENTS; event++)
        backwards = backwards || after->value[event] < before->value[event];
    const double enabled = (double)(after->enabled_ns - before->enabled_ns),
                 running = (double)(after->running_ns - before->running_ns);
    if (backwards || running > enabled) {
        refuse(sum, "the counters ran backwards");
        return;
    }
    const double share = enabled > 0 ? running / enabled : 0;
    if (share < COUNTERS_MIN_SHARE) {
        refuse(sum, "counted for %.3g %% of the time, below %g %%: others use the counters", 100 * share,
               100 * COUNTERS_MIN_SHARE);
        return;
    }
    const bool first = !(sum->share > 0);
    sum->share = first ? share : fmin(sum->share, share);
    for (int event = 0; event < COUNTERS_EVENTS; event++) {
        sum->counted[event] = c->fd[event] >= 0 && (first || sum->counted[event]);
        sum->value[event] += (double)(after->value[event] - before->value[event]) / share;
    }
}

/* ---- Judging ---------------------------------------------------------------------- */

bool counters_check_chain(counters_sum *sum, double adds) {
    const double instructions = sum->value[COUNTERS_INSTRUCTIONS], cycles = sum->value[COUNTERS_CYCLES];
    /* 32 additions a round, and what closes it: three instructions, or a dozen without optimisation. A start
     * of the pipeline after an interrupt takes cycles; nothing makes them fewer. */
    if (!*sum->reason && !(instructions >= adds && instructions <= 1.5 * adds))
        return refuse(sum, "a chain of %.0f additions counts %.0f instructions", adds, instructions);
    if (!*sum->reason && !(cycles >= 0.9 * adds && cycles <= 1.5 * adds))
        return refuse(sum, "a chain of %.0f dependent additions counts %.0f cycles", adds, cycles);
    for (int event = COUNTERS_L1D_MISSES; event < COUNTERS_EVENTS; event++) {
        if (sum->value[event] > adds / 50)
            return refuse(sum, "a chain of %.0f additions counts %.0f %s", adds, sum->value[event],
                          counters_name(event));
    }
    return !*sum->reason;
}

bool counters_check_row(counters_sum *sum, const counters_context *context) {
    const double instructions = sum->value[COUNTERS_INSTRUCTIONS], cycles = sum->value[COUNTERS_CYCLES];
    if (!*sum->reason && !(instructions > 0 && cycles > 0))
        return refuse(sum, "%.0f instructions, %.0f cycles", instructions, cycles);
    if (instructions > 16 * cycles)
        return refuse(sum, "%.0f instructions in %.0f cycles: more than 16 a cycle", instructions, cycles);
    for (int event = COUNTERS_L1D_MISSES; event < COUNTERS_EVENTS; event++) {
        if (sum->value[event] > instructions)
            return refuse(sum, "%.0f %s, more than the %.0f instructions", sum->value[event],
                          counters_name(event), instructions);
    }
    const double expected = context->ghz * sum->cpu_ns;
    if (sum->cpu_ns >= 1e6 && expected > 0 && !(cycles >= 0.5 * expected && cycles <= 1.25 * expected))
        return refuse(sum, "%.4g cycles, %.2f of CPU time x effective clock (0.5 to 1.25 can be true)",
                      cycles, cycles / expected);
    if (context->flops > instructions * context->flops_per_instruction && context->flops_per_instruction > 0)
        return refuse(sum, "%.4g instructions cannot do %.4g FLOPs, at most %g each", instructions,
                      context->flops, context->flops_per_instruction);
    return !*sum->reason;
}
