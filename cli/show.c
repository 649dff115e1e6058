/* `attnscope show`: a pattern as text, pair by pair or tile by tile. */
#include "attention/plan.h"
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PAIRS_AUTO = 64, /* pairs are drawn up to this many queries and keys unless asked */
    PAIRS_MOST = 256,
    TILE_COLUMNS = 96, /* larger drawings are scaled down to this */
    TILE_ROWS = 48,
};
static const int64_t most_tiles = INT64_C(1) << 22; /* a second or so of looking at them */

static void help(void) {
    puts("Usage: attnscope show [OPTION]...\n"
         "\n"
         "Draws which (query, key) pairs a pattern attends, and which tiles of them the engine visits: full "
         "tiles\n"
         "need no mask, partial tiles get theirs when they are visited, absent tiles cost nothing.\n"
         "\n"
         "  --pattern TERMS     dense (default), or terms joined by commas: causal, causal-top-left, "
         "prefix=P,\n"
         "                      chunk=C, window=W, window=L:R, sink=S, global=G, stride=T, random=R:B:SEED,\n"
         "                      blocks=FILE:B, topk=K\n"
         "  --n N               queries and keys (16)\n"
         "  --nq N, --nk N      queries, keys, where they differ\n"
         "  --pairs             one character per pair: # attended, . not (the default up to 64 x 64; at "
         "most\n"
         "                      256 x 256)\n"
         "  --tiles             one character per tile: # full, + partial, . absent; large drawings are "
         "scaled\n"
         "  --heads H           query heads (1); counts are over all of them\n"
         "  --head h            the head to draw (0), where a block map differs by head\n"
         "  --isa LEVEL         auto (default), or a level whose tile sizes to use\n"
         "  --algorithm NAME    flash (default; auto with topk), auto or naive\n"
         "  --help              this page\n"
         "\n"
         "Examples:\n"
         "  attnscope show --n 16 --pattern causal,window=4\n"
         "  attnscope show --nq 3 --nk 7 --pattern causal-top-left\n"
         "  attnscope show --n 4096 --pattern causal,window=512,sink=4 --tiles");
}

typedef struct show_options {
    const char *pattern, *isa;
    attn_algorithm algorithm;
    bool algorithm_given, pairs, tiles;
    int64_t n, queries, keys, heads, head; /* queries, keys: 0 until given, then n */
} show_options;

/* Two lines above the columns: tens (and hundreds) where they change, and units. */
static void print_ruler(int64_t keys, int label) {
    printf("%*s ", label, "");
    for (int64_t j = 0; j < keys; j++) {
        if (j % 10 == 0)
            j += printf("%lld", (long long)j) - 1;
        else
            putchar(' ');
    }
    printf("\n%*s ", label, "");
    for (int64_t j = 0; j < keys; j++)
        putchar((char)('0' + j % 10));
    putchar('\n');
}

static void draw_pairs(const attn_plan *plan, const show_options *o) {
    puts("\npairs: a row per query, a column per key; # attended, . not");
    print_ruler(o->keys, 5);
    for (int64_t i = 0; i < o->queries; i++) {
        printf("%5lld ", (long long)i);
        for (int64_t j = 0; j < o->keys; j++)
            putchar(attn_plan_attended(plan, o->head, i, j) ? '#' : '.');
        putchar('\n');
    }
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/* What stands for the tiles rows x columns from (row, column): their kind, '+' when they differ. */
static char cell(const attn_plan *plan, int64_t head, int64_t row, int64_t rows, int64_t column,
                 int64_t columns) {
    attn_tile_kind first = attn_plan_tile_kind(plan, head, row, column);
    for (int64_t r = row; r < row + rows; r++) {
        for (int64_t c = column; c < column + columns; c++) {
            if (first == ATTN_TILE_PARTIAL || attn_plan_tile_kind(plan, head, r, c) != first)
                return '+';
        }
    }
    return first == ATTN_TILE_FULL ? '#' : '.';
}

static void draw_tiles(const attn_plan *plan, const attn_info *info, const show_options *o) {
    int64_t rows = ceil_div(o->queries, info->query_tile), columns = ceil_div(o->keys, info->key_tile);
    int64_t row_step = ceil_div(rows, TILE_ROWS), column_step = ceil_div(columns, TILE_COLUMNS);
    if (row_step == 0 || column_step == 0) {
        puts("\ntiles: none");
        return;
    }
    printf("\ntiles: a row per %lld queries, a column per %lld keys; # full, + partial, . absent\n",
           (long long)(row_step * info->query_tile), (long long)(column_step * info->key_tile));
    if (row_step > 1 || column_step > 1)
        printf("scaled: each character stands for %lld x %lld tiles, and is + where their kinds differ\n",
               (long long)row_step, (long long)column_step);
    for (int64_t r = 0; r < rows; r += row_step) {
        printf("%8lld ", (long long)(r * info->query_tile));
        for (int64_t c = 0; c < columns; c += column_step)
            putchar(cell(plan, o->head, r, row_step < rows - r ? row_step : rows - r, c,
                         column_step < columns - c ? column_step : columns - c));
        putchar('\n');
    }
}

static double percent(int64_t part, int64_t whole) {
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

static void print_counts(const attn_info *info, const show_options *o, const char *pattern) {
    printf("pattern: %s\nqueries: %lld\nkeys: %lld\nheads: %lld\n", pattern, (long long)o->queries,
           (long long)o->keys, (long long)o->heads);
    printf("isa: %s\nalgorithm: %s\nquery_tile: %lld\nkey_tile: %lld\n", info->isa,
           attn_algorithm_name(info->algorithm), (long long)info->query_tile, (long long)info->key_tile);
    printf("tiles_full: %lld\ntiles_partial: %lld\ntiles_absent: %lld\n", (long long)info->tiles_full,
           (long long)info->tiles_partial, (long long)info->tiles_absent);
    printf(
        "pairs_useful: %lld (%.1f %% of dense)\npairs_executed: %lld (%.1f %% of dense)\npairs_dense: %lld\n",
        (long long)info->pairs_useful, percent(info->pairs_useful, info->pairs_dense),
        (long long)info->pairs_executed, percent(info->pairs_executed, info->pairs_dense),
        (long long)info->pairs_dense);
}

static int show(show_options *o, const cli_pattern *pattern) {
    bool topk = pattern->pattern.terms & ATTN_TOPK;
    attn_problem problem;
    attn_problem_init(&problem, 1, o->heads, o->heads, o->queries, o->keys, 64, 64);
    problem.pattern = pattern->pattern;
    attn_options options = {.isa = o->isa,
                            .algorithm = o->algorithm_given ? o->algorithm
                                         : topk             ? ATTN_AUTO
                                                            : ATTN_FLASH};
    attn_plan *plan;
    attn_error error;
    if (attn_plan_create(&problem, &options, &plan, &error) != ATTN_OK)
        return cli_error("%s", error.text);
    attn_info info = attn_plan_info(plan);

    bool small = o->queries <= PAIRS_AUTO && o->keys <= PAIRS_AUTO;
    bool pairs = o->pairs || (!o->tiles && small);
    bool tiles = o->tiles || (!o->pairs && !small);
    int code = CLI_FINE;
    char *text = cli_pattern_format(pattern);
    if (!text) {
        code = cli_error("not enough memory");
    } else if (tiles &&
               ceil_div(o->queries, info.query_tile) > most_tiles / (ceil_div(o->keys, info.key_tile) + 1)) {
        code = cli_error("%lld x %lld pairs are too many to draw; at most %lld tiles of %lld x %lld are",
                         (long long)o->queries, (long long)o->keys, (long long)most_tiles,
                         (long long)info.query_tile, (long long)info.key_tile);
    } else {
        print_counts(&info, o, text);
        if (topk)
            puts("note: which pairs topk keeps depends on the scores; the pairs it chooses from are drawn");
        if (pairs)
            draw_pairs(plan, o);
        if (tiles)
            draw_tiles(plan, &info, o);
    }
    free(text);
    attn_plan_destroy(plan);
    return code;
}

enum {
    OPT_PATTERN = 256,
    OPT_N,
    OPT_NQ,
    OPT_NK,
    OPT_PAIRS,
    OPT_TILES,
    OPT_HEADS,
    OPT_HEAD,
    OPT_ISA,
    OPT_ALGORITHM
};

static const struct option long_options[] = {
    {"pattern", required_argument, NULL, OPT_PATTERN},
    {"n", required_argument, NULL, OPT_N},
    {"nq", required_argument, NULL, OPT_NQ},
    {"nk", required_argument, NULL, OPT_NK},
    {"pairs", no_argument, NULL, OPT_PAIRS},
    {"tiles", no_argument, NULL, OPT_TILES},
    {"heads", required_argument, NULL, OPT_HEADS},
    {"head", required_argument, NULL, OPT_HEAD},
    {"isa", required_argument, NULL, OPT_ISA},
    {"algorithm", required_argument, NULL, OPT_ALGORITHM},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool take_option(int option, show_options *o) {
    const int64_t most = INT64_C(1) << 22; /* a plan looks at every query: about a second */
    switch (option) {
    case OPT_PATTERN:
        o->pattern = optarg;
        return true;
    case OPT_N:
        return cli_int_option("n", optarg, 1, most, &o->n);
    case OPT_NQ:
        return cli_int_option("nq", optarg, 1, most, &o->queries);
    case OPT_NK:
        return cli_int_option("nk", optarg, 1, most, &o->keys);
    case OPT_PAIRS:
        o->pairs = true;
        return true;
    case OPT_TILES:
        o->tiles = true;
        return true;
    case OPT_HEADS:
        return cli_int_option("heads", optarg, 1, 1 << 20, &o->heads);
    case OPT_HEAD:
        return cli_int_option("head", optarg, 0, (1 << 20) - 1, &o->head);
    case OPT_ISA:
        o->isa = optarg;
        return cli_isa_option(optarg);
    default:
        o->algorithm_given = true;
        return cli_algorithm_option(optarg, &o->algorithm);
    }
}

int cmd_show(int argc, char **argv) {
    show_options o = {.pattern = "dense", .isa = "auto", .n = 16, .heads = 1};
    for (int option; (option = cli_getopt(argc, argv, long_options)) != -1;) {
        if (option == 'h') {
            help();
            return CLI_FINE;
        }
        if (option == '?' || !take_option(option, &o))
            return CLI_USAGE;
    }
    o.queries = o.queries ? o.queries : o.n;
    o.keys = o.keys ? o.keys : o.n;
    if (o.head >= o.heads)
        return cli_error("--head %lld: expected 0 to %lld, a head of --heads %lld", (long long)o.head,
                         (long long)o.heads - 1, (long long)o.heads);
    if (o.pairs && (o.queries > PAIRS_MOST || o.keys > PAIRS_MOST))
        return cli_error(
            "--pairs: %lld x %lld pairs are too many to draw one by one; at most %d x %d, or use --tiles",
            (long long)o.queries, (long long)o.keys, PAIRS_MOST, PAIRS_MOST);
    cli_pattern pattern;
    if (!cli_pattern_parse(o.pattern, o.heads, o.queries, o.keys, &pattern))
        return CLI_USAGE;
    int code = show(&o, &pattern);
    cli_pattern_free(&pattern);
    return code;
}
