/* Opening and calibrating hardware counters, with recorded answers. */
#include "tests/recorded_counters.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

typedef struct recorder {
    int error[COUNTERS_EVENTS]; /* 0: opens */
    int opened[COUNTERS_EVENTS], leader[COUNTERS_EVENTS], count;
    int reads;                     /* of the leader, that are recorded */
    double value[COUNTERS_EVENTS]; /* more from one read to the next */
    uint64_t enabled, running;     /* likewise */
} recorder;

static int open_recorded(void *context, int event, int group) {
    recorder *r = context;
    if (r->error[event])
        return -r->error[event];
    r->leader[event] = group;
    r->count++;
    return r->opened[event] = recorded_file();
}

/* Once all are open it is known how many there are: the last one writes what the leader will read. */
static int open_and_record(void *context, int event, int group) {
    recorder *r = context;
    const int fd = open_recorded(context, event, group);
    if (event < COUNTERS_EVENTS - 1)
        return fd;
    for (int i = 0; i < r->reads; i++) {
        double value[COUNTERS_EVENTS];
        int members = 0;
        for (int e = 0; e < COUNTERS_EVENTS; e++) {
            if (!r->error[e])
                value[members++] = i * r->value[e];
        }
        assert_true(recorded_write(r->opened[0], (uint64_t)members, (uint64_t)i * r->enabled,
                                   (uint64_t)i * r->running, value) > 0);
    }
    assert_int_equal(lseek(r->opened[0], 0, SEEK_SET), 0);
    return fd;
}

static recorder sound_recorder(void) {
    recorder r = {.reads = 3, .enabled = 250000, .running = 250000};
    recorded_chain(r.value);
    return r;
}

static void expect_closed(const recorder *r, const counters *c) {
    for (int event = 0; event < COUNTERS_EVENTS; event++) {
        assert_int_equal(c->fd[event], -1);
        if (!r->error[event] && r->opened[event])
            assert_true(fcntl(r->opened[event], F_GETFD) == -1 && errno == EBADF);
    }
}

/* Guards that counters open as one group led by the instructions, in order, and that an event which is
 * missing takes no other with it. */
static void opens_a_group(void **state) {
    for (int missing = COUNTERS_CYCLES; missing < COUNTERS_EVENTS - 1; missing++) {
        recorder r = sound_recorder();
        counters c;
        if (missing > COUNTERS_CYCLES) /* else none is */
            r.error[missing] = ENOENT;
        if (!counters_open(&c, open_and_record, &r))
            test_fail("%s", c.reason);
        assert_int_equal(r.leader[0], -1);
        for (int event = 1; event < COUNTERS_EVENTS; event++) {
            const bool there = !r.error[event];
            assert_true(!there || r.leader[event] == c.fd[0]);
            assert_true((c.fd[event] >= 0) == there);
            assert_true((c.missing[event][0] == 0) == there);
        }
        counters_close(&c);
        expect_closed(&r, &c);
    }
}

/* Guards that without instructions or cycles there is nothing, with the reason, and nothing is left open. */
static void needs_two_events(void **state) {
    for (int event = 0; event <= COUNTERS_CYCLES; event++) {
        recorder r = sound_recorder();
        counters c;
        r.error[event] = ENOENT;
        assert_false(counters_open(&c, open_and_record, &r));
        expect_text(c.reason, "ENOENT", "reason");
        assert_int_equal(r.count, event); /* no more are tried */
        expect_closed(&r, &c);
    }
}

/* Guards that counters which fail the calibration, or do not answer, are not used. */
static void refuses_what_fails_calibration(void **state) {
    for (int broken = 0; broken < 5; broken++) {
        static const char *const reasons[] = {"counts 0 instructions", "cycles", "form", "0 %", "form"};
        recorder r = sound_recorder();
        counters c;
        if (broken == 0)
            r.value[COUNTERS_INSTRUCTIONS] = 0;
        else if (broken == 1)
            r.value[COUNTERS_CYCLES] *= 2;
        else if (broken == 2)
            r.reads = 0;
        else if (broken == 3)
            r = (recorder){.reads = 200, .enabled = 250000};
        else
            r.reads = 2; /* then they fall silent */
        assert_false(counters_open(&c, open_and_record, &r));
        expect_text(c.reason, reasons[broken], "calibration");
        expect_closed(&r, &c);
    }
}

/* Guards that counters which others use by turns can be calibrated: over many chains, scaled. */
static void calibrates_by_turns(void **state) {
    recorder r = sound_recorder();
    counters c;
    r.reads = 1 + 2 * 64;
    r.running = r.enabled / 2;
    for (int event = 0; event < COUNTERS_EVENTS; event++)
        r.value[event] /= 4; /* two reads a chain, half of the time */
    if (!counters_open(&c, open_and_record, &r))
        test_fail("%s", c.reason);
    counters_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_a_group),
        cmocka_unit_test(needs_two_events),
        cmocka_unit_test(refuses_what_fails_calibration),
        cmocka_unit_test(calibrates_by_turns),
    };
    return test_run("counters_opening", tests, COUNT_OF(tests));
}
