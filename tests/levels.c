/* Tests once per ISA level. */
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>

#define ISA(id, ...) &attn_kernels_##id,
static const attn_kernels *const levels[] = {
#include "dispatch/isa.def"
};
#undef ISA

static void append(test_list *list, const char *name, CMUnitTestFunction function,
                   const attn_kernels *level) {
    list->tests = realloc(list->tests, (list->count + 1) * sizeof *list->tests);
    if (list->tests == NULL)
        abort();
    list->tests[list->count++] =
        (struct CMUnitTest){.name = name, .test_func = function, .initial_state = (void *)(uintptr_t)level};
}

void test_add(test_list *list, const char *name, CMUnitTestFunction function) {
    append(list, name, function, NULL);
}

void test_add_levels(test_list *list, const char *name, CMUnitTestFunction function) {
    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        char *full = NULL;
        if (asprintf(&full, "%s [%s]", name, levels[i]->name) < 0)
            abort();
        append(list, full, function, levels[i]); /* the name lives as long as the program */
    }
}

const attn_kernels *test_kernels(void **state) {
    const attn_kernels *kernels = *state;
    attn_error error;
    if (attn_isa_check(kernels->name, &error) != ATTN_OK)
        test_skip("%s: %s", kernels->name, error.text);
    return kernels;
}

int test_run_list(const char *group, test_list *list) {
    int code = test_run(group, list->tests, list->count);
    free(list->tests);
    return code;
}
