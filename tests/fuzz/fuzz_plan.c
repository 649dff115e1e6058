/* Plans for arbitrary problems: refused with one line, or counted without contradiction; and small ones
 * counted pair by pair, executed in parts and compared with the reference.
 *
 * The bytes are words `name=number` (fields of attn_problem, attn_pattern and attn_options, see `fields`) and
 * `pattern=TEXT`; a later word overrides an earlier one, what is none is passed over.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plan_data.h"

#include "attention/internal.h"
#include "reference/reference.h"

#include <stdlib.h>
#include <string.h>

/* ---- the problem ---- */

static const struct {
    const char *name;
    size_t offset;
} fields[] = {
#define FIELD(name, member)                                                                                  \
    { name, offsetof(fuzz_case, member) }
    FIELD("batch", problem.batch),
    FIELD("heads", problem.heads),
    FIELD("kv_heads", problem.kv_heads),
    FIELD("queries", problem.queries),
    FIELD("keys", problem.keys),
    FIELD("head_dim", problem.head_dim),
    FIELD("value_dim", problem.value_dim),
    FIELD("dtype", dtype),
    FIELD("algorithm", algorithm),
    FIELD("isa", isa),
    FIELD("inputs", inputs),
    FIELD("terms", terms),
    FIELD("prefix", problem.pattern.prefix),
    FIELD("chunk", problem.pattern.chunk),
    FIELD("left", problem.pattern.window_left),
    FIELD("right", problem.pattern.window_right),
    FIELD("sink", problem.pattern.sink),
    FIELD("global", problem.pattern.global),
    FIELD("stride", problem.pattern.stride),
    FIELD("count", problem.pattern.random_count),
    FIELD("block", problem.pattern.random_block),
    FIELD("topk", problem.pattern.topk),
    FIELD("block_size", problem.pattern.block_size),
    FIELD("maps", problem.pattern.block_heads),
    FIELD("seed", seed),
    FIELD("map", map),
    FIELD("parts", parts),
    FIELD("offset", offset),
#undef FIELD
};

static void set_field(fuzz_case *c, const char *name, const char *value) {
    if (strcmp(name, "pattern") == 0) {
        attn_pattern pattern = c->problem.pattern;
        if (attn_pattern_parse(value, &pattern, NULL) == ATTN_OK) {
            c->problem.pattern = pattern;
            c->terms = pattern.terms;
        }
    } else if (strcmp(name, "scale") == 0) {
        c->problem.scale = strtof(value, NULL);
    } else if (strcmp(name, "softcap") == 0) {
        c->problem.softcap = strtof(value, NULL);
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(name, fields[i].name) == 0) {
            const int64_t number = strtoll(value, NULL, 0);
            memcpy((char *)c + fields[i].offset, &number, sizeof number);
        }
}

static fuzz_case read_case(char *text) {
    fuzz_case c = {.isa = -1, .seed = 1, .map = 1, .parts = 1};
    attn_problem_init(&c.problem, 1, 1, 1, 4, 4, 4, 4);
    c.problem.pattern.block_size = c.problem.pattern.block_heads = 1;
    char *rest;
    for (char *word = strtok_r(text, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
        char *equals = strchr(word, '=');
        if (!equals)
            continue;
        *equals = 0;
        set_field(&c, word, equals + 1);
    }
    c.problem.dtype = (attn_dtype)c.dtype;
    c.problem.inputs = (uint32_t)c.inputs;
    c.problem.pattern.terms = (uint32_t)c.terms;
    c.problem.pattern.random_seed = (uint64_t)c.seed;
    return c;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/* A correct plan takes time with the queries, and with the blocks of keys of each: which of them fit here. */
static bool affordable(const attn_problem *p) {
    const attn_pattern *pattern = &p->pattern;
    const bool maps = pattern->terms & ATTN_BLOCKS;
    const int64_t rows = attn_max(p->queries, 1);
    int64_t blocks = 1; /* of keys, for each query */
    if (pattern->terms & ATTN_RANDOM)
        blocks += ceil_div(p->keys, pattern->random_block);
    if (maps)
        blocks += ceil_div(p->keys, pattern->block_size);
    int64_t work;
    return !__builtin_mul_overflow(rows, blocks, &work) &&
           !__builtin_mul_overflow(work, maps ? pattern->block_heads : 1, &work) && work <= 1 << 15;
}

/* ---- checks ---- */

/* The counts of a plan do not contradict each other. */
static void check_info(const attn_problem *p, const attn_info *info, attn_algorithm asked) {
    FUZZ_CHECK(attn_isa_check(info->isa, NULL) == ATTN_OK, "isa %s", info->isa);
    FUZZ_CHECK(info->algorithm == ATTN_NAIVE || info->algorithm == ATTN_FLASH, "%d", (int)info->algorithm);
    FUZZ_CHECK(asked == ATTN_AUTO || info->algorithm == asked, "%d", (int)info->algorithm);
    FUZZ_CHECK(info->query_tile >= 1 && info->key_tile >= 1, "%lld x %lld", (long long)info->query_tile,
               (long long)info->key_tile);
    const fuzz_wide matrices = (fuzz_wide)p->batch * p->heads;
    const fuzz_wide tiles =
        matrices * ceil_div(p->queries, info->query_tile) * ceil_div(p->keys, info->key_tile);
    FUZZ_CHECK(info->pairs_dense == matrices * p->queries * p->keys, "%lld", (long long)info->pairs_dense);
    FUZZ_CHECK(info->tiles_full >= 0 && info->tiles_partial >= 0 && info->tiles_absent >= 0 &&
                   info->tiles_full + info->tiles_partial + info->tiles_absent == tiles,
               "%lld full, %lld partial, %lld absent", (long long)info->tiles_full,
               (long long)info->tiles_partial, (long long)info->tiles_absent);
    FUZZ_CHECK(0 <= info->pairs_useful && info->pairs_useful <= info->pairs_executed &&
                   info->pairs_executed <= info->pairs_dense,
               "%lld useful, %lld executed, %lld dense", (long long)info->pairs_useful,
               (long long)info->pairs_executed, (long long)info->pairs_dense);
    if (info->algorithm == ATTN_NAIVE && !(p->pattern.terms & ATTN_TOPK))
        FUZZ_CHECK(info->pairs_executed == info->pairs_dense, "%lld", (long long)info->pairs_executed);
    FUZZ_CHECK(info->workspace_bytes >= 0, "%lld", (long long)info->workspace_bytes);
}

/* Output and log-sum-exp within the reference's tolerance. */
static void compare(const fuzz_case *c, const attn_tensors *t) {
    const attn_problem *p = &c->problem;
    const int64_t rows = p->batch * p->heads * p->queries;
    const size_t outs = (size_t)(rows * p->value_dim), lses = (size_t)rows;
    ref_result r = {.out = fuzz_alloc(outs * sizeof(double)),
                    .out_tolerance = fuzz_alloc(outs * sizeof(double)),
                    .lse = fuzz_alloc(lses * sizeof(double)),
                    .lse_tolerance = fuzz_alloc(lses * sizeof(double))};
    FUZZ_CHECK(ref_attention(p, t, &r), "no memory");
    for (size_t i = 0; i < outs; i++)
        FUZZ_CHECK(fabs((double)t->out[i] - r.out[i]) <= r.out_tolerance[i], "out[%zu] is %.9g, not %.9g", i,
                   (double)t->out[i], r.out[i]);
    for (size_t i = 0; i < lses; i++)
        FUZZ_CHECK((double)t->lse[i] == r.lse[i] || /* infinities */
                       fabs((double)t->lse[i] - r.lse[i]) <= r.lse_tolerance[i],
                   "lse[%zu] is %.9g, not %.9g", i, (double)t->lse[i], r.lse[i]);
    free(r.out);
    free(r.out_tolerance);
    free(r.lse);
    free(r.lse_tolerance);
}

static int64_t attended(const attn_problem *p, const attn_tensors *t) {
    int64_t total = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t i = 0; i < p->queries; i++) {
                int64_t row = 0;
                for (int64_t j = 0; j < p->keys; j++)
                    row += ref_attended(p, t, b, h, i, j);
                total += p->pattern.terms & ATTN_TOPK ? attn_min(row, p->pattern.topk) : row;
            }
    return total;
}

static void check_counts(const attn_problem *p, const attn_tensors *t, const attn_info *info,
                         const attn_counts *counts) {
    FUZZ_CHECK(counts->pairs_executed >= counts->pairs_useful, "%lld pairs executed, %lld useful",
               (long long)counts->pairs_executed, (long long)counts->pairs_useful);
    const uint32_t data =
        ATTN_HAS_KV_LENS | ATTN_HAS_Q_OFFSETS | ATTN_HAS_SEGMENTS | ATTN_HAS_MASK | ATTN_HAS_BIAS;
    if (p->inputs & data) {
        const int64_t useful = attended(p, t);
        FUZZ_CHECK(counts->pairs_useful == useful, "%lld useful pairs, not %lld",
                   (long long)counts->pairs_useful, (long long)useful);
        return;
    }
    FUZZ_CHECK(counts->tiles_full == info->tiles_full && counts->pairs_useful == info->pairs_useful,
               "executed %lld full tiles and %lld useful pairs; planned %lld and %lld",
               (long long)counts->tiles_full, (long long)counts->pairs_useful, (long long)info->tiles_full,
               (long long)info->pairs_useful);
    FUZZ_CHECK(counts->tiles_partial == info->tiles_partial && counts->pairs_executed == info->pairs_executed,
               "executed %lld partial tiles and %lld pairs; planned %lld and %lld",
               (long long)counts->tiles_partial, (long long)counts->pairs_executed,
               (long long)info->tiles_partial, (long long)info->pairs_executed);
}

/* In parts, one after another, each in the same workspace. */
static void execute(const fuzz_case *c, const attn_plan *plan) {
    const attn_info info = attn_plan_info(plan);
    const int parts = (int)attn_max(1, attn_min(c->parts, 8));
    fuzz_tensors m = fuzz_tensors_new(c);
    attn_counts counts = {0};
    m.tensors.counts = &counts;
    void *workspace = NULL;
    attn_error error;
    FUZZ_CHECK(posix_memalign(&workspace, ATTN_ALIGN_BYTES, (size_t)attn_max(info.workspace_bytes, 1)) == 0,
               "no memory for a workspace of %lld bytes", (long long)info.workspace_bytes);
    for (int part = 0; part < parts; part++)
        FUZZ_CHECK(attn_execute_part(plan, &m.tensors, workspace, part, parts, &error) == ATTN_OK, "%s",
                   error.text);
    check_counts(&c->problem, &m.tensors, &info, &counts);
    /* With topk, close scores may be ranked either way: its sums are left to tests that keep a gap between
     * them. So are scores that far positions put beyond what float32 tells apart. */
    const bool far = c->problem.inputs & ATTN_HAS_ALIBI && c->problem.inputs & ATTN_HAS_Q_OFFSETS &&
                     (c->offset > 4096 || c->offset < -4096);
    if (!(c->problem.pattern.terms & ATTN_TOPK) && !far)
        compare(c, &m.tensors);
    free(workspace);
    fuzz_tensors_free(&m);
}

static bool small(const attn_problem *p) {
    const int64_t sizes[] = {attn_max(p->batch, 1), p->heads, attn_max(p->queries, 1), attn_max(p->keys, 1),
                             p->head_dim + p->value_dim};
    int64_t work = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (__builtin_mul_overflow(work, sizes[i], &work))
            return false;
    /* Where scores leave the range in which float32 and double agree on what is finite, nothing is compared.
     */
    return work <= 1 << 16 && p->queries <= 256 && p->keys <= 4096 && !(fabsf(p->scale) > 64) &&
           (p->softcap == 0 || (p->softcap > 1e-3f && p->softcap < 1e6f));
}

static void plan_and_execute(const fuzz_case *c) {
    const attn_problem *p = &c->problem;
    const char *isa = c->isa == -1 ? NULL : attn_isa_name(c->isa < 0 || c->isa > 99 ? 99 : (int)c->isa);
    const attn_options options = {.isa = c->isa != -1 && !isa ? "no-such-level" : isa,
                                  .algorithm = (attn_algorithm)c->algorithm};
    const bool possible = options.isa == NULL || attn_isa_check(options.isa, NULL) == ATTN_OK;
    const bool algorithm = options.algorithm == ATTN_AUTO || options.algorithm == ATTN_NAIVE ||
                           (options.algorithm == ATTN_FLASH && !(p->pattern.terms & ATTN_TOPK));
    attn_plan *plan;
    attn_error error;
    const attn_status status = attn_plan_create(p, &options, &plan, &error);
    FUZZ_CHECK((status == ATTN_OK) == !!plan, "status %d", (int)status);
    if (status != ATTN_OK) {
        fuzz_check_error(error.text, sizeof error.text);
        FUZZ_CHECK(!possible || !algorithm || (status == ATTN_UNSUPPORTED && !small(p)), "refused: %s",
                   error.text);
        return;
    }
    FUZZ_CHECK(possible && algorithm, "a plan for what is impossible");
    const attn_info info = attn_plan_info(plan);
    check_info(p, &info, options.algorithm);
    if (small(p)) {
        const int64_t pairs = ref_count_pairs(p);
        FUZZ_CHECK(info.pairs_useful == pairs, "%lld pairs planned, %lld counted",
                   (long long)info.pairs_useful, (long long)pairs);
        if (p->pattern.terms & ATTN_TOPK) {
            attn_problem all = *p; /* that topk chooses among */
            all.pattern.terms &= ~(uint32_t)ATTN_TOPK;
            FUZZ_CHECK(info.pairs_executed == ref_count_pairs(&all), "%lld pairs to choose among",
                       (long long)info.pairs_executed);
        }
        execute(c, plan);
    }
    attn_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    fuzz_case c = read_case(text);
    free(text);
    /* Until the rest is known to be right, the map only has to be there. */
    static const uint8_t any;
    attn_pattern *pattern = &c.problem.pattern;
    pattern->block_map = c.map ? &any : NULL;
    attn_error error;
    const attn_status status = attn_problem_check(&c.problem, &error);
    if (status != ATTN_OK) {
        attn_plan *plan = (attn_plan *)&c; /* anything but NULL */
        fuzz_check_error(error.text, sizeof error.text);
        FUZZ_CHECK(attn_plan_create(&c.problem, NULL, &plan, NULL) == status && !plan, "%s", error.text);
        return 0;
    }
    if (!affordable(&c.problem))
        return 0;
    uint8_t *map = NULL;
    if (pattern->terms & ATTN_BLOCKS) {
        pattern->block_map = map = fuzz_block_map(&c);
    }
    plan_and_execute(&c);
    free(map);
    return 0;
}
