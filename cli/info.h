/* What `attnscope info` gathers, and its two ways of showing it. */
#ifndef ATTN_CLI_INFO_H
#define ATTN_CLI_INFO_H

#include "bench/machine.h"
#include "bench/roofline.h"

typedef struct info_report {
    const machine *machine;
    double ghz;              /* effective clock, now */
    const char *default_isa; /* what "auto" means; NULL where it means nothing that can run, see the reason */
    const char *no_default;
    int roofline_count;    /* 0 unless measured */
    roofline rooflines[2]; /* one thread; all threads */
} info_report;

/* "48 KiB", "1 MiB", "12.5 MiB". */
void info_format_bytes(int64_t bytes, char *text, size_t size);

void info_print_text(const info_report *report);
/* Strict JSON. Prints an error and returns false when there is no memory. */
bool info_print_json(const info_report *report);

/* Whether this machine can run level `index`; `reason` is "" if it can. */
bool info_isa_runs(int index, char *reason, size_t size);

#endif
