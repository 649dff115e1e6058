/* The front door: which subcommand runs. */
#include "common/cli.h"
#include "cli/commands.h"
#include "cli/lookup.h"

#include <stdio.h>
#include <string.h>

typedef struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv); /* NULL: the program attnscope-NAME */
    const char *summary;
    const char *needs; /* of a program: why a build may lack it */
} subcommand;

static const subcommand subcommands[] = {
    {"info", cmd_info, "this CPU: ISA levels and why others are missing, caches, cores, limits", NULL},
    {"verify", cmd_verify, "self-test: every kernel, algorithm and ISA level against double precision", NULL},
    {"eval", cmd_eval, "attention on your own tensors: .npy in, .npy out", NULL},
    {"show", cmd_show, "draw a pattern as text or SVG: pairs, and full, partial and absent tiles", NULL},
    {"bench", NULL, "measure the sweep, write results.json", "it needs Google Benchmark"},
    {"analyze", NULL, "exponents, crossovers and a tuning table into results.json", "it needs Python 3.11"},
    {"export", NULL, "results in other tools' formats: CSV, OpenMetrics, Bencher, ...",
     "it needs Python 3.11"},
    {"merge", NULL, "join result files, one for each machine", "it needs Python 3.11"},
    {"report", NULL, "result files -> one HTML page, and each chart as SVG and PNG", "it needs Python 3.11"},
};

static const int subcommand_count = sizeof subcommands / sizeof subcommands[0];

/* A build without Google Benchmark has no bench; what is not there is neither listed nor accepted. */
static bool is_here(const subcommand *s) {
    return s->run || cli_has_program(s->name);
}

static const char *accepted(void) {
    static char text[256];
    if (!*text) {
        for (int i = 0; i < subcommand_count; i++) {
            if (is_here(&subcommands[i]))
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? ", " : "",
                         subcommands[i].name);
        }
    }
    return text;
}

static int help(void) {
    cli_begin(NULL);
    puts("attnscope: what attention costs on a CPU\n"
         "\n"
         "Usage: attnscope SUBCOMMAND [OPTION]...\n"
         "       attnscope SUBCOMMAND --help\n"
         "       attnscope --version\n");
    for (int i = 0; i < subcommand_count; i++) {
        if (is_here(&subcommands[i]))
            printf("  %-8s  %s\n", subcommands[i].name, subcommands[i].summary);
    }
    puts("\n"
         "Any other SUBCOMMAND is looked up as the program attnscope-SUBCOMMAND: beside this one,\n"
         "in the source tree of a build that is not installed, then on PATH.\n"
         "\n"
         "Examples:\n"
         "  attnscope info                                      what can run here\n"
         "  attnscope verify --quick                            is it right here\n"
         "  attnscope show --n 16 --pattern causal,window=4     what does the pattern attend\n"
         "  attnscope eval --q Q.npy --k K.npy --v V.npy --out O.npy --pattern causal\n"
         "\n"
         "Environment:\n"
         "  ATTNSCOPE_ISA   the ISA level that 'auto' means, e.g. scalar or avx2\n"
         "\n"
         "Exit codes: 0 fine; 1 the answer is no; 2 usage or input error; 3 nothing could be judged;\n"
         "4 something that should have been measured was not.");
    return CLI_FINE;
}

static int finish(int code) {
    if (code == CLI_USAGE) /* an error has been printed, one is enough */
        return code;
    return cli_flush() || code != CLI_FINE ? code : CLI_USAGE;
}

static int run(int argc, char **argv) {
    const char *name = argv[0];
    for (int i = 0; i < subcommand_count; i++) {
        if (strcmp(name, subcommands[i].name) != 0)
            continue;
        if (!subcommands[i].run) {
            cli_run_program(name, argc, argv);
            return cli_error("%s is not part of this build (%s): no program attnscope-%s beside attnscope, "
                             "in its source tree, or on PATH",
                             name, subcommands[i].needs, name);
        }
        cli_begin(name);
        return subcommands[i].run(argc, argv);
    }
    if (cli_valid_name(name))
        cli_run_program(name, argc, argv);
    return cli_error("unknown subcommand '%s'; accepted: %s", name, accepted());
}

int main(int argc, char **argv) {
    if (argc < 2)
        return cli_error("no subcommand given; accepted: %s", accepted());
    const char *first = argv[1];
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)
        return finish(help());
    if (strcmp(first, "--version") == 0) {
        cli_begin(NULL);
        printf("attnscope %s\n", attn_version());
        return finish(CLI_FINE);
    }
    if (strcmp(first, "help") == 0) {
        if (argc == 2)
            return finish(help());
        if (argc > 3)
            return cli_error("unexpected argument '%s'; usage: attnscope help [SUBCOMMAND]", argv[3]);
        char option[] = "--help";
        char *arguments[] = {argv[2], option, NULL};
        return finish(run(2, arguments));
    }
    if (first[0] == '-')
        return cli_error("unknown option %s; accepted: --help, --version, or a subcommand: %s", first,
                         accepted());
    return finish(run(argc - 1, argv + 1));
}
