/* A directory that stands before /proc and /sys, filled by a test. */
#ifndef ATTN_TESTS_FAKE_ROOT_H
#define ATTN_TESTS_FAKE_ROOT_H

#include "tests/support.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fake_root {
    char path[64];
} fake_root;

static inline fake_root fake_root_make(void) {
    fake_root root = {"/tmp/attnscope-root-XXXXXX"};
    assert_non_null(mkdtemp(root.path));
    return root;
}

/* Writes `text` to `name` below the root, with the directories that it needs. */
static inline void fake_root_write(const fake_root *root, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", root->path, name);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static inline int fake_root_remove_entry(const char *path, const struct stat *status, int type,
                                         struct FTW *at) {
    return remove(path);
}

static inline void fake_root_remove(const fake_root *root) {
    nftw(root->path, fake_root_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
