/* linux_message.c: where lines for the user go, without harming the program's files.
 *
 *   at the start   the file of descriptor 2 is remembered, and duplicated if lines are due at exit
 *   a line         goes to descriptor 2, if it is that file, or a file meant to be read (may_take);
 *                  else to the duplicate, if it is still that file; else nowhere
 *   shut in        lines go where one would have gone when the program forbade itself system calls,
 *                  by write alone
 *
 * Programs close descriptor 2, and the next file that they open gets its number: a report must not
 * end in their data. Many programs close their streams at exit, before loam's destructor prints
 * what was requested. A pipe that no process reads does not end the program by SIGPIPE here: loam's
 * policy decides what ends it.
 *
 * It cannot save a line that a full non-blocking pipe refuses.
 *
 * Part of the port, with the rules of linux.c. A lock keeps lines of a report together. It may be
 * taken in signal handlers and under any other lock; the wait for it is bounded.
 */
#define _GNU_SOURCE 1 /* F_DUPFD_CLOEXEC */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>

enum {
    OUTPUT = 1,
    ERROR = 2,
    ASIDE_FIRST = 3,
    ASIDE_END = 32,
    KEPT_FROM = 1000,
    NOWHERE = -1,
    MESSAGE_PATIENCE_MS = 1000
};

/* In the section that tells a thread inside loam from others: see linux.c. */
static LM_NOINLINE __attribute__((section("loam_calls"))) intptr_t
call(long n, intptr_t a, intptr_t b, intptr_t c, intptr_t d) {
    (void)lm_add_relaxed(&lm_os_counts.calls, 1);
    return lm_syscall(n, a, b, c, d, 0, 0);
}

static bool message_failed(intptr_t result) { return (uintptr_t)result > (uintptr_t)-4096; }

/* Written at the start, before there are other threads. */
static LM_AT_START struct {
    /* 0: file is valid. -EBADF: descriptor 2 was closed. Otherwise nothing is known. */
    intptr_t seen;
    struct stat file;
} began = {.seen = -EAGAIN};
static int message_kept; /* atomic: a duplicate of descriptor 2; 0: none */
/* Atomic: the descriptor, or NOWHERE, to which lines go without a look; 0: look each time. */
static int shut_in_to;

static intptr_t message_look(int file, struct stat *now) {
    /* For tools that do not know what the system writes. */
    *now = (struct stat){0};
    return call(SYS_fstat, file, (intptr_t)now, 0, 0);
}

static bool message_is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool was_open(void) { return began.seen == 0; }

void lm_os_message_begin(void) {
    began.seen = lm_syscall(SYS_fstat, ERROR, (intptr_t)&began.file, 0, 0, 0, 0);
}

/* The duplicate has a high number, where no program looks for a free one. It is closed in programs
 * that are started. */
void lm_os_message_keep(void) {
    /* Relaxed: the word is independent of other data. */
    if (!was_open() || lm_load_relaxed(&message_kept) != 0) return;
    intptr_t file = -EINVAL;
    for (intptr_t from = KEPT_FROM; from > ASIDE_END && file == -EINVAL; from /= 2)
        file = call(SYS_fcntl, ERROR, F_DUPFD_CLOEXEC, from, 0);
    struct stat now;
    if (message_failed(file)) return;
    if (!message_failed(message_look((int)file, &now)) && message_is_same(&now, &began.file))
        lm_store_relaxed(&message_kept, (int)file);
    else
        (void)call(SYS_close, file, 0, 0, 0); /* descriptor 2 has changed meanwhile */
}

/* ---- Destination ---- */

/* Returns whether the file of the start is open under another descriptor: the program then put
 * another file in its place on purpose. Returns false for /dev/null, which says nothing about the
 * program's purpose. */
static bool is_put_aside(void) {
    if (!was_open() || (S_ISCHR(began.file.st_mode) && major(began.file.st_rdev) == 1))
        return false;
    struct stat other;
    for (int file = ASIDE_FIRST; file < ASIDE_END; file++) {
        if (!message_failed(message_look(file, &other)) && message_is_same(&other, &began.file))
            return true;
    }
    return false;
}

/* Returns whether the present file of descriptor 2 is meant to be read, and does not merely have
 * its number by chance. It is if it is a terminal or another character device, a pipe, the file of
 * standard output, or a file opened for appending or for writing alone, as freopen does (most data
 * files of a program are also read). Any file is if the former one was put aside. */
static bool may_take(const struct stat *now) {
    if (S_ISCHR(now->st_mode) || S_ISFIFO(now->st_mode)) return true;
    intptr_t flags = S_ISREG(now->st_mode) ? call(SYS_fcntl, ERROR, F_GETFL, 0, 0) : O_RDWR;
    if (!message_failed(flags) && ((flags & O_APPEND) != 0 || (flags & O_ACCMODE) == O_WRONLY))
        return true;
    struct stat output;
    if (!message_failed(message_look(OUTPUT, &output)) && message_is_same(now, &output))
        return true;
    return is_put_aside();
}

/* Returns the descriptor for the next line, or NOWHERE. Sets *breaks to whether it may be a pipe or
 * a socket. */
static int where_to(bool *breaks) {
    struct stat now;
    intptr_t got = message_look(ERROR, &now);
    *breaks = message_failed(got) || S_ISFIFO(now.st_mode) || S_ISSOCK(now.st_mode);
    if (message_failed(got) && got != -EBADF) { /* a sandbox refused: guess */
        *breaks = false;
        return ERROR;
    }
    if (!message_failed(got) &&
        ((!was_open() && began.seen != -EBADF) ||
         (was_open() && message_is_same(&now, &began.file)) || may_take(&now)))
        return ERROR;
    int file = lm_load_relaxed(&message_kept); /* relaxed: an independent word */
    if (file == 0 || message_failed(message_look(file, &now)) ||
        !message_is_same(&now, &began.file))
        return NOWHERE;
    *breaks = S_ISFIFO(now.st_mode) || S_ISSOCK(now.st_mode);
    return file;
}

/* ---- Writing ---- */

/* Writes the whole text. Returns false iff no process reads it any more. */
static bool message_write_all(int file, const char *text, size_t bytes) {
    while (bytes > 0) {
        intptr_t wrote = call(SYS_write, file, (intptr_t)text, (intptr_t)bytes, 0);
        if (wrote == -EINTR) continue;
        if (message_failed(wrote) || wrote == 0) return wrote != -EPIPE;
        text += wrote;
        bytes -= (size_t)wrote;
    }
    return true;
}

/* Writes without being ended by SIGPIPE. The signal goes to the thread that writes, so it is
 * blocked, and consumed unless one was pending before. */
static void write_unbroken(int file, const char *text, size_t bytes) {
    uint64_t pipe = (uint64_t)1 << (SIGPIPE - 1), before = 0, pending = 0;
    struct timespec none = {0, 0};
    bool held = !message_failed(
        call(SYS_rt_sigprocmask, SIG_BLOCK, (intptr_t)&pipe, (intptr_t)&before, sizeof before));
    if (held) (void)call(SYS_rt_sigpending, (intptr_t)&pending, sizeof pending, 0, 0);
    bool whole = message_write_all(file, text, bytes);
    if (!held) return;
    if (!whole && (pending & pipe) == 0) {
        while (call(SYS_rt_sigtimedwait, (intptr_t)&pipe, 0, (intptr_t)&none, sizeof pipe) ==
               -EINTR) {}
    }
    (void)call(SYS_rt_sigprocmask, SIG_SETMASK, (intptr_t)&before, 0, sizeof before);
}

void lm_port_write_error(const char *text, size_t bytes) {
    bool breaks = false;
    bool asks = lm_ask_begin();              /* if false, the descriptor is known by now */
    int file = lm_load_relaxed(&shut_in_to); /* relaxed: an independent word */
    if (file == 0) file = where_to(&breaks);
    if (file != NOWHERE && breaks)
        write_unbroken(file, text, bytes);
    else if (file != NOWHERE)
        (void)message_write_all(file, text, bytes);
    if (asks) lm_ask_end();
}

/* The destination is looked up now, because that may be forbidden later. Relaxed: the word is
 * independent of other data. */
void lm_os_message_shut_in(bool shut_in) {
    bool breaks;
    if (!shut_in)
        lm_store_relaxed(&shut_in_to, 0);
    else if (lm_load_relaxed(&shut_in_to) == 0)
        lm_store_relaxed(&shut_in_to, where_to(&breaks));
}

/* ---- One report at a time ---- */

static struct {
    uint32_t thread; /* atomic: the thread that writes a report; 0: none */
    uint32_t depth;  /* number of nested reports of that thread */
} message_report;

void lm_port_report_begin(void) {
    uint32_t self = lm_port_thread_id(), nobody = 0;
    /* Relaxed: only this thread writes its number there. */
    if (lm_load_relaxed(&message_report.thread) == self) {
        message_report.depth++;
        return;
    }
    /* Acquire: see the depth that the last thread left. The rounds are counted, because a clock may
     * be forbidden. */
    for (int waited = 0; !lm_cas_acquire(&message_report.thread, &nobody, self); waited++) {
        if (waited == MESSAGE_PATIENCE_MS) { /* that thread may be gone: take the lock over */
            lm_store_relaxed(&message_report.thread, self);
            break;
        }
        lm_os_wait(&message_report.thread, nobody, 1);
        nobody = 0;
    }
    message_report.depth = 1;
}

void lm_port_report_end(void) {
    uint32_t self = lm_port_thread_id();
    /* Relaxed: only this thread writes its number there. */
    if (lm_load_relaxed(&message_report.thread) != self || --message_report.depth > 0) return;
    lm_store_release(&message_report.thread, 0); /* release: publish the depth */
}

/* A thread that was in the middle of a report does not exist in the child. */
void lm_os_message_after_fork(void) { message_report.thread = message_report.depth = 0; }
