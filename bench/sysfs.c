#include "bench/sysfs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *sysfs_root(const char *root) {
    if (!root)
        root = getenv("ATTNSCOPE_FSROOT");
    return root ? root : "";
}

static bool read_line(char *text, size_t size, const char *root, const char *path, va_list arguments) {
    char name[1024];
    text[0] = 0;
    int length = snprintf(name, sizeof name, "%s", root);
    if (length < 0 || (size_t)length >= sizeof name)
        return false;
    size_t left = sizeof name - (size_t)length;
    int rest = vsnprintf(name + length, left, path, arguments);
    if (rest < 0 || (size_t)rest >= left)
        return false;
    FILE *file = fopen(name, "r");
    if (!file)
        return false;
    bool fits = fgets(text, (int)size, file) != NULL;
    fclose(file);
    size_t end = strcspn(text, "\n");
    fits = fits && end > 0 && end + 1 < size;
    text[end] = 0;
    for (const char *c = text; *c && fits; ++c)
        fits = *c >= 0x20 && *c <= 0x7E;
    if (!fits)
        text[0] = 0;
    return fits;
}

bool sysfs_line(char *text, size_t size, const char *root, const char *path, ...) {
    va_list arguments;
    va_start(arguments, path);
    bool found = read_line(text, size, root, path, arguments);
    va_end(arguments);
    return found;
}

bool sysfs_in_list(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *item = list; item; item = strchr(item, ',')) {
        item += *item == ',';
        if (strncmp(item, name, length) == 0 && (!item[length] || item[length] == ','))
            return true;
    }
    return false;
}

bool sysfs_parse_int(const char *text, int64_t min, int64_t max, int64_t *value) {
    bool negative = text[0] == '-';
    const char *digit = text + negative;
    uint64_t magnitude = 0;
    if (!*digit)
        return false;
    for (; *digit; ++digit) {
        if (*digit < '0' || *digit > '9' || magnitude > (uint64_t)(INT64_MAX - 9) / 10)
            return false;
        magnitude = magnitude * 10 + (uint64_t)(*digit - '0');
    }
    int64_t number = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    if (number < min || number > max)
        return false;
    *value = number;
    return true;
}

bool sysfs_int(int64_t *value, int64_t min, int64_t max, const char *root, const char *path, ...) {
    char text[64];
    va_list arguments;
    va_start(arguments, path);
    bool found = read_line(text, sizeof text, root, path, arguments);
    va_end(arguments);
    return found && sysfs_parse_int(text, min, max, value);
}

bool sysfs_parse_bytes(const char *text, int64_t *bytes) {
    char digits[32];
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length >= sizeof digits)
        return false;
    memcpy(digits, text, length);
    digits[length] = 0;
    const char *unit = text + length;
    int shift = unit[0] == 'K' ? 10 : unit[0] == 'M' ? 20 : unit[0] == 'G' ? 30 : 0;
    if ((shift && unit[1]) || (!shift && unit[0]))
        return false;
    int64_t number;
    if (!sysfs_parse_int(digits, 1, INT64_MAX >> shift, &number))
        return false;
    *bytes = number << shift;
    return true;
}

bool sysfs_has_cpu(const sysfs_cpus *cpus, int cpu) {
    return cpu >= 0 && cpu < SYSFS_CPUS && (cpus->words[cpu / 64] >> (cpu % 64) & 1);
}

void sysfs_add_cpu(sysfs_cpus *cpus, int cpu) {
    if (cpu >= 0 && cpu < SYSFS_CPUS)
        cpus->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

int sysfs_count_cpus(const sysfs_cpus *cpus) {
    int count = 0;
    for (int cpu = 0; cpu < SYSFS_CPUS; ++cpu)
        count += sysfs_has_cpu(cpus, cpu);
    return count;
}

int sysfs_first_cpu(const sysfs_cpus *cpus) {
    for (int cpu = 0; cpu < SYSFS_CPUS; ++cpu)
        if (sysfs_has_cpu(cpus, cpu))
            return cpu;
    return -1;
}

/* Takes a CPU number from *text and moves it on. */
static bool take_cpu(const char **text, int *cpu) {
    int number = 0;
    const char *digit = *text;
    for (; *digit >= '0' && *digit <= '9'; ++digit) {
        number = number * 10 + (*digit - '0');
        if (number >= SYSFS_CPUS)
            return false;
    }
    if (digit == *text)
        return false;
    *text = digit;
    *cpu = number;
    return true;
}

bool sysfs_parse_cpus(const char *text, sysfs_cpus *cpus) {
    memset(cpus, 0, sizeof *cpus);
    for (;;) {
        int first, last;
        bool good = take_cpu(&text, &first);
        last = first;
        if (good && *text == '-') {
            ++text;
            good = take_cpu(&text, &last) && last >= first;
        }
        if (!good || (*text && *text != ',')) {
            memset(cpus, 0, sizeof *cpus);
            return false;
        }
        for (int cpu = first; cpu <= last; ++cpu)
            sysfs_add_cpu(cpus, cpu);
        if (!*text++)
            return true;
    }
}

bool sysfs_cpu_list(sysfs_cpus *cpus, const char *root, const char *path, ...) {
    char text[4096]; /* sysfs shows a page at most */
    va_list arguments;
    va_start(arguments, path);
    bool found = read_line(text, sizeof text, root, path, arguments);
    va_end(arguments);
    if (!found)
        memset(cpus, 0, sizeof *cpus);
    return found && sysfs_parse_cpus(text, cpus);
}
