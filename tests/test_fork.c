/* A child of a process that has called with several threads: it has none of OpenMP's threads, and what the
 * header says a child may call works all the same. */
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HEADS = 2, N = 200, D = 16, ELEMENTS = HEADS * N * D, THREADS = 2 };

static float data[ELEMENTS], parent[ELEMENTS], child[ELEMENTS];

static void tasks(const attn_plan *plan, const attn_tensors *tensors) {
    void *workspace = aligned_alloc(64, (size_t)(THREADS * attn_plan_info(plan).workspace_bytes));
    if (!workspace)
        _exit(3);
    for (int64_t step = 0, count; (count = attn_step_tasks(plan, THREADS, step)) > 0; step++)
        for (int64_t task = 0; task < count; task++)
            if (attn_execute_task(plan, tensors, workspace, THREADS, (int)(task % THREADS), step, task,
                                  NULL) != ATTN_OK)
                _exit(4);
    free(workspace);
}

/* Ends the child: 0 when it has computed the parent's bits. */
static void compute(const attn_plan *plan, attn_tensors tensors, bool by_tasks) {
    alarm(60); /* where it would wait for threads that are not there */
    tensors.out = child;
    if (by_tasks)
        tasks(plan, &tensors);
    else if (attn_execute(plan, &tensors, NULL, 1, NULL) != ATTN_OK)
        _exit(2);
    _exit(memcmp(child, parent, sizeof child) != 0);
}

/* Guards: with both algorithms, attn_execute with one thread, and tasks, whatever the parent's threads were.
 */
static void child_of_many_threads(void **state) {
    attn_problem problem;
    attn_tensors tensors;
    test_rng rng = test_rng_start("fork", 0);
    for (int i = 0; i < ELEMENTS; i++)
        data[i] = (float)test_normal(&rng);
    attn_problem_init(&problem, 1, HEADS, HEADS, N, N, D, D);
    attn_tensors_init(&tensors, &problem, data, data, data, parent);
    for (int algorithm = ATTN_NAIVE; algorithm <= ATTN_FLASH; algorithm++) {
        attn_plan *plan;
        const attn_options options = {.algorithm = (attn_algorithm)algorithm};
        assert_int_equal(attn_plan_create(&problem, &options, &plan, NULL), ATTN_OK);
        assert_int_equal(attn_execute(plan, &tensors, NULL, THREADS, NULL), ATTN_OK);
        for (int by_tasks = 0; by_tasks < 2; by_tasks++) {
            const pid_t pid = fork();
            assert_true(pid >= 0);
            if (pid == 0)
                compute(plan, tensors, by_tasks);
            int status;
            assert_int_equal(waitpid(pid, &status, 0), pid);
            if (status != 0)
                test_fail("%s, %s: the child ended with status 0x%x", attn_algorithm_name(options.algorithm),
                          by_tasks ? "tasks" : "one thread", (unsigned)status);
        }
        attn_plan_destroy(plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(child_of_many_threads)};
    return test_run("fork", tests, COUNT_OF(tests));
}
