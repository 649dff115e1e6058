/* The two sources of a machine's topology. Each fills pus, pu_count and source; numbers of cores,
 * packages and nodes count from 0 in the order of the list; `allowed` is left to the caller. */
#ifndef ATTN_TOPOLOGY_H
#define ATTN_TOPOLOGY_H

#include "bench/machine.h"

/* From hwloc: this machine, or the options' synthetic or XML one. Only in builds that have it. */
bool topology_from_hwloc(machine *m, const machine_options *options, attn_error *error);

/* From /sys/devices/system below `root`; where that is not there, as many PUs as sysconf counts, of
 * which nothing else is known. */
bool topology_from_sys(machine *m, const char *root, attn_error *error);

#endif
