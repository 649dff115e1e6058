/* Faults on purpose, one a run: what sanitizers and valgrind must see, or their suites prove nothing. No
 * test; scripts/testrunner/checked.py runs it and requires the report.
 *
 *   provoke none | address | leak | undefined | memory | threads | team */
#include "attnscope.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, ROWS = 96, DIM = 16, SIZE = HEADS * ROWS * DIM };

static attn_plan *plan;
static attn_tensors tensors;

static float *numbers(size_t count) {
    float *data = malloc(count * sizeof *data);
    if (data == NULL)
        abort();
    return data;
}

static float *filled(size_t count) {
    float *data = numbers(count);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(i % 7) - 3;
    return data;
}

static void execute(int threads) {
    attn_error error;
    if (attn_execute(plan, &tensors, NULL, threads, &error) != ATTN_OK) {
        fprintf(stderr, "provoke: %s\n", error.text);
        exit(2);
    }
}

static void *execute_too(void *argument) {
    execute(1);
    return argument;
}

/* Two of the caller's threads write one output. */
static void race_of_callers(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, execute_too, NULL) != 0)
        abort();
    execute(1);
    pthread_join(thread, NULL);
}

static int overflow(int large) {
    return large + 1;
}

int main(int argc, char **argv) {
    const char *fault = argc == 2 ? argv[1] : "";
    attn_problem problem;
    attn_problem_init(&problem, 1, HEADS, HEADS, ROWS, ROWS, DIM, DIM);
    const attn_options options = {.algorithm = ATTN_FLASH};
    if (attn_plan_create(&problem, &options, &plan, NULL) != ATTN_OK)
        return 2;
    float *q = filled(SIZE), *v = filled(SIZE);
    const bool memory = strcmp(fault, "memory") == 0, address = strcmp(fault, "address") == 0;
    float *k = memory ? numbers(SIZE) : filled(SIZE), *out = numbers(SIZE - address);
    attn_tensors_init(&tensors, &problem, q, k, v, out);
    if (strcmp(fault, "none") == 0) {
        execute(1);
        execute(4);
    } else if (memory) {
        execute(1); /* of keys that nobody wrote */
        if (out[SIZE - 1] > 0)
            puts("positive");
    } else if (address) {
        execute(1); /* the last number of the last row has no place */
    } else if (strcmp(fault, "leak") == 0) {
        execute(1);
        plan = NULL;
    } else if (strcmp(fault, "undefined") == 0) {
        printf("%d\n", overflow(0x7FFFFFFE + argc - 1));
    } else if (strcmp(fault, "threads") == 0) {
        race_of_callers();
    } else if (strcmp(fault, "team") == 0) {
        /* The threads of one call read the values of all heads where one of them writes its output. */
        tensors.v.head_stride = 0;
        tensors.out = v;
        execute(HEADS);
    } else {
        fputs("usage: provoke none|address|leak|undefined|memory|threads|team\n", stderr);
        return 2;
    }
    attn_plan_destroy(plan);
    free(q);
    free(k);
    free(v);
    free(out);
    return 0;
}
