/* A disk that fails: preloaded, it counts the writes below a folder and makes some of them fail.

   Counted are calls that create, write, flush, rename, link or delete a file whose path starts with
   FAILING_FOLDER, of Python, Arrow (C++) and safetensors (Rust) alike. From call `first` on, `times` calls fail
   with `number`. A watcher is told the name of each call before it is made. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char watched[FILES];
static long calls, first_failing, failing_times;
static int failing_number;
static void (*watcher)(const char *call);
static char folder[4096];

/* Read seldom: one thread may set a variable, which moves the environment, while another one is in here. */
__attribute__((constructor)) static void read_folder(void) {
    const char *given = getenv("FAILING_FOLDER");
    if (given) strncpy(folder, given, sizeof folder - 1);
}

void failing_disk_watch(void (*given)(const char *call)) { watcher = given; }

void failing_disk(long first, long times, int number) {
    read_folder();
    calls = 0;
    first_failing = first;
    failing_times = times;
    failing_number = number;
}

long failing_disk_calls(void) { return calls; }

static int below(const char *path) {
    return *folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int fails(const char *name) {
    if (watcher) watcher(name);
    pthread_mutex_lock(&lock);
    long call = ++calls;
    pthread_mutex_unlock(&lock);
    if (first_failing && call >= first_failing && call - first_failing < failing_times) {
        errno = failing_number;
        return 1;
    }
    return 0;
}

static int fails_at(const char *name, int file) {
    return file >= 0 && file < FILES && watched[file] && fails(name);
}

static int opened(int file, int is_ours) {
    if (file >= 0 && file < FILES) watched[file] = is_ours;
    return file;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        int is_ours = below(path); \
        if (is_ours && (flags & O_ACCMODE) != O_RDONLY && fails(#name)) return -1; \
        return opened(real(path, flags, mode), is_ours); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        int is_ours = below(path); \
        if (is_ours && (flags & O_ACCMODE) != O_RDONLY && fails(#name)) return -1; \
        return opened(real(at, path, flags, mode), is_ours); \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    return fails_at("write", file) ? -1 : real(file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    return fails_at("pwrite", file) ? -1 : real(file, data, size, at);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    return fails_at("pwrite64", file) ? -1 : real(file, data, size, at);
}

ssize_t writev(int file, const struct iovec *data, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    return fails_at("writev", file) ? -1 : real(file, data, count);
}

int fsync(int file) {
    REAL(int, fsync, int);
    return fails_at("fsync", file) ? -1 : real(file);
}

int close(int file) {
    REAL(int, close, int);
    opened(file, 0);
    return real(file);
}

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    return below(to) && fails("rename") ? -1 : real(from, to);
}

int link(const char *from, const char *to) {
    REAL(int, link, const char *, const char *);
    return below(to) && fails("link") ? -1 : real(from, to);
}

int unlink(const char *path) {
    REAL(int, unlink, const char *);
    return below(path) && fails("unlink") ? -1 : real(path);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    return below(path) && fails("mkdir") ? -1 : real(path, mode);
}
