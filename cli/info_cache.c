/* The limits of `attnscope info --roofline`, kept between runs: one file for each fingerprint, below the
 * user's cache directory, with the date of the measurement. */
#include "cli/info.h"
#include "bench/roofline_json.h"
#include "common/cli.h"
#include "common/output.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Version of what the file holds: 2 had other names, and dates as in +0000. */
enum { CACHE_SCHEMA = 3 };

/* Appends to a path; false when it does not fit. */
static bool append(char *path, size_t size, const char *text) {
    const size_t used = strlen(path), more = strlen(text);
    if (used + more >= size)
        return false;
    memcpy(path + used, text, more + 1);
    return true;
}

/* XDG Base Directory Specification: $XDG_CACHE_HOME where it is an absolute path, else $HOME/.cache. */
static bool set_path(info_report *report) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = report->cache_file;
    const size_t size = sizeof report->cache_file;
    *path = 0;
    if (base && *base == '/')
        return append(path, size, base) && append(path, size, "/attnscope/roofline-") &&
               append(path, size, report->machine->fingerprint) && append(path, size, ".json");
    return home && *home == '/' && append(path, size, home) &&
           append(path, size, "/.cache/attnscope/roofline-") &&
           append(path, size, report->machine->fingerprint) && append(path, size, ".json");
}

/* Makes the directories above the file that are not there yet, for the user alone as the specification asks.
 */
static bool make_directories(const char *file) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", file);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            cli_error("cannot make the directory %s: %s", path, strerror(errno));
            return false;
        }
        *slash = '/';
    }
    return true;
}

/* Whether all is there that measuring would give now, for the same sizes. */
static bool is_whole(const machine *m, const roofline *r) {
    int *os_index = calloc((size_t)r->threads, sizeof *os_index);
    roofline *wanted = calloc(1, sizeof *wanted);
    bool whole = os_index && wanted && machine_pick(m, r->threads, os_index) == r->threads;
    if (whole) {
        roofline_choose_sizes(m, os_index, r->threads, wanted);
        whole = r->readings == wanted->readings;
    }
    for (int i = 0; whole && i < r->readings; ++i)
        whole = r->reading[i].bytes == wanted->reading[i].bytes && r->reading[i].gbs > 0;
    for (int i = 0; whole && i < ROOFLINE_LEVELS; ++i) {
        const roofline_bandwidth *level = &r->level[i];
        whole = level->bytes == wanted->level[i].bytes &&
                (!level->bytes || (level->read_gbs > 0 && level->copy_gbs > 0));
    }
    for (int i = 0; whole && i < attn_isa_count() && i < ROOFLINE_MAX_ISA; ++i)
        whole = attn_isa_check(attn_isa_name(i), NULL) != ATTN_OK ||
                (r->peak[i].gflops > 0 && r->peak[i].ghz > 0 && r->exp_g[i] > 0);
    free(os_index);
    free(wanted);
    return whole;
}

/* The file is of this machine and holds what would be measured now. What is damaged, or of another version,
 * is as good as not there: it is measured again and replaced. */
bool info_cache_read(info_report *report, const json_t *file) {
    const machine *m = report->machine;
    const char *fingerprint = json_string_value(json_object_get(file, "fingerprint"));
    const char *date = json_string_value(json_object_get(file, "date"));
    const json_t *rooflines = json_object_get(file, "roofline");
    const int wanted = m->default_threads > 1 ? 2 : 1;
    if (json_integer_value(json_object_get(file, "schema")) != CACHE_SCHEMA || !fingerprint || !date ||
        strcmp(fingerprint, m->fingerprint) != 0 || json_array_size(rooflines) != (size_t)wanted ||
        strlen(date) >= sizeof report->measured_at)
        return false;
    for (int i = 0; i < wanted; ++i) {
        roofline *r = &report->rooflines[i];
        if (!roofline_from_json(json_array_get(rooflines, (size_t)i), r) || roofline_disturbed(r) ||
            r->threads != (i == 0 ? 1 : m->default_threads) || !is_whole(m, r))
            return false;
    }
    strcpy(report->measured_at, date);
    report->roofline_count = wanted;
    report->cached = true;
    return true;
}

bool info_cache_load(info_report *report) {
    if (!set_path(report))
        return false;
    json_t *file = json_load_file(report->cache_file, JSON_REJECT_DUPLICATES, NULL);
    const bool usable = file && info_cache_read(report, file);
    json_decref(file);
    return usable;
}

void info_cache_store(info_report *report) {
    machine_date(report->measured_at);
    for (int i = 0; i < report->roofline_count; ++i)
        report->disturbed = report->disturbed || roofline_disturbed(&report->rooflines[i]);
    if (report->disturbed)
        return;
    static cli_output output;
    json_t *file = json_object(), *rooflines = json_array();
    json_object_set_new(file, "schema", json_integer(CACHE_SCHEMA));
    json_object_set_new(file, "fingerprint", json_string(report->machine->fingerprint));
    json_object_set_new(file, "date", json_string(report->measured_at));
    for (int i = 0; i < report->roofline_count; ++i)
        json_array_append_new(rooflines, roofline_to_json(&report->rooflines[i]));
    json_object_set_new(file, "roofline", rooflines);
    char *text = json_dumps(file, JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    json_decref(file);
    /* The figures are shown whether or not they can be kept: the message says why not, the exit code stays.
     */
    report->kept = text && set_path(report) && make_directories(report->cache_file) &&
                   cli_output_prepare(&output, "roofline", report->cache_file) && cli_output_open(&output) &&
                   cli_output_write(&output, text, strlen(text)) && cli_output_close(&output) &&
                   cli_output_commit(&output);
    cli_output_discard(&output);
    free(text);
}
