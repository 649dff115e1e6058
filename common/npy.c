#include "common/npy.h"
#include "common/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool refuse(const char *path, const char *reason) {
    cli_error("%s: %s", path, reason);
    return false;
}

/* Reads up to `bytes`; fewer only at the end of the file. -1 on an error, in errno. */
static ssize_t read_fully(int descriptor, uint8_t *buffer, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = read(descriptor, buffer + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static bool read_header(int descriptor, const char *path, npy_header *header) {
    uint8_t *bytes = cli_alloc(path, NPY_PREFIX_BYTES + NPY_MAX_HEADER_BYTES, 1);
    if (!bytes)
        return false;
    size_t have = 0, needed = NPY_PREFIX_BYTES;
    char error[256];
    int result;
    for (;;) {
        ssize_t got = read_fully(descriptor, bytes + have, needed - have);
        if (got < 0) {
            result = refuse(path, strerror(errno));
            break;
        }
        bool ended = have + (size_t)got < needed;
        have += (size_t)got;
        result = npy_parse_header(bytes, have, header, &needed, error, sizeof error);
        if (result == 0 && !ended)
            continue;
        if (result == 0)
            result = refuse(path, have ? "truncated: the file ends within the header"
                                       : "an empty file, not a .npy file");
        else if (result < 0)
            result = refuse(path, error);
        break;
    }
    free(bytes);
    return result > 0;
}

static bool truncated(const char *path, size_t present, size_t expected) {
    cli_error("%s: truncated: %zu of %zu bytes of data are there", path, present, expected);
    return false;
}

static bool read_data(int descriptor, const char *path, npy_array *array) {
    const npy_header *header = &array->header;
    size_t bytes = (size_t)header->count * (size_t)header->item_bytes;

    /* A file that lies about its size must not cost the memory it claims. */
    struct stat status;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
        (size_t)status.st_size < header->data_bytes + bytes)
        return truncated(path, (size_t)status.st_size - header->data_bytes, bytes);

    array->data = malloc(bytes ? bytes : 1);
    if (!array->data) {
        cli_error("%s: not enough memory for its %zu bytes", path, bytes);
        return false;
    }
    ssize_t got = read_fully(descriptor, array->data, bytes);
    if (got < 0)
        return refuse(path, strerror(errno));
    if ((size_t)got < bytes)
        return truncated(path, (size_t)got, bytes);
    uint8_t extra;
    got = read_fully(descriptor, &extra, 1);
    if (got < 0)
        return refuse(path, strerror(errno));
    if (got > 0) {
        cli_error("%s: the file goes on after its %zu bytes of data", path, bytes);
        return false;
    }

    if (header->swapped) {
        uint8_t *item = array->data;
        for (int64_t i = 0; i < header->count; i++, item += header->item_bytes) {
            for (int low = 0, high = header->item_bytes - 1; low < high; low++, high--) {
                uint8_t kept = item[low];
                item[low] = item[high];
                item[high] = kept;
            }
        }
    }
    return true;
}

bool npy_read(const char *path, npy_array *array) {
    memset(array, 0, sizeof *array);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return refuse(path, strerror(errno));
    bool read = read_header(descriptor, path, &array->header) && read_data(descriptor, path, array);
    close(descriptor);
    if (!read)
        npy_free(array);
    return read;
}

void npy_free(npy_array *array) {
    free(array->data);
    array->data = NULL;
}

const char *npy_shape_text(int rank, const int64_t *shape, char *text, size_t size) {
    size_t used = 0;
    snprintf(text, size, "(");
    for (int i = 0; i < rank; i++) {
        used = strlen(text);
        snprintf(text + used, size - used, "%lld%s", (long long)shape[i],
                 i + 1 < rank ? ", " : (rank == 1 ? "," : ""));
    }
    used = strlen(text);
    snprintf(text + used, size - used, ")");
    return text;
}

const char *npy_type_text(const npy_header *header) {
    static const char *const names[][4] = {
        {"int8", "int16", "int32", "int64"},
        {"uint8", "uint16", "uint32", "uint64"},
        {NULL, "float16", "float32", "float64"}, /* the header refuses a float of one byte */
    };
    if (header->kind == 'b')
        return "bool";
    int size = header->item_bytes == 8 ? 3 : header->item_bytes == 4 ? 2 : header->item_bytes == 2 ? 1 : 0;
    return names[header->kind == 'i' ? 0 : header->kind == 'u' ? 1 : 2][size];
}

/* Refuses the array's type for `option`, and frees the array. */
static void *wrong_type(npy_array *array, const char *option, const char *expected) {
    cli_error("--%s: dtype %s; expected %s", option, npy_type_text(&array->header), expected);
    npy_free(array);
    return NULL;
}

float *npy_take_floats(npy_array *array, const char *option) {
    const npy_header *header = &array->header;
    if (header->kind != 'f')
        return wrong_type(array, option, "float16, float32 or float64");
    float *floats;
    if (header->item_bytes == 4) {
        floats = array->data;
        array->data = NULL;
        return floats;
    }
    floats = cli_alloc(option, header->count, sizeof *floats);
    for (int64_t i = 0; floats && i < header->count; i++) {
        if (header->item_bytes == 2)
            floats[i] = attn_f16_to_f32(((const uint16_t *)array->data)[i]);
        else
            floats[i] = (float)((const double *)array->data)[i];
    }
    npy_free(array);
    return floats;
}

static uint64_t unsigned_at(const npy_array *array, int64_t i) {
    switch (array->header.item_bytes) {
    case 1:
        return ((const uint8_t *)array->data)[i];
    case 2:
        return ((const uint16_t *)array->data)[i];
    case 4:
        return ((const uint32_t *)array->data)[i];
    default:
        return ((const uint64_t *)array->data)[i];
    }
}

static int64_t signed_at(const npy_array *array, int64_t i) {
    switch (array->header.item_bytes) {
    case 1:
        return ((const int8_t *)array->data)[i];
    case 2:
        return ((const int16_t *)array->data)[i];
    case 4:
        return ((const int32_t *)array->data)[i];
    default:
        return ((const int64_t *)array->data)[i];
    }
}

int64_t *npy_take_integers(npy_array *array, const char *option) {
    const npy_header *header = &array->header;
    if (header->kind != 'i' && header->kind != 'u')
        return wrong_type(array, option, "an integer type");
    int64_t *integers = cli_alloc(option, header->count, sizeof *integers);
    for (int64_t i = 0; integers && i < header->count; i++) {
        if (header->kind == 'u' && unsigned_at(array, i) > INT64_MAX) {
            cli_error("--%s: value %llu is beyond int64", option, (unsigned long long)unsigned_at(array, i));
            free(integers);
            integers = NULL;
        } else {
            integers[i] = header->kind == 'u' ? (int64_t)unsigned_at(array, i) : signed_at(array, i);
        }
    }
    npy_free(array);
    return integers;
}

uint8_t *npy_take_booleans(npy_array *array, const char *option) {
    if (array->header.kind != 'b')
        return wrong_type(array, option, "bool (true = attend)");
    uint8_t *booleans = array->data;
    for (int64_t i = 0; i < array->header.count; i++)
        booleans[i] = booleans[i] != 0;
    array->data = NULL;
    return booleans;
}

bool npy_write_header(cli_output *output, const char *descr, int rank, const int64_t *shape) {
    if (!output->path)
        return true;
    enum { PREFIX = 10, ALIGN = 64, MOST = 1024 };
    char bytes[PREFIX + MOST] = "\x93NUMPY\x01";
    char shape_text[NPY_SHAPE_TEXT];
    npy_shape_text(rank, shape, shape_text, sizeof shape_text);
    int text = snprintf(bytes + PREFIX, MOST, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr,
                        shape_text);
    /* Spaces and a newline fill up to the next multiple of 64, so that the data is aligned. */
    int total = (PREFIX + text + 1 + ALIGN - 1) / ALIGN * ALIGN;
    memset(bytes + PREFIX + text, ' ', (size_t)(total - PREFIX - text - 1));
    bytes[total - 1] = '\n';
    bytes[8] = (char)((total - PREFIX) & 0xff);
    bytes[9] = (char)((total - PREFIX) >> 8);
    return cli_output_write(output, bytes, (size_t)total);
}
