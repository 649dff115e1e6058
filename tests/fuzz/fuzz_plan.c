/* Plans for arbitrary problems: refused with one line, or counted without contradiction; and small ones
 * counted pair by pair, executed in parts and compared with the reference.
 *
 * The bytes are words `name=number` (fields of attn_problem, attn_pattern and attn_options, see `fields`) and
 * `pattern=TEXT`; a later word overrides an earlier one, what is none is passed over.
 */
#include "tests/fuzz/fuzz.h"

#include "attention/internal.h"
#include "reference/reference.h"

#include <stdlib.h>
#include <string.h>

/* ---- the problem ---- */

typedef struct fuzz_case {
    attn_problem problem;
    int64_t dtype, algorithm, isa; /* isa: a level's index; -1 for auto; no such level otherwise */
    int64_t inputs, terms;
    int64_t seed; /* of the data and the block map */
    int64_t map;  /* 0: no block map */
    int64_t parts;
    int64_t offset; /* added to the q_offsets, where there are any */
} fuzz_case;

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

/* ---- data ---- */

static uint64_t random_state;

/* Uniform in [0, 1), 24 bits. */
static float uniform(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(random_state >> 40) / 16777216;
}

static void *stored(int64_t count, attn_dtype dtype) {
    void *data = fuzz_alloc((size_t)count * attn_dtype_bytes(dtype));
    for (int64_t i = 0; i < count; i++) {
        const float value = 2 * uniform() - 1;
        if (dtype == ATTN_F32)
            ((float *)data)[i] = value;
        else
            ((uint16_t *)data)[i] = dtype == ATTN_F16 ? attn_f32_to_f16(value) : attn_f32_to_bf16(value);
    }
    return data;
}

static float *floats(int64_t count) {
    return stored(count, ATTN_F32);
}

static int64_t *integers(int64_t count, int64_t least, int64_t most) {
    int64_t *data = fuzz_alloc((size_t)count * sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = least + (int64_t)(uniform() * (float)(most - least + 1));
    return data;
}

static uint8_t *bytes(int64_t count) {
    uint8_t *data = fuzz_alloc((size_t)count);
    for (int64_t i = 0; i < count; i++)
        data[i] = uniform() < 0.5f ? 0 : (uint8_t)(1 + 254 * uniform());
    return data;
}

typedef struct fuzz_memory {
    attn_tensors tensors;
    void *owned[12];
    int count;
} fuzz_memory;

static void *keep(fuzz_memory *m, void *memory) {
    m->owned[m->count++] = memory;
    return memory;
}

/* A mask or bias (B, H, Nq, Nk) has an axis broadcast where a bit of the seed is set. */
static int64_t broadcast_strides(const attn_problem *p, int64_t seed, int64_t strides[4]) {
    const int64_t sizes[4] = {p->batch, p->heads, p->queries, p->keys};
    int64_t count = 1;
    for (int axis = 3; axis >= 0; axis--) {
        const bool one = seed >> axis & 1;
        strides[axis] = one ? 0 : count;
        count *= one ? 1 : sizes[axis];
    }
    return count;
}

static void fill(fuzz_memory *m, const fuzz_case *c) {
    const attn_problem *p = &c->problem;
    const int64_t rows = p->batch * p->heads * p->queries, key_rows = p->batch * p->kv_heads * p->keys;
    void *q = keep(m, stored(rows * p->head_dim, p->dtype));
    void *k = keep(m, stored(key_rows * p->head_dim, p->dtype));
    void *v = keep(m, stored(key_rows * p->value_dim, p->dtype));
    attn_tensors *t = &m->tensors;
    attn_tensors_init(t, p, q, k, v, keep(m, floats(rows * p->value_dim)));
    t->lse = keep(m, floats(rows));
    if (p->inputs & ATTN_HAS_KV_LENS)
        t->kv_lens = keep(m, integers(p->batch, 0, p->keys));
    if (p->inputs & ATTN_HAS_Q_OFFSETS) {
        int64_t *offsets = keep(m, integers(p->batch, -p->queries, p->keys));
        for (int64_t b = 0; b < p->batch; b++) {
            const int64_t most = (int64_t)1 << 60; /* what an execution takes */
            if (__builtin_add_overflow(offsets[b], c->offset, &offsets[b]))
                offsets[b] = c->offset;
            offsets[b] = attn_max(-most, attn_min(offsets[b], most));
        }
        t->q_offsets = offsets;
    }
    if (p->inputs & ATTN_HAS_SEGMENTS)
        t->segments = keep(m, integers(p->batch * p->keys, 0, 2));
    if (p->inputs & ATTN_HAS_MASK)
        t->mask = keep(m, bytes(broadcast_strides(p, c->seed, t->mask_strides)));
    if (p->inputs & ATTN_HAS_BIAS) {
        const int64_t count = broadcast_strides(p, c->seed >> 4, t->bias_strides);
        float *bias = keep(m, floats(count));
        for (int64_t i = 0; i < count; i++)
            if (bias[i] > 0.5f)
                bias[i] = -INFINITY;
        t->bias = bias;
    }
    if (p->inputs & ATTN_HAS_ALIBI)
        t->alibi_slopes = keep(m, floats(p->heads));
    if (p->inputs & ATTN_HAS_SINK_LOGIT)
        t->sink_logits = keep(m, floats(p->heads));
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
    random_state = (uint64_t)c->seed;
    fuzz_memory m = {.count = 0};
    fill(&m, c);
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
    while (m.count > 0)
        free(m.owned[--m.count]);
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
    const attn_options options = {c->isa != -1 && !isa ? "no-such-level" : isa, (attn_algorithm)c->algorithm};
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
        random_state = (uint64_t)c.map;
        pattern->block_map = map =
            bytes(pattern->block_heads * ceil_div(c.problem.queries, pattern->block_size) *
                  ceil_div(c.problem.keys, pattern->block_size));
    }
    plan_and_execute(&c);
    free(map);
    return 0;
}
