#include "tests/support.h"

#include "tests/edges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const attn_algorithm edge_algorithms[EDGE_ALGORITHMS] = {ATTN_NAIVE, ATTN_FLASH};
const edge_place edge_places[EDGE_PLACES] = {
    {"one tile", 7, 7}, {"several tiles", 70, 150}, {"split keys", 3, 4200}};

case_spec edge_spec(size_t place) {
    return (case_spec){.batch = 2,
                       .heads = 4,
                       .kv_heads = 2,
                       .queries = edge_places[place].queries,
                       .keys = edge_places[place].keys,
                       .head_dim = 9,
                       .value_dim = 5};
}

attn_pattern edge_pattern(const char *text) {
    attn_pattern pattern;
    attn_error error = {""};
    if (attn_pattern_parse(text, &pattern, &error) != ATTN_OK)
        test_fail("%s: %s", text, error.text);
    return pattern;
}

attn_plan *edge_plan(const attention_case *c, const char *isa, attn_algorithm algorithm) {
    const attn_options options = {.isa = isa, .algorithm = algorithm};
    attn_plan *plan = NULL;
    attn_error error = {""};
    if (attn_plan_create(&c->problem, &options, &plan, &error) != ATTN_OK)
        test_fail("%s: %s", case_describe(&c->spec), error.text);
    return plan;
}

attn_info edge_info(const attention_case *c, const char *isa, attn_algorithm algorithm) {
    attn_plan *plan = edge_plan(c, isa, algorithm);
    const attn_info info = attn_plan_info(plan);
    attn_plan_destroy(plan);
    return info;
}

int64_t edge_pair(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    return ((b * c->spec.heads + h) * c->spec.queries + i) * c->spec.keys + j;
}

static void edge_full_strides(const attention_case *c, int64_t strides[4]) {
    strides[3] = 1;
    strides[2] = c->spec.keys;
    strides[1] = c->spec.queries * strides[2];
    strides[0] = c->spec.heads * strides[1];
}

uint8_t *edge_mask(attention_case *c, uint8_t value) {
    const int64_t entries = c->spec.batch * edge_pair(c, 1, 0, 0, 0);
    guard_free(&c->mask);
    c->mask = guard_new((size_t)entries, c->spec.place, 1);
    memset(c->mask.data, value, (size_t)entries);
    c->tensors.mask = c->mask.data;
    edge_full_strides(c, c->tensors.mask_strides);
    return c->mask.data;
}

float *edge_bias(attention_case *c, float value) {
    const int64_t entries = c->spec.batch * edge_pair(c, 1, 0, 0, 0);
    guard_free(&c->bias);
    c->bias = guard_new((size_t)entries * sizeof(float), c->spec.place, sizeof(float));
    float *bias = c->bias.data;
    for (int64_t n = 0; n < entries; n++)
        bias[n] = value;
    c->tensors.bias = bias;
    edge_full_strides(c, c->tensors.bias_strides);
    return bias;
}

void edge_fill(attention_case *c, const attn_tensor *tensor, float value) {
    const bool query = tensor == &c->tensors.q, key = tensor == &c->tensors.k;
    for (int64_t b = 0; b < c->spec.batch; b++)
        for (int64_t h = 0; h < (query ? c->spec.heads : c->spec.kv_heads); h++)
            for (int64_t r = 0; r < (query ? c->spec.queries : c->spec.keys); r++)
                for (int64_t d = 0; d < (query || key ? c->spec.head_dim : c->spec.value_dim); d++)
                    case_set(c, tensor, b, h, r, d, value);
}

edge_result edge_take(const attention_case *c) {
    const case_spec *s = &c->spec;
    const int64_t rows = s->batch * s->heads * s->queries;
    edge_result r = {malloc((size_t)(rows * s->value_dim + 1) * sizeof(float)),
                     malloc((size_t)(rows + 1) * sizeof(float))};
    assert_true(r.out && r.lse);
    for (int64_t n = 0; n < rows && s->value_dim > 0; n++)
        memcpy(r.out + n * s->value_dim,
               case_out(c, n / s->queries / s->heads, n / s->queries % s->heads, n % s->queries),
               (size_t)s->value_dim * sizeof(float));
    if (rows > 0)
        memcpy(r.lse, c->lse.data, (size_t)rows * sizeof(float));
    return r;
}

edge_result edge_execute(attention_case *c, const char *isa, attn_algorithm algorithm, int threads) {
    case_execute(c, isa, algorithm, threads);
    return edge_take(c);
}

void edge_free(edge_result *r) {
    free(r->out);
    free(r->lse);
    *r = (edge_result){0};
}

bool edge_same(float a, float b) {
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

void edge_expect_same(const attention_case *c, const edge_result *a, const edge_result *b, const char *what) {
    const int64_t rows = c->spec.batch * c->spec.heads * c->spec.queries, dim = c->spec.value_dim;
    for (int64_t n = 0; n < rows * dim; n++)
        if (!edge_same(a->out[n], b->out[n]))
            test_fail("%s: %s: out[%d] is %.9g and %.9g", what, case_describe(&c->spec), (int)n,
                      (double)a->out[n], (double)b->out[n]);
    for (int64_t n = 0; n < rows; n++)
        if (!edge_same(a->lse[n], b->lse[n]))
            test_fail("%s: %s: lse[%d] is %.9g and %.9g", what, case_describe(&c->spec), (int)n,
                      (double)a->lse[n], (double)b->lse[n]);
}

attention_case *edge_weights(const case_spec *spec) {
    case_spec s = *spec;
    s.value_dim = s.keys;
    attention_case *c = case_new(&s);
    edge_fill(c, &c->tensors.q, 0);
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t h = 0; h < s.kv_heads; h++)
            for (int64_t j = 0; j < s.keys; j++)
                for (int64_t d = 0; d < s.keys; d++)
                    case_set(c, &c->tensors.v, b, h, j, d, j == d);
    return c;
}

void edge_expect_drawn(const attention_case *c, int64_t b, int64_t h, int64_t i, const char *drawn) {
    const float *row = case_out(c, b, h, i);
    int count = 0;
    for (int64_t j = 0; j < c->spec.keys; j++)
        count += drawn[j] == '#';
    for (int64_t j = 0; j < c->spec.keys; j++) {
        const bool right =
            drawn[j] == '#' ? fabs(row[j] * (double)count - 1) <= (count + 4) * 0x1p-23 : row[j] == 0;
        if (!right)
            test_fail("%s: weight of query %d, key %d is %.9g, drawn %s", case_describe(&c->spec), (int)i,
                      (int)j, (double)row[j], drawn);
    }
}

bool edge_has(edge_effect effect, float before, float after, bool lse) {
    switch (effect) {
    case EDGE_NONE:
        return edge_same(before, after);
    case EDGE_NAN:
        return isnan(after);
    case EDGE_NOT_FINITE:
        return !isfinite(after);
    case EDGE_ZERO:
        return lse ? after == -INFINITY : after == 0;
    case EDGE_ANY:
        break;
    }
    return true;
}

int64_t edge_check_case(attention_case *c, const char *isa, const char *what, edge_poison *poison,
                        edge_traces *traces) {
    const case_spec *s = &c->spec;
    edge_result before[EDGE_ALGORITHMS];
    int64_t changed = 0;
    for (size_t a = 0; a < EDGE_ALGORITHMS; a++)
        before[a] = edge_execute(c, isa, edge_algorithms[a], 1);
    poison(c);
    case_expect(c);
    for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
        edge_result after = edge_execute(c, isa, edge_algorithms[a], 1);
        case_compare(c, isa, edge_algorithms[a]);
        for (int64_t row = 0; row < s->batch * s->heads * s->queries; row++)
            for (int64_t d = -1; d < s->value_dim; d++) {
                const int64_t at = d < 0 ? row : row * s->value_dim + d;
                const float old = d < 0 ? before[a].lse[at] : before[a].out[at];
                const float now = d < 0 ? after.lse[at] : after.out[at];
                const int64_t i = row % s->queries, h = row / s->queries % s->heads;
                const edge_effect effect = traces(c, row / s->queries / s->heads, h, i, d);
                changed += effect != EDGE_NONE;
                if (!edge_has(effect, old, now, d < 0))
                    test_fail("%s, %s %s %s: head %d row %d column %d was %.9g, is %.9g, effect %d", what,
                              isa, attn_algorithm_name(edge_algorithms[a]), case_describe(s), (int)h, (int)i,
                              (int)d, (double)old, (double)now, effect);
            }
        edge_free(&before[a]);
        edge_free(&after);
    }
    case_free(c);
    return changed;
}
