/* What a result file says of a session: the numbers that hold for it alone. */
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

static json_t *make_limits(const roofline *l) {
    json_t *object = json_object();
    bench_set_integer(object, "threads", l->threads);
    bench_set_integer(object, "bound", l->bound);
    json_object_set_new(object, "disturbed", json_boolean(roofline_disturbed(l)));
    json_t *isas = json_object();
    for (int i = 0; i < attn_isa_count() && i < ROOFLINE_MAX_ISA; i++) {
        if (!(l->peak[i].gflops > 0))
            continue;
        json_t *isa = json_object();
        bench_set_real(isa, "fma_gflops", l->peak[i].gflops);
        bench_set_real(isa, "ghz", l->peak[i].ghz);
        bench_set_real(isa, "fma_cpu_share", l->peak[i].cpu_share);
        bench_set_real(isa, "exp_g", l->exp_g[i]);
        bench_set_real(isa, "exp_cpu_share", l->exp_cpu_share[i]);
        json_object_set_new(isas, attn_isa_name(i), isa);
    }
    json_object_set_new(object, "isa", isas);
    json_t *levels = json_object();
    for (int i = 0; i < ROOFLINE_LEVELS; i++) {
        if (!(l->level[i].read_gbs > 0))
            continue;
        json_t *level = json_object();
        bench_set_integer(level, "bytes", l->level[i].bytes);
        if (i < ROOFLINE_MEMORY)
            bench_set_integer(level, "holds_bytes", l->level[i].holds_bytes);
        bench_set_real(level, "read_gbs", l->level[i].read_gbs);
        bench_set_real(level, "read_cpu_share", l->level[i].read_cpu_share);
        bench_set_real(level, "copy_gbs", l->level[i].copy_gbs);
        bench_set_real(level, "copy_cpu_share", l->level[i].copy_cpu_share);
        json_object_set_new(levels, machine_level_key(i), level);
    }
    json_object_set_new(object, "level", levels);
    json_t *readings = json_array();
    for (int i = 0; i < l->readings; i++) {
        const roofline_reading *reading = &l->reading[i];
        json_t *entry = json_object();
        bench_set_integer(entry, "bytes", reading->bytes);
        bench_set_real(entry, "gbs", reading->gbs);
        bench_set_real(entry, "cpu_share", reading->cpu_share);
        json_array_append_new(readings, entry);
    }
    json_object_set_new(object, "readings", readings);
    return object;
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

/* Where the time went. What is not sampling, beside it, is what measuring costs. */
static json_t *make_time(const bench_session *session) {
    static const char *const parts[BENCH_PARTS] = {"preparing_s", "peaks_s",    "warm_up_s",
                                                   "sampling_s",  "counting_s", "checking_s"};
    json_t *object = json_object();
    const double sampling = session->part_ns[BENCH_SAMPLING];
    bench_set_real(object, "before_rows_s", (double)(session->measuring_ns - session->started_ns) / 1e9);
    bench_set_real(object, "rows_s", session->rows_ns / 1e9);
    for (int i = 0; i < BENCH_PARTS; i++)
        bench_set_real(object, parts[i], session->part_ns[i] / 1e9);
    if (sampling > 0)
        bench_set_real(object, "overhead", session->rows_ns / sampling - 1);
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
        json_array_append_new(limits, make_limits(&session->limits[i]));
    json_object_set_new(object, "roofline", limits);
    json_object_set_new(object, "counters", bench_counting_context(session));
    if (drift)
        json_object_set_new(object, "drift", drift);
    return object;
}
