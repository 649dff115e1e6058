/* The guards guard: each kind of stray access is really caught. */
#include "tests/support.h"

#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/guard.h"

/* Signal that ends a child which writes (or reads) one byte at `offset`; 0 if it lives. */
static int access_signal(volatile unsigned char *data, ptrdiff_t offset, bool write) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        if (write)
            data[offset] = 1;
        else
            (void)data[offset];
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) ? SIGSEGV : 0;
}

static const size_t sizes[] = {1, 4, 60, 4096, 4100, 70000};

/* Guards: one byte read or written behind a GUARD_BACK buffer kills, the last byte does not. */
static void back_is_unmapped(void **state) {
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        guard g = guard_new(sizes[i], GUARD_BACK, 4);
        ptrdiff_t end = (ptrdiff_t)sizes[i];
        assert_int_equal(access_signal(g.data, end - 1, true), 0);
        assert_int_equal(access_signal(g.data, end, true), SIGSEGV);
        assert_int_equal(access_signal(g.data, end, false), SIGSEGV);
        guard_free(&g);
    }
}

/* Guards: one byte read or written before a GUARD_FRONT buffer kills, the first byte does not. */
static void front_is_unmapped(void **state) {
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        guard g = guard_new(sizes[i], GUARD_FRONT, 4);
        assert_int_equal(access_signal(g.data, 0, true), 0);
        assert_int_equal(access_signal(g.data, -1, true), SIGSEGV);
        assert_int_equal(access_signal(g.data, -1, false), SIGSEGV);
        guard_free(&g);
    }
}

/* Guards: an empty buffer may be neither read nor written, on either side. */
static void empty_is_empty(void **state) {
    guard back = guard_new(0, GUARD_BACK, 4), front = guard_new(0, GUARD_FRONT, 4);
    assert_int_equal(access_signal(back.data, 0, false), SIGSEGV);
    assert_int_equal(access_signal(front.data, -1, false), SIGSEGV);
    guard_free(&back);
    guard_free(&front);
}

/* Guards: a shifted buffer has its element's alignment and no more. */
static void shifted_is_misaligned(void **state) {
    guard f = guard_new(64, GUARD_SHIFTED, 4), h = guard_new(64, GUARD_SHIFTED, 2);
    assert_int_equal((uintptr_t)f.data % 64, 4);
    assert_int_equal((uintptr_t)h.data % 64, 2);
    guard_free(&f);
    guard_free(&h);
}

/* Guards: one changed byte anywhere in the slack is noticed, a changed buffer is not one. */
static void canaries_notice(void **state) {
    for (int place = 0; place < GUARD_PLACES; place++) {
        guard g = guard_new(100, (guard_place)place, 4);
        assert_true(guard_intact(&g));
        memset(g.data, 7, g.bytes);
        assert_true(guard_intact(&g));
        unsigned char *before = (unsigned char *)g.data - 1, *behind = (unsigned char *)g.data + g.bytes;
        if (before >= g.pages) {
            *before = 7;
            assert_false(guard_intact(&g));
            guard_reset(&g);
        }
        if (behind < g.pages + g.pages_bytes) {
            *behind = 7;
            assert_false(guard_intact(&g));
            guard_reset(&g);
        }
        assert_true(guard_intact(&g));
        guard_free(&g);
    }
}

/* Guards: a sealed buffer can be read, and not written. */
static void sealed_is_read_only(void **state) {
    guard g = guard_new(100, GUARD_BACK, 4);
    guard_seal(&g);
    assert_int_equal(access_signal(g.data, 0, false), 0);
    assert_int_equal(access_signal(g.data, 0, true), SIGSEGV);
    guard_free(&g);
}

/* Guards: an output that nobody wrote is NaN. */
static void unwritten_is_nan(void **state) {
    guard g = guard_new(16, GUARD_BACK, 4);
    for (int i = 0; i < 4; i++) {
        float value;
        memcpy(&value, (char *)g.data + 4 * i, sizeof value);
        assert_true(isnan(value));
    }
    guard_free(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(back_is_unmapped), cmocka_unit_test(front_is_unmapped),
        cmocka_unit_test(empty_is_empty),   cmocka_unit_test(shifted_is_misaligned),
        cmocka_unit_test(canaries_notice),  cmocka_unit_test(sealed_is_read_only),
        cmocka_unit_test(unwritten_is_nan),
    };
    return test_run("guard", tests, COUNT_OF(tests));
}
