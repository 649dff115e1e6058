/* Small text files of /proc and /sys, below a root that tests may set. Nothing read is believed
 * before it has been checked: what does not parse, or lies outside its range, counts as not there. */
#ifndef ATTN_SYSFS_H
#define ATTN_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Root that applies: `root`, else ATTNSCOPE_FSROOT, else "". */
const char *sysfs_root(const char *root);

/* First line of the file, without the newline; false if there is no file, the line is empty, does not
 * fit, or holds anything but printable ASCII. `path` is a printf format. */
bool sysfs_line(char *text, size_t size, const char *root, const char *path, ...)
    __attribute__((format(printf, 4, 5)));

/* A decimal integer in min..max, the whole line. */
bool sysfs_int(int64_t *value, int64_t min, int64_t max, const char *root, const char *path, ...)
    __attribute__((format(printf, 5, 6)));

/* The whole text as a decimal integer in min..max. */
bool sysfs_parse_int(const char *text, int64_t min, int64_t max, int64_t *value);
/* "48K", "32M", "512": bytes, positive. */
bool sysfs_parse_bytes(const char *text, int64_t *bytes);

/* Whether `name` is one of those in "A,B,C": it may begin or end another of them. */
bool sysfs_in_list(const char *list, const char *name);

/* A set of CPU numbers, as wide as Linux allows. */
enum { SYSFS_CPUS = 8192 };
typedef struct sysfs_cpus {
    uint64_t words[SYSFS_CPUS / 64];
} sysfs_cpus;

bool sysfs_has_cpu(const sysfs_cpus *cpus, int cpu);
void sysfs_add_cpu(sysfs_cpus *cpus, int cpu);
int sysfs_count_cpus(const sysfs_cpus *cpus);
/* Lowest member; -1 when empty. */
int sysfs_first_cpu(const sysfs_cpus *cpus);
/* "0-3,8"; false, and an empty set, unless the whole text is such a list with a member. */
bool sysfs_parse_cpus(const char *text, sysfs_cpus *cpus);
bool sysfs_cpu_list(sysfs_cpus *cpus, const char *root, const char *path, ...)
    __attribute__((format(printf, 3, 4)));

#endif
