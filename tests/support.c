#include "tests/support.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the runner ---------------------------------------------------------- */

static int run_in_child(const char *group, const struct CMUnitTest *tests, size_t count) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not swallow the lines before it */
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests(group, tests, count, NULL, NULL) == 0 ? 0 : 1;
}

/* Copies the child's TAP to standard output, putting skips right. Returns the results seen. */
static size_t relay(FILE *child) {
    char *line = NULL, reason[256] = "";
    size_t size = 0, results = 0;
    while (getline(&line, &size, child) > 0) {
        line[strcspn(line, "\n")] = '\0';
        int number, name_at = 0;
        results += strncmp(line, "ok ", 3) == 0 || strncmp(line, "not ok ", 7) == 0;
        if (strncmp(line, "# skip: ", 8) == 0)
            snprintf(reason, sizeof reason, "%s", line + 8);
        else if (sscanf(line, "not ok %d # SKIP %n", &number, &name_at) == 1 && name_at > 0)
            printf("ok %d - %s # SKIP %s\n", number, line + name_at, reason);
        else
            printf("%s\n", line);
        fflush(stdout);
    }
    free(line);
    return results;
}

int test_run(const char *group, const struct CMUnitTest *tests, size_t count) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)test_seed());
    setenv("ATTNSCOPE_TEST_SEED", text, 1);
    printf("# replay with ATTNSCOPE_TEST_SEED=%s\n", text);
    fflush(stdout);

    int ends[2];
    pid_t pid = -1;
    if (pipe(ends) != 0 || (pid = fork()) < 0) {
        printf("Bail out! %s\n", strerror(errno));
        return 1;
    }
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        exit(run_in_child(group, tests, count));
    }
    close(ends[1]);
    FILE *child = fdopen(ends[0], "r");
    size_t results = child ? relay(child) : 0;
    if (child)
        fclose(child);
    int status = 0;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("Bail out! died of signal %d\n", WTERMSIG(status));
    else if (results != count)
        printf("Bail out! %zu of %zu tests reported\n", results, count);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && results == count ? 0 : 1;
}

void test_skip(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("# skip: ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    skip();
    abort(); /* skip() leaves by longjmp */
}

void test_skip_jansson_unseen(void) {
    if (TEST_MSAN)
        test_skip("MemorySanitizer does not see what jansson writes");
}

void test_note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("# ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

void test_fail_at(const char *file, int line, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    test_note("%s", text);
    _fail(file, line);
    abort(); /* _fail() leaves by longjmp */
}

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value != NULL && *value != 0 && strcmp(value, "0") != 0;
}

bool test_quick(void) {
    return is_set("ATTNSCOPE_TEST_QUICK");
}

bool test_keep(size_t number, size_t step) {
    if (!test_quick())
        return true;
    const char *text = getenv("ATTNSCOPE_TEST_THIN");
    const long thin = text ? strtol(text, NULL, 10) : 1;
    return number % (step * (size_t)(thin > 1 ? thin : 1)) == 0;
}

bool test_full(void) {
    return is_set("ATTNSCOPE_TEST_FULL") && !test_quick();
}

int test_count(int quick, int usual, int full) {
    return test_quick() ? quick : test_full() ? full : usual;
}

/* ---- random numbers --------------------------------------------------------- */

/* SplitMix64: any state will do, and streams of different states are independent enough for tests. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

uint64_t test_seed(void) {
    static uint64_t seed;
    static bool known;
    if (!known) {
        const char *text = getenv("ATTNSCOPE_TEST_SEED");
        if (text != NULL && *text != '\0') {
            char *end;
            errno = 0;
            seed = strtoull(text, &end, 10);
            if (errno != 0 || *end != '\0') {
                printf("Bail out! ATTNSCOPE_TEST_SEED is '%s', must be a decimal number\n", text);
                exit(2);
            }
        } else {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            seed = mix((uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec) % 1000000000u;
        }
        known = true;
    }
    return seed;
}

test_rng test_rng_start(const char *name, uint64_t number) {
    uint64_t state = mix(test_seed() + 1) ^ mix(number + 0x9E3779B97F4A7C15u);
    for (; *name; name++)
        state = mix(state + (unsigned char)*name);
    return (test_rng){state};
}

uint64_t test_random(test_rng *rng) {
    rng->state += 0x9E3779B97F4A7C15u;
    return mix(rng->state);
}

int64_t test_between(test_rng *rng, int64_t low, int64_t high) {
    return low + (int64_t)(test_random(rng) % (uint64_t)(high - low + 1));
}

double test_uniform(test_rng *rng) {
    return (double)(test_random(rng) >> 11) * 0x1p-53;
}

/* The ziggurat of Marsaglia and Tsang (J. Stat. Softw. 5(8), 2000) with 256 layers of equal area. Logarithm
 * and cosine of Box and Muller's way were half of what the tests of attention execute, and count where a CPU
 * is emulated; this needs neither in 98 of 100 draws. */
enum { LAYERS = 256 };
#define LAYERS_END 3.6541528853610088 /* where the tail begins; the area of a layer follows */
static struct { double x[LAYERS + 1], height[LAYERS + 1]; } layers;

static double bell(double x) {
    return exp(-0.5 * x * x);
}

/* Before main: streams are drawn from by several threads. */
__attribute__((constructor)) static void make_layers(void) {
    const double tail = sqrt(acos(0)) * erfc(LAYERS_END / sqrt(2)); /* under the curve, from there on */
    const double area = LAYERS_END * bell(LAYERS_END) + tail;
    layers.x[0] = area / bell(LAYERS_END); /* as wide as it would be without a tail */
    layers.x[1] = LAYERS_END;
    for (int i = 2; i < LAYERS; i++)
        layers.x[i] = sqrt(-2 * log(area / layers.x[i - 1] + bell(layers.x[i - 1])));
    for (int i = 0; i <= LAYERS; i++)
        layers.height[i] = bell(layers.x[i]);
}

/* Beyond LAYERS_END. */
static double normal_tail(test_rng *rng) {
    for (;;) {
        const double x = -log(1 - test_uniform(rng)) / LAYERS_END, y = -log(1 - test_uniform(rng));
        if (2 * y >= x * x)
            return LAYERS_END + x;
    }
}

double test_normal(test_rng *rng) {
    for (;;) {
        const uint64_t bits = test_random(rng);
        const int i = bits % LAYERS;
        const double sign = bits & LAYERS ? -1 : 1, x = (double)(bits >> 11) * 0x1p-53 * layers.x[i];
        if (x < layers.x[i + 1])
            return sign * x;
        if (i == 0)
            return sign * normal_tail(rng);
        const double y = layers.height[i] + test_uniform(rng) * (layers.height[i + 1] - layers.height[i]);
        if (y < bell(x))
            return sign * x;
    }
}
