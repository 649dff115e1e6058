/* Machines for tests: loaded or failed, and topologies that only hwloc makes. */
#ifndef ATTN_TESTS_MACHINES_H
#define ATTN_TESTS_MACHINES_H

#include "tests/support.h"

#include "bench/build_info.h"
#include "bench/machine.h"

#define TWO_SOCKETS "package:2 l3:1(size=33554432) l2:4(size=1048576) l1d:1(size=32768) core:1 pu:2"

static inline machine *load(const machine_options *options) {
    attn_error error = {{0}};
    machine *m = machine_load(options, &error);
    if (!m)
        test_fail("%s", error.text);
    return m;
}

#ifdef HAVE_HWLOC
static inline void need_hwloc(void) {
}
#else
static inline void need_hwloc(void) {
    test_skip("hwloc is not built in");
}
#endif

#endif
