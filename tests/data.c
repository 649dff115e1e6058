#include "tests/data.h"

#include <math.h>

const char *const data_kind_name[DATA_KINDS] = {"normal", "uniform", "peaked", "rising",
                                                "equal",  "huge",    "tiny",   "tails"};

static void normals(float *x, int64_t n, double size, test_rng *rng) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(size * test_normal(rng));
}

static void uniforms(float *x, int64_t n, test_rng *rng) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(2 * test_uniform(rng) - 1);
}

static void constants(float *x, int64_t n, float value) {
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
}

/* One head of keys whose scores, against queries of all ones, are chosen. */
static void keys_with_scores(float *k, int64_t keys, int64_t dim, data_kind kind, test_rng *rng) {
    int64_t peak = keys > 0 ? test_between(rng, 0, keys - 1) : 0;
    for (int64_t j = 0; j < keys; j++) {
        double score = kind == DATA_RISING ? 40 * (double)(j - keys) / (double)keys + 0.1 * test_normal(rng)
                       : j == peak         ? 0
                                           : -87 - 16 * test_uniform(rng);
        for (int64_t d = 0; d < dim; d++)
            k[j * dim + d] = (float)(score / sqrt((double)dim));
    }
}

void data_fill(data_kind kind, test_rng *rng, int64_t q_rows, int64_t kv_heads, int64_t keys, int64_t dim,
               int64_t value_dim, float *q, float *k, float *v) {
    const int64_t q_count = q_rows * dim, k_count = kv_heads * keys * dim;
    const double value_size = kind == DATA_HUGE ? 1e30 : kind == DATA_TINY ? 1e-30 : 1;
    normals(v, kv_heads * keys * value_dim, value_size, rng);
    switch (kind) {
    case DATA_UNIFORM:
        uniforms(q, q_count, rng);
        uniforms(k, k_count, rng);
        uniforms(v, kv_heads * keys * value_dim, rng);
        break;
    case DATA_PEAKED:
        normals(q, q_count, 1, rng);
        normals(k, k_count, 0.25, rng);
        for (int64_t h = 0; h < kv_heads && keys > 0; h++)
            normals(k + (h * keys + test_between(rng, 0, keys - 1)) * dim, dim, 16, rng);
        break;
    case DATA_EQUAL:
        constants(q, q_count, 0.5f);
        constants(k, k_count, 0.25f);
        break;
    case DATA_RISING:
    case DATA_TAILS:
        constants(q, q_count, 1);
        for (int64_t h = 0; h < kv_heads; h++)
            keys_with_scores(k + h * keys * dim, keys, dim, kind, rng);
        break;
    default: {
        double size = kind == DATA_HUGE ? 300 : kind == DATA_TINY ? 1e-19 : 1;
        normals(q, q_count, size, rng);
        normals(k, k_count, size, rng);
    }
    }
}
