/* Time that a hypervisor gave to others while this machine's CPUs had work (Linux, proc_stat(5)). */
#ifndef ATTN_STEAL_H
#define ATTN_STEAL_H

#include <stdint.h>

/* Nanoseconds stolen from these CPUs since the start of the system, in the kernel's ticks; -1 where nothing
 * says so of each of them. `root` stands before /proc. */
int64_t steal_ns(const char *root, const int *os_index, int count);
/* Nanoseconds of a tick: what is less does not show. */
int64_t steal_tick_ns(void);

#endif
