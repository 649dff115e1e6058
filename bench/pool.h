/* Our own threads, each bound to its own PU. While a pool is running its threads spin between tasks,
 * so that handing one out costs less than a microsecond; stopped, they sleep. Usable from C++. */
#ifndef ATTN_POOL_H
#define ATTN_POOL_H

#include "bench/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_pool bench_pool;
/* The calling thread becomes worker 0. NULL when threads cannot be made. */
bench_pool *bench_pool_new(const machine *m, int threads, bool bind);
void bench_pool_free(bench_pool *pool);
const machine_binding *bench_pool_binding(const bench_pool *pool, int worker);
void bench_pool_start(bench_pool *pool, int threads);
void bench_pool_stop(bench_pool *pool);
/* Calls task(context, worker) on the started workers, and returns when all are done. */
void bench_pool_run(bench_pool *pool, void (*task)(void *context, int worker), void *context);

#ifdef __cplusplus
}
#endif

#endif
