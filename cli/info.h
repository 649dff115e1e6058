/* What `attnscope info` gathers, and its two ways of showing it. */
#ifndef ATTN_CLI_INFO_H
#define ATTN_CLI_INFO_H

#include "bench/counters.h"
#include "bench/machine.h"
#include "bench/roofline.h"

#include <jansson.h>
#include <limits.h>

typedef struct info_report {
    const machine *machine;
    double ghz;        /* effective clock, now */
    bool counted;      /* hardware counters, as `bench` reads them, are available; else see the reason */
    counters counters; /* closed again */
    const char *default_isa; /* what "auto" means; NULL where it means nothing that can run, see the reason */
    const char *no_default;
    int roofline_count;        /* 0 unless asked for */
    roofline rooflines[2];     /* one thread; one a core */
    char measured_at[32];      /* as machine_date writes it */
    bool cached;               /* by an earlier run */
    bool disturbed;            /* some of the figures were, by other work: they are not kept */
    bool kept;                 /* now, for later runs */
    char cache_file[PATH_MAX]; /* "" when there is no place for one */
} info_report;

/* What is kept of this machine (by fingerprint); false when there is nothing that can be used. */
bool info_cache_load(info_report *report);
/* The same of what such a file holds. */
bool info_cache_read(info_report *report, const json_t *file);
/* Dates the figures just measured and keeps them for later runs, unless other work disturbed them. */
void info_cache_store(info_report *report);

/* Tables, then a drawing of the ceilings. */
void info_print_rooflines(const info_report *report);

/* "48 KiB", "1 MiB", "12.5 MiB". */
void info_format_bytes(int64_t bytes, char *text, size_t size);

void info_print_text(const info_report *report);
/* Strict JSON. Prints an error and returns false when there is no memory. */
bool info_print_json(const info_report *report);

/* Whether this machine can run level `index`; `reason` is "" if it can. */
bool info_isa_runs(int index, char *reason, size_t size);

#endif
