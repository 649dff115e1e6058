/* Causal attention with grouped heads and a sliding window through the C API: plan once, execute many.
 *
 *     cc example.c $(pkg-config --cflags --libs attnscope) -o example && ./example
 */
#include <attnscope.h>

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    enum { batch = 1, heads = 8, kv_heads = 2, n = 300, d = 64 };
    attn_error error;
    attn_problem problem;
    attn_problem_init(&problem, batch, heads, kv_heads, n, n, d, d);
    if (attn_pattern_parse("causal,window=128", &problem.pattern, &error) != ATTN_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }

    attn_plan *plan;
    if (attn_plan_create(&problem, NULL, &plan, &error) != ATTN_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    const attn_info info = attn_plan_info(plan);
    printf("%s, %s: %lld of %lld pairs attended, %lld visited\n", info.isa,
           attn_algorithm_name(info.algorithm), (long long)info.pairs_useful, (long long)info.pairs_dense,
           (long long)info.pairs_executed);

    float *q = malloc(sizeof(float) * heads * n * d), *out = malloc(sizeof(float) * heads * n * d);
    float *k = malloc(sizeof(float) * kv_heads * n * d), *v = malloc(sizeof(float) * kv_heads * n * d);
    if (!q || !k || !v || !out)
        return 1;
    for (int i = 0; i < heads * n * d; i++)
        q[i] = (float)(i % 13) / 13 - 0.5f;
    for (int i = 0; i < kv_heads * n * d; i++) {
        k[i] = (float)(i % 7) / 7 - 0.5f;
        v[i] = (float)(i / (n * d)); /* every value of a key/value head is the head's index */
    }

    attn_tensors tensors;
    attn_tensors_init(&tensors, &problem, q, k, v, out);
    const int threads = 2;
    if (attn_execute(plan, &tensors, NULL, threads, &error) != ATTN_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }

    /* Weights sum to 1, so each query head's output is the index of the key/value head it reads. */
    for (int h = 0; h < heads; h++)
        printf("head %d reads key/value head %.0f\n", h, (double)out[(h * n + n - 1) * d]);

    attn_plan_destroy(plan);
    free(q);
    free(k);
    free(v);
    free(out);
    return 0;
}
