/* Runs a fuzz target over the files of a corpus, one after another: what the fuzzer once found, and what was
 * written by hand, stays tested under every compiler and on emulated machines. Prints TAP.
 *
 *     replay DIRECTORY
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_file(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file, "cannot open %s", path);
    uint8_t buffer[1 << 16];
    *size = fread(buffer, 1, sizeof buffer, file);
    FUZZ_CHECK(!ferror(file) && *size < sizeof buffer, "cannot read %s, or it is no small file", path);
    fclose(file);
    uint8_t *data = fuzz_alloc(*size);
    memcpy(data, buffer, *size);
    return data;
}

int main(int argc, char **argv) {
    struct dirent **entries;
    const int count = argc == 2 ? scandir(argv[1], &entries, is_file, alphasort) : -1;
    if (count <= 0) {
        fprintf(stderr, "usage: %s DIRECTORY (with at least one file in it)\n", argv[0]);
        return 2;
    }
#if defined(FUZZ_READS_JSON) && defined(__has_feature)
#    if __has_feature(memory_sanitizer)
    puts("1..0 # SKIP MemorySanitizer does not see what jansson writes");
    return 0;
#    endif
#endif
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        char path[4096];
        size_t size;
        FUZZ_CHECK((size_t)snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name) < sizeof path,
                   "%s", entries[i]->d_name);
        printf("# %s\n", entries[i]->d_name); /* the last one named is the one that ended the program */
        fflush(stdout);
        uint8_t *data = read_file(path, &size);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
        printf("ok %d - %s\n", i + 1, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return 0;
}
