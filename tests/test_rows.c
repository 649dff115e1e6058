/* What a row says beside its time: memory, and whether what it computed can be believed. */
#include "tests/fake_root.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

#include "bench/memory.h"
#include "bench/session.h"
#include "bench/steal.h"
#include "reference/reference.h"
#include "tests/machines.h"

/* ---- Memory ---- */

static const char smaps[] = "00001000-00003000 rw-p 00000000 00:00 0\n"
                            "Size:                  8 kB\n"
                            "AnonHugePages:         8 kB\n"
                            "ffff0000-ffff8000 rw-p 00000000 00:00 0     [heap]\n"
                            "AnonHugePages:         16 kB\n"
                            "VmFlags: rd wr mr mw me ac\n"
                            "7f0000000000-7f0000400000 r--p 00000000 08:01 123   /lib/AnonHugePages: 9 kB\n"
                            "AnonHugePages:         0 kB\n";

static memory_piece piece(uintptr_t at, int64_t bytes) {
    return (memory_piece){(const void *)at, bytes};
}

/* Guards: huge pages are those of the mappings that hold a piece, never more than the piece, and what lies in
 * no mapping, or next to one, says nothing. */
static void huge_pages_are_those_of_the_pieces(void **state) {
    (void)state;
    const memory_piece inside = piece(0x1800, 0x400), whole = piece(0x1000, 0x2000),
                       heap = piece(0xffff0000, 0x8000), beside = piece(0x3000, 0x1000),
                       library = piece(0x7f0000000000, 0x1000), none = {NULL, 64};
    assert_int_equal(memory_huge_bytes(&inside, 1, smaps), 0x400);
    assert_int_equal(memory_huge_bytes(&whole, 1, smaps), 0x2000);
    assert_int_equal(memory_huge_bytes(&heap, 1, smaps), 0x4000);
    assert_int_equal(memory_huge_bytes(&library, 1, smaps), 0);
    assert_int_equal(memory_huge_bytes(&beside, 1, smaps), -1);
    assert_int_equal(memory_huge_bytes(&none, 1, smaps), -1);
    const memory_piece all[] = {inside, heap, beside, library};
    assert_int_equal(memory_huge_bytes(all, 4, smaps), 0x400 + 0x4000);
    const memory_piece across = piece(0x2000, 0x100000000);
    assert_int_equal(memory_huge_bytes(&across, 1, smaps), 0x1000 + 0x4000);
}

/* Guards: the state of transparent huge pages is the word in brackets. */
static void the_chosen_word_is_found(void **state) {
    (void)state;
    char text[16];
    assert_true(memory_chosen("always [madvise] never", text, sizeof text));
    assert_string_equal(text, "madvise");
    assert_true(memory_chosen("[always]", text, sizeof text));
    assert_string_equal(text, "always");
    static const char *const wrong[] = {"",         "always", "[]",
                                        "always [", "] [",    "[a word that is far too long]"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_false(memory_chosen(wrong[i], text, sizeof text));
    fake_root root = fake_root_make();
    setenv("ATTNSCOPE_FSROOT", root.path, 1);
    int64_t bytes;
    memory_huge_pages(text, sizeof text, &bytes);
    assert_string_equal(text, "");
    assert_int_equal(bytes, 0);
    fake_root_write(&root, "/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    fake_root_write(&root, "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n");
    memory_huge_pages(text, sizeof text, &bytes);
    assert_string_equal(text, "never");
    assert_int_equal(bytes, 2097152);
    unsetenv("ATTNSCOPE_FSROOT");
    fake_root_remove(&root);
}

/* ---- Checksums ---- */

static bench_row make_row(const char *isa, attn_algorithm algorithm, int64_t n, bench_data data) {
    bench_row row = {.kind = BENCH_ATTENTION, .isa = isa, .algorithm = algorithm, .threads = 1, .data = data};
    strcpy(row.pattern, "dense");
    attn_problem_init(&row.problem, 1, 2, 1, n, n, 32, 16);
    row.problem.inputs = bench_data_inputs(data);
    assert_int_equal(bench_row_count(&row), 0);
    assert_string_equal(row.error, "");
    assert_true(bench_row_id(&row));
    return row;
}

/* Computes the row once, and takes its sums over. */
static void compute(bench_row *row) {
    attn_error error = {""};
    bench_instance instance;
    if (!bench_instance_make(&instance, row, NULL, 7, &error))
        test_fail("%s", error.text);
    row->result.checksum = bench_instance_checksum(&instance, &row->result.checksum_abs);
    row->result.measured = true;
    bench_instance_free(&instance);
}

static size_t count_differ(bench_row *row, int count) {
    test_skip_jansson_unseen();
    const bench_rows rows = {.row = row, .count = count};
    json_t *list = bench_checksums_differ(&rows);
    const size_t found = json_array_size(list);
    json_decref(list);
    return found;
}

/* Guards: levels and algorithms agree within the bound, for every kind of data; and an output of zeros, one
 * that was not normalised, one that is not a number, and one of half the weights do not pass for rounding. */
static void wrong_outputs_are_told_apart(void **state) {
    (void)state;
    for (int data = 0; data < BENCH_DATA_COUNT; data++) {
        bench_row row[16];
        int count = 0;
        for (int i = 0; i < attn_isa_count(); i++) {
            if (attn_isa_check(attn_isa_name(i), NULL) != ATTN_OK)
                continue;
            row[count++] = make_row(attn_isa_name(i), ATTN_FLASH, 96, (bench_data)data);
            row[count++] = make_row(attn_isa_name(i), ATTN_NAIVE, 96, (bench_data)data);
        }
        for (int i = 0; i < count; i++)
            compute(&row[i]);
        assert_int_equal(count_differ(row, count), 0);
        const double sum = row[0].result.checksum, sum_abs = row[0].result.checksum_abs;
        assert_true(sum_abs > 0);
        static const double wrong[] = {0, 96, NAN, 0.5, INFINITY, 1.5};
        for (size_t w = 0; w < COUNT_OF(wrong); w++) {
            row[1].result.checksum = sum * wrong[w];
            row[1].result.checksum_abs = sum_abs * wrong[w];
            assert_int_equal(count_differ(row, count), 1);
        }
    }
}

/* A row of the longest length that the standard sweep has, for some of its queries. */
static bench_row make_long(const char *isa, attn_dtype dtype, int64_t dim, bench_data data) {
    bench_row row = {
        .kind = BENCH_ATTENTION, .isa = isa, .algorithm = ATTN_FLASH, .threads = 1, .data = data};
    strcpy(row.pattern, "dense");
    attn_problem_init(&row.problem, 1, 2, 1, 32, 8192, dim, dim);
    row.problem.dtype = dtype;
    row.problem.inputs = bench_data_inputs(data);
    assert_int_equal(bench_row_count(&row), 0);
    assert_string_equal(row.error, "");
    assert_true(bench_row_id(&row));
    return row;
}

/* What may be wrong with an output: it is scaled (by nought: never written), the next column's, or every
 * second column is missing. */
static void spoil(float *out, const float *good, int64_t count, int kind) {
    static const float factor[] = {0, 0.5f, 0.95f, 1.05f, 2, 8192, -1, NAN, INFINITY};
    for (int64_t i = 0; i < count; i++) {
        if (kind < (int)COUNT_OF(factor))
            out[i] = good[i] * factor[kind];
        else if (kind == COUNT_OF(factor))
            out[i] = good[(i + 1) % count];
        else
            out[i] = i % 2 ? 0 : good[i];
    }
}
enum { SPOILT = 11 };

/* An output as it should be passes, by the reference and by the sums; any wrong one fails by the reference,
 * and by the sums where they are so far off. */
static void check_long(const char *isa, attn_dtype dtype, int64_t dim, bench_data data) {
    bench_row row[2] = {make_long(isa, dtype, dim, data), make_long(isa, dtype, dim, data)};
    attn_error error = {""};
    bench_instance instance;
    bench_expectations known = {0};
    if (!bench_instance_make(&instance, &row[0], NULL, 7, &error))
        test_fail("%s", error.text);
    const int64_t count = instance.inputs.out_count;
    float *good = malloc((size_t)count * sizeof *good);
    assert_non_null(good);
    memcpy(good, instance.inputs.out, (size_t)count * sizeof *good);
    bench_check_output(&known, &instance, 7, &row[0]);
    assert_string_equal(row[0].error, "");
    row[0].result.checksum = bench_instance_checksum(&instance, &row[0].result.checksum_abs);
    row[0].result.measured = row[1].result.measured = true;
    assert_true(bench_checksum_tolerance(&row[0]) < bench_checksum_tolerance(&row[1]));
    for (int kind = 0; kind < SPOILT; kind++) {
        spoil(instance.inputs.out, good, count, kind);
        *row[1].error = 0;
        row[1].result.measured = true;
        bench_check_output(&known, &instance, 7, &row[1]);
        if (!strstr(row[1].error, "the output is wrong"))
            test_fail("%s passes spoilt in way %d: '%s'", row[1].id, kind, row[1].error);
        assert_false(row[1].result.measured);
        row[1].result.measured = true; /* as one that was not compared */
        row[1].result.checksum = bench_instance_checksum(&instance, &row[1].result.checksum_abs);
        row[1].result.out_tolerance = 0; /* as of a file that is resumed */
        if (kind < 2 || (kind >= 4 && kind < 9 && kind != 6))
            assert_int_equal(count_differ(row, 2), 1);
    }
    assert_int_equal(known.count, 1);
    free(good);
    bench_expectations_free(&known);
    bench_instance_free(&instance);
}

/* Guards: at the sweep's longest length too, where outputs are small, a right output is told from zeros and
 * other wrong ones, at every level, for every kind of data and type. */
static void wrong_outputs_are_told_apart_where_rows_are_long(void **state) {
    (void)state;
    for (int i = 0; i < attn_isa_count(); i++) {
        if (attn_isa_check(attn_isa_name(i), NULL) != ATTN_OK)
            continue;
        for (int data = 0; data < BENCH_DATA_COUNT; data++)
            check_long(attn_isa_name(i), data % 2 ? ATTN_BF16 : ATTN_F32, data % 3 ? 64 : 128,
                       (bench_data)data);
        check_long(attn_isa_name(i), ATTN_F16, 64, BENCH_NORMAL);
        check_long(attn_isa_name(i), ATTN_F32, 64, BENCH_NORMAL);
    }
}

/* Guards: what some queries are compared with is what the reference computes of the whole. */
static void some_queries_are_as_of_the_whole(void **state) {
    (void)state;
    bench_row row = make_row("scalar", ATTN_FLASH, 70, BENCH_NORMAL);
    row.problem.batch = 2;
    attn_error error = {""};
    bench_instance instance;
    assert_int_equal(bench_row_count(&row), 0);
    if (!bench_instance_make(&instance, &row, NULL, 7, &error))
        test_fail("%s", error.text);
    static const ref_place place[] = {{1, 1, 69}, {0, 1, 3}, {0, 1, 3}, {1, 0, 0}};
    double all[2 * 2 * 70 * 16], all_tolerance[2 * 2 * 70 * 16], some[4 * 16], some_tolerance[4 * 16];
    const attn_tensors *tensors = &instance.inputs.tensors;
    assert_true(
        ref_attention(&row.problem, tensors, &(ref_result){.out = all, .out_tolerance = all_tolerance}));
    assert_true(ref_attention_at(&row.problem, tensors, place, COUNT_OF(place),
                                 &(ref_result){.out = some, .out_tolerance = some_tolerance}));
    for (size_t at = 0; at < COUNT_OF(place); at++) {
        const int64_t query = (place[at].b * 2 + place[at].h) * 70 + place[at].i;
        assert_memory_equal(&some[at * 16], &all[query * 16], 16 * sizeof *some);
        assert_memory_equal(&some_tolerance[at * 16], &all_tolerance[query * 16], 16 * sizeof *some);
    }
    bench_instance_free(&instance);
}

/* Guards: only rows of one problem that were measured are compared. */
static void other_problems_are_not_compared(void **state) {
    (void)state;
    bench_row row[6];
    for (int i = 0; i < 6; i++) {
        row[i] = make_row("scalar", ATTN_FLASH, i < 1 ? 64 : 65, BENCH_NORMAL);
        row[i].result.checksum = row[i].result.checksum_abs = 1e9 * i;
        row[i].result.measured = true;
    }
    row[2].data = BENCH_UNIFORM;
    row[3].result.measured = false;
    row[4].kind = BENCH_KERNEL;
    row[4].kernel = bench_kernel_find("exp");
    row[5].threads = 2;
    assert_int_equal(count_differ(row, 5), 0);
    assert_int_equal(count_differ(row, 6), 1); /* the last is the second of its problem */
}

/* Guards: one bit of difference between two runs of a row is a fault, but for kernels that go on in place. */
static void a_repeated_row_has_the_same_bits(void **state) {
    (void)state;
    bench_row row = make_row("scalar", ATTN_FLASH, 64, BENCH_NORMAL);
    compute(&row);
    bench_check_repeat(&row, row.result.checksum);
    assert_string_equal(row.error, "");
    assert_true(row.result.measured);
    bench_row kernel = row;
    kernel.kind = BENCH_KERNEL;
    bench_check_repeat(&kernel, nextafter(row.result.checksum, INFINITY));
    assert_string_equal(kernel.error, "");
    bench_check_repeat(&row, nextafter(row.result.checksum, INFINITY));
    assert_non_null(strstr(row.error, "changed when the row was repeated"));
    assert_false(row.result.measured);
}

/* Guards the share of its CPUs that a row had: by its own clock, or what was not stolen where that is less;
 * one tick of each CPU, and what is not known, takes nothing. */
static void what_is_stolen_is_not_had(void **state) {
    (void)state;
    const double tick = (double)steal_tick_ns();
    bench_result r = {.wall_ns = 100 * tick, .cpu_ns = 200 * tick};
    assert_true(bench_share_of_cpus(&r, 2) == 1);
    for (int ticks = -1; ticks <= 200; ticks++) {
        r.stolen_ns = ticks < 0 ? -1 : ticks * steal_tick_ns();
        const double share = bench_share_of_cpus(&r, 2), had = 1 - fmax(0, ticks - 2) / 200.0;
        assert_true(fabs(share - had) < 1e-9);
        bench_row row = {.result = r};
        row.result.cpu_share = share;
        row.result.measured = true;
        assert_int_equal(bench_disturbed(&row), ticks > 12);
    }
    r.cpu_ns = 100 * tick; /* a kernel that does not count what is stolen */
    assert_true(fabs(bench_share_of_cpus(&r, 2) - 0.01) < 1e-9);
    r.stolen_ns = 50 * steal_tick_ns();
    assert_true(bench_share_of_cpus(&r, 2) == 0.5);
    r.wall_ns = 1e5;
    assert_true(bench_share_of_cpus(&r, 2) == 1);
}

/* What is stolen from a row on a pool of so many threads, told after the CPUs of `m` were bound to. */
static int64_t stolen_on(const machine *m, int threads, bool bind) {
    bench_session session = {.pool = bench_pool_new(m, threads, bind), .instance = {.threads = threads}};
    assert_non_null(session.pool);
    const int64_t ns = bench_stolen_now(&session);
    bench_pool_free(session.pool);
    machine_unbind(m);
    return ns;
}

/* Guards whose time is said to be stolen: that of the CPUs that the row's threads are bound to. Of a thread
 * that may run anywhere nothing is known, and what other CPUs lose is none of the row's. */
static void only_bound_threads_are_stolen_from(void **state) {
    (void)state;
    machine *m = load(NULL);
    int pus[2] = {0};
    const int picked = machine_pick(m, 2, pus);
    assert_true(picked >= 1);
    char text[512] = "cpu  1 0 1 1 1 0 1 2000 0 0\n";
    for (int i = 0; i < picked; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "cpu%d 1 0 1 1 1 0 1 %d 0 0\n", pus[i],
                 5 + i);
    strcat(text, "cpu4094 1 0 1 1 1 0 1 1989 0 0\n");
    fake_root root = fake_root_make();
    fake_root_write(&root, "/proc/stat", text);
    setenv("ATTNSCOPE_FSROOT", root.path, 1);
    machine_binding binding;
    const bool binds = machine_bind(pus[0], &binding);
    machine_unbind(m);
    assert_true(stolen_on(m, 1, true) == (binds ? 5 * steal_tick_ns() : -1));
    assert_true(stolen_on(m, 1, false) == -1);
    if (picked == 2) {
        assert_true(stolen_on(m, 2, true) == (binds ? 11 * steal_tick_ns() : -1));
        assert_true(stolen_on(m, 2, false) == -1);
        /* Only one of two threads can be bound: the other's CPU is not there. */
        for (int i = 0; i < m->pu_count; i++) {
            if (m->pus[i].os_index == pus[1])
                m->pus[i].os_index = 4094;
        }
        assert_true(stolen_on(m, 2, true) == -1);
    }
    unsetenv("ATTNSCOPE_FSROOT");
    fake_root_remove(&root);
    machine_free(m);
}

/* Guards what a run says of steal: of all of its rows, or nothing. */
static void a_run_sums_what_was_stolen(void **state) {
    (void)state;
    bench_row row[3] = {{.threads = 1}, {.threads = 2}, {.threads = 1}},
              *order[] = {&row[0], &row[1], &row[2]};
    bench_session session = {.order = order, .order_count = 3};
    double stolen, share;
    assert_false(bench_stolen(&session, &stolen, &share));
    for (int i = 0; i < 2; i++) {
        row[i].result.measured = true;
        row[i].result.wall_ns = 1e9;
        row[i].result.stolen_ns = 30000000 * (i + 1);
    }
    assert_true(bench_stolen(&session, &stolen, &share) && stolen == 9e7 && fabs(share - 0.03) < 1e-12);
    row[1].result.stolen_ns = -1;
    assert_false(bench_stolen(&session, &stolen, &share));
}

/* Guards a row that several presets ask for: it names each once, those too whose names begin or end
 * another's. */
static void every_preset_is_named(void **state) {
    (void)state;
    bench_rows rows = {0};
    static const char *const names[] = {"model-7b-long", "model-7b", "7b", "model-7b", "long", "7b"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        bench_row row = make_row("scalar", ATTN_FLASH, 64, BENCH_NORMAL);
        strcpy(row.presets, names[i]);
        assert_int_equal(bench_row_add(&rows, &row), 0);
    }
    assert_int_equal(rows.count, 1);
    assert_string_equal(rows.row[0].presets, "model-7b-long,model-7b,7b,long");
    bench_rows_free(&rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(huge_pages_are_those_of_the_pieces),
        cmocka_unit_test(the_chosen_word_is_found),
        cmocka_unit_test(wrong_outputs_are_told_apart),
        cmocka_unit_test(wrong_outputs_are_told_apart_where_rows_are_long),
        cmocka_unit_test(some_queries_are_as_of_the_whole),
        cmocka_unit_test(other_problems_are_not_compared),
        cmocka_unit_test(a_repeated_row_has_the_same_bits),
        cmocka_unit_test(every_preset_is_named),
        cmocka_unit_test(what_is_stolen_is_not_had),
        cmocka_unit_test(a_run_sums_what_was_stolen),
        cmocka_unit_test(only_bound_threads_are_stolen_from),
    };
    return test_run("rows", tests, COUNT_OF(tests));
}
