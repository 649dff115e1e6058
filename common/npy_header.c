/* The header of a .npy file: magic, version, length, and a Python dictionary as text,
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 * (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). The parser takes this
 * dictionary with its keys in any order and either kind of quotes, and nothing else of Python. */
#include "common/npy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct parser {
    const char *at, *end;
    char *error;
    size_t error_size;
} parser;

static int fail(char *error, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int fail(char *error, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, size, format, arguments);
    va_end(arguments);
    return -1;
}

static void skip_spaces(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
        p->at++;
}

/* Takes `c`, spaces before it allowed. */
static bool take(parser *p, char c) {
    skip_spaces(p);
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static bool take_word(parser *p, const char *word) {
    skip_spaces(p);
    size_t length = strlen(word);
    if ((size_t)(p->end - p->at) < length || memcmp(p->at, word, length) != 0)
        return false;
    p->at += length;
    return true;
}

/* A quoted string without escapes, into `text`; false when it is none or does not fit. */
static bool take_string(parser *p, char *text, size_t size) {
    skip_spaces(p);
    if (p->at == p->end || (*p->at != '\'' && *p->at != '"'))
        return false;
    char quote = *p->at;
    const char *first = ++p->at;
    while (p->at < p->end && *p->at != quote && *p->at != '\\')
        p->at++;
    size_t length = (size_t)(p->at - first);
    if (p->at == p->end || *p->at != quote || length >= size)
        return false;
    p->at++;
    memcpy(text, first, length);
    text[length] = 0;
    return true;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int parse_descr(parser *p, npy_header *header) {
    skip_spaces(p);
    if (p->at < p->end && *p->at == '[')
        return fail(p->error, p->error_size,
                    "structured dtype; expected bool, an integer type, or float16, float32 or float64");
    char descr[32];
    if (!take_string(p, descr, sizeof descr))
        return fail(p->error, p->error_size, "the header's 'descr' is not a type");

    bool known = strchr("<>|=", descr[0]) && descr[0] && strlen(descr) == 3;
    header->kind = known ? descr[1] : 0;
    header->item_bytes = known && is_digit(descr[2]) ? descr[2] - '0' : 0;
    int size = header->item_bytes;
    switch (header->kind) {
    case 'b':
        known = size == 1;
        break;
    case 'i':
    case 'u':
        known = size == 1 || size == 2 || size == 4 || size == 8;
        break;
    case 'f':
        known = size == 2 || size == 4 || size == 8;
        break;
    default:
        known = false;
    }
    if (!known || (descr[0] == '|' && size > 1)) {
        for (char *c = descr; *c; c++) {
            if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
                *c = '?';
        }
        return fail(
            p->error, p->error_size,
            "dtype '%s' is not supported; expected bool, an integer type, or float16, float32 or float64",
            descr);
    }
    char native = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
    header->swapped = size > 1 && descr[0] != '=' && descr[0] != native;
    return 1;
}

static int parse_shape(parser *p, npy_header *header) {
    if (!take(p, '('))
        return fail(p->error, p->error_size, "the header's 'shape' is not a tuple");
    header->rank = 0;
    while (!take(p, ')')) {
        skip_spaces(p);
        if (p->at == p->end || !is_digit(*p->at))
            return fail(p->error, p->error_size, "the header's 'shape' is not a tuple of sizes");
        int64_t size = 0;
        while (p->at < p->end && is_digit(*p->at)) {
            if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, *p->at - '0', &size))
                return fail(p->error, p->error_size, "the header's 'shape' has a size beyond 2^63");
            p->at++;
        }
        if (p->at < p->end && *p->at == 'L') /* Python 2 wrote long integers so */
            p->at++;
        if (header->rank == NPY_MAX_RANK)
            return fail(p->error, p->error_size, "more than %d dimensions", NPY_MAX_RANK);
        header->shape[header->rank++] = size;
        /* A comma follows every size but the last; (5) without one is a number, not a tuple. */
        bool comma = take(p, ',');
        skip_spaces(p);
        if (!comma && (header->rank == 1 || p->at == p->end || *p->at != ')'))
            return fail(p->error, p->error_size, "the header's 'shape' is not a tuple of sizes");
    }
    return 1;
}

/* Elements of the shape; also refuses shapes whose other sizes overflow beside a zero, since
 * strides are computed from them. */
static int count_elements(parser *p, npy_header *header) {
    int64_t product = header->item_bytes;
    bool empty = false;
    for (int i = 0; i < header->rank; i++) {
        if (header->shape[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(product, header->shape[i], &product) || product >= INT64_C(1) << 62)
            return fail(p->error, p->error_size, "the header's 'shape' is beyond 2^62 bytes");
    }
    header->count = empty ? 0 : product / header->item_bytes;
    return 1;
}

static int parse_dictionary(parser *p, npy_header *header) {
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    int seen = 0;
    if (!take(p, '{'))
        return fail(p->error, p->error_size, "the header is not a dictionary");
    while (!take(p, '}')) {
        char key[32];
        if (!take_string(p, key, sizeof key) || !take(p, ':'))
            return fail(p->error, p->error_size, "the header is not a dictionary");
        int field = strcmp(key, "descr") == 0           ? DESCR
                    : strcmp(key, "fortran_order") == 0 ? ORDER
                    : strcmp(key, "shape") == 0         ? SHAPE
                                                        : 0;
        if (!field || (seen & field))
            return fail(p->error, p->error_size, "the header has an unknown or repeated key");
        seen |= field;
        if (field == DESCR) {
            if (parse_descr(p, header) < 0)
                return -1;
        } else if (field == SHAPE) {
            if (parse_shape(p, header) < 0)
                return -1;
        } else if (take_word(p, "True")) {
            return fail(p->error, p->error_size,
                        "Fortran order; expected C order, as numpy.ascontiguousarray gives");
        } else if (!take_word(p, "False")) {
            return fail(p->error, p->error_size, "the header's 'fortran_order' is neither True nor False");
        }
        if (!take(p, ',')) {
            if (!take(p, '}'))
                return fail(p->error, p->error_size, "the header is not a dictionary");
            break;
        }
    }
    skip_spaces(p);
    if (p->at != p->end)
        return fail(p->error, p->error_size, "the header goes on after its dictionary");
    if (seen != (DESCR | ORDER | SHAPE))
        return fail(p->error, p->error_size, "the header lacks 'descr', 'fortran_order' or 'shape'");
    return count_elements(p, header);
}

int npy_parse_header(const uint8_t *bytes, size_t size, npy_header *header, size_t *needed, char *error,
                     size_t error_size) {
    static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    memset(header, 0, sizeof *header);
    *needed = NPY_PREFIX_BYTES;
    if (size > 0 && memcmp(bytes, magic, size < sizeof magic ? size : sizeof magic) != 0)
        return fail(error, error_size, "not a .npy file");
    if (size < NPY_PREFIX_BYTES)
        return 0;

    int version = bytes[6];
    if (version < 1 || version > 3 || bytes[7] != 0)
        return fail(error, error_size, "format version %d.%d; expected 1.0, 2.0 or 3.0", version, bytes[7]);
    size_t prefix = version == 1 ? 10 : 12;
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (version > 1)
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > NPY_MAX_HEADER_BYTES)
        return fail(error, error_size, "a header of %zu bytes; at most %d are read", length,
                    NPY_MAX_HEADER_BYTES);
    *needed = prefix + length;
    if (size < *needed)
        return 0;

    header->data_bytes = prefix + length;
    parser p = {(const char *)bytes + prefix, (const char *)bytes + prefix + length, error, error_size};
    return parse_dictionary(&p, header);
}
