/* `attnscope eval`: attention on the user's own tensors. */
#include "bench/machine.h"
#include "cli/commands.h"
#include "cli/eval.h"
#include "cli/team.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void help(void) {
    puts(
        "Usage: attnscope eval --q Q.npy --k K.npy --v V.npy --out O.npy [OPTION]...\n"
        "\n"
        "Computes out = softmax(scale * Q K^T + bias, over the attended keys) V.\n"
        "\n"
        "Q, K and V are (B, H, N, D), (H, N, D) or (N, D), in C order, float16, float32 or float64 (which\n"
        "is narrowed to float32). K and V may have fewer heads (a divisor of H), another length than Q, and\n"
        "V another last dimension Dv. The output is float32 with Q's leading shape and Dv.\n"
        "\n"
        "  --q, --k, --v FILE   the tensors; what is read may be a pipe, as of <(command)\n"
        "  --out FILE           the result; it takes the file's place, so /dev/stdout is refused\n"
        "  --lse FILE           log-sum-exp of each row's scores: float32, Q's shape without D\n"
        "  --weights FILE       the attention matrix as the chosen algorithm and level compute it: float32,\n"
        "                       (B, H, Nq, Nk), without the dimensions that Q has not. Rows sum to 1, or\n"
        "                       less with a sink logit, or are zeros; 0 where not attended, NaN in NaN "
        "rows.\n"
        "                       At most 2^26 elements, fewer for Nk above 8192: each takes Nk steps\n"
        "  --mask-out FILE      the effective mask: bool, (B, H, Nq, Nk), B and H of size 1 where nothing\n"
        "                       given varies over them; not for topk\n"
        "  --explain            what ran and what was in force, as 'key: value' lines on standard output\n"
        "\n"
        "  --pattern TERMS      dense (default), or terms joined by commas: causal, causal-top-left,\n"
        "                       prefix=P, chunk=C, window=W, window=L:R, sink=S, global=G, stride=T,\n"
        "                       random=R:B:SEED, blocks=FILE:B, topk=K; 'attnscope show' draws them\n"
        "  --scale X            factor of the scores, any finite number (1/sqrt(D))\n"
        "  --softcap X          scores become X * tanh(score / X); X above 0\n"
        "  --alibi              subtracts slope * |distance|: 2^(-8h/H) for head h = 1..H; where H is no "
        "power\n"
        "                       of two, those of the power n below, then 2^(-4/n), 2^(-12/n), 2^(-20/n) ...\n"
        "  --bias FILE          added to the scores: floats that broadcast to (B, H, Nq, Nk) like NumPy,\n"
        "                       aligned on the right: three dimensions are (H, Nq, Nk), never (B, Nq, Nk),\n"
        "                       two are (Nq, Nk); -inf masks, no finite number does\n"
        "  --mask FILE          bool, true = attend; broadcasts like --bias\n"
        "  --kv-lens FILE       integers (B,), or () for all: keys at or past the length are padding\n"
        "  --q-offsets FILE     integers (B,), or () for all: query i stands at position i + offset among\n"
        "                       the keys\n"
        "  --segments FILE      integers (B, Nk) or (Nk,): only equal ids attend each other\n"
        "  --sink-logit FILE    floats (H,), or () for all: one more term in each row's denominator\n"
        "  --layout LAYOUT      bhnd (default), or bnhd: tensors are (B, N, H, D) or (N, H, D), output and\n"
        "                       log-sum-exp alike; weights, mask and bias stay (B, H, Nq, Nk)\n"
        "\n"
        "  --dtype TYPE         f32 (default), f16 or bf16: Q, K and V are rounded to it, from float32 to\n"
        "                       nearest even, and stored so\n"
        "  --algorithm NAME     auto (default), naive or flash\n"
        "  --tuning FILE        results that 'attnscope analyze' has been over: 'auto' takes the algorithm "
        "that\n"
        "                       was faster there at this level, type, length, pattern and number of "
        "threads,\n"
        "                       where it was measured, and flash elsewhere\n"
        "  --isa LEVEL          auto (default), or one that 'attnscope info' lists\n"
        "  --threads N          1 (default) to 1024; the result does not depend on it\n"
        "  --help               this page\n"
        "\n"
        "Examples:\n"
        "  .venv/bin/python -c \"import numpy as n; r = n.random.default_rng(1); \\\n"
        "  [n.save(f + '.npy', r.standard_normal((8, 1000, 64), 'f')) for f in 'QKV']\"\n"
        "  attnscope eval --q Q.npy --k K.npy --v V.npy --out O.npy\n"
        "  attnscope eval --q Q.npy --k K.npy --v V.npy --out O.npy --pattern causal,window=256 --explain\n"
        "  attnscope eval --q Q.npy --k K.npy --v V.npy --out O.npy --isa scalar --weights W.npy");
}

enum {
    OPT_Q = 256,
    OPT_K,
    OPT_V,
    OPT_OUT,
    OPT_LSE,
    OPT_MASK_OUT,
    OPT_WEIGHTS,
    OPT_EXPLAIN,
    OPT_PATTERN,
    OPT_SCALE,
    OPT_SOFTCAP,
    OPT_ALIBI,
    OPT_LAYOUT,
    OPT_DTYPE,
    OPT_ALGORITHM,
    OPT_TUNING,
    OPT_ISA,
    OPT_THREADS,
    OPT_INPUT, /* + INPUT_BIAS ... */
};

static const struct option long_options[] = {
    {"q", required_argument, NULL, OPT_Q},
    {"k", required_argument, NULL, OPT_K},
    {"v", required_argument, NULL, OPT_V},
    {"out", required_argument, NULL, OPT_OUT},
    {"lse", required_argument, NULL, OPT_LSE},
    {"mask-out", required_argument, NULL, OPT_MASK_OUT},
    {"weights", required_argument, NULL, OPT_WEIGHTS},
    {"explain", no_argument, NULL, OPT_EXPLAIN},
    {"pattern", required_argument, NULL, OPT_PATTERN},
    {"scale", required_argument, NULL, OPT_SCALE},
    {"softcap", required_argument, NULL, OPT_SOFTCAP},
    {"alibi", no_argument, NULL, OPT_ALIBI},
    {"bias", required_argument, NULL, OPT_INPUT + INPUT_BIAS},
    {"mask", required_argument, NULL, OPT_INPUT + INPUT_MASK},
    {"kv-lens", required_argument, NULL, OPT_INPUT + INPUT_KV_LENS},
    {"q-offsets", required_argument, NULL, OPT_INPUT + INPUT_Q_OFFSETS},
    {"segments", required_argument, NULL, OPT_INPUT + INPUT_SEGMENTS},
    {"sink-logit", required_argument, NULL, OPT_INPUT + INPUT_SINK_LOGIT},
    {"layout", required_argument, NULL, OPT_LAYOUT},
    {"dtype", required_argument, NULL, OPT_DTYPE},
    {"algorithm", required_argument, NULL, OPT_ALGORITHM},
    {"tuning", required_argument, NULL, OPT_TUNING},
    {"isa", required_argument, NULL, OPT_ISA},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* One option into `o`; false after printing what is wrong with its value. */
static bool take_option(int option, eval_options *o) {
    int64_t threads;
    switch (option) {
    case OPT_Q:
        o->q = optarg;
        return true;
    case OPT_K:
        o->k = optarg;
        return true;
    case OPT_V:
        o->v = optarg;
        return true;
    case OPT_OUT:
        o->out = optarg;
        return true;
    case OPT_LSE:
        o->lse = optarg;
        return true;
    case OPT_MASK_OUT:
        o->mask_out = optarg;
        return true;
    case OPT_WEIGHTS:
        o->weights = optarg;
        return true;
    case OPT_EXPLAIN:
        o->explain = true;
        return true;
    case OPT_PATTERN:
        o->pattern = optarg;
        return true;
    case OPT_SCALE:
        return cli_float_option("scale", optarg, &o->scale);
    case OPT_SOFTCAP:
        if (!cli_float_option("softcap", optarg, &o->softcap))
            return false;
        if (o->softcap <= 0) /* also what is too small for float32, since the API takes 0 for none */
            cli_error("--softcap '%s': expected a number above 0; leave the option out for no cap", optarg);
        return o->softcap > 0;
    case OPT_ALIBI:
        o->alibi = true;
        return true;
    case OPT_LAYOUT:
        o->bnhd = strcmp(optarg, "bnhd") == 0;
        if (!o->bnhd && strcmp(optarg, "bhnd") != 0) {
            cli_error("--layout '%s': expected bhnd or bnhd", optarg);
            return false;
        }
        return true;
    case OPT_DTYPE:
        return cli_dtype_option(optarg, &o->dtype);
    case OPT_ALGORITHM:
        return cli_algorithm_option(optarg, &o->algorithm);
    case OPT_TUNING:
        o->tuning = optarg;
        return true;
    case OPT_ISA:
        o->isa = optarg;
        return cli_isa_option(optarg);
    case OPT_THREADS:
        if (!cli_int_option("threads", optarg, 1, ATTN_MAX_THREADS, &threads))
            return false;
        o->threads = (int)threads;
        return true;
    default:
        o->inputs[option - OPT_INPUT] = optarg;
        return true;
    }
}

static bool load_tuning(const char *path, attn_tuning **tuning) {
    machine *here = machine_load(NULL, NULL);
    if (!here) {
        cli_error("not enough memory");
        return false;
    }
    const bool loaded = cli_tuning_option(path, here->fingerprint, tuning);
    machine_free(here);
    return loaded;
}

/* Loads, plans, executes, writes. */
static int evaluate(const eval_options *options, eval_data *data, eval_outputs *outputs) {
    if (!eval_prepare(options, outputs) || !eval_load(options, data) ||
        !eval_spares(outputs, data->pattern.block_file))
        return CLI_USAGE;

    attn_plan *plan;
    attn_error error;
    attn_options how = {.isa = options->isa, .algorithm = options->algorithm, .threads = options->threads};
    attn_tuning *tuning = NULL;
    if (options->tuning && !load_tuning(options->tuning, &tuning))
        return CLI_USAGE;
    how.tuning = tuning;
    const attn_status planned = attn_plan_create(&data->problem, &how, &plan, &error);
    if (planned != ATTN_OK) {
        attn_tuning_free(tuning);
        return cli_error("%s", error.text);
    }
    attn_info info = attn_plan_info(plan);
    data->tuned = options->algorithm == ATTN_AUTO &&
                  attn_tuning_choose(tuning, &data->problem, info.isa, how.threads) == info.algorithm;
    attn_tuning_free(tuning);
    attn_status status =
        attn_execute_on(cli_team, plan, &data->tensors, NULL, options->threads, &data->threads_used, &error);
    attn_plan_destroy(plan);
    if (status != ATTN_OK)
        return cli_error("%s", error.text);
    if (options->weights && !eval_weights(options, &info, data))
        return CLI_USAGE;
    if (!eval_write(options, data, &info, outputs))
        return CLI_USAGE;
    if (cli_team_had())
        cli_error("warning: --threads %d: only %d could be had here (a limit on processes or memory); "
                  "the result is the same",
                  options->threads, cli_team_had());
    return CLI_FINE;
}

int cmd_eval(int argc, char **argv) {
    eval_options options = {.pattern = "dense", .isa = "auto", .scale = NAN, .threads = 1};
    for (int option; (option = cli_getopt(argc, argv, long_options)) != -1;) {
        if (option == 'h') {
            help();
            return CLI_FINE;
        }
        if (option == '?' || !take_option(option, &options))
            return CLI_USAGE;
    }
    const struct {
        const char *name, *value;
    } needed[] = {{"q", options.q}, {"k", options.k}, {"v", options.v}, {"out", options.out}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (!needed[i].value)
            return cli_error("--%s is missing; --q, --k, --v and --out are needed", needed[i].name);
    }

    static eval_outputs outputs;
    eval_data data = {0};
    int code = evaluate(&options, &data, &outputs);
    eval_free(&data);
    return code;
}
