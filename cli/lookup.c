#include "lookup.h"
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

/* The path of this executable with links resolved, in `path`. */
static bool own_path(char path[PATH_MAX]) {
#ifdef __APPLE__
    char raw[PATH_MAX];
    uint32_t size = sizeof raw;
    return _NSGetExecutablePath(raw, &size) == 0 && realpath(raw, path);
#else
    return realpath("/proc/self/exe", path) != NULL;
#endif
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

/* Becomes the program at `path` if it is one. `python`: interpreter for Python scripts, or NULL. */
static void try_program(const char *path, const char *python, int argc, char **argv) {
    if (!is_file(path))
        return;
    bool script = ends_with(path, ".py") || has_python_shebang(path);
    bool executable = access(path, X_OK) == 0;
    if (!script && !executable)
        return;

    char **arguments = cli_alloc("the arguments", argc + 2, sizeof *arguments);
    if (!arguments)
        exit(CLI_USAGE);
    arguments[1] = (char *)path; /* exec does not write to it */
    for (int i = 1; i < argc; i++)
        arguments[i + 1] = argv[i];

    if (script && python && access(python, X_OK) == 0) {
        arguments[0] = (char *)python;
        execv(python, arguments);
    } else if (executable) {
        execv(path, arguments + 1);
    } else {
        arguments[0] = (char *)"python3";
        execvp("python3", arguments);
    }
    int failed = cli_error("cannot start %s: %s", path, strerror(errno));
    free(arguments);
    exit(failed);
}

static void try_directory(const char *directory, const char *name, const char *python, int argc,
                          char **argv) {
    static const char *const suffixes[] = {"", ".py"};
    char path[PATH_MAX];
    for (int i = 0; i < 2; i++) {
        int length = snprintf(path, sizeof path, "%s/attnscope-%s%s", directory, name, suffixes[i]);
        if (length > 0 && (size_t)length < sizeof path)
            try_program(path, python, argc, argv);
    }
}

void cli_run_program(const char *name, int argc, char **argv) {
    char self[PATH_MAX], built[PATH_MAX];
    if (own_path(self)) {
        setenv("ATTNSCOPE", self, 1);
        bool uninstalled = realpath(ATTNSCOPE_BUILD_DIR "/cli/attnscope", built) && strcmp(self, built) == 0;
        const char *python = uninstalled ? ATTNSCOPE_SOURCE_DIR "/.venv/bin/python" : NULL;
        *strrchr(self, '/') = 0;
        try_directory(self, name, python, argc, argv);
        if (uninstalled) {
            try_directory(ATTNSCOPE_SOURCE_DIR "/scripts", name, python, argc, argv);
            try_directory(ATTNSCOPE_BUILD_DIR "/bench", name, python, argc, argv);
        }
    }

    const char *search = getenv("PATH");
    if (!search)
        return;
    char *directories = strdup(search), *rest = directories;
    for (char *directory; rest && (directory = strsep(&rest, ":")) != NULL;) {
        if (*directory)
            try_directory(directory, name, NULL, argc, argv);
    }
    free(directories);
}
