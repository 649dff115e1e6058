/* From options to rows: every combination that is asked for, its stable id, and what its plan counts. */
#include "bench/bench.h"
#include "bench/sha256.h"
#include "bench/sysfs.h"
#include "common/cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Ids ------------------------------------------------------------------ */

typedef struct id_text {
    char *at;
    size_t size, used;
} id_text;

static void append(id_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(id_text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const size_t left = t->used < t->size ? t->size - t->used : 0;
    const int length = vsnprintf(left ? t->at + t->used : NULL, left, format, arguments);
    va_end(arguments);
    t->used += length > 0 ? (size_t)length : 0;
}

static void append_kernel(id_text *t, const bench_row *row) {
    append(t, "kernel/%s/%s/%s/n%lld", row->kernel->name, row->isa, attn_dtype_name(row->problem.dtype),
           (long long)row->n);
    if (row->kernel->has_head_dim)
        append(t, "/d%lld", (long long)row->problem.head_dim);
    if (row->kernel->has_value_dim)
        append(t, "/dv%lld", (long long)row->problem.value_dim);
}

static void append_attention(id_text *t, const bench_row *row) {
    const attn_problem *p = &row->problem;
    append(t, "attention/%s/%s/%s/%s/b%lld/h%lld/kv%lld/d%lld/nq%lld/nk%lld/t%d", row->pattern,
           attn_algorithm_name(row->algorithm), row->isa, attn_dtype_name(p->dtype), (long long)p->batch,
           (long long)p->heads, (long long)p->kv_heads, (long long)p->head_dim, (long long)p->queries,
           (long long)p->keys, row->threads);
    if (p->value_dim != p->head_dim)
        append(t, "/dv%lld", (long long)p->value_dim);
    char cap[CLI_FLOAT_TEXT];
    if (p->softcap > 0)
        append(t, "/cap%s", cli_float_text(p->softcap, cap));
    if (p->inputs & ATTN_HAS_ALIBI)
        append(t, "/alibi");
    if (p->inputs & ATTN_HAS_SINK_LOGIT)
        append(t, "/sink-logit");
    if (row->data != BENCH_NORMAL)
        append(t, "/data:%s", bench_data_name(row->data));
    if (row->kind == BENCH_STAGE)
        append(t, "/stage:%s", attn_stage_name(row->stage));
}

bool bench_row_id(bench_row *row) {
    id_text t = {row->id, sizeof row->id, 0};
    if (row->kind == BENCH_KERNEL)
        append_kernel(&t, row);
    else
        append_attention(&t, row);
    return t.used < sizeof row->id;
}

/* ---- The list ---------------------------------------------------------------- */

/* Canonical text, in which a block map is known by its digest. */
static void format_pattern(bench_row *row) {
    char text[sizeof row->pattern];
    attn_pattern_format(&row->problem.pattern, text, sizeof text);
    const char *map = strstr(text, "blocks=map");
    if (map)
        snprintf(row->pattern, sizeof row->pattern, "%.*s%s%s", (int)(map + 7 - text), text,
                 row->block_digest, map + 10);
    else
        memcpy(row->pattern, text, sizeof text);
}

int bench_row_add(bench_rows *rows, const bench_row *row) {
    bench_row added = *row;
    if (added.kind != BENCH_KERNEL)
        format_pattern(&added);
    if (!bench_row_id(&added))
        return cli_error("the id of a row would pass %d bytes: %s...", BENCH_ID_BYTES - 1, added.id);
    for (int i = 0; i < rows->count; i++) {
        bench_row *there = &rows->row[i];
        if (strcmp(there->id, added.id) != 0)
            continue;
        const size_t used = strlen(there->presets);
        if (*added.presets && !sysfs_in_list(there->presets, added.presets))
            snprintf(there->presets + used, sizeof there->presets - used, ",%s", added.presets);
        return 0;
    }
    if (rows->count == BENCH_MAX_ROWS)
        return cli_error("more than %d rows", BENCH_MAX_ROWS);
    if (rows->count == rows->space) {
        const int space = 2 * rows->space + 64;
        bench_row *grown = realloc(rows->row, (size_t)space * sizeof *grown);
        if (!grown)
            return cli_error("not enough memory for %d rows", space);
        rows->row = grown;
        rows->space = space;
    }
    const int status = bench_row_count(&added);
    if (status == 0)
        rows->row[rows->count++] = added;
    return status;
}

void bench_rows_free(bench_rows *rows) {
    for (int i = 0; i < rows->count; i++) {
        free(rows->row[i].result.samples_ns);
        json_decref(rows->row[i].kept);
    }
    free(rows->row);
    for (int i = 0; i < rows->block_maps; i++) {
        free(rows->block_map[i].map);
        free(rows->block_map[i].file);
    }
    free(rows->block_map);
    *rows = (bench_rows){0};
}

/* Values of an option, or what stands for none. */
static int list_count(const bench_list *list) {
    return list->count > 0 ? list->count : 1;
}
static const char *list_item(const bench_list *list, int i, const char *otherwise) {
    return list->count > 0 ? list->item[i] : otherwise;
}

static int numbers_count(const bench_numbers *list) {
    return list->count > 0 ? list->count : 1;
}
static int64_t numbers_item(const bench_numbers *list, int i, int64_t otherwise) {
    return list->count > 0 ? list->item[i] : otherwise;
}

static int add_stages(bench_row *row, bench_rows *rows) {
    int status = 0;
    row->kind = BENCH_STAGE;
    row->algorithm = ATTN_NAIVE;
    for (int s = 0; s < ATTN_STAGE_COUNT && status == 0; s++) {
        row->stage = (attn_stage)s;
        status = bench_row_add(rows, row);
    }
    row->kind = BENCH_ATTENTION;
    return status;
}

/* All algorithms and thread counts of a row whose problem, ISA level and data are set. */
static int expand_algorithms(const bench_config *config, bench_row *row, bench_rows *rows) {
    int status = 0;
    if (config->stages && (status = add_stages(row, rows)) != 0)
        return status;
    if (config->stages && config->algorithms.count == 0)
        return 0;
    for (int a = 0; a < numbers_count(&config->algorithms); a++) {
        row->algorithm = (attn_algorithm)numbers_item(&config->algorithms, a, ATTN_AUTO);
        for (int t = 0; t < numbers_count(&config->threads); t++) {
            row->threads = (int)numbers_item(&config->threads, t, 1);
            if ((status = bench_row_add(rows, row)) != 0)
                return status;
        }
        row->threads = 1;
    }
    return 0;
}

int bench_expand_row(const bench_config *config, const bench_row *row, bench_rows *rows) {
    bench_row next = *row;
    next.threads = 1;
    next.tuning = config->tuning;
    next.cold_bytes = bench_cold_bytes(config);
    for (int i = 0; i < list_count(&config->isas); i++) {
        next.isa = list_item(&config->isas, i, "auto");
        for (int d = 0; d < numbers_count(&config->dtypes); d++) {
            next.problem.dtype = (attn_dtype)numbers_item(&config->dtypes, d, ATTN_F32);
            for (int k = 0; k < numbers_count(&config->data); k++) {
                next.data = (bench_data)numbers_item(&config->data, k, BENCH_NORMAL);
                next.problem.inputs = row->problem.inputs | bench_data_inputs(next.data);
                const int status = expand_algorithms(config, &next, rows);
                if (status != 0)
                    return status;
            }
        }
    }
    return 0;
}

/* ---- What the options ask for ------------------------------------------------- */

static bench_row first_row(const bench_config *config, int64_t n) {
    bench_row row = {.isa = "auto", .threads = 1, .n = n};
    const int64_t heads = config->heads ? config->heads : 1;
    const int64_t head_dim = config->head_dim ? config->head_dim : 64;
    attn_problem_init(&row.problem, config->batch ? config->batch : 1, heads,
                      config->kv_heads ? config->kv_heads : heads, config->queries ? config->queries : n, n,
                      head_dim, config->value_dim ? config->value_dim : head_dim);
    row.problem.softcap = config->softcap;
    row.problem.inputs =
        (config->alibi ? ATTN_HAS_ALIBI : 0) | (config->sink_logit ? ATTN_HAS_SINK_LOGIT : 0);
    return row;
}

/* First 12 digits of the digest of a block map's file, as sha256sum prints it. */
static bool file_digest(const char *path, char digest[13]) {
    FILE *file = fopen(path, "rb");
    char *data = NULL, hex[65];
    size_t used = 0, space = 0;
    while (file && !ferror(file) && !feof(file)) {
        if (used == space) {
            space = 2 * space + 65536;
            char *grown = realloc(data, space);
            if (!grown)
                break;
            data = grown;
        }
        used += fread(data + used, 1, space - used, file);
    }
    const bool whole = file && feof(file) && !ferror(file);
    if (whole) {
        sha256_hex(data, used, hex);
        snprintf(digest, 13, "%.12s", hex);
    }
    if (file)
        fclose(file);
    free(data);
    return whole;
}

/* Parses a pattern for the row's shapes; `rows` keeps the block map, if there is one. */
static int set_pattern(bench_rows *rows, bench_row *row, const char *text) {
    cli_pattern parsed;
    attn_problem *p = &row->problem;
    if (!cli_pattern_parse(text, p->heads, p->queries, p->keys, &parsed))
        return CLI_USAGE;
    int status = 0;
    if (parsed.block_file && !file_digest(parsed.block_file, row->block_digest))
        status = cli_error("cannot read %s", parsed.block_file);
    p->pattern = parsed.pattern;
    if (parsed.block_map) {
        struct bench_block_map *grown =
            realloc(rows->block_map, (size_t)(rows->block_maps + 1) * sizeof *grown);
        if (grown) {
            rows->block_map = grown;
            rows->block_map[rows->block_maps++] =
                (struct bench_block_map){parsed.block_map, parsed.block_file};
            parsed.block_map = NULL;
            parsed.block_file = NULL;
        } else {
            status = cli_error("not enough memory for block maps");
        }
    }
    cli_pattern_free(&parsed);
    return status;
}

/* The standard series: what a first look at a CPU should show. */
static const struct {
    const char *pattern;
    attn_algorithm algorithm;
} standard[] = {
    {"dense", ATTN_NAIVE},
    {"dense", ATTN_FLASH},
    {"causal", ATTN_FLASH},
    {"window=256", ATTN_FLASH},
    {"window=64:64,sink=64,random=3:64:1", ATTN_FLASH}, /* the blocks of BigBird */
};

/* One series of the standard sweep at all its lengths; half octaves too, unless the lengths were given. */
static int standard_series(const bench_config *config, const char *pattern, attn_algorithm algorithm,
                           bench_rows *rows) {
    bench_config series = *config;
    series.algorithms = (bench_numbers){{algorithm}, 1};
    double border[BENCH_MAX_BORDERS];
    bench_row shape = first_row(config, 1);
    const int parsed = set_pattern(rows, &shape, pattern);
    if (parsed != 0)
        return parsed;
    const int borders =
        bench_borders(&shape.problem, config->queries, algorithm, config->cache_bytes, border);
    bench_numbers sizes = config->sizes;
    if (!config->sizes_given)
        bench_refine(&config->sizes, border, borders, &sizes);
    for (int i = 0, next = 0; i < sizes.count; i++) {
        bench_row row = first_row(config, sizes.item[i]);
        row.between = next == config->sizes.count || row.n != config->sizes.item[next];
        next += !row.between;
        int status = set_pattern(rows, &row, pattern);
        if (status != 0 || (status = bench_expand_row(&series, &row, rows)) != 0)
            return status;
    }
    return 0;
}

static int standard_rows(const bench_config *config, bench_rows *rows) {
    bench_config levels = *config;
    if (config->isas.count == 0) {
        for (int i = 0; i < attn_isa_count() && i < BENCH_MAX_LIST; i++) {
            if (attn_isa_check(attn_isa_name(i), NULL) == ATTN_OK)
                levels.isas.item[levels.isas.count++] = attn_isa_name(i);
        }
    }
    for (size_t s = 0; s < sizeof standard / sizeof standard[0]; s++) {
        const int status = standard_series(&levels, standard[s].pattern, standard[s].algorithm, rows);
        if (status != 0)
            return status;
    }
    /* Stages at the best level, causal, so that each of the five has something to do. The shortest
     * would measure the clock. */
    bench_config stages = levels;
    stages.stages = true;
    stages.algorithms.count = 0;
    stages.isas = (bench_list){{levels.isas.item[levels.isas.count - 1]}, 1};
    for (int i = 0; i < config->sizes.count; i++) {
        bench_row row = first_row(config, config->sizes.item[i]);
        int status = set_pattern(rows, &row, "causal");
        if (status == 0 && row.n >= 256 && !config->cold)
            status = bench_expand_row(&stages, &row, rows);
        if (status != 0)
            return status;
    }
    return 0;
}

static int kernel_rows(const bench_config *config, bench_rows *rows) {
    for (int k = 0; k < config->kernels.count; k++) {
        const bench_kernel *kernel = bench_kernel_find(config->kernels.item[k]);
        for (int i = 0; i < list_count(&config->isas); i++) {
            for (int d = 0; d < (kernel->typed ? numbers_count(&config->dtypes) : 1); d++) {
                for (int s = 0; s < config->sizes.count; s++) {
                    bench_row row = first_row(config, config->sizes.item[s]);
                    row.kind = BENCH_KERNEL;
                    row.kernel = kernel;
                    row.isa = list_item(&config->isas, i, "auto");
                    if (kernel->typed)
                        row.problem.dtype = (attn_dtype)numbers_item(&config->dtypes, d, ATTN_F32);
                    const int status = bench_row_add(rows, &row);
                    if (status != 0)
                        return status;
                }
            }
        }
    }
    return 0;
}

int bench_rows_make(const bench_config *config, bench_rows *rows) {
    if (config->standard)
        return standard_rows(config, rows);
    int status = 0;
    for (int i = 0; i < config->presets.count && status == 0; i++)
        status = bench_preset_rows(config, config->presets.item[i], rows);
    if (status == 0)
        status = kernel_rows(config, rows);
    /* Kernels or presets alone ask for no other attention. */
    const bool attention = config->patterns.count > 0 ||
                           (config->presets.count == 0 &&
                            (config->kernels.count == 0 || config->algorithms.count > 0 || config->stages));
    for (int p = 0; attention && p < list_count(&config->patterns) && status == 0; p++) {
        for (int i = 0; i < config->sizes.count && status == 0; i++) {
            bench_row row = first_row(config, config->sizes.item[i]);
            status = set_pattern(rows, &row, list_item(&config->patterns, p, "dense"));
            if (status == 0)
                status = bench_expand_row(config, &row, rows);
        }
    }
    return status;
}
