/* What is seen on the terminal: progress while it runs, the table and the warnings at the end. */
#include "bench/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool on_terminal(void) {
    return isatty(STDERR_FILENO);
}

static int columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

void bench_progress(const bench_session *session, const bench_row *row) {
    if (!on_terminal() || !session->config->own_table)
        return;
    /* Planned time corrected by how true the plan has been so far. */
    double left = session->planned_ns - session->done_ns;
    const double elapsed = (double)(machine_now_ns() - session->measuring_ns);
    if (session->done_ns > 0.05 * session->planned_ns)
        left *= elapsed / session->done_ns;
    char line[64 + BENCH_ID_BYTES];
    const int planned = session->order_count * (int)session->config->repetitions;
    if (session->done < planned)
        snprintf(line, sizeof line, "%3d/%d  %4.0f s left  %s", session->done + 1, planned, left / 1e9,
                 row->id);
    else
        snprintf(line, sizeof line, "once more: %s", row->id);
    fprintf(stderr, "\r\033[K%.*s", columns() - 1, line);
    fflush(stderr);
}

void bench_progress_limits(void *context, const char *figure) {
    (void)context;
    if (!on_terminal())
        return;
    fprintf(stderr, "\r\033[Kmeasuring this machine: %s", figure);
    fflush(stderr);
}

void bench_progress_clear(void) {
    if (on_terminal())
        fprintf(stderr, "\r\033[K");
}

/* Nanoseconds with three to four digits. */
static const char *format_time(char *text, size_t size, double ns) {
    const char *const units[] = {"ns", "us", "ms", "s"};
    int unit = 0;
    for (; ns >= 999.95 && unit < 3; unit++)
        ns /= 1000;
    snprintf(text, size, ns < 9.995 ? "%.2f %s" : "%.1f %s", ns, units[unit]);
    return text;
}

static void table_row(const bench_row *row) {
    const bench_result *r = &row->result;
    char time[24], gflops[16] = "-", peak[16] = "-";
    if (row->flops_useful > 0) {
        snprintf(gflops, sizeof gflops, "%.1f", row->flops_useful / r->median_ns);
        snprintf(peak, sizeof peak, "%.1f", bench_pct_peak(row));
    }
    /* Half the middle half: what an outlier does not move. */
    const double spread = 50 * (r->p75_ns - r->p25_ns) / r->median_ns;
    printf("%10s%c %5.1f%% %4d %8s %6s %5.2f %-7s %-6s %s\n", format_time(time, sizeof time, r->median_ns),
           bench_disturbed(row) ? '*' : ' ', spread, r->sample_count, gflops, peak, r->ghz, row->info.isa,
           row->kind == BENCH_KERNEL ? "-" : attn_algorithm_name(row->info.algorithm), row->id);
}

static void print_foot(const bench_rows *rows) {
    puts("median of n samples; +- is half the range of their middle half; GFLOP/s and %peak count useful "
         "pairs");
    int measured = 0;
    for (int i = 0; i < rows->count; i++)
        measured += rows->row[i].result.measured;
    const int disturbed = bench_count_disturbed(rows);
    if (disturbed > 0)
        printf(
            "%d of %d rows were disturbed (*): their threads got less than %.0f %% of a CPU; other work ran "
            "beside them\n",
            disturbed, measured, 100 * BENCH_UNDISTURBED);
}

void bench_table(const bench_session *session) {
    bool any = false;
    for (int i = 0; i < session->rows->count; i++) {
        const bench_row *row = &session->rows->row[i];
        if (!row->result.measured)
            continue;
        if (!any)
            printf("%10s  %6s %4s %8s %6s %5s %-7s %-6s %s\n", "median", "+-", "n", "GFLOP/s", "%peak", "GHz",
                   "isa", "ran", "row");
        any = true;
        table_row(row);
    }
    if (any)
        print_foot(session->rows);
    fflush(stdout);
}

void bench_warnings(const bench_session *session) {
    const bench_rows *rows = session->rows;
    double drift;
    if (!bench_interrupted && bench_count_measured(rows) == 0 && session->config->out)
        fprintf(stderr, "attnscope bench: nothing was %s, nothing written to %s\n",
                session->resumed.rows > 0 ? "left to measure" : "measured", session->config->out);
    for (int i = 0; i < rows->count; i++) {
        if (*rows->row[i].left_out)
            fprintf(stderr, "attnscope bench: left out %s: %s\n", rows->row[i].id, rows->row[i].left_out);
    }
    for (int i = 0; i < rows->count; i++) {
        if (*rows->row[i].error)
            fprintf(stderr, "attnscope bench: no result for %s: %s\n", rows->row[i].id, rows->row[i].error);
    }
    int doubted = 0;
    for (int i = 0; i < rows->count; i++)
        doubted += rows->row[i].result.measured && rows->row[i].result.above_bandwidth;
    if (doubted > 0)
        fprintf(stderr,
                "attnscope bench: %d row%s read faster than memory or the last cache was seen to be read "
                "(pct_bandwidth above %d): other work took of it while that was measured\n",
                doubted, doubted == 1 ? "" : "s", BENCH_FAULT_PCT);
    json_t *differ = bench_checksums_differ(rows), *entry;
    if (!differ)
        fprintf(stderr, "attnscope bench: not enough memory to compare what rows of one problem compute\n");
    size_t at;
    json_array_foreach(differ, at, entry) fprintf(
        stderr, "attnscope bench: %s does not compute what %s does: sums %.10g and %.10g\n",
        json_string_value(json_object_get(entry, "id")), json_string_value(json_object_get(entry, "with")),
        json_number_value(json_object_get(entry, "checksum")),
        json_number_value(json_object_get(entry, "checksum_with")));
    json_decref(differ);
    double stolen_ns, share;
    if (bench_stolen(session, &stolen_ns, &share) && share > 1 - BENCH_UNDISTURBED)
        fprintf(stderr, "attnscope bench: the hypervisor gave %.0f %% of the rows' CPU time to others\n",
                100 * share);
    if (bench_drift(session, &drift) && fabs(drift) > BENCH_DRIFT)
        fprintf(stderr,
                "attnscope bench: the machine drifted: the first row took %+.1f %% when repeated at the end "
                "(%s)\n",
                100 * drift, session->order[0]->id);
}
