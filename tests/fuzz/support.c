#include "tests/fuzz/fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...) {
    /* Not through stderr, which may be kept back. */
    dprintf(STDERR_FILENO, "%s:%d: failed: %s\n  ", file, line, condition);
    va_list arguments;
    va_start(arguments, format);
    vdprintf(STDERR_FILENO, format, arguments);
    va_end(arguments);
    dprintf(STDERR_FILENO, "\n");
    abort();
}

void *fuzz_alloc(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    FUZZ_CHECK(memory, "no memory for %zu bytes", bytes);
    return memory;
}

char *fuzz_text(const uint8_t *data, size_t size) {
    size_t length = 0;
    while (length < size && data[length])
        length++;
    char *text = fuzz_alloc(length + 1);
    if (length > 0) /* else `data` may be NULL */
        memcpy(text, data, length);
    text[length] = 0;
    return text;
}

/* In glibc `stderr` is a variable, and assigning to it redirects what C code prints, while sanitizers and
 * libFuzzer go on writing to the descriptor. Elsewhere it may be a constant. */
#ifdef __GLIBC__
static char heard[1 << 16];
static FILE *ear, *mouth;

void fuzz_listen(void) {
    if (!ear) {
        ear = fmemopen(heard, sizeof heard, "w");
        FUZZ_CHECK(ear, "fmemopen");
    }
    rewind(ear);
    mouth = stderr;
    stderr = ear;
}

int fuzz_listened(int expected) {
    (void)expected;
    stderr = mouth;
    fflush(ear);
    const long length = ftell(ear);
    static const char start[] = "attnscope";
    int lines = 0;
    bool begins = true;
    for (long at = 0; at < length; at++) {
        const unsigned char c = (unsigned char)heard[at];
        FUZZ_CHECK(!begins || strncmp(heard + at, start, sizeof start - 1) == 0, "message: %.*s", (int)length,
                   heard);
        FUZZ_CHECK((c >= 0x20 && c != 0x7f) || c == '\n', "byte 0x%02x at %ld of: %.*s", c, at, (int)length,
                   heard);
        begins = c == '\n';
        lines += begins;
    }
    FUZZ_CHECK(begins, "no newline ends: %.*s", (int)length, heard);
    return lines;
}
#else
void fuzz_listen(void) {
}

int fuzz_listened(int expected) {
    return expected;
}
#endif

void fuzz_check_error(const char *text, size_t size) {
    const size_t length = strnlen(text, size);
    FUZZ_CHECK(length > 0 && length < size, "an error of %zu bytes", length);
    for (size_t i = 0; i < length; i++)
        FUZZ_CHECK((unsigned char)text[i] >= 0x20 && text[i] != 0x7f, "byte 0x%02x at %zu of: %s",
                   (unsigned char)text[i], i, text);
}
