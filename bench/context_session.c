/* What a result file says of a session: the numbers that hold for it alone. */
#include "bench/roofline_json.h"
#include "bench/session.h"

#include <math.h>

static json_t *make_binding(const bench_session *session) {
    json_t *list = json_array();
    for (int i = 0; i < session->threads_made; i++) {
        const machine_binding *binding = bench_pool_binding(session->pool, i);
        json_t *object = json_object();
        bench_set_integer(object, "thread", i);
        json_object_set_new(object, "bound", json_boolean(binding->bound));
        if (binding->bound) {
            bench_set_integer(object, "cpu", binding->os_index);
            bench_set_integer(object, "ran_on", binding->ran_on);
        }
        bench_set_text(object, "reason", binding->reason);
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *make_drift(const bench_session *session) {
    double change;
    if (!bench_drift(session, &change))
        return NULL;
    json_t *object = json_object();
    bench_set_text(object, "id", session->order[0]->id);
    bench_set_real(object, "first_ns", session->order[0]->result.median_ns);
    bench_set_real(object, "last_ns", session->again.result.median_ns);
    bench_set_real(object, "change", change);
    json_object_set_new(object, "flagged", json_boolean(fabs(change) > BENCH_DRIFT));
    return object;
}

static json_t *make_steal(const bench_session *session) {
    double stolen_ns, share;
    json_t *object = json_object();
    const bool known = bench_stolen(session, &stolen_ns, &share);
    json_object_set_new(object, "available", json_boolean(known));
    if (known) {
        bench_set_real(object, "stolen_s", stolen_ns / 1e9);
        bench_set_real(object, "share", share);
        json_object_set_new(object, "flagged", json_boolean(share > 1 - BENCH_UNDISTURBED));
    }
    return object;
}

static json_t *make_peaks(const bench_session *session) {
    json_t *peaks = json_object();
    for (int i = 0; i < attn_isa_count() && i < ROOFLINE_MAX_ISA; i++) {
        if (session->best_peak[i] > 0)
            bench_set_real(peaks, attn_isa_name(i), session->best_peak[i]);
    }
    return peaks;
}

/* Where the time went. What measuring costs is what surrounds the samples of a row for the row's own sake;
 * apart from that are what the reference takes once for each problem, and what lies between rows: files, the
 * library. */
static json_t *make_time(const bench_session *session) {
    static const char *const parts[BENCH_PARTS] = {"preparing_s", "peaks_s",    "warm_up_s",
                                                   "sampling_s",  "counting_s", "checking_s"};
    json_t *object = json_object();
    const double sampling = session->part_ns[BENCH_SAMPLING], reference = session->expected.spent_ns;
    double in_rows = 0;
    bench_set_real(object, "before_rows_s", (double)(session->measuring_ns - session->started_ns) / 1e9);
    bench_set_real(object, "rows_s", session->rows_ns / 1e9);
    for (int i = 0; i < BENCH_PARTS; i++) {
        const double ns = session->part_ns[i] - (i == BENCH_CHECKING ? reference : 0);
        bench_set_real(object, parts[i], ns / 1e9);
        in_rows += ns;
    }
    bench_set_real(object, "reference_s", reference / 1e9);
    if (session->rows_ns > 0) /* not while they run */
        bench_set_real(object, "between_rows_s", fmax(0, session->rows_ns - in_rows - reference) / 1e9);
    if (sampling > 0)
        bench_set_real(object, "overhead", in_rows / sampling - 1);
    return object;
}

json_t *bench_context_session(const bench_session *session) {
    json_t *object = json_object(), *limits = json_array(), *drift = make_drift(session);
    bench_set_integer(object, "number", session->resumed.sessions + 1);
    json_object_set(object, "date", json_object_get(session->library_context, "date"));
    bench_set_integer(object, "rows", bench_count_measured(session->rows));
    json_object_set_new(object, "interrupted", json_boolean(bench_interrupted != 0));
    bench_set_real(object, "min_time_s",
                   session->least_time_s > 0 ? session->least_time_s : session->config->min_time_s);
    bench_set_real(object, "elapsed_s", (double)(machine_now_ns() - session->started_ns) / 1e9);
    json_object_set_new(object, "time", make_time(session));
    json_object_set_new(object, "steal", make_steal(session));
    json_object_set_new(object, "binding", make_binding(session));
    json_object_set_new(object, "peak_gflops", make_peaks(session));
    for (int i = 0; i < session->limits_count; i++)
        json_array_append_new(limits, roofline_to_json(&session->limits[i]));
    json_object_set_new(object, "roofline", limits);
    json_object_set_new(object, "counters", bench_counting_context(session));
    if (drift)
        json_object_set_new(object, "drift", drift);
    return object;
}
