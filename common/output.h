/* Output files that are whole or not there: written to a temporary file beside the target, checked
 * down to the disk, then renamed. */
#ifndef ATTN_COMMON_OUTPUT_H
#define ATTN_COMMON_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cli_output {
    const char *path;      /* as the user gave it; NULL when not wanted: every call is then a no-op */
    char target[PATH_MAX]; /* with symbolic links resolved */
    char temp[PATH_MAX];
    int mode; /* of the file that is there, else -1 */
    FILE *file;
} cli_output;

/* Resolves a path that will be written and checks early what can be: that its directory is there
 * and may be written, and that nothing but a regular file would be replaced, none that this process has open
 * to write, as standard output. Zero-initialised
 * `output` with path NULL for "not wanted". Prints an error and returns false. */
bool cli_output_prepare(cli_output *output, const char *option, const char *path);

/* Prints an error and returns false if writing `output` would replace the file `input` (NULL: none). */
bool cli_output_spares(const cli_output *output, const char *input);

/* Prints an error and returns false if both would write the same file. */
bool cli_output_differs(const cli_output *output, const cli_output *other);

/* Each prints an error and returns false; after any failure call cli_output_discard. */
bool cli_output_open(cli_output *output);
bool cli_output_write(cli_output *output, const void *data, size_t bytes);
/* Flushes, syncs and closes; the target is still untouched. */
bool cli_output_close(cli_output *output);
/* Renames to the target. */
bool cli_output_commit(cli_output *output);

/* Removes the temporary file if there is one. Signals that end the program do so too. */
void cli_output_discard(cli_output *output);

/* Removes every temporary file; from a signal handler too. For a program that ends at once. */
void cli_output_abandon(void);

#ifdef __cplusplus
}
#endif

#endif
