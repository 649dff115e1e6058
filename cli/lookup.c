#include "cli/lookup.h"
#include "common/cli.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __APPLE__
#    include <mach-o/dyld.h>
#endif

bool cli_valid_name(const char *name) {
    if (!isalnum((unsigned char)*name))
        return false;
    for (const char *c = name; *c; c++) {
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_')
            return false;
    }
    return true;
}

/* The path of this executable with links resolved; "" if that is unknown. */
static void own_path(char path[PATH_MAX]) {
#ifdef __APPLE__
    char raw[PATH_MAX];
    uint32_t size = sizeof raw;
    bool known = _NSGetExecutablePath(raw, &size) == 0 && realpath(raw, path);
#else
    bool known = realpath("/proc/self/exe", path) != NULL;
#endif
    if (!known)
        *path = 0;
}

static bool is_file(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* Does the file's first line ("#!...") name Python? */
static bool has_python_shebang(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    char line[128] = "";
    bool python = fgets(line, sizeof line, file) && strncmp(line, "#!", 2) == 0 && strstr(line, "python");
    fclose(file);
    return python;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* A program found: its file, and the interpreter that a Python script runs in (NULL: it starts itself). */
typedef struct program {
    char path[PATH_MAX];
    const char *python;
} program;

/* `python`: the environment's interpreter, or NULL. */
static bool try_file(const char *path, const char *python, program *found) {
    if (!is_file(path))
        return false;
    bool script = ends_with(path, ".py") || has_python_shebang(path);
    bool executable = access(path, X_OK) == 0;
    if (!script && !executable)
        return false;
    snprintf(found->path, sizeof found->path, "%s", path);
    found->python = NULL;
    if (script && python && access(python, X_OK) == 0)
        found->python = python;
    else if (!executable)
        found->python = "python3";
    return true;
}

static bool try_directory(const char *directory, const char *name, const char *python, program *found) {
    static const char *const suffixes[] = {"", ".py"};
    char path[PATH_MAX];
    for (int i = 0; i < 2; i++) {
        int length = snprintf(path, sizeof path, "%s/attnscope-%s%s", directory, name, suffixes[i]);
        if (length > 0 && (size_t)length < sizeof path && try_file(path, python, found))
            return true;
    }
    return false;
}

static bool find_on_path(const char *name, program *found) {
    const char *search = getenv("PATH");
    char *directories = search ? strdup(search) : NULL, *rest = directories;
    bool is_there = false;
    for (char *directory; !is_there && rest && (directory = strsep(&rest, ":")) != NULL;)
        is_there = *directory && try_directory(directory, name, NULL, found);
    free(directories);
    return is_there;
}

/* `self`: own_path(). */
static bool find_program(const char *name, const char *self, program *found) {
    if (*self) {
        char built[PATH_MAX], beside[PATH_MAX];
        bool uninstalled = realpath(ATTNSCOPE_BUILD_DIR "/cli/attnscope", built) && strcmp(self, built) == 0;
        const char *python = uninstalled ? ATTNSCOPE_SOURCE_DIR "/.venv/bin/python" : NULL;
        snprintf(beside, sizeof beside, "%.*s", (int)(strrchr(self, '/') - self), self);
        if (try_directory(beside, name, python, found))
            return true;
        if (uninstalled && (try_directory(ATTNSCOPE_SOURCE_DIR "/scripts", name, python, found) ||
                            try_directory(ATTNSCOPE_BUILD_DIR "/bench", name, python, found)))
            return true;
    }
    return find_on_path(name, found);
}

bool cli_has_program(const char *name) {
    char self[PATH_MAX];
    program found;
    own_path(self);
    return find_program(name, self, &found);
}

void cli_run_program(const char *name, int argc, char **argv) {
    char self[PATH_MAX];
    program found;
    own_path(self);
    if (*self)
        setenv("ATTNSCOPE", self, 1);
    if (!find_program(name, self, &found))
        return;
    char **arguments = cli_alloc("the arguments", argc + 2, sizeof *arguments);
    if (!arguments)
        exit(CLI_USAGE);
    arguments[0] = (char *)found.python; /* exec does not write to what it is given */
    arguments[1] = found.path;
    for (int i = 1; i < argc; i++)
        arguments[i + 1] = argv[i];
    if (found.python)
        execvp(found.python, arguments);
    else
        execv(found.path, arguments + 1);
    int failed = cli_error("cannot start %s: %s", found.path, strerror(errno));
    free(arguments);
    exit(failed);
}
