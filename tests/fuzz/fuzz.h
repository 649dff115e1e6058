/* What the fuzz targets share. A target is a function that libFuzzer calls with bytes of its own invention;
 * replay.c calls the same function with the files of a corpus, under any compiler. */
#ifndef ATTN_TESTS_FUZZ_H
#define ATTN_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Wide enough that what is checked here cannot overflow. */
__extension__ typedef __int128 fuzz_wide;

/* The target: always returns 0, and ends the program where what it tests is wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program with a message if the condition does not hold. Not assert: NDEBUG must not silence it. */
#define FUZZ_CHECK(condition, ...)                                                                           \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            fuzz_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                                          \
    } while (0)
void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5), noreturn));

/* Memory of exactly this size, so that a sanitizer sees the first byte read past it; never NULL. */
void *fuzz_alloc(size_t bytes);
/* The bytes as a string that ends at its first 0 byte or after `size`. */
char *fuzz_text(const uint8_t *data, size_t size);

/* Between the two, what is printed on standard error is kept back. fuzz_listened returns the number of
 * lines, after checking that each is a whole line that begins with "attnscope" and holds nothing that a
 * terminal would take for more than text. Where the C library cannot do this, all is printed and the answer
 * is `expected`. */
void fuzz_listen(void);
int fuzz_listened(int expected);

/* Checks an error's text: one line, not empty, ended within `size` bytes. */
void fuzz_check_error(const char *text, size_t size);

#endif
