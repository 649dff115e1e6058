/* No kernel changes the caller's floating-point environment: each entry of the table is called under the
 * usual one and under others, and the control word compared. The check is shown to notice one that does. */
#include "tests/support.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

/* A kernel more in the table must be called in call_kernels too; then this number is raised. */
_Static_assert(sizeof(attn_kernels) == sizeof(void *) + 6 * sizeof(int) + 18 * sizeof(int64_t),
               "test_kernels_environment.c must call every kernel of the table");

enum { ROWS = 3, KEYS = 37, DIM = 5 };

typedef struct operands {
    _Alignas(64) float acc[64 * 128];
    _Alignas(64) float scratch[64 * 512];
    float a[64 * KEYS], b[64 * KEYS * 2], c[64 * KEYS], row[KEYS], row_max[64], row_sum[64];
    uint64_t bits;
} operands;

/* Calls all kernels; the name of the first that left the control word different, NULL if none did. Arguments
 * that overflow, underflow and are not numbers are among the data, and tails at every level. */
static const char *first_that_changes(const attn_kernels *kernels) {
    static operands o;
    assert_true(kernels->flash_scratch <= (int64_t)COUNT_OF(o.scratch) && kernels->query_tile <= 64);
    const uint64_t control = test_fp_control();
    for (int i = 0; i < KEYS; i++)
        o.row[i] = i % 5 == 4 ? -INFINITY : (float)(i % 7 - 3) * 30;
    o.row[1] = 200;
    o.row[2] = NAN;
    o.row[3] = 1e-40f;
    o.bits = 0x5555555555555555;
#define CALL(name, ...)                                                                                      \
    kernels->name(__VA_ARGS__);                                                                              \
    if (test_fp_control() != control)                                                                        \
        return #name;
    CALL(pack_a, o.a, o.row, ATTN_F32, DIM, ROWS, DIM, 0.5f)
    CALL(pack_bt, o.b, o.row, ATTN_F16, 0, KEYS, DIM)
    CALL(pack_b, o.c, 0, o.row, ATTN_BF16, 0, KEYS, 1, true)
    CALL(matmul, ROWS, KEYS, DIM, o.a, o.b, DIM * kernels->nr, o.c, KEYS, false)
    CALL(scale, o.c, KEYS, 1e-30f)
    CALL(mask, o.c, &o.bits, KEYS)
    const attn_score_ops ops = {.softcap = 2, .slope = 0.5f, .distance = 3, .mask = &o.bits, .mask_words = 1};
    CALL(adjust, o.c, KEYS, &ops)
    CALL(exp, o.c, o.row, KEYS)
    CALL(softmax, o.row, KEYS, 1, o.row_max, o.row_sum)
    CALL(widen, o.c, o.row, ATTN_F16, KEYS)
    const attn_flash_tile tile = {
        .rows = ROWS,
        .keys = KEYS,
        .head_dim = DIM,
        .value_dim = 1,
        .query = o.a,
        .key = o.b,
        .value = o.c,
        .value_panel_stride = KEYS * kernels->nr,
        .ops = &ops,
        .row_max = o.row_max,
        .row_sum = o.row_sum,
        .acc = o.acc,
        .scratch = o.scratch,
    };
    CALL(flash_tile, &tile)
    const attn_decode_tile stored = {
        .rows = ROWS,
        .keys = KEYS,
        .head_dim = DIM,
        .value_dim = 1,
        .dtype = ATTN_F16,
        .query = o.a,
        .key = o.b,
        .value = o.row,
        .key_stride = 1,
        .value_stride = 1,
        .ops = &ops,
        .ops_rows = ROWS,
        .row_max = o.row_max,
        .row_sum = o.row_sum,
        .acc = o.acc,
        .scratch = o.scratch,
        .product = o.c,
    };
    CALL(decode_tile, &stored)
    CALL(flash_finish, ROWS, 1, o.acc, o.row_sum, o.c, KEYS)
    CALL(fma_peak, 3)
    CALL(read, o.row, KEYS)
    CALL(copy, o.c, o.row, KEYS)
#undef CALL
    return NULL;
}

/* Rounding of the caller's, and the bits that make subnormals zero: FTZ and DAZ, or FZ. */
static void set_control(int mode, bool flush) {
    assert_int_equal(fesetround(mode), 0);
    if (flush)
        test_fp_flush(true);
}

/* Guards: every kernel of the table leaves MXCSR (FPCR) as the caller set it: rounding, flushing, masks. */
static void every_kernel(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO};
    for (size_t i = 0; i < 2 * COUNT_OF(modes); i++) {
        fenv_t before;
        assert_int_equal(fegetenv(&before), 0);
        set_control(modes[i / 2], i % 2);
        const char *name = first_that_changes(kernels);
        fesetenv(&before);
        if (name)
            test_fail("%s changes the floating-point environment", name);
    }
}

static void scale_that_rounds_down(float *x, int64_t n, float factor) {
    fesetround(FE_DOWNWARD);
}

static float read_that_flushes(const float *x, int64_t n) {
    set_control(fegetround(), true);
    return 0;
}

/* Guards: the check above: a kernel that leaves another rounding
 * or flushing behind is named. */
static void faults_are_seen(void **state) {
    attn_kernels faulty = attn_kernels_scalar;
    fenv_t before;
    assert_int_equal(fegetenv(&before), 0);
    faulty.scale = scale_that_rounds_down;
    const char *name = first_that_changes(&faulty);
    fesetenv(&before);
    assert_non_null(name);
    assert_string_equal(name, "scale");
    faulty = attn_kernels_scalar;
    faulty.read = read_that_flushes;
    name = first_that_changes(&faulty);
    fesetenv(&before);
    assert_non_null(name);
    assert_string_equal(name, "read");
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "every kernel keeps the environment", every_kernel);
    test_add(&list, "a kernel that does not is seen", faults_are_seen);
    return test_run_list("kernels_environment", &list);
}
