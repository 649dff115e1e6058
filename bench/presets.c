/* Presets: the attention shapes of real models, as rows. */
#include "bench/bench.h"
#include "common/cli.h"

#include <stdio.h>
#include <string.h>

typedef struct preset {
    const char *name;
    int64_t heads, kv_heads, head_dim, value_dim;
    const char *pattern;
    float softcap;
    uint32_t inputs;
    const char *prefill, *decode, *source;
} preset;

static const preset presets[] = {
#define PRESET(...) {__VA_ARGS__},
#include "presets.def"
#undef PRESET
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

void bench_presets_print(void) {
    printf("%-16s %3s %3s %4s  %-38s %-12s %-12s %s\n", "preset", "H", "Hkv", "D", "pattern", "prefill n",
           "decode nk", "source");
    for (int i = 0; i < PRESETS; i++) {
        const preset *p = &presets[i];
        char pattern[96];
        snprintf(pattern, sizeof pattern, p->softcap > 0 ? "%s cap=%g" : "%s", p->pattern,
                 (double)p->softcap);
        if (p->inputs & ATTN_HAS_SINK_LOGIT)
            strcat(pattern, " sink-logit");
        printf("%-16s %3lld %3lld %4lld  %-38s %-12s %-12s %s\n", p->name, (long long)p->heads,
               (long long)p->kv_heads, (long long)p->head_dim, pattern, p->prefill,
               *p->decode ? p->decode : "-", p->source);
    }
    printf("\nNAME measures all rows of a preset, NAME:prefill and NAME:decode some of them.\n");
}

/* One row for each length of `lengths`, or of --n. */
static int add_lengths(const bench_config *config, const preset *p, const char *lengths, bool decode,
                       bench_rows *rows) {
    bench_numbers sizes = config->sizes;
    if (!config->sizes_given && !bench_parse_sizes("n", lengths, &sizes))
        return CLI_USAGE;
    for (int i = 0; i < sizes.count; i++) {
        const int64_t n = sizes.item[i];
        bench_row row = {.n = n};
        attn_problem_init(&row.problem, config->batch ? config->batch : 1, p->heads, p->kv_heads,
                          decode ? 1 : n, n, p->head_dim, p->value_dim);
        row.problem.softcap = p->softcap;
        row.problem.inputs = p->inputs;
        attn_error error;
        if (attn_pattern_parse(p->pattern, &row.problem.pattern, &error) != ATTN_OK)
            return cli_error("preset %s: %s", p->name, error.text);
        snprintf(row.presets, sizeof row.presets, "%s:%s", p->name, decode ? "decode" : "prefill");
        const int status = bench_expand_row(config, &row, rows);
        if (status != 0)
            return status;
    }
    return 0;
}

static int unknown_preset(const char *name) {
    char names[256] = "";
    for (int i = 0; i < PRESETS; i++) {
        const size_t used = strlen(names);
        if (i == 0 || strcmp(presets[i].name, presets[i - 1].name) != 0) /* a line for each kind of layer */
            snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", presets[i].name);
    }
    return cli_error("--preset '%s': expected one of %s; --list-presets describes them", name, names);
}

int bench_preset_rows(const bench_config *config, const char *name, bench_rows *rows) {
    const char *colon = strchr(name, ':');
    const size_t length = colon ? (size_t)(colon - name) : strlen(name);
    const bool prefill = !colon || strcmp(colon, ":prefill") == 0;
    const bool decode = !colon || strcmp(colon, ":decode") == 0;
    bool found = false, added = false;
    for (int i = 0; i < PRESETS; i++) {
        const preset *p = &presets[i];
        if (strncmp(p->name, name, length) != 0 || p->name[length])
            continue;
        found = true;
        int status = 0;
        if (prefill && (status = add_lengths(config, p, p->prefill, false, rows)) != 0)
            return status;
        if (decode && *p->decode && (status = add_lengths(config, p, p->decode, true, rows)) != 0)
            return status;
        added = added || prefill || (decode && *p->decode);
    }
    if (!found)
        return unknown_preset(name);
    if (!prefill && !decode)
        return cli_error("--preset '%s': expected NAME, NAME:prefill or NAME:decode", name);
    if (!added)
        return cli_error("--preset '%s': %.*s is an encoder and does not decode", name, (int)length, name);
    return 0;
}
