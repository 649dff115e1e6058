#include "tests/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xC5 };

const char *const guard_place_name[GUARD_PLACES] = {"back", "front", "shifted"};

guard guard_new(size_t bytes, guard_place place, size_t element_bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = place == GUARD_SHIFTED ? element_bytes : 0;
    size_t inner = (before + bytes + page - 1) / page * page + (bytes == 0) * page;
    unsigned char *map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + page, inner, PROT_READ | PROT_WRITE) != 0) {
        perror("guard_new");
        abort();
    }
    guard buffer = {.bytes = bytes, .pages = map + page, .pages_bytes = inner};
    buffer.data = place == GUARD_BACK ? buffer.pages + inner - bytes : buffer.pages + before;
    guard_reset(&buffer);
    return buffer;
}

void guard_seal(const guard *buffer) {
    if (mprotect(buffer->pages, buffer->pages_bytes, PROT_READ) != 0)
        abort();
}

static bool all_canary(const unsigned char *from, const unsigned char *to) {
    while (from < to)
        if (*from++ != CANARY)
            return false;
    return true;
}

bool guard_intact(const guard *buffer) {
    const unsigned char *data = buffer->data;
    return all_canary(buffer->pages, data) &&
           all_canary(data + buffer->bytes, buffer->pages + buffer->pages_bytes);
}

void guard_reset(const guard *buffer) {
    memset(buffer->pages, CANARY, buffer->pages_bytes);
    memset(buffer->data, 0xFF, buffer->bytes);
}

void guard_free(guard *buffer) {
    if (buffer->pages != NULL) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        munmap(buffer->pages - page, buffer->pages_bytes + 2 * page);
    }
    *buffer = (guard){0};
}
