/* Subcommands that are programs of their own. */
#ifndef ATTN_CLI_LOOKUP_H
#define ATTN_CLI_LOOKUP_H

#include <stdbool.h>

/* Can `name` be the last part of a program's name: letters, digits, '-' and '_' only? */
bool cli_valid_name(const char *name);

/* Becomes the program attnscope-NAME (or attnscope-NAME.py), found, in this order,
 *   1. beside this executable,
 *   2. when this executable is the one in its build directory: in the source tree's scripts/, and
 *      the build directory's bench/,
 *   3. on PATH.
 * argv[0] is NAME; the rest is passed on, and the variable ATTNSCOPE names this executable. Python
 * scripts of the source tree run in its .venv where the set-up has made one. Returns only when
 * there is no such program; one that is there and cannot be started is an error (exit 2). */
void cli_run_program(const char *name, int argc, char **argv);

/* Is there such a program? */
bool cli_has_program(const char *name);

#endif
