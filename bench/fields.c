/* Fields of a result file, set where there is something to say. */
#include "bench/session.h"

#include <math.h>

void bench_set_real(json_t *object, const char *key, double value) {
    /* json_real refuses what JSON cannot say. */
    if (isfinite(value))
        json_object_set_new(object, key, json_real(value));
}

void bench_set_text(json_t *object, const char *key, const char *value) {
    if (value && *value)
        json_object_set_new(object, key, json_string(value));
}

void bench_set_integer(json_t *object, const char *key, int64_t value) {
    json_object_set_new(object, key, json_integer(value));
}
