/* `attnscope show`: draws what a pattern attends and what the engine visits, as text or as a picture. */
#include "cli/commands.h"
#include "cli/show.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PAIRS_AUTO = 64, /* pairs are drawn up to this many queries and keys unless asked */
    PAIRS_MOST = 256,
};
/* head_dim and value_dim, which nothing that is drawn depends on. With them the library takes, for one batch,
 * as many pairs over all heads. */
static const int64_t any_dim = 64, most_planned = INT64_C(1) << 50;
static const int64_t most_tiles = INT64_C(1) << 28; /* a second or so of looking at them */
static const int64_t most_pairs = INT64_C(1) << 32; /* likewise, where every pair has to be looked at */

static void help(void) {
    puts("Usage: attnscope show [OPTION]...\n"
         "\n"
         "Draws which (query, key) pairs of a problem are attended, and which tiles of them the engine\n"
         "visits: full tiles need no mask, partial tiles get theirs when they are visited, absent tiles\n"
         "cost nothing. Counts are those of an execution, over all heads.\n"
         "\n"
         "  --pattern TERMS     dense (default), or terms joined by commas: causal, causal-top-left,\n"
         "                      prefix=P, chunk=C, window=W, window=L:R, sink=S, global=G, stride=T,\n"
         "                      random=R:B:SEED, blocks=FILE:B, topk=K\n"
         "  --n N               queries and keys (16); 0 is a problem too\n"
         "  --nq N, --nk N      queries, keys, where they differ; heads * queries * keys are at most 2^50\n"
         "  --q-offset O        query i stands at position i + O among the keys (Nk - Nq)\n"
         "  --kv-len L          keys at or past L are padding\n"
         "  --segments FILE     .npy, integers (Nk,): only equal ids attend each other\n"
         "  --mask FILE         .npy, bool, broadcasts to (1, H, Nq, Nk): true = attend\n"
         "  --bias FILE         .npy, floats, broadcasts likewise: -inf masks\n"
         "  --heads H           query heads (1)\n"
         "  --head h            the head to draw (0), where maps or masks differ by head\n"
         "\n"
         "  --pairs             a mark for each pair (the default up to 64 x 64; at most 256 x 256):\n"
         "                      # attended, . not\n"
         "  --tiles             a mark for each tile: # full, + partial, . absent; large drawings are "
         "scaled;\n"
         "                      of problems too long to look at, the counts alone are printed\n"
         "  --svg FILE          draws into FILE, as an SVG picture; standard output has the counts alone\n"
         "\n"
         "  --isa LEVEL         auto (default), or a level whose tile sizes to use\n"
         "  --algorithm NAME    flash (default; auto with topk), auto or naive, which visits every tile\n"
         "  --help              this page\n"
         "\n"
         "Examples:\n"
         "  attnscope show --n 16 --pattern causal,window=4\n"
         "  attnscope show --nq 3 --nk 7 --pattern causal-top-left\n"
         "  attnscope show --n 4096 --pattern causal,window=512,sink=4 --tiles\n"
         "  attnscope show --n 2048 --pattern window=64:64,global=32,random=3:64:1 --svg bigbird.svg");
}

void show_cells(const show_subject *s, int64_t row, int64_t rows, int64_t columns, attn_tile_kind *kinds,
                attn_tile_kind *cells) {
    for (int64_t r = row; r < row + rows && r < s->tile_rows; r++) {
        attn_look_tiles(s->look, r, kinds);
        for (int64_t c = 0; c < s->tile_columns; c++) {
            attn_tile_kind *cell = &cells[c / columns];
            if (r == row && c % columns == 0)
                *cell = kinds[c];
            else if (*cell != kinds[c])
                *cell = ATTN_TILE_PARTIAL;
        }
    }
}

/* ---- What is looked at ---- */

static bool load(const show_options *o, show_subject *s) {
    s->options = o;
    if (!cli_pattern_parse(o->pattern, o->heads, o->queries, o->keys, &s->pattern))
        return false;
    s->pattern_text = cli_pattern_format(&s->pattern);
    if (!s->pattern_text) {
        cli_error("not enough memory");
        return false;
    }
    attn_problem_init(&s->problem, 1, o->heads, o->heads, o->queries, o->keys, any_dim, any_dim);
    s->problem.pattern = s->pattern.pattern;
    for (int which = 0; which < INPUT_COUNT; which++) {
        if (o->inputs[which] &&
            !cli_input_load(which, o->inputs[which], &s->problem, &s->tensors, &s->inputs))
            return false;
    }
    if (o->q_offset_given) {
        s->tensors.q_offsets = &o->q_offset;
        s->problem.inputs |= ATTN_HAS_Q_OFFSETS;
    }
    if (o->kv_len_given) {
        s->tensors.kv_lens = &o->kv_len;
        s->problem.inputs |= ATTN_HAS_KV_LENS;
    }
    return true;
}

static bool make_plan(show_subject *s) {
    const show_options *o = s->options;
    attn_options how = {.isa = o->isa, .algorithm = o->algorithm};
    if (!o->algorithm_given && !(s->problem.pattern.terms & ATTN_TOPK))
        how.algorithm = ATTN_FLASH;
    attn_error error;
    if (attn_plan_create(&s->problem, &how, &s->plan, &error) != ATTN_OK) {
        cli_error("%s", error.text);
        return false;
    }
    s->info = attn_plan_info(s->plan);
    s->tile_rows = cli_ceil_div(o->queries, s->info.query_tile);
    s->tile_columns = cli_ceil_div(o->keys, s->info.key_tile);
    return true;
}

/* Looking at a problem of any length would take hours; its counts are then those of the plan. Of partial
 * tiles, and where data decides of all, each pair is looked at. */
static bool too_many(show_subject *s, int64_t looked_at) {
    const show_options *o = s->options;
    bool by_pair = s->problem.inputs & (ATTN_HAS_SEGMENTS | ATTN_HAS_MASK | ATTN_HAS_BIAS);
    int64_t tiles = looked_at * s->tile_rows * s->tile_columns, partial = tiles;
    if (!by_pair)
        partial = s->info.algorithm == ATTN_NAIVE ? 0 : s->info.tiles_partial / o->heads * looked_at;
    int64_t most_partial = most_pairs / (s->info.query_tile * s->info.key_tile);
    if (tiles <= most_tiles && partial <= most_partial)
        return false;
    snprintf(s->not_drawn, sizeof s->not_drawn,
             "%lld x %lld pairs are too many; at most %lld tiles of %lld x %lld are looked at%s%s",
             (long long)o->queries, (long long)o->keys,
             (long long)(partial > most_partial ? most_partial : most_tiles), (long long)s->info.query_tile,
             (long long)s->info.key_tile, partial > most_partial ? " pair by pair" : "",
             looked_at > 1 ? ", over all heads" : "");
    s->all = (attn_counts){s->info.tiles_full, s->info.tiles_partial, s->info.pairs_useful,
                           s->info.pairs_executed};
    return true;
}

static bool look(show_subject *s) {
    const show_options *o = s->options;
    int64_t looked_at = cli_differs_by_head(&s->problem, &s->tensors) ? o->heads : 1;
    if (too_many(s, looked_at)) {
        if (o->svg)
            cli_error("--svg %s: not drawn: %s", o->svg, s->not_drawn);
        return !o->svg; /* a file that is asked for is made, or it is an error */
    }
    for (int64_t head = 0; head < o->heads; head++) {
        if (head != o->head && looked_at == 1)
            continue;
        attn_look *at = attn_look_open(s->plan, &s->tensors, 0, head);
        if (!at) {
            cli_error("not enough memory");
            return false;
        }
        attn_counts counts = attn_look_count(at);
        attn_counts_add(&s->all, &counts, looked_at == 1 ? o->heads : 1);
        if (head == o->head) {
            s->head = counts;
            s->look = at;
        } else {
            attn_look_close(at);
        }
    }
    return true;
}

static bool draw(const show_subject *s) {
    const show_options *o = s->options;
    bool small = o->queries <= PAIRS_AUTO && o->keys <= PAIRS_AUTO;
    if (*s->not_drawn) {
        show_print_counts(s);
        return true;
    }
    bool pairs = o->pairs || (!o->tiles && small), tiles = o->tiles || !pairs;
    if (!o->svg) {
        show_print_counts(s);
        return (!pairs || show_print_pairs(s)) && (!tiles || show_print_tiles(s));
    }
    static cli_output output;
    bool written =
        cli_output_prepare(&output, "svg", o->svg) && cli_output_spares(&output, s->pattern.block_file);
    for (int which = 0; which < INPUT_COUNT && written; which++)
        written = cli_output_spares(&output, o->inputs[which]);
    written = written && show_write_svg(s, pairs, &output);
    if (written) {
        show_print_counts(s);
        written = cli_flush();
    }
    written = written && cli_output_commit(&output);
    cli_output_discard(&output);
    return written;
}

static int show(const show_options *options) {
    show_subject subject = {0};
    bool drawn = load(options, &subject) && make_plan(&subject) && look(&subject) && draw(&subject);
    attn_look_close(subject.look);
    attn_plan_destroy(subject.plan);
    cli_inputs_free(&subject.inputs);
    cli_pattern_free(&subject.pattern);
    free(subject.pattern_text);
    return drawn ? CLI_FINE : CLI_USAGE;
}

/* ---- Options ---- */

enum {
    OPT_PATTERN = 256,
    OPT_N,
    OPT_NQ,
    OPT_NK,
    OPT_Q_OFFSET,
    OPT_KV_LEN,
    OPT_PAIRS,
    OPT_TILES,
    OPT_SVG,
    OPT_HEADS,
    OPT_HEAD,
    OPT_ISA,
    OPT_ALGORITHM,
    OPT_INPUT, /* + INPUT_MASK ... */
};

static const struct option long_options[] = {
    {"pattern", required_argument, NULL, OPT_PATTERN},
    {"n", required_argument, NULL, OPT_N},
    {"nq", required_argument, NULL, OPT_NQ},
    {"nk", required_argument, NULL, OPT_NK},
    {"q-offset", required_argument, NULL, OPT_Q_OFFSET},
    {"kv-len", required_argument, NULL, OPT_KV_LEN},
    {"segments", required_argument, NULL, OPT_INPUT + INPUT_SEGMENTS},
    {"mask", required_argument, NULL, OPT_INPUT + INPUT_MASK},
    {"bias", required_argument, NULL, OPT_INPUT + INPUT_BIAS},
    {"pairs", no_argument, NULL, OPT_PAIRS},
    {"tiles", no_argument, NULL, OPT_TILES},
    {"svg", required_argument, NULL, OPT_SVG},
    {"heads", required_argument, NULL, OPT_HEADS},
    {"head", required_argument, NULL, OPT_HEAD},
    {"isa", required_argument, NULL, OPT_ISA},
    {"algorithm", required_argument, NULL, OPT_ALGORITHM},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool take_option(int option, show_options *o) {
    switch (option) {
    case OPT_PATTERN:
        o->pattern = optarg;
        return true;
    case OPT_N:
        return cli_int_option("n", optarg, 0, ATTN_MAX_SIZE, &o->n);
    case OPT_NQ:
        return cli_int_option("nq", optarg, 0, ATTN_MAX_SIZE, &o->queries);
    case OPT_NK:
        return cli_int_option("nk", optarg, 0, ATTN_MAX_SIZE, &o->keys);
    case OPT_Q_OFFSET:
        o->q_offset_given = true;
        return cli_int_option("q-offset", optarg, -ATTN_MAX_NUMBER, ATTN_MAX_NUMBER, &o->q_offset);
    case OPT_KV_LEN:
        o->kv_len_given = true;
        return cli_int_option("kv-len", optarg, 0, ATTN_MAX_SIZE, &o->kv_len);
    case OPT_PAIRS:
        o->pairs = true;
        return true;
    case OPT_TILES:
        o->tiles = true;
        return true;
    case OPT_SVG:
        o->svg = optarg;
        return true;
    case OPT_HEADS:
        return cli_int_option("heads", optarg, 1, 1 << 20, &o->heads);
    case OPT_HEAD:
        return cli_int_option("head", optarg, 0, (1 << 20) - 1, &o->head);
    case OPT_ISA:
        o->isa = optarg;
        return cli_isa_option(optarg);
    case OPT_ALGORITHM:
        o->algorithm_given = true;
        return cli_algorithm_option(optarg, &o->algorithm);
    default:
        o->inputs[option - OPT_INPUT] = optarg;
        return true;
    }
}

/* In words of the options: the library's own limit is one of FLOPs. */
static int check_size(const show_options *o) {
    int64_t pairs;
    if (!__builtin_mul_overflow(o->queries > 0 ? o->queries : 1, o->keys > 0 ? o->keys : 1, &pairs) &&
        pairs <= most_planned / o->heads)
        return CLI_FINE;
    int64_t n = 1;
    while (2 * n * 2 * n <= most_planned / o->heads)
        n *= 2;
    for (int64_t step = n / 2; step > 0; step /= 2)
        n += (n + step) * (n + step) <= most_planned / o->heads ? step : 0;
    return cli_error("%lld x %lld pairs%s are too many: expected at most 2^50 over all heads, as of --n %lld",
                     (long long)o->queries, (long long)o->keys, o->heads > 1 ? " of each head" : "",
                     (long long)n);
}

int cmd_show(int argc, char **argv) {
    show_options o = {.pattern = "dense", .isa = "auto", .n = 16, .queries = -1, .keys = -1, .heads = 1};
    for (int option; (option = cli_getopt(argc, argv, long_options)) != -1;) {
        if (option == 'h') {
            help();
            return CLI_FINE;
        }
        if (option == '?' || !take_option(option, &o))
            return CLI_USAGE;
    }
    o.queries = o.queries >= 0 ? o.queries : o.n;
    o.keys = o.keys >= 0 ? o.keys : o.n;
    if (o.head >= o.heads)
        return cli_error("--head %lld: expected 0 to %lld, a head of --heads %lld", (long long)o.head,
                         (long long)o.heads - 1, (long long)o.heads);
    if (o.kv_len > o.keys)
        return cli_error("--kv-len %lld: expected 0 to %lld, the number of keys", (long long)o.kv_len,
                         (long long)o.keys);
    const int status = check_size(&o);
    if (status != CLI_FINE)
        return status;
    if (o.pairs && (o.queries > PAIRS_MOST || o.keys > PAIRS_MOST))
        return cli_error(
            "--pairs: %lld x %lld pairs are too many to draw one by one; at most %d x %d, or use --tiles",
            (long long)o.queries, (long long)o.keys, PAIRS_MOST, PAIRS_MOST);
    if (o.svg && o.pairs && o.tiles)
        return cli_error("--svg: draws either --pairs or --tiles");
    return show(&o);
}
