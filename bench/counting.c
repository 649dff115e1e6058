/* Hardware counters around the samples of rows: on every thread of the pool, each reading its own. */
#include "bench/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct counting_thread {
    counters counters;
    counters_reading before, after;
    char padding[64]; /* threads write side by side */
} counting_thread;

struct bench_counting {
    counting_thread *thread; /* one a thread of the pool; NULL where nothing is counted */
    int threads;
    counters_opener opener; /* NULL: the system's */
    void *opener_context;
    double cpu_ns; /* of the process, when the samples began */
    char reason[sizeof "not available: " + sizeof((counters *)NULL)->reason]; /* why nothing is counted; "" */
};

static void open_task(void *context, int worker) {
    bench_counting *counting = context;
    counters_open(&counting->thread[worker].counters, counting->opener, counting->opener_context);
}

static void before_task(void *context, int worker) {
    counting_thread *t = &((bench_counting *)context)->thread[worker];
    counters_read(&t->counters, &t->before);
}

static void after_task(void *context, int worker) {
    counting_thread *t = &((bench_counting *)context)->thread[worker];
    counters_read(&t->counters, &t->after);
}

static void close_all(bench_counting *counting) {
    for (int i = 0; counting->thread && i < counting->threads; i++)
        counters_close(&counting->thread[i].counters);
    free(counting->thread);
    counting->thread = NULL;
}

bool bench_counting_start(bench_session *session, counters_opener opener, void *context) {
    bench_counting *counting = session->counting = calloc(1, sizeof *counting);
    if (!counting)
        return false;
    if (session->config->no_counters) {
        snprintf(counting->reason, sizeof counting->reason, "left out (--no-counters)");
        return true;
    }
    counting->opener = opener;
    counting->opener_context = context;
    counting->threads = session->threads_made;
    counting->thread = calloc((size_t)counting->threads, sizeof *counting->thread);
    if (!counting->thread)
        return false;
    bench_pool_start(session->pool, counting->threads);
    bench_pool_run(session->pool, open_task, counting);
    bench_pool_stop(session->pool);
    for (int i = 0; i < counting->threads && !*counting->reason; i++) {
        const char *reason = counting->thread[i].counters.reason;
        if (*reason)
            snprintf(counting->reason, sizeof counting->reason, "not available: %s", reason);
    }
    if (*counting->reason)
        close_all(counting);
    return true;
}

void bench_counting_free(bench_session *session) {
    if (session->counting)
        close_all(session->counting);
    free(session->counting);
    session->counting = NULL;
}

/* Calls of a stage run the stages before it, and some kernels' input is made anew between calls: what is
 * counted around them is not theirs alone. */
static bool counts(const bench_session *session, const bench_row *row) {
    return session->counting && session->counting->thread &&
           (row->kind == BENCH_ATTENTION || (row->kind == BENCH_KERNEL && !row->kernel->restore));
}

void bench_counting_begin(bench_session *session, const bench_row *row) {
    if (!counts(session, row))
        return;
    const int64_t start = machine_now_ns();
    session->counting->cpu_ns = bench_cpu_now_ns();
    bench_pool_run(session->pool, before_task, session->counting);
    session->part_ns[BENCH_COUNTING] += (double)(machine_now_ns() - start);
}

void bench_counting_end(bench_session *session, bench_row *row, int64_t calls) {
    if (!counts(session, row))
        return;
    const int64_t start = machine_now_ns();
    bench_counting *counting = session->counting;
    counters_sum *sum = &row->result.counted;
    bench_pool_run(session->pool, after_task, counting);
    sum->cpu_ns += bench_cpu_now_ns() - counting->cpu_ns;
    sum->calls += (double)calls;
    for (int i = 0; i < session->instance.threads; i++) {
        const counting_thread *t = &counting->thread[i];
        counters_add(sum, &t->counters, &t->before, &t->after);
    }
    session->part_ns[BENCH_COUNTING] += (double)(machine_now_ns() - start);
}

void bench_counting_judge(const bench_session *session, bench_row *row) {
    counters_sum *sum = &row->result.counted;
    if (!(sum->calls > 0))
        return;
    /* A multiply-add in each lane, at most. */
    const counters_context context = {.ghz = row->result.ghz,
                                      .flops = row->flops_useful * sum->calls,
                                      .flops_per_instruction = 2.0 * session->instance.kernels->lanes};
    counters_check_row(sum, &context);
}

json_t *bench_counting_row(const bench_row *row) {
    const counters_sum *sum = &row->result.counted;
    if (!(sum->calls > 0))
        return NULL;
    json_t *object = json_object();
    if (*sum->reason) {
        bench_set_text(object, "reason", sum->reason);
        return object;
    }
    for (int event = 0; event < COUNTERS_EVENTS; event++) {
        if (sum->counted[event])
            bench_set_real(object, counters_name(event), sum->value[event] / sum->calls);
    }
    bench_set_real(object, "ipc", sum->value[COUNTERS_INSTRUCTIONS] / sum->value[COUNTERS_CYCLES]);
    bench_set_real(object, "share_counted", sum->share);
    bench_set_integer(object, "calls_counted", (int64_t)sum->calls);
    return object;
}

json_t *bench_counting_context(const bench_session *session) {
    const bench_counting *counting = session->counting;
    json_t *object = json_object();
    const bool available = counting && counting->thread;
    json_object_set_new(object, "available", json_boolean(available));
    if (!available) {
        /* Without any: the run ended before the first row. */
        bench_set_text(object, "reason", counting ? counting->reason : "not available: no row was measured");
        return object;
    }
    json_t *missing = json_object();
    for (int event = 0; event < COUNTERS_EVENTS; event++) {
        for (int i = 0; i < counting->threads; i++)
            bench_set_text(missing, counters_name(event), counting->thread[i].counters.missing[event]);
    }
    json_object_set_new(object, "missing", missing);
    return object;
}
