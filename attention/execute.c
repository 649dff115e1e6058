/* Executing a plan: in parts, the primitive, and on threads around it. */
#include "attention/internal.h"

#include <stdlib.h>

static attn_status check_arguments(const attn_plan *plan, const attn_tensors *tensors, attn_error *error) {
    if (!plan)
        return attn_fail(error, ATTN_INVALID, "plan is NULL");
    return attn_tensors_check(&plan->problem, tensors, error);
}

void attn_counts_add(attn_counts *total, const attn_counts *add) {
    total->tiles_full += add->tiles_full;
    total->tiles_partial += add->tiles_partial;
    total->pairs_useful += add->pairs_useful;
    total->pairs_executed += add->pairs_executed;
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
    int64_t first, last;
    attn_plan_part(plan, part, parts, &first, &last);
    if (plan->algorithm == ATTN_NAIVE)
        attn_naive(plan, tensors, workspace, first, last);
    else if (plan->splits > 1)
        attn_decode(plan, tensors, workspace, first, last);
    else
        attn_flash(plan, tensors, workspace, first, last);
}

static attn_status check_workspace(const void *workspace, attn_error *error) {
    if ((uintptr_t)workspace % ATTN_ALIGN_BYTES)
        return attn_fail(error, ATTN_INVALID, "workspace is at %p, must be aligned to %d bytes", workspace,
                         ATTN_ALIGN_BYTES);
    return ATTN_OK;
}

attn_status attn_execute_part(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int part,
                              int parts, attn_error *error) {
    attn_status status = check_arguments(plan, tensors, error);
    if (status != ATTN_OK)
        return status;
    if (parts < 1 || part < 0 || part >= parts)
        return attn_fail(error, ATTN_INVALID,
                         "part is %d of %d, must be 0 to parts - 1 with parts at least 1", part, parts);
    if (!workspace && plan->info.workspace_bytes > 0)
        return attn_fail(error, ATTN_INVALID, "workspace is NULL, must hold %lld bytes",
                         (long long)plan->info.workspace_bytes);
    if ((status = check_workspace(workspace, error)) != ATTN_OK)
        return status;
    run_part(plan, tensors, workspace, part, parts);
    return ATTN_OK;
}

attn_status attn_execute(const attn_plan *plan, const attn_tensors *tensors, void *workspace, int threads,
                         attn_error *error) {
    attn_status status = check_arguments(plan, tensors, error);
    if (status != ATTN_OK)
        return status;
    if (threads < 1 || threads > ATTN_MAX_THREADS)
        return attn_fail(error, ATTN_INVALID, "threads is %d, must be 1 to %d", threads, ATTN_MAX_THREADS);
    if ((status = check_workspace(workspace, error)) != ATTN_OK)
        return status;
    /* No more parts than there are query tiles, or splits of the keys, to share out. */
    const int64_t units = plan->problem.batch * plan->problem.heads * plan->query_tiles * plan->splits;
    const int parts = (int)attn_max(1, attn_min(threads, units));
    const int64_t bytes = plan->info.workspace_bytes;
    int64_t total;
    void *owned = NULL;
    if (!workspace && bytes > 0) {
        if (__builtin_mul_overflow(bytes, (int64_t)parts, &total) ||
            !(workspace = owned = aligned_alloc(ATTN_ALIGN_BYTES, (size_t)total)))
            return attn_fail(error, ATTN_NO_MEMORY, "no memory for %d workspaces of %lld bytes", parts,
                             (long long)bytes);
    }
    if (parts == 1) {
        run_part(plan, tensors, workspace, 0, 1);
    } else if (plan->splits > 1) {
        attn_decode_threads(plan, tensors, workspace, parts);
    } else {
#ifdef _OPENMP
#    pragma omp parallel for num_threads(parts) schedule(static, 1)
#endif
        for (int part = 0; part < parts; part++)
            run_part(plan, tensors, (char *)workspace + part * bytes, part, parts);
    }
    free(owned);
    return ATTN_OK;
}
