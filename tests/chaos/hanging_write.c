/* A write that hangs, when preloaded: the first opening for writing of a file whose path has HANGING_NAME in it.

   It hangs once, in whichever process comes first: that one takes away the file HANGING_ONCE. With HANGING_STOPS,
   the process stops as a whole, as by SIGSTOP, instead of the thread that writes. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void hang(const char *path, int flags) {
    const char *name = getenv("HANGING_NAME"), *once = getenv("HANGING_ONCE");
    if (!name || !once || (flags & O_ACCMODE) == O_RDONLY || !strstr(path, name)) return;
    if (unlink(once) != 0) return;
    if (getenv("HANGING_STOPS")) kill(getpid(), SIGSTOP);
    else for (;;) pause();
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        static int (*real)(const char *, int, ...); \
        if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        hang(path, flags); \
        return real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        static int (*real)(int, const char *, int, ...); \
        if (!real) real = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, #name); \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        hang(path, flags); \
        return real(at, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)
