/* Limits of the machine as JSON: the same words in result files, in `info --json` and in what that keeps.
 * What is not known is not there. */
#include "bench/roofline_json.h"

#include "dispatch/dispatch.h"

#include <math.h>
#include <string.h>

static void set_real(json_t *object, const char *key, double value) {
    if (isfinite(value) && value > 0)
        json_object_set_new(object, key, json_real(value));
}

static void set_bytes(json_t *object, const char *key, int64_t bytes) {
    if (bytes > 0)
        json_object_set_new(object, key, json_integer(bytes));
}

/* Adds what was begun with json_object or json_array; false without memory. */
static bool add(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0;
}

static bool add_isas(json_t *object, const roofline *r) {
    json_t *isas = json_object();
    bool added = add(object, "isa", isas);
    for (int i = 0; added && i < attn_isa_count() && i < ROOFLINE_MAX_ISA; i++) {
        const roofline_peak *peak = &r->peak[i];
        if (!(peak->gflops > 0))
            continue;
        json_t *isa = json_object();
        set_real(isa, "fma_gflops", peak->gflops);
        set_real(isa, "ghz", peak->ghz);
        set_real(isa, "fma_cpu_share", peak->cpu_share);
        set_real(isa, "exp_g", r->exp_g[i]);
        set_real(isa, "exp_cpu_share", r->exp_cpu_share[i]);
        added = add(isas, attn_isa_name(i), isa);
    }
    return added;
}

static bool add_levels(json_t *object, const roofline *r) {
    json_t *levels = json_object();
    bool added = add(object, "level", levels);
    for (int i = 0; added && i < ROOFLINE_LEVELS; i++) {
        const roofline_bandwidth *from = &r->level[i];
        if (!(from->read_gbs > 0))
            continue;
        json_t *level = json_object();
        set_bytes(level, "bytes", from->bytes);
        if (i < ROOFLINE_MEMORY)
            set_bytes(level, "holds_bytes", from->holds_bytes);
        set_real(level, "read_gbs", from->read_gbs);
        set_real(level, "read_cpu_share", from->read_cpu_share);
        set_real(level, "copy_gbs", from->copy_gbs);
        set_real(level, "copy_cpu_share", from->copy_cpu_share);
        added = add(levels, machine_level_key(i), level);
    }
    return added;
}

static bool add_readings(json_t *object, const roofline *r) {
    json_t *readings = json_array();
    bool added = add(object, "readings", readings);
    for (int i = 0; added && i < r->readings; i++) {
        json_t *reading = json_object();
        set_bytes(reading, "bytes", r->reading[i].bytes);
        set_real(reading, "gbs", r->reading[i].gbs);
        set_real(reading, "cpu_share", r->reading[i].cpu_share);
        added = json_array_append_new(readings, reading) == 0;
    }
    return added;
}

json_t *roofline_to_json(const roofline *r) {
    json_t *object = json_object();
    if (add(object, "threads", json_integer(r->threads)) && add(object, "bound", json_integer(r->bound)) &&
        add(object, "disturbed", json_boolean(roofline_disturbed(r))) && add_isas(object, r) &&
        add_levels(object, r) && add_readings(object, r))
        return object;
    json_decref(object);
    return NULL;
}

/* A number above 0, or 0 where it is not there: as written above. False for anything else. */
static bool read_number(const json_t *object, const char *key, double *value) {
    const json_t *number = json_object_get(object, key);
    *value = json_number_value(number);
    return !number || (json_is_number(number) && *value > 0);
}

static bool read_bytes(const json_t *object, const char *key, int64_t *bytes) {
    double value;
    const bool sound = read_number(object, key, &value) && value < 0x1p62;
    *bytes = sound ? (int64_t)value : 0;
    return sound;
}

static int level_of(const char *key) {
    for (int i = 0; i < ROOFLINE_LEVELS; i++) {
        if (strcmp(key, machine_level_key(i)) == 0)
            return i;
    }
    return -1;
}

static bool read_isas(json_t *isas, roofline *r) {
    const char *name;
    json_t *entry;
    bool sound = json_is_object(isas);
    json_object_foreach(isas, name, entry) {
        const int i = roofline_isa(name);
        if (i < 0 || i >= ROOFLINE_MAX_ISA)
            return false;
        roofline_peak *peak = &r->peak[i];
        sound = sound && read_number(entry, "fma_gflops", &peak->gflops) && peak->gflops > 0 &&
                read_number(entry, "ghz", &peak->ghz) &&
                read_number(entry, "fma_cpu_share", &peak->cpu_share) &&
                read_number(entry, "exp_g", &r->exp_g[i]) &&
                read_number(entry, "exp_cpu_share", &r->exp_cpu_share[i]);
    }
    return sound;
}

static bool read_levels(json_t *levels, roofline *r) {
    const char *key;
    json_t *entry;
    bool sound = json_is_object(levels);
    json_object_foreach(levels, key, entry) {
        const int i = level_of(key);
        if (i < 0)
            return false;
        roofline_bandwidth *level = &r->level[i];
        sound = sound && read_bytes(entry, "bytes", &level->bytes) && level->bytes > 0 &&
                (i == ROOFLINE_MEMORY || read_bytes(entry, "holds_bytes", &level->holds_bytes)) &&
                read_number(entry, "read_gbs", &level->read_gbs) && level->read_gbs > 0 &&
                read_number(entry, "copy_gbs", &level->copy_gbs) &&
                read_number(entry, "read_cpu_share", &level->read_cpu_share) &&
                read_number(entry, "copy_cpu_share", &level->copy_cpu_share);
    }
    return sound;
}

static bool read_readings(const json_t *readings, roofline *r) {
    size_t index;
    json_t *entry;
    bool sound = json_is_array(readings) && json_array_size(readings) <= ROOFLINE_MAX_READINGS;
    json_array_foreach(readings, index, entry) {
        if (!sound)
            return false;
        roofline_reading *reading = &r->reading[r->readings++];
        sound = read_bytes(entry, "bytes", &reading->bytes) && read_number(entry, "gbs", &reading->gbs) &&
                read_number(entry, "cpu_share", &reading->cpu_share);
    }
    return sound;
}

bool roofline_from_json(const json_t *object, roofline *r) {
    memset(r, 0, sizeof *r);
    const json_int_t threads = json_integer_value(json_object_get(object, "threads"));
    r->threads = (int)threads;
    r->bound = (int)json_integer_value(json_object_get(object, "bound"));
    return threads > 0 && threads <= ATTN_MAX_THREADS && read_isas(json_object_get(object, "isa"), r) &&
           read_levels(json_object_get(object, "level"), r) &&
           read_readings(json_object_get(object, "readings"), r);
}
