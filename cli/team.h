/* Threads that eval and verify compute on. */
#ifndef ATTN_CLI_TEAM_H
#define ATTN_CLI_TEAM_H

#include "attention/plan.h"

/* An attn_team of threads made for one step, as many as the system lets be made. OpenMP's would not do: where
 * it cannot make a thread it ends the process, with the exit code of a failed verification. */
void cli_team(int threads, attn_team_work *work, void *context);
/* The fewest threads that a step so far had where it asked for more; 0: each had all. */
int cli_team_had(void);

#endif
