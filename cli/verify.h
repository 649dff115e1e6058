/* The self-test behind `attnscope verify`: checks run against the double-precision reference, each
 * on every chosen ISA level, and gathered as rows of a table. */
#ifndef ATTN_CLI_VERIFY_H
#define ATTN_CLI_VERIFY_H

#include "attnscope.h"

enum { VERIFY_LEVELS = 8, VERIFY_ROWS = 96, VERIFY_MESSAGES = 20, VERIFY_TEXT = 512 };

/* One check (and algorithm), over all of its cases. */
typedef struct verify_row {
    char name[32];
    const char *algorithm;      /* "-" for single operations */
    int cases;                  /* results compared, all levels */
    double used[VERIFY_LEVELS]; /* largest |error| / tolerance; -1 where nothing ran */
    double worst;               /* the largest of them */
    char worst_case[96];
    int failed, refused;
} verify_row;

enum { VERIFY_THREADS = 8 }; /* the most that a case executes on */

typedef struct verify_run {
    const char *levels[VERIFY_LEVELS];
    int level_count;
    uint64_t seed;
    bool quick;
    bool inject; /* spoil one element of every result, to show that the checks can fail */
    bool progress;
    verify_row rows[VERIFY_ROWS];
    int row_count;
    char messages[VERIFY_MESSAGES][VERIFY_TEXT]; /* the first failures and refusals */
    int message_count;
    bool no_memory;
} verify_run;

/* The row of this name and algorithm, new if there is none. */
verify_row *verify_row_of(verify_run *run, const char *name, const char *algorithm);

/* Compares `count` results of level `level` (an index) with the reference and books them; `actual`
 * may be changed. `what` describes the case. */
void verify_compare(verify_run *run, verify_row *row, int level, const char *what, float *actual,
                    const double *expected, const double *tolerance, int64_t count);
/* Books a case that failed without numbers, or was refused by name. */
void verify_fail(verify_run *run, verify_row *row, int level, const char *what, const char *reason);
void verify_refuse(verify_run *run, verify_row *row, int level, const char *what, const char *reason);

/* Shows what is being done, on a terminal. */
void verify_progress(verify_run *run, const char *what);

/* Memory of `count` elements; sets run->no_memory and returns NULL when there is none. */
void *verify_alloc(verify_run *run, int64_t count, size_t size);

/* Random numbers: a 64-bit state, seeded alike on every level. */
typedef struct verify_random {
    uint64_t state;
} verify_random;
verify_random verify_seed(const verify_run *run, uint64_t stream);
uint64_t verify_bits(verify_random *random);
double verify_uniform(verify_random *random); /* in [0, 1) */
float verify_normal(verify_random *random);

/* The checks: verify_kernels.c, verify_convert.c, verify_attention.c. */
void verify_kernels(verify_run *run);
void verify_conversions(verify_run *run);
void verify_attention(verify_run *run);

/* ---- The cases of verify_attention, in verify_cases.c ---- */

typedef enum verify_data {
    DATA_NORMAL,
    DATA_PEAKED, /* a wide spread of scores */
    DATA_RISING, /* the maximum moves at every key */
    DATA_EQUAL,  /* all scores the same */
    DATA_TINY,   /* products below the normal range */
    DATA_SPACED, /* no two scores of a row near each other, as topk needs */
    DATA_POISON, /* NaN and Inf in keys and values past kv_lens */
    DATA_NAN,    /* NaN in one query and in one value */
} verify_data;

typedef struct verify_case {
    const char *group;   /* the row of the table */
    const char *pattern; /* without blocks */
    int64_t batch, heads, kv_heads, queries, keys, head_dim, value_dim;
    uint32_t inputs; /* ATTN_HAS_... */
    attn_dtype dtype;
    float scale, softcap; /* scale 0: the default; VERIFY_ZERO_SCALE: zero */
    verify_data data;
    int64_t block_size; /* with a block map, one per head if heads > 1 */
    bool interleaved;   /* heads inside rows, as in layout bnhd */
    int threads;        /* 0: one; above 1: also compared with one thread, bit by bit */
    uint64_t stream;    /* of random numbers */
} verify_case;

#define VERIFY_ZERO_SCALE (-1e30f)

/* Calls `each` for every case, or, when quick, for a share of each group. */
void verify_each_case(bool quick, void (*each)(verify_run *run, const verify_case *c), verify_run *run);

#endif
