/* Limits of cgroups, and the parsers of /proc and /sys, on directories made for the purpose. */
#include "tests/fake_root.h"

#include <limits.h>
#include <math.h>

#include "bench/machine.h"
#include "bench/quota.h"
#include "bench/steal.h"
#include "bench/sysfs.h"

#define MOUNT_V2 "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
#define MOUNT_V1 "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"

typedef struct file {
    const char *name, *text;
} file;

typedef struct group_case {
    const char *what;
    file files[8];
    double cpus; /* 0: no limit */
    int threads; /* 0: INT_MAX */
    int version;
    const char *source;
} group_case;

static const group_case cases[] = {
    {"nothing at all", {{0}}, 0, 0, 0, ""},
    {"version 2, at the usual place, no table of mounts",
     {{"/sys/fs/cgroup/cpu.max", "150000 100000\n"}},
     1.5,
     2,
     2,
     "/sys/fs/cgroup/cpu.max"},
    {"version 2, own group",
     {{"/proc/self/cgroup", "0::/user/job\n"},
      {"/proc/self/mountinfo", MOUNT_V2},
      {"/sys/fs/cgroup/user/job/cpu.max", "300000 100000\n"}},
     3,
     3,
     2,
     "/sys/fs/cgroup/user/job/cpu.max"},
    {"version 2, a parent is tighter",
     {{"/proc/self/cgroup", "0::/user/job/step\n"},
      {"/proc/self/mountinfo", MOUNT_V2},
      {"/sys/fs/cgroup/user/job/step/cpu.max", "800000 100000\n"},
      {"/sys/fs/cgroup/user/job/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/user/cpu.max", "50000 100000\n"}},
     0.5,
     1,
     2,
     "/sys/fs/cgroup/user/cpu.max"},
    {"version 2, a group beside ours does not count",
     {{"/proc/self/cgroup", "0::/user/job\n"},
      {"/proc/self/mountinfo", MOUNT_V2},
      {"/sys/fs/cgroup/user/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/user/job2/cpu.max", "100000 100000\n"}},
     0,
     0,
     0,
     ""},
    {"version 2, inside a namespace: the own group looks like the root",
     {{"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", MOUNT_V2},
      {"/sys/fs/cgroup/cpu.max", "250000 100000\n"}},
     2.5,
     3,
     2,
     "/sys/fs/cgroup/cpu.max"},
    {"version 2, outside the namespace: only the mount itself is seen",
     {{"/proc/self/cgroup", "0::/../../other\n"},
      {"/proc/self/mountinfo", MOUNT_V2},
      {"/sys/fs/cgroup/cpu.max", "200000 100000\n"}},
     2,
     2,
     2,
     "/sys/fs/cgroup/cpu.max"},
    {"version 2, outside the namespace without a table of mounts",
     {{"/proc/self/cgroup", "0::/..\n"},
      {"/sys/fs/cgroup/cpu.max", "200000 100000\n"},
      {"/sys/fs/cpu.max", "100000 100000\n"}},
     2,
     2,
     2,
     "/sys/fs/cgroup/cpu.max"},
    {"version 2, outside the namespace, on a mount that is made there",
     {{"/proc/self/cgroup", "0::/../other/job\n"},
      {"/proc/self/mountinfo", "31 23 0:28 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
      {"/sys/fs/cgroup/other/job/cpu.max", "300000 100000\n"},
      {"/sys/fs/cgroup/cpu.max", "max 100000\n"}},
     3,
     3,
     2,
     "/sys/fs/cgroup/other/job/cpu.max"},
    {"version 2, outside that mount too",
     {{"/proc/self/cgroup", "0::/../../job\n"},
      {"/proc/self/mountinfo", "31 23 0:28 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
      {"/sys/fs/job/cpu.max", "100000 100000\n"},
      {"/sys/fs/cgroup/cpu.max", "400000 100000\n"}},
     4,
     4,
     2,
     "/sys/fs/cgroup/cpu.max"},
    {"version 2, names that only begin with dots",
     {{"/proc/self/cgroup", "0::/..job/...\n"},
      {"/proc/self/mountinfo", MOUNT_V2},
      {"/sys/fs/cgroup/..job/.../cpu.max", "300000 100000\n"},
      {"/sys/fs/cgroup/..job/cpu.max", "700000 100000\n"}},
     3,
     3,
     2,
     "/sys/fs/cgroup/..job/.../cpu.max"},
    {"version 1",
     {{"/proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n0::/\n"},
      {"/proc/self/mountinfo", MOUNT_V1},
      {"/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "150000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
     1.5,
     2,
     1,
     "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us"},
    {"version 1, no limit",
     {{"/proc/self/cgroup", "4:cpu,cpuacct:/\n"},
      {"/proc/self/mountinfo", MOUNT_V1},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
     0,
     0,
     0,
     ""},
    {"version 1, a container that sees only its own group: the path of the host is the mount's root",
     {{"/proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n"},
      {"/proc/self/mountinfo",
       "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpuacct,cpu\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
     4,
     4,
     1,
     "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"},
    {"both versions: the tighter one",
     {{"/proc/self/cgroup", "4:cpu,cpuacct:/\n0::/\n"},
      {"/proc/self/mountinfo", MOUNT_V1 "38 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "500000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/unified/cpu.max", "200000 100000\n"}},
     2,
     2,
     2,
     "/sys/fs/cgroup/unified/cpu.max"},
    {"a mount with a blank in its name",
     {{"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", "31 23 0:28 / /sys/fs/c\\040group rw shared:4 - cgroup2 cgroup2 rw\n"},
      {"/sys/fs/c group/cpu.max", "100000 100000\n"}},
     1,
     1,
     2,
     "/sys/fs/c group/cpu.max"},
    {"a controller whose name ends in cpu is another one",
     {{"/proc/self/cgroup", "4:vcpu:/x\n"},
      {"/proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/vcpu rw - cgroup cgroup rw,vcpu\n"},
      {"/sys/fs/cgroup/vcpu/x/cpu.cfs_quota_us", "100000\n"},
      {"/sys/fs/cgroup/vcpu/x/cpu.cfs_period_us", "100000\n"}},
     0,
     0,
     0,
     ""},
    {"malformed: words", {{"/sys/fs/cgroup/cpu.max", "many few\n"}}, 0, 0, 0, ""},
    {"malformed: one number", {{"/sys/fs/cgroup/cpu.max", "100000\n"}}, 0, 0, 0, ""},
    {"malformed: three numbers", {{"/sys/fs/cgroup/cpu.max", "1 2 3\n"}}, 0, 0, 0, ""},
    {"malformed: zero period", {{"/sys/fs/cgroup/cpu.max", "100000 0\n"}}, 0, 0, 0, ""},
    {"malformed: negative quota", {{"/sys/fs/cgroup/cpu.max", "-5 100000\n"}}, 0, 0, 0, ""},
    {"malformed: does not fit in 64 bits",
     {{"/sys/fs/cgroup/cpu.max", "99999999999999999999 100000\n"}},
     0,
     0,
     0,
     ""},
    {"malformed: empty", {{"/sys/fs/cgroup/cpu.max", ""}}, 0, 0, 0, ""},
    {"tiny: one thread is always allowed",
     {{"/sys/fs/cgroup/cpu.max", "1000 100000\n"}},
     0.01,
     1,
     2,
     "/sys/fs/cgroup/cpu.max"},
    {"huge", {{"/sys/fs/cgroup/cpu.max", "9000000000000000000 1\n"}}, 9e18, 0, 2, "/sys/fs/cgroup/cpu.max"},
};

static void write_files(const fake_root *root, const file *files, size_t count) {
    for (size_t i = 0; i < count && files[i].name; i++)
        fake_root_write(root, files[i].name, files[i].text);
}

/* Guards the number of threads in a container: ignoring its quota once cost a factor of 45, and obeying a
 * limit that is not there would be as wrong. */
static void test_cpu_quota(void **state) {
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const group_case *c = &cases[i];
        fake_root root = fake_root_make();
        write_files(&root, c->files, COUNT_OF(c->files));
        cpu_quota quota = quota_read(root.path);
        int threads = quota_threads(&quota), expected = c->threads ? c->threads : INT_MAX;
        fake_root_remove(&root);
        if (fabs(quota.cpus - c->cpus) > 1e-9 * c->cpus || threads != expected ||
            quota.version != c->version || strcmp(quota.source, c->source) != 0)
            test_fail("%s: %g CPUs, %d threads, version %d, '%s'; expected %g, %d, %d, '%s'", c->what,
                      quota.cpus, threads, quota.version, quota.source, c->cpus, expected, c->version,
                      c->source);
    }
}

/* Guards the size of buffers in a container with little memory. */
static void test_memory_limit(void **state) {
    static const struct {
        file files[4];
        int64_t bytes;
    } limits[] = {
        {{{0}}, INT64_MAX},
        {{{"/sys/fs/cgroup/memory.max", "max\n"}}, INT64_MAX},
        {{{"/sys/fs/cgroup/memory.max", "536870912\n"}}, 536870912},
        {{{"/proc/self/cgroup", "0::/a/b\n"},
          {"/proc/self/mountinfo", MOUNT_V2},
          {"/sys/fs/cgroup/a/b/memory.max", "1000000\n"},
          {"/sys/fs/cgroup/a/memory.max", "900000\n"}},
         900000},
        {{{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
         INT64_C(9223372036854771712)},
        {{{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "123456789\n"}}, 123456789},
    };
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        fake_root root = fake_root_make();
        write_files(&root, limits[i].files, COUNT_OF(limits[i].files));
        int64_t bytes = quota_memory_bytes(root.path);
        fake_root_remove(&root);
        if (bytes != limits[i].bytes)
            test_fail("case %zu: %lld bytes, expected %lld", i, (long long)bytes, (long long)limits[i].bytes);
    }
}

/* Guards the way from the cgroup to the number that users see, by option and by environment. */
static void test_usable_threads(void **state) {
    fake_root root = fake_root_make();
    fake_root_write(&root, "/sys/fs/cgroup/cpu.max", "150000 100000\n");
    fake_root_write(&root, "/sys/devices/system/cpu/online", "0-7\n");
    machine_options options = {.root = root.path, .without_hwloc = true, .allowed = "0-7"};
    attn_error error = {{0}};
    machine *m = machine_load(&options, &error);
    if (!m)
        test_fail("%s", error.text);
    assert_int_equal(m->allowed_pus, 8);
    assert_int_equal(m->usable_threads, 2);
    assert_int_equal(m->default_threads, 2);
    machine_free(m);

    options.allowed = "5"; /* fewer than the quota */
    m = machine_load(&options, &error);
    assert_non_null(m);
    assert_int_equal(m->usable_threads, 1);
    machine_free(m);

    const char *saved = getenv("ATTNSCOPE_FSROOT");
    assert_null(saved);
    setenv("ATTNSCOPE_FSROOT", root.path, 1);
    options.root = NULL;
    options.allowed = "0-7";
    m = machine_load(&options, &error);
    unsetenv("ATTNSCOPE_FSROOT");
    assert_non_null(m);
    assert_int_equal(m->usable_threads, 2);
    machine_free(m);
    fake_root_remove(&root);
}

/* Guards the parsers: nothing that is not exactly a number, a size or a list passes for one. */
static void test_parsers(void **state) {
    static const char *const bad_numbers[] = {"",
                                              "-",
                                              "+1",
                                              " 1",
                                              "1 ",
                                              "0x10",
                                              "1.0",
                                              "11",
                                              "-1",
                                              "abc",
                                              "9223372036854775808",
                                              "-9223372036854775809"};
    int64_t value = 77;
    for (size_t i = 0; i < COUNT_OF(bad_numbers); i++)
        if (sysfs_parse_int(bad_numbers[i], 0, 10, &value))
            test_fail("'%s' passes for a number in 0..10", bad_numbers[i]);
    assert_int_equal(value, 77);
    assert_true(sysfs_parse_int("-3", -5, 5, &value));
    assert_int_equal(value, -3);
    assert_true(sysfs_parse_int("010", 0, 10, &value));
    assert_int_equal(value, 10);

    static const char *const bad_sizes[] = {
        "", "K", "0", "0K", "-1K", "1k", "1KB", "1 K", "K1", "1T", "9223372036854775807K"};
    for (size_t i = 0; i < COUNT_OF(bad_sizes); i++)
        if (sysfs_parse_bytes(bad_sizes[i], &value))
            test_fail("'%s' passes for a size", bad_sizes[i]);
    static const struct {
        const char *text;
        int64_t bytes;
    } sizes[] = {{"48K", 49152}, {"32M", 33554432}, {"2G", INT64_C(2) << 30}, {"512", 512}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        assert_true(sysfs_parse_bytes(sizes[i].text, &value));
        assert_int_equal(value, sizes[i].bytes);
    }

    static const char *const bad_lists[] = {"",     ",",    "1,", ",1",  "1-",     "-1",          "3-1",
                                            "1--2", "1,,2", "a",  "1 2", "0-8192", "99999999999", "1-2-3"};
    sysfs_cpus cpus;
    for (size_t i = 0; i < COUNT_OF(bad_lists); i++)
        if (sysfs_parse_cpus(bad_lists[i], &cpus) || sysfs_count_cpus(&cpus) != 0)
            test_fail("'%s' passes for a CPU list", bad_lists[i]);
    assert_int_equal(sysfs_first_cpu(&cpus), -1);
    assert_true(sysfs_parse_cpus("3-5,0,63-65,8191", &cpus));
    assert_int_equal(sysfs_count_cpus(&cpus), 8);
    assert_int_equal(sysfs_first_cpu(&cpus), 0);
    static const int members[] = {0, 3, 4, 5, 63, 64, 65, 8191};
    for (size_t i = 0; i < COUNT_OF(members); i++)
        assert_true(sysfs_has_cpu(&cpus, members[i]));
    assert_false(sysfs_has_cpu(&cpus, 1));
    assert_false(sysfs_has_cpu(&cpus, -1));
    assert_false(sysfs_has_cpu(&cpus, 8192));
}

/* Guards reading: lines that are too long, empty or not text are not there; so are missing files. */
static void test_lines(void **state) {
    fake_root root = fake_root_make();
    fake_root_write(&root, "/good", "on demand\nmore\n");
    fake_root_write(&root, "/bare", "12345678"); /* no newline at the end */
    fake_root_write(&root, "/empty", "");
    fake_root_write(&root, "/blank", "\n");
    fake_root_write(&root, "/binary",
                    "a\x01"
                    "b\n");
    char text[11];
    assert_true(sysfs_line(text, sizeof text, root.path, "/%s", "good"));
    assert_string_equal(text, "on demand");
    assert_true(sysfs_line(text, sizeof text, root.path, "/bare"));
    assert_string_equal(text, "12345678");
    static const char *const bad[] = {"/long2", "/empty", "/blank", "/binary", "/none"};
    fake_root_write(&root, "/long2", "1234567890123\n");
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (sysfs_line(text, sizeof text, root.path, "%s", bad[i]))
            test_fail("%s is read as '%s'", bad[i], text);
        assert_string_equal(text, "");
    }
    fake_root_remove(&root);
}

/* Guards time that was stolen: of the CPUs asked for and no other; and that what says nothing of one of them,
 * or is no such table, is not taken for none. */
static void test_steal(void **state) {
    fake_root root = fake_root_make();
    const int both[] = {0, 10}, one[] = {1}, other[] = {0, 2};
    assert_true(steal_ns(root.path, one, 1) == -1);
    fake_root_write(&root, "/proc/stat",
                    "cpu  9 0 9 9 9 0 9 762 1 2\ncpu0 1 0 1 1 1 0 1 366 1 2\ncpu1 1 0 1 1 1 0 1 0 0 0\n"
                    "cpu10 1 0 1 1 1 0 1 396 5 6\nintr 1 2 3\ncpu2 1 1 1 1 1 1 1 5\n");
    const int64_t tick = steal_tick_ns();
    assert_true(tick > 0 && tick <= 1000000000);
    assert_true(steal_ns(root.path, both, 2) == 762 * tick);
    assert_true(steal_ns(root.path, one, 1) == 0);
    assert_true(steal_ns(root.path, other, 2) == -1);
    static const char *const wrong[] = {"cpu1 1 2 3 4 5 6 7\n",    "cpu1 a b c d e f g 3\n",
                                        "cpu1x 1 2 3 4 5 6 7 8\n", "",
                                        "cpu1 1 2 3 4 5 6 7 -8\n", "cpu  1 2 3 4 5 6 7 8\n"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        fake_root_write(&root, "/proc/stat", wrong[i]);
        assert_true(steal_ns(root.path, one, 1) == -1);
    }
    fake_root_remove(&root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_quota),      cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_usable_threads), cmocka_unit_test(test_parsers),
        cmocka_unit_test(test_lines),          cmocka_unit_test(test_steal),
    };
    return test_run("quota", tests, COUNT_OF(tests));
}
