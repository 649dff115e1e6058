/* A tuning table: which algorithm was faster from which length on, for ATTN_AUTO to choose by. */
#include "attention/internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Patterns as the table knows them: by what they leave of the work, which is what tells algorithms apart. All
 * windows do that by their width alone; of the others, none speaks for another. */
typedef enum pattern_class { DENSE, CAUSAL, WINDOW, OTHER } pattern_class;

typedef struct tuning_pattern {
    pattern_class kind;
    int64_t width;  /* keys of a window; 1 of everything else */
    char text[160]; /* of OTHER: the canonical form */
} tuning_pattern;

typedef struct tuning_entry {
    char isa[16];
    attn_dtype dtype;
    tuning_pattern pattern;
    int64_t head_dim, value_dim, threads, from_n, to_n;
    attn_algorithm algorithm;
} tuning_entry;

struct attn_tuning {
    char machine[64];
    int64_t count;
    tuning_entry entry[];
};

/* False where a pattern is too long to be in a table. */
static bool describe(const attn_pattern *p, tuning_pattern *made) {
    const uint32_t causal = p->terms & (ATTN_CAUSAL | ATTN_CAUSAL_TOP_LEFT);
    const uint32_t selections = p->terms & ~(causal | ATTN_PREFIX);
    *made = (tuning_pattern){.kind = OTHER, .width = 1};
    if (!selections) {
        made->kind = causal ? CAUSAL : DENSE;
        return true;
    }
    /* Lengths are those of queries and keys alike, where both causal terms mean the same. */
    const int64_t right = causal ? 0 : p->window_right;
    if (selections == ATTN_WINDOW && !(p->terms & ATTN_PREFIX) && p->window_left != ATTN_WINDOW_INF &&
        right != ATTN_WINDOW_INF && p->window_left <= INT64_MAX - 1 - right) {
        made->kind = WINDOW;
        made->width = p->window_left + right + 1;
        return true;
    }
    const int length = attn_pattern_format(p, made->text, sizeof made->text);
    return length >= 0 && (size_t)length < sizeof made->text;
}

/* How far what was measured is from the problem's, as a factor of at least 1; 0 where more than 2. */
static double distance(int64_t measured, int64_t wanted) {
    const double factor =
        measured > wanted ? (double)measured / (double)wanted : (double)wanted / (double)measured;
    return factor <= 2 ? factor : 0;
}

/* Of two shapes that are equally far the smaller, by its first dimension that differs; 0: they are the same.
 */
static int order(const tuning_entry *a, const tuning_entry *b) {
    const int64_t of_a[] = {a->head_dim, a->value_dim, a->pattern.width};
    const int64_t of_b[] = {b->head_dim, b->value_dim, b->pattern.width};
    for (int i = 0; i < 3; i++) {
        if (of_a[i] != of_b[i])
            return of_a[i] < of_b[i] ? -1 : 1;
    }
    return 0;
}

attn_algorithm attn_tuning_choose(const attn_tuning *tuning, const attn_problem *problem, const char *isa,
                                  int threads) {
    tuning_pattern pattern;
    if (!tuning || !problem || !isa || problem->queries != problem->keys || problem->softcap > 0 ||
        problem->inputs || problem->value_dim < 1 || !describe(&problem->pattern, &pattern))
        return ATTN_AUTO;
    const tuning_entry *best = NULL;
    double best_distance = 0;
    for (int64_t i = 0; i < tuning->count; i++) {
        const tuning_entry *entry = &tuning->entry[i];
        if (strcmp(entry->isa, isa) != 0 || entry->dtype != problem->dtype ||
            entry->threads != (threads ? threads : 1) || entry->pattern.kind != pattern.kind ||
            strcmp(entry->pattern.text, pattern.text) != 0 || entry->from_n > problem->keys)
            continue;
        const double near = distance(entry->head_dim, problem->head_dim) *
                            distance(entry->value_dim, problem->value_dim) *
                            distance(entry->pattern.width, pattern.width);
        if (near == 0)
            continue;
        /* The nearest shape that was measured; of its entries the one that begins last. */
        const int beside = best && near == best_distance ? order(entry, best) : 1;
        if (!best || near < best_distance || beside < 0 || (beside == 0 && entry->from_n >= best->from_n)) {
            best = entry;
            best_distance = near;
        }
    }
    return best && problem->keys <= best->to_n ? best->algorithm : ATTN_AUTO;
}

const char *attn_tuning_machine(const attn_tuning *tuning) {
    return tuning ? tuning->machine : "";
}

void attn_tuning_free(attn_tuning *tuning) {
    free(tuning);
}

static attn_status wrong(const char *path, size_t index, const char *key, const char *accepted,
                         attn_error *error) {
    return attn_fail(error, ATTN_INVALID, "%s: tuning[%zu]: %s: expected %s", path, index, key, accepted);
}

/* A whole number from `min` up. */
static bool read_count(const json_t *object, const char *key, int64_t min, int64_t *value) {
    const json_t *number = json_object_get(object, key);
    *value = json_integer_value(number);
    return json_is_integer(number) && *value >= min;
}

static attn_status read_entry(const char *path, size_t index, const json_t *object, tuning_entry *entry,
                              attn_error *error) {
    const char *isa = json_string_value(json_object_get(object, "isa"));
    const char *dtype = json_string_value(json_object_get(object, "dtype"));
    const char *pattern = json_string_value(json_object_get(object, "pattern"));
    const char *algorithm = json_string_value(json_object_get(object, "algorithm"));
    /* A level that this build does not know is another machine's; it is never asked for. */
    if (!isa || !*isa || strlen(isa) >= sizeof entry->isa)
        return wrong(path, index, "isa", "the name of an ISA level", error);
    strcpy(entry->isa, isa);
    int which = 0;
    while (dtype && attn_dtype_name((attn_dtype)which) &&
           strcmp(attn_dtype_name((attn_dtype)which), dtype) != 0)
        which++;
    if (!dtype || !attn_dtype_name((attn_dtype)which))
        return wrong(path, index, "dtype", "f32, f16 or bf16", error);
    entry->dtype = (attn_dtype)which;
    attn_pattern parsed;
    if (!pattern || attn_pattern_parse(pattern, &parsed, NULL) != ATTN_OK ||
        !describe(&parsed, &entry->pattern))
        return wrong(path, index, "pattern", "a pattern without a file, of at most 159 letters", error);
    if (!algorithm || (strcmp(algorithm, "naive") != 0 && strcmp(algorithm, "flash") != 0))
        return wrong(path, index, "algorithm", "naive or flash", error);
    entry->algorithm = strcmp(algorithm, "naive") == 0 ? ATTN_NAIVE : ATTN_FLASH;
    if (!read_count(object, "head_dim", 1, &entry->head_dim))
        return wrong(path, index, "head_dim", "a whole number from 1 up", error);
    if (!read_count(object, "value_dim", 1, &entry->value_dim))
        return wrong(path, index, "value_dim", "a whole number from 1 up", error);
    if (!read_count(object, "from_n", 0, &entry->from_n))
        return wrong(path, index, "from_n", "a whole number from 0 up", error);
    if (!read_count(object, "to_n", 0, &entry->to_n))
        return wrong(path, index, "to_n", "a whole number from 0 up", error);
    if (!read_count(object, "threads", 1, &entry->threads))
        return wrong(path, index, "threads", "a whole number from 1 up", error);
    return ATTN_OK;
}

static attn_status read_table(const char *path, const json_t *file, attn_tuning **result, attn_error *error) {
    const json_t *analysis = json_object_get(file, "analysis");
    const json_t *list = json_object_get(analysis ? analysis : file, "tuning"), *object;
    if (!json_is_array(list))
        return attn_fail(
            error, ATTN_INVALID,
            "%s: has no tuning table; 'attnscope analyze' writes one into the results of 'attnscope bench'",
            path);
    attn_tuning *tuning = calloc(1, sizeof *tuning + json_array_size(list) * sizeof tuning->entry[0]);
    if (!tuning)
        return attn_fail(error, ATTN_NO_MEMORY, "no memory for a table of %zu entries",
                         json_array_size(list));
    size_t index;
    json_array_foreach(list, index, object) {
        const attn_status status = read_entry(path, index, object, &tuning->entry[index], error);
        if (status != ATTN_OK) {
            free(tuning);
            return status;
        }
    }
    tuning->count = (int64_t)json_array_size(list);
    const json_t *context = json_object_get(file, "context");
    const char *machine = json_string_value(json_object_get(context ? context : file, "fingerprint"));
    if (machine && strlen(machine) < sizeof tuning->machine)
        strcpy(tuning->machine, machine);
    *result = tuning;
    return ATTN_OK;
}

attn_status attn_tuning_load(const char *path, attn_tuning **tuning, attn_error *error) {
    if (!tuning)
        return attn_fail(error, ATTN_INVALID, "tuning is NULL");
    *tuning = NULL;
    if (!path)
        return attn_fail(error, ATTN_INVALID, "path is NULL");
    json_error_t fault;
    json_t *file = json_load_file(path, JSON_REJECT_DUPLICATES, &fault);
    if (!file && fault.line > 0)
        return attn_fail(error, ATTN_INVALID, "%s:%d: not JSON: %s", path, fault.line, fault.text);
    if (!file)
        return attn_fail(error, ATTN_INVALID, "%s", fault.text);
    const attn_status status = read_table(path, file, tuning, error);
    json_decref(file);
    return status;
}
