/* attnscope: attention on a CPU, and what it costs.
 *
 * This header is the whole public interface of the library and its manual.
 *
 *     out = softmax(scale * Q K^T + bias, over the attended keys) V
 *
 * Plan once, execute many: a problem (shapes, pattern, options) is checked and turned into a plan, which is
 * immutable: any number of threads may execute it at once, each with its own tensors and workspace.
 *
 *     attn_problem problem;
 *     attn_problem_init(&problem, 1, 8, 8, 1024, 1024, 64, 64);
 *     attn_pattern_parse("causal", &problem.pattern, NULL);
 *     attn_plan *plan;
 *     attn_error error;
 *     if (attn_plan_create(&problem, NULL, &plan, &error) != ATTN_OK)
 *         fprintf(stderr, "%s\n", error.text);
 *     attn_execute(plan, &tensors, NULL, threads, &error);
 *     attn_plan_destroy(plan);
 *
 * Words: B batch, H query heads, Hkv key/value heads, Nq queries, Nk keys, D head dimension of Q and K, Dv
 * head dimension of V. Query head h reads key/value head h / (H / Hkv). Sizes and strides are counted in
 * elements; what is in bytes says so.
 *
 * Semantics at the edges:
 *   - A row with no attended key is exactly zero, its log-sum-exp -inf (or the sink logit).
 *   - A pair that is not attended, or whose bias is -inf, contributes nothing, whatever lies in K and V.
 *   - NaN in a query or an attended key makes exactly the rows that attend it NaN; in an attended value, that
 *     value's column of those rows; Inf there gives Inf or NaN. A score of +inf makes its row NaN, one of
 *     -inf weighs nothing, and a row of only those is zeros. No finite bias or slope makes a score -inf.
 *   - Results are bitwise the same for any number of threads and from run to run.
 *   - Nothing is read or written outside the tensors given.
 *   - The caller's floating-point control (rounding, flushing of subnormals, traps) changes nothing: each
 *     thread computes under the default one and restores its own afterwards. Status flags are left raised,
 *     also by what is masked; no trap follows.
 *
 * Accuracy: each element lies within a bound that grows with the rounding of the scores to float32, see
 * docs/numerics.md. What passes float32 on the way becomes Inf or NaN: in flash (which ATTN_AUTO prefers)
 * scale * q, its product with k, and the sum of exp(s - max) * v; in naive q . k before it is scaled. */
#ifndef ATTNSCOPE_H
#define ATTNSCOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    define ATTN_API __attribute__((visibility("default")))
#else
#    define ATTN_API
#endif

/* ---- Errors ------------------------------------------------------------ */

typedef enum attn_status {
    ATTN_OK = 0,
    ATTN_INVALID,     /* an argument is wrong (NULL, say); the text names it and what is accepted */
    ATTN_UNSUPPORTED, /* legal, but not by this algorithm, ISA level or build; the text names which */
    ATTN_NO_MEMORY,
} attn_status;

/* One line without a final newline. Every function that takes an attn_error * accepts NULL. */
typedef struct attn_error {
    char text[256];
} attn_error;

ATTN_API const char *attn_version(void); /* the library's, "MAJOR.MINOR.PATCH" */

/* ---- ISA levels --------------------------------------------------------
 * An ISA level is a set of kernels and the CPU features they need: "scalar", "avx2", "avx512",
 * "neon". Levels are numbered from worst to best; a build holds those of its architecture. */

ATTN_API int attn_isa_count(void);             /* levels in this build, at least 1 */
ATTN_API const char *attn_isa_name(int index); /* 0 <= index < attn_isa_count(); NULL outside */

/* ATTN_OK if this CPU and OS can run level `name`; otherwise ATTN_UNSUPPORTED (or ATTN_INVALID
 * for an unknown name) and the reason in `error`. */
ATTN_API attn_status attn_isa_check(const char *name, attn_error *error);

/* Name of the level that "auto" means: ATTNSCOPE_ISA from the environment if set, else the best
 * this machine can run. NULL if ATTNSCOPE_ISA cannot be honoured, with the reason in `error`. */
ATTN_API const char *attn_isa_auto(attn_error *error);

/* ---- Patterns ----------------------------------------------------------
 * Which (query, key) pairs are attended. Query i stands at position p = i + Nk - Nq among the
 * keys (p = i with CAUSAL_TOP_LEFT; p = i + q_offsets[b] when offsets are given). A pair is
 * attended when every restriction holds and, if any selection is given, at least one selects it.
 *
 *   term             text             key j is attended by query i when
 *   (none)           dense            always
 *   CAUSAL           causal           restriction: j <= p
 *   CAUSAL_TOP_LEFT  causal-top-left  restriction: j <= i
 *   PREFIX           prefix=P         relaxes causal: j < P too
 *   CHUNK            chunk=C          restriction: floor(j / C) == floor(p / C)
 *   WINDOW           window=W         selection: p - W < j <= p
 *                    window=L:R       selection: p - L <= j <= p + R, either may be inf
 *   SINK             sink=S           selection: j < S
 *   GLOBAL           global=G         selection: j < G or 0 <= p < G
 *   STRIDE           stride=T         selection: T divides p - j
 *   RANDOM           random=R:B:SEED  selection: j's block of B keys is drawn for i's block
 *   BLOCKS           blocks=FILE:B    selection: the block map is true
 *   TOPK             topk=K           of the attended keys, the K with the largest final scores
 *
 * RANDOM draws for the query block a = floor(i / B), among C = ceil(Nk / B) key blocks, the first min(R, C)
 * distinct ones of mix(mix(mix(SEED) ^ a) ^ t) mod C, t = 0, 1, 2, ...; batches and heads have the same ones.
 * mix(x) is SplitMix64's output for state x, on unsigned 64-bit numbers: x += 0x9E3779B97F4A7C15;
 * x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9; x = (x ^ x >> 27) * 0x94D049BB133111EB; x ^ x >> 31.
 *
 * Work is left out by tiles (attn_info): a stride that is no wider than a tile saves none, as each tile has
 * pairs of it and is computed whole. */
enum {
    ATTN_CAUSAL = 1 << 0,
    ATTN_CAUSAL_TOP_LEFT = 1 << 1,
    ATTN_PREFIX = 1 << 2,
    ATTN_CHUNK = 1 << 3,
    ATTN_WINDOW = 1 << 4,
    ATTN_SINK = 1 << 5,
    ATTN_GLOBAL = 1 << 6,
    ATTN_STRIDE = 1 << 7,
    ATTN_RANDOM = 1 << 8,
    ATTN_BLOCKS = 1 << 9,
    ATTN_TOPK = 1 << 10,
};

#define ATTN_WINDOW_INF INT64_MAX /* an unlimited side of a window */
/* Sums and roundings of sizes cannot overflow, nor can a position, a parameter and a length together. */
#define ATTN_MAX_SIZE ((int64_t)1 << 40)   /* of a size of a problem */
#define ATTN_MAX_NUMBER ((int64_t)1 << 60) /* of a number in a pattern, and of a position, on either side */

/* All zero is dense. A parameter counts only when its bit is in `terms`. */
typedef struct attn_pattern {
    uint32_t terms;                     /* ATTN_CAUSAL | ... */
    int64_t prefix;                     /* P >= 1 */
    int64_t chunk;                      /* C >= 1 */
    int64_t window_left, window_right;  /* L, R >= 0 or ATTN_WINDOW_INF; window=W is L = W-1, R = 0 */
    int64_t sink;                       /* S >= 1 */
    int64_t global;                     /* G >= 1 */
    int64_t stride;                     /* T >= 1 */
    int64_t random_count, random_block; /* R, B >= 1 */
    uint64_t random_seed;
    int64_t topk;       /* K >= 1 */
    int64_t block_size; /* B >= 1 */
    /* BLOCKS: block_heads (1 or H) maps of ceil(Nq/B) x ceil(Nk/B) bytes, C order; not 0 selects; copied */
    const uint8_t *block_map;
    int64_t block_heads;
} attn_pattern;

/* Parses the text form: terms joined by commas, any order, none twice, "dense" alone. `blocks=` is refused:
 * who reads its file sets the fields. On error `pattern` is unchanged. */
ATTN_API attn_status attn_pattern_parse(const char *text, attn_pattern *pattern, attn_error *error);

/* Writes the canonical text (terms in the order above; window=W where R is 0; blocks as
 * "blocks=map:B") as snprintf does: at most `size` bytes with the final 0, returns the full length. */
ATTN_API int attn_pattern_format(const attn_pattern *pattern, char *text, size_t size);

/* ---- Problems ---------------------------------------------------------- */

typedef enum attn_dtype {
    ATTN_F32 = 0,
    ATTN_F16,  /* IEEE binary16 */
    ATTN_BF16, /* the upper half of a float32 */
} attn_dtype;

ATTN_API const char *attn_dtype_name(attn_dtype dtype); /* "f32", "f16", "bf16"; NULL for anything else */
ATTN_API size_t attn_dtype_bytes(attn_dtype dtype);     /* of one element: 4, 2, 2; 0 for anything else */

typedef enum attn_algorithm {
    ATTN_AUTO = 0,
    ATTN_NAIVE, /* the textbook stages, Nq x Nk scores in memory */
    ATTN_FLASH, /* tiles and online softmax, memory linear in the lengths */
} attn_algorithm;

ATTN_API const char *attn_algorithm_name(attn_algorithm algorithm); /* "auto", "naive", "flash" */

/* Optional tensors that a problem may carry; the plan fixes which, execution brings them. */
enum {
    ATTN_HAS_KV_LENS = 1 << 0,    /* keys at or past the length are padding */
    ATTN_HAS_Q_OFFSETS = 1 << 1,  /* p = i + offset */
    ATTN_HAS_SEGMENTS = 1 << 2,   /* only pairs with equal segment ids */
    ATTN_HAS_MASK = 1 << 3,       /* only pairs whose mask entry is nonzero */
    ATTN_HAS_BIAS = 1 << 4,       /* added to the score; -inf masks */
    ATTN_HAS_ALIBI = 1 << 5,      /* slope * |p - j| is subtracted from the score */
    ATTN_HAS_SINK_LOGIT = 1 << 6, /* one more term in the denominator, without a value */
};

/* The final score is  cap(scale * q.k) - slope * |p - j| + bias,  cap(x) = c * tanh(x / c). */
typedef struct attn_problem {
    int64_t batch;               /* B >= 0 */
    int64_t heads, kv_heads;     /* H >= 1, Hkv >= 1, H a multiple of Hkv */
    int64_t queries, keys;       /* Nq, Nk >= 0 */
    int64_t head_dim, value_dim; /* D >= 1, Dv >= 0 */
    attn_dtype dtype;            /* storage type of Q, K and V; arithmetic is float32 */
    attn_pattern pattern;
    float scale;     /* any finite number; NaN means 1/sqrt(D) */
    float softcap;   /* c > 0, or 0 for none */
    uint32_t inputs; /* ATTN_HAS_KV_LENS | ... */
} attn_problem;

/* Fills `problem`: these shapes, float32, dense, the default scale, nothing optional. */
ATTN_API void attn_problem_init(attn_problem *problem, int64_t batch, int64_t heads, int64_t kv_heads,
                                int64_t queries, int64_t keys, int64_t head_dim, int64_t value_dim);

/* ---- Plans ------------------------------------------------------------- */

typedef struct attn_plan attn_plan;

/* Which algorithm ATTN_AUTO takes, by measurement: the tuning table that `attnscope analyze` makes of the
 * results of `attnscope bench`. It speaks of what was measured: lengths up to the longest, as many queries as
 * keys, no softcap, none of the optional tensors, so many threads, this pattern; a head dimension, and the
 * width of a pattern that is a window alone, within a factor of 2. About everything else it says nothing, and
 * ATTN_AUTO takes what it takes without a table. Constant once loaded: any thread may use it. */
typedef struct attn_tuning attn_tuning;

/* Reads the object "tuning" of a JSON file, or of the object "analysis" in it (docs/analysis.md).
 * ATTN_INVALID with the file and what is wrong with it. Free it after the last plan is made with it. */
ATTN_API attn_status attn_tuning_load(const char *path, attn_tuning **tuning, attn_error *error);
ATTN_API void attn_tuning_free(attn_tuning *tuning);

/* The fingerprint of the machine that was measured, as `attnscope info` shows it; "" without one. */
ATTN_API const char *attn_tuning_machine(const attn_tuning *tuning);

/* What the table says of a problem at level `isa` (a name, not "auto") with so many threads (0: one):
 * ATTN_NAIVE or ATTN_FLASH, or ATTN_AUTO where it says nothing. */
ATTN_API attn_algorithm attn_tuning_choose(const attn_tuning *tuning, const attn_problem *problem,
                                           const char *isa, int threads);

typedef struct attn_options {
    const char *isa; /* a level's name; NULL or "auto" for attn_isa_auto */
    attn_algorithm algorithm;
    const attn_tuning *tuning; /* asked when algorithm is ATTN_AUTO; NULL: flash wherever it can */
    int threads; /* that the table is asked about, 0 to ATTN_MAX_THREADS (0: one). Executing the plan with
                  * another number is no error: the choice was then made for this one. */
} attn_options;

/* What a plan will do, over all batches and heads. Lengths, q_offsets, segments, a mask or a bias come at
 * execution: it counts as if each were absent, and each tile of a stride as visited past 2^26 keys. */
typedef struct attn_info {
    const char *isa;          /* the level that runs, never "auto" */
    attn_algorithm algorithm; /* the algorithm that runs, never ATTN_AUTO */
    int64_t query_tile;       /* rows of a tile */
    int64_t key_tile;         /* keys of a tile */
    int64_t tiles_full;       /* every pair attended: visited without a mask */
    int64_t tiles_partial;    /* some pairs attended: visited with a mask */
    int64_t tiles_absent;     /* none attended: costs nothing */
    int64_t pairs_useful;     /* attended by the pattern */
    int64_t pairs_executed;   /* in visited tiles; with topk, those that it chooses among */
    int64_t pairs_dense;      /* B * H * Nq * Nk */
    float scale;              /* of the scores: the problem's, or 1/sqrt(D) */
    int64_t key_splits;       /* splits that few queries' many keys are cut into; 1: not cut */
    /* For one call of attn_execute_part; a multiple of 64. With key_splits above 1 most may be room for
     * partial results: several threads use that of the first workspace alone, yet each workspace has it. */
    int64_t workspace_bytes;
} attn_info;

/* Checks the problem and makes a plan; `options` may be NULL. On error `*plan` is NULL. */
ATTN_API attn_status attn_plan_create(const attn_problem *problem, const attn_options *options,
                                      attn_plan **plan, attn_error *error);

ATTN_API attn_info attn_plan_info(const attn_plan *plan);
ATTN_API void attn_plan_destroy(attn_plan *plan); /* NULL is allowed */

/* ---- Execution --------------------------------------------------------- */

/* A stored tensor of 4 dimensions (batch, head, row, dimension). The innermost stride is 1; the others are
 * any number of elements, zero to broadcast. Data is aligned to its element, which is checked. */
typedef struct attn_tensor {
    const void *data;
    int64_t batch_stride, head_stride, row_stride;
} attn_tensor;

/* What an execution really did, counted tile by tile; lengths, offsets, segments, mask and bias have their
 * say. Without these it equals the plan's counts, up to 2^26 keys with a stride. */
typedef struct attn_counts {
    int64_t tiles_full, tiles_partial;
    int64_t pairs_useful;   /* attended */
    int64_t pairs_executed; /* visited; with topk, those that it chooses among */
} attn_counts;

typedef struct attn_tensors {
    attn_tensor q; /* B, H,   Nq, D  in the problem's dtype */
    attn_tensor k; /* B, Hkv, Nk, D */
    attn_tensor v; /* B, Hkv, Nk, Dv */

    /* B, H, Nq, Dv, innermost stride 1. Rows must not overlap, which is checked: in the order of their sizes,
     * each stride (of more than one place, either sign) is at least the number of elements that lie within.
     * Nothing that is written may overlap with what is read: that is not checked. */
    float *out;
    int64_t out_batch_stride, out_head_stride, out_row_stride;

    float *lse; /* B, H, Nq contiguous: log-sum-exp of each row's final scores; NULL if not wanted */

    /* Each must be there exactly when the problem has it, and NULL otherwise. */
    const int64_t *kv_lens;   /* B, each 0..Nk */
    const int64_t *q_offsets; /* B */
    const int64_t *segments;  /* B, Nk: the segment id of each position; a query has its position's */
    const uint8_t *mask;      /* strides below, zero to broadcast */
    int64_t mask_strides[4];  /* batch, head, query, key */
    const float *bias;
    int64_t bias_strides[4];
    const float *alibi_slopes; /* H; see attn_alibi_slopes */
    const float *sink_logits;  /* H; -inf for none */

    attn_counts *counts; /* NULL, or added to (atomically: parts may share it) */
} attn_tensors;

/* For tensors without gaps in (batch, head, row, dimension) order: sets data and strides of q, k, v
 * and out for the problem's shapes, everything else to zero. */
ATTN_API void attn_tensors_init(attn_tensors *tensors, const attn_problem *problem, const void *q,
                                const void *k, const void *v, float *out);

/* ALiBi's slopes by its authors' rule (Press, Smith, Lewis 2022): with n the largest power of two <= heads,
 * 2^(-8 (h + 1) / n) for the heads h = 0..n-1, and 2^(-4 (2 (h - n) + 1) / n) for those from n on. */
ATTN_API void attn_alibi_slopes(int64_t heads, float *slopes);

/* Computes part `part` of `parts` (0 <= part < parts): a share of the rows, cut by cost; all parts together
 * write each row once, the same for any `parts`. The primitive for a caller's own thread pool: it allocates
 * nothing, takes no lock and starts no thread. `workspace` holds info.workspace_bytes, aligned to 64 bytes,
 * one per concurrent call. Rows are whole: attn_execute and tasks (below) share out few queries' keys. */
ATTN_API attn_status attn_execute_part(const attn_plan *plan, const attn_tensors *tensors, void *workspace,
                                       int part, int parts, attn_error *error);

/* What attn_execute does, for a caller's own thread pool: an execution is a row of steps, a step a number of
 * tasks that may run side by side. A step begins when all tasks of the one before have ended. Where the keys
 * are split (info.key_splits), the splits are tasks of one step and merging them those of the next; elsewhere
 * there is one step, whose tasks are parts.
 *
 *     for (int64_t step = 0, tasks; (tasks = attn_step_tasks(plan, threads, step)) > 0; step++)
 *         // on the pool's threads t = 0..threads-1, in any order:
 *         for (int64_t task = t; task < tasks; task += threads)
 *             attn_execute_task(plan, &tensors, workspace, threads, t, step, task, NULL);
 *
 * `threads` (1..ATTN_MAX_THREADS) is the same throughout, `thread` tells which of them calls and has one call
 * at a time. `workspace` holds threads * info.workspace_bytes, aligned to 64 bytes, and is kept until the
 * last step has ended. Like a part, a task allocates nothing, locks nothing and starts no thread. */
ATTN_API int64_t attn_step_tasks(const attn_plan *plan, int threads, int64_t step); /* 0: past the last */
ATTN_API attn_status attn_execute_task(const attn_plan *plan, const attn_tensors *tensors, void *workspace,
                                       int threads, int thread, int64_t step, int64_t task,
                                       attn_error *error);

#define ATTN_MAX_THREADS 1024 /* the most that attn_execute and attn_execute_task take */

/* All parts on `threads` (1..ATTN_MAX_THREADS) OpenMP threads (one after the other in a build without
 * OpenMP). `workspace` holds threads * info.workspace_bytes, aligned to 64 bytes; or it is NULL, and as much
 * as the parts need is allocated for the call: for ATTN_NAIVE the scores of each part's rows alone.
 *
 * GNU's libgomp ends the process where a limit (RLIMIT_NPROC, RLIMIT_AS, pids.max) forbids it a thread, and a
 * child forked after a call with several threads may wait in another one without end. Against both: 1 thread,
 * or attn_execute_task on threads of your own. */
ATTN_API attn_status attn_execute(const attn_plan *plan, const attn_tensors *tensors, void *workspace,
                                  int threads, attn_error *error);

/* ---- Single operations --------------------------------------------------
 * Through the same dispatch; `isa` as in attn_options. Matrices are row-major with the given row strides.
 * Floats are aligned to 4 bytes, which is checked. */

/* C[m][n] = A[m][k] * B[n][k]^T (scores). Each dot product is a sum of chains of at most 256 fused
 * multiply-adds (multiply, then add, at level scalar): error at most k * 2^-23 * sum |a||b|. */
ATTN_API attn_status attn_matmul_nt_f32(const char *isa, int64_t m, int64_t n, int64_t k, const float *a,
                                        int64_t a_stride, const float *b, int64_t b_stride, float *c,
                                        int64_t c_stride, attn_error *error);

/* C[m][n] = A[m][k] * B[k][n] (values). Accuracy as above. */
ATTN_API attn_status attn_matmul_nn_f32(const char *isa, int64_t m, int64_t n, int64_t k, const float *a,
                                        int64_t a_stride, const float *b, int64_t b_stride, float *c,
                                        int64_t c_stride, attn_error *error);

/* x[i] *= factor. */
ATTN_API attn_status attn_scale_f32(const char *isa, int64_t n, float factor, float *x, attn_error *error);

/* x[i] = -inf where mask[i] is zero. */
ATTN_API attn_status attn_mask_f32(const char *isa, int64_t n, const uint8_t *mask, float *x,
                                   attn_error *error);

/* Softmax of each of `rows` rows of n, in place. A row of only -inf becomes zeros. Relative error of
 * an element at most (0.5*|x - max| + 6 + n/(2*A)) * 2^-23, A >= the level's lanes; one whose exponential or
 * whose quotient would be less than 2^-126 is 0. */
ATTN_API attn_status attn_softmax_f32(const char *isa, int64_t rows, int64_t n, float *x, int64_t stride,
                                      attn_error *error);

/* y[i] = e^x[i], within 2 ulp on [-87.33, 88.72], +0 below, +inf above, NaN stays NaN; x == y allowed. */
ATTN_API attn_status attn_exp_f32(const char *isa, int64_t n, const float *x, float *y, attn_error *error);

/* Conversions, round to nearest even; NaN, Inf and subnormals are kept. */
ATTN_API uint16_t attn_f32_to_f16(float x);
ATTN_API float attn_f16_to_f32(uint16_t x);
ATTN_API uint16_t attn_f32_to_bf16(float x);
ATTN_API float attn_bf16_to_f32(uint16_t x);

#ifdef __cplusplus
}
#endif

#endif
