/* What all programs of `attnscope` share: exit codes, one-line errors, strict parsing of
 * options and numbers, patterns as the command line writes them. */
#ifndef ATTN_COMMON_CLI_H
#define ATTN_COMMON_CLI_H

#include <getopt.h>
#include "attnscope.h"

/* Exit codes, the same for every subcommand. */
enum {
    CLI_FINE = 0,
    CLI_NO = 1,         /* the answer is no: a failed verification */
    CLI_USAGE = 2,      /* usage or input error */
    CLI_UNJUDGED = 3,   /* nothing could be judged */
    CLI_UNMEASURED = 4, /* something that should have been measured was not */
};

/* What every program of ours begins with: `name` is the subcommand that runs, for messages (NULL or "": the
 * front door itself), and past a limit on file sizes writing fails like on a full disk, and does not kill. A
 * program that becomes another one does not call it before: that would inherit the ignored signal. */
void cli_begin(const char *name);

/* Prints "attnscope COMMAND: message" as one line on standard error (control characters in quoted
 * values become '?'), and returns CLI_USAGE. */
int cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Has all that was printed on standard output arrived? A full disk or a closed pipe behind it must not pass
 * for success: prints an error and returns false. */
bool cli_flush(void);

/* Prints "key: value" as one line on standard output, whatever a file is called: control characters become
 * '?'. */
void cli_print_value(const char *key, const char *value);

/* getopt_long for subcommands that take options only: returns the option's `val` (optarg holds its
 * value), -1 at the end, or '?' after printing an error that names what was wrong: an unknown or
 * abbreviated option, a value that is missing or not taken, a second value, an argument that is not an
 * option. An option whose `val` has the bit CLI_LIST takes several; the bit is not returned. "-h" is
 * "--help": give that option the val 'h'. At most 64 options. */
#define CLI_LIST (1 << 30)
int cli_getopt(int argc, char **argv, const struct option *options);

/* Strict numbers: the whole text, decimal, no spaces, no '+'. False when the text is not such a
 * number or is outside min..max; nothing is printed. */
bool cli_parse_int(const char *text, int64_t min, int64_t max, int64_t *value);
/* Also fractions and exponents; "inf", "nan" and overflow are refused. */
bool cli_parse_float(const char *text, double *value);

/* The same for an option's value, printing an error on failure. */
bool cli_int_option(const char *option, const char *text, int64_t min, int64_t max, int64_t *value);
/* Any finite float32. */
bool cli_float_option(const char *option, const char *text, float *value);
bool cli_algorithm_option(const char *text, attn_algorithm *algorithm);
bool cli_dtype_option(const char *text, attn_dtype *dtype);
/* "auto" or a level that this machine can run. */
bool cli_isa_option(const char *text);
/* A table for --tuning; a warning where it is of another machine than the one with this fingerprint. */
bool cli_tuning_option(const char *path, const char *fingerprint, attn_tuning **tuning);

/* The shortest decimal text that reads back as the same float32, in `text`: for ids, which must tell any two
 * values apart. Returns `text`. */
#define CLI_FLOAT_TEXT 24
const char *cli_float_text(float value, char text[CLI_FLOAT_TEXT]);

/* a / b, rounded up; a >= 0, b > 0. */
static inline int64_t cli_ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/* False after an error if there is something else than a regular file: opening a pipe would wait for whoever
 * writes into it. What is not there is for its reader to tell. */
bool cli_regular_file(const char *what, const char *path);
/* Memory for `count` elements of `size` bytes, zeroed, never NULL for a count of 0. Prints an error
 * and returns NULL when there is none. `what` names it. */
void *cli_alloc(const char *what, int64_t count, size_t size);

/* A pattern as the command line takes it: attn_pattern_parse, and `blocks=FILE:B`, whose map is
 * read and checked against the problem's shape. */
typedef struct cli_pattern {
    attn_pattern pattern;
    uint8_t *block_map; /* owned; pattern.block_map points to it */
    char *block_file;   /* owned; NULL without a block map */
} cli_pattern;

/* Prints an error and returns false if the text or the map is wrong. */
bool cli_pattern_parse(const char *text, int64_t heads, int64_t queries, int64_t keys, cli_pattern *pattern);
/* The file of its block map, to be freed, or NULL where it has none. Prints an error and returns false if
 * that term is wrong. */
bool cli_pattern_file(const char *text, char **file);
/* Canonical text, with the block map's file named; memory to free, NULL when there is none left. */
char *cli_pattern_format(const cli_pattern *pattern);
/* A line about what a pattern's counts do not say by themselves; none where they do. */
void cli_pattern_note(const cli_pattern *pattern, int64_t useful, int64_t executed, int64_t dense);
void cli_pattern_free(cli_pattern *pattern);

#endif
