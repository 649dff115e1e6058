/* The tensors that may come beside Q, K and V, as .npy files; shared by `eval` and `show`. */
#ifndef ATTN_CLI_INPUTS_H
#define ATTN_CLI_INPUTS_H

#include "attnscope.h"

enum {
    INPUT_BIAS,
    INPUT_MASK,
    INPUT_KV_LENS,
    INPUT_Q_OFFSETS,
    INPUT_SEGMENTS,
    INPUT_SINK_LOGIT,
    INPUT_COUNT
};
extern const char *const cli_input_names[INPUT_COUNT]; /* option names, "bias" ... */

typedef struct cli_inputs {
    void *memory[INPUT_COUNT]; /* owned; behind the tensors */
} cli_inputs;

/* Reads input `which` for the shapes of `problem`, sets its bit in problem->inputs and its part of `tensors`.
 * Prints an error and returns false if the file, its type, shape or values are wrong; cli_inputs_free in any
 * case. */
bool cli_input_load(int which, const char *path, attn_problem *problem, attn_tensors *tensors,
                    cli_inputs *inputs);
void cli_inputs_free(cli_inputs *inputs);

/* Whether which pairs are attended differs from head to head. */
bool cli_differs_by_head(const attn_problem *problem, const attn_tensors *tensors);

#endif
