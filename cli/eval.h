/* The parts of `attnscope eval`: what was asked for, what was read, what is written. */
#ifndef ATTN_CLI_EVAL_H
#define ATTN_CLI_EVAL_H

#include "common/cli.h"
#include "cli/inputs.h"
#include "common/npy.h"
#include "common/output.h"

typedef struct eval_options {
    const char *q, *k, *v; /* paths */
    const char *inputs[INPUT_COUNT];
    const char *out, *lse, *mask_out, *weights;
    const char *pattern, *isa, *tuning;
    attn_algorithm algorithm;
    attn_dtype dtype;
    float scale;   /* NaN: the default */
    float softcap; /* 0: none */
    bool alibi, bnhd, explain;
    int threads;
} eval_options;

typedef struct eval_data {
    int rank;             /* of Q, K and V: 2..4 */
    int64_t shape[4];     /* of Q */
    const char *types[3]; /* of the elements in the files of Q, K and V */
    attn_problem problem;
    attn_tensors tensors; /* out and lse included */
    attn_counts counts;   /* what the execution visits */
    int threads_used;     /* those of options.threads that had work */
    bool tuned;           /* the algorithm is what the tuning table says */
    cli_pattern pattern;
    /* Owned memory behind the tensors. */
    void *q, *k, *v;
    cli_inputs inputs;
    float *slopes;
    float *weights; /* B, H, Nq, Nk, C order; NULL unless asked for */
} eval_data;

/* Reads and checks every input, and makes room for the results. Prints an error and returns false;
 * eval_free in any case. */
bool eval_load(const eval_options *options, eval_data *data);
void eval_free(eval_data *data);

/* Prints an error and returns false; warns where another machine was measured. */

/* --weights: the softmax weights of every pair, into data->weights, by the algorithm and the level that ran
 * (`info`). eval_weights_fit refuses what would be more than EVAL_WEIGHTS_MOST elements, or take more than
 * EVAL_WEIGHTS_WORK steps, of which each element takes Nk. */
#define EVAL_WEIGHTS_MOST (INT64_C(1) << 26)
#define EVAL_WEIGHTS_WORK (INT64_C(1) << 39)
bool eval_weights_fit(const attn_problem *problem);
bool eval_weights(const eval_options *options, const attn_info *info, eval_data *data);

enum { EVAL_OUT, EVAL_LSE, EVAL_MASK_OUT, EVAL_WEIGHTS, EVAL_OUTPUT_COUNT };
typedef struct eval_outputs {
    cli_output files[EVAL_OUTPUT_COUNT];
} eval_outputs;

/* Resolves the output paths and refuses those that cannot be written, or that name an input or each
 * other. */
bool eval_prepare(const eval_options *options, eval_outputs *outputs);
/* Refuses an output that would replace `input` (NULL: none), which is known only once a pattern is parsed. */
bool eval_spares(const eval_outputs *outputs, const char *input);
/* Writes the temporary files; with --explain prints the plan's `info`, what was visited, and the options;
 * then puts all files in their places. On failure none is left. */
bool eval_write(const eval_options *options, const eval_data *data, const attn_info *info,
                eval_outputs *outputs);

#endif
