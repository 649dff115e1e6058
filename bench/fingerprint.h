/* The fingerprint of a machine and its build. */
#ifndef ATTN_FINGERPRINT_H
#define ATTN_FINGERPRINT_H

#include "bench/machine.h"

/* Fills m->fingerprint from machine_fields. */
void fingerprint_compute(machine *m);

#endif
