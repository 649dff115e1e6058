/* Selection's first call, from many threads at once: what it reads of the machine is kept for the process.
 * The only test of its program, since the first call of a process comes once. */
#include "tests/support.h"

#include <pthread.h>

#include "dispatch/dispatch.h"

enum { CALLERS = 16 };

static pthread_barrier_t together;

static void *call(void *argument) {
    const attn_kernels **kernels = argument;
    pthread_barrier_wait(&together);
    return attn_dispatch(NULL, kernels, NULL) == ATTN_OK ? argument : NULL;
}

/* Guards: all get the same table, and none races with another (suite tsan sees that). */
static void first_call_of_many(void **state) {
    pthread_t threads[CALLERS];
    const attn_kernels *kernels[CALLERS] = {NULL};
    assert_int_equal(pthread_barrier_init(&together, NULL, CALLERS), 0);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call, &kernels[i]), 0);
    for (int i = 0; i < CALLERS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
        assert_non_null(kernels[i]);
        assert_ptr_equal(kernels[i], kernels[0]);
    }
    pthread_barrier_destroy(&together);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_call_of_many)};
    return test_run("first_call", tests, COUNT_OF(tests));
}
