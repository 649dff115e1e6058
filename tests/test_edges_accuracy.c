/* Accuracy beyond a bound for each element: weights sum to 1, and errors do not lean to one side. At each ISA
 * level with each algorithm. */
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>

#include "tests/edges.h"

/* Guards: the weights of a row sum to 1 within n * eps: with V = 1 the output is their sum. Every kind of
 * data, over one tile, several and splits; a sink logit takes exactly the rest, as the log-sum-exp tells. */
static void weights_sum_to_one(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    double used = 0;
    for (size_t place = 0; place < COUNT_OF(edge_places); place++)
        for (int kind = 0; kind < DATA_KINDS; kind++)
            for (int sink = 0; sink < 2; sink++)
                for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                    case_spec s = edge_spec(place);
                    s.kind = (data_kind)kind;
                    s.pattern = edge_pattern(kind % 2 ? "causal" : "dense");
                    s.inputs = sink ? ATTN_HAS_SINK_LOGIT : 0;
                    attention_case *c = case_new(&s);
                    edge_fill(c, &c->tensors.v, 1);
                    case_execute(c, kernels->name, edge_algorithms[a], 1);
                    const float *sinks = c->sinks.data;
                    for (int64_t row = 0; row < s.batch * s.heads * s.queries; row++) {
                        const double lse = c->tensors.lse[row];
                        const double rest = sink ? exp((double)sinks[row / s.queries % s.heads] - lse) : 0;
                        /* The rest is known as well as the log-sum-exp is: a float of its size. */
                        const double eps = 0x1p-23,
                                     bound = ((double)s.keys + 10) * eps + rest * fabs(lse) * 2 * eps;
                        for (int64_t d = 0; d < s.value_dim; d++) {
                            const double error =
                                fabs((double)c->tensors.out[row * s.value_dim + d] + rest - 1);
                            if (!(error <= bound))
                                test_fail("%s: weights of row %d sum to %.9g, with %.9g for the sink",
                                          case_describe(&s), (int)row,
                                          (double)c->tensors.out[row * s.value_dim + d], rest);
                            used = fmax(used, error / bound);
                        }
                    }
                    case_free(c);
                }
    test_note("%s: used %.3f of n * eps", kernels->name, used);
}

/* ---- errors that lean ------------------------------------------------------------------------------------
 */

/* Errors of many outputs, each in units of u = 2^-24 of its size: their mean, and how well a mean of so many
 * is known if they lean to neither side. */
typedef struct lean {
    double mean, deviation;
} lean;

/* All columns of a row share its weights, whose errors may be the same for all: rows count as independent,
 * columns do not. */
static lean lean_of(const float *out, const double *expected, int64_t rows, int64_t columns) {
    double sum = 0, squares = 0;
    for (int64_t row = 0; row < rows; row++) {
        double error = 0;
        for (int64_t d = 0; d < columns; d++) {
            const double e = expected[row * columns + d];
            error += (out[row * columns + d] - e) / (0x1p-24 * e);
        }
        sum += error / (double)columns;
        squares += error * error / (double)(columns * columns);
    }
    const double n = (double)rows, mean = sum / n;
    return (lean){mean, sqrt((squares / n - mean * mean) / n)};
}

/* Rounding to nearest errs to both sides alike, so the mean of R rows' errors is 0 within their deviation
 * over sqrt(R): six of those are passed by chance once in 10^9 runs. Half a u is granted for what does not
 * average out: an exponential whose error has a mean is divided out of a softmax but for what differs between
 * weights. Truncating instead of rounding, once an output, would lean by a half to one u by itself, and in a
 * sum of n terms by n / 2 times as much. */
static bool leans(lean l) {
    return fabs(l.mean) > 6 * l.deviation + 0.5;
}

/* A case whose outputs all lie near 1, so that a common relative error of a row shows with one sign. */
static attention_case *lean_case(data_kind kind, int64_t queries, int64_t keys) {
    case_spec s = {.batch = 2,
                   .heads = 2,
                   .kv_heads = 2,
                   .queries = queries,
                   .keys = keys,
                   .head_dim = 32,
                   .value_dim = 8,
                   .kind = kind};
    attention_case *c = case_new(&s);
    test_rng rng = test_rng_start("lean", (uint64_t)kind);
    for (int64_t h = 0; h < 4; h++)
        for (int64_t j = 0; j < keys; j++)
            for (int64_t d = 0; d < s.value_dim; d++)
                case_set(c, &c->tensors.v, h / 2, h % 2, j, d, (float)(1 + test_uniform(&rng)));
    if (kind == DATA_RISING) /* whose queries are all the same: make their rows independent */
        for (int64_t row = 0; row < 4 * queries; row++)
            for (int64_t d = 0; d < s.head_dim; d++)
                case_set(c, &c->tensors.q, row / queries / 2, row / queries % 2, row % queries, d,
                         (float)(0.5 + test_uniform(&rng)));
    case_expect(c);
    return c;
}

/* Guards: errors do not lean to one side: a bias hides below a bound for each element, and grows with what it
 * is summed into. Ordinary scores and ones that rise, where every step rescales what was summed before. */
static void errors_do_not_lean(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    static const data_kind kinds[] = {DATA_NORMAL, DATA_UNIFORM, DATA_RISING, DATA_PEAKED};
    static const int64_t shapes[][2] = {{120, 300}, {8, 4200}};
    for (size_t shape = 0; shape < COUNT_OF(shapes); shape++)
        for (size_t k = 0; k < COUNT_OF(kinds); k++) {
            if (test_quick() && shape + k != 2)
                continue;
            attention_case *c = lean_case(kinds[k], shapes[shape][0], shapes[shape][1]);
            const int64_t rows = c->spec.batch * c->spec.heads * c->spec.queries;
            for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
                case_execute(c, kernels->name, edge_algorithms[a], 1);
                const double used = case_compare(c, kernels->name, edge_algorithms[a]);
                const lean l = lean_of(c->tensors.out, c->expected, rows, c->spec.value_dim);
                test_note("%s %s, %s, %d keys: mean error %+.3f +- %.3f u, used %.3f of the tolerance",
                          kernels->name, attn_algorithm_name(edge_algorithms[a]), data_kind_name[kinds[k]],
                          (int)c->spec.keys, l.mean, l.deviation, used);
                assert_false(leans(l));
            }
            case_free(c);
        }
}

/* Guards: the test above can fail: outputs that are right but truncated to float lean, and so do ones that
 * are all too large by one u. */
static void leaning_is_seen(void **state) {
    attention_case *c = lean_case(DATA_NORMAL, 120, 300);
    const int64_t rows = c->spec.batch * c->spec.heads * c->spec.queries, count = rows * c->spec.value_dim;
    float *out = malloc((size_t)count * sizeof *out);
    assert_non_null(out);
    for (int kind = 0; kind < 3; kind++) {
        for (int64_t n = 0; n < count; n++) {
            out[n] = (float)c->expected[n];
            if (kind == 1 && (double)out[n] > c->expected[n])
                out[n] = nextafterf(out[n], 0);
            if (kind == 2)
                out[n] = (float)(c->expected[n] * (1 + 0x1p-24));
        }
        const lean l = lean_of(out, c->expected, rows, c->spec.value_dim);
        test_note("%s: mean error %+.3f +- %.3f u",
                  kind == 0   ? "rounded"
                  : kind == 1 ? "truncated"
                              : "too large",
                  l.mean, l.deviation);
        assert_int_equal(leans(l), kind != 0);
    }
    free(out);
    case_free(c);
}

/* Guards: values are summed in blocks, not in one chain through all keys: a uniform average of equal values,
 * whose roundings all lean one way, errs with the keys of a block plus the number of blocks. With blocks of B
 * <= 256 keys the sums of weights and of values err by at most (B + n / B) * 2^-24 each, and a few roundings
 * more; one chain of these n errs by some n / 8 * 2^-24. */
static void long_sums_do_not_drift(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t n = test_quick() ? 16384 : 65536, queries = 12;
    float *zeros = calloc((size_t)n, sizeof *zeros), *values = malloc((size_t)n * sizeof *values);
    assert_non_null(zeros);
    assert_non_null(values);
    for (int64_t j = 0; j < n; j++)
        values[j] = 0.1f;
    for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
        attn_problem problem;
        attn_plan *plan;
        attn_tensors tensors;
        float out[12];
        attn_problem_init(&problem, 1, 1, 1, queries, n, 1, 1);
        const attn_options options = {.isa = kernels->name, .algorithm = edge_algorithms[a]};
        assert_int_equal(attn_plan_create(&problem, &options, &plan, NULL), ATTN_OK);
        attn_tensors_init(&tensors, &problem, zeros, zeros, values, out);
        assert_int_equal(attn_execute(plan, &tensors, NULL, 1, NULL), ATTN_OK);
        const double block = (double)kernels->key_block;
        const double bound = (2 * (block + (double)n / block) + 8) * 0x1p-24;
        for (int64_t i = 0; i < queries; i++) {
            const double error = fabs((double)out[i] / (double)values[0] - 1);
            if (!(error <= bound))
                test_fail("average of equal values is off by %.2g, more than %.2g", error, bound);
        }
        attn_plan_destroy(plan);
    }
    free(zeros);
    free(values);
}

/* Guards: exponentials are summed in short chains too. Small equal terms beside a peak that comes first all
 * round the same way: one chain of n errs by up to n / 2 units, here 2^-24. flash sums 16 vectors, their sums
 * within a step, and the steps; naive's softmax has at least four chains. */
static void small_terms_beside_a_peak(void **state) {
    const attn_kernels *kernels = test_kernels(state);
    const int64_t lanes = kernels->lanes, block = kernels->key_block, n = block - 1, queries = 12;
    float *keys = malloc((size_t)n * sizeof *keys), *ones = malloc((size_t)n * sizeof *ones);
    assert_non_null(keys);
    assert_non_null(ones);
    for (int64_t j = 0; j < n; j++)
        ones[j] = 1;
    for (int below = 40; below <= 64; below++) {
        const double t = below / 4.0;
        for (int64_t j = 0; j < n; j++)
            keys[j] = j == 0 ? 0 : -(float)t;
        const double expected = log1p((double)(n - 1) * exp(-t));
        for (size_t a = 0; a < EDGE_ALGORITHMS; a++) {
            attn_problem problem;
            attn_plan *plan;
            attn_tensors tensors;
            float out[12], lse[12];
            attn_problem_init(&problem, 1, 1, 1, queries, n, 1, 1);
            problem.scale = 1;
            const attn_options options = {.isa = kernels->name, .algorithm = edge_algorithms[a]};
            assert_int_equal(attn_plan_create(&problem, &options, &plan, NULL), ATTN_OK);
            attn_tensors_init(&tensors, &problem, ones, keys, ones, out);
            tensors.lse = lse;
            assert_int_equal(attn_execute(plan, &tensors, NULL, 1, NULL), ATTN_OK);
            const double vectors = (double)((n + lanes - 1) / lanes);
            const double chain = edge_algorithms[a] == ATTN_FLASH ? 16 + vectors / 16 : vectors / 4 + 4;
            /* Lanes are added pairwise; the logarithm, and the exponential's own error in all terms. */
            const double bound = (chain + log2((double)lanes) + 4) * 0x1p-24 + 2 * 0x1p-23 * expected;
            const double error = fabs((double)lse[0] - expected);
            if (!(error <= bound))
                test_fail("%s, terms of e^-%g: log-sum-exp is off by %.3g, more than %.3g",
                          attn_algorithm_name(edge_algorithms[a]), t, error, bound);
            attn_plan_destroy(plan);
        }
    }
    free(keys);
    free(ones);
}

int main(void) {
    test_list list = {0};
    test_add(&list, "leaning is seen", leaning_is_seen);
    test_add_levels(&list, "weights sum to one", weights_sum_to_one);
    test_add_levels(&list, "errors do not lean", errors_do_not_lean);
    test_add_levels(&list, "long sums do not drift", long_sums_do_not_drift);
    test_add_levels(&list, "small terms beside a peak", small_terms_beside_a_peak);
    return test_run_list("edges_accuracy", &list);
}
