/* `attnscope verify`: the self-test for a user's own machine. */
#include "cli/verify.h"
#include "cli/commands.h"
#include "cli/team.h"
#include "common/cli.h"
#include "reference/reference.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Booking ---- */

verify_row *verify_row_of(verify_run *run, const char *name, const char *algorithm) {
    for (int i = 0; i < run->row_count; i++) {
        if (strcmp(run->rows[i].name, name) == 0 && strcmp(run->rows[i].algorithm, algorithm) == 0)
            return &run->rows[i];
    }
    if (run->row_count == VERIFY_ROWS)
        abort(); /* the list of checks is fixed; VERIFY_ROWS holds it */
    verify_row *row = &run->rows[run->row_count++];
    *row = (verify_row){.algorithm = algorithm, .worst = -1};
    snprintf(row->name, sizeof row->name, "%s", name);
    for (int level = 0; level < VERIFY_LEVELS; level++)
        row->used[level] = -1;
    return row;
}

static void message(verify_run *run, const verify_row *row, int level, const char *what, const char *verdict,
                    const char *reason) {
    char text[VERIFY_TEXT];
    const char *algorithm = strcmp(row->algorithm, "-") == 0 ? "" : row->algorithm;
    int length = snprintf(text, sizeof text, "%s: %s, %s%s%s: %s: %s", verdict, row->name, run->levels[level],
                          *algorithm ? ", " : "", algorithm, what, reason);
    (void)length; /* a longer text is cut */
    if (run->message_count < VERIFY_MESSAGES)
        memcpy(run->messages[run->message_count], text, sizeof text);
    run->message_count++;
}

static void book(verify_row *row, int level, const char *what, double used) {
    if (used > row->used[level])
        row->used[level] = used;
    if (used > row->worst) {
        row->worst = used;
        snprintf(row->worst_case, sizeof row->worst_case, "%s", what);
    }
}

void verify_compare(verify_run *run, verify_row *row, int level, const char *what, float *actual,
                    const double *expected, const double *tolerance, int64_t count) {
    for (int64_t i = 0; i < count && run->inject; i++) {
        if (isfinite(expected[i])) {
            actual[i] = (float)(expected[i] + (tolerance[i] > 0 ? 3 * tolerance[i] : 1));
            break;
        }
    }
    ref_comparison result = ref_compare(actual, expected, tolerance, count);
    row->cases++;
    book(row, level, what, result.used);
    if (result.ok)
        return;
    char reason[160];
    if (result.used > 1)
        snprintf(reason, sizeof reason, "element %lld is %.9g, expected %.9g with a tolerance of %.3g",
                 (long long)result.worst, (double)actual[result.worst], expected[result.worst],
                 tolerance[result.worst]);
    else
        snprintf(reason, sizeof reason, "the errors lean one way: mean error / tolerance is %.3f",
                 result.bias);
    row->failed++;
    message(run, row, level, what, "FAILED", reason);
}

void verify_fail(verify_run *run, verify_row *row, int level, const char *what, const char *reason) {
    row->cases++;
    row->failed++;
    book(row, level, what, INFINITY);
    message(run, row, level, what, "FAILED", reason);
}

void verify_refuse(verify_run *run, verify_row *row, int level, const char *what, const char *reason) {
    if (row->refused++ == 0) /* the same text for every case and level */
        message(run, row, level, what, "refused", reason);
}

void verify_progress(verify_run *run, const char *what) {
    static int step;
    if (run->progress)
        fprintf(stderr, "\r%c %-40s", "|/-\\"[step++ % 4], what);
}

void *verify_alloc(verify_run *run, int64_t count, size_t size) {
    void *memory = calloc(count > 0 ? (size_t)count : 1, size);
    run->no_memory |= !memory;
    return memory;
}

/* ---- Random numbers: SplitMix64 ---- */

uint64_t verify_bits(verify_random *random) {
    uint64_t x = random->state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

verify_random verify_seed(const verify_run *run, uint64_t stream) {
    verify_random seed = {run->seed};
    verify_random random = {verify_bits(&seed) ^ (stream << 20)};
    random.state = verify_bits(&random);
    return random;
}

double verify_uniform(verify_random *random) {
    return (double)(verify_bits(random) >> 11) * 0x1p-53;
}

float verify_normal(verify_random *random) {
    /* The sum of twelve uniforms: close to normal, cheap, and the same with every C library. */
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += verify_uniform(random);
    return (float)sum;
}

/* ---- The table ---- */

static void print_used(double used) {
    if (used < 0)
        printf("  %8s", "-");
    else if (isinf(used))
        printf("  %8s", "wrong");
    else
        printf("  %8.3f", used);
}

static void print_table(const verify_run *run) {
    puts("\nWorst error of each level as a fraction of its tolerance:\n");
    printf("%-16s  %-9s  %7s", "check", "algorithm", "results");
    for (int level = 0; level < run->level_count; level++)
        printf("  %8s", run->levels[level]);
    printf("  %-7s  %s\n", "verdict", "worst at");
    for (int i = 0; i < run->row_count; i++) {
        const verify_row *row = &run->rows[i];
        printf("%-16s  %-9s  %7d", row->name, row->algorithm, row->cases);
        for (int level = 0; level < run->level_count; level++)
            print_used(row->used[level]);
        printf("  %-7s  %s\n", row->failed ? "FAILED" : row->cases ? "ok" : "refused", row->worst_case);
    }
    for (int i = 0; i < run->message_count && i < VERIFY_MESSAGES; i++)
        printf("%s%s\n", i ? "" : "\n", run->messages[i]);
    if (run->message_count > VERIFY_MESSAGES)
        printf("... and %d more\n", run->message_count - VERIFY_MESSAGES);
}

/* ---- Options ---- */

static void help(void) {
    puts("Usage: attnscope verify [OPTION]...\n"
         "\n"
         "Runs every kernel, algorithm and ISA level that this machine has against a double-precision "
         "reference,\n"
         "on adversarial as well as random inputs, and prints the worst error of each as a fraction of the\n"
         "tolerance (1 or more fails). Takes some seconds. Exits with 1 if anything failed.\n"
         "\n"
         "  --isa LEVEL[,LEVEL]...  only these levels (all that can run)\n"
         "  --quick                 about a third of the cases\n"
         "  --seed N                seed of the random inputs (1), the same data on every level\n"
         "  --inject-error          spoil one element of every result: all must fail, which shows that the\n"
         "                          checks can\n"
         "  --help                  this page\n"
         "\n"
         "Examples:\n"
         "  attnscope verify\n"
         "  attnscope verify --quick --isa avx2,scalar\n"
         "  attnscope verify --seed 20240229");
}

/* The library's own text of a level's name, "auto" included; NULL if it is unknown or cannot run here. */
static const char *resolve_level(const char *name, attn_error *error) {
    if (strcmp(name, "auto") == 0)
        return attn_isa_auto(error);
    if (attn_isa_check(name, error) != ATTN_OK)
        return NULL;
    int index = 0;
    while (strcmp(attn_isa_name(index), name) != 0)
        index++;
    return attn_isa_name(index);
}

/* Levels named in `list`; or all that can run, and the others are printed as skipped. */
static bool choose_levels(verify_run *run, char *list) {
    attn_error error;
    for (char *rest = list, *name; list && (name = strsep(&rest, ",")) != NULL;) {
        const char *level = resolve_level(name, &error);
        if (!level) {
            cli_error("%s", error.text);
            return false;
        }
        bool there = false;
        for (int i = 0; i < run->level_count; i++)
            there |= run->levels[i] == level;
        if (!there)
            run->levels[run->level_count++] = level;
    }
    for (int i = 0; i < attn_isa_count() && !list; i++) {
        const char *level = attn_isa_name(i);
        if (attn_isa_check(level, &error) != ATTN_OK)
            printf("skipped: %s: %s\n", level, error.text);
        else if (run->level_count < VERIFY_LEVELS)
            run->levels[run->level_count++] = level;
    }
    return true;
}

static int verify(verify_run *run) {
    printf("seed: %llu\nlevels:", (unsigned long long)run->seed);
    for (int i = 0; i < run->level_count; i++)
        printf(" %s", run->levels[i]);
    putchar('\n');
    fflush(stdout);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    verify_kernels(run);
    verify_conversions(run);
    verify_attention(run);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (run->progress)
        fprintf(stderr, "\r%-42s\r", "");
    if (run->no_memory)
        return cli_error("not enough memory");

    print_table(run);
    if (cli_team_had())
        printf("\nthreads: only %d could be had here (a limit on processes or memory) by a case of more\n",
               cli_team_had());
    int ok = 0, failed = 0, refused = 0;
    for (int i = 0; i < run->row_count; i++) {
        if (run->rows[i].failed)
            failed++;
        else if (run->rows[i].cases)
            ok++;
        else
            refused++;
    }
    double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    printf("\n%d ok, %d failed, %d refused, in %.1f s\n", ok, failed, refused, seconds);
    return failed ? CLI_NO : CLI_FINE;
}

enum { OPT_ISA = 256, OPT_QUICK, OPT_SEED, OPT_INJECT };

static const struct option long_options[] = {
    {"isa", required_argument, NULL, OPT_ISA},
    {"quick", no_argument, NULL, OPT_QUICK},
    {"seed", required_argument, NULL, OPT_SEED},
    {"inject-error", no_argument, NULL, OPT_INJECT},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

int cmd_verify(int argc, char **argv) {
    static verify_run run;
    run = (verify_run){.seed = 1, .progress = isatty(STDERR_FILENO)};
    char *levels = NULL;
    int64_t seed;
    for (int option; (option = cli_getopt(argc, argv, long_options)) != -1;) {
        switch (option) {
        case 'h':
            help();
            return CLI_FINE;
        case OPT_ISA:
            levels = optarg;
            break;
        case OPT_QUICK:
            run.quick = true;
            break;
        case OPT_INJECT:
            run.inject = true;
            break;
        case OPT_SEED:
            if (!cli_int_option("seed", optarg, 0, INT64_MAX, &seed))
                return CLI_USAGE;
            run.seed = (uint64_t)seed;
            break;
        default:
            return CLI_USAGE;
        }
    }
    if (!choose_levels(&run, levels))
        return CLI_USAGE;
    return verify(&run);
}
