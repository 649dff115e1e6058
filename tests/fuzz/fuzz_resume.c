/* Rows of a result file that `attnscope bench --resume` goes on with: `benchmarks` of it. */
#include "tests/fuzz/fuzz.h"

#include "bench/session.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 2 };
static const char *const ids[ROWS] = {"a", "b"};

static size_t count_rows(const json_t *list, const char *id) {
    size_t at, count = 0;
    json_t *row;
    json_array_foreach(list, at, row) {
        const char *own = json_string_value(json_object_get(row, "id"));
        count += own && strcmp(own, id) == 0;
    }
    return count;
}

/* What is taken for measured has a time and samples, the table can print it, and nothing is lost or there
 * twice. */
static void check_taken(const bench_session *session, const json_t *list) {
    size_t kept = json_array_size(session->resumed.others), at;
    json_t *row;
    int there = 0;
    for (int i = 0; i < ROWS; i++) {
        const bench_row *taken = &session->rows->row[i];
        kept += taken->kept != NULL;
        there += taken->there;
        FUZZ_CHECK(count_rows(list, ids[i]) == (taken->kept != NULL), "row %s", ids[i]);
        FUZZ_CHECK(!taken->there || taken->kept, "row %s", ids[i]);
        if (!taken->there)
            continue;
        const bench_result *r = &taken->result;
        FUZZ_CHECK(r->measured && r->median_ns > 0 && r->median_ns <= 1e18, "%g ns", r->median_ns);
        FUZZ_CHECK(r->sample_count >= 1 && r->min_ns >= 0 && r->p25_ns >= 0 && r->p75_ns >= 0 &&
                       r->cpu_share >= 0,
                   "%d samples of %g ns", r->sample_count, r->min_ns);
        FUZZ_CHECK(r->threads_used >= 0 && r->calls >= 0 && r->calls_per_sample >= 0, "%d threads",
                   r->threads_used);
    }
    FUZZ_CHECK(kept == json_array_size(list) && there == session->resumed.rows, "%zu rows", kept);
    json_array_foreach(session->resumed.others, at, row)
        FUZZ_CHECK(count_rows(list, json_string_value(json_object_get(row, "id"))) == 1, "row %zu", at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *list = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_array(list)) { /* said before the rows are looked at */
        json_decref(list);
        return 0;
    }
    bench_config config = {.out = "results.json"};
    bench_row row[ROWS] = {0};
    for (int i = 0; i < ROWS; i++)
        strcpy(row[i].id, ids[i]);
    bench_rows rows = {.row = row, .count = ROWS};
    bench_session session = {.config = &config, .rows = &rows, .resumed = {.others = json_array()}};
    fuzz_listen();
    const int status = bench_resume_rows(&session, list);
    FUZZ_CHECK(fuzz_listened(status != 0) == (status != 0), "status %d", status);
    FUZZ_CHECK(status == 0 || status == 2, "status %d", status);
    if (status == 0)
        check_taken(&session, list);
    for (int i = 0; i < ROWS; i++)
        json_decref(row[i].kept);
    json_decref(session.resumed.others);
    json_decref(list);
    return 0;
}
