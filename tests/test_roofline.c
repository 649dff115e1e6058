/* Binding, clocks and the roofline, on this machine. */
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/binding.h"
#include "bench/build_info.h"
#include "bench/machine.h"
#include "bench/roofline.h"
#include "bench/roofline_json.h"
#include "bench/team.h"

static machine *load(const machine_options *options) {
    attn_error error = {{0}};
    machine *m = machine_load(options, &error);
    if (!m)
        test_fail("%s", error.text);
    return m;
}

/* Runs `body` in a child, where it may change its affinity, and returns its exit code. */
static int in_child(int (*body)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body());
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Allowed to run on one PU, the process is described so, is bound there, and gets no other. */
static int restricted_body(void) {
    machine *m = machine_load(NULL, NULL);
    int picked[2];
    machine_binding binding;
    if (!m || machine_pick(m, 1, picked) != 1)
        return 1;
    if (!machine_bind(picked[0], &binding) || binding.ran_on != picked[0])
        return 2;
    machine *narrow = machine_load(NULL, NULL);
    if (!narrow || narrow->allowed_pus != 1 || narrow->usable_threads != 1)
        return 3;
    if (machine_pick(narrow, 2, picked) != 1 || picked[0] != binding.os_index)
        return 4;
    if (strcmp(narrow->fingerprint, m->fingerprint) != 0)
        return 5;
    roofline result;
    attn_error error;
    if (roofline_measure(narrow, 2, 1, &result, NULL, &error) != ATTN_INVALID ||
        !strstr(error.text, "threads 2; accepted: 1 to 1"))
        return 6;
    machine_unbind(m);
    sysfs_cpus cpus;
    if (binding_allowed(&cpus) && sysfs_count_cpus(&cpus) != m->allowed_pus)
        return 7;
    return 0;
}

/* Guards binding: checked, kept inside what is allowed, and undone. */
static void test_binding(void **state) {
    machine_binding binding;
    if (in_child(restricted_body) == 2 && !machine_bind(0, &binding) &&
        strstr(binding.reason, "not supported"))
        test_skip("%s", binding.reason);
    assert_int_equal(in_child(restricted_body), 0);
}

static int refused_body(void) {
    static const int nowhere[] = {-1, SYSFS_CPUS - 1, SYSFS_CPUS, 1 << 30};
    for (size_t i = 0; i < COUNT_OF(nowhere); i++) {
        machine_binding binding;
        if (machine_bind(nowhere[i], &binding) || binding.bound || !binding.reason[0])
            return 1;
    }
    return 0;
}

/* Guards against the ignored failure: what is not bound says so. */
static void test_binding_refused(void **state) {
    assert_int_equal(in_child(refused_body), 0);
}

/* Guards the clocks: time goes forward, and a core that runs has a frequency. */
static void test_clocks(void **state) {
    int64_t last = machine_now_ns();
    for (int i = 0; i < 1000; i++) {
        int64_t now = machine_now_ns();
        assert_true(now >= last);
        last = now;
    }
    double ghz = machine_effective_ghz(1), again = machine_effective_ghz(0);
    test_note("%.3f GHz, %.3f GHz", ghz, again);
    assert_true(isfinite(ghz) && ghz > 0);
    assert_true(isfinite(again) && again > 0);
}

/* Guards dates: of each zone the local time with its offset, in one format, which names the time it is. */
static void test_date(void **state) {
    static const struct {
        const char *zone, *offset;
        int seconds;
    } zones[] = {{"UTC0", "+00:00", 0}, {"EAS-05:30", "+05:30", 19800}, {"WES03:45", "-03:45", -13500}};
    for (size_t i = 0; i < COUNT_OF(zones); i++) {
        setenv("TZ", zones[i].zone, 1);
        tzset();
        char date[32], again[32];
        struct tm read = {0};
        const time_t before = time(NULL);
        machine_date(date);
        const char *rest = strptime(date, "%Y-%m-%dT%H:%M:%S", &read);
        assert_non_null(rest);
        assert_string_equal(rest, zones[i].offset);
        assert_true(strftime(again, sizeof again, "%Y-%m-%dT%H:%M:%S", &read) == 19);
        assert_memory_equal(date, again, 19);
        setenv("TZ", "UTC0", 1);
        tzset();
        const time_t said = mktime(&read) - zones[i].seconds;
        assert_true(said >= before && said <= time(NULL));
    }
    unsetenv("TZ");
    tzset();
}

static int figures_seen;

static void count_figure(void *context, const char *name) {
    assert_ptr_equal(context, &figures_seen);
    assert_true(name[0]);
    figures_seen++;
}

/* Guards the roofline: every level that runs has a peak and none that does not; sizes stay inside the
 * level they stand for and outside the one below; the same for a team of all usable threads. */
static void check_roofline(const machine *m, int threads) {
    roofline result;
    attn_error error = {{0}};
    figures_seen = 0;
    const roofline_watch watch = {count_figure, &figures_seen, NULL};
    if (roofline_measure(m, threads, 1, &result, &watch, &error) != ATTN_OK)
        test_fail("%s", error.text);
    assert_int_equal(result.threads, threads);
    int figures = 0;
    for (int i = 0; i < attn_isa_count(); i++) {
        bool runs = attn_isa_check(attn_isa_name(i), NULL) == ATTN_OK;
        figures += 2 * runs;
        assert_int_equal(runs, result.peak[i].gflops > 0);
        assert_int_equal(runs, result.exp_g[i] > 0);
        assert_int_equal(runs, result.peak[i].ghz > 0);
    }
    int64_t below = 0;
    int first;
    assert_int_equal(machine_pick(m, 1, &first), 1);
    const machine_pu *pu = machine_find_pu(m, first);
    for (int level = 0; level < ROOFLINE_LEVELS; level++) {
        const roofline_bandwidth *figure = &result.level[level];
        if (level < MACHINE_CACHE_LEVELS) {
            assert_int_equal(figure->bytes > 0, pu->cache[level].bytes > 0);
            assert_true(figure->bytes <= pu->cache[level].bytes + below);
            below = figure->bytes ? pu->cache[level].bytes : below;
        }
        assert_int_equal(figure->bytes > 0, figure->read_gbs > 0);
        assert_int_equal(figure->bytes > 0, figure->copy_gbs > 0);
        assert_true(level == ROOFLINE_MEMORY ? figure->holds_bytes == 0
                                             : figure->holds_bytes >= figure->bytes);
        figures += figure->bytes > 0;
    }
    assert_true(result.readings >= ROOFLINE_LEVELS || !pu->cache[0].bytes);
    for (int i = 0; i < result.readings; i++) {
        assert_true(result.reading[i].gbs > 0 && result.reading[i].cpu_share > 0);
        assert_true(i == 0 || result.reading[i].bytes > result.reading[i - 1].bytes);
    }
    figures += result.readings;
    assert_int_equal(figures_seen, figures);
}

static void test_roofline(void **state) {
    machine *m = load(NULL);
    sysfs_cpus before, after;
    bool known = binding_allowed(&before);
    check_roofline(m, 1);
    check_roofline(m, m->usable_threads < 4 ? m->usable_threads : 4);
    if (known) {
        assert_true(binding_allowed(&after));
        assert_memory_equal(&before, &after, sizeof before);
    }
    roofline result;
    attn_error error;
    assert_int_equal(roofline_measure(m, 0, 1, &result, NULL, &error), ATTN_INVALID);
    assert_int_equal(roofline_measure(m, m->usable_threads + 1, 1, &result, NULL, &error), ATTN_INVALID);
    machine_free(m);
}

static void sleep_rounds(void *context, int64_t rounds) {
    usleep(200 * (useconds_t)(rounds < 1000 ? rounds : 1000));
}

static void spin_rounds(void *context, int64_t rounds) {
    for (volatile int64_t i = 0; i < 1000 * rounds; i++)
        ;
}

typedef struct mixed {
    team_figure of[2]; /* member 1 spins, sleeps */
} mixed;

static void mixed_body(team *t, int me, void *context) {
    mixed *m = context;
    const team_figure spinning = team_rate(t, me, spin_rounds, NULL, 4);
    const team_figure sleeping = team_rate(t, me, me == 1 ? sleep_rounds : spin_rounds, NULL, 4);
    if (me == 0) {
        m->of[0] = spinning;
        m->of[1] = sleeping;
    }
}

/* Guards the share of the CPU that a figure's trial got: next to nothing where a thread sleeps, alone and as
 * one of a team; never above 1. How much one gets that spins is for the machine's other work to say. */
static void test_cpu_share(void **state) {
    machine *m = load(NULL);
    const team_figure sleeping = team_rate(NULL, 0, sleep_rounds, NULL, 4);
    const team_figure spinning = team_rate(NULL, 0, spin_rounds, NULL, 4);
    assert_true(sleeping.rate > 0 && sleeping.cpu_share > 0 && sleeping.cpu_share < 0.5);
    assert_true(spinning.rate > 0 && spinning.cpu_share > 0 && spinning.cpu_share <= 1);
    if (m->usable_threads > 1) {
        mixed both;
        int bound;
        assert_int_equal(team_run(m, 2, mixed_body, &both, NULL, &bound, NULL), ATTN_OK);
        assert_true(both.of[0].cpu_share > 0 && both.of[0].cpu_share <= 1);
        assert_true(both.of[1].cpu_share > 0 && both.of[1].cpu_share < 0.5);
    }
    machine_free(m);
}

/* Guards that one disturbed figure is enough, whichever, and that those that are not there do not count. */
static void test_disturbed(void **state) {
    roofline quiet = {.threads = 1};
    quiet.peak[1] = (roofline_peak){.gflops = 1, .ghz = 1, .cpu_share = BENCH_UNDISTURBED};
    quiet.exp_cpu_share[1] = 1;
    quiet.level[2] = (roofline_bandwidth){
        .bytes = 256, .read_gbs = 1, .copy_gbs = 1, .read_cpu_share = 1, .copy_cpu_share = 1};
    assert_false(roofline_disturbed(&quiet));
    roofline busy[4] = {quiet, quiet, quiet, quiet};
    busy[0].peak[1].cpu_share = 0.94;
    busy[1].exp_cpu_share[1] = 0.94;
    busy[2].level[2].read_cpu_share = 0.94;
    busy[3].level[2].copy_cpu_share = 0.94;
    for (size_t i = 0; i < COUNT_OF(busy); i++)
        assert_true(roofline_disturbed(&busy[i]));
}

static volatile sig_atomic_t stop;

static void stop_at_second(void *context, const char *name) {
    count_figure(context, name);
    stop = figures_seen == 2;
}

/* Guards that whoever waits can stop it: what comes after is neither begun nor measured, alone and in a
 * team, whose other members must not be left waiting. */
static void test_roofline_stopped(void **state) {
    machine *m = load(NULL);
    for (int threads = 1; threads <= (m->usable_threads > 1 ? 2 : 1); threads++) {
        const roofline_watch watch = {stop_at_second, &figures_seen, &stop};
        roofline result;
        attn_error error;
        figures_seen = 0;
        stop = 0;
        assert_int_equal(roofline_measure(m, threads, 1, &result, &watch, &error), ATTN_OK);
        assert_int_equal(figures_seen, 2);
        for (int level = 0; level < ROOFLINE_LEVELS; level++)
            assert_true(result.level[level].read_gbs == 0 && result.level[level].copy_gbs == 0);
    }
    machine_free(m);
}

/* Guards the sizes: next to the level below, far from the end of a last cache that others use as well;
 * readings from the first of them to the last, at most half an octave apart; and no more than there is room
 * for. */
static void test_roofline_choice(void **state) {
#ifndef HAVE_HWLOC
    test_skip("hwloc is not built in");
#endif
    machine *m = load(&(machine_options){
        .synthetic = "l3:1(size=33554432) l2:2(size=1048576) l1d:1(size=32768) core:1 pu:1"});
    m->memory_bytes = INT64_C(1) << 40;
    const int pus[] = {0, 1};
    for (int threads = 1; threads <= 2; threads++) {
        roofline r = {.threads = threads};
        roofline_choose_sizes(m, pus, threads, &r);
        static const int64_t bytes[] = {1 << 14, 1 << 16, 1 << 21, 1 << 27};
        static const int64_t holds[] = {1 << 15, 1 << 20, 1 << 25, 0};
        for (int level = 0; level < ROOFLINE_LEVELS; level++) {
            const bool shared = level >= MACHINE_L3;
            assert_int_equal(r.level[level].bytes, bytes[level] / (level == ROOFLINE_MEMORY ? threads : 1));
            assert_int_equal(r.level[level].holds_bytes, holds[level] / (shared ? threads : 1));
            assert_int_equal(r.level[level].sharers, shared ? threads : 1);
        }
        assert_int_equal(r.reading[0].bytes, 1 << 14);
        assert_int_equal(r.reading[r.readings - 1].bytes, (1 << 27) / threads);
        for (int i = 1; i < r.readings; i++) {
            const double step = (double)r.reading[i].bytes / (double)r.reading[i - 1].bytes;
            /* Sizes are rounded down to 256 bytes. */
            assert_true(step > 1 && step < 1.415 * (1 + 256 / (double)r.reading[i - 1].bytes));
        }
    }
    m->pus[0].cache[MACHINE_L1D].bytes = 512; /* nothing is too small or too large */
    m->pus[0].cache[MACHINE_L3].bytes = INT64_C(1) << 34;
    roofline r = {.threads = 1};
    roofline_choose_sizes(m, pus, 1, &r);
    assert_true(r.readings < ROOFLINE_MAX_READINGS);
    assert_int_equal(r.reading[r.readings - 1].bytes, INT64_C(1) << 36);
    machine_free(m);
}

/* Guards the sizes for a machine with a second level as large as a thread's share of the third. */
static void test_roofline_sizes(void **state) {
#ifndef HAVE_HWLOC
    test_skip("hwloc is not built in");
#endif
    machine *m = load(&(machine_options){
        .synthetic = "l3:1(size=2097152) l2:1(size=1048576) l1d:1(size=32768) core:1 pu:1"});
    m->memory_bytes = INT64_C(64) << 20; /* an eighth of it: 8 MiB */
    roofline result;
    attn_error error = {{0}};
    assert_int_equal(roofline_measure(m, 1, 1, &result, NULL, &error), ATTN_OK);
    assert_int_equal(result.level[MACHINE_L1D].bytes, 16384);
    assert_int_equal(result.level[MACHINE_L2].bytes, 65536);
    assert_int_equal(result.level[MACHINE_L3].bytes, 2097152);
    assert_int_equal(result.level[ROOFLINE_MEMORY].bytes, 8388608);
    m->memory_bytes = INT64_C(16) << 20; /* an eighth is no more than the cache: not measured */
    assert_int_equal(roofline_measure(m, 1, 1, &result, NULL, &error), ATTN_OK);
    assert_int_equal(result.level[ROOFLINE_MEMORY].bytes, 0);
    assert_true(result.level[ROOFLINE_MEMORY].read_gbs == 0);
    machine_free(m);
}

/* Guards the names of result files and of `info --json`, which are the same: every figure is read as it was
 * written, what is not known is not there, and what nobody wrote so is refused. */
static void json_has_one_vocabulary(void **state) {
    (void)state;
    test_skip_jansson_unseen();
    static roofline r, again;
    memset(&r, 0, sizeof r);
    r.threads = 2;
    r.bound = 1;
    r.peak[0] = (roofline_peak){.gflops = 10, .ghz = 3, .cpu_share = 0.75};
    r.exp_g[0] = 0.5;
    r.exp_cpu_share[0] = 1;
    r.level[MACHINE_L2] = (roofline_bandwidth){.bytes = 1 << 18,
                                               .holds_bytes = 1 << 20,
                                               .read_gbs = 70,
                                               .copy_gbs = 40,
                                               .read_cpu_share = 1,
                                               .copy_cpu_share = 1};
    r.level[ROOFLINE_MEMORY] = (roofline_bandwidth){.bytes = 1 << 28, .read_gbs = 7};
    r.reading[r.readings++] = (roofline_reading){.bytes = 1 << 18, .gbs = 70, .cpu_share = 1};
    json_t *json = roofline_to_json(&r);
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(6));
    char wanted[1024];
    snprintf(
        wanted, sizeof wanted,
        "{\"threads\":2,\"bound\":1,\"disturbed\":true,\"isa\":{\"%s\":{\"fma_gflops\":10.0,\"ghz\":3.0,"
        "\"fma_cpu_share\":0.75,\"exp_g\":0.5,\"exp_cpu_share\":1.0}},\"level\":{\"l2\":{\"bytes\":262144,"
        "\"holds_bytes\":1048576,\"read_gbs\":70.0,\"read_cpu_share\":1.0,\"copy_gbs\":40.0,"
        "\"copy_cpu_share\":1.0},\"memory\":{\"bytes\":268435456,\"read_gbs\":7.0}},"
        "\"readings\":[{\"bytes\":262144,\"gbs\":70.0,\"cpu_share\":1.0}]}",
        attn_isa_name(0));
    assert_string_equal(text, wanted);
    assert_true(roofline_from_json(json, &again));
    assert_memory_equal(&again, &r, sizeof r);
    json_object_set_new(json_object_get(json, "level"), "l9", json_object());
    assert_false(roofline_from_json(json, &again));
    json_object_del(json, "level");
    assert_false(roofline_from_json(json, &again));
    free(text);
    json_decref(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_one_vocabulary),
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_binding_refused),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_roofline),
        cmocka_unit_test(test_roofline_stopped),
        cmocka_unit_test(test_roofline_sizes),
        cmocka_unit_test(test_cpu_share),
        cmocka_unit_test(test_disturbed),
        cmocka_unit_test(test_roofline_choice),
        cmocka_unit_test(test_date),
    };
    return test_run("roofline", tests, COUNT_OF(tests));
}
