#include "common/output.h"
#include "common/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Temporary files to remove when a signal ends the program. A slot holds a pointer into a live
 * cli_output, so the handler only reads. */
enum { MAX_PENDING = 8 };
static const char *volatile pending[MAX_PENDING];

void cli_output_abandon(void) {
    for (int i = 0; i < MAX_PENDING; i++) {
        if (pending[i])
            unlink(pending[i]);
    }
}

static void on_signal(int number) {
    cli_output_abandon();
    /* SA_RESETHAND: this time the signal does what it does by default. */
    raise(number);
}

static void watch_signals(void) {
    static bool done;
    if (done)
        return;
    done = true;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) {
            struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
            sigemptyset(&action.sa_mask);
            sigaction(signals[i], &action, NULL);
        }
    }
}

static void set_pending(const char *path, bool add) {
    for (int i = 0; i < MAX_PENDING; i++) {
        if (pending[i] == (add ? NULL : path)) {
            pending[i] = add ? path : NULL;
            return;
        }
    }
}

static bool refuse(const cli_output *output, const char *reason) {
    cli_error("cannot write %s: %s", output->path, reason);
    return false;
}

/* Writes into `target` where a file of this name would be made: its directory, with links resolved, and its
 * name. */
static bool resolve_new(cli_output *output, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char *directory = slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");
    char resolved[PATH_MAX];
    bool found = directory && realpath(directory, resolved);
    int reason = errno;
    free(directory);
    if (!found)
        return refuse(output, strerror(reason));
    const char *separator = strcmp(resolved, "/") == 0 ? "" : "/";
    int length = snprintf(output->target, sizeof output->target, "%s%s%s", resolved, separator, name);
    return (length >= 0 && (size_t)length < sizeof output->target) || refuse(output, strerror(ENAMETOOLONG));
}

/* A link that leads to nothing is followed like one that leads to a file: what it names is made. */
static bool follow_links(cli_output *output) {
    /* Linux follows 40 of them: more, and loops, were found by stat before. The last turn finds no link. */
    enum { MOST_LINKS = 40 };
    for (int i = 0; i <= MOST_LINKS; i++) {
        char link[PATH_MAX], path[2 * PATH_MAX];
        const ssize_t length = readlink(output->target, link, sizeof link);
        if (length < 0)
            return errno == EINVAL || errno == ENOENT || refuse(output, strerror(errno));
        if (length == 0 || (size_t)length == sizeof link || link[length - 1] == '/')
            return refuse(output, "is a link to no file's name");
        link[length] = 0;
        const int parent = *link == '/' ? 0 : (int)(strrchr(output->target, '/') + 1 - output->target);
        snprintf(path, sizeof path, "%.*s%s", parent, output->target, link);
        if (!resolve_new(output, path))
            return false;
    }
    return refuse(output, strerror(ELOOP));
}

/* Whether this process could write into the file, as with `--out /dev/stdout >file`: it would be replaced
 * under the descriptor, and what is printed there would be lost. Of descriptors that were opened to read
 * there is nothing to lose; flock(1) hands one down. Those beyond are nobody's standard output. */
static bool is_open_for_writing(const struct stat *file) {
    enum { MOST_DESCRIPTORS = 256 };
    for (int i = 0; i < MOST_DESCRIPTORS; i++) {
        struct stat status;
        if (fstat(i, &status) == 0 && status.st_dev == file->st_dev && status.st_ino == file->st_ino &&
            (fcntl(i, F_GETFL) & O_ACCMODE) != O_RDONLY)
            return true;
    }
    return false;
}

bool cli_output_prepare(cli_output *output, const char *option, const char *path) {
    memset(output, 0, sizeof *output);
    if (!path)
        return true;
    output->path = path;
    output->mode = -1;
    if (!*path || path[strlen(path) - 1] == '/') {
        cli_error("--%s '%s': expected the name of a file", option, path);
        return false;
    }

    struct stat status;
    if (stat(path, &status) == 0) {
        if (!S_ISREG(status.st_mode))
            return refuse(output, S_ISDIR(status.st_mode) ? "is a directory" : "not a regular file");
        if (is_open_for_writing(&status))
            return refuse(output, "standard output or another descriptor is open on it; name another file");
        /* A rename would replace a file that its owner has write-protected. */
        if (access(path, W_OK) != 0 || !realpath(path, output->target))
            return refuse(output, strerror(errno));
        output->mode = status.st_mode & 0777;
    } else if (errno != ENOENT) {
        return refuse(output, strerror(errno));
    } else if (!resolve_new(output, path) || !follow_links(output)) {
        return false;
    }

    int length = snprintf(output->temp, sizeof output->temp, "%s", output->target);
    strrchr(output->temp, '/')[1] = 0;
    if (access(output->temp, W_OK | X_OK) != 0)
        return refuse(output, strerror(errno));
    /* The temporary file is named after nothing, so that a name of the longest length works. */
    size_t base = strlen(output->temp);
    snprintf(output->temp + base, sizeof output->temp - base, ".attnscope-XXXXXX");
    if (length < 0 || base + sizeof ".attnscope-XXXXXX" > sizeof output->temp)
        return refuse(output, strerror(ENAMETOOLONG));
    return true;
}

bool cli_output_spares(const cli_output *output, const char *input) {
    char resolved[PATH_MAX];
    if (!output->path || !input || !realpath(input, resolved) || strcmp(resolved, output->target) != 0)
        return true;
    cli_error("%s: named as an input and as an output", output->path);
    return false;
}

bool cli_output_differs(const cli_output *output, const cli_output *other) {
    if (!output->path || !other->path || strcmp(output->target, other->target) != 0)
        return true;
    cli_error("%s: named for two outputs", output->path);
    return false;
}

bool cli_output_open(cli_output *output) {
    if (!output->path)
        return true;
    watch_signals();
    int descriptor = mkstemp(output->temp);
    if (descriptor < 0)
        return refuse(output, strerror(errno));
    set_pending(output->temp, true);
    output->file = fdopen(descriptor, "wb");
    if (!output->file) {
        int reason = errno;
        close(descriptor);
        unlink(output->temp);
        set_pending(output->temp, false);
        return refuse(output, strerror(reason));
    }
    /* mkstemp makes files that only the owner reads; a result is an ordinary file, or stays as it was. */
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(descriptor, output->mode < 0 ? 0666 & ~mask : (mode_t)output->mode) != 0)
        return refuse(output, strerror(errno));
    return true;
}

bool cli_output_write(cli_output *output, const void *data, size_t bytes) {
    if (!output->path || bytes == 0)
        return true;
    if (fwrite(data, 1, bytes, output->file) != bytes)
        return refuse(output, strerror(errno));
    return true;
}

bool cli_output_close(cli_output *output) {
    if (!output->path)
        return true;
    /* Only fsync tells of a disk that is full or broken behind the page cache. */
    bool written = !ferror(output->file) && fflush(output->file) == 0 && fsync(fileno(output->file)) == 0;
    int reason = errno;
    if (fclose(output->file) != 0 && written) {
        written = false;
        reason = errno;
    }
    output->file = NULL;
    return written || refuse(output, strerror(reason));
}

bool cli_output_commit(cli_output *output) {
    if (!output->path)
        return true;
    if (rename(output->temp, output->target) != 0)
        return refuse(output, strerror(errno));
    set_pending(output->temp, false);
    return true;
}

void cli_output_discard(cli_output *output) {
    for (int i = 0; i < MAX_PENDING; i++) {
        if (pending[i] && pending[i] == output->temp) {
            unlink(output->temp);
            pending[i] = NULL;
        }
    }
    if (output->file)
        fclose(output->file);
    output->file = NULL;
}
