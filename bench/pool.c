/* Threads of our own, bound and waiting: the benchmark library's would divide times by their number
 * (before 1.9), an OpenMP runtime's could not be bound or checked from here. */
#include "bench/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct worker {
    bench_pool *pool;
    pthread_t thread;
    int index, pu;
    machine_binding binding;
} worker;

struct bench_pool {
    int threads; /* workers there are, the caller among them */
    bool bind;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ending;
    /* Workers that take part until bench_pool_stop; under `lock`, and read without it while they spin. */
    atomic_int active;
    /* A task is handed out by raising `generation`, and finished when `left` is 0. */
    void (*task)(void *context, int worker);
    void *context;
    atomic_uint generation;
    atomic_int left;
    worker worker[];
};

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void *worker_main(void *argument) {
    worker *self = argument;
    bench_pool *pool = self->pool;
    if (pool->bind)
        machine_bind(self->pu, &self->binding);
    unsigned seen = 0;
    atomic_fetch_sub(&pool->left, 1); /* bench_pool_new waits for this */
    for (;;) {
        pthread_mutex_lock(&pool->lock);
        while (!pool->ending && atomic_load(&pool->active) <= self->index)
            pthread_cond_wait(&pool->wake, &pool->lock);
        const bool ending = pool->ending;
        pthread_mutex_unlock(&pool->lock);
        if (ending)
            return NULL;
        /* A worker that slept through earlier tasks must not take one of them for a new one: while it
         * is inactive it is not counted, and it joins between tasks (bench_pool_start waits). */
        seen = atomic_load(&pool->generation);
        atomic_fetch_sub(&pool->left, 1);
        while (atomic_load_explicit(&pool->active, memory_order_relaxed) > self->index) {
            const unsigned now = atomic_load_explicit(&pool->generation, memory_order_acquire);
            if (now == seen) {
                pause_cpu();
                continue;
            }
            seen = now;
            pool->task(pool->context, self->index);
            atomic_fetch_sub_explicit(&pool->left, 1, memory_order_release);
        }
        atomic_fetch_sub(&pool->left, 1); /* bench_pool_stop waits for this */
    }
}

static void wait_left(bench_pool *pool) {
    for (int spins = 0; atomic_load_explicit(&pool->left, memory_order_acquire) > 0; spins++) {
        pause_cpu();
        /* Where there are fewer CPUs than threads after all, the others need this one. */
        if (spins > 100000)
            sched_yield();
    }
}

bench_pool *bench_pool_new(const machine *m, int threads, bool bind) {
    bench_pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof pool->worker[0]);
    int *pus = calloc((size_t)threads, sizeof *pus);
    if (!pool || !pus) {
        free(pool);
        free(pus);
        return NULL;
    }
    bind = bind && machine_pick(m, threads, pus) == threads;
    pool->bind = bind;
    pool->threads = 1;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (int i = 0; i < threads; i++)
        pool->worker[i] = (worker){.pool = pool, .index = i, .pu = pus[i], .binding = {.ran_on = -1}};
    free(pus);
    /* Workers are made before this thread is bound, since they would inherit its binding. */
    atomic_store(&pool->left, threads - 1);
    for (int i = 1; i < threads; i++, pool->threads++) {
        if (pthread_create(&pool->worker[i].thread, NULL, worker_main, &pool->worker[i]) != 0) {
            atomic_fetch_sub(&pool->left, threads - i);
            wait_left(pool);
            bench_pool_free(pool);
            return NULL;
        }
    }
    wait_left(pool);
    if (bind)
        machine_bind(pool->worker[0].pu, &pool->worker[0].binding);
    return pool;
}

void bench_pool_free(bench_pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i < pool->threads; i++)
        pthread_join(pool->worker[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

const machine_binding *bench_pool_binding(const bench_pool *pool, int index) {
    return index >= 0 && index < pool->threads ? &pool->worker[index].binding : NULL;
}

static void set_active(bench_pool *pool, int threads, int waiting_for) {
    atomic_store(&pool->left, waiting_for);
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->active, threads);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    wait_left(pool);
}

void bench_pool_start(bench_pool *pool, int threads) {
    set_active(pool, threads, threads - 1);
}

void bench_pool_stop(bench_pool *pool) {
    set_active(pool, 0, atomic_load(&pool->active) - 1);
}

void bench_pool_run(bench_pool *pool, void (*task)(void *context, int worker), void *context) {
    const int others = atomic_load_explicit(&pool->active, memory_order_relaxed) - 1;
    if (others > 0) {
        pool->task = task;
        pool->context = context;
        atomic_store_explicit(&pool->left, others, memory_order_relaxed);
        atomic_fetch_add_explicit(&pool->generation, 1, memory_order_release);
    }
    task(context, 0);
    wait_left(pool);
}
