/* How many CPUs a container lets this process use: the CPU quota of its cgroups, version 1 and 2. */
#ifndef ATTN_QUOTA_H
#define ATTN_QUOTA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cpu_quota {
    double cpus;      /* CPU time per time; 0 when there is no limit */
    int version;      /* of the cgroup that sets it: 1 or 2; 0 without a limit */
    char source[256]; /* the file that sets it, without the root; "" without a limit */
} cpu_quota;

/* The tightest limit among this process's cgroup and all its parents. `root` stands before /proc
 * and /sys ("" for the real ones), so that a test can bring its own. What is not there or does not
 * parse sets no limit. */
cpu_quota quota_read(const char *root);

/* Threads that keep within `quota`: its CPUs, rounded up, at least 1; INT_MAX without a limit. */
int quota_threads(const cpu_quota *quota);

/* The tightest memory limit of the same cgroups, in bytes; INT64_MAX without one. */
int64_t quota_memory_bytes(const char *root);

#ifdef __cplusplus
}
#endif

#endif
