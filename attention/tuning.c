/* A tuning table: which algorithm was faster from which length on, for ATTN_AUTO to choose by. */
#include "attention/internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Patterns as the table knows them: by what they leave of the work, which is what tells algorithms apart. */
typedef enum pattern_class { DENSE, CAUSAL, WINDOW, SPARSE, PATTERN_CLASSES } pattern_class;

typedef struct tuning_entry {
    char isa[16];
    attn_dtype dtype;
    pattern_class pattern;
    int64_t head_dim, value_dim, from_n, to_n;
    attn_algorithm algorithm;
} tuning_entry;

struct attn_tuning {
    char machine[64];
    int64_t count;
    tuning_entry entry[];
};

static pattern_class class_of(uint32_t terms) {
    const uint32_t selections = terms & ~(uint32_t)(ATTN_CAUSAL | ATTN_CAUSAL_TOP_LEFT | ATTN_PREFIX);
    if (!selections)
        return terms & (ATTN_CAUSAL | ATTN_CAUSAL_TOP_LEFT) ? CAUSAL : DENSE;
    return selections == ATTN_WINDOW ? WINDOW : SPARSE;
}

/* How far measured dimensions are from those of the problem, as a factor of at least 1; 0 where more than 2.
 */
static double distance(int64_t measured, int64_t wanted) {
    const double factor =
        measured > wanted ? (double)measured / (double)wanted : (double)wanted / (double)measured;
    return factor <= 2 ? factor : 0;
}

attn_algorithm attn_tuning_choose(const attn_tuning *tuning, const attn_problem *problem, const char *isa) {
    if (!tuning || !problem || !isa || problem->queries != problem->keys || problem->softcap > 0 ||
        problem->inputs || problem->value_dim < 1)
        return ATTN_AUTO;
    const tuning_entry *best = NULL;
    double best_distance = 0;
    for (int64_t i = 0; i < tuning->count; i++) {
        const tuning_entry *entry = &tuning->entry[i];
        if (strcmp(entry->isa, isa) != 0 || entry->dtype != problem->dtype ||
            entry->pattern != class_of(problem->pattern.terms) || entry->from_n > problem->keys)
            continue;
        const double near =
            distance(entry->head_dim, problem->head_dim) * distance(entry->value_dim, problem->value_dim);
        if (near == 0)
            continue;
        /* The nearest shape that was measured; of its entries the one that begins last. */
        const bool nearer =
            !best || near < best_distance || (near == best_distance && entry->head_dim < best->head_dim);
        const bool same = best && near == best_distance && entry->head_dim == best->head_dim &&
                          entry->value_dim == best->value_dim;
        if (nearer || (same && entry->from_n >= best->from_n)) {
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

static const char *const class_names[PATTERN_CLASSES] = {"dense", "causal", "window", "sparse"};

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
                              bool *one_thread, attn_error *error) {
    const char *isa = json_string_value(json_object_get(object, "isa"));
    const char *dtype = json_string_value(json_object_get(object, "dtype"));
    const char *pattern = json_string_value(json_object_get(object, "pattern"));
    const char *algorithm = json_string_value(json_object_get(object, "algorithm"));
    int64_t threads;
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
    which = 0;
    while (pattern && which < PATTERN_CLASSES && strcmp(class_names[which], pattern) != 0)
        which++;
    if (!pattern || which == PATTERN_CLASSES)
        return wrong(path, index, "pattern", "dense, causal, window or sparse", error);
    entry->pattern = (pattern_class)which;
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
    if (!read_count(object, "threads", 1, &threads))
        return wrong(path, index, "threads", "a whole number from 1 up", error);
    *one_thread = threads == 1;
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
        /* A plan is made without knowing how many threads will execute it. */
        bool one_thread = false;
        const attn_status status =
            read_entry(path, index, object, &tuning->entry[tuning->count], &one_thread, error);
        if (status != ATTN_OK) {
            free(tuning);
            return status;
        }
        tuning->count += one_thread;
    }
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
