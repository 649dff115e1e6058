/* NumPy's .npy files: format versions 1.0 to 3.0, C order, booleans, integers and float16/32/64 of
 * either byte order. Everything else is refused by name. */
#ifndef ATTN_COMMON_NPY_H
#define ATTN_COMMON_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "common/output.h"

enum {
    NPY_MAX_RANK = 32,
    NPY_PREFIX_BYTES = 12,         /* magic, version and the longest length field */
    NPY_MAX_HEADER_BYTES = 1 << 16 /* of the header's text; NumPy itself stops at 10,000 */
};

typedef struct npy_header {
    char kind;      /* 'b' boolean, 'i' signed, 'u' unsigned, 'f' float */
    int item_bytes; /* of an element: 1, 2, 4 or 8 */
    bool swapped;   /* the file's byte order is not this machine's */
    int rank;       /* 0..NPY_MAX_RANK */
    int64_t shape[NPY_MAX_RANK];
    int64_t count;     /* elements; count * item_bytes is below 2^62 */
    size_t data_bytes; /* offset of the first element in the file */
} npy_header;

/* Parses the beginning of a file in memory: at most `size` bytes are read, whatever they say.
 * Returns 1 and fills `header`; 0 when more bytes are needed, their total number in *needed; -1
 * when this is no file that can be read, with the reason, one line, in `error`. */
int npy_parse_header(const uint8_t *bytes, size_t size, npy_header *header, size_t *needed, char *error,
                     size_t error_size);

typedef struct npy_array {
    npy_header header;
    void *data; /* owned; C order, this machine's byte order */
} npy_array;

/* Reads a whole file. On failure prints an error that names it and returns false. */
bool npy_read(const char *path, npy_array *array);
void npy_free(npy_array *array);

/* "(2, 3)" as Python writes it, into `text`; returns `text`. */
const char *npy_shape_text(int rank, const int64_t *shape, char *text, size_t size);
enum { NPY_SHAPE_TEXT = NPY_MAX_RANK * 22 + 4 };
/* "float32", "int64", "bool", ... */
const char *npy_type_text(const npy_header *header);

/* The elements as another type, in new memory; the array is freed, whatever comes out. On a type
 * that does not fit, print an error that names `option` and return NULL. */
float *npy_take_floats(npy_array *array, const char *option);     /* from float16/32/64 */
int64_t *npy_take_integers(npy_array *array, const char *option); /* from any integer type */
uint8_t *npy_take_booleans(npy_array *array, const char *option); /* from bool; 0 or 1 */

/* Begins a file in `output`: a version 1.0 header for this shape, "<f4" or "|b1" for `descr`. The
 * caller then writes the elements in C order. */
bool npy_write_header(cli_output *output, const char *descr, int rank, const int64_t *shape);

#endif
