/* The fingerprint of a machine. */
#include "tests/fake_root.h"

#include <inttypes.h>

#include "tests/machines.h"

typedef struct field_log {
    uint64_t hash;
    int count;
    char names[32][32];
} field_log;

static void log_field(void *context, const char *name, const char *value) {
    field_log *log = context;
    char text[1024];
    int length = snprintf(text, sizeof text, "%s=%s\n", name, value);
    assert_true(length > 0 && (size_t)length < sizeof text);
    for (int i = 0; i < length; i++) {
        log->hash ^= (unsigned char)text[i];
        log->hash *= UINT64_C(1099511628211);
    }
    for (int i = 0; i < log->count; i++)
        assert_string_not_equal(log->names[i], name);
    assert_true(log->count < 32);
    snprintf(log->names[log->count++], 32, "%s", name);
}

/* Guards the fingerprint: it is the hash of its fields, the same from call to call and whatever part of
 * the machine is allowed, and another one on another machine. */
static void test_fingerprint(void **state) {
    machine *m = load(NULL);
    field_log log = {.hash = UINT64_C(14695981039346656037)};
    machine_fields(m, log_field, &log);
    char expected[17];
    snprintf(expected, sizeof expected, "%016" PRIx64, log.hash);
    assert_string_equal(m->fingerprint, expected);
    static const char *const needed[] = {"vendor",   "family", "model",    "stepping",   "microcode",
                                         "features", "caches", "topology", "hypervisor", "governor",
                                         "compiler", "flags",  "libc",     "library",    "schema"};
    for (size_t i = 0; i < COUNT_OF(needed); i++) {
        bool found = false;
        for (int j = 0; j < log.count; j++)
            found = found || strcmp(log.names[j], needed[i]) == 0;
        if (!found)
            test_fail("the fingerprint lacks %s", needed[i]);
    }
    machine *again = load(NULL);
    assert_string_equal(again->fingerprint, m->fingerprint);
    machine_free(again);
    machine_free(m);

    need_hwloc();
    machine *a = load(&(machine_options){.synthetic = TWO_SOCKETS, .hypervisor = -1});
    static const machine_options others[] = {
        {.synthetic = "package:2 l3:1(size=33554432) l2:4(size=2097152) l1d:1(size=32768) core:1 pu:2",
         .hypervisor = -1},
        {.synthetic = "package:1 l3:2(size=33554432) l2:4(size=1048576) l1d:1(size=32768) core:1 pu:2",
         .hypervisor = -1},
        {.synthetic = TWO_SOCKETS, .hypervisor = 1},
    };
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        machine *b = load(&others[i]);
        assert_string_not_equal(a->fingerprint, b->fingerprint);
        machine_free(b);
    }
    machine *part = load(&(machine_options){.synthetic = TWO_SOCKETS, .hypervisor = -1, .allowed = "3"});
    /* The governor is that of the allowed PUs; without one to read, nothing differs. */
    if (strcmp(part->governor, a->governor) == 0)
        assert_string_equal(part->fingerprint, a->fingerprint);
    machine_free(part);
    machine_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fingerprint)};
    return test_run("fingerprint", tests, COUNT_OF(tests));
}
