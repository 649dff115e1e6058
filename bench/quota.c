/* Limits of cgroups, versions 1 and 2 (Linux, Documentation/admin-guide/cgroup-v2.rst and
 * scheduler/sched-bwc.rst).
 *
 * A limit holds for a group and everything below it, so the tightest on the way up to the root
 * decides. What can be seen of that way depends on the container: with a cgroup namespace its own
 * group looks like the root; without one, /proc/self/cgroup names a path of the host of which only
 * the part below the mount's root is visible here. */
#include "bench/quota.h"
#include "bench/sysfs.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One value found in one group's directory; `context` collects the tightest. */
typedef void (*group_reader)(void *context, const char *root, const char *directory, int version);

/* Calls `read` for `mount`/`path` and its parents down to `mount` itself. */
static void walk_up(const char *root, const char *mount, const char *path, int version, group_reader read,
                    void *context) {
    char directory[2048];
    size_t mount_length = strlen(mount);
    int length = snprintf(directory, sizeof directory, "%s%s", mount, path);
    if (length < 0 || (size_t)length >= sizeof directory)
        return;
    for (;;) {
        size_t end = strlen(directory);
        while (end > mount_length && directory[end - 1] == '/')
            directory[--end] = 0;
        read(context, root, directory, version);
        if (end <= mount_length)
            return;
        while (end > mount_length && directory[end - 1] != '/')
            directory[--end] = 0;
    }
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void unescape(char *text) {
    char *out = text;
    for (const char *in = text; *in; ++out) {
        if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' && in[2] <= '7' && in[3] >= '0' &&
            in[3] <= '7') {
            *out = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'));
            in += 4;
        } else {
            *out = *in++;
        }
    }
    *out = 0;
}

/* This process's path in the hierarchy: of version 2, or of version 1's `controller`. */
static bool own_path(const char *root, int version, const char *controller, char *path, size_t size) {
    char name[1024], line[2048];
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "r");
    if (!file)
        return false;
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *value = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!value)
            continue;
        *value++ = 0;
        ++controllers;
        if (version == 2 ? strncmp(line, "0:", 2) != 0 && strcmp(line, "0") != 0
                         : !sysfs_in_list(controllers, controller))
            continue;
        if (version == 2 && controllers[0])
            continue;
        found = value[0] == '/' && strlen(value) < size;
        if (found)
            snprintf(path, size, "%s", value);
    }
    fclose(file);
    return found;
}

/* Splits a line of mountinfo; false unless it is a cgroup mount of `version` with `controller`. */
static bool cgroup_mount(char *line, int version, const char *controller, char **mount_root, char **mount) {
    char *separator = strstr(line, " - ");
    if (!separator)
        return false;
    *separator = 0;
    char type[64], options[512];
    if (sscanf(separator + 3, "%63s %*s %511s", type, options) != 2)
        return false;
    if (strcmp(type, version == 2 ? "cgroup2" : "cgroup") != 0)
        return false;
    if (version == 1 && !sysfs_in_list(options, controller))
        return false;
    char *save = NULL, *field = strtok_r(line, " ", &save);
    for (int i = 0; field && i < 3; ++i)
        field = strtok_r(NULL, " ", &save);
    *mount_root = field;
    *mount = field ? strtok_r(NULL, " ", &save) : NULL;
    if (!*mount)
        return false;
    unescape(*mount_root);
    unescape(*mount);
    return true;
}

/* Whether ".." is one of the names in the path. */
static bool leads_up(const char *path) {
    for (const char *name = path; name; name = strchr(name, '/')) {
        name += *name == '/';
        if (strncmp(name, "..", 2) == 0 && (!name[2] || name[2] == '/'))
            return true;
    }
    return false;
}

/* The part of `path` below the mount's root; "" when the mount does not show it. Both begin with "/.." where
 * they are outside the cgroup namespace: of a mount made out there, what is below its root is seen all the
 * same. */
static const char *visible_path(const char *path, const char *mount_root) {
    size_t length = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    if (strncmp(path, mount_root, length) != 0 || (path[length] && path[length] != '/') ||
        leads_up(path + length))
        return "";
    return path + length;
}

static void visit_groups(const char *root, const char *controller, group_reader read, void *context) {
    char name[1024], line[4096], path[1024];
    bool mounted = false;
    for (int version = 1; version <= 2; ++version) {
        if (!own_path(root, version, controller, path, sizeof path))
            path[0] = 0;
        snprintf(name, sizeof name, "%s/proc/self/mountinfo", root);
        FILE *file = fopen(name, "r");
        while (file && fgets(line, sizeof line, file)) {
            line[strcspn(line, "\n")] = 0;
            char *mount_root, *mount;
            if (cgroup_mount(line, version, controller, &mount_root, &mount)) {
                mounted = true;
                walk_up(root, mount, visible_path(path, mount_root), version, read, context);
            }
        }
        if (file)
            fclose(file);
    }
    if (mounted)
        return;
    /* No table of mounts: the places where they usually are. */
    char v1[64];
    snprintf(v1, sizeof v1, "/sys/fs/cgroup/%s", controller);
    if (!own_path(root, 1, controller, path, sizeof path))
        path[0] = 0;
    walk_up(root, v1, visible_path(path, "/"), 1, read, context);
    if (!own_path(root, 2, controller, path, sizeof path))
        path[0] = 0;
    walk_up(root, "/sys/fs/cgroup", visible_path(path, "/"), 2, read, context);
}

static void read_cpu(void *context, const char *root, const char *directory, int version) {
    cpu_quota *tightest = context;
    char text[64], quota_text[32], period_text[32];
    const char *file = version == 2 ? "cpu.max" : "cpu.cfs_quota_us";
    int64_t quota, period;
    if (!sysfs_line(text, sizeof text, root, "%s/%s", directory, file))
        return;
    if (version == 2) {
        char excess;
        if (sscanf(text, "%31s %31s %c", quota_text, period_text, &excess) != 2)
            return;
        if (!sysfs_parse_int(quota_text, 1, INT64_MAX, &quota) || /* "max": no limit */
            !sysfs_parse_int(period_text, 1, INT64_MAX, &period))
            return;
    } else {
        if (!sysfs_parse_int(text, 1, INT64_MAX, &quota) || /* -1: no limit */
            !sysfs_int(&period, 1, INT64_MAX, root, "%s/cpu.cfs_period_us", directory))
            return;
    }
    double cpus = (double)quota / (double)period;
    if (tightest->cpus != 0 && cpus >= tightest->cpus)
        return;
    tightest->cpus = cpus;
    tightest->version = version;
    snprintf(tightest->source, sizeof tightest->source, "%s/%s", directory, file);
}

cpu_quota quota_read(const char *root) {
    cpu_quota tightest = {0};
    visit_groups(root, "cpu", read_cpu, &tightest);
    return tightest;
}

int quota_threads(const cpu_quota *quota) {
    if (quota->cpus <= 0)
        return INT_MAX;
    double threads = ceil(quota->cpus);
    return threads < 1 ? 1 : threads > INT_MAX ? INT_MAX : (int)threads;
}

static void read_memory(void *context, const char *root, const char *directory, int version) {
    int64_t *tightest = context, bytes;
    const char *file = version == 2 ? "memory.max" : "memory.limit_in_bytes";
    if (sysfs_int(&bytes, 1, INT64_MAX, root, "%s/%s", directory, file) && bytes < *tightest)
        *tightest = bytes;
}

int64_t quota_memory_bytes(const char *root) {
    int64_t tightest = INT64_MAX;
    visit_groups(root, "memory", read_memory, &tightest);
    return tightest;
}
