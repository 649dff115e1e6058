/* Rows that look slowed down, and what a second visit does to a row. */
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

#include "bench/session.h"

enum { SAMPLES = 5 };

/* A measured row whose samples go from `fastest` up to a median of `median`. */
static bench_row make_row(double fastest, double median, double ghz) {
    bench_row row = {.kind = BENCH_ATTENTION, .threads = 1};
    bench_result *r = &row.result;
    r->measured = true;
    r->min_ns = fastest;
    r->median_ns = median;
    r->ghz = ghz;
    r->cpu_share = 1;
    r->checksum = 7;
    r->sample_count = SAMPLES;
    r->samples_ns = calloc(SAMPLES, sizeof *r->samples_ns);
    assert_non_null(r->samples_ns);
    r->samples_ns[0] = fastest;
    return row;
}

static void free_row(bench_row *row) {
    free(row->result.samples_ns);
}

/* Guards what is measured once more: rows whose clock lost more than 0.2 %, whose samples differ, or whose
 * threads had too little of a CPU; and no other, nor one that was not measured in this run. */
static void looks(void **state) {
    (void)state;
    static const struct {
        double fastest, median, ghz, share;
        bool slowed;
    } cases[] = {
        {100, 101, 3.694, 1, false},  {100, 109, 3.694, 1, false}, {100, 111, 3.694, 1, true},
        {100, 101, 3.688, 1, false},  {100, 101, 3.686, 1, true},  {100, 101, 0, 1, false},
        {100, 101, 3.694, 0.9, true},
    };
    bench_row few = make_row(100, 101, 3.694);
    few.result.wall_ns = 49e6; /* of time that would have given more samples */
    few.result.aimed_ns = 100e6;
    assert_true(bench_looks_slowed(&few, 3.694));
    few.result.wall_ns = 51e6;
    assert_false(bench_looks_slowed(&few, 3.694));
    free_row(&few);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench_row row = make_row(cases[i].fastest, cases[i].median, cases[i].ghz);
        row.result.cpu_share = cases[i].share;
        assert_int_equal(bench_looks_slowed(&row, 3.694), cases[i].slowed);
        row.there = true;
        assert_false(bench_looks_slowed(&row, 3.694));
        row.there = false;
        row.result.measured = false;
        assert_false(bench_looks_slowed(&row, 3.694));
        free_row(&row);
    }
}

/* Guards which visit stands: the one that is faster by more than 1 %, with its own samples; all are noted. */
static void faster_visit_stands(void **state) {
    (void)state;
    bench_row row = make_row(150, 160, 3.6);
    double *const first = row.result.samples_ns;
    bench_row visit = make_row(100, 101, 3.69);
    double *const second = visit.result.samples_ns;
    row.result.order = 3; /* its place in the run stays its own */
    visit.result.order = 9;
    assert_true(bench_take_visit(&row, &visit));
    assert_int_equal(row.result.order, 3);
    assert_ptr_equal(row.result.samples_ns, second);
    assert_ptr_equal(visit.result.samples_ns, first);
    assert_true(row.result.median_ns == 101 && row.result.min_ns == 100 && row.result.ghz == 3.69);
    free_row(&visit);

    for (int i = 0; i < 3; i++) { /* hardly faster, slower, and one too many */
        bench_row other = make_row(100, i == 0 ? 100.5 : 130, 3.69);
        assert_false(bench_take_visit(&row, &other));
        assert_ptr_equal(row.result.samples_ns, second);
        free_row(&other);
    }
    assert_int_equal(row.result.visits, BENCH_MAX_VISITS);
    static const double medians[BENCH_MAX_VISITS] = {160, 101, 100.5, 130};
    assert_memory_equal(row.result.visit_ns, medians, sizeof medians);
    free_row(&row);
}

/* Guards what a visit that is as fast is good for: it clears a row that was disturbed, or has too few samples
 * for the time it was given; not where it is slower, nor disturbed itself, nor the row sound. */
static void sounder_visit_stands(void **state) {
    (void)state;
    static const struct {
        double median, row_share, visit_share, row_wall, visit_median;
        int visit_samples;
        bool stands;
    } cases[] = {
        {101, 0.9, 1, 250e6, 101.5, SAMPLES, true},     {101, 0.9, 1, 250e6, 100.5, SAMPLES, true},
        {101, 0.9, 1, 250e6, 103, SAMPLES, false},      {101, 0.9, 0.9, 250e6, 100.5, SAMPLES, false},
        {101, 1, 0.9, 20e6, 100.5, 5 * SAMPLES, false}, {101, 1, 1, 250e6, 100.5, 5 * SAMPLES, false},
        {101, 1, 1, 20e6, 101.5, 5 * SAMPLES, true},    {101, 1, 1, 20e6, 101.5, SAMPLES, false},
        {101, 1, 0.9, 250e6, 99, SAMPLES, true}, /* faster is faster, and flagged */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench_row row = make_row(100, cases[i].median, 3.69),
                  visit = make_row(99, cases[i].visit_median, 3.69);
        row.result.cpu_share = cases[i].row_share;
        row.result.wall_ns = cases[i].row_wall;
        row.result.aimed_ns = visit.result.aimed_ns = 250e6;
        visit.result.wall_ns = 250e6;
        visit.result.cpu_share = cases[i].visit_share;
        visit.result.sample_count = cases[i].visit_samples;
        assert_int_equal(bench_take_visit(&row, &visit), cases[i].stands);
        assert_int_equal(bench_disturbed(&row),
                         (cases[i].stands ? cases[i].visit_share : cases[i].row_share) < 1);
        free_row(&visit);
        free_row(&row);
    }
}

/* Guards a fault that only a visit shows, whatever it is: the row is no result then. */
static void faulty_visit(void **state) {
    (void)state;
    bench_row row = make_row(150, 160, 3.6), visit = make_row(100, 101, 3.69);
    bench_fault(&visit, "the output is %s", "wrong");
    assert_false(visit.result.measured);
    assert_false(bench_take_visit(&row, &visit));
    assert_false(row.result.measured);
    assert_string_equal(row.error, "the output is wrong");
    free_row(&visit);
    free_row(&row);
}

/* Guards a visit that could not be made, for want of memory: the row stays as it was. */
static void failed_visit(void **state) {
    (void)state;
    bench_row row = make_row(150, 160, 3.6), visit = make_row(100, 101, 3.69);
    visit.result.measured = false;
    strcpy(visit.error, "not enough memory");
    assert_false(bench_take_visit(&row, &visit));
    assert_string_equal(row.error, "");
    assert_true(row.result.measured && row.result.median_ns == 160);
    assert_int_equal(row.result.visits, 1);
    free_row(&visit);
    free_row(&row);
}

/* Guards an output that changed between two visits: that is an error, not a result. */
static void changed_output(void **state) {
    (void)state;
    bench_row row = make_row(150, 160, 3.6), visit = make_row(100, 101, 3.69);
    visit.result.checksum = 8;
    assert_false(bench_take_visit(&row, &visit));
    assert_false(row.result.measured);
    assert_non_null(strstr(row.error, "output changed"));
    free_row(&visit);
    free_row(&row);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks),
        cmocka_unit_test(faster_visit_stands),
        cmocka_unit_test(sounder_visit_stands),
        cmocka_unit_test(faulty_visit),
        cmocka_unit_test(failed_visit),
        cmocka_unit_test(changed_output),
    };
    return test_run("retake", tests, COUNT_OF(tests));
}
