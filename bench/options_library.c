/* Google Benchmark's options: those that decide our own work, and what is passed on. */
#include "bench/bench.h"
#include "common/cli.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Whether the library was built with counters of its own (libpfm), which it tells nobody but by a line on
 * standard error in the middle of a run. Missing where it has no such symbol: then it is asked, and answers
 * for itself. */
#ifdef __ELF__
extern const bool library_counts __asm__("_ZN9benchmark8internal12PerfCounters10kSupportedE")
    __attribute__((weak));
#    define LIBRARY_LACKS_COUNTERS (&library_counts && !library_counts)
#else
#    define LIBRARY_LACKS_COUNTERS false
#endif

/* As the library reads booleans. */
static bool is_true(const char *value) {
    return !*value || !(strcmp(value, "0") == 0 || strcasecmp(value, "f") == 0 ||
                        strcasecmp(value, "n") == 0 || strcasecmp(value, "false") == 0 ||
                        strcasecmp(value, "no") == 0 || strcasecmp(value, "off") == 0);
}

/* The value in "--NAME=VALUE" or "" for "--NAME" alone; NULL when the argument is another. */
static const char *flag_value(const char *argument, const char *name) {
    const size_t length = strlen(name);
    if (strncmp(argument, "--", 2) != 0 || strncmp(argument + 2, name, length) != 0)
        return NULL;
    argument += 2 + length;
    return *argument == '=' ? argument + 1 : *argument ? NULL : argument;
}

int bench_library_counters(const bench_config *config) {
    const char *given = getenv("BENCHMARK_PERF_COUNTERS"), *value; /* the library reads it too */
    const char *name = "BENCHMARK_PERF_COUNTERS";
    for (int i = 1; i < config->library_argc; i++) {
        if ((value = flag_value(config->library_argv[i], "benchmark_perf_counters"))) {
            given = value;
            name = "--benchmark_perf_counters";
        }
    }
    return given && *given && LIBRARY_LACKS_COUNTERS
               ? cli_error(
                     "%s '%s': this Google Benchmark is built without counters, expected none; rows have "
                     "those of perf_event_open by themselves",
                     name, given)
               : 0;
}

/* Takes what decides our own work: which rows, for how long. The library sees the rest, and those
 * settings that both must know. */
int bench_library_option(bench_config *config, char *argument) {
    const char *value;
    if ((value = flag_value(argument, "benchmark_min_time")))
        return bench_parse_time("benchmark_min_time", value, &config->min_time_s, &config->fixed_calls)
                   ? 0
                   : CLI_USAGE;
    if ((value = flag_value(argument, "benchmark_min_warmup_time")))
        return bench_parse_time("benchmark_min_warmup_time", value, &config->warm_up_s, NULL) ? 0 : CLI_USAGE;
    if ((value = flag_value(argument, "benchmark_filter"))) {
        config->filter = value;
        return 0;
    }
    if ((value = flag_value(argument, "benchmark_list_tests"))) {
        config->list_tests = is_true(value);
        return 0;
    }
    if ((value = flag_value(argument, "benchmark_dry_run"))) {
        config->one_call = is_true(value);
        return 0;
    }
    if ((value = flag_value(argument, "benchmark_repetitions")) &&
        !cli_parse_int(value, 1, 1000, &config->repetitions))
        return cli_error("--benchmark_repetitions '%s': expected an integer from 1 to 1000", value);
    if ((value = flag_value(argument, "benchmark_out_format")))
        config->library_format = value;
    if (flag_value(argument, "benchmark_format"))
        config->own_table = false;
    /* The library is told of a file beside it, which is renamed once it is whole. */
    if ((value = flag_value(argument, "benchmark_out"))) {
        config->library_out = value;
        return 0;
    }
    config->library_argv[config->library_argc++] = argument;
    return 0;
}
