/* Everything about the processor and the system that is not topology. */
#ifndef ATTN_SYSTEM_H
#define ATTN_SYSTEM_H

#include "bench/machine.h"

/* Fills the fields of processor and system; `hypervisor` as in machine_options. */
void system_describe(machine *m, const char *root, int hypervisor);

/* Governor and boost of the allowed PUs; call it when they are known. */
void system_frequency(machine *m, const char *root);

#endif
