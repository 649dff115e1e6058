/* Where tensors may lie: output rows that would overlap and data that is not aligned to its elements are
 * refused by name before anything is written; every layout without overlap is accepted. */
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

#include "attnscope.h"

enum { B = 2, H = 3, NQ = 5, NK = 4, D = 4, DV = 4, OUT = 4096 };

typedef struct layout {
    attn_problem problem;
    attn_plan *plan;
    attn_tensors tensors;
    float q[B * H * NQ * D + 1], k[B * H * NK * D + 1], v[B * H * NK * DV + 1];
    float out[OUT];
} layout;

static layout *layout_new(attn_dtype dtype, uint32_t inputs, int64_t batch, int64_t heads, int64_t queries) {
    layout *l = calloc(1, sizeof *l);
    assert_non_null(l);
    attn_problem_init(&l->problem, batch, heads, heads, queries, NK, D, DV);
    l->problem.dtype = dtype;
    l->problem.inputs = inputs;
    assert_int_equal(attn_plan_create(&l->problem, NULL, &l->plan, NULL), ATTN_OK);
    for (size_t i = 0; i < COUNT_OF(l->v); i++)
        l->v[i] = (float)i + 1;
    attn_tensors_init(&l->tensors, &l->problem, l->q, l->k, l->v, l->out + OUT / 2);
    return l;
}

static void layout_free(layout *l) {
    attn_plan_destroy(l->plan);
    free(l);
}

/* Through each entry that executes. NULL: accepted. */
static void expect(layout *l, const char *names) {
    attn_error error = {""};
    void *workspace = aligned_alloc(64, (size_t)attn_plan_info(l->plan).workspace_bytes);
    assert_non_null(workspace);
    for (int entry = 0; entry < 3; entry++) {
        memset(l->out, 0xFF, sizeof l->out);
        const attn_status status =
            entry == 0   ? attn_execute(l->plan, &l->tensors, NULL, 1, &error)
            : entry == 1 ? attn_execute_part(l->plan, &l->tensors, workspace, 0, 1, &error)
                         : attn_execute_task(l->plan, &l->tensors, workspace, 1, 0, 0, 0, &error);
        if (status != (names ? ATTN_INVALID : ATTN_OK) || (names && !strstr(error.text, names)))
            test_fail("entry %d: status %d, '%s'; must be %s", entry, (int)status, error.text,
                      names ? names : "accepted");
        for (size_t i = 0; i < OUT && names; i++)
            assert_int_equal(((uint32_t *)l->out)[i], UINT32_MAX);
    }
    free(workspace);
}

/* Guards: whether strides of the output are refused is whether two of its rows share an element, for what is
 * laid out dimension within dimension: each order of the dimensions, tight, with gaps and one element too
 * close, in both directions; with extents of 1, whose stride counts for nothing. */
static void output_strides(void **state) {
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const char *const names[3] = {"out_row_stride is", "out_head_stride is", "out_batch_stride is"};
    for (int one = 0; one < 8; one++) { /* extents that are 1 */
        layout *l = layout_new(ATTN_F32, 0, one & 4 ? 1 : B, one & 2 ? 1 : H, one & 1 ? 1 : NQ);
        const int64_t extents[3] = {l->problem.queries, l->problem.heads, l->problem.batch};
        int64_t *const strides[3] = {&l->tensors.out_row_stride, &l->tensors.out_head_stride,
                                     &l->tensors.out_batch_stride};
        for (int order = 0; order < 6; order++)
            for (int signs = 0; signs < 8; signs++)
                for (int gap = 0; gap < 2; gap++)
                    for (int close = -1; close < 3; close++) { /* the dimension that is too close; -1: none */
                        int64_t within = DV;
                        for (int i = 0; i < 3; i++) {
                            const int dim = orders[order][i];
                            int64_t step = within + gap * (i + 1);
                            if (dim == close)
                                step = within - 1;
                            *strides[dim] = extents[dim] == 1 ? 0 : signs >> dim & 1 ? -step : step;
                            within += (extents[dim] - 1) * step;
                        }
                        if (close < 0)
                            expect(l, NULL);
                        else if (extents[close] > 1)
                            expect(l, names[close]);
                    }
        layout_free(l);
    }
}

/* Guards: the strides of the report that found this: each was accepted, and rows overwritten. Strides that no
 * memory holds neither overflow nor pass. */
static void output_strides_by_hand(void **state) {
    (void)state;
    layout *l = layout_new(ATTN_F32, 0, B, H, NQ);
    const attn_tensors usual = l->tensors;
    l->tensors.out_row_stride = 3;
    expect(l, "out_row_stride is 3: rows of out would overlap, must be at least the 4 elements");
    l->tensors = usual;
    l->tensors.out_head_stride = 0;
    expect(l, "out_head_stride is 0");
    static const int64_t far[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX / 2};
    for (size_t i = 0; i < COUNT_OF(far); i++) {
        l->tensors = usual;
        l->tensors.out_row_stride = far[i];
        expect(l, "out_row_stride is");
    }
    l->tensors = usual;
    l->tensors.out = NULL; /* a missing tensor is named first */
    l->tensors.out_row_stride = 0;
    expect(l, "tensor out is NULL");
    layout_free(l);
}

/* Guards: data that is not aligned to its elements is refused by its name (vectors would take it, the C
 * language and other levels do not); two bytes do for a half, not for a float. */
static void alignment(void **state) {
    (void)state;
    for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++)
        for (int off = 1; off < 4; off++) {
            layout *l = layout_new((attn_dtype)dtype, 127, B, H, NQ);
            static int64_t numbers[B * NK + 1], strides[4];
            static float floats[H + 1];
            static uint8_t bytes[2];
            attn_tensors *t = &l->tensors;
            static attn_counts counts[2];
            float lse[B * H * NQ + 1];
            t->kv_lens = t->q_offsets = t->segments = numbers;
            t->mask = bytes + 1;
            t->bias = t->alibi_slopes = t->sink_logits = floats;
            t->lse = lse;
            t->counts = counts;
            memcpy(t->mask_strides, strides, sizeof strides);
            memcpy(t->bias_strides, strides, sizeof strides);
            expect(l, NULL);
            const struct {
                const char *name;
                const void **at;
                bool stored;
            } pointers[] = {
                {"tensor q is at", &t->q.data, true},
                {"tensor k is at", &t->k.data, true},
                {"tensor v is at", &t->v.data, true},
                {"tensor out is at", (const void **)&t->out, false},
                {"lse is at", (const void **)&t->lse, false},
                {"counts is at", (const void **)&t->counts, false},
                {"kv_lens is at", (const void **)&t->kv_lens, false},
                {"q_offsets is at", (const void **)&t->q_offsets, false},
                {"segments is at", (const void **)&t->segments, false},
                {"bias is at", (const void **)&t->bias, false},
                {"alibi_slopes is at", (const void **)&t->alibi_slopes, false},
                {"sink_logits is at", (const void **)&t->sink_logits, false},
            };
            for (size_t i = 0; i < COUNT_OF(pointers); i++) {
                const void *usual, *moved;
                memcpy(&usual, pointers[i].at, sizeof usual);
                moved = (const char *)usual + off;
                memcpy(pointers[i].at, &moved, sizeof moved);
                expect(l, pointers[i].stored && dtype != ATTN_F32 && off == 2 ? NULL : pointers[i].name);
                memcpy(pointers[i].at, &usual, sizeof usual);
            }
            layout_free(l);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_strides),
        cmocka_unit_test(output_strides_by_hand),
        cmocka_unit_test(alignment),
    };
    return test_run("layout", tests, COUNT_OF(tests));
}
