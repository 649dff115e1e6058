/* The command line of `attnscope bench`. */
#include "bench/bench.h"
#include "common/cli.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int take_threads(const machine *m, bench_config *config, const char *text) {
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

static int take_pattern(const machine *m, bench_config *config, const char *text) {
    attn_pattern pattern;
    attn_error error;
    char *file;
    if (!cli_pattern_file(text, &file))
        return CLI_USAGE;
    /* It is read for each length, and for its digest. */
    const bool regular = !file || cli_regular_file("block map", file);
    free(file);
    if (!regular)
        return CLI_USAGE;
    /* A block map is checked against the shapes of each row. */
    if (!strstr(text, "blocks=") && attn_pattern_parse(text, &pattern, &error) != ATTN_OK)
        return cli_error("--pattern '%s': %s", text, error.text);
    return add_item(&config->patterns, "pattern", text);
}

static int take_kernel(const machine *m, bench_config *config, const char *text) {
    if (bench_kernel_find(text))
        return add_item(&config->kernels, "kernel", text);
    char names[256] = "";
    for (int i = 0; i < bench_kernel_count; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", bench_kernels[i].name);
    }
    return cli_error("--kernel '%s': expected one of %s", text, names);
}

static int take_data(const machine *m, bench_config *config, const char *text) {
    char names[128] = "";
    for (int i = 0; i < BENCH_DATA_COUNT; i++) {
        if (strcmp(text, bench_data_name((bench_data)i)) == 0)
            return add_number(&config->data, "data", i);
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", bench_data_name((bench_data)i));
    }
    return cli_error("--data '%s': expected one of %s", text, names);
}

/* ---- All options ----------------------------------------------------------------------- */

static int take_algorithm(const machine *m, bench_config *config, const char *text) {
    attn_algorithm algorithm;
    return cli_algorithm_option(text, &algorithm) ? add_number(&config->algorithms, "algorithm", algorithm)
                                                  : CLI_USAGE;
}

static int take_dtype(const machine *m, bench_config *config, const char *text) {
    attn_dtype dtype;
    return cli_dtype_option(text, &dtype) ? add_number(&config->dtypes, "dtype", dtype) : CLI_USAGE;
}

static int take_isa(const machine *m, bench_config *config, const char *text) {
    return cli_isa_option(text) ? add_item(&config->isas, "isa", text) : CLI_USAGE;
}

static int take_preset(const machine *m, bench_config *config, const char *text) {
    config->list_presets = config->list_presets || strcmp(text, "list") == 0;
    return add_item(&config->presets, "preset", text);
}

static int take_sizes(const machine *m, bench_config *config, const char *text) {
    config->sizes_given = true;
    return bench_parse_sizes("n", text, &config->sizes) ? 0 : CLI_USAGE;
}

static int take_softcap(const machine *m, bench_config *config, const char *text) {
    if (!cli_float_option("softcap", text, &config->softcap))
        return CLI_USAGE;
    return config->softcap > 0 ? 0 : cli_error("--softcap '%s': expected a number above 0", text);
}

static int take_budget(const machine *m, bench_config *config, const char *text) {
    if (!bench_parse_time("budget", text, &config->budget_s, NULL))
        return CLI_USAGE;
    return config->budget_s > 0 ? 0 : cli_error("--budget '%s': expected seconds above 0", text);
}

static int take_checkpoint(const machine *m, bench_config *config, const char *text) {
    return bench_parse_time("checkpoint", text, &config->checkpoint_s, NULL) ? 0 : CLI_USAGE;
}

static int take_max_call(const machine *m, bench_config *config, const char *text) {
    return bench_parse_time("max-call", text, &config->max_call_s, NULL) ? 0 : CLI_USAGE;
}

static int take_tuning(const machine *m, bench_config *config, const char *text) {
    config->tuning_file = text;
    if (!cli_regular_file("--tuning", text))
        return CLI_USAGE;
    return cli_tuning_option(text, m->fingerprint, &config->tuning) ? 0 : CLI_USAGE;
}

static int take_out(const machine *m, bench_config *config, const char *text) {
    config->out = text;
    return 0;
}

/* An option either has a function that takes its value, or sets a number from `least` to `most`, or, where
 * `most` is 0, a flag. A list may be given several times. */
static const struct {
    const char *name;
    int (*take)(const machine *m, bench_config *config, const char *text);
    size_t field; /* of bench_config */
    int64_t least, most;
    bool list;
} rules[] = {
#define FIELD(name) .field = offsetof(bench_config, name)
    {"algorithm", .take = take_algorithm, .list = true},
    {"alibi", FIELD(alibi)},
    {"batch", FIELD(batch), .least = 1, .most = 65536},
    {"budget", .take = take_budget},
    {"checkpoint", .take = take_checkpoint},
    {"cold", FIELD(cold)},
    {"data", .take = take_data, .list = true},
    {"dry-run", FIELD(dry_run)},
    {"dtype", .take = take_dtype, .list = true},
    {"head-dim", FIELD(head_dim), .least = 1, .most = 65536},
    {"heads", FIELD(heads), .least = 1, .most = 65536},
    {"isa", .take = take_isa, .list = true},
    {"kernel", .take = take_kernel, .list = true},
    {"kv-heads", FIELD(kv_heads), .least = 1, .most = 65536},
    {"list-presets", FIELD(list_presets)},
    {"max-call", .take = take_max_call},
    {"n", .take = take_sizes},
    {"no-bind", FIELD(no_bind)},
    {"no-counters", FIELD(no_counters)},
    {"no-roofline", FIELD(no_roofline)},
    {"out", .take = take_out},
    {"pattern", .take = take_pattern, .list = true},
    {"preset", .take = take_preset, .list = true},
    {"queries", FIELD(queries), .least = 1, .most = BENCH_MAX_N},
    {"resume", FIELD(resume)},
    {"seed", FIELD(seed), .least = 0, .most = INT64_MAX},
    {"sink-logit", FIELD(sink_logit)},
    {"softcap", .take = take_softcap},
    {"stages", FIELD(stages)},
    {"threads", .take = take_threads, .list = true},
    {"tuning", .take = take_tuning},
    {"value-dim", FIELD(value_dim), .least = 1, .most = 65536},
#undef FIELD
};
enum { RULES = sizeof rules / sizeof rules[0], FIRST_VALUE = 256 };
_Static_assert(RULES < 64, "cli_getopt takes at most 64 options");

/* `which` as getopt returns it. */
static int one_option(int which, const machine *m, bench_config *config) {
    const int i = which - FIRST_VALUE;
    if (i < 0 || i >= RULES)
        return CLI_USAGE;
    if (rules[i].take)
        return rules[i].take(m, config, optarg);
    char *field = (char *)config + rules[i].field;
    if (rules[i].most == 0) {
        *(bool *)field = true;
        return 0;
    }
    return cli_int_option(rules[i].name, optarg, rules[i].least, rules[i].most, (int64_t *)field) ? 0
                                                                                                  : CLI_USAGE;
}

static int read_options(int argc, char **argv, const machine *m, bench_config *config) {
    struct option options[RULES + 2] = {{"help", no_argument, NULL, 'h'}};
    for (int i = 0; i < RULES; i++) {
        const bool value = rules[i].take || rules[i].most > 0;
        options[i + 1] = (struct option){rules[i].name, value ? required_argument : no_argument, NULL,
                                         (FIRST_VALUE + i) | (rules[i].list ? CLI_LIST : 0)};
    }
    int status = 0;
    for (int option; status == 0 && (option = cli_getopt(argc, argv, options)) != -1;) {
        if (option == 'h') {
            bench_help();
            return -1;
        }
        status = one_option(option, m, config);
    }
    return status;
}

/* Options that would be ignored are refused. */
static int check_combination(const bench_config *c) {
    const struct {
        const char *name;
        bool given, preset, kernel; /* fixed by a preset, of use to a kernel */
    } shape[] = {{"heads", c->heads, .preset = true},
                 {"kv-heads", c->kv_heads, .preset = true},
                 {"head-dim", c->head_dim, .preset = true, .kernel = true},
                 {"value-dim", c->value_dim, .preset = true, .kernel = true},
                 {"queries", c->queries, .preset = true},
                 {"softcap", c->softcap > 0, .preset = true},
                 {"alibi", c->alibi, .preset = true},
                 {"sink-logit", c->sink_logit, .preset = true},
                 {"batch", c->batch, .preset = false},
                 {"data", c->data.count, .preset = false}};
    const bool attention = c->patterns.count || c->algorithms.count || c->stages || c->presets.count;
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        if (shape[i].given && c->presets.count && shape[i].preset)
            return cli_error("--%s does not go with --preset, which fixes it", shape[i].name);
        if (shape[i].given && c->kernels.count && !attention && !shape[i].kernel)
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
    if (c->cold && (c->kernels.count || c->stages))
        return cli_error("--cold does not apply to --%s: whole calls get new tensors",
                         c->kernels.count ? "kernel" : "stages");
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
    const char *format = getenv("BENCHMARK_OUT_FORMAT"); /* the library's own defaults for its options */
    if (!config->library_format)
        config->library_format = format && *format ? format : "json";
    const char *variable = getenv("BENCHMARK_OUT");
    if (!config->library_out && variable && *variable)
        config->library_out = variable;
    if (!config->out && whole)
        config->out = "results.json";
    config->asked_time_s = config->min_time_s;
}

/* Before rows are made: ATTNSCOPE_ISA decides those that no --isa does, and is of no matter to the others. */
static int check_auto(const bench_config *c) {
    bool decides = c->isas.count == 0;
    for (int i = 0; i < c->isas.count; i++)
        decides = decides || strcmp(c->isas.item[i], "auto") == 0;
    attn_error error;
    return decides && !attn_isa_auto(&error) ? cli_error("%s", error.text) : 0;
}

static int check_resume(const bench_config *c) {
    if (!c->resume)
        return 0;
    if (!c->out)
        return cli_error("--resume needs --out FILE, the file to go on with");
    return c->library_out
               ? cli_error("--resume does not go with --benchmark_out: the library's own file would "
                           "hold this session's rows only")
               : 0;
}

int bench_options(int argc, char **argv, const machine *m, bench_config *config) {
    *config = (bench_config){.seed = 1,
                             .repetitions = 1,
                             .min_time_s = 0.25,
                             .warm_up_s = -1,
                             .budget_s = -1,
                             .checkpoint_s = 30,
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
            status = bench_library_option(config, argv[i]);
        else
            own[count++] = argv[i];
    }
    if (status == 0)
        status = read_options(count, own, m, config);
    free(own); /* its strings are argv's */
    if (status == 0 && !config->list_presets && (status = check_auto(config)) == 0)
        status = check_combination(config);
    if (status == 0) {
        set_defaults(config);
        status = check_resume(config);
    }
    return status;
}

void bench_config_free(bench_config *config) {
    free(config->library_argv);
    config->library_argv = NULL;
    attn_tuning_free(config->tuning);
    config->tuning = NULL;
}
