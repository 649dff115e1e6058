/* .npy files: any bytes are read as the format says or refused with one line, whether they come all at once
 * or piece by piece; and what is read is what the bytes hold. */
#include "tests/fuzz/fuzz.h"

#include "common/cli.h"
#include "common/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The header of the first `size` bytes, in memory that ends with them. */
static int parse(const uint8_t *data, size_t size, npy_header *header, size_t *needed) {
    uint8_t *bytes = fuzz_alloc(size);
    if (size > 0)
        memcpy(bytes, data, size);
    char error[256];
    memset(error, 0x5a, sizeof error);
    const int result = npy_parse_header(bytes, size, header, needed, error, sizeof error);
    free(bytes);
    FUZZ_CHECK(result >= -1 && result <= 1, "result %d", result);
    if (result < 0)
        fuzz_check_error(error, sizeof error);
    if (result == 0)
        FUZZ_CHECK(*needed > size && *needed <= NPY_PREFIX_BYTES + NPY_MAX_HEADER_BYTES, "needs %zu of %zu",
                   *needed, size);
    return result;
}

static void check_header(const npy_header *h, size_t size) {
    FUZZ_CHECK(h->rank >= 0 && h->rank <= NPY_MAX_RANK, "rank %d", h->rank);
    FUZZ_CHECK(h->kind && strchr("biuf", h->kind), "kind %d", h->kind);
    FUZZ_CHECK(h->item_bytes == 1 || h->item_bytes == 2 || h->item_bytes == 4 || h->item_bytes == 8,
               "%d bytes", h->item_bytes);
    FUZZ_CHECK(h->data_bytes >= 10 && h->data_bytes <= size, "data at %zu of %zu", h->data_bytes, size);
    fuzz_wide count = 1, product = h->item_bytes;
    for (int i = 0; i < h->rank; i++) {
        FUZZ_CHECK(h->shape[i] >= 0, "size %lld", (long long)h->shape[i]);
        count *= h->shape[i];
        product *= h->shape[i] ? h->shape[i] : 1;
        FUZZ_CHECK(product < (fuzz_wide)1 << 62, "size %d of %lld", i, (long long)h->shape[i]);
    }
    FUZZ_CHECK(count == h->count, "%lld elements", (long long)h->count);
}

/* Writes a header of this shape and reads it again. */
static void check_written(const npy_header *h) {
    char *text = fuzz_alloc(NPY_SHAPE_TEXT);
    FUZZ_CHECK(strlen(npy_shape_text(h->rank, h->shape, text, NPY_SHAPE_TEXT)) < NPY_SHAPE_TEXT, "%s", text);
    free(text);
    uint8_t bytes[2048] = {0}; /* MemorySanitizer does not see what fmemopen stores */
    cli_output output = {.path = "memory", .file = fmemopen(bytes, sizeof bytes, "wb")};
    FUZZ_CHECK(output.file && npy_write_header(&output, "|b1", h->rank, h->shape), "cannot write");
    fflush(output.file);
    const size_t size = (size_t)ftell(output.file);
    fclose(output.file);
    npy_header again;
    size_t needed;
    FUZZ_CHECK(size % 64 == 0 && parse(bytes, size, &again, &needed) == 1, "%zu bytes", size);
    FUZZ_CHECK(again.kind == 'b' && again.rank == h->rank && again.count == h->count &&
                   memcmp(again.shape, h->shape, (size_t)h->rank * sizeof *h->shape) == 0,
               "another shape was read than written");
}

/* ---- the data ---- */

static int open_file(void) {
#ifdef MFD_CLOEXEC
    return memfd_create("fuzz_npy", MFD_CLOEXEC);
#else
    FILE *file = tmpfile();
    return file ? fileno(file) : -1;
#endif
}

/* A file that holds these bytes; its name. */
static const char *file_of(const uint8_t *data, size_t size) {
    static int descriptor = -1;
    static char path[32];
    if (descriptor < 0) {
        descriptor = open_file();
        FUZZ_CHECK(descriptor >= 0, "no temporary file");
        snprintf(path, sizeof path, "/dev/fd/%d", descriptor);
    }
    FUZZ_CHECK(ftruncate(descriptor, (off_t)size) == 0 && lseek(descriptor, 0, SEEK_SET) == 0 &&
                   write(descriptor, data, size) == (ssize_t)size && lseek(descriptor, 0, SEEK_SET) == 0,
               "cannot write %zu bytes", size);
    return path;
}

static npy_array read_again(const uint8_t *data, size_t size) {
    npy_array array;
    FUZZ_CHECK(npy_read(file_of(data, size), &array), "was read before");
    return array;
}

/* Element i as the file has it. */
static uint64_t element(const npy_header *h, const uint8_t *data, int64_t i) {
    const bool little = (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) != h->swapped;
    const uint8_t *bytes = data + h->data_bytes + i * h->item_bytes;
    uint64_t value = 0;
    for (int k = 0; k < h->item_bytes; k++)
        value |= (uint64_t)bytes[k] << 8 * (little ? k : h->item_bytes - 1 - k);
    return value;
}

static void check_floats(const npy_header *h, const uint8_t *data, size_t size) {
    npy_array array = read_again(data, size);
    fuzz_listen();
    float *values = npy_take_floats(&array, "q");
    FUZZ_CHECK(fuzz_listened(!values) == !values && !array.data, "floats");
    FUZZ_CHECK(!!values == (h->kind == 'f'), "floats of %s", npy_type_text(h));
    for (int64_t i = 0; values && i < h->count; i++) {
        const uint64_t bits = element(h, data, i);
        float expected;
        if (h->item_bytes == 8) {
            double wide;
            memcpy(&wide, &bits, sizeof wide);
            expected = (float)wide;
        } else if (h->item_bytes == 4) {
            const uint32_t low = (uint32_t)bits;
            memcpy(&expected, &low, sizeof expected);
        } else {
            expected = attn_f16_to_f32((uint16_t)bits);
        }
        FUZZ_CHECK(memcmp(&values[i], &expected, sizeof expected) == 0, "element %lld is %g, not %g",
                   (long long)i, (double)values[i], (double)expected);
    }
    free(values);
}

static void check_integers(const npy_header *h, const uint8_t *data, size_t size) {
    bool fits = h->kind == 'i' || h->kind == 'u';
    for (int64_t i = 0; h->kind == 'u' && i < h->count; i++)
        fits &= element(h, data, i) <= INT64_MAX;
    npy_array array = read_again(data, size);
    fuzz_listen();
    int64_t *values = npy_take_integers(&array, "kv-lens");
    FUZZ_CHECK(fuzz_listened(!values) == !values && !array.data, "integers");
    FUZZ_CHECK(!!values == fits, "integers of %s", npy_type_text(h));
    for (int64_t i = 0; values && i < h->count; i++) {
        const int unused = 64 - 8 * h->item_bytes;
        const uint64_t bits = element(h, data, i);
        const int64_t expected = h->kind == 'u' ? (int64_t)bits : (int64_t)(bits << unused) >> unused;
        FUZZ_CHECK(values[i] == expected, "element %lld is %lld, not %lld", (long long)i,
                   (long long)values[i], (long long)expected);
    }
    free(values);
}

static void check_booleans(const npy_header *h, const uint8_t *data, size_t size) {
    npy_array array = read_again(data, size);
    fuzz_listen();
    uint8_t *values = npy_take_booleans(&array, "mask");
    FUZZ_CHECK(fuzz_listened(!values) == !values && !array.data, "booleans");
    FUZZ_CHECK(!!values == (h->kind == 'b'), "booleans of %s", npy_type_text(h));
    for (int64_t i = 0; values && i < h->count; i++)
        FUZZ_CHECK(values[i] == (element(h, data, i) != 0), "element %lld is %d", (long long)i, values[i]);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    npy_header header, step;
    size_t needed, have = 0;
    const int result = parse(data, size, &header, &needed);

    /* Byte for byte what the parser asks for, as a file is read. */
    int stepped;
    while ((stepped = parse(data, have, &step, &needed)) == 0 && have < size)
        have = needed < size ? needed : size;
    FUZZ_CHECK(stepped == result, "%d in steps, %d at once", stepped, result);
    FUZZ_CHECK(result <= 0 || memcmp(&header, &step, sizeof header) == 0, "another header in steps");
    if (result > 0) {
        check_header(&header, size);
        check_written(&header);
    }

    const bool whole =
        result > 0 && (fuzz_wide)(size - header.data_bytes) == (fuzz_wide)header.count * header.item_bytes;
    npy_array array;
    fuzz_listen();
    const bool read = npy_read(file_of(data, size), &array);
    FUZZ_CHECK(fuzz_listened(!read) == !read && read == whole, "%s", read ? "accepted" : "refused");
    FUZZ_CHECK(read == !!array.data, "%s", read ? "no data" : "data");
    npy_free(&array);
    if (read) {
        check_floats(&header, data, size);
        check_integers(&header, data, size);
        check_booleans(&header, data, size);
    }
    return 0;
}
