/* Calls that find their tensors in no cache: each works on the next of as many copies as the caches cannot
 * hold. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double bench_cold_bytes(const bench_config *config) {
    double last = 32 << 20;
    for (int level = 0; level < MACHINE_CACHE_LEVELS; level++)
        last = fmax(last, (double)config->cache_bytes[level]);
    return config->cold ? 2 * last : 0;
}

static int64_t round_up_to_line(int64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

bool bench_copies_make(bench_copies *copies, const bench_inputs *inputs, double cold_bytes) {
    const int64_t sizes[] = {inputs->q_bytes, inputs->k_bytes, inputs->v_bytes,
                             inputs->out_count * (int64_t)sizeof(float)};
    *copies = (bench_copies){.count = 1};
    for (int i = 0; i < 4; i++) {
        copies->offset[i] = copies->step_bytes;
        copies->step_bytes += round_up_to_line(sizes[i]);
    }
    if (copies->step_bytes == 0 || cold_bytes <= (double)copies->step_bytes)
        return true;
    copies->count = (int64_t)(cold_bytes / (double)copies->step_bytes) + 1;
    copies->memory = bench_alloc((copies->count - 1) * copies->step_bytes);
    for (int64_t copy = 0; copies->memory && copy < copies->count - 1; copy++) {
        char *at = copies->memory + copy * copies->step_bytes;
        memcpy(at + copies->offset[0], inputs->q, (size_t)sizes[0]);
        memcpy(at + copies->offset[1], inputs->k, (size_t)sizes[1]);
        memcpy(at + copies->offset[2], inputs->v, (size_t)sizes[2]);
    }
    return copies->memory;
}

void bench_copies_next(bench_copies *copies, const bench_inputs *inputs, attn_tensors *tensors) {
    const int64_t copy = copies->next;
    copies->next = copy + 1 < copies->count ? copy + 1 : 0;
    tensors->q.data = inputs->q;
    tensors->k.data = inputs->k;
    tensors->v.data = inputs->v;
    tensors->out = inputs->out;
    if (copy == 0)
        return;
    char *at = copies->memory + (copy - 1) * copies->step_bytes;
    tensors->q.data = at + copies->offset[0];
    tensors->k.data = at + copies->offset[1];
    tensors->v.data = at + copies->offset[2];
    tensors->out = (float *)(at + copies->offset[3]);
}
