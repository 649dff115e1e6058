/* The names of a file's context: what --benchmark_context must leave alone. */
#include "bench/session.h"
#include "common/cli.h"

#include <stdlib.h>
#include <string.h>

/* What the library or we say in every file, or in some. The user's words must not pass for it. */
static const char *const taken[] = {
    "aslr_enabled",
    "attnscope_version",
    "binding",
    "build_type",
    "caches",
    "checksums_differ",
    "commit",
    "compiler",
    "conditions",
    "counters",
    "cpu_brand",
    "cpu_scaling_enabled",
    "date",
    "drift",
    "elapsed_s",
    "executable",
    "fingerprint",
    "flags",
    "host_name",
    "incomplete",
    "json_schema_version",
    "left_out",
    "libraries",
    "library_build_type",
    "library_version",
    "load_avg",
    "machine",
    "memory",
    "merged_from",
    "mhz_per_cpu",
    "not_measured",
    "num_cpus",
    "peak_gflops",
    "roofline",
    "rows_disturbed",
    "schema_version",
    "seed",
    "sessions",
    "settings",
    "steal",
    "time",
};

/* `pairs` is NAME=VALUE[,NAME=VALUE]...; the library refuses what is not. */
static bool accepts(const char *pairs) {
    for (const char *name = pairs; name; name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL) {
        const size_t length = strcspn(name, "=,");
        bool refused = length == 0;
        for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
            refused = refused || (strlen(taken[i]) == length && strncmp(taken[i], name, length) == 0);
        if (!refused)
            continue;
        cli_error("--benchmark_context '%s': %s", pairs,
                  length == 0 ? "expected a name before '='" : "the file has a field of that name itself");
        return false;
    }
    return true;
}

bool bench_context_accepts(const bench_config *config) {
    static const char option[] = "--benchmark_context=";
    const char *variable = getenv("BENCHMARK_CONTEXT"); /* the library reads it too */
    for (int i = 1; i < config->library_argc; i++) {
        if (strncmp(config->library_argv[i], option, sizeof option - 1) == 0 &&
            !accepts(config->library_argv[i] + sizeof option - 1))
            return false;
    }
    return !variable || !*variable || accepts(variable);
}
