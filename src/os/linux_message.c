/* linux_message.c: where lines for the user go, and that they do no harm there.
 *
 *   at the start   which file descriptor 2 is, is remembered; a duplicate of it is kept if lines are due at exit
 *   a line         descriptor 2, if it is that file, or one that a program puts there to be read (may_take);
 *                  else the duplicate, if it still is; else nowhere
 *   shut in        where a line would have gone when the program forbade itself system calls: without a look, by write
 *
 * Programs close descriptor 2, and the next file that they open has its number: a report must not
 * end in their data. And many close their streams at exit, before loam's destructor says what was
 * asked of it. A pipe that nobody reads ends no process by SIGPIPE here: loam's policy says what
 * ends it.
 *
 * It cannot save a line that a full pipe which does not block refuses.
 *
 * Part of the port, beside linux.c, with its rules. Lines of a report that belong together have a
 * lock of their own, which may be asked for in signal handlers, under any other lock, and is not
 * waited for without end.
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
    PATIENCE_MS = 1000
};

/* In the section that tells a thread inside loam from others: see linux.c. */
static LM_NOINLINE __attribute__((section("loam_calls"))) intptr_t
call(long n, intptr_t a, intptr_t b, intptr_t c, intptr_t d) {
    (void)lm_add_relaxed(&lm_os_counts.calls, 1);
    return lm_syscall(n, a, b, c, d, 0, 0);
}

static bool failed(intptr_t result) { return (uintptr_t)result > (uintptr_t)-4096; }

/* Written at the start, before there are other threads. */
static LM_AT_START struct {
    intptr_t seen; /* 0: file is right; -EBADF: it was closed; else nothing is known */
    struct stat file;
} began = {.seen = -EAGAIN};
static int kept; /* atomic: a duplicate; 0: none */
static int
    /* atomic: a descriptor, or NOWHERE, to which lines go without a look; 0: they do not */
    shut_in_to;

static intptr_t look(int file, struct stat *now) {
    *now = (struct stat){0}; /* for who reads this and does not know what the system writes */
    return call(SYS_fstat, file, (intptr_t)now, 0, 0);
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool was_open(void) { return began.seen == 0; }

void lm_os_message_begin(void) {
    began.seen = lm_syscall(SYS_fstat, ERROR, (intptr_t)&began.file, 0, 0, 0, 0);
}

/* High, where no program looks for a free number; not for programs that are started. */
void lm_os_message_keep(void) {
    if (!was_open() || lm_load_relaxed(&kept) != 0) return; /* relaxed: a word by itself */
    intptr_t file = -EINVAL;
    for (intptr_t from = KEPT_FROM; from > ASIDE_END && file == -EINVAL; from /= 2)
        file = call(SYS_fcntl, ERROR, F_DUPFD_CLOEXEC, from, 0);
    struct stat now;
    if (failed(file)) return;
    if (!failed(look((int)file, &now)) && is_same(&now, &began.file))
        lm_store_relaxed(&kept, (int)file);
    else
        (void)call(SYS_close, file, 0, 0, 0); /* it was another one by now */
}

/* ---- Where to ---- */

/* The file of the start is open elsewhere: who put another one in its place meant to. /dev/null
 * tells nothing. */
static bool is_put_aside(void) {
    if (!was_open() || (S_ISCHR(began.file.st_mode) && major(began.file.st_rdev) == 1))
        return false;
    struct stat other;
    for (int file = ASIDE_FIRST; file < ASIDE_END; file++) {
        if (!failed(look(file, &other)) && is_same(&other, &began.file)) return true;
    }
    return false;
}

/* Whether what descriptor 2 is now is there to be read, and not a file that happens to have its
 * number: a terminal or another character device, a pipe, a file that is opened for appending or
 * for writing alone, as freopen does (a program's data are mostly read as well), what standard
 * output is, or anything if the former one was put aside. */
static bool may_take(const struct stat *now) {
    if (S_ISCHR(now->st_mode) || S_ISFIFO(now->st_mode)) return true;
    intptr_t flags = S_ISREG(now->st_mode) ? call(SYS_fcntl, ERROR, F_GETFL, 0, 0) : O_RDWR;
    if (!failed(flags) && ((flags & O_APPEND) != 0 || (flags & O_ACCMODE) == O_WRONLY)) return true;
    struct stat output;
    if (!failed(look(OUTPUT, &output)) && is_same(now, &output)) return true;
    return is_put_aside();
}

/* A descriptor, or NOWHERE. *breaks: whether it may be a pipe or a socket. */
static int where_to(bool *breaks) {
    struct stat now;
    intptr_t got = look(ERROR, &now);
    *breaks = failed(got) || S_ISFIFO(now.st_mode) || S_ISSOCK(now.st_mode);
    if (failed(got) && got != -EBADF) { /* a sandbox: as well as we can */
        *breaks = false;
        return ERROR;
    }
    if (!failed(got) && ((!was_open() && began.seen != -EBADF) ||
                         (was_open() && is_same(&now, &began.file)) || may_take(&now)))
        return ERROR;
    int file = lm_load_relaxed(&kept); /* relaxed: as above */
    if (file == 0 || failed(look(file, &now)) || !is_same(&now, &began.file)) return NOWHERE;
    *breaks = S_ISFIFO(now.st_mode) || S_ISSOCK(now.st_mode);
    return file;
}

/* ---- Writing ---- */

/* false iff nobody reads it any more. */
static bool write_all(int file, const char *text, size_t bytes) {
    while (bytes > 0) {
        intptr_t wrote = call(SYS_write, file, (intptr_t)text, (intptr_t)bytes, 0);
        if (wrote == -EINTR) continue;
        if (failed(wrote) || wrote == 0) return wrote != -EPIPE;
        text += wrote;
        bytes -= (size_t)wrote;
    }
    return true;
}

/* The signal comes to the thread that writes: it is held back, and taken, unless one waited
 * already. */
static void write_unbroken(int file, const char *text, size_t bytes) {
    uint64_t pipe = (uint64_t)1 << (SIGPIPE - 1), before = 0, pending = 0;
    struct timespec none = {0, 0};
    bool held = !failed(
        call(SYS_rt_sigprocmask, SIG_BLOCK, (intptr_t)&pipe, (intptr_t)&before, sizeof before));
    if (held) (void)call(SYS_rt_sigpending, (intptr_t)&pending, sizeof pending, 0, 0);
    bool whole = write_all(file, text, bytes);
    if (!held) return;
    if (!whole && (pending & pipe) == 0) {
        while (call(SYS_rt_sigtimedwait, (intptr_t)&pipe, 0, (intptr_t)&none, sizeof pipe) ==
               -EINTR) {}
    }
    (void)call(SYS_rt_sigprocmask, SIG_SETMASK, (intptr_t)&before, 0, sizeof before);
}

void lm_port_write_error(const char *text, size_t bytes) {
    bool breaks = false;
    bool asks = lm_ask_begin();              /* if not, the file is known by now */
    int file = lm_load_relaxed(&shut_in_to); /* relaxed: a word by itself */
    if (file == 0) file = where_to(&breaks);
    if (file != NOWHERE && breaks)
        write_unbroken(file, text, bytes);
    else if (file != NOWHERE)
        (void)write_all(file, text, bytes);
    if (asks) lm_ask_end();
}

/* Not looked for again: that may be forbidden by now. Relaxed, all: as above. */
void lm_os_message_shut_in(bool shut_in) {
    bool breaks;
    if (!shut_in)
        lm_store_relaxed(&shut_in_to, 0);
    else if (lm_load_relaxed(&shut_in_to) == 0)
        lm_store_relaxed(&shut_in_to, where_to(&breaks));
}

/* ---- One report at a time ---- */

static struct {
    uint32_t thread; /* atomic: whose lines come now; 0: nobody's */
    uint32_t depth;  /* that thread's */
} report;

void lm_port_report_begin(void) {
    uint32_t self = lm_port_thread_id(), nobody = 0;
    if (lm_load_relaxed(&report.thread) == self) { /* relaxed: nobody else writes that there */
        report.depth++;
        return;
    }
    /* Acquire: the depth that the last one left. Waits are counted, because a clock may be
     * forbidden. */
    for (int waited = 0; !lm_cas_acquire(&report.thread, &nobody, self); waited++) {
        if (waited == PATIENCE_MS) { /* it may be gone: from now on it is ours */
            lm_store_relaxed(&report.thread, self);
            break;
        }
        lm_os_wait(&report.thread, nobody, 1);
        nobody = 0;
    }
    report.depth = 1;
}

void lm_port_report_end(void) {
    uint32_t self = lm_port_thread_id();
    if (lm_load_relaxed(&report.thread) != self || --report.depth > 0)
        return;                          /* relaxed: as above */
    lm_store_release(&report.thread, 0); /* release: the depth */
}

/* Who was in the middle of a report is not here. */
void lm_os_message_after_fork(void) { report.thread = report.depth = 0; }
