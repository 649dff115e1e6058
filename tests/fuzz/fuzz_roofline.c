/* Limits that `attnscope info --roofline` has kept in the user's cache. */
#include "tests/fuzz/fuzz.h"

#include "bench/roofline_json.h"
#include "cli/info.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_number(double value, const char *name) {
    FUZZ_CHECK(isfinite(value) && value >= 0, "%s is %g", name, value);
}

static void check_roofline(const roofline *r) {
    FUZZ_CHECK(r->threads == 1 && r->readings >= 0 && r->readings <= ROOFLINE_MAX_READINGS, "%d threads",
               r->threads);
    for (int i = 0; i < ROOFLINE_MAX_ISA; i++) {
        check_number(r->peak[i].gflops, "peak");
        check_number(r->peak[i].ghz, "clock");
        check_number(r->exp_g[i], "exp");
    }
    for (int i = 0; i < ROOFLINE_LEVELS; i++) {
        check_number(r->level[i].read_gbs, "read");
        check_number(r->level[i].copy_gbs, "copy");
        FUZZ_CHECK(!r->level[i].bytes == !(r->level[i].read_gbs > 0), "%d", i);
    }
    for (int i = 0; i < r->readings; i++) {
        check_number(r->reading[i].gbs, "reading");
        FUZZ_CHECK(r->reading[i].bytes > 0 &&
                       roofline_read_best(r, (double)r->reading[i].bytes)->gbs >= r->reading[i].gbs,
                   "reading %d", i);
    }
    /* What is shown and written again is read as the same. */
    json_t *written = roofline_to_json(r);
    static roofline again;
    FUZZ_CHECK(written && roofline_from_json(written, &again), "its own JSON");
    FUZZ_CHECK(again.threads == r->threads && again.readings == r->readings &&
                   memcmp(again.level, r->level, sizeof r->level) == 0 &&
                   memcmp(again.peak, r->peak, sizeof r->peak) == 0,
               "its own JSON");
    json_decref(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* A machine of which no cache is known: one level, and one reading, so that a whole file is short. */
    static machine_pu pu = {.allowed = true};
    static const machine m = {.pus = &pu,
                              .pu_count = 1,
                              .allowed_pus = 1,
                              .core_kinds = 1,
                              .usable_threads = 1,
                              .default_threads = 1,
                              .fingerprint = "0123456789abcdef"};
    static info_report report;
    json_t *file = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    memset(&report, 0, sizeof report);
    report.machine = &m;
    if (file && info_cache_read(&report, file)) {
        FUZZ_CHECK(report.cached && report.roofline_count == 1, "%d rooflines", report.roofline_count);
        FUZZ_CHECK(strnlen(report.measured_at, sizeof report.measured_at) < sizeof report.measured_at,
                   "the date");
        check_roofline(&report.rooflines[0]);
    } else {
        FUZZ_CHECK(!report.cached && report.roofline_count == 0, "refused, but taken");
    }
    /* Each by itself too: most inputs are of no machine. */
    static roofline r;
    if (file && roofline_from_json(file, &r))
        FUZZ_CHECK(r.threads > 0 && r.readings >= 0 && r.readings <= ROOFLINE_MAX_READINGS, "%d threads",
                   r.threads);
    json_decref(file);
    return 0;
}
