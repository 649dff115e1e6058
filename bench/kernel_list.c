/* What is done with any kernel of the table in kernel_rows.c. */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

const bench_kernel *bench_kernel_find(const char *name) {
    for (int i = 0; i < bench_kernel_count; i++) {
        if (strcmp(bench_kernels[i].name, name) == 0)
            return &bench_kernels[i];
    }
    return NULL;
}

void bench_kernel_free(bench_kernel_run *run) {
    free(run->in);
    free(run->left);
    free(run->right);
    free(run->query);
    free(run->key);
    free(run->value);
    free(run->out);
    free(run->scratch);
    free(run->bits);
    memset(run, 0, sizeof *run);
}
