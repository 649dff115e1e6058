/* The matrix: every option x algorithm x ISA level x storage type x place is either right against the
 * reference or refused with a message that names the option (sglang#33603: an option silently ignored). */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/edges.h"
#include "tests/patterns.h"
#include "tests/topk.h"

/* ---- the options -------------------------------------------------------------------------------- */

/* One option. `text` is a pattern, `inputs` the tensors that come with it; `set` does what neither says. With
 * `name` a refusal must mention it. */
typedef struct option {
    const char *name;
    const char *text;
    uint32_t inputs;
    void (*set)(case_spec *spec);
    bool no_meaning; /* decides where and how tensors are stored, not what is computed from them */
} option;

static void set_softcap(case_spec *s) {
    s->softcap = 1.5f;
}
static void set_scale(case_spec *s) {
    s->scale = 0.9f;
}
static void set_negative_scale(case_spec *s) {
    s->scale = -0.4f;
}
static void set_grouped(case_spec *s) {
    s->kv_heads = 2;
}
static void set_single(case_spec *s) {
    s->kv_heads = 1;
}
static void set_value_dim(case_spec *s) {
    s->value_dim = 21;
}
static void set_gaps(case_spec *s) {
    s->layout = LAYOUT_GAPS;
}
static void set_interleaved(case_spec *s) {
    s->layout = LAYOUT_INTERLEAVED;
}
static void set_broadcast(case_spec *s) {
    s->layout = LAYOUT_BROADCAST;
}
static void set_blocks(case_spec *s) {
    s->pattern = (attn_pattern){.terms = ATTN_BLOCKS, .block_size = 11, .block_heads = 1};
}
static void set_blocks_per_head(case_spec *s) {
    set_blocks(s);
    s->pattern.block_heads = s->heads;
}

static const option options[] = {
    {.name = "plain", .no_meaning = true},
    {.name = "causal", .text = "causal"},
    {.name = "causal-top-left", .text = "causal-top-left"},
    {.name = "prefix", .text = "causal-top-left,prefix=30"},
    {.name = "chunk", .text = "chunk=13"},
    {.name = "window", .text = "window=9"},
    {.name = "window", .text = "window=3:70"},
    {.name = "window", .text = "window=inf:0"},
    {.name = "sink", .text = "sink=5"},
    {.name = "global", .text = "global=60"},
    {.name = "stride", .text = "stride=7"},
    {.name = "random", .text = "random=2:16:1"},
    {.name = "blocks", .set = set_blocks},
    {.name = "blocks", .set = set_blocks_per_head},
    {.name = "topk", .text = "topk=4"},
    {.name = "kv_lens", .inputs = ATTN_HAS_KV_LENS},
    {.name = "q_offsets", .text = "causal", .inputs = ATTN_HAS_Q_OFFSETS},
    {.name = "segments", .inputs = ATTN_HAS_SEGMENTS},
    {.name = "mask", .inputs = ATTN_HAS_MASK},
    {.name = "bias", .inputs = ATTN_HAS_BIAS},
    {.name = "alibi", .inputs = ATTN_HAS_ALIBI},
    {.name = "sink_logits", .inputs = ATTN_HAS_SINK_LOGIT},
    {.name = "softcap", .set = set_softcap},
    {.name = "scale", .set = set_scale},
    {.name = "scale", .set = set_negative_scale},
    {.name = "scale of zero"}, /* see make */
    {.name = "kv_heads", .set = set_grouped, .no_meaning = true},
    {.name = "kv_heads", .set = set_single, .no_meaning = true},
    {.name = "value_dim", .set = set_value_dim, .no_meaning = true},
    {.name = "row_stride", .set = set_gaps, .no_meaning = true},
    {.name = "head_stride", .set = set_interleaved, .no_meaning = true},
    {.name = "batch_stride", .set = set_broadcast, .no_meaning = true},
};

/* All that may be refused, and by whom. A new refusal must be added here, or the matrix fails. */
static bool is_refused(const option *o, attn_algorithm algorithm) {
    return algorithm == ATTN_FLASH && o->text && strstr(o->text, "topk");
}

static attention_case *make(const option *o, size_t place, attn_dtype dtype) {
    case_spec s = edge_spec(place);
    s.kv_heads = s.heads;
    s.value_dim = s.head_dim;
    s.dtype = dtype;
    s.inputs = o->inputs;
    s.place = (guard_place)((o - options) % GUARD_PLACES);
    if (o->text)
        s.pattern = edge_pattern(o->text);
    if (o->set)
        o->set(&s);
    attention_case *c = case_new(&s);
    if (!strcmp(o->name, "scale of zero"))
        c->problem.scale = 0; /* which case_spec takes for the default */
    test_rng rng = test_rng_start("matrix", place);
    float *bias = o->inputs & ATTN_HAS_BIAS ? edge_bias(c, 0) : NULL; /* one entry a pair */
    uint8_t *mask = o->inputs & ATTN_HAS_MASK ? edge_mask(c, 0) : NULL;
    for (int64_t n = 0; n < s.batch * edge_pair(c, 1, 0, 0, 0); n++) {
        if (bias)
            bias[n] = test_between(&rng, 0, 7) ? (float)test_normal(&rng) : -INFINITY;
        if (mask)
            mask[n] = (uint8_t)test_between(&rng, 0, 2);
    }
    for (int64_t b = 0; b < s.batch && (o->inputs & ATTN_HAS_KV_LENS); b++) /* some padding, some keys */
        ((int64_t *)c->kv_lens.data)[b] = s.keys / 3 + b * s.keys / 2;
    for (int64_t b = 0; b < s.batch && (o->inputs & ATTN_HAS_Q_OFFSETS); b++)
        ((int64_t *)c->q_offsets.data)[b] = b * 5;
    return c;
}

/* Fails if the option changes nothing: a test of it could not fail then. */
static void expect_meaning(const attention_case *c, const option *o) {
    attn_problem without = c->problem;
    without.pattern = (attn_pattern){0};
    without.inputs = 0;
    without.softcap = 0;
    without.scale = NAN;
    const int64_t count = c->spec.batch * c->spec.heads * c->spec.queries * c->spec.value_dim;
    double *plain = malloc((size_t)count * sizeof *plain);
    assert_non_null(plain);
    assert_true(ref_attention(&without, &c->tensors, &(ref_result){.out = plain}));
    int64_t changed = 0;
    for (int64_t n = 0; n < count; n++)
        changed += fabs(plain[n] - c->expected[n]) > 4 * c->tolerance[n];
    free(plain);
    if (changed == 0)
        test_fail("%s changes nothing", o->name);
}

/* ---- the matrix ------------------------------------------------------------------------------------- */

/* True if the case was refused with a message that names the option; fails the test on any other error. */
static bool refused(const attention_case *c, const char *isa, attn_algorithm algorithm, const option *o) {
    const attn_options how = {.isa = isa, .algorithm = algorithm};
    attn_plan *plan = NULL;
    attn_error error = {""};
    const attn_status status = attn_plan_create(&c->problem, &how, &plan, &error);
    if (status == ATTN_UNSUPPORTED) {
        assert_null(plan);
        if (!strstr(error.text, o->name) || !strstr(error.text, attn_algorithm_name(algorithm)))
            test_fail("%s is refused by %s with '%s', which does not name them", o->name,
                      attn_algorithm_name(algorithm), error.text);
        return true;
    }
    if (status != ATTN_OK)
        test_fail("%s with %s: status %d, '%s'", o->name, attn_algorithm_name(algorithm), status, error.text);
    attn_plan_destroy(plan);
    return false;
}

/* Guards: each cell of the matrix; and that the set of refusals is exactly the documented one. */
static void matrix(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    int cells = 0, refusals = 0;
    double used = 0;
    for (size_t n = 0; n < COUNT_OF(options); n++)
        for (size_t place = 0; place < COUNT_OF(edge_places); place++)
            for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++) {
                if ((test_quick() || place == 2) && (n + place + (size_t)dtype) % 3 != 0)
                    continue; /* long sequences with one storage type an option */
                const option *o = &options[n];
                attention_case *c = make(o, place, (attn_dtype)dtype);
                case_expect(c);
                if (!o->no_meaning && place == 1)
                    expect_meaning(c, o);
                if (c->problem.pattern.terms & ATTN_TOPK)
                    assert_true(topk_relax(c) * 8 <= c->spec.batch * c->spec.heads * c->spec.queries);
                for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                    const bool gone = refused(c, kernels->name, edge_algorithms[a], o);
                    if (gone != is_refused(o, edge_algorithms[a]))
                        test_fail("%s by %s: %s", o->name, attn_algorithm_name(edge_algorithms[a]),
                                  gone ? "refused, but listed as computed"
                                       : "computed, but listed as refused");
                    cells++;
                    refusals += gone;
                    if (gone)
                        continue;
                    case_execute(c, kernels->name, edge_algorithms[a], 1 + (int)(n % 3));
                    used = fmax(used, case_compare(c, kernels->name, edge_algorithms[a]));
                }
                case_free(c);
            }
    test_note("%s: %d cells, %d refused, used %.3f of the tolerance", kernels->name, cells, refusals, used);
}

/* Guards: `auto` computes every option, by an algorithm that says its name, and never refuses. */
static void automatic(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t n = 0; n < COUNT_OF(options); n++) {
        attention_case *c = make(&options[n], 1, ATTN_F32);
        const attn_info info = edge_info(c, kernels->name, ATTN_AUTO);
        assert_true(info.algorithm == ATTN_NAIVE || info.algorithm == ATTN_FLASH);
        assert_false(is_refused(&options[n], info.algorithm));
        case_free(c);
    }
}

static void drop_input(attn_tensors *t, uint32_t input) {
    t->kv_lens = input & ATTN_HAS_KV_LENS ? NULL : t->kv_lens;
    t->q_offsets = input & ATTN_HAS_Q_OFFSETS ? NULL : t->q_offsets;
    t->segments = input & ATTN_HAS_SEGMENTS ? NULL : t->segments;
    t->mask = input & ATTN_HAS_MASK ? NULL : t->mask;
    t->bias = input & ATTN_HAS_BIAS ? NULL : t->bias;
    t->alibi_slopes = input & ATTN_HAS_ALIBI ? NULL : t->alibi_slopes;
    t->sink_logits = input & ATTN_HAS_SINK_LOGIT ? NULL : t->sink_logits;
}

/* Guards: a plan made with a tensor refuses an execution without it, and the other way round, by name: no
 * input is ignored because it came at the wrong time. */
static void inputs_are_not_ignored(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const char *const names[] = {"kv_lens", "q_offsets",    "segments",   "mask",
                                        "bias",    "alibi_slopes", "sink_logits"};
    for (int bit = 0; bit < 7; bit++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            case_spec s = edge_spec(0);
            s.inputs = CASE_ALL_INPUTS;
            attention_case *c = case_new(&s);
            c->problem.inputs = CASE_ALL_INPUTS & ~(1u << bit);
            attn_plan *plan = edge_plan(c, kernels->name, edge_algorithms[a]);
            attn_error error = {""};
            assert_int_equal(attn_execute(plan, &c->tensors, NULL, 1, &error), ATTN_INVALID);
            assert_non_null(strstr(error.text, names[bit]));
            attn_plan_destroy(plan);
            c->problem.inputs = CASE_ALL_INPUTS;
            plan = edge_plan(c, kernels->name, edge_algorithms[a]);
            drop_input(&c->tensors, 1u << bit);
            assert_int_equal(attn_execute(plan, &c->tensors, NULL, 1, &error), ATTN_INVALID);
            assert_non_null(strstr(error.text, names[bit]));
            attn_plan_destroy(plan);
            case_free(c);
        }
}

/* Guards: log-sum-exp is optional: without it the output is the same in every bit. */
static void without_lse(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            case_spec s = edge_spec(place);
            s.inputs = ATTN_HAS_MASK | ATTN_HAS_SINK_LOGIT;
            attention_case *c = case_new(&s);
            edge_result with = edge_execute(c, kernels->name, edge_algorithms[a], 2);
            c->tensors.lse = NULL;
            edge_result without = edge_execute(c, kernels->name, edge_algorithms[a], 2);
            assert_memory_equal(with.out, without.out,
                                (size_t)(s.batch * s.heads * s.queries * s.value_dim) * sizeof(float));
            edge_free(&with);
            edge_free(&without);
            case_free(c);
        }
}

int main(void) {
    test_list list = {0};
    test_add_levels(&list, "matrix of options", matrix);
    test_add_levels(&list, "auto computes every option", automatic);
    test_add_levels(&list, "inputs are not ignored", inputs_are_not_ignored);
    test_add_levels(&list, "without log-sum-exp", without_lse);
    return test_run_list("options", &list);
}
