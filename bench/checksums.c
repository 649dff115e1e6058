/* Whether rows computed what they should have: the same bits when repeated, the same sums, to rounding, at
 * every ISA level and by every algorithm. */
#include "bench/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_check_repeat(bench_row *row, double checksum) {
    const bench_result *r = &row->result;
    /* Kernels that work in place go on from what the call before left. */
    if (row->kind == BENCH_KERNEL || !r->measured || r->checksum == checksum)
        return;
    bench_fault(row, "the output changed when the row was repeated: its sum was %.17g, then %.17g",
                r->checksum, checksum);
}

/* Each element of the output is a mean of values, weighted by a softmax over at most `keys` scores. Both
 * sides may err in a weight, relatively, by what the rounding of the scores (D products and sums, then cap,
 * slope and bias) and the softmax itself allow: see reference/reference.h, whose bounds these are, with one
 * partial sum. */
static double worst_element(const bench_row *row) {
    const attn_problem *p = &row->problem;
    const double depth = (double)p->head_dim, keys = (double)p->keys, unit = 0x1p-24;
    const bench_bounds b = bench_data_bounds(row->data, p->head_dim);
    double score = sqrt(depth) * b.q * b.k;
    const double score_error = (depth + 4) * unit * score;
    if (p->softcap > 0)
        score = fmin(score, (double)p->softcap);
    /* Slopes are below 1, and no key is further away than this. */
    const double slope = p->inputs & ATTN_HAS_ALIBI ? keys + (double)p->queries : 0;
    const double spread = 2 * score + slope;
    const double weight = score_error + 4 * unit * (score + slope) + (spread / 2 + 6 + keys / 2) * 2 * unit;
    return b.v * (2 * weight + keys * unit);
}

/* Both sides err. What was found for elements of this very data is many times less than the worst case, which
 * is left where nothing was compared. */
double bench_checksum_tolerance(const bench_row *row) {
    const attn_problem *p = &row->problem;
    const double found = row->result.out_tolerance;
    const double count = (double)(p->batch * p->heads * p->queries * p->value_dim);
    return 2 * count * (found > 0 ? found : worst_element(row));
}

void bench_problem_id(const bench_row *row, char id[BENCH_ID_BYTES]) {
    bench_row plain = *row;
    plain.kind = BENCH_ATTENTION;
    plain.isa = "any";
    plain.algorithm = ATTN_AUTO;
    plain.threads = 1;
    bench_row_id(&plain);
    memcpy(id, plain.id, sizeof plain.id);
}

static json_t *describe(const bench_row *row, const bench_row *first, double tolerance) {
    json_t *object = json_object();
    bench_set_text(object, "id", row->id);
    bench_set_text(object, "with", first->id);
    bench_set_real(object, "checksum", row->result.checksum);
    bench_set_real(object, "checksum_with", first->result.checksum);
    bench_set_real(object, "checksum_abs", row->result.checksum_abs);
    bench_set_real(object, "checksum_abs_with", first->result.checksum_abs);
    bench_set_real(object, "tolerance", tolerance);
    return object;
}

static bool sums_differ(const bench_row *row, const bench_row *first, double tolerance) {
    const bench_result *a = &row->result, *b = &first->result;
    return !(fabs(a->checksum - b->checksum) <= tolerance) ||
           !(fabs(a->checksum_abs - b->checksum_abs) <= tolerance);
}

json_t *bench_checksums_differ(const bench_rows *rows) {
    json_t *list = json_array();
    struct {
        char id[BENCH_ID_BYTES];
        const bench_row *row;
    } *first = calloc((size_t)rows->count + 1, sizeof *first);
    if (!list || !first) { /* not an empty list: that none differ is not known */
        json_decref(list);
        free(first);
        return NULL;
    }
    for (int i = 0, count = 0; i < rows->count; i++) {
        const bench_row *row = &rows->row[i];
        if (row->kind == BENCH_KERNEL || !row->result.measured)
            continue;
        int at = 0;
        bench_problem_id(row, first[count].id);
        while (strcmp(first[at].id, first[count].id) != 0)
            at++;
        if (at == count) {
            first[count++].row = row;
            continue;
        }
        const double tolerance = fmin(bench_checksum_tolerance(row), bench_checksum_tolerance(first[at].row));
        if (sums_differ(row, first[at].row, tolerance))
            json_array_append_new(list, describe(row, first[at].row, tolerance));
    }
    free(first);
    return list;
}
