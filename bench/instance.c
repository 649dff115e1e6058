/* A row made ready to run: its plan, tensors and workspace, and one way to call them all. */
#include "bench/bench.h"
#include "dispatch/dispatch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double cpu_time_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

double bench_cpu_now_ns(void) {
    return cpu_time_ns(CLOCK_PROCESS_CPUTIME_ID);
}

double bench_thread_now_ns(void) {
    return cpu_time_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Bytes of an instance of the row, whose plan has been counted. */
static double bytes_needed(const bench_row *row) {
    const attn_problem *p = &row->problem;
    if (row->kind == BENCH_KERNEL) /* operands exist twice for a moment: as made, and packed */
        return 2 * row->bytes_compulsory;
    const double rows = (double)(p->batch * p->heads * p->queries);
    const double tensors = (rows * (double)p->head_dim + (double)(p->batch * p->kv_heads * p->keys) *
                                                             (double)(p->head_dim + p->value_dim)) *
                               (double)attn_dtype_bytes(p->dtype) +
                           rows * (double)p->value_dim * 4;
    return tensors + row->cold_bytes + (double)row->threads * (double)row->info.workspace_bytes;
}

bool bench_row_fits(const bench_row *row, int64_t memory_bytes, attn_error *error) {
    const double bytes = bytes_needed(row);
    if (memory_bytes <= 0 || bytes <= 0.9 * (double)memory_bytes)
        return true;
    attn_fail(error, ATTN_NO_MEMORY, "needs %.3g GB of memory, this machine offers %.3g GB", bytes / 1e9,
              (double)memory_bytes / 1e9);
    return false;
}

static bool make_attention(bench_instance *instance, uint64_t seed, attn_error *error) {
    const bench_row *row = instance->row;
    const attn_problem *p = &row->problem;
    const attn_options options = bench_row_options(row);
    if (attn_plan_create(p, &options, &instance->plan, error) != ATTN_OK)
        return false;
    const int64_t workspace_bytes = instance->threads * attn_plan_info(instance->plan).workspace_bytes;
    instance->workspace = bench_alloc(workspace_bytes);
    if (!instance->workspace || !bench_inputs_make(&instance->inputs, p, row->data, seed) ||
        !bench_copies_make(&instance->copies, &instance->inputs, row->cold_bytes)) {
        attn_fail(error, ATTN_NO_MEMORY, "not enough memory");
        return false;
    }
    if (instance->threads > 1 && row->kind == BENCH_ATTENTION) {
        instance->share = calloc((size_t)instance->threads, sizeof *instance->share);
        if (!instance->share) {
            attn_fail(error, ATTN_NO_MEMORY, "not enough memory");
            return false;
        }
        for (int i = 0; i < instance->threads; i++) {
            instance->share[i].tensors = instance->inputs.tensors;
            instance->share[i].tensors.counts = &instance->share[i].counts;
        }
    }
    /* What is wrong is said here, so that calls need not be checked one by one. */
    const bool counted = p->inputs & ATTN_HAS_BIAS;
    attn_tensors given = instance->inputs.tensors;
    given.counts = counted ? &instance->counts : NULL;
    const double cpu = bench_cpu_now_ns();
    const int64_t start = machine_now_ns();
    const attn_status status = attn_execute_part(instance->plan, &given, instance->workspace, 0,
                                                 counted ? 1 : instance->threads, error);
    instance->first_ns = (double)(machine_now_ns() - start);
    instance->first_cpu_ns = bench_cpu_now_ns() - cpu;
    return status == ATTN_OK;
}

static bool make_kernel(bench_instance *instance, uint64_t seed, attn_error *error) {
    const bench_row *row = instance->row;
    bench_kernel_run *run = &instance->kernel_run;
    *run = bench_kernel_of_row(row, instance->kernels);
    if (!row->kernel->prepare(run, seed)) {
        attn_fail(error, ATTN_NO_MEMORY, "not enough memory");
        return false;
    }
    return true;
}

bool bench_instance_make(bench_instance *instance, const bench_row *row, bench_pool *pool, uint64_t seed,
                         attn_error *error) {
    *instance = (bench_instance){.row = row, .pool = pool, .threads = row->threads};
    if (attn_dispatch(row->isa, &instance->kernels, error) != ATTN_OK)
        return false;
    const bool made = row->kind == BENCH_KERNEL ? make_kernel(instance, seed, error)
                                                : make_attention(instance, seed, error);
    if (!made)
        bench_instance_free(instance);
    return made;
}

/* As in attn_execute: the task of its own number first, then whichever is left. */
static void run_tasks(void *context, int worker) {
    bench_instance *instance = context;
    bench_share *share = &instance->share[worker];
    for (int64_t task = worker; task < instance->step_tasks;
         task = instance->threads + __atomic_fetch_add(&instance->taken, 1, __ATOMIC_RELAXED))
        attn_execute_task(instance->plan, &share->tensors, instance->workspace, instance->threads, worker,
                          instance->step, task, NULL);
}

static void run_attention(bench_instance *instance) {
    bench_copies *copies = &instance->copies;
    if (copies->count > 1) {
        bench_copies_next(copies, &instance->inputs, &instance->inputs.tensors);
        for (int i = 0; instance->share && i < instance->threads; i++) {
            attn_tensors *tensors = &instance->share[i].tensors;
            tensors->q = instance->inputs.tensors.q;
            tensors->k = instance->inputs.tensors.k;
            tensors->v = instance->inputs.tensors.v;
            tensors->out = instance->inputs.tensors.out;
        }
    }
    if (instance->threads == 1) {
        attn_execute_part(instance->plan, &instance->inputs.tensors, instance->workspace, 0, 1, NULL);
        return;
    }
    for (instance->step = 0;; instance->step++) {
        instance->step_tasks = attn_step_tasks(instance->plan, instance->threads, instance->step);
        if (instance->step_tasks == 0)
            return;
        instance->taken = 0;
        bench_pool_run(instance->pool, run_tasks, instance);
    }
}

int bench_instance_threads_used(const bench_instance *instance) {
    int used = 0;
    for (int i = 0; instance->share && i < instance->threads; i++)
        used += instance->share[i].counts.tiles_full + instance->share[i].counts.tiles_partial > 0;
    return used > 1 ? used : 1;
}

/* Runs the stages up to the row's own over all heads, and times that one alone: what the earlier ones
 * leave in the workspace is what it works on in place, and must be there anew for every call. */
static int64_t run_stage(bench_instance *instance, attn_stage last) {
    const attn_problem *p = &instance->row->problem;
    int64_t elapsed = 0;
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t h = 0; h < p->heads; h++) {
            for (int s = 0; s < (int)last; s++)
                attn_naive_stage(instance->plan, &instance->inputs.tensors, instance->workspace, b, h,
                                 (attn_stage)s);
            const int64_t start = machine_now_ns();
            attn_naive_stage(instance->plan, &instance->inputs.tensors, instance->workspace, b, h, last);
            elapsed += machine_now_ns() - start;
        }
    }
    return elapsed;
}

/* Where calls consume their input it is restored between them; that is not timed. */
static int64_t run_kernel(bench_instance *instance, int64_t calls) {
    const bench_kernel *kernel = instance->row->kernel;
    bench_kernel_run *run = &instance->kernel_run;
    int64_t elapsed = 0;
    while (calls > 0) {
        const int64_t block = kernel->restore && run->rows < calls ? run->rows : calls;
        if (kernel->restore)
            kernel->restore(run);
        const int64_t start = machine_now_ns();
        for (int64_t i = 0; i < block; i++)
            kernel->call(run);
        elapsed += machine_now_ns() - start;
        calls -= block;
    }
    return elapsed;
}

int64_t bench_instance_run(bench_instance *instance, int64_t calls) {
    if (instance->row->kind == BENCH_STAGE) {
        int64_t elapsed = 0;
        for (int64_t i = 0; i < calls; i++)
            elapsed += run_stage(instance, instance->row->stage);
        return elapsed;
    }
    if (instance->row->kind == BENCH_KERNEL)
        return run_kernel(instance, calls);
    const int64_t start = machine_now_ns();
    for (int64_t i = 0; i < calls; i++)
        run_attention(instance);
    return machine_now_ns() - start;
}

double bench_instance_checksum(bench_instance *instance, double *sum_abs) {
    *sum_abs = 0;
    if (instance->row->kind == BENCH_KERNEL)
        return instance->row->kernel->checksum(&instance->kernel_run);
    /* Of a stage, what the first call left, or pv: no other stage writes there. */
    double sum = 0;
    for (int64_t i = 0; i < instance->inputs.out_count; i++)
        sum += (double)instance->inputs.out[i];
    for (int64_t i = 0; i < instance->inputs.out_count; i++)
        *sum_abs += fabs((double)instance->inputs.out[i]);
    return sum;
}

int bench_instance_pieces(const bench_instance *instance, memory_piece pieces[BENCH_PIECES]) {
    if (instance->row->kind == BENCH_KERNEL)
        return 0;
    const bench_inputs *in = &instance->inputs;
    int count = 0;
    pieces[count++] = (memory_piece){in->q, in->q_bytes};
    pieces[count++] = (memory_piece){in->k, in->k_bytes};
    pieces[count++] = (memory_piece){in->v, in->v_bytes};
    pieces[count++] = (memory_piece){in->out, in->out_count * (int64_t)sizeof(float)};
    const int64_t workspace_bytes = attn_plan_info(instance->plan).workspace_bytes;
    pieces[count++] = (memory_piece){instance->workspace, instance->threads * workspace_bytes};
    return count;
}

void bench_instance_free(bench_instance *instance) {
    attn_plan_destroy(instance->plan);
    bench_inputs_free(&instance->inputs);
    free(instance->copies.memory);
    bench_kernel_free(&instance->kernel_run);
    free(instance->workspace);
    free(instance->share);
    *instance = (bench_instance){0};
}
