/* The command line of `attnscope bench`. */
#include "bench/bench.h"
#include "common/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Values ---- */

static int add_item(bench_list *list, const char *option, const char *text) {
    if (list->count == BENCH_MAX_LIST)
        return cli_error("--%s is given more than %d times", option, BENCH_MAX_LIST);
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->item[i], text) == 0)
            return 0;
    }
    list->item[list->count++] = text;
    return 0;
}

static int add_number(bench_numbers *list, const char *option, int64_t value) {
    if (list->count == BENCH_MAX_LIST)
        return cli_error("--%s is given more than %d times", option, BENCH_MAX_LIST);
    for (int i = 0; i < list->count; i++) {
        if (list->item[i] == value)
            return 0;
    }
    list->item[list->count++] = value;
    return 0;
}

static int add_threads(const machine *m, bench_config *config, const char *text) {
    int64_t threads;
    if (!cli_int_option("threads", text, 1, ATTN_MAX_THREADS, &threads))
        return CLI_USAGE;
    if (threads > m->usable_threads) {
        const bool quota = m->usable_threads < m->allowed_pus;
        return cli_error("--threads '%s': this process may use %d (%d allowed CPUs%s%s)", text,
                         m->usable_threads, m->allowed_pus, quota ? ", quota in " : "",
                         quota ? m->quota.source : "");
    }
    return add_number(&config->threads, "threads", threads);
}

static int add_pattern(bench_config *config, const char *text) {
    attn_pattern pattern;
    attn_error error;
    /* A block map is checked against the shapes of each row. */
    if (!strstr(text, "blocks=") && attn_pattern_parse(text, &pattern, &error) != ATTN_OK)
        return cli_error("--pattern '%s': %s", text, error.text);
    return add_item(&config->patterns, "pattern", text);
}

static int add_kernel(bench_config *config, const char *text) {
    if (bench_kernel_find(text))
        return add_item(&config->kernels, "kernel", text);
    char names[256] = "";
    for (int i = 0; i < bench_kernel_count; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", bench_kernels[i].name);
    }
    return cli_error("--kernel '%s': expected one of %s", text, names);
}

static int add_data(bench_config *config, const char *text) {
    char names[128] = "";
    for (int i = 0; i < BENCH_DATA_COUNT; i++) {
        if (strcmp(text, bench_data_name((bench_data)i)) == 0)
            return add_number(&config->data, "data", i);
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", bench_data_name((bench_data)i));
    }
    return cli_error("--data '%s': expected one of %s", text, names);
}

/* ---- Google Benchmark's options --------------------------------------------------- */

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

/* Takes what decides our own work: which rows, for how long. The library sees the rest, and those
 * settings that both must know. */
static int library_option(bench_config *config, char *argument) {
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

/* ---- All options ----------------------------------------------------------------------- */

enum {
    O_ALGORITHM = 256,
    O_ALIBI,
    O_BATCH,
    O_BUDGET,
    O_DATA,
    O_DRY_RUN,
    O_DTYPE,
    O_HEADS,
    O_HEAD_DIM,
    O_ISA,
    O_KERNEL,
    O_KV_HEADS,
    O_LIST_PRESETS,
    O_MAX_CALL,
    O_N,
    O_NO_BIND,
    O_NO_ROOFLINE,
    O_OUT,
    O_PATTERN,
    O_PRESET,
    O_QUERIES,
    O_SEED,
    O_SINK_LOGIT,
    O_SOFTCAP,
    O_STAGES,
    O_THREADS,
    O_VALUE_DIM,
};

static const struct option options[] = {
    {"algorithm", required_argument, NULL, O_ALGORITHM},
    {"alibi", no_argument, NULL, O_ALIBI},
    {"batch", required_argument, NULL, O_BATCH},
    {"budget", required_argument, NULL, O_BUDGET},
    {"data", required_argument, NULL, O_DATA},
    {"dry-run", no_argument, NULL, O_DRY_RUN},
    {"dtype", required_argument, NULL, O_DTYPE},
    {"heads", required_argument, NULL, O_HEADS},
    {"head-dim", required_argument, NULL, O_HEAD_DIM},
    {"help", no_argument, NULL, 'h'},
    {"isa", required_argument, NULL, O_ISA},
    {"kernel", required_argument, NULL, O_KERNEL},
    {"kv-heads", required_argument, NULL, O_KV_HEADS},
    {"list-presets", no_argument, NULL, O_LIST_PRESETS},
    {"max-call", required_argument, NULL, O_MAX_CALL},
    {"n", required_argument, NULL, O_N},
    {"no-bind", no_argument, NULL, O_NO_BIND},
    {"no-roofline", no_argument, NULL, O_NO_ROOFLINE},
    {"out", required_argument, NULL, O_OUT},
    {"pattern", required_argument, NULL, O_PATTERN},
    {"preset", required_argument, NULL, O_PRESET},
    {"queries", required_argument, NULL, O_QUERIES},
    {"seed", required_argument, NULL, O_SEED},
    {"sink-logit", no_argument, NULL, O_SINK_LOGIT},
    {"softcap", required_argument, NULL, O_SOFTCAP},
    {"stages", no_argument, NULL, O_STAGES},
    {"threads", required_argument, NULL, O_THREADS},
    {"value-dim", required_argument, NULL, O_VALUE_DIM},
    {NULL, 0, NULL, 0},
};

static int one_option(int option, const machine *m, bench_config *config) {
    attn_algorithm algorithm;
    attn_dtype dtype;
    int64_t number;
    bool fine = true;
    switch (option) {
    case O_PRESET:
        config->list_presets = config->list_presets || strcmp(optarg, "list") == 0;
        return add_item(&config->presets, "preset", optarg);
    case O_PATTERN:
        return add_pattern(config, optarg);
    case O_KERNEL:
        return add_kernel(config, optarg);
    case O_DATA:
        return add_data(config, optarg);
    case O_THREADS:
        return add_threads(m, config, optarg);
    case O_ISA:
        return cli_isa_option(optarg) ? add_item(&config->isas, "isa", optarg) : CLI_USAGE;
    case O_ALGORITHM:
        return cli_algorithm_option(optarg, &algorithm)
                   ? add_number(&config->algorithms, "algorithm", algorithm)
                   : CLI_USAGE;
    case O_DTYPE:
        return cli_dtype_option(optarg, &dtype) ? add_number(&config->dtypes, "dtype", dtype) : CLI_USAGE;
    case O_N:
        config->sizes_given = true;
        fine = bench_parse_sizes("n", optarg, &config->sizes);
        break;
    case O_HEADS:
        fine = cli_int_option("heads", optarg, 1, 65536, &config->heads);
        break;
    case O_KV_HEADS:
        fine = cli_int_option("kv-heads", optarg, 1, 65536, &config->kv_heads);
        break;
    case O_HEAD_DIM:
        fine = cli_int_option("head-dim", optarg, 1, 65536, &config->head_dim);
        break;
    case O_VALUE_DIM:
        fine = cli_int_option("value-dim", optarg, 1, 65536, &config->value_dim);
        break;
    case O_BATCH:
        fine = cli_int_option("batch", optarg, 1, 65536, &config->batch);
        break;
    case O_QUERIES:
        fine = cli_int_option("queries", optarg, 1, BENCH_MAX_N, &config->queries);
        break;
    case O_SOFTCAP:
        fine = cli_float_option("softcap", optarg, &config->softcap);
        if (fine && !(config->softcap > 0))
            return cli_error("--softcap '%s': expected a number above 0", optarg);
        break;
    case O_SEED:
        fine = cli_int_option("seed", optarg, 0, INT64_MAX, &number);
        config->seed = fine ? (uint64_t)number : 0;
        break;
    case O_BUDGET:
        fine = bench_parse_time("budget", optarg, &config->budget_s, NULL);
        if (fine && !(config->budget_s > 0))
            return cli_error("--budget '%s': expected seconds above 0", optarg);
        break;
    case O_MAX_CALL:
        fine = bench_parse_time("max-call", optarg, &config->max_call_s, NULL);
        break;
    case O_OUT:
        config->out = optarg;
        break;
    case O_ALIBI:
        config->alibi = true;
        break;
    case O_SINK_LOGIT:
        config->sink_logit = true;
        break;
    case O_STAGES:
        config->stages = true;
        break;
    case O_DRY_RUN:
        config->dry_run = true;
        break;
    case O_NO_BIND:
        config->no_bind = true;
        break;
    case O_NO_ROOFLINE:
        config->no_roofline = true;
        break;
    case O_LIST_PRESETS:
        config->list_presets = true;
        break;
    default:
        return CLI_USAGE;
    }
    return fine ? 0 : CLI_USAGE;
}

/* Options that would be ignored are refused. */
static int check_combination(const bench_config *c) {
    const struct {
        const char *name;
        bool given;
    } shape[] = {{"heads", c->heads},         {"kv-heads", c->kv_heads},     {"head-dim", c->head_dim},
                 {"value-dim", c->value_dim}, {"queries", c->queries},       {"softcap", c->softcap > 0},
                 {"alibi", c->alibi},         {"sink-logit", c->sink_logit}, {"batch", c->batch},
                 {"data", c->data.count}};
    const int preset_fixes = 8; /* batch and data are free */
    const bool attention = c->patterns.count || c->algorithms.count || c->stages || c->presets.count;
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        const bool dims = strcmp(shape[i].name, "head-dim") == 0 || strcmp(shape[i].name, "value-dim") == 0;
        if (shape[i].given && c->presets.count && (int)i < preset_fixes)
            return cli_error("--%s does not go with --preset, which fixes it", shape[i].name);
        if (shape[i].given && c->kernels.count && !attention && !dims)
            return cli_error("--%s does not apply to --kernel", shape[i].name);
    }
    if (c->presets.count && c->patterns.count)
        return cli_error("--pattern does not go with --preset, which fixes it");
    for (int k = 0; k < c->kernels.count; k++) {
        for (int d = 0; d < c->dtypes.count; d++) {
            if (c->dtypes.item[d] != ATTN_F32 && !bench_kernel_find(c->kernels.item[k])->typed)
                return cli_error("--kernel '%s' takes --dtype f32 only", c->kernels.item[k]);
        }
    }
    for (int t = 0; t < c->threads.count; t++) {
        if (c->threads.item[t] > 1 && (c->kernels.count ? !attention : c->stages && !c->algorithms.count))
            return cli_error("--threads '%lld': %s run on one thread", (long long)c->threads.item[t],
                             c->kernels.count ? "kernels" : "stages");
    }
    return 0;
}

static void set_defaults(bench_config *config) {
    config->standard = !config->presets.count && !config->patterns.count && !config->algorithms.count &&
                       !config->kernels.count && !config->stages;
    const bool whole = config->standard && !config->sizes_given;
    if (!config->sizes_given)
        bench_parse_sizes("n", "128:8192", &config->sizes);
    if (config->max_call_s < 0)
        config->max_call_s = config->standard || !config->sizes_given ? 2 : 0;
    if (config->budget_s < 0)
        config->budget_s = whole ? 150 : 0;
    const char *variable = getenv("BENCHMARK_OUT"); /* the library's own default for its option */
    if (!config->library_out && variable && *variable)
        config->library_out = variable;
    if (!config->out && whole)
        config->out = "results.json";
}

int bench_options(int argc, char **argv, const machine *m, bench_config *config) {
    *config = (bench_config){.seed = 1,
                             .repetitions = 1,
                             .min_time_s = 0.25,
                             .warm_up_s = 0.02,
                             .budget_s = -1,
                             .max_call_s = -1,
                             .own_table = true};
    char **own = calloc((size_t)argc + 1, sizeof *own);
    config->library_argv = calloc((size_t)argc + 2, sizeof *config->library_argv); /* --benchmark_out too */
    if (!own || !config->library_argv) {
        free(own);
        return cli_error("not enough memory");
    }
    own[0] = config->library_argv[0] = argv[0];
    config->library_argc = 1;
    int count = 1, status = 0;
    for (int i = 1; i < argc && status == 0; i++) {
        if (strncmp(argv[i], "--benchmark_", 12) == 0 || strncmp(argv[i], "--v=", 4) == 0)
            status = library_option(config, argv[i]);
        else
            own[count++] = argv[i];
    }
    for (int option; status == 0 && (option = cli_getopt(count, own, options)) != -1;) {
        if (option == 'h') {
            bench_help();
            status = -1;
        } else {
            status = one_option(option, m, config);
        }
    }
    free(own); /* its strings are argv's */
    attn_error error;
    if (status == 0 && !attn_isa_auto(&error))
        status = cli_error("%s", error.text);
    if (status == 0 && !config->list_presets)
        status = check_combination(config);
    if (status == 0)
        set_defaults(config);
    return status;
}

void bench_config_free(bench_config *config) {
    free(config->library_argv);
    config->library_argv = NULL;
}
