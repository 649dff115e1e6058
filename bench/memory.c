#include "bench/memory.h"
#include "bench/sysfs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool memory_reset_peak(char *why, size_t size) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    const bool written = file && fputs("5", file) >= 0;
    const int error = errno;
    /* The kernel answers when the buffer is written, which may be here. */
    if (file && fclose(file) == 0 && written)
        return true;
    snprintf(why, size, "not available: cannot write /proc/self/clear_refs: %s",
             strerror(error ? error : errno));
    return false;
}

/* "VmHWM:	  123 kB" */
static int64_t status_bytes(const char *name) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    int64_t found = -1;
    const size_t length = strlen(name);
    while (file && found < 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            found = strtoll(line + length + 1, NULL, 10) * 1024;
    }
    if (file)
        fclose(file);
    return found;
}

int64_t memory_resident(void) {
    return status_bytes("VmRSS");
}

int64_t memory_resident_peak(void) {
    return status_bytes("VmHWM");
}

/* Bytes of the pieces that lie in first..last - 1. */
static int64_t overlap(const memory_piece *pieces, int count, uintptr_t first, uintptr_t last) {
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        const uintptr_t from = (uintptr_t)pieces[i].at, to = from + (uintptr_t)pieces[i].bytes;
        const uintptr_t low = from > first ? from : first, high = to < last ? to : last;
        bytes += pieces[i].at && low < high ? (int64_t)(high - low) : 0;
    }
    return bytes;
}

int64_t memory_huge_bytes(const memory_piece *pieces, int count, const char *smaps) {
    FILE *file = smaps ? fmemopen((void *)smaps, strlen(smaps), "r") : fopen("/proc/self/smaps", "r");
    char line[512];
    int64_t ours = 0, huge = -1, kilobytes;
    while (file && fgets(line, sizeof line, file)) {
        uintptr_t first, last;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &first, &last) == 2)
            ours = overlap(pieces, count, first, last);
        else if (ours > 0 && sscanf(line, "AnonHugePages: %" SCNd64 " kB", &kilobytes) == 1)
            huge = (huge > 0 ? huge : 0) + (kilobytes * 1024 < ours ? kilobytes * 1024 : ours);
    }
    if (file)
        fclose(file);
    return huge;
}

bool memory_chosen(const char *line, char *text, size_t size) {
    const char *open = strchr(line, '['), *close = open ? strchr(open, ']') : NULL;
    if (!close || close == open + 1 || (size_t)(close - open) > size)
        return false;
    snprintf(text, size, "%.*s", (int)(close - open - 1), open + 1);
    return true;
}

void memory_huge_pages(char *state, size_t size, int64_t *bytes) {
    static const char place[] = "sys/kernel/mm/transparent_hugepage";
    const char *root = sysfs_root(NULL);
    char line[128];
    *state = 0;
    *bytes = 0;
    if (sysfs_line(line, sizeof line, root, "/%s/enabled", place) && !memory_chosen(line, state, size))
        *state = 0;
    if (!sysfs_int(bytes, 1, INT64_C(1) << 40, root, "/%s/hpage_pmd_size", place))
        *bytes = 0;
}
