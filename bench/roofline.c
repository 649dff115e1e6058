/* Peaks and bandwidths, by the entries of the kernel table that are made for it. */
#include "bench/roofline.h"
#include "bench/team.h"
#include "dispatch/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXP_COUNT = 2048, DEFAULT_MILLISECONDS = 30 };

/* The arguments of one kind of work. */
typedef struct work {
    const attn_kernels *kernels;
    float *from, *to;
    int64_t count; /* floats a round */
} work;

static _Thread_local volatile float sink; /* what was computed is used; no line is shared */

static void fma_rounds(void *context, int64_t rounds) {
    const work *w = context;
    sink = w->kernels->fma_peak(rounds);
}

static void exp_rounds(void *context, int64_t rounds) {
    const work *w = context;
    for (int64_t i = 0; i < rounds; ++i)
        w->kernels->exp(w->to, w->from, w->count);
    sink = w->to[w->count - 1];
}

static void read_rounds(void *context, int64_t rounds) {
    const work *w = context;
    float sum = 0;
    for (int64_t i = 0; i < rounds; ++i)
        sum += w->kernels->read(w->from, w->count);
    sink = sum;
}

static void copy_rounds(void *context, int64_t rounds) {
    const work *w = context;
    for (int64_t i = 0; i < rounds; ++i)
        w->kernels->copy(w->to, w->from, w->count);
    sink = w->to[w->count - 1];
}

static double or_default(double milliseconds) {
    return milliseconds > 0 ? milliseconds : DEFAULT_MILLISECONDS;
}

static roofline_peak measure_fma(team *t, int me, const attn_kernels *kernels, double milliseconds) {
    work w = {.kernels = kernels};
    roofline_peak peak;
    /* Of short looks no more than is in proportion, but several stretches of the clock. */
    const double clock_ms = milliseconds < 1.5 ? milliseconds / 1.5 : 1;
    double before = machine_effective_ghz(clock_ms);
    const team_figure best = team_rate(t, me, fma_rounds, &w, milliseconds);
    double after = machine_effective_ghz(clock_ms);
    peak.gflops = best.rate * (double)kernels->peak_flops / 1e9;
    peak.cpu_share = best.cpu_share;
    peak.ghz = before > after ? before : after;
    return peak;
}

/* The others: `unit` a round, in 10^9 a second. */
static team_figure measure(team *t, int me, team_work of, work *w, double unit, double milliseconds) {
    team_figure figure = team_rate(t, me, of, w, milliseconds);
    figure.rate *= unit / 1e9;
    return figure;
}

static team_figure measure_exp(team *t, int me, const attn_kernels *kernels, double milliseconds) {
    float x[EXP_COUNT], y[EXP_COUNT];
    for (int i = 0; i < EXP_COUNT; ++i)
        x[i] = -20.0f * (float)i / EXP_COUNT;
    work w = {.kernels = kernels, .from = x, .to = y, .count = EXP_COUNT};
    return measure(t, me, exp_rounds, &w, EXP_COUNT, milliseconds);
}

static team_figure measure_read(team *t, int me, const attn_kernels *kernels, float *buffer, int64_t bytes,
                                double milliseconds) {
    work w = {.kernels = kernels, .from = buffer, .count = bytes / 4};
    return measure(t, me, read_rounds, &w, (double)w.count * 4, milliseconds);
}

static team_figure measure_copy(team *t, int me, const attn_kernels *kernels, float *buffer, int64_t bytes,
                                double milliseconds) {
    int64_t half = bytes / 8;
    work w = {.kernels = kernels, .from = buffer, .to = buffer + half, .count = half};
    return measure(t, me, copy_rounds, &w, (double)half * 8, milliseconds);
}

roofline_peak roofline_fma(const attn_kernels *kernels, double milliseconds) {
    return measure_fma(NULL, 0, kernels, or_default(milliseconds));
}

double roofline_read(const attn_kernels *kernels, int64_t bytes, double milliseconds) {
    void *buffer;
    if (posix_memalign(&buffer, 4096, (size_t)bytes) != 0)
        return 0;
    memset(buffer, 0, (size_t)bytes);
    const team_figure figure = measure_read(NULL, 0, kernels, buffer, bytes, or_default(milliseconds));
    free(buffer);
    return figure.rate;
}

int roofline_isa(const char *name) {
    for (int i = 0; name && i < attn_isa_count() && i < ROOFLINE_MAX_ISA; ++i) {
        if (strcmp(attn_isa_name(i), name) == 0)
            return i;
    }
    return -1;
}

bool roofline_disturbed(const roofline *r) {
    bool disturbed = false;
    for (int i = 0; i < ROOFLINE_MAX_ISA; ++i)
        disturbed = disturbed || (r->peak[i].gflops > 0 && (r->peak[i].cpu_share < BENCH_UNDISTURBED ||
                                                            r->exp_cpu_share[i] < BENCH_UNDISTURBED));
    for (int i = 0; i < ROOFLINE_LEVELS; ++i)
        disturbed = disturbed || (r->level[i].bytes && (r->level[i].read_cpu_share < BENCH_UNDISTURBED ||
                                                        r->level[i].copy_cpu_share < BENCH_UNDISTURBED));
    return disturbed;
}

/* ---- Everything ------------------------------------------------------------------ */

typedef struct survey {
    roofline *result; /* written by member 0 */
    const attn_kernels *isa[ROOFLINE_MAX_ISA];
    const attn_kernels *best;
    double milliseconds;
    const roofline_watch *watch;
    float **buffers; /* one a member */
    int64_t buffer_bytes;
} survey;

static void tell(const survey *s, int me, const char *what, const char *figure) {
    char text[64];
    if (me != 0 || !s->watch->progress || (s->watch->stop && *s->watch->stop))
        return;
    snprintf(text, sizeof text, "%s %s", what, figure);
    s->watch->progress(s->watch->context, text);
}

/* A third of a figure's time each: there are many, and a level's figure is the best of several. */
static void survey_reading(team *t, int me, const survey *s, float *buffer) {
    for (int i = 0; i < s->result->readings; ++i) {
        roofline_reading *reading = &s->result->reading[i];
        char text[32];
        snprintf(text, sizeof text, "%lld KiB", (long long)(reading->bytes >> 10));
        tell(s, me, "reading", text);
        const team_figure read = measure_read(t, me, s->best, buffer, reading->bytes, s->milliseconds / 3);
        if (me == 0) {
            reading->gbs = read.rate;
            reading->cpu_share = read.cpu_share;
        }
    }
    if (me == 0)
        roofline_judge_levels(s->result);
}

static void survey_levels(team *t, int me, const survey *s, float *buffer) {
    survey_reading(t, me, s, buffer);
    for (int level = 0; level < ROOFLINE_LEVELS; ++level) {
        roofline_bandwidth *figure = &s->result->level[level];
        if (!figure->bytes)
            continue;
        tell(s, me, machine_level_name(level), "copy");
        const team_figure copy = measure_copy(t, me, s->best, buffer, figure->bytes, s->milliseconds);
        if (me == 0) {
            figure->copy_gbs = copy.rate;
            figure->copy_cpu_share = copy.cpu_share;
        }
    }
}

static void survey_body(team *t, int me, void *context) {
    survey *s = context;
    /* The first touch is here, on the PU, so that the pages are this node's. */
    memset(s->buffers[me], 0, (size_t)s->buffer_bytes);
    for (int i = 0; i < attn_isa_count() && i < ROOFLINE_MAX_ISA; ++i) {
        if (!s->isa[i])
            continue;
        tell(s, me, s->isa[i]->name, "fma");
        roofline_peak peak = measure_fma(t, me, s->isa[i], s->milliseconds);
        tell(s, me, s->isa[i]->name, "exp");
        const team_figure exps = measure_exp(t, me, s->isa[i], s->milliseconds);
        if (me == 0) {
            s->result->peak[i] = peak;
            s->result->exp_g[i] = exps.rate;
            s->result->exp_cpu_share[i] = exps.cpu_share;
        }
    }
    survey_levels(t, me, s, s->buffers[me]);
}

static attn_status run_survey(const machine *m, survey *s, attn_error *error) {
    roofline *result = s->result;
    if (result->readings > 0)
        s->buffer_bytes = result->reading[result->readings - 1].bytes;
    for (int i = 0; i < result->threads; ++i) {
        void *buffer;
        if (posix_memalign(&buffer, 4096, (size_t)s->buffer_bytes) != 0)
            return attn_fail(error, ATTN_NO_MEMORY, "no memory for a buffer of %lld bytes",
                             (long long)s->buffer_bytes);
        s->buffers[i] = buffer;
    }
    return team_run(m, result->threads, survey_body, s, s->watch->stop, &result->bound, error);
}

attn_status roofline_measure(const machine *m, int threads, double milliseconds, roofline *result,
                             const roofline_watch *watch, attn_error *error) {
    memset(result, 0, sizeof *result);
    if (threads < 1 || threads > m->usable_threads)
        return attn_fail(error, ATTN_INVALID, "threads %d; accepted: 1 to %d, what this process may use",
                         threads, m->usable_threads);
    const roofline_watch nobody = {0};
    survey s = {.result = result, .milliseconds = or_default(milliseconds), .watch = watch ? watch : &nobody};
    for (int i = 0; i < attn_isa_count() && i < ROOFLINE_MAX_ISA; ++i)
        if (attn_dispatch(attn_isa_name(i), &s.isa[i], NULL) == ATTN_OK)
            s.best = s.isa[i];
    int *os_index = calloc((size_t)threads, sizeof *os_index);
    s.buffers = calloc((size_t)threads, sizeof *s.buffers);
    attn_status status = ATTN_OK;
    if (!os_index || !s.buffers) {
        status = attn_fail(error, ATTN_NO_MEMORY, "no memory for %d threads", threads);
    } else {
        result->threads = machine_pick(m, threads, os_index);
        roofline_choose_sizes(m, os_index, result->threads, result);
        status = run_survey(m, &s, error);
    }
    for (int i = 0; s.buffers && i < threads; ++i)
        free(s.buffers[i]);
    free(s.buffers);
    free(os_index);
    return status;
}
