/* What this machine is: processor, caches, cores, what of it the process may use, and a fingerprint
 * by which results of one machine are known. Usable from C++.
 *
 * Everything is read without privileges and may be missing; what is not known is 0, -1 or "", as
 * stated, and never guessed. */
#ifndef ATTN_MACHINE_H
#define ATTN_MACHINE_H

#include "attnscope.h"
#include "bench/quota.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MACHINE_L1D, MACHINE_L2, MACHINE_L3, MACHINE_CACHE_LEVELS };

/* "L1d", "L2", "L3", and "memory" for MACHINE_CACHE_LEVELS; as keys of a result file "l1d", "l2", ... */
const char *machine_level_name(int level);
const char *machine_level_key(int level);

typedef struct machine_cache {
    int64_t bytes; /* of one instance; 0 when there is none or it is not known */
    int shared_by; /* PUs that share an instance; 0 with bytes */
} machine_cache;

/* A processing unit: what a thread is bound to. */
typedef struct machine_pu {
    int os_index;            /* the operating system's number */
    int core, package, node; /* numbered from 0 in the order of the list; node is NUMA */
    int thread;              /* which of its core's hardware threads, from 0 */
    int kind;                /* core kind, 0 the slowest; 0 everywhere unless hybrid */
    bool allowed;            /* in the process's affinity and cpuset */
    machine_cache cache[MACHINE_CACHE_LEVELS];
} machine_pu;

typedef struct machine {
    /* The processor. */
    char arch[16];                /* "x86-64", "aarch64", or what uname says */
    char vendor[32];              /* "AuthenticAMD", "GenuineIntel", "ARM", "Apple"; "" unknown */
    char brand[96];               /* the name that the processor gives itself; "" unknown */
    int family, model, stepping;  /* AArch64: part, variant, revision; -1 unknown */
    char features[160];           /* those that ISA levels ask for, by name, space between */
    char tuning[160];             /* remarks that do not decide what can run; "" for none */
    char microcode[32];           /* "" unknown */
    char hypervisor[32];          /* its name, or "unnamed"; "" when none is visible */
    char governor[32], boost[16]; /* "" not readable; boost is "on" or "off" */

    /* The system. */
    char kernel[160], libc[64];
    int64_t memory_bytes; /* physical, or the cgroup's limit if that is less; 0 unknown */

    /* The topology; of the whole machine, not only of what is allowed. */
    char source[160]; /* where it comes from, and what is missing for that reason */
    machine_pu *pus;  /* in the order of the hardware: neighbours share caches */
    int pu_count;
    int packages, nodes, cores; /* at least 1 each */
    int core_kinds;             /* 1 unless hybrid */
    char kinds_note[96];        /* why kinds that were reported are ignored; "" */

    /* What the process may use. */
    int allowed_pus; /* at least 1 */
    cpu_quota quota;
    int usable_threads;  /* min(allowed_pus, quota rounded up) */
    int default_threads; /* of these, one per core, cores of the fastest kind only */

    char fingerprint[17]; /* 16 hexadecimal digits over machine_fields */
} machine;

/* Where to look instead of this machine; all zero for this machine. For tests. */
typedef struct machine_options {
    const char *root;      /* before /proc and /sys; NULL: ATTNSCOPE_FSROOT, or nothing */
    const char *synthetic; /* an hwloc synthetic description */
    const char *xml;       /* an hwloc XML file */
    const char *allowed;   /* a CPU list as "0-3,8" instead of the process's affinity */
    bool without_hwloc;    /* the topology of /sys, even where hwloc is built in */
    int hypervisor;        /* 0: as found; 1: as in a virtual machine; -1: as on bare metal */
} machine_options;

/* Describes the machine. Call it before any thread is bound: it takes the affinity of the calling
 * thread for that of the process. NULL with the reason in `error`; release with machine_free. */
machine *machine_load(const machine_options *options, attn_error *error);
void machine_free(machine *m);

/* Chooses PUs for `threads` threads into os_index[threads]: allowed ones only, the fastest kind
 * first, one per core before second hardware threads, neighbours together. Returns how many there
 * are, fewer than `threads` when no more are allowed. */
int machine_pick(const machine *m, int threads, int *os_index);

/* The PU with this number; NULL if there is none. */
const machine_pu *machine_find_pu(const machine *m, int os_index);

/* One kind of cache: `count` instances of `cache`. For display. */
typedef struct machine_cache_group {
    int level; /* MACHINE_L1D ... */
    machine_cache cache;
    int count;
} machine_cache_group;

/* Writes the distinct caches, level by level, at most `size`; returns how many there are. */
int machine_cache_groups(const machine *m, machine_cache_group *groups, int size);

/* The fields of the fingerprint, in order. Neither the clock nor what the process may use is among
 * them: they change from run to run on one machine. */
void machine_fields(const machine *m, void (*each)(void *context, const char *name, const char *value),
                    void *context);

/* Version of the fields: of what machine_fields and `attnscope info --json` hold. */
#define MACHINE_SCHEMA 1

/* The build: "gcc 12.2.0", and the flags that decide speed. */
const char *machine_compiler(void);
const char *machine_flags(void);
const char *machine_build_type(void);
/* Versions of the libraries that it was built with; "" of hwloc where it is not built in. */
const char *machine_hwloc_version(void);
const char *machine_jansson_version(void);

/* ---- Binding ------------------------------------------------------------ */

typedef struct machine_binding {
    bool bound;       /* asked for, granted, and checked afterwards */
    int os_index;     /* the PU asked for */
    int ran_on;       /* the PU that the thread was found on afterwards; -1 unknown */
    char reason[128]; /* why not; "" when bound */
} machine_binding;

/* Binds the calling thread to one PU and checks that it took effect. Returns report->bound. */
bool machine_bind(int os_index, machine_binding *report);

/* Gives the calling thread all allowed PUs again. */
void machine_unbind(const machine *m);

/* ---- Clocks -------------------------------------------------------------- */

/* A monotonic clock, nanoseconds. */
int64_t machine_now_ns(void);

/* Local time with its offset, ISO 8601's extended format: 2026-11-30T15:45:32+00:00. */
void machine_date(char date[32]);

/* The clock that the calling core runs at now, in GHz: a chain of dependent additions, one cycle
 * each, against the monotonic clock. Takes about `milliseconds`; 0 for 2. Interrupted stretches
 * are left out. */
double machine_effective_ghz(double milliseconds);

/* Runs such a chain, and returns how many additions it has. */
double machine_add_chain(int64_t rounds);

#ifdef __cplusplus
}
#endif

#endif
