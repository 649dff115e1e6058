/* What rows ought to compute: some queries of each problem by the reference in double precision.
 *
 * The sums of whole outputs say too little where rows are long: a mean of thousands of values is close to
 * nought, and what rounding may do to it at the worst, added up over an output, is as large as the output.
 * Single elements with the reference's own bounds, which follow the data, tell rounding from a fault. */
#include "bench/session.h"
#include "reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Queries looked at: each has a whole row of values, so that a lean of the errors shows too. */
enum { QUERIES = 3 };

struct bench_expected {
    char id[BENCH_ID_BYTES];
    ref_place place[QUERIES];
    double *out, *tolerance; /* QUERIES x Dv; owned */
    double largest;          /* of the tolerances */
};

/* The last query of all, which a causal row gives the most keys; the others drawn. */
static void choose(const attn_problem *p, uint64_t seed, ref_place *place) {
    for (int i = 0; i < QUERIES; i++) {
        place[i] = (ref_place){(int64_t)(bench_random(&seed) % (uint64_t)p->batch),
                               (int64_t)(bench_random(&seed) % (uint64_t)p->heads),
                               (int64_t)(bench_random(&seed) % (uint64_t)p->queries)};
    }
    place[QUERIES - 1] = (ref_place){p->batch - 1, p->heads - 1, p->queries - 1};
}

/* NULL without memory. */
static const bench_expected *compute(bench_expectations *known, const bench_instance *instance,
                                     const char *id, uint64_t seed) {
    const attn_problem *p = &instance->row->problem;
    bench_expected *item = realloc(known->item, (size_t)(known->count + 1) * sizeof *item);
    if (!item)
        return NULL;
    known->item = item;
    const size_t count = (size_t)(QUERIES * p->value_dim);
    bench_expected *e = &item[known->count];
    *e = (bench_expected){.out = calloc(count, sizeof(double)), .tolerance = calloc(count, sizeof(double))};
    snprintf(e->id, sizeof e->id, "%s", id);
    choose(p, seed, e->place);
    const ref_result result = {.out = e->out, .out_tolerance = e->tolerance};
    if (!e->out || !e->tolerance ||
        !ref_attention_at(p, &instance->inputs.tensors, e->place, QUERIES, &result)) {
        free(e->out);
        free(e->tolerance);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        e->largest = e->tolerance[i] > e->largest ? e->tolerance[i] : e->largest;
    known->count++;
    return e;
}

static const bench_expected *find(bench_expectations *known, const bench_instance *instance, uint64_t seed) {
    char id[BENCH_ID_BYTES];
    bench_problem_id(instance->row, id);
    for (int i = 0; i < known->count; i++) {
        if (strcmp(known->item[i].id, id) == 0)
            return &known->item[i];
    }
    const int64_t start = machine_now_ns();
    const bench_expected *computed = compute(known, instance, id, seed);
    known->spent_ns += (double)(machine_now_ns() - start);
    return computed;
}

/* Which of two keys with nearly the same score is among the largest may hang on the rounding. */
static bool is_compared(const bench_row *row) {
    return row->kind != BENCH_KERNEL && !(row->problem.pattern.terms & ATTN_TOPK);
}

double bench_check_elements(const bench_row *row) {
    const attn_problem *p = &row->problem;
    return is_compared(row) ? QUERIES * (double)p->keys * (double)(p->head_dim + p->value_dim) : 0;
}

double bench_check_element_ns(void) {
    enum { KEYS = 512, DIM = 64, TRIALS = 3 };
    attn_problem p;
    attn_problem_init(&p, 1, 1, 1, QUERIES, KEYS, DIM, DIM);
    bench_inputs inputs;
    const ref_place place[QUERIES] = {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}};
    double out[QUERIES * DIM], tolerance[QUERIES * DIM], best = INFINITY;
    const ref_result result = {.out = out, .out_tolerance = tolerance};
    if (!bench_inputs_make(&inputs, &p, BENCH_NORMAL, 1))
        return 0;
    for (int i = 0; i < TRIALS; i++) {
        const double start = bench_thread_now_ns();
        if (!ref_attention_at(&p, &inputs.tensors, place, QUERIES, &result))
            break;
        best = fmin(best, fmax(1, bench_thread_now_ns() - start));
    }
    bench_inputs_free(&inputs);
    return isfinite(best) ? best / (QUERIES * KEYS * 2.0 * DIM) : 0;
}

void bench_check_output(bench_expectations *known, const bench_instance *instance, uint64_t seed,
                        bench_row *row) {
    const attn_problem *p = &row->problem;
    if (!is_compared(row))
        return;
    const bench_expected *e = find(known, instance, seed);
    float *out = e ? malloc((size_t)(QUERIES * p->value_dim) * sizeof *out) : NULL;
    if (!out) {
        snprintf(row->error, sizeof row->error, "not enough memory to check the output");
        return;
    }
    for (int i = 0; i < QUERIES; i++) {
        const ref_place *at = &e->place[i];
        const int64_t query = (at->b * p->heads + at->h) * p->queries + at->i;
        memcpy(out + i * p->value_dim, instance->inputs.out + query * p->value_dim,
               (size_t)p->value_dim * sizeof *out);
    }
    const ref_comparison c = ref_compare(out, e->out, e->tolerance, QUERIES * p->value_dim);
    row->result.out_tolerance = e->largest;
    if (!c.ok) {
        const ref_place *at = &e->place[c.worst / p->value_dim];
        bench_fault(
            row,
            "the output is wrong: of batch %lld, head %lld, query %lld, element %lld is %.9g, not %.9g "
            "within %.2g (errors are %.2g of what they may be on the average)",
            (long long)at->b, (long long)at->h, (long long)at->i, (long long)(c.worst % p->value_dim),
            (double)out[c.worst], e->out[c.worst], e->tolerance[c.worst], c.bias);
    }
    free(out);
}

void bench_expectations_free(bench_expectations *known) {
    for (int i = 0; i < known->count; i++) {
        free(known->item[i].out);
        free(known->item[i].tolerance);
    }
    free(known->item);
    *known = (bench_expectations){0};
}
