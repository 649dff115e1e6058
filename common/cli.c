#include "common/cli.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *current_command = "";

void cli_begin(const char *name) {
    current_command = name ? name : "";
    signal(SIGXFSZ, SIG_IGN);
}

static char printable(char c) {
    return (unsigned char)c < 0x20 || c == 0x7f ? '?' : c;
}

int cli_error(const char *format, ...) {
    char text[2 * PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++)
        *c = printable(*c);
    fflush(stdout);
    fprintf(stderr, "attnscope%s%s: %s\n", *current_command ? " " : "", current_command, text);
    return CLI_USAGE;
}

bool cli_flush(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    cli_error("cannot write standard output: %s", errno ? strerror(errno) : "an earlier write failed");
    return false;
}

void cli_print_value(const char *key, const char *value) {
    printf("%s: ", key);
    for (const char *c = value; *c; c++)
        putchar(printable(*c));
    putchar('\n');
}

static void option_error(const char *argument, const char *problem) {
    size_t length = strcspn(argument, "=");
    cli_error("%s %.*s; see attnscope %s --help", problem, (int)length, argument, current_command);
}

int cli_getopt(int argc, char **argv, const struct option *options) {
    static uint64_t given; /* bit k: options[k], with a value */
    opterr = 0;
    int index = -1;
    int result = getopt_long(argc, argv, ":h", options, &index);
    if (result == -1) {
        if (optind < argc) {
            cli_error("unexpected argument '%s'; see attnscope %s --help", argv[optind], current_command);
            return '?';
        }
        return -1;
    }
    if (result == '?' || result == ':') {
        const char *argument = argv[optind - 1];
        if (optopt > 0 && argument[0] == '-' && argument[1] != '-') {
            char name[] = {'-', (char)optopt, 0};
            option_error(name, "unknown option");
        } else if (result == ':') {
            option_error(argument, "no value given for");
        } else if (optopt != 0) {
            option_error(argument, "no value is taken by");
        } else {
            option_error(argument, "unknown option");
        }
        return '?';
    }
    if (index < 0)
        return result;
    /* getopt takes any unambiguous beginning of a name; a script that relies on one breaks when
     * an option is added, so only whole names count. */
    bool separate = optarg && optarg == argv[optind - 1];
    const char *argument = argv[optind - (separate ? 2 : 1)];
    size_t length = strcspn(argument, "=");
    if (length != strlen(options[index].name) + 2) {
        option_error(argument, "unknown option");
        return '?';
    }
    const uint64_t bit = UINT64_C(1) << index;
    if (optarg && (given & bit) && !(result & CLI_LIST)) {
        option_error(argument, "more than one value given for");
        return '?';
    }
    given |= bit;
    return result & ~CLI_LIST;
}

bool cli_parse_int(const char *text, int64_t min, int64_t max, int64_t *value) {
    const char *digits = text + (*text == '-');
    if (!*digits || digits[strspn(digits, "0123456789")])
        return false;
    errno = 0;
    long long parsed = strtoll(text, NULL, 10);
    if (errno || parsed < min || parsed > max)
        return false;
    *value = parsed;
    return true;
}

bool cli_parse_float(const char *text, double *value) {
    /* strtod alone would take leading spaces, hexadecimal, "inf" and "nan". */
    if (!*text || *text == '+' || text[strspn(text, "0123456789+-.eE")])
        return false;
    char *end;
    double parsed = strtod(text, &end);
    if (*end || !isfinite(parsed))
        return false;
    *value = parsed;
    return true;
}

bool cli_int_option(const char *option, const char *text, int64_t min, int64_t max, int64_t *value) {
    if (cli_parse_int(text, min, max, value))
        return true;
    if (max == INT64_MAX)
        cli_error("--%s '%s': expected an integer of at least %lld", option, text, (long long)min);
    else
        cli_error("--%s '%s': expected an integer from %lld to %lld", option, text, (long long)min,
                  (long long)max);
    return false;
}

bool cli_float_option(const char *option, const char *text, float *value) {
    double parsed;
    /* A number that is not 0 does not become 0. */
    if (cli_parse_float(text, &parsed) && isfinite((float)parsed) && (parsed == 0) == ((float)parsed == 0)) {
        *value = (float)parsed;
        return true;
    }
    cli_error("--%s '%s': expected a finite decimal number within float32", option, text);
    return false;
}

bool cli_algorithm_option(const char *text, attn_algorithm *algorithm) {
    for (attn_algorithm a = ATTN_AUTO; a <= ATTN_FLASH; a++) {
        if (strcmp(text, attn_algorithm_name(a)) == 0) {
            *algorithm = a;
            return true;
        }
    }
    cli_error("--algorithm '%s': expected auto, naive or flash", text);
    return false;
}

bool cli_dtype_option(const char *text, attn_dtype *dtype) {
    for (attn_dtype d = ATTN_F32; d <= ATTN_BF16; d++) {
        if (strcmp(text, attn_dtype_name(d)) == 0) {
            *dtype = d;
            return true;
        }
    }
    cli_error("--dtype '%s': expected f32, f16 or bf16", text);
    return false;
}

bool cli_isa_option(const char *text) {
    attn_error error;
    if (strcmp(text, "auto") == 0 || attn_isa_check(text, &error) == ATTN_OK)
        return true;
    cli_error("%s", error.text); /* names the level */
    return false;
}

bool cli_tuning_option(const char *path, const char *fingerprint, attn_tuning **tuning) {
    attn_error error;
    if (attn_tuning_load(path, tuning, &error) != ATTN_OK) {
        cli_error("--tuning: %s", error.text);
        return false;
    }
    const char *measured = attn_tuning_machine(*tuning);
    if (*measured && strcmp(measured, fingerprint) != 0)
        cli_error("warning: --tuning %s was measured on another machine or build (%s, this is %s)", path,
                  measured, fingerprint);
    return true;
}

const char *cli_float_text(float value, char text[CLI_FLOAT_TEXT]) {
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, CLI_FLOAT_TEXT, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    return text;
}

bool cli_regular_file(const char *what, const char *path) {
    struct stat status;
    if (stat(path, &status) != 0 || S_ISREG(status.st_mode))
        return true;
    cli_error("%s %s: not a regular file", what, path);
    return false;
}

void *cli_alloc(const char *what, int64_t count, size_t size) {
    void *memory = calloc(count > 0 ? (size_t)count : 1, size);
    if (!memory)
        cli_error("not enough memory for %s (%.3g bytes)", what, (double)count * (double)size);
    return memory;
}
