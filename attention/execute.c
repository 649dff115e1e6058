/* Executing a plan: in parts, the primitive, and on threads around it. */
#include "attention/environment.h"
#include "attention/internal.h"

#include <stdlib.h>

#ifdef _OPENMP
#    include <omp.h>
#endif

static attn_status check_arguments(const attn_plan *plan, const attn_tensors *tensors, attn_error *error) {
    if (!plan)
        return attn_fail(error, ATTN_INVALID, "plan is NULL");
    return attn_tensors_check(&plan->problem, tensors, error);
}

void attn_counts_add(attn_counts *total, const attn_counts *add, int64_t times) {
    total->tiles_full += times * add->tiles_full;
    total->tiles_partial += times * add->tiles_partial;
    total->pairs_useful += times * add->pairs_useful;
    total->pairs_executed += times * add->pairs_executed;
}

void attn_counts_publish(const attn_tensors *tensors, const attn_counts *counts) {
    if (!tensors->counts)
        return;
    __atomic_fetch_add(&tensors->counts->tiles_full, counts->tiles_full, __ATOMIC_RELAXED);
    __atomic_fetch_add(&tensors->counts->tiles_partial, counts->tiles_partial, __ATOMIC_RELAXED);
    __atomic_fetch_add(&tensors->counts->pairs_useful, counts->pairs_useful, __ATOMIC_RELAXED);
    __atomic_fetch_add(&tensors->counts->pairs_executed, counts->pairs_executed, __ATOMIC_RELAXED);
}

static void run_part(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int part,
                     int parts) {
    const uint64_t caller = attn_environment_enter();
    int64_t first, last;
    attn_plan_part(plan, part, parts, &first, &last);
    if (plan->algorithm == ATTN_NAIVE)
        attn_naive(plan, tensors, workspace, first, last);
    else if (plan->splits > 1)
        attn_decode(plan, tensors, workspace, first, last);
    else
        attn_flash(plan, tensors, workspace, first, last);
    attn_environment_leave(caller);
}

static attn_status check_workspace(const void *workspace, attn_error *error) {
    if ((uintptr_t)workspace % ATTN_ALIGN_BYTES)
        return attn_fail(error, ATTN_INVALID, "workspace is at %p, must be aligned to %d bytes", workspace,
                         ATTN_ALIGN_BYTES);
    return ATTN_OK;
}

static attn_status check_given_workspace(const attn_plan *plan, const void *workspace, int threads,
                                         attn_error *error) {
    if (!workspace && plan->info.workspace_bytes > 0)
        return attn_fail(error, ATTN_INVALID, "workspace is NULL, must hold %lld bytes",
                         (long long)plan->info.workspace_bytes * threads);
    return check_workspace(workspace, error);
}

attn_status attn_execute_part(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int part,
                              int parts, attn_error *error) {
    attn_status status = check_arguments(plan, tensors, error);
    if (status != ATTN_OK)
        return status;
    if (parts < 1 || part < 0 || part >= parts)
        return attn_fail(error, ATTN_INVALID,
                         "part is %d of %d, must be 0 to parts - 1 with parts at least 1", part, parts);
    if ((status = check_given_workspace(plan, workspace, 1, error)) != ATTN_OK)
        return status;
    run_part(plan, tensors, workspace, part, parts);
    return ATTN_OK;
}

/* More threads than query tiles would have nothing to do; where keys are split, more than splits of all
 * key/value heads. */
static int useful_threads(const attn_plan *plan, int threads) {
    const attn_problem *problem = &plan->problem;
    const int64_t units = plan->splits > 1 ? problem->batch * problem->kv_heads * plan->splits
                                           : problem->batch * problem->heads * plan->query_tiles;
    return (int)attn_max(1, attn_min(threads, units));
}

int64_t attn_step_tasks(const attn_plan *plan, int threads, int64_t step) {
    if (!plan || step < 0)
        return 0;
    threads = useful_threads(plan, threads);
    if (threads > 1 && plan->splits > 1)
        return attn_decode_tasks(plan, step);
    return step == 0 ? threads : 0;
}

/* `workspace` is the first of one for each thread, `bytes` apart. */
static void run_task(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int64_t bytes,
                     int threads, int thread, int64_t step, int64_t task) {
    threads = useful_threads(plan, threads);
    if (threads > 1 && plan->splits > 1) {
        const uint64_t caller = attn_environment_enter();
        attn_decode_task(plan, tensors, workspace, thread, step, task);
        attn_environment_leave(caller);
    } else {
        run_part(plan, tensors, (char *)workspace + thread * bytes, (int)task, threads);
    }
}

attn_status attn_execute_task(const attn_plan *plan, const attn_tensors *tensors, void *workspace,
                              int threads, int thread, int64_t step, int64_t task, attn_error *error) {
    attn_status status = check_arguments(plan, tensors, error);
    if (status != ATTN_OK)
        return status;
    if (threads > ATTN_MAX_THREADS)
        return attn_fail(error, ATTN_INVALID, "threads is %d, must be 1 to %d", threads, ATTN_MAX_THREADS);
    if (thread < 0 || thread >= threads)
        return attn_fail(error, ATTN_INVALID,
                         "thread is %d of %d, must be 0 to threads - 1 with threads at least 1", thread,
                         threads);
    const int64_t tasks = attn_step_tasks(plan, threads, step);
    if (task < 0 || task >= tasks)
        return attn_fail(error, ATTN_INVALID, "task is %lld of step %lld, which has %lld of them from 0",
                         (long long)task, (long long)step, (long long)tasks);
    if ((status = check_given_workspace(plan, workspace, threads, error)) != ATTN_OK)
        return status;
    run_task(plan, tensors, workspace, plan->info.workspace_bytes, threads, thread, step, task);
    return ATTN_OK;
}

/* A step, shared out among a team. */
typedef struct step_work {
    const attn_plan *plan;
    const attn_tensors *tensors;
    void *workspace;
    int64_t bytes;
    int threads; /* asked for; the team may be smaller */
    int64_t step, tasks;
    int64_t taken; /* beyond each thread's first */
    int worked;    /* threads that had a task */
} step_work;

/* Each thread begins with the task of its own number, so that in every call it has the same rows in its
 * caches; whoever is free takes the next one that is left. */
static void work_on_step(void *context, int thread, int team) {
    step_work *w = context;
    if (thread < w->tasks)
        __atomic_fetch_add(&w->worked, 1, __ATOMIC_RELAXED);
    for (int64_t task = thread; task < w->tasks;
         task = team + __atomic_fetch_add(&w->taken, 1, __ATOMIC_RELAXED))
        run_task(w->plan, w->tensors, w->workspace, w->bytes, w->threads, thread, w->step, task);
}

static void openmp_team(int threads, attn_team_work *work, void *context) {
#ifdef _OPENMP
#    pragma omp parallel num_threads(threads)
    work(context, omp_get_thread_num(), omp_get_num_threads());
#else
    (void)threads;
    work(context, 0, 1);
#endif
}

/* What a thread's workspace has to hold when all of them are the library's own. A caller's holds
 * info.workspace_bytes whatever the parts; with naive that is the scores of a whole head, of which a part
 * among many has a few rows. Each thread takes any part. */
static int64_t own_bytes(const attn_plan *plan, int threads) {
    if (plan->algorithm != ATTN_NAIVE)
        return plan->info.workspace_bytes;
    int64_t most = 0;
    /* Parts are cut by arithmetic, which must come out as it does in run_part. */
    const uint64_t caller = attn_environment_enter();
    for (int part = 0; part < threads; part++) {
        int64_t first, last;
        attn_plan_part(plan, part, threads, &first, &last);
        most = attn_max(most, last - first);
    }
    attn_environment_leave(caller);
    return attn_naive_workspace(
        plan, attn_min(attn_min(most, plan->query_tiles) * plan->query_tile, plan->problem.queries));
}

attn_status attn_execute_on(attn_team *team, const attn_plan *plan, const attn_tensors *tensors,
                            void *workspace, int threads, int *used, attn_error *error) {
    attn_status status = check_arguments(plan, tensors, error);
    if (status != ATTN_OK)
        return status;
    if (threads < 1 || threads > ATTN_MAX_THREADS)
        return attn_fail(error, ATTN_INVALID, "threads is %d, must be 1 to %d", threads, ATTN_MAX_THREADS);
    if ((status = check_workspace(workspace, error)) != ATTN_OK)
        return status;
    threads = useful_threads(plan, threads);
    *used = 1;
    const int64_t bytes = workspace ? plan->info.workspace_bytes : own_bytes(plan, threads);
    int64_t total;
    void *owned = NULL;
    if (!workspace && bytes > 0) {
        if (__builtin_mul_overflow(bytes, (int64_t)threads, &total) ||
            !(workspace = owned = aligned_alloc(ATTN_ALIGN_BYTES, (size_t)total)))
            return attn_fail(error, ATTN_NO_MEMORY,
                             "no memory for %d workspaces of %lld bytes, one for each thread%s", threads,
                             (long long)bytes, threads > 1 ? "; fewer threads need fewer" : "");
    }
    if (threads == 1)
        run_part(plan, tensors, workspace, 0, 1);
    else
        for (int64_t step = 0, tasks; (tasks = attn_step_tasks(plan, threads, step)) > 0; step++) {
            step_work work = {plan, tensors, workspace, bytes, threads, step, tasks, 0, 0};
            team(threads, work_on_step, &work);
            *used = (int)attn_max(*used, work.worked);
        }
    free(owned);
    return ATTN_OK;
}

attn_status attn_execute(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int threads,
                         attn_error *error) {
    int used;
    return attn_execute_on(openmp_team, plan, tensors, workspace, threads, &used, error);
}
