/* Before the rows: signals, their order, and the limits of the machine. */
#include "bench/session.h"
#include "common/output.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Interruption ---------------------------------------------------------------- */

volatile sig_atomic_t bench_interrupted;

static _Atomic int64_t first_ns; /* when the first signal came */

/* The same once more means at once; but a terminal that goes away sends SIGHUP several times, and timeout(1)
 * and scripts that pass on what they get send each signal both to the program and to its group. */
static void on_signal(int number) {
    const int64_t same_ns = 500000000;
    if (!bench_interrupted)
        first_ns = machine_now_ns();
    if (bench_interrupted == number && number != SIGHUP && machine_now_ns() - first_ns > same_ns) {
        cli_output_abandon();
        signal(number, SIG_DFL);
        raise(number);
    }
    if (!bench_interrupted)
        bench_interrupted = number;
}

void bench_catch_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        sigemptyset(&action.sa_mask);
        /* Ignored is what a shell's background job inherits: it stays so. */
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
    }
}

/* ---- Before the rows -------------------------------------------------------------- */

bool bench_session_order(bench_session *session) {
    bench_rows *rows = session->rows;
    session->order = calloc((size_t)rows->count + 1, sizeof *session->order);
    if (!session->order)
        return false;
    int count = 0;
    for (int i = 0; i < rows->count; i++) {
        if (bench_row_waits(&rows->row[i]))
            session->order[count++] = &rows->row[i];
    }
    uint64_t state = (uint64_t)session->config->seed;
    for (int i = count - 1; i > 0; i--) {
        const int j = (int)(bench_random(&state) % (uint64_t)(i + 1));
        bench_row *swapped = session->order[i];
        session->order[i] = session->order[j];
        session->order[j] = swapped;
    }
    if (count > 1) {
        session->again = *session->order[0];
        session->order[count++] = &session->again;
    }
    /* The first of each problem to run waits for the reference. */
    bench_begin_checks(rows);
    const double repetitions = (double)session->config->repetitions;
    for (int i = 0; i < count; i++) {
        bench_row *row = session->order[i];
        row->planned_ns += bench_plan_check(rows, row) / repetitions;
        session->planned_ns += repetitions * row->planned_ns;
    }
    session->order_count = count;
    return true;
}

bool bench_session_limits(bench_session *session) {
    const bench_rows *rows = session->rows;
    session->limits = calloc((size_t)rows->count + 1, sizeof *session->limits);
    if (!session->limits)
        return false;
    /* Short runs get a short look: the figures are for orientation beside the rows. */
    const double milliseconds = fmin(30, fmax(1, session->config->min_time_s * 200));
    for (int i = 0; i < rows->count && !bench_interrupted; i++) {
        const int threads = rows->row[i].threads;
        bool known = !bench_row_waits(&rows->row[i]);
        for (int k = 0; k < session->limits_count; k++)
            known = known || session->limits[k].threads == threads;
        if (known)
            continue;
        roofline *limits = &session->limits[session->limits_count];
        attn_error error;
        const roofline_watch watch = {session->config->own_table ? bench_progress_limits : NULL, NULL,
                                      &bench_interrupted};
        if (roofline_measure(session->host, threads, milliseconds, limits, &watch, &error) != ATTN_OK) {
            fprintf(stderr, "attnscope bench: no limits for %d threads: %s\n", threads, error.text);
            continue;
        }
        if (!bench_interrupted)
            session->limits_count++;
    }
    return true;
}
