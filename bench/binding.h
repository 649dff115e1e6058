/* The PUs that the calling thread may use, as the system keeps them. */
#ifndef ATTN_BINDING_H
#define ATTN_BINDING_H

#include "bench/machine.h"
#include "bench/sysfs.h"

/* False, and an empty set, where the system does not say. */
bool binding_allowed(sysfs_cpus *cpus);

#endif
